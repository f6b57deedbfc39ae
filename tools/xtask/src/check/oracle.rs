// SPDX-License-Identifier: GPL-2.0
//! The oracle: one script runs on C zram and on rzram under zram's names, each in a guest of its own, and the transcripts
//! are compared. `tools/guest/oracle/differences.toml` lists the differences that are meant to be.
//!
//! Each group of operations counts as a test, and so does the list, which has to be exact.

mod compare;

use super::{
    guest_files,
    guests::{Memory, Output},
    lock,
    report::Outcome,
    Args, Item,
};
use crate::{
    ctx::Ctx,
    vm::{Platform, Spec},
};
use anyhow::{bail, Context, Result};
use compare::{compare, Differences, Transcript};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

/// Where the list is, from the tools directory.
const LIST: &str = "guest/oracle/differences.toml";

/// The modules that the script runs on.
const MODULES: [&str; 2] = ["zram", "rzram"];

/// What both guests share.
struct Pair {
    list: PathBuf,
    logs: PathBuf,
    files: Vec<(String, Vec<u8>)>,
    /// The transcript of the guest that is done first, or that it has none.
    first: Mutex<Option<Result<Transcript, ()>>>,
}

/// An item for each guest; the one that ends last compares.
pub fn items<'a>(
    ctx: &Ctx,
    platform: &'a Platform,
    memory: &Arc<Memory>,
    args: &Args,
) -> Result<Vec<Item<'a>>> {
    let list = ctx.tools().join(LIST);
    if !args.wants("oracle") || !ctx.has_member("guest") || !list.exists() {
        return Ok(Vec::new());
    }
    let pair = Arc::new(Pair {
        list,
        logs: ctx.logs(),
        files: guest_files(ctx, platform)?,
        first: Mutex::default(),
    });
    Ok(MODULES
        .iter()
        .enumerate()
        .map(|(which, module)| {
            let (pair, memory) = (pair.clone(), memory.clone());
            Item::new(format!("oracle: {module}"), move || {
                pair.run(platform, &memory, which)
            })
        })
        .collect())
}

impl Pair {
    fn run(&self, platform: &Platform, memory: &Memory, which: usize) -> Result<Outcome> {
        let transcript = self.transcript(platform, memory, MODULES[which]);
        let mut first = lock(&self.first);
        let (mine, other) = match (transcript, first.take()) {
            (Ok(mine), None) => {
                let note = format!("{} operations", mine.len());
                *first = Some(Ok(mine));
                return Ok(Outcome {
                    note,
                    ..Outcome::default()
                });
            }
            (Err(error), other) => {
                *first = other.or(Some(Err(())));
                return Err(error);
            }
            (Ok(_), Some(Err(()))) => bail!("the other guest has no transcript to compare with"),
            (Ok(mine), Some(Ok(other))) => (mine, other),
        };
        if which == 0 {
            self.judge(&mine, &other)
        } else {
            self.judge(&other, &mine)
        }
    }

    /// Runs the script in a guest.
    fn transcript(&self, platform: &Platform, memory: &Memory, module: &str) -> Result<Transcript> {
        let spec = Spec {
            // With a single CPU what the pool takes follows from what is stored.
            cpus: 1,
            mem: 768 << 20,
            timeout: Some(Duration::from_secs(280)),
            argv: ["./rzram-guest", "oracle", "--module", module]
                .map(str::to_owned)
                .to_vec(),
            files: self.files.clone(),
            ..Spec::default()
        };
        let share = memory.take(spec.mem);
        let mut output = Output::default();
        let ending = platform.run(&spec, &mut output);
        memory.give(share);
        let ending = ending?;
        let text = String::from_utf8_lossy(&output.out).into_owned();
        let file = self.logs.join(format!("oracle-{module}.txt"));
        std::fs::write(&file, &text)?;
        let errors = String::from_utf8_lossy(&output.err);
        if let Some(why) = &ending.failure {
            let last = text.lines().next_back().unwrap_or("none");
            bail!(
                "the guest failed: {why}\nlast operation: {last}\n{errors}\nkernel log:\n{}",
                tail(ending.log_since_start())
            );
        }
        if ending.status != 0 {
            bail!("status {}\n{errors}", ending.status);
        }
        Transcript::parse(&text).with_context(|| file.display().to_string())
    }

    fn judge(&self, zram: &Transcript, rzram: &Transcript) -> Result<Outcome> {
        let list = std::fs::read_to_string(&self.list)?;
        let list = Differences::parse(&list).with_context(|| self.list.display().to_string())?;
        let findings = compare(zram, rzram, &list);
        let mut outcome = Outcome::default();
        let list = ("the list of differences".to_owned(), findings.list);
        for (name, wrong) in findings.groups.into_iter().chain([list]) {
            if wrong.is_empty() {
                outcome.passed += 1;
                continue;
            }
            outcome.details += &format!("{name}:\n  {}\n", wrong.join("\n  "));
            outcome.failed.push(name);
        }
        if !outcome.failed.is_empty() {
            outcome.details += &format!(
                "The transcripts are {}/oracle-*.txt; differences that are meant to be are listed in tools/{LIST}.",
                self.logs.display()
            );
        }
        outcome.note = format!(
            "{} operations compared, {} differ as listed",
            zram.len(),
            findings.meant
        );
        Ok(outcome)
    }
}

/// The last lines of a kernel's log.
fn tail(log: &str) -> &str {
    log.rmatch_indices('\n')
        .nth(100)
        .map_or(log, |(at, _)| &log[at + 1..])
}
