// SPDX-License-Identifier: GPL-2.0

//! What is written is what is read: every algorithm and every kind of page.

use anyhow::{ensure, Context, Result};
use rzram_guest::buf::Mapping;
use rzram_guest::disk::Disk;
use rzram_guest::module::{with_disk, with_module};
use rzram_guest::pattern::{every_kind, Kind, WORD_PATTERNS};
use rzram_guest::target::target;
use rzram_guest::{blk, pattern, same, MIB, PAGE};

const P: u64 = PAGE as u64;

#[test]
fn every_algorithm_returns_every_kind_of_page() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        let kinds = every_kind();
        let mut data = Mapping::new(kinds.len() * PAGE)?;
        let mut back = Mapping::new(kinds.len() * PAGE)?;
        for algorithm in target().algorithms {
            disk.set_up(algorithm, "8M")?;
            let file = disk.direct()?;
            // Twice, so that each kind also replaces another one.
            for round in 0..2 {
                for (n, page) in data.chunks_mut(PAGE).enumerate() {
                    pattern::fill(kinds[(n + 40 * round) % kinds.len()], n as u64, page);
                }
                blk::write(&file, &data, 0)?;
                back.fill(0xee);
                blk::read(&file, &mut back, 0)?;
                for (n, (data, back)) in data.chunks(PAGE).zip(back.chunks(PAGE)).enumerate() {
                    let kind = kinds[(n + 40 * round) % kinds.len()];
                    blk::equal(
                        &format!("{algorithm}, round {round}, a page of {kind:?}"),
                        data,
                        back,
                    )?;
                }
                let mm = disk.mm()?;
                same(
                    format!("{algorithm}: orig_data_size"),
                    kinds.len() as u64 * P,
                    mm.orig,
                )?;
                ensure!(
                    mm.compr < mm.orig,
                    "{algorithm}: nothing was compressed: {mm:?}"
                );
            }
            drop(file);
            disk.reset()?;
        }
        Ok(())
    })
}

#[test]
fn compression_is_about_as_good_as_the_algorithm_is() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        let mut data = Mapping::new(256 * PAGE)?;
        for (n, page) in data.chunks_mut(PAGE).enumerate() {
            pattern::fill(Kind::Text, n as u64, page);
        }
        for algorithm in target().algorithms {
            disk.set_up(algorithm, "8M")?;
            blk::write(&disk.direct()?, &data, 0)?;
            let mm = disk.mm()?;
            let percent = mm.compr * 100 / mm.orig;
            ensure!(
                (10..70).contains(&percent),
                "{algorithm}: text shrinks to {percent} %: {mm:?}"
            );
            ensure!(mm.used < mm.orig && mm.huge == 0, "{algorithm}: {mm:?}");
            disk.reset()?;
        }
        Ok(())
    })
}

#[test]
fn same_filled_pages_of_any_64_bit_word_are_counted_and_come_back() -> Result<()> {
    with_disk("8M", |disk| {
        let file = disk.direct()?;
        let count = WORD_PATTERNS.len() as u64;
        let mut page = Mapping::new(PAGE)?;
        for (block, word) in (0..).zip(WORD_PATTERNS) {
            pattern::fill(Kind::Word(word), 0, &mut page);
            blk::write(&file, &page, block * P)?;
            same(
                format!("same_pages after {word:#018x}"),
                block + 1,
                disk.mm()?.same,
            )?;
        }
        let mut expected = vec![0; PAGE];
        for (block, word) in (0..).zip(WORD_PATTERNS) {
            blk::read(&file, &mut page, block * P)?;
            pattern::fill(Kind::Word(word), 0, &mut expected);
            blk::equal(&format!("a page of {word:#018x}"), &expected, &page)?;
        }
        let mm = disk.mm()?;
        same("orig_data_size", count * P, mm.orig)?;
        same("huge_pages", 0, mm.huge)?;
        ensure!(
            mm.compr <= count * 64,
            "same-filled pages take next to no memory: {mm:?}"
        );
        // One word that differs makes it an ordinary page, wherever it is.
        for (block, at) in (0..).zip([0, 8, 2040, 4080, 4088, 4095]) {
            pattern::fill(Kind::Word(0x0123_4567_89ab_cdef), 0, &mut page);
            page[at] ^= 1;
            blk::write(&file, &page, block * P)?;
            same(
                format!("same_pages, byte {at} differs"),
                count - block - 1,
                disk.mm()?.same,
            )?;
            expected.copy_from_slice(&page);
            blk::read(&file, &mut page, block * P)?;
            blk::equal(
                &format!("a page of which byte {at} differs"),
                &expected,
                &page,
            )?;
        }
        blk::discard(&file, 0, 8 * MIB)?;
        drop(file);
        disk.wait_empty()
    })
}

#[test]
fn incompressible_pages_are_counted_and_come_back() -> Result<()> {
    with_disk("8M", |disk| {
        let file = disk.direct()?;
        let (mut data, mut back) = (Mapping::new(64 * PAGE)?, Mapping::new(64 * PAGE)?);
        pattern::fill(Kind::Random, 3, &mut data);
        blk::write(&file, &data, 0)?;
        blk::read(&file, &mut back, 0)?;
        blk::equal("incompressible pages", &data, &back)?;
        let mm = disk.mm()?;
        same("orig and compr", (64 * P, 64 * P), (mm.orig, mm.compr))?;
        same(
            "huge_pages and huge_pages_since",
            (64, 64),
            (mm.huge, mm.huge_since),
        )?;
        // Overwritten by something that compresses, one is not huge any more; it has been, though.
        pattern::fill(Kind::Text, 3, &mut data[..PAGE]);
        blk::write(&file, &data[..PAGE], 0)?;
        let mm = disk.mm()?;
        same(
            "after one was overwritten",
            (63, 64),
            (mm.huge, mm.huge_since),
        )?;
        blk::write(&file, &data[PAGE..2 * PAGE], P)?;
        same(
            "after one was written again",
            (63, 65),
            (disk.mm()?.huge, disk.mm()?.huge_since),
        )?;
        blk::discard(&file, 0, 64 * P)?;
        same(
            "after a discard",
            (0, 65),
            (disk.mm()?.huge, disk.mm()?.huge_since),
        )?;
        disk.wait_empty()
    })
}

#[test]
fn rewrites_of_other_sizes_replace_what_was_there() -> Result<()> {
    with_disk("8M", |disk| {
        let file = disk.direct()?;
        let (mut page, mut back) = (Mapping::new(PAGE)?, Mapping::new(PAGE)?);
        let kinds = every_kind();
        let mut rng = pattern::Rng::new(5, 0);
        for round in 0..600 {
            let block = round % 4;
            let kind = kinds[rng.below(kinds.len() as u64) as usize];
            pattern::fill(kind, round, &mut page);
            blk::write(&file, &page, block * P)?;
            blk::read(&file, &mut back, block * P)?;
            blk::equal(&format!("rewrite {round}, now {kind:?}"), &page, &back)?;
            let mm = disk.mm()?;
            ensure!(
                mm.orig <= 4 * P && mm.compr <= 4 * P,
                "old objects are not freed: {mm:?}"
            );
        }
        blk::discard(&file, 0, 4 * P)?;
        disk.wait_empty()
    })
}

#[test]
fn sectors_never_written_or_discarded_or_of_an_earlier_disk_read_as_zeros() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        let (mut data, mut back) = (Mapping::new(MIB as usize)?, Mapping::new(MIB as usize)?);
        let zeros = vec![0; MIB as usize];
        pattern::fill_all(1, 0, &mut data);
        disk.set("disksize", "64M")?;
        let file = disk.direct()?;
        for at in [0, 31 * MIB, 63 * MIB] {
            back.fill(0xee);
            blk::read(&file, &mut back, at)?;
            blk::equal("a new disk", &zeros, &back)?;
        }
        same("reading stores nothing", 0, disk.mm()?.orig)?;
        blk::write(&file, &data, 31 * MIB)?;
        for at in [30 * MIB, 32 * MIB] {
            blk::read(&file, &mut back, at)?;
            blk::equal("beside what was written", &zeros, &back)?;
        }
        blk::discard(&file, 31 * MIB, MIB)?;
        back.fill(0xee);
        blk::read(&file, &mut back, 31 * MIB)?;
        blk::equal("after a discard", &zeros, &back)?;
        blk::write(&file, &data, 31 * MIB)?;
        drop(file);
        disk.reset()?;
        disk.set("disksize", "64M")?;
        blk::read(&disk.direct()?, &mut back, 31 * MIB)?;
        blk::equal("after a reset", &zeros, &back)?;
        blk::write(&disk.direct()?, &data, 31 * MIB)?;
        disk.hot_remove().context("hot_remove")?;
        let disk = Disk::hot_add()?;
        disk.set("disksize", "64M")?;
        blk::read(&disk.direct()?, &mut back, 31 * MIB)?;
        blk::equal("a disk of the same number, made anew", &zeros, &back)?;
        disk.reset()
    })
}
