// SPDX-License-Identifier: GPL-2.0
//! Measuring rzram beside C zram, with meters that the host's load does not move.
//!
//! Each set of measurements is one guest with one meter: instructions counted by QEMU (`icount`), virtual time on many CPUs
//! (`virtual`, see the package rzram-vsmp), or the guest's own clock (`wall`), which means something where there is KVM.
//! What comes out is one file with all results, from which the package rzram-figures makes tables and plots.

pub mod kept;
mod sets;
mod symbols;

use crate::{
    ctx::Ctx,
    module::{self, quietly},
    progress::Ticker,
    vm::{Ending, Platform, Sink, Spec},
    workspace,
};
use anyhow::{bail, Context, Result};
use rzram_cells::{Marks, Meter, Run};
use serde::Serialize;
use sets::Set;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::{Duration, Instant},
};
use symbols::Symbols;

/// The program that works in the guest.
const LOAD: &str = "rzram-load";
/// How long a guest may go on without printing a result.
const SILENCE: Duration = Duration::from_secs(1800);

/// What tools/bench takes.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Only sets in whose name this occurs; can be given several times
    #[arg(long)]
    only: Vec<String>,
    /// Fewer cells: to see whether it works
    #[arg(long)]
    quick: bool,
    /// Where results, tables and plots go; otherwise to `bench` in the cache
    #[arg(long)]
    out: Option<PathBuf>,
    /// Say which sets there are
    #[arg(long)]
    list: bool,
    /// Only measure the ratios that "make check" looks at, and write them to tools/kept.toml
    #[arg(long)]
    record: bool,
}

impl Args {
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|text| name.contains(text))
    }
}

/// The results of a set, as they are kept.
#[derive(Serialize)]
struct Measured {
    name: String,
    meter: Meter,
    cpus: u32,
    runs: Vec<Run>,
    /// For each run with a profile: samples of each function.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    profiles: Vec<BTreeMap<String, u64>>,
}

/// All results of a call, as they are kept.
#[derive(Serialize)]
struct Results {
    /// What the figures are from, by name.
    machine: BTreeMap<String, String>,
    sets: Vec<Measured>,
}

/// Collects a guest's results.
struct Collector {
    runs: Vec<Run>,
    rest: Vec<u8>,
    others: String,
    expected: usize,
    /// Says how far it is; nothing where something else does.
    ticker: Option<Ticker>,
}

impl Sink for Collector {
    fn out(&mut self, data: &[u8]) -> Result<()> {
        self.rest.extend_from_slice(data);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            match Run::from_line(line.trim_end()) {
                Some(run) => self.runs.push(run),
                None => self.others += &line,
            }
        }
        let (done, all) = (self.runs.len(), self.expected);
        let last = self.runs.last().map(|run| run.cell.to_string());
        if let Some(ticker) = &mut self.ticker {
            ticker.tick(&format!("{done} of {all}, {}", last.unwrap_or_default()));
        }
        Ok(())
    }

    fn err(&mut self, data: &[u8]) -> Result<()> {
        if let Some(ticker) = &mut self.ticker {
            ticker.clear();
        }
        eprint!("{}", String::from_utf8_lossy(data));
        Ok(())
    }
}

/// The bench subcommand.
pub fn main(ctx: &Ctx, args: &Args) -> Result<ExitCode> {
    let wanted: Vec<Set> = sets::all(args.quick)
        .into_iter()
        .filter(|set| args.wants(&set.name))
        .collect();
    if args.list {
        for set in &wanted {
            println!("{:24} {}", set.name, set.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if wanted.is_empty() {
        bail!("no set has such a name; tools/bench --list tells which there are");
    }
    let out = args.out.clone().unwrap_or_else(|| ctx.cache.join("bench"));
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let platform = Platform::ensure(ctx)?;
    let files = guest_files(ctx, &platform)?;
    if args.record {
        let measured = measure(ctx, &platform, &kept::set(), &files, true)?;
        let ratios = kept::ratios(&measured.runs);
        kept::record(ctx, &ratios)?;
        for ratio in ratios {
            println!(
                "{} {} {}: {:.3}",
                ratio.load, ratio.codec, ratio.data, ratio.ratio
            );
        }
        return Ok(ExitCode::SUCCESS);
    }

    let mut results = Results {
        machine: machine(&platform),
        sets: Vec::new(),
    };
    for (number, set) in wanted.iter().enumerate() {
        eprintln!(
            "bench: set {} of {}: {}: {}",
            number + 1,
            wanted.len(),
            set.name,
            set.about
        );
        let start = Instant::now();
        let measured = measure(ctx, &platform, set, &files, true)
            .with_context(|| format!("{}: no results", set.name))?;
        eprintln!(
            "bench: {}: {} results in {} s",
            set.name,
            measured.runs.len(),
            start.elapsed().as_secs()
        );
        results.sets.push(measured);
        // After each set, so that what is there by then is not lost.
        fs::write(
            out.join("results.json"),
            serde_json::to_string_pretty(&results)?,
        )?;
    }
    report(ctx, &out)?;
    Ok(ExitCode::SUCCESS)
}

/// What guests get that measure.
pub fn guest_files(ctx: &Ctx, platform: &Platform) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = module::fresh(ctx, &platform.kernel)?;
    let load = workspace::cargo_program(ctx, LOAD, LOAD)?;
    files.push((LOAD.to_owned(), fs::read(load)?));
    Ok(files)
}

/// Measures what is recorded, without a word; the ratios.
pub fn measure_kept(
    ctx: &Ctx,
    platform: &Platform,
    files: &[(String, Vec<u8>)],
) -> Result<Vec<kept::Kept>> {
    let measured = measure(ctx, platform, &kept::set(), files, false)?;
    Ok(kept::ratios(&measured.runs))
}

/// Where the figures come from.
fn machine(platform: &Platform) -> BTreeMap<String, String> {
    let first = |command: &str, args: &[&str]| {
        let out = Command::new(command).args(args).output().ok()?;
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        text.lines().next().map(str::to_owned)
    };
    let cpu = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    [
        ("kernel", Some(platform.kernel.release.name.clone())),
        (
            "rzram",
            std::env::var("RZRAM_REVISION")
                .ok()
                .filter(|text| !text.is_empty()),
        ),
        ("qemu", first("qemu-system-x86_64", &["--version"])),
        ("rustc", first("rustc", &["--version"])),
        ("host cpu", cpu),
        (
            "host cpus",
            std::thread::available_parallelism()
                .ok()
                .map(|n| n.to_string()),
        ),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect()
}

fn measure(
    ctx: &Ctx,
    platform: &Platform,
    set: &Set,
    files: &[(String, Vec<u8>)],
    aloud: bool,
) -> Result<Measured> {
    let share = Scratch::new(ctx)?;
    let marks = share.0.join("marks");
    let profiled = matches!(set.meter, Meter::Virtual { sample } if sample > 0);
    let mut spec = Spec {
        cpus: set.cpus,
        mem: set.memory,
        share: profiled.then(|| share.0.clone()),
        icount: set.meter == Meter::Icount,
        append: set.append.clone(),
        timeout: Some(SILENCE),
        argv: ["bash", "-c"].map(str::to_owned).to_vec(),
        files: files.to_vec(),
        ..Spec::default()
    };
    spec.argv.push(set.script.clone());
    if let Meter::Virtual { sample } = set.meter {
        let plugin = plugin(ctx)?;
        spec.plugin = Some(format!(
            "{},out={},sample={sample}",
            plugin.display(),
            marks.display()
        ));
    }
    let mut collector = Collector {
        runs: Vec::new(),
        rest: Vec::new(),
        others: String::new(),
        expected: set.expected,
        ticker: aloud.then(|| Ticker::new("bench")),
    };
    let ending = platform.run(&spec, &mut collector)?;
    if let Some(ticker) = &mut collector.ticker {
        ticker.clear();
    }
    check(ctx, &ending, &collector)?;
    let mut runs = collector.runs;
    let mut profiles = Vec::new();
    if let Meter::Virtual { .. } = set.meter {
        let text = fs::read_to_string(&marks).context("the plugin wrote nothing")?;
        let marks = Marks::parse(&text).context("the plugin's output makes no sense")?;
        let spans: Vec<u64> = marks.spans().collect();
        if spans.len() != runs.len() {
            bail!("{} results, and {} pairs of marks", runs.len(), spans.len());
        }
        if marks.let_go > 0 {
            eprintln!(
                "bench: {}: CPUs were let go ahead of others {} times, which makes times shorter than they are",
                set.name, marks.let_go
            );
        }
        for (run, span) in runs.iter_mut().zip(spans) {
            run.virtual_time = Some(span);
        }
        if profiled {
            let symbols = Symbols::read(&share.0.join("kallsyms"))?;
            profiles = marks
                .samples
                .iter()
                .map(|samples| symbols.count(samples))
                .collect();
        }
    }
    Ok(Measured {
        name: set.name.clone(),
        meter: set.meter,
        cpus: set.cpus,
        runs,
        profiles,
    })
}

/// A directory for what a guest and QEMU leave; it goes away with this.
struct Scratch(PathBuf);

impl Scratch {
    fn new(ctx: &Ctx) -> Result<Self> {
        let dir = ctx.cache.join(format!("bench-{}", std::process::id()));
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A guest that failed has no results.
fn check(ctx: &Ctx, ending: &Ending, collector: &Collector) -> Result<()> {
    if let Some(why) = &ending.failure {
        let log = ctx.logs().join("bench-guest.log");
        fs::write(&log, &ending.log)?;
        bail!(
            "the guest failed: {why}; its kernel's log is {}",
            log.display()
        );
    }
    if ending.status != 0 {
        bail!(
            "the guest's commands failed with status {}:\n{}",
            ending.status,
            collector.others
        );
    }
    if collector.runs.len() != collector.expected {
        bail!(
            "{} results came, {} were expected:\n{}",
            collector.runs.len(),
            collector.expected,
            collector.others
        );
    }
    Ok(())
}

/// The plugin for virtual time, built if need be.
fn plugin(ctx: &Ctx) -> Result<PathBuf> {
    quietly(
        "building rzram-vsmp",
        Command::new("cargo")
            .args(["build", "--locked", "--release", "-p", "rzram-vsmp"])
            .current_dir(ctx.tools()),
    )?;
    Ok(ctx.target.join("release/librzram_vsmp.so"))
}

/// Makes tables and plots of what is in `out`.
fn report(ctx: &Ctx, out: &Path) -> Result<()> {
    quietly(
        "making tables and plots",
        Command::new("cargo")
            .args(["run", "--locked", "--quiet", "-p", "rzram-figures", "--"])
            .arg(out)
            .current_dir(ctx.tools()),
    )?;
    println!("{}", out.join("results.md").display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sets_differ_and_are_found() {
        for quick in [false, true] {
            let mut names: Vec<String> = sets::all(quick).into_iter().map(|s| s.name).collect();
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count);
        }
    }
}
