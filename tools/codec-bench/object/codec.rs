// SPDX-License-Identifier: GPL-2.0
//! The codec as an object of its own: compiled with the flags of the module, to be measured and looked into.
#![allow(dead_code, reason = "the module's files, and not used whole")]

mod sys;
mod wlz;

use core::slice;
use sys::{
    bytes::Parts,
    page::{
        Dest,
        Source,
        BLOCK_SIZE, //
    },
};
use wlz::choose;

/// Bytes of what [`wlz_encode()`] works with.
#[no_mangle]
pub extern "C" fn wlz_workspace() -> usize {
    size_of::<Parts>()
}

/// Encodes a block, sets `out` to what it made, and returns how many bytes that is; 0 if `block` is not aligned.
///
/// # Safety
///
/// `workspace` was zeros at first, has the size above and is aligned to 8. `block` is a block, and `out` can be written to.
#[no_mangle]
pub unsafe extern "C" fn wlz_encode(
    workspace: *mut u8,
    block: *const u8,
    out: *mut *const u8,
) -> usize {
    // SAFETY: By the safety requirements of this function.
    let (parts, block) = unsafe {
        (
            &mut *workspace.cast::<Parts>(),
            slice::from_raw_parts(block, BLOCK_SIZE),
        )
    };
    let Some(source) = Source::from_slice(block) else {
        return 0;
    };
    parts.block.copy_from(source);
    let bytes = choose::encode(parts);
    // SAFETY: By the safety requirements of this function.
    unsafe { out.write(bytes.as_ptr()) };
    bytes.len()
}

/// Decodes so many bytes to a block; whether they made one.
///
/// # Safety
///
/// The bytes can be read, and `block` is a block.
#[no_mangle]
pub unsafe extern "C" fn wlz_decode(bytes: *const u8, len: usize, block: *mut u8) -> bool {
    // SAFETY: By the safety requirements of this function.
    let (bytes, block) = unsafe {
        (
            slice::from_raw_parts(bytes, len),
            slice::from_raw_parts_mut(block, BLOCK_SIZE),
        )
    };
    Dest::from_slice(block).is_some_and(|dest| choose::decode(bytes, dest).is_some())
}
