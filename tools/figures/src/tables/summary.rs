// SPDX-License-Identifier: GPL-2.0

//! All sets at a glance: how many times as fast as C zram the cells of each are, and which are slower by more than the noise.

use std::fmt::Write;

use rzram_cells::Cell;

use super::PEER;
use crate::results::{median, Set};

/// A cell, how many times as fast as the peer it is, and how far the turns of either are apart, as a part of their median.
struct Compared {
    cell: Cell,
    ratio: f64,
    noise: f64,
}

fn compared(set: &Set) -> Vec<Compared> {
    let cells = set.cells().into_iter();
    cells
        .filter_map(|(cell, modules)| {
            let ratio = modules.get(PEER)? / modules.get("rzram")?;
            let spread = |module: &str| {
                let runs = set.runs.iter();
                let times: Vec<f64> = runs
                    .filter(|run| run.cell == cell && run.module == module)
                    .map(|run| set.per_block(run))
                    .collect();
                let highest = times.iter().copied().fold(0.0, f64::max);
                let lowest = times.iter().copied().fold(f64::INFINITY, f64::min);
                (highest - lowest) / median(times).max(f64::MIN_POSITIVE)
            };
            let noise = spread(PEER).max(spread("rzram"));
            ratio.is_finite().then_some(Compared { cell, ratio, noise })
        })
        .collect()
}

/// The table, and the cells that are slower.
pub fn table(sets: &[Set]) -> String {
    let mut text = String::new();
    let mut slower = String::new();
    for set in sets {
        // A result there has no time of its own to compare.
        if matches!(set.name.as_str(), "hot" | "memory" | "native") {
            continue;
        }
        let cells = compared(set);
        let by_ratio = |a: &&Compared, b: &&Compared| a.ratio.total_cmp(&b.ratio);
        let (Some(lowest), Some(highest)) =
            (cells.iter().min_by(by_ratio), cells.iter().max_by(by_ratio))
        else {
            continue;
        };
        let below: Vec<&Compared> = cells
            .iter()
            .filter(|cell| cell.ratio < 1.0 - cell.noise)
            .collect();
        let _ = writeln!(
            text,
            "| {} | {} | {:.3} ({}) | {:.3} | {:.3} | {} |",
            set.name,
            cells.len(),
            lowest.ratio,
            lowest.cell,
            median(cells.iter().map(|cell| cell.ratio).collect()),
            highest.ratio,
            below.len()
        );
        for cell in below {
            let _ = writeln!(
                slower,
                "| {} | {} | {:.3} | {:.3} |",
                set.name, cell.cell, cell.ratio, cell.noise
            );
        }
    }
    if text.is_empty() {
        return text;
    }
    text = "\n## At a glance\n\nHow many times as fast as C zram; noise is how far turns of the same are apart, as a part of their \
        median.\n\n| set | cells | lowest | median | highest | slower by more than the noise |\n|---|---:|---|---:|---:|---:|\n"
        .to_owned()
        + &text;
    if !slower.is_empty() {
        text += "\n| slower in | cell | ratio | noise |\n|---|---|---:|---:|\n";
        text += &slower;
    }
    text
}

#[cfg(test)]
mod tests {
    use rzram_cells::{Meter, Run};

    use super::*;

    #[test]
    fn what_is_slower_by_more_than_the_noise_is_named() {
        let run = |load: &str, module: &str, ns| Run {
            cell: Cell {
                load: load.into(),
                codec: "lz4".into(),
                data: "half".into(),
                request: 4096,
                threads: 1,
            },
            module: module.into(),
            blocks: 1,
            ns,
            virtual_time: None,
            figures: Vec::new(),
        };
        let set = Set {
            name: "x".into(),
            meter: Meter::Icount,
            cpus: 1,
            kernel: String::new(),
            runs: vec![
                run("read", "zram", 1000),
                run("read", "zram", 1100),
                run("read", "rzram", 1100),
                run("write", "zram", 2000),
                run("write", "rzram", 2100),
                run("write", "rzram", 2110),
                run("mixed", "zram", 2000),
            ],
            profiles: Vec::new(),
        };
        let text = table(&[set]);
        assert!(
            text.contains("| x | 2 | 0.950 (write lz4 half 4K) | 0.952 | 0.955 | 1 |"),
            "{text}"
        );
        assert!(
            text.contains("| x | write lz4 half 4K | 0.950 | 0.005 |"),
            "{text}"
        );
        assert_eq!(table(&[]), "");
    }
}
