// SPDX-License-Identifier: GPL-2.0

//! The attributes about memory: limit, peak and compaction.

use anyhow::{ensure, Result};
use nix::errno::Errno;
use rzram_guest::disk::Disk;
use rzram_guest::module::{with_disk, with_module};
use rzram_guest::{blk, pattern, same, PAGE};

#[test]
fn mem_limit_takes_what_memparse_takes_and_rounds_up() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        let cases = [
            ("1M", 1 << 20),
            ("100K", 102_400),
            ("1", 4096),
            ("4097", 8192),
            ("0x10000", 65_536),
            ("3Mfoo", 3 << 20),
            ("2g\n", 2 << 30),
            ("15E", 15 << 60),
            ("0", 0),
        ];
        // Before and after the disk has a size.
        for live in [false, true] {
            if live {
                disk.set("disksize", "1M")?;
            }
            for (text, bytes) in cases {
                disk.set("mem_limit", text)?;
                same(format!("mem_limit {text:?}"), bytes, disk.mm()?.limit)?;
            }
            disk.set("mem_limit", "5M")?;
            for text in ["foo", "-1", " 1M", "\n", "K", "+5", &"y".repeat(PAGE)] {
                disk.refuses("mem_limit", text, Errno::EINVAL)?;
            }
            same("mem_limit after refusals", 5 << 20, disk.mm()?.limit)?;
        }
        disk.reset()?;
        same("mem_limit after reset", 0, disk.mm()?.limit)
    })
}

#[test]
fn mem_limit_beyond_what_fits_is_an_error_not_unlimited() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        disk.set("mem_limit", "5M")?;
        for text in [
            "16E",
            "18446744073709551615",
            "18446744073709547521",
            "999999999999999999999G",
        ] {
            disk.refuses("mem_limit", text, Errno::EINVAL)?;
            same(
                format!("mem_limit after {text:?}"),
                5 << 20,
                disk.mm()?.limit,
            )?;
        }
        Ok(())
    })
}

#[test]
fn mem_used_max_takes_only_zero() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        for live in [false, true] {
            if live {
                disk.set("disksize", "1M")?;
            }
            for text in ["0", "0\n", "00", "+0"] {
                disk.set("mem_used_max", text)?;
            }
            for text in [
                "1",
                "-0",
                "-1",
                "foo",
                "0 ",
                "0x0",
                "\n",
                "18446744073709551616",
                "0M",
            ] {
                disk.refuses("mem_used_max", text, Errno::EINVAL)?;
            }
        }
        disk.reset()
    })
}

#[test]
fn mem_used_max_remembers_the_peak_until_told_to_forget() -> Result<()> {
    with_disk("8M", |disk| {
        let file = disk.buffered()?;
        let mut data = vec![0; 512 * PAGE];
        pattern::fill(pattern::Kind::Random, 1, &mut data);
        blk::write(&file, &data, 0)?;
        file.sync_all()?;
        let full = disk.mm()?;
        ensure!(
            full.used >= 512 * 4096,
            "512 incompressible pages take less than themselves: {full:?}"
        );
        ensure!(
            full.used_max as u64 >= full.used,
            "the peak is below what is used: {full:?}"
        );
        blk::discard(&file, 4096, 511 * 4096)?;
        let less = disk.wait_for("less used than at the peak", |mm| mm.used < full.used / 2)?;
        same("the peak after a discard", full.used_max, less.used_max)?;
        disk.set("mem_used_max", "0")?;
        let mm = disk.mm()?;
        same("the peak after writing 0", mm.used, mm.used_max as u64)
    })
}

#[test]
fn compact_needs_a_size_and_takes_any_bytes() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        for text in ["1", "0", "foo"] {
            disk.refuses("compact", text, Errno::EINVAL)?;
        }
        disk.set("disksize", "1M")?;
        for text in ["1", "0", "foo", "\n", &"z".repeat(PAGE)] {
            disk.set("compact", text)?;
        }
        disk.reset()
    })
}
