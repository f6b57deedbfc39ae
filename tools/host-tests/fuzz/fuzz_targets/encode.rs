// SPDX-License-Identifier: GPL-2.0
//! The codec's encoder with any block, and its decoder with what that makes.
#![no_main]

use host_tests::fuzzing::{any_block, some_block};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|bytes: &[u8]| any_block(bytes));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut size = size;
    if seed % 32 == 0 {
        let block = some_block(seed);
        size = block.len().min(max_size);
        data[..size].copy_from_slice(&block[..size]);
    }
    fuzzer_mutate(data, size, max_size)
});
