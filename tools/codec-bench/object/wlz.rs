// SPDX-License-Identifier: GPL-2.0
//! The codec but for its memory, which is the benchmark's here.

pub(crate) mod choose;
pub(crate) mod codes;
pub(crate) mod lz;
pub(crate) mod unlz;
pub(crate) mod words;
