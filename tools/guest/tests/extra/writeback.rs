// SPDX-License-Identifier: GPL-2.0

//! Writeback: which blocks go, how many, and that they come back.

use anyhow::{ensure, Result};
use nix::errno::Errno;
use rzram_guest::disk::Disk;
use rzram_guest::kernel::drop_caches;
use rzram_guest::module::with_module;
use rzram_guest::pattern::Kind;
use rzram_guest::target::target;
use rzram_guest::{blk, same};

use rzram_guest::post::{
    bd, compressed, flagged, page, pages, set_up_backed, six_bits, Blocks, Ram, P,
};

/// A disk of 16 MiB with a backing device of `kib` KiB.
pub fn with_backing(
    kib: u64,
    algorithm: &str,
    body: impl FnOnce(&Disk, &mut Blocks) -> Result<()>,
) -> Result<()> {
    let _ram = Ram::new(kib)?;
    with_module("", || {
        let disk = Disk::new(0);
        set_up_backed(&disk, Ram::NODE, algorithm, "16M")?;
        let mut blocks = Blocks::of(&disk)?;
        body(&disk, &mut blocks)?;
        drop(blocks);
        disk.reset()
    })
}

/// Blocks of all sorts: text, huge ones, and two same-filled ones at the end.
pub fn assortment() -> Vec<Vec<u8>> {
    let mut all = pages(Kind::Text, 1, 30);
    all.extend(pages(Kind::Random, 2, 10));
    all.extend(pages(Kind::Records, 3, 20));
    all.extend([page(Kind::Word(0), 0), page(Kind::Word(77), 0)]);
    all
}

#[test]
fn each_type_takes_its_blocks_and_no_others() -> Result<()> {
    let content = assortment();
    with_backing(1024, "lz4", |disk, blocks| {
        // Of every ten blocks the first five are accessed after they were marked.
        let idle = |n: &u64| n % 10 >= 5;
        let huge = |n: &u64| (30..40).contains(n);
        let cases: [(&str, Vec<u64>); 8] = [
            ("idle", (0..60).filter(idle).collect()),
            ("type=idle", (0..60).filter(idle).collect()),
            ("huge", (0..60).filter(huge).collect()),
            ("type=huge", (0..60).filter(huge).collect()),
            ("huge_idle", (35..40).collect()),
            ("type=huge_idle\n", (35..40).collect()),
            ("type=incompressible", vec![]),
            ("incompressible", vec![]),
        ];
        for (text, wanted) in cases {
            blocks.write_all(&content)?;
            same("blocks on the device", 0, bd(disk)?.count)?;
            disk.set("idle", "all")?;
            for n in (0..60).filter(|n| !idle(n)) {
                blocks.holds(n, &content[n as usize])?;
            }
            let before = disk.mm()?;
            let writes = bd(disk)?.writes;
            disk.set("writeback", text)?;
            same(text, wanted.clone(), flagged(disk, 'w')?)?;
            let (after, bd) = (disk.mm()?, bd(disk)?);
            same("blocks on the device", wanted.len() as u64, bd.count)?;
            same("blocks written", bd.count, bd.writes - writes)?;
            same("orig_data_size", before.orig, after.orig)?;
            same("same_pages", before.same, after.same)?;
            if !wanted.is_empty() {
                ensure!(
                    after.compr < before.compr && after.used < before.used,
                    "no gain"
                );
            }
            drop_caches()?;
            blocks.hold_all(&content)?;
            // Reading does not bring them back.
            same("blocks on the device", wanted, flagged(disk, 'w')?)?;
            // Again, there is nothing left to do.
            disk.set("writeback", text.trim_end())?;
            same(
                "blocks on the device",
                bd.count,
                rzram_guest::post::bd(disk)?.count,
            )?;
        }
        Ok(())
    })
}

#[test]
fn numbers_and_ranges_name_blocks() -> Result<()> {
    let content = assortment();
    with_backing(1024, "lz4", |disk, blocks| {
        let cases: [(&str, Vec<u64>); 9] = [
            ("page_index=3", vec![3]),
            ("page_index=0 page_index=59", vec![0, 59]),
            ("page_indexes=10-12", (10..13).collect()),
            ("page_indexes=5-5", vec![5]),
            ("page_indexes=1-3 page_indexes=7-8", vec![1, 2, 3, 7, 8]),
            (
                "page_indexes=1-5 page_index=4 page_indexes=3-7",
                (1..8).collect(),
            ),
            // Same-filled and empty blocks are passed over.
            ("page_indexes=58-4095", vec![58, 59]),
            ("page_index=60", vec![]),
            // A type ends the list, and looks only where the last range was.
            ("page_indexes=28-31 type=huge", (28..32).collect()),
        ];
        for (text, wanted) in cases {
            blocks.write_all(&content)?;
            disk.set("writeback", text)?;
            same(text, wanted, flagged(disk, 'w')?)?;
            blocks.hold_all(&content)?;
        }
        Ok(())
    })
}

#[test]
fn what_no_algorithm_compresses_is_a_type_of_its_own() -> Result<()> {
    if target().is_c_zram() {
        return Ok(()); // needs recompression
    }
    let _ram = Ram::new(1024)?;
    with_module("", || {
        let disk = Disk::new(0);
        disk.set("recomp_algorithm", "algo=zstd")?;
        set_up_backed(&disk, Ram::NODE, "lzo-rle", "4M")?;
        let mut blocks = Blocks::of(&disk)?;
        let mut content = pages(Kind::Random, 1, 4);
        content.extend((0..4).map(six_bits));
        content.extend(pages(Kind::Text, 2, 4));
        blocks.write_all(&content)?;
        disk.set("recompress", "type=huge")?;
        same("incompressible", vec![0, 1, 2, 3], flagged(&disk, 'n')?)?;
        disk.set("writeback", "type=incompressible")?;
        same("written back", vec![0, 1, 2, 3], flagged(&disk, 'w')?)?;
        same("recompressed", vec![4, 5, 6, 7], flagged(&disk, 'r')?)?;
        blocks.hold_all(&content)?;
        // What was recompressed goes and comes as well.
        disk.set("writeback", "page_indexes=0-11")?;
        same("blocks on the device", 12, bd(&disk)?.count)?;
        same("compressed bytes left", 0, compressed(&disk)?)?;
        blocks.hold_all(&content)?;
        drop(blocks);
        disk.reset()
    })
}

#[test]
fn blocks_that_are_replaced_or_freed_give_their_place_back() -> Result<()> {
    with_backing(1024, "zstd", |disk, blocks| {
        // More rounds than the device would have room for.
        for round in 0..4 {
            let content = pages(Kind::Text, round, 200);
            blocks.write_all(&content)?;
            disk.set("writeback", "page_indexes=0-199")?;
            same("blocks on the device", 200, bd(disk)?.count)?;
            let new = pages(Kind::Records, round, 80);
            blocks.write_all(&new)?;
            same("80 replaced", 120, bd(disk)?.count)?;
            blocks.write(80, &page(Kind::Word(3), 0))?;
            same("one of them same-filled", 119, bd(disk)?.count)?;
            blocks.discard(100, 50)?;
            same("50 discarded", 69, bd(disk)?.count)?;
            for index in 81..100 {
                blocks.holds(index, &content[index as usize])?;
            }
            blocks.hold_all(&new)?;
            blk::zero_out(&disk.direct()?, 0, 200 * P)?;
            same("all zeroed", 0, bd(disk)?.count)?;
            disk.wait_empty()?;
        }
        same("writes", 800, bd(disk)?.writes)
    })
}

#[test]
fn the_limit_counts_blocks_and_stops() -> Result<()> {
    let content = pages(Kind::Text, 1, 100);
    with_backing(1024, "zstd", |disk, blocks| {
        blocks.write_all(&content)?;
        disk.shows("writeback_limit", "0\n")?;
        disk.shows("writeback_limit_enable", "0\n")?;
        // Not enabled, it does not matter.
        disk.set("writeback", "page_indexes=0-9")?;
        disk.shows("writeback_limit", "0\n")?;
        disk.set("writeback_limit_enable", "1")?;
        disk.shows("writeback_limit_enable", "1\n")?;
        disk.refuses("writeback", "page_indexes=10-19", Errno::EIO)?;
        same("blocks on the device", 10, bd(disk)?.count)?;
        for batch in ["1", "4", "32", "1000"] {
            blocks.write_all(&content)?;
            disk.set("writeback_batch_size", batch)?;
            disk.set("writeback_limit", "25")?;
            disk.set("writeback", "page_indexes=0-9")?;
            disk.shows("writeback_limit", "15\n")?;
            disk.refuses("writeback", "page_indexes=10-49", Errno::EIO)?;
            disk.shows("writeback_limit", "0\n")?;
            same("blocks on the device", 25, bd(disk)?.count)?;
            blocks.hold_all(&content)?;
        }
        disk.set("writeback_limit", "75")?;
        disk.set("writeback", "page_indexes=0-99")?;
        disk.shows("writeback_limit", "0\n")?;
        same("blocks on the device", 100, bd(disk)?.count)?;
        disk.set("writeback_limit_enable", "0")?;
        blocks.write_all(&content)?;
        disk.set("writeback", "page_indexes=0-99")?;
        blocks.hold_all(&content)
    })
}

#[test]
fn a_full_device_takes_no_more_and_the_rest_stays() -> Result<()> {
    let content = pages(Kind::Text, 1, 100);
    with_backing(64, "zstd", |disk, blocks| {
        let room = 16;
        for batch in ["1", "8", "64"] {
            blocks.write_all(&content)?;
            disk.set("writeback_batch_size", batch)?;
            disk.set("writeback_limit", "1000")?;
            disk.set("writeback_limit_enable", "1")?;
            disk.refuses("writeback", "page_indexes=0-99", Errno::ENOSPC)?;
            same("blocks on the device", room, bd(disk)?.count)?;
            disk.shows("writeback_limit", &format!("{}\n", 1000 - room))?;
            blocks.hold_all(&content)?;
            // Room for just as many as are given back.
            let there = flagged(disk, 'w')?;
            blocks.discard(there[0], 1)?;
            let left = (0..100).find(|n| !there.contains(n)).unwrap_or(0);
            disk.set("writeback", &format!("page_index={left}"))?;
            same("blocks on the device", room, bd(disk)?.count)?;
            blocks.holds(left, &content[left as usize])?;
        }
        Ok(())
    })
}

#[test]
fn the_largest_go_first() -> Result<()> {
    with_backing(1024, "lz4", |disk, blocks| {
        for index in 0..32 {
            let len = 128 * ((index * 11 + 5) % 28);
            blocks.write(index, &page(Kind::Prefix(300 + len as usize), index))?;
        }
        disk.set("writeback_batch_size", "1")?;
        disk.set("writeback_limit", "8")?;
        disk.set("writeback_limit_enable", "1")?;
        disk.refuses("writeback", "page_indexes=0-31", Errno::EIO)?;
        let size = |n: u64| (n * 11 + 5) % 28;
        let gone = flagged(disk, 'w')?;
        same("blocks on the device", 8, gone.len())?;
        let least = gone.iter().map(|n| size(*n)).min();
        let most = (0..32).filter(|n| !gone.contains(n)).map(size).max();
        ensure!(least >= most, "{gone:?} went");
        Ok(())
    })
}
