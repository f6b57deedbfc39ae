// SPDX-License-Identifier: GPL-2.0

//! Reading and writing, by each way there is.

use std::io::{IoSlice, IoSliceMut};
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;

use super::disk::{Block, Class};
use super::drive::Live;
use super::step::How;
use crate::kernel::patience;
use crate::pattern::{self, Kind, Rng};
use crate::post::P;
use crate::{blk, same, PAGE};

/// Cuts memory into pieces of whole sectors, and ends in one for the rest.
fn pieces(seed: u64, mut len: usize) -> Vec<usize> {
    let mut rng = Rng::new(seed, 0x71ec);
    let mut all = Vec::new();
    while len > 0 {
        // At most as many as one bio takes, so that a call is one unit.
        let sectors = if all.len() < 60 {
            1 + rng.below(40) as usize
        } else {
            len
        };
        let piece = (sectors * 512).min(len);
        all.push(piece);
        len -= piece;
    }
    all
}

impl Live {
    pub(super) fn offset(&self, at: u32) -> u64 {
        self.window.block(at) * P
    }

    /// Writes blocks. Under a limit that may fail; each then holds what it held, or what was written.
    pub(super) fn write(&mut self, how: How, at: u32, new: Vec<Block>) -> Result<()> {
        let data: Vec<&[u8]> = new.iter().map(|block| &block.bytes[..]).collect();
        let data = data.concat();
        let to = self.offset(at);
        let came = match how {
            How::Direct(shift) => {
                let memory = &mut self.buffer;
                memory.becomes(data.len(), usize::from(shift) * 512)?;
                memory.copy_from_slice(&data);
                let came = blk::try_write(&self.direct, memory, to);
                blk::equal("the memory that was written from", &data, memory)?;
                came
            }
            How::Vectored(seed) => {
                let memory = &mut self.buffer;
                memory.becomes(data.len(), 512)?;
                memory.copy_from_slice(&data);
                let mut rest = &memory[..];
                let mut slices = Vec::new();
                for len in pieces(seed, data.len()) {
                    let (piece, others) = rest.split_at(len);
                    slices.push(IoSlice::new(piece));
                    rest = others;
                }
                nix::sys::uio::pwritev(&self.direct, &slices, to as i64)
            }
            How::Buffered => {
                self.dirty = true;
                let written = blk::try_write(&self.cached, &data, to);
                written.and_then(|len| self.sync_if_limited().map(|()| len))
            }
        };
        match came {
            Ok(len) => {
                same("bytes written", data.len(), len)?;
                for (at, block) in (at..).zip(new) {
                    self.memory.blocks[at as usize] = Some(block);
                }
                Ok(())
            }
            Err(e) => self.after_failure(e, at, new),
        }
    }

    /// What the page cache cannot write back fails later, where nobody expects it: so at once, where it may.
    fn sync_if_limited(&mut self) -> nix::Result<()> {
        if self.limit == 0 {
            return Ok(());
        }
        self.dirty = false;
        nix::unistd::fsync(&self.cached)
    }

    /// Under a limit, each block is what it was or what was written.
    fn after_failure(&mut self, e: Errno, at: u32, new: Vec<Block>) -> Result<()> {
        ensure!(
            self.limit != 0 && matches!(e, Errno::EIO | Errno::ENOSPC | Errno::ENOMEM),
            "writing\n  expected: success\n  came:     {e:?}"
        );
        // The cache keeps what it could not write.
        blk::flush_buffers(&self.cached).context("BLKFLSBUF")?;
        let came = self.fetch(How::Direct(0), at, new.len() as u32)?;
        let stored = self.stored()?;
        for ((at, block), came) in (at..).zip(new).zip(came.chunks_exact(PAGE)) {
            let old = self.memory.bytes(at);
            if came == block.bytes {
                // Zeros may be what was written, or nothing.
                let is_stored = stored.contains_key(&self.window.block(at));
                self.memory.blocks[at as usize] = is_stored.then_some(block);
            } else {
                let number = self.window.block(at);
                blk::equal(
                    &format!("block {number} after a write that failed"),
                    old,
                    came,
                )?;
            }
        }
        self.memory.touch(0, self.window.len());
        Ok(())
    }

    pub(super) fn write_bytes(&mut self, from: u64, len: u32, seed: u64) -> Result<()> {
        let (at, inside) = ((from / P) as u32, (from % P) as usize);
        let blocks = (inside + len as usize).div_ceil(PAGE) as u32;
        let (at, count) = self.window.clip(at, blocks);
        let end = (inside + len as usize).min(count as usize * PAGE);
        let mut all = self.memory.run(at, count);
        pattern::fill(Kind::Text, seed, &mut all[inside..end]);
        let new: Vec<Block> = all
            .chunks_exact(PAGE)
            .map(|page| Block::new(page.to_vec(), Class::Unknown))
            .collect();
        self.dirty = true;
        let to = self.offset(at) + inside as u64;
        let came = blk::try_write(&self.cached, &all[inside..end], to);
        // It reads what it does not write.
        self.read_ahead()?;
        match came.and_then(|_| self.sync_if_limited()) {
            Ok(()) => {
                for (at, block) in (at..).zip(new) {
                    self.memory.blocks[at as usize] = Some(block);
                }
                Ok(())
            }
            Err(e) => self.after_failure(e, at, new),
        }
    }

    /// Any block may have been read ahead by the page cache. Nobody waits for that where a block on the backing device is
    /// among them; here one does, or blocks would be touched at any time later.
    fn read_ahead(&mut self) -> Result<()> {
        let (start, limit) = (Instant::now(), Duration::from_secs(60) * patience());
        while self
            .disk
            .get("inflight")?
            .split_whitespace()
            .any(|n| n != "0")
        {
            ensure!(
                start.elapsed() < limit,
                "a request is not done after {limit:?}"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        self.memory.touch(0, self.window.len());
        Ok(())
    }

    /// Reads blocks, whatever they should hold.
    fn fetch(&mut self, how: How, at: u32, count: u32) -> Result<Vec<u8>> {
        let (len, from) = (count as usize * PAGE, self.offset(at));
        let shift = match how {
            How::Direct(shift) => usize::from(shift) * 512,
            _ => 512,
        };
        let memory = &mut self.buffer;
        memory.becomes(len, shift)?;
        memory.fill(0xdb);
        let read = match how {
            How::Direct(_) => blk::try_read(&self.direct, memory, from),
            How::Buffered => blk::try_read(&self.cached, memory, from),
            How::Vectored(seed) => {
                let mut rest = &mut memory[..];
                let mut slices = Vec::new();
                for len in pieces(seed, len) {
                    let (piece, others) = rest.split_at_mut(len);
                    slices.push(IoSliceMut::new(piece));
                    rest = others;
                }
                nix::sys::uio::preadv(&self.direct, &mut slices, from as i64)
            }
        };
        same("bytes read", Ok(len), read)?;
        memory.check_guards()?;
        let came = memory.to_vec();
        if how == How::Buffered {
            self.read_ahead()?;
        } else {
            self.memory.touch(at, count);
        }
        Ok(came)
    }

    pub(super) fn read(&mut self, how: How, at: u32, count: u32) -> Result<()> {
        let came = self.fetch(how, at, count)?;
        for (at, came) in (at..).zip(came.chunks_exact(PAGE)) {
            let expected = self.memory.bytes(at);
            if came != expected {
                blk::equal(&format!("block {}", self.window.block(at)), expected, came)?;
            }
        }
        Ok(())
    }

    pub(super) fn read_bytes(&mut self, from: u64, len: u32) -> Result<()> {
        let (at, inside) = ((from / P) as u32, (from % P) as usize);
        let blocks = (inside + len as usize).div_ceil(PAGE) as u32;
        let (at, count) = self.window.clip(at, blocks);
        let end = (inside + len as usize).min(count as usize * PAGE);
        let mut came = vec![0xdb; end - inside];
        blk::read(&self.cached, &mut came, self.offset(at) + inside as u64)?;
        self.read_ahead()?;
        let expected = self.memory.run(at, count);
        blk::equal("bytes read", &expected[inside..end], &came)
    }
}
