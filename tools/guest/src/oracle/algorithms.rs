// SPDX-License-Identifier: GPL-2.0

//! comp_algorithm: names, and what each algorithm makes of data.

use super::script::{aligned, node, read_at, write_at, Script};
use crate::pattern::{every_kind, fill, Kind};
use crate::PAGE;

/// Algorithms that both modules have.
pub const COMMON: [&str; 4] = ["lz4", "lz4hc", "zstd", "deflate"];

pub fn run(s: &mut Script) {
    s.group("comp_algorithm");
    s.set("reset", "1");
    s.get("comp_algorithm");
    for name in ["lzo", "lzo-rle", "lz4hc", "842"] {
        s.set("reset", "1");
        s.put_get("comp_algorithm", name, &["comp_algorithm"]);
    }
    s.fresh();
    for name in [
        "lz4",
        "lz4\n",
        "lz4\n\n",
        "lz4 ",
        " lz4",
        "LZ4",
        "lz",
        "lz44",
        "zstd",
        "zstd\0junk",
        "deflate",
        "deflate\n",
        "[lz4]",
        "lz4 zstd",
        "lz4\tzstd",
        "none",
        "zstd",
        "",
    ] {
        s.put_get("comp_algorithm", name, &["comp_algorithm"]);
    }
    for len in [126, 127, 128, 129, 4000] {
        s.put_get("comp_algorithm", "z".repeat(len), &["comp_algorithm"]);
    }
    let padded = format!("lz4{}", "\n".repeat(125));
    s.put_get("comp_algorithm", padded, &["comp_algorithm"]);
    // Bytes behind a NUL do not count.
    let padded = format!("lz4\0{}", "x".repeat(200));
    s.put_get("comp_algorithm", padded, &["comp_algorithm"]);
    s.put_get("comp_algorithm", "zstd", &["comp_algorithm"]);
    s.put_get("disksize", "1M", &["comp_algorithm"]);
    for name in ["lz4", "zstd", "junk", "", "\n"] {
        s.put_get("comp_algorithm", name, &["comp_algorithm"]);
    }
    s.put_get("comp_algorithm", "z".repeat(128), &["comp_algorithm"]);

    s.group("what algorithms make of data");
    for name in COMMON {
        s.fresh();
        s.put("comp_algorithm", name);
        s.put("disksize", "4M");
        let mut page = aligned(PAGE);
        let mut back = aligned(PAGE);
        for (index, kind) in every_kind().into_iter().enumerate().step_by(7) {
            if matches!(kind, Kind::Word(_)) {
                continue; // not compressed; they have a group of their own
            }
            fill(kind, index as u64 + 1, &mut page);
            let at = (index * PAGE) as u64;
            let result = node(libc::O_DIRECT).map_or_else(
                |_| "cannot be opened".into(),
                |file| {
                    let write = write_at(&file, at, &page);
                    let read = read_at(&file, at, &mut back);
                    format!("{write}, {read}, same: {}", page[..] == back[..])
                },
            );
            s.op(format_args!("{name}: {kind:?} written and read"), result);
            s.get("mm_stat");
        }
    }
    s.fresh();
}
