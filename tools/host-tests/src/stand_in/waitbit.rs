// SPDX-License-Identifier: GPL-2.0

//! `sys/waitbit.rs` on std: wait queues in a table that is hashed by address, as in the kernel.

use crate::sync::atomic::Atomic;
use std::sync::{Condvar, Mutex};

/// Fewer than in the module, so that more is slept.
pub(super) const SPINS: u32 = 4;

/// How many wake-ups there have been; whoever sleeps waits for one more than before it looked.
struct Queue {
    wake_ups: Mutex<u64>,
    woken: Condvar,
}

static QUEUES: [Queue; 8] = [const {
    Queue {
        wake_ups: Mutex::new(0),
        woken: Condvar::new(),
    }
}; 8];

fn queue(word: &Atomic<u64>) -> &'static Queue {
    &QUEUES[word.as_ptr() as usize / size_of::<u64>() % QUEUES.len()]
}

pub(super) fn wait_until<T>(word: &Atomic<u64>, mut attempt: impl FnMut() -> Option<T>) -> T {
    let queue = queue(word);
    loop {
        let before = *queue.wake_ups.lock().unwrap();
        if let Some(value) = attempt() {
            return value;
        }
        let guard = queue.wake_ups.lock().unwrap();
        drop(queue.woken.wait_while(guard, |now| *now == before).unwrap());
    }
}

pub(super) fn wake_all(word: &Atomic<u64>) {
    let queue = queue(word);
    *queue.wake_ups.lock().unwrap() += 1;
    queue.woken.notify_all();
}
