// SPDX-License-Identifier: GPL-2.0
//! Asking the build root's apt which packages there are, and fetching them without installing them.

use crate::progress::Job;
use anyhow::{bail, Context, Result};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// Fetches the package lists anew.
pub fn update(job: &Job) -> Result<()> {
    job.run(Command::new("apt-get").args([
        "-o",
        "Acquire::Retries=3",
        "-o",
        "APT::Update::Error-Mode=any",
        "update",
    ]))
}

/// The same where they are more than an hour old; those of a build root just made are not.
pub fn update_if_old(job: &Job) -> Result<()> {
    let lists = fs::metadata("/var/lib/apt/lists").and_then(|lists| lists.modified());
    match lists.map(|time| time.elapsed()) {
        Ok(Ok(age)) if age < Duration::from_secs(3600) => Ok(()),
        _ => update(job),
    }
}

fn output(command: &mut Command) -> Result<String> {
    let out = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    if !out.status.success() {
        bail!(
            "{command:?} failed: {}",
            String::from_utf8_lossy(&out.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// All package names that start with `prefix`.
pub fn names(prefix: &str) -> Result<Vec<String>> {
    let text = output(Command::new("apt-cache").args(["pkgnames", prefix]))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// The versions that the archive has of each of these packages; unknown packages are left out.
pub fn versions(packages: &[String]) -> Result<BTreeMap<String, Vec<String>>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    if packages.is_empty() {
        return Ok(found);
    }
    let text = output(Command::new("apt-cache").arg("madison").args(packages))?;
    for line in text.lines() {
        let mut fields = line.split('|').map(str::trim);
        if let (Some(name), Some(version)) = (fields.next(), fields.next()) {
            found
                .entry(name.to_owned())
                .or_default()
                .push(version.to_owned());
        }
    }
    Ok(found)
}

/// Downloads `packages` (as `name=version`) into `dir` and returns the files.
pub fn download(job: &Job, dir: &Path, packages: &[String]) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(dir)?;
    job.run(
        Command::new("apt-get")
            .args([
                "-o",
                "APT::Sandbox::User=root",
                "-o",
                "Acquire::Retries=3",
                "download",
            ])
            .args(packages)
            .current_dir(dir),
    )?;
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        files.push(entry?.path());
    }
    Ok(files)
}
