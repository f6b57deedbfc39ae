// SPDX-License-Identifier: GPL-2.0

//! What a disk does with a bio.
//!
//! A write builds the new object before it locks the slot, so that a write that fails leaves what was there, and the lock is
//! held for a moment only. A read holds the lock of its slot while it decompresses; the blocks of a pattern take no lock.
//!
//! Nothing here allocates in a way that may do I/O. What fails is an error on the bio, and a counter.

use super::{
    Active,
    Device,
    RzDisk, //
};
use crate::{
    compress::Press,
    sys::{
        bio::{
            Bio,
            Block,
            Op, //
        },
        gendisk::Operations,
        page::{
            Dest,
            Source,
            BLOCK_SIZE, //
        },
        published::InUse, //
    },
    table::{
        Entry,
        Stored,
        Table, //
    }, //
};
use kernel::{
    page::PAGE_SIZE,
    pr_warn_once,
    prelude::*,
    sync::atomic::Relaxed, //
};

impl Operations for Device {
    fn submit(disk: &RzDisk, bio: &mut Bio<'_>, in_use: &InUse) {
        let (Some(active), Some((first, count))) = (disk.active.get(in_use), bio.range()) else {
            // A bio for a disk without capacity, or for less than a block, which the block layer does not let through.
            return bio.fail();
        };
        match bio.op() {
            Op::Read => bio.accounted(|bio| {
                if active.read(bio, first).is_err() {
                    active.requests.count_failed_read();
                    bio.fail();
                }
            }),
            Op::Write => {
                let limits = Limits {
                    pages: disk.limit_pages.load(Relaxed),
                    streams: disk.max_streams(),
                };
                bio.accounted(|bio| {
                    if active.write(bio, first, limits).is_err() {
                        active.requests.count_failed_write();
                        bio.fail();
                    }
                });
            }
            Op::Discard | Op::WriteZeroes => {
                active.table.free_range(first, count);
                active.requests.count_freed(count);
            }
            Op::Other(op) => {
                pr_warn_once!("an operation that the disk does not know: {}\n", op);
                bio.unsupported();
            }
        }
    }

    fn swap_freed(disk: &RzDisk, offset: u64, in_use: &InUse) {
        if let Some(active) = disk.active.get(in_use) {
            let first = offset / BLOCK_SIZE as u64;
            let blocks = (PAGE_SIZE / BLOCK_SIZE) as u64;
            for index in first..first.saturating_add(blocks) {
                active.table.free_soon(index);
            }
            active.requests.count_freed(1);
        }
    }
}

/// What a write has to keep to.
#[derive(Clone, Copy)]
struct Limits {
    /// Pages of the pool; 0 is no limit.
    pages: u64,
    streams: u32,
}

impl Active {
    /// Reads the blocks of `bio`, from number `first` on.
    fn read(&self, bio: &Bio<'_>, first: u64) -> Result {
        for (index, block) in (first..).zip(bio.blocks()) {
            match block {
                Block::Whole(piece) => piece
                    .with_dest(|dest| self.read_block(index, dest))
                    .ok_or(EIO)??,
                Block::Split(pieces) => self.compressor.with_bounce(|bounce| {
                    let dest = Dest::from_slice(bounce).ok_or(EIO)?;
                    self.read_block(index, dest)?;
                    pieces.scatter(bounce);
                    Ok::<(), Error>(())
                })??,
            }
        }
        Ok(())
    }

    /// Reads one block. May sleep.
    #[inline]
    fn read_block(&self, index: u64, mut dest: Dest<'_>) -> Result {
        if let Some(pattern) = self.table.peek_pattern(index) {
            dest.fill(pattern);
            return Ok(());
        }
        let Some(slot) = self.table.lock(index) else {
            dest.fill(0);
            return Ok(());
        };
        match slot.stored() {
            Stored::Nothing => dest.fill(0),
            Stored::Pattern(pattern) => dest.fill(pattern),
            Stored::PatternObject(object) => dest.fill(self.table.read_pattern(object)?),
            Stored::Raw(object) => {
                self.table
                    .read_object(object, BLOCK_SIZE, &mut [], |data| dest.copy_from(data))??
            }
            Stored::Compressed(object, len) => self.compressor.with_unpacker(|unpacker| {
                let (scratch, decompress) = unpacker.parts();
                self.table
                    .read_object(object, len, scratch, |data| decompress(data, dest))?
                    .inspect_err(|e| {
                        pr_err!(
                            "Decompression failed! err={}, page={}\n",
                            e.to_errno(),
                            index
                        );
                    })
            })??,
        }
        Ok(())
    }

    /// Writes the blocks of `bio`, from number `first` on.
    fn write(&self, bio: &Bio<'_>, first: u64, limits: Limits) -> Result {
        for (index, block) in (first..).zip(bio.blocks()) {
            match block {
                Block::Whole(piece) => piece
                    .with_source(|source| self.write_block(index, source, piece.nid(), limits))
                    .ok_or(EIO)??,
                Block::Split(pieces) => {
                    self.compressor.with_stream(limits.streams, |stream| {
                        let nid = pieces.nid();
                        pieces.gather(&mut stream.bounce);
                        let source = Source::from_slice(&stream.bounce).ok_or(EIO)?;
                        let place = self.table.place(index)?;
                        place.store(match source.same_filled() {
                            Some(pattern) => self.table.pattern(pattern, nid, limits.pages)?,
                            None => {
                                entry(&self.table, &mut stream.press, source, nid, limits.pages)?
                            }
                        });
                        Ok::<(), Error>(())
                    })??
                }
            }
        }
        Ok(())
    }

    /// Writes one block. May sleep.
    #[inline]
    fn write_block(&self, index: u64, source: Source<'_>, nid: i32, limits: Limits) -> Result {
        // First, since a slot that cannot be had must not cost an object.
        let place = self.table.place(index)?;
        let new = match source.same_filled() {
            Some(pattern) => self.table.pattern(pattern, nid, limits.pages)?,
            None => self.compressor.with_stream(limits.streams, |stream| {
                entry(&self.table, &mut stream.press, source, nid, limits.pages)
            })??,
        };
        place.store(new);
        Ok(())
    }
}

/// Makes the entry for a block that is not filled with a pattern.
#[inline]
fn entry(
    table: &Table,
    press: &mut Press,
    source: Source<'_>,
    nid: i32,
    limit_pages: u64,
) -> Result<Entry> {
    match press.compress(source) {
        Ok(data) => {
            if let Some(entry) = table.compressed(data, nid, limit_pages)? {
                return Ok(entry);
            }
        }
        // Nothing is lost: the block is stored as it is.
        Err(e) => pr_warn_once!("Compression failed! err={}\n", e.to_errno()),
    }
    table.raw(source, nid, limit_pages)
}
