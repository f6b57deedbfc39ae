// SPDX-License-Identifier: GPL-2.0

//! Threads that begin together, and the time until the last one is done.

use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Marks a point in time, for QEMU's plugin for virtual time.
#[inline(always)]
pub fn mark() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: Exchanges a register with itself.
    unsafe {
        std::arch::asm!("xchg bx, bx", options(nomem, nostack, preserves_flags));
    }
}

/// Has this thread run on one CPU: the one of this number, counted round.
pub fn pin(number: usize) -> Result<()> {
    let cpus = thread::available_parallelism()?.get();
    // SAFETY: The set is plain data, and the call reads no more than its size.
    let done = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(number % cpus, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set)
    };
    if done != 0 {
        return Err(std::io::Error::last_os_error()).context("choosing a CPU");
    }
    Ok(())
}

/// The end of a measurement that ends with the first thread that is done, as in iozone. The others go on to their end, which
/// does not count: threads that do different things are then not measured by the slowest of them.
#[derive(Default)]
pub struct Wall {
    end: OnceLock<Instant>,
    done: AtomicU64,
}

impl Wall {
    /// A thread has done a request.
    pub fn count(&self) {
        if self.end.get().is_none() {
            self.done.fetch_add(1, Relaxed);
        }
    }

    /// A thread is done.
    pub fn put_up(&self) {
        self.end.get_or_init(|| {
            let now = Instant::now();
            mark();
            now
        });
    }

    /// Requests that all had done when the first one was done.
    pub fn done(&self) -> u64 {
        self.done.load(Relaxed)
    }
}

/// Runs the `jobs` at once, each in a thread on a CPU of its own, and returns how many nanoseconds that took: until all are
/// done, or until one of them has put up the `wall`.
///
/// What a job is made of is prepared before; making it is not counted.
pub fn together<J: FnOnce() -> Result<()> + Send>(
    jobs: Vec<J>,
    wall: Option<&Wall>,
) -> Result<u64> {
    // Of this many CPUs the process may use; asked before a thread is pinned.
    let start = Barrier::new(jobs.len() + 1);
    let end = Barrier::new(jobs.len() + 1);
    // Several threads do not sleep until they begin: how long a CPU takes to wake up is the host's business.
    let awake = AtomicUsize::new(0);
    let go = AtomicBool::new(jobs.len() == 1);
    let count = jobs.len();
    thread::scope(|scope| {
        let threads: Vec<_> = jobs
            .into_iter()
            .enumerate()
            .map(|(number, job)| {
                let (start, end, awake, go) = (&start, &end, &awake, &go);
                scope.spawn(move || {
                    let pinned = pin(number);
                    // Once to be there, and once to begin.
                    start.wait();
                    start.wait();
                    awake.fetch_add(1, Relaxed);
                    while !go.load(Acquire) {
                        thread::yield_now();
                    }
                    let done = pinned.and_then(|()| job());
                    end.wait();
                    done
                })
            })
            .collect();
        start.wait();
        if count > 1 {
            start.wait();
            while awake.load(Relaxed) < count {
                thread::sleep(Duration::from_millis(1));
            }
        }
        mark();
        let begun = Instant::now();
        if count > 1 {
            go.store(true, Release);
        } else {
            start.wait();
        }
        end.wait();
        let took = match wall {
            Some(Wall { end, .. }) => end.get().map(|end| *end - begun),
            None => {
                let took = begun.elapsed();
                mark();
                Some(took)
            }
        };
        for thread in threads {
            thread.join().ok().context("a thread died")??;
        }
        let took = took.context("no thread said that it was done")?;
        Ok(u64::try_from(took.as_nanos())?)
    })
}
