// SPDX-License-Identifier: GPL-2.0

//! Does steps to a disk and to its model, and compares the two.

use std::fs::File;

use anyhow::{bail, Context, Result};
use nix::errno::Errno;

use super::disk::{Block, Memory, Window};
use super::post::Settings;
use super::step::{Backing, Free, How, Shape, Step, PLACES, WINDOW};
use crate::buf::Guarded;
use crate::disk::Disk;
use crate::post::{Ram, P};
use crate::{blk, PAGE};

/// What steps are done to: a disk, and where it may write blocks back to.
pub struct Lane {
    /// The disk; which one it is may change.
    pub disk: Disk,
    device: String,
    file: String,
    live: Option<Live>,
}

/// A disk that is set up, and what it should hold.
pub(super) struct Live {
    pub(super) disk: Disk,
    pub(super) shape: Shape,
    pub(super) direct: File,
    pub(super) cached: File,
    /// For all I/O: many threads that map and unmap slow each other down.
    pub(super) buffer: Guarded,
    pub(super) window: Window,
    pub(super) memory: Memory,
    /// What the page cache has may not be on the disk yet.
    pub(super) dirty: bool,
    /// Bytes that the pool may have; 0 is no limit.
    pub(super) limit: u64,
    pub(super) settings: Settings,
    /// Blocks that were freed so far.
    pub(super) freed: u64,
    /// Blocks that were moved to the backing device so far.
    pub(super) moved: u64,
    pub(super) backing_reads: u64,
    pub(super) huge_since: u64,
}

impl Lane {
    /// Lane `n`, with a disk of its own.
    pub fn new(n: u32) -> Result<Lane> {
        let zeros = vec![0; PLACES as usize * PAGE];
        Ok(Lane {
            disk: Disk::hot_add()?,
            device: Ram::node(n),
            file: crate::post::file(&format!("lane{n}"), &zeros)?,
            live: None,
        })
    }

    /// The same with another disk, whatever became of this one.
    pub fn renew(&mut self) -> Result<()> {
        self.live = None;
        // One that cannot be removed is left alone.
        let _ = self.disk.hot_remove();
        self.disk = Disk::hot_add()?;
        Ok(())
    }

    /// Plays a sequence, and compares everything in the end. If it fails, also says at which step.
    pub fn play(&mut self, steps: &[Step]) -> Result<(), (usize, anyhow::Error)> {
        // What an earlier sequence left is none of this one's business.
        self.take_down().map_err(|e| (0, e))?;
        for (n, step) in steps.iter().enumerate() {
            self.step(step).map_err(|e| (n, e))?;
        }
        self.step(&Step::Check).map_err(|e| (steps.len(), e))
    }

    /// One step; nothing if there is no disk to do it to yet.
    pub fn step(&mut self, step: &Step) -> Result<()> {
        self.do_step(step)
            .with_context(|| format!("{}: {step:?}", self.disk.name()))
    }

    fn do_step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::SetUp(shape) => {
                self.take_down()?;
                self.set_up(shape)
            }
            Step::Recreate(shape) => {
                if let Some(live) = &mut self.live {
                    live.compare()?;
                }
                self.live = None;
                self.disk.hot_remove().context("hot_remove")?;
                self.disk = Disk::hot_add()?;
                self.set_up(shape)
            }
            _ => match &mut self.live {
                Some(live) => live.step(step),
                None => Ok(()),
            },
        }
    }

    /// Resets the disk.
    fn take_down(&mut self) -> Result<()> {
        self.live = None;
        self.disk.reset()?;
        let zeros = "       0 ".repeat(8) + "       0\n";
        self.disk.shows("mm_stat", &zeros)?;
        self.disk.shows("bd_stat", "       0        0        0\n")
    }

    fn set_up(&mut self, shape: &Shape) -> Result<()> {
        let disk = self.disk;
        for (priority, algorithm) in (1..).zip(&shape.again) {
            let text = format!("algo={algorithm} priority={priority}");
            disk.set("recomp_algorithm", &text)?;
        }
        match shape.backing {
            Backing::None => {}
            Backing::Device => disk.set("backing_dev", &self.device)?,
            Backing::File => disk.set("backing_dev", &self.file)?,
        }
        disk.set(
            "compressed_writeback",
            if shape.compressed { "1" } else { "0" },
        )?;
        disk.set_up(&shape.algorithm, &(shape.blocks * P).to_string())?;
        let window = Window::new(shape.blocks);
        self.live = Some(Live {
            disk,
            shape: shape.clone(),
            direct: disk.direct()?,
            cached: disk.buffered()?,
            buffer: Guarded::room_for(WINDOW as usize * PAGE)?,
            memory: Memory::new(window.len()),
            window,
            dirty: false,
            limit: 0,
            settings: Settings::default(),
            freed: 0,
            moved: 0,
            backing_reads: 0,
            huge_since: 0,
        });
        Ok(())
    }
}

impl Live {
    fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::SetUp(_) | Step::Recreate(_) => bail!("not for a disk that is set up"),
            Step::Write {
                how,
                at,
                count,
                what,
                seed,
            } => {
                let (at, count) = self.window.clip(*at, *count);
                let new = (0..count)
                    .map(|n| Block::of_step(*what, *seed, n))
                    .collect();
                self.write(*how, at, new)
            }
            Step::WriteBytes { from, len, seed } => self.write_bytes(*from, *len, *seed),
            Step::Read { how, at, count } => {
                let (at, count) = self.window.clip(*at, *count);
                self.read(*how, at, count)
            }
            Step::ReadBytes { from, len } => self.read_bytes(*from, *len),
            Step::Free { how, at, count } => {
                let (at, count) = self.window.clip(*at, *count);
                self.free(*how, at, count)
            }
            Step::FreeAll => self.free_all(),
            Step::Sync => self.sync(),
            Step::Limit(pages) => self.set_limit(*pages),
            Step::Compact => self.disk.set("compact", "1"),
            Step::Streams(n) => self.disk.set("max_comp_streams", &n.to_string()),
            Step::Busy => self.busy(),
            Step::Check => self.compare(),
            Step::Idle(_)
            | Step::Recompress(_)
            | Step::Writeback(_)
            | Step::WritebackLimit(_)
            | Step::Batch(_) => {
                self.sync()?;
                self.post_process(step)
            }
        }
    }

    fn free(&mut self, how: Free, at: u32, count: u32) -> Result<()> {
        let (from, len) = (self.offset(at), u64::from(count) * P);
        let keep = libc::FALLOC_FL_KEEP_SIZE;
        match how {
            Free::Discard => blk::discard(&self.direct, from, len),
            Free::ZeroOut => blk::zero_out(&self.direct, from, len),
            Free::PunchHole => {
                blk::fallocate(&self.cached, libc::FALLOC_FL_PUNCH_HOLE | keep, from, len)
            }
            Free::ZeroRange => {
                blk::fallocate(&self.cached, libc::FALLOC_FL_ZERO_RANGE | keep, from, len)
            }
        }
        .with_context(|| format!("{how:?} of {len} bytes at {from}"))?;
        self.memory.blocks[at as usize..][..count as usize].fill(None);
        self.freed += u64::from(count);
        Ok(())
    }

    fn free_all(&mut self) -> Result<()> {
        let blocks = self.shape.blocks;
        blk::discard(&self.direct, 0, blocks * P).context("discarding everything")?;
        self.memory = Memory::new(self.window.len());
        self.freed += blocks;
        self.disk.wait_empty()
    }

    /// Writes back what the page cache has, which must work.
    pub(super) fn sync(&mut self) -> Result<()> {
        if self.dirty {
            self.cached.sync_all().context("fsync")?;
            self.dirty = false;
        }
        Ok(())
    }

    fn set_limit(&mut self, pages: Option<u32>) -> Result<()> {
        self.sync()?;
        self.limit = match pages {
            Some(pages) => self.disk.mm()?.used + (u64::from(pages) + 1) * P,
            None => 0,
        };
        self.disk.set("mem_limit", &self.limit.to_string())
    }

    /// What only a disk that is not set up takes.
    fn busy(&mut self) -> Result<()> {
        for (attribute, value) in [
            ("disksize", "64M"),
            ("comp_algorithm", "lz4"),
            ("recomp_algorithm", "algo=zstd"),
            ("backing_dev", "/dev/null"),
            ("compressed_writeback", "1"),
            ("algorithm_params", "level=1"),
        ] {
            self.disk.refuses(attribute, value, Errno::EBUSY)?;
        }
        let size = format!("{}\n", self.shape.blocks * P);
        self.disk.shows("disksize", &size)
    }

    /// Compares every block and every figure.
    pub(super) fn compare(&mut self) -> Result<()> {
        self.sync()?;
        self.compare_state()?;
        for (at, count) in self.window.runs() {
            self.read(How::Direct(0), at, count)?;
        }
        Ok(())
    }
}
