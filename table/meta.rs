// SPDX-License-Identifier: GPL-2.0

//! The bits of a slot that describe what is stored.
//!
//! From bit 0: the size of a compressed block (12 bits), or 0 for an object that is not compressed; the priority of the
//! algorithm that compressed it (2 bits), or, where the size is 0, whether the object is a block as it is (0) or a pattern
//! (1). Three bits are left, for idle tracking, post-processing and incompressible blocks.

use crate::sys::{
    page::BLOCK_SIZE,
    slot::META_BITS, //
};

const SIZE_BITS: u32 = 12;
const SIZE_MASK: u32 = (1 << SIZE_BITS) - 1;
const PRIORITY_SHIFT: u32 = SIZE_BITS;
const PRIORITY_MASK: u32 = 0x3;

/// Where the size is 0: what the object is.
const PATTERN: u32 = 1;

const _: () = assert!(SIZE_BITS + 2 <= META_BITS);
const _: () = assert!(BLOCK_SIZE == 1 << SIZE_BITS);

/// Describes what a slot stores.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Meta(u32);

impl Meta {
    /// A compressed block of `size` bytes; `None` if that is nothing, or a whole block.
    #[inline]
    pub(super) fn compressed(size: usize) -> Option<Self> {
        // CAST: Less than a block.
        (size > 0 && size < BLOCK_SIZE).then_some(Self(size as u32))
    }

    /// A block as it is.
    #[inline]
    pub(super) fn raw() -> Self {
        Self(0)
    }

    /// A pattern in an object.
    #[inline]
    pub(super) fn pattern_object() -> Self {
        Self(PATTERN << PRIORITY_SHIFT)
    }

    /// From the bits in a slot.
    #[inline]
    pub(super) fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The bits for a slot.
    #[inline]
    pub(super) fn bits(self) -> u32 {
        self.0
    }

    /// The size of a compressed block; `None` for what is not compressed.
    #[inline]
    pub(super) fn size(self) -> Option<usize> {
        match self.0 & SIZE_MASK {
            0 => None,
            size => Some(size as usize),
        }
    }

    /// Whether an object that is not compressed holds a pattern.
    #[inline]
    pub(super) fn is_pattern(self) -> bool {
        self.size().is_none() && (self.0 >> PRIORITY_SHIFT) & PRIORITY_MASK == PATTERN
    }
}
