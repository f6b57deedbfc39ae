// SPDX-License-Identifier: GPL-2.0

//! Writing back: what is written, in which order it is refused, limits, and reading it again.

use super::backing::DISK;
use super::idle::{show, some_blocks};
use super::script::{aligned, node, read_at, verdict, write_at, Script};
use crate::pattern::{fill, Kind};
use crate::PAGE;

const LOOK: &[&str] = &["bd_stat", "writeback_limit"];

/// A disk with some blocks in it, all idle, and a backing device.
fn ready(s: &mut Script) {
    s.fresh();
    s.set("backing_dev", DISK);
    s.set("disksize", "64K");
    some_blocks(s);
    s.set("idle", "all");
}

fn read_all(s: &mut Script) {
    s.with_node("read the disk", libc::O_DIRECT, |file| {
        read_at(file, 0, &mut aligned(64 << 10))
    });
}

fn overwrite(s: &mut Script, block: u64, kind: Kind) {
    s.with_node(
        format_args!("write {kind:?} to block {block}"),
        libc::O_DIRECT,
        |file| {
            let mut page = aligned(PAGE);
            fill(kind, 99, &mut page);
            write_at(file, block * PAGE as u64, &page)
        },
    );
}

const ALL: &str = "page_indexes=0-15";

pub fn run(s: &mut Script) {
    s.group("grammar of writeback");
    for input in [
        "idle",
        "huge",
        "huge_idle",
        "incompressible",
        "idle\n",
        "IDLE",
        "type=idle",
        "type=huge",
        "type=huge_idle",
        "type=incompressible",
        "type=",
        "type=x",
        "type",
        "x",
        "x=1",
        "",
        "\n",
        " ",
        "page_index=0",
        "page_index=1\n",
        "page_index=4",
        "page_index=15",
        "page_index=16",
        "page_index=-1",
        "page_index=x",
        "page_index=",
        "page_index",
        "page_index=0x1",
        "page_index=+1",
        "page_index=99999999999999999999",
        "page_index=0 page_index=1",
        "page_index=0 page_index=16",
        "page_indexes=0-3",
        "page_indexes=0-15",
        "page_indexes=0-16",
        "page_indexes=3-0",
        "page_indexes=1-1",
        "page_indexes=1",
        "page_indexes=1-",
        "page_indexes=-1",
        "page_indexes=a-b",
        "page_indexes=0-1-2",
        "page_indexes=0-1 page_indexes=5-6",
        "page_indexes=0-1 page_index=5",
        "page_index=1 type=huge",
        "page_indexes=0-3 type=idle",
        "type=huge page_index=0",
        "type=idle type=x",
        "page_index=1 idle",
        "idle page_index=99",
        "foo=1 page_index=0",
        "page_index=0 foo",
        "\"page_index=0\"",
        "page_index=\"0\"",
        "huge idle",
        "x idle",
    ] {
        ready(s);
        s.put_get("writeback", input, LOOK);
        show(s);
    }
    s.put("writeback", "a".repeat(4000));

    s.group("writeback before it can be");
    s.fresh();
    for input in ["idle", "x", "page_index=0", ""] {
        s.put_get("writeback", input, LOOK);
    }
    s.disk("64K");
    for input in ["idle", "x", "page_index=0", ""] {
        s.put_get("writeback", input, LOOK);
    }
    s.fresh();
    s.set("backing_dev", DISK);
    s.put_get("writeback", "idle", LOOK);
    s.put("disksize", "64K");
    s.put_get("writeback", ALL, LOOK);

    for compressed in ["0", "1"] {
        s.group(if compressed == "0" {
            "what is written back"
        } else {
            "what is written back compressed"
        });
        s.fresh();
        s.put("compressed_writeback", compressed);
        s.put("backing_dev", DISK);
        s.put("disksize", "64K");
        s.put_get("compressed_writeback", "0", &["compressed_writeback"]);
        some_blocks(s);
        s.get("mm_stat");
        s.put_get("writeback", "huge", LOOK);
        s.get("mm_stat");
        show(s);
        read_all(s);
        s.get("bd_stat");
        s.put("idle", "all");
        show(s);
        s.put_get("writeback", "idle", LOOK);
        s.get("mm_stat");
        show(s);
        read_all(s);
        s.get("bd_stat");
        s.put_get("writeback", ALL, LOOK);
        overwrite(s, 1, Kind::Text);
        s.get("bd_stat");
        overwrite(s, 0, Kind::Random);
        s.get("bd_stat");
        s.with_node("discard block 9", 0, |file| {
            verdict(crate::blk::discard(file, 9 * PAGE as u64, PAGE as u64))
        });
        s.get("bd_stat");
        s.get("io_stat");
        s.get("mm_stat");
        show(s);
        read_all(s);
        s.put_get("writeback", ALL, LOOK);
        s.get("bd_stat");
        read_all(s);
        s.put("idle", "all");
        show(s);
        s.put_get(
            "reset",
            "1",
            &[
                "bd_stat",
                "mm_stat",
                "io_stat",
                "backing_dev",
                "compressed_writeback",
            ],
        );
    }

    s.group("writeback_limit");
    s.fresh();
    for name in [
        "writeback_limit",
        "writeback_limit_enable",
        "writeback_batch_size",
        "compressed_writeback",
    ] {
        s.put_get(name, "7", &[name]);
    }
    s.put_get(
        "reset",
        "1",
        &[
            "writeback_limit",
            "writeback_limit_enable",
            "writeback_batch_size",
            "compressed_writeback",
        ],
    );
    for (limit, batch) in [
        ("0", "32"),
        ("1", "32"),
        ("2", "1"),
        ("3", "2"),
        ("100", "1"),
    ] {
        ready(s);
        s.put_get("writeback_limit_enable", "1", LOOK);
        s.put_get("writeback_limit", limit, LOOK);
        s.put("writeback_batch_size", batch);
        s.put_get("writeback", "huge", LOOK);
        s.put_get("writeback", ALL, LOOK);
        s.put_get("writeback", "huge", LOOK);
        s.put_get("writeback", "", LOOK);
        s.put_get("writeback_limit_enable", "0", LOOK);
        s.put_get("writeback", ALL, LOOK);
        read_all(s);
    }

    s.group("a small backing device");
    s.fresh();
    let small = crate::run::run("losetup", &["-d", "/dev/loop1"]).is_ok()
        && std::fs::write("/tmp/small-file", vec![0; 4 * PAGE]).is_ok()
        && crate::run::run("losetup", &["/dev/loop1", "/tmp/small-file"]).is_ok();
    s.op("a loop device of four pages", small);
    s.put("backing_dev", "/dev/loop1");
    s.put("disksize", "64K");
    some_blocks(s);
    s.put_get("writeback", ALL, LOOK);
    s.get("mm_stat");
    read_all(s);
    s.put_get("writeback", ALL, LOOK);
    s.with_node("discard everything", 0, |file| {
        verdict(crate::blk::discard(file, 0, 64 << 10))
    });
    s.get("bd_stat");
    some_blocks(s);
    s.put_get("writeback", "huge", LOOK);
    s.get("bd_stat");
    // Whatever the order, it is the same pages that come back.
    let held = node(0).map(drop);
    s.prepare("opening the node", held);
    read_all(s);
    s.fresh();
    let detached = crate::run::run("losetup", &["-d", "/dev/loop1"]).is_ok();
    s.op("the loop device detaches", detached);
}
