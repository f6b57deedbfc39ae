// SPDX-License-Identifier: GPL-2.0

//! Making what is about to be stored: before the slot is locked, so that what fails leaves the slot as it was.

use super::{
    fill,
    meta::Meta,
    Table,
    PATTERN_SIZE, //
};
use crate::sys::{
    page::{
        Piece,
        Source,
        BLOCK_SIZE, //
    },
    slot::Body,
    zsmalloc::Handle, //
};
use kernel::{
    bindings::NUMA_NO_NODE,
    prelude::*, //
};

/// What an object is to be near to, in memory. Asked only if there is going to be one.
pub(crate) trait Near {
    /// The memory node.
    fn nid(self) -> i32;
}

/// To nothing.
pub(crate) struct Anywhere;

impl Near for Anywhere {
    fn nid(self) -> i32 {
        NUMA_NO_NODE
    }
}

impl Near for Piece<'_> {
    #[inline]
    fn nid(self) -> i32 {
        Piece::nid(self)
    }
}

/// Something that is about to be stored.
#[must_use = "an entry that is not stored loses its object"]
pub(crate) struct Entry {
    pub(super) meta: Meta,
    pub(super) body: Body,
}

impl Table {
    /// An object of `len` bytes, within the limit (in pages; 0 is none): `ENOMEM` if it takes the pool over that.
    #[inline(always)]
    fn object(&self, len: usize, near: impl Near, limit_pages: u64) -> Result<Handle> {
        let handle = self.pool.alloc(len, near.nid())?;
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
    pub(crate) fn pattern(&self, pattern: u64, near: impl Near, limit_pages: u64) -> Result<Entry> {
        match fill::encode(pattern) {
            Some(value) => Ok(Entry {
                meta: Meta::default(),
                body: Body::Value(value),
            }),
            None => self.pattern_object(pattern, near, limit_pages),
        }
    }

    #[inline(never)]
    fn pattern_object(&self, pattern: u64, near: impl Near, limit_pages: u64) -> Result<Entry> {
        let mut handle = self.object(PATTERN_SIZE, near, limit_pages)?;
        self.pool.write(&mut handle, &pattern.to_ne_bytes());
        let (meta, body) = (Meta::pattern_object(), Body::Object(handle));
        Ok(Entry { meta, body })
    }

    /// Makes an entry for a block that the algorithm of `priority` compresses to `data`; `None` if that is too long to be worth
    /// it. May sleep.
    #[inline(always)]
    pub(crate) fn compressed(
        &self,
        data: &[u8],
        priority: usize,
        near: impl Near,
        limit_pages: u64,
    ) -> Result<Option<Entry>> {
        if data.len() >= self.huge_class_size.min(BLOCK_SIZE) {
            return Ok(None);
        }
        let meta = Meta::compressed(data.len(), priority).ok_or(EINVAL)?;
        let mut handle = self.object(data.len(), near, limit_pages)?;
        self.pool.write(&mut handle, data);
        let body = Body::Object(handle);
        Ok(Some(Entry { meta, body }))
    }

    /// Makes an entry for a block as it is. May sleep.
    #[inline(never)]
    pub(crate) fn raw(
        &self,
        block: Source<'_>,
        near: impl Near,
        limit_pages: u64,
    ) -> Result<Entry> {
        let mut handle = self.object(BLOCK_SIZE, near, limit_pages)?;
        self.pool.write_page(&mut handle, block);
        self.contents.count_huge_write();
        let (meta, body) = (Meta::raw(), Body::Object(handle));
        Ok(Entry { meta, body })
    }

    /// Frees an entry that will not be stored.
    pub(crate) fn discard(&self, entry: Entry) {
        self.free_body(entry.body);
    }
}
