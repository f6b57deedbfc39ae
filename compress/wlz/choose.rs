// SPDX-License-Identifier: GPL-2.0

//! Which of the two encoders a block is for, and what is stored of it.
//!
//! The last byte of what is stored says how the rest is to be read.

use super::{
    lz,
    unlz,
    words, //
};
use crate::sys::{
    bytes::{
        Block,
        Parts,
        WORDS, //
    },
    page::Dest, //
};

/// The block as it is. It has a zero behind it for that.
const RAW: u8 = 0;
/// What the coder for words made.
const WORD_CODES: u8 = 1;
/// LZ4's block format.
const SEQUENCES: u8 = 2;

/// What is longer takes a whole page, with pages of 4 KiB: zsmalloc has no class between.
const WORTH: usize = 3624;

/// How long the output of the coder for words may be, after each eighth of the block. Real blocks that it is for stay far
/// below; what comes near is better off with the other encoder.
const LIMITS: words::Limits = [480, 780, 1080, 1380, 1680, 1980, 2280, 2580];

/// Words that are looked at before.
const SAMPLE: usize = 32;
/// How many of them have to be pointers or small numbers, or there is little hope.
const LIKELY: usize = 8;

/// Whether a block seems to be for the coder for words.
#[inline(always)]
fn is_likely(block: &Block) -> bool {
    let mut count = 0_usize;
    for number in 0..SAMPLE {
        // Not the first of each stretch: records often begin there.
        let word = block.nth(number * (WORDS / SAMPLE) + 5);
        count = count.wrapping_add(usize::from(word >> 48 == 0));
    }
    count >= LIKELY
}

/// Encodes the block that is in `parts`.
pub(crate) fn encode(parts: &mut Parts) -> &[u8] {
    let Parts {
        block,
        output,
        places,
        numbers,
        scratch,
    } = parts;
    let likely = is_likely(block);
    let coded = match likely {
        true => words::encode(block, numbers, scratch, output, &LIMITS),
        false => None,
    };
    let made = match coded {
        Some(len) => Some((len, WORD_CODES)),
        // What begins like noise may be half zeros.
        None => lz::encode(block, places, output, WORTH - 1, likely).map(|len| (len, SEQUENCES)),
    };
    if let Some((len, kind)) = made {
        output.put_byte(len, kind);
        if let Some(bytes) = output.bytes().get(..len.wrapping_add(1)) {
            return bytes;
        }
    }
    block.with_zero()
}

/// Decodes what [`encode()`] made; `None` if `bytes` are something else. Nothing of what `dest` was before gets through.
pub(crate) fn decode(bytes: &[u8], mut dest: Dest<'_>) -> Option<()> {
    let (kind, bytes) = bytes.split_last()?;
    match *kind {
        RAW => dest.copy_from(bytes).ok(),
        WORD_CODES => words::decode(bytes, dest),
        SEQUENCES => unlz::decode(bytes, dest),
        _ => None,
    }
}
