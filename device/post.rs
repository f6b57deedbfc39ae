// SPDX-License-Identifier: GPL-2.0

//! Choosing blocks for recompression or writeback.
//!
//! A block that is chosen is marked so in its slot. Accessing or replacing it takes the mark away, so whoever comes to it
//! later, without having held its lock in between, can tell whether it still is what was chosen.

use crate::{
    sys::page::BLOCK_SIZE,
    table::{
        meta::CHOSEN,
        Info,
        Table, //
    }, //
};
use core::ops::Range;
use kernel::prelude::*;

/// Blocks are taken by size, largest first, to within this many bytes.
const STEP: usize = 64;
const STEPS: usize = BLOCK_SIZE / STEP;
/// Bits for the block's number in an entry of the list; the step is above.
const INDEX_BITS: u32 = 56;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;

const _: () = assert!(STEPS < 1 << (u64::BITS - INDEX_BITS));

/// Which blocks to choose: those that have all the properties asked for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Kind {
    pub(crate) idle: bool,
    pub(crate) huge: bool,
    pub(crate) incompressible: bool,
}

impl Kind {
    pub(super) fn fits(self, info: &Info) -> bool {
        (info.idle || !self.idle)
            && (info.huge || !self.huge)
            && (info.incompressible || !self.incompressible)
    }
}

/// Blocks that are chosen. They lose the mark when this is dropped.
pub(super) struct Chosen<'a> {
    table: &'a Table,
    list: KVVec<u64>,
    /// There was no memory for all of them.
    short: bool,
}

impl<'a> Chosen<'a> {
    /// Nothing.
    pub(super) fn new(table: &'a Table) -> Self {
        Self {
            table,
            list: KVVec::new(),
            short: false,
        }
    }

    /// Adds the blocks in `range` that `wanted` says yes to. Those that are chosen already are left out. May sleep.
    ///
    /// Without memory for more, it ends early: what is chosen by then can be worked on, and [`Chosen::all`] tells.
    pub(super) fn add(&mut self, range: Range<u64>, wanted: impl Fn(&Info) -> bool) {
        for index in self.table.stored(range) {
            // First, since memory must not be waited for with a slot locked.
            if self.list.reserve(1, GFP_KERNEL | __GFP_NOWARN).is_err() {
                self.short = true;
                return;
            }
            let Some(mut slot) = self.table.lock(index) else {
                continue;
            };
            match slot.info() {
                Some(info) if !info.chosen && wanted(&info) => {
                    slot.mark(CHOSEN, 0);
                    drop(slot);
                    let step = (info.size / STEP) as u64;
                    // There is room, as reserved above.
                    let _ = self.list.push_within_capacity(step << INDEX_BITS | index);
                }
                _ => {}
            }
        }
    }

    /// `ENOMEM` if there are blocks that should have been chosen, and were not.
    pub(super) fn all(&self) -> Result {
        if self.short {
            Err(ENOMEM)
        } else {
            Ok(())
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Their numbers, those with large objects first.
    pub(super) fn largest_first(&self) -> impl Iterator<Item = u64> + '_ {
        (0..=STEPS as u64).rev().flat_map(move |step| {
            let of_this_step = move |entry: &&u64| **entry >> INDEX_BITS == step;
            self.list
                .iter()
                .filter(of_this_step)
                .map(|entry| *entry & INDEX_MASK)
        })
    }
}

impl Drop for Chosen<'_> {
    fn drop(&mut self) {
        for entry in self.list.iter() {
            if let Some(mut slot) = self.table.lock(*entry & INDEX_MASK) {
                slot.mark(0, CHOSEN);
            }
        }
    }
}
