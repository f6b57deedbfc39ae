// SPDX-License-Identifier: GPL-2.0

//! Block-device calls: discards, sizes, whole reads and writes.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use anyhow::{bail, Context, Result};
use nix::errno::Errno;

mod ioctl {
    nix::ioctl_write_ptr_bad!(discard, 0x1277, [u64; 2]);
    nix::ioctl_write_ptr_bad!(secure_discard, 0x127d, [u64; 2]);
    nix::ioctl_write_ptr_bad!(zero_out, 0x127f, [u64; 2]);
    nix::ioctl_none_bad!(flush_buffers, 0x1261);
    nix::ioctl_read!(size64, 0x12, 114, u64);
}

/// `BLKDISCARD` of `len` bytes at `start`.
pub fn discard(file: &File, start: u64, len: u64) -> nix::Result<()> {
    // SAFETY: the argument is the pair of numbers that the call reads.
    unsafe { ioctl::discard(file.as_raw_fd(), &[start, len]) }.map(drop)
}

/// `BLKSECDISCARD` of `len` bytes at `start`.
pub fn secure_discard(file: &File, start: u64, len: u64) -> nix::Result<()> {
    // SAFETY: the argument is the pair of numbers that the call reads.
    unsafe { ioctl::secure_discard(file.as_raw_fd(), &[start, len]) }.map(drop)
}

/// `BLKZEROOUT` of `len` bytes at `start`.
pub fn zero_out(file: &File, start: u64, len: u64) -> nix::Result<()> {
    // SAFETY: the argument is the pair of numbers that the call reads.
    unsafe { ioctl::zero_out(file.as_raw_fd(), &[start, len]) }.map(drop)
}

/// `BLKFLSBUF`: writes back and drops the node's page cache.
pub fn flush_buffers(file: &File) -> nix::Result<()> {
    // SAFETY: the call takes no argument.
    unsafe { ioctl::flush_buffers(file.as_raw_fd()) }.map(drop)
}

/// `BLKGETSIZE64`: the size in bytes.
pub fn size(file: &File) -> nix::Result<u64> {
    let mut size = 0_u64;
    // SAFETY: the call stores a u64 through the pointer.
    unsafe { ioctl::size64(file.as_raw_fd(), &mut size) }?;
    Ok(size)
}

/// `fallocate` with `mode`.
pub fn fallocate(file: &File, mode: i32, start: u64, len: u64) -> nix::Result<()> {
    // SAFETY: no memory is passed.
    let rc = unsafe { libc::fallocate(file.as_raw_fd(), mode, start as i64, len as i64) };
    Errno::result(rc).map(drop)
}

/// Reads all of `buffer` at `at`; a short read is an error.
pub fn read(file: &File, buffer: &mut [u8], at: u64) -> Result<()> {
    let len = buffer.len();
    file.read_exact_at(buffer, at)
        .with_context(|| format!("reading {len} bytes at {at}"))
}

/// Writes all of `buffer` at `at`.
pub fn write(file: &File, buffer: &[u8], at: u64) -> Result<()> {
    file.write_all_at(buffer, at)
        .with_context(|| format!("writing {} bytes at {at}", buffer.len()))
}

/// One `pwrite`, and its errno.
pub fn try_write(file: &File, buffer: &[u8], at: u64) -> nix::Result<usize> {
    nix::sys::uio::pwrite(file, buffer, at as i64)
}

/// One `pread`, and its errno.
pub fn try_read(file: &File, buffer: &mut [u8], at: u64) -> nix::Result<usize> {
    nix::sys::uio::pread(file, buffer, at as i64)
}

/// Fails unless `came` has one of the errnos in `expected`.
pub fn fails_with<T: std::fmt::Debug>(
    what: &str,
    expected: Errno,
    came: nix::Result<T>,
) -> Result<()> {
    match came {
        Err(e) if e == expected => Ok(()),
        came => bail!("{what}\n  expected: {expected:?}\n  came:     {came:?}"),
    }
}

/// Fails at the first byte in which `came` differs from `expected`.
pub fn equal(what: &str, expected: &[u8], came: &[u8]) -> Result<()> {
    if expected == came {
        return Ok(());
    }
    let at = expected.iter().zip(came).position(|(a, b)| a != b);
    let Some(at) = at else {
        bail!(
            "{what}\n  expected: {} bytes\n  came:     {} bytes",
            expected.len(),
            came.len()
        );
    };
    let differing = expected.iter().zip(came).filter(|(a, b)| a != b).count();
    let end = (at + 16).min(expected.len());
    bail!(
        "{what}: {differing} of {} bytes differ, first at offset {at}\n  expected: {:02x?}\n  came:     {:02x?}",
        expected.len(),
        &expected[at..end],
        &came[at..end]
    )
}
