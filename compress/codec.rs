// SPDX-License-Identifier: GPL-2.0

//! The state of an algorithm, whichever it is.
//!
//! A closed `enum`, so that the calls into the libraries are direct ones.

use super::{
    params::Setup,
    wlz, //
};
use crate::sys::{
    codec::{
        deflate,
        lz4,
        lz4hc,
        lzo,
        zstd,
        MAX_COMPRESSED, //
    },
    page::{
        Dest,
        Source, //
    }, //
};
use kernel::prelude::*;

/// State for compressing.
pub(super) enum Encoder {
    LzoRle(lzo::Encoder<true>),
    Lzo(lzo::Encoder<false>),
    Lz4(lz4::Encoder),
    Lz4hc(lz4hc::Encoder),
    Zstd(zstd::Encoder),
    Deflate(deflate::Encoder),
    Wlz(wlz::Encoder),
}

impl Encoder {
    /// Allocates the state. May sleep.
    pub(super) fn new(setup: &Setup) -> Result<Self> {
        Ok(match setup {
            Setup::LzoRle => Self::LzoRle(lzo::Encoder::new()?),
            Setup::Lzo => Self::Lzo(lzo::Encoder::new()?),
            Setup::Lz4(setup) => Self::Lz4(lz4::Encoder::new(setup)?),
            Setup::Lz4hc(setup) => Self::Lz4hc(lz4hc::Encoder::new(setup)?),
            Setup::Zstd(setup) => Self::Zstd(zstd::Encoder::new(setup)?),
            Setup::Deflate { level, window_bits } => {
                Self::Deflate(deflate::Encoder::new(*level, *window_bits)?)
            }
            Setup::Wlz => Self::Wlz(wlz::Encoder::new()?),
        })
    }

    /// Bytes that the state takes, but for what zstd allocates for itself to work with a dictionary.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::LzoRle(encoder) => encoder.bytes(),
            Self::Lzo(encoder) => encoder.bytes(),
            Self::Lz4(encoder) => encoder.bytes(),
            Self::Lz4hc(encoder) => encoder.bytes(),
            Self::Zstd(encoder) => encoder.bytes(),
            Self::Deflate(encoder) => encoder.bytes(),
            Self::Wlz(encoder) => encoder.bytes(),
        }
    }

    /// Bytes that the result may take; 0 if it stays in the state.
    pub(super) fn output_len(&self) -> usize {
        match self {
            Self::Wlz(_) => 0,
            _ => MAX_COMPRESSED,
        }
    }

    /// Compresses a block, and returns what that made: in `dst`, for which see above. `setup` is the one that this was made
    /// for.
    #[inline]
    pub(super) fn compress<'a>(
        &'a mut self,
        setup: &Setup,
        src: Source<'_>,
        dst: &'a mut [u8],
    ) -> Result<&'a [u8]> {
        let len = match (self, setup) {
            (Self::Wlz(encoder), _) => return Ok(encoder.compress(src)),
            (Self::LzoRle(encoder), _) => encoder.compress(src, dst),
            (Self::Lzo(encoder), _) => encoder.compress(src, dst),
            (Self::Lz4(encoder), Setup::Lz4(setup)) => encoder.compress(setup, src, dst),
            (Self::Lz4hc(encoder), Setup::Lz4hc(setup)) => encoder.compress(setup, src, dst),
            (Self::Zstd(encoder), Setup::Zstd(setup)) => encoder.compress(setup, src, dst),
            (Self::Deflate(encoder), _) => encoder.compress(src, dst),
            _ => Err(EINVAL),
        }?;
        dst.get(..len).ok_or(EINVAL)
    }
}

/// State for decompressing.
pub(super) enum Decoder {
    /// LZO, LZO-RLE, LZ4, LZ4HC and wlz need none.
    Stateless,
    Zstd(zstd::Decoder),
    Deflate(deflate::Decoder),
}

impl Decoder {
    /// Allocates the state. May sleep.
    pub(super) fn new(setup: &Setup) -> Result<Self> {
        Ok(match setup {
            Setup::LzoRle | Setup::Lzo | Setup::Lz4(_) | Setup::Lz4hc(_) | Setup::Wlz => {
                Self::Stateless
            }
            Setup::Zstd(setup) => Self::Zstd(zstd::Decoder::new(setup)?),
            Setup::Deflate { window_bits, .. } => {
                Self::Deflate(deflate::Decoder::new(*window_bits)?)
            }
        })
    }

    /// Bytes that the state takes, as for an encoder.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Stateless => 0,
            Self::Zstd(decoder) => decoder.bytes(),
            Self::Deflate(decoder) => decoder.bytes(),
        }
    }

    /// Decompresses `src`, which makes exactly one block: `EINVAL` if it does not. `setup` is the one that this was made for.
    #[inline(always)]
    pub(super) fn decompress(&mut self, setup: &Setup, src: &[u8], dst: Dest<'_>) -> Result {
        match (self, setup) {
            (_, Setup::LzoRle | Setup::Lzo) => lzo::decompress(src, dst),
            (_, Setup::Lz4(setup)) => setup.decompress(src, dst),
            (_, Setup::Lz4hc(setup)) => setup.decompress(src, dst),
            (_, Setup::Wlz) => wlz::decompress(src, dst),
            (Self::Zstd(decoder), Setup::Zstd(setup)) => decoder.decompress(setup, src, dst),
            (Self::Deflate(decoder), _) => decoder.decompress(src, dst),
            _ => Err(EINVAL),
        }
    }
}
