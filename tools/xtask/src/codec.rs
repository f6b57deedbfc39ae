// SPDX-License-Identifier: GPL-2.0
//! The module's own codec as an object of its own: compiled as the module is, to be measured and looked into.

use crate::{
    cache,
    ctx::Ctx,
    kernel::{self, Kernel},
    module,
};
use anyhow::{bail, Context, Result};
use std::{fs, path::PathBuf, process::Command};

/// The crate that has the codec and nothing else, from the top of the tree.
const ROOT: &str = "tools/codec-bench/object/codec.rs";

/// Compiles it, with the command that compiled the module but for what needs a kernel around it.
pub fn object(ctx: &Ctx, kernel: &Kernel) -> Result<PathBuf> {
    module::fresh(ctx, kernel)?;
    let line = module::command_line(ctx)?;
    let dir = ctx.cache.join(format!("codec-{}", cache::key(&ctx.tree)));
    fs::create_dir_all(&dir)?;
    let (object, new) = (dir.join("codec.o"), dir.join("new.o"));
    let mut words = Vec::new();
    let mut rest = line.split_whitespace();
    while let Some(word) = rest.next() {
        match word {
            "--out-dir" | "-o" => drop(rest.next()),
            "rzram.rs" => words.push(ROOT.to_owned()),
            _ if word.starts_with("--emit")
                // What the loader rewrites when a module is loaded.
                || word.starts_with("-Zpatchable-function-entry")
                || word.starts_with("-Zfunction-return") => {}
            _ => words.push(word.to_owned()),
        }
    }
    if !words.iter().any(|word| word == ROOT) {
        bail!("cannot make out how the module was compiled: {line}");
    }
    let script = format!(
        "{} --crate-name codec --emit=obj={}",
        words.join(" "),
        new.display()
    );
    let mut command = Command::new("sh");
    command
        .args(["-c", &script])
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(&ctx.tree);
    module::quietly("building the codec", &mut command)?;
    // Left alone where it is the same, so that nothing is built anew for it.
    if !fs::read(&object).is_ok_and(|old| fs::read(&new).is_ok_and(|new| new == old)) {
        fs::rename(&new, &object)?;
    }
    Ok(object)
}

/// Names that the object needs from elsewhere.
pub fn needs(object: &PathBuf) -> Result<Vec<String>> {
    let out = Command::new("nm")
        .args(["--undefined-only", "--format=just-symbols"])
        .arg(object)
        .output()
        .context("cannot run nm")?;
    if !out.status.success() {
        bail!("nm: {}", String::from_utf8_lossy(&out.stderr));
    }
    let text = String::from_utf8_lossy(&out.stdout);
    Ok(text.lines().map(str::to_owned).collect())
}

/// Builds codec-bench with all codecs, and runs it.
pub fn bench(ctx: &Ctx, args: &[String]) -> Result<()> {
    let kernel = kernel::ensure(ctx)?;
    let object = object(ctx, &kernel)?;
    let cargo = |task: &str| {
        let mut command = Command::new("cargo");
        command
            .args([
                task,
                "--quiet",
                "--release",
                "--locked",
                "-p",
                "codec-bench",
            ])
            .env("RZRAM_CODEC_SOURCE", &kernel.source)
            .env("RZRAM_CODEC_BUILD", &kernel.build)
            .env("RZRAM_CODEC_OBJECT", &object)
            .current_dir(ctx.tools());
        command
    };
    module::quietly("building codec-bench", &mut cargo("build"))?;
    module::pass("codec-bench", cargo("run").arg("--").args(args))
}
