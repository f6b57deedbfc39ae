// SPDX-License-Identifier: GPL-2.0
//! What an object costs in the kernel's pool of compressed pages, zsmalloc, with pages of 4 KiB.

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Classes differ by this much.
const STEP: usize = PAGE >> 8;
/// The smallest class.
const MIN: usize = 32;
/// What is in front of an object.
const HANDLE: usize = 8;
/// The most pages that are taken together: `CONFIG_ZSMALLOC_CHAIN_SIZE`.
const CHAIN: usize = 8;

/// How many pages a class takes together: those that leave least over.
fn chain(class: usize) -> usize {
    if class.is_power_of_two() {
        return 1;
    }
    (1..=CHAIN)
        .min_by_key(|pages| pages * PAGE % class)
        .unwrap_or(1)
}

/// Bytes of memory for an object of so many bytes; a whole page for what is stored as it is.
pub fn stored(len: usize) -> f64 {
    let size = (len + HANDLE).max(MIN);
    let class = MIN + (size - MIN).div_ceil(STEP) * STEP;
    if class > PAGE {
        return PAGE as f64;
    }
    let pages = chain(class);
    (pages * PAGE) as f64 / (pages * PAGE / class) as f64
}

/// Whether an object of so many bytes takes a whole page.
pub fn is_huge(len: usize) -> bool {
    stored(len) >= PAGE as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_what_the_kernel_has() {
        // 128 in a page, and seven pages of 9 objects each.
        assert_eq!(stored(24), 32.0);
        assert_eq!(stored(20), 32.0);
        assert_eq!(
            stored(25),
            4096.0 * chain(48) as f64 / (4096 * chain(48) / 48) as f64
        );
        assert_eq!(stored(2040), 2048.0);
    }

    #[test]
    fn what_is_longer_than_the_largest_class_takes_a_page() {
        assert!(!is_huge(3624));
        assert!(is_huge(3625));
        assert!(is_huge(4097));
    }

    #[test]
    fn more_bytes_never_cost_less_by_much() {
        // Classes are not quite in order of what they waste.
        for len in 1..4096 {
            assert!(stored(len) >= len as f64);
            assert!(stored(len + 1) > 0.98 * stored(len), "{len}");
        }
    }
}
