// SPDX-License-Identifier: GPL-2.0

//! Which files there are, whose they are, and what they show before anything was written.

use std::os::unix::fs::{FileTypeExt, MetadataExt};

use super::loading::list;
use super::script::{errno, errno_of, shown, Script};

/// Every attribute that zram has of its own.
pub const ATTRIBUTES: [&str; 20] = [
    "algorithm_params",
    "backing_dev",
    "bd_stat",
    "comp_algorithm",
    "compact",
    "compressed_writeback",
    "debug_stat",
    "disksize",
    "idle",
    "initstate",
    "io_stat",
    "mem_limit",
    "mem_used_max",
    "mm_stat",
    "reset",
    "writeback",
    "writeback_batch_size",
    "writeback_limit",
    "writeback_limit_enable",
    "stat",
];

/// Attributes of older or differently configured zrams, and of rzram.
const OTHERS: [&str; 8] = [
    "max_comp_streams",
    "memory_stat",
    "recomp_algorithm",
    "recompress",
    "num_reads",
    "orig_data_size",
    "use_dedup",
    "debug_state",
];

fn mode(path: &str) -> String {
    match std::fs::metadata(path) {
        Ok(meta) => format!(
            "{:o} {}:{}{}",
            meta.mode() & 0o7777,
            meta.uid(),
            meta.gid(),
            if meta.file_type().is_block_device() {
                " block"
            } else {
                ""
            }
        ),
        Err(e) => errno(errno_of(&e)),
    }
}

pub fn run(s: &mut Script) {
    s.group("files");
    s.op("ls /sys/block/zram0", list("/sys/block/zram0"));
    for name in ATTRIBUTES.iter().chain(&OTHERS) {
        s.op(
            format_args!("mode of {name}"),
            mode(&format!("/sys/block/zram0/{name}")),
        );
    }
    for path in [
        "/dev/zram0",
        "/dev/zram1",
        "/sys/class/zram-control",
        "/sys/class/zram-control/hot_add",
        "/sys/class/zram-control/hot_remove",
        "/sys/kernel/debug/zram",
        "/sys/kernel/debug/zram/zram0",
        "/sys/kernel/debug/zram/zram0/block_state",
        "/sys/module/zram",
    ] {
        s.op(format_args!("mode of {path}"), mode(path));
    }

    s.group("unset");
    for name in ATTRIBUTES {
        s.get(name);
    }
    for path in [
        "/sys/kernel/debug/zram/zram0/block_state",
        "/sys/class/zram-control/hot_remove",
    ] {
        let result = shown(std::path::Path::new(path));
        s.op(format_args!("cat {path}"), result);
    }
    // A write with no bytes does not reach the module.
    for name in ATTRIBUTES {
        s.put(name, "");
    }
    s.group("set-up");
    s.disk("1M");
    for name in ATTRIBUTES {
        if name != "comp_algorithm" {
            s.get(name);
        }
    }
    s.put_get("comp_algorithm", "lz4", &["comp_algorithm"]);
    let state = shown(std::path::Path::new(
        "/sys/kernel/debug/zram/zram0/block_state",
    ));
    s.op("cat block_state", state);
    s.put_get(
        "reset",
        "1",
        &ATTRIBUTES.map(|name| {
            if name == "comp_algorithm" {
                "size"
            } else {
                name
            }
        }),
    );
}
