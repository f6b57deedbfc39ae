// SPDX-License-Identifier: GPL-2.0
//! Counting what passed and failed, and saying so as it happens.

use anyhow::Result;
use std::{
    collections::BTreeMap,
    process::ExitCode,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex, MutexGuard, PoisonError,
    },
    thread::{sleep, spawn},
    time::{Duration, Instant},
};

/// How often running tests are named.
const INTERVAL: Duration = Duration::from_secs(20);

/// What came of one item, which may hold many tests.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Tests that passed.
    pub passed: usize,
    /// Names of those that failed.
    pub failed: Vec<String>,
    /// What to print about failures.
    pub details: String,
    /// What to add to the item's line.
    pub note: String,
}

impl Outcome {
    /// A single test that passed.
    pub fn passed() -> Self {
        Self {
            passed: 1,
            ..Self::default()
        }
    }

    /// A single test that failed.
    pub fn failed(details: String) -> Self {
        Self {
            failed: vec![String::new()],
            details,
            ..Self::default()
        }
    }
}

/// What an item is at; both sides share it.
#[derive(Clone, Default)]
pub struct Doing(Arc<Mutex<String>>);

impl Doing {
    /// Says what it is now.
    pub fn say(&self, what: &str) {
        let mut text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        what.clone_into(&mut text);
    }

    /// As it is printed behind a time.
    fn shown(&self) -> String {
        let text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match text.as_str() {
            "" => String::new(),
            text => format!(", {text}"),
        }
    }
}

#[derive(Default)]
struct State {
    passed: usize,
    failed: Vec<String>,
    running: BTreeMap<String, (Instant, Doing)>,
}

/// The tests so far; shared by the threads that run them.
pub struct Report {
    state: Arc<Mutex<State>>,
    start: Instant,
    done: Arc<AtomicBool>,
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Report {
    /// Starts counting, and a thread that now and then names what is running.
    pub fn new() -> Self {
        let report = Self {
            state: Arc::default(),
            start: Instant::now(),
            done: Arc::default(),
        };
        let (state, done) = (report.state.clone(), report.done.clone());
        spawn(move || {
            let mut last = Instant::now();
            while !done.load(Ordering::Relaxed) {
                sleep(Duration::from_millis(200));
                if last.elapsed() < INTERVAL {
                    continue;
                }
                last = Instant::now();
                let state = locked(&state);
                let running: Vec<String> = state
                    .running
                    .iter()
                    .map(|(name, (since, doing))| {
                        format!("{name} ({} s{})", since.elapsed().as_secs(), doing.shown())
                    })
                    .collect();
                if !running.is_empty() && !done.load(Ordering::Relaxed) {
                    println!("check: still running: {}", running.join(", "));
                }
            }
        });
        report
    }

    /// Says how many guests there will be.
    pub fn expect(&self, guests: usize) {
        let _state = locked(&self.state);
        println!("check: {guests} guests to be run");
    }

    /// Notes that an item has begun.
    pub fn start(&self, name: &str, doing: Doing) {
        locked(&self.state)
            .running
            .insert(name.to_owned(), (Instant::now(), doing));
    }

    /// Runs something that counts as an activity, but not as a test.
    pub fn time<T>(&self, name: &str, run: impl FnOnce() -> T) -> T {
        self.start(name, Doing::default());
        let result = run();
        locked(&self.state).running.remove(name);
        result
    }

    /// Says that an item is not run, for want of time.
    pub fn leave_out(&self, name: &str) {
        let _state = locked(&self.state);
        println!("check: {name}: left out, the time set for all is over");
    }

    /// Counts and prints an item.
    pub fn add(&self, name: &str, outcome: Result<Outcome>) {
        let outcome = outcome.unwrap_or_else(|error| Outcome::failed(format!("{error:#}")));
        let mut state = locked(&self.state);
        let seconds = state
            .running
            .remove(name)
            .map_or(0.0, |(since, _)| since.elapsed().as_secs_f64());
        let verdict = match (outcome.passed, outcome.failed.len()) {
            (_, 0) if outcome.passed <= 1 => "ok".to_owned(),
            (passed, 0) => format!("{passed} passed"),
            (0, 1) => "FAILED".to_owned(),
            (passed, failed) => format!("{passed} passed, {failed} FAILED"),
        };
        let note = if outcome.note.is_empty() {
            String::new()
        } else {
            format!(" ({})", outcome.note)
        };
        if !outcome.failed.is_empty() {
            println!("---- {name}:\n{}\n----", outcome.details.trim_end());
        }
        println!("check: {name}: {verdict}, {seconds:.1} s{note}");
        state.passed += outcome.passed;
        let names = outcome.failed.into_iter().map(|test| match test.as_str() {
            "" => name.to_owned(),
            test => format!("{name}: {test}"),
        });
        state.failed.extend(names);
    }

    /// Prints the sum and turns it into an exit status.
    pub fn close(self) -> ExitCode {
        self.done.store(true, Ordering::Relaxed);
        let state = locked(&self.state);
        println!("check: took {} s", self.start.elapsed().as_secs());
        for name in &state.failed {
            println!("check: failed: {name}");
        }
        println!("{} passed, {} failed", state.passed, state.failed.len());
        if state.failed.is_empty() && state.passed != 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}
