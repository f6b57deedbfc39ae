// SPDX-License-Identifier: GPL-2.0

//! The backing device of a disk that is set up, and memory for blocks on their way back.
//!
//! Somebody waits for these, often for want of memory: none may have to be found then. What a worker allocates must not start
//! I/O, so the kernel would look through all of memory for something to free without it, and find nothing but what belongs
//! into swap.

use crate::sys::{
    backing::Backing,
    deferred::WORKERS,
    page::BLOCK_SIZE, //
};
use core::pin::Pin;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// A worker has two blocks at most: what the device has, and what comes of it where that goes to several pieces of memory.
const SPOTS: usize = 2 * WORKERS;

/// Memory for a block.
#[pin_data]
struct Spot {
    #[pin]
    block: Mutex<KVVec<u8>>,
}

/// A backing device.
pub(super) struct Store {
    backing: Arc<Backing>,
    spots: Pin<KBox<[Spot]>>,
}

impl Store {
    /// With memory for as many blocks as workers fetch at once. May sleep.
    pub(super) fn new(backing: Arc<Backing>) -> Result<Self> {
        let spots = KBox::pin_slice(
            |_| {
                let block = KVVec::from_elem(0u8, BLOCK_SIZE, GFP_KERNEL);
                pin_init!(Spot { block <- new_mutex!(block?, "rzram_spot") }? Error)
            },
            SPOTS,
            GFP_KERNEL,
        )?;
        Ok(Self { backing, spots })
    }

    /// The device.
    pub(super) fn backing(&self) -> &Backing {
        &self.backing
    }

    /// Bytes of memory that this takes.
    pub(super) fn bytes(&self) -> u64 {
        (SPOTS * BLOCK_SIZE) as u64
    }

    /// Runs `f` with memory for a block, whose content is anything. For workers that carry out bios, of which each does this
    /// twice at a time at most.
    pub(super) fn with_block<R>(&self, f: impl FnOnce(&mut [u8]) -> Result<R>) -> Result<R> {
        let free = self.spots.iter().find_map(|spot| spot.block.try_lock());
        // There is one, as there are two for each worker.
        f(&mut free.ok_or(EIO)?)
    }
}
