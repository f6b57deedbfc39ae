// SPDX-License-Identifier: GPL-2.0
//! Building the module for a prepared kernel, with Kbuild.

use crate::{
    cache,
    ctx::Ctx,
    kernel,
    kernel::{Kernel, Kind},
    progress::Ticker,
};
use anyhow::{bail, Context, Result};
use nix::fcntl::Flock;
use std::{
    ffi::OsString,
    fs,
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::sleep,
    time::Duration,
};

/// A call of the kernel's build on the module in `dir`.
fn make(dir: &Path, kdir: &Path) -> Command {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut module = OsString::from("M=");
    module.push(dir);
    let mut command = Command::new("make");
    command
        .arg("-C")
        .arg(kdir)
        .arg(module)
        .arg(format!("-j{jobs}"));
    command
}

/// Only one build at a time may write into a tree.
fn lock(ctx: &Ctx) -> Result<Flock<File>> {
    cache::lock(ctx, &format!("build-{}", cache::key(&ctx.tree)))
}

/// The build subcommand: chooses the kernel, says which, and runs make with its output passed through.
pub fn build(ctx: &Ctx, kdir: Option<PathBuf>, guest: bool, args: &[String]) -> Result<()> {
    let running = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let running = running.trim();
    let (kdir, what) = match kdir {
        Some(kdir) => {
            let what = kdir.display().to_string();
            (kdir, what)
        }
        None if !guest && kernel::is_supported_debian(running) => {
            match kernel::ensure_exactly(ctx, running) {
                Ok(kernel) => (kernel.build, format!("{running}, the running kernel")),
                Err(error) => {
                    eprintln!("build: {running} is running, but: {error:#}");
                    guests(ctx, running)?
                }
            }
        }
        None => guests(ctx, running)?,
    };
    let _lock = lock(ctx)?;
    let status = make(&ctx.tree, &kdir)
        .args(args)
        .status()
        .context("cannot run make")?;
    if !status.success() {
        bail!("the module could not be built for {what}; see above");
    }
    if args.is_empty() || args.iter().any(|arg| arg == "modules") {
        println!("rzram.ko is built for {what}");
    }
    Ok(())
}

/// The guest's kernel, and how to call it.
fn guests(ctx: &Ctx, running: &str) -> Result<(PathBuf, String)> {
    let kernel = kernel::ensure(ctx)?;
    let what = if kernel.release.name == running {
        format!("{running}, the running kernel and the guest's")
    } else {
        format!("{}, the guest's kernel ({running}, which is running, is none that Debian has Rust support for)", kernel.release.name)
    };
    Ok((kernel.build, what))
}

/// What a build makes: rzram, and what lends it lz4hc where the kernel has that.
const FILES: [&str; 2] = ["rzram.ko", "rzram_lz4hc.ko"];

/// Builds the modules where they are out of date and reads them; make's output is shown only when it fails.
pub fn fresh(ctx: &Ctx, kernel: &Kernel) -> Result<Vec<(String, Vec<u8>)>> {
    let _lock;
    let dir = match kernel.kind {
        Kind::Stock => {
            _lock = lock(ctx)?;
            ctx.tree.clone()
        }
        // The tree's rzram.ko is for the stock kernel, and `MO=` accepts no tree in which something was built.
        Kind::Debug | Kind::Uml => {
            let name = format!("module-{}", cache::key(&(&ctx.tree, &kernel.release)));
            _lock = cache::lock(ctx, &name)?;
            let dir = ctx.cache.join(name);
            mirror(&ctx.tree, &dir)?;
            dir
        }
    };
    quietly(
        &format!("building rzram.ko for {}", kernel.release.name),
        make(&dir, &kernel.build)
            .args(kernel.make_args())
            .arg("modules"),
    )?;
    FILES
        .into_iter()
        .map(|name| {
            let file = dir.join(name);
            let content =
                fs::read(&file).with_context(|| format!("the build made no {}", file.display()))?;
            Ok((name.to_owned(), content))
        })
        .collect()
}

/// Builds the module that offers several ways to lock its table, which no other build shall meet, and reads it.
pub fn locking_lab(ctx: &Ctx, kernel: &Kernel) -> Result<Vec<u8>> {
    let name = format!(
        "module-locking-{}",
        cache::key(&(&ctx.tree, &kernel.release))
    );
    let _lock = cache::lock(ctx, &name)?;
    let dir = ctx.cache.join(name);
    mirror(&ctx.tree, &dir)?;
    quietly(
        "building rzram.ko with LOCKING_LAB=1",
        make(&dir, &kernel.build).args([LOCKING_LAB, "modules"]),
    )?;
    let file = dir.join(FILES[0]);
    fs::read(&file).with_context(|| format!("the build made no {}", file.display()))
}

/// Runs a command with its output passed through.
pub fn pass(what: &str, command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot run {command:?}"))?;
    if !status.success() {
        bail!("{what}: see above");
    }
    Ok(())
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
        eprint!(
            "{}{}",
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr)
        );
        bail!("{what} failed; see above");
    }
    Ok(())
}

/// The command that formats the module's sources, or with `check` complains where they are not.
pub fn rustfmt(ctx: &Ctx, kernel: &Kernel, check: bool) -> Command {
    let mut command = Command::new("rustfmt");
    command
        .args(["--edition", "2021", "--config-path"])
        .arg(kernel.source.join(".rustfmt.toml"));
    if check {
        command.arg("--check");
    }
    command
        .args(["rzram.rs", "rzram_lz4hc.rs"])
        .current_dir(&ctx.tree); // it follows the mods
    command
}

/// What a build takes to offer several ways to lock the table.
const LOCKING_LAB: &str = "LOCKING_LAB=1";

/// Arguments of all builds that there can be for a kernel, each of which has code of its own.
pub fn variants(kernel: &Kernel) -> Vec<&'static [&'static str]> {
    let config = fs::read_to_string(kernel.build.join(".config")).unwrap_or_default();
    // See sys/slot/lab.rs: other locks altogether.
    let real_time = config.lines().any(|line| line == "CONFIG_PREEMPT_RT=y");
    match real_time {
        true => vec![&[]],
        false => vec![&[], &[LOCKING_LAB]],
    }
}

/// The command that runs clippy on the module as the kernel does, with the lock to be held meanwhile. `more` is for make.
pub fn clippy(ctx: &Ctx, kernel: &Kernel, more: &[&str]) -> Result<(Flock<File>, Command)> {
    let key = cache::key(&(&ctx.tree, &kernel.release, more));
    let name = format!("clippy-{key}");
    let lock = cache::lock(ctx, &name)?;
    // Other flags than the real build's, so products of its own; and `MO=` accepts no tree in which something was built.
    let dir = ctx.cache.join(name);
    mirror(&ctx.tree, &dir)?;
    let mut command = make(&dir, &kernel.build);
    command.args(["CLIPPY=1", "W=e", "modules"]).args(more);
    Ok((lock, command))
}

/// Makes the sources in `to` those of `from`; files that are the same are left alone, so that make need not build anew.
fn mirror(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    let wanted = sources(from)?;
    for stale in sources(to)? {
        if !wanted.contains(&stale) {
            fs::remove_file(to.join(stale))?;
        }
    }
    for file in wanted {
        let (source, copy) = (from.join(&file), to.join(&file));
        let text = fs::read(&source)?;
        if fs::read(&copy).is_ok_and(|old| old == text) {
            continue;
        }
        if let Some(dir) = copy.parent() {
            fs::create_dir_all(dir)?;
        }
        fs::write(copy, text)?;
    }
    Ok(())
}

/// The module's sources: all that Kbuild, rustc and bindgen read, relative to `tree`, without what they generate.
pub fn sources(tree: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    collect(tree, Path::new(""), &mut files)?;
    files.sort();
    Ok(files)
}

fn collect(tree: &Path, dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(tree.join(dir))? {
        let entry = entry?;
        let name = entry.file_name();
        let path = dir.join(&name);
        let name = name.to_string_lossy();
        if name.starts_with('.')
            || ["tools", "Documentation"]
                .iter()
                .any(|other| path == Path::new(other))
        {
            continue;
        }
        if entry.file_type()?.is_dir() {
            collect(tree, &path, files)?;
        } else if name == "Kbuild"
            || path.extension().is_some_and(|extension| extension == "h")
            || (name.ends_with(".rs") && !is_generated(&tree.join(&path))?)
        {
            files.push(path);
        }
    }
    Ok(())
}

fn is_generated(file: &Path) -> Result<bool> {
    let text = fs::read_to_string(file)?;
    Ok(text
        .lines()
        .next()
        .is_some_and(|line| line.contains("automatically generated")))
}

/// How rustc was called to compile the module.
pub fn command_line(ctx: &Ctx) -> Result<String> {
    let file = ctx.tree.join(".rzram.o.cmd");
    let text = fs::read_to_string(&file)
        .with_context(|| format!("the build left no {}", file.display()))?;
    let (_, line) = text
        .lines()
        .find(|line| line.starts_with("savedcmd_"))
        .and_then(|line| line.split_once(":= "))
        .with_context(|| {
            format!(
                "{} does not say how the module was compiled",
                file.display()
            )
        })?;
    // The rest is what is done with the object.
    Ok(line.split(';').next().unwrap_or(line).to_owned())
}

/// The command that writes the module's documentation, from the flags with which it was compiled.
pub fn rustdoc(ctx: &Ctx, kernel: &Kernel) -> Result<(PathBuf, Command)> {
    let line = command_line(ctx)?;
    let out = ctx.cache.join(format!("doc-{}", cache::key(&ctx.tree)));
    let mut flags: Vec<&str> = Vec::new();
    let mut words = line.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "--out-dir" | "-o" => drop(words.next()),
            // What says how to generate code, and what to make of it, is nothing to rustdoc.
            _ if word.starts_with("--emit")
                || word.starts_with("--out-dir")
                || word.starts_with("-Zcrate-attr") => {}
            _ => flags.push(word),
        }
    }
    let start = flags
        .iter()
        .position(|word| word.ends_with("rustc"))
        .map_or(0, |at| at + 1);
    let attributes = line
        .split_whitespace()
        .filter(|word| word.starts_with("-Zcrate-attr"));
    let script = format!(
        "exec rustdoc --document-private-items --out-dir {} {} {}",
        out.display(),
        attributes.collect::<Vec<_>>().join(" "),
        flags[start..].join(" ")
    );
    let mut command = Command::new("sh");
    command
        .args(["-c", &script])
        .envs([("RUST_MODFILE", "rzram"), ("RUSTC_BOOTSTRAP", "1")])
        .env("OBJTREE", &kernel.build)
        .env("RZRAM_BINDINGS", ctx.tree.join("rzram_bindings.rs")) // as Kbuild exports it
        .current_dir(&ctx.tree);
    Ok((out, command))
}
