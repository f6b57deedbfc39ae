// SPDX-License-Identifier: GPL-2.0

//! The pool that stored pages live in.
//!
//! C header: [`include/linux/zsmalloc.h`](srctree/include/linux/zsmalloc.h)

use super::{
    ffi,
    page::Source,
    slot::BODY_BITS, //
};
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    page::PAGE_SIZE,
    prelude::*, //
};

/// A handle is the address of a slab object of pointer size, so its three lowest bits are zero.
const ALIGN_SHIFT: u32 = 3;

/// Owns one object of a pool. Given back with [`Pool::free`]; one that is dropped is lost until the pool goes.
///
/// Belongs to the pool that made it: a disk has one pool, and its handles stay in its slots.
///
/// # Invariants
///
/// Stands for a live object: see [`Pool::pack`].
#[derive(Debug)]
#[must_use = "an object that is not freed stays allocated until the pool is destroyed"]
pub(crate) struct Handle(u64);

impl Handle {
    /// The handle in [`BODY_BITS`] bits. Whoever holds the bits now owns the object.
    #[inline]
    pub(super) fn into_packed(self) -> u64 {
        self.0
    }

    /// # Safety
    ///
    /// `bits` came from [`Handle::into_packed`] and are given up by the caller.
    #[inline]
    pub(super) unsafe fn from_packed(bits: u64) -> Self {
        // INVARIANT: By the safety requirements of this function.
        Self(bits)
    }

    /// Borrows the object.
    #[inline]
    pub(crate) fn borrow(&self) -> PackedHandle<'_> {
        PackedHandle(self.0, PhantomData)
    }
}

/// An object of a pool that cannot be freed meanwhile.
///
/// # Invariants
///
/// Stands for a live object: see [`Pool::pack`].
#[derive(Clone, Copy)]
pub(crate) struct PackedHandle<'a>(u64, PhantomData<&'a Handle>);

impl PackedHandle<'_> {
    /// # Safety
    ///
    /// `bits` came from [`Handle::into_packed`], and the object stays alive for the lifetime of the result.
    #[inline]
    pub(super) unsafe fn new(bits: u64) -> Self {
        // INVARIANT: By the safety requirements of this function.
        Self(bits, PhantomData)
    }
}

/// A zsmalloc pool.
///
/// # Invariants
///
/// `ptr` is a live pool, owned by this object.
pub(crate) struct Pool {
    ptr: NonNull<ffi::zs_pool>,
}

// SAFETY: All functions of zsmalloc lock for themselves.
unsafe impl Send for Pool {}
// SAFETY: As above.
unsafe impl Sync for Pool {}

impl Pool {
    /// Makes an empty pool. May sleep.
    pub(crate) fn new(name: &CStr) -> Result<Self> {
        // SAFETY: `name` is a C string; zsmalloc makes a copy of it.
        let ptr = unsafe { ffi::zs_create_pool(name.as_char_ptr()) };
        // INVARIANT: A pool that was just made, or NULL.
        Ok(Self {
            ptr: NonNull::new(ptr).ok_or(ENOMEM)?,
        })
    }

    /// Objects of this size and larger take a page of their own each.
    pub(crate) fn huge_class_size(&self) -> usize {
        // SAFETY: By the type invariant.
        unsafe { ffi::zs_huge_class_size(self.ptr.as_ptr()) }
    }

    /// The class that objects of `len` bytes belong to: a larger one for larger objects.
    pub(crate) fn class_index(&self, len: usize) -> u32 {
        let len = c_uint::try_from(len).unwrap_or(c_uint::MAX);
        // SAFETY: By the type invariant.
        unsafe { ffi::zs_lookup_class_index(self.ptr.as_ptr(), len) }
    }

    /// Pages that the pool takes.
    #[inline]
    pub(crate) fn total_pages(&self) -> u64 {
        // SAFETY: By the type invariant.
        unsafe { ffi::zs_get_total_pages(self.ptr.as_ptr()) as u64 }
    }

    /// Pages that compaction has freed so far.
    pub(crate) fn pages_compacted(&self) -> u64 {
        let mut stats = ffi::zs_pool_stats::default();
        // SAFETY: By the type invariant, and `stats` is ours.
        unsafe { ffi::zs_pool_stats(self.ptr.as_ptr(), &mut stats) };
        // CAST: A counter that only grows from zero.
        stats.pages_compacted.counter as u64
    }

    /// Moves objects together and frees the pages that this empties. May sleep.
    pub(crate) fn compact(&self) {
        // SAFETY: By the type invariant.
        unsafe { ffi::zs_compact(self.ptr.as_ptr()) };
    }

    /// Allocates an object of `len` bytes (1 to a page), near the memory node `nid`. May sleep; does no I/O.
    ///
    /// `ENOMEM` where there is no memory; `EOVERFLOW` where the object is so far away in memory that its handle does not
    /// fit into a slot.
    #[inline]
    pub(crate) fn alloc(&self, len: usize, nid: i32) -> Result<Handle> {
        // SAFETY: By the type invariant.
        let raw = unsafe { ffi::zs_malloc(self.ptr.as_ptr(), len, ffi::RZRAM_GFP_POOL, nid) };
        // CAST: An errno as pointer, as with `IS_ERR_VALUE()`.
        if raw >= (bindings::MAX_ERRNO as usize).wrapping_neg() {
            return Err(Error::from_errno(raw as i32));
        }
        self.pack(raw)
    }

    /// A handle in [`BODY_BITS`] bits: its distance from the pool's own address, in units of the alignment, signed.
    ///
    /// Both are slab objects and thus in the direct map, on every architecture: 42 bits reach 16 TiB in either direction,
    /// more than the machines have that Linux runs on with one direct map of that size. What is out of reach is refused.
    #[inline]
    fn pack(&self, raw: usize) -> Result<Handle> {
        // CAST: To a signed distance.
        let distance = (raw.wrapping_sub(self.anchor()) as i64) >> ALIGN_SHIFT;
        let spare = u64::BITS - BODY_BITS;
        if distance << spare >> spare != distance {
            // SAFETY: `raw` was just allocated and is not known to anybody.
            unsafe { ffi::zs_free(self.ptr.as_ptr(), raw) };
            return Err(EOVERFLOW);
        }
        // INVARIANT: The object is live, and `raw()` gives its handle back.
        Ok(Handle(distance as u64 & (u64::MAX >> spare)))
    }

    #[inline]
    fn raw(&self, packed: u64) -> usize {
        let spare = u64::BITS - BODY_BITS;
        // CAST: A shift to the right that copies the sign, and a distance added with the wrapping that it was taken with.
        let distance = (packed << spare) as i64 >> spare;
        self.anchor()
            .wrapping_add((distance << ALIGN_SHIFT) as usize)
    }

    #[inline]
    fn anchor(&self) -> usize {
        self.ptr.as_ptr() as usize & !((1 << ALIGN_SHIFT) - 1)
    }

    /// Frees an object. Any context.
    #[inline]
    pub(crate) fn free(&self, handle: Handle) {
        // SAFETY: By the type invariants of `Self` and of `Handle`, which this consumes.
        unsafe { ffi::zs_free(self.ptr.as_ptr(), self.raw(handle.into_packed())) };
    }

    /// Fills an object of `data.len()` bytes.
    #[inline]
    pub(crate) fn write(&self, handle: &mut Handle, data: &[u8]) {
        // SAFETY: By the type invariants; C only reads `data.len()` bytes from `data`. The `&mut` keeps others away.
        unsafe {
            ffi::zs_obj_write(
                self.ptr.as_ptr(),
                self.raw(handle.0),
                data.as_ptr().cast_mut().cast(),
                data.len(),
            )
        };
    }

    /// Fills an object of the size of a page with memory that others may be changing.
    #[inline]
    pub(crate) fn write_page(&self, handle: &mut Handle, source: Source<'_>) {
        // SAFETY: As in `write()`, with the bytes that `source` vouches for.
        unsafe {
            ffi::zs_obj_write(
                self.ptr.as_ptr(),
                self.raw(handle.0),
                source.as_ptr().cast_mut().cast(),
                Source::LEN,
            )
        };
    }

    /// Calls `f` with the object's first `len` bytes, which is how long it is.
    ///
    /// An object may lie in two pages, and is then copied to `scratch`, which is at least `len` bytes long; one of the size
    /// of a page never does.
    #[inline]
    pub(crate) fn read<R>(
        &self,
        handle: PackedHandle<'_>,
        len: usize,
        scratch: &mut [u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<R> {
        if scratch.len() < len && len != PAGE_SIZE {
            return Err(EINVAL);
        }
        let raw = self.raw(handle.0);
        // SAFETY: By the type invariants; `scratch` is long enough wherever C may use it, as just checked.
        let ptr = unsafe {
            ffi::zs_obj_read_begin(self.ptr.as_ptr(), raw, len, scratch.as_mut_ptr().cast())
        };
        // SAFETY: `ptr` points to the object's `len` bytes until `zs_obj_read_end()`. Nobody writes them: an object is
        // written only through `&mut Handle`, and the caller's borrow excludes that.
        let ret = f(unsafe { core::slice::from_raw_parts(ptr.cast_const().cast(), len) });
        // SAFETY: Ends the access begun above; mappings made in `f` have been undone, as the closure has returned.
        unsafe { ffi::zs_obj_read_end(self.ptr.as_ptr(), raw, len, ptr) };
        Ok(ret)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: By the type invariant, and nobody uses it any more.
        unsafe { ffi::zs_destroy_pool(self.ptr.as_ptr()) };
    }
}
