// SPDX-License-Identifier: GPL-2.0

//! Copying a real tree of files, and comparing the copy byte by byte.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{bail, ensure, Context, Result};

/// What was copied.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    files: Vec<(PathBuf, PathBuf)>,
    links: Vec<(PathBuf, PathBuf)>,
    /// Bytes in all files.
    pub bytes: u64,
}

impl Tree {
    /// How many files and links were copied.
    pub fn entries(&self) -> usize {
        self.files.len() + self.links.len()
    }

    /// Copies `from` into the directory `to` until `limit` bytes are copied.
    pub fn copy(from: &Path, to: &Path, limit: u64) -> Result<Tree> {
        let mut tree = Tree::default();
        tree.copy_directory(from, to, limit)?;
        ensure!(tree.bytes > 0, "{} has no files to copy", from.display());
        Ok(tree)
    }

    fn copy_directory(&mut self, from: &Path, to: &Path, limit: u64) -> Result<()> {
        fs::create_dir_all(to).with_context(|| format!("making {}", to.display()))?;
        let entries = fs::read_dir(from).with_context(|| format!("reading {}", from.display()))?;
        let mut entries = entries.collect::<std::io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            if self.bytes >= limit {
                return Ok(());
            }
            let (source, target) = (entry.path(), to.join(entry.file_name()));
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.copy_directory(&source, &target, limit)?;
            } else if kind.is_symlink() {
                symlink(fs::read_link(&source)?, &target)
                    .with_context(|| format!("linking {}", target.display()))?;
                self.links.push((source, target));
            } else if kind.is_file() && self.bytes + entry.metadata()?.len() <= limit {
                self.bytes += fs::copy(&source, &target).with_context(|| {
                    format!("copying {} to {}", source.display(), target.display())
                })?;
                self.files.push((source, target));
            }
        }
        Ok(())
    }

    /// Compares every copy with its original.
    pub fn compare(&self) -> Result<()> {
        for (source, target) in &self.files {
            let expected =
                fs::read(source).with_context(|| format!("reading {}", source.display()))?;
            let came = fs::read(target).with_context(|| format!("reading {}", target.display()))?;
            crate::blk::equal(&format!("{}", target.display()), &expected, &came)?;
        }
        for (source, target) in &self.links {
            let (expected, came) = (fs::read_link(source)?, fs::read_link(target)?);
            if expected != came {
                bail!(
                    "{} leads to {}, not to {}",
                    target.display(),
                    came.display(),
                    expected.display()
                );
            }
        }
        Ok(())
    }
}

/// A tree of the guest's own that has at least `bytes` in it.
pub fn real_tree() -> &'static Path {
    ["/usr/lib", "/usr/share", "/usr/bin"]
        .into_iter()
        .map(Path::new)
        .find(|path| path.is_dir())
        .unwrap_or(Path::new("/usr"))
}
