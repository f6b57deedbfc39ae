// SPDX-License-Identifier: GPL-2.0

//! The codes of the coder for words, as tables: for the encoder from what a word is like to how it is written, for the decoder
//! from the code to how it is read.

use crate::sys::bytes::highest_bit;

/// What a word is like. Of those that take as many bytes, the first is chosen.
#[derive(Clone, Copy)]
enum Like {
    /// A number of no more bytes than these.
    Number,
    /// Its lower half is zero, and the upper one follows.
    Upper,
    /// The word of the table, which is told by how far back it is, but for these low bytes.
    Found,
    /// The word as far back as the last one that was found with no byte differing, but for these low bytes.
    Same,
    /// That word in its lower half; the upper one follows.
    SameLower,
}

/// A code: what a word is like, and how many bytes of it follow.
#[derive(Clone, Copy)]
struct Code(Like, usize);

/// All codes. What is in front wins over what takes as many bytes: the decoder relies on that for the found word.
const CODES: [Code; 16] = [
    Code(Like::Number, 0),
    Code(Like::Same, 0),
    Code(Like::Found, 0),
    Code(Like::Number, 1),
    Code(Like::Same, 1),
    Code(Like::Number, 2),
    Code(Like::Found, 1),
    Code(Like::Same, 2),
    Code(Like::Found, 2),
    Code(Like::Number, 4),
    Code(Like::Upper, 4),
    Code(Like::Same, 4),
    Code(Like::SameLower, 4),
    Code(Like::Number, 5),
    Code(Like::Number, 6),
    Code(Like::Number, 8),
];

/// The code for a word that was found and does not differ.
pub(super) const FOUND: usize = 2;

/// A mask of so many low bytes.
const fn low(bytes: usize) -> u64 {
    if bytes == 0 {
        0
    } else {
        u64::MAX >> (64 - 8 * bytes)
    }
}

impl Code {
    /// How many bytes come before those of the word: how far back the found word is.
    const fn before(self) -> usize {
        matches!(self.0, Like::Found) as usize
    }

    /// How many bytes it takes.
    const fn len(self) -> usize {
        self.before() + self.1
    }

    /// How far the bytes that follow are shifted.
    const fn shift(self) -> u32 {
        match self.0 {
            Like::Upper | Like::SameLower => 32,
            _ => 0,
        }
    }

    /// What is taken from the other word.
    const fn base(self) -> u64 {
        match self.0 {
            Like::Number | Like::Upper => 0,
            Like::Found | Like::Same => !low(self.1),
            Like::SameLower => low(4),
        }
    }
}

/// How to write a word: the code, its length, what is before, the shift.
#[derive(Clone, Copy)]
pub(super) struct Way(u32);

impl Way {
    const fn new(number: usize) -> Self {
        let code = CODES[number];
        Self(
            (code.len() as u32) << 24
                | (number as u32) << 16
                | (code.before() as u32) << 8
                | code.shift(),
        )
    }

    #[inline(always)]
    pub(super) fn code(self) -> u8 {
        // CAST: Four bits.
        (self.0 >> 16) as u8
    }

    #[inline(always)]
    pub(super) fn len(self) -> usize {
        (self.0 >> 24) as usize
    }

    #[inline(always)]
    pub(super) fn before(self) -> usize {
        (self.0 >> 8 & 1) as usize
    }

    /// The part of `word` that is written first.
    #[inline(always)]
    pub(super) fn shifted(self, word: u64) -> u64 {
        // Only the low six bits count.
        word.wrapping_shr(self.0)
    }

    /// What these bytes say of a word that was written like this.
    #[inline(always)]
    pub(super) fn unshifted(self, bytes: u64) -> u64 {
        // As above.
        bytes.wrapping_shl(self.0)
    }
}

/// What can be said of a word with the codes of one [`Like`] or two, by whether its lower half is zero and by the number of
/// its highest bit: which code, counted from the best, or how many there are if none will do.
type Kinds = [[u8; 2]; 65];

const fn kinds(whole: Like, upper: Option<Like>, step: u8) -> Kinds {
    let mut kinds = [[0; 2]; 65];
    let mut index = 0;
    while index < 2 * 65 {
        let (bit, half) = (index / 2, index % 2 == 1);
        let bytes = if bit == 64 { 0 } else { bit / 8 + 1 };
        let mut kind = 0;
        let mut number = 0;
        while number < CODES.len() {
            let Code(like, follow) = CODES[number];
            let is_whole = like as u8 == whole as u8;
            let is_upper = matches!(upper, Some(upper) if like as u8 == upper as u8);
            if is_whole && bytes <= follow || is_upper && half {
                break;
            }
            kind += (is_whole || is_upper) as u8;
            number += 1;
        }
        kinds[bit][half as usize] = kind * step;
        index += 1;
    }
    kinds
}

/// Of the word itself, which one of these always fits: eight.
static NUMBERS: Kinds = kinds(Like::Number, Some(Like::Upper), 1);
/// Of how it differs from the one that was found: three, or none.
static FOUNDS: [u8; 65] = firsts(kinds(Like::Found, None, 8));
/// Of how it differs from the one that is taken to be the same: five, or none.
static SAMES: Kinds = kinds(Like::Same, Some(Like::SameLower), 32);

/// The best way for each three of these.
static WAYS: [Way; 256] = ways();

const fn ways() -> [Way; 256] {
    let mut ways = [Way(0); 256];
    let mut index = 0;
    while index < ways.len() {
        let (mut number, mut found, mut same) = (index % 8, index / 8 % 4, index / 32);
        let mut best = 0;
        // The codes from best to worst, until one is the next of those that fit.
        let mut code = 0;
        while code < CODES.len() {
            let left = match CODES[code].0 {
                Like::Number | Like::Upper => &mut number,
                Like::Found => &mut found,
                Like::Same | Like::SameLower => &mut same,
            };
            if *left == 0 {
                best = code;
                break;
            }
            *left -= 1;
            code += 1;
        }
        ways[index] = Way::new(best);
        index += 1;
    }
    ways
}

/// Of all bits only what is said where the lower half does not matter.
const fn firsts(kinds: Kinds) -> [u8; 65] {
    let mut firsts = [0; 65];
    let mut bit = 0;
    while bit < firsts.len() {
        firsts[bit] = kinds[bit][0];
        bit += 1;
    }
    firsts
}

/// What `kinds` says of a word.
#[inline(always)]
fn kind(kinds: &Kinds, word: u64) -> usize {
    // CAST: The lower half.
    let half = usize::from(word as u32 == 0);
    match kinds.get(highest_bit(word)) {
        Some(halves) => usize::from(halves[half]),
        None => 0,
    }
}

/// The best way to write `word`, which differs by `found` from the one that was found and by `same` from the one that is taken
/// to be the same.
#[inline(always)]
pub(super) fn best(word: u64, found: u64, same: u64) -> Way {
    let found = FOUNDS.get(highest_bit(found)).copied().unwrap_or(0);
    let kinds = kind(&NUMBERS, word) | usize::from(found) | kind(&SAMES, same);
    WAYS.get(kinds).copied().unwrap_or(Way(0))
}

/// For each code what is taken from the other word.
pub(super) static BASES: [u64; 16] = masks(true);
/// For each code what is taken from the bytes that follow, before the shift.
pub(super) static OWN: [u64; 16] = masks(false);
/// The same of how to write a word, for each code.
pub(super) static CODED: [Way; 16] = coded();

const fn masks(base: bool) -> [u64; 16] {
    let mut masks = [0; 16];
    let mut number = 0;
    while number < 16 {
        let code = CODES[number];
        masks[number] = if base { code.base() } else { low(code.1) };
        number += 1;
    }
    masks
}

const fn coded() -> [Way; 16] {
    let mut coded = [Way(0); 16];
    let mut number = 0;
    while number < 16 {
        coded[number] = Way::new(number);
        number += 1;
    }
    coded
}
