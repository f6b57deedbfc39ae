// SPDX-License-Identifier: GPL-2.0

//! Swap on a disk that recompresses and writes back, and zswap in front of it.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use rzram_guest::disk::Disk;
use rzram_guest::hog::{leave_only, Hog, SwapTraffic};
use rzram_guest::kernel::{patience, EarlyReclaim};
use rzram_guest::module::with_module;
use rzram_guest::run::run;
use rzram_guest::target::target;
use rzram_guest::{same, MIB, PAGE};

use rzram_guest::post::{bd, flagged, Ram};

/// How much of the program goes to swap.
const OUT: u64 = 16 * MIB;

/// Uses the disk as swap while `body` runs.
fn as_swap(disk: &Disk, body: impl FnOnce() -> Result<()>) -> Result<()> {
    let _reserve = EarlyReclaim::start()?;
    disk.set("disksize", "512M")?;
    run("mkswap", &[&disk.node()])?;
    run("swapon", &["--priority", "100", &disk.node()])?;
    body()?;
    run("swapoff", &[&disk.node()])?;
    disk.wait_for("after swapoff, at most the swap header stored", |mm| {
        mm.orig <= 4 * PAGE as u64
    })?;
    ensure!(bd(disk)?.count <= 4, "left on the device: {:?}", bd(disk)?);
    same("miss_free", 0, disk.debug()?.miss_free)?;
    let io = disk.io()?;
    same("failed I/O", (0, 0), (io.failed_reads, io.failed_writes))?;
    disk.reset()
}

/// Recompresses what is idle, and writes back some of it.
fn post_process(disk: &Disk) -> Result<()> {
    disk.set("idle", "all")?;
    if !target().is_c_zram() {
        disk.set("recompress", "type=idle max_pages=1500")?;
    }
    disk.set("idle", "all")?;
    disk.set("writeback_limit", "1000")?;
    disk.set("writeback_limit_enable", "1")?;
    match disk.put("writeback", "type=idle") {
        Ok(()) | Err(nix::errno::Errno::EIO | nix::errno::Errno::ENOSPC) => Ok(()),
        Err(other) => anyhow::bail!("writeback: {other:?}"),
    }
}

#[test]
fn with_blocks_recompressed_and_written_back_every_byte_is_right() -> Result<()> {
    for compressed in ["0", "1"] {
        let _ram = Ram::new(16 << 10)?;
        with_module("", || {
            let disk = Disk::new(0);
            if !target().is_c_zram() {
                disk.set("recomp_algorithm", "algo=zstd")?;
            }
            disk.set("compressed_writeback", compressed)?;
            disk.set("backing_dev", Ram::NODE)?;
            as_swap(&disk, || {
                let mut hog = Hog::new(OUT)?;
                for round in 1..=2 {
                    hog.fill(round, |_| ());
                    hog.page_out()?;
                    let out = disk.mm()?;
                    ensure!(out.orig > OUT / 2, "hardly anything went out: {out:?}");
                    post_process(&disk)?;
                    let (there, again) = (flagged(&disk, 'w')?, flagged(&disk, 'r')?);
                    println!("{} written back, {} recompressed", there.len(), again.len());
                    ensure!(there.len() > 500, "hardly any writeback");
                    ensure!(
                        again.len() > 300 || target().is_c_zram(),
                        "hardly any recompression"
                    );
                    hog.verify_random(u64::from(round), 1000)?;
                    hog.touch(round + 100, 5);
                    hog.page_out()?;
                    post_process(&disk)?;
                    hog.verify(|_| ())?;
                }
                ensure!(
                    bd(&disk)?.reads > 1000,
                    "hardly any read back: {:?}",
                    bd(&disk)?
                );
                Ok(())
            })
        })?;
    }
    Ok(())
}

#[test]
fn under_real_pressure_with_both_going_on_every_byte_is_right() -> Result<()> {
    let _ram = Ram::new(16 << 10)?;
    with_module("", || {
        let disk = Disk::new(0);
        if !target().is_c_zram() {
            disk.set("recomp_algorithm", "algo=zstd")?;
        }
        disk.set("backing_dev", Ram::NODE)?;
        // More at once would all look for memory for the RAM disk, where there is none.
        disk.set("writeback_batch_size", "2")?;
        as_swap(&disk, || {
            // Not a thread: one that shares memory with what is swapped out slows it down.
            let script = format!(
                "cd /sys/block/{}; while sleep 0.2; do echo all >idle; {} \
                 echo type=idle >writeback; done",
                disk.name(),
                if target().is_c_zram() {
                    ""
                } else {
                    "echo type=idle max_pages=300 >recompress;"
                }
            );
            let mut child = std::process::Command::new("sh")
                .args(["-c", &script])
                .stderr(std::process::Stdio::null())
                .spawn()
                .context("starting a shell")?;
            let result = (|| {
                let _rest = leave_only(96 * MIB)?;
                let before = SwapTraffic::now()?;
                let mut hog = Hog::boundless()?;
                hog.fill_until_swapped(1, OUT / 2, |_, _| ())?;
                // How soon enough has happened depends on the machine.
                let (start, limit) = (Instant::now(), Duration::from_secs(60) * patience());
                for round in 0.. {
                    hog.verify_random(3 + round, 1000)?;
                    let bd = bd(&disk)?;
                    let enough = round >= 2 && bd.writes > 10 && bd.reads > 0;
                    if enough || start.elapsed() > limit {
                        break;
                    }
                    // Whatever is read too soon is never idle.
                    sleep(Duration::from_millis(300));
                }
                hog.verify(|_| ())?;
                SwapTraffic::now()?.since(before)
            })();
            child.kill()?;
            child.wait()?;
            let (traffic, bd) = (result?, bd(&disk)?);
            println!("{traffic:?}, {bd:?}");
            ensure!(
                bd.writes > 10 && bd.reads > 0,
                "hardly any writeback: {bd:?}"
            );
            Ok(())
        })
    })
}

const ZSWAP: &str = "/sys/module/zswap/parameters";

/// zswap as it was, when this is dropped.
struct Zswap(Vec<(String, String)>);

impl Zswap {
    fn with(settings: &[(&str, &str)]) -> Result<Zswap> {
        let mut before = Zswap(Vec::new());
        for (name, value) in settings {
            let file = format!("{ZSWAP}/{name}");
            let old = fs::read_to_string(&file).context("the kernel has no zswap")?;
            fs::write(&file, value).with_context(|| format!("{value} to {file}"))?;
            before.0.insert(0, (file, old));
        }
        Ok(before)
    }

    fn figure(name: &str) -> Result<u64> {
        rzram_guest::stat::vmstat(name)
    }
}

impl Drop for Zswap {
    fn drop(&mut self) {
        for (file, value) in &self.0 {
            let _ = fs::write(file, value.trim());
        }
    }
}

#[test]
fn zswap_in_front_writes_through_to_the_disk() -> Result<()> {
    let _ram = Ram::new(16 << 10)?;
    with_module("", || {
        let disk = Disk::new(0);
        if !target().is_c_zram() {
            disk.set("recomp_algorithm", "algo=zstd")?;
        }
        disk.set("backing_dev", Ram::NODE)?;
        // A pool of 1 % of memory is soon full, and writes to the disk what is oldest in it.
        let zswap = Zswap::with(&[("max_pool_percent", "1"), ("enabled", "Y")])?;
        as_swap(&disk, || {
            let (into, through) = (Zswap::figure("zswpout")?, Zswap::figure("zswpwb")?);
            let mut hog = Hog::new(2 * OUT)?;
            for round in 1..=2 {
                hog.fill(round, |_| ());
                hog.page_out()?;
                post_process(&disk)?;
                hog.verify_random(u64::from(round), 500)?;
                hog.page_out()?;
                hog.verify(|_| ())?;
            }
            let into = Zswap::figure("zswpout")? - into;
            let through = Zswap::figure("zswpwb")? - through;
            let (bd, mm) = (bd(&disk)?, disk.mm()?);
            println!("{into} pages into zswap, {through} written through, {bd:?}, {mm:?}");
            ensure!(into > 1000, "zswap took hardly anything");
            // What is there now tells little: whatever was read again is free.
            ensure!(
                through > 100 || bd.writes > 100,
                "hardly anything reached the disk"
            );
            ensure!(bd.writes > 100, "hardly any writeback: {bd:?}");
            Ok(())
        })?;
        drop(zswap);
        Ok(())
    })
}
