// SPDX-License-Identifier: GPL-2.0

//! The lock of a slot under threads that all want it at once. The orders that loom-tests goes through one by one happen
//! here by chance, with true parallelism, and with more threads.

use super::slot::{Body, Guard, Owner, Slot, View};
use super::zsmalloc::Pool;
use crate::random::Random;
use crate::sync::atomic::{hesitate, Atomic, Relaxed};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Barrier;
use std::thread;

const SLOTS: usize = 2;
const THREADS: u64 = 4;

struct Shared {
    slots: [Slot; SLOTS],
    /// Set while somebody has the lock.
    held: [AtomicBool; SLOTS],
    pool: Pool,
    carried_out: AtomicU64,
}

impl Owner for Shared {
    fn freed(&self, meta: u32, body: Body) {
        self.carried_out.fetch_add(1, Ordering::Relaxed);
        if let Body::Object(handle) = &body {
            self.check(meta, handle.borrow());
        }
        self.free(body);
    }
}

type Object<'a> = super::zsmalloc::PackedHandle<'a>;

impl Shared {
    fn new() -> Self {
        Self {
            slots: std::array::from_fn(|_| Slot::new()),
            held: [const { AtomicBool::new(false) }; SLOTS],
            pool: Pool::new(c"stress").unwrap(),
            carried_out: AtomicU64::new(0),
        }
    }

    fn free(&self, body: Body) {
        if let Body::Object(handle) = body {
            self.pool.free(handle);
        }
    }

    /// An object holds the bits that its slot has beside it.
    fn check(&self, meta: u32, object: Object<'_>) {
        let mut scratch = [0; 4];
        let read = self.pool.read(object, 4, &mut scratch, <[u8]>::to_vec);
        assert_eq!(read.unwrap(), meta.to_ne_bytes());
    }

    /// Does something that nobody else may do meanwhile, and looks at what the slot stores.
    fn hold(&self, slot: usize, guard: &Guard<'_, Self>) {
        assert!(!self.held[slot].swap(true, Ordering::Relaxed));
        if let View::Object(object) = guard.view() {
            self.check(guard.meta(), object);
        }
        assert!(self.held[slot].swap(false, Ordering::Relaxed));
    }

    fn store(&self, slot: usize, meta: u32) {
        let mut handle = self.pool.alloc(4, 0).unwrap();
        self.pool.write(&mut handle, &meta.to_ne_bytes());
        let mut guard = self.slots[slot].lock(self);
        self.hold(slot, &guard);
        let (_, old) = guard.replace(meta, Body::Object(handle));
        self.hold(slot, &guard);
        drop(guard);
        self.free(old);
    }

    fn read(&self, slot: usize) -> bool {
        let guard = self.slots[slot].lock(self);
        self.hold(slot, &guard);
        matches!(guard.view(), View::Object(_))
    }

    /// As `Table::free_soon()` does. Returns whether the holder was asked to do it.
    fn free_soon(&self, slot: usize) -> bool {
        loop {
            if let Some(mut guard) = self.slots[slot].try_lock(self) {
                self.hold(slot, &guard);
                let (_, old) = guard.replace(0, Body::Empty);
                drop(guard);
                self.free(old);
                return false;
            }
            if self.slots[slot].request_free() {
                return true;
            }
        }
    }

    /// Fails where a bit of the lock is left, and frees what the slots store.
    fn finish(mut self) {
        for slot in &mut self.slots {
            // SAFETY: A slot is an atomic and nothing else.
            let word = unsafe { &*(&raw const *slot).cast::<Atomic<u64>>() }.load(Relaxed);
            assert_eq!(word & 7, 0, "lock bits are left in {word:#x}");
            if let (_, Body::Object(handle)) = slot.get_mut_take() {
                self.pool.free(handle);
            }
        }
        // The pool notices on its end what is left in it.
    }
}

#[test]
fn threads_that_store_read_and_free_lose_nothing_and_leave_the_lock_clean() {
    let shared = Shared::new();
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let shared = &shared;
            scope.spawn(move || {
                let mut random = Random::new(seed);
                for _ in 0..20_000 {
                    let number = random.next();
                    let slot = number as usize % SLOTS;
                    match (number >> 8) & 7 {
                        0..3 => shared.store(slot, number as u32 >> 15),
                        3..5 => drop(shared.read(slot)),
                        5 => drop(shared.slots[slot].snapshot().is_empty()),
                        _ => drop(shared.free_soon(slot)),
                    }
                }
            });
        }
    });
    shared.finish();
}

#[test]
fn a_free_among_busy_readers_is_never_lost() {
    const ROUNDS: u32 = 300;
    let shared = Shared::new();
    let (start, end) = (Barrier::new(3), Barrier::new(3));
    let mut asked = 0;
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    start.wait();
                    while shared.read(0) {}
                    end.wait();
                }
            });
        }
        hesitate();
        for round in 0..ROUNDS {
            shared.store(0, round);
            start.wait();
            asked += u64::from(shared.free_soon(0));
            // If the free is lost, this never comes back.
            end.wait();
            assert!(shared.slots[0].snapshot().is_empty(), "round {round}");
        }
    });
    assert_eq!(shared.carried_out.load(Ordering::Relaxed), asked);
    shared.finish();
}

/// A number that only a lock protects.
#[derive(Default)]
struct Unprotected(UnsafeCell<u64>);

// SAFETY: Used under a lock.
unsafe impl Sync for Unprotected {}

#[test]
fn nobody_who_waits_for_a_lock_is_forgotten() {
    const EACH: u64 = 20_000;
    let (shared, sum) = (Shared::new(), Unprotected::default());
    // All of it, as closures would take the cell alone.
    let sum = &sum;
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..EACH {
                    let _guard = shared.slots[1].lock(&shared);
                    // SAFETY: Whoever else uses it needs the lock for that.
                    unsafe { *sum.0.get() += 1 };
                }
            });
        }
    });
    // SAFETY: All threads have ended.
    assert_eq!(unsafe { *sum.0.get() }, THREADS * EACH);
    shared.finish();
}
