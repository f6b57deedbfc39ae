// SPDX-License-Identifier: GPL-2.0

//! A disk as plain memory: what each block of it holds, and what is known about how it is kept.

use crate::pattern::{Kind, Rng, WORD_PATTERNS};
use crate::post;
use crate::PAGE;

use super::step::{What, WINDOW};

/// How well a block compresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// One word, over and over.
    Same,
    /// With any algorithm.
    Small,
    /// With `zstd` and `deflate` only.
    SixBits,
    /// With none.
    Huge,
    /// Who knows.
    Unknown,
}

/// A block that is stored.
#[derive(Clone)]
pub struct Block {
    /// What it holds.
    pub bytes: Vec<u8>,
    /// How well that compresses.
    pub class: Class,
    /// Its flags when they were looked at last; `None` if it was written since.
    pub flags: Option<String>,
    /// Whether it was read since, or may have been.
    pub touched: bool,
}

impl Block {
    /// A block that was just written.
    pub fn new(bytes: Vec<u8>, class: Class) -> Block {
        let same = bytes.chunks_exact(8).all(|word| *word == bytes[..8]);
        Block {
            bytes,
            class: if same { Class::Same } else { class },
            flags: None,
            touched: false,
        }
    }

    /// Block number `n` of what a step writes.
    pub fn of_step(what: What, seed: u64, n: u32) -> Block {
        let mut rng = Rng::new(seed, u64::from(n));
        let (kind, class) = match what {
            What::Zeros => (Kind::Word(0), Class::Same),
            What::Word => (Kind::Word(word(&mut rng)), Class::Same),
            What::Text => (Kind::Text, Class::Small),
            What::Random => (Kind::Random, Class::Huge),
            What::SixBits => return Block::new(post::six_bits(rng.next()), Class::SixBits),
            What::Mixed => match rng.below(9) {
                0 => (Kind::Word(0), Class::Same),
                1 => (Kind::Word(word(&mut rng)), Class::Same),
                2 => (Kind::Random, Class::Huge),
                3 => (Kind::Prefix(rng.below(2500) as usize), Class::Small),
                4 => (Kind::Repeat(1 + rng.below(700) as usize), Class::Small),
                5 => return Block::new(post::six_bits(rng.next()), Class::SixBits),
                6 => (
                    Kind::Prefix(2500 + rng.below(1596) as usize),
                    Class::Unknown,
                ),
                7 => (Kind::Text, Class::Small),
                _ => (Kind::Records, Class::Small),
            },
        };
        Block::new(post::page(kind, rng.next()), class)
    }
}

fn word(rng: &mut Rng) -> u64 {
    match rng.below(3) {
        0 => WORD_PATTERNS[rng.below(WORD_PATTERNS.len() as u64) as usize],
        1 => rng.next(),
        // On both sides of what fits into a slot.
        _ => (rng.next() as i64 >> (20 + rng.below(5))) as u64,
    }
}

/// The blocks of a disk that are used: all of a small one, and three stretches of a large one.
pub struct Window {
    stretches: Vec<(u64, u32)>,
}

impl Window {
    /// The window on a disk.
    pub fn new(blocks: u64) -> Window {
        if blocks <= u64::from(WINDOW) {
            return Window {
                stretches: vec![(0, blocks as u32)],
            };
        }
        let third = WINDOW / 3;
        let half = u64::from(third / 2);
        // Where the table's nodes meet, if the disk is that large.
        let border = if blocks > (1 << 18) + 1000 {
            1 << 18
        } else {
            blocks / 2
        };
        Window {
            stretches: vec![
                (0, third),
                (border - half, third),
                (blocks - u64::from(third), third),
            ],
        }
    }

    /// How many blocks.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u32 {
        self.stretches.iter().map(|(_, len)| len).sum()
    }

    /// A run of blocks that lie one behind the other, as near to what is asked for as can be.
    pub fn clip(&self, at: u32, count: u32) -> (u32, u32) {
        let at = at % self.len();
        let mut end = 0;
        for (_, len) in &self.stretches {
            end += len;
            if at < end {
                break;
            }
        }
        (at, count.min(end - at))
    }

    /// The number on the disk of a block.
    pub fn block(&self, at: u32) -> u64 {
        let mut first = 0;
        for (block, len) in &self.stretches {
            if at < first + len {
                return block + u64::from(at - first);
            }
            first += len;
        }
        u64::MAX
    }

    /// The stretches, as places in the window.
    pub fn runs(&self) -> Vec<(u32, u32)> {
        let mut first = 0;
        self.stretches
            .iter()
            .map(|(_, len)| {
                let run = (first, *len);
                first += len;
                run
            })
            .collect()
    }
}

/// All that a disk should hold.
pub struct Memory {
    /// By place in the window; `None` for what is not stored.
    pub blocks: Vec<Option<Block>>,
}

const ZEROS: [u8; PAGE] = [0; PAGE];

impl Memory {
    /// An empty disk.
    pub fn new(len: u32) -> Memory {
        Memory {
            blocks: vec![None; len as usize],
        }
    }

    /// What reading a block gives.
    pub fn bytes(&self, at: u32) -> &[u8] {
        match &self.blocks[at as usize] {
            Some(block) => &block.bytes,
            None => &ZEROS,
        }
    }

    /// What reading blocks gives.
    pub fn run(&self, at: u32, count: u32) -> Vec<u8> {
        let blocks: Vec<&[u8]> = (at..at + count).map(|at| self.bytes(at)).collect();
        blocks.concat()
    }

    /// Blocks were, or may have been, read.
    pub fn touch(&mut self, at: u32, count: u32) {
        for block in self.blocks[at as usize..][..count as usize]
            .iter_mut()
            .flatten()
        {
            block.touched = true;
        }
    }

    /// How many blocks are of a sort.
    pub fn count(&self, wanted: impl Fn(&Block) -> bool) -> u64 {
        self.blocks
            .iter()
            .flatten()
            .filter(|block| wanted(block))
            .count() as u64
    }
}
