// SPDX-License-Identifier: GPL-2.0

//! iozone, unmodified, on a file system: its own figures, by the guest's clock.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, ensure, Context, Result};
use clap::Args;
use rzram_cells::Cell;
use rzram_guest::kernel::load_ext4;
use rzram_guest::run::run as command;
use rzram_guest::PAGE;

use crate::bench::size;
use crate::peers::{print, Peers};

/// What to measure.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    peers: Peers,
    /// Algorithms
    #[arg(long, value_delimiter = ',', default_value = "lz4")]
    codecs: Vec<String>,
    /// Threads
    #[arg(long, default_value_t = 12)]
    threads: u32,
    /// Size of each thread's file
    #[arg(long, default_value = "60M", value_parser = size)]
    size: u32,
}

const PROGRAM: &str = "/usr/bin/iozone";

/// Size of requests.
const REQUEST: u32 = 16 << 10;

/// What iozone calls its loads, and what they are called here.
const LOADS: [(&str, &str); 11] = [
    ("initial writers", "write"),
    ("rewriters", "rewrite"),
    ("readers", "read"),
    ("re-readers", "reread"),
    ("reverse readers", "reverse"),
    ("stride readers", "stride"),
    ("random readers", "randread"),
    ("mixed workload", "mixed"),
    ("random writers", "randwrite"),
    ("pwrite writers", "pwrite"),
    ("pread readers", "pread"),
];

/// A file system on the disk, mounted.
struct Mounted(PathBuf);

impl Mounted {
    fn new(node: &str) -> Result<Mounted> {
        let at = Path::new("/tmp/rzram-iozone");
        std::fs::create_dir_all(at)?;
        load_ext4()?;
        command("mkfs.ext4", &["-q", "-E", "nodiscard", node])?;
        command("mount", &[node, &at.to_string_lossy()])?;
        Ok(Mounted(at.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(error) = command("umount", &[&self.0.to_string_lossy()]) {
            eprintln!("rzram-load: {error:#}");
        }
    }
}

/// Measures, and prints a line for each of iozone's loads; nothing where there is no iozone.
pub fn run(options: &Options) -> Result<()> {
    if !Path::new(PROGRAM).exists() {
        eprintln!(
            "rzram-load: no iozone here (its package is in Debian's non-free part): left out"
        );
        return Ok(());
    }
    for codec in &options.codecs {
        for disk in options.peers.turns()? {
            // Files, and what the file system needs.
            let data = u64::from(options.threads) * u64::from(options.size);
            disk.set_up(codec, data + data / 4 + (32 << 20))?;
            let report = {
                let mounted = Mounted::new(&disk.node())?;
                iozone(&mounted.0, options)?
            };
            for (load, threads, rate) in rates(&report)? {
                let cell = Cell {
                    load: load.into(),
                    codec: codec.clone(),
                    data: "iozone's".into(),
                    request: REQUEST,
                    threads,
                };
                let bytes = u64::from(threads) * u64::from(options.size);
                let blocks = bytes / PAGE as u64;
                let ns = bytes as f64 / 1024.0 / rate * 1e9;
                print(&disk, cell, blocks, ns as u64, &[]);
            }
            disk.reset()?;
        }
    }
    Ok(())
}

/// Runs it there, with the options of zram's locking redesign.
fn iozone(at: &Path, options: &Options) -> Result<String> {
    let (threads, size) = (options.threads.to_string(), options.size / 1024);
    let size = format!("{size}k");
    let out = Command::new(PROGRAM)
        .args(["-t", "-T", "-l", &threads, "-u", &threads, "-r", "16K"])
        .args(["-s", &size, "-I", "+Z", "-V", "0"])
        .current_dir(at)
        .output()
        .context("cannot run iozone")?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    ensure!(
        out.status.success(),
        "iozone: {}\n{text}{}",
        out.status,
        String::from_utf8_lossy(&out.stderr)
    );
    Ok(text)
}

/// How many processes iozone says that there were, and what they did together, in kB a second, for each load. It may be fewer
/// than it was told to start.
fn rates(report: &str) -> Result<Vec<(&'static str, u32, f64)>> {
    let mut found = Vec::new();
    for line in report.lines() {
        // There are one or two spaces before the number, by load.
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let Some((count, rest)) = line
            .strip_prefix("Children see throughput for ")
            .and_then(|rest| rest.split_once(' '))
        else {
            continue;
        };
        let Some((name, rate)) = rest.split_once(" = ") else {
            continue;
        };
        let Some((_, load)) = LOADS.into_iter().find(|(known, _)| *known == name) else {
            continue;
        };
        let rate: f64 = rate
            .strip_suffix(" kB/sec")
            .and_then(|rate| rate.parse().ok())
            .filter(|rate| *rate > 0.0)
            .with_context(|| format!("iozone: {line}"))?;
        found.push((load, count.parse()?, rate));
    }
    if found.len() != LOADS.len() {
        bail!(
            "iozone told of {} loads, of {}:\n{report}",
            found.len(),
            LOADS.len()
        );
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_found_in_a_report() -> Result<()> {
        let mut report = String::from("\tEach process writes a 2048 kByte file\n");
        for (n, (name, _)) in LOADS.iter().enumerate() {
            report += &format!(
                "\tChildren see throughput for 12 {name} \t=  {}00.25 kB/sec\n\tParent sees throughput for 12 {name} \t= 1.00 kB/sec\n",
                n + 1
            );
        }
        report += "\tChildren see throughput for 12 fwriters \t=  5.00 kB/sec\n";
        let rates = rates(&report.replacen("for 12", "for  8", 1))?;
        assert_eq!(rates.len(), LOADS.len());
        assert_eq!(rates[0], ("write", 8, 100.25));
        assert_eq!(rates[10], ("pread", 12, 1100.25));
        assert!(super::rates(&report.replace("for 12 readers", "readers")).is_err());
        assert!(super::rates("").is_err());
        Ok(())
    }
}
