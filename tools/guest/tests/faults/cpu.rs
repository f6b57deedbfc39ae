// SPDX-License-Identifier: GPL-2.0

//! A CPU that comes up while disks are set up.

use anyhow::{Context, Result};
use nix::errno::Errno;
use rzram_guest::attr;
use rzram_guest::disk::Disk;
use rzram_guest::faults::{at_least, one_by_one_and_all_after, Faults, Of, Outcome, Place};
use rzram_guest::kernel::{cpu_online, cpus_online, on_cpu};
use rzram_guest::module::with_module;
use rzram_guest::same;

use crate::common::{assortment, holds, keeps, ways, NO_MEMORY};

const ONLINE: &str = "/sys/devices/system/cpu/cpu1/online";

/// Brings CPU 1 back whatever happens.
struct Cpu1;

impl Drop for Cpu1 {
    fn drop(&mut self) {
        let _ = cpu_online(1, true);
    }
}

fn switch(value: &str) -> nix::Result<()> {
    match attr::write(ONLINE.as_ref(), value.as_bytes()) {
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}

#[test]
fn a_cpu_for_which_there_is_no_memory_stays_off() -> Result<()> {
    let _faults = Faults::set_up(Of::Modules)?;
    let _back = Cpu1;
    // What the others have is tried by `disksize`.
    let few = ["lzo-rle", "deflate", "zstd with a dictionary"];
    let mut ways = ways()?;
    ways.retain(|way| few.contains(&way.name));
    with_module(&format!("num_devices={}", ways.len()), || {
        // Each in its own way; what is done for one after another is undone when it fails for a later one.
        let data = assortment(1, 40)?;
        let disks: Vec<Disk> = (0..ways.len()).map(|id| Disk::new(id as u32)).collect();
        for (disk, way) in disks.iter().zip(&ways) {
            way.choose(disk)?;
            disk.set("disksize", "16M")?;
            keeps(disk, 0, &data)?;
        }
        cpu_online(1, false)?;
        let failed = one_by_one_and_all_after(
            "CPU online, 3 disks",
            Place::Here,
            NO_MEMORY,
            || switch("1"),
            |outcome| {
                let cpus = match outcome {
                    Outcome::Failed => 1,
                    Outcome::Done => 2,
                };
                same("CPUs", cpus, cpus_online()?)?;
                for (disk, way) in disks.iter().zip(&ways) {
                    on_cpu(cpus - 1, || {
                        holds(disk, 0, &data)?;
                        keeps(disk, 100, &data)
                    })
                    .context(way.name)?;
                }
                if outcome == Outcome::Done {
                    cpu_online(1, false)?;
                    for (disk, way) in disks.iter().zip(&ways) {
                        holds(disk, 0, &data).context(way.name)?;
                    }
                }
                Ok(())
            },
        )?;
        at_least(25, failed)?;
        cpu_online(1, true)?;
        let off = |_| {
            same("CPUs", 1, cpus_online()?)?;
            cpu_online(1, true)
        };
        one_by_one_and_all_after(
            "CPU offline",
            Place::Here,
            &[Errno::ENOMEM],
            || switch("0"),
            off,
        )?;
        disks.iter().try_for_each(Disk::reset)
    })
}
