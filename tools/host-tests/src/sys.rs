// SPDX-License-Identifier: GPL-2.0

//! The part of the module's `sys` that is tested, as it is, and stand-ins for what C does.

crate::module_files! {
    #[path = "../../../sys/bytes.rs"]
    bytes
    #[path = "../../../sys/clock.rs"]
    clock
    #[path = "../../../sys/directory.rs"]
    directory
    #[path = "../../../sys/inline.rs"]
    inline
    #[path = "../../../sys/page.rs"]
    page
    #[path = "../../../sys/slot.rs"]
    slot
    #[path = "../../../sys/zsmalloc.rs"]
    zsmalloc
}

#[path = "stand_in/zs.rs"]
pub(crate) mod ffi;

#[path = "stand_in/waitbit.rs"]
mod waitbit;

// Here because what they test is visible in `sys` only.
#[cfg(test)]
mod handle_tests;
#[cfg(test)]
pub(crate) mod page_tests;
#[cfg(test)]
mod slot_stress;
#[cfg(test)]
mod slot_tests;
