// SPDX-License-Identifier: GPL-2.0
//! Tests that need a kernel with rzram: each binary of tools/guest/tests runs in a guest of its own.
//!
//! A line `// vm: --cpus N --mem SIZE --timeout SECS --append ARGS --icount --kernel stock|debug` near the head of a test's
//! source says what its guest is to be like. Programs run on both kernels unless they name one.

use super::{
    guest_files, libtest,
    report::{Doing, Outcome},
    Args, Item,
};
use crate::{
    ctx::Ctx,
    kernel::Kind,
    vm::{memory, Ending, Platform, Sink, Spec},
    workspace,
};
use anyhow::{bail, Context, Result};
use clap::ValueEnum;
use std::{
    cmp::Reverse,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Duration,
};

/// A test program and the guest that it wants.
struct Binary {
    name: String,
    file: PathBuf,
    tests: Vec<String>,
    whole: bool,
    spec: Spec,
}

/// Builds the test programs and makes an item of each that has wanted tests.
pub fn items<'a>(
    ctx: &'a Ctx,
    platform: &'a Platform,
    memory: &Arc<Memory>,
    args: &Args,
) -> Result<Vec<Item<'a>>> {
    if !ctx.has_member("guest")
        || args
            .only
            .as_deref()
            .is_some_and(|pattern| pattern.starts_with("static") || pattern == "oracle")
    {
        return Ok(Vec::new());
    }
    let mut binaries = Vec::new();
    for built in workspace::guest_tests(ctx)? {
        let all = libtest::list(&built.file)?;
        let wanted: Vec<String> = all
            .iter()
            .filter(|test| args.wants(&format!("{}::{test}", built.name)))
            .cloned()
            .collect();
        if !wanted.is_empty() {
            let (mut spec, only) = spec_of(&built.source)
                .with_context(|| format!("{}: bad vm: line", built.source.display()))?;
            if only.is_some_and(|kind| kind != ctx.kernel) {
                println!(
                    "check: guest: {}: left out, it is for the other kernel",
                    built.name
                );
                continue;
            }
            spec.mem = platform.memory(spec.mem);
            spec.timeout = spec.timeout.map(|limit| limit * platform.patience());
            spec.leaks = platform.finds_leaks();
            let whole = wanted.len() == all.len();
            binaries.push(Binary {
                name: built.name,
                file: built.file,
                tests: wanted,
                whole,
                spec,
            });
        }
    }
    if binaries.is_empty() {
        return Ok(Vec::new());
    }
    // What may take longest begins first, so that nothing is left to wait for in the end.
    binaries.sort_by_key(|binary| Reverse(binary.spec.timeout));
    let files = Arc::new(guest_files(ctx, platform)?);
    Ok(binaries
        .into_iter()
        .map(|binary| {
            let (files, memory) = (files.clone(), memory.clone());
            let doing = Doing::default();
            let item = Item::new(format!("guest: {}", binary.name), {
                let doing = doing.clone();
                move || run(platform, binary, &files, &memory, doing)
            });
            Item { doing, ..item }
        })
        .collect())
}

fn run(
    platform: &Platform,
    binary: Binary,
    files: &[(String, Vec<u8>)],
    memory: &Memory,
    doing: Doing,
) -> Result<Outcome> {
    let mut spec = binary.spec;
    spec.files = files.to_vec();
    // Not by its own name, which may be that of a program that it calls.
    let program = format!("test-{}", binary.name);
    spec.argv = vec![format!("./{program}"), "--test-threads=1".into()];
    spec.files.push((program, std::fs::read(&binary.file)?));
    if !binary.whole {
        spec.argv.push("--exact".into());
        spec.argv.extend(binary.tests.iter().cloned());
    }
    let share = memory.take(spec.mem);
    let mut output = Output {
        doing,
        ..Output::default()
    };
    let ending = platform.run(&spec, &mut output);
    memory.give(share);
    let ending = ending?;
    let mut outcome = judge(&binary.tests, &output, &ending);
    let mut notes = vec![outcome.note, output.times.longest()];
    notes.retain(|note| !note.is_empty());
    outcome.note = notes.join("; ");
    Ok(outcome)
}

/// A test that did not get to its verdict has failed, and so has one whose guest did.
fn judge(tests: &[String], output: &Output, ending: &Ending) -> Outcome {
    let text = String::from_utf8_lossy(&output.out);
    let counts = libtest::count(&text);
    let mut failed = counts.failed;
    let mut passed = counts.passed;
    let missing = tests.len().saturating_sub(passed + failed.len());
    if missing != 0 {
        failed.extend(
            (0..missing).map(|number| format!("without a verdict ({} of {missing})", number + 1)),
        );
    }
    if let Some(why) = &ending.failure {
        if failed.is_empty() {
            passed = passed.saturating_sub(1); // the guest failed after the last verdict, which thus was none
            failed.push(why.clone());
        }
    } else if failed.is_empty() && ending.status != 0 {
        failed.push(format!("status {}", ending.status));
    }
    let mut details = String::new();
    if !failed.is_empty() {
        let errors = String::from_utf8_lossy(&output.err);
        let why = ending
            .failure
            .as_deref()
            .map(|why| format!("the guest failed: {why}\n"))
            .unwrap_or_default();
        details = format!(
            "{text}{errors}\n{why}kernel log:\n{}",
            ending.log_since_start()
        );
    }
    let note = if counts.ignored == 0 {
        String::new()
    } else {
        format!("{} ignored", counts.ignored)
    };
    Outcome {
        passed,
        failed,
        details,
        note,
    }
}

/// What a guest's command has printed.
#[derive(Default)]
pub struct Output {
    /// On its standard output.
    pub out: Vec<u8>,
    /// On its standard error.
    pub err: Vec<u8>,
    times: libtest::Times,
    doing: Doing,
}

impl Sink for Output {
    fn out(&mut self, data: &[u8]) -> Result<()> {
        self.out.extend_from_slice(data);
        self.times.see(&self.out);
        self.doing.say(self.times.current());
        Ok(())
    }

    fn err(&mut self, data: &[u8]) -> Result<()> {
        self.err.extend_from_slice(data);
        Ok(())
    }
}

/// What the `// vm:` lines of a source ask for.
fn spec_of(source: &std::path::Path) -> Result<(Spec, Option<Kind>)> {
    let text = std::fs::read_to_string(source)?;
    let lines: Vec<&str> = text
        .lines()
        .take(40)
        .filter_map(|line| line.strip_prefix("// vm: "))
        .collect();
    parse_spec(&lines.join(" "))
}

fn parse_spec(text: &str) -> Result<(Spec, Option<Kind>)> {
    let mut only = None;
    let mut spec = Spec {
        timeout: Some(Duration::from_secs(280)),
        ..Spec::default()
    };
    let mut words = text.split_whitespace();
    while let Some(option) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("{option} wants a value"))
        };
        match option {
            "--cpus" => spec.cpus = value()?.parse()?,
            "--mem" => spec.mem = memory(value()?).map_err(anyhow::Error::msg)?,
            "--timeout" => spec.timeout = Some(Duration::from_secs(value()?.parse()?)),
            "--icount" => spec.icount = true,
            "--append" => {
                spec.append.push(' ');
                spec.append.push_str(value()?);
            }
            "--kernel" => {
                only = Some(Kind::from_str(value()?, false).map_err(anyhow::Error::msg)?);
            }
            _ => bail!("unknown option {option}"),
        }
    }
    Ok((spec, only))
}

/// The host's memory, shared out among guests so that two of them do not push it into swapping.
pub struct Memory {
    free: Mutex<u64>,
    changed: Condvar,
    all: u64,
}

impl Memory {
    /// What there is at present.
    pub fn available() -> Result<Self> {
        let text = std::fs::read_to_string("/proc/meminfo")?;
        let kib: u64 = text
            .lines()
            .find_map(|line| line.strip_prefix("MemAvailable:"))
            .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
            .context("/proc/meminfo does not say how much memory is available")?;
        Ok(Self {
            free: Mutex::new(kib << 10),
            changed: Condvar::new(),
            all: kib << 10,
        })
    }

    /// Waits for room for a guest; one that never fits runs when nothing else does.
    pub fn take(&self, guest: u64) -> u64 {
        let wanted = (guest + (600 << 20)).min(self.all);
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self
            .changed
            .wait_while(free, |free| *free < wanted)
            .unwrap_or_else(PoisonError::into_inner);
        *free -= wanted;
        wanted
    }

    /// Gives back what was taken.
    pub fn give(&self, amount: u64) {
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) += amount;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vm_lines() -> Result<()> {
        let (spec, only) = parse_spec("--cpus 4 --mem 1G --timeout 90 --append a=1 --append b")?;
        assert_eq!(
            (spec.cpus, spec.mem, spec.timeout),
            (4, 1 << 30, Some(Duration::from_secs(90)))
        );
        assert_eq!(spec.append, " a=1 b");
        assert_eq!(only, None);
        assert_eq!(parse_spec("--kernel debug")?.1, Some(Kind::Debug));
        assert_eq!(parse_spec("--kernel stock")?.1, Some(Kind::Stock));
        assert!(parse_spec("--kernel other").is_err());
        assert!(parse_spec("--frob").is_err());
        assert!(parse_spec("--cpus").is_err());
        Ok(())
    }
}
