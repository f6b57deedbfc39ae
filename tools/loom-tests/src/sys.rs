// SPDX-License-Identifier: GPL-2.0

//! The part of the module's `sys` that is tested, as it is, and stand-ins for its neighbours.

/// Declares files of the module. They are linted and formatted by the kernel's build, in its way.
macro_rules! module_files {
    ($(#[$path:meta] $name:ident)*) => {$(
        #[allow(
            dead_code,
            clippy::precedence,
            clippy::reversed_empty_ranges,
            reason = "not ours, and not used whole"
        )]
        #[$path]
        pub(crate) mod $name;
    )*};
}

module_files! {
    #[path = "../../../sys/slot.rs"]
    slot
    #[path = "../../../sys/openers.rs"]
    openers
}

/// What a slot says of itself to `sys/directory.rs`.
pub(crate) mod directory {
    /// # Safety
    ///
    /// As in the module.
    pub(crate) unsafe trait Entry {}
}

#[path = "stand_in/inline.rs"]
pub(crate) mod inline;

#[path = "stand_in/waitbit.rs"]
pub(crate) mod waitbit;

#[path = "stand_in/zsmalloc.rs"]
pub(crate) mod zsmalloc;

/// Here because what it tests is visible in `sys` only.
mod claims;
