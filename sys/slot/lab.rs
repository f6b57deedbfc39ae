// SPDX-License-Identifier: GPL-2.0

//! Other locks than the slots' own, to compare them with. In a bench build only (`make LOCKING_LAB=1`).
//!
//! C's locks, as zram had them or was once proposed to have them, with what they cost there: rwlock and spinlock by the
//! kernel's own functions, and a bit that is spun for without preemption, as `bit_spin_lock()` does. A slot under another
//! lock than its own leaves its lock bits alone, and whoever reads it changes nothing.
//!
//! The locks of a table belong to its slots by their numbers. Only `table/place.rs` brings the two together.

mod held;

use super::{
    inline,
    kind,
    meta,
    Directory,
    Guard,
    Owner,
    PackedHandle,
    Slot,
    View,
    BODY_SHIFT,
    KIND_ELSEWHERE,
    KIND_OBJECT,
    KIND_VALUE,
    LOCK, //
};
use crate::sys::{
    directory,
    rwsem::{
        HeldMut,
        RwSem, //
    }, //
};
use core::pin::Pin;
use held::{
    RwLock,
    SpinLock, //
};
use kernel::{
    new_mutex,
    prelude::*,
    processor::cpu_relax,
    static_lock_class,
    sync::{
        atomic::Relaxed,
        lock::{
            mutex::MutexBackend,
            Guard as MutexGuard, //
        },
        Mutex, //
    }, //
};

pub(crate) use held::Held;

/// How a table is locked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// By the lock in each slot's word, as ever.
    Cas,
    /// Reads hold a semaphore for reading, writes for writing, from before they compress.
    Semaphore,
    /// Reads hold a rwlock for reading; writes hold a mutex from before they compress, and the rwlock while they store.
    RwlockMutex,
    /// The same without the mutex.
    Rwlock,
    /// A spinlock for each slot.
    SlotSpinlock,
    /// A rwlock for each slot.
    SlotRwlock,
    /// The slot's own lock bit, spun for.
    SlotBit,
}

impl Scheme {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Self; 7] = [
        Self::Cas,
        Self::Semaphore,
        Self::RwlockMutex,
        Self::Rwlock,
        Self::SlotSpinlock,
        Self::SlotRwlock,
        Self::SlotBit,
    ];

    /// Whether nobody may sleep who holds a slot.
    pub(crate) fn spins(self) -> bool {
        !matches!(self, Self::Cas | Self::Semaphore)
    }
}

/// What a slot is locked by.
#[derive(Clone, Copy)]
pub(crate) enum Lock<'a> {
    Own,
    Semaphore(&'a RwSem<()>),
    Rwlock(&'a RwLock),
    Spinlock(&'a SpinLock),
    Bit,
}

/// A slot that is locked to be read.
pub(crate) enum Reading<'a, O: Owner> {
    /// By its own lock.
    Own(Guard<'a, O>),
    /// By a lock that is not the slot's own, or is not slept for.
    Other(Unchanged<'a, O>),
}

/// A slot that does not change.
pub(crate) enum Unchanged<'a, O: Owner> {
    /// Because of its lock bit.
    Bit(Guard<'a, O>),
    /// Because of some other lock, which is held.
    Held {
        /// The word, which owns what it tells of as long as the lock is held.
        word: u64,
        _held: Held<'a>,
    },
}

impl<O: Owner> Unchanged<'_, O> {
    /// The table's own bits.
    #[inline]
    pub(crate) fn meta(&self) -> u32 {
        match self {
            Self::Bit(guard) => guard.meta(),
            Self::Held { word, .. } => meta(*word),
        }
    }

    /// What the slot stores.
    #[inline]
    pub(crate) fn view(&self) -> View<'_> {
        match self {
            Self::Bit(guard) => guard.view(),
            Self::Held { word, .. } => {
                let body = *word >> BODY_SHIFT;
                match kind(*word) {
                    KIND_VALUE => View::Value(body),
                    // SAFETY: The word owns the object, and nobody changes it while the lock is held, by `self`.
                    KIND_OBJECT => View::Object(unsafe { PackedHandle::new(body) }),
                    KIND_ELSEWHERE => View::Elsewhere(body),
                    _ => View::Empty,
                }
            }
        }
    }
}

impl<'a> Lock<'a> {
    /// Locks `slot`, which this lock is for, to be changed. May sleep, unless the scheme spins.
    #[inline]
    pub(crate) fn lock<O: Owner>(self, slot: &'a Slot, owner: &'a O) -> Guard<'a, O> {
        let held = match self {
            Self::Own => return slot.lock(owner),
            Self::Bit => return spin(slot, owner),
            Self::Semaphore(semaphore) => Held::ForWriting {
                _held: semaphore.write(),
            },
            Self::Rwlock(lock) => lock.write(),
            Self::Spinlock(lock) => lock.lock(),
        };
        under(slot, owner, held)
    }

    /// The same for a write that has begun.
    #[inline]
    pub(crate) fn lock_within<O: Owner>(
        self,
        slot: &'a Slot,
        owner: &'a O,
        writing: &'a Writing<'_>,
    ) -> Guard<'a, O> {
        match writing {
            // Nobody else has the table.
            Writing::Semaphore { .. } => under(slot, owner, Held::Nothing),
            _ => self.lock(slot, owner),
        }
    }

    /// Locks `slot`, which this lock is for, to be read. May sleep, unless the scheme spins.
    #[inline]
    pub(crate) fn read<O: Owner>(self, slot: &'a Slot, owner: &'a O) -> Reading<'a, O> {
        let held = match self {
            Self::Own => return Reading::Own(slot.lock(owner)),
            Self::Bit => return Reading::Other(Unchanged::Bit(spin(slot, owner))),
            Self::Semaphore(semaphore) => Held::ForReading {
                _held: semaphore.read(),
            },
            Self::Rwlock(lock) => lock.read(),
            Self::Spinlock(lock) => lock.lock(),
        };
        let word = inline::look(&slot.0);
        Reading::Other(Unchanged::Held { word, _held: held })
    }
}

/// A guard of a slot that `held` keeps all others from.
#[inline]
fn under<'a, O: Owner>(slot: &'a Slot, owner: &'a O, held: Held<'a>) -> Guard<'a, O> {
    let mut guard = Guard::new(slot, owner, inline::look(&slot.0));
    guard.held = held;
    guard
}

/// Takes a slot's own lock, as `bit_spin_lock()` does.
#[inline]
fn spin<'a, O: Owner>(slot: &'a Slot, owner: &'a O) -> Guard<'a, O> {
    loop {
        let held = Held::preemption();
        if let Some(mut guard) = slot.take(owner) {
            guard.held = held;
            return guard;
        }
        drop(held);
        while inline::look(&slot.0) & LOCK != 0 {
            cpu_relax();
        }
    }
}

impl<O: Owner> Guard<'_, O> {
    /// Stores the content, and says so, where another lock is held than the slot's own. That one is let go of afterwards.
    #[inline]
    pub(super) fn stored_under_other_lock(&self) -> bool {
        if self.seen & LOCK != 0 {
            return false;
        }
        self.slot.0.store(self.content, Relaxed);
        true
    }
}

/// Locks for the whole table.
#[pin_data]
struct Whole {
    #[pin]
    semaphore: RwSem<()>,
    #[pin]
    compressing: Mutex<()>,
    rwlock: RwLock,
}

/// The locks of a table.
pub(crate) struct Locks {
    scheme: Scheme,
    whole: Pin<KBox<Whole>>,
    spinlocks: Option<Directory<SpinLock>>,
    rwlocks: Option<Directory<RwLock>>,
}

/// What a write holds from its beginning to its end.
pub(crate) enum Writing<'a> {
    Nothing,
    Semaphore {
        _held: HeldMut<'a, ()>,
    },
    Mutex {
        _held: MutexGuard<'a, (), MutexBackend>,
    },
}

impl Locks {
    /// Locks for a table of `blocks` blocks. May sleep.
    pub(crate) fn new(scheme: Scheme, blocks: u64) -> Result<Self> {
        let whole = KBox::pin_init(
            pin_init!(Whole {
                semaphore <- RwSem::new((), c"rzram_table", static_lock_class!()),
                compressing <- new_mutex!((), "rzram_compressing"),
                rwlock: RwLock::new(),
            }? Error),
            GFP_KERNEL,
        )?;
        let with_spinlocks = scheme == Scheme::SlotSpinlock;
        let with_rwlocks = scheme == Scheme::SlotRwlock;
        Ok(Self {
            scheme,
            whole,
            spinlocks: with_spinlocks.then(|| Directory::new(blocks)).transpose()?,
            rwlocks: with_rwlocks.then(|| Directory::new(blocks)).transpose()?,
        })
    }

    /// Bytes that the locks of slots take beside the slots.
    pub(crate) fn bytes(&self) -> u64 {
        let spinlocks = self.spinlocks.as_ref().map_or(0, Directory::bytes);
        let rwlocks = self.rwlocks.as_ref().map_or(0, Directory::bytes);
        spinlocks.saturating_add(rwlocks)
    }

    /// Whether a slot's own lock is what counts.
    pub(crate) fn are_own(&self) -> bool {
        matches!(self.scheme, Scheme::Cas | Scheme::SlotBit)
    }

    /// Whether a slot may be looked at without a lock.
    #[inline]
    pub(crate) fn let_look(&self) -> bool {
        self.scheme == Scheme::Cas
    }

    /// Begins a write. May sleep.
    #[inline]
    pub(crate) fn begin_write(&self) -> Writing<'_> {
        match self.scheme {
            Scheme::Semaphore => Writing::Semaphore {
                _held: self.whole.semaphore.write(),
            },
            Scheme::RwlockMutex => Writing::Mutex {
                _held: self.whole.as_ref().get_ref().compressing.lock(),
            },
            _ => Writing::Nothing,
        }
    }

    /// To find the locks of blocks that are near each other.
    #[inline]
    pub(crate) fn walk(&self) -> Walk<'_> {
        Walk {
            locks: self,
            spinlocks: self.spinlocks.as_ref().map(Directory::walk),
            rwlocks: self.rwlocks.as_ref().map(Directory::walk),
        }
    }

    /// The lock, if it is the same for all slots.
    #[inline]
    fn common(&self) -> Lock<'_> {
        match self.scheme {
            Scheme::Semaphore => Lock::Semaphore(&self.whole.semaphore),
            Scheme::RwlockMutex | Scheme::Rwlock => Lock::Rwlock(&self.whole.rwlock),
            Scheme::SlotBit => Lock::Bit,
            Scheme::Cas | Scheme::SlotSpinlock | Scheme::SlotRwlock => Lock::Own,
        }
    }
}

/// Finds the locks of slots.
pub(crate) struct Walk<'a> {
    locks: &'a Locks,
    spinlocks: Option<directory::Walk<'a, SpinLock>>,
    rwlocks: Option<directory::Walk<'a, RwLock>>,
}

impl<'a> Walk<'a> {
    /// The lock of a block; there is one if the block has a slot.
    #[inline]
    pub(crate) fn get(&mut self, index: u64) -> Option<Lock<'a>> {
        if let Some(walk) = &mut self.spinlocks {
            return walk.get(index).map(Lock::Spinlock);
        }
        if let Some(walk) = &mut self.rwlocks {
            return walk.get(index).map(Lock::Rwlock);
        }
        Some(self.locks.common())
    }

    /// The same, with the memory for it. To be called before the slot is made. May sleep.
    #[inline]
    pub(crate) fn get_or_alloc(&mut self, index: u64) -> Result<Lock<'a>> {
        if let Some(walk) = &mut self.spinlocks {
            return walk.get_or_alloc(index).map(Lock::Spinlock);
        }
        if let Some(walk) = &mut self.rwlocks {
            return walk.get_or_alloc(index).map(Lock::Rwlock);
        }
        Ok(self.locks.common())
    }
}
