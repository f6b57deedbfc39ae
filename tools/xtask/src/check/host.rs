// SPDX-License-Identifier: GPL-2.0
//! Tests that need no guest: those of every member of the tools workspace but the guest's, and short runs of the fuzzers.

use super::{libtest, report::Outcome, Args, Item};
use crate::{ctx::Ctx, fuzz};
use anyhow::Result;
use std::process::Command;

/// The packages whose tests run in guests only.
const GUEST_ONLY: &str = "rzram-guest";

/// Inputs that a fuzzer tries in a short run.
const FUZZ_RUNS: u64 = 50_000;

/// One item for all that cargo runs, which does so in one go, and one for each fuzzer.
pub fn items<'a>(ctx: &'a Ctx, args: &Args) -> Vec<Item<'a>> {
    let name = "host: cargo test";
    let filters: Vec<String> = match &args.only {
        Some(texts) if !args.wants(name) => texts.split('|').map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    if args
        .only
        .as_deref()
        .is_some_and(|pattern| pattern.starts_with("static"))
    {
        return Vec::new();
    }
    let mut items = vec![Item::new(name.to_owned(), move || run(ctx, filters))];
    for (program, longest) in fuzz::TARGETS {
        let name = format!("host: fuzz {program}");
        if args.wants(&name) {
            items.push(Item::new(name, move || fuzzed(ctx, program, longest)));
        }
    }
    items
}

fn fuzzed(ctx: &Ctx, program: &str, longest: u32) -> Result<Outcome> {
    let out = fuzz::short(ctx, program, longest, FUZZ_RUNS)?;
    let text = String::from_utf8_lossy(&out.stderr);
    // It says so at its end, which it does not get to where it stops early for whatever reason.
    let done = text.contains(&format!("Done {FUZZ_RUNS} runs"));
    Ok(match out.status.success() && done {
        true => Outcome::passed(),
        false => Outcome::failed(format!("{}\n{text}", out.status)),
    })
}

fn run(ctx: &Ctx, filters: Vec<String>) -> Result<Outcome> {
    let mut command = Command::new("cargo");
    command
        .args([
            "test",
            "--locked",
            "--workspace",
            "--no-fail-fast",
            "--color=never",
        ])
        .current_dir(ctx.tools());
    if ctx.has_member("guest") {
        command.args(["--exclude", GUEST_ONLY]);
    }
    command.arg("--").args(filters);
    let out = command.output()?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let counts = libtest::count(&text);
    let mut outcome = Outcome {
        passed: counts.passed,
        failed: counts.failed,
        ..Outcome::default()
    };
    if !out.status.success() {
        outcome.details = format!("{text}\n{}", String::from_utf8_lossy(&out.stderr));
        if outcome.failed.is_empty() {
            outcome.failed.push("could not be built, or died".into());
        }
    }
    Ok(outcome)
}
