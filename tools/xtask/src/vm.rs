// SPDX-License-Identifier: GPL-2.0
//! Guests: Debian's stock kernel or one made from its source, the userland of the guest module, and one command that runs as root in it.

pub mod accel;
mod boot;
mod klog;
mod machine;
mod qemu;
mod run;
mod uml;

use crate::{
    ctx::Ctx,
    guest, kernel,
    kernel::{Kernel, Kind},
    module, workspace,
};
use anyhow::{bail, Result};
use std::{
    fs::File,
    io::Write,
    path::PathBuf,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

pub use run::{Ending, Sink};

/// The exit status that says that the guest, not the command, failed.
const GUEST_FAILED: u8 = 125;

/// What tools/vm takes.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Number of CPUs
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: u32,
    /// Memory, such as 512M or 2G
    #[arg(long, default_value = "2G", value_parser = memory)]
    mem: u64,
    /// Show this directory of the host at /share, writable
    #[arg(long)]
    share: Option<PathBuf>,
    /// One CPU whose clock counts instructions: slow, but the same in every run
    #[arg(long)]
    icount: bool,
    /// Added to the kernel's command line
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    append: String,
    /// Seconds after which the guest counts as hung
    #[arg(long, default_value_t = 600)]
    timeout: u64,
    /// An interactive shell, or COMMAND with this terminal
    #[arg(long)]
    shell: bool,
    /// Leave rzram.ko out, and do not build it
    #[arg(long)]
    no_module: bool,
    /// Look for leaks when COMMAND has ended (debug kernel only; unloads rzram and takes half a minute)
    #[arg(long)]
    leaks: bool,
    /// Print the kernel's log to stderr as it comes
    #[arg(long)]
    klog: bool,
    /// What to run; a single word or string is run by bash
    #[arg(last = true)]
    command: Vec<String>,
}

/// Everything that one guest needs.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Number of virtual CPUs.
    pub cpus: u32,
    /// Bytes of memory.
    pub mem: u64,
    /// A directory of the host to show in the guest.
    pub share: Option<PathBuf>,
    /// Whether time counts instructions.
    pub icount: bool,
    /// A plugin for QEMU, with its arguments.
    pub plugin: Option<String>,
    /// More kernel parameters.
    pub append: String,
    /// When to give up; `None` never.
    pub timeout: Option<Duration>,
    /// Whether the command gets this process's terminal.
    pub terminal: bool,
    /// Whether to look for leaks when the command has ended; see [`Platform::finds_leaks`].
    pub leaks: bool,
    /// Whether the kernel's log goes to stderr as well.
    pub klog: bool,
    /// The command.
    pub argv: Vec<String>,
    /// Files put into the directory in which the command runs: name and content; all are executable.
    pub files: Vec<(String, Vec<u8>)>,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            cpus: 2,
            mem: 2 << 30,
            share: None,
            icount: false,
            plugin: None,
            append: String::new(),
            timeout: Some(Duration::from_secs(600)),
            terminal: false,
            leaks: false,
            klog: false,
            argv: Vec::new(),
            files: Vec::new(),
        }
    }
}

/// Kernel, userland and accelerator: what all guests have in common.
#[derive(Clone, Debug)]
pub struct Platform {
    /// The kernel that is booted.
    pub kernel: Kernel,
    archives: [PathBuf; 2],
    init: Vec<u8>,
    accel: accel::Accel,
}

impl Platform {
    /// Makes whatever is missing.
    pub fn ensure(ctx: &Ctx) -> Result<Self> {
        // First, for it may renew the package lists, which the others only read.
        kernel::resolve_newest(ctx)?;
        let (kernel, userland, init) = thread::scope(|scope| {
            // Neither needs both processors all the time, so the one fills the other's gaps.
            let rest = scope.spawn(|| anyhow::Ok((guest::userland(ctx)?, boot::init(ctx)?)));
            let kernel = kernel::ensure_kind(ctx, ctx.kernel)?;
            match rest.join() {
                Ok(rest) => rest.map(|(userland, init)| (kernel, userland, init)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })?;
        let archives = [userland, guest::modules(ctx, &kernel)?];
        let mut platform = Self {
            kernel,
            archives,
            init,
            accel: accel::Accel::Tcg,
        };
        if platform.kernel.kind != Kind::Uml {
            platform.accel = accel::choose(ctx, &platform)?;
        }
        Ok(platform)
    }

    /// How many times longer than on the stock kernel everything may take.
    pub fn patience(&self) -> u32 {
        match self.kernel.kind {
            Kind::Stock | Kind::Uml => 1,
            Kind::Debug => 5,
        }
    }

    /// What a guest needs where it has `bytes` on the stock kernel.
    pub fn memory(&self, bytes: u64) -> u64 {
        match self.kernel.kind {
            Kind::Stock | Kind::Uml => bytes,
            // KASAN takes an eighth; records of leaks, owners and freed objects, and a larger kernel the rest.
            Kind::Debug => bytes + bytes / 4 + (256 << 20),
        }
    }

    /// Whether guests can look for leaks.
    pub fn finds_leaks(&self) -> bool {
        self.kernel.kind == Kind::Debug
    }

    /// Boots a guest and runs its command to the end.
    pub fn run(&self, spec: &Spec, sink: &mut dyn Sink) -> Result<Ending> {
        self.run_with(self.accel, spec, sink)
    }

    fn run_with(&self, accel: accel::Accel, spec: &Spec, sink: &mut dyn Sink) -> Result<Ending> {
        run::run(self, accel, spec, sink)
    }

    fn start(&self, accel: accel::Accel, spec: &Spec, initrd: File) -> Result<machine::Machine> {
        match self.kernel.kind {
            Kind::Uml => uml::start(self, spec, initrd),
            Kind::Stock | Kind::Debug => qemu::start(self, accel, spec, initrd),
        }
    }

    /// One line about the guest that `spec` gives.
    pub fn describe(&self, spec: &Spec) -> String {
        let accel = match (self.kernel.kind, spec.icount) {
            (Kind::Uml, _) => "a program of the host",
            (_, true) => "TCG counting instructions",
            (_, false) => self.accel.describe(),
        };
        let cpus = if spec.icount { 1 } else { spec.cpus };
        format!(
            "{}, {accel}, CPUs: {cpus}, memory: {} MiB",
            self.kernel.release.name,
            spec.mem >> 20
        )
    }
}

/// Passes a guest's output through.
pub struct Live;

impl Sink for Live {
    fn out(&mut self, data: &[u8]) -> Result<()> {
        let mut out = std::io::stdout().lock();
        out.write_all(data)?;
        Ok(out.flush()?)
    }

    fn err(&mut self, data: &[u8]) -> Result<()> {
        Ok(std::io::stderr().write_all(data)?)
    }
}

/// The vm subcommand.
pub fn main(ctx: &Ctx, args: Args) -> Result<ExitCode> {
    let platform = Platform::ensure(ctx)?;
    let mut spec = Spec {
        cpus: args.cpus,
        mem: args.mem,
        share: args.share,
        icount: args.icount,
        plugin: None,
        append: args.append,
        timeout: (!args.shell).then(|| Duration::from_secs(args.timeout)),
        terminal: args.shell,
        leaks: args.leaks,
        klog: args.klog,
        argv: args.command,
        files: Vec::new(),
    };
    match spec.argv.as_slice() {
        [] if args.shell => spec.argv = ["bash", "-i"].map(str::to_owned).to_vec(),
        [] => bail!("no command given: tools/vm [OPTION]... -- COMMAND..."),
        [line] => spec.argv = vec!["bash".into(), "-c".into(), line.clone()],
        _ => {}
    }
    if args.leaks && !platform.finds_leaks() {
        bail!("--leaks: this kernel does not look for leaks; add --kernel debug");
    }
    if !args.no_module && ctx.has_module() {
        spec.files.extend(module::fresh(ctx, &platform.kernel)?);
        spec.files.extend(workspace::guest_programs(ctx)?);
    }
    eprintln!("vm: {}", platform.describe(&spec));
    let start = Instant::now();
    let ending = platform.run(&spec, &mut Live)?;
    Ok(conclude(ctx, &ending, start))
}

/// The demo subcommand: the guest program of that name, in a guest with little memory.
pub fn demo(ctx: &Ctx) -> Result<ExitCode> {
    let platform = Platform::ensure(ctx)?;
    let mut spec = Spec {
        mem: 640 << 20,
        // Or what goes to swap first is the guest's own root file system.
        append: "initramfs_options=noswap,size=100%".to_owned(),
        argv: ["./rzram-guest", "demo"].map(str::to_owned).to_vec(),
        ..Spec::default()
    };
    eprintln!(
        "demo: building rzram.ko for {}",
        platform.kernel.release.name
    );
    spec.files.extend(module::fresh(ctx, &platform.kernel)?);
    spec.files.extend(workspace::guest_programs(ctx)?);
    eprintln!("demo: booting a guest: {}", platform.describe(&spec));
    let start = Instant::now();
    let ending = platform.run(&spec, &mut Live)?;
    Ok(conclude(ctx, &ending, start))
}

/// The soak subcommand: the guest program `model`, without a limit to its time.
pub fn soak(ctx: &Ctx, operations: u64, seed: Option<u64>) -> Result<ExitCode> {
    let platform = Platform::ensure(ctx)?;
    let mut argv = vec![
        "./rzram-guest".to_owned(),
        "model".into(),
        "--progress".into(),
    ];
    argv.push(format!("--operations={operations}"));
    argv.extend(seed.map(|seed| format!("--seed={seed}")));
    let mut spec = Spec {
        mem: 1 << 30,
        timeout: None,
        argv,
        ..Spec::default()
    };
    spec.files.extend(module::fresh(ctx, &platform.kernel)?);
    spec.files.extend(workspace::guest_programs(ctx)?);
    eprintln!("soak: booting a guest: {}", platform.describe(&spec));
    let start = Instant::now();
    let ending = platform.run(&spec, &mut Live)?;
    Ok(conclude(ctx, &ending, start))
}

/// Turns a guest's end into an exit status; what went wrong is printed with the kernel's log.
pub fn conclude(ctx: &Ctx, ending: &Ending, start: Instant) -> ExitCode {
    match &ending.failure {
        None => ExitCode::from(u8::try_from(ending.status & 0xff).unwrap_or(u8::MAX)),
        Some(why) => {
            eprintln!("vm: kernel log:\n{}", ending.log_since_start());
            let file = ctx.logs().join("guest-kernel.log");
            let kept = match std::fs::write(&file, &ending.log) {
                Ok(()) => format!("; the log from power-on is {}", file.display()),
                Err(_) => String::new(),
            };
            eprintln!(
                "vm: the guest failed after {} s: {why}{kept}",
                start.elapsed().as_secs()
            );
            ExitCode::from(GUEST_FAILED)
        }
    }
}

/// Parses a size such as 512M or 2G into bytes.
pub fn memory(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.char_indices().next_back() {
        Some((at, 'M' | 'm')) => (&text[..at], 20),
        Some((at, 'G' | 'g')) => (&text[..at], 30),
        _ => (text, 20),
    };
    let bytes = digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift));
    match bytes {
        Some(bytes) if bytes >= 448 << 20 => Ok(bytes),
        Some(_) => Err("a guest needs at least 448M, for its userland lies in memory".into()),
        None => Err("give a size such as 512M or 2G".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_sizes() {
        assert_eq!(memory("512M"), Ok(512 << 20));
        assert_eq!(memory("2G"), Ok(2 << 30));
        assert_eq!(memory("1024"), Ok(1 << 30));
        assert!(memory("1M").is_err());
        assert!(memory("").is_err());
        assert!(memory("99999999999999999G").is_err());
        assert!(memory("-1G").is_err());
    }
}
