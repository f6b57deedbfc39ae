// SPDX-License-Identifier: GPL-2.0

//! Disks that come, go and are opened.

use std::path::Path;

use anyhow::{ensure, Result};
use nix::errno::Errno;
use rzram_guest::attr;
use rzram_guest::disk::Disk;
use rzram_guest::faults::{at_least, errno, one_by_one, Faults, Of, Outcome, Place};
use rzram_guest::module::{disk_ids, with_module};
use rzram_guest::same;
use rzram_guest::target::target;

use crate::common::{assortment, holds, keeps, NEVER, NO_DISK, NO_MEMORY};

#[test]
fn hot_add_without_memory_makes_no_disk() -> Result<()> {
    let _faults = Faults::set_up(Of::Modules)?;
    with_module("", || {
        let data = assortment(1, 40)?;
        Disk::new(0).set_up("lz4", "16M")?;
        keeps(&Disk::new(0), 0, &data)?;
        let failed = one_by_one(
            "hot_add",
            Place::Here,
            NO_DISK,
            || match attr::read(&target().control("hot_add"))?.as_str() {
                "1\n" => Ok(()),
                _ => Err(Errno::EBADMSG),
            },
            |outcome| {
                holds(&Disk::new(0), 0, &data)?;
                if outcome == Outcome::Failed {
                    ensure!(!Path::new("/dev/rzram1").exists(), "there is a node");
                    return same("disks", vec![0], disk_ids()?);
                }
                same("disks", vec![0, 1], disk_ids()?)?;
                let disk = Disk::new(1);
                disk.set_up("zstd", "16M")?;
                keeps(&disk, 5, &data)?;
                Ok(disk.hot_remove()?)
            },
        )?;
        at_least(20, failed)
    })
}

#[test]
fn hot_remove_needs_no_memory() -> Result<()> {
    let _faults = Faults::set_up(Of::Modules)?;
    with_module("", || {
        let data = assortment(1, 40)?;
        let start = || -> Result<()> {
            let disk = Disk::hot_add()?;
            same("the disk added", 1, disk.id)?;
            disk.set("disksize", "16M")?;
            keeps(&disk, 0, &data)
        };
        start()?;
        let remove = || Disk::new(1).hot_remove();
        one_by_one("hot_remove", Place::Here, NEVER, remove, |_| {
            same("disks", vec![0], disk_ids()?)?;
            start()
        })?;
        Ok(())
    })
}

#[test]
fn reset_needs_no_memory() -> Result<()> {
    let _faults = Faults::set_up(Of::Modules)?;
    with_module("", || {
        let disk = Disk::new(0);
        let data = assortment(1, 40)?;
        let start = || -> Result<()> {
            disk.set_up("zstd", "16M")?;
            keeps(&disk, 0, &data)
        };
        start()?;
        let reset = || disk.put("reset", "1");
        one_by_one("reset", Place::Here, NEVER, reset, |_| {
            disk.shows("initstate", "0\n")?;
            ensure!(
                disk.get("comp_algorithm")?.contains("[lzo-rle]"),
                "it kept zstd"
            );
            start()
        })?;
        disk.reset()
    })
}

#[test]
fn opening_and_closing_leaves_no_opener() -> Result<()> {
    let _faults = Faults::set_up(Of::Modules)?;
    with_module("", || {
        let disk = Disk::new(0);
        disk.set("disksize", "16M")?;
        for (name, flags) in [("past the page cache", libc::O_DIRECT), ("through it", 0)] {
            let open = || {
                use std::os::unix::fs::OpenOptionsExt;
                let mut options = std::fs::OpenOptions::new();
                options.read(true).write(true).custom_flags(flags);
                errno(options.open(disk.node())).map(drop)
            };
            let name = format!("open and close {name}");
            one_by_one(&name, Place::Here, NO_MEMORY, open, |_| {
                disk.reset()?;
                disk.set("disksize", "16M")
            })?;
        }
        disk.reset()
    })
}
