// SPDX-License-Identifier: GPL-2.0

//! Tests of what in the module is pure logic: slots and their table, parsing, counters and their text, the codec.
//!
//! The module's files are compiled as they are. What they take from the kernel crate is rebuilt here as far as they need it
//! ([`stand_in`]), and `kernel` means this crate; the C functions behind `sys/zsmalloc.rs` are a pool that notices misuse.
#![cfg(test)]

extern crate self as kernel;

/// Declares files of the module. They are linted and formatted by the kernel's build, in its way.
macro_rules! module_files {
    ($($(#[$attribute:meta])* $name:ident)*) => {$(
        #[allow(dead_code, unused_imports, clippy::all, reason = "not ours, and not used whole")]
        $(#[$attribute])*
        pub(crate) mod $name;
    )*};
}
use module_files;

module_files! {
    #[path = "../../../sysfs/parse.rs"]
    parse

    #[path = "../../../stats.rs"]
    stats

    // A symbolic link, like the folder of that name: so its submodules are found.
    table
    wlz

    // Once more, as the table keeps them to itself.
    #[path = "../../../table/fill.rs"]
    fill
    #[path = "../../../table/meta.rs"]
    meta
}

mod stand_in;
use stand_in::{bindings, ffi, page, prelude, processor, sync, task};

mod sys;

mod fill_tests;
mod meta_tests;
mod parse_reference;
mod parse_tests;
mod random;
mod stats_tests;
mod table_model;
mod table_stress;
mod table_tests;
mod wlz_fuzz;
mod wlz_reference;
mod wlz_tests;
