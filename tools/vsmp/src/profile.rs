// SPDX-License-Identifier: GPL-2.0

//! Where instructions are executed: counted, not sampled, for each of the blocks that QEMU translates code in.
//!
//! Samples at a fixed distance fall into step with loops, and those at the ends of blocks favour large blocks.

use std::{
    collections::HashMap,
    fmt::Write,
    sync::{Mutex, PoisonError},
};

/// Instructions executed, by the address of their block.
pub type Counts = HashMap<u64, u64>;

/// What is executed between a mark and the next.
pub struct Profile {
    wanted: bool,
    /// What had been executed by the first mark of a pair, while it is the last one.
    before: Mutex<Option<Counts>>,
}

impl Profile {
    /// Counts nothing unless it is `wanted`.
    pub fn new(wanted: bool) -> Self {
        Profile {
            wanted,
            before: Mutex::default(),
        }
    }

    /// Whether blocks have to be counted.
    pub fn wanted(&self) -> bool {
        self.wanted
    }

    /// A mark, by which `so_far` has been executed: begins, or ends and gives what was executed since.
    pub fn mark(&self, so_far: impl FnOnce() -> Counts) -> Option<Counts> {
        if !self.wanted {
            return None;
        }
        let mut now = so_far();
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        match before.take() {
            None => {
                *before = Some(now);
                None
            }
            Some(before) => {
                for (address, count) in &mut now {
                    *count = count.saturating_sub(before.get(address).copied().unwrap_or(0));
                }
                now.retain(|_, count| *count > 0);
                Some(now)
            }
        }
    }
}

/// A line `at ADDRESS COUNT` for each address, in their order.
pub fn lines(counts: &Counts) -> String {
    let mut sorted: Vec<_> = counts.iter().collect();
    sorted.sort_unstable();
    let mut text = String::new();
    for (address, count) in sorted {
        let _ = writeln!(text, "at {address:#x} {count}"); // a string takes all that it is given
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_executed_between_two_marks_counts() {
        let profile = Profile::new(true);
        let so_far = |counts: &[(u64, u64)]| {
            let counts: Counts = counts.iter().copied().collect();
            move || counts
        };
        assert_eq!(profile.mark(so_far(&[(0x10, 5), (0x20, 7)])), None);
        let counts = profile.mark(so_far(&[(0x10, 6), (0x20, 7), (0x30, 2)]));
        assert_eq!(lines(&counts.unwrap()), "at 0x10 1\nat 0x30 2\n");
        assert_eq!(profile.mark(so_far(&[(0x10, 9)])), None);
        assert_eq!(profile.mark(so_far(&[(0x10, 9)])), Some(Counts::new()));
    }

    #[test]
    fn nothing_is_counted_unless_it_is_wanted() {
        let profile = Profile::new(false);
        for _ in 0..4 {
            assert_eq!(profile.mark(|| unreachable!()), None);
        }
    }
}
