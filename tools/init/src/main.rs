// SPDX-License-Identifier: GPL-2.0
//! The first process of a test guest: mounts what a userland needs, runs one command, and tells the host how it ended.

mod command;
mod mounts;
mod watch;

use anyhow::{Context, Result};
use nix::sys::termios::{cfmakeraw, tcgetattr, tcsetattr, SetArg};
use rzram_init::{
    end_mark, failure_line, start_mark, status_line, Boot, Machine, BOOT_FILE, PORT_CTL,
};
use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    thread::sleep,
    time::Duration,
};

fn main() {
    if std::process::id() != 1 {
        eprintln!("rzram-init: this is the first process of a guest; see tools/vm");
        std::process::exit(2);
    }
    match start() {
        Ok((boot, control)) => run(&boot, control),
        // Nobody to tell but the kernel log: the end of process 1 is a panic, which the host sees.
        Err(error) => kernel_log(&format!("rzram-init: failed: {error:#}")),
    }
}

fn start() -> Result<(Boot, File)> {
    mounts::basic()?;
    let boot = fs::read(BOOT_FILE).with_context(|| format!("cannot read {BOOT_FILE}"))?;
    let boot: Boot = serde_json::from_slice(&boot).context("the boot file is damaged")?;
    fs::remove_file(BOOT_FILE)?;
    let control = port(boot.machine, PORT_CTL)?;
    Ok((boot, control))
}

fn run(boot: &Boot, mut control: File) -> ! {
    kernel_log(&start_mark(&boot.nonce));
    let result = mounts::more(boot.machine, boot.share.as_deref()).and_then(|()| {
        settings(boot.patience);
        command::run(boot)
    });
    let result = result.and_then(|code| {
        let wrong = match boot.leaks {
            true => watch::look(|line| kernel_log(&format!("rzram-init: {line}")))?,
            false => Vec::new(),
        };
        anyhow::ensure!(wrong.is_empty(), "{}", wrong.join("; "));
        Ok(code)
    });
    kernel_log(&end_mark(&boot.nonce));
    let line = match result {
        Ok(code) => status_line(&boot.nonce, code),
        Err(error) => failure_line(&boot.nonce, &format!("{error:#}")),
    };
    // A host that cannot be told has gone away, and the guest with it.
    let _ = control.write_all(line.as_bytes());
    loop {
        sleep(Duration::from_secs(1)); // the host ends the guest
    }
}

/// Opens a port; the kernel makes the device nodes by itself, though not at once.
fn port(machine: Machine, number: u32) -> Result<File> {
    let path = machine.port(number);
    let mut tries = 0;
    let port = loop {
        match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => break file,
            Err(error) if tries == 500 => {
                return Err(error).with_context(|| format!("cannot open {path}"))
            }
            Err(_) => sleep(Duration::from_millis(10)),
        }
        tries += 1;
    };
    if machine == Machine::Uml {
        // As it is, without what is made of text for a terminal.
        let mut settings = tcgetattr(&port)?;
        cfmakeraw(&mut settings);
        tcsetattr(&port, SetArg::TCSANOW, &settings)?;
    }
    Ok(port)
}

/// From here on a warning, a hang or a stall ends the guest, as it would not on an ordinary machine.
fn settings(patience: u32) {
    let hung = 60 * patience;
    let lockup = (10 * patience).min(60); // a soft lockup takes twice as long; the watchdog takes no more
    let settings = [
        ("/proc/sys/kernel/panic_on_warn", 1),
        ("/proc/sys/kernel/hung_task_timeout_secs", hung),
        ("/proc/sys/kernel/hung_task_panic", 1),
        ("/proc/sys/kernel/panic_on_rcu_stall", 1),
        ("/proc/sys/kernel/watchdog_thresh", lockup),
        ("/proc/sys/kernel/printk_ratelimit", 0),
    ];
    for (file, value) in settings {
        // A kernel without the setting has nothing to set.
        let _ = fs::write(file, value.to_string());
    }
    let _ = fs::write("/proc/sys/kernel/hostname", "rzram");
}

fn kernel_log(text: &str) {
    if let Ok(mut log) = OpenOptions::new().write(true).open("/dev/kmsg") {
        let _ = log.write_all(format!("<5>{text}\n").as_bytes());
    }
}
