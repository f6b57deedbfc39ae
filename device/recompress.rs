// SPDX-License-Identifier: GPL-2.0

//! Compressing again, with another algorithm, what is stored already.

use super::{
    config::Named,
    post::{
        Chosen,
        Kind, //
    },
    Active,
    Device, //
};
use crate::{
    compress::Cpu,
    sys::page::{
        Dest,
        Source,
        BLOCK_SIZE, //
    },
    table::{
        meta::{
            CHOSEN,
            IDLE,
            INCOMPRESSIBLE, //
        },
        Anywhere, //
    }, //
};
use kernel::prelude::*;

/// What to recompress, and how.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) kind: Kind,
    /// Only blocks of at least this size, and only if they become smaller than that; 0 is no such condition.
    pub(crate) threshold: u32,
    /// How many blocks to try at most.
    pub(crate) max_blocks: u64,
    /// Which algorithm.
    pub(crate) named: Named<'a>,
}

/// What became of a block.
enum Outcome {
    /// It was not what was chosen any more, or too small.
    Passed,
    /// It was compressed, whether or not that was worth it.
    Tried,
}

impl Device {
    /// Recompresses blocks, largest first. May sleep.
    ///
    /// `EINVAL` if the disk is not set up or has no such algorithm, or if the threshold is more than a compressed block can
    /// have; `ENOMEM`, `EINTR` on a signal, and what the algorithm says, with some of the work done.
    pub(crate) fn recompress(&self, request: Request<'_>) -> Result {
        let config = self.config.read();
        let active = self.active.get_configured(&config).ok_or(EINVAL)?;
        if request.threshold as usize >= active.table.huge_class_size() {
            return Err(EINVAL);
        }
        let priority = config.priority(1, request.named)?;
        active.compressor(priority).map_err(|_| EINVAL)?;
        let last = config.is_last(priority);

        let _one_at_a_time = self.post.lock();
        let mut buffer = KVVec::from_elem(0u8, BLOCK_SIZE, GFP_KERNEL)?;
        let mut chosen = Chosen::new(&active.table);
        chosen.add(0..active.table.blocks(), |info| {
            request.kind.fits(info)
                && !info.same
                && !info.elsewhere
                && !info.incompressible
                && info.priority < priority
        });
        let mut left = request.max_blocks;
        for index in chosen.largest_first() {
            if left == 0 {
                return Ok(());
            }
            // This can take minutes.
            if current!().signal_pending() {
                return Err(EINTR);
            }
            match active.recompress(index, priority, last, request.threshold, &mut buffer)? {
                Outcome::Passed => {}
                Outcome::Tried => left = left.saturating_sub(1),
            }
        }
        chosen.all()
    }
}

impl Active {
    /// Recompresses one block. The slow part, compressing, is done without the slot's lock.
    fn recompress(
        &self,
        index: u64,
        priority: usize,
        last: bool,
        threshold: u32,
        buffer: &mut [u8],
    ) -> Result<Outcome> {
        let threshold = threshold as usize;
        let size = {
            let Some(mut slot) = self.table.lock(index) else {
                return Ok(Outcome::Passed);
            };
            let Some(info) = slot
                .info()
                .filter(|info| info.chosen && info.size >= threshold)
            else {
                return Ok(Outcome::Passed);
            };
            self.unpack(slot.stored(), index, Dest::from_slice(buffer).ok_or(EIO)?)?;
            slot.mark(0, IDLE);
            info.size
        };
        let block = Source::from_slice(buffer).ok_or(EIO)?;
        let new = self
            .compressor(priority)?
            .with_stream(Cpu::current(), |stream| {
                let data = stream.press.compress(block)?;
                let smaller = self.table.class(data.len()) < self.table.class(size);
                if !smaller || (threshold != 0 && data.len() >= threshold) {
                    return Ok(None);
                }
                // The limit is for writes: this gives memory back.
                self.table.compressed(data, priority, Anywhere, 0)
            })??;
        let Some(mut slot) = self.table.lock(index) else {
            if let Some(entry) = new {
                self.table.discard(entry);
            }
            return Ok(Outcome::Tried);
        };
        let same = slot.info().is_some_and(|info| info.chosen);
        match new {
            Some(entry) if same => slot.store(entry),
            Some(entry) => self.table.discard(entry),
            None if same && last => slot.mark(INCOMPRESSIBLE, CHOSEN),
            None => {}
        }
        Ok(Outcome::Tried)
    }
}
