// SPDX-License-Identifier: GPL-2.0

//! Where C zram is known to be wrong in a way that shows every time. Its races do not, so they have tests of their own
//! instead of a place here: the read that meets a slot's rewrite, mm_stat that underflows, the notice that is dropped.

use std::fs::OpenOptions;
use std::time::Duration;

use anyhow::Result;

use super::script::{write_at, written, Script};
use crate::buf::Guarded;
use crate::pattern::{fill, Kind};
use crate::PAGE;

fn unaligned(s: &mut Script, shift: usize) -> Result<()> {
    const LEN: usize = 2 * PAGE;
    let mut aligned = Guarded::new(LEN, 0)?;
    let mut shifted = Guarded::new(LEN, shift)?;
    fill(Kind::Text, 11, &mut aligned);
    fill(Kind::Text, 12, &mut shifted);
    s.disk("64K");
    s.with_node(
        format_args!("write from memory at {shift}, read it back aligned"),
        libc::O_DIRECT,
        |file| {
            let result = write_at(file, 0, &shifted);
            let read = crate::blk::read(file, &mut aligned, 0).is_ok();
            format!(
                "{result}, read: {read}, same: {}",
                aligned[..] == shifted[..]
            )
        },
    );
    shifted.fill(0);
    fill(Kind::Text, 13, &mut aligned);
    s.with_node(
        format_args!("write aligned, read into memory at {shift}"),
        libc::O_DIRECT,
        |file| {
            let result = write_at(file, 0, &aligned);
            let read = crate::blk::read(file, &mut shifted, 0).is_ok();
            let intact = shifted.check_guards().is_ok();
            format!(
                "{result}, read: {read}, same: {}, memory around it intact: {intact}",
                aligned[..] == shifted[..]
            )
        },
    );
    Ok(())
}

/// MiB of address space that the kernel has mapped page by page.
fn vmalloc_used() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix("VmallocUsed:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kib| kib >> 10)
}

pub fn run(s: &mut Script) -> Result<()> {
    s.group("faults of zram");
    for shift in [512, 1024, 2048, 3584] {
        unaligned(s, shift)?;
    }
    s.fresh();

    // Somebody, udev for instance, has it open for a moment.
    for (what, path, value) in [
        ("reset", "/sys/block/zram0/reset", "1"),
        ("hot_remove", "/sys/class/zram-control/hot_remove", "0"),
    ] {
        s.disk("1M");
        let opener = OpenOptions::new().read(true).open("/dev/zram0");
        let closer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            drop(opener);
        });
        let result = written(std::path::Path::new(path), value.as_bytes());
        let _ = closer.join();
        s.op(
            format_args!("{what} while the node is open for a moment"),
            result,
        );
    }
    // Whether or not the disk is still there.
    let _ = written(
        std::path::Path::new("/sys/class/zram-control/hot_remove"),
        b"0",
    );
    let _ = crate::attr::read(std::path::Path::new("/sys/class/zram-control/hot_add"));
    s.fresh();

    let before = vmalloc_used();
    s.put("disksize", "16G");
    let grown = vmalloc_used().saturating_sub(before);
    s.op("an empty disk of 16 GiB takes more than 16 MiB", grown > 16);
    s.put("reset", "1");

    s.set("comp_algorithm", "zstd");
    s.set("algorithm_params", "level=100");
    s.put_get("disksize", "1M", &["comp_algorithm"]);
    s.put_get("disksize", "1M", &["comp_algorithm"]);
    s.fresh();
    s.put_get("mem_limit", "16E", &["initstate"]);
    Ok(())
}
