// SPDX-License-Identifier: GPL-2.0

//! `rzram-guest`: what `make demo` runs in the guest, swap checks, the oracle's script, and the model.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use rzram_guest::hog::Hog;
use rzram_guest::{demo, model, oracle};

/// Shows and checks rzram inside a guest. Run it as root, where rzram.ko is.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Use rzram as swap and as a disk, verify every byte, and print the statistics
    Demo(demo::Options),
    /// Use more memory than there is and verify it, with whatever swap is on
    SwapVerify {
        /// Take memory until this many MiB of it are in swap
        #[arg(long, default_value_t = 64)]
        swap_mib: u64,
        /// How often everything is verified
        #[arg(long, default_value_t = 2)]
        passes: u32,
    },
    /// Use this much memory and verify it, going through all of it again and again
    Hold {
        /// How much
        mib: u64,
        /// How often everything is verified
        #[arg(long, default_value_t = 2)]
        passes: u32,
        /// Fill it with what does not compress
        #[arg(long)]
        random: bool,
    },
    /// Run every operation that zram has and write a transcript of it, to be compared with another module's
    Oracle {
        /// On what to run it
        #[arg(long)]
        module: oracle::Module,
    },
    /// Do random things to disks and compare them with a model of a disk
    Model(model::Options),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Demo(options) => demo::run(&options),
        Command::SwapVerify { swap_mib, passes } => swap_verify(swap_mib, passes),
        Command::Hold {
            mib,
            passes,
            random,
        } => hold(mib * rzram_guest::MIB, passes, random),
        Command::Oracle { module } => oracle::run(module),
        Command::Model(options) => run_model(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("FAILED: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn hold(bytes: u64, passes: u32, random: bool) -> Result<()> {
    let mut hog = if random {
        Hog::of_random(bytes)?
    } else {
        Hog::new(bytes)?
    };
    hog.fill(1, |_| ());
    for pass in 0..passes {
        hog.verify(|_| ())?;
        hog.touch(pass + 2, 5);
    }
    hog.verify(|_| ())
}

fn run_model(options: &model::Options) -> Result<()> {
    let outcome = model::run(options)?;
    println!(
        "model: {} operations of seed {} in {:.1} s, {:.0} a second: device and model agree",
        outcome.operations,
        outcome.seed,
        outcome.took.as_secs_f64(),
        outcome.operations as f64 / outcome.took.as_secs_f64()
    );
    Ok(())
}

fn swap_verify(swap_mib: u64, passes: u32) -> Result<()> {
    let traffic = demo::use_memory(swap_mib * rzram_guest::MIB, passes)?;
    println!(
        "every byte is right; {} pages went to swap, {} came back",
        traffic.out, traffic.back
    );
    Ok(())
}
