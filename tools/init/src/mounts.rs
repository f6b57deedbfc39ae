// SPDX-License-Identifier: GPL-2.0
//! The file systems of a guest.

use anyhow::{bail, Context, Result};
use nix::mount::{mount, MsFlags};
use rzram_init::{Machine, SHARE_DIR};
use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

fn put(kind: &str, source: &str, target: &str, options: &str) -> Result<()> {
    fs::create_dir_all(target)?;
    mount(
        Some(source),
        target,
        Some(kind),
        MsFlags::empty(),
        Some(options),
    )
    .with_context(|| format!("cannot mount {kind} at {target}"))
}

/// What init itself needs.
pub fn basic() -> Result<()> {
    put("devtmpfs", "dev", "/dev", "mode=755")?;
    put("proc", "proc", "/proc", "")?;
    put("sysfs", "sys", "/sys", "")
}

/// What a command may expect.
pub fn more(machine: Machine, share: Option<&Path>) -> Result<()> {
    put("tmpfs", "tmp", "/tmp", "mode=1777")?;
    put("tmpfs", "run", "/run", "mode=755")?;
    put("tmpfs", "shm", "/dev/shm", "mode=1777")?;
    put("devpts", "pts", "/dev/pts", "mode=620,ptmxmode=666")?;
    put("cgroup2", "cgroup", "/sys/fs/cgroup", "")?;
    put("debugfs", "debugfs", "/sys/kernel/debug", "")?;
    for (name, fd) in [
        ("fd", ""),
        ("stdin", "/0"),
        ("stdout", "/1"),
        ("stderr", "/2"),
    ] {
        symlink(format!("/proc/self/fd{fd}"), format!("/dev/{name}"))?;
    }
    // Not there on a kernel without the file system, which hardly a command misses.
    let _ = put("tracefs", "tracefs", "/sys/kernel/tracing", "");
    match (share, machine) {
        (None, _) => Ok(()),
        (Some(dir), Machine::Uml) => put("hostfs", "share", SHARE_DIR, &dir.display().to_string()),
        (Some(_), Machine::Qemu) => {
            for module in ["9pnet_virtio", "9p"] {
                // By its path, for there is no PATH yet.
                let status = Command::new("/usr/sbin/modprobe").arg(module).status();
                if !status.context("cannot run modprobe")?.success() {
                    bail!("the kernel has no {module} module, so nothing can be shared");
                }
            }
            let options = "trans=virtio,version=9p2000.L,msize=262144,cache=mmap";
            put("9p", "share", SHARE_DIR, options)
        }
    }
}
