// SPDX-License-Identifier: GPL-2.0

//! A second decoder for what wlz stores, written for being read: whatever it makes of some bytes, the module's has to make of
//! them too. Documentation/codec.rst has the format.

/// The block that `bytes` stand for; `None` if they stand for none.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
    let (form, rest) = bytes.split_last()?;
    let block = match form {
        0 => rest.to_vec(),
        1 => words(rest)?,
        2 => sequences(rest)?,
        _ => return None,
    };
    (block.len() == 4096).then_some(block)
}

/// So many bytes from the front, the low one first.
fn number(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(len)?)?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |all, byte| (all << 8) | u64::from(*byte)),
    )
}

fn words(bytes: &[u8]) -> Option<Vec<u8>> {
    let presents = bytes.get(..32)?;
    let start = number(bytes, 32, 2)? as usize;
    let mut codes = Vec::new();
    let mut at = start;
    for present in presents {
        for bit in 0..8 {
            let pair = match (present >> bit) & 1 {
                0 => 0,
                _ => {
                    at += 1;
                    *bytes.get(at - 1)?
                }
            };
            codes.extend([pair & 15, pair >> 4]);
        }
    }
    if at != bytes.len() {
        return None;
    }
    let mut words: Vec<u64> = Vec::new();
    let mut back = 1;
    let mut at = 34;
    // Of a number: its low bytes; and those of another word, but for so many low bytes.
    let but = |word: u64, len: u32| word >> (8 * len) << (8 * len);
    for code in codes {
        let found = matches!(code, 2 | 6 | 8);
        let other = match (found, words.len()) {
            (true, len) => {
                let far = 256 - number(bytes, at, 1)? as usize;
                at += 1;
                if code == 2 {
                    back = far;
                }
                Some(*words.get(len.checked_sub(far)?)?)
            }
            (false, len) => len.checked_sub(back).map(|at| words[at]),
        };
        let len = [0, 0, 0, 1, 1, 2, 1, 2, 2, 4, 4, 4, 4, 5, 6, 8][usize::from(code)];
        let own = number(bytes, at, len)?;
        at += len;
        words.push(match code {
            0 | 3 | 5 | 9 | 13 | 14 | 15 => own,
            1 | 2 => other?,
            4 | 6 => but(other?, 1) | own,
            7 | 8 => but(other?, 2) | own,
            11 => but(other?, 4) | own,
            10 => own << 32,
            12 => other? & 0xffff_ffff | (own << 32),
            _ => return None,
        });
    }
    (at == start).then(|| words.iter().flat_map(|word| word.to_le_bytes()).collect())
}

/// LZ4's block format, for a block of 4 KiB.
fn sequences(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut block = Vec::new();
    let mut rest = bytes.iter().copied();
    loop {
        let token = rest.next()?;
        for _ in 0..length(token >> 4, &mut rest)? {
            block.push(rest.next()?);
        }
        let Some(low) = rest.next() else {
            return Some(block);
        };
        let back = usize::from(u16::from_le_bytes([low, rest.next()?]));
        for _ in 0..length(token & 15, &mut rest)? + 4 {
            let from = block.len().checked_sub(back).filter(|_| back != 0)?;
            block.push(block[from]);
        }
        if block.len() > 4096 {
            return None;
        }
    }
}

/// What a half of a token says, with the bytes that go on where it is full; more than a block has is no length.
fn length(half: u8, rest: &mut impl Iterator<Item = u8>) -> Option<usize> {
    let mut length = usize::from(half);
    if half < 15 {
        return Some(length);
    }
    loop {
        let more = rest.next()?;
        length += usize::from(more);
        if more != 255 {
            return Some(length);
        }
        if length > 4096 {
            return None;
        }
    }
}
