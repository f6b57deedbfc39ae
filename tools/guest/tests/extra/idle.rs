// SPDX-License-Identifier: GPL-2.0

//! Idle marking, access times, and `block_state`.

use std::time::Duration;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use rzram_guest::disk::Disk;
use rzram_guest::kernel::Log;
use rzram_guest::module::{with_disk, with_module};
use rzram_guest::pattern::Kind;
use rzram_guest::target::target;
use rzram_guest::{attr, same, PAGE};

use rzram_guest::post::{
    block_state, block_state_file, flagged, page, pages, read_in_pieces, unreadable, Blocks, State,
    P,
};

/// Microseconds since boot, to within 10 ms.
fn uptime() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/uptime")?;
    let seconds = text.split_whitespace().next().context("an empty uptime")?;
    Ok((seconds.parse::<f64>()? * 1e6) as u64)
}

fn access(disk: &Disk) -> Result<Vec<u64>> {
    Ok(block_state(disk)?
        .into_values()
        .map(|state| state.accessed)
        .collect())
}

#[test]
fn idle_takes_all_or_seconds() -> Result<()> {
    with_module("track_access=1", || {
        let disk = Disk::new(0);
        disk.refuses("idle", "all", Errno::EINVAL)?;
        // Nothing can be older than the machine, so there is nothing to do.
        disk.set("idle", "4294967295")?;
        disk.refuses("idle", "0", Errno::EINVAL)?;
        disk.set("disksize", "1M")?;
        for text in [
            "all",
            "all\n",
            "0",
            "1",
            "1\n",
            "0x1",
            "010",
            "+1",
            "4294967295",
        ] {
            disk.set("idle", text)?;
        }
        for text in [
            "",
            "al",
            "ALL",
            "all ",
            "none",
            "-1",
            "1 ",
            "1s",
            "\n",
            "4294967296",
        ] {
            if !text.is_empty() {
                disk.refuses("idle", text, Errno::EINVAL)?;
            }
        }
        disk.reset()
    })
}

#[test]
fn seconds_need_access_times() -> Result<()> {
    if target().is_c_zram() {
        return Ok(()); // it always has them
    }
    with_disk("1M", |disk| {
        let mut log = Log::follow()?;
        disk.refuses("idle", "1", Errno::EINVAL)?;
        log.expect("track_access=1")?;
        disk.refuses("idle", "4294967295", Errno::EINVAL)?;
        disk.set("idle", "all")?;
        let mut blocks = Blocks::of(disk)?;
        blocks.write(0, &page(Kind::Text, 1))?;
        let quiet = State {
            accessed: 0,
            flags: "......".into(),
        };
        same("state", Some(&quiet), block_state(disk)?.get(&0))
    })
}

#[test]
fn all_marks_what_is_in_memory_and_access_unmarks() -> Result<()> {
    with_disk("1M", |disk| {
        let mut blocks = Blocks::of(disk)?;
        let content = pages(Kind::Text, 1, 8);
        blocks.write_all(&content)?;
        blocks.write(20, &page(Kind::Word(5), 0))?;
        blocks.write(30, &page(Kind::Random, 6))?;
        same("idle at first", vec![], flagged(disk, 'i')?)?;
        disk.set("idle", "all")?;
        let marked = vec![0, 1, 2, 3, 4, 5, 6, 7, 30];
        same("idle", marked, flagged(disk, 'i')?)?;
        blocks.holds(3, &content[3])?;
        blocks.write(5, &content[0])?;
        blocks.discard(6, 1)?;
        same("idle still", vec![0, 1, 2, 4, 7, 30], flagged(disk, 'i')?)?;
        // Reading what is not stored, or a pattern, changes nothing else.
        blocks.holds(100, &vec![0; PAGE])?;
        blocks.holds(20, &page(Kind::Word(5), 0))?;
        same("idle still", vec![0, 1, 2, 4, 7, 30], flagged(disk, 'i')?)
    })
}

#[test]
fn seconds_mark_the_old_and_unmark_the_young() -> Result<()> {
    with_module("track_access=1", || {
        let disk = Disk::new(0);
        disk.set("disksize", "1M")?;
        let mut blocks = Blocks::of(&disk)?;
        let content = pages(Kind::Text, 1, 4);
        blocks.write_all(&content)?;
        // C zram counts in whole seconds.
        let old = if target().is_c_zram() { 3300 } else { 2300 };
        std::thread::sleep(Duration::from_millis(old));
        blocks.write(1, &content[1])?;
        blocks.holds(2, &content[2])?;
        blocks.write(4, &content[0])?;
        disk.set("idle", "2")?;
        same("older than 2 seconds", vec![0, 3], flagged(&disk, 'i')?)?;
        disk.set("idle", "all")?;
        same("all", vec![0, 1, 2, 3, 4], flagged(&disk, 'i')?)?;
        disk.set("idle", "2")?;
        same("older than 2 seconds", vec![0, 3], flagged(&disk, 'i')?)?;
        disk.set("idle", "100000000")?;
        same("nothing is that old", vec![0, 3], flagged(&disk, 'i')?)?;
        disk.set("idle", "0")?;
        same("older than now", vec![0, 1, 2, 3, 4], flagged(&disk, 'i')?)?;
        drop(blocks);
        disk.reset()
    })
}

#[test]
fn access_times_have_fractions_and_tell_the_truth() -> Result<()> {
    with_module("track_access=1", || {
        let disk = Disk::new(0);
        disk.set("disksize", "1M")?;
        let mut blocks = Blocks::of(&disk)?;
        let mut spans = Vec::new();
        let content = pages(Kind::Text, 1, 6);
        for (index, content) in (0..).zip(&content) {
            let start = uptime()?;
            blocks.write(index, content)?;
            spans.push(start..uptime()?);
            std::thread::sleep(Duration::from_millis(130));
        }
        let start = uptime()?;
        blocks.holds(0, &content[0])?;
        spans[0] = start..uptime()?;
        let times = access(&disk)?;
        // To within a tenth of a second, and C zram to within a second.
        let slack = if target().is_c_zram() {
            1_000_000
        } else {
            100_000
        };
        for (time, span) in times.iter().zip(&spans) {
            ensure!(
                time + slack >= span.start && *time <= span.end + 10_000,
                "accessed at {time}, not in {span:?}"
            );
        }
        if !target().is_c_zram() {
            let mut fractions: Vec<u64> = times.iter().map(|time| time % 1_000_000).collect();
            fractions.sort_unstable();
            fractions.dedup();
            ensure!(fractions.len() >= 5, "fractions: {times:?}");
        }
        drop(blocks);
        disk.reset()
    })
}

#[test]
fn block_state_has_a_line_for_each_block_that_is_stored() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        let file = block_state_file(&disk);
        same("mode", 0o400, attr::mode(&file)?)?;
        unreadable(&file, Errno::EINVAL)?;
        disk.set("disksize", "16M")?;
        same("an empty disk", 0, block_state(&disk)?.len())?;
        let mut blocks = Blocks::of(&disk)?;
        let (content, last) = (page(Kind::Text, 1), 16 * (1 << 20) / P - 1);
        let mut stored: Vec<u64> = (0..last).step_by(5).chain([last]).collect();
        for index in &stored {
            blocks.write(*index, &content)?;
        }
        let listed: Vec<u64> = block_state(&disk)?.into_keys().collect();
        same("blocks listed", stored.clone(), listed)?;
        for index in stored.drain(..stored.len() / 2) {
            blocks.discard(index, 1)?;
        }
        let listed: Vec<u64> = block_state(&disk)?.into_keys().collect();
        same("blocks listed", stored, listed)?;
        drop(blocks);
        disk.reset()?;
        unreadable(&file, Errno::EINVAL)
    })
}

#[test]
fn block_state_in_small_pieces_is_the_same() -> Result<()> {
    with_disk("1M", |disk| {
        let mut blocks = Blocks::of(disk)?;
        blocks.write_all(&pages(Kind::Text, 1, 60))?;
        let whole = read_in_pieces(&block_state_file(disk), 1 << 16)?;
        same("lines", 60, whole.lines().count())?;
        for size in [64, 100, 300, 4096] {
            let came = read_in_pieces(&block_state_file(disk), size)?;
            ensure!(came == whole, "in pieces of {size} it is different");
        }
        if target().is_c_zram() {
            return Ok(());
        }
        // With a buffer that no line fits into there is an error, or a part of a line, but no end of file.
        for size in [1, 16, 32] {
            let came = read_in_pieces(&block_state_file(disk), size).unwrap_or(whole.clone());
            ensure!(came == whole, "in pieces of {size} it came out as {came:?}");
        }
        Ok(())
    })
}
