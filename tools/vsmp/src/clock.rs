// SPDX-License-Identifier: GPL-2.0

//! Clocks of CPUs that are kept together.

use std::{
    sync::{
        atomic::{AtomicU64, Ordering},
        Condvar, Mutex, MutexGuard, PoisonError,
    },
    time::Duration,
};

/// How long a CPU waits for slower ones before it goes on anyway: QEMU may be waiting for all CPUs to stop, and then no other
/// would ever come up. Much longer than a quantum takes.
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Clone, Default)]
struct Cpu {
    /// Its time, in instructions.
    clock: u64,
    /// Whether it executes, rather than waits for an interrupt.
    runs: bool,
    /// The instructions that it executed.
    executed: u64,
}

#[derive(Default)]
struct State {
    cpus: Vec<Cpu>,
    /// The time of the slowest CPU that runs; it never goes back.
    now: u64,
}

impl State {
    /// The time of the slowest CPU that runs.
    fn slowest(&self) -> Option<u64> {
        let running = self.cpus.iter().filter(|cpu| cpu.runs);
        running.map(|cpu| cpu.clock).min()
    }

    /// Notes that `cpu` has executed this many instructions more.
    fn executed(&mut self, cpu: usize, instructions: u64) {
        let cpu = &mut self.cpus[cpu];
        cpu.clock += instructions;
        cpu.executed += instructions;
    }

    /// Moves the common time on; tells whether it did.
    fn move_on(&mut self) -> bool {
        match self.slowest() {
            Some(slowest) if slowest > self.now => {
                self.now = slowest;
                true
            }
            _ => false,
        }
    }
}

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// What the CPU's clock says.
    pub time: u64,
    /// The instructions of all CPUs up to now, but for what others have not reported yet.
    pub instructions: u64,
}

/// The clocks of all CPUs of a guest.
pub struct Lockstep {
    state: Mutex<State>,
    moved: Condvar,
    quantum: u64,
    let_go: AtomicU64,
}

impl Lockstep {
    /// No CPUs yet. None will get further ahead of the slowest than a `quantum`, and what it executes before it reports.
    pub fn new(quantum: u64) -> Self {
        Lockstep {
            state: Mutex::default(),
            moved: Condvar::new(),
            quantum,
            let_go: AtomicU64::new(0),
        }
    }

    /// How far a CPU may be ahead.
    pub fn quantum(&self) -> u64 {
        self.quantum
    }

    /// How often a CPU was let go although it was ahead.
    pub fn let_go(&self) -> u64 {
        self.let_go.load(Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is a CPU of this number, which does not run yet.
    pub fn add(&self, cpu: usize) {
        let mut state = self.state();
        if state.cpus.len() <= cpu {
            state.cpus.resize(cpu + 1, Cpu::default());
        }
        state.cpus[cpu].clock = state.now;
        state.cpus[cpu].runs = false;
    }

    /// The CPU has executed `instructions` more, and waits here if it is too far ahead.
    pub fn report(&self, cpu: usize, instructions: u64) {
        let mut state = self.state();
        state.executed(cpu, instructions);
        if state.move_on() {
            self.moved.notify_all();
        }
        let too_far = |state: &mut State| {
            let me = &state.cpus[cpu];
            me.runs && me.clock > state.now + self.quantum
        };
        if too_far(&mut state) {
            let waited = self.moved.wait_timeout_while(state, PATIENCE, too_far);
            let (_state, outcome) = waited.unwrap_or_else(PoisonError::into_inner);
            if outcome.timed_out() {
                self.let_go.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// The CPU has executed `instructions` more, and now waits for an interrupt, or is gone.
    pub fn stop(&self, cpu: usize, instructions: u64) {
        let mut state = self.state();
        state.executed(cpu, instructions);
        state.cpus[cpu].runs = false;
        state.move_on();
        self.moved.notify_all();
    }

    /// The CPU goes on; while it waited, time has passed for it as for the others.
    pub fn go_on(&self, cpu: usize, instructions: u64) {
        let mut state = self.state();
        state.executed(cpu, instructions);
        let now = state.now;
        let cpu = &mut state.cpus[cpu];
        cpu.clock = cpu.clock.max(now);
        cpu.runs = true;
    }

    /// What time it is for a CPU.
    pub fn mark(&self, cpu: usize) -> Mark {
        let state = self.state();
        Mark {
            time: state.cpus[cpu].clock,
            instructions: state.cpus.iter().map(|cpu| cpu.executed).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::atomic::AtomicBool, thread};

    /// Runs CPUs that execute so many instructions each, in steps, and gives their times at the end.
    fn run(quantum: u64, step: u64, work: &[u64]) -> (Lockstep, Vec<Mark>) {
        let clocks = Lockstep::new(quantum);
        for cpu in 0..work.len() {
            clocks.add(cpu);
            clocks.go_on(cpu, 0);
        }
        let marks = thread::scope(|scope| {
            let threads: Vec<_> = work
                .iter()
                .enumerate()
                .map(|(cpu, work)| {
                    let clocks = &clocks;
                    scope.spawn(move || {
                        let mut left = *work;
                        while left > 0 {
                            let now = left.min(step);
                            clocks.report(cpu, now);
                            left -= now;
                        }
                        let mark = clocks.mark(cpu);
                        clocks.stop(cpu, 0);
                        mark
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        (clocks, marks)
    }

    #[test]
    fn a_clock_counts_what_its_cpu_executes() {
        let (clocks, marks) = run(100, 7, &[1000, 50, 3000]);
        let times: Vec<u64> = marks.iter().map(|mark| mark.time).collect();
        assert_eq!(times, [1000, 50, 3000]);
        assert_eq!(clocks.mark(0).instructions, 4050);
        assert_eq!(clocks.let_go(), 0);
    }

    #[test]
    fn nobody_gets_further_ahead_than_a_quantum() {
        let clocks = Lockstep::new(1000);
        let slow = AtomicBool::new(true);
        for cpu in 0..2 {
            clocks.add(cpu);
            clocks.go_on(cpu, 0);
        }
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..10 {
                    thread::sleep(Duration::from_millis(5));
                    clocks.report(0, 1000);
                }
                slow.store(false, Ordering::SeqCst);
                clocks.stop(0, 0);
            });
            for _ in 0..100 {
                clocks.report(1, 100);
                let (mine, other) = (clocks.mark(1).time, clocks.mark(0).time);
                if slow.load(Ordering::SeqCst) {
                    assert!(mine <= other + 1000 + 100, "{mine} and {other}");
                }
            }
            clocks.stop(1, 0);
        });
        assert_eq!(clocks.let_go(), 0);
    }

    #[test]
    fn who_waits_for_an_interrupt_holds_nobody_up_and_takes_the_common_time() {
        let clocks = Lockstep::new(10);
        for cpu in 0..2 {
            clocks.add(cpu);
            clocks.go_on(cpu, 0);
        }
        clocks.report(0, 5);
        clocks.stop(0, 0);
        for _ in 0..100 {
            clocks.report(1, 10); // would wait half a second, each time, were the other one running
        }
        clocks.go_on(0, 0);
        assert_eq!(clocks.mark(0).time, 1000);
        assert_eq!(clocks.mark(0).instructions, 1005);
        assert_eq!(clocks.let_go(), 0);
    }

    #[test]
    fn a_cpu_that_comes_late_starts_at_the_common_time() {
        let clocks = Lockstep::new(10);
        clocks.add(0);
        clocks.go_on(0, 0);
        clocks.report(0, 500);
        clocks.add(1);
        clocks.go_on(1, 0);
        assert_eq!(clocks.mark(1).time, 500);
        // Its clock does not go back when it stops and goes on at once.
        clocks.report(1, 8);
        clocks.stop(1, 0);
        clocks.go_on(1, 0);
        assert_eq!(clocks.mark(1).time, 508);
    }

    #[test]
    fn where_nobody_else_can_go_on_one_is_let_go() {
        let clocks = Lockstep::new(10);
        for cpu in 0..2 {
            clocks.add(cpu);
            clocks.go_on(cpu, 0);
        }
        clocks.report(1, 100);
        assert_eq!(clocks.let_go(), 1);
    }
}
