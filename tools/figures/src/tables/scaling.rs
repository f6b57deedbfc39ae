// SPDX-License-Identifier: GPL-2.0

//! What a thread loses to others, each on a CPU of its own, by the sets `virtual-N`.

use std::collections::BTreeMap;
use std::fmt::Write;

use rzram_cells::{size, Cell};

use crate::results::Set;

/// How much longer than alone a thread takes for the same work, by number of threads, for each cell and module.
type Losses = Vec<(Cell, BTreeMap<String, BTreeMap<u32, f64>>)>;

fn losses(sets: &[Set]) -> Losses {
    let mut times: Losses = Vec::new();
    for set in sets.iter().filter(|set| set.is_scaling()) {
        for (mut cell, modules) in set.cells() {
            // One thread does both there, and of several each does one.
            if cell.load == "mixed" {
                continue;
            }
            let threads = std::mem::replace(&mut cell.threads, 1);
            let at = match times.iter().position(|(known, _)| *known == cell) {
                Some(at) => at,
                None => {
                    times.push((cell, BTreeMap::new()));
                    times.len() - 1
                }
            };
            for (module, time) in modules {
                let of_module = times[at].1.entry(module).or_default();
                of_module.insert(threads, time);
            }
        }
    }
    for times in times.iter_mut().flat_map(|(_, all)| all.values_mut()) {
        // Nothing can be said without that.
        match times.remove(&1) {
            Some(alone) => times
                .values_mut()
                .for_each(|time| *time = *time / alone - 1.0),
            None => times.clear(),
        }
    }
    times
}

/// The table: in percent, C zram first.
pub fn table(sets: &[Set]) -> String {
    let losses = losses(sets);
    let mut counts: Vec<u32> = losses
        .iter()
        .flat_map(|(_, modules)| modules.values().flat_map(|times| times.keys().copied()))
        .collect();
    counts.sort_unstable();
    counts.dedup();
    if counts.is_empty() {
        return String::new();
    }
    let mut text = "\n## Threads against one\n\nHow much longer a thread takes for the same work than alone, in percent: \
        C zram, rzram.\n\n| load | codec | data | request |"
        .to_owned();
    for count in &counts {
        let _ = write!(text, " {count} threads | |");
    }
    text += "\n|---|---|---|---|";
    text += &"---:|---:|".repeat(counts.len());
    text += "\n";
    for (cell, modules) in losses {
        let _ = write!(
            text,
            "| {} | {} | {} | {} |",
            cell.load,
            cell.codec,
            cell.data,
            size(u64::from(cell.request))
        );
        for count in &counts {
            for module in ["zram", "rzram"] {
                let loss = modules.get(module).and_then(|times| times.get(count));
                let _ = match loss {
                    Some(loss) => write!(text, " {:.1} |", loss * 100.0),
                    None => write!(text, " |"),
                };
            }
        }
        text += "\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use rzram_cells::{Meter, Run};

    use super::*;

    fn set(threads: u32, times: [u64; 2]) -> Set {
        let run = |(module, time): (&str, u64)| Run {
            cell: Cell {
                load: "read".into(),
                codec: "lz4".into(),
                data: "half".into(),
                request: 4096,
                threads,
            },
            module: module.into(),
            blocks: u64::from(threads),
            ns: 0,
            virtual_time: Some(time),
            figures: Vec::new(),
        };
        Set {
            name: format!("virtual-{threads}"),
            meter: Meter::Virtual { profile: false },
            cpus: threads,
            kernel: String::new(),
            runs: ["zram", "rzram"].into_iter().zip(times).map(run).collect(),
            profiles: Vec::new(),
        }
    }

    #[test]
    fn a_thread_is_compared_with_itself_alone() {
        let text = table(&[set(1, [100, 200]), set(12, [110, 203])]);
        assert!(
            text.contains("| read | lz4 | half | 4K | 10.0 | 1.5 |"),
            "{text}"
        );
        assert_eq!(table(&[set(12, [110, 203])]), "");
        assert_eq!(table(&[]), "");
    }
}
