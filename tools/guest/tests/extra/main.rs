// SPDX-License-Identifier: GPL-2.0
// vm: --mem 640M --cpus 2 --append initramfs_options=noswap,size=90%

//! What zram can do beyond storing pages, and zram's own clients.
//!
//! The guest has little memory, for the tests that swap. Its own files stay out of swap.

mod backing;
mod backing_errors;
mod clients;
mod compat;
mod idle;
mod memory_stat;
mod parameters;
mod races;
mod recompress;
mod recompress_errors;
mod selftests;
mod support;
mod swap;
mod writeback;
mod writeback_errors;
