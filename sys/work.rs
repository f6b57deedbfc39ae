// SPDX-License-Identifier: GPL-2.0

//! Doing something in other threads: the kernel's workers.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use core::{
    pin::Pin,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    prelude::*,
    static_lock_class,
    sync::Arc,
    task::Task,
    types::{
        NotThreadSafe,
        Opaque, //
    }, //
};

/// Workers for what somebody waits for: they come before other threads, and one of them is there however short memory is.
///
/// # Invariants
///
/// A workqueue of our own.
pub(crate) struct Urgent(NonNull<bindings::workqueue_struct>);

// SAFETY: A workqueue locks for itself.
unsafe impl Send for Urgent {}
// SAFETY: As above.
unsafe impl Sync for Urgent {}

impl Urgent {
    /// Has the kernel keep such workers ready. May sleep.
    pub(crate) fn new(name: &CStr) -> Result<Arc<Self>> {
        // Not any CPU's: who waits gives way to the worker, on its own CPU, where no other one has to be woken up.
        const FLAGS: u32 = bindings::wq_flags_WQ_HIGHPRI
            | bindings::wq_flags_WQ_MEM_RECLAIM
            | bindings::wq_flags_WQ_PERCPU;
        // SAFETY: `name` is a C string without conversions, so no more arguments are read.
        let queue = unsafe { bindings::alloc_workqueue_noprof(name.as_char_ptr(), FLAGS, 0) };
        // INVARIANT: Just made.
        let this = Self(NonNull::new(queue).ok_or(ENOMEM)?);
        Ok(Arc::new(this, GFP_KERNEL)?)
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; who queues anything there keeps this alive until that is done.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) };
    }
}

/// What an item calls.
pub(super) type Function = unsafe extern "C" fn(*mut bindings::work_struct);

/// A piece of work that can be queued again and again, together with what it is about.
///
/// # Invariants
///
/// `work` is initialised with the function that was given to [`Item::new`].
#[pin_data(PinnedDrop)]
pub(super) struct Item<T> {
    #[pin]
    work: Opaque<bindings::work_struct>,
    subject: T,
}

// SAFETY: The workqueue locks for itself.
unsafe impl<T: Send> Send for Item<T> {}
// SAFETY: As above.
unsafe impl<T: Sync> Sync for Item<T> {}

impl<T> Item<T> {
    /// An item that is not queued, which will call `function` with the address of its work, from which [`Item::subject`]
    /// tells what it is about.
    pub(super) fn new(function: Function, subject: T) -> impl PinInit<Self, Error> {
        pin_init!(Self {
            subject,
            // SAFETY: The slot is pinned memory for a work; name and key are static.
            work <- Opaque::ffi_init(|slot| unsafe {
                bindings::init_work_with_key(
                    slot,
                    Some(function),
                    false,
                    c"rzram".as_char_ptr(),
                    static_lock_class!().as_ptr(),
                )
            }),
        }? Error)
    }

    /// What the item is about.
    ///
    /// # Safety
    ///
    /// `work` is what an item of this type calls its function with; the result is not used after the function returns.
    pub(super) unsafe fn subject<'a>(work: *mut bindings::work_struct) -> &'a T {
        // SAFETY: By the safety requirements of this function.
        let this = unsafe { kernel::container_of!(Opaque::cast_from(work), Self, work) };
        // SAFETY: As above; the item waits for its work when it is dropped.
        unsafe { &(*this).subject }
    }

    /// What the item is about, for who has the item.
    pub(super) fn about(&self) -> &T {
        &self.subject
    }

    /// Has a worker call the function, soon; does nothing if that is under way already. Any context.
    ///
    /// # Safety
    ///
    /// What the function does is allowed until [`Item::wait`] returns, and `among` is not dropped before.
    pub(super) unsafe fn queue(&self, among: Option<&Urgent>) {
        let queue = match among {
            Some(urgent) => urgent.0.as_ptr(),
            // SAFETY: Set when the kernel starts, and not changed.
            None => unsafe { bindings::system_dfl_wq },
        };
        // SAFETY: By the type invariant; the queue is the kernel's, or lives by the safety requirements of this function.
        unsafe {
            bindings::queue_work_on(
                bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
                queue,
                self.work.get(),
            )
        };
    }

    /// Waits until the function has been called as often as it was asked for. May sleep.
    pub(super) fn wait(&self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::flush_work(self.work.get()) };
    }
}

#[pinned_drop]
impl<T> PinnedDrop for Item<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant.
        unsafe { bindings::cancel_work_sync(self.work.get()) };
    }
}

/// Keeps this thread's allocations from starting I/O, as long as it lives: they may be made while a slot is locked, or on
/// behalf of somebody who waits for memory.
pub(super) struct NoIo {
    before: u32,
    _this_thread: NotThreadSafe,
}

impl NoIo {
    /// From now on.
    pub(super) fn begin() -> Self {
        let task = Task::current_raw();
        // SAFETY: A thread's flags are changed by itself only; this is `memalloc_noio_save()`.
        let before = unsafe { (*task).flags } & bindings::PF_MEMALLOC_NOIO;
        // SAFETY: As above.
        unsafe { (*task).flags |= bindings::PF_MEMALLOC_NOIO };
        Self {
            before,
            _this_thread: NotThreadSafe,
        }
    }
}

impl Drop for NoIo {
    fn drop(&mut self) {
        let task = Task::current_raw();
        // SAFETY: As in `begin()`; this is `memalloc_noio_restore()`, in the same thread.
        unsafe { (*task).flags = (*task).flags & !bindings::PF_MEMALLOC_NOIO | self.before };
    }
}

/// More threads than this do not make any device faster.
const MOST_WORKERS: usize = 64;

/// A function of the caller's, for the workers that run it while the caller waits.
struct Shared<'a>(&'a (dyn Fn() + Sync));

/// # Safety
///
/// Called for an item of [`parallel`].
unsafe extern "C" fn run(work: *mut bindings::work_struct) {
    // SAFETY: By the safety requirements of this function. `parallel()` waits for us to return.
    (unsafe { Item::<Shared<'_>>::subject(work) }.0)();
}

/// Runs `f` in up to `workers` threads at once, and returns when all have returned; in fewer if there is no memory for them.
/// One is the caller's own: only that one has signals. May sleep.
pub(crate) fn parallel(workers: usize, f: &(dyn Fn() + Sync)) {
    let others = workers.min(MOST_WORKERS).saturating_sub(1);
    let items = KBox::pin_slice(
        |_| Item::new(run, Shared(f)),
        others,
        GFP_KERNEL | __GFP_NOWARN,
    );
    let items = items.as_deref().unwrap_or(&[]);
    for item in items {
        // SAFETY: `f` can be called from any thread, and outlives the wait below.
        unsafe { item.queue(None) };
    }
    f();
    items.iter().for_each(Item::wait);
}
