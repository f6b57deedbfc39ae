// SPDX-License-Identifier: GPL-2.0

//! `compat=1`: rzram under zram's names.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use rzram_guest::buf::Mapping;
use rzram_guest::kernel::Log;
use rzram_guest::module::{module_file, Module};
use rzram_guest::pattern::{self, Kind};
use rzram_guest::run::{run, run_failing};
use rzram_guest::target::target;
use rzram_guest::{attr, blk, same, PAGE};

use rzram_guest::post::page;

const BLOCK_STATE: &str = "/sys/kernel/debug/zram/zram0/block_state";

/// Whether /proc/modules lists a module.
pub fn is_loaded(name: &str) -> Result<bool> {
    let text = fs::read_to_string("/proc/modules").context("reading /proc/modules")?;
    Ok(text
        .lines()
        .any(|line| line.split(' ').next() == Some(name)))
}

/// An attribute of a disk of zram's name.
pub fn sys(id: u32, attribute: &str) -> PathBuf {
    PathBuf::from(format!("/sys/block/zram{id}/{attribute}"))
}

/// How many users the kernel counts of rzram.
fn users() -> Result<u32> {
    let text = fs::read_to_string("/sys/module/rzram/refcnt").context("is rzram loaded?")?;
    Ok(text.trim().parse()?)
}

/// Fails unless it is rzram, and not the kernel's own zram, that is behind `/dev/zramN`: opening
/// the node takes hold of that module.
pub fn owned_by_rzram(id: u32) -> Result<()> {
    ensure!(is_loaded("rzram")?, "rzram is not loaded");
    ensure!(!is_loaded("zram")?, "zram is loaded");
    ensure!(!Path::new("/sys/module/zram").exists(), "zram is loaded");
    let before = users()?;
    let node = fs::File::open(format!("/dev/zram{id}"))
        .with_context(|| format!("opening /dev/zram{id}"))?;
    same("users of rzram with the node open", before + 1, users()?)?;
    drop(node);
    same("users of rzram", before, users()?)
}

/// Loads rzram under zram's names, runs `body` and unloads it.
pub fn with_compat(parameters: &str, body: impl FnOnce() -> Result<()>) -> Result<()> {
    if target().is_c_zram() {
        return Ok(());
    }
    let module = Module::load(&format!("compat=1 {parameters}"))?;
    ensure!(!is_loaded("zram")?, "zram is loaded");
    let result = body();
    if result.is_err() {
        // The guard looks for disks of rzram's name only.
        for id in 0..4 {
            let _ = run("swapoff", &[&format!("/dev/zram{id}")]);
            let _ = run("umount", &[&format!("/dev/zram{id}")]);
        }
    }
    result?;
    module.unload()?;
    ensure!(
        !Path::new("/sys/class/zram-control").exists(),
        "the class is left"
    );
    ensure!(!Path::new("/dev/zram0").exists(), "a node is left");
    Ok(())
}

#[test]
fn all_names_are_those_of_zram() -> Result<()> {
    with_compat("num_devices=2", || {
        owned_by_rzram(0)?;
        owned_by_rzram(1)?;
        for path in [
            "/sys/class/zram-control/hot_add",
            "/sys/class/zram-control/hot_remove",
            "/sys/devices/virtual/block/zram0",
            "/sys/block/zram1/mm_stat",
            BLOCK_STATE,
        ] {
            ensure!(Path::new(path).exists(), "{path} is not there");
        }
        for path in [
            "/sys/class/rzram-control",
            "/sys/block/rzram0",
            "/dev/rzram0",
        ] {
            ensure!(!Path::new(path).exists(), "{path} is there");
        }
        let devices = fs::read_to_string("/proc/devices")?;
        let major = devices
            .lines()
            .find_map(|line| line.trim().strip_suffix(" zram"))
            .context("/proc/devices has no zram")?;
        let device = attr::read(&sys(0, "dev")).context("dev")?;
        same("the number of zram0", format!("{major}:0\n"), device)?;
        same(
            "hot_add's mode",
            0o400,
            attr::mode(Path::new("/sys/class/zram-control/hot_add"))?,
        )?;
        same(
            "hot_remove's mode",
            0o200,
            attr::mode(Path::new("/sys/class/zram-control/hot_remove"))?,
        )
    })
}

#[test]
fn the_log_says_what_people_look_for() -> Result<()> {
    if target().is_c_zram() {
        return Ok(());
    }
    let mut log = Log::follow()?;
    with_compat("", || {
        log.expect("Added device: zram0")?;
        attr::set(&sys(0, "disksize"), "8M")?;
        log.expect("zram0: detected capacity change from 0 to 16384")?;
        attr::refused(&sys(0, "disksize"), b"1M", &[Errno::EBUSY])?;
        log.expect("Cannot change disksize for initialized device")?;
        attr::set(&sys(0, "reset"), "1")?;
        attr::set(Path::new("/sys/class/zram-control/hot_remove"), "0")?;
        log.expect("Removed device: zram0")
    })
}

#[test]
fn disks_come_go_and_keep_data() -> Result<()> {
    with_compat("num_devices=0", || {
        let hot_add = Path::new("/sys/class/zram-control/hot_add");
        let hot_remove = Path::new("/sys/class/zram-control/hot_remove");
        for id in 0..3 {
            same("hot_add", Ok(format!("{id}\n")), attr::read(hot_add))?;
            owned_by_rzram(id)?;
        }
        attr::set(&sys(1, "comp_algorithm"), "zstd")?;
        attr::set(&sys(1, "max_comp_streams"), "4")?;
        same(
            "streams",
            Ok("4\n".into()),
            attr::read(&sys(1, "max_comp_streams")),
        )?;
        attr::set(&sys(1, "disksize"), "4M")?;
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/zram1")?;
        let mut data = vec![0; 256 * PAGE];
        pattern::fill_all(1, 0, &mut data);
        blk::write(&file, &data, 0)?;
        file.sync_all()?;
        rzram_guest::kernel::drop_caches()?;
        let mut back = Mapping::new(data.len())?;
        blk::read(&file, &mut back, 0)?;
        blk::equal("zram1", &data, &back)?;
        attr::refused(hot_remove, b"1", &[Errno::EBUSY])?;
        drop(file);
        for id in ["0", "1", "2"] {
            attr::set(hot_remove, id)?;
        }
        attr::refused(hot_remove, b"0", &[Errno::ENODEV])
    })
}

#[test]
fn access_times_are_always_there() -> Result<()> {
    with_compat("", || {
        attr::set(&sys(0, "disksize"), "1M")?;
        let file = fs::OpenOptions::new().write(true).open("/dev/zram0")?;
        blk::write(&file, &page(Kind::Text, 1), 0)?;
        file.sync_all()?;
        let text = rzram_guest::post::read_in_pieces(Path::new(BLOCK_STATE), 1 << 16)?;
        let line = text.lines().next().context("no block")?;
        ensure!(!line.contains(" 0.000000 "), "no access time: {line:?}");
        attr::set(&sys(0, "idle"), "1000000")?;
        attr::set(&sys(0, "idle"), "1")
    })
}

#[test]
fn beside_zram_itself_it_does_not_load_and_says_why() -> Result<()> {
    if target().is_c_zram() {
        return Ok(());
    }
    run("modprobe", &["zram"])?;
    let mut log = Log::follow()?;
    let text = run_failing("insmod", &[&module_file(), "compat=1"]);
    let lines = log.lines();
    let names = fs::read_to_string("/proc/devices")?;
    // Under its own names it does.
    let side_by_side = run("insmod", &[&module_file()]).and_then(|_| run("rmmod", &["rzram"]));
    run("rmmod", &["zram"])?;
    let text = text?;
    ensure!(text.contains("busy"), "insmod says {text:?}");
    ensure!(
        lines
            .iter()
            .any(|line| line.contains("rzram: the class zram-control is taken")),
        "the log says {lines:?}"
    );
    let majors = names.lines().filter(|l| l.ends_with(" zram")).count();
    same("majors of that name", 1, majors)?;
    side_by_side?;
    // And once zram is gone, under zram's.
    with_compat("", || owned_by_rzram(0))
}
