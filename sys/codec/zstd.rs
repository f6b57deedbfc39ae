// SPDX-License-Identifier: GPL-2.0

//! Zstandard.
//!
//! C header: [`include/linux/zstd.h`](srctree/include/linux/zstd.h)

use super::workspace;
use crate::sys::{
    ffi,
    page::{
        Dest,
        Source,
        BLOCK_SIZE, //
    }, //
};
use core::ptr::NonNull;
use kernel::prelude::*;

/// The level that the library takes where none is asked for.
pub(crate) fn default_level() -> i32 {
    // SAFETY: No requirements.
    unsafe { ffi::zstd_default_clevel() }
}

/// State for compressing.
///
/// # Invariants
///
/// `context` lies in `memory`.
pub(crate) struct Encoder {
    context: NonNull<ffi::zstd_cctx>,
    parameters: ffi::zstd_parameters,
    _memory: KVVec<u64>,
}

// SAFETY: The context is plain memory that this object owns.
unsafe impl Send for Encoder {}

impl Encoder {
    /// Allocates the state. May sleep.
    pub(crate) fn new(level: i32) -> Result<Self> {
        // SAFETY: Any level is allowed.
        let parameters = unsafe { ffi::zstd_get_params(level, BLOCK_SIZE as u64) };
        // SAFETY: The parameters are initialised.
        let bytes = unsafe { ffi::zstd_cctx_workspace_bound(&parameters.cParams) };
        let mut memory = workspace(bytes)?;
        // SAFETY: The memory is as large as the library wants, aligned to 8, and stays where it is when the vector moves.
        let context = unsafe { ffi::zstd_init_cctx(memory.as_mut_ptr().cast(), bytes) };
        Ok(Self {
            context: NonNull::new(context).ok_or(EINVAL)?,
            parameters,
            _memory: memory,
        })
    }

    /// Compresses a block into `dst`, and returns how many bytes that took; `EINVAL` if it does not fit.
    #[inline]
    pub(crate) fn compress(&mut self, src: Source<'_>, dst: &mut [u8]) -> Result<usize> {
        // SAFETY: By the type invariant; `src` is a readable block, and the library writes no more than `dst` has.
        let ret = unsafe {
            ffi::zstd_compress_cctx(
                self.context.as_ptr(),
                dst.as_mut_ptr().cast(),
                dst.len(),
                src.as_ptr().cast(),
                BLOCK_SIZE,
                &self.parameters,
            )
        };
        // SAFETY: No requirements.
        if unsafe { ffi::zstd_is_error(ret) } == 0 {
            Ok(ret)
        } else {
            Err(EINVAL)
        }
    }
}

/// State for decompressing.
///
/// # Invariants
///
/// `context` lies in `memory`.
pub(crate) struct Decoder {
    context: NonNull<ffi::zstd_dctx>,
    _memory: KVVec<u64>,
}

// SAFETY: The context is plain memory that this object owns.
unsafe impl Send for Decoder {}

impl Decoder {
    /// Allocates the state. May sleep.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: No requirements.
        let bytes = unsafe { ffi::zstd_dctx_workspace_bound() };
        let mut memory = workspace(bytes)?;
        // SAFETY: As in `Encoder::new()`.
        let context = unsafe { ffi::zstd_init_dctx(memory.as_mut_ptr().cast(), bytes) };
        Ok(Self {
            context: NonNull::new(context).ok_or(EINVAL)?,
            _memory: memory,
        })
    }

    /// Decompresses `src`, which makes exactly one block: `EINVAL` if it does not.
    #[inline]
    pub(crate) fn decompress(&mut self, src: &[u8], mut dst: Dest<'_>) -> Result {
        // SAFETY: By the type invariant; `src` is readable, and `dst` is a writable block.
        let ret = unsafe {
            ffi::zstd_decompress_dctx(
                self.context.as_ptr(),
                dst.as_mut_ptr().cast(),
                BLOCK_SIZE,
                src.as_ptr().cast(),
                src.len(),
            )
        };
        if ret == BLOCK_SIZE {
            Ok(())
        } else {
            Err(EINVAL)
        }
    }
}
