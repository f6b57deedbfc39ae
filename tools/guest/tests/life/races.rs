// SPDX-License-Identifier: GPL-2.0

//! Two users who do the same thing at the same time: one of them wins, and the disk is whole.

use std::fs::File;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use rzram_guest::disk::Disk;
use rzram_guest::module::{disk_ids, with_module, Module};
use rzram_guest::stress::{together, Until, Work};
use rzram_guest::target::target;
use rzram_guest::{blk, same, MIB};

/// Runs `body` in three threads that start together; what each returned.
fn at_once<T: Send>(body: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let gate = std::sync::Barrier::new(3);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|n| {
                let (gate, body) = (&gate, &body);
                scope.spawn(move || {
                    gate.wait();
                    body(n)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("a thread panicked"))
            .collect()
    })
}

#[test]
fn of_several_who_set_the_size_exactly_one_succeeds() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        for round in 0..40 {
            let size = |n: u64| (n + 1) * MIB;
            let results = at_once(|n| disk.put("disksize", &size(n).to_string()));
            let winners: Vec<u64> = (0..3).filter(|n| results[*n as usize].is_ok()).collect();
            same(
                format!("round {round}: winners of {results:?}"),
                1,
                winners.len(),
            )?;
            for result in results {
                ensure!(
                    matches!(result, Ok(()) | Err(Errno::EBUSY)),
                    "came: {result:?}"
                );
            }
            disk.shows("disksize", &format!("{}\n", size(winners[0])))?;
            disk.shows("size", &format!("{}\n", size(winners[0]) / 512))?;
            same(
                "BLKGETSIZE64",
                size(winners[0]),
                blk::size(&disk.direct()?)?,
            )?;
            disk.reset()?;
        }
        Ok(())
    })
}

#[test]
fn of_several_who_remove_a_disk_exactly_one_succeeds() -> Result<()> {
    with_module("num_devices=0", || {
        for round in 0..15 {
            let disk = Disk::hot_add()?;
            disk.set("disksize", "4M")?;
            let results = at_once(|_| disk.hot_remove());
            let winners = results.iter().filter(|r| r.is_ok()).count();
            same(format!("round {round}: winners of {results:?}"), 1, winners)?;
            for result in results {
                let fine = matches!(result, Ok(()) | Err(Errno::ENODEV | Errno::EBUSY));
                ensure!(fine, "came: {result:?}");
            }
            same("disks left", vec![], disk_ids()?)?;
        }
        Ok(())
    })
}

#[test]
fn several_who_add_disks_get_different_ones() -> Result<()> {
    with_module("", || {
        for _ in 0..8 {
            let mut ids = Vec::new();
            for disk in at_once(|_| Disk::hot_add()) {
                ids.push(disk?.id);
            }
            ids.sort_unstable();
            same("the numbers of three new disks", vec![1, 2, 3], ids)?;
            for result in at_once(|n| Disk::new(n as u32 + 1).hot_remove()) {
                result.context("hot_remove")?;
            }
        }
        Ok(())
    })
}

/// Writes an attribute over and over; it may be refused, but only in the ways it should.
fn put<'a>(
    disk: Disk,
    attribute: &'static str,
    value: &'static str,
    count: Option<&'a AtomicU32>,
) -> Work<'a> {
    Box::new(move |until| {
        while until.more() {
            match disk.put(attribute, value) {
                Ok(()) => {
                    if let Some(count) = count {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Err(Errno::EBUSY | Errno::EINVAL) => (),
                Err(other) => anyhow::bail!("{value:?} to {attribute}: {other:?}"),
            }
        }
        Ok(())
    })
}

#[test]
fn set_up_reset_and_io_in_any_order_leave_a_disk_that_works() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        let until = Until::after(Duration::from_millis(3000));
        let (ups, downs) = (AtomicU32::new(0), AtomicU32::new(0));
        let io: Work<'_> = Box::new(|until| {
            let mut page = rzram_guest::buf::Mapping::new(4096)?;
            while until.more() {
                // Refused while a reset has the disk; of no size in between.
                let Ok(file) = disk.direct() else { continue };
                for at in [0, 2 * MIB, 4 * MIB - 4096] {
                    page.fill(7);
                    let _ = blk::try_write(&file, &page, at);
                    let _ = blk::try_read(&file, &mut page, at);
                    let _ = blk::discard(&file, at, 4096);
                }
            }
            Ok(())
        });
        let work = vec![
            ("disksize", put(disk, "disksize", "4M", Some(&ups))),
            ("reset", put(disk, "reset", "1", Some(&downs))),
            ("algorithm", put(disk, "comp_algorithm", "zstd", None)),
            ("compact", put(disk, "compact", "1", None)),
            ("mem_limit", put(disk, "mem_limit", "1M", None)),
            ("I/O", io),
        ];
        together(&until, work)?;
        let (ups, downs) = (ups.into_inner(), downs.into_inner());
        println!("{ups} times set up, {downs} times reset");
        ensure!(
            ups > 3 && downs > 3,
            "set up {ups} times and reset {downs} times: hardly a race"
        );
        disk.reset()?;
        disk.set_up(target().default_algorithm, "4M")?;
        disk.wait_empty()?;
        disk.reset()
    })
}

#[test]
fn attributes_held_open_do_not_keep_the_module() -> Result<()> {
    let module = Module::load("")?;
    let disk = Disk::new(0);
    disk.set("disksize", "1M")?;
    let held: Vec<File> = ["mm_stat", "io_stat", "comp_algorithm", "disksize"]
        .into_iter()
        .map(|name| File::open(disk.sys(name)))
        .collect::<std::io::Result<_>>()?;
    let control = File::open(target().control("hot_add"))?;
    module.unload()?;
    let mut text = [0; 100];
    for file in held.iter().chain([&control]) {
        let came = blk::try_read(file, &mut text, 0);
        blk::fails_with(
            "reading an attribute of a module that is gone",
            Errno::ENODEV,
            came,
        )?;
    }
    Ok(())
}
