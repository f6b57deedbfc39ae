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
        Source,
        BLOCK_SIZE, //
    },
    slot::Body,
    zsmalloc::Handle, //
};
use kernel::prelude::*;

/// Something that is about to be stored.
#[must_use = "an entry that is not stored loses its object"]
pub(crate) struct Entry {
    pub(super) meta: Meta,
    pub(super) body: Body,
}

impl Table {
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

    /// Makes an entry for a block that the algorithm of `priority` compresses to `data`; `None` if that is too long to be worth
    /// it. May sleep.
    #[inline]
    pub(crate) fn compressed(
        &self,
        data: &[u8],
        priority: usize,
        nid: i32,
        limit_pages: u64,
    ) -> Result<Option<Entry>> {
        if data.len() >= self.huge_class_size.min(BLOCK_SIZE) {
            return Ok(None);
        }
        let meta = Meta::compressed(data.len(), priority).ok_or(EINVAL)?;
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

    /// Frees an entry that will not be stored.
    pub(crate) fn discard(&self, entry: Entry) {
        self.free_body(entry.body);
    }
}
