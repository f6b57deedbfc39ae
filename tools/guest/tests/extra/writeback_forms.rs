// SPDX-License-Identifier: GPL-2.0

//! Writeback of compressed and recompressed blocks, through the page cache, and beside other users.

use std::time::Duration;

use anyhow::{ensure, Result};
use nix::errno::Errno;
use rzram_guest::disk::Disk;
use rzram_guest::kernel::drop_caches;
use rzram_guest::module::with_module;
use rzram_guest::post::{bd, block_state, set_up_backed, Blocks, Ram};
use rzram_guest::stress::{owner, reader, statistician, together, writer, Until, Work};
use rzram_guest::target::target;
use rzram_guest::{blk, same, MIB, PAGE};

use crate::writeback::{assortment, with_backing};

#[test]
fn compressed_writeback_keeps_blocks_as_they_are_stored() -> Result<()> {
    let _ram = Ram::new(2048)?;
    with_module("", || {
        let disk = Disk::new(0);
        for (algorithm, compressed) in [("lz4", "1"), ("zstd", "1"), ("wlz", "1"), ("zstd", "0")] {
            if !target().algorithms.contains(&algorithm) {
                continue;
            }
            disk.set("compressed_writeback", compressed)?;
            set_up_backed(&disk, Ram::NODE, algorithm, "16M")?;
            // Text, huge blocks, records.
            let content = &assortment()[..60];
            let mut blocks = Blocks::of(&disk)?;
            blocks.write_all(content)?;
            disk.set("writeback", "page_indexes=0-59")?;
            same("blocks on the device", 60, bd(&disk)?.count)?;
            // Whether text can be read there tells in which form they are.
            let mut raw = vec![0; 64 * PAGE];
            blk::read(&std::fs::File::open(Ram::NODE)?, &mut raw, 0)?;
            let plain = raw
                .chunks(PAGE)
                .filter(|block| content.iter().any(|page| page == block))
                .count();
            // The huge ones are never compressed.
            let expected = if compressed == "1" { 10 } else { 60 };
            same("blocks that can be read on the device", expected, plain)?;
            drop_caches()?;
            blocks.hold_all(content)?;
            same("reads", 60, bd(&disk)?.reads)?;
            drop(blocks);
            disk.reset()?;
        }
        Ok(())
    })
}

#[test]
fn recompressed_blocks_go_compressed_with_any_algorithm() -> Result<()> {
    if target().is_c_zram() {
        return Ok(());
    }
    let _ram = Ram::new(2048)?;
    with_module("", || {
        let disk = Disk::new(0);
        disk.set("compressed_writeback", "1")?;
        disk.set("recomp_algorithm", "algo=zstd priority=1")?;
        disk.set("recomp_algorithm", "algo=deflate priority=2")?;
        set_up_backed(&disk, Ram::NODE, "lzo-rle", "4M")?;
        let mut blocks = Blocks::of(&disk)?;
        let content = assortment();
        blocks.write_all(&content)?;
        disk.set("recompress", "priority=1 max_pages=20")?;
        disk.set("recompress", "priority=2 max_pages=20")?;
        disk.set("writeback", "page_indexes=0-59")?;
        blocks.hold_all(&content)?;
        // What is out is not recompressed, and stays right.
        disk.set("recompress", "priority=2")?;
        blocks.hold_all(&content)?;
        drop(blocks);
        disk.reset()
    })
}

#[test]
fn through_the_page_cache_and_in_large_requests_it_is_the_same() -> Result<()> {
    with_backing(8192, "lz4", |disk, _| {
        let mut data = vec![0; 4 * MIB as usize];
        rzram_guest::pattern::fill_all(1, 0, &mut data);
        let file = disk.buffered()?;
        blk::write(&file, &data, 0)?;
        file.sync_all()?;
        disk.set("idle", "all")?;
        disk.set("writeback", "type=idle")?;
        ensure!(
            bd(disk)?.count > 800,
            "hardly anything went: {:?}",
            bd(disk)?
        );
        drop_caches()?;
        let mut back = vec![1; data.len()];
        blk::read(&file, &mut back, 0)?;
        blk::equal("through the page cache", &data, &back)?;
        let mut back = rzram_guest::buf::Mapping::new(data.len())?;
        blk::read(&disk.direct()?, &mut back, 0)?;
        blk::equal("past the page cache", &data, &back)
    })
}

fn driver<'a>(disk: Disk, last: u64) -> Work<'a> {
    Box::new(move |until| {
        let mut round = 0;
        while until.more() {
            disk.set("idle", "all")?;
            let text = match round % 3 {
                0 => "type=idle".to_owned(),
                1 => format!("page_indexes=0-{last}"),
                _ => "type=huge".to_owned(),
            };
            // Full at times.
            match disk.put("writeback", &text) {
                Ok(()) | Err(Errno::ENOSPC) => (),
                Err(other) => anyhow::bail!("writeback {text}: {other:?}"),
            }
            round += 1;
        }
        Ok(())
    })
}

#[test]
fn beside_readers_and_writers_of_the_same_blocks_nothing_is_lost() -> Result<()> {
    for compressed in ["0", "1"] {
        // Less room than there are blocks.
        let _ram = Ram::new(256)?;
        with_module("", || {
            let disk = Disk::new(0);
            if !target().is_c_zram() {
                disk.set("recomp_algorithm", "algo=zstd")?;
            }
            disk.set("compressed_writeback", compressed)?;
            set_up_backed(&disk, Ram::NODE, "lz4", "1M")?;
            let until = Until::after(Duration::from_millis(2000));
            let mut work = vec![
                ("writeback", driver(disk, 127)),
                ("writer", writer(disk, 32, 1)),
                ("reader", reader(disk, 32, 2)),
                ("owner", owner(disk, 32, 96, 3)),
                ("statistics", statistician(disk, MIB)),
            ];
            if !target().is_c_zram() {
                let recompress: Work<'_> = Box::new(|until| {
                    while until.more() {
                        disk.set("recompress", "type=idle")?;
                    }
                    Ok(())
                });
                work.push(("recompression", recompress));
            }
            together(&until, work)?;
            ensure!(
                bd(&disk)?.writes > 50,
                "hardly any writeback: {:?}",
                bd(&disk)?
            );
            ensure!(bd(&disk)?.reads > 20, "hardly any read: {:?}", bd(&disk)?);
            println!("{:?}", bd(&disk)?);
            same("failed reads", 0, disk.io()?.failed_reads)?;
            Blocks::of(&disk)?.discard(0, 256)?;
            same("states left", 0, block_state(&disk)?.len())?;
            same("blocks on the device", 0, bd(&disk)?.count)?;
            disk.wait_empty()?;
            disk.reset()
        })?;
    }
    Ok(())
}
