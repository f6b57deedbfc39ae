// SPDX-License-Identifier: GPL-2.0
//! The anonymous memory of another process.

use crate::{sampler::Sampler, PAGE};
use anyhow::{Context, Result};
use nix::{
    sys::signal::{kill, Signal},
    unistd::Pid,
};
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
};

/// In a word of `/proc/PID/pagemap`: the page is in memory.
const PRESENT: u64 = 1 << 63;
/// The page is a file's, or shared.
const FILE: u64 = 1 << 61;

/// Adds up to `most` pages of a process, picked at random from all that it has. It is stopped meanwhile.
pub fn sample(pid: i32, most: usize, sampler: &mut Sampler) -> Result<()> {
    let process = Pid::from_raw(pid);
    kill(process, Signal::SIGSTOP).with_context(|| format!("cannot stop process {pid}"))?;
    let done = read(pid, most, sampler);
    kill(process, Signal::SIGCONT).with_context(|| format!("cannot continue process {pid}"))?;
    done.with_context(|| format!("cannot read the memory of process {pid}; are you root?"))
}

fn read(pid: i32, most: usize, sampler: &mut Sampler) -> Result<()> {
    let mut pages = anonymous(pid)?;
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    let mut page = [0; PAGE];
    let before = sampler.count();
    // The same pages for the same memory: picked by a fixed sequence.
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    while !pages.is_empty() && !sampler.is_full() && sampler.count() - before < most {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let address = pages.swap_remove(random as usize % pages.len());
        if memory.read_exact_at(&mut page, address).is_ok() {
            sampler.add(&page);
        }
    }
    Ok(())
}

/// The addresses of the pages that are private and in memory.
fn anonymous(pid: i32) -> Result<Vec<u64>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let pagemap = File::open(format!("/proc/{pid}/pagemap"))?;
    let mut found = Vec::new();
    for line in maps.lines().filter(|line| !line.contains("[v")) {
        let Some((start, end)) = range(line) else {
            continue;
        };
        let mut words = vec![0; ((end - start) / PAGE as u64 * 8) as usize];
        pagemap.read_exact_at(&mut words, start / PAGE as u64 * 8)?;
        for (at, word) in (start..end).step_by(PAGE).zip(words.chunks_exact(8)) {
            let word = word
                .iter()
                .rev()
                .fold(0, |all, byte| (all << 8) | u64::from(*byte));
            if word & (PRESENT | FILE) == PRESENT {
                found.push(at);
            }
        }
    }
    Ok(found)
}

/// The start and the end of a mapping, from its line in `maps`.
fn range(line: &str) -> Option<(u64, u64)> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(start)?, number(end)?))
}

/// Pages of anonymous memory that a process has; `None` if it is gone.
pub fn resident(pid: i32) -> Option<usize> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:"))?;
    let kib: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024 / PAGE)
}

/// A process and all below it.
pub fn family(pid: i32) -> Vec<i32> {
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        // Each thread has children of its own.
        let threads = fs::read_dir(format!("/proc/{parent}/task"))
            .into_iter()
            .flatten();
        for thread in threads.flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            let children = children
                .split_whitespace()
                .filter_map(|child| child.parse::<i32>().ok());
            found.extend(children);
        }
        at += 1;
    }
    found
}

/// The program that a process runs, with its first arguments.
pub fn command_line(pid: i32) -> Result<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline"))
        .with_context(|| format!("there is no process {pid}"))?;
    let words = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let line = words.collect::<Vec<_>>().join(" ");
    Ok(line.chars().take(120).collect::<String>().trim().to_owned())
}
