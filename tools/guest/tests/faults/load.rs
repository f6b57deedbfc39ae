// SPDX-License-Identifier: GPL-2.0

//! Loading and unloading the module.

use std::ffi::CString;
use std::fs::{self, File};
use std::path::Path;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use nix::kmod::{finit_module, ModuleInitFlags};
use rzram_guest::disk::Disk;
use rzram_guest::faults::{at_least, note, one_by_one, Faults, Of, Outcome, Place};
use rzram_guest::kernel::Log;
use rzram_guest::module::{disk_ids, is_loaded, module_file, try_unload, Module};
use rzram_guest::pattern::Rng;
use rzram_guest::run::run;
use rzram_guest::{same, PAGE};

use crate::common::{assortment, holds, keeps, NEVER, NO_DISK, NO_MEMORY};

/// Fails unless there is no trace of a module that goes by `name`.
fn no_trace(name: &str) -> Result<()> {
    ensure!(!is_loaded()?, "it is loaded");
    same("disks", Vec::<u32>::new(), disk_ids()?)?;
    let class = format!("/sys/class/{name}-control");
    ensure!(!Path::new(&class).exists(), "{class} is there");
    let debug = format!("/sys/kernel/debug/{name}");
    ensure!(!Path::new(&debug).exists(), "{debug} is there");
    let numbers = fs::read_to_string("/proc/devices")?;
    ensure!(
        !numbers.lines().any(|line| line.ends_with(name)),
        "/proc/devices has {name}"
    );
    Ok(())
}

fn insert(file: &File, parameters: &str) -> nix::Result<()> {
    let parameters = CString::new(parameters).map_err(|_| Errno::EINVAL)?;
    finit_module(file, &parameters, ModuleInitFlags::empty())
}

#[test]
fn loading_without_memory_is_refused_and_leaves_nothing() -> Result<()> {
    let _faults = Faults::set_up(Of::Modules)?;
    let file = File::open(module_file()).context("opening the module")?;
    // Making disks is the same as with `hot_add`.
    let failed = one_by_one(
        "load",
        Place::Here,
        NO_MEMORY,
        || insert(&file, "num_devices=0"),
        |outcome| {
            if outcome == Outcome::Done {
                ensure!(
                    Path::new("/sys/class/rzram-control/hot_add").exists(),
                    "there is no class"
                );
                try_unload().context("unloading")?;
            }
            no_trace("rzram")
        },
    )?;
    at_least(10, failed)
}

#[test]
fn unloading_needs_no_memory() -> Result<()> {
    let _faults = Faults::set_up(Of::Modules)?;
    let data = assortment(1, 100)?;
    let start = || -> Result<()> {
        // What is loaded is unloaded by the operation.
        std::mem::forget(Module::load("num_devices=2")?);
        Disk::new(1).set_up("zstd", "16M")?;
        keeps(&Disk::new(1), 0, &data)
    };
    start()?;
    one_by_one("unload", Place::Here, NEVER, try_unload, |_| {
        no_trace("rzram")?;
        start()
    })?;
    holds(&Disk::new(1), 0, &data)?;
    try_unload().context("unloading")?;
    no_trace("rzram")
}

#[test]
fn names_that_are_taken_are_refused_also_without_memory() -> Result<()> {
    let _faults = Faults::set_up(Of::Modules)?;
    run("modprobe", &["zram", "num_devices=0"])?;
    let file = File::open(module_file()).context("opening the module")?;
    let mut log = Log::follow()?;
    let mut refused = 0;
    one_by_one(
        "load with names that are taken",
        Place::Here,
        NEVER,
        || match insert(&file, "compat=1") {
            Err(Errno::EBUSY | Errno::ENOMEM) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => Err(Errno::EEXIST),
        },
        |_| {
            refused += 1;
            ensure!(!is_loaded()?, "it is loaded");
            let lines = log.lines();
            // The kernel's own refusal comes with the stack of who tried.
            ensure!(
                !lines.iter().any(|line| line.contains("duplicate")),
                "{lines:?}"
            );
            Ok(())
        },
    )?;
    run("rmmod", &["zram"])?;
    at_least(2, refused)?;
    no_trace("zram")
}

/// How often everything is done by chance.
const ROUNDS: usize = 40;

#[test]
fn by_chance_as_well() -> Result<()> {
    let faults = Faults::set_up(Of::Modules)?;
    let file = File::open(module_file()).context("opening the module")?;
    let mut rng = Rng::new(4, 1);
    let (mut failed, mut loaded, mut ready) = (0, 0, 0);
    for round in 0..ROUNDS {
        // A load hardly ever gets through, so every other one is spared.
        let percent = 1 + rng.below(2) as u32;
        faults.by_chance(percent * (round as u32 % 2))?;
        let result = insert(&file, "num_devices=2");
        failed += faults.by_chance(percent)?;
        let disk = Disk::new(rng.below(2) as u32);
        let mut set_up = Err(Errno::ENODEV);
        let mut added = Err(Errno::ENODEV);
        if result.is_ok() {
            let _ = disk.put("comp_algorithm", ["zstd", "lz4", "deflate"][round % 3]);
            set_up = disk.put("disksize", "16M");
            added = rzram_guest::attr::read(&rzram_guest::target::target().control("hot_add"));
        }
        failed += faults.by_chance(0)?;
        match result {
            Err(error) => {
                ensure!(NO_DISK.contains(&error), "loading: {error:?}");
                no_trace("rzram")?;
                continue;
            }
            Ok(()) => loaded += 1,
        }
        match added {
            Ok(id) => same("the disk added", "2\n", id.as_str())?,
            Err(error) => ensure!(NO_DISK.contains(&error), "adding a disk: {error:?}"),
        }
        match set_up {
            Ok(()) => ready += 1,
            Err(error) => {
                same("setting up", Errno::ENOMEM, error)?;
                disk.set("disksize", "16M")?;
            }
        }
        keeps(&disk, 3, &assortment(round as u64, 20)?)?;
        holds(&disk, 0, &[0; 3 * PAGE])?;
        try_unload().context("unloading")?;
        no_trace("rzram")?;
    }
    note(&format!(
        "load, hot_add and disksize by chance: {failed} allocations failed in {ROUNDS} rounds; {loaded} loads \
         and {ready} set-ups succeeded nevertheless"
    ));
    at_least(30, failed)?;
    at_least(10, loaded)
}
