// SPDX-License-Identifier: GPL-2.0
//! Ratios to C zram that are kept in the tree: each commit is measured against them.

use super::sets::{self, Set};
use crate::ctx::Ctx;
use anyhow::{Context, Result};
use rzram_cells::{Cell, Run};
use serde::{Deserialize, Serialize};
use std::{fs, path::PathBuf};

/// Worse than this part of what is recorded is a failure.
const TOLERANCE: f64 = 0.95;

/// One ratio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The algorithm.
    pub codec: String,
    /// What blocks are made of.
    pub data: String,
    /// What is done.
    pub load: String,
    /// How many times as fast as C zram.
    pub ratio: f64,
}

#[derive(Serialize, Deserialize, Default)]
struct List {
    #[serde(default)]
    cell: Vec<Kept>,
}

fn file(ctx: &Ctx) -> PathBuf {
    ctx.tools().join("kept.toml")
}

/// What is measured for them.
pub fn set() -> Set {
    sets::kept()
}

/// The ratios that runs of that set give, of the shortest time of each: what disturbs an instruction count only adds to it.
pub fn ratios(runs: &[Run]) -> Vec<Kept> {
    let shortest = |module: &str, cell: &Cell| {
        let runs = runs.iter();
        runs.filter(|run| run.module == module && run.cell == *cell)
            .map(|run| run.ns)
            .min()
    };
    let mut all: Vec<Kept> = Vec::new();
    let mut cells: Vec<&Cell> = Vec::new();
    for Run { cell, .. } in runs {
        if cells.contains(&cell) {
            continue;
        }
        cells.push(cell);
        if let (Some(peer), Some(ours)) = (shortest("zram", cell), shortest("rzram", cell)) {
            all.push(Kept {
                codec: cell.codec.clone(),
                data: cell.data.clone(),
                load: cell.load.clone(),
                ratio: peer as f64 / ours.max(1) as f64,
            });
        }
    }
    all
}

/// Those that are recorded.
pub fn recorded(ctx: &Ctx) -> Result<Vec<Kept>> {
    let file = file(ctx);
    let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let list: List = toml::from_str(&text).with_context(|| format!("{}", file.display()))?;
    Ok(list.cell)
}

/// Records ratios in place of those before.
pub fn record(ctx: &Ctx, ratios: &[Kept]) -> Result<()> {
    let file = file(ctx);
    let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let comment = text.lines().take_while(|line| line.starts_with('#'));
    let mut new = comment.collect::<Vec<_>>().join("\n") + "\n";
    for Kept {
        codec,
        data,
        load,
        ratio,
    } in ratios
    {
        new += &format!("\n[[cell]]\ncodec = \"{codec}\"\ndata = \"{data}\"\nload = \"{load}\"\nratio = {ratio:.3}\n");
    }
    fs::write(&file, new).with_context(|| format!("writing {}", file.display()))
}

/// What is wrong: ratios that have become worse, or are not recorded, or not measured.
pub fn faults(recorded: &[Kept], measured: &[Kept]) -> Vec<String> {
    let same = |a: &Kept, b: &Kept| a.codec == b.codec && a.data == b.data && a.load == b.load;
    let mut faults = Vec::new();
    for old in recorded {
        let name = format!("{} {} {}", old.load, old.codec, old.data);
        match measured.iter().find(|new| same(old, new)) {
            None => faults.push(format!("{name}: recorded, and not measured")),
            Some(new) if new.ratio < old.ratio * TOLERANCE => faults.push(format!(
                "{name}: {:.3} times as fast as C zram, and {:.3} is recorded; tools/bench --only profile shows where instructions go",
                new.ratio, old.ratio
            )),
            Some(_) => {}
        }
    }
    for new in measured {
        if !recorded.iter().any(|old| same(old, new)) {
            faults.push(format!(
                "{} {} {}: not recorded; tools/bench --record does",
                new.load, new.codec, new.data
            ));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(load: &str, ratio: f64) -> Kept {
        Kept {
            codec: "lz4".into(),
            data: "half".into(),
            load: load.into(),
            ratio,
        }
    }

    #[test]
    fn what_is_worse_or_missing_is_a_fault() {
        let recorded = [kept("write", 1.0), kept("read", 2.0)];
        assert!(faults(&recorded, &[kept("write", 0.951), kept("read", 3.0)]).is_empty());
        assert_eq!(
            faults(&recorded, &[kept("write", 0.949), kept("read", 2.0)]).len(),
            1
        );
        assert_eq!(faults(&recorded, &[kept("write", 1.0)]).len(), 1);
        assert_eq!(
            faults(&recorded[..1], &[kept("write", 1.0), kept("read", 1.0)]).len(),
            1
        );
    }

    #[test]
    fn the_shortest_times_count() {
        let run = |module: &str, load: &str, ns| Run {
            module: module.into(),
            cell: Cell {
                load: load.into(),
                codec: "lz4".into(),
                data: "half".into(),
                request: 4096,
                threads: 1,
            },
            blocks: 1,
            ns,
            virtual_time: None,
            figures: Vec::new(),
        };
        let runs = [
            run("zram", "write", 300),
            run("rzram", "write", 150),
            run("zram", "write", 200),
            run("rzram", "write", 100),
            run("zram", "read", 90),
        ];
        assert_eq!(ratios(&runs), [kept("write", 2.0)]);
    }

    #[test]
    fn the_list_is_read_as_it_is_written() {
        let text =
            "# x\n\n[[cell]]\ncodec = \"lz4\"\ndata = \"half\"\nload = \"read\"\nratio = 1.250\n";
        let list: List = toml::from_str(text).unwrap();
        assert_eq!(list.cell, [kept("read", 1.25)]);
        let empty: List = toml::from_str("# x\n").unwrap();
        assert!(empty.cell.is_empty());
    }
}
