// SPDX-License-Identifier: GPL-2.0

//! The functions of LZ4HC that rzram uses, as its module `rzram_lz4hc` hands them over: part of both.
//!
//! C header: [`include/linux/lz4.h`](srctree/include/linux/lz4.h)

use super::ffi;
use kernel::ffi::{
    c_char,
    c_int,
    c_void, //
};

/// The functions, each with the contract of the one in C of that name.
///
/// It is found by the name `rzram_lz4hc_v1`, which another layout has to change.
#[repr(C)]
pub(crate) struct Table {
    /// `LZ4_compress_HC()`.
    pub(crate) compress:
        unsafe extern "C" fn(*const c_char, *mut c_char, c_int, c_int, c_int, *mut c_void) -> c_int,
    /// `LZ4_resetStreamHC()`.
    pub(crate) reset: unsafe extern "C" fn(*mut ffi::LZ4_streamHC_t, c_int),
    /// `LZ4_loadDictHC()`.
    pub(crate) load_dictionary:
        unsafe extern "C" fn(*mut ffi::LZ4_streamHC_t, *const c_char, c_int) -> c_int,
    /// `LZ4_compress_HC_continue()`.
    pub(crate) compress_continue: unsafe extern "C" fn(
        *mut ffi::LZ4_streamHC_t,
        *const c_char,
        *mut c_char,
        c_int,
        c_int,
    ) -> c_int,
}
