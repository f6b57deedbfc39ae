// SPDX-License-Identifier: GPL-2.0

//! More memory is wanted than there is, in a control group and in the whole machine, with swap that takes all, some or
//! nothing of it: what cannot be had ends the program that wants it, in time, and nobody else notices.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use rzram_guest::disk::Disk;
use rzram_guest::hog::{leave_only, Hog, SwapTraffic};
use rzram_guest::kernel::{is_debug, patience};
use rzram_guest::module::with_module;
use rzram_guest::{same, GIB, MIB};

use super::pressure::as_swap;

/// A program that has not come to its end by then hangs.
fn time() -> Duration {
    Duration::from_secs(280) * patience()
}

/// A control group with a limit to its memory.
struct Group(PathBuf);

impl Group {
    fn new(name: &str, bytes: u64) -> Result<Group> {
        let root = PathBuf::from("/sys/fs/cgroup");
        fs::write(root.join("cgroup.subtree_control"), "+memory")
            .context("the kernel has no control groups for memory")?;
        let group = Group(root.join(name));
        fs::create_dir(&group.0).context("making a control group")?;
        fs::write(group.0.join("memory.max"), bytes.to_string())?;
        Ok(group)
    }

    /// How often something happened in the group.
    fn event(&self, name: &str) -> Result<u64> {
        let text = fs::read_to_string(self.0.join("memory.events"))?;
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|rest| rest.trim().parse().ok());
        number.with_context(|| format!("memory.events has no {name}:\n{text}"))
    }

    /// Runs `rzram-guest hold` in the group, to its end.
    fn hold(&self, args: &str) -> Result<ExitStatus> {
        let procs = self.0.join("cgroup.procs");
        hold(&format!("echo $$ >{} && ", procs.display()), args)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

/// A child that does not outlive this.
struct Tamed(Child);

impl Drop for Tamed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `rzram-guest hold` to its end, as the one who has to go if there is not enough memory.
fn hold(first: &str, args: &str) -> Result<ExitStatus> {
    let script =
        format!("{first}echo 1000 >/proc/self/oom_score_adj && exec ./rzram-guest hold {args}");
    let child = Command::new("sh").args(["-c", &script]).spawn();
    let mut child = Tamed(child.context("starting a program")?);
    let (start, limit) = (Instant::now(), time());
    while start.elapsed() < limit {
        if let Some(status) = child.0.try_wait()? {
            println!("hold {args}: {status} after {:?}", start.elapsed());
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    anyhow::bail!("hold {args} has come to no end in {limit:?}")
}

fn was_killed(status: ExitStatus) -> Result<()> {
    same("ended by a signal", Some(libc::SIGKILL), status.signal())
}

#[test]
fn a_group_with_less_memory_than_it_uses_finds_every_byte_in_swap() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        as_swap(&disk, "lz4", "256M", || {
            let group = Group::new("less", 12 * MIB)?;
            let before = SwapTraffic::now()?;
            // The debug kernel takes a hundred times as long for a page.
            let (program, least) = match is_debug() {
                true => ("20 --passes 1", 1500),
                false => ("32 --passes 2", 5000),
            };
            let status = group.hold(program)?;
            ensure!(status.success(), "it ended with {status}");
            let traffic = SwapTraffic::now()?.since(before)?;
            println!("{traffic:?}");
            ensure!(
                traffic.out > least && traffic.back > least,
                "hardly any swap: {traffic:?}"
            );
            same("killed", 0, group.event("oom_kill ")?)
        })
    })
}

#[test]
fn a_group_whose_swap_is_at_its_limit_is_killed_in_order() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        let mut hog = Hog::new(4 * MIB)?;
        as_swap(&disk, "lz4", "256M", || {
            // Ours goes out first, and is there to the end.
            hog.fill(1, |_| ());
            hog.page_out()?;
            let limit = disk.mm()?.used + MIB;
            disk.set("mem_limit", &limit.to_string())?;
            // Nothing that compresses: as long as some pages still fit, the kernel goes on to look for them, with zram too.
            // The debug kernel's own memory for the group is larger.
            let (room, program) = match is_debug() {
                true => (2 * MIB, "8 --random"),
                false => (MIB, "4 --random"),
            };
            let group = Group::new("limited", room)?;
            was_killed(group.hold(program)?)?;
            ensure!(
                group.event("oom_kill ")? > 0,
                "it was killed by somebody else"
            );
            let io = disk.io()?;
            ensure!(io.failed_writes > 0, "the limit was not reached: {io:?}");
            let mm = disk.mm()?;
            ensure!(
                mm.used <= limit,
                "more is used than the limit allows: {mm:?}"
            );
            hog.verify(|_| ())?;
            disk.set("mem_limit", "0")?;
            let status = group.hold("4 --passes 1")?;
            ensure!(
                status.success(),
                "with the limit lifted, it ended with {status}"
            );
            hog.verify(|_| ())
        })
    })
}

#[test]
fn a_disk_whose_table_does_not_fit_is_refused_and_nobody_is_killed() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        let killed = rzram_guest::stat::vmstat("oom_kill")?;
        let memory = rzram_guest::stat::meminfo("MemTotal")?;
        let sparse = rzram_guest::post::file("sparse", &[])?;
        for tenths in [4, 7, 9, 11, 30] {
            let bytes = memory / 10 * tenths;
            // What is there before a block is: 8 bytes for each GiB, and a bit for each block of a backing device.
            let size = (bytes / 8 * GIB).min(1 << 62);
            disk.refuses("disksize", &size.to_string(), Errno::ENOMEM)
                .with_context(|| format!("a disk of {size} bytes"))?;
            fs::File::options()
                .write(true)
                .open(&sparse)?
                .set_len((bytes * 8 * 4096).min(1 << 60))?;
            disk.set("backing_dev", &sparse)?;
            disk.refuses("disksize", "1M", Errno::ENOMEM)
                .with_context(|| format!("{bytes} bytes for the map of the backing device"))?;
            disk.reset()?;
        }
        same("killed", killed, rzram_guest::stat::vmstat("oom_kill")?)?;
        disk.set("disksize", "16T")?;
        disk.reset()
    })
}

#[test]
fn a_machine_whose_pool_cannot_grow_kills_who_wants_too_much() -> Result<()> {
    // Only who asks for it is to be killed.
    fs::write("/proc/self/oom_score_adj", "-1000").context("oom_score_adj")?;
    let result = with_module("", || {
        let disk = Disk::new(0);
        let mut hog = Hog::new(4 * MIB)?;
        as_swap(&disk, "lzo-rle", "1G", || {
            hog.fill(1, |_| ());
            hog.page_out()?;
            // Most of the memory stays where it is, for there is no need to wait until all of it went to swap.
            let kept = leave_only(80 * MIB)?;
            // Swapping out what does not compress gives nothing back.
            was_killed(hold("", "160 --random")?)?;
            drop(kept);
            let mm = disk.mm()?;
            println!("{mm:?}, {:?}", disk.io()?);
            ensure!(mm.used_max > 16 << 20, "the pool hardly grew: {mm:?}");
            hog.verify(|_| ())?;
            let status = hold("", "24 --passes 1")?;
            ensure!(status.success(), "afterwards, one ended with {status}");
            same("failed reads", 0, disk.io()?.failed_reads)
        })
    });
    fs::write("/proc/self/oom_score_adj", "0")?;
    result
}
