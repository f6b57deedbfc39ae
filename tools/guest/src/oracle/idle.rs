// SPDX-License-Identifier: GPL-2.0

//! Idle marking, and what block_state shows of each block.

use std::io::Read;
use std::path::Path;

use super::script::{aligned, errno, node, quoted, read_at, write_at, Script};
use crate::attr;
use crate::pattern::{fill, Kind};
use crate::PAGE;

const STATE: &str = "/sys/kernel/debug/zram/zram0/block_state";

/// block_state with its times of access replaced, which no two runs share: the seconds, and what follows the point.
pub fn state() -> String {
    match attr::read(Path::new(STATE)) {
        Err(e) => errno(e),
        Ok(text) => {
            let mut steady = String::new();
            for line in text.split_inclusive('\n') {
                match (
                    line.get(..13),
                    line.get(13..25),
                    line.get(25..32),
                    line.get(32..),
                ) {
                    (Some(block), Some(seconds), Some(fraction), Some(flags))
                        if seconds.trim_start().bytes().all(|b| b.is_ascii_digit())
                            && fraction.bytes().skip(1).all(|b| b.is_ascii_digit()) =>
                    {
                        steady += &format!(
                            "{block}{:>12}{}{flags}",
                            "S",
                            &fraction[..1].replace('.', ".F")
                        );
                    }
                    _ => steady += line,
                }
            }
            quoted(steady.as_bytes())
        }
    }
}

/// Seconds since boot.
fn clock() -> f64 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(f64::MAX)
}

pub fn show(s: &mut Script) {
    s.op("cat block_state without its times", state());
}

pub fn some_blocks(s: &mut Script) {
    let result = node(libc::O_DIRECT).map(|file| {
        let mut page = aligned(PAGE);
        for (block, kind) in [
            (0, Kind::Text),
            (1, Kind::Random),
            (2, Kind::Word(0)),
            (3, Kind::Word(0x55)),
            (5, Kind::Records),
            (6, Kind::Random),
            (9, Kind::Text),
        ] {
            fill(kind, block + 1, &mut page);
            write_at(&file, block * PAGE as u64, &page);
        }
    });
    s.prepare("writing some blocks", result);
}

pub fn run(s: &mut Script) {
    s.group("idle and block_state");
    s.fresh();
    show(s);
    s.put("idle", "all");
    // More seconds than the machine is up: nothing can be that old.
    for value in [
        "99999999",
        "4294967295",
        "4294967296",
        "0xffffffff",
        "-1",
        "all\n",
        "ALL",
        "",
        "\n",
        "all all",
        "1s",
    ] {
        s.put("idle", value);
    }
    s.disk("64K");
    show(s);
    some_blocks(s);
    show(s);
    s.put("idle", "99999999");
    show(s);
    s.put("idle", "all");
    show(s);
    s.with_node("read block 0", libc::O_DIRECT, |file| {
        read_at(file, 0, &mut aligned(PAGE))
    });
    s.with_node("read block 2", libc::O_DIRECT, |file| {
        read_at(file, 2 * PAGE as u64, &mut aligned(PAGE))
    });
    s.with_node("read block 4, which is empty", libc::O_DIRECT, |file| {
        read_at(file, 4 * PAGE as u64, &mut aligned(PAGE))
    });
    show(s);
    s.with_node("overwrite block 1", libc::O_DIRECT, |file| {
        let mut page = aligned(PAGE);
        page.fill(7);
        write_at(file, PAGE as u64, &page)
    });
    s.with_node("discard block 5", 0, |file| {
        super::script::verdict(crate::blk::discard(file, 5 * PAGE as u64, PAGE as u64))
    });
    show(s);
    s.put("idle", "all\n");
    show(s);
    // Nothing is as old as that, so marks go again; but not while the machine is younger itself.
    while clock() < 9.0 {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    s.put("idle", "0x8");
    show(s);
    // C zram counts in whole seconds, so that ages between one and two may count as either.
    std::thread::sleep(std::time::Duration::from_millis(2100));
    s.put("idle", "0");
    show(s);
    s.put("idle", "1");
    show(s);
    let text = attr::read(Path::new(STATE)).unwrap_or_default();
    let fractions = text.lines().filter_map(|line| line.get(26..32));
    let zeros = fractions.filter(|fraction| *fraction == "000000").count();
    s.op(
        "all times in block_state are whole seconds",
        zeros == text.lines().count(),
    );
    let short = std::fs::File::open(STATE).and_then(|mut file| file.read(&mut [0; 16]));
    s.op(
        "read 16 bytes of block_state",
        short.map_or_else(
            |e| errno(super::script::errno_of(&e)),
            |len| len.to_string(),
        ),
    );
    let result = std::fs::metadata(STATE).map_or_else(
        |e| errno(super::script::errno_of(&e)),
        |meta| meta.len().to_string(),
    );
    s.op("length of block_state", result);
    s.op(
        "write to block_state",
        super::script::written(Path::new(STATE), b"1"),
    );
    s.fresh();
}
