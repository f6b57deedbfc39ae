// SPDX-License-Identifier: GPL-2.0

//! `rzram-guest`: what `make demo` runs in the guest, a swap check for use by hand, and the oracle's script.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use rzram_guest::{demo, oracle};

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
    /// Run every operation that zram has and write a transcript of it, to be compared with another module's
    Oracle {
        /// On what to run it
        #[arg(long)]
        module: oracle::Module,
    },
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Demo(options) => demo::run(&options),
        Command::SwapVerify { swap_mib, passes } => swap_verify(swap_mib, passes),
        Command::Oracle { module } => oracle::run(module),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("FAILED: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn swap_verify(swap_mib: u64, passes: u32) -> Result<()> {
    let traffic = demo::use_memory(swap_mib * rzram_guest::MIB, passes)?;
    println!(
        "every byte is right; {} pages went to swap, {} came back",
        traffic.out, traffic.back
    );
    Ok(())
}
