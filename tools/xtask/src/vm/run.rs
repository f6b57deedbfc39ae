// SPDX-License-Identifier: GPL-2.0
//! One guest from power-on to its end: carries its output, watches its kernel, decides how it ended.

use super::{accel::Accel, boot, klog::Log, machine::Machine, Platform, Spec};
use anyhow::{bail, Result};
use nix::{
    errno::Errno,
    poll::{poll, PollFd, PollFlags, PollTimeout},
};
use rzram_init::{end_mark, start_mark};
use std::{
    io::{ErrorKind, Read, Write},
    os::fd::AsFd,
    time::{Duration, Instant},
};

/// How long a kernel in trouble may go on, to say what it has to say.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// How long a guest may take to start the command. An emulated one sometimes hangs or stumbles in the kernel's bring-up of
/// its CPUs when the host is busy, before anything of ours runs.
const BOOT_TIME: Duration = Duration::from_secs(90);

/// How many lines to show of a boot that went wrong.
const BOOT_LINES: usize = 60;

/// How often a guest that does not come up is started.
const BOOTS: usize = 3;

/// Takes the command's output.
pub trait Sink {
    /// From its standard output.
    fn out(&mut self, data: &[u8]) -> Result<()>;
    /// From its standard error.
    fn err(&mut self, data: &[u8]) -> Result<()>;
}

/// How a guest ended.
#[derive(Debug)]
pub struct Ending {
    /// What the command returned, as a shell says it.
    pub status: i32,
    /// What was wrong with the guest itself; the status means nothing then.
    pub failure: Option<String>,
    /// The kernel's log from power-on.
    pub log: String,
    mark: String,
}

impl Ending {
    /// The kernel's log from the start of the command; where the guest did not get so far the end of it, with what failed.
    pub fn log_since_start(&self) -> &str {
        if let Some(at) = self.log.find(&self.mark) {
            return self.log[at..].split_once('\n').map_or("", |(_, rest)| rest);
        }
        let lines_before = |end: usize, count| {
            let mut ends = self.log[..end].rmatch_indices('\n');
            ends.nth(count).map_or(0, |(at, _)| at + 1)
        };
        let trouble = self.failure.as_deref().and_then(|why| self.log.find(why));
        let start = trouble.map_or(self.log.len(), |at| lines_before(at, 5));
        &self.log[start.min(lines_before(self.log.len(), BOOT_LINES))..]
    }
}

/// What init said.
enum Message {
    Status(i32),
    Failed(String),
}

struct Guest<'a> {
    machine: Machine,
    log: Log,
    ctl: Vec<u8>,
    nonce: String,
    klog: bool,
    last_words: Duration,
    sink: &'a mut dyn Sink,
}

/// Boots a guest and stays with it to the end.
pub fn run(platform: &Platform, accel: Accel, spec: &Spec, sink: &mut dyn Sink) -> Result<Ending> {
    let boot_time = BOOT_TIME * platform.patience();
    for _ in 1..BOOTS {
        match attempt(platform, accel, spec, sink, Some(boot_time))? {
            Attempt::Ended(ending) => return Ok(ending),
            Attempt::NotUp(why) => {
                eprintln!("vm: the guest did not come up: {why}; starting it again")
            }
        }
    }
    match attempt(platform, accel, spec, sink, None)? {
        Attempt::Ended(ending) => Ok(ending),
        Attempt::NotUp(why) => bail!("the guest did not come up: {why}"),
    }
}

/// What became of one boot.
enum Attempt<T> {
    /// Something that counts.
    Ended(T),
    /// The command was not started, for this reason; only where a time was set for the boot.
    NotUp(String),
}

/// One boot. With a `boot_time` a guest that is in trouble before its command starts, or does not start it by then, is
/// not up.
fn attempt(
    platform: &Platform,
    accel: Accel,
    spec: &Spec,
    sink: &mut dyn Sink,
    boot_time: Option<Duration>,
) -> Result<Attempt<Ending>> {
    let nonce = boot::nonce()?;
    let initrd = boot::initrd(platform, spec, &nonce)?;
    let mut guest = Guest {
        machine: platform.start(accel, spec, initrd)?,
        log: Log::default(),
        ctl: Vec::new(),
        nonce,
        klog: spec.klog,
        last_words: LAST_WORDS * platform.patience(),
        sink,
    };
    let outcome = match guest.watch(spec.timeout, boot_time)? {
        Attempt::Ended(outcome) => outcome,
        Attempt::NotUp(why) => return Ok(Attempt::NotUp(why)),
    };
    guest.carry()?;
    let (status, failure) = match outcome {
        Ok(status) => (status, None),
        Err(why) => (0, Some(why)),
    };
    let Guest { log, nonce, .. } = guest;
    Ok(Attempt::Ended(Ending {
        status,
        failure,
        log: log.into_text(),
        mark: start_mark(&nonce),
    }))
}

impl Guest<'_> {
    /// Returns the command's status, or why the guest failed.
    fn watch(
        &mut self,
        timeout: Option<Duration>,
        boot_time: Option<Duration>,
    ) -> Result<Attempt<Result<i32, String>>> {
        let start = Instant::now();
        let mark = start_mark(&self.nonce);
        let mut started = false;
        let mut troubled: Option<Instant> = None;
        loop {
            self.wait(Duration::from_millis(200))?;
            let ended = self.machine.child.try_wait()?;
            self.carry()?; // after the look at the machine, so that its last words are not lost
            started = started || self.log.has(&mark);
            if let Some(trouble) = self.log.trouble() {
                if !started && boot_time.is_some() {
                    return Ok(Attempt::NotUp(trouble.to_owned()));
                }
                let since = *troubled.get_or_insert_with(Instant::now);
                if ended.is_some() || since.elapsed() > self.last_words {
                    return Ok(Attempt::Ended(Err(trouble.to_owned())));
                }
                continue;
            }
            match self.message() {
                Some(Message::Status(status)) => return self.finish(status).map(Attempt::Ended),
                Some(Message::Failed(why)) => return Ok(Attempt::Ended(Err(why))),
                None => {}
            }
            if let Some(status) = ended {
                return Ok(Attempt::Ended(Err(format!(
                    "the machine ended before the command did ({status})"
                ))));
            }
            if timeout.is_some_and(|limit| start.elapsed() > limit) {
                let limit = timeout.unwrap_or_default().as_secs();
                return Ok(Attempt::Ended(Err(format!(
                    "it was still running after {limit} s (hung, or --timeout is too short)"
                ))));
            }
            if let Some(limit) = boot_time.filter(|limit| !started && start.elapsed() > *limit) {
                let limit = limit.as_secs();
                return Ok(Attempt::NotUp(format!("nothing for {limit} s")));
            }
        }
    }

    /// The command is done; what its last doings brought about in the kernel still counts.
    fn finish(&mut self, status: i32) -> Result<Result<i32, String>> {
        let mark = end_mark(&self.nonce);
        let start = Instant::now();
        while !self.log.has(&mark) && start.elapsed() < self.last_words {
            self.wait(Duration::from_millis(50))?;
            self.carry()?;
            if self.machine.child.try_wait()?.is_some() {
                break;
            }
        }
        self.carry()?;
        Ok(match self.log.trouble() {
            Some(trouble) => Err(trouble.to_owned()),
            None => Ok(status),
        })
    }

    /// Sleeps until there is something to read.
    fn wait(&self, limit: Duration) -> Result<()> {
        let machine = &self.machine;
        let mut ready = [
            machine.console.as_fd(),
            machine.out.as_fd(),
            machine.err.as_fd(),
            machine.ctl.as_fd(),
        ]
        .map(|stream| PollFd::new(stream, PollFlags::POLLIN));
        let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::ZERO);
        match poll(&mut ready, limit) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => bail!(error),
        }
        // A machine that is gone leaves sockets that are always ready; it is noticed by the caller, so do not spin until then.
        if ready.iter().any(|fd| {
            fd.revents()
                .is_some_and(|events| events.contains(PollFlags::POLLHUP))
        }) {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Reads all that has come.
    fn carry(&mut self) -> Result<()> {
        let (log, klog) = (&mut self.log, self.klog);
        drain(&mut self.machine.console, |data| {
            log.add(data);
            if klog {
                std::io::stderr().write_all(data)?;
            }
            Ok(())
        })?;
        let ctl = &mut self.ctl;
        drain(&mut self.machine.ctl, |data| {
            ctl.extend_from_slice(data);
            Ok(())
        })?;
        // After the control port: init speaks there only when it has passed on everything else.
        let sink = &mut *self.sink;
        drain(&mut self.machine.out, |data| sink.out(data))?;
        drain(&mut self.machine.err, |data| sink.err(data))
    }

    /// The first complete line on the control port that has our nonce.
    fn message(&self) -> Option<Message> {
        let text = String::from_utf8_lossy(&self.ctl);
        let complete = &text[..text.rfind('\n')?];
        complete.lines().find_map(|line| {
            let mut words = line.splitn(3, ' ');
            let (kind, nonce, rest) = (words.next()?, words.next()?, words.next()?);
            match kind {
                _ if nonce != self.nonce => None,
                "status" => rest.parse().ok().map(Message::Status),
                "failed" => Some(Message::Failed(rest.to_owned())),
                _ => None,
            }
        })
    }
}

fn drain(stream: &mut impl Read, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut buffer = [0; 65536];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => take(&buffer[..length])?,
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::ConnectionReset
                ) =>
            {
                return Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(log: &str, why: &str) -> Ending {
        Ending {
            status: 0,
            failure: Some(why.to_owned()),
            log: log.to_owned(),
            mark: start_mark("nonce"),
        }
    }

    #[test]
    fn the_log_shows_what_failed() {
        let lines: Vec<String> = (0..300).map(|n| format!("line {n}\n")).collect();
        let boot = lines.concat();
        let started = format!("{boot}{}\nafter\n", start_mark("nonce"));
        assert_eq!(ending(&started, "no").log_since_start(), "after\n");
        let end = ending(&boot, "no such line");
        assert!(end.log_since_start().starts_with("line 240\n"));
        let early = ending(&boot, "line 77");
        assert!(early.log_since_start().starts_with("line 72\n"));
        assert!(early.log_since_start().ends_with("line 299\n"));
        assert!(ending(&boot, "line 299")
            .log_since_start()
            .starts_with("line 240\n"));
        assert!(ending("line 1\n", "line 1")
            .log_since_start()
            .starts_with("line 1"));
    }
}
