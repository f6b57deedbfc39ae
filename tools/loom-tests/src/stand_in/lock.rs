// SPDX-License-Identifier: GPL-2.0

//! `kernel::sync::{Mutex, CondVar}` on loom's primitives.
//!
//! There is no time: a thread of the test plays the timer, or sends the signal, so that loom puts it at any moment.

use crate::time::Jiffies;
use loom::sync::{Arc, Condvar};
use pinned_init::{init_from_closure, PinInit};
use std::convert::Infallible;
use std::ops::{Deref, DerefMut};

/// A mutex; nobody panics while it is locked, so it is not poisoned either.
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(inner: T) -> impl PinInit<Self> {
        value(move || Self(loom::sync::Mutex::new(inner)))
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        Guard {
            mutex: self,
            held: Some(self.0.lock().unwrap()),
        }
    }
}

fn value<T>(make: impl FnOnce() -> T) -> impl PinInit<T> {
    // SAFETY: `slot` is valid for writes, and initialised afterwards. Nothing in here has to stay where it is.
    unsafe {
        init_from_closure(move |slot: *mut T| {
            slot.write(make());
            Ok::<(), Infallible>(())
        })
    }
}

/// The lock of a mutex.
pub(crate) struct Guard<'a, T> {
    mutex: &'a Mutex<T>,
    /// `None` while this sleeps.
    held: Option<loom::sync::MutexGuard<'a, T>>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().unwrap()
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().unwrap()
    }
}

/// How a sleep ended.
pub(crate) enum CondVarTimeoutResult {
    Timeout,
    Woken {
        jiffies: Jiffies,
    },
    Signal {
        #[expect(dead_code, reason = "the module does not look at it")]
        jiffies: Jiffies,
    },
}

/// A condition variable. They all share their queue, [`World::queue`].
pub(crate) struct CondVar(());

impl CondVar {
    pub(crate) fn new() -> impl PinInit<Self> {
        value(|| Self(()))
    }

    /// As in the kernel, the sleeper queues before the mutex is let go of, a notification takes it off the queue, and a
    /// timer that has run out counts even where a notification came as well.
    pub(crate) fn wait_interruptible_timeout<T>(
        &self,
        guard: &mut Guard<'_, T>,
        jiffies: Jiffies,
    ) -> CondVarTimeoutResult {
        let sleeper = Arc::new(Condvar::new());
        {
            let mut world = WORLD.lock().unwrap();
            world.patience.push(jiffies);
            world.queue.push(sleeper.clone());
        }
        guard.held = None;
        let result = {
            let mut world = WORLD.lock().unwrap();
            while world.queued(&sleeper) && !world.expired && !world.signalled {
                world = sleeper.wait(world).unwrap();
            }
            world.queue.retain(|other| !Arc::ptr_eq(other, &sleeper));
            match (world.signalled, world.expired) {
                (true, _) => CondVarTimeoutResult::Signal { jiffies },
                (false, true) => CondVarTimeoutResult::Timeout,
                (false, false) => CondVarTimeoutResult::Woken {
                    jiffies: jiffies - 1,
                },
            }
        };
        guard.held = Some(guard.mutex.0.lock().unwrap());
        result
    }

    pub(crate) fn notify_all(&self) {
        notify_all();
    }
}

/// What happens outside of the threads that are tested.
#[derive(Default)]
struct World {
    queue: Vec<Arc<Condvar>>,
    expired: bool,
    signalled: bool,
    /// How long each sleep was to last at most.
    patience: Vec<Jiffies>,
}

impl World {
    fn queued(&self, sleeper: &Arc<Condvar>) -> bool {
        self.queue.iter().any(|other| Arc::ptr_eq(other, sleeper))
    }
}

loom::lazy_static! {
    static ref WORLD: loom::sync::Mutex<World> = loom::sync::Mutex::new(World::default());
}

/// Wakes all sleepers, as a notification does.
pub(crate) fn notify_all() {
    for sleeper in WORLD.lock().unwrap().queue.drain(..) {
        sleeper.notify_one();
    }
}

fn happen(change: impl FnOnce(&mut World)) {
    let mut world = WORLD.lock().unwrap();
    change(&mut world);
    for sleeper in &world.queue {
        sleeper.notify_one();
    }
}

/// The timer of whoever sleeps, or is going to, runs out.
pub(crate) fn expire() {
    happen(|world| world.expired = true);
}

/// Whoever sleeps, or is going to, has a signal.
pub(crate) fn signal() {
    happen(|world| world.signalled = true);
}

/// How many have queued to sleep so far, and for how long each wanted to sleep at most.
pub(crate) fn patience() -> Vec<Jiffies> {
    WORLD.lock().unwrap().patience.clone()
}
