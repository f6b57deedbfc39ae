// SPDX-License-Identifier: GPL-2.0

//! Reads, writes and discards.

use std::cell::Cell;
use std::fs::File;

use anyhow::{ensure, Result};
use nix::errno::Errno;
use rzram_guest::buf::{Guarded, Mapping};
use rzram_guest::disk::Disk;
use rzram_guest::faults::{
    at_least, errno, one_by_one, one_by_one_and_all_after, Faults, Of, Outcome, Place,
};
use rzram_guest::module::with_module;
use rzram_guest::pattern::{self, Kind};
use rzram_guest::{blk, same, GIB, MIB, PAGE};

use crate::common::{assortment, holds, keeps, ways, FAILED, KINDS, NEVER};

const P: u64 = PAGE as u64;

/// How the memory of a request lies: where pages begin, or across them, which makes the driver put
/// each block together from pieces.
const SHIFTS: [(&str, usize); 2] = [("", 0), (", in pieces", 512)];

/// Writes a page of each kind over others, and returns how many allocations failed.
fn overwrite(disk: &Disk, way: &str) -> Result<u32> {
    let file = disk.direct()?;
    let others = assortment(1, 64)?;
    keeps(disk, 0, &others)?;
    let mut failed = 0;
    for (form, shift) in SHIFTS {
        for kind in KINDS {
            let mut new = Guarded::new(PAGE, shift)?;
            let mut back = Mapping::new(PAGE)?;
            let version = Cell::new(1);
            // In turn: one that compresses, and one of the kind.
            pattern::fill(kind, 1, &mut new);
            let mut old = vec![0; PAGE];
            pattern::fill(Kind::Text, 0, &mut old);
            keeps(disk, 70, &assorted(&old)?)?;
            failed += one_by_one(
                &format!("{way}: write {kind:?}{form}"),
                Place::Here,
                FAILED,
                || blk::try_write(&file, &new, 70 * P).map(drop),
                |outcome| {
                    holds(disk, 0, &others)?;
                    blk::read(&file, &mut back, 70 * P)?;
                    if outcome == Outcome::Failed {
                        return blk::equal("what was there", &old, &back);
                    }
                    blk::equal("what was written", &new, &back)?;
                    version.set(version.get() + 1);
                    pattern::fill(Kind::Text, version.get(), &mut old);
                    keeps(disk, 70, &assorted(&old)?)
                },
            )?;
        }
    }
    Ok(failed)
}

/// The same bytes, where direct I/O can take them from.
fn assorted(bytes: &[u8]) -> Result<Mapping> {
    let mut mapping = Mapping::new(bytes.len())?;
    mapping.copy_from_slice(bytes);
    Ok(mapping)
}

#[test]
fn a_write_without_memory_leaves_what_was_there() -> Result<()> {
    let _faults = Faults::set_up(Of::Modules)?;
    with_module("", || {
        let disk = Disk::new(0);
        for way in ways()? {
            way.choose(&disk)?;
            disk.set("disksize", "16M")?;
            at_least(10, overwrite(&disk, way.name)?)?;
            blk::discard(&disk.direct()?, 0, 16 * MIB)?;
            // No object is left that nobody knows of.
            disk.wait_empty()?;
            disk.reset()?;
        }
        Ok(())
    })
}

#[test]
fn the_first_write_after_a_set_up() -> Result<()> {
    let _faults = Faults::set_up(Of::Modules)?;
    with_module("", || {
        let disk = Disk::new(0);
        let data = assortment(3, 9)?;
        // One that has all its memory from the beginning, and one that asks for it now.
        let few = ["lz4", "zstd with a dictionary"];
        for way in ways()?.iter().filter(|way| few.contains(&way.name)) {
            let start = || {
                way.choose(&disk)?;
                disk.set("disksize", "16M")
            };
            start()?;
            let write = || {
                let file = disk.direct().map_err(|_| Errno::ENODEV)?;
                blk::try_write(&file, &data, 0).map(drop)
            };
            let failed = one_by_one_and_all_after(
                &format!("{}: first write", way.name),
                Place::Here,
                FAILED,
                write,
                |outcome| {
                    if outcome == Outcome::Failed {
                        return Ok(());
                    }
                    holds(&disk, 0, &data)?;
                    // A codec that had no memory at first has it now: the text is compressed.
                    keeps(&disk, 0, &data)?;
                    same("huge pages", 1, disk.mm()?.huge)?;
                    disk.reset()?;
                    start()
                },
            )?;
            at_least(3, failed)?;
            disk.reset()?;
        }
        Ok(())
    })
}

#[test]
fn a_write_where_the_table_has_no_memory_yet() -> Result<()> {
    let _faults = Faults::set_up(Of::Modules)?;
    with_module("track_access=1", || {
        let disk = Disk::new(0);
        disk.set_up("lz4", "1T")?;
        let file = disk.direct()?;
        let others = assortment(1, 64)?;
        keeps(&disk, 0, &others)?;
        for (what, step) in [("GiB", GIB), ("2 MiB", 2 * MIB)] {
            for (form, shift) in SHIFTS {
                for kind in [Kind::Word(0), Kind::Word(5), Kind::Text, Kind::Random] {
                    let mut data = Guarded::new(PAGE, shift)?;
                    pattern::fill(kind, 9, &mut data);
                    let mut back = Mapping::new(PAGE)?;
                    let at = Cell::new(next(&file, step)?);
                    let failed = one_by_one_and_all_after(
                        &format!("write {kind:?} into an empty {what}{form}"),
                        Place::Here,
                        FAILED,
                        || blk::try_write(&file, &data, at.get()).map(drop),
                        |outcome| {
                            holds(&disk, 0, &others)?;
                            blk::read(&file, &mut back, at.get())?;
                            if outcome == Outcome::Failed {
                                return blk::equal("what was never written", &[0; PAGE], &back);
                            }
                            blk::equal("what was written", &data, &back)?;
                            at.set(at.get() + step);
                            Ok(())
                        },
                    )?;
                    FIRST.set((at.get() + step).next_multiple_of(GIB));
                    at_least(2, failed)?;
                }
            }
        }
        drop(file);
        disk.reset()
    })
}

thread_local! {
    /// From here on nothing was written.
    static FIRST: Cell<u64> = const { Cell::new(GIB) };
}

/// A place where the next `step` bytes of the disk, and those behind, have no memory in the table; for
/// steps of less than a GiB, the rest of the GiB has.
fn next(file: &File, step: u64) -> Result<u64> {
    let first = FIRST.get();
    if step == GIB {
        return Ok(first);
    }
    let mut page = Mapping::new(PAGE)?;
    page.fill(1);
    blk::write(file, &page, first)?;
    Ok(first + step)
}

#[test]
fn a_request_of_many_blocks_fails_whole_or_in_part() -> Result<()> {
    let _faults = Faults::set_up(Of::Modules)?;
    with_module("", || {
        let disk = Disk::new(0);
        disk.set_up("zstd", "16M")?;
        let file = disk.direct()?;
        let others = assortment(1, 64)?;
        keeps(&disk, 0, &others)?;
        for (form, shift) in SHIFTS {
            let mut back = Mapping::new(24 * PAGE)?;
            let (mut old, mut new) = (
                Guarded::new(24 * PAGE, shift)?,
                Guarded::new(24 * PAGE, shift)?,
            );
            old.copy_from_slice(&assortment(2, 24)?);
            new.copy_from_slice(&assortment(3, 24)?);
            keeps(&disk, 64, &old)?;
            let failed = one_by_one_and_all_after(
                &format!("write 24 blocks{form}"),
                Place::Here,
                FAILED,
                || blk::try_write(&file, &new, 64 * P).map(drop),
                |outcome| {
                    holds(&disk, 0, &others)?;
                    blk::read(&file, &mut back, 64 * P)?;
                    if outcome == Outcome::Done {
                        blk::equal("what was written", &new, &back)?;
                        return blk::write(&file, &old, 64 * P);
                    }
                    let mut blocks = back
                        .chunks(PAGE)
                        .zip(old.chunks(PAGE).zip(new.chunks(PAGE)));
                    ensure!(
                        blocks.all(|(block, (old, new))| block == old || block == new),
                        "a block is neither what was there nor what was to be"
                    );
                    Ok(())
                },
            )?;
            at_least(20, failed)?;
        }
        drop(file);
        disk.reset()
    })
}

#[test]
fn through_the_page_cache_fsync_tells() -> Result<()> {
    let _faults = Faults::set_up(Of::Modules)?;
    with_module("", || {
        let disk = Disk::new(0);
        disk.set_up("lz4", "16M")?;
        let others = assortment(1, 64)?;
        keeps(&disk, 0, &others)?;
        let file = disk.buffered()?;
        let round = Cell::new(2);
        let failed = one_by_one_and_all_after(
            "write and fsync",
            Place::Here,
            FAILED,
            || {
                let data = assortment(round.get(), 16).map_err(|_| Errno::ENOBUFS)?;
                blk::try_write(&file, &data, 64 * P)?;
                errno(file.sync_all())
            },
            |outcome| {
                holds(&disk, 0, &others)?;
                if outcome == Outcome::Done {
                    holds(&disk, 64, &assortment(round.get(), 16)?)?;
                    round.set(round.get() + 1);
                }
                Ok(())
            },
        )?;
        at_least(10, failed)?;
        drop(file);
        disk.reset()
    })
}

#[test]
fn reads_and_discards_need_no_memory() -> Result<()> {
    let _faults = Faults::set_up(Of::Modules)?;
    with_module("track_access=1", || {
        let disk = Disk::new(0);
        for way in ways()? {
            way.choose(&disk)?;
            disk.set("disksize", "16M")?;
            let data = assortment(1, 64)?;
            keeps(&disk, 0, &data)?;
            let file = disk.direct()?;
            for (form, shift) in SHIFTS {
                let mut back = Guarded::new(66 * PAGE, shift)?;
                let expected = [&data[..], &[0; 2 * PAGE]].concat();
                let failed = one_by_one_and_all_after(
                    &format!("{}: read all kinds{form}", way.name),
                    Place::Here,
                    NEVER,
                    || blk::try_read(&file, &mut back, 0).map(drop),
                    |_| holds(&disk, 0, &expected),
                )?;
                same("allocations", 0, failed)?;
                blk::equal("what was read", &expected, &back)?;
            }
            let discard = || blk::discard(&file, 32 * P, 8 * P);
            let failed = one_by_one_and_all_after("discard", Place::Here, NEVER, discard, |_| {
                holds(&disk, 0, &data[..32 * PAGE])?;
                holds(&disk, 32, &[0; 8 * PAGE])?;
                holds(&disk, 40, &data[40 * PAGE..])
            })?;
            same("allocations", 0, failed)?;
            drop(file);
            disk.reset()?;
        }
        Ok(())
    })
}
