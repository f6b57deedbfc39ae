// SPDX-License-Identifier: GPL-2.0

//! One disk: its attributes, its statistics and its node.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use nix::errno::Errno;

use crate::attr;
use crate::same;
use crate::stat::{DebugStat, IoStat, MmStat};
use crate::target::target;

/// A disk, by its number. It need not exist.
#[derive(Clone, Copy, Debug)]
pub struct Disk {
    /// The number behind the name.
    pub id: u32,
}

impl Disk {
    /// The handle of disk `id`.
    pub fn new(id: u32) -> Disk {
        Disk { id }
    }

    /// Creates a disk by reading `hot_add`.
    pub fn hot_add() -> Result<Disk> {
        let path = target().control("hot_add");
        let text = attr::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let id = text.strip_suffix('\n').and_then(|t| t.parse().ok());
        let id =
            id.with_context(|| format!("hot_add shows {text:?}, expected a number and a newline"))?;
        let disk = Disk { id };
        if let Some(algorithm) = target().imposed_algorithm() {
            disk.set("comp_algorithm", algorithm)?;
        }
        Ok(disk)
    }

    /// Removes the disk through `hot_remove`.
    pub fn hot_remove(&self) -> std::result::Result<(), Errno> {
        attr::write(
            &target().control("hot_remove"),
            self.id.to_string().as_bytes(),
        )
        .map(drop)
    }

    /// The disk's name, such as `rzram0`.
    pub fn name(&self) -> String {
        target().disk(self.id)
    }

    /// The device node.
    pub fn node(&self) -> String {
        format!("/dev/{}", self.name())
    }

    /// An attribute's file.
    pub fn sys(&self, attribute: &str) -> PathBuf {
        PathBuf::from(format!("/sys/block/{}/{attribute}", self.name()))
    }

    /// Reads an attribute.
    pub fn get(&self, attribute: &str) -> Result<String> {
        attr::read(&self.sys(attribute))
            .with_context(|| format!("reading {}", self.sys(attribute).display()))
    }

    /// Writes an attribute; the errno of the driver if it refuses.
    pub fn put(&self, attribute: &str, value: &str) -> std::result::Result<(), Errno> {
        attr::write(&self.sys(attribute), value.as_bytes())?;
        match target().imposed_algorithm() {
            // It is as new, but for that.
            Some(algorithm) if attribute == "reset" => self.put("comp_algorithm", algorithm),
            _ => Ok(()),
        }
    }

    /// Writes an attribute, which must be taken.
    pub fn set(&self, attribute: &str, value: &str) -> Result<()> {
        attr::set(&self.sys(attribute), value)?;
        match target().imposed_algorithm() {
            Some(algorithm) if attribute == "reset" => self.set("comp_algorithm", algorithm),
            _ => Ok(()),
        }
    }

    /// Writes an attribute, which must be refused with `expected`.
    pub fn refuses(&self, attribute: &str, value: &str, expected: Errno) -> Result<()> {
        attr::refused(&self.sys(attribute), value.as_bytes(), &[expected])
    }

    /// Fails unless the attribute shows exactly `expected`.
    pub fn shows(&self, attribute: &str, expected: &str) -> Result<()> {
        same(
            format!("{} shows", self.sys(attribute).display()),
            expected,
            self.get(attribute)?.as_str(),
        )
    }

    /// `mm_stat`, parsed.
    pub fn mm(&self) -> Result<MmStat> {
        MmStat::parse(&self.get("mm_stat")?)
    }

    /// `io_stat`, parsed.
    pub fn io(&self) -> Result<IoStat> {
        IoStat::parse(&self.get("io_stat")?)
    }

    /// `debug_stat`, parsed.
    pub fn debug(&self) -> Result<DebugStat> {
        DebugStat::parse(&self.get("debug_stat")?)
    }

    /// Opens the node for reading and writing past the page cache.
    pub fn direct(&self) -> Result<File> {
        self.open(libc::O_DIRECT)
    }

    /// Opens the node for reading and writing through the page cache.
    pub fn buffered(&self) -> Result<File> {
        self.open(0)
    }

    fn open(&self, flags: i32) -> Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(flags)
            .open(self.node())
            .with_context(|| format!("opening {}", self.node()))
    }

    /// Resets the disk and fails unless all of it is as new.
    pub fn reset(&self) -> Result<()> {
        self.set("reset", "1")?;
        self.shows("initstate", "0\n")?;
        self.shows("disksize", "0\n")
    }

    /// Gives the disk an algorithm and a size.
    pub fn set_up(&self, algorithm: &str, disksize: &str) -> Result<()> {
        self.set("comp_algorithm", algorithm)?;
        self.set("disksize", disksize)
    }

    /// Waits until `mm_stat` satisfies `done`: memory that readers or deferred work still hold is
    /// given back a moment later. Fails, naming `what` was waited for, after two seconds.
    pub fn wait_for(&self, what: &str, done: impl Fn(&MmStat) -> bool) -> Result<MmStat> {
        let start = Instant::now();
        loop {
            let mm = self.mm()?;
            if done(&mm) {
                return Ok(mm);
            }
            if start.elapsed() > Duration::from_secs(2) {
                bail!("{}\n  expected: {what}\n  came:     {mm:?}", self.name());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until nothing at all is stored.
    pub fn wait_empty(&self) -> Result<()> {
        self.wait_for("orig, compr, used, same and huge all zero", |mm| {
            [mm.orig, mm.compr, mm.used, mm.same, mm.huge] == [0; 5]
        })
        .map(drop)
    }
}
