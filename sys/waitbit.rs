// SPDX-License-Identifier: GPL-2.0

//! Sleeping on the lock bit of a slot word.
//!
//! Kept apart from the lock itself so that a model checker can put its own blocking primitive in the place of this file.
//!
//! C header: [`include/linux/wait_bit.h`](srctree/include/linux/wait_bit.h)

use kernel::{
    bindings,
    ffi::{
        c_int,
        c_ulong, //
    },
    sync::atomic::Atomic, //
};

/// `TASK_UNINTERRUPTIBLE` with the type that the wait functions take; its value is part of the tracing ABI.
const TASK_UNINTERRUPTIBLE: u32 = 0x2;

/// Decides whether a queued waiter still has to sleep; see [`lock_slow`].
pub(super) trait Parker {
    /// Called with the waiter queued: announces it in `word` if bit 0 is still set.
    ///
    /// Returns whether the waiter should sleep.
    fn announce(word: &Atomic<u64>) -> bool;
}

/// Sets bit 0 of `word`, sleeping while it is set.
///
/// Before each sleep, and already on the wait queue, [`Parker::announce`] is asked. Whoever clears the bit and finds the
/// announcement calls [`wake`]; one waiter is woken at a time. Full ordering. May sleep.
#[cold]
pub(super) fn lock_slow<P: Parker>(word: &Atomic<u64>) {
    // SAFETY: `word` is a live 64-bit word for the whole call, and `unsigned long` is 64 bits wide (checked in `slot.rs`).
    // The action is called with the key that this function builds from `word`.
    unsafe {
        bindings::out_of_line_wait_on_bit_lock(
            word.as_ptr().cast::<c_ulong>(),
            0,
            Some(park::<P>),
            TASK_UNINTERRUPTIBLE,
        )
    };
}

/// Wakes one sleeper of [`lock_slow`] on `word`, if there is one. Any context.
///
/// The caller has cleared bit 0 with a fully ordered operation.
#[cold]
pub(super) fn wake(word: &Atomic<u64>) {
    // SAFETY: Only the address is used, as the key of the hashed wait queues.
    unsafe { bindings::wake_up_bit(word.as_ptr().cast::<c_ulong>(), 0) };
}

/// The action that the kernel runs for a queued waiter while the bit is set.
///
/// # Safety
///
/// `key` is the key that [`lock_slow`] made, whose `flags` is the address of a live slot word.
unsafe extern "C" fn park<P: Parker>(key: *mut bindings::wait_bit_key, mode: c_int) -> c_int {
    // SAFETY: By the safety requirements of this function.
    let word = unsafe { (*key).flags }.cast::<u64>();
    // SAFETY: The word belongs to an `Atomic<u64>` that outlives the wait, and is accessed atomically only.
    let word = unsafe { Atomic::from_ptr(word) };
    if P::announce(word) {
        // SAFETY: `key` is the one that we were called with. The mode is uninterruptible, so the result is 0.
        unsafe { bindings::bit_wait(key, mode) };
    }
    0
}
