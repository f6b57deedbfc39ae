// SPDX-License-Identifier: GPL-2.0

//! Statistics: those of a disk, parsed and printed in the driver's own format, and the kernel's.

use std::fs;

use anyhow::{ensure, Context, Result};

/// `mm_stat`, column by column. Sizes are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MmStat {
    /// What was stored, before compression.
    pub orig: u64,
    /// The same, compressed.
    pub compr: u64,
    /// Memory taken from the system for it.
    pub used: u64,
    /// The limit, 0 for none.
    pub limit: u64,
    /// The most that was used at any time.
    pub used_max: i64,
    /// Pages stored as one repeated word.
    pub same: u64,
    /// Pages that compaction freed.
    pub compacted: u64,
    /// Pages stored uncompressed.
    pub huge: u64,
    /// Pages ever stored uncompressed.
    pub huge_since: u64,
}

fn columns<const N: usize>(text: &str) -> Result<[u64; N]> {
    let numbers: std::result::Result<Vec<u64>, _> =
        text.split_whitespace().map(str::parse::<u64>).collect();
    let numbers = numbers.with_context(|| format!("not all numbers: {text:?}"))?;
    numbers
        .try_into()
        .map_err(|v: Vec<u64>| anyhow::anyhow!("{N} columns expected, {} came: {text:?}", v.len()))
}

impl MmStat {
    /// Parses the text, which must be exactly what [`MmStat::text`] prints for its values.
    pub fn parse(text: &str) -> Result<MmStat> {
        let [orig, compr, used, limit, used_max, same, compacted, huge, huge_since] =
            columns::<9>(text)?;
        let used_max = i64::try_from(used_max).context("mem_used_max is beyond 2^63")?;
        let stat = MmStat {
            orig,
            compr,
            used,
            limit,
            used_max,
            same,
            compacted,
            huge,
            huge_since,
        };
        ensure!(
            stat.text() == text,
            "mm_stat\n  expected: {:?}\n  came:     {text:?}",
            stat.text()
        );
        Ok(stat)
    }

    /// The text in the driver's format.
    pub fn text(&self) -> String {
        format!(
            "{:8} {:8} {:8} {:8} {:8} {:8} {:8} {:8} {:8}\n",
            self.orig,
            self.compr,
            self.used,
            self.limit,
            self.used_max,
            self.same,
            self.compacted,
            self.huge,
            self.huge_since
        )
    }

    /// Fails if the numbers are impossible for a disk of `disksize` bytes.
    pub fn plausible(&self, disksize: u64) -> Result<()> {
        let pages = disksize / crate::PAGE as u64;
        ensure!(
            self.orig <= disksize,
            "orig_data_size above disksize {disksize}: {self:?}"
        );
        ensure!(
            self.compr <= disksize,
            "compr_data_size above disksize {disksize}: {self:?}"
        );
        ensure!(
            self.same <= pages,
            "same_pages above the {pages} pages of the disk: {self:?}"
        );
        ensure!(
            self.huge <= pages,
            "huge_pages above the {pages} pages of the disk: {self:?}"
        );
        ensure!(
            self.used <= 2 * disksize + crate::MIB,
            "mem_used_total is absurd: {self:?}"
        );
        Ok(())
    }
}

/// `io_stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoStat {
    /// Bios of reads that failed.
    pub failed_reads: u64,
    /// Bios of writes that failed.
    pub failed_writes: u64,
    /// Slots freed by discards and by swap's notices.
    pub notify_free: u64,
}

impl IoStat {
    /// Parses the text, which must be in the driver's exact format.
    pub fn parse(text: &str) -> Result<IoStat> {
        let [failed_reads, failed_writes, invalid, notify_free] = columns::<4>(text)?;
        let stat = IoStat {
            failed_reads,
            failed_writes,
            notify_free,
        };
        ensure!(
            invalid == 0,
            "the third column of io_stat is always 0: {text:?}"
        );
        ensure!(
            stat.text() == text,
            "io_stat\n  expected: {:?}\n  came:     {text:?}",
            stat.text()
        );
        Ok(stat)
    }

    /// The text in the driver's format.
    pub fn text(&self) -> String {
        format!(
            "{:8} {:8} 0 {:8}\n",
            self.failed_reads, self.failed_writes, self.notify_free
        )
    }
}

/// `debug_stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DebugStat {
    /// Slot-free notices that were dropped.
    pub miss_free: u64,
}

impl DebugStat {
    /// Parses the text, which must be in the driver's exact format.
    pub fn parse(text: &str) -> Result<DebugStat> {
        let rest = text.strip_prefix("version: 1\n").with_context(|| {
            format!("debug_stat starts with {text:?}, not with \"version: 1\\n\"")
        })?;
        let [zero, miss_free] = columns::<2>(rest)?;
        let expected = format!("0 {miss_free:8}\n");
        ensure!(
            zero == 0 && rest == expected,
            "debug_stat\n  expected: {expected:?}\n  came:     {rest:?}"
        );
        Ok(DebugStat { miss_free })
    }
}

/// A number of /proc/vmstat.
pub fn vmstat(name: &str) -> Result<u64> {
    field("/proc/vmstat", name)
}

/// A number of /proc/meminfo, in bytes.
pub fn meminfo(name: &str) -> Result<u64> {
    Ok(field("/proc/meminfo", &format!("{name}:"))? * 1024)
}

/// Memory that nothing uses, in bytes: what /proc/meminfo calls available, and the free pages that
/// each CPU keeps at hand, which are tens of megabytes at times and not counted there.
pub fn available() -> Result<u64> {
    // Folds the CPUs' own counts into the totals.
    fs::write("/proc/sys/vm/stat_refresh", "1").context("refreshing the counters")?;
    let zones = fs::read_to_string("/proc/zoneinfo").context("reading /proc/zoneinfo")?;
    let at_hand: u64 = zones
        .lines()
        .filter_map(|line| {
            line.trim()
                .strip_prefix("count:")?
                .trim()
                .parse::<u64>()
                .ok()
        })
        .sum();
    Ok(meminfo("MemAvailable")? + at_hand * crate::PAGE as u64)
}

fn field(file: &str, name: &str) -> Result<u64> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {file}"))?;
    text.lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|words| words.first() == Some(&name))
        .and_then(|words| words.get(1)?.parse().ok())
        .with_context(|| format!("{file} has no {name}"))
}
