// SPDX-License-Identifier: GPL-2.0

//! One block that is read again and again, beside a writer with a slow algorithm on the same CPU.
//!
//! The reader sleeps in between, as a program does that waits for something, so that each read begins while the writer is in
//! the midst of something.

use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use rzram_cells::Cell;
use rzram_guest::buf::Mapping;
use rzram_guest::PAGE;

use crate::data::{self, POOL};
use crate::disk::Disk;
use crate::peers::{print, Peers};
use crate::thread::pin;

/// What to measure.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    peers: Peers,
    /// The writer's algorithm
    #[arg(long, default_value = "zstd:15")]
    codec: String,
    /// What blocks are made of
    #[arg(long, default_value = "half")]
    data: String,
    /// Reads
    #[arg(long, default_value_t = 1000)]
    reads: u64,
    /// Microseconds between two of them
    #[arg(long, default_value_t = 1000)]
    pause: u64,
}

/// The latencies of reads, in nanoseconds, sorted.
fn latencies(disk: &Disk, options: &Options, pool: &Mapping) -> Result<Vec<u64>> {
    let file = disk.open()?;
    // The hot block is the one behind what is written.
    let hot = POOL as u64;
    file.write_all_at(&pool[..PAGE], hot)?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| -> Result<()> {
            pin(0)?;
            let file = disk.open()?;
            while !stop.load(Ordering::Relaxed) {
                for (index, page) in pool.chunks_exact(PAGE).enumerate() {
                    file.write_all_at(page, (index * PAGE) as u64)?;
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            }
            Ok(())
        });
        let reader = scope.spawn(|| -> Result<Vec<u64>> {
            pin(0)?;
            let mut buffer = Mapping::new(PAGE)?;
            let mut all = Vec::new();
            for _ in 0..options.reads {
                thread::sleep(Duration::from_micros(options.pause));
                let start = Instant::now();
                file.read_exact_at(&mut buffer, hot)?;
                all.push(u64::try_from(start.elapsed().as_nanos())?);
            }
            Ok(all)
        });
        let all = reader.join();
        stop.store(true, Ordering::Relaxed);
        writer.join().ok().context("the writer died")??;
        let mut all = all.ok().context("the reader died")??;
        all.sort_unstable();
        Ok(all)
    })
}

/// Measures, and prints a line for each.
pub fn run(options: &Options) -> Result<()> {
    let pool = data::pool(&options.data, 1, POOL)?;
    for disk in options.peers.turns()? {
        disk.set_up(&options.codec, 2 * POOL as u64)?;
        let sorted = latencies(&disk, options, &pool)?;
        let at = |permille: usize| sorted.get(sorted.len() * permille / 1000).copied();
        let figures = [("p50", 500), ("p90", 900), ("p99", 990), ("p99.9", 999)];
        let figures: Vec<(&str, u64)> = figures
            .into_iter()
            .filter_map(|(name, permille)| Some((name, at(permille)?)))
            .collect();
        let cell = Cell {
            load: "hot".into(),
            codec: options.codec.clone(),
            data: options.data.clone(),
            request: PAGE as u32,
            threads: 2,
        };
        print(
            &disk,
            cell,
            sorted.len() as u64,
            sorted.iter().sum(),
            &figures,
        );
        disk.reset()?;
    }
    Ok(())
}
