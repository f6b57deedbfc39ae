// SPDX-License-Identifier: GPL-2.0

//! A coder for blocks of 64-bit words: pointers, small numbers, records one like the other. No branch depends on a word.
//!
//! Each word has a code of four bits, which says what it is like and how many bytes say the rest. It is compared with
//! nothing, with the word that a table has for its upper 48 bits, and with the word as far back as the last one that the
//! table found: in a list of records that is the same field of the record before.
//!
//! What comes of it is a byte for each 16 words, which tells which pairs of codes are not zero; two bytes with the number
//! of bytes up to the codes; the bytes of the words; the pairs of codes that are not zero.

use super::codes::{
    best,
    BASES,
    CODED,
    FOUND,
    OWN, //
};
use crate::sys::{
    bytes::{
        if_zero,
        Back,
        Block,
        Input,
        Output,
        WORD,
        WORDS, //
    },
    page::Dest, //
};

/// Words whose codes are told of by a byte.
const GROUP: usize = 16;
/// Bytes before those of the words.
const HEAD: usize = WORDS / GROUP + 2;
/// For each hash the number of the last word that had it, modulo 256.
type Table = [u8; 1024];
/// The pairs of codes that are not zero.
type Pairs = [u8; WORDS / 2];

/// Words after which it is looked at how long the output is.
const STRETCH: usize = WORDS / 8;

/// How long the output may be after each eighth of the block; without the codes, but for the last.
pub(crate) type Limits = [usize; 8];

/// Where an encoder is.
struct Writer<'a> {
    block: &'a Block,
    table: &'a mut Table,
    out: &'a mut Output,
    /// Where the next word goes.
    to: usize,
    /// How far back the word is that is taken to be the same.
    back: Back,
}

impl Writer<'_> {
    /// Writes the word of this number, and returns its code.
    #[inline(always)]
    fn word(&mut self, index: usize) -> u8 {
        let word = self.block.nth(index);
        // CAST: Ten bits.
        let hash = ((word >> 16).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize;
        let Some(entry) = self.table.get_mut(hash) else {
            return 0;
        };
        // CAST: Modulo 256.
        let number = index as u8;
        let from_here = entry.wrapping_sub(number);
        *entry = number;
        let back = Back::new(from_here);
        let found = word ^ self.block.before(index, back);
        let same = word ^ self.block.before(index, self.back);
        // What the decoder sees as a found word that does not differ: that code is in front of all but these.
        self.back = self
            .back
            .if_zero(found, back)
            .if_zero(word, self.back)
            .if_zero(same, self.back);
        let way = best(word, found, same);
        self.out
            .put_both(self.to, from_here, way.before(), way.shifted(word));
        self.to = self.to.wrapping_add(way.len());
        way.code()
    }
}

/// Encodes a block, and returns how many bytes that took; `None` if it is longer than one of the limits.
pub(crate) fn encode(
    block: &Block,
    table: &mut Table,
    pairs: &mut Pairs,
    out: &mut Output,
    limits: &Limits,
) -> Option<usize> {
    *table = [0; 1024];
    let mut writer = Writer {
        block,
        table,
        out,
        to: HEAD,
        back: Back::new(1_u8.wrapping_neg()),
    };
    let mut used = 0_usize;
    for group in 0..WORDS / GROUP {
        let mut present = 0_u8;
        for pair in 0..GROUP / 2 {
            let index = group * GROUP + pair * 2;
            let codes = writer.word(index) | writer.word(index + 1) << 4;
            if let Some(to) = pairs.get_mut(used % (WORDS / 2)) {
                *to = codes;
            }
            let there = codes != 0;
            used = used.wrapping_add(usize::from(there));
            present = present >> 1 | u8::from(there) << 7;
        }
        writer.out.put_byte(group, present);
        if group % (STRETCH / GROUP) == STRETCH / GROUP - 1 {
            let limit = limits.get(group / (STRETCH / GROUP));
            if limit.is_none_or(|limit| writer.to > *limit) {
                return None;
            }
        }
    }
    let to = writer.to;
    let end = to.wrapping_add(used);
    let [.., limit] = limits;
    if end > *limit {
        return None;
    }
    // CAST: Below the size of a block.
    out.put_pair(HEAD - 2, to as u16);
    let words = pairs.chunks_exact(WORD).take(used.div_ceil(WORD));
    for (number, chunk) in words.enumerate() {
        let word = chunk
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes));
        out.put_word(to.wrapping_add(number.wrapping_mul(WORD)), word);
    }
    Some(end)
}

/// Where a decoder is.
struct Reader<'a, 'b> {
    input: Input<'a>,
    dest: Dest<'b>,
    /// Where the word is that is taken to be the same, from here, and 256.
    back: usize,
    /// Negative if any word referred to one that is not before it.
    bad: isize,
}

impl<'a> Reader<'a, '_> {
    /// Reads the word of this number, with the function for that.
    #[inline(always)]
    fn word(&mut self, index: usize, code: usize, next: impl Fn(&Input<'a>, bool) -> u64) {
        let code = code % CODED.len();
        let way = CODED[code];
        // CAST: The low byte.
        let told = usize::from(next(&self.input, false) as u8);
        let bytes = next(&self.input, way.before() != 0);
        self.input.skip(way.len());
        let back = if_zero(way.before() as u64, self.back, told);
        self.back = if_zero((code ^ FOUND) as u64, told, self.back);
        let other = index.wrapping_add(back).wrapping_sub(256);
        // CAST: Below zero is what is not there.
        self.bad |= other as isize;
        let own = way.unshifted(bytes & OWN[code]);
        let word = self.dest.word(other) & BASES[code] | own;
        self.dest.set_word(index, word);
    }

    /// Reads the words of a group that is near the end of the input, or the first.
    #[cold]
    #[inline(never)]
    fn end(&mut self, group: usize, mut codes: u64) -> Option<()> {
        for word in 0..GROUP {
            // CAST: Four bits.
            let code = codes as usize % CODED.len();
            self.word(
                group.wrapping_mul(GROUP).wrapping_add(word),
                code,
                |input, behind| input.word(behind),
            );
            if (group, word) == (0, 0) {
                // There is no other word yet, and it may not be like one.
                self.bad = 0;
                if BASES[code] != 0 {
                    return None;
                }
            }
            codes >>= 4;
        }
        Some(())
    }
}

/// The eight bytes of which those in `bytes` are the ones that `present` has, from its lowest bit on. The others are zero.
#[inline(always)]
fn spread(mut bytes: u64, present: u8) -> u64 {
    if present == u8::MAX {
        return bytes;
    }
    let mut all = 0;
    for bit in 0..u8::BITS {
        let there = u64::from(present >> bit & 1);
        all |= (bytes & 0xff & there.wrapping_neg()) << (8 * bit);
        bytes >>= 8 * there;
    }
    all
}

/// Decodes what [`encode()`] made; `None` if `bytes` are something else. Nothing of what `dest` was before gets through.
pub(crate) fn decode(bytes: &[u8], dest: Dest<'_>) -> Option<()> {
    let (presents, rest) = bytes.split_first_chunk::<{ HEAD - 2 }>()?;
    let start = usize::from(u16::from_le_bytes(*rest.first_chunk()?));
    let mut pairs = Input::new(bytes, start);
    let mut reader = Reader {
        input: Input::new(bytes, HEAD),
        dest,
        // One back, as in the encoder.
        back: 255,
        bad: 0,
    };
    for (group, present) in presents.iter().enumerate() {
        if *present == 0 {
            for word in 0..GROUP {
                reader.dest.set_word(group * GROUP + word, 0);
            }
            continue;
        }
        let mut codes = spread(pairs.word(false), *present);
        pairs.skip(present.count_ones() as usize);
        // The longest that a word can be is a byte more than a raw one, if it is that.
        if group == 0 || !reader.input.has(GROUP * (WORD + 1)) {
            reader.end(group, codes)?;
            continue;
        }
        for word in 0..GROUP {
            // CAST: Four bits.
            let code = codes as usize % CODED.len();
            reader.word(group * GROUP + word, code, |input, behind| {
                input.near(behind)
            });
            codes >>= 4;
        }
    }
    let whole = reader.input.at() == start && pairs.at() == bytes.len() && reader.bad >= 0;
    whole.then_some(())
}
