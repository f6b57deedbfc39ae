// SPDX-License-Identifier: GPL-2.0

//! rzram_lz4hc: lends the kernel's LZ4HC to rzram.
//!
//! The kernel may have LZ4HC as a module (`lz4hc_compress`). rzram would then not load without it if it were linked to it, so
//! it asks for this module, which is, when a disk is to use lz4hc.

use kernel::prelude::*;

mod sys {
    mod ffi;
    mod lz4hc_export;
    mod lz4hc_table;
}

module! {
    type: Lz4hc,
    name: "rzram_lz4hc",
    authors: ["The rzram authors"],
    description: "LZ4HC for rzram",
    license: "GPL",
}

/// Nothing to be done but to be there.
struct Lz4hc;

impl kernel::Module for Lz4hc {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
