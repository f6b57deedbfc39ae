// SPDX-License-Identifier: GPL-2.0
//! Fuzzing that sees which branches are taken: the programs of tools/host-tests/fuzz, with libFuzzer.
//!
//! They are built as cargo-fuzz would do it but without a sanitizer, which takes an unstable compiler: what they drive lies
//! between pages that cannot be touched.

use crate::{ctx::Ctx, module::quietly};
use anyhow::{bail, Context, Result};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Output, Stdio},
};

/// The programs, and the most bytes that one takes.
pub const TARGETS: [(&str, u32); 2] = [("decode", 4097), ("encode", 4096)];

/// What has the compiler tell libFuzzer about branches and comparisons.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// With a target named these flags are for what runs there, and not for build scripts.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// What `fuzz` takes.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// How many inputs for each program
    #[arg(long, default_value_t = 10_000_000)]
    runs: u64,
    /// Only this program: decode or encode
    #[arg(long)]
    only: Option<String>,
}

/// The fuzz subcommand: inputs that led somewhere are kept in the cache and built upon the next time.
pub fn main(ctx: &Ctx, args: &Args) -> Result<ExitCode> {
    let wanted = |name: &str| args.only.as_deref().is_none_or(|only| only == name);
    let targets: Vec<_> = TARGETS.iter().filter(|(name, _)| wanted(name)).collect();
    if targets.is_empty() {
        bail!("there is no such program; there are decode and encode");
    }
    let programs = build(ctx)?;
    for (name, longest) in targets {
        let corpus = ctx.cache.join("fuzz").join(name);
        fs::create_dir_all(&corpus)?;
        println!("fuzz: {name}: {} inputs", args.runs);
        let status = command(&programs, name, *longest, args.runs, &ctx.logs())
            .arg(&corpus)
            .status()
            .with_context(|| format!("cannot run {name}"))?;
        if !status.success() {
            bail!("{name} failed ({status}); its last lines say with which input");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A short run, the same each time.
pub fn short(ctx: &Ctx, name: &str, longest: u32, runs: u64) -> Result<Output> {
    command(&build(ctx)?, name, longest, runs, &ctx.logs())
        .arg("-seed=1")
        .output()
        .with_context(|| format!("cannot run {name}"))
}

fn command(programs: &Path, name: &str, longest: u32, runs: u64, found: &Path) -> Command {
    let mut command = Command::new(programs.join(name));
    command
        .arg(format!("-runs={runs}"))
        .arg(format!("-max_len={longest}"))
        // Long ones from the start: what is valid ends in how it is to be read, and would be cut off.
        .arg("-len_control=0")
        .arg(format!("-artifact_prefix={}/fuzz-{name}-", found.display()))
        .stdin(Stdio::null());
    command
}

/// Builds the programs and returns where they are.
fn build(ctx: &Ctx) -> Result<PathBuf> {
    let dir = ctx.target.join("fuzz");
    quietly(
        "building the fuzzers",
        Command::new("cargo")
            .args(["build", "--quiet", "--locked", "--release"])
            .args(["--target", TRIPLE, "--target-dir"])
            .arg(&dir)
            .env("RUSTFLAGS", FLAGS)
            .env("CXX", "clang++")
            .current_dir(ctx.tools().join("host-tests/fuzz")),
    )?;
    Ok(dir.join(TRIPLE).join("release"))
}
