// SPDX-License-Identifier: GPL-2.0

//! `sys/zsmalloc.rs` with a pool whose objects are known by small numbers and hold nothing.
//!
//! The pool notices an object that is freed twice, used after it was freed, or never freed; loom notices where one thread
//! uses an object and nothing orders that before another frees it.

use loom::cell::UnsafeCell;
use std::marker::PhantomData;

/// Owns an object.
#[derive(Debug)]
pub(crate) struct Handle(u64);

impl Handle {
    pub(super) fn into_packed(self) -> u64 {
        let bits = self.0;
        std::mem::forget(self);
        bits
    }

    /// # Safety
    ///
    /// As in the module.
    pub(super) unsafe fn from_packed(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) fn borrow(&self) -> PackedHandle<'_> {
        PackedHandle(self.0, PhantomData)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("object {} was dropped instead of freed", self.0);
        }
    }
}

/// Borrows an object.
#[derive(Clone, Copy)]
pub(crate) struct PackedHandle<'a>(u64, PhantomData<&'a Handle>);

impl PackedHandle<'_> {
    /// # Safety
    ///
    /// As in the module.
    pub(super) unsafe fn new(bits: u64) -> Self {
        Self(bits, PhantomData)
    }

    /// The object's number.
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Unused,
    Live,
    Freed,
}

/// A few objects, each of which can be allocated and freed once.
pub(crate) struct Pool([UnsafeCell<State>; 4]);

impl Pool {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| UnsafeCell::new(State::Unused)))
    }

    fn change(&self, number: u64, from: State, to: State) {
        self.0[number as usize].with_mut(|state| {
            // SAFETY: loom sees to it that nobody else uses the object meanwhile.
            let state = unsafe { &mut *state };
            assert_eq!(*state, from, "object {number} was to become {to:?}");
            *state = to;
        });
    }

    pub(crate) fn alloc(&self, number: u64) -> Handle {
        self.change(number, State::Unused, State::Live);
        Handle(number)
    }

    pub(crate) fn free(&self, handle: Handle) {
        self.change(handle.into_packed(), State::Live, State::Freed);
    }

    /// Uses an object.
    pub(crate) fn read(&self, object: PackedHandle<'_>) {
        self.0[object.number() as usize].with(|state| {
            // SAFETY: loom sees to it that nobody changes the object meanwhile.
            let state = unsafe { *state };
            assert_eq!(state, State::Live, "object {} was used", object.number());
        });
    }

    /// Whether no object is left, once all threads have ended.
    pub(crate) fn is_empty(&self) -> bool {
        // SAFETY: As above.
        let live = |cell: &UnsafeCell<State>| cell.with(|state| unsafe { *state } == State::Live);
        !self.0.iter().any(live)
    }
}
