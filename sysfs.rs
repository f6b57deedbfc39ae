// SPDX-License-Identifier: GPL-2.0

//! The attributes of a disk, as zram has them: parse, call the device, print.
//!
//! Errors and texts are those of zram unless Documentation says otherwise.

mod algorithms;
mod parse;
mod post;

use crate::{
    device::{
        self,
        Device,
        RzDisk, //
    },
    stats,
    sys::attr::{
        disk_attributes,
        Attribute,
        Text,
        READ,
        WRITE, //
    }, //
};
use algorithms::{
    AlgorithmParams,
    CompAlgorithm,
    RecompAlgorithm, //
};
use core::fmt::Write;
use kernel::prelude::*;
use parse::Refusal;
use post::{
    BackingDev,
    BdStat,
    CompressedWriteback,
    Idle,
    Recompress,
    Writeback,
    WritebackBatchSize,
    WritebackLimit,
    WritebackLimitEnable, //
};

pub(crate) use parse::integer;

disk_attributes! {
    pub(crate) static GROUPS: Device = [
        Disksize,
        Initstate,
        Reset,
        MemLimit,
        MemUsedMax,
        Compact,
        MaxCompStreams,
        Idle,
        Recompress,
        BackingDev,
        Writeback,
        WritebackLimit,
        WritebackLimitEnable,
        WritebackBatchSize,
        CompressedWriteback,
        BdStat,
        MemoryStat,
        CompAlgorithm,
        AlgorithmParams,
        RecompAlgorithm,
        IoStat,
        MmStat,
        DebugStat,
    ];
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Invalid => EINVAL,
            Refusal::Range => ERANGE,
        }
    }
}

/// An `int` in decimal, as `kstrtoint()` takes it.
fn number(value: &[u8]) -> Result<i32> {
    let number = parse::integer(value, 10, i32::MIN.into(), i32::MAX.into())?;
    i32::try_from(number).map_err(|_| ERANGE)
}

/// The size of the disk in bytes; writing it sets the disk up.
struct Disksize;

impl Attribute<Device> for Disksize {
    const NAME: &'static CStr = c"disksize";
    const MODE: u16 = READ | WRITE;

    fn show(disk: &RzDisk, text: &mut Text<'_>) -> Result {
        Ok(writeln!(text, "{}", disk.disksize())?)
    }

    fn store(disk: &RzDisk, input: &[u8]) -> Result {
        device::set_up(disk, parse::memory(input).ok_or(EINVAL)?)
    }
}

/// Whether the disk is set up.
struct Initstate;

impl Attribute<Device> for Initstate {
    const NAME: &'static CStr = c"initstate";
    const MODE: u16 = READ;

    fn show(disk: &RzDisk, text: &mut Text<'_>) -> Result {
        Ok(writeln!(text, "{}", u32::from(disk.disksize() != 0))?)
    }
}

/// Writing a number other than 0 empties the disk and forgets its configuration.
struct Reset;

impl Attribute<Device> for Reset {
    const NAME: &'static CStr = c"reset";
    const MODE: u16 = WRITE;

    fn store(disk: &RzDisk, input: &[u8]) -> Result {
        if parse::integer(input, 10, 0, u16::MAX.into())? == 0 {
            return Err(EINVAL);
        }
        device::reset(disk)
    }
}

/// The most memory that the pool may take, in bytes; 0 is no limit.
struct MemLimit;

impl Attribute<Device> for MemLimit {
    const NAME: &'static CStr = c"mem_limit";
    const MODE: u16 = WRITE;

    fn store(disk: &RzDisk, input: &[u8]) -> Result {
        let bytes = parse::memory(input).ok_or(EINVAL)?;
        disk.set_limit(bytes).inspect_err(|_| {
            pr_info!(
                "{}: no mem_limit can be that large; 0 is none\n",
                disk.name()
            );
        })
    }
}

/// Writing 0 forgets how large the pool once was.
struct MemUsedMax;

impl Attribute<Device> for MemUsedMax {
    const NAME: &'static CStr = c"mem_used_max";
    const MODE: u16 = WRITE;

    fn store(disk: &RzDisk, input: &[u8]) -> Result {
        if parse::integer(input, 10, 0, i128::from(u64::MAX)) != Ok(0) {
            return Err(EINVAL);
        }
        disk.reset_max_used();
        Ok(())
    }
}

/// Writing anything moves objects of the pool together.
struct Compact;

impl Attribute<Device> for Compact {
    const NAME: &'static CStr = c"compact";
    const MODE: u16 = WRITE;

    fn store(disk: &RzDisk, _input: &[u8]) -> Result {
        disk.compact()
    }
}

/// How many streams writes use at most; can be changed at any time.
struct MaxCompStreams;

impl Attribute<Device> for MaxCompStreams {
    const NAME: &'static CStr = c"max_comp_streams";
    const MODE: u16 = READ | WRITE;

    fn show(disk: &RzDisk, text: &mut Text<'_>) -> Result {
        Ok(writeln!(text, "{}", disk.shown_streams())?)
    }

    fn store(disk: &RzDisk, input: &[u8]) -> Result {
        let streams = parse::integer(input, 0, i32::MIN.into(), i32::MAX.into())?;
        match u32::try_from(streams) {
            Ok(streams) if streams > 0 => disk.set_max_streams(streams),
            _ => return Err(EINVAL),
        }
        Ok(())
    }
}

/// What became of requests.
struct IoStat;

impl Attribute<Device> for IoStat {
    const NAME: &'static CStr = c"io_stat";
    const MODE: u16 = READ;

    fn show(disk: &RzDisk, text: &mut Text<'_>) -> Result {
        Ok(disk.with_requests(|requests, _| requests.write_io_stat(text))?)
    }
}

/// What is stored, and the memory that it takes.
struct MmStat;

impl Attribute<Device> for MmStat {
    const NAME: &'static CStr = c"mm_stat";
    const MODE: u16 = READ;

    fn show(disk: &RzDisk, text: &mut Text<'_>) -> Result {
        Ok(disk.with_memory(|contents, pool, _| contents.write_mm_stat(pool, text))?)
    }
}

/// The same and more, a figure a line, with its name.
struct MemoryStat;

impl Attribute<Device> for MemoryStat {
    const NAME: &'static CStr = c"memory_stat";
    const MODE: u16 = READ;

    fn show(disk: &RzDisk, text: &mut Text<'_>) -> Result {
        Ok(disk
            .with_memory(|contents, pool, memory| contents.write_memory_stat(pool, memory, text))?)
    }
}

/// For developers.
struct DebugStat;

impl Attribute<Device> for DebugStat {
    const NAME: &'static CStr = c"debug_stat";
    const MODE: u16 = READ;

    fn show(_disk: &RzDisk, text: &mut Text<'_>) -> Result {
        Ok(stats::write_debug_stat(text)?)
    }
}
