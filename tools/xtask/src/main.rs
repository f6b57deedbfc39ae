// SPDX-License-Identifier: GPL-2.0
//! rzram's tooling: prepares kernel and guest, builds the module, boots guests and runs the tests.
//!
//! It runs inside the build root that tools/bootstrap makes; `make`, tools/vm and tools/bootstrap call it.

mod apt;
mod bench;
mod cache;
mod check;
mod codec;
mod cpio;
mod ctx;
mod fuzz;
mod guest;
mod kernel;
mod module;
mod progress;
mod vm;
mod workspace;

use anyhow::Result;
use clap::{Parser, Subcommand};
use ctx::Ctx;
use std::{path::PathBuf, process::ExitCode};

#[derive(Parser)]
#[command(name = "xtask", about = "rzram's tooling", disable_version_flag = true)]
struct Cli {
    /// Debian kernel flavour: amd64, rt-amd64 or cloud-amd64
    #[arg(long, global = true, default_value = "amd64", env = "RZRAM_FLAVOUR")]
    flavour: String,
    /// The kernel that guests boot: Debian's own, or one built from its source that watches memory, locks and leaks, or that
    /// runs as a program of the host, at its speed
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "stock",
        env = "RZRAM_KERNEL"
    )]
    kernel: kernel::Kind,
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Fetch and prepare the kernel to build for and to boot
    Kernel {
        /// Ask the archive for a newer one first
        #[arg(long)]
        update: bool,
    },
    /// Make the guest's userland
    Guest,
    /// Build rzram.ko, for the running kernel where Debian has it, else for the guest's; or run other targets on it
    Build {
        /// The kernel build tree to use
        #[arg(long)]
        kdir: Option<PathBuf>,
        /// Build for the guest's kernel whatever is running
        #[arg(long)]
        guest: bool,
        /// Targets and variables for make
        args: Vec<String>,
    },
    /// Boot a guest and run a command in it
    Vm(vm::Args),
    /// Run all tests
    Check(check::Args),
    /// Measure rzram beside C zram
    Bench(bench::Args),
    /// Measure the module's own codec beside the kernel's; `codec-bench -- --help` says more
    CodecBench {
        /// For the package codec-bench
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Show in a guest what rzram does
    Demo,
    /// Do random things to disks in a guest, compared with a model, for as long as one likes
    Soak {
        /// How many
        #[arg(long, default_value_t = 1_000_000)]
        operations: u64,
        /// What they follow from; another one each time, without
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Give the module's own codec inputs that a fuzzer finds worth trying
    Fuzz(fuzz::Args),
    /// Format the module's sources and the tools
    Fmt {
        /// Only say where they are not formatted
        #[arg(long)]
        check: bool,
    },
    /// Run clippy on the module and on the tools
    Clippy,
    /// Write the module's documentation
    Doc,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    let ctx = Ctx::from_env(&cli.flavour, cli.kernel)?;
    match cli.task {
        Task::Kernel { update } => {
            if update {
                kernel::update(&ctx)?;
            }
            let kernel = kernel::ensure_kind(&ctx, ctx.kernel)?;
            println!("{} {}", kernel.release.name, kernel.build.display());
        }
        Task::Guest => {
            let kernel = kernel::ensure_kind(&ctx, ctx.kernel)?;
            println!("{}", guest::userland(&ctx)?.display());
            println!("{}", guest::modules(&ctx, &kernel)?.display());
        }
        Task::Build { kdir, guest, args } => module::build(&ctx, kdir, guest, &args)?,
        Task::Vm(args) => return vm::main(&ctx, args),
        Task::Check(args) => return check::main(&ctx, &args),
        Task::Bench(args) => return bench::main(&ctx, &args),
        Task::CodecBench { args } => codec::bench(&ctx, &args)?,
        Task::Demo => return vm::demo(&ctx),
        Task::Soak { operations, seed } => return vm::soak(&ctx, operations, seed),
        Task::Fuzz(args) => return fuzz::main(&ctx, &args),
        Task::Fmt { check } => {
            let kernel = kernel::ensure(&ctx)?;
            module::pass("rustfmt of the tools", &mut workspace::rustfmt(&ctx, check))?;
            module::pass(
                "rustfmt of the module",
                &mut module::rustfmt(&ctx, &kernel, check),
            )?;
        }
        Task::Clippy => {
            let kernel = kernel::ensure(&ctx)?;
            module::pass("clippy of the tools", &mut workspace::clippy(&ctx))?;
            for more in module::variants(&kernel) {
                let (_lock, mut command) = module::clippy(&ctx, &kernel, more)?;
                module::pass("clippy of the module", &mut command)?;
            }
        }
        Task::Doc => {
            let kernel = kernel::ensure(&ctx)?;
            module::fresh(&ctx, &kernel)?;
            let (dir, mut command) = module::rustdoc(&ctx, &kernel)?;
            module::pass("rustdoc", &mut command)?;
            println!("{}", dir.join("rzram/index.html").display());
        }
    }
    Ok(ExitCode::SUCCESS)
}
