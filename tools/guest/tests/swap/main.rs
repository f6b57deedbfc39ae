// SPDX-License-Identifier: GPL-2.0
// vm: --mem 512M --cpus 2 --timeout 600 --append initramfs_options=noswap,size=100%

//! Disks as swap, in a guest with little memory.
//!
//! The guest's own files live in memory as well. They stay out of swap, so that what goes there is
//! what the tests put there.

mod exhausted;
mod pressure;
