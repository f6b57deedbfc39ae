// SPDX-License-Identifier: GPL-2.0

//! Something for each block of a disk, in memory that exists only once it is needed.
//!
//! A radix tree of three levels: a root sized for the disk, nodes of a page full of pointers, leaves of a page full of
//! entries. With 4 KiB pages and slots of 8 bytes a leaf covers 2 MiB of disk, a node 1 GiB, and the root of a 1 TiB disk
//! takes 8 KiB. Nodes and leaves are never freed before the whole directory is, so an entry that was found stays where it
//! is.

use super::{
    ffi,
    inline, //
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
        Atomic,
        Full,
        Relaxed, //
    },
    task::might_sleep, //
};

/// What a directory can hold.
///
/// # Safety
///
/// All zeros is a valid value, there is nothing to drop, and a page holds a whole number of them.
pub(crate) unsafe trait Entry: Sized {}

// SAFETY: A plain number.
unsafe impl Entry for Atomic<u32> {}

/// Pointers in a node.
const FAN_OUT: usize = PAGE_SIZE / size_of::<usize>();

/// A pointer to a page that is allocated on demand, with `T`s side by side.
///
/// # Invariants
///
/// NULL, or a zeroed page from the page allocator that holds valid `T`s and is owned by this link.
#[repr(transparent)]
struct Link<T>(Atomic<*mut T>);

// SAFETY: NULL is a valid link, and pages are freed by the directory.
unsafe impl<T> Entry for Link<T> {}

impl<T: Entry> Link<T> {
    /// `T`s in a page.
    const COUNT: usize = PAGE_SIZE / size_of::<T>();

    /// The `T`s of the page, if there is one.
    #[inline]
    fn get(&self) -> Option<&[T]> {
        // Acquire: the page's first contents must not be seen older than its address.
        let ptr = NonNull::new(inline::pointer_acquire(&self.0))?;
        // SAFETY: By the type invariant; the page lives as long as the link.
        Some(unsafe { core::slice::from_raw_parts(ptr.as_ptr(), Self::COUNT) })
    }

    /// The `T`s of the page, which is allocated now if need be. Returns whether it is new.
    #[cold]
    fn get_or_alloc(&self) -> Result<(&[T], bool)> {
        // SAFETY: No requirements.
        let page = unsafe { bindings::get_zeroed_page_noprof(ffi::RZRAM_GFP_TABLE) };
        let new = NonNull::new(page as *mut T).ok_or(ENOMEM)?;
        // INVARIANT: A zeroed page, and all zeros is valid for `T`s.
        let (ptr, fresh) = match self.0.cmpxchg(ptr::null_mut(), new.as_ptr(), Full) {
            Ok(_) => (new.as_ptr(), true),
            Err(other) => {
                // SAFETY: Allocated above, and not published.
                unsafe { bindings::free_pages(page, 0) };
                (other, false)
            }
        };
        // SAFETY: By the type invariant: the page is ours, or somebody else was faster.
        let entries = unsafe { core::slice::from_raw_parts(ptr, Self::COUNT) };
        Ok((entries, fresh))
    }

    /// Frees the page, after `f` has been called with its contents.
    fn take(&mut self, f: impl FnOnce(&mut [T])) {
        let ptr = core::mem::replace(self.0.get_mut(), ptr::null_mut());
        if !ptr.is_null() {
            // SAFETY: By the type invariant, and we have exclusive access.
            f(unsafe { core::slice::from_raw_parts_mut(ptr, Self::COUNT) });
            // SAFETY: Allocated with `get_zeroed_page()`, and no longer linked.
            unsafe { bindings::free_pages(ptr as c_ulong, 0) };
        }
    }
}

/// From this size on, memory is asked for before it is taken.
const LARGE: u64 = 1 << 20;

/// Whether there is room for `bytes` that are allocated in one go: `ENOMEM` for what is large and more than half of what the
/// machine has to give. Such an allocation would not just fail: it would have others killed first. May sleep.
pub(crate) fn room_for(bytes: u64) -> Result {
    if bytes < LARGE {
        return Ok(());
    }
    // SAFETY: No requirements.
    let pages = unsafe { bindings::si_mem_available() };
    let available = u64::try_from(pages)
        .unwrap_or(0)
        .saturating_mul(PAGE_SIZE as u64);
    if bytes > available / 2 {
        return Err(ENOMEM);
    }
    Ok(())
}

/// Finds entries by the number of their block.
pub(crate) struct Directory<T: Entry> {
    root: KVVec<Link<Link<T>>>,
    blocks: u64,
    pages: Atomic<usize>,
}

impl<T: Entry> Directory<T> {
    /// Blocks that a leaf covers.
    const LEAF: usize = Link::<T>::COUNT;

    /// A directory for `blocks` blocks, with nothing in it. May sleep.
    pub(crate) fn new(blocks: u64) -> Result<Self> {
        let nodes = usize::try_from(blocks.div_ceil((FAN_OUT * Self::LEAF) as u64))?;
        room_for((nodes as u64).saturating_mul(size_of::<usize>() as u64))?;
        let mut root = KVVec::with_capacity(nodes, GFP_KERNEL | __GFP_NOWARN)?;
        for _ in 0..nodes {
            root.push(Link(Atomic::new(ptr::null_mut())), GFP_KERNEL)?;
        }
        Ok(Self {
            root,
            blocks,
            pages: Atomic::new(0),
        })
    }

    /// Number of blocks.
    #[inline]
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Bytes that the directory takes: root, nodes and leaves.
    pub(crate) fn bytes(&self) -> u64 {
        let root = self
            .root
            .capacity()
            .wrapping_mul(size_of::<Link<Link<T>>>());
        let pages = self.pages.load(Relaxed).wrapping_mul(PAGE_SIZE);
        root.wrapping_add(pages) as u64
    }

    #[inline]
    fn position(index: u64) -> (usize, usize, usize) {
        // CAST: `usize` has 64 bits on the machines that this builds for (see `slot.rs`).
        let i = index as usize;
        (
            i / (FAN_OUT * Self::LEAF),
            i / Self::LEAF % FAN_OUT,
            i % Self::LEAF,
        )
    }

    /// The entry of a block, or `None` if nothing near it was ever needed, or the disk ends before it. Any context.
    #[inline]
    pub(crate) fn get(&self, index: u64) -> Option<&T> {
        let (a, b, c) = Self::position(index);
        self.root.get(a)?.get()?.get(b)?.get()?.get(c)
    }

    /// The entry of a block, with the memory for it. May sleep; does no I/O.
    ///
    /// `ENOMEM` if there is no memory, `EINVAL` if the disk ends before it.
    pub(crate) fn get_or_alloc(&self, index: u64) -> Result<&T> {
        self.walk().get_or_alloc(index)
    }

    /// To find the entries of blocks that are near each other.
    #[inline]
    pub(crate) fn walk(&self) -> Walk<'_, T> {
        Walk {
            directory: self,
            leaf: &[],
            first: 0,
        }
    }

    /// The leaf that a block is in.
    fn leaf(&self, index: u64) -> Option<&[T]> {
        let (a, b, _) = Self::position(index);
        self.root.get(a)?.get()?.get(b)?.get()
    }

    /// The same, with the memory for it. The disk has the block.
    #[cold]
    fn alloc(&self, index: u64) -> Result<&[T]> {
        let (a, b, _) = Self::position(index);
        let node = self.page(self.root.get(a).ok_or(EINVAL)?)?;
        self.page(node.get(b).ok_or(EINVAL)?)
    }

    fn page<'a, U: Entry>(&self, link: &'a Link<U>) -> Result<&'a [U]> {
        if let Some(page) = link.get() {
            return Ok(page);
        }
        let (page, fresh) = link.get_or_alloc()?;
        if fresh {
            self.pages.add(1usize, Relaxed);
        }
        Ok(page)
    }

    /// The first number above `index` that may have an entry, given that `index` has none: where its leaf or node ends.
    pub(crate) fn next_after_hole(&self, index: u64) -> u64 {
        let (a, _, _) = Self::position(index);
        let span = match self.root.get(a).and_then(Link::get) {
            Some(_) => Self::LEAF as u64,
            None => (FAN_OUT * Self::LEAF) as u64,
        };
        // `span` is a power of two, so this is the next multiple of it.
        (index | (span - 1)).saturating_add(1)
    }

    /// Calls `f` with each entry that has memory, then frees that memory: there is nothing in the directory afterwards.
    /// May sleep.
    pub(crate) fn drain(&mut self, mut f: impl FnMut(&mut T)) {
        for node in &mut self.root {
            node.take(|leaves| {
                for leaf in leaves {
                    might_sleep();
                    leaf.take(|entries| entries.iter_mut().for_each(&mut f));
                }
            });
        }
    }
}

/// Finds entries, most of them in the same leaf as the one before.
pub(crate) struct Walk<'a, T: Entry> {
    directory: &'a Directory<T>,
    /// The leaf of the last one, and the first block that it covers.
    leaf: &'a [T],
    first: u64,
}

impl<'a, T: Entry> Walk<'a, T> {
    #[inline(always)]
    fn in_leaf(&self, index: u64) -> Option<&'a T> {
        // CAST: As in `Directory::position()`; below the first it wraps round, to far behind the end.
        self.leaf.get(index.wrapping_sub(self.first) as usize)
    }

    #[inline]
    fn go_to(&mut self, leaf: &'a [T], index: u64) {
        self.leaf = leaf;
        self.first = index - index % Directory::<T>::LEAF as u64;
    }

    /// As [`Directory::get`].
    #[inline(always)]
    pub(crate) fn get(&mut self, index: u64) -> Option<&'a T> {
        match self.in_leaf(index) {
            Some(entry) => Some(entry),
            None => self.get_elsewhere(index),
        }
    }

    #[inline(never)]
    fn get_elsewhere(&mut self, index: u64) -> Option<&'a T> {
        self.go_to(self.directory.leaf(index)?, index);
        self.in_leaf(index)
    }

    /// As [`Directory::get_or_alloc`].
    #[inline(always)]
    pub(crate) fn get_or_alloc(&mut self, index: u64) -> Result<&'a T> {
        match self.in_leaf(index) {
            Some(entry) if index < self.directory.blocks => Ok(entry),
            _ => self.get_elsewhere_or_alloc(index),
        }
    }

    #[inline(never)]
    fn get_elsewhere_or_alloc(&mut self, index: u64) -> Result<&'a T> {
        if index >= self.directory.blocks {
            return Err(EINVAL);
        }
        let leaf = match self.directory.leaf(index) {
            Some(leaf) => leaf,
            None => self.directory.alloc(index)?,
        };
        self.go_to(leaf, index);
        self.in_leaf(index).ok_or(EINVAL)
    }
}

impl<T: Entry> Drop for Directory<T> {
    fn drop(&mut self) {
        self.drain(|_| {});
    }
}
