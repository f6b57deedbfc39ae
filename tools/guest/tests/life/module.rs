// SPDX-License-Identifier: GPL-2.0

//! Loading and unloading the module.

use std::time::Duration;

use anyhow::{ensure, Context, Result};
use rzram_guest::disk::Disk;
use rzram_guest::kernel::{drop_caches, load_ext4};
use rzram_guest::module::{
    disk_ids, is_loaded, module_file, scratch, unload_refused, with_disk, with_module, Module,
};
use rzram_guest::run::{run, run_failing};
use rzram_guest::stat::meminfo;
use rzram_guest::target::target;
use rzram_guest::{attr, blk, pattern, same, KIB, MIB, PAGE};

#[test]
fn num_devices_says_how_many_disks_there_are_at_first() -> Result<()> {
    for (parameters, ids) in [
        ("", vec![0]),
        ("num_devices=0", vec![]),
        ("num_devices=3", vec![0, 1, 2]),
    ] {
        with_module(parameters, || {
            same(format!("disks with {parameters:?}"), ids, disk_ids()?)
        })?;
    }
    with_module("num_devices=0", || {
        same("the first hot_add", 0, Disk::hot_add()?.id)
    })
}

#[test]
fn a_module_parameter_that_makes_no_sense_is_refused() -> Result<()> {
    if target().is_c_zram() {
        return Ok(()); // modprobe logs differently, and this is the kernel's own parser anyway
    }
    for parameter in [
        "num_devices=-1",
        "num_devices=foo",
        "num_devices=99999999999",
    ] {
        run_failing("insmod", &[&module_file(), parameter])?;
        ensure!(!is_loaded()?, "loaded with {parameter}");
    }
    Ok(())
}

#[test]
fn the_module_describes_itself() -> Result<()> {
    let name = if target().is_c_zram() {
        "zram".to_string()
    } else {
        module_file()
    };
    let info = run("modinfo", &[&name])?;
    let has = |field: &str, text: &str| {
        info.lines()
            .any(|line| line.starts_with(field) && line.contains(text))
    };
    ensure!(has("license:", "GPL"), "no GPL licence:\n{info}");
    ensure!(
        has("parm:", "num_devices"),
        "num_devices is not described:\n{info}"
    );
    ensure!(has("description:", "ompressed"), "no description:\n{info}");
    with_module("", || {
        let parameter = format!("/sys/module/{}/parameters/num_devices", target().name);
        ensure!(
            attr::write(parameter.as_ref(), b"5").is_err(),
            "{parameter} is writable"
        );
        Ok(())
    })
}

#[test]
fn a_module_in_use_is_not_unloaded() -> Result<()> {
    load_ext4()?;
    with_disk("32M", |disk| {
        let node = disk.node();
        let held = disk.direct()?;
        unload_refused()?;
        drop(held);
        run("mkfs.ext4", &["-q", &node])?;
        let mount = scratch("lifecycle")?.to_string_lossy().into_owned();
        run("mount", &[&node, &mount])?;
        unload_refused()?;
        run("umount", &[&mount])?;
        run("mkswap", &[&node])?;
        run("swapon", &[&node])?;
        unload_refused()?;
        run("swapoff", &[&node])?;
        ensure!(is_loaded()?, "the module is gone");
        disk.shows("initstate", "1\n")
    })
}

#[test]
fn loading_and_unloading_many_times_leaks_nothing() -> Result<()> {
    let cycles: u64 = match std::env::var("RZRAM_LOAD_CYCLES") {
        Ok(text) => text.parse().context("RZRAM_LOAD_CYCLES is no number")?,
        Err(_) => 30,
    };
    let used = || -> Result<u64> {
        drop_caches()?;
        // Lazily freed mappings and slabs come back a little later.
        std::thread::sleep(Duration::from_millis(300));
        drop_caches()?;
        let names = ["Slab", "VmallocUsed", "PageTables", "Percpu", "KernelStack"];
        names.into_iter().map(meminfo).sum()
    };
    let mut data = rzram_guest::buf::Mapping::new(64 * PAGE)?;
    pattern::fill_all(1, 0, &mut data);
    let cycle = |n: u64| -> Result<()> {
        let module = Module::load("num_devices=2")?;
        let disk = Disk::new(n as u32 % 2);
        let algorithms = target().algorithms;
        disk.set_up(algorithms[n as usize % algorithms.len()], "1G")?;
        let file = disk.direct()?;
        blk::write(&file, &data, 0)?;
        blk::write(&file, &data, 512 * MIB)?;
        drop(file);
        // Every other time the disk still holds data when the module goes.
        if n % 2 == 0 {
            disk.reset()?;
        }
        module.unload()
    };
    for n in 0..10 {
        cycle(n)?;
    }
    let before = used()?;
    for n in 0..cycles {
        cycle(n).with_context(|| format!("cycle {n}"))?;
    }
    let grown = used()?.saturating_sub(before);
    println!("{cycles} cycles: kernel memory grew by {} KiB", grown / KIB);
    // A page a cycle would show; the noise of a whole system does not grow with the cycles.
    let bound = MIB.max(cycles * KIB);
    ensure!(
        grown < bound,
        "kernel memory grew by {grown} bytes in {cycles} cycles, expected less than {bound}"
    );
    Ok(())
}

#[test]
fn loading_it_twice_is_refused_and_the_first_stays() -> Result<()> {
    if target().is_c_zram() {
        return Ok(()); // modprobe is content with a module that is there
    }
    with_disk("1M", |disk| {
        let text = run_failing("insmod", &[&module_file()])?;
        ensure!(text.contains("File exists"), "insmod says {text:?}");
        disk.shows("initstate", "1\n")
    })
}
