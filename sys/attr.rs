// SPDX-License-Identifier: GPL-2.0

//! Attributes of a disk in sysfs.
//!
//! C header: [`include/linux/sysfs.h`](srctree/include/linux/sysfs.h)

use super::gendisk::{
    Disk,
    Operations, //
};
use core::{
    fmt,
    marker::PhantomData, //
};
use kernel::{
    bindings,
    page::PAGE_SIZE,
    prelude::*, //
};

/// The page, or other buffer, that the text of an attribute goes to. What does not fit is cut off.
///
/// # Invariants
///
/// `buffer` is valid for reads and writes of `room` bytes, of which the first `len` are used.
pub(crate) struct Text<'a> {
    buffer: *mut u8,
    room: usize,
    len: usize,
    _life: PhantomData<&'a mut [u8]>,
}

impl Text<'_> {
    /// # Safety
    ///
    /// `buffer` is a page that nobody else uses as long as the result lives.
    pub(super) unsafe fn new(buffer: *mut c_char) -> Self {
        // INVARIANT: By the safety requirements of this function.
        Self {
            buffer: buffer.cast(),
            // One byte is left free, as sysfs takes a full page for an overrun.
            room: PAGE_SIZE - 1,
            len: 0,
            _life: PhantomData,
        }
    }

    /// What a `show` function returns to C.
    pub(super) fn finish(self, result: Result) -> isize {
        match result {
            // CAST: Less than a page.
            Ok(()) => self.len as isize,
            Err(e) => e.to_errno() as isize,
        }
    }
}

impl<'a> Text<'a> {
    /// Text in a buffer of our own.
    pub(crate) fn in_buffer(buffer: &'a mut [u8]) -> Self {
        // INVARIANT: A slice is valid for its length.
        Self {
            buffer: buffer.as_mut_ptr(),
            room: buffer.len(),
            len: 0,
            _life: PhantomData,
        }
    }

    /// What was written so far.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        // SAFETY: By the type invariant, these bytes were written, or were there from the beginning.
        unsafe { core::slice::from_raw_parts(self.buffer, self.len) }
    }

    /// Adds text of which it is not known that it is UTF-8.
    pub(crate) fn write_bytes(&mut self, s: &[u8]) {
        let len = s.len().min(self.room.saturating_sub(self.len));
        // SAFETY: `len` more bytes fit, by the type invariant.
        unsafe {
            self.buffer
                .add(self.len)
                .copy_from_nonoverlapping(s.as_ptr(), len)
        };
        // INVARIANT: As just written.
        self.len = self.len.wrapping_add(len);
    }
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.write_bytes(s.as_bytes());
        Ok(())
    }
}

/// What was written to an attribute: up to the first NUL, as C's parsers see it.
///
/// # Safety
///
/// `buffer` is valid for reads of `len` bytes for the lifetime of the result.
pub(super) unsafe fn written<'a>(buffer: *const c_char, len: usize) -> &'a [u8] {
    // SAFETY: By the safety requirements of this function.
    let bytes = unsafe { core::slice::from_raw_parts(buffer.cast::<u8>(), len) };
    bytes.split(|b| *b == 0).next().unwrap_or_default()
}

/// What a `store` function returns to C.
pub(super) fn stored(result: Result, len: usize) -> isize {
    match result {
        // CAST: At most a page.
        Ok(()) => len as isize,
        Err(e) => e.to_errno() as isize,
    }
}

/// Owners may read.
pub(crate) const READ: u16 = 0o444;
/// The owner may write.
pub(crate) const WRITE: u16 = 0o200;

/// An attribute of a disk. All functions may sleep.
pub(crate) trait Attribute<T: Operations> {
    /// Name of the file.
    const NAME: &'static CStr;
    /// Permissions; they decide which of the functions can be called.
    const MODE: u16;

    /// Writes the attribute's text.
    fn show(_disk: &Disk<T>, _text: &mut Text<'_>) -> Result {
        Err(EIO)
    }

    /// Acts on what was written to the attribute.
    fn store(_disk: &Disk<T>, _input: &[u8]) -> Result {
        Err(EIO)
    }
}

/// What C knows of an [`Attribute`].
#[repr(transparent)]
pub(crate) struct Entry(bindings::device_attribute);

// SAFETY: Constant tables, which C only reads.
unsafe impl Sync for Entry {}

impl Entry {
    /// The entry of attribute `A` of disks with data `T`.
    pub(crate) const fn new<T: Operations, A: Attribute<T>>() -> Self {
        let mut entry: bindings::device_attribute = pin_init::zeroed();
        entry.attr.name = kernel::str::as_char_ptr_in_const_context(A::NAME);
        entry.attr.mode = A::MODE;
        if A::MODE & READ != 0 {
            entry.__bindgen_anon_1.show = Some(show::<T, A>);
        }
        if A::MODE & WRITE != 0 {
            entry.__bindgen_anon_2.store = Some(store::<T, A>);
        }
        Self(entry)
    }

    /// The attribute as a member of a group's list.
    pub(crate) const fn member(&'static self) -> *mut bindings::attribute {
        (&raw const self.0.attr).cast_mut()
    }
}

/// # Safety
///
/// Called by sysfs for the device of a disk with data `T`, with a page in `buffer`.
unsafe extern "C" fn show<T: Operations, A: Attribute<T>>(
    dev: *mut bindings::device,
    _attr: *mut bindings::device_attribute,
    buffer: *mut c_char,
) -> isize {
    // SAFETY: By the safety requirements of this function. Removing the disk waits for us to return.
    let (disk, mut text) = unsafe { (Disk::<T>::from_device(dev), Text::new(buffer)) };
    let result = A::show(disk, &mut text);
    text.finish(result)
}

/// # Safety
///
/// Called by sysfs for the device of a disk with data `T`, with `len` bytes in `buffer`.
unsafe extern "C" fn store<T: Operations, A: Attribute<T>>(
    dev: *mut bindings::device,
    _attr: *mut bindings::device_attribute,
    buffer: *const c_char,
    len: usize,
) -> isize {
    // SAFETY: By the safety requirements of this function. Removing the disk waits for us to return.
    let (disk, input) = unsafe { (Disk::<T>::from_device(dev), written(buffer, len)) };
    stored(A::store(disk, input), len)
}

/// A constant of C's that holds pointers to other constants.
#[repr(transparent)]
pub(crate) struct Table<T>(pub(crate) T);

// SAFETY: Constant tables, which C only reads.
unsafe impl<T> Sync for Table<T> {}

/// A group of attributes from a NULL-terminated list of members.
pub(crate) const fn group(
    members: &'static [*mut bindings::attribute],
) -> bindings::attribute_group {
    let mut group: bindings::attribute_group = pin_init::zeroed();
    group.__bindgen_anon_2.attrs = members.as_ptr().cast_mut();
    group
}

/// Makes the static tables for a list of attributes, and a static `NAME` of type `gendisk::Groups` that C can use.
macro_rules! disk_attributes {
    ($vis:vis static $name:ident: $data:ty = [$($attr:ty),* $(,)?];) => {
        $vis static $name: $crate::sys::gendisk::Groups = {
            use $crate::sys::attr::{group, Entry, Table};
            use kernel::bindings::{attribute, attribute_group};
            static ENTRIES: &[Entry] = &[$(Entry::new::<$data, $attr>()),*];
            const COUNT: usize = ENTRIES_LEN;
            const ENTRIES_LEN: usize = [$(stringify!($attr)),*].len();
            static MEMBERS: Table<[*mut attribute; COUNT + 1]> = Table({
                let mut members = [core::ptr::null_mut(); COUNT + 1];
                let mut i = 0;
                while i < COUNT {
                    members[i] = ENTRIES[i].member();
                    i += 1;
                }
                members
            });
            static GROUP: Table<attribute_group> = Table(group(&MEMBERS.0));
            static GROUPS: Table<[*const attribute_group; 2]> =
                Table([&raw const GROUP.0, core::ptr::null()]);
            &GROUPS
        };
    };
}
pub(crate) use disk_attributes;
