// SPDX-License-Identifier: GPL-2.0

//! Recompression, writeback, and reads of what was written back.

use std::fs;

use anyhow::Result;
use nix::errno::Errno;
use rzram_guest::buf::Guarded;
use rzram_guest::disk::Disk;
use rzram_guest::faults::{at_least, one_by_one_and_all_after, Faults, Of, Outcome, Place};
use rzram_guest::module::{scratch, with_module};
use rzram_guest::pattern::Kind;
use rzram_guest::post::{bd, flagged, pages, Ram};
use rzram_guest::{blk, same, MIB, PAGE};

use crate::common::{assortment, dictionary, holds, keeps, NO_MEMORY};

/// The blocks that are worked on.
const BLOCKS: u64 = 12;

/// Text, which any algorithm makes smaller, and which zstd makes smaller than lz4.
fn content() -> Vec<u8> {
    pages(Kind::Text, 1, BLOCKS).concat()
}

fn aligned(bytes: &[u8]) -> Result<Guarded> {
    let mut buffer = Guarded::new(bytes.len(), 0)?;
    buffer.copy_from_slice(bytes);
    Ok(buffer)
}

#[test]
fn recompression_without_memory_says_so_and_loses_nothing() -> Result<()> {
    let _faults = Faults::set_up(Of::Modules)?;
    let dictionary = dictionary()?;
    with_module("track_access=1", || {
        let disk = Disk::new(0);
        let data = aligned(&content())?;
        let others = assortment(1, 64)?;
        for dict in [false, true] {
            disk.set("recomp_algorithm", "algo=zstd priority=1")?;
            if dict {
                let parameters = format!("priority=1 dict={dictionary}");
                disk.set("algorithm_params", &parameters)?;
            }
            disk.set_up("lz4", "16M")?;
            keeps(&disk, 0, &data)?;
            keeps(&disk, 100, &others)?;
            let name = match dict {
                false => "recompress",
                true => "recompress with a dictionary",
            };
            let failed = one_by_one_and_all_after(
                name,
                Place::Here,
                NO_MEMORY,
                || disk.put("recompress", "priority=1"),
                |outcome| {
                    holds(&disk, 0, &data)?;
                    holds(&disk, 100, &others)?;
                    if outcome == Outcome::Done {
                        let done = flagged(&disk, 'r')?;
                        let text: Vec<u64> = done.into_iter().filter(|n| *n < BLOCKS).collect();
                        same("recompressed", (0..BLOCKS).collect(), text)?;
                        keeps(&disk, 0, &data)?;
                        keeps(&disk, 100, &others)?;
                    }
                    Ok(())
                },
            )?;
            at_least(20, failed)?;
            blk::discard(&disk.direct()?, 0, 16 * MIB)?;
            disk.wait_empty()?;
            disk.reset()?;
        }
        Ok(())
    })
}

/// A disk with this backing store, and [`content`] at its beginning.
fn with_store(
    store: &str,
    compressed: bool,
    body: impl FnOnce(&Disk, &Guarded) -> Result<()>,
) -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        disk.set("compressed_writeback", if compressed { "1" } else { "0" })?;
        disk.set("backing_dev", store)?;
        disk.set_up("zstd", "16M")?;
        let data = aligned(&content())?;
        keeps(&disk, 0, &data)?;
        body(&disk, &data)?;
        // All places on the device can still be taken, and all objects given back.
        let all = aligned(&pages(Kind::Text, 9, 256).concat())?;
        keeps(&disk, 1000, &all)?;
        blk::discard(&disk.direct()?, 0, BLOCKS * PAGE as u64)?;
        disk.set("writeback", "page_indexes=1000-1255")?;
        same("blocks on the device", 256, bd(&disk)?.count)?;
        holds(&disk, 1000, &all)?;
        blk::discard(&disk.direct()?, 0, 16 * MIB)?;
        same("blocks on the device", 0, bd(&disk)?.count)?;
        disk.wait_empty()?;
        disk.reset()
    })
}

/// Both kinds of backing store, of 256 blocks.
fn with_stores(mut body: impl FnMut(&str, &str) -> Result<()>) -> Result<()> {
    let _ram = Ram::new(1024)?;
    body("a device", Ram::NODE)?;
    let path = scratch("faults")?.join("store");
    fs::File::create(&path)?.set_len(MIB)?;
    body("a file", &path.display().to_string())?;
    Ok(fs::remove_file(path)?)
}

const SELECT: &str = "page_indexes=0-11";

#[test]
fn writeback_without_memory_says_so_and_loses_nothing() -> Result<()> {
    let _faults = Faults::set_up(Of::Modules)?;
    with_stores(|kind, store| {
        for (batch, place) in [
            (1, Place::Here),
            (8, Place::Here),
            (1, Place::Workers),
            (8, Place::Workers),
        ] {
            // Where one block after another is written, there are no workers.
            if place == Place::Workers && (batch == 1 || kind == "a file") {
                continue;
            }
            with_store(store, batch == 8, |disk, data| {
                disk.set("writeback_batch_size", &batch.to_string())?;
                let failed = one_by_one_and_all_after(
                    &format!("writeback to {kind}, {batch} at once"),
                    place,
                    &[Errno::ENOMEM, Errno::EIO],
                    || disk.put("writeback", SELECT),
                    |outcome| {
                        holds(disk, 0, data)?;
                        if outcome == Outcome::Done {
                            same("blocks on the device", BLOCKS, bd(disk)?.count)?;
                            keeps(disk, 0, data)?;
                            same("blocks on the device", 0, bd(disk)?.count)?;
                        }
                        Ok(())
                    },
                )?;
                at_least(2, failed)
            })?;
        }
        Ok(())
    })
}

/// Somebody waits for these, often for want of memory.
#[test]
fn reading_a_block_back_needs_no_memory() -> Result<()> {
    const ROUNDS: u64 = 5;
    let faults = Faults::set_up(Of::Modules)?;
    with_stores(|kind, store| {
        for compressed in [false, true] {
            with_store(store, compressed, |disk, data| {
                disk.set("writeback", SELECT)?;
                let file = disk.direct()?;
                let before = bd(disk)?.reads;
                let forms = [(1, 0), (1, 512), (4, 0), (4, 512)];
                for (blocks, shift) in forms {
                    let mut back = Guarded::new(blocks * PAGE, shift)?;
                    for _ in 0..ROUNDS {
                        back.fill(0xa5);
                        faults.by_chance(100)?;
                        let came = blk::try_read(&file, &mut back, 0);
                        let failed = faults.by_chance(0)?;
                        let what = format!("{blocks} blocks, {shift} past a page, from {kind}");
                        same(&what, Ok(blocks * PAGE), came)?;
                        same(format!("{what}: allocations"), 0, failed)?;
                        blk::equal(&what, &data[..blocks * PAGE], &back)?;
                        back.check_guards()?;
                    }
                }
                let blocks = forms.iter().map(|(blocks, _)| *blocks as u64);
                let read = bd(disk)?.reads - before;
                same("blocks read back", ROUNDS * blocks.sum::<u64>(), read)?;
                same("blocks on the device", BLOCKS, bd(disk)?.count)
            })?;
        }
        Ok(())
    })
}
