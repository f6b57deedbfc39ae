// SPDX-License-Identifier: GPL-2.0
//! Running long commands with their output in a log, and a sign of life on stderr while they run.

use anyhow::{bail, Context, Result};
use nix::sys::{prctl::set_pdeathsig, signal::Signal};
use std::{
    fs::{File, OpenOptions},
    io::{IsTerminal, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// How often a line is written where stderr is no terminal.
const QUIET_INTERVAL: Duration = Duration::from_secs(15);

/// A job of several steps, all of whose output goes to one log.
pub struct Job {
    name: String,
    steps: usize,
    current: usize,
    log: PathBuf,
    start: Instant,
}

impl Job {
    /// Starts a job: `name` heads each line, `log` is made anew.
    pub fn new(name: &str, steps: usize, log: PathBuf) -> Result<Self> {
        File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        Ok(Self {
            name: name.to_owned(),
            steps,
            current: 0,
            log,
            start: Instant::now(),
        })
    }

    /// Announces the next step.
    pub fn step(&mut self, title: &str) {
        self.current += 1;
        eprintln!(
            "{}: step {} of {}: {title}",
            self.name, self.current, self.steps
        );
    }

    /// Says that the job is done, and how long it took.
    pub fn done(self) {
        eprintln!(
            "{}: done after {} s",
            self.name,
            self.start.elapsed().as_secs()
        );
    }

    /// Runs one command of the current step; its failure names the log and shows its end.
    pub fn run(&self, command: &mut Command) -> Result<()> {
        let log = OpenOptions::new().append(true).open(&self.log)?;
        writeln!(&log, "+ {command:?}")?;
        let program = command.get_program().to_string_lossy().into_owned();
        // SAFETY: between fork and exec only a system call is made.
        unsafe {
            // Nobody writes into the cache when this process, and its lock, are gone.
            command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGTERM)?));
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot run {program}"))?;
        let mut ticker = Ticker::new(&self.name);
        let status = loop {
            match child.try_wait()? {
                Some(status) => break status,
                None => sleep(Duration::from_millis(50)),
            }
            ticker.tick(&format!("step {} of {}", self.current, self.steps));
        };
        ticker.clear();
        if !status.success() {
            let tail = tail(&self.log, 15);
            let cause = explain(&tail);
            eprintln!("{tail}");
            bail!(
                "{program} failed{cause}; the whole log is {}",
                self.log.display()
            );
        }
        Ok(())
    }
}

/// Says now and then how long something has been running.
pub struct Ticker {
    name: String,
    start: Instant,
    last: Instant,
    tty: bool,
    shown: bool,
}

impl Ticker {
    /// Starts counting.
    pub fn new(name: &str) -> Self {
        let now = Instant::now();
        Self {
            name: name.to_owned(),
            start: now,
            last: now,
            tty: std::io::stderr().is_terminal(),
            shown: false,
        }
    }

    /// Call this often; it writes seldom.
    pub fn tick(&mut self, what: &str) {
        let interval = if self.tty {
            Duration::from_secs(1)
        } else {
            QUIET_INTERVAL
        };
        if self.last.elapsed() < interval {
            return;
        }
        self.last = Instant::now();
        let seconds = self.start.elapsed().as_secs();
        if self.tty {
            eprint!("\r\x1b[K{}: {what}: {seconds} s", self.name);
            self.shown = true;
        } else {
            eprintln!("{}: {what}: still at it, {seconds} s", self.name);
        }
    }

    /// Removes the line that a terminal shows.
    pub fn clear(&mut self) {
        if self.shown {
            eprint!("\r\x1b[K");
            self.shown = false;
        }
    }
}

/// The last lines of a file.
pub fn tail(path: &Path, lines: usize) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// The likely cause in a user's words, where the log gives it away.
fn explain(log: &str) -> &'static str {
    const NETWORK: [&str; 6] = [
        "Could not resolve",
        "Could not connect",
        "Temporary failure",
        "Failed to fetch",
        "Unable to connect",
        "No route to host",
    ];
    if NETWORK.iter().any(|text| log.contains(text)) {
        " (no network: check the connection or http_proxy and run this again)"
    } else if log.contains("No space left") {
        " (the disk is full: free some, or set RZRAM_CACHE to a larger one)"
    } else {
        ""
    }
}
