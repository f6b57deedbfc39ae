// SPDX-License-Identifier: GPL-2.0

//! Every attribute that can be written, with every kind of input, before and after set-up.

use super::script::{aligned, node, sys, write_at, Script};
use crate::attr;
use crate::pattern::{fill, Kind};
use crate::PAGE;

/// Small numbers are such that a machine that has just started is up for as many seconds: for `idle` larger ones are
/// something else.
const VALUES: [&[u8]; 44] = [
    b"\n",
    b" ",
    b"\0",
    b"0",
    b"0\n",
    b"1",
    b"1\n",
    b"1\n\n",
    b"1 ",
    b" 1",
    b"1\0junk",
    b"\x001",
    b"1x",
    b"+1",
    b"-1",
    b"-0",
    b"++1",
    b"0x1",
    b"0X1",
    b"0x",
    b"01",
    b"08",
    b"1K",
    b"1k",
    b"1KB",
    b"65535",
    b"65536",
    b"4294967295",
    b"4294967296",
    b"18446744073709551615",
    b"18446744073709551616",
    b"99999999999999999999999",
    b"all",
    b"all\n",
    b"All",
    b"idle",
    b"on",
    b"off",
    b"Yes",
    b"n",
    b"o",
    b"foo=1",
    b"x",
    b"/",
];

/// What can be written, and what is looked at afterwards.
const WRITABLE: [(&str, &[&str]); 14] = [
    ("algorithm_params", &["comp_algorithm"]),
    ("backing_dev", &["backing_dev"]),
    ("comp_algorithm", &["comp_algorithm"]),
    ("compact", &["initstate"]),
    ("compressed_writeback", &["compressed_writeback"]),
    ("disksize", &["disksize", "initstate", "size"]),
    ("idle", &["initstate"]),
    ("mem_limit", &["mm_stat"]),
    ("mem_used_max", &["mm_stat"]),
    ("reset", &["disksize", "initstate", "mm_stat"]),
    ("writeback", &["bd_stat"]),
    ("writeback_batch_size", &["writeback_batch_size"]),
    ("writeback_limit", &["writeback_limit"]),
    ("writeback_limit_enable", &["writeback_limit_enable"]),
];

/// What cannot be written.
const READABLE: [&str; 6] = [
    "bd_stat",
    "debug_stat",
    "initstate",
    "io_stat",
    "mm_stat",
    "stat",
];

fn values() -> Vec<Vec<u8>> {
    let mut values: Vec<Vec<u8>> = VALUES.iter().map(|value| value.to_vec()).collect();
    for len in [127, 128, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE] {
        values.push(vec![b'a'; len]);
        values.push(vec![b'1'; len]);
    }
    values
}

/// A page of text in block 0, so that there is something stored.
fn store_something(s: &mut Script) {
    let mut page = aligned(PAGE);
    fill(Kind::Text, 1, &mut page);
    let stored = node(libc::O_DIRECT).map(|file| write_at(&file, 0, &page));
    s.prepare("storing a page", stored);
}

pub fn run(s: &mut Script) {
    s.group("input before set-up");
    s.fresh();
    for (name, look) in WRITABLE {
        for value in values() {
            if name == "mem_limit" {
                s.set(name, "0");
            }
            s.put_get(name, &value, look);
            // A size would make all else be refused.
            if attr::read(&sys("initstate")).as_deref() != Ok("0\n") {
                s.fresh();
            }
        }
        s.fresh();
    }
    for name in READABLE {
        s.put(name, "1");
    }

    s.group("input after set-up");
    for (name, look) in WRITABLE {
        s.disk("1M");
        store_something(s);
        for value in values() {
            if name == "mem_limit" {
                s.set(name, "0");
            }
            s.put_get(name, &value, look);
            if attr::read(&sys("initstate")).as_deref() != Ok("1\n") {
                s.disk("1M");
                store_something(s);
            }
        }
    }
    for name in READABLE {
        s.put(name, "1");
    }
    s.fresh();
}
