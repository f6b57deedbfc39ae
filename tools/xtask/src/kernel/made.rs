// SPDX-License-Identifier: GPL-2.0
//! Kernels that are made from the stock kernel's source: one that watches, and one that runs at native speed.
//!
//! A configuration is tinyconfig with a fragment of `tools/` on top. A kernel is built once for each version, fragment and
//! toolchain; a build that was interrupted goes on where it was.

use super::{Kernel, Kind, Release};
use crate::{cache, ctx::Ctx, progress::Job};
use anyhow::{bail, Context, Result};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

/// How a kernel is made.
#[derive(Debug)]
pub struct Recipe {
    kind: Kind,
    /// The end of the kernel's name.
    name: &'static str,
    /// The fragment, from the top of the tree.
    fragment: &'static str,
    /// What every call of make on this kernel has to be told.
    pub make: &'static [&'static str],
    /// What says its version for the cache's key, with rustc.
    compiler: &'static str,
    /// What make calls the image, and where it puts it.
    image: [&'static str; 2],
    /// Directories of the architecture in the build tree.
    arch: &'static [&'static str],
    /// How long it takes to build.
    takes: &'static str,
    /// Counts up when what `make` does below changes.
    version: u32,
}

/// With all that watches memory, locks and leaks. KASAN and Rust go together with Clang only.
pub const DEBUG: Recipe = Recipe {
    kind: Kind::Debug,
    name: "debug",
    fragment: "tools/debug-kernel.config",
    make: &["LLVM=1"],
    compiler: "clang",
    image: ["bzImage", "arch/x86/boot/bzImage"],
    arch: &["build/arch/x86"],
    takes: "some ten minutes on two CPUs",
    version: 1,
};

/// User-mode Linux, which runs as a program of the host.
pub const UML: Recipe = Recipe {
    kind: Kind::Uml,
    name: "uml",
    fragment: "tools/uml-kernel.config",
    make: &["ARCH=um"],
    compiler: "gcc",
    image: ["linux", "linux"],
    arch: &["build/arch/um", "build/arch/x86"],
    takes: "some five minutes on two CPUs",
    version: 1,
};

/// Returns the kernel that the recipe gives; builds it where the cache lacks it.
pub fn ensure(ctx: &Ctx, recipe: &Recipe) -> Result<Kernel> {
    let stock = super::ensure(ctx)?;
    let path = recipe.fragment;
    let fragment =
        fs::read_to_string(ctx.tree.join(path)).with_context(|| format!("cannot read {path}"))?;
    let toolchain = toolchain(recipe.compiler)?;
    let key = cache::key(&(&stock.release, &fragment, toolchain, recipe.version));
    let (version, _) = stock
        .release
        .name
        .split_once('+')
        .context("a Debian release name has a +")?;
    let release = Release {
        name: format!("{version}-{}", recipe.name),
        package: format!("{} {key}", stock.release.package),
        source: stock.release.source.clone(),
    };
    let modules = format!("image/usr/lib/modules/{}", release.name);
    let mut watched = vec![
        "build/include",
        "build/rust",
        "build/scripts",
        "build/.config",
        "build/Makefile",
        "build/Module.symvers",
        &modules,
    ];
    watched.extend(recipe.arch);
    let name = format!("kernel-{}-{key}", release.name);
    let dir = cache::entry_going_on(ctx, &name, &watched, |dir| {
        make(ctx, recipe, &stock.source, &release, &fragment, dir)
    })?;
    Ok(Kernel {
        kind: recipe.kind,
        build: dir.join("build"),
        modules: dir.join(modules),
        source: stock.source,
        release,
    })
}

/// What the compilers call themselves.
fn toolchain(compiler: &str) -> Result<String> {
    let mut all = String::new();
    for program in ["rustc", compiler] {
        let out = Command::new(program)
            .arg("--version")
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot run {program}"))?;
        all += &String::from_utf8_lossy(&out.stdout);
    }
    Ok(all)
}

fn make(
    ctx: &Ctx,
    recipe: &Recipe,
    source: &Path,
    release: &Release,
    fragment: &str,
    dir: &Path,
) -> Result<()> {
    let kind = recipe.name;
    let log = ctx.logs().join(format!("{kind}-kernel.log"));
    let mut job = Job::new(&format!("{kind} kernel"), 3, log)?;
    let build = dir.join("build");
    fs::create_dir_all(&build)?;
    let call = |job: &Job, targets: &[&str]| {
        job.run(
            super::make_in(source, &build)
                .args(recipe.make)
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
            "kernel {} has no place for what {} wants: {}",
            release.name,
            recipe.fragment,
            lost.join(", ")
        );
    }

    job.step(&format!(
        "building (once; {}, and an interrupted build goes on)",
        recipe.takes
    ));
    let [target, image] = recipe.image;
    call(&job, &[target, "modules"])?;

    job.step("collecting image and modules");
    let made = fs::read_to_string(build.join("include/config/kernel.release"))?;
    if made.trim() != release.name {
        bail!(
            "the {kind} kernel calls itself {}, not {}",
            made.trim(),
            release.name
        );
    }
    let install = format!("INSTALL_MOD_PATH={}", dir.join("image/usr").display());
    call(&job, &["modules_install", &install])?;
    fs::copy(
        build.join(image),
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
