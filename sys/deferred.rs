// SPDX-License-Identifier: GPL-2.0

//! Bios that wait for a worker.
//!
//! A bio that has to wait for another device cannot be carried out where it is submitted: what is submitted from there is
//! held back until the submission returns. Such bios queue here, linked through themselves, so that nothing has to be
//! allocated for them.

use super::work::{
    Function,
    Item,
    Urgent, //
};
use core::{
    pin::Pin,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    bindings,
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        SpinLock, //
    }, //
};

/// How many of a disk's bios are carried out at once.
pub(crate) const WORKERS: usize = 8;

/// Bios, first come, first served.
///
/// # Invariants
///
/// `head` is NULL, or the first of a list linked through `bi_next` whose last is `tail`; the bios belong to the list.
struct List {
    head: *mut bindings::bio,
    tail: *mut bindings::bio,
}

// SAFETY: Owns the bios.
unsafe impl Send for List {}

/// The gendisk whose bios an item carries out.
pub(super) struct Subject {
    pub(super) gendisk: NonNull<bindings::gendisk>,
    /// Whether the item is at it.
    busy: Atomic<bool>,
}

impl Subject {
    /// The item begins, or is done.
    pub(super) fn set_busy(&self, busy: bool) {
        self.busy.store(busy, Relaxed);
    }
}

// SAFETY: Only the address is kept here.
unsafe impl Send for Subject {}
// SAFETY: As above.
unsafe impl Sync for Subject {}

/// The bios of a disk that wait for a worker.
#[pin_data]
pub(super) struct Deferred {
    #[pin]
    list: SpinLock<List>,
    items: Pin<KBox<[Item<Subject>]>>,
    workers: Arc<Urgent>,
    next: Atomic<u32>,
}

impl Deferred {
    /// No bios. `workers` call `function`, from whose argument `Item::<Subject>::subject` finds `gendisk`. May sleep.
    pub(super) fn new(
        function: Function,
        gendisk: NonNull<bindings::gendisk>,
        workers: Arc<Urgent>,
    ) -> impl PinInit<Self, Error> {
        pin_init!(Self {
            items: KBox::pin_slice(
                |_| {
                    let busy = Atomic::new(false);
                    Item::new(function, Subject { gendisk, busy })
                },
                WORKERS,
                GFP_KERNEL,
            )?,
            list <- new_spinlock!(List {
                head: ptr::null_mut(),
                tail: ptr::null_mut(),
            }, "rzram_deferred"),
            workers,
            next: Atomic::new(0),
        }? Error)
    }

    /// Leaves `bio` to a worker.
    ///
    /// # Safety
    ///
    /// The bio is live and the caller's, who gives it up. What the function does with it is allowed until [`Deferred::wait`]
    /// returns.
    pub(super) unsafe fn push(&self, bio: NonNull<bindings::bio>) {
        let bio = bio.as_ptr();
        {
            let mut list = self.list.lock();
            // SAFETY: By the safety requirements of this function.
            unsafe { (*bio).bi_next = ptr::null_mut() };
            if list.head.is_null() {
                list.head = bio;
            } else {
                // SAFETY: By the type invariant of the list.
                unsafe { (*list.tail).bi_next = bio };
            }
            // INVARIANT: Linked behind the last one.
            list.tail = bio;
        }
        // One that is at it may be waiting for a device for long. If all are, whichever is done first takes the bio.
        let turn = self.next.fetch_add(1u32, Relaxed) as usize % WORKERS;
        // They take turns, so that several bios at once do not all go to one that has not begun yet.
        let idle = Iterator::chain(turn..WORKERS, 0..turn)
            .filter_map(|index| self.items.get(index))
            .find(|item| !item.about().busy.load(Relaxed));
        if let Some(item) = idle.or(self.items.get(turn)) {
            // SAFETY: By the safety requirements of this function. The workers are ours, and dropping the items waits for them.
            unsafe { item.queue(Some(&self.workers)) };
        }
    }

    /// Takes the first bio, which belongs to the caller then.
    pub(super) fn pop(&self) -> Option<NonNull<bindings::bio>> {
        let mut list = self.list.lock();
        let bio = NonNull::new(list.head)?;
        // SAFETY: By the type invariant of the list.
        unsafe {
            // INVARIANT: The second is the first now.
            list.head = (*bio.as_ptr()).bi_next;
            (*bio.as_ptr()).bi_next = ptr::null_mut();
        }
        Some(bio)
    }

    /// Waits until the workers have carried out all bios. May sleep.
    pub(super) fn wait(&self) {
        self.items.iter().for_each(Item::wait);
    }
}
