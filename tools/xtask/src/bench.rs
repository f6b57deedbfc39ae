// SPDX-License-Identifier: GPL-2.0
//! Measuring rzram beside C zram, with meters that the host's load does not move.
//!
//! Each set of measurements is one guest with one meter: instructions counted by QEMU (`icount`), virtual time on many CPUs
//! (`virtual`, see the package rzram-vsmp), or the guest's own clock (`wall`), which means something where there is KVM.
//! What comes out is one file with all results, from which the package rzram-figures makes tables and plots.

mod collect;
pub mod kept;
mod sets;
mod symbols;

use crate::{
    ctx::Ctx,
    kernel::Kind,
    module::{self, quietly},
    vm::{Platform, Spec},
    workspace,
};
use anyhow::{bail, Context, Result};
use collect::Collector;
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
    /// The kernel, by its name.
    kernel: String,
    runs: Vec<Run>,
    /// For each run with a profile: instructions in each function.
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

/// The bench subcommand.
pub fn main(ctx: &Ctx, args: &Args) -> Result<ExitCode> {
    let wanted: Vec<Set> = sets::all(args.quick, &ctx.cache.join("corpus/held-out"))?
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
    if args.record {
        let lab = Lab::new(ctx, ctx.kernel)?;
        let measured = measure(ctx, &lab.platform, &kept::set(), &lab.files, true)?;
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

    let mut labs: Vec<Lab> = Vec::new();
    let mut results = Results {
        machine: machine(),
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
        let kind = set.kernel.unwrap_or(ctx.kernel);
        let known = labs.iter().position(|lab| lab.platform.kernel.kind == kind);
        let at = match known {
            Some(at) => at,
            None => {
                labs.push(Lab::new(ctx, kind)?);
                labs.len() - 1
            }
        };
        let lab = &mut labs[at];
        if set.locking_lab {
            lab.add_locking_lab(ctx)?;
        }
        let start = Instant::now();
        let measured = measure(ctx, &lab.platform, set, &lab.files, true)
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

/// Guests that measure, and what they get.
struct Lab {
    platform: Platform,
    files: Vec<(String, Vec<u8>)>,
}

impl Lab {
    fn new(ctx: &Ctx, kind: Kind) -> Result<Self> {
        let ctx = &Ctx {
            kernel: kind,
            ..ctx.clone()
        };
        let platform = Platform::ensure(ctx)?;
        let files = guest_files(ctx, &platform)?;
        Ok(Self { platform, files })
    }

    /// Adds the build that offers several ways to lock the table, once.
    fn add_locking_lab(&mut self, ctx: &Ctx) -> Result<()> {
        let name = sets::locks::MODULE;
        if self.files.iter().all(|(known, _)| known != name) {
            let module = module::locking_lab(ctx, &self.platform.kernel)?;
            self.files.push((name.to_owned(), module));
        }
        Ok(())
    }
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
fn machine() -> BTreeMap<String, String> {
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
        (
            "rzram",
            std::env::var("RZRAM_REVISION")
                .ok()
                .filter(|text| !text.is_empty()),
        ),
        ("qemu", first("qemu-system-x86_64", &["--version"])),
        ("rustc", first("rustc", &["--version"])),
        ("gcc", first("gcc", &["--version"])),
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
    let profiled = matches!(set.meter, Meter::Virtual { profile: true });
    let mut spec = Spec {
        cpus: set.cpus,
        mem: set.memory,
        share: match profiled {
            true => Some(share.0.clone()),
            false => set.share.clone(),
        },
        icount: set.meter == Meter::Icount,
        append: set.append.clone(),
        timeout: Some(SILENCE),
        argv: ["bash", "-c"].map(str::to_owned).to_vec(),
        files: files.to_vec(),
        ..Spec::default()
    };
    spec.argv.push(set.script.clone());
    if let Meter::Virtual { profile } = set.meter {
        let plugin = plugin(ctx)?;
        spec.plugin = Some(format!(
            "{},out={},profile={}",
            plugin.display(),
            marks.display(),
            u8::from(profile)
        ));
    }
    let mut collector = Collector::new(set.expected, aloud);
    let ending = platform.run(&spec, &mut collector)?;
    collector.check(ctx, &ending, set.optional)?;
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
                .counts
                .iter()
                .map(|counts| symbols.count(counts))
                .collect();
        }
    }
    Ok(Measured {
        name: set.name.clone(),
        meter: set.meter,
        cpus: set.cpus,
        kernel: platform.kernel.release.name.clone(),
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
            let sets = sets::all(quick, Path::new("/nowhere")).unwrap();
            let mut names: Vec<String> = sets.into_iter().map(|s| s.name).collect();
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count);
        }
    }
}
