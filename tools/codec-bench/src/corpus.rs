// SPDX-License-Identifier: GPL-2.0
//! The pages that tools/corpus collected.

use anyhow::{bail, Context, Result};
use codec_bench::cost::PAGE;
use std::{fs, path::Path};

/// Pages of a kind, each aligned as pages are.
pub struct Pages {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Pages {
    /// Reads a file of pages.
    pub fn read(file: &Path) -> Result<Self> {
        let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let mut memory = vec![0; bytes.len() + PAGE];
        let start = memory.as_ptr().align_offset(PAGE);
        memory[start..start + bytes.len()].copy_from_slice(&bytes);
        Ok(Self {
            memory,
            start,
            len: bytes.len() / PAGE,
        })
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.len
    }

    /// One of them.
    pub fn page(&self, index: usize) -> &[u8] {
        &self.memory[self.start + index * PAGE..][..PAGE]
    }
}

/// The kinds of a set, by name.
pub fn kinds(set: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(set).with_context(|| {
        format!(
            "there are no pages in {}; collect some with tools/corpus",
            set.display()
        )
    })?;
    let mut kinds = Vec::new();
    for entry in entries {
        let file = entry?.path();
        if file.extension().is_some_and(|ending| ending == "pages") {
            kinds.extend(
                file.file_stem()
                    .map(|kind| kind.to_string_lossy().into_owned()),
            );
        }
    }
    if kinds.is_empty() {
        bail!(
            "there are no pages in {}; collect some with tools/corpus",
            set.display()
        );
    }
    kinds.sort();
    Ok(kinds)
}
