// SPDX-License-Identifier: GPL-2.0

//! The codec: what comes back, what it takes, and that it touches nothing else. Blocks lie between pages that cannot be touched.

use crate::{
    random::Random,
    sys::page::{Source, BLOCK_SIZE},
    wlz::Encoder,
    wlz_cases::{block, decode, encode, Guarded},
    wlz_reference,
};
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Checks all that has to hold of a block.
fn check(encoder: &mut Encoder, block: &[u8], memory: &mut [Guarded; 2]) -> Vec<u8> {
    let [source, back] = memory;
    let bytes = encode(encoder, block, source);
    assert!(bytes.len() <= BLOCK_SIZE + 1);
    let mut stored = Guarded::new(2);
    for before in [0, 0xff] {
        let decoded = decode(stored.at_end(&bytes), back, before);
        assert!(decoded.as_deref() == Some(block), "it does not come back");
    }
    assert!(wlz_reference::decode(&bytes).as_deref() == Some(block));
    bytes
}

fn memory() -> [Guarded; 2] {
    [Guarded::new(1), Guarded::new(1)]
}

#[test]
fn all_kinds_come_back_and_are_stored_as_they_should_be() {
    let mut encoder = Encoder::new().unwrap();
    let mut memory = memory();
    for kind in 0..32 {
        for seed in 0..40 {
            let bytes = check(&mut encoder, &block(kind, seed), &mut memory);
            // Nothing is lost by trying, and each has its encoder.
            let (len, form) = (bytes.len(), bytes[bytes.len() - 1]);
            match kind {
                0 => assert_eq!((len, form), (35, 1)),
                1 => assert!(form == 1 && len < 1400, "{len}"),
                2 => assert!(form == 1 && len < 900, "{len}"),
                3 => assert_eq!((len, form), (BLOCK_SIZE + 1, 0)),
                7 => assert!(form == 2 && len < 60, "{len}"),
                _ => {}
            }
        }
    }
}

#[test]
fn noise_at_the_beginning_hides_no_zeros() {
    let mut encoder = Encoder::new().unwrap();
    let mut memory = memory();
    for noise in (0..=2600).step_by(8) {
        let mut random = Random::new(noise as u64 + 1);
        let mut block = vec![0; BLOCK_SIZE];
        for word in block[..noise].chunks_exact_mut(8) {
            word.copy_from_slice(&random.next().to_le_bytes());
        }
        let len = check(&mut encoder, &block, &mut memory).len();
        assert!(
            len < noise + noise / 100 + 128,
            "{noise} bytes of noise: {len}"
        );
    }
}

#[test]
fn the_same_block_gives_the_same_bytes_whatever_came_before() {
    let mut memory = memory();
    let mut encoder = Encoder::new().unwrap();
    for kind in 0..32 {
        let fresh = encode(
            &mut Encoder::new().unwrap(),
            &block(kind, 7),
            &mut memory[0],
        );
        for other in 0..32 {
            encode(&mut encoder, &block(other, other), &mut memory[0]);
            let again = encode(&mut encoder, &block(kind, 7), &mut memory[0]);
            assert!(again == fresh, "{kind} after {other}");
        }
    }
}

#[test]
fn every_length_of_literals_and_matches_comes_back() {
    let mut encoder = Encoder::new().unwrap();
    let mut memory = memory();
    let noise = block(3, 1);
    for length in (0..64).chain([254, 255, 256, 269, 270, 271, 510, 525, 1000, 2000, 4000]) {
        for period in [1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 300] {
            // Noise, a pattern, and noise again, so that matches and literals have that length.
            let mut bytes = noise.clone();
            for at in length.min(3500)..(length.min(3500) + length + period).min(BLOCK_SIZE) {
                bytes[at] = noise[4000 - at % period];
            }
            check(&mut encoder, &bytes, &mut memory);
            bytes[2048..].fill(7);
            bytes[4096 - length.min(40)..].copy_from_slice(&noise[..length.min(40)]);
            check(&mut encoder, &bytes, &mut memory);
        }
    }
}

#[test]
fn a_block_that_changes_meanwhile_becomes_one_of_its_states() {
    let words: Vec<AtomicU64> = (0..512).map(AtomicU64::new).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::new(3);
            while !stop.load(Ordering::Relaxed) {
                let index = random.next() as usize % 512;
                words[index].fetch_xor(1 << 63, Ordering::Relaxed);
            }
        });
        let mut encoder = Encoder::new().unwrap();
        let mut back = Guarded::new(1);
        // SAFETY: As the module sees a page that somebody else writes to: no more than its address is used.
        let bytes = unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), BLOCK_SIZE) };
        for _ in 0..20_000 {
            let stored = encoder
                .compress(Source::from_slice(bytes).unwrap())
                .to_vec();
            let decoded = decode(&stored, &mut back, 0).expect("it was one block");
            for (index, word) in decoded.chunks_exact(8).enumerate() {
                let word = u64::from_le_bytes(word.try_into().unwrap());
                assert_eq!(word & !(1 << 63), index as u64);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_is_no_block_is_refused() {
    let mut memory = Guarded::new(1);
    let mut refused = |bytes: &[u8]| assert!(decode(bytes, &mut memory, 0).is_none(), "{bytes:?}");
    refused(&[]);
    for form in 0..=255 {
        refused(&[form]);
        refused(&[0, form]);
    }
    refused(&[0; BLOCK_SIZE]);
    refused(&[0; BLOCK_SIZE + 2]);
    // A first word that is like the one before it; one that is found too far back.
    let words = |codes: u8, payload: &[u8]| {
        let mut bytes = vec![0; 32];
        bytes[0] = 1;
        bytes.extend((34 + payload.len() as u16).to_le_bytes());
        bytes.extend(payload);
        bytes.extend([codes, 1]);
        bytes
    };
    for code in [1, 2, 4, 6, 7, 8, 11, 12] {
        refused(&words(
            code,
            &[255, 0, 0, 0, 0][..[0, 0, 1, 0, 1, 0, 2, 2, 3, 0, 0, 4, 4][code as usize]],
        ));
    }
    refused(&words(0x25, &[7, 7, 254]));
    // An offset of zero, and one to before the block.
    refused(&[0x10, 7, 0, 0, 0x50, 1, 2, 3, 4, 5, 2]);
    refused(&[0x10, 7, 2, 0, 0x50, 1, 2, 3, 4, 5, 2]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_block_comes_back(kind in 0..32_u64, seed: u64, edits in prop::collection::vec((0..BLOCK_SIZE, any::<u8>()), 0..64)) {
        let mut block = block(kind, seed);
        for (at, value) in edits {
            block[at] = value;
        }
        check(&mut Encoder::new().unwrap(), &block, &mut memory());
    }

    #[test]
    fn any_few_words_over_and_over_come_back(words in prop::collection::vec(any::<u64>(), 1..200), cut in 0..8_usize) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| (word >> (8 * cut)).to_le_bytes()).collect();
        let block: Vec<u8> = bytes.iter().copied().cycle().take(BLOCK_SIZE).collect();
        check(&mut Encoder::new().unwrap(), &block, &mut memory());
    }
}
