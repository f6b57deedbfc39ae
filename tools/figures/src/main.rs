// SPDX-License-Identifier: GPL-2.0

//! `rzram-figures DIR`: makes tables (`results.md`) and plots (`*.svg`) of `DIR/results.json`.

mod native;
mod plots;
mod results;
mod tables;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;
use results::Results;

/// Makes tables and plots of results.
#[derive(Parser)]
struct Cli {
    /// Where results.json is, and where tables and plots go
    dir: PathBuf,
}

fn main() -> Result<()> {
    let dir = Cli::parse().dir;
    let file = dir.join("results.json");
    let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    let results: Results =
        serde_json::from_str(&text).with_context(|| format!("{}: no results", file.display()))?;
    fs::write(dir.join("results.md"), tables::all(&results))?;
    plots::all(&results, &dir)
}
