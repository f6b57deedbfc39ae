// SPDX-License-Identifier: GPL-2.0

//! Safe wrappers of the C subsystems that rzram stands on, one file each.
//!
//! The only place in the driver with `unsafe`. Nothing here decides anything: what a slot means, which algorithm a disk
//! uses, when a disk may be reset is the business of the files above.

pub(crate) mod attr;
pub(crate) mod backing;
pub(crate) mod bio;
pub(crate) mod bytes;
pub(crate) mod class;
pub(crate) mod clock;
pub(crate) mod codec;
pub(crate) mod deferred;
pub(crate) mod directory;
mod ffi;
pub(crate) mod file;
pub(crate) mod gendisk;
pub(crate) mod hotplug;
pub(crate) mod inline;
#[cfg(CONFIG_LOCKDEP)]
pub(crate) mod lockdep;
mod lz4hc_table;
mod openers;
pub(crate) mod page;
pub(crate) mod published;
pub(crate) mod rwsem;
pub(crate) mod slot;
mod waitbit;
pub(crate) mod work;
pub(crate) mod zsmalloc;
