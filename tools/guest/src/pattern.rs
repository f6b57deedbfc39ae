// SPDX-License-Identifier: GPL-2.0

//! Pages whose content follows from a seed: of every compressibility, and such that a page found
//! in the wrong place, torn or stale is noticed.

use anyhow::{bail, Result};

use crate::PAGE;

/// A small, fast generator (splitmix64). The same seed gives the same numbers for ever.
#[derive(Clone)]
pub struct Rng(u64);

impl Rng {
    /// A generator for a pair of seeds.
    pub fn new(seed: u64, stream: u64) -> Rng {
        let mut rng = Rng(seed ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93));
        rng.next();
        rng
    }

    /// The next 64 bits.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// What a page is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One 64-bit word, repeated.
    Word(u64),
    /// Words of a small vocabulary: compresses to about a third.
    Text,
    /// Pointers, counters and flags, like a heap: compresses to less than half.
    Records,
    /// This many random bytes, then zeros: compresses to a little more than the random part.
    Prefix(usize),
    /// Repeats of a random piece of this length.
    Repeat(usize),
    /// Random bytes: does not compress.
    Random,
}

const WORDS: [&[u8]; 16] = [
    b"page ",
    b"slot ",
    b"memory ",
    b"the ",
    b"of ",
    b"compressed ",
    b"swap ",
    b"lock ",
    b"a ",
    b"kernel ",
    b"write ",
    b"read ",
    b"and ",
    b"block\n",
    b"device ",
    b"is ",
];

fn random(rng: &mut Rng, out: &mut [u8]) {
    for chunk in out.chunks_mut(8) {
        let bytes = rng.next().to_le_bytes();
        chunk.copy_from_slice(&bytes[..chunk.len()]);
    }
}

/// Fills `page` with content of a kind.
pub fn fill(kind: Kind, seed: u64, page: &mut [u8]) {
    let mut rng = Rng::new(seed, 0x70a9);
    match kind {
        Kind::Word(word) => {
            for chunk in page.chunks_exact_mut(8) {
                chunk.copy_from_slice(&word.to_le_bytes());
            }
        }
        Kind::Text => {
            let mut at = 0;
            while at < page.len() {
                let mut choice = rng.next();
                for _ in 0..16 {
                    let word = WORDS[(choice & 15) as usize];
                    choice >>= 4;
                    let len = word.len().min(page.len() - at);
                    page[at..at + len].copy_from_slice(&word[..len]);
                    at += len;
                }
            }
        }
        Kind::Records => {
            let base = 0x7f00_0000_0000 | (rng.next() & 0xffff_f000);
            for (n, chunk) in page.chunks_exact_mut(8).enumerate() {
                let word = match n % 4 {
                    0 => base | (rng.next() & 0xff8),
                    1 => rng.next() & 0xff,
                    2 => n as u64,
                    _ => 0,
                };
                chunk.copy_from_slice(&word.to_le_bytes());
            }
        }
        Kind::Prefix(len) => {
            let len = len.min(page.len());
            random(&mut rng, &mut page[..len]);
            page[len..].fill(0);
        }
        Kind::Repeat(len) => {
            let len = len.clamp(1, page.len());
            random(&mut rng, &mut page[..len]);
            for at in len..page.len() {
                page[at] = page[at - len];
            }
        }
        Kind::Random => random(&mut rng, page),
    }
}

/// The kind of page `index` of a data set like a program's memory: one in eight same-filled, one
/// in sixteen random, the rest compressible in various degrees.
pub fn mixed(seed: u64, index: u64) -> Kind {
    let mut rng = Rng::new(seed, index);
    match rng.below(16) {
        0 => Kind::Word(0),
        1 => Kind::Word(rng.next()),
        2 => Kind::Random,
        3 => Kind::Prefix(rng.below(PAGE as u64) as usize),
        4 => Kind::Repeat(1 + rng.below(700) as usize),
        5..=8 => Kind::Text,
        _ => Kind::Records,
    }
}

/// Fills `page` with page `index` of the data set `seed`.
pub fn fill_mixed(seed: u64, index: u64, page: &mut [u8]) {
    fill(mixed(seed, index), seed ^ index.rotate_left(32), page);
}

/// Fills a whole buffer with pages `first..` of the data set `seed`.
pub fn fill_all(seed: u64, first: u64, buffer: &mut [u8]) {
    for (n, page) in buffer.chunks_mut(PAGE).enumerate() {
        fill_mixed(seed, first + n as u64, page);
    }
}

/// Every kind there is, with sizes on both sides of each boundary that a store may have.
pub fn every_kind() -> Vec<Kind> {
    let mut kinds = vec![Kind::Text, Kind::Records, Kind::Random];
    for word in WORD_PATTERNS {
        kinds.push(Kind::Word(word));
    }
    kinds.extend((0..=64).map(|n| Kind::Prefix(n * 64)));
    kinds.extend([1, 8, 9, 4095].map(Kind::Prefix));
    kinds.extend((3500..=3700).step_by(8).map(Kind::Prefix));
    kinds.extend([2, 3, 7, 16, 17, 255, 256, 1000, 2048, 4000].map(Kind::Repeat));
    kinds
}

/// Words for same-filled pages: few bits, many bits, halves that agree and halves that do not.
pub const WORD_PATTERNS: [u64; 20] = [
    0,
    u64::MAX,
    1,
    1 << 63,
    0x5555_5555_5555_5555,
    0xaaaa_aaaa_aaaa_aaaa,
    0x0123_4567_0123_4567,
    0xdead_beef_dead_beef,
    0x0000_0001_0000_0001,
    0xffff_ffff_0000_0000,
    0x0000_0000_ffff_ffff,
    0x0123_4567_89ab_cdef,
    0xfedc_ba98_7654_3210,
    0x8000_0000_0000_0001,
    0x7fff_ffff_ffff_ffff,
    0xffff_8880_1234_5678,
    0x0000_7f12_3456_7000,
    0x00ff_00ff_00ff_00ff,
    0x0102_0304_0506_0708,
    0xc0ff_ee00_c0ff_ee01,
];

/// The first bytes of a stamped page.
const MAGIC: u64 = 0x7a52_616d_5061_6765;

/// Fills `page` so that it tells which `block` and `version` it is. Version 0 is all zeros; of the
/// others every fourth is same-filled, every fourth random and the rest compressible.
pub fn stamp(block: u64, version: u64, page: &mut [u8]) {
    let seed = (block << 32) | version;
    match (version, version % 4) {
        (0, _) => page.fill(0),
        (_, 1) => fill(Kind::Word(seed), 0, page),
        (_, kind) => {
            let kind = [Kind::Text, Kind::Text, Kind::Records, Kind::Random][kind as usize];
            fill(kind, seed, page);
            for (n, word) in [MAGIC, block, version].into_iter().enumerate() {
                page[n * 8..n * 8 + 8].copy_from_slice(&word.to_le_bytes());
            }
        }
    }
}

fn word(page: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&page[at * 8..at * 8 + 8]);
    u64::from_le_bytes(bytes)
}

/// The version of `block` that `page` holds. Fails if it is another block's, or torn, or neither.
pub fn version(block: u64, page: &[u8], scratch: &mut [u8]) -> Result<u64> {
    let (found, version) = match word(page, 0) {
        0 => (block, 0),
        MAGIC => (word(page, 1), word(page, 2)),
        seed => (seed >> 32, seed & 0xffff_ffff),
    };
    stamp(found, version, scratch);
    if found != block {
        bail!("block {block} holds what was written to block {found}, version {version}");
    }
    crate::blk::equal(&format!("block {block}, version {version}"), scratch, page)?;
    Ok(version)
}
