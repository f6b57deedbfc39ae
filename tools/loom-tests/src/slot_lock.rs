// SPDX-License-Identifier: GPL-2.0

//! The lock of a slot: one holder at a time, nobody sleeps for ever, nothing is left behind.
//!
//! Loom fails a test in which all threads that are left sleep, so each test in which somebody may sleep is one for lost
//! wake-ups.

use crate::model::{check, Tally};
use crate::sync::atomic::{Atomic, Relaxed};
use crate::sys::slot::{Body, Guard, Owner, Slot, View};
use crate::sys::waitbit;
use crate::sys::zsmalloc::Pool;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// A slot with what it belongs to, and something that only the lock protects.
pub(crate) struct Table {
    pub(crate) slot: Slot,
    pub(crate) pool: Pool,
    protected: UnsafeCell<u32>,
    /// Frees that were asked for and carried out.
    pub(crate) carried_out: Tally,
}

/// What an object's slot has in its own bits, so that a mix of two contents is noticed.
fn meta_of(object: u64) -> u32 {
    0x1_0000 | object as u32
}

impl Owner for Table {
    fn freed(&self, meta: u32, body: Body) {
        self.hold();
        self.carried_out.count();
        if let Body::Object(handle) = &body {
            assert_eq!(meta, meta_of(handle.borrow().number()));
        }
        self.drop_body(body);
    }
}

impl Table {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            slot: Slot::new(),
            pool: Pool::new(),
            protected: UnsafeCell::new(0),
            carried_out: Tally::new(),
        })
    }

    /// One whose slot holds object 0.
    pub(crate) fn with_object() -> Arc<Self> {
        let table = Self::new();
        table.store(0);
        table
    }

    /// Does what only the holder of the lock may do: loom fails the test if two do.
    pub(crate) fn hold(&self) {
        // SAFETY: Loom sees to it that we are the only one.
        self.protected.with_mut(|count| unsafe { *count += 1 });
    }

    pub(crate) fn drop_body(&self, body: Body) {
        if let Body::Object(handle) = body {
            self.pool.free(handle);
        }
    }

    /// Locks the slot and puts a new object there.
    pub(crate) fn store(&self, object: u64) {
        let handle = self.pool.alloc(object);
        let mut guard = self.slot.lock(self);
        self.hold();
        let (_, old) = guard.replace(meta_of(object), Body::Object(handle));
        self.drop_body(old);
    }

    /// Locks the slot and uses what is there.
    pub(crate) fn read(&self) -> Option<u64> {
        self.look(&self.slot.lock(self))
    }

    /// Uses what a locked slot holds.
    pub(crate) fn look(&self, guard: &Guard<'_, Self>) -> Option<u64> {
        self.hold();
        match guard.view() {
            View::Empty => {
                assert_eq!(guard.meta(), 0);
                None
            }
            View::Value(value) | View::Elsewhere(value) => {
                panic!("value {value:#x} in a slot for objects")
            }
            View::Object(object) => {
                assert_eq!(guard.meta(), meta_of(object.number()));
                self.pool.read(object);
                Some(object.number())
            }
        }
    }

    /// Locks the slot, and adds to the value that is there.
    fn add(&self, by: u64) {
        let mut guard = self.slot.lock(self);
        self.hold();
        let old = match guard.view() {
            View::Value(value) => value,
            _ => 0,
        };
        let (_, replaced) = guard.replace(0, Body::Value(old + by));
        assert!(!matches!(replaced, Body::Object(_)));
    }

    fn value(&self) -> u64 {
        self.slot.snapshot().value().unwrap_or(0)
    }

    /// To be called when all threads have ended: the slot is not locked, nobody is announced, nothing is asked for, and
    /// what the slot gives up is all that is left in the pool.
    pub(crate) fn finish(&self) {
        assert_eq!(waitbit::asleep(), 0);
        // SAFETY: A slot is an atomic and nothing else.
        let word = unsafe { &*(&raw const self.slot).cast::<Atomic<u64>>() };
        let word = word.load(Relaxed);
        assert_eq!(word & 7, 0, "lock bits are left in {word:#x}");
        assert!(!self.slot.request_free());
        let mut guard = self.slot.try_lock(self).expect("nobody has the lock");
        let (_, body) = guard.replace(0, Body::Empty);
        drop(guard);
        self.drop_body(body);
        assert!(self.pool.is_empty(), "an object is lost");
    }
}

/// Runs `here` in this thread, each of `others` in one of its own, and waits for them.
pub(crate) fn run(table: &Arc<Table>, here: fn(&Table), others: &[fn(&Table)]) {
    let others: Vec<_> = others.iter().map(|body| spawn(table, *body)).collect();
    here(table);
    for other in others {
        other.join().unwrap();
    }
}

fn spawn(table: &Arc<Table>, body: fn(&Table)) -> thread::JoinHandle<()> {
    let table = table.clone();
    thread::spawn(move || body(&table))
}

#[test]
fn two_lockers_exclude_each_other() {
    check(4, || {
        let table = Table::new();
        let other = spawn(&table, |table| {
            table.add(1);
            table.add(4);
        });
        table.add(16);
        table.add(64);
        other.join().unwrap();
        assert_eq!(table.value(), 85);
        table.finish();
    });
}

#[test]
fn three_lockers_exclude_each_other_and_all_are_woken() {
    static SLEPT: Tally = Tally::new();
    check(2, || {
        let table = Table::new();
        let guard = table.slot.lock(&*table);
        let others = [
            spawn(&table, |table| table.add(1)),
            spawn(&table, |table| table.add(4)),
        ];
        thread::yield_now();
        if waitbit::asleep() == 2 {
            SLEPT.count();
        }
        drop(guard);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(table.value(), 5);
        table.finish();
    });
    SLEPT.must_have_happened("two wait for the lock at the same time");
}

#[test]
fn whoever_barges_in_before_a_sleeper_runs_does_not_make_it_sleep_for_ever() {
    static BARGED: Tally = Tally::new();
    check(2, || {
        let table = Table::new();
        let guard = table.slot.lock(&*table);
        let sleeper = spawn(&table, |table| table.add(1));
        let barger = spawn(&table, |table| {
            for _ in 0..2 {
                if let Some(mut guard) = table.slot.try_lock(table) {
                    if waitbit::asleep() > 0 {
                        BARGED.count();
                    }
                    table.hold();
                    thread::yield_now();
                    let meta = guard.meta();
                    let (_, old) = guard.replace(meta ^ 1, Body::Empty);
                    let (_, Body::Empty) = guard.replace(meta, old) else {
                        panic!("something came in under the lock");
                    };
                }
            }
        });
        drop(guard);
        sleeper.join().unwrap();
        barger.join().unwrap();
        assert_eq!(table.value(), 1);
        table.finish();
    });
    BARGED.must_have_happened("the lock is taken while somebody else still sleeps for it");
}

#[test]
fn an_uncontended_lock_wakes_nobody_and_leaves_the_content_alone() {
    check(2, || {
        let table = Table::with_object();
        run(&table, |_| (), &[|table| assert_eq!(table.read(), Some(0))]);
        assert_eq!(table.read(), Some(0));
        table.finish();
    });
}
