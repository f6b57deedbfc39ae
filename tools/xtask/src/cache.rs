// SPDX-License-Identifier: GPL-2.0
//! Entries of the cache: made once, under a lock, and complete only when their manifest has been written.
//!
//! An entry's directory is named after a hash of what it is made from. Its manifest lists the size of every file that
//! has to be there, so that an interrupted or damaged entry is noticed and made anew.

use crate::ctx::Ctx;
use anyhow::{bail, Context, Result};
use nix::fcntl::{Flock, FlockArg};
use std::{
    collections::hash_map::DefaultHasher,
    fmt::Write as _,
    fs::{self, File},
    hash::{Hash, Hasher},
    path::{Path, PathBuf},
};

const MANIFEST: &str = "manifest";

/// A short hash of anything hashable; stable for one build of this program's sources and compiler.
pub fn key(parts: &impl Hash) -> String {
    let mut hasher = DefaultHasher::new(); // fixed keys, so the same in every run
    parts.hash(&mut hasher);
    format!("{:016x}", hasher.finish())[..12].to_owned()
}

/// Waits for, and takes, the lock of this name.
pub fn lock(ctx: &Ctx, name: &str) -> Result<Flock<File>> {
    let path = ctx.cache.join(format!(".{name}.lock"));
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(lock),
        Err((file, _)) => {
            eprintln!("xtask: another run is busy with {name}; waiting for it");
            Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| error.into())
        }
    }
}

/// Returns the directory of entry `name`, after `make` has filled it where that is needed.
///
/// `watched` are the parts of the entry whose files must not change.
pub fn entry(
    ctx: &Ctx,
    name: &str,
    watched: &[&str],
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    entry_with(ctx, name, watched, false, make)
}

/// The same where `make` can go on with what an interrupted run has left.
pub fn entry_going_on(
    ctx: &Ctx,
    name: &str,
    watched: &[&str],
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    entry_with(ctx, name, watched, true, make)
}

fn entry_with(
    ctx: &Ctx,
    name: &str,
    watched: &[&str],
    goes_on: bool,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let dir = ctx.cache.join(name);
    if is_whole(&dir) {
        return Ok(dir);
    }
    let _lock = lock(ctx, name)?;
    if is_whole(&dir) {
        return Ok(dir);
    }
    if dir.exists() {
        let was_whole = dir.join(MANIFEST).exists();
        let found = match was_whole {
            true => "files missing or changed in",
            false => "a half-made",
        };
        if goes_on && !was_whole {
            eprintln!("xtask: found {found} {name}; going on with it");
        } else {
            eprintln!("xtask: found {found} {name}; making it anew");
            remove(&dir)?;
        }
    }
    fs::create_dir_all(&dir)?;
    make(&dir)?;
    let partial = dir.join("manifest.partial");
    fs::write(&partial, listing(&dir, watched)?)?;
    fs::rename(partial, dir.join(MANIFEST))?;
    Ok(dir)
}

/// Removes a directory of the cache, unless something is mounted beneath it.
pub fn remove(dir: &Path) -> Result<()> {
    let prefix = format!("{}/", dir.display());
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    if mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .any(|point| format!("{point}/").starts_with(&prefix))
    {
        bail!(
            "something is mounted beneath {}; unmount it and run this again",
            dir.display()
        );
    }
    fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))
}

/// Whether every file that the manifest lists is there in its size.
fn is_whole(dir: &Path) -> bool {
    let Ok(manifest) = fs::read_to_string(dir.join(MANIFEST)) else {
        return false;
    };
    manifest.lines().all(|line| match line.split_once(' ') {
        Some((size, path)) => dir
            .join(path)
            .symlink_metadata()
            .is_ok_and(|meta| meta.len().to_string() == size),
        None => false,
    })
}

/// One line, "size path", for each regular file in the watched parts.
fn listing(dir: &Path, watched: &[&str]) -> Result<String> {
    let mut lines = Vec::new();
    for part in watched {
        let path = dir.join(part);
        if path.is_dir() {
            walk(&path, &mut lines)?;
        } else {
            lines.push((path.metadata()?.len(), path));
        }
    }
    lines.sort_by(|a, b| a.1.cmp(&b.1));
    let mut text = String::new();
    for (size, path) in lines {
        writeln!(text, "{size} {}", path.strip_prefix(dir)?.display())?;
    }
    Ok(text)
}

fn walk(dir: &Path, lines: &mut Vec<(u64, PathBuf)>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&entry.path(), lines)?;
        } else if kind.is_file() {
            lines.push((entry.metadata()?.len(), entry.path()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_noticed_and_mended() -> Result<()> {
        let cache = std::env::temp_dir().join(format!("rzram-cache-{}", std::process::id()));
        fs::create_dir_all(&cache)?;
        let ctx = Ctx {
            tree: cache.clone(),
            cache: cache.clone(),
            target: cache.clone(),
            flavour: "amd64".into(),
            kernel: crate::kernel::Kind::Stock,
        };
        let mut made = 0;
        let mut ensure = || {
            entry(&ctx, "thing", &["files"], |dir| {
                made += 1;
                fs::create_dir_all(dir.join("files"))?;
                Ok(fs::write(dir.join("files/one"), "1")?)
            })
            .map(|dir| (dir, made))
        };
        assert_eq!(ensure()?.1, 1);
        let (dir, count) = ensure()?;
        assert_eq!(count, 1, "a whole entry is used as it is");
        fs::write(dir.join("files/two"), "2")?;
        assert_eq!(ensure()?.1, 1, "more files do no harm");
        fs::write(dir.join("files/one"), "longer")?;
        assert_eq!(ensure()?.1, 2, "a changed file");
        fs::remove_file(dir.join("files/one"))?;
        assert_eq!(ensure()?.1, 3, "a missing file");
        fs::remove_file(dir.join(MANIFEST))?;
        assert_eq!(ensure()?.1, 4, "an interrupted run");
        fs::remove_file(dir.join(MANIFEST))?;
        let left = |dir: &Path| {
            assert!(dir.join("files/one").exists(), "nothing was kept");
            Ok(())
        };
        entry_going_on(&ctx, "thing", &["files"], left)?;
        fs::remove_file(dir.join("files/one"))?;
        let gone = |dir: &Path| {
            assert!(!dir.join("files").exists(), "damage was kept");
            Ok(())
        };
        assert!(entry_going_on(&ctx, "thing", &["files"], gone).is_err());
        Ok(fs::remove_dir_all(cache)?)
    }
}
