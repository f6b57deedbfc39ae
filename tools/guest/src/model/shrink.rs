// SPDX-License-Identifier: GPL-2.0

//! Makes a sequence of steps that fails as short and as simple as it gets in a given time.

use std::time::{Duration, Instant};

use super::step::{Backing, Free, How, Shape, Step, What, WINDOW};

/// The shortest sequence found, and how many were tried. `fails` plays a sequence.
pub fn shrink(
    steps: Vec<Step>,
    limit: Duration,
    mut fails: impl FnMut(&[Step]) -> bool,
) -> (Vec<Step>, u32) {
    let end = Instant::now() + limit;
    let mut tries = 0;
    let mut fails = |steps: &[Step]| {
        tries += 1;
        fails(steps)
    };
    let mut best = steps;
    loop {
        let before = best.clone();
        remove(&mut best, end, &mut fails);
        simplify(&mut best, end, &mut fails);
        if best == before || Instant::now() > end {
            return (best, tries);
        }
    }
}

/// Leaves out what is not needed, in ever smaller pieces.
fn remove(best: &mut Vec<Step>, end: Instant, fails: &mut impl FnMut(&[Step]) -> bool) {
    let mut size = best.len().div_ceil(2);
    while size > 0 {
        // From the end: what comes later depends on what comes before.
        let mut at = best.len();
        while at > 0 {
            let from = at.saturating_sub(size);
            let mut shorter = best.clone();
            shorter.drain(from..at);
            if Instant::now() > end {
                return;
            }
            if fails(&shorter) {
                *best = shorter;
            }
            at = from;
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
}

/// Puts simpler steps in the place of what is there.
fn simplify(best: &mut [Step], end: Instant, fails: &mut impl FnMut(&[Step]) -> bool) {
    for at in 0..best.len() {
        let mut again = true;
        while again {
            again = false;
            for simple in best[at].simpler() {
                if Instant::now() > end {
                    return;
                }
                let before = std::mem::replace(&mut best[at], simple);
                if fails(best) {
                    again = true;
                    break;
                }
                best[at] = before;
            }
        }
    }
}

impl Step {
    /// Simpler steps that may do as well.
    fn simpler(&self) -> Vec<Step> {
        let mut all = Vec::new();
        match self {
            Step::Recreate(shape) => all.push(Step::SetUp(shape.clone())),
            Step::SetUp(shape) => {
                let mut with = |change: fn(&mut Shape)| {
                    let mut simple = shape.clone();
                    change(&mut simple);
                    all.push(Step::SetUp(simple));
                };
                with(|shape| shape.backing = Backing::None);
                with(|shape| {
                    if shape.backing == Backing::File {
                        shape.backing = Backing::Device;
                    }
                });
                with(|shape| shape.again.clear());
                with(|shape| shape.compressed = false);
                with(|shape| shape.algorithm = "lz4".into());
                with(|shape| shape.blocks = u64::from(WINDOW));
            }
            Step::Write {
                how,
                at,
                count,
                what,
                seed,
            } => {
                let (how, at, count, what, seed) = (*how, *at, *count, *what, *seed);
                let mut write = |how, at, count, what, seed| {
                    all.push(Step::Write {
                        how,
                        at,
                        count,
                        what,
                        seed,
                    });
                };
                write(how, at, 1, what, seed);
                write(how, at, count / 2, what, seed);
                write(how, at + count / 2, count - count / 2, what, seed);
                write(How::Direct(0), at, count, what, seed);
                // Not one of these for another: that would have no end.
                if seed != 1 {
                    for what in [What::Text, What::Random, What::Word] {
                        write(how, at, count, what, 1);
                    }
                }
            }
            Step::Read { how, at, count } => {
                let (how, at, count) = (*how, *at, *count);
                for (how, at, count) in [
                    (how, at, 1),
                    (how, at, count / 2),
                    (how, at + count / 2, count - count / 2),
                    (How::Direct(0), at, count),
                ] {
                    all.push(Step::Read { how, at, count });
                }
            }
            Step::Free { how, at, count } => {
                let (how, at, count) = (*how, *at, *count);
                for (how, at, count) in [
                    (how, at, 1),
                    (how, at, count / 2),
                    (how, at + count / 2, count - count / 2),
                    (Free::Discard, at, count),
                ] {
                    all.push(Step::Free { how, at, count });
                }
            }
            Step::WriteBytes { from, len, seed } => {
                let (from, seed) = (*from, *seed);
                for len in [1, len / 2] {
                    all.push(Step::WriteBytes { from, len, seed });
                }
            }
            _ => {}
        }
        all.retain(|step| step != self && !step.is_nothing());
        all
    }

    fn is_nothing(&self) -> bool {
        match self {
            Step::Write { count, .. } | Step::Read { count, .. } | Step::Free { count, .. } => {
                *count == 0
            }
            Step::WriteBytes { len, .. } => *len == 0,
            _ => false,
        }
    }
}
