// SPDX-License-Identifier: GPL-2.0

//! Deflate, by the kernel's zlib.
//!
//! C header: [`include/linux/zlib.h`](srctree/include/linux/zlib.h)

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

/// The level that the library takes where none is asked for.
pub(crate) const DEFAULT_LEVEL: i32 = ffi::Z_DEFAULT_COMPRESSION;
/// The levels that the library takes.
pub(crate) const LEVELS: core::ops::RangeInclusive<i32> =
    DEFAULT_LEVEL..=ffi::Z_BEST_COMPRESSION as i32;
/// A window of 2^11 bytes, without header or checksum: what C zram and the crypto API use.
pub(crate) const DEFAULT_WINDOW_BITS: i32 = -11;
/// As much memory for matches as the library can use: `MAX_MEM_LEVEL`.
const MEM_LEVEL: c_int = ffi::MAX_MEM_LEVEL as c_int;

/// Runs one pass of `step` from `src` to `dst`; returns what it returned.
///
/// # Safety
///
/// `src` is valid for reads, and `dst` for writes, of the given lengths; `step` is the library's and fits `stream`.
unsafe fn pass(
    stream: &mut ffi::z_stream,
    src: (*const u8, usize),
    dst: (*mut u8, usize),
    step: impl FnOnce(&mut ffi::z_stream) -> c_int,
) -> c_int {
    stream.next_in = src.0;
    stream.avail_in = src.1;
    stream.next_out = dst.0;
    stream.avail_out = dst.1;
    step(stream)
}

/// State for compressing.
///
/// # Invariants
///
/// `stream` is initialised, and its state lies in `memory`.
pub(crate) struct Encoder {
    // In a box, since the state points back to it.
    stream: KBox<ffi::z_stream>,
    memory: KVVec<u64>,
}

// SAFETY: Stream and state are plain memory that this object owns.
unsafe impl Send for Encoder {}

impl Encoder {
    /// Allocates the state. May sleep.
    pub(crate) fn new(level: i32, window_bits: i32) -> Result<Self> {
        // SAFETY: No requirements.
        let bytes = unsafe { ffi::zlib_deflate_workspacesize(window_bits, MEM_LEVEL) };
        let mut memory = workspace(usize::try_from(bytes)?)?;
        let mut stream = KBox::new(ffi::z_stream::default(), GFP_KERNEL)?;
        stream.workspace = memory.as_mut_ptr().cast();
        // SAFETY: The stream is zeroed but for its work memory, which is as large as the library wants.
        let ret = unsafe {
            ffi::zlib_deflateInit2(
                &mut *stream,
                level,
                ffi::Z_DEFLATED as c_int,
                window_bits,
                MEM_LEVEL,
                ffi::Z_DEFAULT_STRATEGY as c_int,
            )
        };
        if ret != ffi::Z_OK as c_int {
            return Err(EINVAL);
        }
        Ok(Self { stream, memory })
    }

    /// Bytes that the state takes.
    pub(crate) fn bytes(&self) -> u64 {
        super::bytes(&self.memory)
    }

    /// Compresses a block into `dst`, and returns how many bytes that took; `EINVAL` if it does not fit.
    pub(crate) fn compress(&mut self, src: Source<'_>, dst: &mut [u8]) -> Result<usize> {
        let stream = &mut *self.stream;
        // SAFETY: By the type invariant.
        if unsafe { ffi::zlib_deflateReset(stream) } != ffi::Z_OK as c_int {
            return Err(EINVAL);
        }
        // SAFETY: `src` is a readable block, and `dst` is ours.
        let ret = unsafe {
            pass(
                stream,
                (src.as_ptr(), BLOCK_SIZE),
                (dst.as_mut_ptr(), dst.len()),
                |stream| ffi::zlib_deflate(stream, ffi::Z_FINISH as c_int),
            )
        };
        if ret == ffi::Z_STREAM_END as c_int {
            Ok(stream.total_out)
        } else {
            Err(EINVAL)
        }
    }
}

/// State for decompressing.
///
/// # Invariants
///
/// `stream` is initialised, and its state lies in `memory`.
pub(crate) struct Decoder {
    stream: KBox<ffi::z_stream>,
    memory: KVVec<u64>,
}

// SAFETY: As for `Encoder`.
unsafe impl Send for Decoder {}

impl Decoder {
    /// Allocates the state. May sleep.
    pub(crate) fn new(window_bits: i32) -> Result<Self> {
        // SAFETY: No requirements.
        let bytes = unsafe { ffi::zlib_inflate_workspacesize() };
        let mut memory = workspace(usize::try_from(bytes)?)?;
        let mut stream = KBox::new(ffi::z_stream::default(), GFP_KERNEL)?;
        stream.workspace = memory.as_mut_ptr().cast();
        // SAFETY: As in `Encoder::new()`.
        if unsafe { ffi::zlib_inflateInit2(&mut *stream, window_bits) } != ffi::Z_OK as c_int {
            return Err(EINVAL);
        }
        Ok(Self { stream, memory })
    }

    /// Bytes that the state takes.
    pub(crate) fn bytes(&self) -> u64 {
        super::bytes(&self.memory)
    }

    /// Decompresses `src`, which makes exactly one block: `EINVAL` if it does not.
    pub(crate) fn decompress(&mut self, src: &[u8], mut dst: Dest<'_>) -> Result {
        let stream = &mut *self.stream;
        // SAFETY: By the type invariant.
        if unsafe { ffi::zlib_inflateReset(stream) } != ffi::Z_OK as c_int {
            return Err(EINVAL);
        }
        // SAFETY: `src` is readable, and `dst` is a writable block.
        let ret = unsafe {
            pass(
                stream,
                (src.as_ptr(), src.len()),
                (dst.as_mut_ptr(), BLOCK_SIZE),
                |stream| ffi::zlib_inflate(stream, ffi::Z_SYNC_FLUSH as c_int),
            )
        };
        if ret == ffi::Z_STREAM_END as c_int && stream.avail_out == 0 {
            Ok(())
        } else {
            Err(EINVAL)
        }
    }
}
