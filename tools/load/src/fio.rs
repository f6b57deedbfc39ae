// SPDX-License-Identifier: GPL-2.0

//! fio, unmodified: its own figures, by the guest's clock.

use anyhow::{ensure, Context, Result};
use clap::Args;
use rzram_cells::Cell;
use rzram_guest::run::run as command;
use rzram_guest::PAGE;
use serde_json::Value;

use crate::bench::size;
use crate::disk::Disk;
use crate::peers::{print, Peers};

/// What to measure: all combinations.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    peers: Peers,
    /// Algorithms
    #[arg(long, value_delimiter = ',', default_value = "lz4")]
    codecs: Vec<String>,
    /// Jobs, by what fio's `rw` calls them, on a disk that is empty at first
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "write,randwrite,read,randread,rw,randrw"
    )]
    jobs: Vec<String>,
    /// Sizes of requests
    #[arg(long, value_delimiter = ',', default_value = "4K,16K,1M", value_parser = size)]
    requests: Vec<u32>,
    /// How much of the disk a job goes through
    #[arg(long, default_value = "16M", value_parser = size)]
    size: u32,
}

/// Milliseconds that a job should take at least, as fio counts no finer. What is faster goes through the disk several times.
const LEAST: u64 = 300;

/// What fio says of a job: bytes moved, and milliseconds that it took.
fn job(disk: &Disk, rw: &str, request: u32, size: u32, loops: u64) -> Result<(u64, u64)> {
    let report = command(
        "fio",
        &[
            "--name=job",
            "--ioengine=psync",
            "--direct=1",
            "--randrepeat=1",
            "--norandommap=0",
            // Half of each block is random; the buffer stays as it is, or filling it would be measured as well.
            "--buffer_compress_percentage=50",
            "--buffer_compress_chunk=512",
            "--scramble_buffers=0",
            "--output-format=json",
            &format!("--filename={}", disk.node()),
            &format!("--rw={rw}"),
            &format!("--bs={request}"),
            &format!("--size={size}"),
            &format!("--loops={loops}"),
        ],
    )?;
    parse(&report)
}

fn parse(report: &str) -> Result<(u64, u64)> {
    let json = report
        .find('{')
        .context("fio printed no report")
        .map(|at| &report[at..])?;
    let json: Value = serde_json::from_str(json).context("fio's report")?;
    let job = &json["jobs"][0];
    let number = |value: &Value| value.as_u64().context("fio's report lacks a figure");
    ensure!(number(&job["error"])? == 0, "fio met an error");
    let (mut bytes, mut time) = (0, 0);
    for direction in ["read", "write"] {
        bytes += number(&job[direction]["io_bytes"])?;
        // Mixed loads are read and written in the same time.
        time = time.max(number(&job[direction]["runtime"])?);
    }
    Ok((bytes, time))
}

/// Measures, and prints a line for each.
pub fn run(options: &Options) -> Result<()> {
    for codec in &options.codecs {
        for &request in &options.requests {
            let mut loops = vec![1; options.jobs.len()];
            for disk in options.peers.turns()? {
                disk.set_up(codec, u64::from(options.size))?;
                for (rw, loops) in options.jobs.iter().zip(&mut loops) {
                    let (mut bytes, mut time) = job(&disk, rw, request, options.size, *loops)?;
                    // The same for all modules, and as often as the first one needs.
                    if *loops == 1 && time < LEAST {
                        *loops = LEAST.div_ceil(time.max(1)) + 1;
                        (bytes, time) = job(&disk, rw, request, options.size, *loops)?;
                    }
                    let cell = Cell {
                        load: rw.clone(),
                        codec: codec.clone(),
                        data: "fio's, half random".into(),
                        request,
                        threads: 1,
                    };
                    print(&disk, cell, bytes / PAGE as u64, time * 1_000_000, &[]);
                }
                disk.reset()?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_in_a_report() -> Result<()> {
        let report = |error| {
            format!(
                r#"fio: a note
                {{"jobs": [{{"error": {error}, "read": {{"io_bytes": 4096, "runtime": 7}},
                "write": {{"io_bytes": 8192, "runtime": 9}}}}]}}"#
            )
        };
        assert_eq!(parse(&report(0))?, (12288, 9));
        assert!(parse(&report(5)).is_err());
        assert!(parse("nothing").is_err());
        assert!(parse("{}").is_err());
        Ok(())
    }
}
