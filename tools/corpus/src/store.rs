// SPDX-License-Identifier: GPL-2.0
//! Page files, and what is known of each.

use crate::{programs::Set, sampler::Sampler, PAGE};
use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use std::{fs, path::PathBuf};

/// Where the pages of a kind are from.
#[derive(Serialize, Deserialize)]
struct Origin {
    /// What was run, or read.
    source: String,
    /// The processes that they were taken from.
    processes: Vec<String>,
    /// Pages in the file, all different.
    pages: usize,
    /// Pages looked at.
    sampled: usize,
    /// Of these, nothing but zeros.
    zero: usize,
    /// Of these, another word over and over.
    same: usize,
    /// Of these, in the file already.
    twice: usize,
}

/// A directory with a directory for each set, with `KIND.pages` and `KIND.json`.
pub struct Store(PathBuf);

impl Store {
    /// It need not exist.
    pub fn new(dir: PathBuf) -> Self {
        Self(dir)
    }

    /// Writes the pages of a kind.
    pub fn write(
        &self,
        set: Set,
        kind: &str,
        sampler: &Sampler,
        source: &str,
        processes: &[String],
    ) -> Result<()> {
        if sampler.count() == 0 {
            bail!("{kind}: there was no page to be had");
        }
        let dir = self.0.join(set.name());
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let origin = Origin {
            source: source.to_owned(),
            processes: processes.to_owned(),
            pages: sampler.count(),
            sampled: sampler.sampled,
            zero: sampler.zero,
            same: sampler.same,
            twice: sampler.twice,
        };
        fs::write(dir.join(format!("{kind}.pages")), sampler.pages())?;
        let text = serde_json::to_string_pretty(&origin)?;
        fs::write(dir.join(format!("{kind}.json")), text + "\n")?;
        print_line(set.name(), kind, &origin);
        if !sampler.is_full() {
            eprintln!("corpus: {kind}: fewer pages than were asked for");
        }
        Ok(())
    }

    /// Prints a line a kind.
    pub fn list(&self) -> Result<()> {
        for set in Set::ALL {
            let Ok(entries) = fs::read_dir(self.0.join(set.name())) else {
                continue;
            };
            let mut files = entries
                .map(|entry| Ok(entry?.path()))
                .collect::<Result<Vec<PathBuf>>>()?;
            files.retain(|file| file.extension().is_some_and(|ending| ending == "json"));
            files.sort();
            for file in files {
                let kind = file.file_stem().unwrap_or_default().to_string_lossy();
                let origin: Origin = serde_json::from_slice(&fs::read(&file)?)
                    .with_context(|| format!("{} is damaged", file.display()))?;
                let len = fs::metadata(file.with_extension("pages"))?.len();
                if len != (origin.pages * PAGE) as u64 {
                    bail!(
                        "{} does not fit its pages; collect them anew",
                        file.display()
                    );
                }
                print_line(set.name(), &kind, &origin);
            }
        }
        Ok(())
    }
}

fn print_line(set: &str, kind: &str, origin: &Origin) {
    let share = |part: usize| 100.0 * part as f64 / origin.sampled.max(1) as f64;
    println!(
        "{set:8} {kind:12} {:6} pages; of {:6}: zero {:4.1} %, one word {:4.1} %, twice {:4.1} %; {}",
        origin.pages,
        origin.sampled,
        share(origin.zero),
        share(origin.same),
        share(origin.twice),
        origin.source,
    );
}
