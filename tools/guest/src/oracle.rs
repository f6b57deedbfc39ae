// SPDX-License-Identifier: GPL-2.0

//! One script of operations, run on C zram and on rzram under zram's names.
//!
//! It writes a transcript: a line for each operation, with what the operation is, the errno or the bytes that came of it,
//! and what the module wrote into the kernel's log meanwhile. The host compares the two transcripts, so the script does the
//! same on both modules whatever comes: it never looks at a result to decide what to do next.

mod algorithms;
mod backing;
mod busy;
mod data;
mod device;
mod discard;
mod faults;
mod files;
mod hotplug;
mod idle;
mod limits;
mod loading;
mod matrix;
mod params;
mod queue;
mod script;
mod writeback;

use std::fs::OpenOptions;
use std::process::Command;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use nix::kmod::{delete_module, finit_module, DeleteModuleFlags};
use script::Script;

use crate::module::lz4hc_file;

/// The module that the script runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Module {
    /// C zram, from the kernel's own modules.
    Zram,
    /// rzram, from the current directory, with `compat=1`.
    Rzram,
}

impl Module {
    /// The module's own name, which is what `compat=1` does not change.
    fn name(self) -> &'static std::ffi::CStr {
        match self {
            Module::Zram => c"zram",
            Module::Rzram => c"rzram",
        }
    }

    fn file(self) -> Result<String> {
        if self == Module::Rzram {
            return Ok(crate::module::module_file());
        }
        let out = Command::new("modinfo").args(["-n", "zram"]).output()?;
        let path = String::from_utf8(out.stdout)?.trim().to_owned();
        ensure!(!path.is_empty(), "the guest has no zram module");
        Ok(path)
    }

    /// Loads the module with one system call, so that its own errno is seen.
    fn load(self, parameters: &str) -> Result<nix::Result<()>> {
        let path = self.file()?;
        let file = OpenOptions::new()
            .read(true)
            .open(&path)
            .with_context(|| path.clone())?;
        let compat = match self {
            Module::Zram => "",
            Module::Rzram => "compat=1 ",
        };
        let parameters = std::ffi::CString::new(format!("{compat}{parameters}"))?;
        Ok(finit_module(
            &file,
            &parameters,
            nix::kmod::ModuleInitFlags::empty(),
        ))
    }

    fn unload(self) -> Result<(), Errno> {
        delete_module(self.name(), DeleteModuleFlags::O_NONBLOCK)
    }
}

/// Runs the script and prints the transcript.
pub fn run(module: Module) -> Result<()> {
    // C zram needs these, and rzram does not mind them; brd and loop back the disks.
    for needed in ["zsmalloc", "lz4hc_compress", "ext4"] {
        let _ = Command::new("modprobe").arg(needed).status();
    }
    crate::run::run("insmod", &[&lz4hc_file()])?;
    crate::run::run("modprobe", &["brd", "rd_nr=2", "rd_size=1024"])?;
    crate::run::run("modprobe", &["loop", "max_loop=2"])?;
    let mut script = Script::new(module)?;
    loading::run(&mut script)?;
    files::run(&mut script);
    queue::run(&mut script);
    device::run(&mut script);
    matrix::run(&mut script);
    limits::run(&mut script);
    algorithms::run(&mut script);
    params::run(&mut script)?;
    data::run(&mut script);
    discard::run(&mut script);
    hotplug::run(&mut script);
    idle::run(&mut script);
    backing::run(&mut script)?;
    writeback::run(&mut script);
    busy::run(&mut script)?;
    faults::run(&mut script)?;
    script.end()
}
