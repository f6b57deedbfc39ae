// SPDX-License-Identifier: GPL-2.0

//! Where instructions are spent: by function, by part, and what of it is the driver's own.

use std::collections::BTreeMap;
use std::fmt::Write;

use rzram_cells::Run;

use super::PEER;
use crate::results::Set;

/// Instructions by function.
type Counts = BTreeMap<String, u64>;

/// Of each cell and module, the turn in the middle of all, by the time that it took.
fn typical(set: &Set) -> Vec<(&Run, &Counts)> {
    let mut turns: Vec<Vec<(&Run, &Counts)>> = Vec::new();
    for turn in set.runs.iter().zip(&set.profiles) {
        let same =
            |(run, _): &(&Run, &Counts)| run.cell == turn.0.cell && run.module == turn.0.module;
        match turns.iter_mut().find(|others| others.iter().any(same)) {
            Some(others) => others.push(turn),
            None => turns.push(vec![turn]),
        }
    }
    let middle = turns.into_iter().filter_map(|mut of_cell| {
        of_cell.sort_by(|(a, _), (b, _)| set.per_block(a).total_cmp(&set.per_block(b)));
        of_cell.get(of_cell.len() / 2).copied()
    });
    middle.collect()
}

/// Functions of the kernel that nobody but the driver calls for a request of this kind: their beginnings.
const CALLED: [&str; 6] = [
    "wake_up_bit",
    "ktime_get_coarse",
    "mutex_lock",
    "mutex_unlock",
    "rust_helper",
    "__x86_indirect",
];

/// What is neither the codec's, the block layer's nor the pool's, for both modules.
fn own(set: &Set) -> String {
    let mut text = "\n| load | data | zram: own | rzram: own | ratio | zram, all | rzram, all |\n|---|---|---:|---:|---:|---:|---:|\n"
        .to_owned();
    let of = |module: &str| -> Vec<_> {
        let runs = typical(set).into_iter();
        runs.filter(|(run, _)| run.module == module)
            .map(|(run, counts)| {
                let all: u64 = counts.values().sum();
                let parts = parts(counts);
                let own = ["driver", "called by the driver"]
                    .map(|part| parts.get(part).copied().unwrap_or(0));
                let own: u64 = own.iter().sum();
                let per_block = set.per_block(run);
                (
                    &run.cell,
                    per_block * own as f64 / all.max(1) as f64,
                    per_block,
                )
            })
            .collect()
    };
    let ours = of("rzram");
    for (cell, peer, peer_all) in of(PEER) {
        let Some((_, own, all)) = ours.iter().find(|(known, ..)| *known == cell) else {
            continue;
        };
        let _ = writeln!(
            text,
            "| {} | {} | {peer:.0} | {own:.0} | {:.2} | {peer_all:.0} | {all:.0} |",
            cell.load,
            cell.data,
            own / peer
        );
    }
    text
}

/// Functions that take less than this part are summed up.
const SMALL: f64 = 0.005;

/// Where instructions are spent, for each cell and module.
pub fn table(set: &Set) -> String {
    let mut text = "Instructions for 4 KiB, counted by function.\n".to_owned() + &own(set);
    for (run, counts) in typical(set) {
        let all: u64 = counts.values().sum();
        let per_block = set.per_block(run);
        let _ = writeln!(
            text,
            "\n### {}: {}: {per_block:.0} instructions\n\n| function | instructions | share |\n|---|---:|---:|",
            run.module, run.cell
        );
        let mut sorted: Vec<(&String, &u64)> = counts.iter().collect();
        sorted.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), name.as_str()));
        let mut rest = 0;
        for (name, count) in sorted {
            let share = *count as f64 / all.max(1) as f64;
            if share < SMALL {
                rest += count;
                continue;
            }
            let _ = writeln!(
                text,
                "| `{name}` | {:.0} | {:.1} % |",
                share * per_block,
                share * 100.0
            );
        }
        let share = rest as f64 / all.max(1) as f64;
        let _ = writeln!(
            text,
            "| less than half a percent each | {:.0} | {:.1} % |",
            share * per_block,
            share * 100.0
        );
        let parts = parts(counts);
        let _ = write!(text, "\nBy part:");
        for (part, count) in parts {
            let share = count as f64 / all.max(1) as f64;
            let _ = write!(text, " {part} {:.0};", share * per_block);
        }
        text += "\n";
    }
    text
}

/// To which part a function belongs.
fn part(function: &str) -> &'static str {
    let module = function.rsplit(' ').next().unwrap_or("");
    let name = function.split(' ').next().unwrap_or("");
    const CODECS: [&str; 10] = [
        "LZ4_",
        "lzo",
        "ZSTD_",
        "zstd_",
        "HUF_",
        "FSE_",
        "zlib_",
        "HIST_",
        "deflate_",
        "fill_window",
    ];
    if function == "user space" {
        "user space"
    } else if CODECS.iter().any(|codec| name.starts_with(codec)) {
        "codec"
    } else if module == "[zram]" || module == "[rzram]" {
        "driver"
    } else if CALLED.iter().any(|called| name.starts_with(called)) {
        "called by the driver"
    } else if module == "[zsmalloc]" || name.starts_with("zs_") || name.contains("zspage") {
        "zsmalloc"
    } else {
        "kernel"
    }
}

/// Instructions by part.
fn parts(counts: &Counts) -> BTreeMap<&'static str, u64> {
    let mut parts = BTreeMap::new();
    for (function, count) in counts {
        *parts.entry(part(function)).or_default() += count;
    }
    parts
}

#[cfg(test)]
mod tests {
    use rzram_cells::{Cell, Meter};

    use super::*;

    #[test]
    fn functions_belong_to_parts() {
        for (function, expected) in [
            ("LZ4_compress_fast", "codec"),
            ("rzram::device::io::write [rzram]", "driver"),
            ("zram_submit_bio [zram]", "driver"),
            ("zs_malloc [zsmalloc]", "zsmalloc"),
            ("zs_free", "zsmalloc"),
            ("submit_bio_noacct", "kernel"),
            ("mutex_unlock", "called by the driver"),
            ("rust_helper_kmap_local_page [rzram]", "driver"),
            ("user space", "user space"),
        ] {
            assert_eq!(part(function), expected, "{function}");
        }
    }

    #[test]
    fn the_drivers_own_part_is_compared() {
        let run = |module: &str, time| Run {
            cell: Cell {
                load: "read".into(),
                codec: "lz4".into(),
                data: "half".into(),
                request: 4096,
                threads: 1,
            },
            module: module.into(),
            blocks: 10,
            ns: 0,
            virtual_time: Some(time),
            figures: Vec::new(),
        };
        let counts = |own: u64| {
            let counts = [("f [zram]", own), ("mutex_lock", 100), ("LZ4_x", 900 - own)];
            counts.map(|(name, n)| (name.to_owned(), n)).into()
        };
        let set = Set {
            name: "profile".into(),
            meter: Meter::Virtual { profile: true },
            cpus: 1,
            kernel: String::new(),
            runs: vec![
                run("zram", 1000),
                run("rzram", 5000),
                run("rzram", 1000),
                run("rzram", 990),
            ],
            profiles: vec![counts(300), counts(800), counts(200), counts(190)],
        };
        let text = own(&set);
        assert!(
            text.contains("| read | half | 40 | 30 | 0.75 | 100 | 100 |"),
            "{text}"
        );
    }
}
