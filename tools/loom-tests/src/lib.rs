// SPDX-License-Identifier: GPL-2.0

//! The module's locking under [loom], which runs each test again and again until all orders in which its threads can take
//! turns have been tried, up to a number of preemptions, and all values that weakly ordered loads can see.
//!
//! `sys/slot.rs` and `sys/openers.rs` are compiled as they are. What they take from the kernel crate, and from the rest of
//! `sys`, is rebuilt here on loom's primitives; `kernel` means this crate.
//!
//! A number of preemptions bounds each test ([`model::check`]); threads that wait for each other do not count.
#![cfg(test)]

extern crate self as kernel;

mod model;
mod slot_lock;
mod slot_races;
mod stand_in;
mod sys;

use stand_in::{ffi, prelude, processor, sync, time};
use stand_in::{new_condvar, new_mutex};
