// SPDX-License-Identifier: GPL-2.0
//! The codec's decoder with any bytes.
#![no_main]

use host_tests::fuzzing::{any_bytes, some_stored};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|bytes: &[u8]| any_bytes(bytes));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    // Now and then from what is valid, for no fuzzer guesses that soon.
    let mut size = size;
    if seed % 32 == 0 {
        let stored = some_stored(seed);
        size = stored.len().min(max_size);
        data[..size].copy_from_slice(&stored[..size]);
    }
    fuzzer_mutate(data, size, max_size)
});
