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
    compress::{
        Compressor,
        Cpu,
        Press, //
    },
    sys::{
        bio::{
            Bio,
            Op,
            Pieces, //
        },
        gendisk::{
            Operations,
            Progress, //
        },
        page::{
            Dest,
            Piece,
            Source,
            BLOCK_SIZE, //
        },
        published::InUse, //
    },
    table::{
        Entry,
        Stored,
        Table,
        Walk, //
    }, //
};
use kernel::{
    page::PAGE_SIZE,
    pr_warn_once,
    prelude::*,
    sync::atomic::Relaxed, //
};

impl Operations for Device {
    fn submit(disk: &RzDisk, bio: &mut Bio<'_>, in_use: &InUse) -> Progress {
        disk.carry_out(bio, in_use, Place::Submitter)
    }

    fn submit_deferred(disk: &RzDisk, bio: &mut Bio<'_>, in_use: &InUse) {
        // Never deferred: a worker waits.
        let _ = disk.carry_out(bio, in_use, Place::Worker);
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

/// Where a bio is carried out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Where it was submitted: nothing may wait for another device.
    Submitter,
    /// In a worker.
    Worker,
}

/// Why a block was not read.
enum Trouble {
    /// It cannot be.
    Failed,
    /// It is on the backing device, which must not be waited for here.
    Elsewhere,
}

impl From<Error> for Trouble {
    fn from(_: Error) -> Self {
        Self::Failed
    }
}

impl Device {
    fn carry_out(&self, bio: &mut Bio<'_>, in_use: &InUse, place: Place) -> Progress {
        let (Some(active), Some((first, count))) = (self.active.get(in_use), bio.range()) else {
            // A bio for a disk without capacity, or for less than a block, which the block layer does not let through.
            bio.fail();
            return Progress::Done;
        };
        match bio.op() {
            Op::Read => {
                let since = match place {
                    Place::Submitter => bio.started(),
                    Place::Worker => bio.resumed(),
                };
                if place == Place::Submitter
                    && active.store.is_some()
                    && active.table.any_elsewhere(first, count)
                {
                    return Progress::Deferred;
                }
                match active.read(bio, first, place) {
                    Ok(()) => {}
                    Err(Trouble::Elsewhere) if place == Place::Submitter => {
                        return Progress::Deferred
                    }
                    Err(_) => {
                        active.requests.count_failed_read();
                        bio.fail();
                    }
                }
                bio.ended(since);
            }
            Op::Write => {
                let limits = Limits {
                    pages: self.limit_pages.load(Relaxed),
                    cpu: Cpu::current().among(self.max_streams()),
                };
                let since = bio.started();
                if active.write(bio, first, limits).is_err() {
                    active.requests.count_failed_write();
                    bio.fail();
                }
                bio.ended(since);
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
        Progress::Done
    }
}

/// What a write has to keep to.
#[derive(Clone, Copy)]
struct Limits {
    /// Pages of the pool; 0 is no limit.
    pages: u64,
    /// Whose stream is used.
    cpu: Cpu,
}

impl Active {
    /// What compresses with this priority.
    #[inline]
    pub(super) fn compressor(&self, priority: usize) -> Result<&Compressor> {
        self.compressors
            .get(priority)
            .and_then(Option::as_ref)
            .ok_or(EIO)
    }

    /// What writes compress with.
    #[inline]
    fn primary(&self) -> Result<&Compressor> {
        self.compressor(0)
    }

    /// Reads the blocks of `bio`, from number `first` on.
    fn read(&self, bio: &Bio<'_>, first: u64, place: Place) -> Result<(), Trouble> {
        let mut walk = self.table.walk();
        let mut blocks = bio.blocks();
        for index in first.. {
            if let Some(piece) = blocks.whole() {
                piece
                    .with_dest(|dest| self.read_block(&mut walk, index, dest, place))
                    .ok_or(EIO)??;
            } else if let Some(pieces) = blocks.split() {
                self.read_pieces(&mut walk, index, pieces, place)?;
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Reads one block that lies in several pieces of memory. May sleep.
    #[cold]
    fn read_pieces(
        &self,
        walk: &mut Walk<'_>,
        index: u64,
        pieces: Pieces<'_>,
        place: Place,
    ) -> Result<(), Trouble> {
        match place {
            // Not with a CPU's buffer, since a device may be waited for.
            Place::Worker => {
                let store = self.store.as_ref().ok_or(EIO)?;
                store
                    .with_block(|bounce| Ok(self.read_split(walk, index, pieces, bounce, place)))?
            }
            Place::Submitter => self
                .primary()?
                .with_bounce(|bounce| self.read_split(walk, index, pieces, bounce, place))?,
        }
    }

    /// Reads one block by way of `bounce`, a block long.
    fn read_split(
        &self,
        walk: &mut Walk<'_>,
        index: u64,
        pieces: Pieces<'_>,
        bounce: &mut [u8],
        place: Place,
    ) -> Result<(), Trouble> {
        let dest = Dest::from_slice(bounce).ok_or(EIO)?;
        self.read_block(walk, index, dest, place)?;
        pieces.scatter(bounce);
        Ok(())
    }

    /// Reads one block. May sleep.
    #[inline]
    fn read_block(
        &self,
        walk: &mut Walk<'_>,
        index: u64,
        mut dest: Dest<'_>,
        place: Place,
    ) -> Result<(), Trouble> {
        self.table.touch(index);
        let Some(found) = walk.find(index) else {
            dest.fill(0);
            return Ok(());
        };
        if let Some(pattern) = found.pattern() {
            dest.fill(pattern);
            return Ok(());
        }
        let slot = found.lock_to_read();
        match slot.stored() {
            Stored::Compressed {
                object,
                len,
                priority,
            } => self.decompress(object, (len, priority), index, dest)?,
            Stored::Elsewhere {
                place: at,
                compressed,
            } => match place {
                Place::Submitter => return Err(Trouble::Elsewhere),
                // With the slot locked: nobody can give the place to another block meanwhile.
                Place::Worker => self.fetch(at, compressed, index, dest)?,
            },
            stored => self.unpack(stored, index, dest)?,
        }
        Ok(())
    }

    /// Writes the blocks of `bio`, from number `first` on.
    fn write(&self, bio: &Bio<'_>, first: u64, limits: Limits) -> Result {
        let mut walk = self.table.walk();
        let mut blocks = bio.blocks();
        for index in first.. {
            if let Some(piece) = blocks.whole() {
                piece
                    .with_source(|source| {
                        // First, since a slot that cannot be had must not cost an object.
                        let place = walk.find_or_make(index)?;
                        place.store(match source.same_filled() {
                            Some(pattern) => self.table.pattern(pattern, piece, limits.pages)?,
                            None => self.primary()?.with_stream(limits.cpu, |stream| {
                                entry(&self.table, &mut stream.press, source, piece, limits.pages)
                            })??,
                        });
                        Ok::<(), Error>(())
                    })
                    .ok_or(EIO)??;
            } else if let Some(pieces) = blocks.split() {
                self.write_pieces(&mut walk, index, pieces, limits)?;
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Writes one block that lies in several pieces of memory. May sleep.
    #[cold]
    fn write_pieces(
        &self,
        walk: &mut Walk<'_>,
        index: u64,
        pieces: Pieces<'_>,
        limits: Limits,
    ) -> Result {
        let place = walk.find_or_make(index)?;
        self.primary()?.with_stream(limits.cpu, |stream| {
            let near = pieces.clone().next().ok_or(EIO)?;
            pieces.gather(&mut stream.bounce);
            let source = Source::from_slice(&stream.bounce).ok_or(EIO)?;
            place.store(match source.same_filled() {
                Some(pattern) => self.table.pattern(pattern, near, limits.pages)?,
                None => entry(&self.table, &mut stream.press, source, near, limits.pages)?,
            });
            Ok::<(), Error>(())
        })?
    }
}

/// Makes the entry for a block that is not filled with a pattern.
#[inline(always)]
fn entry(
    table: &Table,
    press: &mut Press,
    source: Source<'_>,
    near: Piece<'_>,
    limit_pages: u64,
) -> Result<Entry> {
    match press.compress(source) {
        Ok(data) => {
            if let Some(entry) = table.compressed(data, 0, near, limit_pages)? {
                return Ok(entry);
            }
        }
        // Nothing is lost: the block is stored as it is.
        Err(e) => refused(e),
    }
    table.raw(source, near, limit_pages)
}

#[cold]
fn refused(e: Error) {
    pr_warn_once!("Compression failed! err={}\n", e.to_errno());
}
