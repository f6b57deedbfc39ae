// SPDX-License-Identifier: GPL-2.0
//! Tests that need no guest: those of every member of the tools workspace but the guest's.

use super::{libtest, report::Outcome, Args, Item};
use crate::ctx::Ctx;
use anyhow::Result;
use std::process::Command;

/// The packages whose tests run in guests only.
const GUEST_ONLY: &str = "rzram-guest";

/// One item for all of them, for cargo runs them in one go.
pub fn items<'a>(ctx: &'a Ctx, args: &Args) -> Vec<Item<'a>> {
    let name = "host: cargo test";
    let filter = match &args.only {
        Some(pattern) if !name.contains(pattern) => Some(pattern.clone()),
        _ => None,
    };
    if args
        .only
        .as_deref()
        .is_some_and(|pattern| pattern.starts_with("static"))
    {
        return Vec::new();
    }
    vec![Item {
        name: name.to_owned(),
        run: Box::new(move || run(ctx, filter)),
    }]
}

fn run(ctx: &Ctx, filter: Option<String>) -> Result<Outcome> {
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
    command.arg("--").args(filter);
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
