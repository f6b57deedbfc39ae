// SPDX-License-Identifier: GPL-2.0

//! What the module takes from the kernel crate, on loom's primitives.

mod atomic;
pub(crate) mod lock;

macro_rules! new_mutex {
    ($inner:expr, $name:literal $(,)?) => {
        $crate::sync::Mutex::new($inner)
    };
}
pub(crate) use new_mutex;

macro_rules! new_condvar {
    ($name:literal $(,)?) => {
        $crate::sync::CondVar::new()
    };
}
pub(crate) use new_condvar;

pub(crate) mod sync {
    pub(crate) use super::lock::{CondVar, CondVarTimeoutResult, Mutex};

    pub(crate) mod atomic {
        pub(crate) use crate::stand_in::atomic::*;
    }
}

pub(crate) mod ffi {
    #![allow(non_camel_case_types, reason = "the name of the kernel crate")]
    pub(crate) type c_ulong = usize;
}

pub(crate) mod time {
    pub(crate) type Jiffies = crate::ffi::c_ulong;
}

pub(crate) mod processor {
    pub(crate) fn cpu_relax() {
        loom::thread::yield_now();
    }
}

pub(crate) mod prelude {
    pub(crate) use pinned_init::{pin_data, pin_init, PinInit};

    /// An errno.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct Error(pub(crate) &'static str);

    pub(crate) const EBUSY: Error = Error("EBUSY");
    pub(crate) const EINTR: Error = Error("EINTR");

    pub(crate) type Result<T = (), E = Error> = core::result::Result<T, E>;
}
