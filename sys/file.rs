// SPDX-License-Identifier: GPL-2.0

//! Files that a user names.
//!
//! C headers: [`include/linux/fs.h`](srctree/include/linux/fs.h),
//! [`include/linux/kernel_read_file.h`](srctree/include/linux/kernel_read_file.h)

use super::ffi;
use core::ptr;
use kernel::{
    bindings,
    prelude::*, //
};

/// The whole content of the file at `path`. May sleep.
///
/// What opening and reading it says, and `EINVAL` for what is not a regular file or larger than 2 GiB.
pub(crate) fn read_all(path: &CStr) -> Result<KVVec<u8>> {
    let mut buffer = ptr::null_mut();
    // SAFETY: `path` is a C string; the buffer is allocated by the function, which has no other requirements.
    let len = unsafe {
        bindings::kernel_read_file_from_path(
            path.as_char_ptr(),
            0,
            &mut buffer,
            i32::MAX as usize,
            ptr::null_mut(),
            bindings::kernel_read_file_id_READING_POLICY,
        )
    };
    // CAST: Negative is an errno.
    let len = usize::try_from(len).map_err(|_| Error::from_errno(len as c_int))?;
    let mut content = KVVec::new();
    let copied = if buffer.is_null() {
        Ok(())
    } else {
        // SAFETY: The function returned this many bytes.
        let bytes = unsafe { core::slice::from_raw_parts(buffer.cast::<u8>(), len) };
        content.extend_from_slice(bytes, GFP_KERNEL)
    };
    // SAFETY: Allocated with `vmalloc()`, or NULL.
    unsafe { ffi::vfree(buffer) };
    copied?;
    Ok(content)
}

/// Whether there is something at `path`: an error if that cannot be told. May sleep.
pub(crate) fn exists(path: &CStr) -> Result<bool> {
    // SAFETY: `path` is a C string. Opens nothing but a place in the name space.
    let file = unsafe { bindings::filp_open(path.as_char_ptr(), bindings::O_PATH as c_int, 0) };
    let file = match kernel::error::from_err_ptr(file) {
        Err(e) if e == ENOENT => return Ok(false),
        other => other?,
    };
    // SAFETY: Just opened.
    unsafe { bindings::filp_close(file, ptr::null_mut()) };
    Ok(true)
}
