// SPDX-License-Identifier: GPL-2.0

//! The disks that are compared: number 0 of each module.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use rzram_guest::attr;

/// Disk 0 of a module, or of one of the lockings of a build for comparing these.
#[derive(Clone, Debug)]
pub struct Disk {
    /// As it is called in the results: `zram`, `rzram`, `rzram:rwlock`.
    pub module: String,
    name: String,
}

impl Disk {
    /// The disk that results call `module`, which has the number behind a `#`, or 0: `rzram#2`.
    pub fn new(module: &str) -> Result<Disk> {
        let (module, id) = module.split_once('#').unwrap_or((module, "0"));
        let driver = module.split(':').next().unwrap_or(module);
        let disk = Disk {
            module: module.to_owned(),
            name: format!("{driver}{id}"),
        };
        attr::read(&disk.attribute("initstate"))
            .with_context(|| format!("{module}: is the module loaded?"))?;
        Ok(disk)
    }

    /// The device's node.
    pub fn node(&self) -> String {
        format!("/dev/{}", self.name)
    }

    /// The file of an attribute.
    pub fn attribute(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/sys/block/{}/{name}", self.name))
    }

    /// Takes everything away from the disk.
    pub fn reset(&self) -> Result<()> {
        attr::set(&self.attribute("reset"), "1")
    }

    /// Which codec is meant for this disk: in `wlz/lz4` the first one for rzram, the last one for the zram it is compared with.
    fn own<'a>(&self, codec: &'a str) -> &'a str {
        match codec.split_once('/') {
            Some((_, peer)) if self.module == "zram" => peer,
            Some((ours, _)) => ours,
            None => codec,
        }
    }

    /// Sets the disk up anew, empty. The codec may have a level, as in `zstd:15`.
    pub fn set_up(&self, codec: &str, bytes: u64) -> Result<()> {
        let codec = self.own(codec);
        let (name, level) = codec
            .split_once(':')
            .map_or((codec, None), |(name, level)| (name, Some(level)));
        self.reset()?;
        attr::set(&self.attribute("comp_algorithm"), name)?;
        if let Some(level) = level {
            let parameters = format!("level={level}");
            attr::set(&self.attribute("algorithm_params"), &parameters)?;
        }
        attr::set(&self.attribute("disksize"), &bytes.to_string())
    }

    /// Whether the disk has the algorithm.
    pub fn has(&self, codec: &str) -> Result<bool> {
        let codec = self.own(codec);
        let name = codec.split(':').next().unwrap_or(codec);
        let list = attr::read(&self.attribute("comp_algorithm"))?;
        Ok(list
            .split_whitespace()
            .any(|word| word.trim_matches(['[', ']']) == name))
    }

    /// Opens the node past the page cache.
    pub fn open(&self) -> Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_DIRECT)
            .open(self.node())
            .with_context(|| format!("opening {}", self.node()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_may_have_different_codecs() {
        let disk = |module: &str| Disk {
            module: module.into(),
            name: "x0".into(),
        };
        for module in ["zram", "rzram", "rzram#1"] {
            assert_eq!(disk(module).own("zstd:15"), "zstd:15");
        }
        assert_eq!(disk("zram").own("wlz/lz4"), "lz4");
        assert_eq!(disk("rzram").own("wlz/lz4"), "wlz");
        assert_eq!(disk("rzram:rwlock").own("wlz/lz4"), "wlz");
    }
}
