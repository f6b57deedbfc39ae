// SPDX-License-Identifier: GPL-2.0

//! Every attribute: modes, text byte for byte, statistics, and the queue's limits.

use std::fs;
use std::path::Path;

use anyhow::{ensure, Result};
use nix::errno::Errno;
use rzram_guest::disk::Disk;
use rzram_guest::kernel::cpus_online;
use rzram_guest::module::{with_disk, with_module};
use rzram_guest::stat::IoStat;
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
