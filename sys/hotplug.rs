// SPDX-License-Identifier: GPL-2.0

//! Being told of CPUs that come and go.
//!
//! C header: [`include/linux/cpuhotplug.h`](srctree/include/linux/cpuhotplug.h)

use core::{
    marker::PhantomData,
    pin::Pin, //
};
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

/// What has something for each CPU.
pub(crate) trait PerCpu: Send + Sync {
    /// A CPU is about to come up, or is up already when the instance is registered. May sleep.
    fn prepare(&self, cpu: u32) -> Result;

    /// A CPU is gone, or the instance is being unregistered. May sleep.
    fn dead(&self, cpu: u32);
}

/// A place in the sequence of what happens when a CPU comes up, for all instances of `T`.
pub(crate) struct State<T> {
    number: bindings::cpuhp_state,
    _instances: PhantomData<fn(T)>,
}

impl<T: PerCpu> State<T> {
    /// Takes a place. May sleep.
    pub(crate) fn register(name: &'static CStr) -> Result<Self> {
        type Multi = unsafe extern "C" fn(c_uint, *mut bindings::hlist_node) -> c_int;
        type Single = unsafe extern "C" fn(c_uint) -> c_int;
        let prepare: Multi = prepare::<T>;
        let dead: Multi = dead::<T>;
        // SAFETY: C's prototype has the type of a single-instance callback, and C itself casts here
        // (`cpuhp_setup_state_multi()`): what is called is decided by the last argument.
        let (prepare, dead) = unsafe {
            (
                core::mem::transmute::<Multi, Single>(prepare),
                core::mem::transmute::<Multi, Single>(dead),
            )
        };
        // SAFETY: The callbacks fit instances of `T`, and the name is static.
        let number = unsafe {
            bindings::__cpuhp_setup_state(
                bindings::cpuhp_state_CPUHP_BP_PREPARE_DYN,
                name.as_char_ptr(),
                false,
                Some(prepare),
                Some(dead),
                true,
            )
        };
        to_result(number)?;
        Ok(Self {
            // CAST: A state's number, not negative.
            number: number as bindings::cpuhp_state,
            _instances: PhantomData,
        })
    }
}

impl<T> Drop for State<T> {
    fn drop(&mut self) {
        // SAFETY: Registered above; no instance is left, since each holds a reference to `self`.
        unsafe { bindings::__cpuhp_remove_state(self.number, false) };
    }
}

/// A `T` that is told of CPUs.
///
/// # Invariants
///
/// `node` is on the list of `state`, from the end of [`Instance::new`] on.
#[pin_data(PinnedDrop)]
pub(crate) struct Instance<T: PerCpu> {
    #[pin]
    node: Opaque<bindings::hlist_node>,
    #[pin]
    data: T,
    state: Arc<State<T>>,
}

// SAFETY: The node is used by the hotplug core only, under its lock.
unsafe impl<T: PerCpu> Send for Instance<T> {}
// SAFETY: As above.
unsafe impl<T: PerCpu> Sync for Instance<T> {}

impl<T: PerCpu> Instance<T> {
    /// Registers `data`, after [`PerCpu::prepare`] for each CPU that is up. May sleep.
    pub(crate) fn new(
        state: Arc<State<T>>,
        data: impl PinInit<T, Error>,
    ) -> Result<Pin<KBox<Self>>> {
        let number = state.number;
        // INVARIANT: Not on the list yet. If adding it fails, `remove_instance` in `drop` would be wrong, so the box is
        // taken apart below.
        let this = KBox::pin_init(
            pin_init!(Self {
                node: Opaque::zeroed(),
                data <- data,
                state,
            }? Error),
            GFP_KERNEL,
        )?;
        // SAFETY: The node is zeroed, pinned, and lives until it is removed.
        let ret = unsafe { bindings::__cpuhp_state_add_instance(number, this.node.get(), true) };
        to_result(ret)?;
        Ok(this)
    }
}

impl<T: PerCpu> core::ops::Deref for Instance<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.data
    }
}

#[pinned_drop]
impl<T: PerCpu> PinnedDrop for Instance<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The node is ours. `pprev` is NULL as long as it is on no list, which the core does not change for an
        // instance that it refused.
        if unsafe { !(*self.node.get()).pprev.is_null() } {
            // SAFETY: On the list of this state. Calls `dead()` for each CPU that is up.
            unsafe {
                bindings::__cpuhp_state_remove_instance(self.state.number, self.node.get(), true)
            };
        }
    }
}

/// # Safety
///
/// Called by the hotplug core with the node of an `Instance<T>`.
unsafe extern "C" fn prepare<T: PerCpu>(cpu: c_uint, node: *mut bindings::hlist_node) -> c_int {
    // SAFETY: By the safety requirements of this function.
    let this = unsafe { &*kernel::container_of!(Opaque::cast_from(node), Instance<T>, node) };
    match this.data.prepare(cpu) {
        Ok(()) => 0,
        Err(e) => e.to_errno(),
    }
}

/// # Safety
///
/// As [`prepare`].
unsafe extern "C" fn dead<T: PerCpu>(cpu: c_uint, node: *mut bindings::hlist_node) -> c_int {
    // SAFETY: By the safety requirements of this function.
    let this = unsafe { &*kernel::container_of!(Opaque::cast_from(node), Instance<T>, node) };
    this.data.dead(cpu);
    0
}

/// Number of CPUs that are up now.
pub(crate) fn online_cpus() -> u32 {
    // SAFETY: A counter of the kernel's, read as `num_online_cpus()` reads it.
    let count = unsafe {
        kernel::sync::atomic::atomic_load(
            (&raw mut bindings::__num_online_cpus).cast::<i32>(),
            kernel::sync::atomic::Relaxed,
        )
    };
    u32::try_from(count).unwrap_or(1).max(1)
}
