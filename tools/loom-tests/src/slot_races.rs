// SPDX-License-Identifier: GPL-2.0

//! What meets the holder of a slot's lock: frees that somebody asks for meanwhile, and readers that look without the lock.

use crate::model::{check, Tally};
use crate::slot_lock::{run, Table};
use crate::sys::slot::Body;
use crate::sys::waitbit;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// Frees what the slot holds at once, or has the holder of the lock do so: as `Table::free_soon()` does.
fn free_soon(table: &Table) -> bool {
    loop {
        if let Some(mut guard) = table.slot.try_lock(table) {
            table.look(&guard);
            let (_, old) = guard.replace(0, Body::Empty);
            table.drop_body(old);
            return false;
        }
        if table.slot.request_free() {
            return true;
        }
    }
}

#[test]
fn a_free_that_meets_a_holder_is_carried_out_once() {
    static ASKED: Tally = Tally::new();
    static AT_ONCE: Tally = Tally::new();
    check(4, || {
        let table = Table::with_object();
        let reader = {
            let table = table.clone();
            thread::spawn(move || {
                table.read();
                table.read()
            })
        };
        let asked = free_soon(&table);
        if asked { &ASKED } else { &AT_ONCE }.count();
        reader.join().unwrap();
        assert_eq!(table.read(), None, "the free was lost");
        assert_eq!(table.carried_out.get(), u32::from(asked));
        table.finish();
    });
    ASKED.must_have_happened("the slot was busy");
    AT_ONCE.must_have_happened("the slot was free");
}

#[test]
fn a_free_that_meets_a_holder_and_a_sleeper_is_carried_out_once() {
    static WITH_SLEEPER: Tally = Tally::new();
    check(2, || {
        let table = Table::with_object();
        let guard = table.slot.lock(&*table);
        let others = [
            thread::spawn({
                let table = table.clone();
                move || {
                    table.read();
                }
            }),
            thread::spawn({
                let table = table.clone();
                move || {
                    if free_soon(&table) && waitbit::asleep() > 0 {
                        WITH_SLEEPER.count();
                    }
                }
            }),
        ];
        assert_eq!(table.look(&guard), Some(0), "freed under the lock");
        drop(guard);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(table.read(), None, "the free was lost");
        assert!(table.carried_out.get() <= 1);
        table.finish();
    });
    WITH_SLEEPER.must_have_happened("a free was asked for while somebody slept for the lock");
}

#[test]
fn a_free_while_two_lock_in_turn_is_carried_out_once() {
    check(2, || {
        let table = Table::with_object();
        run(
            &table,
            |table| {
                table.read();
            },
            &[
                |table| {
                    table.read();
                },
                |table| {
                    free_soon(table);
                },
            ],
        );
        assert_eq!(table.read(), None, "the free was lost");
        table.finish();
    });
}

#[test]
fn two_frees_at_the_same_time_free_once() {
    check(2, || {
        let table = Table::with_object();
        run(
            &table,
            |table| {
                table.read();
            },
            &[
                |table| {
                    free_soon(table);
                },
                |table| {
                    free_soon(table);
                },
            ],
        );
        assert_eq!(table.read(), None, "the free was lost");
        table.finish();
    });
}

#[test]
fn a_free_that_meets_a_writer_leaves_the_new_content_or_nothing() {
    static KEPT: Tally = Tally::new();
    static FREED: Tally = Tally::new();
    check(2, || {
        let table = Table::with_object();
        run(
            &table,
            |table| table.store(1),
            &[|table| {
                free_soon(table);
            }],
        );
        match table.read() {
            Some(1) => KEPT.count(),
            None => FREED.count(),
            Some(other) => panic!("object {other} should be gone"),
        }
        table.finish();
    });
    KEPT.must_have_happened("the free came first");
    FREED.must_have_happened("the write came first");
}

#[test]
fn writers_readers_and_frees_lose_no_object() {
    check(2, || {
        let table = Table::with_object();
        run(
            &table,
            |table| table.store(1),
            &[
                |table| {
                    table.read();
                    table.store(2);
                },
                |table| {
                    free_soon(table);
                },
            ],
        );
        table.finish();
    });
}

/// All bits of a body.
const ONES: u64 = (1 << crate::sys::slot::BODY_BITS) - 1;

/// Changes the slot's value under one lock, by way of a third one that nobody else may see.
fn change(table: &Table, from: u64, to: u64) {
    let mut guard = table.slot.lock(table);
    let (_, old) = guard.replace(0, Body::Value(0x5555));
    assert!(matches!(old, Body::Value(value) if value == from));
    let (_, _) = guard.replace(0, Body::Empty);
    let (_, old) = guard.replace(0x1ffff, Body::Value(to));
    assert!(matches!(old, Body::Empty));
}

#[test]
fn a_snapshot_sees_the_old_or_the_new_value_and_time_does_not_run_backwards() {
    static OLD: Tally = Tally::new();
    static NEW: Tally = Tally::new();
    check(2, || {
        let table = Table::new();
        {
            let mut guard = table.slot.lock(&*table);
            let (_, Body::Empty) = guard.replace(0, Body::Value(0)) else {
                panic!("a new slot is not empty");
            };
        }
        let writer = thread::spawn({
            let table = table.clone();
            move || change(&table, 0, ONES)
        });
        let locker = thread::spawn({
            let table = table.clone();
            // Sets and clears the bits of the lock beside the value.
            move || drop(table.slot.lock(&*table))
        });
        let mut last = 0;
        for _ in 0..3 {
            let seen = table.slot.snapshot();
            assert!(!seen.is_empty());
            match (last, seen.value()) {
                (0, Some(0)) => OLD.count(),
                (_, Some(ONES)) => NEW.count(),
                (_, value) => panic!("{value:x?} after {last:#x}"),
            }
            last = seen.value().unwrap();
        }
        writer.join().unwrap();
        locker.join().unwrap();
        assert_eq!(table.slot.snapshot().value(), Some(ONES));
        table.finish();
    });
    OLD.must_have_happened("the old value was seen");
    NEW.must_have_happened("the new value was seen");
}

#[test]
fn whoever_sees_a_value_sees_what_was_done_before_it_was_stored() {
    static SEEN: Tally = Tally::new();
    check(2, || {
        let table = Table::new();
        let before = Arc::new(UnsafeCell::new(false));
        let writer = thread::spawn({
            let (table, before) = (table.clone(), before.clone());
            move || {
                // SAFETY: Loom sees to it that nobody else uses it meanwhile.
                before.with_mut(|done| unsafe { *done = true });
                let mut guard = table.slot.lock(&*table);
                let (_, Body::Empty) = guard.replace(0, Body::Value(1)) else {
                    panic!("a new slot is not empty");
                };
            }
        });
        let locker = thread::spawn({
            let table = table.clone();
            move || drop(table.slot.lock(&*table))
        });
        if table.slot.snapshot().value() == Some(1) {
            SEEN.count();
            // SAFETY: As above.
            assert!(before.with(|done| unsafe { *done }));
        }
        writer.join().unwrap();
        locker.join().unwrap();
        table.finish();
    });
    SEEN.must_have_happened("the value was seen");
}

#[test]
fn a_snapshot_of_an_object_shows_no_value() {
    check(2, || {
        let table = Table::with_object();
        let freer = thread::spawn({
            let table = table.clone();
            move || {
                free_soon(&table);
            }
        });
        for _ in 0..2 {
            assert_eq!(table.slot.snapshot().value(), None);
        }
        freer.join().unwrap();
        assert!(table.slot.snapshot().is_empty());
        table.finish();
    });
}
