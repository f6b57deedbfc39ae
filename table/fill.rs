// SPDX-License-Identifier: GPL-2.0

//! 64-bit patterns in the bits that a slot has for a value.
//!
//! Most patterns are one 32-bit word twice (all of those that repeat a byte), or a number close to zero: the top bit tells
//! which of the two follows. What is neither does not fit.

use crate::sys::slot::BODY_BITS;

const REPEATED: u64 = 1 << (BODY_BITS - 1);
/// Bits of a number, sign included.
const NUMBER_BITS: u32 = BODY_BITS - 1;
const UNUSED: u32 = u64::BITS - NUMBER_BITS;

const _: () = assert!(NUMBER_BITS >= u32::BITS);

/// The value for `pattern`, if it fits.
#[inline]
pub(super) fn encode(pattern: u64) -> Option<u64> {
    if pattern >> u32::BITS == pattern & u64::from(u32::MAX) {
        return Some(REPEATED | (pattern & u64::from(u32::MAX)));
    }
    let number = pattern << UNUSED;
    // CAST: A shift to the right that copies the sign.
    ((number as i64 >> UNUSED) as u64 == pattern).then_some(number >> UNUSED)
}

/// The pattern that a value stands for.
#[inline]
pub(super) fn decode(value: u64) -> u64 {
    if value & REPEATED != 0 {
        let word = value & u64::from(u32::MAX);
        word << u32::BITS | word
    } else {
        // CAST: As above.
        ((value << UNUSED) as i64 >> UNUSED) as u64
    }
}
