// SPDX-License-Identifier: GPL-2.0
//! Which pages are kept: those that differ from all others, and that are not of one word.

use crate::PAGE;
use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hasher},
};

/// The pages of a kind.
pub struct Sampler {
    pages: Vec<u8>,
    seen: HashSet<u64>,
    wanted: usize,
    /// Pages looked at.
    pub sampled: usize,
    /// Those that were nothing but zeros.
    pub zero: usize,
    /// Those that were another word over and over.
    pub same: usize,
    /// Those that were there already.
    pub twice: usize,
}

impl Sampler {
    /// Takes up to `wanted` pages.
    pub fn new(wanted: usize) -> Self {
        Self {
            pages: Vec::new(),
            seen: HashSet::new(),
            wanted,
            sampled: 0,
            zero: 0,
            same: 0,
            twice: 0,
        }
    }

    /// Looks at a page.
    pub fn add(&mut self, page: &[u8]) {
        if self.is_full() {
            return;
        }
        self.sampled += 1;
        let (first, rest) = page.split_at(8);
        if rest.chunks_exact(8).all(|word| word == first) {
            if first.iter().all(|byte| *byte == 0) {
                self.zero += 1;
            } else {
                self.same += 1;
            }
            return;
        }
        let mut hasher = DefaultHasher::new();
        hasher.write(page);
        if self.seen.insert(hasher.finish()) {
            self.pages.extend_from_slice(page);
        } else {
            self.twice += 1;
        }
    }

    /// Whether there are as many as were wanted.
    pub fn is_full(&self) -> bool {
        self.count() >= self.wanted
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.pages.len() / PAGE
    }

    /// Them, one after the other.
    pub fn pages(&self) -> &[u8] {
        &self.pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_one_word_and_copies_are_counted_and_dropped() {
        let mut sampler = Sampler::new(2);
        let mut page = [0; PAGE];
        sampler.add(&page);
        sampler.add(&[7; PAGE]);
        page[PAGE - 1] = 1;
        sampler.add(&page);
        sampler.add(&page);
        assert_eq!((sampler.zero, sampler.same, sampler.twice), (1, 1, 1));
        assert_eq!(sampler.pages(), page);
        assert!(!sampler.is_full());
        page[0] = 1;
        sampler.add(&page);
        assert!(sampler.is_full());
        sampler.add(&[1, 2].repeat(PAGE / 2));
        assert_eq!((sampler.count(), sampler.sampled), (2, 5));
    }
}
