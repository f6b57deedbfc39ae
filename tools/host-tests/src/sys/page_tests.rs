// SPDX-License-Identifier: GPL-2.0

//! Blocks in memory.

use crate::bindings;
use crate::prelude::EINVAL;
use crate::sys::page::{Dest, Piece, Source, BLOCK_SIZE};
use proptest::prelude::*;

const WORDS: usize = BLOCK_SIZE / 8;

/// A block that is aligned to 8.
pub(crate) fn block(words: impl FnMut(usize) -> u64) -> Vec<u8> {
    let words: Vec<u64> = (0..WORDS).map(words).collect();
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn same_filled(bytes: &[u8]) -> Option<u64> {
    aligned(bytes, |bytes| {
        Source::from_slice(bytes).unwrap().same_filled()
    })
}

/// Calls `f` with a copy of `bytes` that is aligned to 8.
pub(crate) fn aligned<R>(bytes: &[u8], f: impl FnOnce(&mut [u8]) -> R) -> R {
    let mut buffer = vec![0; bytes.len() + 8];
    let at = buffer.as_ptr().align_offset(8);
    let buffer = &mut buffer[at..at + bytes.len()];
    buffer.copy_from_slice(bytes);
    f(buffer)
}

#[test]
fn a_block_of_one_word_is_same_filled() {
    for pattern in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef, 0x0101_0101_0101_0101] {
        assert_eq!(same_filled(&block(|_| pattern)), Some(pattern));
    }
}

#[test]
fn a_single_bit_anywhere_makes_a_block_not_same_filled() {
    for at in 0..WORDS {
        for bit in [0, 31, 63] {
            let bytes = block(|i| if i == at { 1 << bit } else { 0 });
            assert_eq!(same_filled(&bytes), None, "bit {bit} of word {at}");
        }
    }
}

#[test]
fn short_and_unaligned_buffers_are_no_blocks() {
    aligned(&vec![0; BLOCK_SIZE + 8], |bytes| {
        assert!(Source::from_slice(&bytes[..BLOCK_SIZE - 1]).is_none());
        assert!(Dest::from_slice(&mut bytes[..BLOCK_SIZE - 1]).is_none());
        for at in 1..8 {
            assert!(Source::from_slice(&bytes[at..at + BLOCK_SIZE]).is_none());
            assert!(Dest::from_slice(&mut bytes[at..at + BLOCK_SIZE]).is_none());
        }
        assert!(Source::from_slice(&bytes[8..]).is_some());
        assert!(Dest::from_slice(&mut bytes[8..]).is_some());
    });
}

#[test]
fn filling_a_block_fills_all_of_it_and_no_more() {
    for pattern in [0, u64::MAX, 0x0123_4567_89ab_cdef, 0x7777_7777_7777_7777] {
        aligned(&vec![0xa5; BLOCK_SIZE + 16], |bytes| {
            Dest::from_slice(&mut bytes[8..]).unwrap().fill(pattern);
            assert_eq!(bytes[8..8 + BLOCK_SIZE], block(|_| pattern), "{pattern:#x}");
            assert_eq!(bytes[..8], [0xa5; 8]);
            assert_eq!(bytes[8 + BLOCK_SIZE..], [0xa5; 8]);
        });
    }
}

#[test]
fn copying_a_block_copies_all_of_it_and_no_more() {
    let data = block(|i| (i as u64).wrapping_mul(0x0123_4567_89ab_cdef));
    aligned(&vec![0xa5; BLOCK_SIZE + 16], |bytes| {
        let mut dest = Dest::from_slice(&mut bytes[8..]).unwrap();
        assert_eq!(dest.copy_from(&data), Ok(()));
        assert_eq!(bytes[8..8 + BLOCK_SIZE], data);
        assert_eq!(bytes[..8], [0xa5; 8]);
        assert_eq!(bytes[8 + BLOCK_SIZE..], [0xa5; 8]);
    });
}

#[test]
fn what_is_not_a_block_is_not_copied() {
    for len in [0, 1, 7, BLOCK_SIZE - 1, BLOCK_SIZE + 1, 2 * BLOCK_SIZE] {
        aligned(&vec![0xa5; BLOCK_SIZE], |bytes| {
            let mut dest = Dest::from_slice(bytes).unwrap();
            assert_eq!(dest.copy_from(&vec![0x5a; len]), Err(EINVAL), "{len}");
            assert!(bytes.iter().all(|byte| *byte == 0xa5), "{len}");
        });
    }
}

proptest! {
    #[test]
    fn a_piece_of_a_page_is_copied_from_its_offset_and_no_further(
        offset in 0usize..8,
        len in 1usize..=8,
        room in 0usize..=5000,
    ) {
        let (offset, len) = (offset * 512, len.min(8 - offset) * 512);
        let mut page = Box::new(bindings::page(std::array::from_fn(|i| (i / 512 + 1) as u8)));
        // SAFETY: The page outlives the piece, which lies in it.
        let piece = unsafe { Piece::new(&mut *page, offset, len) };
        prop_assert_eq!(piece.len(), len);

        let mut buffer = vec![0; room];
        let copied = piece.copy_to(&mut buffer);
        prop_assert_eq!(copied, len.min(room));
        prop_assert_eq!(&buffer[..copied], &page.0[offset..offset + copied]);
        prop_assert!(buffer[copied..].iter().all(|byte| *byte == 0));

        let before = page.0;
        let copied = piece.copy_from(&vec![0xff; room]);
        prop_assert_eq!(copied, len.min(room));
        prop_assert_eq!(&page.0[..offset], &before[..offset]);
        prop_assert!(page.0[offset..offset + copied].iter().all(|byte| *byte == 0xff));
        prop_assert_eq!(&page.0[offset + copied..], &before[offset + copied..]);

        prop_assert_eq!(piece.with_source(|_| ()).is_some(), len == BLOCK_SIZE);
        prop_assert_eq!(piece.with_dest(|_| ()).is_some(), len == BLOCK_SIZE);
        prop_assert_eq!(bindings::mapped(), 0);
    }
}
