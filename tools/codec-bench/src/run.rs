// SPDX-License-Identifier: GPL-2.0
//! What the program does when it has the codecs.

use crate::{
    codecs::Name,
    corpus::{self, Pages},
    pair, plot, verify,
};
use anyhow::{bail, Context, Result};
use clap::{Parser, Subcommand, ValueEnum};
use codec_bench::results::{self, Pair};
use nix::{
    sched::{sched_setaffinity, CpuSet},
    unistd::Pid,
};
use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

#[derive(Parser)]
#[command(about = "Measure the module's own codec beside the kernel's", version)]
struct Cli {
    /// Where the page files are: `corpus` in the cache without
    #[arg(long, global = true)]
    corpus: Option<PathBuf>,
    /// Which set of them
    #[arg(long, global = true, default_value = "held-out")]
    set: String,
    /// Only these kinds
    #[arg(long, global = true)]
    kind: Vec<String>,
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measure codecs beside lz4, each pair and kind in a process of its own, and say what became of the targets
    Compare {
        /// Only these codecs
        #[arg(long, value_enum)]
        codec: Vec<Name>,
        /// How often; medians count
        #[arg(long, default_value_t = 3)]
        repeat: usize,
        /// The processor to measure on
        #[arg(long, default_value_t = 0)]
        cpu: usize,
        /// Plot time against size to this file
        #[arg(long)]
        plot: Option<PathBuf>,
    },
    /// See that every page comes back
    Verify,
    /// Measure one pair in this process, and print what came of it
    #[command(hide = true)]
    Pair {
        /// The codec
        codec: Name,
    },
}

/// See the subcommands.
pub fn main() -> Result<()> {
    let cli = Cli::parse();
    let corpus = match &cli.corpus {
        Some(dir) => dir.clone(),
        None => PathBuf::from(env::var_os("RZRAM_CACHE").context("say where with --corpus")?)
            .join("corpus"),
    };
    let set = corpus.join(&cli.set);
    let mut kinds = corpus::kinds(&set)?;
    if !cli.kind.is_empty() {
        kinds.retain(|kind| cli.kind.contains(kind));
    }
    let pages = |kind: &str| Pages::read(&set.join(format!("{kind}.pages")));
    match cli.task {
        Task::Pair { codec } => {
            for kind in &kinds {
                let pair = pair::run(kind, codec, &pages(kind)?)?;
                println!("{}", serde_json::to_string(&pair)?);
            }
        }
        Task::Verify => {
            for kind in &kinds {
                let [raw, words, sequences] = verify::run(kind, &pages(kind)?)?;
                println!("{kind:10} as words {words:6}, as LZ4 {sequences:6}, as it is {raw:6}: all came back");
            }
        }
        Task::Compare {
            codec,
            repeat,
            cpu,
            plot,
        } => {
            let mut cpus = CpuSet::new();
            cpus.set(cpu)?;
            sched_setaffinity(Pid::this(), &cpus).context("no such processor")?;
            let codecs = match codec.is_empty() {
                true => Name::value_variants().to_vec(),
                false => codec,
            };
            compare(&corpus, &cli.set, &kinds, &codecs, repeat, plot.as_deref())?;
        }
    }
    Ok(())
}

fn compare(
    corpus: &Path,
    set: &str,
    kinds: &[String],
    codecs: &[Name],
    repeat: usize,
    file: Option<&Path>,
) -> Result<()> {
    println!("| pages | codec | number | time, ns | of lz4 | stored | memory | of lz4 | as it is | back, ns | of lz4 |");
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    let mut all = Vec::new();
    for codec in codecs {
        let mut pairs = Vec::new();
        for kind in kinds {
            let mut runs = Vec::new();
            for _ in 0..repeat.max(1) {
                runs.push(measure(corpus, set, kind, *codec)?);
            }
            let pair = results::median(runs).context("nothing was measured")?;
            print_row(&pair);
            pairs.push(pair);
        }
        all.extend(pairs);
    }
    let own: Vec<Pair> = all
        .iter()
        .filter(|pair| pair.codec == Name::Wlz.text())
        .cloned()
        .collect();
    if !own.is_empty() {
        println!("\n| wlz, of the kernel's lz4 | at most | reached |\n|---|---|---|");
        for target in results::targets(&own) {
            let kind = match target.kind.as_str() {
                "" => String::new(),
                kind => format!(" ({kind})"),
            };
            let missed = if target.reached > target.at_most {
                ", missed"
            } else {
                ""
            };
            println!(
                "| {} | {:.2} | {:.3}{kind}{missed} |",
                target.what, target.at_most, target.reached
            );
        }
    }
    if let Some(file) = file {
        plot::write(&all, file)?;
        println!("\nplot: {}", file.display());
    }
    Ok(())
}

/// One pair in a process of its own, on the same processor.
fn measure(corpus: &Path, set: &str, kind: &str, codec: Name) -> Result<Pair> {
    let out = Command::new(env::current_exe()?)
        .arg("--corpus")
        .arg(corpus)
        .args(["--set", set, "--kind", kind, "pair", codec.text()])
        .stderr(Stdio::inherit())
        .output()?;
    if !out.status.success() {
        bail!("measuring {} on {kind} failed; see above", codec.text());
    }
    Ok(serde_json::from_slice(&out.stdout)?)
}

fn print_row(pair: &Pair) {
    let back = |figure: Option<f64>, digits: usize| {
        figure.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
    };
    println!(
        "| {} | {} | {} | {:.0} | {:.3} | {:.0} | {:.0} | {:.3} | {:.1} % | {} | {} |",
        pair.kind,
        pair.codec,
        pair.pages,
        pair.other.compress,
        pair.time(),
        pair.other.bytes,
        pair.other.memory,
        pair.memory(),
        100.0 * pair.other.huge,
        back(pair.other.decompress, 0),
        back(pair.back(), 3),
    );
}
