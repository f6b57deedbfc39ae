// SPDX-License-Identifier: GPL-2.0

//! Running a test in all orders.

use crate::sys::waitbit;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Instant;

/// Runs `test` in all orders of its threads that take at most `preemptions` turns away from a thread that could go on.
pub(crate) fn check(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let runs = Arc::new(Tally::new());
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    let start = Instant::now();
    builder.check({
        let runs = runs.clone();
        move || {
            runs.count();
            waitbit::reset();
            test();
        }
    });
    println!("{} orders in {:.1?}", runs.get(), start.elapsed());
}

/// Counts, over all the orders that are run, those in which something happened. Loom does not see it.
pub(crate) struct Tally(AtomicU32);

impl Tally {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    pub(crate) fn count(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// How often.
    pub(crate) fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// Fails where it never happened: the test does not show what it is there for.
    pub(crate) fn must_have_happened(&self, what: &str) {
        assert_ne!(self.0.load(Relaxed), 0, "no run in which {what}");
    }
}
