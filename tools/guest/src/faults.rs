// SPDX-License-Identifier: GPL-2.0

//! Allocations that fail: one after another, or by chance. Needs a kernel with fault injection.
//!
//! Only what is allocated with a module's code on the call stack fails: for the module itself, or by
//! the kernel on its behalf.

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use anyhow::{bail, ensure, Context, Result};
use nix::errno::Errno;

use crate::target::target;

mod inject;

pub use inject::Place;
use inject::{inject, Depth, Met};

/// The kernel's injectors, and whose own allocations each leaves alone: those that watch the others,
/// and go without when they fail.
const INJECTORS: [(&str, &[&str]); 2] = [
    (
        "failslab",
        &[
            "mem_pool_alloc",
            "__alloc_object",
            "__create_object",
            "create_object",
        ],
    ),
    (
        "fail_page_alloc",
        &["stack_depot_save_flags", "depot_alloc_stack"],
    ),
];

/// Where modules end at most, on x86-64.
const MODULES_END: u64 = 0xffff_ffff_ff00_0000;

fn setting(injector: &str, name: &str) -> PathBuf {
    Path::new("/sys/kernel/debug").join(injector).join(name)
}

fn set(injector: &str, name: &str, value: &str) -> Result<()> {
    let file = setting(injector, name);
    fs::write(&file, value).with_context(|| {
        format!(
            "writing {value:?} to {}; this needs `tools/vm --kernel debug`",
            file.display()
        )
    })
}

/// The functions of the kernel, by address; looked up once.
fn functions() -> Result<&'static [(u64, String)]> {
    static ALL: OnceLock<Vec<(u64, String)>> = OnceLock::new();
    if let Some(all) = ALL.get() {
        return Ok(all);
    }
    let text = fs::read_to_string("/proc/kallsyms").context("reading /proc/kallsyms")?;
    let mut all = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if let (Some(address), Some(_), Some(name)) = (words.next(), words.next(), words.next()) {
            all.push((u64::from_str_radix(address, 16)?, name.to_owned()));
        }
    }
    all.sort_unstable();
    Ok(ALL.get_or_init(|| all))
}

/// The addresses of `names`, as one range.
fn range_of(names: &[&str], functions: &[(u64, String)]) -> Option<(u64, u64)> {
    let here: Vec<u64> = functions
        .iter()
        .filter(|(_, name)| names.contains(&name.as_str()))
        .map(|(address, _)| *address)
        .collect();
    let (first, last) = (*here.iter().min()?, *here.iter().max()?);
    let end = functions.iter().find(|(address, _)| *address > last)?.0;
    Some((first, end))
}

/// Which modules' allocations may fail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Any module's: one that is being loaded has no known address yet.
    Modules,
    /// Those of the module under test, which is loaded.
    Target,
}

/// The injectors, set up. Dropping this turns them off.
pub struct Faults(());

impl Faults {
    /// Has nothing fail yet.
    pub fn set_up(of: Of) -> Result<Faults> {
        let functions = functions()?;
        let (start, end) = match of {
            Of::Modules => {
                let end = functions.iter().find(|(_, name)| name == "_etext");
                (end.context("/proc/kallsyms has no _etext")?.0, MODULES_END)
            }
            Of::Target => loaded()?,
        };
        let faults = Faults(());
        for (injector, spared) in INJECTORS {
            faults.chance_of(injector, 0)?;
            let number = |address: u64| format!("{address:#x}");
            let (from, to) = range_of(spared, functions).unwrap_or((0, 0));
            for (name, value) in [
                ("interval", "1".to_owned()),
                ("space", "0".to_owned()),
                ("verbose", "0".to_owned()),
                ("stacktrace-depth", "32".to_owned()),
                ("require-start", number(start)),
                ("require-end", number(end)),
                ("reject-start", number(from)),
                ("reject-end", number(to)),
                ("ignore-gfp-wait", "N".to_owned()),
            ] {
                set(injector, name, &value)?;
            }
        }
        set("failslab", "cache-filter", "N")?;
        set("fail_page_alloc", "ignore-gfp-highmem", "N")?;
        set("fail_page_alloc", "min-order", "0")?;
        Ok(faults)
    }

    fn chance_of(&self, injector: &str, percent: u32) -> Result<()> {
        set(injector, "task-filter", "N")?;
        set(injector, "times", &LOTS.to_string())?;
        set(injector, "probability", &percent.to_string())
    }

    /// Has this many of a hundred allocations fail, in all threads. Returns how many failed since the
    /// last call.
    pub fn by_chance(&self, percent: u32) -> Result<u64> {
        let mut failed = 0;
        for (injector, _) in INJECTORS {
            set(injector, "probability", "0")?;
            let left = fs::read_to_string(setting(injector, "times"))?;
            failed += LOTS - left.trim().parse::<u64>()?;
        }
        for (injector, _) in INJECTORS {
            self.chance_of(injector, percent)?;
        }
        Ok(failed)
    }
}

/// How many allocations may fail by chance; enough.
const LOTS: u64 = 1_000_000_000;

impl Drop for Faults {
    fn drop(&mut self) {
        for (injector, _) in INJECTORS {
            let _ = set(injector, "probability", "0");
        }
    }
}

/// Where the code of the module under test is.
fn loaded() -> Result<(u64, u64)> {
    let text = fs::read_to_string("/proc/modules").context("reading /proc/modules")?;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [name, size, .., _state, address] = words[..6.min(words.len())] {
            if name == target().name {
                let start = u64::from_str_radix(address.trim_start_matches("0x"), 16)?;
                return Ok((start, start + size.parse::<u64>()?));
            }
        }
    }
    bail!("{} is not loaded", target().name)
}

/// What is to be looked at after an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has failed: all must be as before, but for what it says that it does by halves.
    Failed,
    /// It has succeeded, with or without a failure on the way: its effect must be there. Undo it.
    Done,
}

/// How many allocations failed in all trials so far.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    operations: u32,
    failed: u32,
    errors: u32,
}

static SUM: Mutex<Sum> = Mutex::new(Sum {
    operations: 0,
    failed: 0,
    errors: 0,
});

/// Prints a figure, and leaves it in the kernel's log.
pub fn note(text: &str) {
    println!("{text}");
    let _ = fs::write("/dev/kmsg", format!("rzram-test: {text}\n"));
}

/// Does `op` again and again, with the first, the second, … allocation failing, until it runs through
/// without a failure. Each time it must end with success or one of `errors`, and in the latter case
/// succeed when it is done again without a failure. `check` looks at what came of it. Returns how many
/// allocations failed.
pub fn one_by_one(
    name: &str,
    place: Place,
    errors: &[Errno],
    mut op: impl FnMut() -> nix::Result<()>,
    mut check: impl FnMut(Outcome) -> Result<()>,
) -> Result<u32> {
    sweep(name, place, Depth::One, 1, errors, &mut op, &mut check)
}

/// [`one_by_one`], and then the same with all allocations failing from the first, the second, … on.
pub fn one_by_one_and_all_after(
    name: &str,
    place: Place,
    errors: &[Errno],
    op: impl FnMut() -> nix::Result<()>,
    check: impl FnMut(Outcome) -> Result<()>,
) -> Result<u32> {
    from(1, name, place, errors, op, check)
}

/// The same, but beginning with allocation `first`: for an operation whose beginning has been tried.
pub fn from(
    first: u32,
    name: &str,
    place: Place,
    errors: &[Errno],
    mut op: impl FnMut() -> nix::Result<()>,
    mut check: impl FnMut(Outcome) -> Result<()>,
) -> Result<u32> {
    let mut failed = 0;
    for depth in [Depth::One, Depth::Rest] {
        failed += sweep(name, place, depth, first, errors, &mut op, &mut check)?;
    }
    Ok(failed)
}

fn sweep(
    name: &str,
    place: Place,
    depth: Depth,
    first: u32,
    errors: &[Errno],
    op: &mut dyn FnMut() -> nix::Result<()>,
    check: &mut dyn FnMut(Outcome) -> Result<()>,
) -> Result<u32> {
    let (mut n, mut failed, mut refused, mut idle) = (first, 0, 0, 0);
    loop {
        let round = || match depth {
            Depth::One => format!("{name}, with allocation {n} failing"),
            Depth::Rest => format!("{name}, with all failing from allocation {n} on"),
        };
        let (result, met) = inject(place, depth, n, &mut *op).with_context(round)?;
        if let Err(error) = result {
            ensure!(
                met == Met::Failure,
                "{name}: {error:?} without a failure of an allocation"
            );
            ensure!(
                errors.contains(&error),
                "{}\n  expected: success, or one of {errors:?}\n  came:     {error:?}",
                round()
            );
            check(Outcome::Failed).with_context(round)?;
            op().with_context(|| format!("{}: done again without", round()))?;
            refused += 1;
        }
        check(Outcome::Done).with_context(round)?;
        match met {
            Met::Failure => {
                failed += 1;
                n += 1;
            }
            // A worker that was not there when the counters were set has done it.
            Met::None if place == Place::Workers && idle < 20 => idle += 1,
            _ => break,
        }
        ensure!(n < 10_000, "{name}: no end of it");
    }
    let mut sum = SUM.lock().unwrap_or_else(|e| e.into_inner());
    sum.operations += 1;
    sum.failed += failed;
    sum.errors += refused;
    let place = match place {
        Place::Here => "",
        Place::Workers => " in workers",
    };
    let how = match depth {
        Depth::One => "one by one",
        Depth::Rest => "with all after them",
    };
    let text = format!(
        "{name}: {failed} allocations{place} failed {how}, {refused} of them were errors \
         (so far {} in {} operations, {} errors)",
        sum.failed, sum.operations, sum.errors
    );
    if failed > 0 {
        note(&text);
    } else {
        println!("{text}");
    }
    Ok(failed)
}

/// The errno of an I/O error of the standard library.
pub fn errno<T>(result: std::io::Result<T>) -> nix::Result<T> {
    result.map_err(|e| Errno::from_raw(e.raw_os_error().unwrap_or(libc::EIO)))
}

/// Fails if fewer than `least` allocations failed: then nothing was tried.
pub fn at_least<T: PartialOrd + Debug>(least: T, failed: T) -> Result<()> {
    ensure!(
        failed >= least,
        "allocations that failed\n  expected: at least {least:?}\n  came:     {failed:?}"
    );
    Ok(())
}
