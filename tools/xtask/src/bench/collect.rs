// SPDX-License-Identifier: GPL-2.0
//! Results as they come from a guest.

use crate::{
    ctx::Ctx,
    progress::Ticker,
    vm::{Ending, Sink},
};
use anyhow::{bail, Result};
use rzram_cells::Run;
use std::fs;

/// Collects a guest's results.
pub struct Collector {
    /// Those that have come.
    pub runs: Vec<Run>,
    rest: Vec<u8>,
    others: String,
    expected: usize,
    /// Says how far it is; nothing where something else does.
    ticker: Option<Ticker>,
}

impl Collector {
    /// Waits for so many results; says how far it is if `aloud`.
    pub fn new(expected: usize, aloud: bool) -> Self {
        Self {
            runs: Vec::new(),
            rest: Vec::new(),
            others: String::new(),
            expected,
            ticker: aloud.then(|| Ticker::new("bench")),
        }
    }

    /// A guest that failed has no results; one that is `optional` may have none.
    pub fn check(&mut self, ctx: &Ctx, ending: &Ending, optional: bool) -> Result<()> {
        if let Some(ticker) = &mut self.ticker {
            ticker.clear();
        }
        if let Some(why) = &ending.failure {
            let log = ctx.logs().join("bench-guest.log");
            fs::write(&log, &ending.log)?;
            bail!(
                "the guest failed: {why}; its kernel's log is {}",
                log.display()
            );
        }
        if ending.status != 0 {
            bail!(
                "the guest's commands failed with status {}:\n{}",
                ending.status,
                self.others
            );
        }
        let none = optional && self.runs.is_empty();
        if self.runs.len() != self.expected && !none {
            bail!(
                "{} results came, {} were expected:\n{}",
                self.runs.len(),
                self.expected,
                self.others
            );
        }
        Ok(())
    }
}

impl Sink for Collector {
    fn out(&mut self, data: &[u8]) -> Result<()> {
        self.rest.extend_from_slice(data);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            match Run::from_line(line.trim_end()) {
                Some(run) => self.runs.push(run),
                None => self.others += &line,
            }
        }
        let (done, all) = (self.runs.len(), self.expected);
        let last = self.runs.last().map(|run| run.cell.to_string());
        if let Some(ticker) = &mut self.ticker {
            ticker.tick(&format!("{done} of {all}, {}", last.unwrap_or_default()));
        }
        Ok(())
    }

    fn err(&mut self, data: &[u8]) -> Result<()> {
        if let Some(ticker) = &mut self.ticker {
            ticker.clear();
        }
        eprint!("{}", String::from_utf8_lossy(data));
        Ok(())
    }
}
