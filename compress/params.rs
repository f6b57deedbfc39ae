// SPDX-License-Identifier: GPL-2.0

//! What a user may say of an algorithm, and what becomes of it when a disk is set up.

use super::Algorithm;
use crate::sys::codec::{
    deflate,
    lz4,
    lz4hc,
    zstd,
    Dictionary, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Parameters as they were given; each algorithm checks them when a disk is set up.
#[derive(Clone, Default)]
pub(crate) struct Params {
    pub(crate) level: Option<i32>,
    /// Deflate's window, as zlib numbers it.
    pub(crate) window_bits: Option<i32>,
    pub(crate) dictionary: Option<Arc<Dictionary>>,
}

/// An algorithm with its parameters, checked: the same for all CPUs.
pub(crate) enum Setup {
    LzoRle,
    Lzo,
    Lz4(lz4::Setup),
    Lz4hc(lz4hc::Setup),
    Zstd(zstd::Setup),
    Deflate { level: i32, window_bits: i32 },
    Wlz,
}

/// LZ4 as fast as it was meant to be.
const LZ4_ACCELERATION: i32 = 1;

impl Setup {
    /// Checks `params`, and prepares what all CPUs share. May sleep.
    ///
    /// `EOPNOTSUPP` for what the algorithm does not have, `EINVAL` for a value that it does not take.
    pub(super) fn new(algorithm: Algorithm, params: &Params) -> Result<Self> {
        let dictionary = params.dictionary.clone();
        let name = algorithm.name();
        let no_dictionary = || match dictionary {
            None => Ok(()),
            Some(_) => {
                pr_err!("{}: dictionary is not supported\n", name);
                Err(EOPNOTSUPP)
            }
        };
        let level_in = |range: core::ops::RangeInclusive<i32>, default: i32| match params.level {
            None => Ok(default),
            Some(level) if range.contains(&level) => Ok(level),
            Some(level) => {
                pr_err!("{}: invalid compression level {}\n", name, level);
                Err(EINVAL)
            }
        };
        Ok(match algorithm {
            Algorithm::LzoRle | Algorithm::Lzo | Algorithm::Wlz => {
                no_dictionary()?;
                if params.level.is_some() {
                    pr_err!("{}: compression level is not supported\n", name);
                    return Err(EOPNOTSUPP);
                }
                match algorithm {
                    Algorithm::Lzo => Self::Lzo,
                    Algorithm::Wlz => Self::Wlz,
                    _ => Self::LzoRle,
                }
            }
            Algorithm::Lz4 => {
                let acceleration = level_in(LZ4_ACCELERATION..=i32::MAX, LZ4_ACCELERATION)?;
                Self::Lz4(lz4::Setup::new(acceleration, dictionary)?)
            }
            Algorithm::Lz4hc => {
                let level = level_in(lz4hc::LEVELS, lz4hc::DEFAULT_LEVEL)?;
                Self::Lz4hc(lz4hc::Setup::new(level, dictionary)?)
            }
            Algorithm::Zstd => {
                let level = level_in(zstd::levels(), zstd::default_level())?;
                Self::Zstd(zstd::Setup::new(level, dictionary)?)
            }
            Algorithm::Deflate => {
                no_dictionary()?;
                let level = level_in(deflate::LEVELS, deflate::DEFAULT_LEVEL)?;
                let window_bits = params.window_bits.unwrap_or(deflate::DEFAULT_WINDOW_BITS);
                if !matches!(window_bits, -15..=-9 | 9..=15) {
                    pr_err!("{}: invalid winbits {}\n", name, window_bits);
                    return Err(EINVAL);
                }
                Self::Deflate { level, window_bits }
            }
        })
    }
}
