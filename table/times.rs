// SPDX-License-Identifier: GPL-2.0

//! When each block was accessed last.
//!
//! Kept apart from the slots, since most disks have no use for it: 4 bytes a block, where a block near it was written.

use crate::sys::{
    clock,
    directory::Directory, //
};
use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

/// A time since boot in units of 2^26 ns, about 67 ms: 32 bits of them last for 9 years.
const UNIT_SHIFT: u32 = 26;

/// The time of the last access of each block.
pub(super) struct Times(Directory<Atomic<u32>>);

impl Times {
    /// Nothing accessed yet. May sleep.
    pub(super) fn new(blocks: u64) -> Result<Self> {
        Ok(Self(Directory::new(blocks)?))
    }

    /// Bytes that this takes.
    pub(super) fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// A block is accessed now. Any context.
    #[inline]
    pub(super) fn touch(&self, index: u64) {
        if let Some(time) = self.0.get(index) {
            // CAST: Wraps after 9 years.
            time.store((clock::since_boot() >> UNIT_SHIFT) as u32, Relaxed);
        }
    }

    /// A block is written now. Without memory to note that, it counts as accessed at boot. May sleep.
    #[inline]
    pub(super) fn touch_new(&self, index: u64) {
        if self.0.get(index).is_some() || self.0.get_or_alloc(index).is_ok() {
            self.touch(index);
        }
    }

    /// When a block was accessed last, in nanoseconds since boot; 0 if that was never noted.
    pub(super) fn last(&self, index: u64) -> u64 {
        let time = self.0.get(index).map_or(0, |time| time.load(Relaxed));
        u64::from(time) << UNIT_SHIFT
    }
}
