// SPDX-License-Identifier: GPL-2.0
//! All tests: static ones, those that run on the host, and those that need a guest. On the debug kernel those of the guest
//! alone.

mod guests;
mod host;
mod kept;
mod lexer;
mod libtest;
mod oracle;
mod report;
mod statics;

use crate::{ctx::Ctx, kernel::Kind, module, vm::Platform, workspace};
use anyhow::Result;
use report::{Doing, Outcome, Report};
use std::{
    collections::VecDeque,
    process::ExitCode,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// What `check` takes.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Run only the tests in whose name this occurs (names are as printed: `static: rustfmt`, `attributes::disksize`);
    /// several texts with | between them
    #[arg(long)]
    only: Option<String>,
    /// How many guests and builds run side by side
    #[arg(long)]
    jobs: Option<usize>,
    /// Begin nothing more after so many minutes; what is left out is named, and does not count as failed
    #[arg(long)]
    within: Option<u64>,
}

impl Args {
    /// Whether a test of this name is wanted.
    fn wants(&self, name: &str) -> bool {
        self.only
            .as_deref()
            .is_none_or(|texts| texts.split('|').any(|text| name.contains(text)))
    }
}

/// One thing to be run: a static test, the host's tests, or a guest with a test binary.
struct Item<'a> {
    name: String,
    /// The test that it is at, where it knows.
    doing: Doing,
    run: Box<dyn FnOnce() -> Result<Outcome> + Send + 'a>,
}

impl<'a> Item<'a> {
    fn new(name: String, run: impl FnOnce() -> Result<Outcome> + Send + 'a) -> Self {
        Self {
            name,
            doing: Doing::default(),
            run: Box::new(run),
        }
    }
}

/// The check subcommand.
pub fn main(ctx: &Ctx, args: &Args) -> Result<ExitCode> {
    let limit = args
        .within
        .map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let platform = Platform::ensure(ctx)?;
    let memory = Arc::new(guests::Memory::available()?);
    let report = Report::new();
    let jobs = args.jobs.unwrap_or_else(|| {
        std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(2)
    });
    // What needs no guest begins while the guests' programs are built.
    let queue = Queue {
        limit,
        ..Queue::default()
    };
    if ctx.kernel == Kind::Stock {
        queue.add(statics::items(ctx, &platform.kernel, args));
        queue.add(host::items(ctx, args));
    }
    std::thread::scope(|scope| {
        for _ in 1..jobs.max(1) {
            scope.spawn(|| queue.work(&report));
        }
        match report.time("building for the guests", || {
            let guests = || guests::items(ctx, &platform, &memory, args);
            if ctx.kernel != Kind::Stock {
                return guests();
            }
            let mut items = oracle::items(ctx, &platform, &memory, args)?;
            items.extend(guests()?);
            items.extend(kept::items(ctx, &platform, &memory, args)?);
            anyhow::Ok(items)
        }) {
            Ok(items) => {
                report.expect(items.len());
                queue.add(items);
            }
            Err(error) => report.add("building for the guests", Err(error)),
        }
        queue.close();
        queue.work(&report);
    });
    Ok(report.close())
}

/// Items that several threads work off.
#[derive(Default)]
struct Queue<'a> {
    state: Mutex<State<'a>>,
    changed: Condvar,
    limit: Option<Instant>,
}

#[derive(Default)]
struct State<'a> {
    items: VecDeque<Item<'a>>,
    closed: bool,
}

impl<'a> Queue<'a> {
    fn add(&self, items: Vec<Item<'a>>) {
        lock(&self.state).items.extend(items);
        self.changed.notify_all();
    }

    /// Nothing will be added any more.
    fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_all();
    }

    fn next(&self) -> Option<Item<'a>> {
        let state = lock(&self.state);
        let idle = |state: &mut State| state.items.is_empty() && !state.closed;
        let mut state = self
            .changed
            .wait_while(state, idle)
            .unwrap_or_else(PoisonError::into_inner);
        state.items.pop_front()
    }

    fn work(&self, report: &Report) {
        while let Some(item) = self.next() {
            if self.limit.is_some_and(|limit| Instant::now() > limit) {
                report.leave_out(&item.name);
                continue;
            }
            report.start(&item.name, item.doing);
            report.add(&item.name, (item.run)());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Builds what every guest gets beside its test: rzram.ko and the guest's programs.
fn guest_files(ctx: &Ctx, platform: &Platform) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    if ctx.has_module() {
        files.extend(module::fresh(ctx, &platform.kernel)?);
    }
    files.extend(workspace::guest_programs(ctx)?);
    Ok(files)
}
