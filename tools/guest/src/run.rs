// SPDX-License-Identifier: GPL-2.0

//! Running other programs and keeping what they print.

use std::process::{Command, Output};

use anyhow::{bail, Context, Result};

/// Runs a program and returns its standard output. Fails, quoting both streams, unless it exits 0.
pub fn run(program: &str, args: &[&str]) -> Result<String> {
    let out = output(program, args)?;
    if !out.status.success() {
        bail!(
            "`{program} {}` ended with {}\n{}{}",
            args.join(" "),
            out.status,
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr),
        );
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Runs a program that is expected to fail; returns what it printed on both streams.
pub fn run_failing(program: &str, args: &[&str]) -> Result<String> {
    let out = output(program, args)?;
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    if out.status.success() {
        bail!(
            "`{program} {}` succeeded, but was expected to fail\n{text}",
            args.join(" ")
        );
    }
    Ok(text)
}

fn output(program: &str, args: &[&str]) -> Result<Output> {
    Command::new(program)
        .args(args)
        .output()
        .with_context(|| format!("cannot run {program}; is it installed in the guest?"))
}
