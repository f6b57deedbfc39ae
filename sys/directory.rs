// SPDX-License-Identifier: GPL-2.0

//! The slots of a disk, in memory that exists only once something near them was written.
//!
//! A radix tree of three levels: a root sized for the disk, nodes of a page full of pointers, leaves of a page full of
//! slots. With 4 KiB pages a leaf covers 2 MiB of disk, a node 1 GiB, and the root of a 1 TiB disk takes 8 KiB.
//! Nodes and leaves are never freed before the whole directory is, so a slot that was found stays where it is.

use super::{
    ffi,
    slot::Slot, //
};
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    bindings,
    page::PAGE_SIZE,
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        Full,
        Relaxed, //
    }, //
};

/// Slots in a leaf, and pointers in a node.
pub(crate) const FAN_OUT: usize = PAGE_SIZE / size_of::<u64>();

type Leaf = [Slot; FAN_OUT];
type Node = [Link<Leaf>; FAN_OUT];

/// A pointer to a page that is allocated on demand.
///
/// # Invariants
///
/// NULL, or a zeroed page from the page allocator that holds a valid `T` and is owned by this link.
#[repr(transparent)]
struct Link<T>(Atomic<*mut T>);

impl<T> Link<T> {
    #[inline]
    fn get(&self) -> Option<&T> {
        // Acquire: the page's first contents must not be seen older than its address.
        let ptr = self.0.load(Acquire);
        // SAFETY: By the type invariant; the page lives as long as the link.
        unsafe { ptr.as_ref() }
    }

    /// The page, allocated now if need be. Returns whether it is new.
    #[cold]
    fn get_or_alloc(&self) -> Result<(&T, bool)> {
        const { assert!(size_of::<T>() <= PAGE_SIZE) };
        // SAFETY: No requirements.
        let page = unsafe { bindings::get_zeroed_page_noprof(ffi::RZRAM_GFP_TABLE) };
        let new = NonNull::new(page as *mut T).ok_or(ENOMEM)?;
        // INVARIANT: A zeroed page; all zeros is a valid leaf of empty slots and a valid node of NULL links.
        match self.0.cmpxchg(ptr::null_mut(), new.as_ptr(), Full) {
            // SAFETY: The page is ours, initialised, and lives as long as the link.
            Ok(_) => Ok((unsafe { new.as_ref() }, true)),
            Err(other) => {
                // SAFETY: Allocated above, and not published.
                unsafe { bindings::free_pages(page, 0) };
                // SAFETY: By the type invariant: somebody else was faster.
                Ok((unsafe { &*other }, false))
            }
        }
    }

    /// Frees the page, after `f` has been called with its contents.
    fn take(&mut self, f: impl FnOnce(&mut T)) {
        let ptr = core::mem::replace(self.0.get_mut(), ptr::null_mut());
        // SAFETY: By the type invariant, and we have exclusive access.
        if let Some(page) = unsafe { ptr.as_mut() } {
            f(page);
            // SAFETY: Allocated with `get_zeroed_page()`, and no longer linked.
            unsafe { bindings::free_pages(ptr as usize as kernel::ffi::c_ulong, 0) };
        }
    }
}

/// Finds slots by their number.
pub(crate) struct Directory {
    root: KVVec<Link<Node>>,
    slots: u64,
    pages: Atomic<usize>,
}

impl Directory {
    /// A directory for `slots` empty slots. May sleep.
    pub(crate) fn new(slots: u64) -> Result<Self> {
        let nodes = usize::try_from(slots.div_ceil((FAN_OUT * FAN_OUT) as u64))?;
        let mut root = KVVec::with_capacity(nodes, GFP_KERNEL | __GFP_NOWARN)?;
        for _ in 0..nodes {
            root.push(Link(Atomic::new(ptr::null_mut())), GFP_KERNEL)?;
        }
        Ok(Self {
            root,
            slots,
            pages: Atomic::new(0),
        })
    }

    /// Number of slots.
    #[inline]
    pub(crate) fn slots(&self) -> u64 {
        self.slots
    }

    /// Bytes that the directory takes: root, nodes and leaves.
    #[cfg_attr(not(test), expect(dead_code, reason = "shown by a later attribute"))]
    pub(crate) fn bytes(&self) -> usize {
        let root = self.root.capacity().wrapping_mul(size_of::<Link<Node>>());
        root.wrapping_add(self.pages.load(Relaxed).wrapping_mul(PAGE_SIZE))
    }

    #[inline]
    fn position(index: u64) -> (usize, usize, usize) {
        // CAST: `slots` fits a `usize` three times over on 64-bit machines, the only ones that this builds for.
        let i = index as usize;
        (i / (FAN_OUT * FAN_OUT), i / FAN_OUT % FAN_OUT, i % FAN_OUT)
    }

    /// The slot with this number, or `None` if nothing near it was ever written or the disk ends before it. Any context.
    #[inline]
    pub(crate) fn get(&self, index: u64) -> Option<&Slot> {
        let (a, b, c) = Self::position(index);
        self.root.get(a)?.get()?.get(b)?.get()?.get(c)
    }

    /// The slot with this number, with the memory for it. May sleep; does no I/O.
    ///
    /// `ENOMEM` if there is no memory, `EINVAL` if the disk ends before it.
    #[inline]
    pub(crate) fn get_or_alloc(&self, index: u64) -> Result<&Slot> {
        match self.get(index) {
            Some(slot) if index < self.slots => Ok(slot),
            _ => self.alloc(index),
        }
    }

    #[cold]
    fn alloc(&self, index: u64) -> Result<&Slot> {
        if index >= self.slots {
            return Err(EINVAL);
        }
        let (a, b, c) = Self::position(index);
        let node = self.page(self.root.get(a).ok_or(EINVAL)?)?;
        let leaf = self.page(node.get(b).ok_or(EINVAL)?)?;
        leaf.get(c).ok_or(EINVAL)
    }

    fn page<'a, T>(&self, link: &'a Link<T>) -> Result<&'a T> {
        if let Some(page) = link.get() {
            return Ok(page);
        }
        let (page, new) = link.get_or_alloc()?;
        if new {
            self.pages.add(1usize, Relaxed);
        }
        Ok(page)
    }

    /// The first number above `index` that may have a slot, given that `index` has none: where its leaf or node ends.
    pub(crate) fn next_after_hole(&self, index: u64) -> u64 {
        let (a, _, _) = Self::position(index);
        let span = match self.root.get(a).and_then(Link::get) {
            Some(_) => FAN_OUT as u64,
            None => (FAN_OUT * FAN_OUT) as u64,
        };
        // `span` is a power of two, so this is the next multiple of it.
        (index | (span - 1)).saturating_add(1)
    }

    /// Calls `f` with each slot that has memory, then frees that memory: all slots are empty afterwards.
    pub(crate) fn drain(&mut self, mut f: impl FnMut(&mut Slot)) {
        for node in &mut self.root {
            node.take(|node| {
                for leaf in node {
                    leaf.take(|leaf| leaf.iter_mut().for_each(&mut f));
                }
            });
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.drain(|_| {});
    }
}
