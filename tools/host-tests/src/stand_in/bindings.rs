// SPDX-License-Identifier: GPL-2.0

//! C functions that allocate and map pages, and the clock.
#![allow(
    non_camel_case_types,
    non_upper_case_globals,
    reason = "the names are C's"
)]

use crate::ffi::{c_int, c_ulong, c_void};
use crate::page::PAGE_SIZE;
use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::cell::Cell;

pub(crate) const MAX_ERRNO: u32 = 4095;
pub(crate) const NUMA_NO_NODE: c_int = -1;

/// A page, which is mapped where it is.
#[repr(C, align(4096))]
pub(crate) struct page(pub(crate) [u8; PAGE_SIZE]);

thread_local! {
    /// Pages that this thread has allocated and not freed.
    static PAGES: Cell<isize> = const { Cell::new(0) };
    /// How many allocations of this thread go well before the others fail.
    static BUDGET: Cell<usize> = const { Cell::new(usize::MAX) };
    /// Pages that this thread has mapped and not unmapped.
    static MAPPED: Cell<isize> = const { Cell::new(0) };
    static NOW: Cell<u64> = const { Cell::new(0) };
}

/// Sets the time since boot, in nanoseconds, for this thread.
pub(crate) fn set_time(now: u64) {
    NOW.set(now);
}

/// Pages that this thread has allocated and not freed.
pub(crate) fn pages() -> isize {
    PAGES.get()
}

/// Lets allocations of this thread fail after the next `pages` of them.
pub(crate) fn set_page_budget(pages: usize) {
    BUDGET.set(pages);
}

/// Pages that the machine has to give: as many as this host could have.
pub(crate) unsafe fn si_mem_available() -> core::ffi::c_long {
    1 << 22
}

/// Pages that this thread has mapped and not unmapped.
pub(crate) fn mapped() -> isize {
    MAPPED.get()
}

const LAYOUT: Layout = match Layout::from_size_align(PAGE_SIZE, PAGE_SIZE) {
    Ok(layout) => layout,
    Err(_) => panic!(),
};

pub(crate) unsafe fn get_zeroed_page_noprof(_: u32) -> c_ulong {
    let Some(left) = BUDGET.get().checked_sub(1) else {
        return 0;
    };
    BUDGET.set(left);
    PAGES.set(PAGES.get() + 1);
    // SAFETY: The layout is that of a page.
    unsafe { alloc_zeroed(LAYOUT) as c_ulong }
}

pub(crate) unsafe fn free_pages(addr: c_ulong, order: u32) {
    assert_eq!(order, 0);
    PAGES.set(PAGES.get() - 1);
    // SAFETY: The caller got it from `get_zeroed_page_noprof()`.
    unsafe { dealloc(addr as *mut u8, LAYOUT) }
}

pub(crate) unsafe fn page_to_nid(_: *mut page) -> c_int {
    0
}

pub(crate) unsafe fn kmap_local_page(mapped: *mut page) -> *mut c_void {
    MAPPED.set(MAPPED.get() + 1);
    mapped.cast()
}

pub(crate) unsafe fn kunmap_local(_: *const c_void) {
    MAPPED.set(MAPPED.get() - 1);
}

pub(crate) const tk_offsets_TK_OFFS_BOOT: u32 = 1;

pub(crate) unsafe fn ktime_get_coarse_with_offset(offset: u32) -> i64 {
    assert_eq!(offset, tk_offsets_TK_OFFS_BOOT);
    NOW.get() as i64
}
