// SPDX-License-Identifier: GPL-2.0

//! The control files of a driver, as attributes of a class without devices.
//!
//! C header: [`include/linux/device/class.h`](srctree/include/linux/device/class.h)

use super::attr::{
    group,
    stored,
    written,
    Table,
    Text, //
};
use core::pin::Pin;
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

/// What the control files do. All functions may sleep.
pub(crate) trait Control: Send + Sync + Sized + 'static {
    /// `hot_add` is read: makes a disk and writes its number.
    fn hot_add(&self, text: &mut Text<'_>) -> Result;

    /// A disk's number is written to `hot_remove`.
    fn hot_remove(&self, input: &[u8]) -> Result;
}

/// The class `/sys/class/NAME`, with the files `hot_add` and `hot_remove`.
///
/// # Invariants
///
/// `class` is registered from the end of [`Class::register`] on.
#[pin_data(PinnedDrop)]
pub(crate) struct Class<T: Control> {
    #[pin]
    class: Opaque<bindings::class>,
    control: Arc<T>,
}

// SAFETY: The class is constant once it is registered.
unsafe impl<T: Control> Send for Class<T> {}
// SAFETY: As above.
unsafe impl<T: Control> Sync for Class<T> {}

impl<T: Control> Class<T> {
    /// Registers the class. May sleep.
    pub(crate) fn register(name: &'static CStr, control: Arc<T>) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            control,
            // Last, since the files can be used from here on.
            class <- Opaque::try_ffi_init(|slot: *mut bindings::class| {
                let class = bindings::class {
                    name: name.as_char_ptr(),
                    class_groups: Files::<T>::GROUPS.0.as_ptr(),
                    ..pin_init::zeroed()
                };
                // SAFETY: The slot is pinned memory for a class, and the class refers to constants only.
                to_result(unsafe {
                    slot.write(class);
                    bindings::class_register(slot)
                })
            }),
        })
    }
}

#[pinned_drop]
impl<T: Control> PinnedDrop for Class<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant. Waits for users of the files.
        unsafe { bindings::class_unregister(self.class.get()) };
    }
}

struct Files<T>(T);

impl<T: Control> Files<T> {
    /// Only root may make disks, and reading makes one: not even others' `cat` of all files should.
    const HOT_ADD: &'static Table<bindings::class_attribute> = &Table({
        let mut file: bindings::class_attribute = pin_init::zeroed();
        file.attr.name = kernel::str::as_char_ptr_in_const_context(c"hot_add");
        file.attr.mode = 0o400;
        file.show = Some(Self::hot_add);
        file
    });

    const HOT_REMOVE: &'static Table<bindings::class_attribute> = &Table({
        let mut file: bindings::class_attribute = pin_init::zeroed();
        file.attr.name = kernel::str::as_char_ptr_in_const_context(c"hot_remove");
        file.attr.mode = 0o200;
        file.store = Some(Self::hot_remove);
        file
    });

    const MEMBERS: &'static Table<[*mut bindings::attribute; 3]> = &Table([
        (&raw const Self::HOT_ADD.0.attr).cast_mut(),
        (&raw const Self::HOT_REMOVE.0.attr).cast_mut(),
        core::ptr::null_mut(),
    ]);

    const GROUP: &'static Table<bindings::attribute_group> = &Table(group(&Self::MEMBERS.0));

    const GROUPS: &'static Table<[*const bindings::attribute_group; 2]> =
        &Table([&raw const Self::GROUP.0, core::ptr::null()]);

    /// # Safety
    ///
    /// `class` is the one of a registered [`Class<T>`].
    unsafe fn control<'a>(class: *const bindings::class) -> &'a T {
        // SAFETY: By the safety requirements of this function; unregistering waits for users of the files.
        let this =
            unsafe { kernel::container_of!(Opaque::cast_from(class).cast_mut(), Class<T>, class) };
        // SAFETY: `control` is initialised before the class is registered.
        unsafe { &(*this).control }
    }

    /// # Safety
    ///
    /// Called by sysfs for the class of a [`Class<T>`], with a page in `buffer`.
    unsafe extern "C" fn hot_add(
        class: *const bindings::class,
        _attr: *const bindings::class_attribute,
        buffer: *mut c_char,
    ) -> isize {
        // SAFETY: By the safety requirements of this function.
        let (control, mut text) = unsafe { (Self::control(class), Text::new(buffer)) };
        let result = control.hot_add(&mut text);
        text.finish(result)
    }

    /// # Safety
    ///
    /// Called by sysfs for the class of a [`Class<T>`], with `len` bytes in `buffer`.
    unsafe extern "C" fn hot_remove(
        class: *const bindings::class,
        _attr: *const bindings::class_attribute,
        buffer: *const c_char,
        len: usize,
    ) -> isize {
        // SAFETY: By the safety requirements of this function.
        let (control, input) = unsafe { (Self::control(class), written(buffer, len)) };
        stored(control.hot_remove(input), len)
    }
}
