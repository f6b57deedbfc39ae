// SPDX-License-Identifier: GPL-2.0

//! Loading and unloading the module, with a guard that leaves a clean kernel behind even when a
//! test fails half-way.

use std::ffi::CString;
use std::fs;
use std::path::Path;

use anyhow::{bail, ensure, Context, Result};
use nix::errno::Errno;
use nix::kmod::{delete_module, DeleteModuleFlags};

use crate::disk::Disk;
use crate::run::run;
use crate::target::target;

/// The module, loaded. Dropping it without [`Module::unload`] tidies up as well as it can.
#[must_use]
pub struct Module {
    loaded: bool,
}

impl Module {
    /// Loads the module with parameters such as `num_devices=2`; `""` for none.
    pub fn load(parameters: &str) -> Result<Module> {
        ensure!(
            !is_loaded()?,
            "{} is loaded already; unload it first",
            target().name
        );
        let mut args: Vec<&str> = parameters.split_whitespace().collect();
        if target().is_c_zram() {
            args.insert(0, "zram");
            run("modprobe", &args)?;
        } else {
            let file = module_file();
            args.insert(0, &file);
            run("insmod", &args)?;
        }
        ensure!(
            is_loaded()?,
            "insmod succeeded, yet /proc/modules does not list {}",
            target().name
        );
        let module = Module { loaded: true };
        if let Some(algorithm) = target().imposed_algorithm() {
            for id in disk_ids()? {
                Disk::new(id).set("comp_algorithm", algorithm)?;
            }
        }
        Ok(module)
    }

    /// Unloads the module. Fails when it refuses or something of it stays behind.
    pub fn unload(mut self) -> Result<()> {
        try_unload().with_context(|| format!("{} does not unload", target().name))?;
        self.loaded = false;
        ensure!(
            !is_loaded()?,
            "/proc/modules lists {} after rmmod",
            target().name
        );
        let class = target().control("");
        ensure!(
            !class.exists(),
            "{} is still there after rmmod",
            class.display()
        );
        let left = disk_ids()?;
        ensure!(
            left.is_empty(),
            "disks {left:?} are still in /sys/block after rmmod"
        );
        Ok(())
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.loaded {
            tidy_up();
        }
    }
}

/// Loads the module, runs `body` and unloads it again, which must work.
pub fn with_module(parameters: &str, body: impl FnOnce() -> Result<()>) -> Result<()> {
    let module = Module::load(parameters)?;
    body()?;
    module.unload()
}

/// Loads the module, gives disk 0 the size `disksize` (memparse syntax), runs `body`, resets the
/// disk and unloads the module.
pub fn with_disk(disksize: &str, body: impl FnOnce(&Disk) -> Result<()>) -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        disk.set("disksize", disksize)?;
        body(&disk)?;
        disk.set("reset", "1")
    })
}

/// Asks the kernel to unload the module, without waiting; the kernel's answer as it is.
pub fn try_unload() -> std::result::Result<(), Errno> {
    let name = CString::new(target().name).map_err(|_| Errno::EINVAL)?;
    delete_module(&name, DeleteModuleFlags::O_NONBLOCK)
}

/// Whether /proc/modules lists the module.
pub fn is_loaded() -> Result<bool> {
    let text = fs::read_to_string("/proc/modules").context("reading /proc/modules")?;
    Ok(text
        .lines()
        .any(|line| line.split(' ').next() == Some(target().name)))
}

/// The numbers of all disks in /sys/block, lowest first.
pub fn disk_ids() -> Result<Vec<u32>> {
    let mut ids = Vec::new();
    for entry in fs::read_dir("/sys/block").context("reading /sys/block")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some(id) = name.strip_prefix(target().name) {
            if let Ok(id) = id.parse() {
                ids.push(id);
            }
        }
    }
    ids.sort_unstable();
    Ok(ids)
}

/// Where the module's file is: `RZRAM_KO`, else `./rzram.ko`.
pub fn module_file() -> String {
    std::env::var("RZRAM_KO").unwrap_or_else(|_| "./rzram.ko".to_string())
}

/// Where the file of the module that lends lz4hc to rzram is: beside the other.
pub fn lz4hc_file() -> String {
    Path::new(&module_file())
        .with_file_name("rzram_lz4hc.ko")
        .display()
        .to_string()
}

/// A mount point or another empty directory for a test, made if need be.
pub fn scratch(name: &str) -> Result<std::path::PathBuf> {
    let path = Path::new("/tmp").join(format!("rzram-{name}"));
    fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
    Ok(path)
}

/// Ends every use of the disks and unloads the module, ignoring what fails: the test that led here
/// has failed already, and the ones after it should get a clean kernel.
fn tidy_up() {
    let prefix = format!("/dev/{}", target().name);
    for (file, command) in [("/proc/swaps", "swapoff"), ("/proc/mounts", "umount")] {
        for line in fs::read_to_string(file).unwrap_or_default().lines() {
            let node = line.split_whitespace().next().unwrap_or("");
            if node.starts_with(&prefix) {
                let _ = run(command, &[node]);
            }
        }
    }
    for _ in 0..20 {
        if try_unload().is_ok() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    eprintln!("{} could not be unloaded after the failure", target().name);
}

/// Fails unless the kernel refuses to unload the module because it is in use.
pub fn unload_refused() -> Result<()> {
    match try_unload() {
        Err(Errno::EWOULDBLOCK) | Err(Errno::EBUSY) => Ok(()),
        Err(other) => {
            bail!("unloading a module in use\n  expected: EWOULDBLOCK\n  came:     {other}")
        }
        Ok(()) => bail!("unloading a module in use\n  expected: EWOULDBLOCK\n  came:     success"),
    }
}
