// SPDX-License-Identifier: GPL-2.0

//! A table under other locks than the slots' own. In a bench build only (`make LOCKING_LAB=1`).
//!
//! Reading and writing is what these are for, and works as ever; so do discards, marking and recompression. Reads mark
//! nothing as accessed, unless the locks are the slots' own. What a holder would have to sleep for is refused: a backing
//! device; and a notice that swap frees a slot is passed over, as zram does with one that meets a locked slot.

use super::{
    guard,
    meta::Meta,
    Guard,
    Stored,
    Table, //
};
use crate::sys::slot::lab::{
    self,
    Reading,
    Scheme,
    Unchanged, //
};
use kernel::prelude::*;

pub(super) use lab::{
    Lock,
    Locks,
    Walk,
    Writing, //
};

/// How tables are locked, by the module's parameter.
#[inline]
pub(crate) fn scheme() -> Scheme {
    chosen().unwrap_or(Scheme::Cas)
}

fn chosen() -> Option<Scheme> {
    // CAST: To a type that is at least as large.
    let number = crate::module_parameters::locking.value() as usize;
    Scheme::ALL.get(number).copied()
}

/// Says what is being loaded, and refuses a parameter that means nothing.
pub(crate) fn announce() -> Result {
    if chosen().is_none() {
        pr_err!(
            "locking={}: there are {} ways to lock a table, from 0 on; modinfo lists them\n",
            crate::module_parameters::locking.value(),
            Scheme::ALL.len()
        );
        return Err(EINVAL);
    }
    pr_notice!("this build is for comparing locks; make without LOCKING_LAB=1 for one to use\n");
    Ok(())
}

/// Refuses what these locks cannot be held for: a backing device.
pub(crate) fn check_backing(with_backing: bool) -> Result {
    if with_backing && scheme() != Scheme::Cas {
        pr_err!("no backing device with this way of locking; load the module with locking=0\n");
        return Err(EOPNOTSUPP);
    }
    Ok(())
}

/// A slot that is locked to be read.
pub(crate) enum Reader<'a> {
    Own(Guard<'a>),
    Other(Unchanged<'a, Table>),
}

impl<'a> Reader<'a> {
    #[inline]
    pub(super) fn new(reading: Reading<'a, Table>) -> Self {
        match reading {
            Reading::Own(slot) => {
                let mut slot = Guard(slot);
                slot.touch();
                Self::Own(slot)
            }
            Reading::Other(slot) => Self::Other(slot),
        }
    }

    /// What the slot stores.
    #[inline]
    pub(crate) fn stored(&self) -> Stored<'_> {
        match self {
            Self::Own(slot) => slot.stored(),
            Self::Other(slot) => guard::stored(Meta::from_bits(slot.meta()), slot.view()),
        }
    }
}
