// SPDX-License-Identifier: GPL-2.0

//! The table under threads that write, read and free the same blocks, and one that watches the numbers.

use crate::random::Random;
use crate::sync::atomic::hesitate;
use crate::table::{Anywhere, Stored, Table};
use crate::table_tests::{full_table, mm_stat, noise, raw, HUGE};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

const BLOCKS: u64 = 4;
const WRITERS: u64 = 3;
const STEPS: u64 = 6_000;
/// Blocks of the backing device.
const PLACES: usize = 2;

/// Which block is where on the backing device; changed under the lock of the block's slot.
type Owners = [AtomicU64; PLACES];

/// Stores something that says itself what it is.
fn store(table: &Table, index: u64, number: u64) {
    let entry = match number % 4 {
        0 => table.pattern(number & 0xffff, Anywhere, 0),
        1 => table.pattern(number | 0x0123_4567_0000_0000, Anywhere, 0),
        2 => {
            let len = 1 + number as usize % (HUGE - 1);
            let data = vec![len as u8; len];
            table
                .compressed(&data, 0, Anywhere, 0)
                .map(|entry| entry.unwrap())
        }
        _ => raw(table, &noise(number), 0),
    };
    table
        .walk()
        .find_or_make(index)
        .unwrap()
        .store(entry.unwrap());
}

/// Reads a block, and checks that it is one that somebody stored.
fn check(table: &Table, owners: &Owners, index: u64) {
    let Some(guard) = table.lock(index) else {
        return;
    };
    match guard.stored() {
        Stored::Nothing => (),
        Stored::Pattern(pattern) => assert!(pattern <= 0xffff && pattern % 4 == 0),
        Stored::PatternObject(object) => {
            let pattern = table.read_pattern(object).unwrap();
            assert_eq!((pattern >> 32) & 0x0123_4567, 0x0123_4567);
        }
        Stored::Elsewhere { place, .. } => {
            let owner = owners[place as usize].load(Ordering::Relaxed);
            assert_eq!(owner, index, "two blocks are at {place}");
        }
        Stored::Compressed { object, len, .. } => {
            let same = |data: &[u8]| data.len() == len && data.iter().all(|b| *b == len as u8);
            let mut scratch = [0; 4096];
            assert!(table.read_object(object, len, &mut scratch, same).unwrap());
        }
        Stored::Raw(object) => {
            let seed = |data: &[u8]| {
                let first = u64::from_ne_bytes(data[..8].try_into().unwrap());
                // What `noise()` multiplies with, inverted.
                let seed = first.wrapping_mul(0xf1de_83e1_9937_733d).wrapping_sub(1);
                assert!(data == noise(seed));
            };
            table.read_object(object, 4096, &mut [], seed).unwrap();
        }
    }
}

/// Moves a block to the backing device, if there is room and something to move.
fn move_out(table: &Table, owners: &Owners, index: u64) {
    let Some(place) = table.take_place() else {
        return;
    };
    if let Some(mut guard) = table.lock(index) {
        if let Stored::Compressed { .. } | Stored::Raw(_) = guard.stored() {
            owners[place as usize].store(index, Ordering::Relaxed);
            guard.move_out(place);
            return;
        }
    }
    table.give_back_place(place);
}

fn columns(table: &Table) -> Vec<u64> {
    let text = mm_stat(table, 0);
    let numbers = text.split_whitespace();
    numbers.map(|number| number.parse().unwrap()).collect()
}

#[test]
fn numbers_stay_possible_and_end_at_zero_when_all_is_freed() {
    let (table, done) = (full_table(BLOCKS, PLACES as u64), AtomicBool::new(false));
    let owners = Owners::default();
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|seed| {
                let (table, owners) = (&table, &owners);
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    for _ in 0..STEPS {
                        let number = random.next();
                        let (index, number) = (number % BLOCKS, number >> 8);
                        match (number >> 40) & 7 {
                            0..4 => store(table, index, number & 0xff_ffff),
                            4 => check(table, owners, index),
                            5 => move_out(table, owners, index),
                            6 => table.free_soon(index),
                            _ => table.free_range(index, 2),
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let numbers = columns(&table);
                assert!(numbers[0] <= BLOCKS * 4096, "{numbers:?}");
                assert!(numbers[1] <= BLOCKS * 4096, "{numbers:?}");
                assert!(numbers[5] <= BLOCKS && numbers[7] <= BLOCKS, "{numbers:?}");
                let writing = BLOCKS + WRITERS;
                assert!(numbers[2] <= writing * 4096, "{numbers:?}");
            }
        });
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(
            results.iter().all(Result::is_ok),
            "a writer found a fault, see above"
        );
    });
    // What is counted is what is there.
    let before = columns(&table);
    assert_eq!(before[2], before[1].div_ceil(4096) * 4096);
    table.free_range(0, BLOCKS);
    let after = columns(&table);
    assert_eq!(after[..4], [0; 4]);
    assert_eq!([after[5], after[7]], [0; 2]);
    assert_eq!(table.places_taken(), 0);
}

#[test]
fn a_block_of_the_backing_device_belongs_to_one_at_a_time() {
    const COUNT: u64 = 130;
    let table = full_table(1, COUNT);
    let taken = [const { AtomicBool::new(false) }; COUNT as usize];
    thread::scope(|scope| {
        for seed in 0..4 {
            let (table, taken) = (&table, &taken);
            scope.spawn(move || {
                let (mut random, mut mine) = (Random::new(seed), Vec::new());
                for _ in 0..20_000 {
                    // More than there are, so that now and then there is none.
                    if random.next() % 64 < 33 {
                        if let Some(place) = table.take_place() {
                            assert!(!taken[place as usize].swap(true, Ordering::Relaxed));
                            mine.push(place);
                        }
                    } else if let Some(place) = mine.pop() {
                        assert!(taken[place as usize].swap(false, Ordering::Relaxed));
                        table.give_back_place(place);
                    }
                }
                for place in mine {
                    taken[place as usize].store(false, Ordering::Relaxed);
                    table.give_back_place(place);
                }
            });
        }
    });
    assert_eq!(table.places_taken(), 0);
    assert_eq!(std::iter::from_fn(|| table.take_place()).count(), 130);
}

#[test]
fn a_free_among_busy_readers_is_never_lost() {
    const ROUNDS: u64 = 300;
    let table = full_table(1, 0);
    let (start, end) = (Barrier::new(3), Barrier::new(3));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let is_stored = || table.lock(0).is_some_and(|slot| slot.info().is_some());
                for _ in 0..ROUNDS {
                    start.wait();
                    let begin = Instant::now();
                    while is_stored() {
                        // Exits, because the others would wait at the barrier for ever.
                        if begin.elapsed() > Duration::from_secs(30) {
                            eprintln!("a free was lost: the block is still stored after 30 s");
                            std::process::exit(1);
                        }
                    }
                    end.wait();
                }
            });
        }
        hesitate();
        for round in 0..ROUNDS {
            store(&table, 0, round);
            start.wait();
            table.free_soon(0);
            end.wait();
        }
    });
    assert_eq!(columns(&table)[..4], [0; 4]);
}
