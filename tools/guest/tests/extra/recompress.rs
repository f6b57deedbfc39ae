// SPDX-License-Identifier: GPL-2.0

//! `recompress`: which blocks, how many, and that all of them are still what they were.

use std::time::Duration;

use anyhow::{ensure, Result};
use rzram_guest::disk::Disk;
use rzram_guest::module::with_module;
use rzram_guest::pattern::Kind;
use rzram_guest::stress::{owner, reader, statistician, together, writer, Until, Work};
use rzram_guest::target::target;
use rzram_guest::{same, MIB};

use rzram_guest::post::{block_state, compressed, flagged, page, pages, six_bits, text, Blocks, P};

/// Runs `body` on a disk of 8 MiB that has zstd for recompression.
pub fn with_second(
    primary: &str,
    second: &str,
    body: impl FnOnce(&Disk, &mut Blocks) -> Result<()>,
) -> Result<()> {
    if target().is_c_zram() {
        return Ok(()); // Debian builds it without recompression
    }
    with_module("", || {
        let disk = Disk::new(0);
        disk.set("comp_algorithm", primary)?;
        disk.set("recomp_algorithm", &format!("algo={second}"))?;
        disk.set("disksize", "8M")?;
        let mut blocks = Blocks::of(&disk)?;
        body(&disk, &mut blocks)?;
        drop(blocks);
        disk.reset()
    })
}

/// Random and other pages, same-filled ones among them.
fn assortment() -> Vec<Vec<u8>> {
    let mut all = pages(Kind::Text, 1, 64);
    all.extend(pages(Kind::Records, 2, 64));
    all.extend(pages(Kind::Random, 3, 16));
    all.extend((0..16).map(six_bits));
    all.extend([page(Kind::Word(0), 0), page(Kind::Word(0x1234), 0)]);
    all.extend([page(Kind::Word(0x0123_4567_89ab_cdef), 0)]);
    all
}

#[test]
fn memory_shrinks_and_every_block_is_still_what_it_was() -> Result<()> {
    for (primary, second) in [
        ("lzo-rle", "zstd"),
        ("lz4", "zstd"),
        ("lzo", "deflate"),
        ("lzo-rle", "lz4"),
        ("wlz", "zstd"),
        ("lz4", "wlz"),
    ] {
        with_second(primary, second, |disk, blocks| {
            let content = assortment();
            blocks.write_all(&content)?;
            let before = disk.mm()?;
            disk.set("recompress", "type=huge")?;
            disk.set("recompress", "priority=1")?;
            let after = disk.mm()?;
            println!("{primary} {before:?}\n{second} {after:?}");
            same("orig_data_size", before.orig, after.orig)?;
            same("same_pages", before.same, after.same)?;
            ensure!(after.huge <= before.huge, "more huge pages");
            if !["lz4", "wlz"].contains(&second) {
                ensure!(
                    after.compr * 10 < before.compr * 9 && after.used < before.used,
                    "nothing gained"
                );
                same("huge pages left", 16, after.huge)?;
            }
            blocks.hold_all(&content)?;
            // Once more changes nothing.
            disk.set("recompress", "priority=1")?;
            same("compr_data_size", after.compr, compressed(disk)?)?;
            blocks.hold_all(&content)?;
            // And it all can be replaced and freed.
            blocks.write_all(&pages(Kind::Text, 9, 32))?;
            blocks.hold_all(&pages(Kind::Text, 9, 32))?;
            blocks.discard(0, content.len() as u64)?;
            disk.wait_empty()
        })?;
    }
    Ok(())
}

#[test]
fn flags_tell_what_became_of_each_block() -> Result<()> {
    with_second("lzo-rle", "zstd", |disk, blocks| {
        let content = [
            page(Kind::Text, 1),
            page(Kind::Random, 2),
            six_bits(3),
            page(Kind::Word(7), 0),
            page(Kind::Word(0x0123_4567_89ab_cdef), 0),
        ];
        blocks.write_all(&content)?;
        let flags = |disk: &Disk| -> Result<Vec<String>> {
            Ok(block_state(disk)?.into_values().map(|s| s.flags).collect())
        };
        let before = ["......", "..h...", "..h...", "s.....", "s....."];
        same("flags", before.map(String::from).to_vec(), flags(disk)?)?;
        disk.set("idle", "all")?;
        let idle = ["...i..", "..hi..", "..hi..", "s.....", "s....."];
        same("idle", idle.map(String::from).to_vec(), flags(disk)?)?;
        disk.set("recompress", "type=idle")?;
        let after = ["....r.", "..h..n", "....r.", "s.....", "s....."];
        same("after", after.map(String::from).to_vec(), flags(disk)?)?;
        blocks.hold_all(&content)?;
        // A new version of a block is as any other.
        blocks.write(0, &page(Kind::Text, 11))?;
        blocks.write(1, &page(Kind::Random, 12))?;
        blocks.write(2, &page(Kind::Text, 13))?;
        let new = ["......", "..h...", "......", "s.....", "s....."];
        same("new", new.map(String::from).to_vec(), flags(disk)?)
    })
}

/// Blocks of text of 16 sizes, and those sizes compressed, in the order of the blocks, which is not
/// that of the sizes.
fn graded(disk: &Disk, blocks: &mut Blocks) -> Result<Vec<(u64, Vec<u8>)>> {
    let mut graded = Vec::new();
    for index in 0..16 {
        let len = 256 + 240 * ((index * 7 + 3) % 16);
        let content = text(len as usize, index);
        let before = compressed(disk)?;
        blocks.write(index, &content)?;
        graded.push((compressed(disk)? - before, content));
    }
    Ok(graded)
}

#[test]
fn the_largest_come_first_and_no_more_than_max_pages() -> Result<()> {
    with_second("lzo-rle", "zstd", |disk, blocks| {
        let graded = graded(disk, blocks)?;
        let mut order: Vec<u64> = (0..16).collect();
        order.sort_by_key(|n| std::cmp::Reverse(graded[*n as usize].0));
        println!("{:?}", graded.iter().map(|(n, _)| n).collect::<Vec<_>>());
        for (max, total) in [(1, 1), (3, 4), (0, 4), (5, 9)] {
            disk.set("recompress", &format!("max_pages={max}"))?;
            let done = flagged(disk, 'r')?;
            same("recompressed blocks", total, done.len())?;
            // Sizes within 64 bytes of each other count as equal.
            let least = done.iter().map(|n| graded[*n as usize].0).min();
            let left = (0..16).filter(|n| !done.contains(n));
            let most = left.map(|n| graded[n as usize].0).max();
            ensure!(
                least >= most.map(|size| size.saturating_sub(64)),
                "{done:?} of {order:?}"
            );
        }
        for (index, (_, content)) in (0..).zip(&graded) {
            blocks.holds(index, content)?;
        }
        Ok(())
    })
}

#[test]
fn a_threshold_leaves_out_what_is_small_and_what_stays_large() -> Result<()> {
    with_second("lzo-rle", "zstd", |disk, blocks| {
        let graded = graded(disk, blocks)?;
        let mut sizes: Vec<u64> = graded.iter().map(|(size, _)| *size).collect();
        sizes.sort_unstable();
        // Large enough for the one, so small that zstd does not get below it for the largest.
        let threshold = sizes[6];
        disk.set("recompress", &format!("threshold={threshold}"))?;
        let done = flagged(disk, 'r')?;
        println!("{sizes:?}, threshold {threshold}: {done:?}");
        ensure!(!done.is_empty(), "nothing was recompressed");
        for index in done {
            let size = graded[index as usize].0;
            ensure!(size >= threshold, "block {index} of {size} bytes");
        }
        ensure!(
            flagged(disk, 'r')?.len() <= 10,
            "smaller ones than the threshold were recompressed"
        );
        for (index, (_, content)) in (0..).zip(&graded) {
            blocks.holds(index, content)?;
        }
        Ok(())
    })
}

#[test]
fn types_choose() -> Result<()> {
    with_second("lzo-rle", "zstd", |disk, blocks| {
        // Even blocks are huge; of each four, the first two are accessed after they were marked.
        let content: Vec<_> = (0..16)
            .map(|n| match n % 2 {
                0 => six_bits(n),
                _ => page(Kind::Text, n),
            })
            .collect();
        for (kind, wanted) in [
            ("type=huge_idle", vec![2, 6, 10, 14]),
            ("type=huge", vec![0, 2, 4, 6, 8, 10, 12, 14]),
            ("type=idle", vec![2, 3, 6, 7, 10, 11, 14, 15]),
            ("max_pages=100", (0..16).collect()),
        ] {
            blocks.write_all(&content)?;
            disk.set("idle", "all")?;
            for n in (0..16).filter(|n| n % 4 < 2) {
                blocks.holds(n, &content[n as usize])?;
            }
            disk.set("recompress", kind)?;
            same(kind, wanted, flagged(disk, 'r')?)?;
            blocks.hold_all(&content)?;
        }
        Ok(())
    })
}

#[test]
fn each_priority_is_one_step_and_a_dictionary_can_be_the_last() -> Result<()> {
    if target().is_c_zram() {
        return Ok(());
    }
    let dictionary: Vec<u8> = pages(Kind::Random, 40, 2).concat();
    let path = rzram_guest::post::file("steps", &dictionary)?;
    with_module("", || {
        let disk = Disk::new(0);
        disk.set("comp_algorithm", "lz4")?;
        disk.set("recomp_algorithm", "algo=deflate priority=1")?;
        disk.set("recomp_algorithm", "algo=zstd priority=3")?;
        disk.set("algorithm_params", &format!("priority=3 dict={path}"))?;
        disk.set("disksize", "4M")?;
        let mut blocks = Blocks::of(&disk)?;
        // Of the dictionary, but with no repeats: only the last of the three can do anything.
        let hidden = dictionary[1000..1000 + P as usize].to_vec();
        let content = [six_bits(1), page(Kind::Text, 2), hidden];
        blocks.write_all(&content)?;
        same("huge", 2, disk.mm()?.huge)?;
        disk.set("recompress", "algo=deflate")?;
        same("after deflate", vec![0, 1], flagged(&disk, 'r')?)?;
        // There is a higher priority, so nothing counts as incompressible.
        same("incompressible", vec![], flagged(&disk, 'n')?)?;
        blocks.hold_all(&content)?;
        let before = compressed(&disk)?;
        disk.set("recompress", "priority=3")?;
        same("huge", 0, disk.mm()?.huge)?;
        ensure!(
            compressed(&disk)? < before - 3000,
            "the dictionary did nothing"
        );
        blocks.hold_all(&content)?;
        // A lower one does not go back.
        let before = compressed(&disk)?;
        disk.set("recompress", "priority=1")?;
        same("compressed size", before, compressed(&disk)?)?;
        blocks.hold_all(&content)?;
        drop(blocks);
        disk.reset()
    })
}

fn recompressor<'a>(disk: Disk) -> Work<'a> {
    Box::new(move |until| {
        while until.more() {
            disk.set("recompress", "priority=1")?;
            disk.set("idle", "all")?;
            disk.set("recompress", "type=idle")?;
            disk.set("recompress", "type=huge max_pages=20")?;
        }
        Ok(())
    })
}

#[test]
fn beside_readers_and_writers_of_the_same_blocks_nothing_is_lost() -> Result<()> {
    with_second("lzo-rle", "zstd", |disk, _| {
        let until = Until::after(Duration::from_millis(2500));
        let work = vec![
            ("recompressing", recompressor(*disk)),
            ("recompressing too", recompressor(*disk)),
            ("writer", writer(*disk, 48, 1)),
            ("reader", reader(*disk, 48, 2)),
            ("owner", owner(*disk, 48, 64, 3)),
            ("statistics", statistician(*disk, 8 * MIB)),
        ];
        together(&until, work)?;
        disk.set("recompress", "priority=1")?;
        ensure!(!flagged(disk, 'r')?.is_empty(), "nothing recompressed");
        same("failed reads", 0, disk.io()?.failed_reads)?;
        let blocks = Blocks::of(disk)?;
        blocks.discard(0, 8 * MIB / P)?;
        disk.wait_empty()
    })
}
