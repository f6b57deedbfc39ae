// SPDX-License-Identifier: GPL-2.0

//! `backing_dev`: what it may be, what it shows, and when it is let go of.

use std::os::unix::fs::OpenOptionsExt;

use anyhow::{ensure, Result};
use nix::errno::Errno;
use rzram_guest::disk::Disk;
use rzram_guest::kernel::Log;
use rzram_guest::module::{scratch, with_module};
use rzram_guest::pattern::Kind;
use rzram_guest::run::run;
use rzram_guest::target::target;
use rzram_guest::{same, MIB};

use rzram_guest::post::{bd, file, pages, Blocks, Ram};

/// Opens a block device as nobody else may have it.
fn alone(node: &str) -> nix::Result<()> {
    let options = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_EXCL)
        .open(node);
    options
        .map(drop)
        .map_err(|e| Errno::from_raw(e.raw_os_error().unwrap_or(0)))
}

#[test]
fn a_block_device_is_shown_held_and_let_go_by_reset() -> Result<()> {
    let _ram = Ram::new(1024)?;
    with_module("", || {
        let disk = Disk::new(0);
        disk.shows("backing_dev", "none\n")?;
        let mut log = Log::follow()?;
        disk.set("backing_dev", "/dev/ram0\n")?;
        log.expect("setup backing device /dev/ram0")?;
        disk.shows("backing_dev", "/dev/ram0\n")?;
        same("opening it", Err(Errno::EBUSY), alone(Ram::NODE))?;
        // By another name.
        disk.reset()?;
        disk.shows("backing_dev", "none\n")?;
        same("opening it", Ok(()), alone(Ram::NODE))?;
        std::os::unix::fs::symlink(Ram::NODE, scratch("files")?.join("link"))?;
        disk.set("backing_dev", "/tmp/rzram-files/link")?;
        disk.shows("backing_dev", "/dev/ram0\n")?;
        std::fs::remove_file("/tmp/rzram-files/link")?;
        disk.set("disksize", "1M")?;
        let mut log = Log::follow()?;
        disk.refuses("backing_dev", "/dev/ram0", Errno::EBUSY)?;
        disk.refuses("backing_dev", "/nonexistent", Errno::EBUSY)?;
        log.expect("Can't setup backing device for initialized device")?;
        disk.shows("backing_dev", "/dev/ram0\n")?;
        disk.reset()?;
        disk.shows("backing_dev", "none\n")?;
        same("opening it", Ok(()), alone(Ram::NODE))?;
        // Removing the module lets go of it as well.
        disk.set("backing_dev", "/dev/ram0")?;
        disk.set("disksize", "1M")
    })?;
    same("opening it", Ok(()), alone(Ram::NODE))
}

#[test]
fn a_regular_file_belongs_to_one_disk() -> Result<()> {
    if target().is_c_zram() {
        return Ok(()); // it takes none
    }
    let first = file("mine", &[0; 64 << 10])?;
    let link = format!("{first}-link");
    std::fs::hard_link(&first, &link)?;
    with_module("num_devices=2", || {
        let (one, two) = (Disk::new(0), Disk::new(1));
        one.set("backing_dev", &first)?;
        for path in [&first, &link] {
            two.refuses("backing_dev", path, Errno::EBUSY)?;
            // As a block device would.
            one.refuses("backing_dev", path, Errno::EBUSY)?;
        }
        one.shows("backing_dev", &format!("{first}\n"))?;
        two.shows("backing_dev", "none\n")?;
        // Another one instead, a reset and a removal let go of it.
        one.set("backing_dev", &file("other", &[0; 64 << 10])?)?;
        two.set("backing_dev", &link)?;
        two.reset()?;
        one.set("backing_dev", &first)?;
        run(
            "sh",
            &[
                "-c",
                &format!("echo 0 > {}", target().control("hot_remove").display()),
            ],
        )?;
        two.set("backing_dev", &first)?;
        two.set("disksize", "1M")
    })?;
    with_module("", || Disk::new(0).set("backing_dev", &first))?;
    std::fs::remove_file(link)?;
    Ok(())
}

#[test]
fn what_cannot_be_one_is_refused_and_the_earlier_one_stays() -> Result<()> {
    let _ram = Ram::new(1024)?;
    let small = file("small", &[1; 4095])?;
    with_module("num_devices=2", || {
        let disk = Disk::new(0);
        for earlier in [None, Some(Ram::NODE)] {
            if let Some(earlier) = earlier {
                disk.set("backing_dev", earlier)?;
            }
            for (path, errno) in [
                ("/nonexistent", Errno::ENOENT),
                ("/tmp", Errno::EISDIR),
                ("/dev/null", Errno::ENOTBLK),
                ("/tmp/rzram-files/small/x", Errno::ENOTDIR),
            ] {
                disk.refuses("backing_dev", path, errno)?;
            }
            if !target().is_c_zram() {
                disk.refuses("backing_dev", &small, Errno::EINVAL)?;
            }
            // A disk has no size before it is set up, so it cannot be its own.
            disk.refuses("backing_dev", &disk.node(), Errno::EINVAL)?;
            let shown = earlier.map_or("none\n".into(), |path| format!("{path}\n"));
            disk.shows("backing_dev", &shown)?;
        }
        disk.refuses("backing_dev", Ram::NODE, Errno::EBUSY)?;
        let other = Disk::new(1);
        other.refuses("backing_dev", Ram::NODE, Errno::EBUSY)?;
        other.shows("backing_dev", "none\n")?;
        disk.reset()?;
        other.set("backing_dev", Ram::NODE)?;
        other.reset()
    })
}

#[test]
fn a_mounted_device_is_busy_and_one_that_is_replaced_is_free() -> Result<()> {
    let _ram = Ram::new(4096)?;
    rzram_guest::kernel::load_ext4()?;
    run("mkfs.ext4", &["-q", "-O", "^has_journal", Ram::NODE])?;
    let mount = scratch("backing")?.display().to_string();
    run("mount", &[Ram::NODE, &mount])?;
    with_module("num_devices=2", || {
        let (disk, other) = (Disk::new(0), Disk::new(1));
        disk.refuses("backing_dev", Ram::NODE, Errno::EBUSY)?;
        run("umount", &[&mount])?;
        disk.set("backing_dev", Ram::NODE)?;
        // Another disk, set up, is a block device as well.
        other.set("disksize", "1M")?;
        disk.set("backing_dev", &other.node())?;
        disk.shows("backing_dev", &format!("{}\n", other.node()))?;
        same("opening the earlier one", Ok(()), alone(Ram::NODE))?;
        other.refuses("reset", "1", Errno::EBUSY)?;
        disk.set("disksize", "1M")?;
        let mut blocks = Blocks::of(&disk)?;
        let content = pages(Kind::Text, 1, 32);
        blocks.write_all(&content)?;
        disk.set("writeback", "page_indexes=0-31")?;
        same("blocks written back", 32, bd(&disk)?.count)?;
        ensure!(other.mm()?.orig >= 32 * 4096, "the other disk has nothing");
        blocks.hold_all(&content)?;
        drop(blocks);
        disk.reset()?;
        other.reset()
    })
}

#[test]
fn a_regular_file_serves_as_well_as_a_device() -> Result<()> {
    if target().is_c_zram() {
        return Ok(()); // it takes block devices only
    }
    let _ram = Ram::new(16 << 10)?;
    rzram_guest::kernel::load_ext4()?;
    run("mkfs.ext4", &["-q", Ram::NODE])?;
    let mount = scratch("backing")?.display().to_string();
    run("mount", &[Ram::NODE, &mount])?;
    // One file on a disk with space allocated, one with holes, and one in memory.
    let paths = [
        format!("{mount}/allocated"),
        format!("{mount}/holes"),
        "/tmp/rzram-files/store".to_owned(),
    ];
    scratch("files")?;
    std::fs::write(&paths[0], vec![0; MIB as usize])?;
    for path in &paths[1..] {
        std::fs::File::create(path)?.set_len(MIB)?;
    }
    with_module("", || {
        let disk = Disk::new(0);
        for path in &paths {
            disk.set("backing_dev", path)?;
            disk.shows("backing_dev", &format!("{path}\n"))?;
            disk.set("disksize", "4M")?;
            let mut blocks = Blocks::of(&disk)?;
            let mut content = pages(Kind::Text, 1, 100);
            content.extend(pages(Kind::Random, 2, 100));
            blocks.write_all(&content)?;
            disk.set("writeback", "page_indexes=0-199")?;
            same("blocks written back", 200, bd(&disk)?.count)?;
            rzram_guest::kernel::drop_caches()?;
            blocks.hold_all(&content)?;
            same("blocks read back", 200, bd(&disk)?.reads)?;
            // It is no larger than it was, so no more than that fits.
            let more = pages(Kind::Text, 3, 256);
            blocks.write_all(&more)?;
            disk.set("writeback", "page_indexes=0-255")?;
            blocks.write(300, &content[0])?;
            disk.refuses("writeback", "page_index=300", Errno::ENOSPC)?;
            blocks.hold_all(&more)?;
            drop(blocks);
            disk.reset()?;
            same("its size", MIB, std::fs::metadata(path)?.len())?;
        }
        run("umount", &[&mount]).map(drop)
    })
}
