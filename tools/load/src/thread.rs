// SPDX-License-Identifier: GPL-2.0

//! Threads that begin together, and the time until the last one is done.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

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

/// Runs the `jobs` at once, each in a thread on a CPU of its own, and returns how many nanoseconds that took.
///
/// What a job is made of is prepared before; making it is not counted.
pub fn together<J: FnOnce() -> Result<()> + Send>(jobs: Vec<J>) -> Result<u64> {
    // Of this many CPUs the process may use; asked before a thread is pinned.
    let start = Barrier::new(jobs.len() + 1);
    let end = Barrier::new(jobs.len() + 1);
    thread::scope(|scope| {
        let threads: Vec<_> = jobs
            .into_iter()
            .enumerate()
            .map(|(number, job)| {
                let (start, end) = (&start, &end);
                scope.spawn(move || {
                    let pinned = pin(number);
                    // Once to be there, and once to begin.
                    start.wait();
                    start.wait();
                    let done = pinned.and_then(|()| job());
                    end.wait();
                    done
                })
            })
            .collect();
        start.wait();
        mark();
        let begun = Instant::now();
        start.wait();
        end.wait();
        let took = begun.elapsed();
        mark();
        for thread in threads {
            thread.join().ok().context("a thread died")??;
        }
        Ok(u64::try_from(took.as_nanos())?)
    })
}
