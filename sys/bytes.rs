// SPDX-License-Identifier: GPL-2.0

//! Words of a block, and of what it is compressed to, without a test for each of them.
//!
//! Nothing here can be out of bounds, whatever it is called with: places are cut down to the size of a block, and every
//! buffer has room for a word that begins at the last of them. What is cut down is a wrong place, not a wrong access;
//! whoever calls is to see that it does not happen.

use super::page::{
    Source,
    BLOCK_SIZE, //
};
use core::ptr;
use kernel::prelude::*;

/// Bytes of a word.
pub(crate) const WORD: usize = size_of::<u64>();
/// Words of a block.
pub(crate) const WORDS: usize = BLOCK_SIZE / WORD;

/// A place in a block.
///
/// # Invariants
///
/// Below [`BLOCK_SIZE`].
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Place(u16);

impl Place {
    /// The first byte.
    pub(crate) const START: Self = Self(0);

    /// A place by its number, which is cut down to the size of a block.
    #[inline(always)]
    pub(crate) const fn new(at: usize) -> Self {
        // INVARIANT: `BLOCK_SIZE` is a power of two. CAST: It is below 2^16.
        Self((at & (BLOCK_SIZE - 1)) as u16)
    }

    /// Its number.
    #[inline(always)]
    pub(crate) const fn get(self) -> usize {
        self.0 as usize
    }
}

/// Bytes before a block, as far as a [`Back`] can go.
const BEFORE: usize = 256 * WORD;

/// A block that nobody else can change, with zeros around it, so that words may begin before it and end behind it.
#[repr(C)]
pub(crate) struct Block {
    before: [u8; BEFORE],
    bytes: [u8; BLOCK_SIZE],
    after: u64,
}

impl Block {
    /// Takes a copy of a block.
    #[inline(always)]
    pub(crate) fn copy_from(&mut self, block: Source<'_>) {
        block.copy_to(&mut self.bytes);
    }

    /// The block, and a zero.
    #[inline(always)]
    pub(crate) fn with_zero(&self) -> &[u8; BLOCK_SIZE + 1] {
        let start = ptr::from_ref(self).cast::<u8>();
        // SAFETY: `after` comes behind `bytes`, for which its alignment leaves no gap. All of it is bytes.
        unsafe { &*start.add(BEFORE).cast() }
    }

    /// What begins there.
    ///
    /// # Safety
    ///
    /// `at` counts from the start of `self`, and all of the word is in it.
    #[inline(always)]
    unsafe fn read(&self, at: usize) -> u64 {
        let start = ptr::from_ref(self).cast::<u8>();
        // SAFETY: In `self`, by the safety requirements of this function.
        u64::from_le(unsafe { start.add(at).cast::<u64>().read_unaligned() })
    }

    /// The word that begins there. What lies behind the block is zeros.
    #[inline(always)]
    pub(crate) fn word(&self, at: Place) -> u64 {
        // SAFETY: By the type invariant of a place, and with what is behind the block.
        unsafe { self.read(BEFORE.wrapping_add(at.get())) }
    }

    /// The word that ends before that place. What lies before the block is zeros.
    #[inline(always)]
    pub(crate) fn word_before(&self, at: Place) -> u64 {
        // SAFETY: By the type invariant of a place, and with what is before the block.
        unsafe { self.read((BEFORE - WORD).wrapping_add(at.get())) }
    }

    /// The word of this number, which is cut down to the size of a block.
    #[inline(always)]
    pub(crate) fn nth(&self, index: usize) -> u64 {
        let index = index & (WORDS - 1);
        // SAFETY: `WORDS` is a power of two.
        unsafe { self.read(BEFORE.wrapping_add(index.wrapping_mul(WORD))) }
    }

    /// The word so far before the one of this number, which is cut down to the size of a block. There are zeros before it.
    #[inline(always)]
    pub(crate) fn before(&self, index: usize, back: Back) -> u64 {
        let index = index & (WORDS - 1);
        // SAFETY: As above, and by the type invariant no more than `BEFORE` bytes before it, for which there is room.
        unsafe { self.read(index.wrapping_mul(WORD).wrapping_add(back.0)) }
    }
}

/// How far before another word a word is: 1 to 256 words.
///
/// # Invariants
///
/// What is missing to 256, in bytes, so at most 255 words.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Back(usize);

impl Back {
    /// From a number that is congruent to where that word is, from here, modulo 256.
    #[inline(always)]
    pub(crate) fn new(from_here: u8) -> Self {
        // INVARIANT: 255 at most.
        Self(opaque(usize::from(from_here)).wrapping_mul(WORD))
    }

    /// `then` if `word` is zero, else `self`.
    #[inline(always)]
    pub(crate) fn if_zero(self, word: u64, then: Self) -> Self {
        // INVARIANT: It is one of them.
        Self(if_zero(word, then.0, self.0))
    }
}

/// `number`, of which the compiler knows nothing: it is worked out once, not anew wherever it is needed, and a branch on it is
/// not made one with another.
#[inline(always)]
pub(crate) fn opaque(number: usize) -> usize {
    #[cfg(CONFIG_X86_64)]
    {
        let mut number = number;
        // SAFETY: Does nothing.
        unsafe {
            core::arch::asm!(
                "/* {0} */",
                inout(reg) number,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        number
    }
    #[cfg(not(CONFIG_X86_64))]
    number
}

/// The number of the highest bit that is set, 64 for zero.
#[inline(always)]
pub(crate) fn highest_bit(word: u64) -> usize {
    #[cfg(CONFIG_X86_64)]
    {
        let mut bit = 64_usize;
        // SAFETY: Touches registers only. For zero it leaves `bit` as it was: not by the book, but on every processor, as
        // the kernel's own `fls64()` has it. What it finds is below 64.
        unsafe {
            core::arch::asm!(
                "bsr {bit}, {word}",
                word = in(reg) word,
                bit = inout(reg) bit,
                options(pure, nomem, nostack),
            );
            core::hint::assert_unchecked(bit <= 64);
        }
        bit
    }
    #[cfg(not(CONFIG_X86_64))]
    match word {
        0 => 64,
        word => 63 ^ word.leading_zeros() as usize,
    }
}

/// `then` if `word` is zero, else `otherwise`; without a branch, which a compiler makes of all that is plainer.
#[inline(always)]
pub(crate) fn if_zero(word: u64, then: usize, otherwise: usize) -> usize {
    #[cfg(CONFIG_X86_64)]
    {
        let mut chosen = otherwise;
        // SAFETY: Touches registers only.
        unsafe {
            core::arch::asm!(
                "test {word}, {word}",
                "cmovz {chosen}, {then}",
                word = in(reg) word,
                then = in(reg) then,
                chosen = inout(reg) chosen,
                options(pure, nomem, nostack),
            );
        }
        chosen
    }
    #[cfg(not(CONFIG_X86_64))]
    {
        otherwise ^ (otherwise ^ then) & ((word == 0) as usize).wrapping_neg()
    }
}

/// What a block is compressed to, as far as it is shorter than the block.
#[repr(C)]
pub(crate) struct Output {
    bytes: [u8; BLOCK_SIZE],
    /// For what begins in `bytes` and is a byte and a word long.
    after: [u64; 2],
}

impl Output {
    /// What was put there. No more than a block.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8; BLOCK_SIZE] {
        &self.bytes
    }

    #[inline(always)]
    fn at(&mut self, at: usize) -> *mut u8 {
        let start = ptr::from_mut(self).cast::<u8>();
        // SAFETY: Places lie in `bytes`, which comes first.
        unsafe { start.add(Place::new(at).get()) }
    }

    /// Puts a byte there; the place is cut down to the size of a block.
    #[inline(always)]
    pub(crate) fn put_byte(&mut self, at: usize, value: u8) {
        // SAFETY: In `self`.
        unsafe { self.at(at).write(value) };
    }

    /// Puts two bytes there, the low one first; the place is cut down to the size of a block.
    #[inline(always)]
    pub(crate) fn put_pair(&mut self, at: usize, value: u16) {
        // SAFETY: In `self`, which goes on behind the last place.
        unsafe { self.at(at).cast::<u16>().write_unaligned(value.to_le()) };
    }

    /// Puts a byte there, and a word from `behind` (no more than one) bytes behind it on.
    #[inline(always)]
    pub(crate) fn put_both(&mut self, at: usize, byte: u8, behind: usize, word: u64) {
        let to = self.at(at);
        // SAFETY: In `self`, which goes on behind the last place.
        unsafe {
            to.write(byte);
            to.add(behind & 1)
                .cast::<u64>()
                .write_unaligned(word.to_le());
        }
    }

    /// Puts a word there, the low byte first; the place is cut down to the size of a block.
    #[inline(always)]
    pub(crate) fn put_word(&mut self, at: usize, value: u64) {
        // SAFETY: In `self`, which goes on behind the last place.
        unsafe { self.at(at).cast::<u64>().write_unaligned(value.to_le()) };
    }
}

/// What the codec works with. Of all of it zeros are a value, and there is no gap.
#[repr(C)]
pub(crate) struct Parts {
    pub(crate) block: Block,
    pub(crate) output: Output,
    /// Places by a hash of what is there.
    pub(crate) places: [Place; 4096],
    /// Numbers of words, modulo 256, by a hash of the word.
    pub(crate) numbers: [u8; 1024],
    pub(crate) scratch: [u8; WORDS / 2],
}

/// Memory for that. Too large for the stack.
pub(crate) struct Workspace(KVVec<u64>);

impl Workspace {
    const LEN: usize = size_of::<Parts>().div_ceil(WORD);

    /// Allocates it. May sleep.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(KVVec::from_elem(0u64, Self::LEN, GFP_KERNEL)?))
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.capacity().wrapping_mul(WORD) as u64
    }

    /// What is in it.
    #[inline(always)]
    pub(crate) fn parts(&mut self) -> &mut Parts {
        const { assert!(align_of::<Parts>() <= align_of::<u64>()) };
        // SAFETY: The memory has that size and alignment, and whatever bytes are in it are a value: zeros at first, and what
        // has been written to the parts later. Nobody changes its length.
        unsafe { &mut *self.0.as_mut_ptr().cast() }
    }
}

/// Compressed data, read from its start on. Behind the end are zeros.
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    /// Begins `at` bytes into `bytes`.
    #[inline(always)]
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// How far it has been read; this may be behind the end.
    #[inline(always)]
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Moves on.
    #[inline(always)]
    pub(crate) fn skip(&mut self, bytes: usize) {
        self.at = self.at.wrapping_add(bytes);
    }

    /// Whether so many bytes are left, and a word behind them.
    #[inline(always)]
    pub(crate) fn has(&self, bytes: usize) -> bool {
        self.at.wrapping_add(bytes).wrapping_add(WORD) <= self.bytes.len()
    }

    /// The next eight bytes, or those `behind` it, without moving on. Zero if it is not far from there to the end.
    #[inline(always)]
    pub(crate) fn near(&self, behind: bool) -> u64 {
        if self.bytes.len() <= WORD || self.at >= self.bytes.len().wrapping_sub(WORD) {
            return 0;
        }
        // SAFETY: Nine bytes from `at` on are in `bytes`, as just checked.
        u64::from_le(unsafe {
            let next = self.bytes.as_ptr().add(self.at);
            next.add(usize::from(behind)).cast::<u64>().read_unaligned()
        })
    }

    /// The same up to the end, and zeros behind it.
    #[inline(always)]
    pub(crate) fn word(&self, behind: bool) -> u64 {
        if self.has(1) {
            self.near(behind)
        } else {
            last(self.bytes, self.at.wrapping_add(usize::from(behind)))
        }
    }
}

/// What is left from `at` on, with zeros behind it.
#[cold]
#[inline(never)]
fn last(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default();
    let bytes = rest.iter().take(WORD).rev();
    bytes.fold(0, |word, byte| word << 8 | u64::from(*byte))
}
