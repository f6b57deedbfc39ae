// SPDX-License-Identifier: GPL-2.0

//! Moving blocks out of memory, to a backing device.

use super::{
    post::{
        Chosen,
        Kind, //
    },
    Active,
    Device, //
};
use crate::sys::{
    attr::Text,
    backing::Backing,
    page::{
        Dest,
        BLOCK_SIZE, //
    },
    work::parallel, //
};
use core::ops::Range;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};

/// How many blocks are written at once where nothing else is said: as zram has it.
const DEFAULT_BATCH: u32 = 32;

/// What a user may say of writeback.
pub(crate) struct Policy {
    /// Blocks of 4 KiB that may still be written, if that is limited.
    limit: Atomic<u64>,
    limited: Atomic<bool>,
    batch: Atomic<u32>,
}

impl Policy {
    /// As a new disk has it.
    pub(super) fn new() -> Self {
        Self {
            limit: Atomic::new(0),
            limited: Atomic::new(false),
            batch: Atomic::new(DEFAULT_BATCH),
        }
    }

    pub(super) fn reset(&self) {
        self.limit.store(0, Relaxed);
        self.limited.store(false, Relaxed);
        self.batch.store(DEFAULT_BATCH, Relaxed);
    }

    /// Blocks of 4 KiB that may still be written.
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// Has at most this many blocks written from now on, if that is limited.
    pub(crate) fn set_limit(&self, blocks: u64) {
        self.limit.store(blocks, Relaxed);
    }

    /// Whether that is limited.
    pub(crate) fn limited(&self) -> bool {
        self.limited.load(Relaxed)
    }

    /// Limits that, or no longer.
    pub(crate) fn set_limited(&self, limited: bool) {
        self.limited.store(limited, Relaxed);
    }

    /// How many blocks are written at once.
    pub(crate) fn batch(&self) -> u32 {
        self.batch.load(Relaxed)
    }

    /// Has at most this many blocks written at once.
    pub(crate) fn set_batch(&self, blocks: u32) {
        self.batch.store(blocks, Relaxed);
    }

    /// Counts a block that is about to be written; `EIO` if no more may be.
    fn spend(&self) -> Result {
        if !self.limited.load(Relaxed) {
            return Ok(());
        }
        let mut left = self.limit.load(Relaxed);
        while left > 0 {
            match self.limit.cmpxchg(left, left.wrapping_sub(1), Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => left = now,
            }
        }
        Err(EIO)
    }

    /// A block was not written after all.
    fn refund(&self) {
        if self.limited.load(Relaxed) {
            self.limit.add(1u64, Relaxed);
        }
    }
}

/// One part of what is to be written back.
#[derive(Clone)]
pub(crate) struct Selection {
    pub(crate) kind: Kind,
    pub(crate) blocks: Range<u64>,
}

/// What the workers of a writeback share.
struct Job<I> {
    /// Blocks that nobody has begun with.
    next: I,
    /// No more are to be begun with.
    over: bool,
    result: Result,
}

impl Device {
    /// How writeback is limited.
    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Sets the file that blocks are written back to; `EBUSY` once the disk is set up, and what opening it says. May sleep.
    pub(crate) fn set_backing(&self, path: &CStr) -> Result {
        let mut config = self.config_to_set_up().inspect_err(|_| {
            pr_info!("Can't setup backing device for initialized device\n");
        })?;
        config.backing = Some(Arc::new(Backing::open(path, &self.files)?, GFP_KERNEL)?);
        pr_info!("setup backing device {}\n", path);
        Ok(())
    }

    /// Writes the path of the backing device, or `none`. May sleep.
    pub(crate) fn write_backing(&self, text: &mut Text<'_>) -> Result {
        use core::fmt::Write;
        match &self.config.read().backing {
            Some(backing) => backing.write_path(text),
            None => Ok(writeln!(text, "none")?),
        }
    }

    /// Whether blocks are written back compressed. May sleep.
    pub(crate) fn compressed_writeback(&self) -> bool {
        self.config.read().compressed_writeback
    }

    /// Has blocks written back as they are stored; `EBUSY` once the disk is set up. May sleep.
    pub(crate) fn set_compressed_writeback(&self, compressed: bool) -> Result {
        let mut config = self.config_to_set_up()?;
        config.compressed_writeback = compressed;
        Ok(())
    }

    /// Writes back what `select` chooses, given the number of blocks of the disk, largest first. May sleep.
    ///
    /// `EINVAL` if the disk is not set up, `ENODEV` if it has no backing device; what `select` says; `EIO` if the limit is
    /// reached, `ENOSPC` if the backing device is full, `ENOMEM`, `EINTR` on a signal, and what the device says. Some of the
    /// work may have been done.
    pub(crate) fn write_back(
        &self,
        select: impl FnOnce(u64, &mut dyn FnMut(Selection)) -> Result,
    ) -> Result {
        let config = self.config.read();
        let active = self.active.get_configured(&config).ok_or(EINVAL)?;
        let backing = active.store.as_ref().ok_or(ENODEV)?.backing();

        let _one_at_a_time = self.post.lock();
        let mut chosen = Chosen::new(&active.table);
        select(active.table.blocks(), &mut |selection| {
            chosen.add(selection.blocks, |info| {
                selection.kind.fits(info) && !info.same && !info.elsewhere
            });
        })?;

        pin_init::stack_pin_init!(let job = new_mutex!(Job {
            next: chosen.largest_first(),
            over: false,
            result: Ok(()),
        }));
        let job = job.as_ref().get_ref();
        let compressed = config.compressed_writeback;
        let work = || {
            let Ok(mut buffer) = KVVec::from_elem(0u8, BLOCK_SIZE, GFP_KERNEL | __GFP_NOWARN)
            else {
                // Others may have more luck.
                return;
            };
            loop {
                let (index, place) = {
                    let mut job = job.lock();
                    // This can take minutes. Only the caller has signals, and that is one of those who work.
                    if !job.over && current!().signal_pending() {
                        job.over = true;
                        job.result = Err(EINTR);
                    }
                    let Some(index) = job.next.next().filter(|_| !job.over) else {
                        return;
                    };
                    // In the order of the list, so that the largest blocks get the last places.
                    match active.claim_place(&self.policy) {
                        Ok(place) => (index, place),
                        Err(e) => {
                            // Others will not get one either.
                            job.over = true;
                            job.result = Err(e);
                            return;
                        }
                    }
                };
                let outcome = active.write_back(index, place, backing, compressed, &mut buffer);
                if !matches!(outcome, Ok(Outcome::Moved)) {
                    active.table.give_back_place(place);
                }
                if matches!(outcome, Ok(Outcome::Passed) | Err(_)) {
                    self.policy.refund();
                }
                if let Err(e) = outcome {
                    let mut job = job.lock();
                    job.result = job.result.and(Err(e));
                }
            }
        };
        let batch = match backing.is_device() {
            true => self.policy.batch() as usize,
            // Writers of one file only get into each other's way.
            false => 1,
        };
        let workers = batch.min(chosen.len());
        if workers > 0 {
            parallel(workers, &work);
        }
        let mut job = job.lock();
        if !job.over && job.next.next().is_some() {
            // Nobody had memory for a buffer.
            return Err(ENOMEM);
        }
        job.result.and(chosen.all())
    }
}

/// What became of a block that was chosen.
enum Outcome {
    /// It is at its place on the backing device, which is the slot's now.
    Moved,
    /// It was written, and accessed or written anew meanwhile: it stays in memory.
    Wasted,
    /// It was not what was chosen any more, and was not written.
    Passed,
}

impl Active {
    /// Takes a place on the backing device, and counts it against the limit: `EIO` if that is used up, `ENOSPC` if there is
    /// none.
    fn claim_place(&self, policy: &Policy) -> Result<u64> {
        policy.spend()?;
        self.table.take_place().ok_or(ENOSPC).inspect_err(|_| {
            policy.refund();
        })
    }

    /// Writes back one block to `place`, unless it is not what was chosen any more. May sleep, until the device has done it.
    fn write_back(
        &self,
        index: u64,
        place: u64,
        backing: &Backing,
        compressed: bool,
        buffer: &mut [u8],
    ) -> Result<Outcome> {
        if !self.copy_out(index, compressed, buffer)? {
            return Ok(Outcome::Passed);
        }
        backing.write(place, buffer)?;
        self.requests.count_backing_write();
        Ok(match self.table.lock(index) {
            Some(mut slot) if slot.info().is_some_and(|info| info.chosen) => {
                slot.move_out(place);
                Outcome::Moved
            }
            _ => Outcome::Wasted,
        })
    }

    /// Copies a block, compressed or not, to the start of `buffer`; not if it is not what was chosen any more.
    fn copy_out(&self, index: u64, compressed: bool, buffer: &mut [u8]) -> Result<bool> {
        let Some(slot) = self.table.lock(index) else {
            return Ok(false);
        };
        if !slot.info().is_some_and(|info| info.chosen) {
            return Ok(false);
        }
        if compressed {
            self.copy_stored(&slot, buffer)?;
        } else {
            self.unpack(slot.stored(), index, Dest::from_slice(buffer).ok_or(EIO)?)?;
        }
        Ok(true)
    }
}
