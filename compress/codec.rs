// SPDX-License-Identifier: GPL-2.0

//! The state of an algorithm, whichever it is.
//!
//! A closed `enum`, so that the calls into the libraries are direct ones.

use super::Algorithm;
use crate::sys::{
    codec::{
        deflate,
        lz4,
        lzo,
        zstd, //
    },
    page::{
        Dest,
        Source, //
    }, //
};
use kernel::prelude::*;

/// LZ4 as fast as it was meant to be.
const LZ4_ACCELERATION: i32 = 1;

/// State for compressing.
pub(super) enum Encoder {
    LzoRle(lzo::Encoder<true>),
    Lzo(lzo::Encoder<false>),
    Lz4(lz4::Encoder),
    Zstd(zstd::Encoder),
    Deflate(deflate::Encoder),
}

impl Encoder {
    /// Allocates the state. May sleep.
    pub(super) fn new(algorithm: Algorithm) -> Result<Self> {
        Ok(match algorithm {
            Algorithm::LzoRle => Self::LzoRle(lzo::Encoder::new()?),
            Algorithm::Lzo => Self::Lzo(lzo::Encoder::new()?),
            Algorithm::Lz4 => Self::Lz4(lz4::Encoder::new(LZ4_ACCELERATION)?),
            Algorithm::Zstd => Self::Zstd(zstd::Encoder::new(zstd::default_level())?),
            Algorithm::Deflate => Self::Deflate(deflate::Encoder::new(
                deflate::DEFAULT_LEVEL,
                deflate::DEFAULT_WINDOW_BITS,
            )?),
        })
    }

    /// Compresses a block into `dst`, and returns how many bytes that took.
    #[inline]
    pub(super) fn compress(&mut self, src: Source<'_>, dst: &mut [u8]) -> Result<usize> {
        match self {
            Self::LzoRle(encoder) => encoder.compress(src, dst),
            Self::Lzo(encoder) => encoder.compress(src, dst),
            Self::Lz4(encoder) => encoder.compress(src, dst),
            Self::Zstd(encoder) => encoder.compress(src, dst),
            Self::Deflate(encoder) => encoder.compress(src, dst),
        }
    }
}

/// State for decompressing.
pub(super) enum Decoder {
    /// LZO and LZO-RLE have the same format, and no state.
    Lzo,
    Lz4,
    Zstd(zstd::Decoder),
    Deflate(deflate::Decoder),
}

impl Decoder {
    /// Allocates the state. May sleep.
    pub(super) fn new(algorithm: Algorithm) -> Result<Self> {
        Ok(match algorithm {
            Algorithm::LzoRle | Algorithm::Lzo => Self::Lzo,
            Algorithm::Lz4 => Self::Lz4,
            Algorithm::Zstd => Self::Zstd(zstd::Decoder::new()?),
            Algorithm::Deflate => {
                Self::Deflate(deflate::Decoder::new(deflate::DEFAULT_WINDOW_BITS)?)
            }
        })
    }

    /// Decompresses `src`, which makes exactly one block: `EINVAL` if it does not.
    #[inline]
    pub(super) fn decompress(&mut self, src: &[u8], dst: Dest<'_>) -> Result {
        match self {
            Self::Lzo => lzo::decompress(src, dst),
            Self::Lz4 => lz4::decompress(src, dst),
            Self::Zstd(decoder) => decoder.decompress(src, dst),
            Self::Deflate(decoder) => decoder.decompress(src, dst),
        }
    }
}
