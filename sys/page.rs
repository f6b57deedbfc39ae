// SPDX-License-Identifier: GPL-2.0

//! Blocks of 4 KiB that belong to somebody else, such as a user who may be writing to them meanwhile.
//!
//! No references to such memory are ever made: all access is through raw pointers, and whoever reads a block twice may
//! find different bytes the second time.
//!
//! C header: [`include/linux/highmem.h`](srctree/include/linux/highmem.h)

use core::{
    marker::PhantomData,
    ptr, //
};
use kernel::{
    bindings,
    prelude::*, //
};

/// Bytes of a block: what one slot stores, and the logical block size of a disk.
pub(crate) const BLOCK_SIZE: usize = 4096;

const WORD: usize = core::mem::size_of::<u64>();
const WORDS: usize = BLOCK_SIZE / WORD;
/// Words compared between two branches of [`Source::same_filled`].
const BATCH: usize = 32;

/// A block to read from.
///
/// # Invariants
///
/// `ptr` is valid for reads of [`BLOCK_SIZE`] bytes and aligned to 8.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    ptr: *const u8,
    _life: PhantomData<&'a [u8]>,
}

impl<'a> Source<'a> {
    /// Bytes of a block.
    pub(crate) const LEN: usize = BLOCK_SIZE;

    #[inline]
    pub(super) fn as_ptr(self) -> *const u8 {
        self.ptr
    }

    /// A block in a buffer of our own; `None` if it is too short or not aligned to 8.
    #[inline]
    pub(crate) fn from_slice(buffer: &'a [u8]) -> Option<Self> {
        // INVARIANT: A slice is valid for its length.
        (buffer.len() >= BLOCK_SIZE && buffer.as_ptr().cast::<u64>().is_aligned()).then_some(Self {
            ptr: buffer.as_ptr(),
            _life: PhantomData,
        })
    }

    /// Copies the block.
    #[inline]
    pub(crate) fn copy_to(self, to: &mut [u8; BLOCK_SIZE]) {
        // SAFETY: By the type invariant; `to` is ours and thus somewhere else.
        unsafe { copy_block(self.ptr, to.as_mut_ptr()) };
    }

    #[inline(always)]
    fn word(self, i: usize) -> u64 {
        // SAFETY: Callers pass `i` below `BLOCK_SIZE / WORD`, and the block is readable and aligned by the type invariant.
        // Volatile: somebody may be writing to it, and each word is to be read once.
        unsafe { self.ptr.cast::<u64>().add(i).read_volatile() }
    }

    /// The 64-bit pattern that fills the block, if there is one.
    #[inline]
    pub(crate) fn same_filled(self) -> Option<u64> {
        let first = self.word(0);
        // Most blocks differ at the ends already: many begin with a header and end in zeros.
        if first != self.word(WORDS - 1) {
            return None;
        }
        let batches = || (0..WORDS).step_by(BATCH);
        // Zeros are the most frequent by far, and take one instruction for each word.
        let differs = match first {
            0 => batches().any(|i| self.any_bit(i)),
            _ => batches().any(|i| self.any_other(i, first)),
        };
        (!differs).then_some(first)
    }

    /// Whether a bit is set in the batch of words from `i` on.
    #[inline(always)]
    fn any_bit(self, i: usize) -> bool {
        let mut bits = 0;
        let mut k = 0;
        while k < BATCH {
            bits |= self.word(i + k);
            k += 1;
        }
        bits != 0
    }

    /// Whether a word in the batch from `i` on is not `pattern`.
    #[inline(always)]
    fn any_other(self, i: usize, pattern: u64) -> bool {
        // The compiler would load each word before it compares it.
        #[cfg(CONFIG_X86_64)]
        {
            let differs: u8;
            // SAFETY: Reads `BATCH` words from `i` on, which are in the block as for `word()`.
            unsafe {
                core::arch::asm!(
                    ".set rzram_offset, 0",
                    ".rept {batch}",
                    "cmp [{words} + rzram_offset], {pattern}",
                    "jne 2f",
                    ".set rzram_offset, rzram_offset + {size}",
                    ".endr",
                    "2:",
                    "setne {differs}",
                    batch = const BATCH,
                    size = const WORD,
                    words = in(reg) self.ptr.cast::<u64>().add(i),
                    pattern = in(reg) pattern,
                    differs = out(reg_byte) differs,
                    options(nostack, readonly),
                );
            }
            differs != 0
        }
        #[cfg(not(CONFIG_X86_64))]
        {
            let mut k = 0;
            while k < BATCH {
                if self.word(i + k) != pattern {
                    return true;
                }
                k += 1;
            }
            false
        }
    }
}

/// Writes `pattern` all over a block.
///
/// # Safety
///
/// `ptr` is valid for writes of [`BLOCK_SIZE`] bytes and aligned to 8.
#[inline]
unsafe fn fill_block(ptr: *mut u8, pattern: u64) {
    // By words, as `memset64()` does it there: every x86-64 has a fast way for these.
    #[cfg(CONFIG_X86_64)]
    // SAFETY: Writes `BLOCK_SIZE` bytes from `ptr` on; the kernel keeps the direction flag clear.
    unsafe {
        core::arch::asm!(
            "rep stosq",
            inout("rcx") BLOCK_SIZE / WORD => _,
            inout("rdi") ptr => _,
            in("rax") pattern,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(not(CONFIG_X86_64))]
    for i in 0..BLOCK_SIZE / WORD {
        // SAFETY: By the safety requirements of this function.
        unsafe { ptr.cast::<u64>().add(i).write_volatile(pattern) };
    }
}

/// Copies a block.
///
/// # Safety
///
/// `from` is valid for reads and `to` for writes of [`BLOCK_SIZE`] bytes, and they do not overlap.
#[inline]
unsafe fn copy_block(from: *const u8, to: *mut u8) {
    // By words, as `copy_page()` does it there.
    #[cfg(CONFIG_X86_64)]
    // SAFETY: Copies `BLOCK_SIZE` bytes; the kernel keeps the direction flag clear.
    unsafe {
        core::arch::asm!(
            "rep movsq",
            inout("rcx") BLOCK_SIZE / WORD => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(not(CONFIG_X86_64))]
    // SAFETY: By the safety requirements of this function.
    unsafe {
        ptr::copy_nonoverlapping(from, to, BLOCK_SIZE)
    };
}

/// A block to write to.
///
/// # Invariants
///
/// `ptr` is valid for reads and writes of [`BLOCK_SIZE`] bytes and aligned to 8.
pub(crate) struct Dest<'a> {
    ptr: *mut u8,
    _life: PhantomData<&'a mut [u8]>,
}

impl<'a> Dest<'a> {
    /// A block in a buffer of our own; `None` if it is too short or not aligned to 8.
    #[inline]
    pub(crate) fn from_slice(buffer: &'a mut [u8]) -> Option<Self> {
        // INVARIANT: A slice is valid for its length.
        (buffer.len() >= BLOCK_SIZE && buffer.as_ptr().cast::<u64>().is_aligned()).then_some(Self {
            ptr: buffer.as_mut_ptr(),
            _life: PhantomData,
        })
    }

    #[inline]
    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.ptr
    }

    /// Writes the word of this number, which is cut down to the size of a block.
    #[inline(always)]
    pub(crate) fn set_word(&mut self, index: usize, word: u64) {
        // SAFETY: By the type invariant; the number of words is a power of two.
        unsafe {
            self.ptr
                .cast::<u64>()
                .add(index & (WORDS - 1))
                .write(word.to_le())
        };
    }

    /// Reads the word of this number, which is cut down to the size of a block. Somebody may have changed it meanwhile.
    #[inline(always)]
    pub(crate) fn word(&self, index: usize) -> u64 {
        // SAFETY: As above; it may be read as well.
        u64::from_le(unsafe {
            self.ptr
                .cast::<u64>()
                .add(index & (WORDS - 1))
                .read_volatile()
        })
    }

    /// Copies `bytes` to the bytes from `at` on; whether they fit.
    #[inline(always)]
    #[must_use]
    pub(crate) fn put<const LEN: usize>(&mut self, at: usize, bytes: &[u8; LEN]) -> bool {
        const { assert!(LEN <= BLOCK_SIZE) };
        if at > BLOCK_SIZE - LEN {
            return false;
        }
        // SAFETY: As just checked, and by the type invariant; `bytes` is ours and thus somewhere else.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.ptr.add(at), LEN) };
        true
    }

    /// The same for any length.
    #[inline]
    #[must_use]
    pub(crate) fn put_slice(&mut self, at: usize, bytes: &[u8]) -> bool {
        if at > BLOCK_SIZE || bytes.len() > BLOCK_SIZE - at {
            return false;
        }
        // SAFETY: As in `put()`.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.ptr.add(at), bytes.len()) };
        true
    }

    /// Copies so many words to the bytes from `at` on, one after the other, from `back` bytes before; whether all of that is in
    /// the block.
    #[inline(always)]
    #[must_use]
    pub(crate) fn repeat<const COUNT: usize>(&mut self, at: usize, back: usize) -> bool {
        const { assert!(COUNT * WORD <= BLOCK_SIZE) };
        if at > BLOCK_SIZE - COUNT * WORD || back > at {
            return false;
        }
        for word in 0..COUNT {
            // SAFETY: As just checked, and by the type invariant.
            unsafe {
                let to = self.ptr.add(at.wrapping_add(word * WORD));
                let from = to.sub(back).cast::<u64>().read_unaligned();
                to.cast::<u64>().write_unaligned(from);
            }
        }
        true
    }

    /// The eight bytes from `at` on, of which some may not have been written yet; `None` if they are not in the block.
    #[inline(always)]
    pub(crate) fn bytes(&self, at: usize) -> Option<u64> {
        if at > BLOCK_SIZE - WORD {
            return None;
        }
        // SAFETY: As just checked, and by the type invariant.
        Some(u64::from_le(unsafe {
            self.ptr.add(at).cast::<u64>().read_unaligned()
        }))
    }

    /// Copies one byte like that.
    #[inline(always)]
    #[must_use]
    pub(crate) fn repeat_byte(&mut self, at: usize, back: usize) -> bool {
        if at >= BLOCK_SIZE || back > at {
            return false;
        }
        // SAFETY: As just checked, and by the type invariant.
        unsafe {
            let to = self.ptr.add(at);
            to.write(to.sub(back).read());
        }
        true
    }

    /// Fills the block with `pattern`.
    #[inline]
    pub(crate) fn fill(&mut self, pattern: u64) {
        // SAFETY: By the type invariant.
        unsafe { fill_block(self.ptr, pattern) };
    }

    /// Copies `data`, which is a block; anything else is `EINVAL`.
    #[inline]
    pub(crate) fn copy_from(&mut self, data: &[u8]) -> Result {
        if data.len() != BLOCK_SIZE {
            return Err(EINVAL);
        }
        // SAFETY: By the type invariant and the length just checked; `data` is ours and thus somewhere else.
        unsafe { copy_block(data.as_ptr(), self.ptr) };
        Ok(())
    }
}

/// A piece of a page of a bio.
///
/// # Invariants
///
/// `offset + len` is at most `PAGE_SIZE`. The page stays while `'a` lasts.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    page: *mut bindings::page,
    offset: usize,
    len: usize,
    _life: PhantomData<&'a ()>,
}

impl<'a> Piece<'a> {
    /// # Safety
    ///
    /// As the type invariants say.
    #[inline]
    pub(super) unsafe fn new(page: *mut bindings::page, offset: usize, len: usize) -> Self {
        // INVARIANT: By the safety requirements of this function.
        Self {
            page,
            offset,
            len,
            _life: PhantomData,
        }
    }

    /// Length in bytes.
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// Whether it is a whole block, and aligned to 8 bytes, so that [`Piece::with_source`] and [`Piece::with_dest`] take it.
    #[inline]
    pub(crate) fn is_block(self) -> bool {
        self.len == BLOCK_SIZE && self.offset % WORD == 0
    }

    /// The memory node of the page.
    #[inline]
    pub(crate) fn nid(self) -> i32 {
        // SAFETY: The page is live by the type invariant.
        unsafe { bindings::page_to_nid(self.page) }
    }

    #[inline]
    fn mapped<R>(self, f: impl FnOnce(*mut u8) -> R) -> R {
        // SAFETY: The page is live by the type invariant.
        let base = unsafe { bindings::kmap_local_page(self.page) };
        // SAFETY: `offset` lies in the page by the type invariant.
        let ret = f(unsafe { base.cast::<u8>().add(self.offset) });
        // Where pages are always mapped, x86-64 has nothing to undo, and C's own function for it is empty. They are not where
        // that is debugged (`CONFIG_DEBUG_KMAP_LOCAL_FORCE_MAP`). Tests count.
        #[cfg(any(test, CONFIG_KMAP_LOCAL, not(CONFIG_X86_64)))]
        // SAFETY: Undoes the mapping above; mappings made in `f` have been undone before.
        unsafe {
            bindings::kunmap_local(base)
        };
        ret
    }

    /// Calls `f` with a piece that is a whole block, to read from it.
    #[inline]
    pub(crate) fn with_source<R>(self, f: impl FnOnce(Source<'_>) -> R) -> Option<R> {
        // INVARIANT: As just checked; pages are aligned.
        self.is_block().then(|| {
            self.mapped(|ptr| {
                f(Source {
                    ptr,
                    _life: PhantomData,
                })
            })
        })
    }

    /// Calls `f` with a piece that is a whole block, to write to it.
    #[inline]
    pub(crate) fn with_dest<R>(self, f: impl FnOnce(Dest<'_>) -> R) -> Option<R> {
        // INVARIANT: As in `with_source()`.
        self.is_block().then(|| {
            self.mapped(|ptr| {
                f(Dest {
                    ptr,
                    _life: PhantomData,
                })
            })
        })
    }

    /// Copies the piece to the start of `buffer`, as far as that goes. Returns the bytes copied.
    pub(crate) fn copy_to(self, buffer: &mut [u8]) -> usize {
        let len = self.len.min(buffer.len());
        // SAFETY: `len` bytes are readable at the piece and writable in `buffer`, which is ours.
        self.mapped(|ptr| unsafe { ptr::copy_nonoverlapping(ptr, buffer.as_mut_ptr(), len) });
        len
    }

    /// Copies the start of `buffer` to the piece, as far as that goes. Returns the bytes copied.
    pub(crate) fn copy_from(self, buffer: &[u8]) -> usize {
        let len = self.len.min(buffer.len());
        // SAFETY: `len` bytes are writable at the piece and readable in `buffer`, which is ours.
        self.mapped(|ptr| unsafe { ptr::copy_nonoverlapping(buffer.as_ptr(), ptr, len) });
        len
    }
}
