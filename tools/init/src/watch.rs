// SPDX-License-Identifier: GPL-2.0
//! What the debug kernel has seen by the end of a command: memory that nobody knows of any more, and whether it was still
//! watching at all.

use anyhow::{bail, Context, Result};
use nix::{
    errno::Errno,
    kmod::{delete_module, DeleteModuleFlags},
    unistd::sync,
};
use rzram_init::{leaks, stray_pages, Leak};
use std::{
    ffi::CStr,
    fs,
    thread::sleep,
    time::{Duration, Instant},
};

const KMEMLEAK: &str = "/sys/kernel/debug/kmemleak";
const PAGE_OWNERS: &str = "/sys/kernel/debug/page_owner_stacks/show_stacks";

/// Younger objects are not reported.
const MIN_AGE: Duration = Duration::from_secs(6);

/// Unloads rzram and looks for what it, or anything else, has left behind. Returns what is wrong, a line each.
pub fn look(log: impl Fn(&str)) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let locks = fs::read_to_string("/proc/lockdep_stats").context("the kernel has no lockdep")?;
    if let Some(line) = locks.lines().find(|line| line.contains("debug_locks")) {
        if !line.trim_end().ends_with(" 1") {
            wrong.push("lockdep has switched itself off".to_owned());
        }
    }
    if let Err(error) = unload() {
        wrong.push(format!(
            "the command has left rzram in use ({error}), so what it would leak cannot be told"
        ));
    }
    let found = scan()?;
    if !found.is_empty() {
        for line in found.iter().flat_map(|leak| leak.text.lines()) {
            log(line);
        }
        let count = found.len();
        wrong.push(format!(
            "kmemleak reports {count} leaked objects, see above"
        ));
    }
    let owners =
        fs::read_to_string(PAGE_OWNERS).context("the kernel does not note who has pages")?;
    let stray = stray_pages(&owners);
    if !stray.is_empty() {
        for line in stray.iter().flat_map(|stack| stack.lines()) {
            log(line);
        }
        let count = stray.len();
        wrong.push(format!(
            "{count} places in a module have leaked pages, see above"
        ));
    }
    Ok(wrong)
}

/// The modules that are ours, those that use others first.
const MODULES: [&CStr; 2] = [c"rzram", c"rzram_lz4hc"];

fn unload() -> nix::Result<()> {
    let start = Instant::now();
    for module in MODULES {
        loop {
            match delete_module(module, DeleteModuleFlags::O_NONBLOCK) {
                // A reference may be let go of late, by a worker.
                Err(Errno::EAGAIN | Errno::EBUSY) if start.elapsed() < MIN_AGE => {
                    sleep(Duration::from_millis(100))
                }
                Ok(()) | Err(Errno::ENOENT) => break,
                result => return result,
            }
        }
    }
    Ok(())
}

/// What kmemleak makes of the memory now.
fn scan() -> Result<Vec<Leak>> {
    sync();
    sleep(MIN_AGE);
    // An object counts when two scans running find no pointer to it and its content has not changed between them. A third
    // look later sorts out those whose pointer was on its way from one place to another.
    let mut found = Vec::new();
    for pause in [Duration::from_secs(1), MIN_AGE] {
        for _ in 0..2 {
            match fs::write(KMEMLEAK, "scan") {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(Errno::EPERM as i32) => {
                    bail!("kmemleak has switched itself off, see the kernel log")
                }
                Err(error) => return Err(error).context("kmemleak does not scan"),
            }
            sleep(pause);
        }
        found = leaks(&fs::read_to_string(KMEMLEAK)?);
        if found.is_empty() {
            break;
        }
    }
    Ok(found)
}
