// SPDX-License-Identifier: GPL-2.0

//! Results as they are kept, and what follows from them.

use std::collections::BTreeMap;

use rzram_cells::{Cell, Meter, Run};
use serde::Deserialize;

/// One guest.
#[derive(Debug, Deserialize)]
pub struct Set {
    /// Its name.
    pub name: String,
    /// How time was measured.
    pub meter: Meter,
    /// CPUs of the guest.
    pub cpus: u32,
    /// Its kernel, by name.
    #[serde(default)]
    pub kernel: String,
    /// What came out.
    pub runs: Vec<Run>,
    /// For each run, instructions in each function, where there is a profile.
    #[serde(default)]
    pub profiles: Vec<BTreeMap<String, u64>>,
}

/// All that was measured in one call.
#[derive(Debug, Deserialize)]
pub struct Results {
    /// What the figures are from.
    pub machine: BTreeMap<String, String>,
    /// Guests.
    pub sets: Vec<Set>,
}

impl Set {
    /// Whether it is one of those that differ in the number of CPUs alone.
    pub fn is_scaling(&self) -> bool {
        self.name.starts_with("virtual-") && matches!(self.meter, Meter::Virtual { .. })
    }

    /// The time that a thread takes for a block of 4 KiB, in the meter's unit.
    pub fn per_block(&self, run: &Run) -> f64 {
        let time = match self.meter {
            Meter::Icount => run.ns as f64 / 2.0,
            Meter::Virtual { .. } => run.virtual_time.unwrap_or(0) as f64,
            Meter::Wall => run.ns as f64,
        };
        time * f64::from(run.cell.threads) / run.blocks.max(1) as f64
    }

    /// For each cell, in the order of their first run: the median for each module.
    pub fn cells(&self) -> Vec<(Cell, BTreeMap<String, f64>)> {
        let mut cells: Vec<(Cell, BTreeMap<String, Vec<f64>>)> = Vec::new();
        for run in &self.runs {
            let at = match cells.iter().position(|(cell, _)| *cell == run.cell) {
                Some(at) => at,
                None => {
                    cells.push((run.cell.clone(), BTreeMap::new()));
                    cells.len() - 1
                }
            };
            let of_module = cells[at].1.entry(run.module.clone()).or_default();
            of_module.push(self.per_block(run));
        }
        cells
            .into_iter()
            .map(|(cell, modules)| {
                let medians = modules
                    .into_iter()
                    .map(|(name, values)| (name, median(values)));
                (cell, medians.collect())
            })
            .collect()
    }

    /// The medians of a figure, for each cell and module.
    pub fn figures(&self, name: &str) -> Vec<(Cell, BTreeMap<String, f64>)> {
        let mut all: Vec<(Cell, BTreeMap<String, f64>)> = Vec::new();
        for (cell, modules) in self.cells() {
            let values = modules.keys().filter_map(|module| {
                let runs = self
                    .runs
                    .iter()
                    .filter(|run| run.cell == cell && run.module == *module);
                let values: Vec<f64> = runs
                    .filter_map(|run| Some(run.figure(name)? as f64))
                    .collect();
                (!values.is_empty()).then(|| (module.clone(), median(values)))
            });
            let values: BTreeMap<String, f64> = values.collect();
            if !values.is_empty() {
                all.push((cell, values));
            }
        }
        all
    }
}

/// The middle one, or the mean of the two in the middle; 0 of nothing.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![]), 0.0);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn cells_keep_their_order_and_modules_are_apart() {
        let run = |load: &str, module: &str, ns| Run {
            cell: Cell {
                load: load.into(),
                codec: "lz4".into(),
                data: "half".into(),
                request: 4096,
                threads: 2,
            },
            module: module.into(),
            blocks: 10,
            ns,
            virtual_time: None,
            figures: vec![("p99".into(), ns)],
        };
        let set = Set {
            name: "x".into(),
            meter: Meter::Icount,
            cpus: 1,
            kernel: String::new(),
            runs: vec![
                run("write", "zram", 200),
                run("read", "zram", 100),
                run("write", "rzram", 100),
                run("write", "rzram", 300),
            ],
            profiles: vec![],
        };
        let cells = set.cells();
        assert_eq!(cells.len(), 2);
        assert_eq!(cells[0].0.load, "write");
        // 200 ns are 100 instructions, of two threads, for 10 blocks.
        assert_eq!(cells[0].1["zram"], 20.0);
        assert_eq!(cells[0].1["rzram"], 20.0);
        assert_eq!(cells[1].1.get("rzram"), None);
        assert_eq!(set.figures("p99")[0].1["rzram"], 200.0);
    }
}
