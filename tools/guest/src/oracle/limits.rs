// SPDX-License-Identifier: GPL-2.0

//! Sizes and limits: disksize, mem_limit, mem_used_max, compact, and what a full disk does.

use super::script::{aligned, node, read_at, write_at, Script};
use crate::pattern::{fill, Kind};
use crate::PAGE;

fn write_pages(s: &mut Script, first: u64, count: u64) {
    let mut page = aligned(PAGE);
    let mut results: Vec<String> = Vec::new();
    if let Ok(file) = node(libc::O_DIRECT) {
        for index in first..first + count {
            fill(Kind::Random, index + 1, &mut page);
            let result = write_at(&file, index * PAGE as u64, &page);
            if results.last() != Some(&result) {
                results.push(result);
            }
        }
    }
    s.op(
        format_args!("write random pages {first}+{count}"),
        results.join(" then "),
    );
}

pub fn run(s: &mut Script) {
    s.group("disksize");
    for size in [
        "1",
        "4095",
        "4096",
        "4097",
        "8192\n",
        "100Kfoo",
        "1kB",
        "0x1000",
        "010000",
        "1M",
        "1m",
        "1MiB",
        "3G",
        "1g ",
        "0x10K",
        "1.5M",
        "0K",
        "00",
        "0x0",
        "18446744073709551615",
        "18446744073709547520",
        "16E",
        "15E",
        "17179869184G",
        "0xffffffffffffffffffff",
        "99999999999999999999999K",
        "K",
        "",
        "1G2G",
        "\t1M",
        "+1M",
        "1M\n\n",
    ] {
        s.fresh();
        s.put_get("disksize", size, &["disksize", "size", "initstate"]);
    }
    s.disk("1M");
    for size in ["2M", "0", "1M", "junk", "16E"] {
        s.put_get("disksize", size, &["disksize"]);
    }
    // More than memory can hold a table for.
    for size in ["1T", "100T"] {
        s.fresh();
        s.put_get("disksize", size, &["disksize", "initstate"]);
    }

    s.group("mem_limit");
    s.fresh();
    for limit in [
        "junk",
        "1",
        "4096",
        "4097",
        "1M",
        "1G",
        "0",
        "16E",
        "15E",
        "18446744073709551615",
        "18446744073709547520",
        "0",
    ] {
        s.put_get("mem_limit", limit, &["mm_stat"]);
    }
    s.put("mem_limit", "64K");
    s.put("disksize", "1M");
    s.get("mm_stat");
    write_pages(s, 0, 12);
    write_pages(s, 12, 16);
    s.get("io_stat");
    s.get("mm_stat");
    // What could not be replaced is still there.
    s.with_node(
        "overwrite page 0 with other random data",
        libc::O_DIRECT,
        |file| {
            let mut page = aligned(PAGE);
            fill(Kind::Random, 1000, &mut page);
            write_at(file, 0, &page)
        },
    );
    s.with_node("read page 0", libc::O_DIRECT, |file| {
        read_at(file, 0, &mut aligned(PAGE))
    });
    s.with_node("write zeros over page 0", libc::O_DIRECT, |file| {
        write_at(file, 0, &aligned(PAGE))
    });
    s.put("mem_limit", "0");
    write_pages(s, 12, 16);
    s.get("mm_stat");
    s.put_get("mem_limit", "4096", &["mm_stat"]);
    write_pages(s, 40, 1);
    s.get("io_stat");
    s.put("reset", "1");
    s.get("mm_stat");
    s.get("io_stat");

    s.group("mem_used_max and compact");
    s.disk("1M");
    write_pages(s, 0, 32);
    s.get("mm_stat");
    s.put("mem_used_max", "0");
    s.get("mm_stat");
    s.with_node("discard everything", 0, |file| {
        super::script::verdict(crate::blk::discard(file, 0, 1 << 20))
    });
    s.get("mm_stat");
    s.put("compact", "1");
    s.put("mem_used_max", "1");
    s.put("mem_used_max", "0");
    s.get("mm_stat");
    s.put("compact", "");
    s.put("compact", "anything");
    s.get("mm_stat");
    s.fresh();
    s.put("compact", "1");
    s.put("mem_used_max", "0");
}
