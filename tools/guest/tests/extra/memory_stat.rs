// SPDX-License-Identifier: GPL-2.0

//! `memory_stat`: its names, and that its numbers are those of the other statistics.

use std::collections::BTreeMap;

use anyhow::{ensure, Context, Result};
use rzram_guest::disk::Disk;
use rzram_guest::module::with_module;
use rzram_guest::pattern::Kind;
use rzram_guest::target::target;
use rzram_guest::{same, MIB};

use rzram_guest::post::{bd, page, pages, Blocks, Ram, P};

const NAMES: [&str; 12] = [
    "stored_bytes",
    "compressed_bytes",
    "pool_bytes",
    "pool_max_bytes",
    "pool_limit_bytes",
    "table_bytes",
    "buffer_bytes",
    "total_bytes",
    "same_filled",
    "huge",
    "written_back",
    "ratio_percent",
];

/// Reads it; a line is a name, a space and a number.
fn figures(disk: &Disk) -> Result<BTreeMap<String, u64>> {
    let text = disk.get("memory_stat")?;
    let mut figures = BTreeMap::new();
    let mut exact = String::new();
    for (line, expected) in text.lines().zip(NAMES) {
        let (name, number) = line.split_once(' ').context("a line without a space")?;
        same("name", expected, name)?;
        let number: u64 = number.parse().with_context(|| line.to_owned())?;
        exact += &format!("{name} {number}\n");
        figures.insert(name.to_owned(), number);
    }
    same("memory_stat", exact, text)?;
    same("lines", NAMES.len(), figures.len())?;
    Ok(figures)
}

/// Compares with `mm_stat` and `bd_stat`, and returns the figures.
fn consistent(disk: &Disk) -> Result<BTreeMap<String, u64>> {
    let (figures, mm, bd) = (figures(disk)?, disk.mm()?, bd(disk)?);
    let used_max = u64::try_from(mm.used_max)?;
    for (name, expected) in [
        ("stored_bytes", mm.orig),
        ("compressed_bytes", mm.compr),
        ("pool_bytes", mm.used),
        ("pool_max_bytes", used_max),
        ("pool_limit_bytes", mm.limit),
        ("same_filled", mm.same),
        ("huge", mm.huge),
        ("written_back", bd.count),
    ] {
        same(name, expected, figures[name])?;
    }
    let total = figures["pool_bytes"] + figures["table_bytes"] + figures["buffer_bytes"];
    same("total_bytes", total, figures["total_bytes"])?;
    let in_memory = figures["stored_bytes"] - bd.count * P;
    let ratio = (in_memory * 100).checked_div(total).unwrap_or(0);
    same("ratio_percent", ratio, figures["ratio_percent"])?;
    Ok(figures)
}

#[test]
fn its_figures_are_those_of_the_other_statistics() -> Result<()> {
    if target().is_c_zram() {
        return Ok(()); // it has no such thing
    }
    let _ram = Ram::new(1024)?;
    with_module("track_access=1", || {
        let disk = Disk::new(0);
        ensure!(
            figures(&disk)?.values().all(|n| *n == 0),
            "not all zeros before set-up: {:?}",
            figures(&disk)?
        );
        disk.set("mem_limit", "10M")?;
        same("limit", 10 * MIB, consistent(&disk)?["pool_limit_bytes"])?;
        disk.set("mem_limit", "0")?;
        disk.set("backing_dev", Ram::NODE)?;
        disk.set("recomp_algorithm", "algo=zstd")?;
        disk.set("disksize", "1G")?;
        let empty = consistent(&disk)?;
        ensure!(empty["buffer_bytes"] > 0, "no buffers: {empty:?}");
        ensure!(empty["table_bytes"] < MIB, "an empty disk: {empty:?}");
        let mut blocks = Blocks::of(&disk)?;
        blocks.write_all(&pages(Kind::Text, 1, 200))?;
        for n in 0..20 {
            blocks.write(300 + n, &page(Kind::Random, n))?;
            blocks.write(400 + n, &page(Kind::Word(n), n))?;
            // Words that do not fit into a slot.
            blocks.write(500 + n, &page(Kind::Word(0x0123_4567_89ab_cdef ^ n), n))?;
        }
        let full = consistent(&disk)?;
        same("same_filled", 40, full["same_filled"])?;
        same("huge", 20, full["huge"])?;
        ensure!(
            full["table_bytes"] >= empty["table_bytes"],
            "the table shrank"
        );
        ensure!(full["ratio_percent"] > 30, "{full:?}");
        disk.set("recompress", "priority=1")?;
        let smaller = consistent(&disk)?;
        ensure!(
            smaller["compressed_bytes"] < full["compressed_bytes"],
            "recompression"
        );
        disk.set("writeback", "page_indexes=0-99")?;
        let out = consistent(&disk)?;
        same("written_back", 100, out["written_back"])?;
        ensure!(
            out["pool_bytes"] < smaller["pool_bytes"],
            "writeback freed nothing"
        );
        println!("{out:?}");
        blocks.discard(0, 1000)?;
        disk.wait_empty()?;
        let none = consistent(&disk)?;
        same("stored_bytes", 0, none["stored_bytes"])?;
        // The map of the device and the table of a range once used may stay.
        ensure!(none["total_bytes"] < out["total_bytes"], "{none:?}");
        drop(blocks);
        disk.reset()?;
        ensure!(figures(&disk)?.values().all(|n| *n == 0), "after a reset");
        Ok(())
    })
}

#[test]
fn buffers_count_for_each_algorithm() -> Result<()> {
    if target().is_c_zram() {
        return Ok(());
    }
    with_module("", || {
        let disk = Disk::new(0);
        let bytes = |second: Option<&str>| -> Result<u64> {
            if let Some(second) = second {
                disk.set("recomp_algorithm", second)?;
            }
            disk.set("disksize", "1M")?;
            let figures = consistent(&disk)?;
            disk.reset()?;
            Ok(figures["buffer_bytes"])
        };
        let (one, two) = (bytes(None)?, bytes(Some("algo=zstd"))?);
        ensure!(two > one, "{one} bytes for one algorithm, {two} for two");
        Ok(())
    })
}
