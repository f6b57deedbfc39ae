// SPDX-License-Identifier: GPL-2.0

//! Tables in Markdown.

mod locks;
mod profile;
mod scaling;
mod summary;

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
    text += &summary::table(&results.sets);
    for set in &results.sets {
        let _ = writeln!(text, "\n## {}\n", set.name);
        if !set.kernel.is_empty() {
            let _ = writeln!(text, "Kernel: {}.\n", set.kernel);
        }
        text += &match set.name.as_str() {
            "hot" => figures(set, &["p50", "p90", "p99", "p99.9"], "ns"),
            "memory" => figures(set, &["pool", "empty", "all"], "bytes"),
            "profile" => profile::table(set),
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
