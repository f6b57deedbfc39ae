// SPDX-License-Identifier: GPL-2.0

//! The bits that describe what a slot stores.

use crate::meta::{Meta, CHOSEN, IDLE, INCOMPRESSIBLE};
use crate::sys::page::BLOCK_SIZE;
use crate::sys::slot::META_BITS;

/// Algorithms that a slot can tell apart.
const PRIORITIES: usize = 4;
const FLAGS: [u32; 3] = [IDLE, CHOSEN, INCOMPRESSIBLE];

#[test]
fn each_size_and_priority_of_a_compressed_block_come_back() {
    for size in 1..BLOCK_SIZE {
        for priority in 0..PRIORITIES {
            let meta = Meta::compressed(size, priority).expect("less than a block");
            assert_eq!(meta.bits() >> META_BITS, 0, "{size} bytes");
            let meta = Meta::from_bits(meta.bits());
            assert_eq!(meta.size(), Some(size));
            assert_eq!(meta.priority(), priority);
            assert!(!meta.is_pattern(), "{size} bytes, priority {priority}");
            assert!(FLAGS.iter().all(|flag| !meta.has(*flag)));
        }
    }
}

#[test]
fn nothing_and_a_whole_block_and_more_are_no_sizes() {
    for size in [
        0,
        BLOCK_SIZE,
        BLOCK_SIZE + 1,
        2 * BLOCK_SIZE,
        1 << 32,
        usize::MAX,
    ] {
        assert_eq!(Meta::compressed(size, 0), None, "{size} bytes");
    }
    for priority in [PRIORITIES, PRIORITIES + 1, 1 << 20, usize::MAX] {
        assert_eq!(Meta::compressed(1, priority), None, "priority {priority}");
    }
}

#[test]
fn a_raw_block_and_a_pattern_have_no_size_and_are_told_apart() {
    let (raw, pattern) = (Meta::raw(), Meta::pattern_object());
    for (meta, is_pattern) in [(raw, false), (pattern, true), (Meta::default(), false)] {
        assert_eq!(meta.bits() >> META_BITS, 0);
        assert_eq!(Meta::from_bits(meta.bits()), meta);
        assert_eq!(meta.size(), None);
        assert_eq!(meta.priority(), 0);
        assert_eq!(meta.is_pattern(), is_pattern);
        assert!(FLAGS.iter().all(|flag| !meta.has(*flag)));
    }
    assert_ne!(raw, pattern);
}

#[test]
fn all_bits_mean_one_thing_at_most() {
    for bits in 0..1 << META_BITS {
        let meta = Meta::from_bits(bits);
        assert_eq!(meta.bits(), bits);
        assert!(!(meta.size().is_some() && meta.is_pattern()), "{bits:#x}");
        assert!(meta.size().is_none_or(|size| size < BLOCK_SIZE));
        assert!(meta.priority() < PRIORITIES);
        assert!(meta.size().is_some() || meta.priority() == 0, "{bits:#x}");
    }
}

#[test]
fn each_flag_is_set_and_cleared_alone() {
    for bits in 0..1 << META_BITS {
        let meta = Meta::from_bits(bits);
        for flag in FLAGS {
            let (set, cleared) = (meta.with(flag, 0), meta.with(0, flag));
            assert_eq!(set.bits(), bits | flag);
            assert_eq!(cleared.bits(), bits & !flag);
            assert!(set.has(flag) && !cleared.has(flag));
            assert_eq!(meta.has(flag), bits & flag != 0);
        }
        // Nothing but flags can be changed like that.
        assert_eq!(meta.with(0, u32::MAX).size(), meta.size());
        assert_eq!(meta.with(0, u32::MAX).priority(), meta.priority());
        assert_eq!(meta.with(u32::MAX, 0).size(), meta.size());
        assert_eq!(meta.with(u32::MAX, 0).is_pattern(), meta.is_pattern());
        assert!(!meta.with(IDLE, CHOSEN).has(IDLE | CHOSEN));
    }
    let all = FLAGS.iter().fold(0, |all, flag| all | flag);
    assert_eq!(all.count_ones(), 3, "two flags share a bit");
}
