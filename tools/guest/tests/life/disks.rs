// SPDX-License-Identifier: GPL-2.0

//! Adding and removing disks, one by one and in parallel.

use std::fs::File;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use rzram_guest::disk::Disk;
use rzram_guest::kernel::Log;
use rzram_guest::module::{disk_ids, with_module};
use rzram_guest::stress::{together, Until, Work};
use rzram_guest::target::target;
use rzram_guest::{attr, blk, pattern, same, PAGE};

use super::busy::opener;

#[test]
fn the_log_names_the_disks_that_come_and_go() -> Result<()> {
    let mut log = Log::follow()?;
    with_module("", || {
        log.expect(&format!("Added device: {}", target().disk(0)))?;
        let disk = Disk::hot_add()?;
        log.expect(&format!("Added device: {}", disk.name()))?;
        disk.hot_remove().context("hot_remove")?;
        log.expect(&format!("Removed device: {}", disk.name()))
    })
}

#[test]
fn hot_add_returns_the_lowest_free_number_and_hot_remove_frees_it() -> Result<()> {
    with_module("", || {
        for id in 1..=3 {
            let text = attr::read(&target().control("hot_add"))?;
            same("hot_add shows", format!("{id}\n"), text)?;
        }
        Disk::new(1).hot_remove().context("hot_remove 1")?;
        Disk::new(0).hot_remove().context("hot_remove 0")?;
        same("disks left", vec![2, 3], disk_ids()?)?;
        ensure!(!Disk::new(0).sys("").exists(), "disk 0 is still there");
        for id in [0, 1, 4] {
            same(
                "hot_add shows",
                format!("{id}\n"),
                attr::read(&target().control("hot_add"))?,
            )?;
        }
        Ok(())
    })
}

#[test]
fn hot_remove_refuses_what_is_no_disk() -> Result<()> {
    with_module("", || {
        let path = target().control("hot_remove");
        let cases = [
            ("foo", Errno::EINVAL),
            ("", Errno::EINVAL),
            ("0x0", Errno::EINVAL),
            ("0 ", Errno::EINVAL),
            ("0 1", Errno::EINVAL),
            ("-1", Errno::EINVAL),
            ("-2147483648", Errno::EINVAL),
            ("2147483648", Errno::ERANGE),
            ("99999999999999999999", Errno::ERANGE),
            ("1", Errno::ENODEV),
            ("2147483647", Errno::ENODEV),
        ];
        for (text, expected) in cases {
            if !text.is_empty() {
                attr::refused(&path, text.as_bytes(), &[expected])?;
            }
        }
        attr::refused(&path, &[b'7'; PAGE], &[Errno::ERANGE])?;
        same("disks", vec![0], disk_ids()?)?;
        attr::set(&path, "0\n")?;
        same("disks", vec![], disk_ids()?)?;
        attr::refused(&path, b"0", &[Errno::ENODEV])
    })
}

#[test]
fn an_attribute_held_open_across_hot_remove_is_harmless() -> Result<()> {
    with_module("", || {
        let disk = Disk::hot_add()?;
        disk.set("disksize", "1M")?;
        let held = File::open(disk.sys("mm_stat"))?;
        disk.hot_remove().context("hot_remove")?;
        let mut text = [0; 200];
        let came = blk::try_read(&held, &mut text, 0);
        blk::fails_with("reading mm_stat of a removed disk", Errno::ENODEV, came)
    })
}

#[test]
fn disks_come_and_go_in_parallel_beside_readers_of_all_their_files() -> Result<()> {
    with_module("num_devices=0", || {
        let until = Until::after(Duration::from_secs(60));
        let left = std::sync::atomic::AtomicU32::new(4);
        let life = |seed: u64| -> Work<'_> {
            let left = &left;
            Box::new(move |until| {
                for round in 0..12 {
                    let disk = Disk::hot_add()?;
                    let algorithm =
                        target().algorithms[(round + seed as usize) % target().algorithms.len()];
                    disk.set_up(algorithm, "4M")?;
                    let (mut data, mut back) = (
                        rzram_guest::buf::Mapping::new(64 * PAGE)?,
                        rzram_guest::buf::Mapping::new(64 * PAGE)?,
                    );
                    pattern::fill_all(seed, round as u64, &mut data);
                    let file = disk.direct()?;
                    blk::write(&file, &data, 0)?;
                    blk::read(&file, &mut back, 0)?;
                    blk::equal(&format!("{} in round {round}", disk.name()), &data, &back)?;
                    drop(file);
                    disk.hot_remove()
                        .with_context(|| format!("removing {} again", disk.name()))?;
                }
                if left.fetch_sub(1, std::sync::atomic::Ordering::SeqCst) == 1 {
                    until.stop();
                }
                Ok(())
            })
        };
        let reader: Work<'_> = Box::new(|until| {
            while until.more() {
                for id in 0..4 {
                    for name in [
                        "mm_stat",
                        "io_stat",
                        "disksize",
                        "comp_algorithm",
                        "debug_stat",
                        "stat",
                    ] {
                        let _ = attr::read(&Disk::new(id).sys(name));
                    }
                }
            }
            Ok(())
        });
        let mut work = vec![
            ("reader", reader),
            ("opener", opener(Disk::new(0).node())),
            ("opener", opener(Disk::new(2).node())),
        ];
        work.extend((0..4).map(|seed| ("life", life(seed))));
        together(&until, work)?;
        same("disks left", vec![], disk_ids()?)
    })
}
