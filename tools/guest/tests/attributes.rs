// SPDX-License-Identifier: GPL-2.0
// vm: --mem 2G --cpus 2

//! Every attribute: modes, text byte for byte, what it takes and refuses, and in which order.

use std::fs;
use std::path::Path;

use anyhow::{ensure, Result};
use nix::errno::Errno;
use rzram_guest::disk::Disk;
use rzram_guest::kernel::{cpus_online, Log};
use rzram_guest::module::{with_disk, with_module};
use rzram_guest::stat::{IoStat, MmStat};
use rzram_guest::target::target;
use rzram_guest::{attr, blk, pattern, same, PAGE};

const ATTRIBUTES: [(&str, u32); 11] = [
    ("disksize", 0o644),
    ("initstate", 0o444),
    ("reset", 0o200),
    ("comp_algorithm", 0o644),
    ("mem_limit", 0o200),
    ("mem_used_max", 0o200),
    ("compact", 0o200),
    ("io_stat", 0o444),
    ("mm_stat", 0o444),
    ("debug_stat", 0o444),
    ("max_comp_streams", 0o644),
];

#[test]
fn every_attribute_exists_with_its_mode() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        for (name, mode) in ATTRIBUTES {
            let path = disk.sys(name);
            same(
                path.display().to_string(),
                format!("{mode:o}"),
                format!("{:o}", attr::mode(&path)?),
            )?;
        }
        same(
            "mode of hot_add",
            0o400,
            attr::mode(&target().control("hot_add"))?,
        )?;
        same(
            "mode of hot_remove",
            0o200,
            attr::mode(&target().control("hot_remove"))?,
        )?;
        same(
            "mode of the node",
            0o600,
            attr::mode(Path::new(&disk.node()))?,
        )?;
        let devices = fs::read_to_string("/proc/devices")?;
        ensure!(
            devices
                .lines()
                .any(|l| l.split_whitespace().nth(1) == Some(target().name)),
            "/proc/devices names no major {}:\n{devices}",
            target().name
        );
        let link = fs::read_link(format!("/sys/block/{}", disk.name()))?;
        let link = link.to_string_lossy().into_owned();
        ensure!(
            link.ends_with(&format!("devices/virtual/block/{}", disk.name())),
            "came: {link}"
        );
        Ok(())
    })
}

#[test]
fn wrong_direction_is_refused_at_open() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        for (name, mode) in ATTRIBUTES {
            if mode == 0o444 {
                attr::refused(&disk.sys(name), b"1", &[Errno::EACCES])?;
            } else if mode == 0o200 {
                same(
                    format!("reading {name}"),
                    Err(Errno::EACCES),
                    attr::read(&disk.sys(name)),
                )?;
            }
        }
        attr::refused(&target().control("hot_add"), b"1", &[Errno::EACCES])?;
        same(
            "reading hot_remove",
            Err(Errno::EACCES),
            attr::read(&target().control("hot_remove")),
        )
    })
}

#[test]
fn a_new_disk_shows_its_defaults_byte_for_byte() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        disk.shows("disksize", "0\n")?;
        disk.shows("initstate", "0\n")?;
        disk.shows(
            "comp_algorithm",
            &target().algorithm_list(target().default_algorithm),
        )?;
        disk.shows("io_stat", "       0        0 0        0\n")?;
        let zeros = "       0 ".repeat(8) + "       0\n";
        disk.shows("mm_stat", &zeros)?;
        disk.shows("debug_stat", "version: 1\n0        0\n")?;
        disk.shows("max_comp_streams", &format!("{}\n", cpus_online()?))?;
        disk.shows("size", "0\n")
    })
}

#[test]
fn an_empty_write_does_nothing() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        for (name, mode) in ATTRIBUTES {
            if mode & 0o200 != 0 {
                let came = attr::write(&disk.sys(name), b"");
                same(format!("writing nothing to {name}"), Ok(0), came)?;
            }
        }
        disk.shows("initstate", "0\n")
    })
}

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

#[test]
fn statistics_keep_their_format_and_tell_the_truth() -> Result<()> {
    with_disk("8M", |disk| {
        let file = disk.direct()?;
        let mut page = rzram_guest::buf::Mapping::new(PAGE)?;
        for (block, kind) in [
            pattern::Kind::Word(7),
            pattern::Kind::Text,
            pattern::Kind::Random,
        ]
        .into_iter()
        .enumerate()
        {
            pattern::fill(kind, 9, &mut page);
            blk::write(&file, &page, (block * PAGE) as u64)?;
        }
        // `mm` and `io` compare the text with the format byte for byte.
        let mm = disk.mm()?;
        same("orig_data_size", 3 * PAGE as u64, mm.orig)?;
        same("same_pages", 1, mm.same)?;
        same(
            "huge_pages and huge_pages_since",
            (1, 1),
            (mm.huge, mm.huge_since),
        )?;
        ensure!(
            mm.compr > PAGE as u64 && mm.compr < 2 * PAGE as u64,
            "one page huge, one compressed: {mm:?}"
        );
        ensure!(
            mm.used >= mm.compr && mm.used % PAGE as u64 == 0,
            "used: {mm:?}"
        );
        blk::discard(&file, 0, 16 * PAGE as u64)?;
        // A discard counts every slot, also those that were empty.
        same(
            "io_stat",
            IoStat {
                notify_free: 16,
                ..IoStat::default()
            },
            disk.io()?,
        )?;
        disk.wait_empty()
    })
}

#[test]
fn the_queue_has_zrams_limits() -> Result<()> {
    with_disk("1M", |disk| {
        let limits = [
            ("logical_block_size", "4096"),
            ("physical_block_size", "4096"),
            ("hw_sector_size", "4096"),
            ("minimum_io_size", "4096"),
            ("optimal_io_size", "4096"),
            ("discard_granularity", "4096"),
            ("discard_max_bytes", "2199023255040"),
            ("write_zeroes_max_bytes", "2199023255040"),
            ("rotational", "0"),
            ("add_random", "0"),
            ("iostats", "0"),
            ("stable_writes", "1"),
            ("dax", "0"),
            ("fua", "0"),
            ("write_cache", "write through"),
            ("dma_alignment", "511"),
            ("max_segments", "128"),
            ("max_sectors_kb", "124"),
            ("max_hw_sectors_kb", "124"),
            ("read_ahead_kb", "128"),
        ];
        for (name, value) in limits {
            disk.shows(&format!("queue/{name}"), &format!("{value}\n"))?;
        }
        ensure!(
            !disk.sys("queue/nr_requests").exists(),
            "a bio-based disk has no nr_requests"
        );
        disk.shows("range", "1\n")?;
        disk.shows("ext_range", "1\n")?;
        disk.shows("ro", "0\n")?;
        disk.shows("removable", "0\n")
    })
}
