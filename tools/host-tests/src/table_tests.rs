// SPDX-License-Identifier: GPL-2.0

//! The table on a pool of the host: limits, failures, disks of any size.

use crate::bindings::{pages, set_page_budget, set_time};
use crate::prelude::{EINVAL, ENOMEM};
use crate::sys::ffi::{set_next_distance, set_object_budget};
use crate::sys::page::Source;
use crate::sys::page_tests::{aligned, block};
use crate::table::{Anywhere, Entry, Shape, Stored, Table};

/// Longer than this is not worth storing compressed; see the stand-in for zsmalloc.
pub(crate) const HUGE: usize = 3625;

pub(crate) fn table(blocks: u64) -> Table {
    let shape = Shape {
        blocks,
        track: false,
        backing: None,
    };
    Table::new(c"test", shape).unwrap()
}

/// One that tracks accesses, and has a backing device of `backing` blocks.
pub(crate) fn full_table(blocks: u64, backing: u64) -> Table {
    let shape = Shape {
        blocks,
        track: true,
        backing: Some(backing),
    };
    Table::new(c"test", shape).unwrap()
}

/// The pattern that a block is filled with, as a read sees it without a lock.
pub(crate) fn peek(table: &Table, index: u64) -> Option<u64> {
    match table.walk().find(index) {
        Some(place) => place.pattern(),
        None => Some(0),
    }
}

pub(crate) fn mm_stat(table: &Table, limit_pages: u64) -> String {
    let mut text = String::new();
    let figures = table.figures(limit_pages);
    table.contents().write_mm_stat(figures, &mut text).unwrap();
    text
}

/// The numbers of `mm_stat`, with zram's names.
fn columns(table: &Table) -> [u64; 9] {
    let text = mm_stat(table, 0);
    let numbers: Vec<u64> = text
        .split_whitespace()
        .map(|number| number.parse().unwrap())
        .collect();
    numbers.try_into().unwrap()
}

/// A block that does not compress.
pub(crate) fn noise(seed: u64) -> Vec<u8> {
    block(|i| (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (i as u64 * 0x1_0001))
}

pub(crate) fn raw(table: &Table, bytes: &[u8], limit: u64) -> crate::prelude::Result<Entry> {
    aligned(bytes, |bytes| {
        table.raw(Source::from_slice(bytes).unwrap(), Anywhere, limit)
    })
}

/// What reading a block gives, by way of the lock.
pub(crate) fn read(table: &Table, index: u64) -> Vec<u8> {
    let Some(guard) = table.lock(index) else {
        return block(|_| 0);
    };
    let mut scratch = [0; 4096];
    match guard.stored() {
        Stored::Nothing => block(|_| 0),
        Stored::Pattern(pattern) => block(|_| pattern),
        Stored::PatternObject(object) => {
            let pattern = table.read_pattern(object).unwrap();
            block(|_| pattern)
        }
        Stored::Raw(object) => table
            .read_object(object, 4096, &mut [], <[u8]>::to_vec)
            .unwrap(),
        Stored::Compressed { object, len, .. } => table
            .read_object(object, len, &mut scratch, <[u8]>::to_vec)
            .unwrap(),
        Stored::Elsewhere { place, .. } => panic!("on the backing device, at {place}"),
    }
}

#[test]
fn an_empty_table_reads_as_zeros_and_takes_no_memory() {
    let before = pages();
    let table = table(1 << 28);
    assert_eq!(table.blocks(), 1 << 28);
    for index in [0, 1, 511, 512, (1 << 28) - 1] {
        assert_eq!(peek(&table, index), Some(0));
        assert!(table.lock(index).is_none());
        table.free_soon(index);
    }
    table.free_range(0, u64::MAX);
    assert_eq!(pages(), before);
    assert_eq!(columns(&table), [0; 9]);
}

#[test]
fn one_written_block_of_a_tebibyte_takes_two_pages() {
    let before = pages();
    let table = table(1 << 28);
    let entry = table.pattern(7, Anywhere, 0).unwrap();
    table
        .walk()
        .find_or_make((1 << 28) - 1)
        .unwrap()
        .store(entry);
    assert_eq!(peek(&table, (1 << 28) - 1), Some(7));
    assert_eq!(pages(), before + 2);
    drop(table);
    assert_eq!(pages(), before, "not all pages were freed");
}

#[test]
fn blocks_behind_the_end_cannot_be_written_and_read_as_zeros() {
    let table = table(5);
    for index in [5, 6, 511, 512, 1 << 18, 1 << 40, u64::MAX] {
        assert_eq!(
            table.walk().find_or_make(index).err(),
            Some(EINVAL),
            "{index}"
        );
        assert_eq!(peek(&table, index), Some(0), "{index}");
        table.free_soon(index);
    }
    table.free_range(3, u64::MAX);
    table.free_range(u64::MAX, u64::MAX);
    assert!(table.walk().find_or_make(4).is_ok());
}

#[test]
fn freeing_a_range_frees_all_of_it_and_nothing_beside_it() {
    let table = table(1 << 20);
    let written = [
        0,
        1,
        510,
        511,
        512,
        513,
        1 << 18,
        (1 << 18) + 1,
        (1 << 20) - 1,
    ];
    for (first, count) in [
        (1, 0),
        (1, 511),
        (0, 1 << 18),
        (512, u64::MAX),
        (1 << 18, 1),
    ] {
        for index in written {
            let entry = table.pattern(index + 1, Anywhere, 0).unwrap();
            table.walk().find_or_make(index).unwrap().store(entry);
        }
        table.free_range(first, count);
        for index in written {
            let freed = index >= first && index - first < count;
            let expected = if freed { 0 } else { index + 1 };
            assert_eq!(
                peek(&table, index),
                Some(expected),
                "{first} {count} {index}"
            );
        }
    }
}

#[test]
fn no_memory_for_slots_is_an_error_and_what_was_allocated_is_used_later() {
    let before = pages();
    let table = table(1 << 20);
    for budget in [0, 1] {
        set_page_budget(budget);
        assert_eq!(table.walk().find_or_make(0).err(), Some(ENOMEM));
        assert_eq!(peek(&table, 0), Some(0));
    }
    set_page_budget(1);
    assert!(
        table.walk().find_or_make(0).is_ok(),
        "the node is there from the second try"
    );
    set_page_budget(usize::MAX);
    drop(table);
    assert_eq!(pages(), before);
}

#[test]
fn no_memory_for_an_object_is_an_error_and_leaves_what_is_there() {
    let table = table(1);
    let old = raw(&table, &noise(1), 0).unwrap();
    table.walk().find_or_make(0).unwrap().store(old);
    set_object_budget(0);
    assert_eq!(raw(&table, &noise(2), 0).err(), Some(ENOMEM));
    assert_eq!(
        table.compressed(&[1; 100], 0, Anywhere, 0).err(),
        Some(ENOMEM)
    );
    assert_eq!(
        table.pattern(0x0123_4567_89ab_cdef, Anywhere, 0).err(),
        Some(ENOMEM)
    );
    set_object_budget(usize::MAX);
    assert_eq!(read(&table, 0), noise(1));
    assert_eq!(columns(&table), [4096, 4096, 4096, 0, 4096, 0, 0, 1, 1]);
}

#[test]
fn an_object_out_of_reach_is_an_error_and_leaves_what_is_there() {
    let table = table(1);
    let entry = table
        .compressed(&[1; 100], 0, Anywhere, 0)
        .unwrap()
        .unwrap();
    table.walk().find_or_make(0).unwrap().store(entry);
    set_next_distance(1 << 50);
    assert!(raw(&table, &noise(2), 0).is_err());
    assert_eq!(read(&table, 0), [1; 100]);
    assert_eq!(columns(&table)[..2], [4096, 100]);
}

#[test]
fn the_limit_refuses_what_goes_over_it_and_shows_how_far_it_went() {
    let table = table(8);
    for index in 0..2 {
        let entry = raw(&table, &noise(index), 2).unwrap();
        table.walk().find_or_make(index).unwrap().store(entry);
    }
    assert_eq!(raw(&table, &noise(2), 2).err(), Some(ENOMEM));
    assert_eq!(table.compressed(&[1], 0, Anywhere, 2).err(), Some(ENOMEM));
    // A pattern in the slot takes no room of the pool.
    let entry = table.pattern(9, Anywhere, 2).unwrap();
    table.walk().find_or_make(2).unwrap().store(entry);
    assert_eq!(
        mm_stat(&table, 2),
        "   12288     8192     8192     8192    12288        1        0        2        2\n"
    );
    table.reset_max_used();
    assert_eq!(columns(&table)[4], 8192);
    // Room is made by freeing, and by a larger limit.
    assert!(raw(&table, &noise(2), 3)
        .map(|entry| table.walk().find_or_make(3).unwrap().store(entry))
        .is_ok());
    table.free_range(0, 2);
    let entry = raw(&table, &noise(3), 2).unwrap();
    table.walk().find_or_make(0).unwrap().store(entry);
    assert_eq!(read(&table, 0), noise(3));
    assert_eq!(read(&table, 3), noise(2));
}

#[test]
fn a_block_that_hardly_compresses_is_not_stored_compressed() {
    let table = table(1);
    for len in [HUGE, HUGE + 1, 4095, 4096, 4097, 10_000] {
        assert!(
            table
                .compressed(&vec![1; len], 0, Anywhere, 0)
                .unwrap()
                .is_none(),
            "{len}"
        );
    }
    let entry = table
        .compressed(&vec![1; HUGE - 1], 0, Anywhere, 0)
        .unwrap();
    table
        .walk()
        .find_or_make(0)
        .unwrap()
        .store(entry.expect("short enough"));
    assert_eq!(columns(&table)[..2], [4096, HUGE as u64 - 1]);
    assert_eq!(
        table.compressed(&[], 0, Anywhere, 0).err(),
        Some(EINVAL),
        "nothing at all"
    );
}

#[test]
fn compaction_is_counted_in_pages() {
    let table = table(1);
    table.compact();
    table.compact();
    assert_eq!(columns(&table), [0, 0, 0, 0, 0, 0, 2, 0, 0]);
}

#[test]
fn a_priority_that_no_slot_can_tell_is_an_error() {
    let table = table(1);
    for priority in [4, 5, usize::MAX] {
        assert_eq!(
            table.compressed(&[1], priority, Anywhere, 0).err(),
            Some(EINVAL)
        );
    }
    assert_eq!(columns(&table)[2..4], [0, 0]);
}

#[test]
fn an_entry_that_is_not_stored_can_be_discarded() {
    let table = table(1);
    let entry = raw(&table, &noise(1), 0).unwrap();
    assert_eq!(columns(&table)[2], 4096);
    table.discard(entry);
    assert_eq!(columns(&table)[..4], [0; 4]);
}

#[test]
fn what_is_stored_is_found_without_looking_at_all_of_the_disk() {
    let table = table(1 << 32);
    let written = [0, 511, 512, 1 << 18, (1 << 18) + 5, 1 << 31, (1 << 32) - 1];
    for index in written {
        let entry = table.pattern(1, Anywhere, 0).unwrap();
        table.walk().find_or_make(index).unwrap().store(entry);
    }
    let stored = |range| table.stored(range).collect::<Vec<_>>();
    assert_eq!(stored(0..u64::MAX), written);
    assert_eq!(stored(511..512), [511]);
    assert_eq!(stored(512..512), []);
    assert_eq!(stored(513..1 << 18), []);
    assert_eq!(stored(1 << 32..u64::MAX), []);
    table.free_range(0, 513);
    assert_eq!(stored(0..u64::MAX), written[3..]);
}

#[test]
fn each_block_of_the_backing_device_is_taken_once_and_can_be_had_again() {
    for count in [0, 1, 63, 64, 65, 200] {
        let table = full_table(1, count);
        let mut taken: Vec<u64> = std::iter::from_fn(|| table.take_place()).collect();
        assert_eq!(table.places_taken(), count);
        taken.sort_unstable();
        assert_eq!(taken, (0..count).collect::<Vec<_>>());
        for place in (0..count).step_by(3) {
            table.give_back_place(place);
        }
        let mut again: Vec<u64> = std::iter::from_fn(|| table.take_place()).collect();
        again.sort_unstable();
        assert_eq!(again, (0..count).step_by(3).collect::<Vec<_>>());
        assert_eq!(table.places_taken(), count);
    }
}

#[test]
fn a_block_of_the_backing_device_that_is_free_or_does_not_exist_cannot_be_given_back() {
    let table = full_table(1, 10);
    assert_eq!(table.take_place(), Some(0));
    for place in [1, 10, 63, 64, 1 << 20, u64::MAX] {
        table.give_back_place(place);
        assert_eq!(table.places_taken(), 1, "{place}");
    }
    table.give_back_place(0);
    table.give_back_place(0);
    assert_eq!(table.places_taken(), 0);
}

#[test]
fn a_table_without_a_backing_device_has_no_places() {
    let table = table(1);
    assert_eq!(table.take_place(), None);
    table.give_back_place(0);
    assert_eq!(table.places_taken(), 0);
}

#[test]
fn accesses_are_noted_in_units_of_67_ms_where_that_is_wanted() {
    const UNIT: u64 = 1 << 26;
    let table = full_table(1 << 20, 0);
    set_time(5 * UNIT + 1);
    // Reading what was never written notes nothing.
    table.touch(7);
    assert_eq!(table.last_access(7), Some(0));
    let entry = table.pattern(1, Anywhere, 0).unwrap();
    table.walk().find_or_make(7).unwrap().store(entry);
    assert_eq!(table.last_access(7), Some(5 * UNIT));
    assert_eq!(table.last_access(8), Some(0));
    set_time(9 * UNIT - 1);
    table.touch(7);
    assert_eq!(table.last_access(7), Some(8 * UNIT));
    set_time(u64::MAX >> 1);
    table.touch(7);
    let wrapped = ((u64::MAX >> 1) / UNIT) & u64::from(u32::MAX);
    assert_eq!(table.last_access(7), Some(wrapped * UNIT));

    let table = self::table(1);
    table.touch(0);
    assert_eq!(table.last_access(0), None);
}

#[test]
fn what_a_table_takes_is_counted() {
    let before = pages();
    let plain = table(1 << 20);
    // Four nodes, a pointer each.
    assert_eq!(plain.bytes(), 4 * 8);
    plain.walk().find_or_make(0).unwrap();
    assert_eq!(plain.bytes(), 4 * 8 + 2 * 4096);
    let full = full_table(1 << 20, 129);
    // Leaves of times cover twice as much; three words of the map.
    assert_eq!(full.bytes(), 4 * 8 + 2 * 8 + 3 * 8);
    full.walk().find_or_make(0).unwrap();
    assert_eq!(full.bytes(), 4 * 8 + 2 * 8 + 3 * 8 + 4 * 4096);
    assert_eq!(pages(), before + 6);
}
