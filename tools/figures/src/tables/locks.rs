// SPDX-License-Identifier: GPL-2.0

//! Ways to lock the table, beside what was published of zram when it had them.
//!
//! What can be compared are ratios: how many times as much one way of locking does as another, in the same machine.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::results::Set;

/// "zram: locking redesign", version 2, of 2014, patch 4: iozone with 12 threads on 12 CPUs, in KB/s, before and after.
const REDESIGN: [(&str, f64, f64); 11] = [
    ("write", 516189.16, 839907.96),
    ("rewrite", 509527.98, 1050156.37),
    ("read", 4408624.17, 4472546.76),
    ("reread", 4462147.53, 4363257.75),
    ("reverse", 4565865.97, 4485818.08),
    ("stride", 4515981.80, 4418806.01),
    ("randread", 4410525.23, 4387093.18),
    ("mixed", 243234.25, 2818677.27),
    ("randwrite", 555887.07, 1053057.79),
    ("pwrite", 501745.93, 810363.09),
    ("pread", 4539894.60, 4457680.58),
];

/// "zram: remove global tb_lock by using lock-free CAS", of May 2014: iozone, in KB/s, with the global rwlock, and with CAS,
/// a spinlock, a rwlock and a bit lock for each slot.
const SLOT_LOCKS: [(&str, [f64; 5]); 11] = [
    ("write", [1381094., 1425435., 1422860., 1423075., 1421521.]),
    (
        "rewrite",
        [1529479., 1641199., 1668762., 1672855., 1654910.],
    ),
    (
        "read",
        [8468009., 11324979., 11305569., 11117273., 10997202.],
    ),
    (
        "reread",
        [8467476., 11260914., 11248059., 11145336., 10906486.],
    ),
    (
        "reverse",
        [6821393., 8106334., 8282174., 8279195., 8109186.],
    ),
    ("stride", [7191093., 8994306., 9153982., 8961224., 9004434.]),
    (
        "randread",
        [7156353., 8957932., 9167098., 8980465., 8940476.],
    ),
    ("mixed", [4172747., 5680814., 5927825., 5489578., 5972253.]),
    (
        "randwrite",
        [1483044., 1605588., 1594329., 1600453., 1596010.],
    ),
    ("pwrite", [1276644., 1303108., 1311612., 1314228., 1300960.]),
    ("pread", [4324337., 4632869., 4618386., 4457870., 4500166.]),
];

/// The ways of locking that are [`SLOT_LOCKS`]' columns here.
const COLUMNS: [&str; 5] = [
    "rzram:rwlock",
    "rzram:cas",
    "rzram:slot-spinlock",
    "rzram:slot-rwlock",
    "rzram:slot-bit",
];

/// The algorithm that these tables were made with.
const CODEC: &str = "lzo";

/// The time of a block by way of locking, for a load.
fn times(set: &Set, load: &str) -> Option<BTreeMap<String, f64>> {
    let mut cells = set.cells().into_iter();
    cells
        .find(|(cell, _)| cell.load == load && cell.codec == CODEC)
        .map(|(_, times)| times)
}

/// The two tables.
pub fn ratios(set: &Set) -> String {
    let mut text = String::from(
        "\nThe redesign of 2014: `semaphore` is the driver before it, `rwlock-mutex` the driver after it. How many times as \
         much is done after as before; the last column is for `cas`, which is what ships.\n\n\
         | load | published before, KB/s | after | times | here before, instructions | after | times | cas, times |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for (load, before, after) in REDESIGN {
        let Some(times) = times(set, load) else {
            continue;
        };
        let time = |name: &str| times.get(name).copied().unwrap_or(f64::NAN);
        let (old, new) = (time("rzram:semaphore"), time("rzram:rwlock-mutex"));
        let _ = writeln!(
            text,
            "| {load} | {before:.0} | {after:.0} | {:.2} | {old:.0} | {new:.0} | {:.2} | {:.2} |",
            after / before,
            old / new,
            old / time("rzram:cas"),
        );
    }
    text += "\nThe comparison of slot locks of May 2014: how many times as much is done as with one rwlock for all slots.\n\n\
             | load | published: CAS | spinlock | rwlock | bit lock | here: cas | slot-spinlock | slot-rwlock | slot-bit |\n\
             |---|---:|---:|---:|---:|---:|---:|---:|---:|\n";
    for (load, published) in SLOT_LOCKS {
        let Some(times) = times(set, load) else {
            continue;
        };
        let time = |name: &str| times.get(name).copied().unwrap_or(f64::NAN);
        let _ = write!(text, "| {load} |");
        for value in &published[1..] {
            let _ = write!(text, " {:.3} |", value / published[0]);
        }
        for name in &COLUMNS[1..] {
            let _ = write!(text, " {:.3} |", time(COLUMNS[0]) / time(name));
        }
        text += "\n";
    }
    text
}

/// What each costs in memory.
pub fn memory(set: &Set) -> String {
    let mut text = String::from(
        "Memory of the table, locks included, of a disk that is full.\n\n\
         | locking | bytes | bytes for 4 KiB |\n|---|---:|---:|\n",
    );
    for run in &set.runs {
        if let Some(table) = run.figure("table") {
            let _ = writeln!(
                text,
                "| {} | {table} | {:.2} |",
                run.module,
                table as f64 / run.blocks.max(1) as f64
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use rzram_cells::{Cell, Meter, Run};

    fn run(module: &str, load: &str, time: u64) -> Run {
        Run {
            cell: Cell {
                load: load.into(),
                codec: CODEC.into(),
                data: "half".into(),
                request: 16 << 10,
                threads: 1,
            },
            module: module.into(),
            blocks: 1,
            ns: 0,
            virtual_time: Some(time),
            figures: vec![("table".into(), time)],
        }
    }

    fn set() -> Set {
        let runs = ["rzram:semaphore", "rzram:rwlock-mutex"].into_iter();
        Set {
            name: "locks".into(),
            meter: Meter::Virtual { profile: false },
            cpus: 12,
            kernel: String::new(),
            runs: runs
                .chain(COLUMNS)
                .zip(1..)
                .map(|(module, n)| run(module, "mixed", 840 / n))
                .collect(),
            profiles: vec![],
        }
    }

    #[test]
    fn both_tables_have_what_was_measured_and_what_was_published() {
        let text = ratios(&set());
        let row = "| mixed | 243234 | 2818677 | 11.59 | 840 | 420 | 2.00 | 4.00 |";
        assert!(text.contains(row), "{text}");
        let row = "| mixed | 1.361 | 1.421 | 1.316 | 1.431 | 1.333 | 1.667 | 2.000 | 2.333 |";
        assert!(text.contains(row), "{text}");
        assert!(!text.contains("randread"), "{text}");
    }

    #[test]
    fn memory_is_told_by_block() {
        let text = memory(&set());
        assert!(
            text.contains("| rzram:semaphore | 840 | 840.00 |"),
            "{text}"
        );
    }
}
