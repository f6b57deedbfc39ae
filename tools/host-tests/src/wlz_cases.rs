// SPDX-License-Identifier: GPL-2.0

//! What tests of the codec share: blocks of many kinds, and memory between pages that cannot be touched.

use crate::{
    random::Random,
    sys::page::{Dest, Source, BLOCK_SIZE},
    wlz::{self, Encoder},
};
use nix::sys::mman::{mmap_anonymous, mprotect, munmap, MapFlags, ProtFlags};
use std::{num::NonZeroUsize, ptr::NonNull};

/// Pages with one before and one behind that cannot be touched.
pub(crate) struct Guarded {
    all: NonNull<std::ffi::c_void>,
    pages: usize,
}

impl Guarded {
    pub(crate) fn new(pages: usize) -> Self {
        let len = NonZeroUsize::new((pages + 2) * BLOCK_SIZE).unwrap();
        let (none, flags) = (ProtFlags::PROT_NONE, MapFlags::MAP_PRIVATE);
        let inside = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: New memory, and a part of it.
        let all = unsafe {
            let all = mmap_anonymous(None, len, none, flags).unwrap();
            mprotect(all.byte_add(BLOCK_SIZE), pages * BLOCK_SIZE, inside).unwrap();
            all
        };
        Self { all, pages }
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: The pages in the middle, which are ours alone.
        unsafe {
            let start = self.all.byte_add(BLOCK_SIZE).cast().as_ptr();
            std::slice::from_raw_parts_mut(start, self.pages * BLOCK_SIZE)
        }
    }

    /// A copy of `bytes` that ends where the memory does.
    pub(crate) fn at_end(&mut self, bytes: &[u8]) -> &[u8] {
        let memory = self.bytes();
        let at = memory.len() - bytes.len();
        memory[at..].copy_from_slice(bytes);
        &memory[at..]
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: Nobody has a reference to it any more.
        unsafe { munmap(self.all, (self.pages + 2) * BLOCK_SIZE) }.unwrap();
    }
}

/// What decoding makes of `bytes`, in memory that held `before`.
pub(crate) fn decode(bytes: &[u8], memory: &mut Guarded, before: u8) -> Option<Vec<u8>> {
    memory.bytes().fill(before);
    let dest = Dest::from_slice(memory.bytes()).unwrap();
    let made = wlz::decompress(bytes, dest).ok();
    made.map(|()| memory.bytes().to_vec())
}

/// Blocks of the kinds that there are: words of all sorts, records, text, and what is like nothing.
pub(crate) fn block(kind: u64, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let base = random.next() & 0x7fff_ffff_f000;
    let mut words: Vec<u64> = (0..BLOCK_SIZE as u64 / 8)
        .map(|index| match kind % 8 {
            0 => 0,
            1 => base + (random.next() & 0xff8),
            2 => match index % 5 {
                0 => base + index * 40,
                1 => random.next() & 0xff,
                2 => 0x0000_0001_0000_0000 * (random.next() & 3),
                3 => 0x4059_0000_0000_0000,
                _ => 0,
            },
            3 => random.next(),
            4 => {
                let letters = random.next() & 0x0303_0303_0303_0303;
                letters + 0x2020_2020_2020_2020 + (random.next() & 0x4040_4040_4040_4040)
            }
            5 => 1 << (random.next() & 63),
            6 => match random.next() & 7 {
                0 => random.next() >> (random.next() & 63),
                1 => base,
                2 => base ^ (random.next() & 0xffff),
                3 => ((random.next() & 0xffff_ffff) << 32) | base & 0xffff_ffff,
                4 => random.next(),
                _ => 0,
            },
            _ => 0x6161_6161_6161_6161,
        })
        .collect();
    // Some of it once more, at any word.
    if kind & 8 != 0 {
        for _ in 0..random.next() & 7 {
            let [from, to, len] = [(); 3].map(|()| random.next() as usize % 256);
            words.copy_within(from..from + len, to);
        }
    }
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    // And at any byte.
    if kind & 16 != 0 {
        for _ in 0..random.next() & 15 {
            let [from, to, len] = [(); 3].map(|()| random.next() as usize % 1365);
            bytes.copy_within(from..from + len, to * 2);
        }
    }
    bytes
}

/// What is stored of a block.
pub(crate) fn encode(encoder: &mut Encoder, block: &[u8], memory: &mut Guarded) -> Vec<u8> {
    let block = memory.at_end(block);
    encoder
        .compress(Source::from_slice(block).unwrap())
        .to_vec()
}
