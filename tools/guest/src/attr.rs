// SPDX-License-Identifier: GPL-2.0

//! Reading and writing attributes with one system call each, so that the errno of the driver is
//! what the caller sees.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use anyhow::{bail, Context, Result};
use nix::errno::Errno;

fn errno(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}

/// Reads a whole attribute; the errno of `open` or `read` if it fails.
pub fn read(path: &Path) -> std::result::Result<String, Errno> {
    let file = OpenOptions::new()
        .read(true)
        .open(path)
        .map_err(|e| errno(&e))?;
    let mut buffer = vec![0_u8; 2 * crate::PAGE];
    let len = file.read_at(&mut buffer, 0).map_err(|e| errno(&e))?;
    buffer.truncate(len);
    String::from_utf8(buffer).map_err(|_| Errno::EILSEQ)
}

/// Writes `value` with a single `write`; the number of bytes it took, or the errno.
pub fn write(path: &Path, value: &[u8]) -> std::result::Result<usize, Errno> {
    let file = OpenOptions::new()
        .write(true)
        .open(path)
        .map_err(|e| errno(&e))?;
    // SAFETY: `value` is valid for `value.len()` bytes, and the descriptor is open.
    let len = unsafe {
        libc::write(
            std::os::fd::AsRawFd::as_raw_fd(&file),
            value.as_ptr().cast(),
            value.len(),
        )
    };
    Errno::result(len).map(|len| len as usize)
}

/// The permission bits of a file.
pub fn mode(path: &Path) -> Result<u32> {
    let meta = std::fs::metadata(path).with_context(|| format!("no {}", path.display()))?;
    Ok(meta.permissions().mode() & 0o7777)
}

/// Writes `value`, which must be taken whole.
pub fn set(path: &Path, value: &str) -> Result<()> {
    match write(path, value.as_bytes()) {
        Ok(len) if len == value.len() => Ok(()),
        Ok(len) => bail!(
            "writing {value:?} to {}\n  expected: {} bytes taken\n  came:     {len}",
            path.display(),
            value.len()
        ),
        Err(e) => bail!(
            "writing {value:?} to {}\n  expected: success\n  came:     {e:?}",
            path.display()
        ),
    }
}

/// Writes `value`, which must be refused with one of `expected`.
pub fn refused(path: &Path, value: &[u8], expected: &[Errno]) -> Result<()> {
    let shown = String::from_utf8_lossy(&value[..value.len().min(40)]).into_owned();
    match write(path, value) {
        Err(e) if expected.contains(&e) => Ok(()),
        came => bail!(
            "writing {shown:?} ({} bytes) to {}\n  expected: {expected:?}\n  came:     {came:?}",
            value.len(),
            path.display()
        ),
    }
}
