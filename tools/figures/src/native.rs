// SPDX-License-Identifier: GPL-2.0

//! What was measured at native speed, each request timed by itself: with the spread of these times, and means over kinds of data.

use std::fmt::Write;

use rzram_cells::{Cell, Run};

use crate::results::Set;
use crate::tables::PEER;

/// A cell on both modules.
struct Pair<'a> {
    cell: &'a Cell,
    peer: &'a Run,
    ours: &'a Run,
}

impl Pair<'_> {
    /// How many times as fast as the peer.
    fn ratio(&self) -> f64 {
        self.peer.ns as f64 / self.ours.ns.max(1) as f64
    }

    /// The same of the shortest times.
    fn of_fastest(&self) -> Option<f64> {
        let (peer, ours) = (self.peer.figure("fastest")?, self.ours.figure("fastest")?);
        Some(peer as f64 / ours.max(1) as f64)
    }

    /// Of which kind the data are.
    fn kind(&self) -> &str {
        let name = self.cell.data.rsplit('/').next().unwrap_or("");
        name.strip_suffix(".pages").unwrap_or(name)
    }
}

/// Both modules' runs of each cell, in their order.
fn pairs(set: &Set) -> Vec<Pair<'_>> {
    let ours = set.runs.iter().filter(|run| run.module == "rzram");
    ours.filter_map(|ours| {
        let same = |run: &&Run| run.module == PEER && run.cell == ours.cell;
        let peer = set.runs.iter().find(same)?;
        Some(Pair {
            cell: &ours.cell,
            peer,
            ours,
        })
    })
    .collect()
}

/// Kinds of collected pages that are no memory of programs: they count for nothing in means.
const NO_MEMORY: [&str; 2] = ["random", "source"];

/// How many times as fast as the peer, over all kinds of programs' memory.
struct Mean {
    load: String,
    codec: String,
    threads: u32,
    mean: f64,
    lowest: (f64, String),
    highest: (f64, String),
}

/// Means over kinds of programs' memory.
fn means(pairs: &[Pair<'_>]) -> Vec<Mean> {
    let mut means: Vec<(Mean, usize)> = Vec::new();
    let memory =
        |pair: &&Pair<'_>| pair.cell.data.contains('/') && !NO_MEMORY.contains(&pair.kind());
    for pair in pairs.iter().filter(memory) {
        let (ratio, cell) = (pair.ratio(), pair.cell);
        let known = means.iter_mut().find(|(mean, _)| {
            (&mean.load, &mean.codec, mean.threads) == (&cell.load, &cell.codec, cell.threads)
        });
        let named = (ratio, pair.kind().to_owned());
        match known {
            Some((mean, count)) => {
                *count += 1;
                mean.mean += ratio.ln();
                if ratio < mean.lowest.0 {
                    mean.lowest = named;
                } else if ratio > mean.highest.0 {
                    mean.highest = named;
                }
            }
            None => {
                let mean = Mean {
                    load: cell.load.clone(),
                    codec: cell.codec.clone(),
                    threads: cell.threads,
                    mean: ratio.ln(),
                    lowest: named.clone(),
                    highest: named,
                };
                means.push((mean, 1));
            }
        }
    }
    let done = means.into_iter().map(|(mean, count)| Mean {
        mean: (mean.mean / count as f64).exp(),
        ..mean
    });
    done.collect()
}

/// The time for 4 KiB, and how far the middle half of the times lies about it.
fn with_spread(set: &Set, run: &Run) -> String {
    let value = set.per_block(run);
    match (run.figure("p25"), run.figure("p75")) {
        (Some(low), Some(high)) => {
            let half = high.saturating_sub(low) as f64 / 2.0 / run.ns.max(1) as f64;
            format!("{value:.0} ± {:.0} %", half * 100.0)
        }
        _ => format!("{value:.0}"),
    }
}

/// GB a second, which is bytes a nanosecond, of all threads.
fn throughput(set: &Set, run: &Run) -> f64 {
    4096.0 / set.per_block(run) * f64::from(run.cell.threads)
}

/// The table, and the means.
pub fn table(set: &Set) -> String {
    let pairs = pairs(set);
    let mut text = format!(
        "Time of a thread for 4 KiB in ns: what the medians of each request's times in {} turns add up to, ± half the distance \
         of their quartiles. A ratio above 1 is faster than {PEER}; the second one is of the shortest times. The codec `wlz/lz4` \
         is rzram's wlz beside {PEER}'s lz4. {} CPUs.\n\n",
        pairs.first().and_then(|pair| pair.ours.figure("turns")).unwrap_or(0),
        set.cpus,
    );
    let all = means(&pairs);
    if !all.is_empty() {
        text += "Geometric means over the kinds of programs' memory:\n\n";
        text +=
            "| load | codec | threads | ratio | lowest | highest |\n|---|---|---|---:|---:|---:|\n";
        for mean in &all {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {:.3} | {:.3} ({}) | {:.3} ({}) |",
                mean.load,
                mean.codec,
                mean.threads,
                mean.mean,
                mean.lowest.0,
                mean.lowest.1,
                mean.highest.0,
                mean.highest.1
            );
        }
        text += "\n";
    }
    text += "| load | codec | data | threads | zram | rzram | ratio | of shortest | zram GB/s | rzram GB/s |\n";
    text += "|---|---|---|---|---:|---:|---:|---:|---:|---:|\n";
    for pair in &pairs {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {:.3} | {:.3} | {:.2} | {:.2} |",
            pair.cell.load,
            pair.cell.codec,
            pair.kind(),
            pair.cell.threads,
            with_spread(set, pair.peer),
            with_spread(set, pair.ours),
            pair.ratio(),
            pair.of_fastest().unwrap_or(0.0),
            throughput(set, pair.peer),
            throughput(set, pair.ours),
        );
    }
    text
}

/// What is worth a bar: means, and each kind of data where the codecs differ.
pub fn bars(set: &Set) -> Vec<(String, f64)> {
    let pairs = pairs(set);
    let threads = |threads| match threads {
        1 => String::new(),
        n => format!(", {n} threads"),
    };
    let means = means(&pairs).into_iter().map(|mean| {
        let name = format!("{} {}{}", mean.load, mean.codec, threads(mean.threads));
        (name, mean.mean)
    });
    let each = pairs
        .iter()
        .filter(|pair| pair.cell.codec.contains('/') && pair.cell.threads == 1)
        .map(|pair| {
            let name = format!("{} {} {}", pair.cell.load, pair.cell.codec, pair.kind());
            (name, pair.ratio())
        });
    means.chain(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rzram_cells::Meter;

    fn run(module: &str, data: &str, ns: u64) -> Run {
        Run {
            cell: Cell {
                load: "write".into(),
                codec: "wlz/lz4".into(),
                data: data.into(),
                request: 1 << 20,
                threads: 2,
            },
            module: module.into(),
            blocks: 512,
            ns,
            virtual_time: None,
            figures: vec![
                ("fastest".into(), ns / 2),
                ("p25".into(), ns - ns / 10),
                ("p75".into(), ns + ns / 10),
                ("turns".into(), 5),
            ],
        }
    }

    fn set() -> Set {
        Set {
            name: "native".into(),
            meter: Meter::Wall,
            cpus: 2,
            kernel: String::new(),
            runs: vec![
                run("zram", "file:/share/gcc.pages", 512_000),
                run("rzram", "file:/share/gcc.pages", 256_000),
                run("zram", "file:/share/java.pages", 512_000),
                run("rzram", "file:/share/java.pages", 1_024_000),
                run("zram", "file:/share/source.pages", 9000),
                run("rzram", "file:/share/source.pages", 100),
                run("zram", "zero", 700),
                run("rzram", "zero", 100),
                run("rzram", "alone", 100),
            ],
            profiles: vec![],
        }
    }

    #[test]
    fn means_are_of_memory_only() {
        let set = set();
        let pairs = pairs(&set);
        assert_eq!(pairs.len(), 4);
        let means = means(&pairs);
        assert_eq!(means.len(), 1);
        // Twice as fast, and half as fast.
        assert!((means[0].mean - 1.0).abs() < 1e-9);
        assert_eq!(means[0].lowest, (0.5, "java".into()));
        assert_eq!(means[0].highest, (2.0, "gcc".into()));
    }

    #[test]
    fn the_table_has_spreads_and_throughputs() {
        let text = table(&set());
        assert!(text.contains("| write | wlz/lz4 | gcc | 2 | 2000 ± 10 % | 1000 ± 10 % | 2.000 | 2.000 | 4.10 | 8.19 |"), "{text}");
        assert!(text.contains("in 5 turns"), "{text}");
    }
}
