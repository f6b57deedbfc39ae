// SPDX-License-Identifier: GPL-2.0
//! The debug kernel: built from the stock kernel's source with all that watches memory, locks and leaks.
//!
//! Its configuration is tinyconfig with `tools/debug-kernel.config` on top. It is built once for each version, fragment and
//! toolchain; a build that was interrupted goes on where it was.

use super::{Kernel, Kind, Release};
use crate::{cache, ctx::Ctx, progress::Job};
use anyhow::{bail, Context, Result};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

/// The fragment, from the top of the tree.
const FRAGMENT: &str = "tools/debug-kernel.config";

/// Counts up when what `make` does below changes.
const RECIPE: u32 = 1;

/// What every call of make on this kernel has to be told; KASAN and Rust go together with Clang only.
pub const MAKE: [&str; 1] = ["LLVM=1"];

/// Returns the debug kernel; builds it where the cache lacks it.
pub fn ensure(ctx: &Ctx) -> Result<Kernel> {
    let stock = super::ensure(ctx)?;
    let fragment = fs::read_to_string(ctx.tree.join(FRAGMENT))
        .with_context(|| format!("cannot read {FRAGMENT}"))?;
    let key = cache::key(&(&stock.release, &fragment, toolchain()?, RECIPE));
    let (version, _) = stock
        .release
        .name
        .split_once('+')
        .context("a Debian release name has a +")?;
    let release = Release {
        name: format!("{version}-debug"),
        package: format!("{} {key}", stock.release.package),
        source: stock.release.source.clone(),
    };
    let modules = format!("image/usr/lib/modules/{}", release.name);
    let watched = [
        "build/include",
        "build/arch/x86",
        "build/rust",
        "build/scripts",
        "build/tools",
        "build/.config",
        "build/Makefile",
        "build/Module.symvers",
        &modules,
    ];
    let name = format!("kernel-{}-{key}", release.name);
    let dir = cache::entry_going_on(ctx, &name, &watched, |dir| {
        make(ctx, &stock.source, &release, &fragment, dir)
    })?;
    Ok(Kernel {
        kind: Kind::Debug,
        build: dir.join("build"),
        modules: dir.join(modules),
        source: stock.source,
        release,
    })
}

/// What the compilers call themselves.
fn toolchain() -> Result<String> {
    let mut all = String::new();
    for program in ["rustc", "clang"] {
        let out = Command::new(program)
            .arg("--version")
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot run {program}"))?;
        all += &String::from_utf8_lossy(&out.stdout);
    }
    Ok(all)
}

fn make(ctx: &Ctx, source: &Path, release: &Release, fragment: &str, dir: &Path) -> Result<()> {
    let mut job = Job::new("debug kernel", 3, ctx.logs().join("debug-kernel.log"))?;
    let build = dir.join("build");
    fs::create_dir_all(&build)?;
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let call = |job: &Job, targets: &[&str]| {
        let mut output = std::ffi::OsString::from("O=");
        output.push(&build);
        job.run(
            Command::new("make")
                .arg("-C")
                .arg(source)
                .arg(output)
                .arg(format!("-j{jobs}"))
                .args(MAKE)
                .args(targets),
        )
    };

    job.step("configuring");
    let config = build.join(".config");
    call(&job, &["tinyconfig"])?;
    let mut text = fs::read_to_string(&config)?;
    text += fragment;
    fs::write(&config, text)?;
    call(&job, &["olddefconfig"])?;
    let lost = lost(fragment, &fs::read_to_string(&config)?);
    if !lost.is_empty() {
        bail!(
            "kernel {} has no place for what {FRAGMENT} wants: {}",
            release.name,
            lost.join(", ")
        );
    }

    job.step("building (once; some ten minutes on two CPUs, and an interrupted build goes on)");
    call(&job, &["bzImage", "modules"])?;

    job.step("collecting image and modules");
    let made = fs::read_to_string(build.join("include/config/kernel.release"))?;
    if made.trim() != release.name {
        bail!(
            "the debug kernel calls itself {}, not {}",
            made.trim(),
            release.name
        );
    }
    let install = format!("INSTALL_MOD_PATH={}", dir.join("image/usr").display());
    call(&job, &["modules_install", &install])?;
    fs::copy(
        build.join("arch/x86/boot/bzImage"),
        dir.join("image/usr/lib/modules")
            .join(&release.name)
            .join("vmlinuz"),
    )?;
    job.done();
    Ok(())
}

/// The lines of the fragment that the configuration does not have.
fn lost<'a>(fragment: &'a str, config: &str) -> Vec<&'a str> {
    let has = |line: &str| config.lines().any(|other| other == line);
    fragment
        .lines()
        .filter(|line| {
            let off = line
                .strip_prefix("# ")
                .and_then(|rest| rest.strip_suffix(" is not set"));
            match off {
                // What cannot be set is not set either, and then not mentioned.
                Some(name) => {
                    let set = format!("{name}=");
                    config.lines().any(|other| other.starts_with(&set))
                }
                None => line.starts_with("CONFIG_") && !has(line),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_configuration_has_lost_is_found() {
        let fragment = "# About A.\nCONFIG_A=y\nCONFIG_B=m\n# CONFIG_C is not set\n# CONFIG_D is not set\n\nCONFIG_E=\"x\"\n";
        let config = "CONFIG_A=y\n# CONFIG_C is not set\nCONFIG_B=m\nCONFIG_E=\"x\"\n";
        assert!(lost(fragment, config).is_empty());
        let config = "CONFIG_AA=y\nCONFIG_B=y\nCONFIG_C=y\nCONFIG_D=m\nCONFIG_E=\"y\"\n";
        assert_eq!(
            lost(fragment, config),
            [
                "CONFIG_A=y",
                "CONFIG_B=m",
                "# CONFIG_C is not set",
                "# CONFIG_D is not set",
                "CONFIG_E=\"x\""
            ]
        );
    }
}
