// SPDX-License-Identifier: GPL-2.0

//! Attributes that choose algorithms.

use super::{
    number,
    parse::{
        self,
        Arguments, //
    }, //
};
use crate::{
    compress::Algorithm,
    device::{
        Device,
        Named,
        Parameters,
        RzDisk, //
    },
    sys::attr::{
        Attribute,
        Text,
        READ,
        WRITE, //
    }, //
};
use core::fmt::Write;
use kernel::{
    prelude::*,
    str::CString, //
};

/// Longer names are refused before they are looked at, as zram does.
const MAX_NAME: usize = 128;

/// The algorithm that is meant, made available. May sleep for long.
fn algorithm(name: &[u8]) -> Result<Algorithm> {
    if name.len() >= MAX_NAME {
        return Err(E2BIG);
    }
    let algorithm = Algorithm::from_name(parse::word(name)).ok_or(EINVAL)?;
    algorithm.make_available()?;
    Ok(algorithm)
}

/// The names of all algorithms that are available, with `chosen` in brackets.
fn list(chosen: Algorithm, text: &mut Text<'_>) -> Result {
    for algorithm in Algorithm::ALL {
        if algorithm == chosen {
            write!(text, "[{}] ", algorithm.name())?;
        } else if algorithm.is_available() {
            write!(text, "{} ", algorithm.name())?;
        }
    }
    Ok(writeln!(text)?)
}

/// The algorithms, with the one that writes use in brackets; writing a name chooses one.
pub(super) struct CompAlgorithm;

impl Attribute<Device> for CompAlgorithm {
    const NAME: &'static CStr = c"comp_algorithm";
    const MODE: u16 = READ | WRITE;

    fn show(disk: &RzDisk, text: &mut Text<'_>) -> Result {
        let [primary, ..] = disk.algorithms();
        list(primary.unwrap_or(Algorithm::DEFAULT), text)
    }

    fn store(disk: &RzDisk, input: &[u8]) -> Result {
        disk.set_algorithm(0, algorithm(input)?)
    }
}

/// The algorithms for recompression, a line a priority; writing `algo=NAME priority=N` chooses one.
pub(super) struct RecompAlgorithm;

impl Attribute<Device> for RecompAlgorithm {
    const NAME: &'static CStr = c"recomp_algorithm";
    const MODE: u16 = READ | WRITE;

    fn show(disk: &RzDisk, text: &mut Text<'_>) -> Result {
        for (priority, chosen) in disk.algorithms().into_iter().enumerate().skip(1) {
            if let Some(chosen) = chosen {
                write!(text, "#{}: ", priority)?;
                list(chosen, text)?;
            }
        }
        Ok(())
    }

    fn store(disk: &RzDisk, input: &[u8]) -> Result {
        let mut priority = 1;
        let mut name = None;
        for argument in Arguments::new(input) {
            let value = argument.value().ok_or(EINVAL)?;
            match argument.key {
                b"algo" => name = Some(value),
                b"priority" => priority = number(value)?,
                _ => {}
            }
        }
        let name = name.ok_or(EINVAL)?;
        // Priority 0 is for `comp_algorithm`.
        let priority = usize::try_from(priority).map_err(|_| EINVAL)?;
        if !(1..crate::device::PRIORITIES).contains(&priority) {
            return Err(EINVAL);
        }
        disk.set_algorithm(priority, algorithm(name)?)
    }
}

/// Parameters of an algorithm: `priority`, `algo`, `level`, `dict`, `deflate.winbits`, each as `key=value`.
pub(super) struct AlgorithmParams;

impl Attribute<Device> for AlgorithmParams {
    const NAME: &'static CStr = c"algorithm_params";
    const MODE: u16 = WRITE;

    fn store(disk: &RzDisk, input: &[u8]) -> Result {
        let mut named = Named::default();
        let mut parameters = Parameters::default();
        let mut path = None;
        for argument in Arguments::new(input) {
            let value = argument.value().ok_or(EINVAL)?;
            match argument.key {
                b"priority" => named.priority = Some(number(value)?),
                b"algo" => named.algorithm = Some(value),
                b"level" => parameters.level = Some(number(value)?),
                b"deflate.winbits" => parameters.window_bits = Some(number(value)?),
                b"dict" => path = Some(path_of(value)?),
                _ => {}
            }
        }
        parameters.dictionary = path.as_deref();
        disk.set_parameters(named, parameters)
    }
}

/// A path as C takes it.
pub(super) fn path_of(bytes: &[u8]) -> Result<CString> {
    let mut text = KVec::with_capacity(bytes.len().saturating_add(1), GFP_KERNEL)?;
    text.extend_from_slice(bytes, GFP_KERNEL)?;
    text.push(0, GFP_KERNEL)?;
    let text = CStr::from_bytes_with_nul(&text).map_err(|_| EINVAL)?;
    Ok(CString::try_from(text)?)
}
