// SPDX-License-Identifier: GPL-2.0

//! LZO and LZO-RLE.
//!
//! C header: [`include/linux/lzo.h`](srctree/include/linux/lzo.h)

use super::workspace;
use crate::sys::{
    ffi,
    page::{
        Dest,
        Source,
        BLOCK_SIZE, //
    }, //
};
use kernel::prelude::*;

/// `lzo1x_worst_compress()` of a block. It holds for any input, also for one that changes: each step of the compressor
/// uses up at least as much input as it makes output, but for this margin.
const WORST: usize = BLOCK_SIZE + BLOCK_SIZE / 16 + 64 + 3 + 2;

/// State for compressing with LZO or, if `RLE`, with LZO-RLE.
pub(crate) struct Encoder<const RLE: bool>(KVVec<u64>);

impl<const RLE: bool> Encoder<RLE> {
    /// Allocates the state. May sleep.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(workspace(ffi::RZRAM_LZO1X_MEM_COMPRESS)?))
    }

    /// Bytes that the state takes.
    pub(crate) fn bytes(&self) -> u64 {
        super::bytes(&self.0)
    }

    /// Compresses a block into `dst`, and returns how many bytes that took.
    #[inline]
    pub(crate) fn compress(&mut self, src: Source<'_>, dst: &mut [u8]) -> Result<usize> {
        if dst.len() < WORST {
            return Err(EINVAL);
        }
        let mut len = dst.len();
        let compress = if RLE {
            ffi::lzorle1x_1_compress
        } else {
            ffi::lzo1x_1_compress
        };
        // SAFETY: `src` is a readable block, `dst` has room for the worst case, and the work memory has the size that the
        // library wants.
        let ret = unsafe {
            compress(
                src.as_ptr(),
                BLOCK_SIZE,
                dst.as_mut_ptr(),
                &mut len,
                self.0.as_mut_ptr().cast(),
            )
        };
        // CAST: `LZO_E_OK` is 0.
        if ret == ffi::LZO_E_OK as c_int {
            Ok(len)
        } else {
            Err(EINVAL)
        }
    }
}

/// Decompresses `src`, which makes exactly one block: `EINVAL` if it does not.
#[inline]
pub(crate) fn decompress(src: &[u8], mut dst: Dest<'_>) -> Result {
    let mut len = BLOCK_SIZE;
    // SAFETY: `src` is readable, and `dst` is a writable block.
    let ret =
        unsafe { ffi::lzo1x_decompress_safe(src.as_ptr(), src.len(), dst.as_mut_ptr(), &mut len) };
    if ret == ffi::LZO_E_OK as c_int && len == BLOCK_SIZE {
        Ok(())
    } else {
        Err(EINVAL)
    }
}
