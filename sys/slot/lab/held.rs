// SPDX-License-Identifier: GPL-2.0

//! C's locks, and holding them.
//!
//! C headers: [`include/linux/spinlock.h`](srctree/include/linux/spinlock.h),
//! [`include/linux/preempt.h`](srctree/include/linux/preempt.h)

use crate::sys::{
    directory::Entry,
    rwsem::{
        Held as HeldForReading,
        HeldMut, //
    }, //
};
use kernel::{
    bindings,
    prelude::*,
    types::{
        NotThreadSafe,
        Opaque, //
    }, //
};

// Where locks are watched, all zeros is no lock; and under PREEMPT_RT these are other locks altogether.
#[cfg(any(
    not(CONFIG_X86_64),
    not(CONFIG_PREEMPT_COUNT),
    CONFIG_PREEMPT_RT,
    CONFIG_DEBUG_SPINLOCK,
    CONFIG_LOCKDEP
))]
compile_error!(
    "LOCKING_LAB=1 is for x86-64 kernels that watch no locks, without PREEMPT_RT; build without it"
);

/// A `rwlock_t`.
#[repr(transparent)]
pub(crate) struct RwLock(Opaque<bindings::rwlock_t>);

/// A `raw_spinlock_t`, which `spinlock_t` is too.
#[repr(transparent)]
pub(crate) struct SpinLock(Opaque<bindings::raw_spinlock_t>);

const _: () = assert!(size_of::<RwLock>() == 8 && size_of::<SpinLock>() == 4);

// SAFETY: All zeros is an unlocked lock (`__RW_LOCK_UNLOCKED`), where locks are not watched.
unsafe impl Entry for RwLock {}
// SAFETY: As above (`__RAW_SPIN_LOCK_UNLOCKED`).
unsafe impl Entry for SpinLock {}
// SAFETY: Locks are for several threads.
unsafe impl Sync for RwLock {}
// SAFETY: As above; they can be moved while nobody has them.
unsafe impl Send for RwLock {}
// SAFETY: As above.
unsafe impl Sync for SpinLock {}
// SAFETY: As above.
unsafe impl Send for SpinLock {}

impl RwLock {
    /// One that nobody holds.
    pub(super) fn new() -> Self {
        Self(Opaque::zeroed())
    }

    /// Takes it for reading.
    #[inline]
    pub(super) fn read(&self) -> Held<'_> {
        // SAFETY: It is initialised; `Held` lets go of it.
        unsafe { bindings::_raw_read_lock(self.0.get()) };
        Held::Read(self, NotThreadSafe)
    }

    /// Takes it for writing.
    #[inline]
    pub(super) fn write(&self) -> Held<'_> {
        // SAFETY: It is initialised; `Held` lets go of it.
        unsafe { bindings::_raw_write_lock(self.0.get()) };
        Held::Write(self, NotThreadSafe)
    }
}

impl SpinLock {
    /// Takes it.
    #[inline]
    pub(super) fn lock(&self) -> Held<'_> {
        // SAFETY: It is initialised; `Held` lets go of it.
        unsafe { bindings::_raw_spin_lock(self.0.get()) };
        Held::Spin(self, NotThreadSafe)
    }
}

/// One of these operations on this CPU's count of reasons not to preempt, which has 64 bits where the bit that says whether
/// another thread waits is the highest of those (`arch/x86/include/asm/preempt.h`).
#[cfg(CONFIG_HAS_SEPARATE_PREEMPT_RESCHED_BITS)]
macro_rules! count {
    ($operation:literal) => {
        concat!($operation, " qword ptr gs:[rip + {count}]")
    };
}
#[cfg(not(CONFIG_HAS_SEPARATE_PREEMPT_RESCHED_BITS))]
macro_rules! count {
    ($operation:literal) => {
        concat!($operation, " dword ptr gs:[rip + {count}]")
    };
}

/// `preempt_disable()`.
#[inline(always)]
fn preempt_disable() {
    // SAFETY: As the macro in C: adds to this CPU's count, in one instruction.
    unsafe {
        core::arch::asm!(
            count!("inc"),
            count = sym bindings::__preempt_count,
            options(nostack),
        )
    };
}

/// `preempt_enable()`, after [`preempt_disable`].
#[inline(always)]
fn preempt_enable() {
    let zero: u8;
    // SAFETY: As the macro in C.
    unsafe {
        core::arch::asm!(
            count!("dec"),
            "sete {zero}",
            count = sym bindings::__preempt_count,
            zero = lateout(reg_byte) zero,
            options(nostack),
        )
    };
    if zero != 0 {
        // SAFETY: Zero means that this is preemptible, and that somebody else wants the CPU.
        unsafe { bindings::preempt_schedule() };
    }
}

/// A lock that is held in place of the slot's own, or none.
pub(crate) enum Held<'a> {
    Nothing,
    ForReading { _held: HeldForReading<'a, ()> },
    ForWriting { _held: HeldMut<'a, ()> },
    Read(&'a RwLock, NotThreadSafe),
    Write(&'a RwLock, NotThreadSafe),
    Spin(&'a SpinLock, NotThreadSafe),
    Preemption(NotThreadSafe),
}

impl Held<'_> {
    /// Keeps this thread from being preempted.
    #[inline]
    pub(super) fn preemption() -> Self {
        preempt_disable();
        Self::Preemption(NotThreadSafe)
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        match self {
            // SAFETY: This thread took it when the value was made.
            Self::Read(lock, _) => unsafe { bindings::_raw_read_unlock(lock.0.get()) },
            // SAFETY: As above.
            Self::Write(lock, _) => unsafe { bindings::_raw_write_unlock(lock.0.get()) },
            // SAFETY: As above.
            Self::Spin(lock, _) => unsafe { bindings::_raw_spin_unlock(lock.0.get()) },
            Self::Preemption(_) => preempt_enable(),
            Self::Nothing | Self::ForReading { .. } | Self::ForWriting { .. } => {}
        }
    }
}
