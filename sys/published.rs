// SPDX-License-Identifier: GPL-2.0

//! What a disk has only while it is set up, read by I/O without a lock.
//!
//! I/O takes no device-wide lock, so something else must keep a reset away from it. That is the disk's use: a reset goes
//! ahead only while nobody has the disk open, and with its queue frozen. Two tokens say so in types: [`InUse`], which the
//! entry points from the block layer and from swap make, lets one read; [`Idle`], which freezing the queue of a claimed
//! disk gives, lets one change.

use super::rwsem::{
    Held,
    HeldMut, //
};
use core::{
    marker::PhantomData,
    ptr, //
};
use kernel::{
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        Full, //
    }, //
};

/// Shows that a disk is in use right now: it can be neither reset nor removed as long as this lives.
///
/// Made by `sys::gendisk` for a bio, whose submitter holds a reference to the queue, and for a slot-free notice, whose
/// caller has the disk open as a swap area.
pub(crate) struct InUse(());

impl InUse {
    /// # Safety
    ///
    /// The disk is not idle (see [`Idle`]) as long as the result lives.
    #[inline]
    pub(super) unsafe fn new() -> Self {
        Self(())
    }
}

/// Shows that a disk is idle: no bio is in the driver, none will enter, and nobody has the disk open.
///
/// Made by `sys::gendisk` with a frozen queue.
pub(crate) struct Idle<'a>(PhantomData<&'a ()>);

impl Idle<'_> {
    /// # Safety
    ///
    /// There is no [`InUse`] for the same disk as long as the result lives.
    pub(super) unsafe fn new() -> Self {
        Self(PhantomData)
    }
}

/// A value that appears when a disk is set up and goes when it is reset.
///
/// # Invariants
///
/// NULL, or a box that this object owns. It changes from or to NULL only; from NULL only with the configuration lock held
/// for writing, to NULL in addition only with an [`Idle`].
pub(crate) struct Published<T>(Atomic<*mut T>);

// SAFETY: Owns a `T` and hands out `&T`.
unsafe impl<T: Send + Sync> Send for Published<T> {}
// SAFETY: As above.
unsafe impl<T: Send + Sync> Sync for Published<T> {}

impl<T> Published<T> {
    /// Nothing.
    pub(crate) fn new() -> Self {
        Self(Atomic::new(ptr::null_mut()))
    }

    /// The value, for I/O. Any context.
    #[inline]
    pub(crate) fn get<'a>(&'a self, _in_use: &'a InUse) -> Option<&'a T> {
        // SAFETY: By the type invariant; nobody takes the value away while the disk is in use.
        unsafe { self.0.load(Acquire).as_ref() }
    }

    /// The value, for somebody who holds the configuration lock that `_held` is borrowed from.
    pub(crate) fn get_configured<'a, C>(&'a self, _held: &'a Held<'_, C>) -> Option<&'a T> {
        // SAFETY: By the type invariant; it takes the lock for writing to take the value away.
        unsafe { self.0.load(Acquire).as_ref() }
    }

    /// Publishes `value`; gives it back if there is one already.
    pub(crate) fn set<C>(&self, _held: &mut HeldMut<'_, C>, value: KBox<T>) -> Result<(), KBox<T>> {
        let new = KBox::into_raw(value);
        // INVARIANT: From NULL, with the lock held for writing, as the token shows.
        match self.0.cmpxchg(ptr::null_mut(), new, Full) {
            Ok(_) => Ok(()),
            // SAFETY: Came from `into_raw()` above and was not published.
            Err(_) => Err(unsafe { KBox::from_raw(new) }),
        }
    }

    /// Takes the value away.
    pub(crate) fn take<C>(&self, _held: &mut HeldMut<'_, C>, _idle: &Idle<'_>) -> Option<KBox<T>> {
        let old = self.0.xchg(ptr::null_mut(), Full);
        // SAFETY: By the type invariant. No I/O uses it, as the disk is idle, and nobody else, as the lock is held for
        // writing.
        (!old.is_null()).then(|| unsafe { KBox::from_raw(old) })
    }
}

impl<T> Drop for Published<T> {
    fn drop(&mut self) {
        let old = core::mem::replace(self.0.get_mut(), ptr::null_mut());
        if !old.is_null() {
            // SAFETY: By the type invariant.
            drop(unsafe { KBox::from_raw(old) });
        }
    }
}
