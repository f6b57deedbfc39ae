// SPDX-License-Identifier: GPL-2.0

//! Counters, and the text that they are shown as.
//!
//! No lock: counters of what the slots hold are changed while the slot is locked, so that no reader sees a sum of slots
//! that there never was in it; the rest only grow.

use crate::sys::inline;
use core::fmt::{
    self,
    Write, //
};
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// What the slots of a disk hold.
pub(crate) struct Contents {
    stored: Atomic<i64>,
    bytes: Atomic<i64>,
    same: Atomic<i64>,
    huge: Atomic<i64>,
    huge_since: Atomic<i64>,
}

/// By how much the contents of a slot count, or change what counts.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Share {
    /// Blocks that are stored, in whichever way.
    pub(crate) stored: i64,
    /// Bytes of objects in the pool, without the pool's own overhead.
    pub(crate) bytes: i64,
    /// Blocks that are filled with one pattern.
    pub(crate) same: i64,
    /// Blocks that are stored uncompressed.
    pub(crate) huge: i64,
}

impl Share {
    /// What changes if this replaces `old`.
    #[inline]
    pub(crate) fn instead_of(self, old: Self) -> Self {
        Self {
            stored: self.stored.wrapping_sub(old.stored),
            bytes: self.bytes.wrapping_sub(old.bytes),
            same: self.same.wrapping_sub(old.same),
            huge: self.huge.wrapping_sub(old.huge),
        }
    }
}

#[inline]
fn change(counter: &Atomic<i64>, by: i64) {
    // Most writes change one counter or two, and a locked operation costs more than a look.
    if by != 0 {
        inline::add(counter, by);
    }
}

#[inline]
fn read(counter: &Atomic<i64>) -> u64 {
    // Counted up before anything can count it down, so never negative.
    u64::try_from(counter.load(Relaxed)).unwrap_or(0)
}

impl Contents {
    /// Empty slots.
    pub(crate) const fn new() -> Self {
        Self {
            stored: Atomic::new(0),
            bytes: Atomic::new(0),
            same: Atomic::new(0),
            huge: Atomic::new(0),
            huge_since: Atomic::new(0),
        }
    }

    /// A slot, whose lock is held, now counts differently.
    #[inline]
    pub(crate) fn apply(&self, share: Share) {
        change(&self.stored, share.stored);
        change(&self.bytes, share.bytes);
        change(&self.same, share.same);
        change(&self.huge, share.huge);
    }

    /// A block was stored uncompressed.
    #[inline]
    pub(crate) fn count_huge_write(&self) {
        self.huge_since.add(1i64, Relaxed);
    }
}

/// What happened to the requests to a disk.
pub(crate) struct Requests {
    failed_reads: Atomic<i64>,
    failed_writes: Atomic<i64>,
    notify_free: Atomic<i64>,
    backing_reads: Atomic<i64>,
    backing_writes: Atomic<i64>,
}

impl Requests {
    /// Nothing yet.
    pub(crate) const fn new() -> Self {
        Self {
            failed_reads: Atomic::new(0),
            failed_writes: Atomic::new(0),
            notify_free: Atomic::new(0),
            backing_reads: Atomic::new(0),
            backing_writes: Atomic::new(0),
        }
    }

    /// A bio that reads was failed.
    pub(crate) fn count_failed_read(&self) {
        self.failed_reads.add(1i64, Relaxed);
    }

    /// A bio that writes was failed.
    pub(crate) fn count_failed_write(&self) {
        self.failed_writes.add(1i64, Relaxed);
    }

    /// Blocks are no longer needed: discarded, or reported free by swap.
    pub(crate) fn count_freed(&self, blocks: u64) {
        self.notify_free
            .add(i64::try_from(blocks).unwrap_or(i64::MAX), Relaxed);
    }

    /// A block is read from the backing device.
    pub(crate) fn count_backing_read(&self) {
        self.backing_reads.add(1i64, Relaxed);
    }

    /// A block was written to the backing device.
    pub(crate) fn count_backing_write(&self) {
        self.backing_writes.add(1i64, Relaxed);
    }

    /// The text of `bd_stat`: blocks on the backing device now, blocks read from it and written to it.
    pub(crate) fn write_bd_stat(&self, taken: u64, out: &mut impl Write) -> fmt::Result {
        writeln!(
            out,
            "{:8} {:8} {:8}",
            taken,
            read(&self.backing_reads),
            read(&self.backing_writes)
        )
    }

    /// The text of `io_stat`: failed reads, failed writes, a column that zram once used, blocks freed.
    pub(crate) fn write_io_stat(&self, out: &mut impl Write) -> fmt::Result {
        writeln!(
            out,
            "{:8} {:8} 0 {:8}",
            read(&self.failed_reads),
            read(&self.failed_writes),
            read(&self.notify_free)
        )
    }
}

/// Figures of `mm_stat` that are not counters of the slots.
#[derive(Clone, Copy, Default)]
pub(crate) struct PoolFigures {
    /// Bytes that the pool takes now.
    pub(crate) used: u64,
    /// Bytes that it may take, or 0.
    pub(crate) limit: u64,
    /// Most bytes that it took.
    pub(crate) used_max: u64,
    /// Pages that compaction has freed.
    pub(crate) compacted: u64,
}

/// Figures of `memory_stat` beyond those of `mm_stat`.
#[derive(Clone, Copy, Default)]
pub(crate) struct MemoryFigures {
    /// Bytes of the slots, of access times, and of the map of the backing device.
    pub(crate) table: u64,
    /// Bytes of the buffers of all CPUs, and of the state of the algorithms.
    pub(crate) buffers: u64,
    /// Blocks on the backing device.
    pub(crate) written_back: u64,
}

/// Bytes of a block, which counts as `orig_data_size`.
const BLOCK_SIZE: u64 = 4096;

impl Contents {
    /// The text of `mm_stat`: original and compressed bytes, bytes of the pool now, at most allowed and at most so far, blocks
    /// of one pattern, pages that compaction freed, blocks stored uncompressed now and since the start.
    pub(crate) fn write_mm_stat(&self, pool: PoolFigures, out: &mut impl Write) -> fmt::Result {
        writeln!(
            out,
            "{:8} {:8} {:8} {:8} {:8} {:8} {:8} {:8} {:8}",
            read(&self.stored).saturating_mul(BLOCK_SIZE),
            read(&self.bytes),
            pool.used,
            pool.limit,
            pool.used_max,
            read(&self.same),
            pool.compacted,
            read(&self.huge),
            read(&self.huge_since)
        )
    }
}

impl Contents {
    /// The text of `memory_stat`: a name and a number a line, bytes where the name says so, blocks of 4 KiB otherwise. The
    /// ratio is what is stored in memory to all the memory that this takes, in hundredths.
    pub(crate) fn write_memory_stat(
        &self,
        pool: PoolFigures,
        memory: MemoryFigures,
        out: &mut impl Write,
    ) -> fmt::Result {
        let stored = read(&self.stored);
        let total = pool
            .used
            .saturating_add(memory.table)
            .saturating_add(memory.buffers);
        let in_memory = stored
            .saturating_sub(memory.written_back)
            .saturating_mul(BLOCK_SIZE);
        let hundredths = in_memory
            .saturating_mul(100)
            .checked_div(total)
            .unwrap_or(0);
        let lines: [(&str, u64); 12] = [
            ("stored_bytes", stored.saturating_mul(BLOCK_SIZE)),
            ("compressed_bytes", read(&self.bytes)),
            ("pool_bytes", pool.used),
            ("pool_max_bytes", pool.used_max),
            ("pool_limit_bytes", pool.limit),
            ("table_bytes", memory.table),
            ("buffer_bytes", memory.buffers),
            ("total_bytes", total),
            ("same_filled", read(&self.same)),
            ("huge", read(&self.huge)),
            ("written_back", memory.written_back),
            ("ratio_percent", hundredths),
        ];
        for (name, value) in lines {
            writeln!(out, "{name} {value}")?;
        }
        Ok(())
    }
}

/// The text of `debug_stat`: a version, a column that zram once used, and slot-free notices that were missed. There are
/// none: one that meets a busy slot is carried out by whoever holds the slot.
pub(crate) fn write_debug_stat(out: &mut impl Write) -> fmt::Result {
    writeln!(out, "version: 1\n0 {:8}", 0)
}
