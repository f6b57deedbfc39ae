// SPDX-License-Identifier: GPL-2.0

//! Having a disk for oneself.

use super::{
    Disk,
    Operations, //
};
use crate::sys::{
    ffi,
    published::Idle, //
};
use kernel::{
    bindings,
    prelude::*, //
};

/// A claim to a disk: nobody has it open, nobody can open it.
///
/// # Invariants
///
/// The disk's openers know of the claim.
#[must_use = "the claim is given back at once when this is dropped"]
pub(crate) struct Claim<'a, T: Operations>(pub(super) &'a Disk<T>);

impl<T: Operations> Claim<'_, T> {
    /// Waits until cached writes are written. May sleep.
    pub(crate) fn sync(&self) {
        // SAFETY: By the type invariant of `Disk`.
        unsafe { bindings::sync_blockdev(self.0.part0()) };
    }

    /// Runs `f` while no I/O is under way. `f` does not allocate. May sleep.
    pub(crate) fn idle<R>(&self, f: impl FnOnce(&Idle<'_>) -> R) -> R {
        // SAFETY: By the type invariant of `Disk`.
        let queue = unsafe { (*self.0.ptr.as_ptr()).queue };
        // SAFETY: The disk has a queue as long as it lives. Bios enter through the queue, and freezing it waits for the
        // ones that are in.
        unsafe { bindings::blk_mq_freeze_queue_nomemsave(queue) };
        self.0.deferred.wait();
        // SAFETY: There is no bio in the driver, as the queue is frozen and the deferred ones are done, and the disk is no
        // swap area, as nobody has it open.
        let ret = f(&unsafe { Idle::new() });
        // SAFETY: Frozen above.
        unsafe { bindings::blk_mq_unfreeze_queue_nomemrestore(queue) };
        ret
    }

    /// Sets the disk's I/O statistics to zero.
    pub(crate) fn clear_io_stats(&self) {
        // SAFETY: By the type invariant of `Disk`.
        let stats = unsafe { (*self.0.part0()).bd_stats };
        // The kernel crate's bindings know the type by name only, and so with a size of 0.
        let stats = stats.cast::<ffi::disk_stats>();
        for cpu in 0..kernel::cpu::nr_cpu_ids() as usize {
            #[cfg(CONFIG_SMP)]
            // SAFETY: The array has an entry for each possible CPU number.
            let offset = unsafe {
                *(&raw const bindings::__per_cpu_offset)
                    .cast::<c_ulong>()
                    .add(cpu)
            };
            #[cfg(not(CONFIG_SMP))]
            let offset: c_ulong = 0;
            // SAFETY: The mask is a static of the kernel's.
            let possible = unsafe {
                bindings::cpumask_test_cpu(cpu as c_int, &raw mut bindings::__cpu_possible_mask)
            };
            if possible {
                // The sum wraps around: neither is an address by itself.
                let this_cpus = stats.wrapping_byte_add(offset);
                // SAFETY: This is what `per_cpu_ptr()` does. Racing readers see old or new numbers.
                unsafe { this_cpus.write_bytes(0, 1) };
            }
        }
    }

    /// Removes the disk from the system, for good. May sleep.
    ///
    /// Waits for users of its attributes, so the caller holds no lock that these take.
    pub(crate) fn remove(self) {
        self.0.remove();
        // The claim stays: the disk must not be opened any more.
        core::mem::forget(self);
    }
}

impl<T: Operations> Drop for Claim<'_, T> {
    fn drop(&mut self) {
        self.0.openers.unclaim();
    }
}
