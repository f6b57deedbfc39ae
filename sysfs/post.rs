// SPDX-License-Identifier: GPL-2.0

//! Attributes for what is done to blocks after they were stored: idle marking, recompression, writeback.

use super::{
    algorithms::path_of,
    number,
    parse::{
        self,
        Arguments, //
    }, //
};
use crate::{
    device::{
        Device,
        Kind,
        Named,
        Request,
        RzDisk,
        Selection, //
    },
    sys::{
        attr::{
            Attribute,
            Text,
            READ,
            WRITE, //
        },
        clock, //
    }, //
};
use core::{
    fmt::Write,
    ops::Range, //
};
use kernel::prelude::*;

/// An `unsigned long long` in decimal, as `kstrtoull()` takes it.
fn long(value: &[u8]) -> Result<u64> {
    let number = parse::integer(value, 10, 0, u64::MAX.into())?;
    u64::try_from(number).map_err(|_| ERANGE)
}

/// An `unsigned int` in decimal, as `kstrtouint()` takes it.
fn unsigned(value: &[u8]) -> Result<u32> {
    let number = parse::integer(value, 10, 0, u32::MAX.into())?;
    u32::try_from(number).map_err(|_| ERANGE)
}

/// Marks blocks as idle: `all`, or those not accessed for some seconds.
pub(super) struct Idle;

impl Attribute<Device> for Idle {
    const NAME: &'static CStr = c"idle";
    const MODE: u16 = WRITE;

    fn store(disk: &RzDisk, input: &[u8]) -> Result {
        if parse::word(input) == b"all" {
            return disk.mark_idle(None);
        }
        let seconds = parse::integer(input, 0, 0, u32::MAX.into()).map_err(|_| EINVAL)?;
        let seconds = u64::try_from(seconds).map_err(|_| EINVAL)?;
        if !disk.tracks() {
            pr_info!(
                "{}: access times are not tracked; load the module with track_access=1\n",
                disk.name()
            );
            return Err(EINVAL);
        }
        // Nothing can be older than the machine's uptime.
        if seconds >= clock::since_boot() / 1_000_000_000 {
            return Ok(());
        }
        disk.mark_idle(Some(seconds))
    }
}

/// Recompresses blocks: `type`, `threshold`, `max_pages`, `algo`, `priority`, each as `key=value`.
pub(super) struct Recompress;

impl Attribute<Device> for Recompress {
    const NAME: &'static CStr = c"recompress";
    const MODE: u16 = WRITE;

    fn store(disk: &RzDisk, input: &[u8]) -> Result {
        let mut request = Request {
            kind: Kind::default(),
            threshold: 0,
            max_blocks: u64::MAX,
            named: Named::default(),
        };
        for argument in Arguments::new(input) {
            let value = argument.value().ok_or(EINVAL)?;
            match argument.key {
                b"type" => {
                    request.kind = Kind {
                        idle: matches!(value, b"idle" | b"huge_idle"),
                        huge: matches!(value, b"huge" | b"huge_idle"),
                        incompressible: false,
                    };
                    if !request.kind.idle && !request.kind.huge {
                        return Err(EINVAL);
                    }
                }
                b"max_pages" => request.max_blocks = long(value)?,
                b"threshold" => request.threshold = unsigned(value)?,
                b"algo" => request.named.algorithm = Some(value),
                b"priority" => request.named.priority = Some(number(value)?),
                _ => {}
            }
        }
        disk.recompress(request)
    }
}

/// The file that blocks are written back to.
pub(super) struct BackingDev;

impl Attribute<Device> for BackingDev {
    const NAME: &'static CStr = c"backing_dev";
    const MODE: u16 = READ | WRITE;

    fn show(disk: &RzDisk, text: &mut Text<'_>) -> Result {
        disk.write_backing(text)
    }

    fn store(disk: &RzDisk, input: &[u8]) -> Result {
        disk.set_backing(&path_of(parse::word(input))?)
    }
}

fn kind_of(name: &[u8]) -> Result<Kind> {
    Ok(match name {
        b"idle" | b"huge" | b"huge_idle" => Kind {
            idle: name != b"huge",
            huge: name != b"idle",
            incompressible: false,
        },
        b"incompressible" => Kind {
            incompressible: true,
            ..Kind::default()
        },
        _ => return Err(EINVAL),
    })
}

fn block(value: &[u8], blocks: u64) -> Result<u64> {
    let index = long(value)?;
    (index < blocks).then_some(index).ok_or(ERANGE)
}

/// `N`, or `LO-HI` with both ends included.
fn range(key: &[u8], value: &[u8], blocks: u64) -> Result<Range<u64>> {
    let (lo, hi) = match key {
        b"page_index" => (value, value),
        _ => {
            let dash = value.iter().position(|byte| *byte == b'-').ok_or(EINVAL)?;
            let (lo, rest) = value.split_at_checked(dash).ok_or(EINVAL)?;
            (lo, rest.get(1..).unwrap_or_default())
        }
    };
    let (lo, hi) = (block(lo, blocks)?, block(hi, blocks)?);
    if lo > hi {
        return Err(ERANGE);
    }
    Ok(lo..hi.saturating_add(1))
}

/// Writes blocks back: `type=…`, `page_index=N`, `page_indexes=LO-HI`, or a type without its key.
pub(super) struct Writeback;

impl Attribute<Device> for Writeback {
    const NAME: &'static CStr = c"writeback";
    const MODE: u16 = WRITE;

    fn store(disk: &RzDisk, input: &[u8]) -> Result {
        disk.write_back(|blocks, choose| {
            let mut within = 0..blocks;
            for argument in Arguments::new(input) {
                // A type ends the list; what was before it narrows its range, as in zram.
                let kind = match (argument.key, argument.value()) {
                    (name, None) => kind_of(name)?,
                    (b"type", Some(name)) => kind_of(name)?,
                    (key @ (b"page_index" | b"page_indexes"), Some(value)) => {
                        within = range(key, value, blocks)?;
                        choose(Selection {
                            kind: Kind::default(),
                            blocks: within.clone(),
                        });
                        continue;
                    }
                    _ => continue,
                };
                choose(Selection {
                    kind,
                    blocks: within,
                });
                break;
            }
            Ok(())
        })
    }
}

/// How many blocks of 4 KiB may still be written back, if that is limited.
pub(super) struct WritebackLimit;

impl Attribute<Device> for WritebackLimit {
    const NAME: &'static CStr = c"writeback_limit";
    const MODE: u16 = READ | WRITE;

    fn show(disk: &RzDisk, text: &mut Text<'_>) -> Result {
        Ok(writeln!(text, "{}", disk.policy().limit())?)
    }

    fn store(disk: &RzDisk, input: &[u8]) -> Result {
        disk.policy().set_limit(long(input).map_err(|_| EINVAL)?);
        Ok(())
    }
}

/// Whether writeback is limited.
pub(super) struct WritebackLimitEnable;

impl Attribute<Device> for WritebackLimitEnable {
    const NAME: &'static CStr = c"writeback_limit_enable";
    const MODE: u16 = READ | WRITE;

    fn show(disk: &RzDisk, text: &mut Text<'_>) -> Result {
        Ok(writeln!(text, "{}", u32::from(disk.policy().limited()))?)
    }

    fn store(disk: &RzDisk, input: &[u8]) -> Result {
        disk.policy()
            .set_limited(long(input).map_err(|_| EINVAL)? != 0);
        Ok(())
    }
}

/// How many blocks are written back at once.
pub(super) struct WritebackBatchSize;

impl Attribute<Device> for WritebackBatchSize {
    const NAME: &'static CStr = c"writeback_batch_size";
    const MODE: u16 = READ | WRITE;

    fn show(disk: &RzDisk, text: &mut Text<'_>) -> Result {
        Ok(writeln!(text, "{}", disk.policy().batch())?)
    }

    fn store(disk: &RzDisk, input: &[u8]) -> Result {
        match unsigned(input).map_err(|_| EINVAL)? {
            0 => Err(EINVAL),
            blocks => {
                disk.policy().set_batch(blocks);
                Ok(())
            }
        }
    }
}

/// Whether blocks are written back as they are stored, and decompressed when they are read.
pub(super) struct CompressedWriteback;

impl Attribute<Device> for CompressedWriteback {
    const NAME: &'static CStr = c"compressed_writeback";
    const MODE: u16 = READ | WRITE;

    fn show(disk: &RzDisk, text: &mut Text<'_>) -> Result {
        Ok(writeln!(
            text,
            "{}",
            u32::from(disk.compressed_writeback())
        )?)
    }

    fn store(disk: &RzDisk, input: &[u8]) -> Result {
        disk.set_compressed_writeback(parse::boolean(input).ok_or(EINVAL)?)
    }
}

/// Blocks on the backing device, and traffic with it.
pub(super) struct BdStat;

impl Attribute<Device> for BdStat {
    const NAME: &'static CStr = c"bd_stat";
    const MODE: u16 = READ;

    fn show(disk: &RzDisk, text: &mut Text<'_>) -> Result {
        Ok(disk.with_requests(|requests, places| requests.write_bd_stat(places, text))?)
    }
}
