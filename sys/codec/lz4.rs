// SPDX-License-Identifier: GPL-2.0

//! LZ4.
//!
//! C header: [`include/linux/lz4.h`](srctree/include/linux/lz4.h)

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

/// State for compressing.
pub(crate) struct Encoder {
    memory: KVVec<u64>,
    acceleration: c_int,
}

impl Encoder {
    /// Allocates the state. A higher `acceleration` (1 and up) compresses faster and less. May sleep.
    pub(crate) fn new(acceleration: i32) -> Result<Self> {
        Ok(Self {
            memory: workspace(ffi::RZRAM_LZ4_MEM_COMPRESS)?,
            acceleration,
        })
    }

    /// Compresses a block into `dst`, and returns how many bytes that took; `EINVAL` if it does not fit.
    #[inline]
    pub(crate) fn compress(&mut self, src: Source<'_>, dst: &mut [u8]) -> Result<usize> {
        // SAFETY: `src` is a readable block; the library writes no more than it is told that `dst` has; the work memory has
        // the size that it wants.
        let len = unsafe {
            ffi::LZ4_compress_fast(
                src.as_ptr().cast(),
                dst.as_mut_ptr().cast(),
                BLOCK_SIZE as c_int,
                c_int::try_from(dst.len())?,
                self.acceleration,
                self.memory.as_mut_ptr().cast(),
            )
        };
        match usize::try_from(len) {
            Ok(len) if len > 0 => Ok(len),
            _ => Err(EINVAL),
        }
    }
}

/// Decompresses `src`, which makes exactly one block: `EINVAL` if it does not.
#[inline]
pub(crate) fn decompress(src: &[u8], mut dst: Dest<'_>) -> Result {
    // SAFETY: `src` is readable, and `dst` is a writable block.
    let len = unsafe {
        ffi::LZ4_decompress_safe(
            src.as_ptr().cast(),
            dst.as_mut_ptr().cast(),
            c_int::try_from(src.len())?,
            BLOCK_SIZE as c_int,
        )
    };
    if len == BLOCK_SIZE as c_int {
        Ok(())
    } else {
        Err(EINVAL)
    }
}
