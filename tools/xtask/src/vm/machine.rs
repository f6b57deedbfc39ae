// SPDX-License-Identifier: GPL-2.0
//! A machine that runs, and the channels between it and this process.

use anyhow::Result;
use nix::{
    fcntl::{fcntl, FcntlArg, FdFlag, OFlag},
    sys::{
        prctl::set_pdeathsig,
        signal::Signal,
        socket::{socketpair, AddressFamily, SockFlag, SockType},
    },
    unistd::pipe2,
};
use std::{
    fs::File,
    os::fd::OwnedFd,
    os::unix::{net::UnixStream, process::CommandExt},
    process::{Child, Command},
};

/// Bytes of kernel log that may be on their way; the most that an ordinary user may ask for.
const CONSOLE_SIZE: i32 = 1 << 20;

/// A running machine with this process's ends of its channels.
pub struct Machine {
    /// The process.
    pub child: Child,
    /// The kernel's console.
    pub console: File,
    /// The command's standard output.
    pub out: UnixStream,
    /// The command's standard error.
    pub err: UnixStream,
    /// Init's messages.
    pub ctl: UnixStream,
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Already gone is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A channel: our end, and the machine's.
pub fn channel() -> Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = socketpair(
        AddressFamily::Unix,
        SockType::Stream,
        None,
        SockFlag::SOCK_CLOEXEC,
    )?;
    let ours = UnixStream::from(ours);
    ours.set_nonblocking(true)?;
    Ok((ours, theirs))
}

/// A pipe for the console: machines write byte by byte and drop what does not fit at once, so it is a large one.
pub fn console() -> Result<(File, OwnedFd)> {
    let (ours, theirs) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    fcntl(&ours, FcntlArg::F_SETPIPE_SZ(CONSOLE_SIZE))?;
    Ok((File::from(ours), theirs))
}

/// Starts a machine's program, which is handed these descriptors and ends with this process.
pub fn spawn(mut command: Command, inherited: Vec<OwnedFd>) -> std::io::Result<Child> {
    // SAFETY: between fork and exec only system calls are made; `inherited` is moved in, so the descriptors are open.
    unsafe {
        command.pre_exec(move || {
            set_pdeathsig(Signal::SIGKILL)?; // no guest outlives us, whatever ends us
            for fd in &inherited {
                fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty()))?;
            }
            Ok(())
        });
    }
    command.spawn()
}
