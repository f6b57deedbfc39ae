// SPDX-License-Identifier: GPL-2.0

//! Getting at what a locked slot stores.

use super::Active;
use crate::{
    compress::Cpu,
    sys::{
        page::{
            Dest,
            BLOCK_SIZE, //
        },
        zsmalloc::PackedHandle, //
    },
    table::{
        Guard,
        Stored, //
    }, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};

impl Active {
    /// Decompresses the object of a slot into block number `index`. `compressed` is how long it is, and the priority of its
    /// algorithm. May sleep.
    #[inline(always)]
    pub(super) fn decompress(
        &self,
        object: PackedHandle<'_>,
        compressed: (usize, usize),
        index: u64,
        dest: Dest<'_>,
    ) -> Result {
        let (len, priority) = compressed;
        self.compressor(priority)?
            .with_unpacker(Cpu::current(), |unpacker| {
                let (scratch, decompress) = unpacker.parts();
                self.table
                    .read_object(object, len, scratch, |data| decompress(data, dest))?
            })?
            .inspect_err(|e| corrupt(*e, index))
    }

    /// Copies what a locked slot holds in memory to `dest`, decompressed. `EIO` if that is elsewhere. May sleep.
    pub(super) fn unpack(&self, stored: Stored<'_>, index: u64, mut dest: Dest<'_>) -> Result {
        match stored {
            Stored::Nothing => dest.fill(0),
            Stored::Pattern(pattern) => dest.fill(pattern),
            Stored::PatternObject(object) => dest.fill(self.table.read_pattern(object)?),
            // A whole page never lies in two.
            Stored::Raw(object) if BLOCK_SIZE == PAGE_SIZE => {
                self.table
                    .read_object(object, BLOCK_SIZE, &mut [], |data| dest.copy_from(data))??
            }
            Stored::Raw(object) => {
                self.compressor(0)?
                    .with_unpacker(Cpu::current(), |unpacker| {
                        let (scratch, _) = unpacker.parts();
                        self.table
                            .read_object(object, BLOCK_SIZE, scratch, |data| dest.copy_from(data))?
                    })??
            }
            Stored::Compressed {
                object,
                len,
                priority,
            } => self.decompress(object, (len, priority), index, dest)?,
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
        self.compressor(priority)?
            .with_unpacker(Cpu::current(), |unpacker| {
                let (scratch, _) = unpacker.parts();
                self.table.read_object(object, len, scratch, |data| {
                    let (head, tail) = buffer.split_at_mut_checked(len).ok_or(EIO)?;
                    head.copy_from_slice(data.get(..len).ok_or(EIO)?);
                    tail.fill(0);
                    Ok(())
                })?
            })?
    }

    /// Reads block number `index` from its place on the backing device, where it takes the first of `compressed` bytes, if it
    /// is not there as it is. May sleep, until the device has done it.
    pub(super) fn fetch(
        &self,
        place: u64,
        compressed: Option<(usize, usize)>,
        index: u64,
        mut dest: Dest<'_>,
    ) -> Result {
        let store = self.store.as_ref().ok_or(EIO)?;
        self.requests.count_backing_read();
        store.with_block(|buffer| {
            store.backing().read(place, buffer).inspect_err(|e| {
                pr_err!(
                    "Reading from the backing device failed! err={}, page={}\n",
                    e.to_errno(),
                    index
                );
            })?;
            match compressed {
                Some((len, priority)) if self.compressed_writeback => {
                    let data = buffer.get(..len).ok_or(EIO)?;
                    self.compressor(priority)?
                        .with_unpacker(Cpu::current(), |unpacker| {
                            let (_, decompress) = unpacker.parts();
                            decompress(data, dest)
                        })?
                        .inspect_err(|e| corrupt(*e, index))
                }
                _ => dest.copy_from(buffer),
            }
        })
    }
}

#[cold]
fn corrupt(e: Error, index: u64) {
    pr_err!(
        "Decompression failed! err={}, page={}\n",
        e.to_errno(),
        index
    );
}
