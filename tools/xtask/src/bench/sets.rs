// SPDX-License-Identifier: GPL-2.0
//! What is measured, and how: guests and what they run.

pub mod locks;
mod native;
mod programs;

use crate::kernel::Kind;
use anyhow::Result;
use rzram_cells::Meter;
use std::path::{Path, PathBuf};

/// One guest.
#[derive(Clone, Debug)]
pub struct Set {
    /// Its name, for `--only`.
    pub name: String,
    /// What it is good for.
    pub about: String,
    /// How time is measured.
    pub meter: Meter,
    /// CPUs of the guest.
    pub cpus: u32,
    /// Memory of the guest.
    pub memory: u64,
    /// More kernel parameters.
    pub append: String,
    /// What it runs.
    pub script: String,
    /// How many results that gives.
    pub expected: usize,
    /// Whether it gives none where the guest lacks a program that not every archive has.
    pub optional: bool,
    /// The kernel of the guest, where it cannot be any.
    pub kernel: Option<Kind>,
    /// A directory of the host that the guest needs.
    pub share: Option<PathBuf>,
    /// Whether it needs the build with several ways of locking.
    pub locking_lab: bool,
}

/// Both modules, with all that zram's needs.
const MODULES: &str = "set -e; modprobe zram num_devices=1; insmod ./rzram.ko; ";
/// A file of real data: the image of a program and its libraries, as they are in memory.
const CORPUS: &str = "cat /usr/lib/x86_64-linux-gnu/lib*.so* > /tmp/corpus; ";

const CODECS: &[&str] = &["lz4", "zstd"];
const CPUS: &[u32] = &[1, 2, 4, 8, 12];
/// All patterns of iozone, in its order.
const IOZONE: &[&str] = &[
    "write",
    "rewrite",
    "read",
    "reread",
    "reverse",
    "stride",
    "randread",
    "mixed",
    "randwrite",
    "pwrite",
    "pread",
];
const PATTERNS: &[&str] = &["write", "read", "randwrite", "randread", "mixed"];

/// How often all is measured where the first time is not like the others, and an interrupt may come between.
const ROUNDS: usize = 3;

/// What is compared, unless it is something else.
const BOTH: &[&str] = &["zram", "rzram"];

/// A call of `rzram-load bench`.
struct Bench<'a> {
    modules: &'a [&'a str],
    codecs: &'a [&'a str],
    data: &'a [&'a str],
    requests: &'a [&'a str],
    threads: u32,
    loads: &'a [&'a str],
    region: &'a str,
    repeat: usize,
}

impl Bench<'_> {
    /// As a command, and the number of its results.
    fn command(&self) -> (String, usize) {
        let text = format!(
            "./rzram-load bench --modules {} --codecs {} --data {} --requests {} --threads {} --loads {} --region {} --repeat {}; ",
            self.modules.join(","),
            self.codecs.join(","),
            self.data.join(","),
            self.requests.join(","),
            self.threads,
            self.loads.join(","),
            self.region,
            self.repeat,
        );
        (text, self.repeat * self.results())
    }

    /// The same with so much data, each request timed, and one result for all turns.
    fn apart(&self, pool: &str) -> (String, usize) {
        let (text, _) = self.command();
        let options = format!("bench --apart --pool {pool} ");
        (text.replacen("bench ", &options, 1), self.results())
    }

    /// How many results a turn of all modules has.
    fn results(&self) -> usize {
        let cells = [
            self.codecs.len(),
            self.data.len(),
            self.requests.len(),
            self.loads.len(),
        ];
        self.modules.len() * cells.iter().product::<usize>()
    }
}

fn set(name: &str, about: &str, meter: Meter, cpus: u32, calls: &[(String, usize)]) -> Set {
    let script = calls.iter().map(|(text, _)| text.as_str());
    Set {
        name: name.to_owned(),
        about: about.to_owned(),
        meter,
        cpus,
        memory: 1 << 30,
        append: match meter {
            // No ticks but the first CPU's: there would be far too many of them in virtual time.
            Meter::Virtual { .. } if cpus > 1 => format!("nokaslr nohz_full=1-{}", cpus - 1),
            _ => "nokaslr".to_owned(),
        },
        script: MODULES.to_owned() + &script.collect::<String>(),
        expected: calls.iter().map(|(_, count)| count).sum(),
        optional: false,
        kernel: None,
        share: None,
        locking_lab: false,
    }
}

/// Has the guest come to rest, and leaves the kernel's symbols for a profile.
fn settle(seconds: u32) -> (String, usize) {
    let symbols = "if [ -d /share ]; then cat /proc/kallsyms > /share/kallsyms; fi; ";
    (format!("sleep {seconds}; {symbols}"), 0)
}

/// What is measured with each commit: a write and a read for each algorithm that both modules have.
pub fn kept() -> Set {
    let call = |codecs, data, repeat| {
        let call = Bench {
            modules: BOTH,
            codecs,
            data,
            requests: &["16K"],
            threads: 1,
            loads: &["write", "read"],
            region: "1M",
            repeat,
        };
        call.command()
    };
    let mut set = set(
        "kept",
        "what make check looks at",
        Meter::Icount,
        1,
        &[
            ("insmod ./rzram_lz4hc.ko; ".to_owned(), 0),
            // Nearly all of it is the codec's work, beside which little else counts.
            call(&["lz4hc", "zstd", "deflate"], &["half"], 1),
            call(&["lz4"], &["half", "zero", "byte", "random"], ROUNDS),
        ],
    );
    set.memory = 512 << 20;
    set
}

/// All sets; with fewer cells each if `quick`. Where pages of programs are needed, they are those in `corpus`.
pub fn all(quick: bool, corpus: &Path) -> Result<Vec<Set>> {
    let requests: &[&str] = if quick {
        &["16K"]
    } else {
        &["4K", "16K", "1M"]
    };
    let codecs = if quick { &CODECS[..1] } else { CODECS };
    let patterns = if quick { &PATTERNS[..2] } else { PATTERNS };
    let bench = |data, loads, threads, region, repeat| {
        let call = Bench {
            modules: BOTH,
            codecs,
            data,
            requests,
            threads,
            loads,
            region,
            repeat,
        };
        call.command()
    };
    let mut sets = Vec::new();
    sets.push(set(
        "icount",
        "instructions for each block of 4 KiB, one thread",
        Meter::Icount,
        1,
        &[bench(
            &["half", "records", "text", "random"],
            patterns,
            1,
            "2M",
            ROUNDS,
        )],
    ));
    sets.push(set(
        "same-filled",
        "instructions for each block that is one pattern",
        Meter::Icount,
        1,
        &[Bench {
            modules: BOTH,
            codecs: &["lz4"],
            data: &["zero", "byte", "word"],
            requests,
            threads: 1,
            loads: &["write", "rewrite", "read"],
            region: "4M",
            repeat: ROUNDS,
        }
        .command()],
    ));
    sets.push(set(
        "corpus",
        "instructions for each block of a program's image in memory",
        Meter::Icount,
        1,
        &[
            (CORPUS.to_owned(), 0),
            bench(&["file:/tmp/corpus"], patterns, 1, "4M", ROUNDS),
        ],
    ));
    let swapped: &[&str] = if quick { &["half"] } else { &["half", "zero"] };
    sets.push(set(
        "swap",
        "instructions for each page of a program that uses twice its memory",
        Meter::Icount,
        1,
        &[(
            format!(
                "./rzram-load swap --codecs {} --data {} --memory 16M --repeat 2; ",
                codecs.join(","),
                swapped.join(",")
            ),
            2 * 2 * 2 * codecs.len() * swapped.len(),
        )],
    ));
    sets.push(set(
        "hot",
        "latency of reads beside a slow writer on the same CPU",
        Meter::Icount,
        1,
        &[(
            format!(
                "./rzram-load hot --reads {} --repeat 2; ",
                if quick { 100 } else { 2000 }
            ),
            4,
        )],
    ));
    sets.push(set(
        "memory",
        "memory for the same data",
        Meter::Wall,
        2,
        &[
            (CORPUS.to_owned(), 0),
            (
                format!(
                    "./rzram-load memory --codecs {} --data half,zero,file:/tmp/corpus --repeat 1; ",
                    codecs.join(",")
                ),
                2 * 3 * codecs.len(),
            ),
        ],
    ));
    for &cpus in if quick { &CPUS[..2] } else { CPUS } {
        sets.push(set(
            &format!("virtual-{cpus}"),
            &format!("virtual time of {cpus} threads on as many CPUs"),
            Meter::Virtual { profile: false },
            cpus,
            &[settle(2), bench(&["half"], patterns, cpus, "1M", ROUNDS)],
        ));
    }
    sets.push(set(
        "iozone-12",
        "the patterns of iozone -t 12 -r 16K in virtual time on 12 CPUs",
        Meter::Virtual { profile: false },
        12,
        &[
            settle(2),
            Bench {
                modules: BOTH,
                codecs: &["lz4"],
                data: &["half"],
                requests: &["16K"],
                threads: 12,
                loads: IOZONE,
                region: "1M",
                repeat: if quick { 1 } else { 3 },
            }
            .command(),
        ],
    ));
    sets.extend(programs::all(quick));
    sets.extend(locks::all(quick));
    sets.push(set(
        "profile",
        "which functions instructions are spent in",
        Meter::Virtual { profile: true },
        1,
        &[
            settle(5),
            Bench {
                modules: BOTH,
                codecs: &["lz4"],
                data: &["half", "byte", "random"],
                requests: &["1M"],
                threads: 1,
                loads: &["write", "read"],
                region: "8M",
                repeat: ROUNDS,
            }
            .command(),
        ],
    ));
    sets.push(set(
        "wall",
        "the guest's own clock, two threads: means something with KVM",
        Meter::Wall,
        2,
        &[bench(&["half"], patterns, 2, "4M", ROUNDS)],
    ));
    sets.push(native::set(quick, corpus)?);
    Ok(sets)
}
