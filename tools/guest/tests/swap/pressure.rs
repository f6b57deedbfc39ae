// SPDX-License-Identifier: GPL-2.0

//! rzram as swap: memory that goes out comes back as it was, and what is freed is freed.

use std::time::Duration;

use anyhow::{ensure, Context, Result};
use rzram_guest::buf::Mapping;
use rzram_guest::disk::Disk;
use rzram_guest::hog::{pressure, Hog, SwapTraffic};
use rzram_guest::kernel::EarlyReclaim;
use rzram_guest::module::with_module;
use rzram_guest::run::run;
use rzram_guest::stat::vmstat;
use rzram_guest::stress::{statistician, together, Until, Work};
use rzram_guest::target::target;
use rzram_guest::{blk, same, MIB, PAGE};

const P: u64 = PAGE as u64;

/// How much memory to use, in percent of what there is without swap.
const PRESSURE: u64 = 112;

/// Uses the disk as swap while `body` runs.
fn as_swap(
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
        as_swap(&disk, "lz4", "1G", || {
            let before = SwapTraffic::now()?;
            let mut hog = Hog::new(pressure(PRESSURE)?)?;
            hog.fill(1, |_| ());
            hog.verify(|_| ())?;
            hog.touch(2, 6);
            hog.verify_random(3, hog.pages() / 10)?;
            hog.verify(|_| ())?;
            let traffic = SwapTraffic::now()?.since(before)?;
            println!(
                "{} pages out, {} back, {:?}",
                traffic.out,
                traffic.back,
                disk.mm()?
            );
            ensure!(traffic.out > 5000, "hardly any pressure: {traffic:?}");
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
                let mut hog = Hog::new(6 * MIB)?;
                for round in 1..3 {
                    hog.fill(round, |_| ());
                    hog.page_out()?;
                    hog.verify(|_| ())
                        .with_context(|| format!("{algorithm}, round {round}"))?;
                }
                let traffic = SwapTraffic::now()?.since(before)?;
                ensure!(
                    traffic.out > 1500,
                    "{algorithm}: hardly anything went out: {traffic:?}"
                );
                Ok(())
            })?;
        }
        Ok(())
    })
}

#[test]
fn freed_memory_is_freed_on_the_disk_at_once_even_beside_raw_readers() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        as_swap(&disk, target().default_algorithm, "64M", || {
            let until = Until::after(Duration::from_secs(60));
            // Whoever reads the raw disk holds slots just when swap frees them.
            let reader = || -> Work<'_> {
                Box::new(|until| {
                    let file = disk.direct()?;
                    let mut run = Mapping::new(64 * PAGE)?;
                    while until.more() {
                        for at in (0..64 * MIB).step_by(64 * PAGE) {
                            blk::read(&file, &mut run, at)?;
                        }
                    }
                    Ok(())
                })
            };
            let swapper: Work<'_> = Box::new(|until| {
                for round in 1..=4 {
                    let notices = disk.io()?.notify_free;
                    let mut hog = Hog::new(10 * MIB)?;
                    hog.fill(round, |_| ());
                    hog.page_out()?;
                    let out = disk.mm()?;
                    ensure!(
                        out.orig > 7 * MIB,
                        "round {round}: hardly anything went out: {out:?}"
                    );
                    if round % 2 == 0 {
                        hog.verify(|_| ())?;
                    }
                    drop(hog);
                    disk.wait_for("nearly everything freed after munmap", |mm| {
                        mm.orig <= 512 * 1024
                    })?;
                    let notices = disk.io()?.notify_free - notices;
                    ensure!(
                        notices >= out.orig / P - 512,
                        "only {notices} slot-free notices for {out:?}"
                    );
                }
                until.stop();
                Ok(())
            });
            let work = vec![
                ("swapper", swapper),
                ("reader", reader()),
                ("mm_stat", statistician(disk, 64 * MIB)),
            ];
            together(&until, work)?;
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
        as_swap(&one, "lz4", "64M", || {
            as_swap(&two, "zstd", "64M", || {
                let outs = vmstat("pswpout")?;
                std::thread::scope(|scope| -> Result<()> {
                    let hogs: Vec<_> = (0..2)
                        .map(|n| {
                            scope.spawn(move || {
                                let mut hog = Hog::new(6 * MIB)?;
                                for round in 0..2 {
                                    hog.fill(10 * round + n, |_| ());
                                    hog.page_out()?;
                                    hog.verify(|_| ())?;
                                }
                                Ok(())
                            })
                        })
                        .collect();
                    for hog in hogs {
                        hog.join()
                            .unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked")))?;
                    }
                    Ok(())
                })?;
                ensure!(vmstat("pswpout")? - outs > 2000, "hardly anything went out");
                Ok(())
            })
        })
    })
}
