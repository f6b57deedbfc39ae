// SPDX-License-Identifier: GPL-2.0

//! What a fuzzer that sees which branches are taken has to drive; the programs are in `fuzz/fuzz_targets`.

use crate::{
    random::Random,
    sys::page::BLOCK_SIZE,
    wlz::Encoder,
    wlz_cases::{block, decode, encode, Guarded},
    wlz_reference,
};

/// Decodes any bytes: what comes is what the reference makes of them, whatever the memory was before, and nothing outside of
/// the bytes and the block is touched.
pub fn any_bytes(bytes: &[u8]) {
    // What is stored is never longer.
    let Some(bytes) = bytes.get(..bytes.len().min(BLOCK_SIZE + 1)) else {
        return;
    };
    let (mut stored, mut back) = (Guarded::new(2), Guarded::new(1));
    let expected = wlz_reference::decode(bytes);
    for before in [0, 0xff] {
        let came = decode(stored.at_end(bytes), &mut back, before);
        assert!(came == expected, "the decoders do not agree");
    }
}

/// Encodes a block that begins with `bytes`, repeated if there are too few: it comes back, and the same block gives the same
/// bytes after another one, too.
pub fn any_block(bytes: &[u8]) {
    let mut made: Vec<u8> = bytes.iter().copied().cycle().take(BLOCK_SIZE).collect();
    made.resize(BLOCK_SIZE, 0);
    let mut source = Guarded::new(1);
    let mut encoder = Encoder::new().unwrap();
    let stored = encode(&mut encoder, &made, &mut source);
    assert!(stored.len() <= BLOCK_SIZE + 1);
    assert!(wlz_reference::decode(&stored).as_deref() == Some(&made[..]));
    any_bytes(&stored);
    made.reverse();
    encode(&mut encoder, &made, &mut source);
    made.reverse();
    assert!(encode(&mut encoder, &made, &mut source) == stored);
}

/// Bytes to start from: what is stored of some block.
pub fn some_stored(seed: u32) -> Vec<u8> {
    let mut random = Random::new(seed.into());
    let made = block(random.next(), random.next());
    encode(&mut Encoder::new().unwrap(), &made, &mut Guarded::new(1))
}

/// Bytes to start from: some block.
pub fn some_block(seed: u32) -> Vec<u8> {
    let mut random = Random::new(seed.into());
    block(random.next(), random.next())
}
