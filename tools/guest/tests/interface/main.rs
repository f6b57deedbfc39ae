// SPDX-License-Identifier: GPL-2.0
// vm: --mem 2G --cpus 2

//! What a disk promises to whoever uses it: its files and its I/O, one call at a time.

mod alignment;
mod attributes;
mod discard;
mod limits;
mod memory_attributes;
mod pages;
mod requests;
mod settings;
