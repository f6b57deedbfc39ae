// SPDX-License-Identifier: GPL-2.0

//! One operation in which allocations fail.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{ensure, Context, Result};

use super::{set, INJECTORS};

/// A thread's files for this: how many allocations until one fails (0 is none, or that it has failed),
/// and whether it is among those of whom some fail by chance.
struct Thread {
    counter: File,
    chance: File,
}

impl Thread {
    fn open(dir: &Path) -> std::io::Result<Thread> {
        let open = |name| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).open(dir.join(name))
        };
        Ok(Thread {
            counter: open("fail-nth")?,
            chance: open("make-it-fail")?,
        })
    }

    fn set(&self, number: u32, chance: bool) -> std::io::Result<()> {
        let chance = if chance { b"1" } else { b"0" };
        self.chance.write_all_at(chance, 0)?;
        self.counter.write_all_at(number.to_string().as_bytes(), 0)
    }

    fn left(&self) -> Result<u32> {
        let mut text = [0; 16];
        let len = self.counter.read_at(&mut text, 0)?;
        Ok(std::str::from_utf8(&text[..len])?.trim().parse()?)
    }
}

/// Whose allocations fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Those of the thread that runs the operation.
    Here,
    /// Those of the kernel's workers.
    Workers,
}

impl Place {
    fn threads(self) -> Result<Vec<Thread>> {
        if self == Place::Here {
            let dir = Path::new("/proc/thread-self");
            let thread = Thread::open(dir).with_context(|| {
                format!(
                    "opening {}/fail-nth; this needs `tools/vm --kernel debug`",
                    dir.display()
                )
            })?;
            return Ok(vec![thread]);
        }
        let mut threads = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let dir = entry?.path();
            let name = fs::read_to_string(dir.join("comm")).unwrap_or_default();
            if name.starts_with("kworker/") {
                // It may end at any time.
                threads.extend(Thread::open(&dir));
            }
        }
        Ok(threads)
    }
}

/// How many allocations fail in one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// One.
    One,
    /// That one and all after it: also what is tried in another way when it fails.
    Rest,
}

/// What an operation met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// No allocation at all.
    None,
    /// Fewer than those that were to succeed.
    Fewer,
    /// The one that was to fail, which did.
    Failure,
}

/// Runs `op` with allocation number `n` failing.
pub fn inject<T>(place: Place, depth: Depth, n: u32, op: impl FnOnce() -> T) -> Result<(T, Met)> {
    let threads = place.threads()?;
    let chance = |percent: &str| -> Result<()> {
        for (injector, _) in INJECTORS {
            set(injector, "task-filter", "Y")?;
            set(injector, "probability", percent)?;
        }
        Ok(())
    };
    for thread in &threads {
        let set = thread.set(n, depth == Depth::Rest);
        ensure!(set.is_ok() || place == Place::Workers, "{set:?}");
    }
    // As long as a thread's counter runs, this has no effect on it.
    if depth == Depth::Rest {
        chance("100")?;
    }
    let result = op();
    if depth == Depth::Rest {
        chance("0")?;
    }
    let mut met = Met::None;
    for thread in &threads {
        match thread.left() {
            Ok(0) => met = Met::Failure,
            Ok(left) if left < n && met == Met::None => met = Met::Fewer,
            Ok(_) => {}
            Err(error) if place == Place::Here => return Err(error),
            Err(_) => {}
        }
        let _ = thread.set(0, false);
    }
    Ok((result, met))
}
