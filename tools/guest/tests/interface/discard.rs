// SPDX-License-Identifier: GPL-2.0

//! Discards and write-zeroes: zeros afterwards, memory given back, neighbours left alone.

use std::fs::File;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use rzram_guest::buf::Mapping;
use rzram_guest::disk::Disk;
use rzram_guest::module::with_disk;
use rzram_guest::{blk, pattern, same, MIB, PAGE};

const P: u64 = PAGE as u64;
const BLOCKS: u64 = 512;

/// Fills the first blocks with all kinds of pages and returns what they hold.
fn fill(file: &File) -> Result<Vec<u8>> {
    let mut data = Mapping::new((BLOCKS * P) as usize)?;
    pattern::fill_all(3, 0, &mut data);
    blk::write(file, &data, 0)?;
    Ok(data.to_vec())
}

fn check(what: &str, file: &File, expected: &[u8]) -> Result<()> {
    let mut back = Mapping::new(expected.len())?;
    back.fill(0xee);
    blk::read(file, &mut back, 0)?;
    blk::equal(what, expected, &back)
}

/// Blanks blocks through `free` in runs of many lengths and checks everything after each.
fn in_runs(
    disk: &Disk,
    what: &str,
    free: impl Fn(&File, u64, u64) -> nix::Result<()>,
) -> Result<()> {
    let file = disk.direct()?;
    let mut model = fill(&file)?;
    same(
        "orig_data_size of a full run of blocks",
        BLOCKS * P,
        disk.mm()?.orig,
    )?;
    let mut stored = BLOCKS;
    for (first, count) in [(0, 1), (3, 2), (8, 8), (17, 1), (100, 77), (BLOCKS - 1, 1)] {
        let before = disk.io()?.notify_free;
        free(&file, first * P, count * P)
            .with_context(|| format!("{what} of {count} at {first}"))?;
        model[(first * P) as usize..((first + count) * P) as usize].fill(0);
        check(
            &format!("after {what} of {count} blocks at {first}"),
            &file,
            &model,
        )?;
        stored -= count;
        same(
            format!("orig_data_size after {what} of {count} at {first}"),
            stored * P,
            disk.mm()?.orig,
        )?;
        same(
            "slots counted as freed",
            count,
            disk.io()?.notify_free - before,
        )?;
    }
    // Empty slots again: nothing to free, and nothing goes below zero.
    free(&file, 0, P)?;
    same("orig_data_size", stored * P, disk.mm()?.orig)?;
    free(&file, 0, 16 * MIB)?;
    check("after all is blank", &file, &vec![0; model.len()])?;
    drop(file);
    disk.wait_empty()
}

#[test]
fn discard_frees_memory_and_leaves_zeros() -> Result<()> {
    with_disk("16M", |disk| in_runs(disk, "BLKDISCARD", blk::discard))
}

#[test]
fn zeroout_frees_memory_and_leaves_zeros() -> Result<()> {
    with_disk("16M", |disk| in_runs(disk, "BLKZEROOUT", blk::zero_out))
}

#[test]
fn punching_a_hole_in_the_node_frees_memory_and_leaves_zeros() -> Result<()> {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    with_disk("16M", |disk| {
        in_runs(disk, "a punched hole", |file, at, len| {
            blk::fallocate(file, mode, at, len)
        })
    })
}

#[test]
fn unaligned_discards_are_refused_and_change_nothing() -> Result<()> {
    with_disk("16M", |disk| {
        let file = disk.direct()?;
        let model = fill(&file)?;
        let end = 16 * MIB;
        for (at, len) in [
            (512, P),
            (0, 512),
            (P, 3 * 512),
            (P - 512, 2 * P),
            (end, P),
            (end - P, 2 * P),
            (P, u64::MAX),
        ] {
            let came = blk::discard(&file, at, len);
            blk::fails_with(&format!("BLKDISCARD of {len} at {at}"), Errno::EINVAL, came)?;
            let came = blk::zero_out(&file, at, len);
            ensure!(came.is_err(), "BLKZEROOUT of {len} at {at} succeeded");
        }
        check("after refused discards", &file, &model)?;
        same("orig_data_size", BLOCKS * P, disk.mm()?.orig)
    })
}

#[test]
fn buffered_writes_of_part_of_a_block_keep_the_rest() -> Result<()> {
    // Through the page cache, a write need not be made of whole blocks.
    with_disk("16M", |disk| {
        let mut model = fill(&disk.direct()?)?;
        let file = disk.buffered()?;
        let zeros = vec![0; 3 * PAGE];
        for (at, len) in [(100, 50), (P as usize - 7, 14), (5 * PAGE + 512, 2 * PAGE)] {
            blk::write(&file, &zeros[..len], at as u64)?;
            model[at..at + len].fill(0);
        }
        file.sync_all()?;
        blk::flush_buffers(&file)?;
        drop(file);
        check("after partial zeros", &disk.direct()?, &model)
    })
}

#[test]
fn a_discard_of_a_whole_large_disk_is_quick_and_complete() -> Result<()> {
    with_disk("8G", |disk| {
        let file = disk.direct()?;
        let mut page = Mapping::new(PAGE)?;
        pattern::fill(pattern::Kind::Text, 1, &mut page);
        for at in (0..8 * 1024 * MIB).step_by(256 << 20) {
            blk::write(&file, &page, at)?;
        }
        same("orig_data_size", 32 * P, disk.mm()?.orig)?;
        blk::discard(&file, 0, 8 * 1024 * MIB)?;
        blk::read(&file, &mut page, 256 << 20)?;
        blk::equal("a block of the middle", &[0; PAGE], &page)?;
        drop(file);
        disk.wait_empty()
    })
}
