// SPDX-License-Identifier: GPL-2.0
// vm: --mem 640M --cpus 2

//! What zram can do with blocks beyond storing them: parameters, recompression, idle tracking, writeback.

mod backing;
mod backing_errors;
mod idle;
mod lz4hc;
mod memory_stat;
mod parameters;
mod races;
mod recompress;
mod recompress_errors;
mod signals;
mod writeback;
mod writeback_errors;
mod writeback_forms;
