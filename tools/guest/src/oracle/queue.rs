// SPDX-License-Identifier: GPL-2.0

//! Queue limits: what the block layer and file systems are told about the disk.

use super::loading::list;
use super::script::Script;

const LIMITS: [&str; 43] = [
    "add_random",
    "atomic_write_boundary_bytes",
    "atomic_write_max_bytes",
    "atomic_write_unit_max_bytes",
    "atomic_write_unit_min_bytes",
    "chunk_sectors",
    "dax",
    "discard_granularity",
    "discard_max_bytes",
    "discard_max_hw_bytes",
    "discard_zeroes_data",
    "dma_alignment",
    "fua",
    "hw_sector_size",
    "io_poll",
    "io_poll_delay",
    "iostats",
    "iostats_passthrough",
    "logical_block_size",
    "max_discard_segments",
    "max_hw_sectors_kb",
    "max_integrity_segments",
    "max_sectors_kb",
    "max_segment_size",
    "max_segments",
    "max_write_streams",
    "minimum_io_size",
    "nomerges",
    "nr_requests",
    "nr_zones",
    "optimal_io_size",
    "physical_block_size",
    "read_ahead_kb",
    "rotational",
    "rq_affinity",
    "scheduler",
    "stable_writes",
    "virt_boundary_mask",
    "wbt_lat_usec",
    "write_cache",
    "write_same_max_bytes",
    "write_zeroes_max_bytes",
    "zoned",
];

fn all(s: &mut Script) {
    for name in LIMITS {
        s.get(&format!("queue/{name}"));
    }
}

pub fn run(s: &mut Script) {
    s.group("queue");
    s.op("ls queue", list("/sys/block/zram0/queue"));
    s.fresh();
    all(s);

    s.group("queue of a disk that is set up");
    s.disk("1M");
    all(s);
    for (name, value) in [
        ("read_ahead_kb", "64"),
        ("max_sectors_kb", "64"),
        ("max_sectors_kb", "128"),
        ("max_sectors_kb", "0"),
        ("discard_max_bytes", "1048576"),
        ("discard_max_bytes", "1000"),
        ("discard_max_bytes", "0"),
        ("iostats", "1"),
        ("rotational", "1"),
        ("add_random", "1"),
        ("stable_writes", "0"),
        ("nomerges", "2"),
        ("nr_requests", "64"),
        ("scheduler", "none"),
        ("io_poll", "1"),
        ("write_cache", "write back"),
        ("write_cache", "write through"),
    ] {
        let name = format!("queue/{name}");
        s.put_get(&name, value, &[&name]);
    }
    s.set("reset", "1");
    // The block layer keeps what the user chose there.
    for name in [
        "read_ahead_kb",
        "max_sectors_kb",
        "iostats",
        "rotational",
        "nomerges",
    ] {
        s.get(&format!("queue/{name}"));
    }
    for (name, value) in [
        ("read_ahead_kb", "128"),
        ("max_sectors_kb", "124"),
        ("discard_max_bytes", "2199023255040"),
        ("iostats", "0"),
        ("rotational", "0"),
        ("add_random", "0"),
        ("stable_writes", "1"),
        ("nomerges", "0"),
    ] {
        let name = format!("queue/{name}");
        s.put_get(&name, value, &[&name]);
    }
}
