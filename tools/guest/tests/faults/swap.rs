// SPDX-License-Identifier: GPL-2.0

//! Swap, while a part of all allocations of the module fails.

use anyhow::{ensure, Context, Result};
use rzram_guest::disk::Disk;
use rzram_guest::faults::{at_least, note, Faults, Of};
use rzram_guest::hog::{Hog, SwapTraffic};
use rzram_guest::module::with_module;
use rzram_guest::run::run;
use rzram_guest::{same, MIB, PAGE};

#[test]
fn swap_loses_no_page() -> Result<()> {
    with_module("", || {
        let faults = Faults::set_up(Of::Target)?;
        for algorithm in ["lzo-rle", "lz4", "zstd", "deflate"] {
            let disk = Disk::new(0);
            disk.set_up(algorithm, "64M")?;
            run("mkswap", &[&disk.node()])?;
            run("swapon", &["--priority", "100", &disk.node()])?;
            let before = SwapTraffic::now()?;
            let mut hog = Hog::new(4 * MIB)?;
            let mut failed = 0;
            for round in 1..5 {
                hog.fill(round, |_| ());
                faults.by_chance(10 * round)?;
                // What cannot go out stays in memory.
                hog.page_out()?;
                hog.verify(|_| ())
                    .with_context(|| format!("{algorithm}, round {round}"))?;
                failed += faults.by_chance(0)?;
            }
            let traffic = SwapTraffic::now()?.since(before)?;
            let io = disk.io()?;
            note(&format!(
                "swap on {algorithm}: {} pages out, {} back, {failed} allocations failed by chance, \
                 {} writes failed",
                traffic.out, traffic.back, io.failed_writes
            ));
            at_least(100, failed)?;
            ensure!(io.failed_writes > 0, "no write failed");
            same("failed reads", 0, io.failed_reads)?;
            drop(hog);
            run("swapoff", &[&disk.node()])?;
            disk.wait_for("after swapoff, at most the swap header stored", |mm| {
                mm.orig <= 4 * PAGE as u64
            })?;
            disk.reset()?;
        }
        Ok(())
    })
}
