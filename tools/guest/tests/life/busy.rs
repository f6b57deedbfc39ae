// SPDX-License-Identifier: GPL-2.0

//! Resets and removals of disks that somebody uses: refused in time, or done once they may be.

use std::fs::File;
use std::time::{Duration, Instant};

use anyhow::{ensure, Result};
use nix::errno::Errno;
use rzram_guest::disk::Disk;
use rzram_guest::kernel::{drop_caches, load_ext4};
use rzram_guest::module::{scratch, with_disk, with_module};
use rzram_guest::run::run;
use rzram_guest::stress::{together, Until, Work};
use rzram_guest::{blk, pattern, same, PAGE};

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
pub fn opener<'a>(node: String) -> Work<'a> {
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
