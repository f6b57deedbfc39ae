// SPDX-License-Identifier: GPL-2.0

//! Measurements: what they are of, and what came of them.
//!
//! The program that runs in a guest prints a line for each; the host adds what its own meter says.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What is measured: the same for all modules.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cell {
    /// What is done, such as `write` or `mixed`.
    pub load: String,
    /// The algorithm, with its level if that is not the default, as in `zstd:15`.
    pub codec: String,
    /// What the blocks are made of, such as `half` or `zero`.
    pub data: String,
    /// Bytes of a request.
    pub request: u32,
    /// How many threads do it at once, each on a CPU of its own as far as there are enough.
    pub threads: u32,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell {
            load,
            codec,
            data,
            request,
            threads,
        } = self;
        write!(f, "{load} {codec} {data} {}", size(u64::from(*request)))?;
        match threads {
            1 => Ok(()),
            threads => write!(f, " {threads} threads"),
        }
    }
}

/// How time is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Meter {
    /// The guest's clock counts instructions, two nanoseconds each, on one CPU.
    Icount,
    /// Each CPU counts its own instructions, and none gets ahead of the others.
    Virtual {
        /// Whether they are counted by function, too.
        profile: bool,
    },
    /// The guest's own clock.
    Wall,
}

impl Meter {
    /// What its numbers are.
    pub fn unit(self) -> &'static str {
        match self {
            Meter::Icount | Meter::Virtual { .. } => "instructions",
            Meter::Wall => "ns",
        }
    }
}

/// One run of a cell on one module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What was measured.
    pub cell: Cell,
    /// On what: `zram`, or `rzram`, or `rzram:LOCKING` in a build for comparing locks.
    pub module: String,
    /// Blocks of 4 KiB that were read or written.
    pub blocks: u64,
    /// How long it took by the guest's own clock, in nanoseconds.
    pub ns: u64,
    /// How long it took in virtual time, in instructions, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_time: Option<u64>,
    /// What else there is to say, by name: latencies in nanoseconds, memory in bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<(String, u64)>,
}

impl Run {
    /// The line that a guest prints for it.
    pub fn to_line(&self) -> String {
        let json = serde_json::to_string(self).unwrap_or_default(); // strings and numbers only
        format!("{PREFIX}{json}")
    }

    /// The run that a line tells of; `None` for any other line.
    pub fn from_line(line: &str) -> Option<Self> {
        serde_json::from_str(line.strip_prefix(PREFIX)?).ok()
    }

    /// A figure by its name.
    pub fn figure(&self, name: &str) -> Option<u64> {
        let found = self.figures.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| *value)
    }
}

const PREFIX: &str = "run ";

/// A number of bytes as in `4K`.
pub fn size(bytes: u64) -> String {
    match bytes {
        0 => "0".to_owned(),
        b if b % (1 << 30) == 0 => format!("{}G", b >> 30),
        b if b % (1 << 20) == 0 => format!("{}M", b >> 20),
        b if b % (1 << 10) == 0 => format!("{}K", b >> 10),
        b => format!("{b}"),
    }
}

/// The number of bytes that a text such as `4K` means.
pub fn bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (&text[..at], 10),
        (at, 'm' | 'M') => (&text[..at], 20),
        (at, 'g' | 'G') => (&text[..at], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// What the plugin for virtual time wrote: see the package `rzram-vsmp`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Times of marks, in their order.
    pub times: Vec<u64>,
    /// For each pair of marks, where instructions were executed between them: address and number.
    pub counts: Vec<Vec<(u64, u64)>>,
    /// How often a CPU was let go ahead of others.
    pub let_go: u64,
}

impl Marks {
    /// From the plugin's output; `None` if that is none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut marks = Marks::default();
        for line in text.lines() {
            let mut words = line.split(' ');
            match words.next()? {
                "mark" => {
                    let _cpu = words.next()?;
                    marks.times.push(words.next()?.parse().ok()?);
                    let _instructions = words.next()?;
                    marks.let_go = words.next()?.parse().ok()?;
                    if marks.times.len() % 2 == 0 {
                        marks.counts.push(Vec::new());
                    }
                }
                "at" => {
                    let address = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16);
                    let count = words.next()?.parse().ok()?;
                    marks.counts.last_mut()?.push((address.ok()?, count));
                }
                _ => return None,
            }
        }
        Some(marks)
    }

    /// The times between the marks of each pair.
    pub fn spans(&self) -> impl Iterator<Item = u64> + '_ {
        let pairs = self.times.chunks_exact(2);
        pairs.map(|pair| pair[1].saturating_sub(pair[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        Run {
            cell: Cell {
                load: "mixed".into(),
                codec: "lz4".into(),
                data: "half".into(),
                request: 16 << 10,
                threads: 12,
            },
            module: "rzram".into(),
            blocks: 7,
            ns: 8,
            virtual_time: None,
            figures: vec![("p99".into(), 5)],
        }
    }

    #[test]
    fn a_run_survives_its_line() {
        let run = run();
        assert_eq!(Run::from_line(&run.to_line()), Some(run.clone()));
        assert_eq!(run.cell.to_string(), "mixed lz4 half 16K 12 threads");
        assert_eq!(run.figure("p99"), Some(5));
        assert_eq!(run.figure("p98"), None);
        assert_eq!(Run::from_line("run nothing"), None);
        assert_eq!(Run::from_line("walk"), None);
    }

    #[test]
    fn sizes_are_read_and_shown() {
        for (text, number) in [
            ("0", 0),
            ("512", 512),
            ("4K", 4096),
            ("1M", 1 << 20),
            ("2G", 2 << 30),
        ] {
            assert_eq!(bytes(text), Some(number));
            assert_eq!(size(number), text);
        }
        for wrong in ["", "K", "4T", "-1", "99999999999G"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn marks_are_paired() {
        let text = "mark 0 100 100 0\nmark 3 150 600 0\nat 0xffff 2\nat 0x10 1\nmark 0 200 700 0\nmark 0 260 900 2\n";
        let marks = Marks::parse(text).unwrap();
        assert_eq!(marks.spans().collect::<Vec<_>>(), [50, 60]);
        assert_eq!(marks.counts, [vec![(0xffff, 2), (0x10, 1)], vec![]]);
        assert_eq!(marks.let_go, 2);
        assert_eq!(Marks::parse("at 0x1 1\n"), None);
        assert_eq!(Marks::parse("hello\n"), None);
        assert_eq!(Marks::parse("mark 0 5 5\n"), None);
    }
}
