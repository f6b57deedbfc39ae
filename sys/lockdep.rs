// SPDX-License-Identifier: GPL-2.0

//! What lockdep has to be told of locks that it cannot see. Not there in a kernel without lockdep.
//!
//! C header: [`include/linux/lockdep.h`](srctree/include/linux/lockdep.h)

use core::pin::Pin;
use kernel::{
    bindings,
    prelude::*,
    sync::LockClassKey,
    types::Opaque, //
};

/// Locks that are all the same to lockdep: whoever holds one of them must not take another.
///
/// Each object with such locks has a class of its own, so that the locks of one disk may be held while those of another,
/// which it keeps its blocks on, are taken.
///
/// # Invariants
///
/// `map` is initialised with `key`.
pub(crate) struct Class {
    map: KBox<Opaque<bindings::lockdep_map>>,
    _key: Pin<KBox<LockClassKey>>,
}

// SAFETY: Lockdep locks for itself.
unsafe impl Send for Class {}
// SAFETY: As above.
unsafe impl Sync for Class {}

impl Class {
    /// A class of locks that may be slept for, none of which is held. May sleep.
    pub(crate) fn new(name: &'static CStr) -> Result<Self> {
        let key = KBox::pin_init(LockClassKey::new_dynamic(), GFP_KERNEL)?;
        let map = KBox::new(Opaque::uninit(), GFP_KERNEL)?;
        // SAFETY: The map is ours; the name is static, and the key is registered as long as this lives.
        unsafe {
            bindings::lockdep_init_map_type(
                map.get(),
                name.as_char_ptr(),
                key.as_ptr(),
                0,
                bindings::lockdep_wait_type_LD_WAIT_SLEEP as u8,
                bindings::lockdep_wait_type_LD_WAIT_INV as u8,
                bindings::lockdep_lock_type_LD_LOCK_NORMAL as u8,
            )
        };
        // INVARIANT: Initialised above.
        Ok(Self { map, _key: key })
    }

    /// This task is about to take one of the locks and will wait for it; or, with `tried`, has got one without waiting.
    pub(super) fn acquired(&self, tried: bool) {
        // SAFETY: By the type invariant. Exclusive, and with all checks; the last argument is for people to read.
        unsafe {
            bindings::lock_acquire(
                self.map.get(),
                0,
                tried.into(),
                0,
                1,
                core::ptr::null_mut(),
                Self::acquired as fn(&Self, bool) as usize,
            )
        };
    }

    /// The same task is about to let go of the lock.
    pub(super) fn released(&self) {
        // SAFETY: By the type invariant, and `acquired()` was called in this task.
        unsafe { bindings::lock_release(self.map.get(), Self::released as fn(&Self) as usize) };
    }
}
