// SPDX-License-Identifier: GPL-2.0

//! A request to a disk, cut into blocks.
//!
//! A bio's segments may start at any multiple of 512 in a page, be shorter than a block, or join several pages; a block of
//! the disk may thus lie in one piece of memory or in several.
//!
//! C header: [`include/linux/bio.h`](srctree/include/linux/bio.h)

use super::{
    ffi,
    page::{
        Piece,
        BLOCK_SIZE, //
    },
    published::InUse, //
};
use core::{
    marker::PhantomData,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    bindings,
    block::SECTOR_SIZE,
    ffi::c_ulong,
    page::PAGE_SIZE, //
};

const BLOCK_SECTORS: u64 = BLOCK_SIZE as u64 / SECTOR_SIZE as u64;

/// What a bio asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Read,
    Write,
    Discard,
    WriteZeroes,
    /// Anything else, by its number.
    Other(u32),
}

/// Since when a bio is worked on, in jiffies.
pub(crate) struct Started(c_ulong);

/// A bio that was handed to us by `submit_bio`, and that is completed when this is dropped.
///
/// # Invariants
///
/// `ptr` is a live bio that we own until it is completed.
pub(crate) struct Bio<'a> {
    ptr: NonNull<bindings::bio>,
    status: bindings::blk_status_t,
    _life: PhantomData<&'a InUse>,
}

impl<'a> Bio<'a> {
    /// # Safety
    ///
    /// `ptr` is a bio that was passed to the driver's `submit_bio`, which has neither completed it nor passed it on.
    /// `_in_use` lives no longer than the call.
    pub(super) unsafe fn new(ptr: NonNull<bindings::bio>, _in_use: &'a InUse) -> Self {
        // INVARIANT: By the safety requirements of this function.
        Self {
            ptr,
            status: 0,
            _life: PhantomData,
        }
    }

    #[inline]
    fn iter(&self) -> bindings::bvec_iter {
        // SAFETY: By the type invariant. A copy, as the fields are packed.
        unsafe { (*self.ptr.as_ptr()).bi_iter }
    }

    /// What is asked for.
    #[inline]
    pub(crate) fn op(&self) -> Op {
        const MASK: u32 = (1 << bindings::REQ_OP_BITS) - 1;
        // SAFETY: By the type invariant.
        let op = unsafe { (*self.ptr.as_ptr()).bi_opf } & MASK;
        match op {
            bindings::req_op_REQ_OP_READ => Op::Read,
            bindings::req_op_REQ_OP_WRITE => Op::Write,
            bindings::req_op_REQ_OP_DISCARD => Op::Discard,
            bindings::req_op_REQ_OP_WRITE_ZEROES => Op::WriteZeroes,
            other => Op::Other(other),
        }
    }

    /// The blocks that the bio covers as first number and count; `None` unless it begins and ends between blocks.
    #[inline]
    pub(crate) fn range(&self) -> Option<(u64, u64)> {
        let iter = self.iter();
        let (sector, size) = (iter.bi_sector, u64::from(iter.bi_size));
        (sector % BLOCK_SECTORS == 0 && size % BLOCK_SIZE as u64 == 0)
            .then_some((sector / BLOCK_SECTORS, size / BLOCK_SIZE as u64))
    }

    /// The memory of the bio, block by block.
    #[inline]
    pub(crate) fn blocks(&self) -> Blocks<'_> {
        let iter = self.iter();
        Blocks(Pieces {
            // SAFETY: By the type invariant.
            vecs: unsafe { (*self.ptr.as_ptr()).bi_io_vec },
            index: iter.bi_idx as usize,
            offset: iter.bi_offset as usize,
            left: iter.bi_size as usize,
            _life: PhantomData,
        })
    }

    /// Counts the bio as in flight in the I/O statistics. [`Self::ended()`] has to follow, if only in a worker.
    #[inline]
    pub(crate) fn started(&self) -> Started {
        // SAFETY: By the type invariant.
        Started(unsafe { bindings::bio_start_io_acct(self.ptr.as_ptr()) })
    }

    /// The same for a bio that is counted already, since when a worker has had it: there is no place in a bio to note when it
    /// came.
    #[inline]
    pub(crate) fn resumed(&self) -> Started {
        // SAFETY: The kernel's clock, which may be read at any time.
        Started(unsafe { ptr::addr_of!(bindings::jiffies).read_volatile() })
    }

    /// Counts the bio as done in the I/O statistics, once.
    #[inline]
    pub(crate) fn ended(&self, Started(since): Started) {
        // SAFETY: By the type invariant; `bi_bdev` is set for every submitted bio.
        unsafe {
            let bdev = (*self.ptr.as_ptr()).bi_bdev;
            bindings::bio_end_io_acct_remapped(self.ptr.as_ptr(), since, bdev);
        }
    }

    /// Gives the bio up without completing it.
    pub(super) fn into_raw(self) -> NonNull<bindings::bio> {
        let ptr = self.ptr;
        core::mem::forget(self);
        ptr
    }

    /// Completes the bio with an I/O error instead of success.
    #[cold]
    pub(crate) fn fail(&mut self) {
        self.status = ffi::RZRAM_BLK_STS_IOERR;
    }

    /// Completes the bio as an operation that the disk does not know.
    #[cold]
    pub(crate) fn unsupported(&mut self) {
        self.status = ffi::RZRAM_BLK_STS_NOTSUPP;
    }
}

impl Drop for Bio<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariant; this is where ownership ends.
        unsafe {
            if self.status != 0 {
                (*self.ptr.as_ptr()).bi_status = self.status;
            }
            bindings::bio_endio(self.ptr.as_ptr());
        }
    }
}

/// The memory of some blocks, piece by piece. No piece crosses a page.
///
/// # Invariants
///
/// Segments of `vecs` from `index` on hold `left` bytes, of which the first `offset` of the first segment are not counted.
#[derive(Clone)]
pub(crate) struct Pieces<'a> {
    vecs: *const bindings::bio_vec,
    index: usize,
    offset: usize,
    left: usize,
    _life: PhantomData<&'a ()>,
}

impl<'a> Pieces<'a> {
    /// The next piece, of at most `max` bytes; `None` at the end.
    #[inline]
    fn cut(&mut self, max: usize) -> Option<Piece<'a>> {
        if self.left == 0 {
            return None;
        }
        // SAFETY: By the type invariant, there is a segment at `index` while bytes are left.
        let vec = unsafe { self.vecs.add(self.index).read() };
        let (vec_len, vec_offset) = (vec.bv_len as usize, vec.bv_offset as usize);
        let start = vec_offset.wrapping_add(self.offset);
        let in_page = start % PAGE_SIZE;
        let len = vec_len
            .wrapping_sub(self.offset)
            .min(PAGE_SIZE - in_page)
            .min(self.left)
            .min(max);
        // SAFETY: The pages of one segment are adjacent, and `start` lies in the segment.
        let page = unsafe { vec.bv_page.add(start / PAGE_SIZE) };
        // INVARIANT: Moves on by `len` bytes, which are all in this segment.
        self.left = self.left.wrapping_sub(len);
        self.offset = self.offset.wrapping_add(len);
        if self.offset >= vec_len {
            self.offset = 0;
            self.index = self.index.wrapping_add(1);
        }
        // SAFETY: `in_page + len` is at most `PAGE_SIZE`. Whoever submitted the bio holds its pages until it is completed.
        Some(unsafe { Piece::new(page, in_page, len) })
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    #[inline]
    fn next(&mut self) -> Option<Piece<'a>> {
        self.cut(usize::MAX)
    }
}

/// The memory of a bio, block by block: each block is asked for as a whole first, and in pieces if it is not.
pub(crate) struct Blocks<'a>(Pieces<'a>);

impl<'a> Blocks<'a> {
    /// The next block, if it lies in one page, aligned to 8 bytes.
    #[inline(always)]
    pub(crate) fn whole(&mut self) -> Option<Piece<'a>> {
        let pieces = &mut self.0;
        if pieces.left < BLOCK_SIZE {
            return None;
        }
        // SAFETY: By the type invariant of `Pieces`, there is a segment at `index` while bytes are left.
        let vec = unsafe { &*pieces.vecs.add(pieces.index) };
        let start = (vec.bv_offset as usize).wrapping_add(pieces.offset);
        let in_page = start % PAGE_SIZE;
        let end = pieces.offset.wrapping_add(BLOCK_SIZE);
        if end > vec.bv_len as usize || in_page > PAGE_SIZE - BLOCK_SIZE || in_page % 8 != 0 {
            return None;
        }
        // INVARIANT: Moves on by a block, which is all in this segment.
        pieces.left = pieces.left.wrapping_sub(BLOCK_SIZE);
        if end < vec.bv_len as usize {
            pieces.offset = end;
        } else {
            pieces.offset = 0;
            pieces.index = pieces.index.wrapping_add(1);
        }
        // SAFETY: As in `Pieces::cut()`; it ends in the same page, as just checked.
        unsafe {
            let page = vec.bv_page.add(start / PAGE_SIZE);
            Some(Piece::new(page, in_page, BLOCK_SIZE))
        }
    }

    /// The next block, in pieces, [`BLOCK_SIZE`] bytes together; `None` at the end.
    #[cold]
    pub(crate) fn split(&mut self) -> Option<Pieces<'a>> {
        let start = self.0.clone();
        let mut left = BLOCK_SIZE;
        while left > 0 {
            // A bio that ends within a block is refused before its blocks are asked for.
            left = left.wrapping_sub(self.0.cut(left)?.len());
        }
        // INVARIANT: The bytes are there: we just passed them.
        Some(Pieces {
            left: BLOCK_SIZE,
            ..start
        })
    }
}

impl Pieces<'_> {
    /// Copies all pieces to `buffer`, one behind the other.
    pub(crate) fn gather(self, buffer: &mut [u8]) {
        let mut rest = buffer;
        for piece in self {
            let copied = piece.copy_to(rest);
            rest = rest.get_mut(copied..).unwrap_or_default();
        }
    }

    /// Copies `buffer` to the pieces, one after the other.
    pub(crate) fn scatter(self, buffer: &[u8]) {
        let mut rest = buffer;
        for piece in self {
            let copied = piece.copy_from(rest);
            rest = rest.get(copied..).unwrap_or_default();
        }
    }
}
