// SPDX-License-Identifier: GPL-2.0

//! `sys/waitbit.rs` on loom's primitives.
//!
//! All words share one wait queue, which is what the kernel's hashing can come to. As there, a sleeper queues before it looks
//! at the word, a wake-up takes everybody off the queue, and one that comes between the two is not lost.

use crate::sync::atomic::Atomic;
use loom::sync::{Arc, Condvar, Mutex};
use std::cell::Cell;

/// How often a busy lock is looked at before sleeping. More than none would only make more of the same orders.
pub(super) const SPINS: u32 = 0;

/// Somebody on the wait queue. The condition variable belongs to the lock of the queue.
struct Entry {
    woken: Condvar,
}

loom::lazy_static! {
    static ref QUEUE: Mutex<Vec<Arc<Entry>>> = Mutex::new(Vec::new());
}

// Loom runs all threads of a test as coroutines of one.
thread_local! {
    static ASLEEP: Cell<u32> = const { Cell::new(0) };
}

/// How many threads of this run are asleep. Cannot be seen by loom, so that looking at it changes nothing.
pub(crate) fn asleep() -> u32 {
    ASLEEP.get()
}

pub(super) fn wait_until<T>(_: &Atomic<u64>, mut attempt: impl FnMut() -> Option<T>) -> T {
    let entry = Arc::new(Entry {
        woken: Condvar::new(),
    });
    loop {
        {
            let mut queue = QUEUE.lock().unwrap();
            if !queued(&queue, &entry) {
                queue.push(entry.clone());
            }
        }
        let attempted = attempt();
        let mut queue = QUEUE.lock().unwrap();
        if let Some(value) = attempted {
            queue.retain(|other| !Arc::ptr_eq(other, &entry));
            return value;
        }
        while queued(&queue, &entry) {
            ASLEEP.set(ASLEEP.get() + 1);
            queue = entry.woken.wait(queue).unwrap();
            ASLEEP.set(ASLEEP.get() - 1);
        }
    }
}

fn queued(queue: &[Arc<Entry>], entry: &Arc<Entry>) -> bool {
    queue.iter().any(|other| Arc::ptr_eq(other, entry))
}

pub(super) fn wake_all(_: &Atomic<u64>) {
    if std::thread::panicking() {
        // The test has failed, and with it all that runs in it.
        return;
    }
    let mut queue = QUEUE.lock().unwrap();
    for entry in queue.drain(..) {
        entry.woken.notify_one();
    }
}

/// To be called first in each run, as one that failed leaves its sleepers behind.
pub(crate) fn reset() {
    ASLEEP.set(0);
}
