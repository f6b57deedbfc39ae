// SPDX-License-Identifier: GPL-2.0

//! What a disk stores: a slot for each block, and the pool of objects that the slots refer to.
//!
//! Slots are found without a lock, and each has a lock bit of its own (`sys::slot`). A [`Guard`] is the only way to what a
//! slot stores, so an access without the lock does not compile. Changing what is stored also counts it, and frees what was
//! there.

mod fill;
mod meta;

use crate::{
    stats::{
        Contents,
        PoolFigures,
        Share, //
    },
    sys::{
        directory::Directory,
        page::{
            Source,
            BLOCK_SIZE, //
        },
        slot::{
            self,
            Body,
            Owner,
            Slot,
            View, //
        },
        zsmalloc::{
            Handle,
            PackedHandle,
            Pool, //
        }, //
    }, //
};
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

/// Bytes of an object that holds a pattern which does not fit into the slot.
const PATTERN_SIZE: usize = size_of::<u64>();

/// The slots and the pool of a disk.
pub(crate) struct Table {
    directory: Directory,
    pool: Pool,
    huge_class_size: usize,
    contents: Contents,
    max_used_pages: Atomic<u64>,
}

/// Something that is about to be stored.
#[must_use = "an entry that is not stored loses its object"]
pub(crate) struct Entry {
    meta: Meta,
    body: Body,
}

/// What a locked slot stores.
pub(crate) enum Stored<'a> {
    /// Nothing; the block reads as zeros.
    Nothing,
    /// A block that is filled with this pattern.
    Pattern(u64),
    /// The same, with the pattern in an object of 8 bytes.
    PatternObject(PackedHandle<'a>),
    /// A block as it is.
    Raw(PackedHandle<'a>),
    /// A compressed block of this many bytes.
    Compressed(PackedHandle<'a>, usize),
}

impl Table {
    /// An empty table for `blocks` blocks, with a pool called `name`. May sleep.
    pub(crate) fn new(blocks: u64, name: &CStr) -> Result<Self> {
        let pool = Pool::new(name)?;
        Ok(Self {
            directory: Directory::new(blocks)?,
            huge_class_size: pool.huge_class_size(),
            pool,
            contents: Contents::new(),
            max_used_pages: Atomic::new(0),
        })
    }

    /// Number of blocks.
    pub(crate) fn blocks(&self) -> u64 {
        self.directory.slots()
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

    fn note_used(&self, pages: u64) {
        let mut max = self.max_used_pages.load(Relaxed);
        while pages > max {
            match self.max_used_pages.cmpxchg(max, pages, Relaxed) {
                Ok(_) => return,
                Err(now) => max = now,
            }
        }
    }

    /// An object of `len` bytes, within the limit (in pages; 0 is none): `ENOMEM` if it takes the pool over that.
    #[inline]
    fn object(&self, len: usize, nid: i32, limit_pages: u64) -> Result<Handle> {
        let handle = self.pool.alloc(len, nid)?;
        let used = self.pool.total_pages();
        self.note_used(used);
        if limit_pages != 0 && used > limit_pages {
            self.pool.free(handle);
            return Err(ENOMEM);
        }
        Ok(handle)
    }

    /// Makes an entry for a block that is filled with `pattern`. May sleep.
    #[inline]
    pub(crate) fn pattern(&self, pattern: u64, nid: i32, limit_pages: u64) -> Result<Entry> {
        let (meta, body) = match fill::encode(pattern) {
            Some(value) => (Meta::default(), Body::Value(value)),
            None => {
                let mut handle = self.object(PATTERN_SIZE, nid, limit_pages)?;
                self.pool.write(&mut handle, &pattern.to_ne_bytes());
                (Meta::pattern_object(), Body::Object(handle))
            }
        };
        Ok(Entry { meta, body })
    }

    /// Makes an entry for a block that compresses to `data`; `None` if that is too long to be worth it. May sleep.
    #[inline]
    pub(crate) fn compressed(
        &self,
        data: &[u8],
        nid: i32,
        limit_pages: u64,
    ) -> Result<Option<Entry>> {
        if data.len() >= self.huge_class_size.min(BLOCK_SIZE) {
            return Ok(None);
        }
        let meta = Meta::compressed(data.len()).ok_or(EINVAL)?;
        let mut handle = self.object(data.len(), nid, limit_pages)?;
        self.pool.write(&mut handle, data);
        let body = Body::Object(handle);
        Ok(Some(Entry { meta, body }))
    }

    /// Makes an entry for a block as it is. May sleep.
    pub(crate) fn raw(&self, block: Source<'_>, nid: i32, limit_pages: u64) -> Result<Entry> {
        let mut handle = self.object(BLOCK_SIZE, nid, limit_pages)?;
        self.pool.write_page(&mut handle, block);
        self.contents.count_huge_write();
        let (meta, body) = (Meta::raw(), Body::Object(handle));
        Ok(Entry { meta, body })
    }

    /// The pattern that a block is filled with, if that can be told without a lock; a block that was never written is filled
    /// with zeros. Any context.
    #[inline]
    pub(crate) fn peek_pattern(&self, index: u64) -> Option<u64> {
        let Some(slot) = self.directory.get(index) else {
            return Some(0);
        };
        let seen = slot.snapshot();
        if seen.is_empty() {
            return Some(0);
        }
        seen.value().map(fill::decode)
    }

    /// Locks the slot of a block; `None` if nothing near it was ever written. May sleep.
    #[inline]
    pub(crate) fn lock(&self, index: u64) -> Option<Guard<'_>> {
        self.directory.get(index).map(|slot| Guard(slot.lock(self)))
    }

    /// The slot of a block, with the memory for it: `ENOMEM` if there is none. May sleep.
    #[inline]
    pub(crate) fn place(&self, index: u64) -> Result<Place<'_>> {
        let slot = self.directory.get_or_alloc(index)?;
        Ok(Place { table: self, slot })
    }

    /// Empties the slots of `count` blocks from `first` on. May sleep.
    pub(crate) fn free_range(&self, first: u64, count: u64) {
        let end = first.saturating_add(count).min(self.blocks());
        let mut index = first;
        while index < end {
            let Some(slot) = self.directory.get(index) else {
                // A lot of nothing: goes on behind it.
                might_sleep();
                index = self.directory.next_after_hole(index);
                continue;
            };
            if !slot.snapshot().is_empty() {
                Guard(slot.lock(self)).clear();
            }
            index = index.wrapping_add(1);
        }
    }

    /// Empties the slot of a block now, or has whoever holds its lock do so. Any context.
    pub(crate) fn free_soon(&self, index: u64) {
        let Some(slot) = self.directory.get(index) else {
            return;
        };
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
        if let Body::Object(handle) = body {
            self.pool.free(handle);
        }
    }
}

/// How something with these properties counts.
#[inline]
fn share(meta: Meta, view: View<'_>) -> Share {
    match view {
        View::Empty => Share::default(),
        View::Value(_) => Share {
            stored: 1,
            same: 1,
            ..Share::default()
        },
        View::Object(_) => {
            let (bytes, same, huge) = match meta.size() {
                Some(size) => (size, 0, 0),
                None if meta.is_pattern() => (PATTERN_SIZE, 1, 0),
                None => (BLOCK_SIZE, 0, 1),
            };
            Share {
                stored: 1,
                // CAST: At most a block.
                bytes: bytes as i64,
                same,
                huge,
            }
        }
    }
}

impl Owner for Table {
    fn freed(&self, meta: u32, body: Body) {
        let before = share(Meta::from_bits(meta), body.view());
        self.contents.apply(Share::default().instead_of(before));
        self.free_body(body);
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

/// A slot that can be locked without fail.
pub(crate) struct Place<'a> {
    table: &'a Table,
    slot: &'a Slot,
}

impl Place<'_> {
    /// Stores `entry` in place of what is there. May sleep.
    #[inline]
    pub(crate) fn store(&self, entry: Entry) {
        Guard(self.slot.lock(self.table)).replace(entry.meta, entry.body);
    }
}

/// The lock of a slot, and what the slot stores.
pub(crate) struct Guard<'a>(slot::Guard<'a, Table>);

impl Guard<'_> {
    /// What the slot stores.
    #[inline]
    pub(crate) fn stored(&self) -> Stored<'_> {
        let meta = Meta::from_bits(self.0.meta());
        match self.0.view() {
            View::Empty => Stored::Nothing,
            View::Value(value) => Stored::Pattern(fill::decode(value)),
            View::Object(object) => match meta.size() {
                Some(size) => Stored::Compressed(object, size),
                None if meta.is_pattern() => Stored::PatternObject(object),
                None => Stored::Raw(object),
            },
        }
    }

    /// Empties the slot.
    pub(crate) fn clear(&mut self) {
        self.replace(Meta::default(), Body::Empty);
    }

    #[inline]
    fn replace(&mut self, meta: Meta, body: Body) {
        let now = share(meta, body.view());
        let (old_meta, old) = self.0.replace(meta.bits(), body);
        let before = share(Meta::from_bits(old_meta), old.view());
        let table = self.0.owner();
        table.contents.apply(now.instead_of(before));
        table.free_body(old);
    }
}
