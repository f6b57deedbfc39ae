// SPDX-License-Identifier: GPL-2.0
//! fio and iozone as they are, whose own figures count: their clock is the guest's, which counts instructions.

use super::{set, Set, CODECS};
use rzram_cells::Meter;

/// The sets; with fewer cells each if `quick`.
pub fn all(quick: bool) -> [Set; 2] {
    let (codecs, requests, jobs): (&[_], &[_], &[_]) = match quick {
        true => (&CODECS[..1], &["16K"], &["write", "read"]),
        false => (
            CODECS,
            &["4K", "16K", "1M"],
            &["write", "randwrite", "read", "randread", "rw", "randrw"],
        ),
    };
    let repeat = if quick { 1 } else { 2 };
    let fio = format!(
        "./rzram-load fio --codecs {} --requests {} --jobs {} --repeat {repeat}; ",
        codecs.join(","),
        requests.join(","),
        jobs.join(",")
    );
    let fio = set(
        "fio",
        "fio's jobs, fio itself, one at a time",
        Meter::Icount,
        1,
        &[(fio, 2 * repeat * codecs.len() * requests.len() * jobs.len())],
    );
    let size = if quick { "512K" } else { "2M" };
    let iozone = format!("./rzram-load iozone --size {size} --repeat {repeat}; ");
    let mut iozone = set(
        "iozone",
        "iozone itself with 12 threads on a file system, on one CPU",
        Meter::Icount,
        1,
        &[(iozone, 2 * repeat * 11)],
    );
    iozone.optional = true;
    [fio, iozone]
}
