// SPDX-License-Identifier: GPL-2.0

//! Sleeping for a slot.
//!
//! Kept apart from the lock itself so that a model checker can put its own blocking primitive in the place of this file.
//!
//! The sleepers queue where the kernel's own sleepers for bits do, in a table of wait queues that is hashed by address, but
//! not with the kernel's `wait_on_bit_lock()`: that one drops a wake-up if somebody else has taken the bit meanwhile, and
//! counts on a wake-up at each unlock, which is what slots do not pay for.
//!
//! C headers: [`include/linux/wait.h`](srctree/include/linux/wait.h),
//! [`include/linux/wait_bit.h`](srctree/include/linux/wait_bit.h)

use kernel::{
    bindings,
    ffi::{
        c_int,
        c_ulong,
        c_void, //
    },
    sync::atomic::Atomic,
    types::Opaque, //
};

/// How often a busy lock is looked at before sleeping: about as long as the shortest critical section.
pub(super) const SPINS: u32 = 32;

/// The bit whose wait queue is used; any would do, as long as it is always the same.
const BIT: c_int = 0;

// The values of these task states are known to user space, by way of `/proc`.
const TASK_UNINTERRUPTIBLE: c_int = 0x2;
const TASK_NORMAL: u32 = 0x3;

/// Calls `attempt` until it returns something, and sleeps after each time that it does not, until [`wake_all`] is called for
/// the same word.
///
/// When `attempt` is called, this thread is on the wait queue already, so a wake-up that comes after it has looked at the
/// word is not lost. It must not sleep. Wake-ups may be spurious. May sleep.
#[cold]
pub(super) fn wait_until<T>(word: &Atomic<u64>, mut attempt: impl FnMut() -> Option<T>) -> T {
    // SAFETY: Only the address is used, as a key.
    let queue = unsafe { bindings::bit_waitqueue(word.as_ptr().cast::<c_ulong>(), BIT) };
    let entry = Opaque::<bindings::wait_queue_entry>::uninit();
    // SAFETY: The entry is ours, and stays where it is until it is off the queue.
    unsafe { bindings::init_wait(entry.get()) };
    loop {
        // SAFETY: Queue and entry are initialised. Not an exclusive waiter: the queue is shared with sleepers for other
        // words, and must not swallow their wake-ups.
        unsafe { bindings::prepare_to_wait(queue, entry.get(), TASK_UNINTERRUPTIBLE) };
        if let Some(value) = attempt() {
            // SAFETY: As above. Sets the task running again.
            unsafe { bindings::finish_wait(queue, entry.get()) };
            return value;
        }
        // SAFETY: This may sleep, as the caller has been told.
        unsafe { bindings::schedule() };
    }
}

/// Wakes everybody who sleeps in [`wait_until`] for `word`. Any context.
///
/// The caller has changed the word with a fully ordered operation.
#[cold]
pub(super) fn wake_all(word: &Atomic<u64>) {
    let word = word.as_ptr().cast::<c_ulong>();
    // The key is for the kernel's own sleepers on the same queue, who compare it with theirs.
    let mut key = bindings::wait_bit_key {
        flags: word,
        bit_nr: BIT,
        timeout: 0,
    };
    // SAFETY: The queues live as long as the kernel; the key outlives the call.
    unsafe {
        let queue = bindings::bit_waitqueue(word, BIT);
        bindings::__wake_up(queue, TASK_NORMAL, 1, (&raw mut key).cast::<c_void>());
    }
}
