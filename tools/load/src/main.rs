// SPDX-License-Identifier: GPL-2.0

//! `rzram-load`: measures C zram and rzram beside each other, in a guest that has both loaded.
//!
//! Each measurement is a fixed amount of work, so that time is all that differs, whichever clock it is read from. It begins
//! and ends with an instruction that QEMU's plugin for virtual time looks for, and that does nothing elsewhere. The modules
//! take turns, each being the first one as often as the other. What comes out is a line for each measurement, as
//! `rzram-cells` has it.

mod apart;
mod bench;
mod data;
mod disk;
mod fio;
mod hot;
mod iozone;
mod memory;
mod peers;
mod swap;
mod thread;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Measures C zram and rzram beside each other. Run it as root, with the modules loaded.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Read and write a disk past the page cache, in the patterns of iozone
    Bench(bench::Options),
    /// Write and read swap: a program that uses twice the memory that it may have
    Swap(swap::Options),
    /// Read one block again and again beside a writer with a slow algorithm, and tell how long reads take
    Hot(hot::Options),
    /// Write the same data to each, and tell how much memory that takes
    Memory(memory::Options),
    /// Run fio on each
    Fio(fio::Options),
    /// Run iozone on a file system on each
    Iozone(iozone::Options),
}

fn main() -> ExitCode {
    let result: Result<()> = match Cli::parse().command {
        Command::Bench(options) => bench::run(&options),
        Command::Swap(options) => swap::run(&options),
        Command::Hot(options) => hot::run(&options),
        Command::Memory(options) => memory::run(&options),
        Command::Fio(options) => fio::run(&options),
        Command::Iozone(options) => iozone::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rzram-load: {error:#}");
            ExitCode::FAILURE
        }
    }
}
