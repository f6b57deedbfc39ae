// SPDX-License-Identifier: GPL-2.0

//! The demo: rzram as swap under real memory pressure, then as a disk with a file system, every
//! byte verified, and the statistics told in words.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use clap::Args;
use humansize::{format_size, BINARY};

use crate::disk::Disk;
use crate::hog::{Hog, SwapTraffic};
use crate::kernel;
use crate::module::{module_file, scratch};
use crate::run::run as command;
use crate::stat::{available, meminfo, MmStat};
use crate::target::target;
use crate::tree::{real_tree, Tree};
use crate::{MIB, PAGE};

/// What to do, with values that suit a small guest.
#[derive(Args)]
pub struct Options {
    /// Compression algorithm of both disks
    #[arg(long, default_value = "lz4")]
    algorithm: String,
    /// The program takes memory until this many MiB of it are in swap
    #[arg(long, default_value_t = 40)]
    swap_mib: u64,
    /// Tree to copy onto the second disk [default: /usr/lib]
    #[arg(long)]
    tree: Option<PathBuf>,
    /// How many MiB of it to copy at most
    #[arg(long, default_value_t = 40)]
    tree_mib: u64,
}

/// Prints progress with the seconds since the start before it.
struct Steps(Instant);

impl Steps {
    fn say(&self, text: &str) {
        println!("[{:5.1} s] {text}", self.0.elapsed().as_secs_f32());
    }

    /// Runs a program, showing it as one would type it.
    fn sh(&self, program: &str, args: &[&str]) -> Result<()> {
        self.say(&format!("# {program} {}", args.join(" ")));
        command(program, args).map(drop)
    }

    /// Writes an attribute, showing the line that does it.
    fn echo(&self, disk: &Disk, attribute: &str, value: &str) -> Result<()> {
        self.say(&format!(
            "# echo {value} > {}",
            disk.sys(attribute).display()
        ));
        disk.set(attribute, value)
    }
}

/// Says how far something is, every two seconds at most.
struct Pace<'a> {
    steps: &'a Steps,
    last: Instant,
}

impl Pace<'_> {
    fn new(steps: &Steps) -> Pace<'_> {
        Pace {
            steps,
            last: Instant::now(),
        }
    }

    fn say(&mut self, text: impl FnOnce() -> String) {
        if self.last.elapsed() > Duration::from_secs(2) {
            self.last = Instant::now();
            self.steps.say(&text());
        }
    }
}

/// The whole demo.
pub fn run(options: &Options) -> Result<()> {
    let steps = Steps(Instant::now());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let total = format_size(meminfo("MemTotal")?, BINARY);
    steps.say(&format!("kernel {}, {total} of memory", kernel.trim()));

    if target().is_c_zram() {
        steps.sh("modprobe", &["zram"])?;
    } else {
        steps.sh("insmod", &[&module_file()])?;
    }
    let disk = Disk::new(0);
    steps.say("1. A compressed swap device in memory");
    swap(&steps, disk, options)?;
    steps.say("2. A compressed disk in memory, with ext4 on it");
    file_system(&steps, options)?;
    steps.sh("rmmod", &[target().name])?;
    steps.say("Everything was right.");
    Ok(())
}

fn swap(steps: &Steps, disk: Disk, options: &Options) -> Result<()> {
    let node = disk.node();
    // The disk's size only bounds what may go in; it costs nothing before it is used.
    let size = 2 * meminfo("MemTotal")? / MIB;
    steps.echo(&disk, "comp_algorithm", &options.algorithm)?;
    steps.echo(&disk, "disksize", &format!("{size}M"))?;
    steps.sh("mkswap", &[&node])?;
    steps.sh("swapon", &["--discard", "--priority", "100", &node])?;
    steps.say(&format!(
        "a program now takes more memory than the {} that are to be had",
        format_size(available()?, BINARY)
    ));

    let _reserve = kernel::EarlyReclaim::start()?;
    let before = SwapTraffic::now()?;
    let mut pace = Pace::new(steps);
    let mut hog = Hog::boundless()?;
    hog.fill_until_swapped(1, options.swap_mib * MIB, |taken, out| {
        pace.say(|| {
            let (taken, out) = (format_size(taken, BINARY), format_size(out, BINARY));
            format!("   it has taken {taken}, {out} of that are in swap")
        });
    })?;
    let fullest = disk.mm()?;
    let pages = hog.pages();
    let taken = format_size(hog.bytes(), BINARY);
    steps.say(&format!(
        "it has taken {taken}; now every byte is compared, twice"
    ));
    let mut compared = |done| pace.say(|| format!("   compared {} %", done * 100 / pages));
    hog.verify(&mut compared)?;
    hog.touch(2, 32);
    hog.verify(&mut compared)?;
    let traffic = SwapTraffic::now()?.since(before)?;
    let io = disk.io()?;
    let stat = disk.get("stat")?;
    let moved: Vec<u64> = stat
        .split_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect();
    ensure!(
        moved.len() > 4 && moved[2] > 0 && moved[6] > 0,
        "the disk itself counted no traffic: {stat:?}"
    );
    ensure!(
        io.failed_reads == 0 && io.failed_writes == 0,
        "reads or writes failed: {io:?}"
    );
    steps.say(&format!(
        "every byte of {taken} is right; {} went out to {node}, {} came back",
        format_size(traffic.out * PAGE as u64, BINARY),
        format_size(traffic.back * PAGE as u64, BINARY)
    ));
    tell(&fullest);
    drop(hog);
    steps.sh("swapoff", &[&node])?;
    // What swapoff leaves is the header that mkswap wrote.
    let left = disk.wait_for("at most the swap header stored", |mm| {
        mm.orig <= 16 * PAGE as u64
    })?;
    ensure!(
        disk.debug()?.miss_free == 0,
        "slot-free notices were missed"
    );
    steps.say(&format!(
        "after swapoff {} are stored",
        format_size(left.orig, BINARY)
    ));
    steps.echo(&disk, "reset", "1")?;
    steps.sh("rmmod", &[target().name])
}

/// The statistics in words, then as the kernel gives them.
fn tell(mm: &MmStat) {
    let ratio = |a: u64, b: u64| a as f64 / b.max(1) as f64;
    println!("           when it was fullest:");
    println!(
        "             stored           {}",
        format_size(mm.orig, BINARY)
    );
    println!(
        "             compressed to    {}",
        format_size(mm.compr, BINARY)
    );
    println!(
        "             memory used      {}",
        format_size(mm.used.max(mm.compr), BINARY)
    );
    println!(
        "             ratio            {:.2} : 1",
        ratio(mm.orig, mm.used)
    );
    println!(
        "             of one value     {} pages, which take no memory of their own",
        mm.same
    );
    println!(
        "             incompressible   {} pages, stored as they are",
        mm.huge
    );
    println!("             mm_stat         {}", mm.text().trim_end());
}

fn file_system(steps: &Steps, options: &Options) -> Result<()> {
    if target().is_c_zram() {
        steps.sh("modprobe", &["zram"])?;
    } else {
        steps.sh("insmod", &[&module_file()])?;
    }
    let disk = Disk::hot_add().context("adding a second disk")?;
    steps.say(&format!(
        "# cat {}   (makes {})",
        target().control("hot_add").display(),
        disk.node()
    ));
    kernel::load_ext4()?;
    let node = disk.node();
    let at = scratch("demo")?;
    let mount = at.to_string_lossy().into_owned();
    steps.echo(&disk, "comp_algorithm", &options.algorithm)?;
    steps.echo(
        &disk,
        "disksize",
        &format!("{}M", 2 * options.tree_mib + 64),
    )?;
    steps.sh("mkfs.ext4", &["-q", &node])?;
    steps.sh("mount", &[&node, &mount])?;
    let from = options
        .tree
        .clone()
        .unwrap_or_else(|| real_tree().to_path_buf());
    steps.say(&format!(
        "copying up to {} MiB of {}",
        options.tree_mib,
        from.display()
    ));
    let tree = Tree::copy(&from, &at.join("tree"), options.tree_mib * MIB)?;
    kernel::drop_caches()?;
    let mm = disk.mm()?;
    steps.say("caches dropped; comparing");
    tree.compare()?;
    steps.say(&format!(
        "{} files and links, {}: every byte is right",
        tree.entries(),
        format_size(tree.bytes, BINARY)
    ));
    tell(&mm);
    steps.sh("umount", &[&mount])?;
    steps.sh("e2fsck", &["-fn", &node])?;
    steps.echo(&disk, "reset", "1")?;
    disk.shows("initstate", "0\n")
}

/// Takes memory until `out` bytes of it are in swap and verifies it `passes` times; the swap traffic
/// that caused.
pub fn use_memory(out: u64, passes: u32) -> Result<SwapTraffic> {
    let before = SwapTraffic::now()?;
    let mut hog = Hog::boundless()?;
    hog.fill_until_swapped(1, out, |_, _| ())?;
    for pass in 0..passes {
        hog.verify(|_| ())?;
        hog.touch(2 + pass, 32);
        hog.verify_random(u64::from(pass), 500)?;
    }
    hog.verify(|_| ())?;
    SwapTraffic::now()?.since(before)
}
