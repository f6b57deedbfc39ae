// SPDX-License-Identifier: GPL-2.0

//! Random steps on disks, and on a model of a disk that is nothing but memory: the two must agree all the time.
//!
//! Several lanes run side by side, each with a disk of its own and with steps that follow from the seed. The steps of a
//! lane that fails are made as few and as simple as possible, and printed in a form that can be played again.

mod disk;
mod drive;
mod io;
mod post;
mod shrink;
mod step;

use std::io::BufRead;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};

use crate::module::with_module;
use crate::pattern::Rng;
use crate::post::Ram;
use drive::Lane;
use step::{Shape, Step, PLACES};

/// What to do.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// What all steps follow from; another one each time, without
    #[arg(long)]
    pub seed: Option<u64>,
    /// How many steps to do, in all lanes together
    #[arg(long, default_value_t = 10_000)]
    pub operations: u64,
    /// How many disks to do them to, side by side
    #[arg(long, default_value_t = 4)]
    pub lanes: u32,
    /// How long to look for a shorter sequence after a failure, in seconds
    #[arg(long, default_value_t = 120)]
    pub shrink: u64,
    /// Play the steps in this file, one a line as a failure prints them, instead
    #[arg(long)]
    pub replay: Option<PathBuf>,
    /// Say now and then how far it is
    #[arg(long)]
    pub progress: bool,
}

/// What was done.
#[derive(Debug)]
pub struct Outcome {
    /// The seed of it.
    pub seed: u64,
    /// Steps.
    pub operations: u64,
    /// How long they took.
    pub took: Duration,
}

/// A seed that is another one each time.
pub fn any_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = now.map_or(1, |since| since.as_nanos() as u64);
    // Short enough to be typed.
    Rng::new(nanos, 0x5eed).below(1_000_000_000)
}

/// The lanes, on the way.
struct Run {
    seed: u64,
    operations: u64,
    done: AtomicU64,
    stop: AtomicBool,
    failure: Mutex<Option<String>>,
}

/// Loads the module, and plays a file or random steps.
pub fn run(options: &Options) -> Result<Outcome> {
    let lanes = if options.replay.is_some() {
        1
    } else {
        options.lanes.max(1)
    };
    let _ram = Ram::several(lanes, PLACES * 4)?;
    let mut outcome = Err(anyhow::anyhow!("nothing was done"));
    with_module("num_devices=0", || {
        outcome = match &options.replay {
            Some(file) => replay(file),
            None => random(options, lanes),
        };
        Ok(())
    })?;
    outcome
}

fn replay(file: &PathBuf) -> Result<Outcome> {
    let start = Instant::now();
    let open = || format!("reading {}", file.display());
    let text = std::io::BufReader::new(std::fs::File::open(file).with_context(open)?);
    let mut steps = Vec::new();
    for line in text.lines() {
        let line = line.with_context(open)?;
        // What else a failure printed may be in between.
        if line.starts_with('"') || line.starts_with('{') {
            let step = serde_json::from_str(&line);
            steps.push(step.with_context(|| format!("{line:?} is no step"))?);
        }
    }
    ensure!(!steps.is_empty(), "{} holds no steps", file.display());
    println!("model: playing {} steps", steps.len());
    Lane::new(0)?
        .play(&steps)
        .map_err(|(n, e)| e.context(format!("step {n} of {}", steps.len())))?;
    Ok(Outcome {
        seed: 0,
        operations: steps.len() as u64,
        took: start.elapsed(),
    })
}

fn random(options: &Options, lanes: u32) -> Result<Outcome> {
    let start = Instant::now();
    let run = Run {
        seed: options.seed.unwrap_or_else(any_seed),
        operations: options.operations,
        done: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        failure: Mutex::new(None),
    };
    println!(
        "model: seed {}, {} operations on {lanes} disks",
        run.seed, run.operations
    );
    std::thread::scope(|scope| {
        let limit = Duration::from_secs(options.shrink);
        let threads: Vec<_> = (0..lanes)
            .map(|n| {
                let run = &run;
                let share = run.operations / u64::from(lanes)
                    + u64::from(u64::from(n) < run.operations % u64::from(lanes));
                scope.spawn(move || run.lane(n, share, limit))
            })
            .collect();
        if options.progress {
            run.show(start, || threads.iter().all(|thread| thread.is_finished()));
        }
        for thread in threads {
            match thread.join() {
                Ok(result) => result?,
                Err(_) => bail!("a lane panicked"),
            }
        }
        Ok(())
    })?;
    if let Some(text) = run.failure.into_inner().ok().flatten() {
        bail!(text);
    }
    Ok(Outcome {
        seed: run.seed,
        operations: run.done.into_inner(),
        took: start.elapsed(),
    })
}

impl Run {
    /// Says every ten seconds how far it is.
    fn show(&self, start: Instant, over: impl Fn() -> bool) {
        let mut said = Instant::now();
        while !over() {
            std::thread::sleep(Duration::from_millis(100));
            if said.elapsed() < Duration::from_secs(10) {
                continue;
            }
            said = Instant::now();
            let done = self.done.load(Ordering::Relaxed);
            let rate = done as f64 / start.elapsed().as_secs_f64();
            let left = self.operations.saturating_sub(done) as f64 / rate.max(0.1);
            println!(
                "model: {done} of {} operations, {rate:.0} a second, {left:.0} s left (seed {})",
                self.operations, self.seed
            );
        }
    }

    /// One lane, from its own random numbers.
    fn lane(&self, n: u32, count: u64, limit: Duration) -> Result<()> {
        let mut rng = Rng::new(self.seed, u64::from(n));
        let mut lane = Lane::new(n)?;
        let mut since_set_up = Vec::new();
        for number in 0..count {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let step = if number == 0 {
                Step::SetUp(Shape::any(&mut rng))
            } else {
                Step::any(&mut rng)
            };
            if step.starts_anew() {
                // The one that failed may be the reset, of what the steps before it made.
                if since_set_up.len() > 2000 {
                    since_set_up.clear();
                }
            }
            since_set_up.push(step.clone());
            let mut result = lane.step(&step);
            if result.is_ok() && number + 1 == count {
                since_set_up.push(Step::Check);
                result = lane.step(&Step::Check);
            }
            self.done.fetch_add(1, Ordering::Relaxed);
            if let Err(error) = result {
                // Others need not go on; the machine is for shrinking now.
                self.stop.store(true, Ordering::Relaxed);
                let text = self.report(n, number, &error, lane, since_set_up, limit);
                if let Ok(mut failure) = self.failure.lock() {
                    failure.get_or_insert(text);
                }
                return Ok(());
            }
        }
        Ok(())
    }

    fn report(
        &self,
        n: u32,
        number: u64,
        error: &anyhow::Error,
        mut lane: Lane,
        steps: Vec<Step>,
        limit: Duration,
    ) -> String {
        let mut text = format!(
            "lane {n}, operation {number} of seed {}: {error:#}\n",
            self.seed
        );
        println!("model: {text}model: looking for a shorter sequence");
        let len = steps.len();
        let mut last = None;
        let mut fails = |steps: &[Step]| {
            let played = lane.renew().map_err(|e| (0, e));
            match played.and_then(|()| lane.play(steps)) {
                Ok(()) => false,
                Err((_, error)) => {
                    last = Some(format!("{error:#}"));
                    true
                }
            }
        };
        // What was set up last, if that is enough.
        let from = steps.iter().rposition(Step::starts_anew).unwrap_or(0);
        let tail = steps[from..].to_vec();
        let start = if fails(&tail) {
            tail
        } else if fails(&steps) {
            steps
        } else {
            text += &format!("played again alone, its last {len} steps do not fail:\n");
            for step in &steps {
                text += &(line(step) + "\n");
            }
            return text;
        };
        let (best, tries) = shrink::shrink(start, limit, &mut fails);
        text += &format!(
            "{} of {len} steps are enough (after {tries} tries):\n",
            best.len()
        );
        for step in &best {
            text += &(line(step) + "\n");
        }
        text += &format!("which gives: {}\n", last.unwrap_or_default());
        text += "with these lines in FILE: ./rzram-guest model --replay FILE";
        text
    }
}

fn line(step: &Step) -> String {
    serde_json::to_string(step).unwrap_or_else(|e| format!("{step:?}: {e}"))
}
