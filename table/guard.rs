// SPDX-License-Identifier: GPL-2.0

//! A locked slot, and what can be done with it.

use super::{
    fill,
    meta::{
        Meta,
        CHOSEN,
        IDLE,
        INCOMPRESSIBLE, //
    },
    Entry,
    Table,
    PATTERN_SIZE, //
};
use crate::{
    stats::Share,
    sys::{
        page::BLOCK_SIZE,
        slot::{
            self,
            Body,
            View, //
        },
        zsmalloc::PackedHandle, //
    }, //
};

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
    /// A compressed block.
    Compressed {
        object: PackedHandle<'a>,
        /// Bytes of the object.
        len: usize,
        /// Priority of the algorithm.
        priority: usize,
    },
    /// A block on the backing device.
    Elsewhere {
        /// Number of the block there.
        place: u64,
        /// Bytes of the compressed block, and the priority of its algorithm; `None` for a block as it is.
        compressed: Option<(usize, usize)>,
    },
}

/// What a slot stores, for those who choose among slots.
#[derive(Clone, Copy)]
pub(crate) struct Info {
    /// Filled with one pattern.
    pub(crate) same: bool,
    /// On the backing device.
    pub(crate) elsewhere: bool,
    /// Stored, or written back, as it is.
    pub(crate) huge: bool,
    /// Bytes of the object that holds the block.
    pub(crate) size: usize,
    /// Priority of the algorithm that compressed it.
    pub(crate) priority: usize,
    /// Not accessed since it was marked.
    pub(crate) idle: bool,
    /// Chosen for post-processing, and not accessed since.
    pub(crate) chosen: bool,
    /// No algorithm compresses it any further.
    pub(crate) incompressible: bool,
}

/// How something with these properties counts.
#[inline]
pub(super) fn share(meta: Meta, view: View<'_>) -> Share {
    match view {
        View::Empty => Share::default(),
        View::Value(_) => Share {
            stored: 1,
            same: 1,
            ..Share::default()
        },
        View::Elsewhere(_) => Share {
            stored: 1,
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

/// What a slot with these properties stores.
#[inline]
pub(super) fn stored(meta: Meta, view: View<'_>) -> Stored<'_> {
    match view {
        View::Empty => Stored::Nothing,
        View::Value(value) => Stored::Pattern(fill::decode(value)),
        View::Object(object) => match meta.size() {
            Some(len) => Stored::Compressed {
                object,
                len,
                priority: meta.priority(),
            },
            None if meta.is_pattern() => Stored::PatternObject(object),
            None => Stored::Raw(object),
        },
        View::Elsewhere(place) => Stored::Elsewhere {
            place,
            compressed: meta.size().map(|len| (len, meta.priority())),
        },
    }
}

/// The lock of a slot, and what the slot stores.
pub(crate) struct Guard<'a>(pub(super) slot::Guard<'a, Table>);

impl Guard<'_> {
    fn meta(&self) -> Meta {
        Meta::from_bits(self.0.meta())
    }

    /// What the slot stores.
    #[inline]
    pub(crate) fn stored(&self) -> Stored<'_> {
        stored(self.meta(), self.0.view())
    }

    /// The same, for those who choose among slots; `None` if it stores nothing.
    pub(crate) fn info(&self) -> Option<Info> {
        let meta = self.meta();
        let (same, elsewhere) = match self.0.view() {
            View::Empty => return None,
            View::Value(_) => (true, false),
            View::Object(_) => (meta.is_pattern(), false),
            View::Elsewhere(_) => (false, true),
        };
        Some(Info {
            same,
            elsewhere,
            huge: !same && meta.size().is_none(),
            size: meta.size().unwrap_or(BLOCK_SIZE),
            priority: meta.priority(),
            idle: meta.has(IDLE),
            chosen: meta.has(CHOSEN),
            incompressible: meta.has(INCOMPRESSIBLE),
        })
    }

    /// Sets and clears flags, unless the slot stores nothing.
    #[inline]
    pub(crate) fn mark(&mut self, set: u32, cleared: u32) {
        self.0.set_meta(self.meta().with(set, cleared).bits());
    }

    /// The block is accessed: it is neither idle nor chosen any more.
    #[inline]
    pub(crate) fn touch(&mut self) {
        self.mark(0, IDLE | CHOSEN);
    }

    /// Empties the slot.
    pub(crate) fn clear(&mut self) {
        self.replace(Meta::default(), Body::Empty);
    }

    /// Stores `entry` in place of what is there.
    #[inline(always)]
    pub(crate) fn store(&mut self, entry: Entry) {
        self.replace(entry.meta, entry.body);
    }

    /// The block is on the backing device now, at `place`, which belongs to the slot from here on.
    pub(crate) fn move_out(&mut self, place: u64) {
        let meta = self.meta().with(0, IDLE | CHOSEN);
        self.replace(meta, Body::Elsewhere(place));
    }

    #[inline(always)]
    fn replace(&mut self, meta: Meta, body: Body) {
        let now = share(meta, body.view());
        let (old_meta, old) = self.0.replace(meta.bits(), body);
        let before = share(Meta::from_bits(old_meta), old.view());
        let table = self.0.owner();
        table.contents.apply(now.instead_of(before));
        table.free_body(old);
    }
}
