// SPDX-License-Identifier: GPL-2.0

//! A disk that handles its bios itself.
//!
//! The block layer calls [`Operations`], which the driver implements; each call carries what it proves about the state of
//! the disk (see `published.rs`).
//!
//! C header: [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h)

mod claim;

pub(crate) use claim::Claim;

use super::{
    attr::Table,
    bio::Bio,
    deferred::{
        Deferred,
        Subject, //
    },
    ffi,
    openers::Openers,
    page::BLOCK_SIZE,
    published::InUse,
    work::{
        Item,
        NoIo,
        Urgent, //
    }, //
};
use core::{
    fmt::Write,
    ops::Deref,
    pin::Pin,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    bindings,
    error::{
        from_err_ptr,
        to_result, //
    },
    fmt,
    module::this_module,
    page::PAGE_SIZE,
    prelude::*,
    static_lock_class,
    str::NullTerminatedFormatter,
    sync::{
        atomic::{
            Atomic,
            Full, //
        },
        Arc, //
    },
    time::Jiffies,
    types::ScopeGuard, //
};

/// What the driver does for a disk.
pub(crate) trait Operations: Send + Sync + Sized + 'static {
    /// Carries out `bio`, or says that it must be done by [`Operations::submit_deferred`]. May sleep, on behalf of whoever
    /// submitted it, who may be reclaiming memory; must not wait for another device.
    fn submit(disk: &Disk<Self>, bio: &mut Bio<'_>, in_use: &InUse) -> Progress;

    /// Carries out `bio` in a worker, where it may wait for other devices. May sleep.
    fn submit_deferred(disk: &Disk<Self>, bio: &mut Bio<'_>, in_use: &InUse);

    /// Swap no longer needs what is stored at `offset`, in bytes, for a page. Atomic context, with swap's locks held.
    fn swap_freed(disk: &Disk<Self>, offset: u64, in_use: &InUse);
}

/// How far a bio has come.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use = "a deferred bio is not done"]
pub(crate) enum Progress {
    /// It can be completed.
    Done,
    /// It has to wait for another device, and has had no effect yet.
    Deferred,
}

/// A major number for block devices.
pub(crate) struct Major {
    number: c_int,
    name: &'static CStr,
}

impl Major {
    /// Has the kernel choose a number.
    pub(crate) fn register(name: &'static CStr) -> Result<Self> {
        // SAFETY: `name` is a static C string; no probe function.
        let number = unsafe { bindings::__register_blkdev(0, name.as_char_ptr(), None) };
        to_result(number)?;
        Ok(Self { number, name })
    }
}

impl Drop for Major {
    fn drop(&mut self) {
        // SAFETY: Registered in `register()`.
        unsafe { bindings::unregister_blkdev(self.number as c_uint, self.name.as_char_ptr()) };
    }
}

/// A disk, with the driver's data for it.
///
/// # Invariants
///
/// - `ptr` is a gendisk that we hold the first reference to, and whose `private_data` is the address of this object.
/// - It is registered from the end of [`Disk::add`] until `removed` is set.
#[pin_data(PinnedDrop)]
pub(crate) struct Disk<T: Operations> {
    ptr: NonNull<bindings::gendisk>,
    removed: Atomic<bool>,
    #[pin]
    openers: Openers,
    #[pin]
    deferred: Deferred,
    #[pin]
    data: T,
}

// SAFETY: The block layer locks for itself; the rest of the fields may be used from any thread.
unsafe impl<T: Operations> Send for Disk<T> {}
// SAFETY: As above.
unsafe impl<T: Operations> Sync for Disk<T> {}

impl<T: Operations> Deref for Disk<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.data
    }
}

/// The attributes of a kind of disk: see `attr.rs`.
pub(crate) type Groups = &'static Table<[*const bindings::attribute_group; 2]>;

impl<T: Operations> Disk<T> {
    /// Makes an empty disk called `name`, with minor number `minor`, and adds it to the system. May sleep.
    pub(crate) fn add(
        major: &Major,
        minor: u32,
        name: fmt::Arguments<'_>,
        groups: Groups,
        workers: Arc<Urgent>,
        data: impl PinInit<T, Error>,
    ) -> Result<Arc<Self>> {
        let mut lim: bindings::queue_limits = pin_init::zeroed();
        lim.logical_block_size = BLOCK_SIZE as u32;
        lim.physical_block_size = PAGE_SIZE as u32;
        lim.io_min = PAGE_SIZE as u32;
        lim.io_opt = PAGE_SIZE as u32;
        lim.max_hw_discard_sectors = u32::MAX;
        lim.max_write_zeroes_sectors = u32::MAX;
        lim.features = ffi::RZRAM_BLK_FEATURES;

        // SAFETY: `lim` is filled in; the lock class is static.
        let ptr = from_err_ptr(unsafe {
            bindings::__blk_alloc_disk(
                &mut lim,
                bindings::NUMA_NO_NODE,
                static_lock_class!().as_ptr(),
            )
        })?;
        let undo = ScopeGuard::new(move || {
            // SAFETY: Allocated above, and not added.
            unsafe { bindings::put_disk(ptr) };
        });
        // SAFETY: The disk is ours alone until it is added.
        let gendisk = unsafe { &mut *ptr };
        gendisk.major = major.number;
        gendisk.first_minor = c_int::try_from(minor)?;
        gendisk.minors = 1;
        gendisk.flags |= bindings::GENHD_FL_NO_PART as c_int;
        gendisk.fops = &Vtable::<T>::OPS;
        NullTerminatedFormatter::new(&mut gendisk.disk_name)
            .ok_or(EINVAL)?
            .write_fmt(name)?;

        let owned = NonNull::new(ptr).ok_or(ENOMEM)?;
        // INVARIANT: Not registered yet, so `removed`. From here on, dropping the object puts the disk.
        let disk = Arc::pin_init(
            pin_init!(Self {
                ptr: owned,
                removed: Atomic::new(true),
                openers <- Openers::new(),
                deferred <- Deferred::new(Vtable::<T>::work, owned, workers),
                data <- data,
            }? Error),
            GFP_KERNEL,
        )?;
        undo.dismiss();
        // INVARIANT: The object is pinned in its `Arc`.
        gendisk.private_data = ptr::from_ref::<Self>(&disk).cast_mut().cast();

        // SAFETY: The disk is ready; `groups` is a static, NULL-terminated array of static groups.
        to_result(unsafe {
            bindings::device_add_disk(ptr::null_mut(), ptr, groups.0.as_ptr().cast_mut())
        })?;
        disk.removed.xchg(false, Full);
        Ok(disk)
    }

    /// # Safety
    ///
    /// `gendisk` is one that [`Disk::add`] made for the same `T`, and is still registered, or being added or removed.
    unsafe fn from_gendisk<'a>(gendisk: *mut bindings::gendisk) -> &'a Self {
        // SAFETY: By the type invariant. The object outlives the registration.
        unsafe { &*(*gendisk).private_data.cast::<Self>() }
    }

    /// # Safety
    ///
    /// `dev` is the device of such a disk, as in [`Disk::from_gendisk`].
    pub(super) unsafe fn from_device<'a>(dev: *mut bindings::device) -> &'a Self {
        // SAFETY: The devices of disks are embedded in their block devices.
        let bdev = unsafe { kernel::container_of!(dev, bindings::block_device, bd_device) };
        // SAFETY: By the safety requirements of this function.
        unsafe { Self::from_gendisk((*bdev).bd_disk) }
    }

    fn part0(&self) -> *mut bindings::block_device {
        // SAFETY: By the type invariant; `part0` is set as long as the disk lives.
        unsafe { (*self.ptr.as_ptr()).part0 }
    }

    /// The name of the disk.
    pub(crate) fn name(&self) -> &CStr {
        // SAFETY: By the type invariant; the name ends with a NUL, and does not change once the disk is made.
        unsafe { CStr::from_char_ptr((&raw const (*self.ptr.as_ptr()).disk_name).cast()) }
    }

    /// Changes the size, in sectors of 512 bytes, and tells user space. May sleep.
    pub(crate) fn set_capacity(&self, sectors: u64) {
        // SAFETY: By the type invariant.
        unsafe { bindings::set_capacity_and_notify(self.ptr.as_ptr(), sectors) };
    }

    /// Whether somebody uses the disk exclusively, as a mounted file system or a swap area.
    pub(crate) fn is_held(&self) -> bool {
        // SAFETY: By the type invariant. The value is a hint: no more than a comparison is made with it.
        unsafe {
            !(&raw const (*self.part0()).bd_holder)
                .read_volatile()
                .is_null()
        }
    }

    /// Claims the disk: nobody has it open, and nobody can open it, as long as the result lives. May sleep.
    ///
    /// Openers are waited for, for at most `patience`; `EBUSY` if they stay, `EINTR` on a signal.
    pub(crate) fn claim(&self, patience: Jiffies) -> Result<Claim<'_, T>> {
        self.openers.claim(patience)?;
        // INVARIANT: Just claimed.
        Ok(Claim(self))
    }
}

impl<T: Operations> Disk<T> {
    fn remove(&self) {
        if !self.removed.xchg(true, Full) {
            // SAFETY: By the type invariant it is registered, and will not be again.
            unsafe { bindings::del_gendisk(self.ptr.as_ptr()) };
        }
        // They look at the gendisk, if only to find that there is nothing to do.
        self.deferred.wait();
    }
}

#[pinned_drop]
impl<T: Operations> PinnedDrop for Disk<T> {
    fn drop(self: Pin<&mut Self>) {
        self.remove();
        // SAFETY: By the type invariant this is our reference.
        unsafe { bindings::put_disk(self.ptr.as_ptr()) };
    }
}

struct Vtable<T>(T);

impl<T: Operations> Vtable<T> {
    const OPS: bindings::block_device_operations = bindings::block_device_operations {
        submit_bio: Some(Self::submit_bio),
        open: Some(Self::open),
        release: Some(Self::release),
        swap_slot_free_notify: Some(Self::swap_slot_free_notify),
        owner: this_module::<crate::LocalModule>().as_ptr(),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// Called by the block layer with a live bio for one of our disks, which then belongs to us, between entering and
    /// leaving the disk's queue.
    unsafe extern "C" fn submit_bio(bio: *mut bindings::bio) {
        // SAFETY: Freezing the queue waits for this function to return (see `Claim::idle()`).
        let in_use = unsafe { InUse::new() };
        // SAFETY: The bio has the block device that it was submitted to.
        let disk = unsafe { Disk::<T>::from_gendisk((*(*bio).bi_bdev).bd_disk) };
        if let Some(bio) = NonNull::new(bio) {
            // SAFETY: By the safety requirements of this function.
            let mut bio = unsafe { Bio::new(bio, &in_use) };
            if T::submit(disk, &mut bio, &in_use) == Progress::Deferred {
                // SAFETY: The bio is ours. The disk stays as it is until the workers are done (see `Claim::idle()`): whoever
                // submitted the bio keeps the disk open until it is completed.
                unsafe { disk.deferred.push(bio.into_raw()) };
            }
        }
    }

    /// # Safety
    ///
    /// Called for an item of a disk's [`Deferred`].
    unsafe extern "C" fn work(work: *mut bindings::work_struct) {
        // SAFETY: By the safety requirements of this function.
        let subject = unsafe { Item::<Subject>::subject(work) };
        // SAFETY: Bios are deferred only while the disk is registered.
        let disk = unsafe { Disk::<T>::from_gendisk(subject.gendisk.as_ptr()) };
        // SAFETY: `Claim::idle()` waits for this function to return.
        let in_use = unsafe { InUse::new() };
        // Memory is not to be waited for by way of this very disk.
        let _no_io = NoIo::begin();
        subject.set_busy(true);
        while let Some(bio) = disk.deferred.pop() {
            // SAFETY: Taken from the list, so it is ours; it was passed to `submit_bio()`.
            let mut bio = unsafe { Bio::new(bio, &in_use) };
            T::submit_deferred(disk, &mut bio, &in_use);
        }
        subject.set_busy(false);
    }

    /// # Safety
    ///
    /// Called by the block layer, with `open_mutex` held, for one of our disks.
    unsafe extern "C" fn open(
        gendisk: *mut bindings::gendisk,
        _mode: bindings::blk_mode_t,
    ) -> c_int {
        // SAFETY: By the safety requirements of this function.
        match unsafe { Disk::<T>::from_gendisk(gendisk) }.openers.open() {
            Ok(()) => 0,
            Err(e) => e.to_errno(),
        }
    }

    /// # Safety
    ///
    /// As [`Self::open`], once for each successful call of it.
    unsafe extern "C" fn release(gendisk: *mut bindings::gendisk) {
        // SAFETY: By the safety requirements of this function.
        unsafe { Disk::<T>::from_gendisk(gendisk) }
            .openers
            .release();
    }

    /// # Safety
    ///
    /// Called by swap for one of our disks, which it has open.
    unsafe extern "C" fn swap_slot_free_notify(bdev: *mut bindings::block_device, page: c_ulong) {
        // SAFETY: Swap has the disk open, so it cannot be claimed, and only a claimed disk gets idle.
        let in_use = unsafe { InUse::new() };
        // SAFETY: By the safety requirements of this function.
        let disk = unsafe { Disk::<T>::from_gendisk((*bdev).bd_disk) };
        T::swap_freed(disk, (page as u64).wrapping_mul(PAGE_SIZE as u64), &in_use);
    }
}
