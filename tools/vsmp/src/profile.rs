// SPDX-License-Identifier: GPL-2.0

//! Where CPUs are, every so many instructions.

use std::{
    collections::HashMap,
    fmt::Write,
    sync::{
        atomic::{AtomicBool, Ordering},
        Mutex, PoisonError,
    },
};

/// How often each address was met.
pub type Samples = HashMap<u64, u64>;

/// Samples of program counters, taken between a mark and the next.
pub struct Profile {
    every: u64,
    on: AtomicBool,
    samples: Mutex<Samples>,
}

impl Profile {
    /// Samples `every` so many instructions; 0 for never.
    pub fn new(every: u64) -> Self {
        Profile {
            every,
            on: AtomicBool::new(false),
            samples: Mutex::default(),
        }
    }

    /// Instructions between two samples; 0 if there are none to be taken.
    pub fn every(&self) -> u64 {
        self.every
    }

    /// A CPU is at `address`.
    pub fn sample(&self, address: u64) {
        if self.on.load(Ordering::Relaxed) {
            let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
            *samples.entry(address).or_default() += 1;
        }
    }

    /// A mark: begins, or ends and gives what there was.
    pub fn mark(&self) -> Option<Samples> {
        if self.every == 0 || !self.on.fetch_xor(true, Ordering::Relaxed) {
            return None;
        }
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        Some(std::mem::take(&mut *samples))
    }
}

/// A line `at ADDRESS COUNT` for each address, in their order.
pub fn lines(samples: &Samples) -> String {
    let mut sorted: Vec<_> = samples.iter().collect();
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
    fn samples_between_two_marks_count() {
        let profile = Profile::new(100);
        profile.sample(1);
        assert_eq!(profile.mark(), None);
        profile.sample(0x20);
        profile.sample(0x10);
        profile.sample(0x20);
        let samples = profile.mark().unwrap();
        assert_eq!(lines(&samples), "at 0x10 1\nat 0x20 2\n");
        profile.sample(1);
        assert_eq!(profile.mark(), None);
        assert_eq!(profile.mark(), Some(Samples::new()));
    }

    #[test]
    fn without_sampling_there_is_nothing() {
        let profile = Profile::new(0);
        for _ in 0..4 {
            assert_eq!(profile.mark(), None);
            profile.sample(1);
        }
    }
}
