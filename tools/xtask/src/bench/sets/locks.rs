// SPDX-License-Identifier: GPL-2.0
//! Ways to lock the table, beside each other: the build with `LOCKING_LAB=1`, loaded once for each.

use super::{set, settle, Bench, Set, IOZONE};
use rzram_cells::Meter;

/// That build's name in the guest.
pub const MODULE: &str = "rzram-lab.ko";

/// What results call them, in the order of the numbers that the module's parameter `locking` takes.
const SCHEMES: [&str; 7] = [
    "cas",
    "semaphore",
    "rwlock-mutex",
    "rwlock",
    "slot-spinlock",
    "slot-rwlock",
    "slot-bit",
];

/// Loads the build once for each way, and has `call` say what is done with it.
fn each(call: impl Fn(&str) -> (String, usize)) -> Vec<(String, usize)> {
    let calls = SCHEMES.iter().enumerate().map(|(number, scheme)| {
        let (text, count) = call(&format!("rzram:{scheme}"));
        let text = format!("insmod ./{MODULE} locking={number}; {text}rmmod rzram; ");
        (text, count)
    });
    calls.collect()
}

/// A call of `rzram-load bench` with one module.
fn bench(module: &str, codec: &str, loads: &[&str], repeat: usize) -> (String, usize) {
    let call = Bench {
        modules: &[module],
        codecs: &[codec],
        data: &["half"],
        requests: &["16K"],
        threads: 12,
        loads,
        region: "512K",
        repeat,
    };
    let (text, count) = call.command();
    // Readers and writers are not the same threads in a mixed load.
    (text.replace("; ", " --wall; "), count)
}

/// The sets; with fewer cells each if `quick`.
pub fn all(quick: bool) -> [Set; 2] {
    // Debian's zram has no lzo.
    let with_peer: &[&str] = &["write", "read", "mixed"];
    let loads: &[&str] = if quick {
        &["write", "read", "mixed"]
    } else {
        IOZONE
    };
    let repeat = if quick { 1 } else { 3 };
    let mut calls = vec![settle(2), bench("zram", "lz4", with_peer, repeat)];
    calls.extend(each(|module| {
        let (all, count) = bench(module, "lzo", loads, repeat);
        match module {
            "rzram:cas" => {
                let (peer, more) = bench(module, "lz4", with_peer, repeat);
                (peer + &all, count + more)
            }
            _ => (all, count),
        }
    }));
    let times = set(
        "locks-12",
        "ways to lock the table, in virtual time of 12 threads on as many CPUs",
        Meter::Virtual { profile: false },
        12,
        &calls,
    );
    let memory = |module: &str| {
        let written = if quick { "4M" } else { "64M" };
        let call = format!(
            "./rzram-load memory --modules {module} --codecs lz4 --data half --disksize {written} --written {written} --repeat 1; "
        );
        (call, 1)
    };
    let memory = set(
        "locks-memory",
        "what ways to lock the table cost in memory",
        Meter::Wall,
        2,
        &each(memory),
    );
    [times, memory].map(|set| Set {
        script: set
            .script
            .replacen(super::MODULES, "set -e; modprobe zram num_devices=1; ", 1),
        locking_lab: true,
        ..set
    })
}
