// SPDX-License-Identifier: GPL-2.0
// vm: --mem 2G --cpus 2

//! Work like that of real users, from many threads and in large amounts.

mod concurrency;
mod ext4;
mod fio;
mod memory;
