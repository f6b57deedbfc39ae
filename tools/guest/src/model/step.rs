// SPDX-License-Identifier: GPL-2.0

//! What can be done to a disk: steps that can be drawn at random, printed, and read again.
//!
//! Steps say where in a way that fits any disk, so that each sequence of them makes sense, and any part of it too.

use serde::{Deserialize, Serialize};

use crate::pattern::Rng;
use crate::target::target;

/// How many blocks of a disk are used, at most.
pub const WINDOW: u32 = 384;

/// Blocks that fit on a backing device or into a file.
pub const PLACES: u64 = 128;

/// The longest run of blocks.
const RUN: u64 = 70;

/// Where blocks are written back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Backing {
    /// Nowhere.
    None,
    /// A block device.
    Device,
    /// A regular file.
    File,
}

/// How a disk is set up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// What writes compress with.
    pub algorithm: String,
    /// What is compressed again with, from priority 1 on.
    pub again: Vec<String>,
    /// Blocks of the disk.
    pub blocks: u64,
    /// Where blocks are written back to.
    pub backing: Backing,
    /// Whether they are written back compressed.
    pub compressed: bool,
}

/// By which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    /// Past the page cache, from memory that begins this many times 512 bytes into a page.
    Direct(u8),
    /// The same, from pieces whose lengths follow from a seed.
    Vectored(u64),
    /// Through the page cache.
    Buffered,
}

/// What blocks are filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// Each with something else.
    Mixed,
    /// Zeros, which are stored like any other content.
    Zeros,
    /// One word, over and over.
    Word,
    /// What compresses well.
    Text,
    /// What only entropy coding makes smaller.
    SixBits,
    /// What does not compress.
    Random,
}

/// By which call blocks are freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Free {
    /// `BLKDISCARD`.
    Discard,
    /// `BLKZEROOUT`.
    ZeroOut,
    /// `fallocate` with `FALLOC_FL_PUNCH_HOLE`.
    PunchHole,
    /// `fallocate` with `FALLOC_FL_ZERO_RANGE`.
    ZeroRange,
}

/// Which blocks to write back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Which {
    /// `idle`, `huge`, `huge_idle` or `incompressible`.
    Type(String),
    /// These places of the window.
    Indices(Vec<u32>),
    /// From this to that place of the window.
    Range(u32, u32),
    /// One block that there is, and one behind the end.
    Beyond(u32),
}

/// What to recompress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Again {
    /// `idle`, `huge`, `huge_idle` or nothing.
    pub kind: String,
    /// Only what has at least this size; 0 for all.
    pub threshold: u32,
    /// At most this many blocks.
    pub max: Option<u64>,
    /// Which algorithm, by priority.
    pub priority: u32,
}

/// One thing that is done. `at` and `count` are blocks, `from` and `len` bytes, of the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Step {
    /// Resets the disk and sets it up.
    SetUp(Shape),
    /// Removes the disk, adds one and sets that up.
    Recreate(Shape),
    Write {
        how: How,
        at: u32,
        count: u32,
        what: What,
        seed: u64,
    },
    /// Bytes that need not be whole blocks, through the page cache.
    WriteBytes {
        from: u64,
        len: u32,
        seed: u64,
    },
    Read {
        how: How,
        at: u32,
        count: u32,
    },
    ReadBytes {
        from: u64,
        len: u32,
    },
    Free {
        how: Free,
        at: u32,
        count: u32,
    },
    /// Discards the whole disk.
    FreeAll,
    /// Writes back what the page cache has.
    Sync,
    /// Limits the pool to what it has, and this many pages; or no longer.
    Limit(Option<u32>),
    /// Marks all blocks as idle, or those of that many seconds.
    Idle(Option<u32>),
    Recompress(Again),
    Writeback(Which),
    /// Limits writeback to this many blocks; or no longer.
    WritebackLimit(Option<u32>),
    Batch(u32),
    Streams(u32),
    Compact,
    /// Settings that a disk refuses once it is set up.
    Busy,
    /// Compares every block and every figure.
    Check,
}

fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    &from[rng.below(from.len() as u64) as usize]
}

impl Shape {
    /// A shape at random.
    pub fn any(rng: &mut Rng) -> Shape {
        let algorithm = |rng: &mut Rng| (*pick(rng, target().algorithms)).to_owned();
        let blocks = match rng.below(8) {
            0 => 1 + rng.below(9),
            1 => 64,
            2 => u64::from(WINDOW),
            // Large ones: nodes of the table come and go.
            3 => (1 << 18) + 64 + rng.below(1 << 18),
            4 => 1 << 28,
            _ => 128 + rng.below(400),
        };
        let primary = algorithm(rng);
        let again = match rng.below(4) {
            0 => vec![],
            1 => vec![algorithm(rng)],
            2 => vec!["zstd".to_owned()],
            _ => vec![algorithm(rng), algorithm(rng), "deflate".to_owned()],
        };
        Shape {
            algorithm: primary,
            again,
            blocks,
            backing: *pick(
                rng,
                &[
                    Backing::None,
                    Backing::Device,
                    Backing::Device,
                    Backing::File,
                ],
            ),
            compressed: rng.below(2) == 0,
        }
    }
}

impl How {
    fn any(rng: &mut Rng) -> How {
        match rng.below(8) {
            0..=2 => How::Direct(0),
            3 => How::Direct(1 + rng.below(7) as u8),
            4..=5 => How::Vectored(rng.below(1 << 32)),
            _ => How::Buffered,
        }
    }
}

/// A run of blocks: mostly short, and often at the same places.
fn run(rng: &mut Rng) -> (u32, u32) {
    let at = match rng.below(4) {
        0 => rng.below(24),
        _ => rng.below(u64::from(WINDOW)),
    };
    let count = match rng.below(12) {
        0..=3 => 1,
        4..=10 => 1 + rng.below(6),
        _ => 1 + rng.below(RUN),
    };
    (at as u32, count as u32)
}

fn bytes(rng: &mut Rng) -> (u64, u32) {
    let from = rng.below(u64::from(WINDOW) * 4096);
    // Often at the border of a sector or a block.
    let from = match rng.below(3) {
        0 => from & !511,
        1 => from & !4095,
        _ => from,
    };
    (from, 1 + rng.below(3 * 4096) as u32)
}

fn again(rng: &mut Rng) -> Again {
    Again {
        kind: (*pick(rng, &["", "", "idle", "huge", "huge_idle"])).to_owned(),
        threshold: *pick(rng, &[0, 0, 0, 500, 2500, 4096]),
        max: (rng.below(4) == 0).then(|| rng.below(40)),
        priority: 1 + rng.below(3) as u32,
    }
}

fn which(rng: &mut Rng) -> Which {
    let place = |rng: &mut Rng| rng.below(u64::from(WINDOW)) as u32;
    match rng.below(16) {
        0..=3 => Which::Type("idle".into()),
        4..=5 => Which::Type("huge".into()),
        6 => Which::Type("huge_idle".into()),
        7 => Which::Type("incompressible".into()),
        8..=10 => Which::Indices((0..1 + rng.below(4)).map(|_| place(rng)).collect()),
        11..=14 => {
            let lo = place(rng);
            Which::Range(lo, lo + rng.below(60) as u32)
        }
        _ => Which::Beyond(place(rng)),
    }
}

impl Step {
    /// A step at random.
    pub fn any(rng: &mut Rng) -> Step {
        match rng.below(1000) {
            0..=5 => Step::SetUp(Shape::any(rng)),
            6..=9 => Step::Recreate(Shape::any(rng)),
            10..=379 => {
                let (at, count) = run(rng);
                let all = [
                    What::Mixed,
                    What::Mixed,
                    What::Mixed,
                    What::Zeros,
                    What::Word,
                    What::Text,
                    What::SixBits,
                    What::Random,
                ];
                Step::Write {
                    how: How::any(rng),
                    at,
                    count,
                    what: *pick(rng, &all),
                    seed: rng.below(1 << 32),
                }
            }
            380..=439 => {
                let (from, len) = bytes(rng);
                Step::WriteBytes {
                    from,
                    len,
                    seed: rng.below(1 << 32),
                }
            }
            440..=679 => {
                let (at, count) = run(rng);
                Step::Read {
                    how: How::any(rng),
                    at,
                    count,
                }
            }
            680..=709 => {
                let (from, len) = bytes(rng);
                Step::ReadBytes { from, len }
            }
            710..=789 => {
                let (at, count) = run(rng);
                let how = [
                    Free::Discard,
                    Free::ZeroOut,
                    Free::PunchHole,
                    Free::ZeroRange,
                ];
                Step::Free {
                    how: *pick(rng, &how),
                    at,
                    count,
                }
            }
            790..=791 => Step::FreeAll,
            792..=809 => Step::Sync,
            810..=817 => Step::Limit(Some(rng.below(30) as u32)),
            818..=839 => Step::Limit(None),
            840..=864 => Step::Idle(None),
            865..=869 => Step::Idle(Some(rng.below(4) as u32)),
            870..=899 => Step::Recompress(again(rng)),
            900..=944 => Step::Writeback(which(rng)),
            945..=949 => Step::WritebackLimit(Some(rng.below(40) as u32)),
            950..=959 => Step::WritebackLimit(None),
            960..=965 => Step::Batch(1 + rng.below(80) as u32),
            966..=969 => Step::Streams(1 + rng.below(3) as u32),
            970..=979 => Step::Compact,
            980..=984 => Step::Busy,
            _ => Step::Check,
        }
    }

    /// Whether all before it is forgotten.
    pub fn starts_anew(&self) -> bool {
        matches!(self, Step::SetUp(_) | Step::Recreate(_))
    }
}
