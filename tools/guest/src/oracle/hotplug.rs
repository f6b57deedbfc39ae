// SPDX-License-Identifier: GPL-2.0

//! hot_add and hot_remove.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::loading::list;
use super::script::{errno, errno_of, quoted, shown, written, Script};

const ADD: &str = "/sys/class/zram-control/hot_add";
const REMOVE: &str = "/sys/class/zram-control/hot_remove";

fn disks() -> String {
    let all = list("/sys/block");
    let disks: Vec<&str> = all
        .split(' ')
        .filter(|name| name.starts_with("zram"))
        .collect();
    disks.join(" ")
}

fn add(s: &mut Script) {
    let result = shown(Path::new(ADD));
    s.op("cat hot_add", format_args!("{result}, disks: {}", disks()));
}

fn remove(s: &mut Script, value: impl AsRef<[u8]>) {
    let result = written(Path::new(REMOVE), value.as_ref());
    s.op(
        format_args!("hot_remove < {}", quoted(value.as_ref())),
        format_args!("{result}, disks: {}", disks()),
    );
}

/// Reads hot_add a byte at a time: however often it is read, opening it makes one disk.
fn bytewise() -> String {
    let mut bytes = Vec::new();
    let result = File::open(ADD).and_then(|mut file| {
        let mut byte = [0];
        while file.read(&mut byte)? == 1 {
            bytes.push(byte[0]);
        }
        Ok(())
    });
    match result {
        Ok(()) => quoted(&bytes),
        Err(e) => errno(errno_of(&e)),
    }
}

pub fn run(s: &mut Script) {
    s.group("hot_add and hot_remove");
    s.fresh();
    add(s);
    add(s);
    remove(s, "1");
    add(s);
    remove(s, "1");
    remove(s, "2");
    s.op("write to hot_add", written(Path::new(ADD), b"1"));
    s.op("read of hot_remove", shown(Path::new(REMOVE)));
    let result = bytewise();
    s.op(
        "hot_add a byte at a time",
        format_args!("{result}, disks: {}", disks()),
    );
    remove(s, "1\n");
    for value in [
        "1",
        "7",
        "x",
        "",
        "\n",
        " ",
        " 1",
        "1 ",
        "0x1",
        "-1",
        "-0",
        "+9",
        "2147483647",
        "2147483648",
        "-2147483648",
        "-2147483649",
        "4294967296",
        "99999999999999999999",
        "1\0x",
        "\0",
        "1\n\n",
        "zram1",
    ] {
        remove(s, value);
    }
    remove(s, "1".repeat(5000));
    // Disk 0 can go as any other.
    remove(s, "0");
    add(s);
    remove(s, "0\n");
    add(s);
    remove(s, "+0");
    add(s);
    remove(s, "00");
    add(s);

    s.group("a second disk");
    add(s);
    for (disk, name, value) in [
        (1, "comp_algorithm", "zstd"),
        (1, "disksize", "1M"),
        (0, "comp_algorithm", "lz4"),
        (0, "disksize", "2M"),
        (1, "mem_limit", "1M"),
        (0, "reset", "1"),
    ] {
        let result = written(
            Path::new(&format!("/sys/block/zram{disk}/{name}")),
            value.as_bytes(),
        );
        let sizes = [0, 1].map(|n| shown(Path::new(&format!("/sys/block/zram{n}/disksize"))));
        s.op(
            format_args!("zram{disk}/{name} < {value}"),
            format_args!("{result}, sizes: {}", sizes.join(" ")),
        );
    }
    // A disk with something in it can be removed all the same.
    remove(s, "1");
    s.fresh();
    s.set("disksize", "1M");
    remove(s, "0");
    add(s);
    s.get("disksize");
    s.get("initstate");
    s.get("writeback_batch_size");
    s.fresh();
}
