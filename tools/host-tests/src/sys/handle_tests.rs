// SPDX-License-Identifier: GPL-2.0

//! Handles in the bits of a slot, and objects of the pool.

use super::ffi::{set_next_distance, set_object_budget};
use super::slot::BODY_BITS;
use super::zsmalloc::{Handle, Pool};
use crate::prelude::{EINVAL, ENOMEM, EOVERFLOW};
use crate::sys::page::Source;
use crate::sys::page_tests::{aligned, block};
use proptest::prelude::*;

/// How far from its pool an object can be, in bytes: 16 TiB.
const REACH: isize = 8 << (BODY_BITS - 1);

fn pool() -> Pool {
    Pool::new(c"test").unwrap()
}

/// Allocates an object at a distance, which is freed again at the end: the pool under this one knows it by its full handle.
fn at(distance: isize) {
    let pool = pool();
    set_next_distance(distance);
    let handle = pool.alloc(8, 0).unwrap();
    let bits = handle.into_packed();
    assert_eq!(bits >> BODY_BITS, 0, "{distance:#x} takes {bits:#x}");
    // SAFETY: The bits of the handle that was just given up.
    pool.free(unsafe { Handle::from_packed(bits) });
}

#[test]
fn the_nearest_and_the_farthest_objects_can_be_had() {
    for distance in [
        0,
        8,
        -8,
        REACH - 8,
        -REACH,
        8 - REACH,
        REACH / 2,
        -REACH / 2,
    ] {
        at(distance);
    }
}

#[test]
fn an_object_out_of_reach_is_an_error_and_is_freed() {
    for distance in [REACH, REACH + 8, -REACH - 8, isize::MAX & !7, isize::MIN] {
        let pool = pool();
        set_next_distance(distance);
        assert_eq!(pool.alloc(8, 0).unwrap_err(), EOVERFLOW, "{distance:#x}");
        assert_eq!(pool.total_pages(), 0, "{distance:#x}");
    }
}

#[test]
fn no_memory_is_an_error() {
    let pool = pool();
    set_object_budget(1);
    let handle = pool.alloc(100, 0).unwrap();
    assert_eq!(pool.alloc(100, 0).unwrap_err(), ENOMEM);
    set_object_budget(usize::MAX);
    pool.free(handle);
}

#[test]
fn an_object_is_read_as_it_was_written_wherever_it_lies() {
    let pool = pool();
    // Every second one is copied to the scratch buffer, as if it lay in two pages.
    let handles: Vec<_> = (1..100usize)
        .map(|len| {
            let mut handle = pool.alloc(len, 0).unwrap();
            pool.write(&mut handle, &vec![len as u8; len]);
            (handle, len)
        })
        .collect();
    for (handle, len) in handles {
        let mut scratch = vec![0xff; len];
        let read = pool.read(handle.borrow(), len, &mut scratch, <[u8]>::to_vec);
        assert_eq!(read.unwrap(), vec![len as u8; len]);
        let mut short = vec![0; len - 1];
        let read = pool.read(handle.borrow(), len, &mut short, |_| panic!("no room"));
        assert_eq!(read.unwrap_err(), EINVAL, "{len}");
        pool.free(handle);
    }
}

#[test]
fn a_whole_block_needs_no_scratch_buffer() {
    let (pool, bytes) = (pool(), block(|i| i as u64));
    let mut handle = pool.alloc(Source::LEN, 0).unwrap();
    aligned(&bytes, |bytes| {
        pool.write_page(&mut handle, Source::from_slice(bytes).unwrap());
    });
    let read = pool.read(handle.borrow(), Source::LEN, &mut [], <[u8]>::to_vec);
    assert_eq!(read.unwrap(), bytes);
    pool.free(handle);
}

#[test]
#[should_panic(expected = "is freed and not live")]
fn this_pool_notices_an_object_that_is_freed_twice() {
    let pool = pool();
    let bits = pool.alloc(8, 0).unwrap().into_packed();
    // SAFETY: Not sound, on purpose: the pool under this one copes.
    unsafe {
        pool.free(Handle::from_packed(bits));
        pool.free(Handle::from_packed(bits));
    }
}

#[test]
#[should_panic(expected = "objects are left")]
fn this_pool_notices_an_object_that_is_lost() {
    let _lost = pool().alloc(8, 0).unwrap();
}

proptest! {
    #[test]
    fn an_object_anywhere_in_reach_can_be_had(distance in -REACH / 8..REACH / 8) {
        at(distance * 8);
    }
}
