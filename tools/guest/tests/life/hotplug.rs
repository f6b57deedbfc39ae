// SPDX-License-Identifier: GPL-2.0

//! CPU 1 goes off and comes back while disks are in use.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use rzram_guest::buf::Mapping;
use rzram_guest::disk::Disk;
use rzram_guest::kernel::{cpu_online, cpus_online, on_cpu};
use rzram_guest::module::with_module;
use rzram_guest::stress::{owner, statistician, together, Until, Work};
use rzram_guest::target::target;
use rzram_guest::{blk, pattern, same, MIB, PAGE};

/// Brings CPU 1 back whatever happens.
struct Cpu1;

impl Drop for Cpu1 {
    fn drop(&mut self) {
        let _ = cpu_online(1, true);
    }
}

#[test]
fn a_cpu_goes_off_and_on_under_io_and_no_byte_is_lost() -> Result<()> {
    let _back = Cpu1;
    same("CPUs online", 2, cpus_online()?)?;
    with_module("", || {
        for algorithm in [target().default_algorithm, "zstd"] {
            let disk = Disk::new(0);
            disk.set_up(algorithm, "64M")?;
            let until = Until::after(Duration::from_secs(60));
            let plug: Work<'_> = Box::new(|until| {
                for _ in 0..6 {
                    cpu_online(1, false)?;
                    std::thread::sleep(Duration::from_millis(60));
                    cpu_online(1, true)?;
                    std::thread::sleep(Duration::from_millis(60));
                }
                until.stop();
                Ok(())
            });
            let mut work = vec![("hotplug", plug), ("mm_stat", statistician(disk, 64 * MIB))];
            work.extend((0..3).map(|n| ("an owner", owner(disk, n * 2000, 2000, n))));
            together(&until, work)?;
            println!(
                "{algorithm}: {} operations",
                until.done.load(Ordering::Relaxed)
            );
            disk.reset()?;
        }
        Ok(())
    })
}

#[test]
fn a_cpu_that_comes_after_the_disk_was_set_up_can_compress_and_decompress() -> Result<()> {
    let _back = Cpu1;
    with_module("", || {
        for algorithm in target().algorithms {
            let disk = Disk::new(0);
            cpu_online(1, false)?;
            disk.set_up(algorithm, "16M")?;
            write_and_read(&disk, 0)?;
            cpu_online(1, true)?;
            for cpu in [1, 0, 1] {
                write_and_read(&disk, cpu)?;
            }
            disk.reset()?;
        }
        Ok(())
    })
}

#[test]
fn disks_are_made_and_removed_while_a_cpu_goes_off_and_on() -> Result<()> {
    let _back = Cpu1;
    with_module("num_devices=0", || {
        let until = Until::after(Duration::from_millis(2500));
        let plug: Work<'_> = Box::new(|until| {
            while until.more() {
                cpu_online(1, false)?;
                cpu_online(1, true)?;
            }
            Ok(())
        });
        let disks: Work<'_> = Box::new(|until| {
            let mut n = 0;
            while until.more() {
                let disk = Disk::hot_add()?;
                disk.set_up(target().algorithms[n % target().algorithms.len()], "8M")?;
                n += 1;
                let file = disk.direct()?;
                let (mut data, mut back) = (Mapping::new(16 * PAGE)?, Mapping::new(16 * PAGE)?);
                pattern::fill_all(n as u64, 0, &mut data);
                blk::write(&file, &data, 0)?;
                blk::read(&file, &mut back, 0)?;
                blk::equal("a disk made during hotplug", &data, &back)?;
                drop(file);
                disk.hot_remove().context("hot_remove")?;
            }
            Ok(())
        });
        together(&until, vec![("hotplug", plug), ("disks", disks)])
    })
}

fn write_and_read(disk: &Disk, cpu: usize) -> Result<()> {
    on_cpu(cpu, || {
        let file = disk.direct()?;
        let (mut data, mut back) = (Mapping::new(128 * PAGE)?, Mapping::new(128 * PAGE)?);
        pattern::fill_all(cpu as u64, 0, &mut data);
        blk::write(&file, &data, 0)?;
        blk::read(&file, &mut back, 0)?;
        blk::equal(&format!("written and read on CPU {cpu}"), &data, &back)
    })
}
