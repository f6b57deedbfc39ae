// SPDX-License-Identifier: GPL-2.0

//! The bits of a slot that describe what is stored.
//!
//! From bit 0: the size of a compressed block (12 bits), or 0 for what is not compressed; the priority of the algorithm that
//! compressed it (2 bits), or, where the size is 0, whether an object is a block as it is (0) or a pattern (1); three flags.

use crate::sys::{
    page::BLOCK_SIZE,
    slot::META_BITS, //
};

const SIZE_BITS: u32 = 12;
const SIZE_MASK: u32 = (1 << SIZE_BITS) - 1;
const PRIORITY_SHIFT: u32 = SIZE_BITS;
const PRIORITY_MASK: u32 = 0x3;
const FLAG_SHIFT: u32 = PRIORITY_SHIFT + 2;

/// Not accessed since it was marked.
pub(crate) const IDLE: u32 = 1 << FLAG_SHIFT;
/// Chosen for post-processing, and neither accessed nor replaced since.
pub(crate) const CHOSEN: u32 = 1 << (FLAG_SHIFT + 1);
/// No algorithm compresses it any further.
pub(crate) const INCOMPRESSIBLE: u32 = 1 << (FLAG_SHIFT + 2);
const FLAGS: u32 = IDLE | CHOSEN | INCOMPRESSIBLE;

/// Where the size is 0: what the object is.
const PATTERN: u32 = 1;

const _: () = assert!(FLAGS >> META_BITS == 0);
const _: () = assert!(BLOCK_SIZE == 1 << SIZE_BITS);

/// Describes what a slot stores.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Meta(u32);

impl Meta {
    /// A compressed block of `size` bytes, by the algorithm of `priority`; `None` if that is nothing, or a whole block, or
    /// there is no such priority.
    #[inline]
    pub(super) fn compressed(size: usize, priority: usize) -> Option<Self> {
        // CAST: Less than a block, and than 4.
        (size > 0 && size < BLOCK_SIZE && priority <= PRIORITY_MASK as usize)
            .then_some(Self(size as u32 | (priority as u32) << PRIORITY_SHIFT))
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

    /// The priority of the algorithm that compressed a block; 0 for what is not compressed.
    #[inline]
    pub(crate) fn priority(self) -> usize {
        match self.size() {
            Some(_) => ((self.0 >> PRIORITY_SHIFT) & PRIORITY_MASK) as usize,
            None => 0,
        }
    }

    /// Whether an object that is not compressed holds a pattern.
    #[inline]
    pub(super) fn is_pattern(self) -> bool {
        self.size().is_none() && (self.0 >> PRIORITY_SHIFT) & PRIORITY_MASK == PATTERN
    }

    /// Whether all of `flags` are set.
    #[inline]
    pub(crate) fn has(self, flags: u32) -> bool {
        self.0 & flags == flags
    }

    /// The same, with the `set` flags set and the `cleared` ones cleared.
    #[inline]
    pub(super) fn with(self, set: u32, cleared: u32) -> Self {
        Self(self.0 & !(cleared & FLAGS) | (set & FLAGS))
    }
}
