// SPDX-License-Identifier: GPL-2.0

//! `kernel::sync::atomic` on loom's atomics: what a slot needs of it.
//!
//! The kernel's memory model is stronger than the one that loom knows (which is Rust's own), so what holds here holds there.

use loom::sync::atomic::{fence, AtomicU64, Ordering as Rust};

/// An ordering of the kernel crate.
pub(crate) trait Ordering {
    /// The nearest of Rust's.
    const RUST: Rust;
    /// Whether a successful operation is a full barrier.
    const FULL: bool = false;
}

pub(crate) trait AcquireOrRelaxed: Ordering {}

pub(crate) struct Relaxed;
pub(crate) struct Acquire;
pub(crate) struct Release;
pub(crate) struct Full;

impl Ordering for Relaxed {
    const RUST: Rust = Rust::Relaxed;
}

impl Ordering for Acquire {
    const RUST: Rust = Rust::Acquire;
}

impl Ordering for Release {
    const RUST: Rust = Rust::Release;
}

impl Ordering for Full {
    const RUST: Rust = Rust::AcqRel;
    const FULL: bool = true;
}

impl AcquireOrRelaxed for Relaxed {}
impl AcquireOrRelaxed for Acquire {}

/// An atomic `T`; only `u64` for now.
pub(crate) struct Atomic<T> {
    inner: AtomicU64,
    /// Changed by each load. Loom compares an operation with the last one on the same atomic alone, so that a load hides
    /// the one before it: the order of that one and a change that follows would not be turned round.
    loads: AtomicU64,
    /// What [`Atomic::get_mut`] lends.
    taken: T,
}

impl Atomic<u64> {
    pub(crate) fn new(value: u64) -> Self {
        Self {
            inner: AtomicU64::new(value),
            loads: AtomicU64::new(0),
            taken: 0,
        }
    }

    /// The value, to take something out of it at the end: loom has no way to see what becomes of it, so the atomic itself
    /// becomes 0.
    pub(crate) fn get_mut(&mut self) -> &mut u64 {
        self.taken = self.inner.with_mut(core::mem::take);
        &mut self.taken
    }

    pub(crate) fn load<O: AcquireOrRelaxed>(&self, _: O) -> u64 {
        self.loads.fetch_add(1, Rust::Relaxed);
        self.inner.load(O::RUST)
    }

    /// A failed one orders nothing.
    pub(crate) fn cmpxchg<O: Ordering>(&self, old: u64, new: u64, _: O) -> Result<u64, u64> {
        if std::thread::panicking() {
            // A lock is let go of because the test has failed: there is nothing left to run it on.
            return Ok(old);
        }
        if O::FULL {
            fence(Rust::SeqCst);
        }
        let result = self
            .inner
            .compare_exchange(old, new, O::RUST, Rust::Relaxed);
        if O::FULL && result.is_ok() {
            fence(Rust::SeqCst);
        }
        result
    }
}
