// SPDX-License-Identifier: GPL-2.0
// vm: --kernel debug --mem 640M --cpus 2

//! Lockdep knows of the locks of slots, though it cannot see them. What it makes of them fails the guest of whichever test
//! brings it about.

use anyhow::{ensure, Context, Result};
use rzram_guest::disk::Disk;
use rzram_guest::kernel::drop_caches;
use rzram_guest::module::with_module;
use rzram_guest::pattern::Kind;
use rzram_guest::post::{bd, pages, set_up_backed, Blocks};
use rzram_guest::same;

/// How many sets of slots lockdep knows of.
fn classes() -> Result<usize> {
    let text = std::fs::read_to_string("/proc/lockdep").context("the kernel has no lockdep")?;
    // From the second on they have a number behind the name.
    Ok(text.lines().filter(|l| l.contains(": rzram_slot")).count())
}

/// Fails if lockdep has given up.
fn is_watching() -> Result<()> {
    let text = std::fs::read_to_string("/proc/lockdep_stats")?;
    let line = text.lines().find(|l| l.contains("debug_locks"));
    let line = line.context("/proc/lockdep_stats has no debug_locks")?;
    ensure!(line.trim_end().ends_with(" 1"), "lockdep says {line:?}");
    Ok(())
}

#[test]
fn each_disk_has_a_class_of_slots_while_it_is_set_up() -> Result<()> {
    with_module("num_devices=2", || {
        for id in 0..2 {
            let disk = Disk::new(id);
            same("classes", id as usize, classes()?)?;
            disk.set("disksize", "16M")?;
            let mut blocks = Blocks::of(&disk)?;
            let content = pages(Kind::Text, u64::from(id), 8);
            blocks.write_all(&content)?;
            blocks.hold_all(&content)?;
            same("classes", id as usize + 1, classes()?)?;
        }
        Disk::new(0).reset()?;
        same("classes after one reset", 1, classes()?)?;
        Disk::new(1).reset()?;
        same("classes after both", 0, classes()?)?;
        is_watching()
    })
}

#[test]
fn a_disk_may_keep_its_blocks_on_another() -> Result<()> {
    with_module("num_devices=2", || {
        let (below, above) = (Disk::new(0), Disk::new(1));
        below.set_up("lz4", "16M")?;
        set_up_backed(&above, &below.node(), "lz4", "16M")?;
        let mut blocks = Blocks::of(&above)?;
        let content = pages(Kind::Text, 7, 64);
        blocks.write_all(&content)?;
        above.set("writeback", "type=huge")?;
        above.set("writeback", "page_indexes=0-63")?;
        same("blocks below", 64, bd(&above)?.count)?;
        drop_caches()?;
        // Each is read from the disk below with the lock of a slot above held.
        blocks.hold_all(&content)?;
        same("sets of slots", 2, classes()?)?;
        drop(blocks);
        above.reset()?;
        below.reset()?;
        is_watching()
    })
}
