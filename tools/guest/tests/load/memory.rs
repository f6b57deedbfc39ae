// SPDX-License-Identifier: GPL-2.0

//! What an empty disk costs, what a written slot costs, and that all of it comes back.

use std::time::Duration;

use anyhow::{ensure, Result};
use rzram_guest::buf::Mapping;
use rzram_guest::disk::Disk;
use rzram_guest::kernel::{drop_caches, is_debug};
use rzram_guest::module::{with_disk, with_module};
use rzram_guest::pattern::{self, Kind};
use rzram_guest::stat::{available, meminfo};
use rzram_guest::{blk, same, GIB, MIB, PAGE, TIB};

const P: u64 = PAGE as u64;

/// Memory that the kernel uses, seen from two sides.
#[derive(Clone, Copy, Debug)]
struct Usage {
    available: u64,
    kernel: u64,
}

impl Usage {
    fn now() -> Result<Usage> {
        drop_caches()?;
        std::thread::sleep(Duration::from_millis(200));
        Ok(Usage {
            available: available()?,
            kernel: meminfo("Slab")? + meminfo("VmallocUsed")? + meminfo("Percpu")?,
        })
    }

    /// How much more is used than `earlier`, by whichever side shows more.
    fn above(self, earlier: Usage) -> u64 {
        let kernel = self.kernel.saturating_sub(earlier.kernel);
        kernel.max(earlier.available.saturating_sub(self.available))
    }
}

#[test]
fn a_terabyte_costs_next_to_nothing_and_works_at_both_ends() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        let before = Usage::now()?;
        disk.set("disksize", "1T")?;
        disk.shows("disksize", &format!("{TIB}\n"))?;
        let cost = Usage::now()?.above(before);
        println!("1 TiB, empty: {} KiB", cost / 1024);
        ensure!(
            cost < 16 * MIB,
            "an empty disk of 1 TiB costs {cost} bytes, expected less than 16 MiB"
        );

        let file = disk.direct()?;
        same("BLKGETSIZE64", TIB, blk::size(&file)?)?;
        let places = [
            0,
            P,
            4 * GIB - P,
            4 * GIB,
            511 * GIB + 5 * P,
            512 * GIB,
            TIB - 2 * P,
            TIB - P,
        ];
        let (mut page, mut back) = (Mapping::new(PAGE)?, Mapping::new(PAGE)?);
        for at in places {
            pattern::stamp(at / P, 6, &mut page);
            blk::write(&file, &page, at)?;
        }
        for at in places {
            pattern::stamp(at / P, 6, &mut page);
            blk::read(&file, &mut back, at)?;
            blk::equal(&format!("the block at {at}"), &page, &back)?;
        }
        for at in [2 * P, 300 * GIB, TIB - 3 * P] {
            blk::read(&file, &mut back, at)?;
            blk::equal(&format!("the unwritten block at {at}"), &[0; PAGE], &back)?;
        }
        same("orig_data_size", places.len() as u64 * P, disk.mm()?.orig)?;
        let cost = Usage::now()?.above(before);
        ensure!(
            cost < 16 * MIB,
            "a few blocks on 1 TiB cost {cost} bytes, expected less than 16 MiB"
        );
        for at in places {
            blk::discard(&file, at, P)?;
        }
        drop(file);
        disk.wait_empty()?;
        disk.reset()?;
        let left = Usage::now()?.above(before);
        ensure!(
            left < 4 * MIB,
            "after the reset {left} bytes are still in use"
        );
        Ok(())
    })
}

#[test]
fn discarding_and_resetting_a_terabyte_takes_no_time() -> Result<()> {
    with_disk("1T", |disk| {
        let file = disk.direct()?;
        let mut page = Mapping::new(PAGE)?;
        pattern::fill(Kind::Text, 1, &mut page);
        blk::write(&file, &page, 700 * GIB)?;
        let start = std::time::Instant::now();
        blk::discard(&file, 0, TIB)?;
        let took = start.elapsed();
        println!("discarding 1 TiB: {took:?}");
        ensure!(
            took < Duration::from_secs(10),
            "discarding an almost empty 1 TiB took {took:?}"
        );
        drop(file);
        disk.wait_empty()
    })
}

#[test]
fn a_written_slot_costs_about_eight_bytes_of_table() -> Result<()> {
    with_disk("2G", |disk| {
        let file = disk.direct()?;
        // Same-filled pages need no object: what they cost is the table.
        let mut run = Mapping::new(4 * MIB as usize)?;
        pattern::fill(Kind::Word(0), 0, &mut run);
        let before = Usage::now()?;
        for at in (0..GIB).step_by(4 << 20) {
            blk::write(&file, &run, at)?;
        }
        let slots = GIB / P;
        same("same_pages", slots, disk.mm()?.same)?;
        let cost = Usage::now()?.above(before);
        println!(
            "{:.2} bytes of table a written slot",
            cost as f64 / slots as f64
        );
        // The debug kernel has a page behind each of the pages that the table is made of, to see whether it is touched.
        let most = if is_debug() { 20 } else { 10 };
        ensure!(
            cost < most * slots + MIB,
            "{slots} written slots cost {cost} bytes"
        );
        Ok(())
    })
}

#[test]
fn a_reset_gives_everything_back() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        let mut data = Mapping::new(4 * MIB as usize)?;
        pattern::fill_all(1, 0, &mut data);
        let before = Usage::now()?;
        for _ in 0..3 {
            disk.set("disksize", "1G")?;
            let file = disk.direct()?;
            for at in (0..GIB).step_by(64 << 20) {
                blk::write(&file, &data, at)?;
            }
            let used = disk.mm()?.used;
            ensure!(used > 10 * MIB, "hardly anything was stored: {used} bytes");
            drop(file);
            disk.reset()?;
        }
        let left = Usage::now()?.above(before);
        ensure!(
            left < 4 * MIB,
            "after three resets {left} bytes are still in use"
        );
        Ok(())
    })
}
