// SPDX-License-Identifier: GPL-2.0

//! zsmalloc's functions, for a pool on the host's heap that panics where it is misused: an object that is freed twice, or
//! while it is read, or used after that, or at the wrong size, or left when the pool goes.
#![allow(non_camel_case_types, reason = "the names are C's")]

use crate::ffi::{c_char, c_int, c_uint, c_ulong, c_void};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) const RZRAM_GFP_POOL: u32 = 1;
pub(crate) const RZRAM_GFP_TABLE: u32 = 2;

/// As with Debian's kernels.
const HUGE_CLASS_SIZE: usize = 3625;
/// A handle is the address of something of this size.
const HANDLE: isize = 8;

#[derive(Default)]
pub(crate) struct counter {
    pub(crate) counter: i64,
}

#[derive(Default)]
pub(crate) struct zs_pool_stats {
    pub(crate) pages_compacted: counter,
}

struct Object {
    data: Box<[u64]>,
    len: usize,
    readers: usize,
}

#[derive(Default)]
struct Objects {
    live: HashMap<usize, Object>,
    bytes: usize,
    /// Distances from the pool that were used and are free again; the last is used first.
    free: Vec<isize>,
    ever: isize,
    compacted: i64,
}

pub(crate) struct zs_pool(Mutex<Objects>);

thread_local! {
    static NEXT_DISTANCE: Cell<Option<isize>> = const { Cell::new(None) };
    static BUDGET: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Puts the next handle that this thread allocates at this distance from the pool, in bytes.
pub(crate) fn set_next_distance(distance: isize) {
    NEXT_DISTANCE.set(Some(distance));
}

/// Lets allocations of this thread fail after the next `objects` of them.
pub(crate) fn set_object_budget(objects: usize) {
    BUDGET.set(objects);
}

fn pool<'a>(pool: *mut zs_pool) -> MutexGuard<'a, Objects> {
    // SAFETY: The module passes pools that it has made and not destroyed.
    let pool = unsafe { &*pool };
    // One panic is enough: what a test leaves behind is given up without another.
    pool.0.lock().unwrap_or_else(PoisonError::into_inner)
}

fn object(objects: &mut Objects, handle: c_ulong) -> &mut Object {
    let object = objects.live.get_mut(&handle);
    object.unwrap_or_else(|| panic!("{handle:#x} is not the handle of a live object"))
}

pub(crate) unsafe fn zs_create_pool(_name: *const c_char) -> *mut zs_pool {
    Box::into_raw(Box::new(zs_pool(Mutex::default())))
}

pub(crate) unsafe fn zs_destroy_pool(ptr: *mut zs_pool) {
    let left = pool(ptr).live.len();
    // SAFETY: Made by `zs_create_pool()`, and given up by the caller.
    drop(unsafe { Box::from_raw(ptr) });
    if !std::thread::panicking() {
        assert_eq!(left, 0, "objects are left in a pool that is destroyed");
    }
}

pub(crate) unsafe fn zs_malloc(ptr: *mut zs_pool, size: usize, flags: u32, _nid: c_int) -> c_ulong {
    assert_eq!(flags, RZRAM_GFP_POOL);
    assert!((1..=4096).contains(&size));
    let Some(left) = BUDGET.get().checked_sub(1) else {
        return crate::prelude::ENOMEM.to_errno() as c_ulong;
    };
    BUDGET.set(left);
    let mut objects = pool(ptr);
    let distance = NEXT_DISTANCE.take().or_else(|| objects.free.pop());
    let distance = distance.unwrap_or_else(|| {
        objects.ever += 1;
        // On both sides of the pool.
        HANDLE * objects.ever * if objects.ever % 2 == 0 { 1 } else { -1 }
    });
    let handle = (ptr as usize).wrapping_add_signed(distance);
    objects.bytes += size;
    let new = Object {
        data: vec![0; size.div_ceil(8)].into(),
        len: size,
        readers: 0,
    };
    assert!(objects.live.insert(handle, new).is_none());
    handle
}

pub(crate) unsafe fn zs_free(ptr: *mut zs_pool, handle: c_ulong) {
    let mut objects = pool(ptr);
    let old = objects.live.remove(&handle);
    let old = old.unwrap_or_else(|| panic!("{handle:#x} is freed and not live"));
    assert_eq!(old.readers, 0, "an object is freed while it is read");
    objects.bytes -= old.len;
    objects
        .free
        .push(handle.wrapping_sub(ptr as usize) as isize);
}

pub(crate) unsafe fn zs_huge_class_size(_: *mut zs_pool) -> usize {
    HUGE_CLASS_SIZE
}

/// Classes are 16 bytes apart, and what is huge shares the last one.
pub(crate) unsafe fn zs_lookup_class_index(_: *mut zs_pool, size: c_uint) -> c_uint {
    size.min(HUGE_CLASS_SIZE as c_uint).div_ceil(16)
}

pub(crate) unsafe fn zs_get_total_pages(ptr: *mut zs_pool) -> c_ulong {
    pool(ptr).bytes.div_ceil(4096)
}

pub(crate) unsafe fn zs_compact(ptr: *mut zs_pool) -> c_ulong {
    pool(ptr).compacted += 1;
    1
}

pub(crate) unsafe fn zs_pool_stats(ptr: *mut zs_pool, stats: *mut zs_pool_stats) {
    // SAFETY: The module passes a valid one.
    unsafe { (*stats).pages_compacted.counter = pool(ptr).compacted };
}

/// Copies every second object, as zsmalloc does with one that lies in two pages.
pub(crate) unsafe fn zs_obj_read_begin(
    ptr: *mut zs_pool,
    handle: c_ulong,
    len: usize,
    local_copy: *mut c_void,
) -> *mut c_void {
    let mut objects = pool(ptr);
    let object = object(&mut objects, handle);
    assert_eq!(object.len, len);
    object.readers += 1;
    let data = object.data.as_mut_ptr().cast::<c_void>();
    if len == 4096 || handle as isize % (2 * HANDLE) != 0 {
        return data;
    }
    // SAFETY: The module passes a buffer of that length.
    unsafe { data.copy_to_nonoverlapping(local_copy, len) };
    local_copy
}

pub(crate) unsafe fn zs_obj_read_end(
    ptr: *mut zs_pool,
    handle: c_ulong,
    len: usize,
    _mem: *mut c_void,
) {
    let mut objects = pool(ptr);
    let object = object(&mut objects, handle);
    assert_eq!(object.len, len);
    object.readers -= 1;
}

pub(crate) unsafe fn zs_obj_write(
    ptr: *mut zs_pool,
    handle: c_ulong,
    mem: *mut c_void,
    len: usize,
) {
    let mut objects = pool(ptr);
    let object = object(&mut objects, handle);
    assert_eq!(object.len, len);
    assert_eq!(object.readers, 0);
    // SAFETY: The module passes so many bytes, and the object has room for them.
    unsafe { mem.copy_to_nonoverlapping(object.data.as_mut_ptr().cast(), len) };
}
