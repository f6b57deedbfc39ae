// SPDX-License-Identifier: GPL-2.0

//! A codec of our own, for blocks of 4 KiB in memory.
//!
//! Most of what is swapped out is words: pointers, small numbers, records. [`words`] has a coder for these, and [`lz`] one for
//! all else, which writes LZ4's format, which [`unlz`] reads; [`choose`] says which is for what. Documentation/codec.rst tells what it is like and
//! how fast it is.
//!
//! What is encoded is a copy, for a block may change meanwhile. The same block always gives the same bytes.

mod choose;
mod codes;
mod lz;
mod unlz;
mod words;

use crate::sys::{
    bytes::Workspace,
    page::{
        Dest,
        Source, //
    }, //
};
use kernel::prelude::*;

/// State for compressing, with room for the result.
pub(super) struct Encoder(Workspace);

impl Encoder {
    /// Allocates the state. May sleep.
    pub(super) fn new() -> Result<Self> {
        Ok(Self(Workspace::new()?))
    }

    /// Bytes that the state takes.
    pub(super) fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Compresses a block. What is returned may be longer than the block.
    #[inline]
    pub(super) fn compress(&mut self, block: Source<'_>) -> &[u8] {
        let parts = self.0.parts();
        parts.block.copy_from(block);
        choose::encode(parts)
    }
}

/// Decompresses `bytes`, which make exactly one block: `EINVAL` if they do not.
#[inline]
pub(super) fn decompress(bytes: &[u8], dest: Dest<'_>) -> Result {
    choose::decode(bytes, dest).ok_or(EINVAL)
}
