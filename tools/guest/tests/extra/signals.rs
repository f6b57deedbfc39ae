// SPDX-License-Identifier: GPL-2.0

//! What takes long ends at a signal, between two blocks.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use nix::sys::pthread::{pthread_kill, pthread_self};
use nix::sys::signal::{sigaction, SaFlags, SigAction, SigHandler, SigSet, Signal};
use rzram_guest::disk::Disk;
use rzram_guest::module::with_module;
use rzram_guest::pattern::Kind;
use rzram_guest::target::target;

use rzram_guest::post::{bd, pages, set_up_backed, Blocks, Mapped, Ram};

extern "C" fn nothing(_: libc::c_int) {}

/// Writes `value` to an attribute in a thread that gets a signal once `begun`. Tells what came, and after how long.
fn interrupted(
    disk: &Disk,
    attribute: &str,
    value: &str,
    begun: impl Fn() -> Result<bool>,
) -> Result<(Result<(), Errno>, Duration)> {
    let action = SigAction::new(
        SigHandler::Handler(nothing),
        SaFlags::empty(), // without SA_RESTART, so that the error is seen
        SigSet::empty(),
    );
    // SAFETY: The handler does nothing.
    unsafe { sigaction(Signal::SIGUSR1, &action) }?;
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        let writer = scope.spawn(move || {
            let _ = sender.send(pthread_self());
            let start = Instant::now();
            (disk.put(attribute, value), start.elapsed())
        });
        let thread = receiver.recv()?;
        while !writer.is_finished() && !begun()? {
            thread::sleep(Duration::from_millis(5));
        }
        // An error tells that the thread has ended; then what it found tells more.
        let _ = pthread_kill(thread, Signal::SIGUSR1);
        writer.join().ok().context("the writing thread died")
    })
}

#[test]
fn writeback_ends_at_a_signal() -> Result<()> {
    if target().is_c_zram() {
        return Ok(()); // it writes all of them
    }
    let _ram = Ram::new(4096)?;
    // A third of a second for each write: more than half a minute for all, two at once.
    let slow = Mapped::new("slow", "0 8192 delay /dev/ram0 0 0 /dev/ram0 0 330")?;
    with_module("", || {
        let disk = Disk::new(0);
        set_up_backed(&disk, slow.node(), "lzo-rle", "1M")?;
        let content = pages(Kind::Random, 5, 256);
        let mut blocks = Blocks::of(&disk)?;
        blocks.write_all(&content)?;
        for batch in [2, 1] {
            disk.set("writeback_batch_size", &batch.to_string())?;
            let before = bd(&disk)?.count;
            let (came, took) = interrupted(&disk, "writeback", "type=huge", || {
                Ok(bd(&disk)?.count > before)
            })?;
            let moved = bd(&disk)?.count - before;
            println!("{batch} at once: {moved} blocks were moved, {came:?} after {took:?}");
            ensure!(came == Err(Errno::EINTR), "it came: {came:?}");
            ensure!((1..100).contains(&moved), "{moved} blocks were moved");
        }
        blocks.hold_all(&content)?;
        drop(blocks);
        disk.reset()
    })
}

#[test]
fn recompression_ends_at_a_signal() -> Result<()> {
    if target().is_c_zram() {
        return Ok(()); // Debian builds it without
    }
    with_module("", || {
        let disk = Disk::new(0);
        disk.set("comp_algorithm", "lz4")?;
        disk.set("recomp_algorithm", "algo=zstd priority=1")?;
        disk.set("algorithm_params", "priority=1 level=22")?;
        disk.set("disksize", "32M")?;
        let content = pages(Kind::Text, 6, 8192);
        let mut blocks = Blocks::of(&disk)?;
        blocks.write_all(&content)?;
        let before = disk.mm()?.compr;
        let (came, took) = interrupted(&disk, "recompress", "priority=1", || {
            Ok(disk.mm()?.compr < before)
        })?;
        let after = disk.mm()?.compr;
        println!("{came:?} after {took:?}; {before} bytes before, {after} after");
        ensure!(came == Err(Errno::EINTR), "it came: {came:?}");
        ensure!(after < before, "nothing was recompressed");
        blocks.hold_all(&content)?;
        drop(blocks);
        disk.reset()
    })
}
