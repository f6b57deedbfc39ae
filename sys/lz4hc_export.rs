// SPDX-License-Identifier: GPL-2.0

//! Exports LZ4HC to rzram, which asks for it at run time: the whole of the module `rzram_lz4hc`.
//!
//! The kernel finds symbols at run time only for GPL modules and only those that are exported to them alone, which the
//! library's own are not.

use super::{
    ffi,
    lz4hc_table::Table, //
};
use kernel::ffi::{
    c_char,
    c_int,
    c_void, //
};

// Functions of our own, as the address of a C function that is only ever called directly may be no valid target of an
// indirect call (`CONFIG_X86_KERNEL_IBT`).

/// `LZ4_compress_HC()`.
///
/// # Safety
///
/// As in C.
unsafe extern "C" fn compress(
    src: *const c_char,
    dst: *mut c_char,
    len: c_int,
    room: c_int,
    level: c_int,
    memory: *mut c_void,
) -> c_int {
    // SAFETY: The caller keeps the function's contract.
    unsafe { ffi::LZ4_compress_HC(src, dst, len, room, level, memory) }
}

/// `LZ4_resetStreamHC()`.
///
/// # Safety
///
/// As in C.
unsafe extern "C" fn reset(stream: *mut ffi::LZ4_streamHC_t, level: c_int) {
    // SAFETY: As above.
    unsafe { ffi::LZ4_resetStreamHC(stream, level) }
}

/// `LZ4_loadDictHC()`.
///
/// # Safety
///
/// As in C.
unsafe extern "C" fn load_dictionary(
    stream: *mut ffi::LZ4_streamHC_t,
    dictionary: *const c_char,
    len: c_int,
) -> c_int {
    // SAFETY: As above.
    unsafe { ffi::LZ4_loadDictHC(stream, dictionary, len) }
}

/// `LZ4_compress_HC_continue()`.
///
/// # Safety
///
/// As in C.
unsafe extern "C" fn compress_continue(
    stream: *mut ffi::LZ4_streamHC_t,
    src: *const c_char,
    dst: *mut c_char,
    len: c_int,
    room: c_int,
) -> c_int {
    // SAFETY: As above.
    unsafe { ffi::LZ4_compress_HC_continue(stream, src, dst, len, room) }
}

/// What rzram looks for.
#[no_mangle]
static rzram_lz4hc_v1: Table = Table {
    compress,
    reset,
    load_dictionary,
    compress_continue,
};

// `EXPORT_SYMBOL_GPL(rzram_lz4hc_v1)`, spelt as in include/linux/export.h.
core::arch::global_asm!(
    ".pushsection .export_symbol, \"a\"",
    "__export_symbol_rzram_lz4hc_v1:",
    ".asciz \"GPL\"",
    ".ascii \"\\0\"",
    ".balign 8",
    ".quad rzram_lz4hc_v1",
    ".popsection",
);
