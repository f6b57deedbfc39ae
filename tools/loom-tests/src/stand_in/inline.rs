// SPDX-License-Identifier: GPL-2.0

//! `sys/inline.rs` for what a slot needs of it, on loom's atomics.

use crate::sync::atomic::{Acquire, Atomic, Relaxed, Release};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Take,
    LetGo,
}

pub(crate) fn exchange(word: &Atomic<u64>, old: u64, new: u64, side: Side) -> Result<(), u64> {
    match side {
        Side::Take => word.cmpxchg(old, new, Acquire).map(drop),
        Side::LetGo => word.cmpxchg(old, new, Release).map(drop),
    }
}

pub(crate) fn look(word: &Atomic<u64>) -> u64 {
    word.load(Relaxed)
}

pub(crate) fn look_acquire(word: &Atomic<u64>) -> u64 {
    word.load(Acquire)
}
