// SPDX-License-Identifier: GPL-2.0

//! Memory for direct I/O: page-aligned mappings, and buffers at any offset inside a page with guard
//! bytes on both sides.

use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;

use anyhow::{ensure, Result};

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

    /// Maps `len` bytes and keeps them in memory, so that there is less for everything else.
    pub fn locked(len: usize) -> Result<Mapping> {
        // In huge pages as it is quicker; there are whole ones at the ends, so it may become a little more.
        let map = Self::huge(len)?;
        // SAFETY: the range is the mapping's own.
        let rc = unsafe { libc::mlock(map.base.cast(), map.len) };
        ensure!(rc == 0, "mlock: {}", std::io::Error::last_os_error());
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

/// Guard bytes before a buffer, at most: a part of a page more.
const SIDE: usize = GUARD + PAGE;

/// What is before a buffer, and then what is behind one. Not a constant: a copy of the wrong guard bytes is noticed as well.
static GUARDS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let byte = |at: u32| at.wrapping_mul(0x9e37_79b9).to_be_bytes()[0] ^ 0xa5;
    (0..2 * SIDE as u32).map(byte).collect()
});

impl Guarded {
    /// A buffer of `len` bytes, `shift` bytes past a page boundary.
    pub fn new(len: usize, shift: usize) -> Result<Guarded> {
        let mut this = Guarded::room_for(len)?;
        this.becomes(len, shift)?;
        Ok(this)
    }

    /// A buffer that can become one of up to `most` bytes, again and again.
    pub fn room_for(most: usize) -> Result<Guarded> {
        Ok(Guarded {
            map: Mapping::new(most.next_multiple_of(PAGE) + GUARD + SIDE)?,
            start: GUARD,
            len: 0,
        })
    }

    /// Makes this a buffer of `len` bytes, `shift` bytes past a page boundary, between new guard bytes.
    pub fn becomes(&mut self, len: usize, shift: usize) -> Result<()> {
        (self.start, self.len) = (GUARD + shift % PAGE, len);
        let (start, end) = (self.start, self.start + len);
        ensure!(
            end + GUARD <= self.map.len(),
            "no room for {len} bytes, {shift} past a page"
        );
        self.map[..start].copy_from_slice(&GUARDS[..start]);
        self.map[end..end + GUARD].copy_from_slice(&GUARDS[SIDE..][..GUARD]);
        Ok(())
    }

    /// Fails if anything outside the buffer has changed.
    pub fn check_guards(&self) -> Result<()> {
        let (start, end) = (self.start, self.start + self.len);
        let (before, behind) = (&self.map[..start], &self.map[end..end + GUARD]);
        crate::blk::equal("the bytes before the buffer", &GUARDS[..start], before)?;
        crate::blk::equal(
            "the bytes behind the buffer",
            &GUARDS[SIDE..][..GUARD],
            behind,
        )
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
