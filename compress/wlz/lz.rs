// SPDX-License-Identifier: GPL-2.0

//! An encoder for LZ4's block format, for blocks of 4 KiB only.
//!
//! C header: [`include/linux/lz4.h`](srctree/include/linux/lz4.h), which also says what the format is.

use crate::sys::{
    bytes::{
        Block,
        Output,
        Place,
        WORD, //
    },
    page::BLOCK_SIZE, //
};

/// For each hash the place where it was seen last.
type Table = [Place; 4096];

/// No match begins behind this: the format wants it so.
const LAST_START: usize = BLOCK_SIZE - 12;
/// Nor does one end behind this.
const LAST_END: usize = BLOCK_SIZE - 5;
/// The shortest match.
pub(super) const MIN_MATCH: usize = 4;
/// What a token's half cannot say goes on in the bytes behind it.
pub(super) const FULL: usize = 15;
/// Bytes that are searched at every place before places are left out.
const DENSE: usize = 64;
/// After this many bytes without anything gained there is no hope, unless there seems to be something further on.
const PATIENCE: usize = BLOCK_SIZE / 8 * 3;

/// A place that is like another one before it.
struct Match {
    at: usize,
    from: Place,
    /// Where the words that begin there differ.
    differ: u64,
}

/// Where an encoder is.
struct Writer<'a> {
    block: &'a Block,
    table: &'a mut Table,
    out: &'a mut Output,
    /// Where the output goes on.
    to: usize,
    /// The first byte that has not been written.
    anchor: usize,
    limit: usize,
    /// After how many bytes without anything gained to give up.
    patience: usize,
}

impl Writer<'_> {
    /// Where the first five bytes of `word`, which are at `at`, were seen last.
    #[inline(always)]
    fn swap(&mut self, word: u64, at: Place) -> Place {
        // CAST: Twelve bits.
        let hash = ((word << 24).wrapping_mul(0x9e37_79b1_85eb_ca87) >> 52) as usize;
        match self.table.get_mut(hash) {
            Some(entry) => core::mem::replace(entry, at),
            None => Place::START,
        }
    }

    #[inline(always)]
    fn probe(&mut self, at: usize) -> Option<Match> {
        let place = Place::new(at);
        let word = self.block.word(place);
        let from = self.swap(word, place);
        let differ = self.block.word(from) ^ word;
        // CAST: The low half: four bytes.
        (differ as u32 == 0).then_some(Match { at, from, differ })
    }

    /// The next match from `at` on; `None` if there is none, or no hope that it were worth it.
    #[inline(always)]
    fn search(&mut self, mut at: usize) -> Option<Match> {
        let dense = at.wrapping_add(DENSE).min(LAST_START - 3);
        while at < dense {
            for step in 0..4 {
                let found = self.probe(at.wrapping_add(step));
                if found.is_some() {
                    return found;
                }
            }
            at = at.wrapping_add(4);
        }
        let mut step = SKIP;
        while at <= LAST_START {
            let found = self.probe(at);
            if found.is_some() {
                return found;
            }
            at = at.wrapping_add(step / (SKIP / 2));
            step = step.wrapping_add(1);
            if at > self.patience && self.to.wrapping_add(at).wrapping_sub(self.anchor) >= at {
                self.limit = 0;
                return None;
            }
        }
        None
    }

    /// Writes what a half of a token could not say.
    #[inline(always)]
    fn more(&mut self, mut length: usize) {
        while length >= 255 {
            self.out.put_byte(self.to, 255);
            self.to = self.to.wrapping_add(1);
            length = length.wrapping_sub(255);
        }
        // CAST: Below 255.
        self.out.put_byte(self.to, length as u8);
        self.to = self.to.wrapping_add(1);
    }

    /// Copies the bytes from the anchor on.
    #[inline(always)]
    fn literals(&mut self, length: usize) {
        let mut done = 0;
        loop {
            let word = self.block.word(Place::new(self.anchor.wrapping_add(done)));
            self.out.put_word(self.to.wrapping_add(done), word);
            done = done.wrapping_add(WORD);
            if done >= length {
                break;
            }
        }
        self.to = self.to.wrapping_add(length);
    }

    /// Writes the bytes from the anchor to `at`, and that they are followed by `length` bytes from `from` on.
    #[inline(always)]
    fn sequence(&mut self, at: usize, from: usize, length: usize) {
        let literals = at.wrapping_sub(self.anchor);
        let length = length.wrapping_sub(MIN_MATCH);
        let token = self.to;
        self.to = token.wrapping_add(1);
        if literals < FULL {
            let word = self.block.word(Place::new(self.anchor));
            self.out.put_word(self.to, word);
            let word = self.block.word(Place::new(self.anchor.wrapping_add(WORD)));
            self.out.put_word(self.to.wrapping_add(WORD), word);
            self.to = self.to.wrapping_add(literals);
        } else {
            self.more(literals.wrapping_sub(FULL));
            self.literals(literals);
        }
        // CAST: Both lie in a block.
        self.out.put_pair(self.to, at.wrapping_sub(from) as u16);
        self.to = self.to.wrapping_add(2);
        // CAST: Four bits each.
        let half = (literals.min(FULL) << 4) as u8;
        if length < FULL {
            self.out.put_byte(token, half | length as u8);
        } else {
            self.out.put_byte(token, half | FULL as u8);
            self.more(length.wrapping_sub(FULL));
        }
    }

    /// How many bytes from `at` on are like those from `from` on, the words that begin there being so.
    #[inline(always)]
    fn length(&self, at: usize, from: Place) -> usize {
        let mut done = WORD;
        let from = from.get();
        while at.wrapping_add(done) < BLOCK_SIZE {
            let here = self.block.word(Place::new(at.wrapping_add(done)));
            let differ = self.block.word(Place::new(from.wrapping_add(done))) ^ here;
            if differ != 0 {
                return done.wrapping_add(differ.trailing_zeros() as usize / 8);
            }
            done = done.wrapping_add(WORD);
        }
        done
    }
}

/// The step in the search is an eighth of this, and grows by that much with every miss.
const SKIP: usize = 64;

/// Encodes a block, and returns how many bytes that took; `None` if it is more than `limit`. A block in which nothing is alike
/// at its beginning is gone through to the end only if it is `mixed`.
pub(crate) fn encode(
    block: &Block,
    table: &mut Table,
    out: &mut Output,
    limit: usize,
    mixed: bool,
) -> Option<usize> {
    *table = [Place::START; 4096];
    let mut writer = Writer {
        block,
        table,
        out,
        to: 0,
        anchor: 0,
        limit,
        patience: if mixed { BLOCK_SIZE } else { PATIENCE },
    };
    // The table says of all that it was seen at the start.
    let mut at = 1;
    while let Some(found) = writer.search(at) {
        let mut length = match found.differ {
            0 => writer.length(found.at, found.from),
            differ => differ.trailing_zeros() as usize / 8,
        };
        length = length.min(LAST_END.wrapping_sub(found.at));
        // What is alike before it belongs to it.
        let before =
            writer.block.word_before(found.from) ^ writer.block.word_before(Place::new(found.at));
        let more = (before | 1).leading_zeros() as usize / 8;
        let more = more
            .min(found.from.get())
            .min(found.at.wrapping_sub(writer.anchor));
        let end = found.at.wrapping_add(length);
        at = found.at.wrapping_sub(more);
        if writer.to.wrapping_add(at.wrapping_sub(writer.anchor)) > writer.limit {
            return None;
        }
        writer.sequence(
            at,
            found.from.get().wrapping_sub(more),
            length.wrapping_add(more),
        );
        at = end;
        writer.anchor = end;
        if end > LAST_START {
            break;
        }
        let last = Place::new(end.wrapping_sub(2));
        let word = writer.block.word(last);
        writer.swap(word, last);
    }
    // The rest, with a token for it and what that cannot say.
    let rest = BLOCK_SIZE.wrapping_sub(writer.anchor);
    let end = writer
        .to
        .wrapping_add(rest)
        .wrapping_add(2)
        .wrapping_add(rest / 255);
    if end > writer.limit {
        return None;
    }
    // CAST: Four bits.
    writer.out.put_byte(writer.to, (rest.min(FULL) << 4) as u8);
    writer.to = writer.to.wrapping_add(1);
    if rest >= FULL {
        writer.more(rest.wrapping_sub(FULL));
    }
    writer.literals(rest);
    Some(writer.to)
}
