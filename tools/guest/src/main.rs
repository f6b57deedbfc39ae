// SPDX-License-Identifier: GPL-2.0

//! `rzram-guest`: what `make demo` runs in the guest, and a swap check for use by hand.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use rzram_guest::demo;

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
        /// Memory to use, in percent of what is to be had without swap
        #[arg(long, default_value_t = 115)]
        percent: u64,
        /// How often everything is verified
        #[arg(long, default_value_t = 2)]
        passes: u32,
    },
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Demo(options) => demo::run(&options),
        Command::SwapVerify { percent, passes } => swap_verify(percent, passes),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("FAILED: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn swap_verify(percent: u64, passes: u32) -> Result<()> {
    let traffic = demo::use_memory(rzram_guest::hog::pressure(percent)?, passes)?;
    println!(
        "every byte is right; {} pages went to swap, {} came back",
        traffic.out, traffic.back
    );
    Ok(())
}
