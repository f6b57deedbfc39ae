// SPDX-License-Identifier: GPL-2.0

//! Reads and writes of all sizes and places, and what the statistics make of them.

use std::fs::File;
use std::os::fd::AsRawFd;

use nix::errno::Errno;

use super::script::{aligned, errno, read_at, verdict, write_at, Script};
use crate::pattern::{fill, Kind, WORD_PATTERNS};
use crate::PAGE;

/// Every set of numbers that the disk keeps.
pub const STATISTICS: [&str; 5] = ["mm_stat", "io_stat", "bd_stat", "debug_stat", "stat"];

/// `stat` has times in it, which no two runs share; they are columns 4, 8, 10, 11, 15 and 17.
pub fn statistics(s: &mut Script) {
    for name in STATISTICS {
        if name != "stat" {
            s.get(name);
            continue;
        }
        let text = crate::attr::read(&super::script::sys("stat")).unwrap_or_default();
        let columns: Vec<&str> = text
            .split_whitespace()
            .enumerate()
            .map(|(n, value)| match n + 1 {
                4 | 8 | 10 | 11 | 15 | 17 => "time",
                _ => value,
            })
            .collect();
        s.op("cat stat without its times", columns.join(" "));
    }
}

fn one(s: &mut Script, kind: Kind, seed: u64, block: u64) {
    let mut page = aligned(PAGE);
    fill(kind, seed, &mut page);
    let at = block * PAGE as u64;
    s.with_node(
        format_args!("write {kind:?} to block {block}"),
        libc::O_DIRECT,
        |file| write_at(file, at, &page),
    );
    s.with_node(format_args!("read block {block}"), libc::O_DIRECT, |file| {
        read_at(file, at, &mut page)
    });
}

/// One transfer past the page cache.
fn transfer(s: &mut Script, write: bool, at: u64, len: usize) {
    let mut buffer = aligned(len);
    fill(Kind::Text, at + 1, &mut buffer);
    let what = if write { "write" } else { "read" };
    s.with_node(
        format_args!("{what} {len} bytes at {at} directly"),
        libc::O_DIRECT,
        |file| {
            if write {
                write_at(file, at, &buffer[..len])
            } else {
                read_at(file, at, &mut buffer[..len])
            }
        },
    );
}

fn cached(s: &mut Script, at: u64, len: usize) {
    let mut buffer = vec![0; len];
    fill(Kind::Text, at + 2, &mut buffer);
    s.with_node(
        format_args!("write {len} bytes at {at} through the cache, sync, read"),
        0,
        |file| {
            let write = write_at(file, at, &buffer);
            let sync = file
                .sync_all()
                .map_or_else(|e| errno(super::script::errno_of(&e)), |()| "ok".into());
            let drop = verdict(crate::blk::flush_buffers(file));
            format!(
                "{write}, {sync}, {drop}, {}",
                read_at(file, at, &mut buffer)
            )
        },
    );
}

fn with_flags(s: &mut Script, name: &str, flags: i32, write: bool) {
    let mut page = aligned(PAGE);
    s.with_node(
        format_args!("a {} with {name}", if write { "write" } else { "read" }),
        libc::O_DIRECT,
        |file: &File| {
            let vector = libc::iovec {
                iov_base: page.as_mut_ptr().cast(),
                iov_len: PAGE,
            };
            // SAFETY: the vector is one page that lives until the end of the call.
            let len = unsafe {
                if write {
                    libc::pwritev2(file.as_raw_fd(), &vector, 1, 0, flags)
                } else {
                    libc::preadv2(file.as_raw_fd(), &vector, 1, 0, flags)
                }
            };
            Errno::result(len).map_or_else(errno, |len| len.to_string())
        },
    );
}

pub fn run(s: &mut Script) {
    s.group("one block at a time");
    s.disk("1M");
    statistics(s);
    for kind in [
        Kind::Text,
        Kind::Records,
        Kind::Random,
        Kind::Word(0),
        Kind::Repeat(3),
        Kind::Prefix(3000),
    ] {
        one(s, kind, 3, 0);
        statistics(s);
    }
    // Sizes at which compressing stops to pay.
    for len in [
        3400, 3500, 3550, 3575, 3590, 3600, 3605, 3610, 3615, 3620, 3640, 3700,
    ] {
        one(s, Kind::Prefix(len), 4, 1);
        s.get("mm_stat");
    }
    s.fresh();

    s.group("same-filled blocks");
    for word in WORD_PATTERNS {
        s.disk("64K");
        one(s, Kind::Word(word), 0, 3);
        s.get("mm_stat");
    }
    statistics(s);
    s.fresh();

    s.group("sizes and places");
    s.disk("1M");
    transfer(s, false, 0, 1 << 20);
    transfer(s, true, 0, 1 << 20);
    transfer(s, false, 0, 1 << 20);
    statistics(s);
    for (at, len) in [
        (0, 8192),
        (4096, 12288),
        (1 << 20, 4096),
        ((1 << 20) - 4096, 8192),
        (512, 4096),
        (0, 512),
        (0, 1),
        (100, 4096),
        (0, 0),
        (1 << 21, 4096),
        (u64::MAX >> 1, 4096),
        (0, 6144),
    ] {
        transfer(s, true, at, len);
        transfer(s, false, at, len);
    }
    statistics(s);
    for (at, len) in [
        (0, 1),
        (1, 1),
        (4095, 2),
        (511, 513),
        (10000, 30000),
        ((1 << 20) - 1, 1),
        ((1 << 20) - 1, 2),
        (1 << 20, 1),
    ] {
        cached(s, at, len);
    }
    s.get("mm_stat");
    s.get("io_stat");
    s.fresh();

    s.group("flags");
    s.disk("1M");
    for (name, flags) in [
        ("no flags", 0),
        ("RWF_HIPRI", libc::RWF_HIPRI),
        ("RWF_DSYNC", libc::RWF_DSYNC),
        ("RWF_SYNC", libc::RWF_SYNC),
        ("RWF_NOWAIT", libc::RWF_NOWAIT),
        ("RWF_APPEND", libc::RWF_APPEND),
        ("RWF_ATOMIC", 0x40),
        ("RWF_DONTCACHE", 0x80),
    ] {
        with_flags(s, name, flags, true);
        with_flags(s, name, flags, false);
    }
    s.with_node("fsync", 0, |file| {
        file.sync_all()
            .map_or_else(|e| errno(super::script::errno_of(&e)), |()| "ok".into())
    });
    s.with_node("fdatasync", libc::O_DIRECT, |file| {
        file.sync_data()
            .map_or_else(|e| errno(super::script::errno_of(&e)), |()| "ok".into())
    });
    s.with_node("truncate", 0, |file| {
        file.set_len(0)
            .map_or_else(|e| errno(super::script::errno_of(&e)), |()| "ok".into())
    });
    statistics(s);

    s.group("a disk that is not set up");
    s.fresh();
    transfer(s, false, 0, PAGE);
    transfer(s, true, 0, PAGE);
    cached(s, 0, 100);
    s.with_node("fsync", 0, |file| {
        file.sync_all()
            .map_or_else(|e| errno(super::script::errno_of(&e)), |()| "ok".into())
    });
    s.with_node("discard", 0, |file| {
        verdict(crate::blk::discard(file, 0, 4096))
    });
    s.with_node("discard nothing", 0, |file| {
        verdict(crate::blk::discard(file, 0, 0))
    });
    statistics(s);

    s.group("after set-up again");
    s.disk("1M");
    one(s, Kind::Text, 9, 5);
    s.put("reset", "1");
    s.set("comp_algorithm", "lz4");
    s.put("disksize", "512K");
    s.with_node("read block 5", libc::O_DIRECT, |file| {
        read_at(file, 5 * 4096, &mut aligned(PAGE))
    });
    transfer(s, false, 600 << 10, PAGE);
    statistics(s);
    s.fresh();
}
