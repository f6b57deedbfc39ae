// SPDX-License-Identifier: GPL-2.0
//! Building and looking over the tools workspace, with cargo.

use crate::{ctx::Ctx, module::quietly};
use anyhow::{bail, Context, Result};
use serde::Deserialize;
use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

/// Package and program that guests get beside rzram.ko.
const GUEST: &str = "rzram-guest";

/// Builds one program of the tools workspace for use in a guest and returns its file.
pub fn cargo_program(ctx: &Ctx, package: &str, program: &str) -> Result<PathBuf> {
    cargo_build(ctx, package)?;
    Ok(ctx.target.join("guest").join(program))
}

fn cargo_build(ctx: &Ctx, package: &str) -> Result<()> {
    quietly(
        &format!("building {package}"),
        Command::new("cargo")
            .args(["build", "--locked", "--profile", "guest", "-p", package])
            .current_dir(ctx.tools()),
    )
}

/// The programs of the package `rzram-guest`, to be put beside rzram.ko.
pub fn guest_programs(ctx: &Ctx) -> Result<Vec<(String, Vec<u8>)>> {
    if !ctx.has_member("guest") {
        return Ok(Vec::new());
    }
    let file = cargo_program(ctx, GUEST, GUEST)?;
    Ok(vec![(
        GUEST.into(),
        std::fs::read(&file).with_context(|| format!("cargo made no {}", file.display()))?,
    )])
}

/// A test program for guests.
pub struct GuestTest {
    /// The name of its source file, without the extension.
    pub name: String,
    /// Its source.
    pub source: PathBuf,
    /// The program.
    pub file: PathBuf,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// The part of cargo's messages that matters here.
#[derive(Deserialize)]
struct Artifact {
    target: Target,
    profile: Profile,
    executable: Option<PathBuf>,
}

/// Builds the tests of the package `rzram-guest`.
pub fn guest_tests(ctx: &Ctx) -> Result<Vec<GuestTest>> {
    let out = Command::new("cargo")
        .args([
            "test",
            "--no-run",
            "--locked",
            "--profile",
            "guest",
            "-p",
            GUEST,
        ])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(ctx.tools())
        .stdin(Stdio::null())
        .output()
        .context("cannot run cargo")?;
    if !out.status.success() {
        bail!(
            "the guest's tests could not be built:\n{}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
    let mut tests = Vec::new();
    for line in String::from_utf8_lossy(&out.stdout).lines() {
        let Ok(artifact) = serde_json::from_str::<Artifact>(line) else {
            continue;
        };
        if let (true, Some(file)) = (artifact.profile.test, artifact.executable) {
            tests.push(GuestTest {
                name: artifact.target.name,
                source: artifact.target.src_path,
                file,
            });
        }
    }
    Ok(tests)
}

/// The command that formats the workspace, or with `check` complains where it is not.
pub fn rustfmt(ctx: &Ctx, check: bool) -> Command {
    let mut command = Command::new("cargo");
    command.args(["fmt", "--all"]).current_dir(ctx.tools());
    if check {
        command.arg("--check");
    }
    // The fuzzers are a workspace of their own.
    let fuzzers =
        crate::fuzz::TARGETS.map(|(name, _)| format!("host-tests/fuzz/fuzz_targets/{name}.rs"));
    command.args(["--", "--color=never"]).args(fuzzers);
    command
}

/// The command that runs clippy on the workspace.
pub fn clippy(ctx: &Ctx) -> Command {
    let mut command = Command::new("cargo");
    command
        .args([
            "clippy",
            "--locked",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ])
        .current_dir(ctx.tools());
    command
}
