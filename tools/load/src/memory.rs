// SPDX-License-Identifier: GPL-2.0

//! How much memory the same data takes.

use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};
use clap::Args;
use rzram_cells::Cell;
use rzram_guest::buf::Mapping;
use rzram_guest::stat::{meminfo, MmStat};
use rzram_guest::{attr, PAGE};

use crate::bench::size;
use crate::data::{self, POOL};
use crate::disk::Disk;
use crate::peers::{print, Matrix, Peers};

/// What to measure: all combinations.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    peers: Peers,
    #[command(flatten)]
    matrix: Matrix,
    /// Size of the disk
    #[arg(long, default_value = "1G", value_parser = size)]
    disksize: u32,
    /// How much is written, from the beginning on
    #[arg(long, default_value = "64M", value_parser = size)]
    written: u32,
}

/// All memory in use but caches of files. Differences of it are what a disk takes, the rest of the guest being at rest.
fn memory_in_use() -> Result<u64> {
    // What is about to be freed would otherwise count.
    attr::set("/proc/sys/vm/drop_caches".as_ref(), "3")?;
    std::thread::sleep(std::time::Duration::from_millis(300));
    let free = meminfo("MemFree")?;
    Ok(meminfo("MemTotal")?.saturating_sub(free))
}

/// Sets a disk up, writes to it and takes it all away again: what it took meanwhile, by name.
fn measure(
    disk: &Disk,
    codec: &str,
    pool: &Mapping,
    options: &Options,
) -> Result<Vec<(&'static str, u64)>> {
    disk.reset()?;
    let before = memory_in_use()?;
    disk.set_up(codec, u64::from(options.disksize))?;
    let empty = memory_in_use()?;
    let file = disk.open()?;
    for at in (0..u64::from(options.written)).step_by(POOL) {
        file.write_all_at(pool, at)
            .context("writing what is to be measured")?;
    }
    drop(file);
    let full = memory_in_use()?;
    let mm = MmStat::parse(&attr::read(&disk.attribute("mm_stat"))?)?;
    let mut figures = vec![
        ("pool", mm.used),
        ("all", full.saturating_sub(before)),
        ("empty", empty.saturating_sub(before)),
    ];
    // What the driver itself says of its table, if it does.
    if let Ok(text) = attr::read(&disk.attribute("memory_stat")) {
        let mut lines = text.lines();
        let table = lines.find_map(|line| line.strip_prefix("table_bytes "));
        let table = table.context("memory_stat has no table_bytes")?;
        figures.push(("table", table.parse()?));
    }
    disk.reset()?;
    Ok(figures)
}

/// Measures, and prints a line for each.
pub fn run(options: &Options) -> Result<()> {
    // Or CPUs keep tens of megabytes of free pages to themselves, which count as in use.
    let limit = "/proc/sys/vm/percpu_pagelist_high_fraction";
    attr::set(limit.as_ref(), "1000000")?;
    let mut first = true;
    for data in &options.matrix.data {
        let pool = data::pool(data, 3, POOL)?;
        for codec in options.matrix.codecs(&options.peers)? {
            for disk in options.peers.turns()? {
                if first {
                    // What they keep already goes with what is freed here.
                    measure(&disk, codec, &pool, options)?;
                    first = false;
                }
                let figures = measure(&disk, codec, &pool, options)?;
                let cell = Cell {
                    load: "memory".into(),
                    codec: codec.to_owned(),
                    data: data.clone(),
                    request: POOL as u32,
                    threads: 1,
                };
                let blocks = u64::from(options.written) / PAGE as u64;
                print(&disk, cell, blocks, 0, &figures);
            }
        }
    }
    Ok(())
}
