// SPDX-License-Identifier: GPL-2.0

//! Atomic operations that are done for each block, without a call.
//!
//! The kernel crate's atomics are functions in C that Rust calls: for one instruction, a dozen others, and what was in
//! registers has to go to memory. On x86-64 these here are the instructions that the C macros come to
//! (`arch/x86/include/asm/cmpxchg.h`, `arch/x86/include/asm/atomic64_64.h`, `arch/x86/include/asm/barrier.h`); elsewhere, and
//! where the kernel checks accesses to memory, they are the kernel crate's.

use kernel::sync::atomic::Atomic;
#[cfg(not(inline_atomics))]
use kernel::sync::atomic::{
    Acquire,
    Relaxed,
    Release, //
};

/// Orders as [`Acquire`](kernel::sync::atomic::Acquire) on taking a lock, and as `Release` on letting go of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// What comes after is not done before.
    Take,
    /// What comes before is not done after.
    LetGo,
}

/// Exchanges `old` for `new`; what is there if that is not `old`.
#[inline(always)]
pub(super) fn exchange(word: &Atomic<u64>, old: u64, new: u64, side: Side) -> Result<(), u64> {
    #[cfg(inline_atomics)]
    {
        let _ = side; // a locked instruction orders everything, and so does one with side effects for the compiler
        let (seen, done): (u64, u8);
        // SAFETY: The word is valid, aligned, and changed by atomic operations only.
        unsafe {
            core::arch::asm!(
                "lock cmpxchg [{word}], {new}",
                "sete {done}",
                word = in(reg) word.as_ptr(),
                new = in(reg) new,
                done = lateout(reg_byte) done,
                inout("rax") old => seen,
                options(nostack),
            );
        }
        if done != 0 {
            Ok(())
        } else {
            Err(seen)
        }
    }
    #[cfg(not(inline_atomics))]
    match side {
        Side::Take => word.cmpxchg(old, new, Acquire).map(drop),
        Side::LetGo => word.cmpxchg(old, new, Release).map(drop),
    }
}

/// What is there, at some moment; orders nothing.
#[inline(always)]
pub(crate) fn look(word: &Atomic<u64>) -> u64 {
    #[cfg(inline_atomics)]
    // SAFETY: Valid and aligned. This is `READ_ONCE()`.
    unsafe {
        word.as_ptr().read_volatile()
    }
    #[cfg(not(inline_atomics))]
    word.load(Relaxed)
}

/// What is there; what comes after is not done before.
#[inline(always)]
pub(super) fn look_acquire(word: &Atomic<u64>) -> u64 {
    #[cfg(inline_atomics)]
    {
        let seen = look(word);
        barrier();
        seen
    }
    #[cfg(not(inline_atomics))]
    word.load(Acquire)
}

/// A pointer; what comes after is not done before.
#[inline(always)]
pub(super) fn pointer_acquire<T>(pointer: &Atomic<*mut T>) -> *mut T {
    #[cfg(inline_atomics)]
    {
        // SAFETY: Valid and aligned. This is `READ_ONCE()`.
        let seen = unsafe { pointer.as_ptr().read_volatile() };
        barrier();
        seen
    }
    #[cfg(not(inline_atomics))]
    pointer.load(Acquire)
}

/// Adds to a counter; orders nothing.
#[inline(always)]
pub(crate) fn add(counter: &Atomic<i64>, by: i64) {
    #[cfg(inline_atomics)]
    // SAFETY: The counter is valid, aligned, and changed by atomic operations only.
    unsafe {
        core::arch::asm!(
            "lock add [{counter}], {by}",
            counter = in(reg) counter.as_ptr(),
            by = in(reg) by,
            options(nostack),
        );
    }
    #[cfg(not(inline_atomics))]
    counter.add(by, Relaxed);
}

/// For the compiler; the processor does not move a read to before another.
#[cfg(inline_atomics)]
#[inline(always)]
fn barrier() {
    // SAFETY: No instruction. This is `barrier()`.
    unsafe { core::arch::asm!("", options(nostack, preserves_flags)) };
}
