// SPDX-License-Identifier: GPL-2.0
//! Starting user-mode Linux: a kernel that is a program of the host, at the speed of the host's CPUs.

use super::{
    machine::{channel, console, spawn, Machine},
    Platform, Spec,
};
use anyhow::{bail, Context, Result};
use rzram_init::{PORT_CTL, PORT_ERR, PORT_OUT, PORT_TERMINAL};
use std::{
    fs::File,
    os::fd::{AsRawFd, OwnedFd},
    process::{Command, Stdio},
};

/// The kernel's command line.
const PARAMETERS: [&str; 8] = [
    // Only so can it have more than one CPU.
    "seccomp=on",
    "console=tty0",
    "ignore_loglevel",
    "oops=panic",
    "panic=-1",
    "initramfs_options=size=100%",
    // Lines that nothing is said of below.
    "con=null",
    "ssl=null",
];

/// Starts a guest.
pub fn start(platform: &Platform, spec: &Spec, initrd: File) -> Result<Machine> {
    if spec.icount || spec.plugin.is_some() {
        bail!("a user-mode kernel does not count instructions; leave --kernel uml out");
    }
    let mut command = Command::new(platform.kernel.image());
    let mut inherited: Vec<OwnedFd> = Vec::new();
    command.args(PARAMETERS);
    command.arg(format!("ncpus={}", spec.cpus));
    command.arg(format!("mem={}M", spec.mem >> 20));
    command.arg(format!("initrd=/proc/self/fd/{}", initrd.as_raw_fd()));
    inherited.push(initrd.into());

    let (console, theirs) = console()?;
    command.arg(format!("con0=null,fd:{}", theirs.as_raw_fd()));
    // What it says before it is a kernel.
    command.stderr(Stdio::from(theirs.try_clone()?));
    inherited.push(theirs);
    let mut port = |number: u32| {
        let (ours, theirs) = channel()?;
        command.arg(format!("ssl{number}=fd:{}", theirs.as_raw_fd()));
        inherited.push(theirs);
        anyhow::Ok(ours)
    };
    let out = port(PORT_OUT)?;
    let err = port(PORT_ERR)?;
    let ctl = port(PORT_CTL)?;
    if spec.terminal {
        command.arg(format!("ssl{PORT_TERMINAL}=fd:0,fd:1"));
    } else {
        command.stdin(Stdio::null()).stdout(Stdio::null());
    }
    command.args(spec.append.split_whitespace());
    let child = spawn(command, inherited)
        .with_context(|| format!("cannot run {}", platform.kernel.image().display()))?;
    Ok(Machine {
        child,
        console,
        out,
        err,
        ctl,
    })
}
