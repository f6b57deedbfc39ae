// SPDX-License-Identifier: GPL-2.0
//! Reading what Rust's test programs print.

use anyhow::{bail, Context, Result};
use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

/// What a run of a test program printed, counted.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed, by name.
    pub failed: Vec<String>,
    /// Tests that are marked as ignored.
    pub ignored: usize,
    /// How many summaries there were: one for each program that ran to its end.
    pub summaries: usize,
}

/// The names of the tests in a program, without those marked as ignored.
pub fn list(program: &Path) -> Result<Vec<String>> {
    let run = |args: &[&str]| -> Result<Vec<String>> {
        let out = Command::new(program)
            .args(args)
            .output()
            .with_context(|| format!("cannot run {}", program.display()))?;
        if !out.status.success() {
            bail!(
                "{} cannot list its tests: {}",
                program.display(),
                String::from_utf8_lossy(&out.stderr)
            );
        }
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        Ok(text
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .map(str::to_owned)
            .collect())
    };
    let ignored = run(&["--list", "--format", "terse", "--ignored"])?;
    let all = run(&["--list", "--format", "terse"])?;
    Ok(all
        .into_iter()
        .filter(|name| !ignored.contains(name))
        .collect())
}

/// Counts the output of any number of test programs, run one after the other.
pub fn count(output: &str) -> Counts {
    let mut counts = Counts::default();
    let mut current: Option<&str> = None;
    for line in output.lines() {
        if let Some(rest) = line.strip_prefix("test result: ") {
            counts.summaries += 1;
            counts.ignored += number(rest, "ignored");
            current = None;
            continue;
        }
        let mut verdict = line;
        if let Some((name, rest)) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.split_once(" ... "))
        {
            current = Some(name);
            verdict = rest;
        }
        // What the test itself prints may stand between its name and the verdict.
        let Some(name) = current else { continue };
        if verdict == "ok" || (verdict.ends_with("ok") && line.starts_with("test ")) {
            counts.passed += 1;
        } else if verdict == "FAILED" || (verdict.ends_with("FAILED") && line.starts_with("test "))
        {
            counts
                .failed
                .push(name.trim_end_matches(" - should panic").to_owned());
        } else if !verdict.starts_with("ignored") {
            continue;
        }
        current = None;
    }
    counts
}

/// The number before `what` in a summary line.
fn number(summary: &str, what: &str) -> usize {
    summary
        .split([';', '.'])
        .filter_map(|part| part.trim().strip_suffix(what))
        .find_map(|part| part.trim().parse().ok())
        .unwrap_or(0)
}

/// How long each test of a program took that runs them one after the other, by when its output arrived.
#[derive(Debug, Default)]
pub struct Times {
    seen: usize,
    last: Option<Instant>,
    tests: Vec<(String, Duration)>,
    current: String,
}

impl Times {
    /// From here on a test is worth to be named.
    const LONG: Duration = Duration::from_secs(15);

    /// Takes note of what has arrived; `output` is all there is so far.
    pub fn see(&mut self, output: &[u8]) {
        let now = Instant::now();
        while let Some(length) = output[self.seen..].iter().position(|&byte| byte == b'\n') {
            let line = String::from_utf8_lossy(&output[self.seen..self.seen + length]);
            let took = self.last.map_or(Duration::ZERO, |last| now - last);
            if line.starts_with("running ") {
                self.last = Some(now);
            } else if let Some((name, verdict)) = line
                .strip_prefix("test ")
                .and_then(|rest| rest.split_once(" ... "))
            {
                if !verdict.starts_with("ignored") {
                    self.tests.push((name.to_owned(), took));
                }
                self.last = Some(now);
            }
            self.seen += length + 1;
        }
        // Its name comes when it begins, and the line ends with its verdict.
        let begun = String::from_utf8_lossy(&output[self.seen..]);
        if let Some((name, _)) = begun
            .strip_prefix("test ")
            .and_then(|rest| rest.split_once(" ... "))
        {
            name.clone_into(&mut self.current);
        }
    }

    /// The test that began last; empty before the first.
    pub fn current(&self) -> &str {
        &self.current
    }

    /// Names the tests that took long, the longest first; empty if there are none.
    pub fn longest(mut self) -> String {
        self.tests.retain(|(_, took)| *took >= Self::LONG);
        self.tests.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
        let names: Vec<String> = self
            .tests
            .iter()
            .map(|(name, took)| format!("{name} {} s", took.as_secs()))
            .collect();
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_libtest_prints() {
        let text = "\nrunning 4 tests\ntest a ... ok\ntest b::c ... FAILED\ntest d ... ignored, slow\n\
                    test e ... some output\nmore of it\nok\n\n\
                    test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
        let counts = count(text);
        assert_eq!(counts.passed, 2);
        assert_eq!(counts.failed, ["b::c"]);
        assert_eq!(counts.ignored, 1);
        assert_eq!(counts.summaries, 1);
    }

    #[test]
    fn tests_that_take_long_are_named() {
        let mut times = Times::default();
        let mut text = b"\nrunning 2 tests\ntest a ... ".to_vec();
        times.see(&text);
        assert_eq!(times.current(), "a");
        times.last = times.last.map(|last| last - 2 * Times::LONG);
        text.extend_from_slice(b"ok\ntest b ... ok\ntest c ... ignored, slow\n\n");
        times.see(&text);
        assert_eq!(times.tests.len(), 2);
        assert_eq!(times.longest(), "a 30 s");
    }

    #[test]
    fn a_run_that_breaks_off_has_no_summary() {
        let counts = count("running 2 tests\ntest a ... ok\ntest b ... ");
        assert_eq!((counts.passed, counts.summaries), (1, 0));
        assert!(counts.failed.is_empty());
    }
}
