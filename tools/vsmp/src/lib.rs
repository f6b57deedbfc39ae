// SPDX-License-Identifier: GPL-2.0

//! A QEMU plugin that makes a guest with many CPUs measurable on a host with few, and with others' work on it.
//!
//! Time is counted in instructions. Each of the guest's CPUs has a clock that goes on by one with each instruction; none
//! that runs gets further ahead of the slowest than a quantum; one that waits for an interrupt takes the common time when
//! it goes on (see [`clock`]). So a fixed amount of work takes a time that depends on what the guest executes, and who waits
//! for whom, but neither on the host's load nor on its number of CPUs.
//!
//! The guest marks a point in time with the instruction `xchg %bx,%bx`, which does nothing. Each mark is a line
//! `mark CPU TIME INSTRUCTIONS AHEAD` in the output: that CPU's clock, the instructions of all CPUs, and how often a CPU was
//! let go although it was ahead of others, by which times may be too short. With `profile=1`, instructions are counted by where
//! they are from the first mark of each pair to the second, and added as lines `at ADDRESS COUNT` (see [`profile`]).
//!
//! `-plugin librzram_vsmp.so,out=FILE[,quantum=5000][,profile=0]`
//!
//! What is not in the count: misses of caches, and what an instruction costs. A string instruction counts once for each of
//! its elements.

pub mod clock;
pub mod profile;
mod qemu;

use std::{
    fs::File,
    io::Write,
    sync::{Mutex, PoisonError},
};

use clock::Lockstep;
use profile::{Counts, Profile};

/// How far a CPU may be ahead of the slowest one, in instructions, if nothing else is said.
pub const QUANTUM: u64 = 5000;

/// What the plugin's arguments say.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    /// Where marks go.
    pub out: String,
    /// How far a CPU may be ahead of the slowest.
    pub quantum: u64,
    /// Whether to count instructions by where they are.
    pub profile: bool,
}

impl Options {
    /// From arguments such as `quantum=5000`.
    pub fn parse<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut options = Options {
            out: String::new(),
            quantum: QUANTUM,
            profile: false,
        };
        for argument in arguments {
            let number = |value: &str| {
                value
                    .parse()
                    .map_err(|_| format!("{argument}: not a number"))
            };
            match argument.split_once('=') {
                Some(("out", value)) => options.out = value.to_owned(),
                Some(("quantum", value)) => options.quantum = number(value)?,
                Some(("profile", value)) => options.profile = number(value)? != 0,
                _ => return Err(format!("{argument}: out, quantum and profile are known")),
            }
        }
        if options.out.is_empty() {
            return Err("out=FILE is missing".to_owned());
        }
        if options.quantum == 0 {
            return Err("quantum: has to be at least 1".to_owned());
        }
        Ok(options)
    }
}

/// All that the plugin knows.
pub(crate) struct Plugin {
    /// The CPUs' clocks.
    pub(crate) clocks: Lockstep,
    /// Where they were.
    pub(crate) profile: Profile,
    out: Mutex<File>,
}

impl Plugin {
    fn new(options: &Options) -> Result<Self, String> {
        let out = File::create(&options.out).map_err(|e| format!("{}: {e}", options.out))?;
        Ok(Plugin {
            clocks: Lockstep::new(options.quantum),
            profile: Profile::new(options.profile),
            out: Mutex::new(out),
        })
    }

    fn print(&self, text: &str) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever reads it sees that it is cut off.
        let _ = out.write_all(text.as_bytes());
    }

    /// A CPU came to a mark, with so many instructions counted that it has not executed yet. `so_far` tells what was executed
    /// where.
    pub(crate) fn mark(&self, cpu: usize, ahead: u64, so_far: impl FnOnce() -> Counts) {
        let mark = self.clocks.mark(cpu);
        self.print(&format!(
            "mark {cpu} {} {} {}\n",
            mark.time.saturating_sub(ahead),
            mark.instructions.saturating_sub(ahead),
            self.clocks.let_go()
        ));
        if let Some(counts) = self.profile.mark(so_far) {
            self.print(&profile::lines(&counts));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_parsed() {
        let options = Options::parse(["out=/tmp/x=y", "quantum=7", "profile=1"]);
        let expected = Options {
            out: "/tmp/x=y".to_owned(),
            quantum: 7,
            profile: true,
        };
        assert_eq!(options, Ok(expected));
        assert_eq!(
            Options::parse(["out=a"]).map(|o| (o.quantum, o.profile)),
            Ok((QUANTUM, false))
        );
    }

    #[test]
    fn wrong_options_are_refused() {
        for wrong in [
            &["quantum=5"][..],
            &["out=a", "quantum=x"],
            &["out=a", "quantum=0"],
            &["out=a", "fast=on"],
            &["out=a", "on"],
        ] {
            assert!(Options::parse(wrong.iter().copied()).is_err(), "{wrong:?}");
        }
    }
}
