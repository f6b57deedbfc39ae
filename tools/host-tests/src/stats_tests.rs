// SPDX-License-Identifier: GPL-2.0

//! Counters, and the bytes of their texts. The formats are zram's: `%8llu` and the like, one space between, a newline.

use crate::stats::{write_debug_stat, Contents, MemoryFigures, PoolFigures, Requests, Share};
use proptest::prelude::*;

fn mm_stat(contents: &Contents, pool: PoolFigures) -> String {
    let mut text = String::new();
    contents.write_mm_stat(pool, &mut text).unwrap();
    text
}

fn io_stat(requests: &Requests) -> String {
    let mut text = String::new();
    requests.write_io_stat(&mut text).unwrap();
    text
}

fn share(stored: i64, bytes: i64, same: i64, huge: i64) -> Share {
    Share {
        stored,
        bytes,
        same,
        huge,
    }
}

#[test]
fn mm_stat_of_an_empty_disk() {
    assert_eq!(
        mm_stat(&Contents::new(), PoolFigures::default()),
        "       0        0        0        0        0        0        0        0        0\n"
    );
}

#[test]
fn mm_stat_has_its_columns_in_zrams_order() {
    let contents = Contents::new();
    contents.apply(share(2, 3, 4, 5));
    contents.count_huge_write();
    let pool = PoolFigures {
        used: 6,
        limit: 7,
        used_max: 8,
        compacted: 9,
    };
    assert_eq!(
        mm_stat(&contents, pool),
        "    8192        3        6        7        8        4        9        5        1\n"
    );
}

#[test]
fn mm_stat_grows_wider_where_numbers_do() {
    let contents = Contents::new();
    contents.apply(share(1 << 28, 123_456_789_012, 99_999_999, 100_000_000));
    let pool = PoolFigures {
        used: u64::MAX,
        limit: u64::MAX - 1,
        used_max: 1 << 40,
        compacted: 12_345_678,
    };
    assert_eq!(
        mm_stat(&contents, pool),
        "1099511627776 123456789012 18446744073709551615 18446744073709551614 1099511627776 \
         99999999 12345678 100000000        0\n"
    );
}

#[test]
fn mm_stat_does_not_wrap_where_no_disk_can_get() {
    let contents = Contents::new();
    contents.apply(share(i64::MAX, i64::MAX, i64::MAX, i64::MAX));
    let text = mm_stat(&contents, PoolFigures::default());
    assert_eq!(
        text,
        "18446744073709551615 9223372036854775807        0        0        0 \
         9223372036854775807        0 9223372036854775807        0\n"
    );
}

#[test]
fn io_stat_of_an_idle_disk() {
    assert_eq!(io_stat(&Requests::new()), "       0        0 0        0\n");
}

#[test]
fn io_stat_has_its_columns_in_zrams_order() {
    let requests = Requests::new();
    requests.count_failed_read();
    requests.count_failed_write();
    requests.count_failed_write();
    requests.count_freed(0);
    requests.count_freed(3);
    assert_eq!(io_stat(&requests), "       1        2 0        3\n");
    requests.count_freed(1_000_000_000_000);
    assert_eq!(io_stat(&requests), "       1        2 0 1000000000003\n");
}

#[test]
fn bd_stat_has_its_columns_in_zrams_order() {
    let requests = Requests::new();
    let bd_stat = |taken| {
        let mut text = String::new();
        requests.write_bd_stat(taken, &mut text).unwrap();
        text
    };
    assert_eq!(bd_stat(0), "       0        0        0\n");
    requests.count_backing_read();
    requests.count_backing_read();
    requests.count_backing_write();
    assert_eq!(bd_stat(3), "       3        2        1\n");
    assert_eq!(bd_stat(1 << 40), "1099511627776        2        1\n");
    // The two do not mix with those of requests that failed.
    assert_eq!(io_stat(&requests), "       0        0 0        0\n");
}

fn memory_stat(contents: &Contents, pool: PoolFigures, memory: MemoryFigures) -> String {
    let mut text = String::new();
    contents.write_memory_stat(pool, memory, &mut text).unwrap();
    text
}

#[test]
fn memory_stat_is_a_name_and_a_number_a_line() {
    let contents = Contents::new();
    contents.apply(share(10, 9000, 2, 1));
    let pool = PoolFigures {
        used: 12_288,
        limit: 1 << 20,
        used_max: 16_384,
        compacted: 7,
    };
    let memory = MemoryFigures {
        table: 4096,
        buffers: 100,
        written_back: 3,
    };
    // Seven blocks are in memory: 28672 bytes in 16484, which is 173.9 %.
    assert_eq!(
        memory_stat(&contents, pool, memory),
        "stored_bytes 40960\ncompressed_bytes 9000\npool_bytes 12288\npool_max_bytes 16384\n\
         pool_limit_bytes 1048576\ntable_bytes 4096\nbuffer_bytes 100\ntotal_bytes 16484\n\
         same_filled 2\nhuge 1\nwritten_back 3\nratio_percent 173\n"
    );
}

#[test]
fn memory_stat_of_nothing_and_of_too_much() {
    let zero = memory_stat(
        &Contents::new(),
        PoolFigures::default(),
        MemoryFigures::default(),
    );
    assert_eq!(zero.lines().count(), 12);
    assert!(zero.lines().all(|line| line.ends_with(" 0")), "{zero}");

    let contents = Contents::new();
    contents.apply(share(i64::MAX, i64::MAX, 0, 0));
    let pool = PoolFigures {
        used: u64::MAX,
        limit: 0,
        used_max: u64::MAX,
        compacted: 0,
    };
    let memory = MemoryFigures {
        table: u64::MAX,
        buffers: u64::MAX,
        written_back: u64::MAX,
    };
    let text = memory_stat(&contents, pool, memory);
    assert!(
        text.contains("stored_bytes 18446744073709551615\n"),
        "{text}"
    );
    assert!(
        text.contains("total_bytes 18446744073709551615\n"),
        "{text}"
    );
    assert!(text.ends_with("ratio_percent 0\n"), "{text}");
}

#[test]
fn debug_stat_is_its_version_and_that_nothing_was_missed() {
    let mut text = String::new();
    write_debug_stat(&mut text).unwrap();
    assert_eq!(text, "version: 1\n0        0\n");
}

#[test]
fn no_counter_is_shown_negative() {
    let contents = Contents::new();
    contents.apply(share(-1, -4096, -1, -1));
    let zeros =
        "       0        0        0        0        0        0        0        0        0\n";
    assert_eq!(mm_stat(&contents, PoolFigures::default()), zeros);
    // And what was counted down is still known.
    contents.apply(share(1, 4096, 1, 1));
    assert_eq!(mm_stat(&contents, PoolFigures::default()), zeros);
    contents.apply(share(1, 0, 0, 0));
    assert!(mm_stat(&contents, PoolFigures::default()).starts_with("    4096        0 "));
}

#[test]
fn a_text_that_has_no_room_is_an_error_and_not_a_panic() {
    struct Full;
    impl std::fmt::Write for Full {
        fn write_str(&mut self, _: &str) -> std::fmt::Result {
            Err(std::fmt::Error)
        }
    }
    assert!(Contents::new()
        .write_mm_stat(PoolFigures::default(), &mut Full)
        .is_err());
    assert!(Requests::new().write_io_stat(&mut Full).is_err());
    assert!(Requests::new().write_bd_stat(0, &mut Full).is_err());
    assert!(Contents::new()
        .write_memory_stat(PoolFigures::default(), MemoryFigures::default(), &mut Full)
        .is_err());
    assert!(write_debug_stat(&mut Full).is_err());
}

fn shares() -> impl Strategy<Value = Share> {
    (0..=1i64, 0..=4096i64, 0..=1i64, 0..=1i64).prop_map(|(a, b, c, d)| share(a, b, c, d))
}

proptest! {
    /// Slots that change in any order: the sums are those of what is there in the end, and of nothing once all is gone.
    #[test]
    fn changes_add_up_to_what_is_there(changes in prop::collection::vec((0usize..8, shares()), 0..64)) {
        let contents = Contents::new();
        let mut slots = [Share::default(); 8];
        for (slot, new) in changes {
            contents.apply(new.instead_of(slots[slot]));
            slots[slot] = new;
            let sum = |part: fn(&Share) -> i64| slots.iter().map(part).sum::<i64>();
            prop_assert_eq!(
                mm_stat(&contents, PoolFigures::default()),
                format!(
                    "{:8} {:8} {:8} {:8} {:8} {:8} {:8} {:8} {:8}\n",
                    sum(|s| s.stored) * 4096, sum(|s| s.bytes), 0, 0, 0, sum(|s| s.same), 0, sum(|s| s.huge), 0
                )
            );
        }
        for old in slots {
            contents.apply(Share::default().instead_of(old));
        }
        let empty = mm_stat(&Contents::new(), PoolFigures::default());
        prop_assert_eq!(mm_stat(&contents, PoolFigures::default()), empty);
    }

    #[test]
    fn instead_of_is_the_difference(a in shares(), b in shares()) {
        let change = a.instead_of(b);
        prop_assert_eq!(share(b.stored + change.stored, b.bytes + change.bytes, b.same + change.same, b.huge + change.huge), a);
        prop_assert_eq!(a.instead_of(a), Share::default());
        prop_assert_eq!(a.instead_of(Share::default()), a);
    }
}
