// SPDX-License-Identifier: GPL-2.0
//! Where things are: the source tree, the cache, and the kernel flavour that is asked for.

use crate::kernel::Kind;
use anyhow::{Context, Result};
use std::{env, path::PathBuf};

/// The surroundings of one run, as tools/bootstrap hands them over.
#[derive(Clone, Debug)]
pub struct Ctx {
    /// Top of the source tree.
    pub tree: PathBuf,
    /// Everything that is made once and kept, outside the tree.
    pub cache: PathBuf,
    /// Cargo's target directory for this tree.
    pub target: PathBuf,
    /// The Debian kernel flavour: `amd64`, `rt-amd64`, `cloud-amd64`.
    pub flavour: String,
    /// Which kernel guests boot.
    pub kernel: Kind,
}

impl Ctx {
    /// Reads the environment that tools/bootstrap sets up.
    pub fn from_env(flavour: &str, kernel: Kind) -> Result<Self> {
        let dir = |name: &str| {
            env::var_os(name)
                .map(PathBuf::from)
                .with_context(|| format!("{name} is not set; start this through tools/bootstrap"))
        };
        let ctx = Self {
            tree: dir("RZRAM_TREE")?,
            cache: dir("RZRAM_CACHE")?,
            target: dir("CARGO_TARGET_DIR")?,
            flavour: flavour.to_owned(),
            kernel,
        };
        std::fs::create_dir_all(ctx.logs())?;
        Ok(ctx)
    }

    /// Where long steps and failed guests leave their logs.
    pub fn logs(&self) -> PathBuf {
        self.cache.join("logs")
    }

    /// The directory of the tools workspace.
    pub fn tools(&self) -> PathBuf {
        self.tree.join("tools")
    }

    /// Whether the tree holds a module to be built.
    pub fn has_module(&self) -> bool {
        self.tree.join("Kbuild").exists() && self.tree.join("rzram.rs").exists()
    }

    /// Whether the workspace has a member directory of this name.
    pub fn has_member(&self, dir: &str) -> bool {
        self.tools().join(dir).join("Cargo.toml").exists()
    }
}
