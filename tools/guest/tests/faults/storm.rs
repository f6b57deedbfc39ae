// SPDX-License-Identifier: GPL-2.0

//! Everything at random, while a part of all allocations of the module fails.

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use rzram_guest::buf::Mapping;
use rzram_guest::disk::Disk;
use rzram_guest::faults::{at_least, note, Faults, Of};
use rzram_guest::module::with_module;
use rzram_guest::pattern::{self, Rng};
use rzram_guest::post::{bd, Ram};
use rzram_guest::{blk, same, MIB, PAGE};

const BLOCKS: u64 = 1024;
const P: u64 = PAGE as u64;
const ROUNDS: u64 = 3000;

/// What each block should hold, as the versions of [`pattern::stamp`]: the last one written, and those
/// that a failed request may have written.
struct Model(Vec<Vec<u64>>);

/// How many operations were done, and how many of them failed.
#[derive(Default)]
struct Counts {
    done: u64,
    failed: u64,
}

struct Storm<'a> {
    disk: &'a Disk,
    file: std::fs::File,
    model: Model,
    rng: Rng,
    version: u64,
    counts: Counts,
}

impl Storm<'_> {
    /// Counts, and fails if it is not one of the errors that may come.
    fn came<T>(&mut self, what: &str, errors: &[Errno], result: nix::Result<T>) -> Result<bool> {
        self.counts.done += 1;
        if let Err(error) = result {
            ensure!(errors.contains(&error), "{what}: {error:?}");
            self.counts.failed += 1;
            return Ok(false);
        }
        Ok(true)
    }

    fn some_blocks(&mut self) -> (u64, u64) {
        let count = 1 + self.rng.below(1 << self.rng.clone().below(5));
        (self.rng.below(BLOCKS - count), count)
    }

    fn write(&mut self) -> Result<()> {
        let (first, count) = self.some_blocks();
        self.version += 1;
        let mut data = Mapping::new(count as usize * PAGE)?;
        for (index, page) in (first..).zip(data.chunks_mut(PAGE)) {
            pattern::stamp(index, self.version, page);
        }
        let result = blk::try_write(&self.file, &data, first * P);
        let done = self.came("write", &[Errno::EIO], result)?;
        for index in first..first + count {
            let versions = &mut self.model.0[index as usize];
            if done {
                versions.clear();
            }
            // A block alone is written or not at all.
            if done || count > 1 {
                versions.push(self.version);
            }
        }
        Ok(())
    }

    fn discard(&mut self) -> Result<()> {
        let (first, count) = self.some_blocks();
        let result = blk::discard(&self.file, first * P, count * P);
        // What the kernel needs for it is not allocated for the module.
        self.came("discard", &[], result)?;
        for index in first..first + count {
            self.model.0[index as usize] = vec![0];
        }
        Ok(())
    }

    fn read(&mut self, first: u64, count: u64, errors: &[Errno]) -> Result<()> {
        let mut data = Mapping::new(count as usize * PAGE)?;
        let result = blk::try_read(&self.file, &mut data, first * P);
        if !self.came("read", errors, result)? {
            return Ok(());
        }
        let mut scratch = vec![0; PAGE];
        for (index, page) in (first..).zip(data.chunks(PAGE)) {
            let version = pattern::version(index, page, &mut scratch)?;
            let versions = &mut self.model.0[index as usize];
            ensure!(
                versions.contains(&version),
                "block {index}\n  expected: one of the versions {versions:?}\n  came:     {version}"
            );
            *versions = vec![version];
        }
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        let (first, count) = self.some_blocks();
        let range = format!("page_indexes={first}-{}", first + count - 1);
        match self.rng.below(16) {
            0..6 => self.write(),
            6..10 => self.read(first, count, &[Errno::EIO]),
            10 => self.discard(),
            11 => {
                let result = self.disk.put("idle", "all");
                self.came("idle", &[], result).map(drop)
            }
            12 => {
                let result = self.disk.put("recompress", "type=idle max_pages=30");
                self.came("recompress", &[Errno::ENOMEM], result).map(drop)
            }
            13 => {
                let result = self.disk.put("compact", "1");
                self.came("compact", &[], result).map(drop)
            }
            _ => {
                let batch = ["1", "8"][self.rng.below(2) as usize];
                self.disk.set("writeback_batch_size", batch)?;
                let result = self.disk.put("writeback", &range);
                self.came("writeback", &[Errno::ENOMEM, Errno::EIO], result)
                    .map(drop)
            }
        }
    }
}

#[test]
fn no_byte_is_wrong_whatever_fails() -> Result<()> {
    let _ram = Ram::new(BLOCKS * 4)?;
    with_module("track_access=1", || {
        let faults = Faults::set_up(Of::Target)?;
        for (seed, compressed, algorithm) in [(1, "0", "lz4"), (2, "1", "zstd")] {
            let disk = &Disk::new(0);
            disk.set("compressed_writeback", compressed)?;
            disk.set("recomp_algorithm", "algo=deflate priority=1")?;
            disk.set("backing_dev", Ram::NODE)?;
            disk.set_up(algorithm, "4M")?;
            let mut storm = Storm {
                disk,
                file: disk.direct()?,
                model: Model(vec![vec![0]; BLOCKS as usize]),
                rng: Rng::new(seed, 0x5704),
                version: 0,
                counts: Counts::default(),
            };
            let mut failed = 0;
            for round in 0..ROUNDS {
                let context = || format!("seed {seed}, step {round}");
                if round % 500 == 0 {
                    // All is right in between, too.
                    failed += faults.by_chance(0)?;
                    for first in (0..BLOCKS).step_by(64) {
                        storm.read(first, 64, &[]).with_context(context)?;
                    }
                    faults.by_chance(5 + 5 * (round / 500) as u32)?;
                }
                storm.step().with_context(context)?;
            }
            failed += faults.by_chance(0)?;
            for first in (0..BLOCKS).step_by(64) {
                storm.read(first, 64, &[]).context("in the end")?;
            }
            let Counts {
                done,
                failed: errors,
            } = storm.counts;
            note(&format!(
                "storm on {algorithm}: {done} operations, {failed} allocations failed by chance, \
                 {errors} operations failed"
            ));
            at_least(200, failed)?;
            at_least(100, errors)?;
            blk::discard(&storm.file, 0, 4 * MIB)?;
            same("blocks on the device", 0, bd(disk)?.count)?;
            disk.wait_empty()?;
            drop(storm);
            disk.reset()?;
        }
        Ok(())
    })
}
