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
        Press, //
    },
    sys::{
        bio::{
            Bio,
            Block,
            Op,
            Pieces, //
        },
        gendisk::{
            Operations,
            Progress, //
        },
        page::{
            Dest,
            Source,
            BLOCK_SIZE, //
        },
        published::InUse, //
    },
    table::{
        Entry,
        Guard,
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
    fn submit(disk: &RzDisk, bio: &mut Bio<'_>, in_use: &InUse) -> Progress {
        disk.carry_out(bio, in_use, Place::Submitter)
    }

    fn submit_deferred(disk: &RzDisk, bio: &mut Bio<'_>, in_use: &InUse) {
        if disk.carry_out(bio, in_use, Place::Worker) == Progress::Deferred {
            // Cannot be: a worker waits.
            bio.fail();
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
                // Before the statistics count it, which they do once.
                if place == Place::Submitter
                    && active.backing.is_some()
                    && active.table.any_elsewhere(first, count)
                {
                    return Progress::Deferred;
                }
                return bio.accounted(|bio| match active.read(bio, first, place) {
                    Ok(()) => Progress::Done,
                    Err(Trouble::Elsewhere) => Progress::Deferred,
                    Err(Trouble::Failed) => {
                        active.requests.count_failed_read();
                        bio.fail();
                        Progress::Done
                    }
                });
            }
            Op::Write => {
                let limits = Limits {
                    pages: self.limit_pages.load(Relaxed),
                    streams: self.max_streams(),
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
        Progress::Done
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
        for (index, block) in (first..).zip(bio.blocks()) {
            match block {
                Block::Whole(piece) => piece
                    .with_dest(|dest| self.read_block(index, dest, place))
                    .ok_or(EIO)??,
                // Not with a CPU's buffer, since a device may be waited for.
                Block::Split(pieces) if place == Place::Worker => {
                    let mut bounce =
                        KVVec::from_elem(0u8, BLOCK_SIZE, GFP_KERNEL).map_err(Error::from)?;
                    self.read_split(index, pieces, &mut bounce, place)?;
                }
                Block::Split(pieces) => self
                    .primary()?
                    .with_bounce(|bounce| self.read_split(index, pieces, bounce, place))??,
            }
        }
        Ok(())
    }

    /// Reads one block by way of `bounce`, a block long.
    fn read_split(
        &self,
        index: u64,
        pieces: Pieces<'_>,
        bounce: &mut [u8],
        place: Place,
    ) -> Result<(), Trouble> {
        let dest = Dest::from_slice(bounce).ok_or(EIO)?;
        self.read_block(index, dest, place)?;
        pieces.scatter(bounce);
        Ok(())
    }

    /// Reads one block. May sleep.
    #[inline]
    fn read_block(&self, index: u64, mut dest: Dest<'_>, place: Place) -> Result<(), Trouble> {
        self.table.touch(index);
        if let Some(pattern) = self.table.peek_pattern(index) {
            dest.fill(pattern);
            return Ok(());
        }
        let Some(mut slot) = self.table.lock(index) else {
            dest.fill(0);
            return Ok(());
        };
        if let Stored::Elsewhere {
            place: at,
            compressed,
        } = slot.stored()
        {
            if place == Place::Submitter {
                return Err(Trouble::Elsewhere);
            }
            // With the slot locked: nobody can give the place to another block meanwhile.
            return Ok(self.fetch(at, compressed, dest).inspect_err(|e| {
                pr_err!(
                    "Reading from the backing device failed! err={}, page={}\n",
                    e.to_errno(),
                    index
                );
            })?);
        }
        slot.touch();
        Ok(self.unpack(&slot, index, dest)?)
    }

    /// Reads a block from the backing device. May sleep, until the device has done it.
    fn fetch(&self, at: u64, compressed: Option<(usize, usize)>, mut dest: Dest<'_>) -> Result {
        let backing = self.backing.as_ref().ok_or(EIO)?;
        let mut buffer = KVVec::from_elem(0u8, BLOCK_SIZE, GFP_KERNEL)?;
        self.requests.count_backing_read();
        backing.read(at, &mut buffer)?;
        match compressed {
            Some((len, priority)) if self.compressed_writeback => {
                let data = buffer.get(..len).ok_or(EIO)?;
                self.compressor(priority)?.with_unpacker(|unpacker| {
                    let (_, decompress) = unpacker.parts();
                    decompress(data, dest)
                })?
            }
            _ => dest.copy_from(&buffer),
        }
    }

    /// Copies what a slot holds in memory to `dest`, decompressed. `EIO` if that is elsewhere. May sleep.
    #[inline]
    pub(super) fn unpack(&self, slot: &Guard<'_>, index: u64, mut dest: Dest<'_>) -> Result {
        match slot.stored() {
            Stored::Nothing => dest.fill(0),
            Stored::Pattern(pattern) => dest.fill(pattern),
            Stored::PatternObject(object) => dest.fill(self.table.read_pattern(object)?),
            // A whole page never lies in two.
            Stored::Raw(object) if BLOCK_SIZE == PAGE_SIZE => {
                self.table
                    .read_object(object, BLOCK_SIZE, &mut [], |data| dest.copy_from(data))??
            }
            Stored::Raw(object) => self.primary()?.with_unpacker(|unpacker| {
                let (scratch, _) = unpacker.parts();
                self.table
                    .read_object(object, BLOCK_SIZE, scratch, |data| dest.copy_from(data))?
            })??,
            Stored::Compressed {
                object,
                len,
                priority,
            } => self.compressor(priority)?.with_unpacker(|unpacker| {
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
            Stored::Elsewhere { .. } => return Err(EIO),
        }
        Ok(())
    }

    /// Copies the object that a slot holds to the start of `buffer`, as it is, and zeros behind it. `EIO` if there is none.
    /// May sleep.
    pub(super) fn copy_stored(&self, slot: &Guard<'_>, buffer: &mut [u8]) -> Result {
        let (object, len, priority) = match slot.stored() {
            Stored::Raw(object) => (object, BLOCK_SIZE, 0),
            Stored::Compressed {
                object,
                len,
                priority,
            } => (object, len, priority),
            _ => return Err(EIO),
        };
        self.compressor(priority)?.with_unpacker(|unpacker| {
            let (scratch, _) = unpacker.parts();
            self.table.read_object(object, len, scratch, |data| {
                let (head, tail) = buffer.split_at_mut_checked(len).ok_or(EIO)?;
                head.copy_from_slice(data.get(..len).ok_or(EIO)?);
                tail.fill(0);
                Ok(())
            })?
        })?
    }

    /// Writes the blocks of `bio`, from number `first` on.
    fn write(&self, bio: &Bio<'_>, first: u64, limits: Limits) -> Result {
        for (index, block) in (first..).zip(bio.blocks()) {
            match block {
                Block::Whole(piece) => piece
                    .with_source(|source| self.write_block(index, source, piece.nid(), limits))
                    .ok_or(EIO)??,
                Block::Split(pieces) => {
                    self.primary()?.with_stream(limits.streams, |stream| {
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
            None => self.primary()?.with_stream(limits.streams, |stream| {
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
            if let Some(entry) = table.compressed(data, 0, nid, limit_pages)? {
                return Ok(entry);
            }
        }
        // Nothing is lost: the block is stored as it is.
        Err(e) => pr_warn_once!("Compression failed! err={}\n", e.to_errno()),
    }
    table.raw(source, nid, limit_pages)
}
