// SPDX-License-Identifier: GPL-2.0

//! A read-write semaphore with the data that it protects.
//!
//! C header: [`include/linux/rwsem.h`](srctree/include/linux/rwsem.h)

use core::{
    cell::UnsafeCell,
    ops::{
        Deref,
        DerefMut, //
    },
    pin::Pin, //
};
use kernel::{
    bindings,
    prelude::*,
    sync::LockClassKey,
    types::{
        NotThreadSafe,
        Opaque, //
    }, //
};

/// A `T` that many may read or one may write, who may sleep meanwhile.
#[pin_data]
pub(crate) struct RwSem<T> {
    #[pin]
    sem: Opaque<bindings::rw_semaphore>,
    data: UnsafeCell<T>,
}

// SAFETY: Moving the semaphore with its data to another thread is moving the data.
unsafe impl<T: Send> Send for RwSem<T> {}
// SAFETY: The semaphore gives several threads `&T` or one of them `&mut T`.
unsafe impl<T: Send + Sync> Sync for RwSem<T> {}

impl<T> RwSem<T> {
    /// A semaphore that nobody holds.
    pub(crate) fn new(
        data: T,
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            data: UnsafeCell::new(data),
            // SAFETY: The slot is pinned memory for a semaphore; name and key are static.
            sem <- Opaque::ffi_init(|slot| unsafe {
                bindings::__init_rwsem(slot, name.as_char_ptr(), key.as_ptr())
            }),
        })
    }

    /// Takes the lock for reading. May sleep.
    pub(crate) fn read(&self) -> Held<'_, T> {
        // SAFETY: The semaphore is initialised.
        unsafe { bindings::down_read(self.sem.get()) };
        Held {
            lock: self,
            write: false,
            _not_send: NotThreadSafe,
        }
    }

    /// Takes the lock for writing. May sleep.
    pub(crate) fn write(&self) -> HeldMut<'_, T> {
        // SAFETY: The semaphore is initialised.
        unsafe { bindings::down_write(self.sem.get()) };
        HeldMut(Held {
            lock: self,
            write: true,
            _not_send: NotThreadSafe,
        })
    }
}

/// The lock, held at least for reading.
///
/// # Invariants
///
/// The semaphore is held by this thread, for writing if `write`.
#[must_use = "the lock is let go of at once when this is dropped"]
pub(crate) struct Held<'a, T> {
    lock: &'a RwSem<T>,
    write: bool,
    _not_send: NotThreadSafe,
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: By the type invariant nobody writes meanwhile.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe {
            if self.write {
                bindings::up_write(self.lock.sem.get());
            } else {
                bindings::up_read(self.lock.sem.get());
            }
        }
    }
}

/// The lock, held for writing.
///
/// # Invariants
///
/// The semaphore is held for writing.
#[must_use = "the lock is let go of at once when this is dropped"]
pub(crate) struct HeldMut<'a, T>(Held<'a, T>);

impl<T> Deref for HeldMut<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for HeldMut<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: By the type invariant nobody else reads or writes meanwhile.
        unsafe { &mut *self.0.lock.data.get() }
    }
}
