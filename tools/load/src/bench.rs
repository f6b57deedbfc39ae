// SPDX-License-Identifier: GPL-2.0

//! Reading and writing a disk in the patterns of iozone, each thread in a region of its own.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use anyhow::{bail, ensure, Result};
use clap::Args;
use rzram_cells::Cell;
use rzram_guest::buf::Mapping;
use rzram_guest::pattern::Rng;
use rzram_guest::PAGE;

use crate::apart::Times;
use crate::data;
use crate::disk::Disk;
use crate::peers::{print, Matrix, Peers};
use crate::thread::{together, Wall};

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
    /// How much data each thread has to write, before the same comes again
    #[arg(long, default_value = "4M", value_parser = size)]
    pool: u32,
    /// Time each request, look at what is read, and print one result for each module and load: what the medians of each
    /// request's times in all turns add up to. For a clock that other programs disturb
    #[arg(long)]
    apart: bool,
    /// Measure until the first thread is done, as iozone does, and count what all have done by then
    #[arg(long, conflicts_with = "apart")]
    wall: bool,
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

/// Where in a pool of `size` the data of a request comes from.
fn source(number: usize, request: usize, size: usize) -> Range<usize> {
    let from = number * request % (size - request + 1) / PAGE * PAGE;
    from..from + request
}

/// One thread's part: its file, its region, its data.
pub struct Worker<'a> {
    file: File,
    base: u64,
    request: usize,
    pool: &'a Mapping,
    buffer: Mapping,
    sequence: Vec<usize>,
    load: Load,
}

impl Worker<'_> {
    fn run(mut self, wall: Option<&Wall>) -> Result<()> {
        let sequence = std::mem::take(&mut self.sequence);
        for (turn, number) in sequence.into_iter().enumerate() {
            self.request(turn, number)?;
            if let Some(wall) = wall {
                wall.count();
            }
        }
        if let Some(wall) = wall {
            wall.put_up();
        }
        Ok(())
    }

    /// The same, each request timed: its time is added to those at its number.
    pub fn run_apart(mut self, times: &mut [Vec<u64>]) -> Result<()> {
        let sequence = std::mem::take(&mut self.sequence);
        for (turn, number) in sequence.into_iter().enumerate() {
            let begun = Instant::now();
            self.request(turn, number)?;
            let took = begun.elapsed();
            times[number].push(u64::try_from(took.as_nanos())?);
            if !self.writes(turn) {
                ensure!(
                    *self.buffer == *self.data(number),
                    "what was read at {} is not what was written",
                    number * self.request
                );
            }
        }
        Ok(())
    }

    fn writes(&self, turn: usize) -> bool {
        match self.load.action {
            Action::Read => false,
            Action::Write => true,
            Action::Both => turn % 2 == 1,
        }
    }

    /// What belongs at this request.
    fn data(&self, number: usize) -> &[u8] {
        &self.pool[source(number, self.request, self.pool.len())]
    }

    fn request(&mut self, turn: usize, number: usize) -> Result<()> {
        let position = self.base + (number * self.request) as u64;
        if !self.load.positioned {
            self.file.seek(SeekFrom::Start(position))?;
        }
        if self.writes(turn) {
            match self.load.positioned {
                true => self.file.write_all_at(self.data(number), position)?,
                // As `write_all`, of a file that does not borrow all of this.
                false => (&self.file).write_all(self.data(number))?,
            }
        } else {
            match self.load.positioned {
                true => self.file.read_exact_at(&mut self.buffer, position)?,
                false => self.file.read_exact(&mut self.buffer)?,
            }
        }
        Ok(())
    }
}

/// The threads of a load on a disk.
pub fn workers<'a>(
    disk: &Disk,
    cell: &Cell,
    region: u32,
    pools: &'a [Mapping],
) -> Result<Vec<Worker<'a>>> {
    let count = (region / cell.request) as usize;
    let mut workers = Vec::new();
    for (thread, pool) in (0..cell.threads).zip(pools) {
        let load = Load::new(&cell.load, thread, cell.threads)?;
        let mut worker = Worker {
            file: disk.open()?,
            base: u64::from(thread) * u64::from(region),
            request: cell.request as usize,
            pool,
            buffer: Mapping::new(cell.request as usize)?,
            sequence: load.sequence(count, u64::from(thread)),
            load,
        };
        // So that no page of a buffer is missing when it is read to.
        worker.buffer.fill(1);
        workers.push(worker);
    }
    Ok(workers)
}

/// How many blocks the threads of a cell go through.
pub fn blocks(cell: &Cell, region: u32) -> u64 {
    let requests = u64::from(cell.threads) * u64::from(region / cell.request);
    requests * u64::from(cell.request) / PAGE as u64
}

/// Measures a load once on a disk, and prints a line for it.
fn measure(
    disk: &Disk,
    cell: &Cell,
    region: u32,
    pools: &[Mapping],
    with_wall: bool,
) -> Result<()> {
    let wall = with_wall.then(Wall::default);
    let wall = wall.as_ref();
    let workers = workers(disk, cell, region, pools)?.into_iter();
    let jobs = workers.map(|worker| move || worker.run(wall)).collect();
    let took = together(jobs, wall)?;
    let blocks = match wall {
        Some(wall) => wall.done() * u64::from(cell.request) / PAGE as u64,
        None => blocks(cell, region),
    };
    print(disk, cell.clone(), blocks, took, &[]);
    Ok(())
}

/// Makes sure that the disk has what was written: a time is worth nothing if it has not. Nothing to do for loads none of
/// which writes everything.
fn verify(disk: &Disk, cell: &Cell, options: &Options, pools: &[Mapping]) -> Result<()> {
    let whole = ["write", "rewrite", "randwrite", "pwrite"];
    if !options.loads.iter().any(|load| whole.contains(&&**load)) {
        return Ok(());
    }
    let file = disk.open()?;
    let request = cell.request as usize;
    let mut buffer = Mapping::new(request)?;
    for (thread, pool) in (0..cell.threads).zip(pools) {
        let base = u64::from(thread) * u64::from(options.region);
        for number in 0..options.region as usize / request {
            let position = base + (number * request) as u64;
            file.read_exact_at(&mut buffer, position)?;
            ensure!(
                buffer[..] == pool[source(number, request, pool.len())],
                "{}: {} holds something else at {position} than was written there",
                disk.module,
                disk.node()
            );
        }
    }
    Ok(())
}

/// Runs all combinations, and prints a line for each.
pub fn run(options: &Options) -> Result<()> {
    for load in &options.loads {
        Load::new(load, 0, 1)?;
    }
    for request in &options.requests {
        ensure!(
            *request <= options.region && *request <= options.pool,
            "requests have to fit into a region, and into {}",
            rzram_cells::size(u64::from(options.pool))
        );
    }
    for data in &options.matrix.data {
        let most = options.threads.iter().max().copied().unwrap_or(1);
        let pools: Vec<Mapping> = (0..most)
            .map(|thread| data::pool(data, u64::from(thread), options.pool as usize))
            .collect::<Result<_>>()?;
        for codec in options.matrix.codecs(&options.peers)? {
            for &threads in &options.threads {
                for &request in &options.requests {
                    let cell = Cell {
                        load: String::new(),
                        codec: codec.to_owned(),
                        data: data.clone(),
                        request,
                        threads,
                    };
                    turns(options, &cell, &pools)?;
                }
            }
        }
    }
    Ok(())
}

/// Measures all loads of a combination, each disk in its turn.
fn turns(options: &Options, cell: &Cell, pools: &[Mapping]) -> Result<()> {
    let mut times = Times::default();
    let size = u64::from(cell.threads) * u64::from(options.region);
    for disk in options.peers.turns()? {
        disk.set_up(&cell.codec, size)?;
        for load in &options.loads {
            let cell = Cell {
                load: load.clone(),
                ..cell.clone()
            };
            match options.apart {
                true => times.measure(&disk, &cell, options.region, pools)?,
                false => measure(&disk, &cell, options.region, pools, options.wall)?,
            }
        }
        verify(&disk, cell, options, pools)?;
        disk.reset()?;
    }
    times.print();
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
