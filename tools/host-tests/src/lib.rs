// SPDX-License-Identifier: GPL-2.0

//! Tests of what in the module is pure logic: slots and their table, parsing, counters and their text, the codec.
//!
//! The module's files are compiled as they are. What they take from the kernel crate is rebuilt here as far as they need it
//! ([`stand_in`]), and `kernel` means this crate; the C functions behind `sys/zsmalloc.rs` are a pool that notices misuse.
#![cfg(any(test, fuzzing))]
#![cfg_attr(
    fuzzing,
    allow(dead_code, unused_imports, reason = "the fuzzers need the codec only")
)]

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

#[cfg(fuzzing)]
pub mod fuzzing;
mod random;
mod wlz_cases;
mod wlz_reference;

#[cfg(test)]
mod fill_tests;
#[cfg(test)]
mod meta_tests;
#[cfg(test)]
mod parse_reference;
#[cfg(test)]
mod parse_tests;
#[cfg(test)]
mod stats_tests;
#[cfg(test)]
mod table_model;
#[cfg(test)]
mod table_stress;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod wlz_fuzz;
#[cfg(test)]
mod wlz_tests;
