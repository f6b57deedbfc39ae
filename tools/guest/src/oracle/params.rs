// SPDX-License-Identifier: GPL-2.0

//! algorithm_params: its grammar, the range of each parameter, dictionaries.

use std::fs;

use anyhow::Result;

use super::algorithms::COMMON;
use super::script::{aligned, node, read_at, write_at, Script};
use crate::pattern::{fill, Kind};
use crate::PAGE;

const PARAMS: &str = "algorithm_params";

/// Levels and window sizes at both ends of what some algorithm takes.
const LEVELS: [&str; 23] = [
    "-2147483649",
    "-2147483648",
    "-131073",
    "-131072",
    "-100",
    "-2",
    "-1",
    "0",
    "1",
    "2",
    "3",
    "9",
    "10",
    "16",
    "17",
    "19",
    "22",
    "23",
    "100",
    "65537",
    "65538",
    "2147483647",
    "2147483648",
];
const WINDOWS: [&str; 23] = [
    "-2147483648",
    "-32",
    "-31",
    "-16",
    "-15",
    "-12",
    "-9",
    "-8",
    "-7",
    "-1",
    "0",
    "1",
    "7",
    "8",
    "9",
    "12",
    "15",
    "16",
    "25",
    "31",
    "32",
    "47",
    "2147483647",
];

/// Sets the disk up, writes a page that compresses, reads it back, and tells how large it became.
fn try_out(s: &mut Script, what: &str) {
    s.put_get("disksize", "64K", &["comp_algorithm", "initstate"]);
    let result = node(libc::O_DIRECT).map_or_else(
        |_| "cannot be opened".into(),
        |file| {
            let mut page = aligned(PAGE);
            fill(Kind::Text, 5, &mut page);
            let write = write_at(&file, 0, &page);
            let read = read_at(&file, 0, &mut page);
            let sizes = crate::attr::read(&super::script::sys("mm_stat")).unwrap_or_default();
            let sizes: Vec<&str> = sizes.split_whitespace().take(2).collect();
            format!(
                "{write}, {read}, original and compressed size: {}",
                sizes.join(" ")
            )
        },
    );
    s.op(format_args!("a page of text {what}"), result);
}

pub fn run(s: &mut Script) -> Result<()> {
    s.group("grammar of algorithm_params");
    s.fresh();
    for input in [
        "",
        "\n",
        "   ",
        "level",
        "level=",
        "level= ",
        "level=x",
        "level=3x",
        "level=+3",
        "level=-3",
        "level=0x3",
        "level=03",
        "level=3 ",
        "level=3\n",
        " level=3",
        "\tlevel=3\n",
        "level=3 level=4",
        "level=3 level=x",
        "level=3,level=4",
        "level =3",
        "level= 3",
        "=3",
        "=",
        "\"level=3\"",
        "level=\"3\"",
        "level=\"3",
        "\"level\"=3",
        "level=\"\"",
        "'level=3'",
        "Level=3",
        "foo=1",
        "foo",
        "foo=",
        "foo=1 level=3",
        "foo=1 bar",
        "level=99999999999999999999",
        "priority=0",
        "priority=0 level=3",
        "priority=1",
        "priority=3",
        "priority=4",
        "priority=-1",
        "priority=x",
        "priority=",
        "priority",
        "priority=+0",
        "algo=lz4",
        "algo=lz4 level=3",
        "level=3 algo=lz4",
        "algo=zstd",
        "algo=zstd level=3",
        "algo=LZ4",
        "algo=",
        "algo",
        "algo=lz4 priority=0",
        "algo=zstd priority=0",
        "algo=lz4 priority=1",
        "algo=junk",
        "deflate.winbits=12",
        "deflate.winbits=x",
        "deflate.winbits=",
        "winbits=12",
        "level=3\0level=x",
        "level=3\x0blevel=4",
        "level=3\u{a0}level=x",
        "dict=",
        "dict=/nonexistent",
        "dict=\"/nonexistent\" level=3",
        "dict=/dev/null",
        "dict=/",
        "dict=/tmp",
        "dict=rel",
        "dict=/proc/version",
    ] {
        s.put(PARAMS, input);
        s.put(PARAMS, "level=1");
    }
    s.put(PARAMS, "a".repeat(4000));
    s.put(PARAMS, format!("foo={}", "a".repeat(4000)));
    s.put(PARAMS, "b=1 ".repeat(1000));
    s.disk("64K");
    for input in [
        "level=3",
        "level=x",
        "level",
        "",
        "priority=9",
        "dict=/nonexistent",
        "algo=junk",
    ] {
        s.put(PARAMS, input);
    }

    s.group("levels");
    for name in COMMON {
        for level in LEVELS {
            s.fresh();
            s.set("comp_algorithm", name);
            s.put(PARAMS, format!("level={level}"));
            try_out(s, &format!("with {name} at that level"));
        }
    }

    s.group("window sizes");
    for name in COMMON {
        for bits in WINDOWS {
            s.fresh();
            s.set("comp_algorithm", name);
            s.put(PARAMS, format!("deflate.winbits={bits}"));
            try_out(s, &format!("with {name} with that window"));
        }
    }
    s.fresh();
    s.set("comp_algorithm", "deflate");
    s.put(PARAMS, "level=9 deflate.winbits=-12");
    try_out(s, "with both");

    s.group("dictionaries");
    let mut content = vec![0; 3 * PAGE];
    fill(Kind::Text, 77, &mut content);
    fs::write("/tmp/text.dict", &content)?;
    fill(Kind::Random, 78, &mut content);
    fs::write("/tmp/random.dict", &content[..100])?;
    fs::write("/tmp/empty.dict", "")?;
    fs::write("/tmp/one.dict", "x")?;
    // The magic number of a zstd dictionary, and nothing of what should follow it.
    fs::write(
        "/tmp/broken.dict",
        b"\x37\xa4\x30\xec\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a",
    )?;
    fs::write("/tmp/large.dict", vec![b'a'; 300_000])?;
    fs::write("/tmp/a b.dict", "with a space in its name")?;
    for name in COMMON {
        for dictionary in [
            "dict=/tmp/text.dict",
            "dict=/tmp/random.dict",
            "dict=/tmp/empty.dict",
            "dict=/tmp/one.dict",
            "dict=/tmp/broken.dict",
            "dict=/tmp/large.dict",
            "dict=\"/tmp/a b.dict\"",
            "dict=/tmp/text.dict level=1",
            "level=1 dict=/tmp/missing.dict",
        ] {
            s.fresh();
            s.set("comp_algorithm", name);
            s.put(PARAMS, dictionary);
            try_out(s, &format!("with {name} and that dictionary"));
        }
    }

    s.group("order of algorithm and parameters");
    s.fresh();
    s.put("comp_algorithm", "zstd");
    s.put(PARAMS, "level=22");
    s.put("comp_algorithm", "zstd");
    try_out(s, "after choosing the algorithm again");
    s.fresh();
    s.put("comp_algorithm", "zstd");
    s.put(PARAMS, "level=23");
    s.put(PARAMS, "deflate.winbits=9");
    try_out(s, "after other parameters");
    s.put("reset", "1");
    s.set("comp_algorithm", "zstd");
    s.put(PARAMS, "level=23");
    s.put("reset", "1");
    s.set("comp_algorithm", "zstd");
    try_out(s, "after a reset");
    s.fresh();
    s.set("comp_algorithm", "zstd");
    s.put(PARAMS, "level=x");
    try_out(s, "after parameters that were refused");
    s.fresh();
    s.set("comp_algorithm", "zstd");
    s.put(PARAMS, "level=23");
    s.put_get("disksize", "1M", &["comp_algorithm", "disksize"]);
    s.put_get("disksize", "1M", &["comp_algorithm", "disksize"]);
    s.fresh();
    s.set("comp_algorithm", "zstd");
    s.put(PARAMS, "level=23");
    s.put(PARAMS, "level=1 dict=/tmp/missing.dict");
    try_out(s, "after a dictionary that is not there");
    s.fresh();
    Ok(())
}
