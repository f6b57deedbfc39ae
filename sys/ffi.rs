// SPDX-License-Identifier: GPL-2.0

//! Bindings that bindgen makes from the target kernel's headers at build time (see `Kbuild` and `bindings_helper.h`), for
//! what the kernel crate's own bindings lack: zsmalloc, the codecs, and constants whose C definition is a cast.
//!
//! Used by the other files of `sys/` only.

#![allow(
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    reason = "generated code"
)]
#![allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    reason = "generated code"
)]
#![allow(
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::cast_lossless,
    clippy::missing_safety_doc,
    reason = "generated code"
)]

// bindgen spells `size_t` and friends through these two kernel types, which are mapped by hand as in the kernel crate.
type __kernel_size_t = usize;
type __kernel_ssize_t = isize;

include!(env!("RZRAM_BINDINGS"));
