// SPDX-License-Identifier: GPL-2.0

//! Finding slots, and what can be done with one that was found.

#[cfg(locking_lab)]
use super::lab;
use super::{
    fill,
    Entry,
    Guard,
    Table, //
};
use crate::sys::{
    directory,
    slot::Slot, //
};
use kernel::prelude::*;

/// Finds the slots of blocks, one after another.
pub(crate) struct Walk<'a> {
    table: &'a Table,
    slots: directory::Walk<'a, Slot>,
    #[cfg(locking_lab)]
    locks: lab::Walk<'a>,
}

impl Table {
    /// To find the slots of blocks that are near each other.
    #[inline]
    pub(crate) fn walk(&self) -> Walk<'_> {
        Walk {
            table: self,
            slots: self.directory.walk(),
            #[cfg(locking_lab)]
            locks: self.locks.walk(),
        }
    }
}

impl<'a> Walk<'a> {
    /// The slot of a block; `None` if nothing near it was ever written, so that it is filled with zeros. Any context.
    #[inline(always)]
    pub(crate) fn find(&mut self, index: u64) -> Option<Place<'a>> {
        let slot = self.slots.get(index)?;
        Some(Place {
            table: self.table,
            slot,
            #[cfg(locking_lab)]
            lock: self.locks.get(index)?,
            #[cfg(locking_lab)]
            writing: lab::Writing::Nothing,
        })
    }

    /// The slot of a block that is to be written, with the memory for it: `ENOMEM` if there is none. May sleep.
    #[inline(always)]
    pub(crate) fn find_or_make(&mut self, index: u64) -> Result<Place<'a>> {
        // First, so that each slot has one.
        #[cfg(locking_lab)]
        let lock = self.locks.get_or_alloc(index)?;
        let slot = self.slots.get_or_alloc(index)?;
        if let Some(times) = &self.table.times {
            times.touch_new(index);
        }
        Ok(Place {
            table: self.table,
            slot,
            #[cfg(locking_lab)]
            lock,
            #[cfg(locking_lab)]
            writing: self.table.locks.begin_write(),
        })
    }
}

/// A slot that can be locked without fail.
pub(crate) struct Place<'a> {
    table: &'a Table,
    slot: &'a Slot,
    #[cfg(locking_lab)]
    lock: lab::Lock<'a>,
    /// Held from when the slot was found to be written until it has been.
    #[cfg(locking_lab)]
    writing: lab::Writing<'a>,
}

/// A slot that is locked to be read.
#[cfg(not(locking_lab))]
pub(crate) type Reader<'a> = Guard<'a>;
#[cfg(locking_lab)]
pub(crate) use lab::Reader;

impl<'a> Place<'a> {
    /// The pattern that the block is filled with, if that can be told without a lock. Any context.
    #[inline]
    pub(crate) fn pattern(&self) -> Option<u64> {
        #[cfg(locking_lab)]
        if !self.table.locks.let_look() {
            return None;
        }
        let seen = self.slot.snapshot();
        match seen.value() {
            Some(value) => Some(fill::decode(value)),
            None => seen.is_empty().then_some(0),
        }
    }

    /// Locks the slot. May sleep.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'a> {
        #[cfg(locking_lab)]
        return Guard(self.lock.lock(self.slot, self.table));
        #[cfg(not(locking_lab))]
        Guard(self.slot.lock(self.table))
    }

    /// Locks the slot, whose block is being accessed. May sleep.
    #[inline]
    pub(crate) fn lock_to_read(&self) -> Reader<'a> {
        #[cfg(locking_lab)]
        return Reader::new(self.lock.read(self.slot, self.table));
        #[cfg(not(locking_lab))]
        {
            let mut slot = self.lock();
            slot.touch();
            slot
        }
    }

    /// Stores `entry` in place of what is there. May sleep.
    #[inline(always)]
    pub(crate) fn store(&self, entry: Entry) {
        #[cfg(locking_lab)]
        return Guard(self.lock.lock_within(self.slot, self.table, &self.writing)).store(entry);
        #[cfg(not(locking_lab))]
        self.lock().store(entry);
    }
}
