// SPDX-License-Identifier: GPL-2.0

//! rzram as swap: memory that goes out comes back as it was, and what is freed is freed.

use anyhow::{ensure, Context, Result};
use rzram_guest::demo::use_memory;
use rzram_guest::disk::Disk;
use rzram_guest::hog::{leave_only, Hog, SwapTraffic};
use rzram_guest::kernel::{is_debug, EarlyReclaim};
use rzram_guest::module::with_module;
use rzram_guest::run::run;
use rzram_guest::target::target;
use rzram_guest::{same, MIB, PAGE};

const P: u64 = PAGE as u64;

/// How much of this program is in swap when the pressure is greatest.
const OUT: u64 = 12 * MIB;

/// How much memory there is for it: little, where each page takes long.
fn room() -> u64 {
    if is_debug() {
        48 * MIB
    } else {
        96 * MIB
    }
}

/// An algorithm that does not take long.
fn quick() -> &'static str {
    target().imposed_algorithm().unwrap_or("lz4")
}

/// Uses the disk as swap while `body` runs.
pub fn as_swap(
    disk: &Disk,
    algorithm: &str,
    size: &str,
    body: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let _reserve = EarlyReclaim::start()?;
    disk.set_up(algorithm, size)?;
    run("mkswap", &[&disk.node()])?;
    run("swapon", &["--priority", "100", &disk.node()])?;
    body()?;
    run("swapoff", &[&disk.node()])?;
    disk.wait_for("after swapoff, at most the swap header stored", |mm| {
        mm.orig <= 4 * P
    })?;
    same("miss_free", 0, disk.debug()?.miss_free)?;
    disk.reset()
}

#[test]
fn under_real_pressure_every_byte_comes_back() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        as_swap(&disk, quick(), "1G", || {
            let _rest = leave_only(room())?;
            let traffic = use_memory(OUT, 1)?;
            println!(
                "{} pages out, {} back, {:?}",
                traffic.out,
                traffic.back,
                disk.mm()?
            );
            ensure!(traffic.out >= OUT / P, "hardly any pressure: {traffic:?}");
            same(
                "failed I/O",
                (0, 0),
                (disk.io()?.failed_reads, disk.io()?.failed_writes),
            )
        })
    })
}

#[test]
fn with_every_algorithm_pages_go_out_and_come_back() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        for algorithm in target().algorithms {
            as_swap(&disk, algorithm, "64M", || {
                let before = SwapTraffic::now()?;
                let mut hog = Hog::new(4 * MIB)?;
                for round in 1..3 {
                    hog.fill(round, |_| ());
                    hog.page_out()?;
                    hog.verify(|_| ())
                        .with_context(|| format!("{algorithm}, round {round}"))?;
                }
                let traffic = SwapTraffic::now()?.since(before)?;
                ensure!(
                    traffic.out > 1000,
                    "{algorithm}: hardly anything went out: {traffic:?}"
                );
                Ok(())
            })?;
        }
        Ok(())
    })
}

/// A program that reads a node over and over, past the page cache. Not a thread: one that shares
/// memory with what goes to swap would slow that down more than it reads.
struct RawReader(std::process::Child);

impl RawReader {
    fn start(disk: &Disk) -> Result<RawReader> {
        let read = format!(
            "while dd if={} of=/dev/null bs=256k iflag=direct status=none; do :; done",
            disk.node()
        );
        let child = std::process::Command::new("sh").args(["-c", &read]).spawn();
        Ok(RawReader(child.context("starting a reader")?))
    }
}

impl Drop for RawReader {
    fn drop(&mut self) {
        // It is gone already if reading failed, which `failed_reads` tells.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn sectors_read(disk: &Disk) -> Result<u64> {
    let stat = disk.get("stat")?;
    let sectors = stat.split_whitespace().nth(2);
    sectors
        .and_then(|n| n.parse().ok())
        .context("stat has no third number")
}

#[test]
fn freed_memory_is_freed_on_the_disk_at_once_even_beside_a_raw_reader() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        // A small disk: the reader is often at a slot just when swap frees it.
        as_swap(&disk, target().default_algorithm, "9M", || {
            let reader = RawReader::start(&disk)?;
            let before = sectors_read(&disk)?;
            for round in 1..=4 {
                let notices = disk.io()?.notify_free;
                let mut hog = Hog::new(8 * MIB)?;
                hog.fill(round, |_| ());
                hog.page_out()?;
                let out = disk.mm()?;
                out.plausible(9 * MIB)?;
                ensure!(
                    out.orig > 6 * MIB,
                    "round {round}: hardly anything went out: {out:?}"
                );
                if round % 2 == 0 {
                    hog.verify(|_| ())?;
                }
                drop(hog);
                disk.wait_for("nearly everything freed after munmap", |mm| {
                    mm.orig <= MIB / 2
                })?;
                let notices = disk.io()?.notify_free - notices;
                ensure!(
                    notices >= out.orig / P - 256,
                    "only {notices} slot-free notices for {out:?}"
                );
            }
            drop(reader);
            let swapped_in = 4 * 8 * MIB / 512;
            ensure!(
                sectors_read(&disk)? - before > swapped_in,
                "the reader hardly read"
            );
            same("failed_reads", 0, disk.io()?.failed_reads)?;
            same("miss_free", 0, disk.debug()?.miss_free)
        })
    })
}

#[test]
fn a_swap_disk_at_its_limit_leaves_pages_in_memory_and_loses_none() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        as_swap(&disk, target().default_algorithm, "64M", || {
            disk.set("mem_limit", "2M")?;
            let mut hog = Hog::new(12 * MIB)?;
            hog.fill(1, |_| ());
            hog.page_out()?;
            let (io, mm) = (disk.io()?, disk.mm()?);
            ensure!(io.failed_writes > 0, "the limit was not reached: {mm:?}");
            ensure!(
                mm.used <= 2 * MIB,
                "more memory is used than the limit allows: {mm:?}"
            );
            hog.verify(|_| ())?;
            disk.set("mem_limit", "0")?;
            hog.page_out()?;
            hog.verify(|_| ())
        })
    })
}

#[test]
fn two_swap_disks_of_equal_priority_share_the_load() -> Result<()> {
    with_module("num_devices=2", || {
        let (one, two) = (Disk::new(0), Disk::new(1));
        as_swap(&one, quick(), "64M", || {
            as_swap(&two, "zstd", "64M", || {
                let mut hog = Hog::new(12 * MIB)?;
                for round in 0..2 {
                    hog.fill(round, |_| ());
                    hog.page_out()?;
                    for disk in [&one, &two] {
                        let mm = disk.mm()?;
                        ensure!(mm.orig > MIB, "{} got hardly anything: {mm:?}", disk.name());
                    }
                    hog.verify(|_| ())?;
                }
                Ok(())
            })
        })
    })
}

#[test]
fn swapoff_brings_everything_back_into_memory() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        let mut hog = Hog::new(8 * MIB)?;
        as_swap(&disk, target().default_algorithm, "64M", || {
            hog.fill(1, |_| ());
            hog.page_out()?;
            let mm = disk.mm()?;
            ensure!(mm.orig > 6 * MIB, "hardly anything went out: {mm:?}");
            Ok(())
        })?;
        // `as_swap` has switched it off and found it empty.
        hog.verify(|_| ())
    })
}
