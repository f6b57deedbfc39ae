// SPDX-License-Identifier: GPL-2.0
//! Collects pages to measure codecs with: anonymous memory of programs that it starts or is pointed at, and files.
//!
//! A kind of pages is one file of pages, one after the other, and one that says where they are from.

mod memory;
mod programs;
mod sampler;
mod store;

use anyhow::{bail, Context, Result};
use clap::{Parser, Subcommand};
use programs::{Program, Set};
use sampler::Sampler;
use std::{env, fs, path::PathBuf};
use store::Store;

/// Pages of 4 KiB.
pub const PAGE: usize = 4096;

#[derive(Parser)]
#[command(about = "Collect pages to measure codecs with", version)]
struct Cli {
    /// Where page files are kept (default: `corpus` in $RZRAM_CACHE or ~/.cache/rzram)
    #[arg(long, global = true)]
    out: Option<PathBuf>,
    /// Distinct pages of a kind
    #[arg(long, global = true, default_value_t = 12_000)]
    pages: usize,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start programs and collect their pages; those that are not installed are left out
    Programs {
        /// Those for tuning, or those held out for measuring
        #[arg(long, value_enum)]
        set: Set,
        /// Only these kinds
        #[arg(long)]
        kind: Vec<String>,
    },
    /// Collect the pages of a process that is running
    Pid {
        /// The process
        pid: i32,
        /// What to call them
        #[arg(long)]
        kind: String,
        /// The set that they belong to
        #[arg(long, value_enum)]
        set: Set,
    },
    /// Take the whole pages of files: text, or what is compressed already
    Files {
        /// What to call them
        #[arg(long)]
        kind: String,
        /// The set that they belong to
        #[arg(long, value_enum)]
        set: Set,
        /// The files
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Say what there is
    List,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let out = cli.out.map_or_else(default_dir, Ok)?;
    let store = Store::new(out);
    match cli.command {
        Command::Programs { set, kind } => {
            let wanted: Vec<Program> = programs::of(set)
                .into_iter()
                .filter(|program| kind.is_empty() || kind.iter().any(|k| k == program.kind))
                .collect();
            if wanted.is_empty() {
                bail!("no program of this set has such a kind; see `corpus list` or programs.rs");
            }
            for program in wanted {
                collect(&store, set, &program, cli.pages)?;
            }
        }
        Command::Pid { pid, kind, set } => {
            let mut sampler = Sampler::new(cli.pages);
            memory::sample(pid, cli.pages, &mut sampler)?;
            store.write(set, &kind, &sampler, &memory::command_line(pid)?, &[])?;
        }
        Command::Files { kind, set, files } => {
            let mut sampler = Sampler::new(cli.pages);
            for file in &files {
                let bytes =
                    fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
                for page in bytes.chunks_exact(PAGE) {
                    sampler.add(page);
                }
            }
            let what = format!("{} files", files.len());
            store.write(set, &kind, &sampler, &what, &[])?;
        }
        Command::List => store.list()?,
    }
    Ok(())
}

fn default_dir() -> Result<PathBuf> {
    if let Some(cache) = env::var_os("RZRAM_CACHE") {
        return Ok(PathBuf::from(cache).join("corpus"));
    }
    let home = env::var_os("HOME").context("HOME is not set; say where with --out")?;
    Ok(PathBuf::from(home).join(".cache/rzram/corpus"))
}

fn collect(store: &Store, set: Set, program: &Program, pages: usize) -> Result<()> {
    let Some(run) = program.prepare()? else {
        eprintln!(
            "corpus: {}: {} is not installed; left out",
            program.kind, program.needs
        );
        return Ok(());
    };
    eprintln!("corpus: {}: running {}", program.kind, program.what);
    let mut sampler = Sampler::new(pages);
    let processes = run.sample(program, &mut sampler)?;
    store.write(set, program.kind, &sampler, program.what, &processes)
}
