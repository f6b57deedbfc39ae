// SPDX-License-Identifier: GPL-2.0
//! What was measured, and what became of the targets.

use serde::{Deserialize, Serialize};

/// Pages that no codec makes much of, and those of text: for both there are targets of their own.
pub const INCOMPRESSIBLE: &str = "random";
/// See above.
pub const TEXT: &str = "source";

/// One codec on all pages of a kind.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Nanoseconds to compress a page.
    pub compress: f64,
    /// Nanoseconds to decompress a page that is stored compressed; none if there is no such page.
    pub decompress: Option<f64>,
    /// Bytes stored for a page.
    pub bytes: f64,
    /// Bytes of memory for that, by zsmalloc's classes.
    pub memory: f64,
    /// Share of the pages that are stored as they are.
    pub huge: f64,
}

/// A codec beside the kernel's lz4, page for page in one process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pair {
    /// Of pages.
    pub kind: String,
    /// Its name.
    pub codec: String,
    /// How many pages.
    pub pages: usize,
    /// The kernel's lz4.
    pub lz4: Figures,
    /// The codec.
    pub other: Figures,
}

impl Pair {
    /// Time to compress, by lz4's.
    pub fn time(&self) -> f64 {
        self.other.compress / self.lz4.compress
    }

    /// Memory, by lz4's.
    pub fn memory(&self) -> f64 {
        self.other.memory / self.lz4.memory
    }

    /// Time to decompress, by lz4's.
    pub fn back(&self) -> Option<f64> {
        Some(self.other.decompress? / self.lz4.decompress?)
    }
}

/// Of several runs of the same pair the one whose compression took the median of times.
pub fn median(mut runs: Vec<Pair>) -> Option<Pair> {
    runs.sort_by(|a, b| a.time().total_cmp(&b.time()));
    let mut decompress: Vec<f64> = runs.iter().filter_map(Pair::back).collect();
    decompress.sort_by(f64::total_cmp);
    let middle = runs.len() / 2;
    let back = decompress.get(decompress.len() / 2).copied();
    let mut pair = runs.into_iter().nth(middle)?;
    // The median of that, too.
    if let (Some(back), Some(lz4)) = (back, pair.lz4.decompress) {
        pair.other.decompress = Some(back * lz4);
    }
    Some(pair)
}

/// A line of the table of targets.
pub struct Target {
    /// What it is about.
    pub what: &'static str,
    /// What was to be reached.
    pub at_most: f64,
    /// What was reached, and by which kind where it is one.
    pub reached: f64,
    /// See above.
    pub kind: String,
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The targets, with what the codec of these pairs reached. Means are those of the kinds of memory; no kind means text as well.
pub fn targets(pairs: &[Pair]) -> Vec<Target> {
    let mut targets = Vec::new();
    let mut add =
        |what: [&'static str; 2], limits: [f64; 2], figure: &dyn Fn(&Pair) -> Option<f64>| {
            let of: Vec<(&Pair, f64)> = pairs
                .iter()
                .filter(|pair| pair.kind != INCOMPRESSIBLE)
                .filter_map(|pair| Some((pair, figure(pair)?)))
                .collect();
            let memory: Vec<f64> = of
                .iter()
                .filter(|(pair, _)| pair.kind != TEXT)
                .map(|(_, value)| *value)
                .collect();
            if let Some((worst, value)) = of.iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
                targets.push(Target {
                    what: what[0],
                    at_most: limits[0],
                    reached: mean(&memory),
                    kind: String::new(),
                });
                targets.push(Target {
                    what: what[1],
                    at_most: limits[1],
                    reached: *value,
                    kind: worst.kind.clone(),
                });
            }
        };
    add(
        ["compression time, mean", "compression time, any kind"],
        [0.70, 0.95],
        &|pair| Some(pair.time()),
    );
    add(
        ["stored size, mean", "stored size, any kind"],
        [0.98, 1.02],
        &|pair| Some(pair.memory()),
    );
    add(
        ["decompression time, mean", "decompression time, any kind"],
        [0.95, 1.05],
        &Pair::back,
    );
    if let Some(pair) = pairs.iter().find(|pair| pair.kind == INCOMPRESSIBLE) {
        targets.push(Target {
            what: "incompressible pages, time",
            at_most: 0.60,
            reached: pair.time(),
            kind: String::new(),
        });
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(kind: &str, compress: f64, decompress: f64) -> Pair {
        let lz4 = Figures {
            compress: 100.0,
            decompress: Some(100.0),
            memory: 100.0,
            ..Figures::default()
        };
        Pair {
            kind: kind.to_owned(),
            codec: "wlz".to_owned(),
            pages: 1,
            lz4,
            other: Figures {
                compress,
                decompress: Some(decompress),
                ..lz4
            },
        }
    }

    #[test]
    fn the_median_of_each_time_is_taken() {
        let runs = vec![
            pair("a", 50.0, 90.0),
            pair("a", 70.0, 80.0),
            pair("a", 60.0, 70.0),
        ];
        let pair = median(runs).expect("there are some");
        assert!((pair.time() - 0.6).abs() < 1e-9);
        assert!((pair.back().expect("given") - 0.8).abs() < 1e-9);
        assert!(median(Vec::new()).is_none());
    }

    #[test]
    fn text_is_no_memory_and_what_is_random_is_apart() {
        let pairs = [
            pair("a", 40.0, 80.0),
            pair("b", 60.0, 90.0),
            pair(TEXT, 90.0, 100.0),
            pair(INCOMPRESSIBLE, 55.0, 500.0),
        ];
        let reached: Vec<(f64, String)> = targets(&pairs)
            .into_iter()
            .map(|target| ((target.reached * 100.0).round(), target.kind))
            .collect();
        let expected = [
            (50.0, ""),
            (90.0, TEXT),
            (100.0, ""),
            (100.0, TEXT),
            (85.0, ""),
            (100.0, TEXT),
            (55.0, ""),
        ];
        assert_eq!(
            reached,
            expected.map(|(value, kind)| (value, kind.to_owned()))
        );
    }
}
