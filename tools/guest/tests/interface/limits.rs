// SPDX-License-Identifier: GPL-2.0

//! Running into `mem_limit`: the write fails and is counted, what was stored stays, and room made
//! in either way lets writes go on.

use std::fs::File;

use anyhow::{ensure, Result};
use nix::errno::Errno;
use rzram_guest::buf::Mapping;
use rzram_guest::disk::Disk;
use rzram_guest::module::with_disk;
use rzram_guest::pattern::{self, Kind};
use rzram_guest::{blk, same, MIB, PAGE};

const P: u64 = PAGE as u64;

fn page(kind: Kind, seed: u64) -> Result<Mapping> {
    let mut page = Mapping::new(PAGE)?;
    pattern::fill(kind, seed, &mut page);
    Ok(page)
}

/// Writes incompressible blocks from `first` on until one fails, which must be with EIO; returns
/// the number of that block.
fn write_until_full(file: &File, first: u64, last: u64) -> Result<u64> {
    for block in first..last {
        match blk::try_write(file, &page(Kind::Random, block)?[..], block * P) {
            Ok(PAGE) => (),
            Err(Errno::EIO) => return Ok(block),
            came => anyhow::bail!(
                "block {block}\n  expected: {PAGE} bytes or EIO\n  came:     {came:?}"
            ),
        }
    }
    anyhow::bail!("{last} incompressible blocks went in; expected the limit to be reached")
}

fn check(file: &File, blocks: std::ops::Range<u64>, kind: Kind) -> Result<()> {
    let mut back = Mapping::new(PAGE)?;
    for block in blocks {
        blk::read(file, &mut back, block * P)?;
        blk::equal(&format!("block {block}"), &page(kind, block)?, &back)?;
    }
    Ok(())
}

fn full_disk(disk: &Disk) -> Result<(File, u64)> {
    disk.set("mem_limit", "2M")?;
    let file = disk.direct()?;
    let full = write_until_full(&file, 0, 2048)?;
    Ok((file, full))
}

#[test]
fn a_full_disk_fails_the_write_counts_it_and_loses_nothing() -> Result<()> {
    with_disk("16M", |disk| {
        let (file, full) = full_disk(disk)?;
        ensure!(
            (400..=512).contains(&full),
            "2 MiB took {full} incompressible blocks"
        );
        same("failed_writes", 1, disk.io()?.failed_writes)?;
        let mm = disk.mm()?;
        same(
            "orig_data_size counts only what is stored",
            full * P,
            mm.orig,
        )?;
        ensure!(
            mm.used <= 2 * MIB,
            "more memory is used than the limit allows: {mm:?}"
        );
        ensure!(
            mm.used_max as u64 <= 2 * MIB + 64 * 1024,
            "the peak is far above the limit: {mm:?}"
        );
        check(&file, 0..full, Kind::Random)?;
        check(&file, full..full + 1, Kind::Word(0))?;
        // Overwriting is refused as well where it takes new memory, and the old data stays.
        let mut failed = 1;
        for block in 0..20 {
            let other = page(Kind::Random, 1000 + block)?;
            match blk::try_write(&file, &other, block * P) {
                Err(Errno::EIO) => failed += 1,
                came => same(format!("overwriting block {block}"), Ok(PAGE), came)?,
            }
            if failed > 1 {
                break;
            }
        }
        same("failed_writes", failed, disk.io()?.failed_writes)?;
        check(&file, 20..full, Kind::Random)?;
        same("failed_reads", 0, disk.io()?.failed_reads)
    })
}

#[test]
fn an_overwrite_that_fails_leaves_the_old_data() -> Result<()> {
    with_disk("16M", |disk| {
        // Compressible data first, then incompressible data up to the limit.
        let file = disk.direct()?;
        for block in 0..64 {
            blk::write(&file, &page(Kind::Text, block)?, block * P)?;
        }
        disk.set("mem_limit", "1M")?;
        let full = write_until_full(&file, 64, 2048)?;
        let mut failed = 0;
        for block in 0..64 {
            match blk::try_write(&file, &page(Kind::Random, 5000 + block)?, block * P) {
                Err(Errno::EIO) => {
                    failed += 1;
                    check(&file, block..block + 1, Kind::Text)?;
                }
                came => {
                    same(format!("overwriting block {block}"), Ok(PAGE), came)?;
                    blk::write(&file, &page(Kind::Text, block)?, block * P)?;
                }
            }
        }
        ensure!(
            failed > 32,
            "only {failed} of 64 overwrites failed on a full disk"
        );
        check(&file, 0..64, Kind::Text)?;
        check(&file, 64..full, Kind::Random)?;
        same("failed_writes", failed + 1, disk.io()?.failed_writes)
    })
}

#[test]
fn raising_the_limit_or_freeing_blocks_makes_writes_work_again() -> Result<()> {
    with_disk("16M", |disk| {
        let (file, full) = full_disk(disk)?;
        disk.set("mem_limit", "3M")?;
        let fuller = write_until_full(&file, full, 2048)?;
        ensure!(
            fuller > full + 200,
            "1 MiB more let only {} blocks in",
            fuller - full
        );
        blk::discard(&file, 0, 128 * P)?;
        disk.wait_for("room below the limit", |mm| mm.used + 256 * 1024 < 3 * MIB)?;
        for block in 0..64 {
            blk::write(&file, &page(Kind::Random, block)?, block * P)?;
        }
        disk.set("mem_limit", "0")?;
        for block in 64..1024 {
            blk::write(&file, &page(Kind::Random, block)?, block * P)?;
        }
        check(&file, 0..1024, Kind::Random)
    })
}

#[test]
fn pages_that_need_no_memory_go_in_at_the_limit() -> Result<()> {
    with_disk("16M", |disk| {
        let (file, full) = full_disk(disk)?;
        for block in full..full + 64 {
            blk::write(&file, &page(Kind::Word(0), 0)?, block * P)?;
        }
        check(&file, full..full + 64, Kind::Word(0))?;
        same("same_pages", 64, disk.mm()?.same)
    })
}

#[test]
fn a_limit_below_what_is_used_stops_writes_only() -> Result<()> {
    with_disk("16M", |disk| {
        let file = disk.direct()?;
        for block in 0..256 {
            blk::write(&file, &page(Kind::Random, block)?, block * P)?;
        }
        disk.set("mem_limit", "4096")?;
        let came = blk::try_write(&file, &page(Kind::Random, 7000)?, 300 * P);
        blk::fails_with("writing above the limit", Errno::EIO, came)?;
        check(&file, 0..256, Kind::Random)
    })
}

#[test]
fn a_large_bio_fails_once_and_a_buffered_write_fails_at_fsync() -> Result<()> {
    with_disk("16M", |disk| {
        disk.set("mem_limit", "1M")?;
        let mut data = Mapping::new(MIB as usize * 2)?;
        pattern::fill(Kind::Random, 1, &mut data);
        let file = disk.direct()?;
        let came = blk::try_write(&file, &data[..MIB as usize * 2], 0);
        ensure!(
            came != Ok(2 * MIB as usize),
            "2 MiB went in below a limit of 1 MiB"
        );
        let failed = disk.io()?.failed_writes;
        ensure!(
            (1..=8).contains(&failed),
            "failed_writes counts bios, not pages: {failed}"
        );
        let buffered = disk.buffered()?;
        blk::write(&buffered, &data, 4 * MIB)?;
        let error = buffered.sync_all().err().and_then(|e| e.raw_os_error());
        same("fsync after writes that failed", Some(libc::EIO), error)
    })
}

#[test]
fn concurrent_writers_at_the_limit_neither_exceed_it_nor_lose_data() -> Result<()> {
    with_disk("32M", |disk| {
        disk.set("mem_limit", "2M")?;
        let stored: Vec<Result<Vec<u64>>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4_u64)
                .map(|thread| {
                    scope.spawn(move || {
                        let file = disk.direct()?;
                        let mut stored = Vec::new();
                        for block in (thread * 1024)..(thread * 1024 + 400) {
                            match blk::try_write(&file, &page(Kind::Random, block)?, block * P) {
                                Ok(_) => stored.push(block),
                                Err(e) => same("the error at the limit", Errno::EIO, e)?,
                            }
                        }
                        Ok(stored)
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|t| t.join().expect("a writer panicked"))
                .collect()
        });
        let mut count = 0;
        for blocks in stored {
            for block in blocks? {
                check(&disk.direct()?, block..block + 1, Kind::Random)?;
                count += 1;
            }
        }
        let mm = disk.mm()?;
        same("orig_data_size", count * P, mm.orig)?;
        same("failed_writes", 4 * 400 - count, disk.io()?.failed_writes)?;
        ensure!(
            mm.used <= 2 * MIB,
            "more memory is used than the limit allows: {mm:?}"
        );
        Ok(())
    })
}
