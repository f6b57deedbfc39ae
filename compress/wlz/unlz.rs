// SPDX-License-Identifier: GPL-2.0

//! A decoder for LZ4's block format, for blocks of 4 KiB only.
//!
//! C header: [`include/linux/lz4.h`](srctree/include/linux/lz4.h), which also says what the format is.

use super::lz::{
    FULL,
    MIN_MATCH, //
};
use crate::sys::{
    bytes::{
        opaque,
        WORD, //
    },
    page::{
        Dest,
        BLOCK_SIZE, //
    }, //
};

/// Where a decoder is.
struct Reader<'a, 'b> {
    bytes: &'a [u8],
    from: usize,
    dest: Dest<'b>,
    to: usize,
}

impl Reader<'_, '_> {
    #[inline(always)]
    fn byte(&mut self) -> Option<usize> {
        let byte = *self.bytes.get(self.from)?;
        self.from = self.from.wrapping_add(1);
        Some(usize::from(byte))
    }

    /// What a half of a token has to say, with what follows where that is not all.
    #[inline(always)]
    fn length(&mut self, half: usize) -> Option<usize> {
        let mut length = half;
        if half == FULL {
            loop {
                let more = self.byte()?;
                length = length.wrapping_add(more);
                if more != 255 {
                    break;
                }
                // So that it cannot wrap, however long the input is.
                if length > BLOCK_SIZE {
                    return None;
                }
            }
        }
        Some(length)
    }

    /// Copies so many bytes.
    #[inline(always)]
    fn literals(&mut self, length: usize) -> Option<()> {
        let all = self.bytes.get(self.from..)?;
        let (to, end) = (self.to, self.to.wrapping_add(length));
        self.to = end;
        self.from = self.from.wrapping_add(length);
        if let (true, Some(some)) = (length <= LONG, all.first_chunk::<LONG>()) {
            if self.dest.put(to, some) {
                return Some(());
            }
        }
        // More than is wanted, where there is room for it.
        let plenty = length.div_ceil(SHORT).wrapping_mul(SHORT);
        match all.get(..plenty) {
            Some(all) if to.wrapping_add(plenty) <= BLOCK_SIZE => {
                let mut to = to;
                for chunk in all.chunks_exact(SHORT) {
                    self.dest
                        .put::<SHORT>(to, chunk.first_chunk()?)
                        .then_some(())?;
                    to = to.wrapping_add(SHORT);
                }
                Some(())
            }
            _ => self.dest.put_slice(to, all.get(..length)?).then_some(()),
        }
    }

    /// Copies so many bytes from `back` bytes before.
    #[inline(always)]
    fn repeat(&mut self, length: usize, back: usize) -> Option<()> {
        let mut to = self.to;
        let end = to.wrapping_add(length);
        self.to = end;
        // Room for what is copied more than is wanted.
        if end.wrapping_add(4 * WORD) <= BLOCK_SIZE {
            if back >= WORD {
                // Most end within that.
                self.dest.repeat::<4>(to, back).then_some(())?;
                to = to.wrapping_add(4 * WORD);
                while to < end {
                    self.dest.repeat::<2>(to, back).then_some(())?;
                    to = to.wrapping_add(2 * WORD);
                }
            } else {
                let pattern = &PATTERNS[back];
                let word = self.dest.bytes(to.wrapping_sub(back))? & pattern.mask;
                let word = word.wrapping_mul(pattern.factor).to_le_bytes();
                while to < end {
                    self.dest.put(to, &word).then_some(())?;
                    to = to.wrapping_add(pattern.step);
                }
            }
            return Some(());
        }
        while to < end {
            self.dest.repeat_byte(to, back).then_some(())?;
            to = to.wrapping_add(1);
        }
        Some(())
    }
}

/// How to make a word of a pattern that is shorter.
#[derive(Clone, Copy)]
struct Pattern {
    /// Its bytes.
    mask: u64,
    /// This many times of it, each at its place.
    factor: u64,
    /// How many of the bytes of the word are whole patterns.
    step: usize,
}

static PATTERNS: [Pattern; WORD] = patterns();

const fn patterns() -> [Pattern; WORD] {
    let mut patterns = [Pattern {
        mask: 0,
        factor: 0,
        step: WORD,
    }; WORD];
    let mut back = 1;
    while back < WORD {
        let mut at = 0;
        let mut factor = 0;
        while at < WORD {
            factor |= 1 << (8 * at);
            at += back;
        }
        patterns[back] = Pattern {
            mask: u64::MAX >> (64 - 8 * back),
            factor,
            step: WORD / back * back,
        };
        back += 1;
    }
    patterns
}

/// Bytes that a short run of literals is copied with.
const SHORT: usize = 16;
/// Bytes that most of the longer ones are copied with.
const LONG: usize = 32;
/// Words that a short match is copied with.
const SHORT_MATCH: usize = 3;
/// Room for one of each.
const ROOM: usize = SHORT + SHORT_MATCH * WORD;

/// Decodes what the encoder made; `None` if `bytes` are something else. Nothing of what `dest` was before gets through.
pub(crate) fn decode(bytes: &[u8], dest: Dest<'_>) -> Option<()> {
    let mut reader = Reader {
        bytes,
        from: 0,
        dest,
        to: 0,
    };
    loop {
        let token = reader.byte()?;
        let (mut literals, mut length) = (token >> 4, token & FULL);
        let back;
        // Most are short, and not at the end.
        match bytes.get(reader.from..)?.first_chunk::<{ SHORT + 2 }>() {
            Some(next) if literals < FULL && reader.to <= BLOCK_SIZE - ROOM => {
                reader
                    .dest
                    .put(reader.to, next.first_chunk::<SHORT>()?)
                    .then_some(())?;
                reader.to = reader.to.wrapping_add(literals);
                reader.from = reader.from.wrapping_add(literals).wrapping_add(2);
                back = next.get(literals..)?.first_chunk()?;
                // In this order: that of the length is known earlier.
                let back = usize::from(u16::from_le_bytes(*back));
                if length < FULL && opaque(back) >= WORD {
                    reader
                        .dest
                        .repeat::<SHORT_MATCH>(reader.to, back)
                        .then_some(())?;
                    reader.to = reader.to.wrapping_add(length).wrapping_add(MIN_MATCH);
                    continue;
                }
            }
            _ => {
                literals = reader.length(literals)?;
                reader.literals(literals)?;
                if reader.from == bytes.len() {
                    return (reader.to == BLOCK_SIZE).then_some(());
                }
                back = bytes.get(reader.from..)?.first_chunk()?;
                reader.from = reader.from.wrapping_add(2);
            }
        }
        let back = usize::from(u16::from_le_bytes(*back));
        if back.wrapping_sub(1) >= reader.to {
            return None;
        }
        length = reader.length(length)?;
        reader.repeat(length.wrapping_add(MIN_MATCH), back)?;
    }
}
