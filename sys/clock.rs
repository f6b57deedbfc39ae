// SPDX-License-Identifier: GPL-2.0

//! The time since boot.
//!
//! C header: [`include/linux/timekeeping.h`](srctree/include/linux/timekeeping.h)

use kernel::bindings;

/// Nanoseconds since boot, time asleep included, as of the last tick. Any context.
#[inline]
pub(crate) fn since_boot() -> u64 {
    // SAFETY: No requirements.
    let ns = unsafe { bindings::ktime_get_coarse_with_offset(bindings::tk_offsets_TK_OFFS_BOOT) };
    // CAST: Not negative.
    ns as u64
}
