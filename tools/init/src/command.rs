// SPDX-License-Identifier: GPL-2.0
//! Runs the command: its output goes to the host as it comes, orphans are reaped, and its status is what a shell says.

use crate::port;
use anyhow::{Context, Result};
use nix::{
    errno::Errno,
    fcntl::{fcntl, FcntlArg, OFlag},
    poll::{poll, PollFd, PollFlags, PollTimeout},
    sys::{
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
        wait::{waitpid, WaitPidFlag, WaitStatus},
    },
    unistd::{pipe, setsid, Pid},
};
use rzram_init::{Boot, PORT_ERR, PORT_OUT, WORK_DIR};
use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Read, Write},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

nix::ioctl_write_int_bad!(set_controlling_terminal, nix::libc::TIOCSCTTY);
nix::ioctl_write_ptr_bad!(set_window_size, nix::libc::TIOCSWINSZ, nix::libc::winsize);

/// Runs the command of this boot and returns its status.
pub fn run(boot: &Boot) -> Result<i32> {
    // Blocked before the child exists, so that its end cannot be missed; the child gets the usual mask back.
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    children.thread_block()?;
    let signals = SignalFd::with_flags(&children, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let (command, streams) = prepare(boot)?;
    match spawn(command) {
        Ok(child) => pump(child, &signals, streams),
        Err(error) => {
            let mut err = streams.into_iter().next_back();
            if let Some((_, to)) = err.as_mut() {
                let _ = writeln!(to, "vm: cannot run {}: {error}", boot.argv[0]);
            }
            Ok(if error.kind() == ErrorKind::NotFound {
                127
            } else {
                126
            })
        }
    }
}

/// A pipe from the command and the port that its content goes to.
type Stream = (File, File);

fn prepare(boot: &Boot) -> Result<(Command, Vec<Stream>)> {
    let (program, args) = boot.argv.split_first().context("there is no command")?;
    let mut command = Command::new(program);
    command
        .args(args)
        .current_dir(WORK_DIR)
        .env_clear()
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/rzram",
        )
        .env("HOME", "/root")
        .env("LANG", "C.UTF-8")
        .env("TERM", "dumb")
        .envs(boot.env.iter().map(|(name, value)| (name, value)));
    let Some((rows, columns)) = boot.terminal else {
        let (out_read, out_write) = pipe()?;
        let (err_read, err_write) = pipe()?;
        command
            .stdin(Stdio::null())
            .stdout(out_write)
            .stderr(err_write);
        let streams = vec![
            (end(out_read)?, port(boot.machine, PORT_OUT)?),
            (end(err_read)?, port(boot.machine, PORT_ERR)?),
        ];
        return Ok((command, streams));
    };
    let terminal = OpenOptions::new()
        .read(true)
        .write(true)
        .open(boot.machine.terminal())
        .context("no terminal")?;
    let size = nix::libc::winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the descriptor is open and the structure outlives the call.
    unsafe { set_window_size(terminal.as_raw_fd(), &size) }?;
    command
        .stdin(terminal.try_clone()?)
        .stdout(terminal.try_clone()?)
        .stderr(terminal);
    // SAFETY: between fork and exec only system calls are made.
    unsafe {
        command.pre_exec(|| {
            setsid()?;
            set_controlling_terminal(0, 0)?;
            Ok(())
        });
    }
    Ok((command, Vec::new()))
}

/// The reading end, set to return at once where there is nothing to read.
fn end(read: OwnedFd) -> Result<File> {
    fcntl(&read, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    fcntl(&read, FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC))?;
    Ok(File::from(read))
}

fn spawn(mut command: Command) -> std::io::Result<Pid> {
    // SAFETY: between fork and exec only a system call is made.
    unsafe {
        command.pre_exec(|| Ok(SigSet::empty().thread_set_mask()?));
    }
    // The child is reaped below, together with orphans; dropping `command` closes our writing ends.
    let child = command.spawn()?;
    Ok(Pid::from_raw(
        i32::try_from(child.id()).map_err(std::io::Error::other)?,
    ))
}

/// Carries output until the command has ended and its output is read up.
fn pump(child: Pid, signals: &SignalFd, mut streams: Vec<Stream>) -> Result<i32> {
    loop {
        let mut waiting = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        waiting.extend(
            streams
                .iter()
                .map(|(from, _)| PollFd::new(from.as_fd(), PollFlags::POLLIN)),
        );
        match poll(&mut waiting, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        while signals.read_signal()?.is_some() {}
        let status = reap(child)?; // before the last reading, so that nothing written earlier is lost
        let mut open = Vec::new();
        for mut stream in streams {
            if carry(&mut stream)? {
                open.push(stream);
            }
        }
        streams = open;
        if let Some(code) = status {
            // Dropping a port waits until it has sent everything.
            return Ok(code);
        }
    }
}

/// Reads up what the pipe holds now; false when its writers are gone.
fn carry((from, to): &mut Stream) -> Result<bool> {
    let mut buffer = [0; 65536];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(length) => to.write_all(&buffer[..length])?,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reaps whoever has ended; returns the command's status when it is among them.
fn reap(child: Pid) -> Result<Option<i32>> {
    let mut code = None;
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, status)) if pid == child => code = Some(status),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => {
                code = Some(128 + signal as i32)
            }
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(code),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
