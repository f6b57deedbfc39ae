// SPDX-License-Identifier: GPL-2.0

//! Which blocks of the backing device are taken.
//!
//! A bitmap without a lock: a block may be given back in atomic context. A search goes on where the last one found
//! something, so that filling a device does not look at its first blocks again and again.

use crate::sys::directory::room_for;
use core::iter::repeat_with;
use kernel::{
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        Relaxed,
        Release, //
    }, //
};

const BITS: u64 = u64::BITS as u64;

/// The blocks of a backing device.
pub(super) struct Blocks {
    words: KVVec<Atomic<u64>>,
    count: u64,
    /// The word that the next search begins with.
    hint: Atomic<usize>,
    taken: Atomic<u64>,
}

impl Blocks {
    /// `count` blocks that are free. May sleep.
    pub(super) fn new(count: u64) -> Result<Self> {
        let len = usize::try_from(count.div_ceil(BITS))?;
        room_for(count / 8)?;
        let mut words = KVVec::with_capacity(len, GFP_KERNEL | __GFP_NOWARN)?;
        for word in repeat_with(|| Atomic::new(0u64)).take(len) {
            words.push(word, GFP_KERNEL)?;
        }
        Ok(Self {
            words,
            count,
            hint: Atomic::new(0),
            taken: Atomic::new(0),
        })
    }

    /// Number of blocks that are taken.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    /// Bytes that this takes.
    pub(super) fn bytes(&self) -> u64 {
        self.words.capacity().wrapping_mul(size_of::<u64>()) as u64
    }

    /// Takes a free block; `None` if there is none.
    pub(super) fn take(&self) -> Option<u64> {
        let len = self.words.len();
        let start = self.hint.load(Relaxed);
        for i in Iterator::chain(start..len, 0..start) {
            let base = (i as u64).wrapping_mul(BITS);
            let word = self.words.get(i)?;
            let mut seen = word.load(Relaxed);
            loop {
                let bit = u64::from((!seen).trailing_zeros());
                if bit >= BITS || base.wrapping_add(bit) >= self.count {
                    break;
                }
                // Acquire: whoever had the block before is done with it.
                match word.cmpxchg(seen, seen | 1 << bit, Acquire) {
                    Ok(_) => {
                        self.hint.store(i, Relaxed);
                        self.taken.add(1u64, Relaxed);
                        return Some(base.wrapping_add(bit));
                    }
                    Err(now) => seen = now,
                }
            }
        }
        None
    }

    /// Gives a block back. Any context.
    pub(super) fn give_back(&self, block: u64) {
        // CAST: A block's number, which came from an index.
        let Some(word) = self.words.get((block / BITS) as usize) else {
            return;
        };
        let bit = 1 << (block % BITS);
        let mut seen = word.load(Relaxed);
        while seen & bit != 0 {
            match word.cmpxchg(seen, seen & !bit, Release) {
                Ok(_) => {
                    self.taken.fetch_sub(1u64, Relaxed);
                    return;
                }
                Err(now) => seen = now,
            }
        }
    }
}
