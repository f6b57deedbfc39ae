// SPDX-License-Identifier: GPL-2.0

//! Patterns in the bits of a slot.

use crate::fill::{decode, encode};
use crate::sys::slot::BODY_BITS;
use proptest::prelude::*;

/// Whether a pattern is one that is meant to fit: a 32-bit word twice, or a number of 41 bits with its sign.
fn fits(pattern: u64) -> bool {
    let number = pattern as i64;
    pattern >> 32 == pattern & 0xffff_ffff || (-(1 << 40)..1 << 40).contains(&number)
}

fn check(pattern: u64) {
    match encode(pattern) {
        Some(value) => {
            assert!(fits(pattern), "{pattern:#x} was taken for {value:#x}");
            assert!(value >> BODY_BITS == 0, "{pattern:#x} gave {value:#x}");
            assert_eq!(decode(value), pattern, "by way of {value:#x}");
        }
        None => assert!(!fits(pattern), "{pattern:#x} was refused"),
    }
}

#[test]
fn every_word_of_32_bits_that_is_repeated_comes_back() {
    /// What is wrong with a word; 0 for nothing.
    fn wrong(word: u32) -> u64 {
        let pattern = (u64::from(word) << 32) | u64::from(word);
        let bits = |value| (decode(value) ^ pattern) | (value >> BODY_BITS);
        encode(pattern).map_or(u64::MAX, bits)
    }
    /// Goes through words in blocks, each without a branch. Where the compiler sees that nothing is ever wrong, it has proved it.
    fn all(blocks: std::ops::Range<u32>) {
        for block in blocks {
            let words = || (0..=u16::MAX).map(move |low| (block << 16) | u32::from(low));
            if words().fold(0, |all, word| all | wrong(word)) != 0 {
                let first = words().find(|word| wrong(*word) != 0);
                panic!("{first:#x?}, repeated, does not come back");
            }
        }
    }
    std::thread::scope(|scope| {
        scope.spawn(|| all(0..1 << 15));
        all(1 << 15..1 << 16);
    });
}

#[test]
fn numbers_around_each_power_of_two_come_back_or_are_refused() {
    for shift in 0..64 {
        for delta in -3..=3i64 {
            let pattern = (1u64 << shift).wrapping_add_signed(delta);
            check(pattern);
            check(pattern.wrapping_neg());
        }
    }
}

#[test]
fn the_largest_numbers_fit_and_their_neighbours_do_not() {
    for (number, expected) in [
        ((1i64 << 40) - 1, true),
        (1 << 40, false),
        (-(1 << 40), true),
        (-(1 << 40) - 1, false),
        (i64::MAX, false),
        (i64::MIN, false),
        (0, true),
        (-1, true),
    ] {
        assert_eq!(encode(number as u64).is_some(), expected, "{number:#x}");
        check(number as u64);
    }
}

#[test]
fn what_is_neither_a_repeated_word_nor_close_to_zero_is_refused() {
    for pattern in [
        0x0123_4567_89ab_cdef,
        0x8000_0000_0000_0000,
        0x0000_0100_0000_0000,
        0xffff_feff_ffff_ffff,
        0x1111_1111_1111_1112,
        0x0001_0203_0405_0607,
    ] {
        assert_eq!(encode(pattern), None, "{pattern:#x}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn any_pattern_comes_back_or_is_refused(pattern: u64) {
        check(pattern);
    }

    #[test]
    fn any_small_number_comes_back(number in -(1i64 << 41)..1 << 41) {
        check(number as u64);
    }

    #[test]
    fn two_patterns_never_share_a_value(a in 0u64..1 << BODY_BITS, b in 0u64..1 << BODY_BITS) {
        let canonical = |value: u64| encode(decode(value)).unwrap();
        prop_assert_eq!(decode(canonical(a)), decode(a));
        if canonical(a) != canonical(b) {
            prop_assert_ne!(decode(a), decode(b));
        }
    }
}
