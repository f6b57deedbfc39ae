// SPDX-License-Identifier: GPL-2.0

//! rzram where `make install` puts it, so that modprobe and the kernel find it.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::module::{lz4hc_file, module_file};
use crate::run::run;

/// The modules are installed; dropping it takes them away again.
#[must_use]
pub struct Installed {
    files: Vec<PathBuf>,
}

impl Installed {
    /// Installs rzram.ko and rzram_lz4hc.ko.
    pub fn new() -> Result<Installed> {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
        let dir = PathBuf::from(format!("/usr/lib/modules/{}/updates", release.trim()));
        fs::create_dir_all(&dir)?;
        let mut installed = Installed { files: Vec::new() };
        for (from, name) in [
            (module_file(), "rzram.ko"),
            (lz4hc_file(), "rzram_lz4hc.ko"),
        ] {
            let file = dir.join(name);
            fs::copy(&from, &file).with_context(|| format!("installing {from}"))?;
            installed.files.push(file);
        }
        run("depmod", &[])?;
        Ok(installed)
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        for file in &self.files {
            let _ = fs::remove_file(file);
        }
        let _ = run("depmod", &[]);
    }
}
