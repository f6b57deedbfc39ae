// SPDX-License-Identifier: GPL-2.0

//! Discards and ranges of zeros: which blocks are freed, what is counted, what is refused.

use super::data::statistics;
use super::script::{aligned, read_at, verdict, write_at, Script};
use crate::blk;
use crate::pattern::{fill, Kind};
use crate::PAGE;

const SIZE: usize = 256 << 10;

fn fill_disk(s: &mut Script) {
    s.disk("256K");
    let result = super::script::node(libc::O_DIRECT).map(|file| {
        let mut buffer = aligned(SIZE);
        for (n, page) in buffer.chunks_mut(PAGE).enumerate() {
            let kind = [Kind::Text, Kind::Random, Kind::Word(0x55), Kind::Records][n % 4];
            fill(kind, n as u64, page);
        }
        write_at(&file, 0, &buffer)
    });
    s.prepare("filling the disk", result);
}

/// Does it and tells what is left.
fn then(s: &mut Script, what: &str, act: impl FnOnce(&std::fs::File) -> nix::Result<()>) {
    fill_disk(s);
    s.with_node(what, libc::O_DIRECT, |file| verdict(act(file)));
    s.with_node("read the disk", libc::O_DIRECT, |file| {
        read_at(file, 0, &mut aligned(SIZE))
    });
    statistics(s);
}

pub fn run(s: &mut Script) {
    const KEEP: i32 = libc::FALLOC_FL_KEEP_SIZE;
    const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE;
    const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE;
    s.group("discards");
    for (start, len) in [
        (0, 4096),
        (0, SIZE as u64),
        (4096, 65536),
        (8192, 0),
        (0, 512),
        (512, 4096),
        (2048, 8192),
        (4096, 6144),
        (1, 4096),
        (0, 4097),
        (0, 1 << 20),
        (SIZE as u64, 4096),
        (SIZE as u64 - 4096, 4096),
        (u64::MAX - 4095, 4096),
        (u64::MAX - 4095, 8192),
    ] {
        then(s, &format!("BLKDISCARD {start}+{len}"), |file| {
            blk::discard(file, start, len)
        });
    }
    then(s, "BLKDISCARD 0+4096 twice", |file| {
        blk::discard(file, 0, 4096)?;
        blk::discard(file, 0, 4096)
    });
    then(s, "BLKSECDISCARD 0+4096", |file| {
        blk::secure_discard(file, 0, 4096)
    });

    s.group("ranges of zeros");
    for (start, len) in [
        (0, 4096),
        (0, SIZE as u64),
        (4096, 65536),
        (0, 512),
        (512, 4096),
        (2048, 8192),
        (1, 512),
        (0, 1 << 20),
        (8192, 0),
    ] {
        then(s, &format!("BLKZEROOUT {start}+{len}"), |file| {
            blk::zero_out(file, start, len)
        });
    }
    for (name, mode) in [
        ("nothing", 0),
        ("KEEP_SIZE", KEEP),
        ("PUNCH_HOLE", PUNCH),
        ("PUNCH_HOLE|KEEP_SIZE", PUNCH | KEEP),
        ("ZERO_RANGE", ZERO),
        ("ZERO_RANGE|KEEP_SIZE", ZERO | KEEP),
        ("PUNCH_HOLE|KEEP_SIZE|NO_HIDE_STALE", PUNCH | KEEP | 4),
        ("WRITE_ZEROES", 0x80),
        ("WRITE_ZEROES|KEEP_SIZE", 0x80 | KEEP),
        ("COLLAPSE_RANGE", 8),
    ] {
        then(s, &format!("fallocate 4096+8192 with {name}"), |file| {
            blk::fallocate(file, mode, 4096, 8192)
        });
    }
    then(s, "fallocate 512+8192 with PUNCH_HOLE|KEEP_SIZE", |file| {
        blk::fallocate(file, PUNCH | KEEP, 512, 8192)
    });
    then(
        s,
        "fallocate past the end with PUNCH_HOLE|KEEP_SIZE",
        |file| blk::fallocate(file, PUNCH | KEEP, 1 << 20, 8192),
    );
    s.fresh();
}
