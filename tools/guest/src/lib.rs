// SPDX-License-Identifier: GPL-2.0

//! What the demo and the guest tests share: loading the module, driving a disk through its
//! attributes and its node, data that can be told apart byte by byte, and running programs.
//!
//! Everything here runs as root inside a throw-away guest, in a directory that holds `rzram.ko`.
//! Functions return [`anyhow::Result`], and an error always says what was expected and what came.

pub mod attr;
pub mod blk;
pub mod buf;
pub mod demo;
pub mod disk;
pub mod faults;
pub mod hog;
pub mod installed;
pub mod kernel;
pub mod model;
pub mod module;
pub mod oracle;
pub mod pattern;
pub mod post;
pub mod run;
pub mod stat;
pub mod stress;
pub mod target;
pub mod tree;

use std::fmt::Debug;

use anyhow::{bail, Result};

/// One kibibyte, mebibyte and gibibyte, to keep sizes readable.
pub const KIB: u64 = 1 << 10;
/// See [`KIB`].
pub const MIB: u64 = 1 << 20;
/// See [`KIB`].
pub const GIB: u64 = 1 << 30;
/// See [`KIB`].
pub const TIB: u64 = 1 << 40;

/// The size of a page, which is also the logical block of a disk.
pub const PAGE: usize = 4096;

/// Fails unless `came` equals `expected`, naming both and `what` was compared.
pub fn same<T: PartialEq + Debug>(what: impl AsRef<str>, expected: T, came: T) -> Result<()> {
    if expected != came {
        bail!(
            "{}\n  expected: {expected:?}\n  came:     {came:?}",
            what.as_ref()
        );
    }
    Ok(())
}
