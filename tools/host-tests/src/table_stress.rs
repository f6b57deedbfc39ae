// SPDX-License-Identifier: GPL-2.0

//! The table under threads that write, read and free the same blocks, and one that watches the numbers.

use crate::random::Random;
use crate::table::{Stored, Table};
use crate::table_tests::{mm_stat, noise, raw, table, HUGE};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const BLOCKS: u64 = 4;
const WRITERS: u64 = 3;
const STEPS: u64 = 6_000;

/// Stores something that says itself what it is.
fn store(table: &Table, index: u64, number: u64) {
    let entry = match number % 4 {
        0 => table.pattern(number & 0xffff, 0, 0),
        1 => table.pattern(number | 0x0123_4567_0000_0000, 0, 0),
        2 => {
            let len = 1 + number as usize % (HUGE - 1);
            let data = vec![len as u8; len];
            table.compressed(&data, 0, 0, 0).map(|entry| entry.unwrap())
        }
        _ => raw(table, &noise(number), 0),
    };
    table.place(index).unwrap().store(entry.unwrap());
}

/// Reads a block, and checks that it is one that somebody stored.
fn check(table: &Table, index: u64) {
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
        Stored::Elsewhere { place, .. } => panic!("nothing was put at {place}"),
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

fn columns(table: &Table) -> Vec<u64> {
    let text = mm_stat(table, 0);
    let numbers = text.split_whitespace();
    numbers.map(|number| number.parse().unwrap()).collect()
}

#[test]
fn numbers_stay_possible_and_end_at_zero_when_all_is_freed() {
    let (table, done) = (table(BLOCKS), AtomicBool::new(false));
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|seed| {
                let table = &table;
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    for _ in 0..STEPS {
                        let number = random.next();
                        let (index, number) = (number % BLOCKS, number >> 8);
                        match (number >> 40) & 7 {
                            0..4 => store(table, index, number & 0xff_ffff),
                            4..6 => check(table, index),
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
}
