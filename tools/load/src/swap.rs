// SPDX-License-Identifier: GPL-2.0

//! A program that touches twice the memory that it may have: how long it takes to go out, and to come back.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use rzram_cells::Cell;
use rzram_guest::buf::Mapping;
use rzram_guest::run::run as command;
use rzram_guest::{attr, PAGE};

use crate::bench::size;
use crate::data::{self, POOL};
use crate::peers::{print, Matrix, Peers};
use crate::thread::mark;

/// What to measure.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    peers: Peers,
    #[command(flatten)]
    matrix: Matrix,
    /// Memory that the program may have; it uses twice as much
    #[arg(long, default_value = "32M", value_parser = size)]
    memory: u32,
}

const ROOT: &str = "/sys/fs/cgroup";

/// A control group with little memory that this process is in.
struct Limited;

impl Limited {
    fn new(bytes: u64) -> Result<Limited> {
        let root = Path::new(ROOT);
        if !root.join("cgroup.procs").exists() {
            command("mount", &["-t", "cgroup2", "none", ROOT])?;
        }
        let controllers = root.join("cgroup.subtree_control");
        attr::set(&controllers, "+memory")?;
        let group = root.join("rzram-load");
        fs::create_dir_all(&group)?;
        attr::set(&group.join("memory.max"), &bytes.to_string())?;
        attr::set(&group.join("cgroup.procs"), "0").context("entering the control group")?;
        Ok(Limited)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let root = Path::new(ROOT);
        let left = attr::set(&root.join("cgroup.procs"), "0")
            .and_then(|()| Ok(fs::remove_dir(root.join("rzram-load"))?));
        if let Err(error) = left {
            eprintln!("rzram-load: leaving the control group: {error:#}");
        }
    }
}

/// Fills memory, then reads all of it; nanoseconds for each.
fn touch(pool: &Mapping, pages: usize) -> Result<(u64, u64)> {
    let mut memory = Mapping::new(pages * PAGE)?;
    mark();
    let start = Instant::now();
    for (page, from) in memory
        .chunks_exact_mut(PAGE)
        .zip(pool.chunks_exact(PAGE).cycle())
    {
        page.copy_from_slice(from);
    }
    let out = start.elapsed();
    mark();
    mark();
    let start = Instant::now();
    let mut sum = 0u64;
    for page in memory.chunks_exact(PAGE) {
        sum = sum.wrapping_add(u64::from(page[17]));
    }
    let back = start.elapsed();
    mark();
    let expected = pool.chunks_exact(PAGE).cycle().take(pages);
    let expected = expected.fold(0u64, |sum, page| sum.wrapping_add(u64::from(page[17])));
    anyhow::ensure!(sum == expected, "what came back from swap is wrong");
    Ok((
        u64::try_from(out.as_nanos())?,
        u64::try_from(back.as_nanos())?,
    ))
}

/// Measures, and prints two lines for each: `swapout` and `swapin`.
pub fn run(options: &Options) -> Result<()> {
    // Page by page, as the pattern of accesses is simple enough for anything else.
    fs::write("/proc/sys/vm/page-cluster", "0")?;
    let pages = 2 * options.memory as usize / PAGE;
    for data in &options.matrix.data {
        let pool = data::pool(data, 7, POOL)?;
        for codec in options.matrix.codecs(&options.peers)? {
            for disk in options.peers.turns()? {
                disk.set_up(codec, 4 * u64::from(options.memory))?;
                command("mkswap", &[&disk.node()])?;
                command("swapon", &[&disk.node()])?;
                let (out, back) = {
                    let _limited = Limited::new(u64::from(options.memory))?;
                    touch(&pool, pages)?
                };
                command("swapoff", &[&disk.node()])?;
                disk.reset()?;
                for (load, ns) in [("swapout", out), ("swapin", back)] {
                    let cell = Cell {
                        load: load.into(),
                        codec: codec.to_owned(),
                        data: data.clone(),
                        request: PAGE as u32,
                        threads: 1,
                    };
                    print(&disk, cell, pages as u64, ns, &[]);
                }
            }
        }
    }
    Ok(())
}
