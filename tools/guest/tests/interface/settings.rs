// SPDX-License-Identifier: GPL-2.0

//! What makes a disk what it is: size, algorithm, streams, and the way back to nothing.

use anyhow::{ensure, Result};
use nix::errno::Errno;
use rzram_guest::disk::Disk;
use rzram_guest::kernel::Log;
use rzram_guest::module::{with_disk, with_module};
use rzram_guest::stat::{IoStat, MmStat};
use rzram_guest::target::target;
use rzram_guest::{attr, blk, pattern, same, PAGE};

#[test]
fn disksize_takes_what_memparse_takes() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        let cases = [
            ("1048576", 1 << 20),
            ("16777216\n", 16 << 20),
            ("1", 4096),
            ("4096", 4096),
            ("4097", 8192),
            ("1M", 1 << 20),
            ("1m\n", 1 << 20),
            ("64K", 64 << 10),
            ("64k", 64 << 10),
            ("1G", 1 << 30),
            ("1g", 1 << 30),
            ("1GB", 1 << 30),
            ("100Kfoo\n", 102_400),
            ("1M 2M", 1 << 20),
            ("0x100000", 1 << 20),
            ("0X10k", 16 << 10),
            ("04000000", 1 << 20),
            ("5000.5", 8192),
        ];
        for (text, bytes) in cases {
            disk.set("disksize", text)?;
            disk.shows("disksize", &format!("{bytes}\n"))?;
            disk.shows("size", &format!("{}\n", bytes / 512))?;
            disk.shows("initstate", "1\n")?;
            same("BLKGETSIZE64", bytes, blk::size(&disk.direct()?)?)?;
            disk.reset()?;
            disk.shows("size", "0\n")?;
        }
        Ok(())
    })
}

#[test]
fn disksize_refuses_garbage_and_overflow() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        let junk = "x".repeat(PAGE);
        let nines = "9".repeat(PAGE);
        let bad = [
            "0",
            "0\n",
            "0K",
            "-1",
            "-1\n",
            "+1",
            " 1M",
            "\n",
            "foo",
            "K",
            "0x",
            ".5",
            &junk,
            &nines,
            "16E",
            "18446744073709551615",
            "18446744073709551616",
            "18446744073709547521",
            "99999999999999999999E",
        ];
        for text in bad {
            disk.refuses("disksize", text, Errno::EINVAL)?;
        }
        disk.shows("initstate", "0\n")?;
        disk.shows("disksize", "0\n")?;
        // And it works afterwards.
        disk.set("disksize", "1M")?;
        disk.reset()
    })
}

#[test]
fn disksize_of_a_live_disk_cannot_change_and_the_log_says_so() -> Result<()> {
    with_disk("1M", |disk| {
        let mut log = Log::follow()?;
        disk.refuses("disksize", "2M", Errno::EBUSY)?;
        log.expect("Cannot change disksize for initialized device")?;
        disk.refuses("disksize", "1M", Errno::EBUSY)?;
        // What cannot be parsed is found first.
        disk.refuses("disksize", "0", Errno::EINVAL)?;
        disk.refuses("disksize", "foo", Errno::EINVAL)?;
        disk.shows("disksize", "1048576\n")
    })
}

#[test]
fn a_disksize_that_fails_keeps_the_algorithm() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        disk.set("comp_algorithm", "zstd")?;
        for text in ["16E", "8E", "junk"] {
            attr::refused(
                &disk.sys("disksize"),
                text.as_bytes(),
                &[Errno::EINVAL, Errno::ENOMEM],
            )?;
            disk.shows("initstate", "0\n")?;
            disk.shows("disksize", "0\n")?;
            disk.shows("comp_algorithm", &target().algorithm_list("zstd"))?;
        }
        disk.set("disksize", "1M")?;
        disk.shows("comp_algorithm", &target().algorithm_list("zstd"))?;
        disk.reset()
    })
}

#[test]
fn reset_takes_any_number_but_zero() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        for text in ["1", "1\n", "+1", "5", "65535", "0001"] {
            disk.set("reset", text)?;
        }
        for text in [
            "0",
            "0\n",
            "-1",
            "0x1",
            "1 ",
            " 1",
            "foo",
            "1 foo",
            "\n",
            "1\n\n",
            "+",
            &"1".repeat(PAGE),
        ] {
            let expected = if text.len() == PAGE {
                Errno::ERANGE
            } else {
                Errno::EINVAL
            };
            disk.refuses("reset", text, expected)?;
        }
        disk.refuses("reset", "65536", Errno::ERANGE)?;
        disk.refuses("reset", "99999999999999999999999", Errno::ERANGE)
    })
}

#[test]
fn reset_makes_everything_new() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        disk.set_up("zstd", "8M")?;
        disk.set("mem_limit", "4M")?;
        let mut data = vec![0; 64 * PAGE];
        pattern::fill_all(1, 0, &mut data);
        let file = disk.buffered()?;
        blk::write(&file, &data, 0)?;
        file.sync_all()?;
        blk::discard(&file, 0, 4096)?;
        drop(file);
        ensure!(
            disk.mm()?.orig > 0 && disk.io()?.notify_free == 1,
            "nothing was stored or freed"
        );
        disk.reset()?;
        disk.shows(
            "comp_algorithm",
            &target().algorithm_list(target().default_algorithm),
        )?;
        same("mm_stat", MmStat::default().text(), disk.get("mm_stat")?)?;
        same("io_stat", IoStat::default().text(), disk.get("io_stat")?)?;
        disk.shows("debug_stat", "version: 1\n0        0\n")?;
        disk.shows("size", "0\n")?;
        let stat = disk.get("stat")?;
        ensure!(
            stat.split_whitespace().all(|n| n == "0"),
            "stat is not all zeros: {stat:?}"
        );
        // The old data is gone for good.
        disk.set("disksize", "8M")?;
        let mut back = vec![1; data.len()];
        blk::read(&disk.buffered()?, &mut back, 0)?;
        blk::equal("data after a reset", &vec![0; data.len()], &back)?;
        disk.reset()
    })
}

#[test]
fn comp_algorithm_lists_and_selects() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        for name in target().algorithms {
            disk.set("comp_algorithm", name)?;
            disk.shows("comp_algorithm", &target().algorithm_list(name))?;
        }
        disk.set("comp_algorithm", "lz4\n")?;
        disk.shows("comp_algorithm", &target().algorithm_list("lz4"))?;
        for text in [
            "",
            "LZ4",
            "lz",
            "lz4 ",
            " lz4",
            "lz4x",
            "842",
            "none",
            "\n",
            "[lz4]",
            "lz4\nzstd",
            &"a".repeat(127),
        ] {
            if !text.is_empty() {
                disk.refuses("comp_algorithm", text, Errno::EINVAL)?;
            }
        }
        for len in [128, 129, PAGE] {
            disk.refuses("comp_algorithm", &"a".repeat(len), Errno::E2BIG)?;
        }
        disk.shows("comp_algorithm", &target().algorithm_list("lz4"))
    })
}

#[test]
fn comp_algorithm_of_a_live_disk_cannot_change_and_the_log_says_so() -> Result<()> {
    with_disk("1M", |disk| {
        let mut log = Log::follow()?;
        disk.refuses("comp_algorithm", "zstd", Errno::EBUSY)?;
        log.expect("Can't change algorithm for initialized device")?;
        disk.refuses("comp_algorithm", target().default_algorithm, Errno::EBUSY)?;
        // The name is looked at first.
        disk.refuses("comp_algorithm", "nonsense", Errno::EINVAL)?;
        disk.refuses("comp_algorithm", &"a".repeat(128), Errno::E2BIG)?;
        disk.shows(
            "comp_algorithm",
            &target().algorithm_list(target().default_algorithm),
        )
    })
}

#[test]
fn max_comp_streams_takes_a_number_at_any_time() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        for live in [false, true] {
            if live {
                disk.set("disksize", "8M")?;
            }
            for text in ["1", "2", "1\n", "2\n"] {
                disk.set("max_comp_streams", text)?;
                disk.shows("max_comp_streams", &format!("{}\n", text.trim()))?;
                if live {
                    let (mut data, mut back) = (vec![0; 64 * PAGE], vec![0; 64 * PAGE]);
                    pattern::fill_all(text.len() as u64, 0, &mut data);
                    let file = disk.buffered()?;
                    blk::write(&file, &data, 0)?;
                    file.sync_all()?;
                    blk::flush_buffers(&file)?;
                    blk::read(&file, &mut back, 0)?;
                    blk::equal("data with fewer or more streams", &data, &back)?;
                }
            }
            disk.set("max_comp_streams", "2")?;
            for text in ["0", "-1", "foo", "\n", "1 ", "1M", "0\n"] {
                disk.refuses("max_comp_streams", text, Errno::EINVAL)?;
            }
            let huge = b"99999999999999999999";
            attr::refused(
                &disk.sys("max_comp_streams"),
                huge,
                &[Errno::EINVAL, Errno::ERANGE],
            )?;
            disk.shows("max_comp_streams", "2\n")?;
        }
        disk.reset()
    })
}
