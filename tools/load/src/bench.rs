// SPDX-License-Identifier: GPL-2.0

//! Reading and writing a disk in the patterns of iozone, each thread in a region of its own.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

use anyhow::{bail, ensure, Result};
use clap::Args;
use rzram_cells::Cell;
use rzram_guest::buf::Mapping;
use rzram_guest::pattern::Rng;
use rzram_guest::PAGE;

use crate::data::{self, POOL};
use crate::disk::Disk;
use crate::peers::{print, Matrix, Peers};
use crate::thread::together;

/// What to measure: all combinations.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    peers: Peers,
    #[command(flatten)]
    matrix: Matrix,
    /// Sizes of requests
    #[arg(long, value_delimiter = ',', default_value = "16K", value_parser = size)]
    requests: Vec<u32>,
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_value = "1")]
    threads: Vec<u32>,
    /// Loads, in this order, on a disk that is empty at first
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "write,rewrite,read,randread,mixed,randwrite"
    )]
    loads: Vec<String>,
    /// Size of each thread's region
    #[arg(long, default_value = "1M", value_parser = size)]
    region: u32,
}

/// A size on the command line.
pub fn size(text: &str) -> Result<u32, String> {
    rzram_cells::bytes(text)
        .and_then(|bytes| u32::try_from(bytes).ok())
        .filter(|bytes| *bytes > 0 && *bytes as usize % PAGE == 0)
        .ok_or_else(|| format!("{text}: not a size that is a multiple of 4K"))
}

/// What a thread does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Read,
    Write,
    /// In turns.
    Both,
}

/// In which order it goes through its region.
#[derive(Clone, Copy)]
enum Order {
    Forward,
    Backward,
    /// In steps of this many requests.
    Stride(usize),
    Random,
}

/// A load for a thread.
#[derive(Clone, Copy)]
struct Load {
    action: Action,
    order: Order,
    /// With the position in the call, rather than moving the file's.
    positioned: bool,
}

impl Load {
    /// The load of this name, for one of several threads.
    fn new(name: &str, thread: u32, threads: u32) -> Result<Load> {
        use {Action::*, Order::*};
        // As in iozone: each thread reads or writes.
        let mixed = match (threads, thread % 2) {
            (1, _) => Both,
            (_, 0) => Read,
            _ => Write,
        };
        let (action, order, positioned) = match name {
            "write" | "rewrite" => (Write, Forward, false),
            "read" | "reread" => (Read, Forward, false),
            "reverse" => (Read, Backward, false),
            "stride" => (Read, Stride(17), false),
            "randread" => (Read, Random, false),
            "mixed" => (mixed, Random, false),
            "randwrite" => (Write, Random, false),
            "pwrite" => (Write, Forward, true),
            "pread" => (Read, Forward, true),
            other => bail!("load {other}: not one of write, rewrite, read, reread, reverse, stride, randread, mixed, randwrite, pwrite, pread"),
        };
        Ok(Load {
            action,
            order,
            positioned,
        })
    }

    /// The numbers of the requests in a region of `count`, each once.
    fn sequence(&self, count: usize, seed: u64) -> Vec<usize> {
        let mut all: Vec<usize> = match self.order {
            Order::Forward | Order::Random => (0..count).collect(),
            Order::Backward => (0..count).rev().collect(),
            Order::Stride(step) => (0..step.min(count))
                .flat_map(|first| (first..count).step_by(step))
                .collect(),
        };
        if let Order::Random = self.order {
            let mut rng = Rng::new(seed, 0x5e9);
            for at in (1..count).rev() {
                all.swap(at, rng.below(at as u64 + 1) as usize);
            }
        }
        all
    }
}

/// One thread's part: its file, its region, its data.
struct Worker<'a> {
    file: File,
    base: u64,
    request: usize,
    pool: &'a Mapping,
    buffer: Mapping,
    sequence: Vec<usize>,
    load: Load,
}

impl Worker<'_> {
    fn run(mut self) -> Result<()> {
        for (turn, number) in self.sequence.iter().enumerate() {
            let offset = number * self.request;
            let position = self.base + offset as u64;
            let writes = match self.load.action {
                Action::Read => false,
                Action::Write => true,
                Action::Both => turn % 2 == 1,
            };
            if !self.load.positioned {
                self.file.seek(SeekFrom::Start(position))?;
            }
            if writes {
                let from = offset % (POOL - self.request + 1) / PAGE * PAGE;
                let data = &self.pool[from..from + self.request];
                match self.load.positioned {
                    true => self.file.write_all_at(data, position)?,
                    false => self.file.write_all(data)?,
                }
            } else {
                match self.load.positioned {
                    true => self.file.read_exact_at(&mut self.buffer, position)?,
                    false => self.file.read_exact(&mut self.buffer)?,
                }
            }
        }
        Ok(())
    }
}

/// Measures a load once on a disk, and prints a line for it.
fn measure(disk: &Disk, cell: &Cell, region: u32, pools: &[Mapping]) -> Result<()> {
    let count = (region / cell.request) as usize;
    let mut workers = Vec::new();
    for (thread, pool) in (0..cell.threads).zip(pools) {
        let load = Load::new(&cell.load, thread, cell.threads)?;
        let worker = Worker {
            file: disk.open()?,
            base: u64::from(thread) * u64::from(region),
            request: cell.request as usize,
            pool,
            buffer: Mapping::new(cell.request as usize)?,
            sequence: load.sequence(count, u64::from(thread)),
            load,
        };
        workers.push(worker);
    }
    // So that no page of a buffer is missing when it is read to.
    for worker in &mut workers {
        worker.buffer.fill(1);
    }
    let jobs = workers.into_iter().map(|worker| || worker.run()).collect();
    let blocks = u64::from(cell.threads) * count as u64 * u64::from(cell.request) / PAGE as u64;
    print(disk, cell.clone(), blocks, together(jobs)?, &[]);
    Ok(())
}

/// Runs all combinations, and prints a line for each.
pub fn run(options: &Options) -> Result<()> {
    for load in &options.loads {
        Load::new(load, 0, 1)?;
    }
    for request in &options.requests {
        ensure!(
            *request <= options.region && *request as usize <= POOL,
            "requests have to fit into a region, and into {}",
            rzram_cells::size(POOL as u64)
        );
    }
    for data in &options.matrix.data {
        let most = options.threads.iter().max().copied().unwrap_or(1);
        let pools: Vec<Mapping> = (0..most)
            .map(|thread| data::pool(data, u64::from(thread)))
            .collect::<Result<_>>()?;
        for codec in options.matrix.codecs(&options.peers)? {
            for &threads in &options.threads {
                for &request in &options.requests {
                    for disk in options.peers.turns()? {
                        disk.set_up(codec, u64::from(threads) * u64::from(options.region))?;
                        for load in &options.loads {
                            let cell = Cell {
                                load: load.clone(),
                                codec: codec.to_owned(),
                                data: data.clone(),
                                request,
                                threads,
                            };
                            measure(&disk, &cell, options.region, &pools)?;
                        }
                        disk.reset()?;
                    }
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_comes_once() -> Result<()> {
        for name in ["write", "reverse", "stride", "randread", "mixed"] {
            for count in [1, 2, 16, 17, 18, 64] {
                let mut sequence = Load::new(name, 0, 2)?.sequence(count, 5);
                sequence.sort_unstable();
                assert_eq!(sequence, (0..count).collect::<Vec<_>>(), "{name}");
            }
        }
        Ok(())
    }

    #[test]
    fn half_of_the_threads_read_where_it_is_mixed() -> Result<()> {
        assert!(Load::new("mixed", 0, 1)?.action == Action::Both);
        assert!(Load::new("mixed", 0, 2)?.action == Action::Read);
        assert!(Load::new("mixed", 1, 2)?.action == Action::Write);
        assert!(Load::new("sideways", 1, 2).is_err());
        Ok(())
    }
}
