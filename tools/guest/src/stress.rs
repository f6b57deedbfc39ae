// SPDX-License-Identifier: GPL-2.0

//! Load from several threads at once, each of which checks everything it reads.

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure, Context, Result};

use crate::blk;
use crate::buf::Mapping;
use crate::disk::Disk;
use crate::pattern::{self, Rng};
use crate::PAGE;

const P: u64 = PAGE as u64;

/// Tells threads to stop, by time or because one of them failed.
pub struct Until {
    end: Instant,
    stop: AtomicBool,
    /// Operations done, for the record.
    pub done: AtomicU64,
}

impl Until {
    /// Lets threads run for this long.
    pub fn after(duration: Duration) -> Until {
        Until {
            end: Instant::now() + duration,
            stop: AtomicBool::new(false),
            done: AtomicU64::new(0),
        }
    }

    /// Whether to go on; counts an operation.
    pub fn more(&self) -> bool {
        self.done.fetch_add(1, Ordering::Relaxed);
        !self.stop.load(Ordering::Relaxed) && Instant::now() < self.end
    }

    /// Ends the run.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// One thread's work: runs until told to stop, and says what went wrong.
pub type Work<'a> = Box<dyn FnOnce(&Until) -> Result<()> + Send + 'a>;

/// Runs all `work` at once until the time is over or one fails; the first failure is the result.
pub fn together(until: &Until, work: Vec<(&str, Work<'_>)>) -> Result<()> {
    thread::scope(|scope| {
        let threads: Vec<_> = work
            .into_iter()
            .map(|(name, body)| {
                let thread = scope.spawn(move || {
                    let result = body(until);
                    if result.is_err() {
                        until.stop();
                    }
                    result
                });
                (name, thread)
            })
            .collect();
        let mut outcome = Ok(());
        for (name, thread) in threads {
            let result = thread
                .join()
                .unwrap_or_else(|_| Err(anyhow!("the thread panicked")));
            if outcome.is_ok() {
                outcome = result.with_context(|| format!("in thread {name}"));
            }
        }
        outcome
    })
}

/// Writes stamped pages to random blocks of `0..blocks`, which others write and discard as well.
pub fn writer<'a>(disk: Disk, blocks: u64, seed: u64) -> Work<'a> {
    Box::new(move |until| {
        let file = disk.direct()?;
        let mut page = Mapping::new(PAGE)?;
        let mut rng = Rng::new(seed, 1);
        while until.more() {
            let block = rng.below(blocks);
            let version = 1 + rng.below(u64::from(u32::MAX) - 1);
            pattern::stamp(block, version, &mut page);
            blk::write(&file, &page, block * P)?;
        }
        Ok(())
    })
}

/// Reads random blocks: each must hold zeros or one whole version of itself.
pub fn reader<'a>(disk: Disk, blocks: u64, seed: u64) -> Work<'a> {
    Box::new(move |until| {
        let file = disk.direct()?;
        let (mut page, mut scratch) = (Mapping::new(PAGE)?, Mapping::new(PAGE)?);
        let mut rng = Rng::new(seed, 2);
        while until.more() {
            let block = rng.below(blocks);
            blk::read(&file, &mut page, block * P)?;
            pattern::version(block, &page, &mut scratch)?;
        }
        Ok(())
    })
}

/// Discards random runs of up to eight blocks.
pub fn discarder<'a>(disk: Disk, blocks: u64, seed: u64) -> Work<'a> {
    Box::new(move |until| {
        let file = disk.direct()?;
        let mut rng = Rng::new(seed, 3);
        while until.more() {
            let block = rng.below(blocks);
            let count = (1 + rng.below(8)).min(blocks - block);
            blk::discard(&file, block * P, count * P).context("discarding")?;
        }
        Ok(())
    })
}

/// Reads `mm_stat` all the while: its numbers must be possible at any time.
pub fn statistician<'a>(disk: Disk, disksize: u64) -> Work<'a> {
    Box::new(move |until| {
        while until.more() {
            disk.mm()?.plausible(disksize)?;
        }
        Ok(())
    })
}

/// Alone owns the blocks `first..first + count`, so it knows exactly what each must hold; writes,
/// reads and discards them at random and in runs, and checks them all once more at the end.
pub fn owner<'a>(disk: Disk, first: u64, count: u64, seed: u64) -> Work<'a> {
    Box::new(move |until| {
        let mut owner = Owner::new(disk, first, count, seed)?;
        while until.more() {
            owner.step()?;
        }
        owner.check_all()
    })
}

/// See [`owner`].
pub struct Owner {
    file: File,
    first: u64,
    versions: Vec<u64>,
    rng: Rng,
    run: Mapping,
    scratch: Mapping,
}

/// The longest run of an [`Owner`], in blocks.
const RUN: u64 = 16;

impl Owner {
    /// Takes possession of blocks that hold zeros so far.
    pub fn new(disk: Disk, first: u64, count: u64, seed: u64) -> Result<Owner> {
        ensure!(count > 0, "an owner needs blocks");
        Ok(Owner {
            file: disk.direct()?,
            first,
            versions: vec![0; count as usize],
            rng: Rng::new(seed, 4),
            run: Mapping::new(RUN as usize * PAGE)?,
            scratch: Mapping::new(PAGE)?,
        })
    }

    /// One write, read or discard.
    pub fn step(&mut self) -> Result<()> {
        let at = self.rng.below(self.versions.len() as u64);
        let len = (1 + self.rng.below(RUN)).min(self.versions.len() as u64 - at);
        match self.rng.below(8) {
            0..=3 => self.write(at, len),
            4..=6 => self.check(at, len),
            _ => {
                blk::discard(&self.file, (self.first + at) * P, len * P).context("discarding")?;
                self.versions[at as usize..(at + len) as usize].fill(0);
                Ok(())
            }
        }
    }

    fn write(&mut self, at: u64, len: u64) -> Result<()> {
        for n in 0..len {
            let version = 1 + self.rng.below(u64::from(u32::MAX) - 1);
            self.versions[(at + n) as usize] = version;
            let page = &mut self.run[n as usize * PAGE..][..PAGE];
            pattern::stamp(self.first + at + n, version, page);
        }
        blk::write(
            &self.file,
            &self.run[..len as usize * PAGE],
            (self.first + at) * P,
        )
    }

    fn check(&mut self, at: u64, len: u64) -> Result<()> {
        let bytes = len as usize * PAGE;
        blk::read(&self.file, &mut self.run[..bytes], (self.first + at) * P)?;
        for n in 0..len {
            let block = self.first + at + n;
            pattern::stamp(block, self.versions[(at + n) as usize], &mut self.scratch);
            let page = &self.run[n as usize * PAGE..][..PAGE];
            blk::equal(
                &format!("block {block}, of which this thread is the only user"),
                &self.scratch,
                page,
            )?;
        }
        Ok(())
    }

    /// Compares every block.
    pub fn check_all(&mut self) -> Result<()> {
        let count = self.versions.len() as u64;
        for at in (0..count).step_by(RUN as usize) {
            self.check(at, RUN.min(count - at))?;
        }
        Ok(())
    }
}
