// SPDX-License-Identifier: GPL-2.0

//! The kernel's own compressors, one file a library.
//!
//! Each has an encoder, which is the state for compressing one block at a time, and a way to decompress. A block to be
//! compressed may change meanwhile: the libraries stay within the output, whatever they read, and the result is whatever
//! they made of it. What is decompressed is an object of the pool, which nobody changes.

pub(crate) mod deflate;
pub(crate) mod lz4;
pub(crate) mod lz4hc;
pub(crate) mod lzo;
pub(crate) mod zstd;

use super::page::BLOCK_SIZE;
use kernel::prelude::*;

/// Bytes that a compressed block may take, by the worst of the libraries: twice a block, as C zram has it.
pub(crate) const MAX_COMPRESSED: usize = 2 * BLOCK_SIZE;

/// What a dictionary is made of: its file's content.
pub(crate) type Dictionary = KVVec<u8>;

/// Bytes of such memory.
fn bytes(memory: &KVVec<u64>) -> u64 {
    memory.capacity().wrapping_mul(size_of::<u64>()) as u64
}

/// Makes work memory what another is, as far as the shorter of them goes.
fn copy(to: &mut KVVec<u64>, from: &KVVec<u64>) {
    for (to, from) in to.iter_mut().zip(from.iter()) {
        *to = *from;
    }
}

/// The length that an LZ4 function returned: `EINVAL` where it says that the result does not fit.
#[inline]
fn lz4_length(returned: c_int) -> Result<usize> {
    match usize::try_from(returned) {
        Ok(len) if len > 0 => Ok(len),
        _ => Err(EINVAL),
    }
}

/// Scratch memory for a library, zeroed and aligned to 8. May sleep.
fn workspace(bytes: usize) -> Result<KVVec<u64>> {
    Ok(KVVec::from_elem(
        0u64,
        bytes.div_ceil(size_of::<u64>()),
        GFP_KERNEL,
    )?)
}
