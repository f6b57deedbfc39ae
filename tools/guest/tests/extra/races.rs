// SPDX-License-Identifier: GPL-2.0

//! A read of a block on the backing device, while that device's place goes to another block.
//!
//! C zram fails these within a second.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use rzram_guest::buf::Mapping;
use rzram_guest::disk::Disk;
use rzram_guest::module::with_module;
use rzram_guest::pattern;
use rzram_guest::stress::{together, Until, Work};
use rzram_guest::{blk, PAGE};

use rzram_guest::post::{bd, set_up_backed, Blocks, Mapped, Ram};

/// Versions whose content is not same-filled, for those are not written back.
fn version(round: u64) -> u64 {
    2 + round + round / 3
}

/// What the writer has begun and ended to write to block 0.
#[derive(Default)]
struct Progress {
    begun: AtomicU64,
    done: AtomicU64,
    read: AtomicU64,
    /// Readers are to keep away: a block that is read while it is written back stays in memory.
    hold: AtomicBool,
}

/// Writes block 0 and block 1, in turns, such that block 1 comes to where block 0 was.
///
/// It rests for `pause` while block 0 is out, for readers to come to it there.
fn writer(disk: Disk, progress: &Progress, pause: Duration) -> Work<'_> {
    Box::new(move |until| {
        let mut blocks = Blocks::of(&disk)?;
        let mut page = vec![0; PAGE];
        let mut round = 0;
        let mut write = |block: u64, version: u64| -> Result<()> {
            pattern::stamp(block, version, &mut page);
            if block == 0 {
                progress.begun.store(version, Ordering::SeqCst);
            }
            blocks.write(block, &page)?;
            if block == 0 {
                progress.done.store(version, Ordering::SeqCst);
            }
            Ok(())
        };
        while until.more() {
            write(0, 4 * round + 2)?;
            write(1, version(round))?;
            progress.hold.store(true, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(1));
            let result = disk.set("writeback", "page_index=0");
            progress.hold.store(false, Ordering::SeqCst);
            result?;
            std::thread::sleep(pause);
            write(0, 4 * round + 3)?;
            disk.set("writeback", "page_index=1")?;
            round += 1;
        }
        Ok(())
    })
}

/// Reads block 0: what it held before, or holds now.
fn reader(disk: Disk, progress: &Progress) -> Work<'_> {
    Box::new(move |until| {
        let file = disk.direct()?;
        let (mut page, mut scratch) = (Mapping::new(PAGE)?, Mapping::new(PAGE)?);
        while until.more() {
            if progress.hold.load(Ordering::SeqCst) {
                std::thread::yield_now();
                continue;
            }
            let least = progress.done.load(Ordering::SeqCst);
            blk::read(&file, &mut page, 0)?;
            let most = progress.begun.load(Ordering::SeqCst);
            let came = pattern::version(0, &page, &mut scratch)?;
            ensure!(
                (least..=most).contains(&came),
                "block 0 holds version {came}, expected {least} to {most}"
            );
            progress.read.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    })
}

fn race(disk: &Disk, seconds: u64, pause: Duration) -> Result<()> {
    let until = Until::after(Duration::from_secs(seconds));
    let progress = Progress::default();
    let work = vec![
        ("writer", writer(*disk, &progress, pause)),
        ("reader", reader(*disk, &progress)),
        ("another reader", reader(*disk, &progress)),
    ];
    together(&until, work)?;
    let (reads, bd) = (progress.read.into_inner(), bd(disk)?);
    println!("{reads} reads, {bd:?}");
    ensure!(bd.writes > 50, "hardly any writeback: {bd:?}");
    ensure!(bd.reads > 20, "hardly any read of the device: {bd:?}");
    disk.reset()
}

#[test]
fn a_read_never_gets_what_another_block_held() -> Result<()> {
    // Room for a single block, so that the second always gets the place of the first.
    let _ram = Ram::new(4)?;
    with_module("", || {
        let disk = Disk::new(0);
        for compressed in ["0", "1"] {
            disk.set("compressed_writeback", compressed)?;
            set_up_backed(&disk, Ram::NODE, "lz4", "1M").context("with room for one block")?;
            race(&disk, 2, Duration::from_micros(300))?;
        }
        Ok(())
    })
}

#[test]
fn nor_where_the_device_takes_its_time() -> Result<()> {
    rzram_guest::run::run("modprobe", &["dm-delay"])?;
    let _ram = Ram::new(64)?;
    let node = Ram::NODE;
    let slow = Mapped::new("rzrace", &format!("0 8 delay {node} 0 5 {node} 0 1"))?;
    with_module("", || {
        let disk = Disk::new(0);
        set_up_backed(&disk, slow.node(), "lz4", "1M")?;
        race(&disk, 3, Duration::from_millis(2))
    })
}
