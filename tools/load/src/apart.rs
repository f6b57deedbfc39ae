// SPDX-License-Identifier: GPL-2.0

//! Requests that are timed one by one, in many turns.
//!
//! A clock that runs while other programs have the CPU tells little of a whole turn, in which some of them always had it. Most
//! single requests are disturbed by nobody, though. Each of them is the same in every turn, so the median of its times is what it
//! takes, and the sum of these what all take.

use anyhow::Result;
use rzram_cells::Cell;
use rzram_guest::buf::Mapping;

use crate::bench::{blocks, workers};
use crate::disk::Disk;
use crate::peers::print;
use crate::thread::together;

/// Times of a cell on one disk.
struct Requests {
    disk: Disk,
    cell: Cell,
    blocks: u64,
    /// For each thread and each request: its time in each turn.
    threads: Vec<Vec<Vec<u64>>>,
}

/// Times of all cells and disks that take turns.
#[derive(Default)]
pub struct Times {
    /// By load and module, in the order of their first turn.
    all: Vec<Requests>,
}

impl Times {
    /// Adds a turn.
    pub fn measure(
        &mut self,
        disk: &Disk,
        cell: &Cell,
        region: u32,
        pools: &[Mapping],
    ) -> Result<()> {
        let known = |of: &Requests| of.cell == *cell && of.disk.module == disk.module;
        let at = match self.all.iter().position(known) {
            Some(at) => at,
            None => {
                let requests = (region / cell.request) as usize;
                self.all.push(Requests {
                    disk: disk.clone(),
                    cell: cell.clone(),
                    blocks: blocks(cell, region),
                    threads: vec![vec![Vec::new(); requests]; cell.threads as usize],
                });
                self.all.len() - 1
            }
        };
        let workers = workers(disk, cell, region, pools)?.into_iter();
        let jobs = workers.zip(&mut self.all[at].threads);
        let jobs = jobs.map(|(worker, times)| || worker.run_apart(times));
        together(jobs.collect(), None)?;
        Ok(())
    }

    /// Prints a line for each module and load.
    pub fn print(&self) {
        for of in &self.all {
            let turns = of.threads.iter().flatten().map(Vec::len).min();
            let at = |permille| sum_of(&of.threads, permille);
            let figures = [
                ("fastest", at(0)),
                ("p25", at(250)),
                ("p75", at(750)),
                ("turns", turns.unwrap_or(0) as u64),
            ];
            print(&of.disk, of.cell.clone(), of.blocks, at(500), &figures);
        }
    }
}

/// The sum over all requests of the time that `permille` of a request's times are below; the mean of all threads.
fn sum_of(threads: &[Vec<Vec<u64>>], permille: usize) -> u64 {
    let times = threads.iter().flatten().map(|times| {
        let mut times = times.clone();
        times.sort_unstable();
        let at = times.len().saturating_sub(1) * permille / 1000;
        times.get(at).copied().unwrap_or(0)
    });
    times.sum::<u64>() / threads.len().max(1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_of_each_request_by_itself() {
        // Each turn was disturbed once, and another request each time.
        let thread = vec![vec![90, 10, 11], vec![20, 95, 21], vec![30, 31, 99]];
        assert_eq!(sum_of(&[thread.clone()], 500), 11 + 21 + 31);
        assert_eq!(sum_of(&[thread.clone()], 0), 60);
        assert_eq!(sum_of(&[thread.clone()], 1000), 90 + 95 + 99);
        let other = vec![vec![10; 3]; 3];
        assert_eq!(sum_of(&[thread, other], 500), (63 + 30) / 2);
        assert_eq!(sum_of(&[], 500), 0);
        assert_eq!(sum_of(&[vec![vec![]]], 500), 0);
    }
}
