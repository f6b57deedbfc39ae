// SPDX-License-Identifier: GPL-2.0

//! Memory for direct I/O: page-aligned mappings, and buffers at any offset inside a page with guard
//! bytes on both sides.

use std::ops::{Deref, DerefMut};

use anyhow::{bail, ensure, Result};

use crate::PAGE;

/// An anonymous private mapping.
pub struct Mapping {
    base: *mut u8,
    len: usize,
}

// SAFETY: the mapping is plain memory that its owner alone holds.
unsafe impl Send for Mapping {}
// SAFETY: shared access is by `&[u8]` only.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of zeros.
    pub fn new(len: usize) -> Result<Mapping> {
        Self::with_flags(len, libc::MAP_NORESERVE)
    }

    fn with_flags(len: usize, flags: i32) -> Result<Mapping> {
        // SAFETY: a new anonymous mapping touches no memory that exists already.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags,
                -1,
                0,
            )
        };
        ensure!(
            base != libc::MAP_FAILED,
            "cannot map {len} bytes: {}",
            std::io::Error::last_os_error()
        );
        Ok(Mapping {
            base: base.cast(),
            len,
        })
    }

    /// Maps `len` bytes in huge pages where the kernel has them, so that bios get segments of many
    /// pages each.
    pub fn huge(len: usize) -> Result<Mapping> {
        const HUGE: usize = 2 << 20;
        let map = Self::new(len.next_multiple_of(HUGE) + HUGE)?;
        // SAFETY: the range is the mapping's own; the call is advice.
        unsafe { libc::madvise(map.base.cast(), map.len, libc::MADV_HUGEPAGE) };
        Ok(map)
    }

    /// The address and length, for system calls.
    pub fn raw(&self) -> (*mut u8, usize) {
        (self.base, self.len)
    }
}

impl Deref for Mapping {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.base, self.len) }
    }
}

impl DerefMut for Mapping {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping lives as long as `self`, which is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.base, self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this object's own and nothing refers to it any more.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

/// A buffer that starts `shift` bytes into a page, between guard bytes.
pub struct Guarded {
    map: Mapping,
    start: usize,
    len: usize,
}

/// Guard bytes on each side, at least.
const GUARD: usize = 2 * PAGE;

fn guard_byte(at: usize) -> u8 {
    // Not a constant: a copy of the wrong guard bytes is noticed as well.
    (at as u32).wrapping_mul(0x9e37_79b9).to_be_bytes()[0] ^ 0xa5
}

impl Guarded {
    /// A buffer of `len` bytes, `shift` bytes past a page boundary.
    pub fn new(len: usize, shift: usize) -> Result<Guarded> {
        let start = GUARD + shift;
        let mut map = Mapping::new((start + len + GUARD).next_multiple_of(PAGE))?;
        for (at, byte) in map.iter_mut().enumerate() {
            *byte = guard_byte(at);
        }
        Ok(Guarded { map, start, len })
    }

    /// Fails if anything outside the buffer has changed.
    pub fn check_guards(&self) -> Result<()> {
        let outside = (0..self.start).chain(self.start + self.len..self.map.len());
        for at in outside {
            if self.map[at] != guard_byte(at) {
                bail!(
                    "a guard byte {} bytes {} the buffer changed\n  expected: {:#04x}\n  came:     {:#04x}",
                    if at < self.start { self.start - at } else { at - self.start - self.len + 1 },
                    if at < self.start { "before" } else { "after" },
                    guard_byte(at),
                    self.map[at],
                );
            }
        }
        Ok(())
    }
}

impl Deref for Guarded {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.map[self.start..self.start + self.len]
    }
}

impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut [u8] {
        let (start, end) = (self.start, self.start + self.len);
        &mut self.map[start..end]
    }
}
