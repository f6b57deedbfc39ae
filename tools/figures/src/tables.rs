// SPDX-License-Identifier: GPL-2.0

//! Tables in Markdown.

mod locks;
mod scaling;

use std::collections::BTreeMap;
use std::fmt::Write;

use rzram_cells::{size, Cell, Meter};

use crate::native;
use crate::results::{Results, Set};

/// The module that all others are compared with.
pub const PEER: &str = "zram";

/// Everything, a table for each guest.
pub fn all(results: &Results) -> String {
    let mut text = String::from("# Results\n\n");
    for (name, value) in &results.machine {
        let _ = writeln!(text, "- {name}: {value}");
    }
    for set in &results.sets {
        let _ = writeln!(text, "\n## {}\n", set.name);
        if !set.kernel.is_empty() {
            let _ = writeln!(text, "Kernel: {}.\n", set.kernel);
        }
        text += &match set.name.as_str() {
            "hot" => figures(set, &["p50", "p90", "p99", "p99.9"], "ns"),
            "memory" => figures(set, &["pool", "empty", "all"], "bytes"),
            "profile" => profile(set),
            "native" => native::table(set),
            "locks-12" => times(set) + &locks::ratios(set),
            "locks-memory" => locks::memory(set),
            _ => times(set),
        };
    }
    text + &scaling::table(&results.sets)
}

fn module_names(set: &Set) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for run in &set.runs {
        if !names.contains(&run.module) {
            names.push(run.module.clone());
        }
    }
    names
}

/// The time of a block for each cell, and how it compares.
fn times(set: &Set) -> String {
    let modules = module_names(set);
    let mut text = format!(
        "Time of a thread for 4 KiB, in {}, {} CPU{}. A ratio above 1 is faster than {PEER}.\n\n",
        match set.meter {
            Meter::Virtual { .. } => "virtual time (instructions)",
            meter => meter.unit(),
        },
        set.cpus,
        if set.cpus == 1 { "" } else { "s" },
    );
    let others: Vec<&String> = modules.iter().filter(|name| *name != PEER).collect();
    text += "| load | codec | data | request | threads |";
    for module in &modules {
        let _ = write!(text, " {module} |");
    }
    for module in &others {
        let _ = write!(text, " {module} ratio |");
    }
    text += "\n|---|---|---|---|---|";
    text += &"---:|".repeat(modules.len() + others.len());
    text += "\n";
    for (cell, values) in set.cells() {
        text += &head(&cell);
        for module in &modules {
            let _ = match values.get(module) {
                Some(value) => write!(text, " {value:.0} |"),
                None => write!(text, " |"),
            };
        }
        for module in &others {
            let _ = match (values.get(PEER), values.get(*module)) {
                (Some(peer), Some(value)) if *value > 0.0 => write!(text, " {:.3} |", peer / value),
                _ => write!(text, " |"),
            };
        }
        text += "\n";
    }
    text
}

fn head(cell: &Cell) -> String {
    let data = cell
        .data
        .strip_prefix("file:")
        .map_or(&*cell.data, |path| path.rsplit('/').next().unwrap_or(path));
    format!(
        "| {} | {} | {data} | {} | {} |",
        cell.load,
        cell.codec,
        size(u64::from(cell.request)),
        cell.threads
    )
}

/// Named figures for each cell and module.
fn figures(set: &Set, names: &[&str], unit: &str) -> String {
    let mut text = format!("In {unit}. A ratio below 1 is less than {PEER}.\n\n");
    text += "| load | codec | data | request | threads | figure | zram | rzram | ratio |\n";
    text += "|---|---|---|---|---|---|---:|---:|---:|\n";
    for name in names {
        for (cell, values) in set.figures(name) {
            let (Some(peer), Some(ours)) = (values.get(PEER), values.get("rzram")) else {
                continue;
            };
            let _ = writeln!(
                text,
                "{} {name} | {peer:.0} | {ours:.0} | {:.3} |",
                head(&cell),
                ours / peer.max(1.0)
            );
        }
    }
    text
}

/// Functions that take less than this part are summed up.
const SMALL: f64 = 0.005;

/// Where instructions are spent, for each run.
fn profile(set: &Set) -> String {
    let mut text =
        "Instructions for 4 KiB, by function, from samples of program counters.\n".to_owned();
    for (run, samples) in set.runs.iter().zip(&set.profiles) {
        let all: u64 = samples.values().sum();
        let per_block = set.per_block(run);
        let _ = writeln!(
            text,
            "\n### {}: {}: {per_block:.0} instructions\n\n| function | instructions | share |\n|---|---:|---:|",
            run.module, run.cell
        );
        let mut sorted: Vec<(&String, &u64)> = samples.iter().collect();
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
        let parts = parts(samples);
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
pub fn part(function: &str) -> &'static str {
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
    } else if module == "[zsmalloc]" || name.starts_with("zs_") || name.contains("zspage") {
        "zsmalloc"
    } else {
        "kernel"
    }
}

/// Samples by part.
fn parts(samples: &BTreeMap<String, u64>) -> BTreeMap<&'static str, u64> {
    let mut parts = BTreeMap::new();
    for (function, count) in samples {
        *parts.entry(part(function)).or_default() += count;
    }
    parts
}

#[cfg(test)]
mod tests {
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
            ("user space", "user space"),
        ] {
            assert_eq!(part(function), expected, "{function}");
        }
    }
}
