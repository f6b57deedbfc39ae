// SPDX-License-Identifier: GPL-2.0

//! A backing device that fails, and one that is slow.

use std::time::{Duration, Instant};

use anyhow::{ensure, Result};
use nix::errno::Errno;
use rzram_guest::buf::Mapping;
use rzram_guest::disk::Disk;
use rzram_guest::kernel::patience;
use rzram_guest::module::with_module;
use rzram_guest::pattern::Kind;
use rzram_guest::run::run;
use rzram_guest::target::target;
use rzram_guest::{blk, same, MIB, PAGE};

use rzram_guest::post::{bd, block_state, compressed, pages, set_up_backed, Blocks, Mapped, Ram};

/// 1 MiB of the RAM disk, in sectors.
const SECTORS: u64 = MIB / 512;

fn linear() -> String {
    format!("0 {SECTORS} linear {} 0", Ram::NODE)
}

fn broken() -> String {
    format!("0 {SECTORS} error")
}

/// A disk of 4 MiB on a device whose table can be changed.
fn on_mapped(table: &str, body: impl FnOnce(&Disk, &Mapped) -> Result<()>) -> Result<()> {
    let _ram = Ram::new(1024)?;
    let mapped = Mapped::new("rzback", table)?;
    with_module("", || {
        let disk = Disk::new(0);
        set_up_backed(&disk, mapped.node(), "zstd", "4M")?;
        body(&disk, &mapped)?;
        disk.reset()
    })
}

#[test]
fn a_read_error_fails_one_request_and_is_counted() -> Result<()> {
    on_mapped(&linear(), |disk, mapped| {
        let content = pages(Kind::Text, 1, 16);
        let mut blocks = Blocks::of(disk)?;
        blocks.write_all(&content)?;
        disk.set("writeback", "page_indexes=4-7")?;
        blocks.hold_all(&content)?;
        mapped.becomes(&broken())?;
        for index in 0..16 {
            let expected = if (4..8).contains(&index) {
                Err(Errno::EIO)
            } else {
                Ok(content[index as usize].as_slice())
            };
            same(format!("block {index}"), expected, blocks.read(index))?;
        }
        // C zram does not count these.
        let counted = |count: u64| match target().is_c_zram() {
            true => 0,
            false => count,
        };
        same("failed reads", counted(4), disk.io()?.failed_reads)?;
        // One request for many blocks, one of which cannot be read.
        let mut run = Mapping::new(8 * PAGE)?;
        let file = disk.direct()?;
        blk::fails_with(
            "blocks 0 to 7",
            Errno::EIO,
            blk::try_read(&file, &mut run, 0),
        )?;
        same("failed reads", counted(5), disk.io()?.failed_reads)?;
        // What is written anew is in memory again.
        blocks.write(5, &content[0])?;
        blocks.holds(5, &content[0])?;
        blocks.write(5, &content[5])?;
        // The device is well again, and so is what is on it.
        mapped.becomes(&linear())?;
        blocks.hold_all(&content)?;
        same("failed reads", counted(5), disk.io()?.failed_reads)?;
        same("failed writes", 0, disk.io()?.failed_writes)?;
        drop(blocks);
        drop(file);
        Ok(())
    })
}

#[test]
fn a_write_that_fails_leaves_the_block_in_memory() -> Result<()> {
    on_mapped(&broken(), |disk, mapped| {
        let content = pages(Kind::Text, 1, 40);
        let mut blocks = Blocks::of(disk)?;
        blocks.write_all(&content)?;
        disk.set("writeback_limit", "100")?;
        disk.set("writeback_limit_enable", "1")?;
        let before = disk.mm()?;
        for batch in ["1", "32"] {
            disk.set("writeback_batch_size", batch)?;
            disk.refuses("writeback", "page_indexes=0-39", Errno::EIO)?;
            let bd = bd(disk)?;
            same("blocks on the device", 0, bd.count)?;
            disk.shows("writeback_limit", "100\n")?;
            same("mm_stat", before, disk.mm()?)?;
            blocks.hold_all(&content)?;
        }
        same("failed writes", 0, disk.io()?.failed_writes)?;
        // Afterwards it works, with none of the device's blocks lost.
        mapped.becomes(&linear())?;
        disk.set("writeback", "page_indexes=0-39")?;
        same("blocks on the device", 40, bd(disk)?.count)?;
        disk.shows("writeback_limit", "60\n")?;
        blocks.hold_all(&content)
    })
}

#[test]
fn one_bad_spot_does_not_keep_the_others_back() -> Result<()> {
    let half = SECTORS / 2;
    let node = Ram::NODE;
    let table = format!("0 {half} error\n{half} {half} linear {node} {half}");
    let _ram = Ram::new(1024)?;
    let mapped = Mapped::new("rzback", &linear())?;
    mapped.becomes(&table)?;
    with_module("", || {
        let disk = Disk::new(0);
        set_up_backed(&disk, mapped.node(), "zstd", "4M")?;
        let content = pages(Kind::Text, 1, 8);
        let mut blocks = Blocks::of(&disk)?;
        blocks.write_all(&content)?;
        disk.set("writeback_batch_size", "4")?;
        disk.refuses("writeback", "page_indexes=0-7", Errno::EIO)?;
        // All were tried: the first eight places are all bad, and none of them is left behind.
        same("blocks on the device", 0, bd(&disk)?.count)?;
        blocks.hold_all(&content)?;
        drop(blocks);
        disk.reset()
    })
}

/// A device that takes 100 ms for everything.
fn slow() -> String {
    let node = Ram::NODE;
    format!("0 {SECTORS} delay {node} 0 100 {node} 0 100")
}

#[test]
fn everything_answers_while_a_writeback_takes_its_time() -> Result<()> {
    if target().is_c_zram() {
        return Ok(()); // there everything waits
    }
    run("modprobe", &["dm-delay"])?;
    on_mapped(&slow(), |disk, _| {
        let content = pages(Kind::Text, 1, 64);
        let mut blocks = Blocks::of(disk)?;
        blocks.write_all(&content)?;
        disk.set("writeback_batch_size", "4")?;
        let start = Instant::now();
        let (taken, worst, rounds, seen) = std::thread::scope(|scope| -> Result<_> {
            let work = scope.spawn(|| {
                let result = disk.put("writeback", "page_indexes=0-63");
                (result, start.elapsed())
            });
            let (mut worst, mut rounds, mut seen) = (Duration::ZERO, 0, Vec::new());
            while !work.is_finished() {
                for attribute in [
                    "mm_stat",
                    "io_stat",
                    "bd_stat",
                    "debug_stat",
                    "memory_stat",
                    "disksize",
                    "initstate",
                    "comp_algorithm",
                    "recomp_algorithm",
                    "backing_dev",
                    "writeback_limit",
                    "writeback_limit_enable",
                    "writeback_batch_size",
                    "compressed_writeback",
                    "max_comp_streams",
                ] {
                    let before = Instant::now();
                    disk.get(attribute)?;
                    worst = worst.max(before.elapsed());
                }
                let before = Instant::now();
                block_state(disk)?;
                disk.set("mem_limit", "0")?;
                disk.set("writeback_batch_size", "4")?;
                disk.set("idle", "all")?;
                disk.set("compact", "1")?;
                // Other blocks are as quick as ever.
                blocks.write(200 + rounds % 50, &content[0])?;
                blocks.holds(200 + rounds % 50, &content[0])?;
                worst = worst.max(before.elapsed());
                seen.push(bd(disk)?.count);
                rounds += 1;
            }
            let (result, taken) = work.join().expect("the thread panicked");
            same("writeback", Ok(()), result)?;
            Ok((taken, worst, rounds, seen))
        })?;
        println!("writeback took {taken:?}; {rounds} rounds, the slowest step {worst:?}");
        ensure!(taken > Duration::from_millis(1500), "it was not slow");
        ensure!(rounds >= 5 / u64::from(patience()), "only {rounds} rounds");
        let soon = Duration::from_millis(700) * patience();
        ensure!(worst < soon.min(taken), "something waited");
        ensure!(
            seen.iter().any(|count| (1..64).contains(count)),
            "bd_stat did not move: {seen:?}"
        );
        // Marking them idle meanwhile does not keep them back, and neither is any lost.
        same("blocks on the device", 64, bd(disk)?.count)
    })
}

#[test]
fn a_batch_is_written_all_at_once() -> Result<()> {
    run("modprobe", &["dm-delay"])?;
    on_mapped(&slow(), |disk, _| {
        let mut blocks = Blocks::of(disk)?;
        blocks.write_all(&pages(Kind::Text, 1, 64))?;
        let mut times = Vec::new();
        for (batch, range) in [("1", "0-15"), ("16", "16-31"), ("32", "32-63")] {
            disk.set("writeback_batch_size", batch)?;
            let start = Instant::now();
            disk.set("writeback", &format!("page_indexes={range}"))?;
            times.push(start.elapsed());
        }
        println!("16 in batches of 1, 16 at once, 32 at once: {times:?}");
        ensure!(times[0] > Duration::from_millis(1600), "batches of 1");
        ensure!(times[1] * 3 < times[0], "16 at once are no quicker");
        ensure!(times[2] * 2 < times[0], "32 at once are no quicker");
        ensure!(compressed(disk)? == 0, "something is left in memory");
        Ok(())
    })
}

#[test]
fn a_read_that_waits_for_the_device_is_in_flight_and_counted_once() -> Result<()> {
    run("modprobe", &["dm-delay"])?;
    on_mapped(&slow(), |disk, _| {
        let mut blocks = Blocks::of(disk)?;
        let content = pages(Kind::Text, 1, 8);
        blocks.write_all(&content)?;
        disk.set("writeback", "page_index=5")?;
        // Reads, and sectors read.
        let count = || -> Result<Vec<u64>> {
            let stat = disk.get("stat")?;
            let numbers: Result<Vec<u64>, _> = stat.split_whitespace().map(str::parse).collect();
            Ok(vec![numbers.as_ref().map_or(0, |n| n[0]), numbers?[2]])
        };
        let in_flight = || -> Result<String> { Ok(disk.get("inflight")?.trim().to_owned()) };
        let before = count()?;
        let waited = std::thread::scope(|scope| -> Result<bool> {
            let work = scope.spawn(|| {
                let mut memory = Mapping::new(8 * PAGE)?;
                blk::read(&disk.direct()?, &mut memory, 0)?;
                blk::equal("all blocks at once", &content.concat(), &memory)
            });
            let mut waited = false;
            while !work.is_finished() {
                waited |= in_flight()?.split_whitespace().next() == Some("1");
            }
            work.join().expect("the thread panicked")?;
            Ok(waited)
        })?;
        ensure!(waited, "it was never in flight");
        let came: Vec<u64> = count()?
            .iter()
            .zip(before)
            .map(|(now, then)| now - then)
            .collect();
        same(
            "reads, and sectors read",
            vec![1, 8 * PAGE as u64 / 512],
            came,
        )?;
        let left: Vec<String> = in_flight()?.split_whitespace().map(str::to_owned).collect();
        same(
            "in flight afterwards",
            vec!["0".to_owned(), "0".to_owned()],
            left,
        )
    })
}

#[test]
fn what_changes_while_it_is_written_back_stays_in_memory() -> Result<()> {
    run("modprobe", &["dm-delay"])?;
    on_mapped(&slow(), |disk, _| {
        let content = pages(Kind::Text, 1, 16);
        let new = pages(Kind::Text, 2, 16);
        let mut blocks = Blocks::of(disk)?;
        blocks.write_all(&content)?;
        disk.set("writeback_batch_size", "16")?;
        std::thread::scope(|scope| -> Result<()> {
            let work = scope.spawn(|| disk.put("writeback", "page_indexes=0-15"));
            // In the middle of the 100 ms.
            std::thread::sleep(Duration::from_millis(40));
            for index in 0..8 {
                blocks.write(index, &new[index as usize])?;
            }
            blocks.discard(8, 4)?;
            let result = work.join().expect("the thread panicked");
            same("writeback", Ok(()), result)
        })?;
        for index in 0..16 {
            let expected = match index {
                0..8 => new[index as usize].clone(),
                8..12 => vec![0; PAGE],
                _ => content[index as usize].clone(),
            };
            blocks.holds(index, &expected)?;
        }
        let count = bd(disk)?.count;
        println!("{count} blocks on the device");
        ensure!(count <= 4, "{count} blocks on the device");
        same("blocks stored", 12 * PAGE as u64, disk.mm()?.orig)?;
        blocks.discard(0, 16)?;
        same("blocks on the device", 0, bd(disk)?.count)?;
        disk.wait_empty()
    })
}
