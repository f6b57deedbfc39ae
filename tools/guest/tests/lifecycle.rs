// SPDX-License-Identifier: GPL-2.0
// vm: --mem 2G --cpus 2

//! Loading and unloading, adding and removing disks, and resets of disks that somebody uses.

use std::fs::File;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use rzram_guest::disk::Disk;
use rzram_guest::kernel::{drop_caches, load_ext4, Log};
use rzram_guest::module::{
    disk_ids, is_loaded, module_file, scratch, unload_refused, with_disk, with_module, Module,
};
use rzram_guest::run::{run, run_failing};
use rzram_guest::stat::meminfo;
use rzram_guest::stress::{together, Until, Work};
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
fn the_log_names_the_disks_that_come_and_go() -> Result<()> {
    let mut log = Log::follow()?;
    with_module("", || {
        log.expect(&format!("Added device: {}", target().disk(0)))?;
        let disk = Disk::hot_add()?;
        log.expect(&format!("Added device: {}", disk.name()))?;
        disk.hot_remove().context("hot_remove")?;
        log.expect(&format!("Removed device: {}", disk.name()))
    })
}

#[test]
fn hot_add_returns_the_lowest_free_number_and_hot_remove_frees_it() -> Result<()> {
    with_module("", || {
        for id in 1..=3 {
            let text = attr::read(&target().control("hot_add"))?;
            same("hot_add shows", format!("{id}\n"), text)?;
        }
        Disk::new(1).hot_remove().context("hot_remove 1")?;
        Disk::new(0).hot_remove().context("hot_remove 0")?;
        same("disks left", vec![2, 3], disk_ids()?)?;
        ensure!(
            File::open("/dev/null").is_ok() && !Disk::new(0).sys("").exists(),
            "disk 0 is still there"
        );
        for id in [0, 1, 4] {
            same(
                "hot_add shows",
                format!("{id}\n"),
                attr::read(&target().control("hot_add"))?,
            )?;
        }
        Ok(())
    })
}

#[test]
fn hot_remove_refuses_what_is_no_disk() -> Result<()> {
    with_module("", || {
        let path = target().control("hot_remove");
        let cases = [
            ("foo", Errno::EINVAL),
            ("", Errno::EINVAL),
            ("0x0", Errno::EINVAL),
            ("0 ", Errno::EINVAL),
            ("0 1", Errno::EINVAL),
            ("-1", Errno::EINVAL),
            ("-2147483648", Errno::EINVAL),
            ("2147483648", Errno::ERANGE),
            ("99999999999999999999", Errno::ERANGE),
            ("1", Errno::ENODEV),
            ("2147483647", Errno::ENODEV),
        ];
        for (text, expected) in cases {
            if !text.is_empty() {
                attr::refused(&path, text.as_bytes(), &[expected])?;
            }
        }
        attr::refused(&path, &[b'7'; PAGE], &[Errno::ERANGE])?;
        same("disks", vec![0], disk_ids()?)?;
        attr::set(&path, "0\n")?;
        same("disks", vec![], disk_ids()?)?;
        attr::refused(&path, b"0", &[Errno::ENODEV])
    })
}

#[test]
fn an_attribute_held_open_across_hot_remove_is_harmless() -> Result<()> {
    with_module("", || {
        let disk = Disk::hot_add()?;
        disk.set("disksize", "1M")?;
        let held = File::open(disk.sys("mm_stat"))?;
        disk.hot_remove().context("hot_remove")?;
        let mut text = [0; 200];
        let came = blk::try_read(&held, &mut text, 0);
        blk::fails_with("reading mm_stat of a removed disk", Errno::ENODEV, came)
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

/// Fails unless `action` is refused with EBUSY within `bound`, and the disk keeps what it holds.
fn busy(disk: &Disk, what: &str, bound: Duration) -> Result<()> {
    for (action, done) in [
        (
            "reset",
            (|d: &Disk| d.put("reset", "1")) as fn(&Disk) -> std::result::Result<(), Errno>,
        ),
        ("hot_remove", Disk::hot_remove),
    ] {
        let start = Instant::now();
        blk::fails_with(
            &format!("{action} of a disk that is {what}"),
            Errno::EBUSY,
            done(disk),
        )?;
        let took = start.elapsed();
        ensure!(
            took < bound,
            "{action} of a disk that is {what} took {took:?}, expected at most {bound:?}"
        );
        println!("{action} of a disk that is {what}: EBUSY after {took:?}");
    }
    disk.shows("initstate", "1\n")
}

const AT_ONCE: Duration = Duration::from_millis(400);

#[test]
fn a_mounted_disk_is_busy_at_once_and_unharmed() -> Result<()> {
    load_ext4()?;
    with_disk("32M", |disk| {
        let at = scratch("busy")?;
        let mount = at.to_string_lossy().into_owned();
        run("mkfs.ext4", &["-q", &disk.node()])?;
        run("mount", &[&disk.node(), &mount])?;
        std::fs::write(at.join("file"), "still here")?;
        busy(disk, "mounted", AT_ONCE)?;
        drop_caches()?;
        same(
            "the file",
            "still here".to_string(),
            std::fs::read_to_string(at.join("file"))?,
        )?;
        std::fs::write(at.join("more"), "writable as well")?;
        run("umount", &[&mount])?;
        run("e2fsck", &["-fn", &disk.node()]).map(drop)
    })
}

#[test]
fn a_swap_disk_is_busy_at_once() -> Result<()> {
    with_disk("32M", |disk| {
        run("mkswap", &[&disk.node()])?;
        run("swapon", &[&disk.node()])?;
        busy(disk, "swapped on", AT_ONCE)?;
        run("swapoff", &[&disk.node()]).map(drop)
    })
}

#[test]
fn a_disk_held_open_is_busy_after_a_bounded_wait() -> Result<()> {
    with_disk("32M", |disk| {
        let file = disk.direct()?;
        let mut data = rzram_guest::buf::Mapping::new(PAGE)?;
        pattern::fill(pattern::Kind::Text, 1, &mut data);
        blk::write(&file, &data, 0)?;
        busy(disk, "held open", Duration::from_millis(2000))?;
        let expected = data.to_vec();
        blk::read(&file, &mut data, 0)?;
        blk::equal("the disk after a refused reset", &expected, &data)?;
        drop(file);
        // Nothing of the refusals lingers: it opens, resets and opens again.
        drop(disk.direct()?);
        disk.reset()?;
        drop(disk.direct()?);
        disk.set("disksize", "1M")
    })
}

#[test]
fn reset_and_hot_remove_wait_for_whoever_closes_soon() -> Result<()> {
    with_module("", || {
        for action in ["reset", "hot_remove"] {
            let disk = Disk::hot_add()?;
            disk.set("disksize", "1M")?;
            let file = disk.direct()?;
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(200));
                    drop(file);
                });
                let came = if action == "reset" {
                    disk.put("reset", "1")
                } else {
                    disk.hot_remove()
                };
                same(
                    format!("{action} of a disk that is closed 200 ms later"),
                    Ok(()),
                    came,
                )
            })?;
            if action == "reset" {
                disk.shows("initstate", "0\n")?;
            }
        }
        Ok(())
    })
}

/// Opens and closes a node all the time, as udev does after each change.
fn opener<'a>(node: String) -> Work<'a> {
    Box::new(move |until| {
        while until.more() {
            // Refused while the disk is claimed, absent while it is being made.
            let _ = File::open(&node);
        }
        Ok(())
    })
}

#[test]
fn a_hundred_resets_beside_a_loop_that_opens_the_node_all_succeed() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        let until = Until::after(Duration::from_secs(60));
        let resets: Work<'_> = Box::new(|until| {
            let (mut failed, mut longest) = (0, Duration::ZERO);
            for _ in 0..100 {
                disk.set("disksize", "1M")?;
                let start = Instant::now();
                if disk.put("reset", "1").is_err() {
                    failed += 1;
                    while disk.put("reset", "1").is_err() {}
                }
                longest = longest.max(start.elapsed());
            }
            until.stop();
            println!("longest reset: {longest:?}");
            ensure!(
                longest < Duration::from_millis(1500),
                "a reset took {longest:?}"
            );
            same("resets that failed, of 100", 0, failed)
        });
        together(
            &until,
            vec![("resets", resets), ("opener", opener(disk.node()))],
        )
    })
}

#[test]
fn disks_come_and_go_in_parallel_beside_readers_of_all_their_files() -> Result<()> {
    with_module("num_devices=0", || {
        let until = Until::after(Duration::from_secs(60));
        let left = std::sync::atomic::AtomicU32::new(4);
        let life = |seed: u64| -> Work<'_> {
            let left = &left;
            Box::new(move |until| {
                for round in 0..12 {
                    let disk = Disk::hot_add()?;
                    let algorithm =
                        target().algorithms[(round + seed as usize) % target().algorithms.len()];
                    disk.set_up(algorithm, "4M")?;
                    let (mut data, mut back) = (
                        rzram_guest::buf::Mapping::new(64 * PAGE)?,
                        rzram_guest::buf::Mapping::new(64 * PAGE)?,
                    );
                    pattern::fill_all(seed, round as u64, &mut data);
                    let file = disk.direct()?;
                    blk::write(&file, &data, 0)?;
                    blk::read(&file, &mut back, 0)?;
                    blk::equal(&format!("{} in round {round}", disk.name()), &data, &back)?;
                    drop(file);
                    disk.hot_remove()
                        .with_context(|| format!("removing {} again", disk.name()))?;
                }
                if left.fetch_sub(1, std::sync::atomic::Ordering::SeqCst) == 1 {
                    until.stop();
                }
                Ok(())
            })
        };
        let reader: Work<'_> = Box::new(|until| {
            while until.more() {
                for id in 0..4 {
                    for name in [
                        "mm_stat",
                        "io_stat",
                        "disksize",
                        "comp_algorithm",
                        "debug_stat",
                        "stat",
                    ] {
                        let _ = attr::read(&Disk::new(id).sys(name));
                    }
                }
            }
            Ok(())
        });
        let mut work = vec![
            ("reader", reader),
            ("opener", opener(target_node(0))),
            ("opener", opener(target_node(2))),
        ];
        work.extend((0..4).map(|seed| ("life", life(seed))));
        together(&until, work)?;
        same("disks left", vec![], disk_ids()?)
    })
}

fn target_node(id: u32) -> String {
    Disk::new(id).node()
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
    let mut cycle = |n: u64| -> Result<()> {
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
