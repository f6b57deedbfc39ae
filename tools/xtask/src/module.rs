// SPDX-License-Identifier: GPL-2.0
//! Building the module for a prepared kernel, with Kbuild.

use crate::{cache, ctx::Ctx, kernel::Kernel, progress::Ticker};
use anyhow::{bail, Context, Result};
use nix::fcntl::Flock;
use std::{
    fs::File,
    path::PathBuf,
    process::{Command, Stdio},
    thread::sleep,
    time::Duration,
};

/// A make call on the module in the tree.
fn make(ctx: &Ctx, kernel: &Kernel) -> Command {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut command = Command::new("make");
    let mut module = std::ffi::OsString::from("M=");
    module.push(&ctx.tree);
    command.arg("-C").arg(&kernel.build).arg(module).arg(format!("-j{jobs}"));
    command
}

/// Only one build at a time may write into a tree.
fn lock(ctx: &Ctx) -> Result<Flock<File>> {
    cache::lock(ctx, &format!("build-{}", cache::key(&ctx.tree)))
}

/// Runs make on the module with its output passed through.
pub fn build(ctx: &Ctx, kernel: &Kernel, args: &[String]) -> Result<()> {
    let _lock = lock(ctx)?;
    let status = make(ctx, kernel).args(args).status().context("cannot run make")?;
    if !status.success() {
        bail!("the module could not be built for {}; see above", kernel.release.name);
    }
    Ok(())
}

/// Builds rzram.ko where it is out of date and reads it; make's output is shown only when it fails.
pub fn fresh(ctx: &Ctx, kernel: &Kernel) -> Result<Vec<u8>> {
    let _lock = lock(ctx)?;
    quietly("building rzram.ko", make(ctx, kernel).arg("modules"))?;
    let file: PathBuf = ctx.tree.join("rzram.ko");
    std::fs::read(&file).with_context(|| format!("the build made no {}", file.display()))
}

/// Runs a command, shows what it printed only when it failed, and says now and then that it is still running.
pub fn quietly(what: &str, command: &mut Command) -> Result<()> {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {command:?}"))?;
    let waiter = std::thread::spawn(move || child.wait_with_output());
    let mut ticker = Ticker::new("xtask");
    while !waiter.is_finished() {
        sleep(Duration::from_millis(10));
        ticker.tick(what);
    }
    ticker.clear();
    let out = match waiter.join() {
        Ok(out) => out?,
        Err(_) => bail!("{what}: the waiting thread died"),
    };
    if !out.status.success() {
        eprint!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        bail!("{what} failed; see above");
    }
    Ok(())
}

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
    let file = cargo_program(ctx, "rzram-guest", "rzram-guest")?;
    Ok(vec![("rzram-guest".into(), std::fs::read(&file).with_context(|| format!("cargo made no {}", file.display()))?)])
}
