// SPDX-License-Identifier: GPL-2.0

//! The codec's decoder with input that nobody encoded: what was encoded, with changes in it, and noise.
//!
//! Input ends, and the block begins and ends, at pages that cannot be touched. Whatever comes of it has to be what the
//! reference makes of it, and the same whatever the memory was before. `RZRAM_FUZZ=10000000` sets how many there are.

use crate::{
    random::Random,
    wlz::Encoder,
    wlz_cases::{block, decode, encode, Guarded},
    wlz_reference,
};

/// How many inputs by themselves.
const INPUTS: u64 = 60_000;

/// Changes some of `bytes`.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.next() % 6 {
        let len = bytes.len();
        let at = random.next() as usize % len.max(1);
        match random.next() % 8 {
            0 if len != 0 => bytes[at] ^= 1 << (random.next() & 7),
            1 if len != 0 => bytes[at] = random.next() as u8,
            2 if len != 0 => bytes[at] = [0, 1, 2, 15, 0xf0, 0xff][random.next() as usize % 6],
            // The head of words, and the codes and the form at the end.
            3 if len > 40 => bytes[random.next() as usize % 34] = random.next() as u8,
            4 if len > 40 => {
                let back = random.next() as usize % 40;
                bytes[len - 1 - back] = random.next() as u8;
            }
            5 => bytes.truncate(at),
            6 => bytes.insert(at.min(len), random.next() as u8),
            _ if len > 8 => {
                let (from, count) = (random.next() as usize % len, random.next() as usize % 32);
                let part = bytes[from..(from + count).min(len)].to_vec();
                bytes.splice(at..(at + count).min(len), part);
            }
            _ => bytes.push(random.next() as u8),
        }
    }
    // Most are to be read as one form or the other.
    if random.next() & 3 != 0 {
        if let Some(last) = bytes.last_mut() {
            *last = [1, 2][random.next() as usize & 1];
        }
    }
}

#[test]
fn whatever_is_decoded_nothing_else_is_touched() {
    let inputs = std::env::var("RZRAM_FUZZ").map_or(INPUTS, |count| count.parse().unwrap());
    let seed = std::env::var("RZRAM_FUZZ_SEED").map_or(1, |seed| seed.parse().unwrap());
    let mut random = Random::new(seed);
    let mut encoder = Encoder::new().unwrap();
    let (mut source, mut stored, mut dest) = (Guarded::new(1), Guarded::new(3), Guarded::new(1));
    let (mut taken, mut bytes) = (0, Vec::new());
    for input in 0..inputs {
        if input % 16 == 0 {
            let made = block(random.next(), random.next());
            bytes = encode(&mut encoder, &made, &mut source);
        }
        let mut bytes = bytes.clone();
        if random.next() % 64 == 0 {
            bytes
                .iter_mut()
                .for_each(|byte| *byte = random.next() as u8);
        }
        mutate(&mut bytes, &mut random);
        let expected = wlz_reference::decode(&bytes);
        let came = [0, 0xff].map(|before| decode(stored.at_end(&bytes), &mut dest, before));
        for came in came {
            assert!(
                came == expected,
                "input {input} of seed {seed}: {} bytes, expected {}, came {}",
                bytes.len(),
                expected.is_some(),
                came.is_some()
            );
        }
        taken += u64::from(expected.is_some());
    }
    // Both ways are gone often.
    assert!(
        taken > inputs / 50 && taken < inputs * 49 / 50,
        "{taken} of {inputs}"
    );
}
