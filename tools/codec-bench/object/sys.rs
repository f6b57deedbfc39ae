// SPDX-License-Identifier: GPL-2.0
//! The part of the module's `sys` that the codec uses, as it is.

#[path = "../../../sys/bytes.rs"]
pub(crate) mod bytes;
#[path = "../../../sys/page.rs"]
pub(crate) mod page;
