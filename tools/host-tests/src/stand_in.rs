// SPDX-License-Identifier: GPL-2.0

//! What the module takes from the kernel crate, on top of std.

#[allow(
    dead_code,
    reason = "whole, so that the module can start to use more of it"
)]
mod atomic;
pub(crate) mod bindings;
mod vec;

pub(crate) mod sync {
    pub(crate) mod atomic {
        pub(crate) use crate::stand_in::atomic::{
            hesitate, Acquire, Atomic, Full, Relaxed, Release,
        };
    }
}

pub(crate) mod ffi {
    #![allow(non_camel_case_types, reason = "the names of the kernel crate")]
    pub(crate) use core::ffi::{c_char, c_int, c_uint, c_void};
    pub(crate) type c_ulong = usize;
}

pub(crate) mod page {
    pub(crate) const PAGE_SIZE: usize = 4096;
}

pub(crate) mod processor {
    pub(crate) fn cpu_relax() {
        std::hint::spin_loop();
    }
}

pub(crate) mod task {
    pub(crate) fn might_sleep() {}
}

pub(crate) mod prelude {
    pub(crate) use super::ffi::{c_uint, c_ulong};
    pub(crate) use super::vec::{KVVec, GFP_KERNEL, __GFP_NOWARN};
    pub(crate) use core::ffi::CStr;

    /// An errno.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct Error(i32);

    pub(crate) const ENOMEM: Error = Error(-12);
    pub(crate) const EINVAL: Error = Error(-22);
    pub(crate) const EOVERFLOW: Error = Error(-75);

    impl Error {
        pub(crate) fn from_errno(errno: i32) -> Self {
            Self(errno)
        }

        pub(crate) fn to_errno(self) -> i32 {
            self.0
        }
    }

    impl From<core::num::TryFromIntError> for Error {
        fn from(_: core::num::TryFromIntError) -> Self {
            EINVAL
        }
    }

    pub(crate) type Result<T = (), E = Error> = core::result::Result<T, E>;

    /// The kernel crate's view of C strings.
    pub(crate) trait CStrExt {
        fn as_char_ptr(&self) -> *const crate::ffi::c_char;
    }

    impl CStrExt for CStr {
        fn as_char_ptr(&self) -> *const crate::ffi::c_char {
            self.as_ptr()
        }
    }
}
