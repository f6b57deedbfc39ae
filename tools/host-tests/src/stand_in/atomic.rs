// SPDX-License-Identifier: GPL-2.0

//! `kernel::sync::atomic` on std's atomics.

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{self, fence, Ordering as Std};

/// An ordering of the kernel crate.
pub(crate) trait Ordering {
    /// The nearest of std's.
    const STD: Std;
    /// Whether an operation is a full barrier.
    const FULL: bool = false;
}

pub(crate) trait AcquireOrRelaxed: Ordering {}
pub(crate) trait ReleaseOrRelaxed: Ordering {}

pub(crate) struct Relaxed;
pub(crate) struct Acquire;
pub(crate) struct Release;
pub(crate) struct Full;

impl Ordering for Relaxed {
    const STD: Std = Std::Relaxed;
}

impl Ordering for Acquire {
    const STD: Std = Std::Acquire;
}

impl Ordering for Release {
    const STD: Std = Std::Release;
}

impl Ordering for Full {
    const STD: Std = Std::SeqCst;
    const FULL: bool = true;
}

impl AcquireOrRelaxed for Relaxed {}
impl AcquireOrRelaxed for Acquire {}
impl ReleaseOrRelaxed for Relaxed {}
impl ReleaseOrRelaxed for Release {}

/// The barrier around an operation, where it has one.
fn barrier<O: Ordering>() {
    if O::FULL {
        fence(Std::SeqCst);
    }
}

thread_local! {
    static HESITANT: Cell<bool> = const { Cell::new(false) };
}

/// Lets others run after each load of this thread, so that what it has seen is often out of date when it acts on it.
pub(crate) fn hesitate() {
    HESITANT.set(true);
}

/// An atomic `T`, with the same layout.
#[repr(transparent)]
pub(crate) struct Atomic<T>(UnsafeCell<T>);

// SAFETY: Changed by atomic operations only.
unsafe impl<T: Send> Send for Atomic<T> {}
// SAFETY: As above.
unsafe impl<T> Sync for Atomic<T> {}

impl<T> Atomic<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    pub(crate) const fn as_ptr(&self) -> *mut T {
        self.0.get()
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

macro_rules! operations {
    ($([$($generic:ident)?] $type:ty => $std:ty;)*) => {$(
        impl$(<$generic>)? Atomic<$type> {
            fn std(&self) -> &$std {
                // SAFETY: Valid and aligned, and all other accesses are atomic as well.
                unsafe { <$std>::from_ptr(self.as_ptr()) }
            }

            pub(crate) fn load<O: AcquireOrRelaxed>(&self, _: O) -> $type {
                let value = self.std().load(O::STD);
                if HESITANT.get() {
                    std::thread::yield_now();
                }
                value
            }

            pub(crate) fn store<O: ReleaseOrRelaxed>(&self, value: $type, _: O) {
                self.std().store(value, O::STD);
            }

            pub(crate) fn xchg<O: Ordering>(&self, value: $type, _: O) -> $type {
                barrier::<O>();
                let old = self.std().swap(value, O::STD);
                barrier::<O>();
                old
            }

            /// A failed one orders nothing.
            pub(crate) fn cmpxchg<O: Ordering>(
                &self,
                old: $type,
                new: $type,
                _: O,
            ) -> Result<$type, $type> {
                barrier::<O>();
                let result = self.std().compare_exchange(old, new, O::STD, Std::Relaxed);
                if result.is_ok() {
                    barrier::<O>();
                }
                result
            }
        }
    )*};
}

operations! {
    [] u32 => atomic::AtomicU32;
    [] u64 => atomic::AtomicU64;
    [] i64 => atomic::AtomicI64;
    [] usize => atomic::AtomicUsize;
    [P] *mut P => atomic::AtomicPtr<P>;
}

macro_rules! arithmetic {
    ($($type:ty),*) => {$(
        impl Atomic<$type> {
            pub(crate) fn add(&self, by: $type, _: Relaxed) {
                self.std().fetch_add(by, Std::Relaxed);
            }

            pub(crate) fn fetch_add<O: Ordering>(&self, by: $type, _: O) -> $type {
                barrier::<O>();
                let old = self.std().fetch_add(by, O::STD);
                barrier::<O>();
                old
            }

            pub(crate) fn fetch_sub<O: Ordering>(&self, by: $type, _: O) -> $type {
                barrier::<O>();
                let old = self.std().fetch_sub(by, O::STD);
                barrier::<O>();
                old
            }
        }
    )*};
}

arithmetic!(u64, i64, usize);
