// SPDX-License-Identifier: GPL-2.0

//! How much memory the same data takes.

use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};
use clap::Args;
use rzram_cells::{Cell, Run};
use rzram_guest::stat::{meminfo, MmStat};
use rzram_guest::{attr, PAGE};

use crate::bench::size;
use crate::data::{self, POOL};
use crate::disk::Disk;

/// What to measure: all combinations.
#[derive(Args)]
pub struct Options {
    /// Modules
    #[arg(long, value_delimiter = ',', default_value = "zram,rzram")]
    modules: Vec<String>,
    /// Algorithms
    #[arg(long, value_delimiter = ',', default_value = "lz4")]
    codecs: Vec<String>,
    /// What blocks are made of
    #[arg(long, value_delimiter = ',', default_value = "half")]
    data: Vec<String>,
    /// Size of the disk
    #[arg(long, default_value = "1G", value_parser = size)]
    disksize: u32,
    /// How much is written, from the beginning on
    #[arg(long, default_value = "64M", value_parser = size)]
    written: u32,
}

/// Kernel memory in use that is neither a pool's nor user space's: tables and buffers are in it, from `vmalloc()`, the slab and
/// the page allocator. Taken as a difference, the rest of the guest being at rest.
fn kernel_memory() -> Result<u64> {
    // What is free but cached for a CPU, or about to be freed, would otherwise count as used.
    attr::set("/proc/sys/vm/drop_caches".as_ref(), "3")?;
    std::thread::sleep(std::time::Duration::from_millis(300));
    let free = meminfo("MemFree")?;
    Ok(meminfo("MemTotal")?.saturating_sub(free))
}

/// Measures, and prints a line for each.
pub fn run(options: &Options) -> Result<()> {
    for data in &options.data {
        let pool = data::pool(data, 3)?;
        for codec in &options.codecs {
            for module in &options.modules {
                let disk = Disk::new(module)?;
                if !disk.has(codec)? {
                    continue;
                }
                disk.reset()?;
                let before = kernel_memory()?;
                disk.set_up(codec, u64::from(options.disksize))?;
                let empty = kernel_memory()?;
                let file = disk.open()?;
                for at in (0..u64::from(options.written)).step_by(POOL) {
                    file.write_all_at(&pool, at)
                        .context("writing what is to be measured")?;
                }
                drop(file);
                let full = kernel_memory()?;
                let mm = MmStat::parse(&attr::read(&disk.attribute("mm_stat"))?)?;
                let cell = Cell {
                    load: "memory".into(),
                    codec: codec.clone(),
                    data: data.clone(),
                    request: POOL as u32,
                    threads: 1,
                };
                let figures = [
                    ("pool", mm.used),
                    ("all", full.saturating_sub(before)),
                    ("empty", empty.saturating_sub(before)),
                ];
                let run = Run {
                    cell,
                    module: disk.module.clone(),
                    blocks: u64::from(options.written) / PAGE as u64,
                    ns: 0,
                    virtual_time: None,
                    figures: figures
                        .into_iter()
                        .map(|(name, value)| (name.to_owned(), value))
                        .collect(),
                };
                println!("{}", run.to_line());
                disk.reset()?;
            }
        }
    }
    Ok(())
}
