// SPDX-License-Identifier: GPL-2.0

//! Setting a disk up.

use anyhow::{Context, Result};
use rzram_guest::disk::Disk;
use rzram_guest::faults::{at_least, from, one_by_one, Faults, Of, Outcome, Place};
use rzram_guest::module::with_module;
use rzram_guest::post::{bd, Ram};
use rzram_guest::same;

use crate::common::{assortment, dictionary, holds, keeps, ways, NO_MEMORY};

/// Sets disk 0 up with each allocation failing, after `choose` each time. Of the pool's, which come first and are the same
/// for all, all but the last few are left out if their number is given.
fn set_up(
    name: &str,
    pool: Option<u32>,
    mut choose: impl FnMut(&Disk) -> Result<()>,
) -> Result<u32> {
    let disk = Disk::new(0);
    let data = assortment(1, 40)?;
    choose(&disk)?;
    let algorithms = disk.get("comp_algorithm")?;
    let name = format!("disksize, {name}");
    let op = || disk.put("disksize", "16M");
    let check = |outcome| {
        if outcome == Outcome::Failed {
            disk.shows("initstate", "0\n")?;
            // What was chosen stays so.
            return disk.shows("comp_algorithm", &algorithms);
        }
        disk.shows("disksize", "16777216\n")?;
        keeps(&disk, 0, &data)?;
        disk.reset()?;
        choose(&disk)
    };
    let failed = match pool {
        None => one_by_one(&name, Place::Here, NO_MEMORY, op, check)?,
        Some(pool) => from(pool, &name, Place::Here, NO_MEMORY, op, check)?,
    };
    disk.reset()?;
    Ok(failed)
}

/// More than the first algorithm needs of its own.
const MARGIN: u32 = 30;

#[test]
fn disksize_without_memory_changes_nothing() -> Result<()> {
    let _faults = Faults::set_up(Of::Modules)?;
    with_module("", || {
        let mut ways = ways()?.into_iter();
        let first = ways.next().context("there are algorithms")?;
        let all = set_up(first.name, None, |disk| first.choose(disk))?;
        at_least(MARGIN + 20, all)?;
        for way in ways.chain([first]) {
            let failed = set_up(way.name, Some(all - MARGIN), |disk| way.choose(disk))?;
            at_least(20, failed)?;
        }
        Ok(())
    })
}

#[test]
fn disksize_with_all_there_is_without_memory_changes_nothing() -> Result<()> {
    let _faults = Faults::set_up(Of::Modules)?;
    let _ram = Ram::new(4096)?;
    let dictionary = dictionary()?;
    with_module("track_access=1", || {
        let everything = |disk: &Disk| {
            disk.set("backing_dev", Ram::NODE)?;
            for (priority, algorithm) in ["lz4", "deflate", "zstd"].into_iter().enumerate() {
                let priority = priority + 1;
                let choice = format!("algo={algorithm} priority={priority}");
                disk.set("recomp_algorithm", &choice)?;
            }
            for priority in [1, 3] {
                let parameters = format!("priority={priority} dict={dictionary}");
                disk.set("algorithm_params", &parameters)?;
            }
            Ok(())
        };
        let failed = set_up(
            "four algorithms, dictionaries, a backing device, access times",
            None,
            everything,
        )?;
        at_least(80, failed)?;
        // Nothing of what failed keeps a block of the device, or the device.
        let disk = Disk::new(0);
        everything(&disk)?;
        disk.set("disksize", "4M")?;
        keeps(&disk, 0, &assortment(2, 1000)?)?;
        disk.set("recompress", "priority=3")?;
        disk.set("writeback", "page_indexes=0-999")?;
        // Three of the nine kinds are patterns, which stay.
        let moved = (0..1000).filter(|n| n % 9 > 2).count();
        same("blocks on the device", moved as u64, bd(&disk)?.count)?;
        holds(&disk, 0, &assortment(2, 1000)?)?;
        disk.reset()
    })
}
