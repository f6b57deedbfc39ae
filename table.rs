// SPDX-License-Identifier: GPL-2.0

//! What a disk stores: a slot for each block, and the pool of objects that the slots refer to.
//!
//! Slots are found without a lock, and each has a lock bit of its own (`sys::slot`). A [`Guard`] is the only way to what a
//! slot stores, so an access without the lock does not compile. Changing what is stored also counts it, and frees what was
//! there.

mod blocks;
mod entry;
mod fill;
mod guard;
#[cfg(locking_lab)]
pub(crate) mod lab;
pub(crate) mod meta;
mod place;
mod times;

#[cfg(CONFIG_LOCKDEP)]
use crate::sys::lockdep::Class;
use crate::{
    stats::{
        Contents,
        PoolFigures,
        Share, //
    },
    sys::{
        directory::Directory,
        inline,
        slot::{
            Body,
            Owner,
            Slot, //
        },
        zsmalloc::{
            PackedHandle,
            Pool, //
        }, //
    }, //
};
use blocks::Blocks;
use guard::share;
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    task::might_sleep, //
};
use meta::Meta;
use times::Times;

pub(crate) use entry::{
    Anywhere,
    Entry, //
};
pub(crate) use guard::{
    Guard,
    Info,
    Stored, //
};
pub(crate) use place::Walk;

/// Bytes of an object that holds a pattern which does not fit into the slot.
const PATTERN_SIZE: usize = size_of::<u64>();

/// Going through the slots, how many are looked at between two chances for others to run.
const BREATH: u64 = 1024;

/// The slots and the pool of a disk.
pub(crate) struct Table {
    directory: Directory<Slot>,
    /// When each block was accessed, if that is tracked.
    times: Option<Times>,
    /// The blocks of the backing device, if there is one.
    blocks: Option<Blocks>,
    pool: Pool,
    huge_class_size: usize,
    contents: Contents,
    max_used_pages: Atomic<u64>,
    #[cfg(CONFIG_LOCKDEP)]
    class: Class,
    #[cfg(locking_lab)]
    locks: lab::Locks,
}

/// What a table is made for.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Blocks of the disk.
    pub(crate) blocks: u64,
    /// Whether to note when blocks are accessed.
    pub(crate) track: bool,
    /// Blocks of the backing device, if there is one.
    pub(crate) backing: Option<u64>,
}

impl Table {
    /// An empty table, with a pool called `name`. May sleep.
    pub(crate) fn new(name: &CStr, shape: Shape) -> Result<Self> {
        let pool = Pool::new(name)?;
        Ok(Self {
            directory: Directory::new(shape.blocks)?,
            times: shape.track.then(|| Times::new(shape.blocks)).transpose()?,
            blocks: shape.backing.map(Blocks::new).transpose()?,
            huge_class_size: pool.huge_class_size(),
            pool,
            contents: Contents::new(),
            max_used_pages: Atomic::new(0),
            #[cfg(CONFIG_LOCKDEP)]
            class: Class::new(c"rzram_slot")?,
            #[cfg(locking_lab)]
            locks: lab::Locks::new(lab::scheme(), shape.blocks)?,
        })
    }

    /// Number of blocks.
    pub(crate) fn blocks(&self) -> u64 {
        self.directory.blocks()
    }

    /// What the slots hold, in numbers.
    pub(crate) fn contents(&self) -> &Contents {
        &self.contents
    }

    /// The pool, in numbers, with the limit that is set for it.
    pub(crate) fn figures(&self, limit_pages: u64) -> PoolFigures {
        let bytes = |pages: u64| pages.saturating_mul(PAGE_SIZE as u64);
        PoolFigures {
            used: bytes(self.pool.total_pages()),
            limit: bytes(limit_pages),
            used_max: bytes(self.max_used_pages.load(Relaxed)),
            compacted: self.pool.pages_compacted(),
        }
    }

    /// Moves objects together. May sleep.
    pub(crate) fn compact(&self) {
        self.pool.compact();
    }

    /// Forgets how large the pool once was.
    pub(crate) fn reset_max_used(&self) {
        self.max_used_pages.store(self.pool.total_pages(), Relaxed);
    }

    #[inline(always)]
    fn note_used(&self, pages: u64) {
        if pages > inline::look(&self.max_used_pages) {
            self.note_most(pages);
        }
    }

    #[cold]
    fn note_most(&self, pages: u64) {
        let mut max = self.max_used_pages.load(Relaxed);
        while pages > max {
            match self.max_used_pages.cmpxchg(max, pages, Relaxed) {
                Ok(_) => return,
                Err(now) => max = now,
            }
        }
    }

    /// Objects of this many bytes take the same memory as all others of their class, and less than those of a higher one.
    pub(crate) fn class(&self, len: usize) -> u32 {
        self.pool.class_index(len)
    }

    /// From this size on, compressing is not worth it.
    pub(crate) fn huge_class_size(&self) -> usize {
        self.huge_class_size
    }

    /// A block is read: notes the time, if that is tracked. Any context.
    #[inline]
    pub(crate) fn touch(&self, index: u64) {
        if let Some(times) = &self.times {
            times.touch(index);
        }
    }

    /// When a block was accessed last, in nanoseconds since boot; 0 if that was never noted, `None` if it is not tracked.
    pub(crate) fn last_access(&self, index: u64) -> Option<u64> {
        self.times.as_ref().map(|times| times.last(index))
    }

    /// Takes a free block of the backing device; `None` if there is none.
    pub(crate) fn take_place(&self) -> Option<u64> {
        self.blocks.as_ref().and_then(Blocks::take)
    }

    /// Gives a block of the backing device back. Any context.
    pub(crate) fn give_back_place(&self, place: u64) {
        if let Some(blocks) = &self.blocks {
            blocks.give_back(place);
        }
    }

    /// Blocks of the backing device that are taken.
    pub(crate) fn places_taken(&self) -> u64 {
        self.blocks.as_ref().map_or(0, Blocks::taken)
    }

    /// Bytes of memory that the table itself takes: slots, times, and the map of the backing device.
    pub(crate) fn bytes(&self) -> u64 {
        let times = self.times.as_ref().map_or(0, Times::bytes);
        let blocks = self.blocks.as_ref().map_or(0, Blocks::bytes);
        let slots = self.directory.bytes();
        #[cfg(locking_lab)]
        let slots = slots.saturating_add(self.locks.bytes());
        slots.saturating_add(times).saturating_add(blocks)
    }

    /// Whether one of `count` blocks from `first` on is on the backing device. Any context.
    pub(crate) fn any_elsewhere(&self, first: u64, count: u64) -> bool {
        (first..first.saturating_add(count)).any(|index| {
            let slot = self.directory.get(index);
            slot.is_some_and(|slot| slot.snapshot().is_elsewhere())
        })
    }

    /// The numbers of the blocks in `range` that seem to be stored, without a lock. Sleeps between them.
    pub(crate) fn stored(&self, range: core::ops::Range<u64>) -> impl Iterator<Item = u64> + '_ {
        let end = range.end.min(self.blocks());
        let mut index = range.start;
        core::iter::from_fn(move || {
            while index < end {
                let this = index;
                match self.directory.get(this) {
                    Some(slot) => {
                        index = this.wrapping_add(1);
                        if index % BREATH == 0 {
                            might_sleep();
                        }
                        if !slot.snapshot().is_empty() {
                            return Some(this);
                        }
                    }
                    // A lot of nothing: goes on behind it.
                    None => {
                        might_sleep();
                        index = self.directory.next_after_hole(this);
                    }
                }
            }
            None
        })
    }

    /// Locks the slot of a block; `None` if nothing near it was ever written. May sleep.
    #[inline]
    pub(crate) fn lock(&self, index: u64) -> Option<Guard<'_>> {
        #[cfg(locking_lab)]
        return self.walk().find(index).map(|place| place.lock());
        #[cfg(not(locking_lab))]
        self.directory.get(index).map(|slot| Guard(slot.lock(self)))
    }

    /// Empties the slots of `count` blocks from `first` on. May sleep.
    pub(crate) fn free_range(&self, first: u64, count: u64) {
        for index in self.stored(first..first.saturating_add(count)) {
            if let Some(mut slot) = self.lock(index) {
                slot.clear();
            }
        }
    }

    /// Empties the slot of a block now, or has whoever holds its lock do so. Any context.
    pub(crate) fn free_soon(&self, index: u64) {
        let Some(slot) = self.directory.get(index) else {
            return;
        };
        #[cfg(locking_lab)]
        if !self.locks.are_own() {
            return;
        }
        loop {
            if let Some(guard) = slot.try_lock(self) {
                Guard(guard).clear();
                return;
            }
            if slot.request_free() {
                return;
            }
        }
    }

    /// Calls `f` with the pattern that an object holds.
    pub(crate) fn read_pattern(&self, object: PackedHandle<'_>) -> Result<u64> {
        let mut scratch = [0; PATTERN_SIZE];
        self.pool
            .read(object, PATTERN_SIZE, &mut scratch, |bytes| {
                Ok(u64::from_ne_bytes(bytes.try_into().map_err(|_| EINVAL)?))
            })?
    }

    /// Calls `f` with the `len` bytes of an object; `scratch` is for one that lies in two pages.
    #[inline]
    pub(crate) fn read_object<R>(
        &self,
        object: PackedHandle<'_>,
        len: usize,
        scratch: &mut [u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<R> {
        self.pool.read(object, len, scratch, f)
    }

    fn free_body(&self, body: Body) {
        match body {
            Body::Object(handle) => self.pool.free(handle),
            Body::Elsewhere(place) => self.give_back_place(place),
            Body::Empty | Body::Value(_) => {}
        }
    }
}

impl Owner for Table {
    fn freed(&self, meta: u32, body: Body) {
        let before = share(Meta::from_bits(meta), body.view());
        self.contents.apply(Share::default().instead_of(before));
        self.free_body(body);
    }

    #[cfg(CONFIG_LOCKDEP)]
    fn class(&self) -> &Class {
        &self.class
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let pool = &self.pool;
        self.directory.drain(|slot| {
            if let (_, Body::Object(handle)) = slot.get_mut_take() {
                pool.free(handle);
            }
        });
    }
}
