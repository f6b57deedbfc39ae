// SPDX-License-Identifier: GPL-2.0

//! One slot: a 64-bit word that holds a lock bit and owns what the slot stores.
//!
//! The word, from bit 0:
//!
//! | bits | what |
//! |---|---|
//! | 1 | lock: somebody owns the content |
//! | 1 | waiters: somebody sleeps for the lock |
//! | 1 | free requested: whoever holds the lock empties the slot on letting go |
//! | 2 | what the body is: nothing (0), a value (1), an object of the pool (2), a value that names a place elsewhere (3) |
//! | 17 | the table's own bits (see `table::meta`), opaque here |
//! | 42 | the body: a value, or the packed handle of an object |
//!
//! An object's handle goes in by value and comes out by value, under the lock, so that it can be freed once only.
//!
//! # Locking
//!
//! Taking a free lock is one compare-and-exchange, and so is letting go. A busy lock is looked at a few times, then slept
//! for: the sleeper sets the waiters bit once it is queued, and only an unlock that finds that bit pays for waking. It wakes
//! all, who try again or announce themselves again, so the bit need not be kept for anybody.
//!
//! The waiters and free-requested bits are set only while the lock bit is.
//!
//! Lockdep cannot see a bit, so it is told, in kernels that have it, of each lock taken and let go of. That is why a guard
//! stays in the task that made it.

#[cfg(locking_lab)]
pub(crate) mod lab;

#[cfg(locking_lab)]
use super::directory::Directory;
#[cfg(CONFIG_LOCKDEP)]
use super::lockdep::Class;
use super::{
    directory::Entry,
    inline::{
        self,
        Side, //
    },
    waitbit,
    zsmalloc::{
        Handle,
        PackedHandle, //
    }, //
};
use core::marker::PhantomData;
use kernel::{
    processor::cpu_relax,
    sync::atomic::{
        Acquire,
        Atomic,
        Full,
        Relaxed, //
    }, //
};

const LOCK: u64 = 1 << 0;
const WAITERS: u64 = 1 << 1;
const FREE_REQUESTED: u64 = 1 << 2;
const LOCK_BITS: u64 = LOCK | WAITERS | FREE_REQUESTED;

const KIND_SHIFT: u32 = 3;
const KIND_MASK: u64 = 0x3;
const META_SHIFT: u32 = KIND_SHIFT + 2;
/// Bits that the table has for itself in each slot.
pub(crate) const META_BITS: u32 = 17;
const META_MASK: u64 = (1 << META_BITS) - 1;
const BODY_SHIFT: u32 = META_SHIFT + META_BITS;
/// Bits of a slot's body.
pub(crate) const BODY_BITS: u32 = u64::BITS - BODY_SHIFT;

const KIND_EMPTY: u64 = 0;
const KIND_VALUE: u64 = 1;
const KIND_OBJECT: u64 = 2;
const KIND_ELSEWHERE: u64 = 3;

const _: () = assert!(core::mem::size_of::<kernel::ffi::c_ulong>() == core::mem::size_of::<u64>());

/// What a slot stores, moved in and out by value.
#[derive(Debug)]
#[must_use = "an object that is dropped here is lost to the pool"]
pub(crate) enum Body {
    /// Nothing.
    Empty,
    /// A value of at most [`BODY_BITS`] bits.
    Value(u64),
    /// An object of the pool.
    Object(Handle),
    /// A value of at most [`BODY_BITS`] bits that names a place outside the pool.
    Elsewhere(u64),
}

/// What a slot stores, borrowed.
#[derive(Clone, Copy)]
pub(crate) enum View<'a> {
    /// Nothing.
    Empty,
    /// A plain value.
    Value(u64),
    /// An object of the pool.
    Object(PackedHandle<'a>),
    /// A value that names a place outside the pool.
    Elsewhere(u64),
}

impl Body {
    /// The same, borrowed.
    #[inline]
    pub(crate) fn view(&self) -> View<'_> {
        match self {
            Self::Empty => View::Empty,
            Self::Value(value) => View::Value(*value),
            Self::Object(handle) => View::Object(handle.borrow()),
            Self::Elsewhere(value) => View::Elsewhere(*value),
        }
    }
}

/// What slots belong to.
pub(crate) trait Owner {
    /// Somebody asked for a slot to be freed while it was locked, and now the lock is about to be let go of: this is what
    /// the slot stored. Called with the lock held. Any context.
    fn freed(&self, meta: u32, body: Body);

    /// What lockdep knows the locks of the slots by.
    #[cfg(CONFIG_LOCKDEP)]
    fn class(&self) -> &Class;
}

/// A slot as it was at one moment, without the lock: enough for what has no object.
#[derive(Clone, Copy)]
pub(crate) struct Snapshot(u64);

impl Snapshot {
    /// The value, if the slot held a plain one. What an object holds can be seen under the lock only.
    #[inline]
    pub(crate) fn value(self) -> Option<u64> {
        (kind(self.0) == KIND_VALUE).then_some(self.0 >> BODY_SHIFT)
    }

    /// Whether what the slot held was a place outside the pool.
    #[inline]
    pub(crate) fn is_elsewhere(self) -> bool {
        kind(self.0) == KIND_ELSEWHERE
    }

    /// Whether the slot held nothing.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        kind(self.0) == KIND_EMPTY
    }
}

#[inline]
const fn kind(word: u64) -> u64 {
    (word >> KIND_SHIFT) & KIND_MASK
}

/// One slot.
///
/// # Invariants
///
/// - A word of kind "object" owns the object whose handle it packs; that handle was moved in through [`Guard::replace`].
/// - `WAITERS` and `FREE_REQUESTED` are set only while `LOCK` is.
/// - All zeros is a valid, empty, unlocked slot.
#[repr(transparent)]
pub(crate) struct Slot(Atomic<u64>);

// SAFETY: By the type invariants; what a slot owns is freed by the table.
unsafe impl Entry for Slot {}

impl Slot {
    /// An empty, unlocked slot.
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// What the slot holds at this moment, without taking the lock.
    ///
    /// While the lock is held, this is what the slot held before. Any context.
    #[inline]
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot(inline::look_acquire(&self.0))
    }

    /// Takes the lock. May sleep.
    #[inline]
    pub(crate) fn lock<'a, O: Owner>(&'a self, owner: &'a O) -> Guard<'a, O> {
        #[cfg(CONFIG_DEBUG_ATOMIC_SLEEP)]
        kernel::task::might_sleep();
        #[cfg(CONFIG_LOCKDEP)]
        owner.class().acquired(false);
        match self.take(owner) {
            Some(guard) => guard,
            None => self.lock_contended(owner),
        }
    }

    /// Takes the lock if it is free. Any context.
    #[inline]
    pub(crate) fn try_lock<'a, O: Owner>(&'a self, owner: &'a O) -> Option<Guard<'a, O>> {
        let guard = self.take(owner)?;
        #[cfg(CONFIG_LOCKDEP)]
        owner.class().acquired(true);
        Some(guard)
    }

    /// Takes the lock if it is free, and leaves telling lockdep to the caller.
    #[inline]
    fn take<'a, O: Owner>(&'a self, owner: &'a O) -> Option<Guard<'a, O>> {
        let mut seen = inline::look(&self.0);
        while seen & LOCK == 0 {
            match inline::exchange(&self.0, seen, seen | LOCK, Side::Take) {
                Ok(()) => return Some(Guard::new(self, owner, seen | LOCK)),
                Err(now) => seen = now,
            }
        }
        None
    }

    #[cold]
    fn lock_contended<'a, O: Owner>(&'a self, owner: &'a O) -> Guard<'a, O> {
        for _ in 0..waitbit::SPINS {
            cpu_relax();
            if let Some(guard) = self.take(owner) {
                return guard;
            }
        }
        waitbit::wait_until(&self.0, || {
            let mut seen = self.0.load(Relaxed);
            loop {
                if seen & LOCK == 0 {
                    match self.0.cmpxchg(seen, seen | LOCK, Acquire) {
                        Ok(_) => return Some(Guard::new(self, owner, seen | LOCK)),
                        Err(now) => seen = now,
                    }
                } else {
                    match self.0.cmpxchg(seen, seen | WAITERS, Relaxed) {
                        Ok(_) => return None,
                        Err(now) => seen = now,
                    }
                }
            }
        })
    }

    /// Asks the current holder of the lock to empty the slot when it lets go. Any context.
    ///
    /// Returns `false`, with nothing done, if nobody holds the lock.
    pub(crate) fn request_free(&self) -> bool {
        let mut seen = self.0.load(Relaxed);
        while seen & LOCK != 0 {
            match self.0.cmpxchg(seen, seen | FREE_REQUESTED, Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Takes out what the slot stores, with exclusive access instead of the lock.
    pub(crate) fn get_mut_take(&mut self) -> (u32, Body) {
        let word = core::mem::replace(self.0.get_mut(), 0);
        (meta(word), unpack(word))
    }
}

#[inline]
fn meta(word: u64) -> u32 {
    // CAST: Masked to `META_BITS`, which is less than 32.
    ((word >> META_SHIFT) & META_MASK) as u32
}

/// Turns a word that owns its body into the body. The caller forgets the word.
#[inline]
fn unpack(word: u64) -> Body {
    let body = word >> BODY_SHIFT;
    match kind(word) {
        KIND_VALUE => Body::Value(body),
        // SAFETY: By the type invariant of `Slot`, the word owned this object, and the caller gives up the word.
        KIND_OBJECT => Body::Object(unsafe { Handle::from_packed(body) }),
        KIND_ELSEWHERE => Body::Elsewhere(body),
        _ => Body::Empty,
    }
}

#[inline]
fn pack(meta: u32, body: Body) -> u64 {
    let (kind, bits) = match body {
        Body::Empty => return 0,
        Body::Value(v) => (KIND_VALUE, v),
        Body::Object(h) => (KIND_OBJECT, h.into_packed()),
        Body::Elsewhere(v) => (KIND_ELSEWHERE, v),
    };
    kind << KIND_SHIFT | (u64::from(meta) & META_MASK) << META_SHIFT | bits << BODY_SHIFT
}

/// The lock of a slot, and with it the only way to what the slot stores.
#[must_use = "the lock is let go of at once when this is dropped"]
pub(crate) struct Guard<'a, O: Owner> {
    slot: &'a Slot,
    owner: &'a O,
    /// The word in memory as far as we know: others may set `WAITERS` and `FREE_REQUESTED`.
    seen: u64,
    /// The content that unlocking will store, without lock bits.
    ///
    /// # Invariants
    ///
    /// Owns the body, in place of the word in memory, for as long as the guard lives.
    content: u64,
    _in_this_task: PhantomData<*const ()>,
    /// Let go of last.
    #[cfg(locking_lab)]
    held: lab::Held<'a>,
}

impl<'a, O: Owner> Guard<'a, O> {
    #[inline]
    fn new(slot: &'a Slot, owner: &'a O, seen: u64) -> Self {
        // INVARIANT: We own the lock, hence the content.
        Self {
            slot,
            owner,
            seen,
            content: seen & !LOCK_BITS,
            _in_this_task: PhantomData,
            #[cfg(locking_lab)]
            held: lab::Held::Nothing,
        }
    }

    /// What the slot belongs to.
    #[inline]
    pub(crate) fn owner(&self) -> &'a O {
        self.owner
    }

    /// The table's own bits.
    #[inline]
    pub(crate) fn meta(&self) -> u32 {
        meta(self.content)
    }

    /// What the slot stores.
    #[inline]
    pub(crate) fn view(&self) -> View<'_> {
        let body = self.content >> BODY_SHIFT;
        match kind(self.content) {
            KIND_VALUE => View::Value(body),
            // SAFETY: By the type invariant the content owns this object while `self` is borrowed.
            KIND_OBJECT => View::Object(unsafe { PackedHandle::new(body) }),
            KIND_ELSEWHERE => View::Elsewhere(body),
            _ => View::Empty,
        }
    }

    /// Changes the table's own bits of a slot that is not empty.
    #[inline]
    pub(crate) fn set_meta(&mut self, meta: u32) {
        if kind(self.content) != KIND_EMPTY {
            self.content &= !(META_MASK << META_SHIFT);
            self.content |= (u64::from(meta) & META_MASK) << META_SHIFT;
        }
    }

    /// Puts `body` into the slot and returns what was there.
    ///
    /// Values have at most [`BODY_BITS`] bits; what is above is cut off.
    #[inline]
    pub(crate) fn replace(&mut self, meta: u32, body: Body) -> (u32, Body) {
        let old = core::mem::replace(&mut self.content, pack(meta, body));
        (self::meta(old), unpack(old))
    }

    #[cold]
    fn unlock_contended(&mut self) {
        // Full ordering: the cleared lock bit must be visible before the wait queue is looked at.
        while let Err(now) = self.slot.0.cmpxchg(self.seen, self.content, Full) {
            if now & FREE_REQUESTED != 0 && self.seen & FREE_REQUESTED == 0 {
                let (meta, body) = self.replace(0, Body::Empty);
                self.owner.freed(meta, body);
            }
            self.seen = now;
        }
        if self.seen & WAITERS != 0 {
            waitbit::wake_all(&self.slot.0);
        }
    }
}

impl<O: Owner> Drop for Guard<'_, O> {
    /// Lets go of the lock, and empties the slot if somebody asked for that meanwhile.
    #[inline]
    fn drop(&mut self) {
        #[cfg(CONFIG_LOCKDEP)]
        self.owner.class().released();
        #[cfg(locking_lab)]
        if self.stored_under_other_lock() {
            return;
        }
        let word = &self.slot.0;
        if inline::exchange(word, self.seen, self.content, Side::LetGo).is_err() {
            self.unlock_contended();
        }
    }
}
