// SPDX-License-Identifier: GPL-2.0
//! The initial RAM file system of one boot: the userland from the cache, then what belongs to this boot alone.

use super::{Platform, Spec};
use crate::{cpio::Archive, ctx::Ctx, kernel::Kind, workspace};
use anyhow::{Context, Result};
use nix::sys::memfd::{memfd_create, MFdFlags};
use rzram_init::{Boot, Machine, BOOT_FILE, WORK_DIR};
use std::{
    fs::File,
    io::{self, BufWriter, Read, Write},
};

/// The guest's first process, built where it is out of date.
pub fn init(ctx: &Ctx) -> Result<Vec<u8>> {
    let file = workspace::cargo_program(ctx, "rzram-init", "rzram-init")?;
    std::fs::read(&file).with_context(|| format!("cargo made no {}", file.display()))
}

/// A number that no command in the guest can guess.
pub fn nonce() -> Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

/// The archive, in a file that exists in memory only and goes away with its last user.
pub fn initrd(platform: &Platform, spec: &Spec, nonce: &str) -> Result<File> {
    let mut file = File::from(memfd_create(c"initrd", MFdFlags::empty())?);
    for part in &platform.archives {
        let mut part = File::open(part).context("a part of the guest is gone from the cache")?;
        io::copy(&mut part, &mut file)?;
    }
    let boot = Boot {
        nonce: nonce.to_owned(),
        argv: spec.argv.clone(),
        terminal: spec.terminal.then(terminal_size),
        machine: match platform.kernel.kind {
            Kind::Uml => Machine::Uml,
            Kind::Stock | Kind::Debug => Machine::Qemu,
        },
        share: spec.share.clone(),
        patience: platform.patience(),
        leaks: spec.leaks,
        env: environment(spec),
    };
    let mut archive = Archive::new(BufWriter::new(file));
    archive.file("init", true, &platform.init)?;
    archive.file(relative(BOOT_FILE), false, &serde_json::to_vec(&boot)?)?;
    archive.dir(relative(WORK_DIR))?;
    for (name, data) in &spec.files {
        archive.file(&format!("{}/{name}", relative(WORK_DIR)), true, data)?;
    }
    let mut writer = archive.finish()?;
    writer.flush()?;
    Ok(writer.into_inner().map_err(|error| error.into_error())?)
}

fn relative(path: &str) -> &str {
    path.trim_start_matches('/')
}

fn environment(spec: &Spec) -> Vec<(String, String)> {
    let mut env = vec![("RUST_BACKTRACE".to_owned(), "1".to_owned())];
    if spec.terminal {
        env.push((
            "TERM".to_owned(),
            std::env::var("TERM").unwrap_or_else(|_| "linux".to_owned()),
        ));
        env.push(("PS1".to_owned(), r"guest:\w\$ ".to_owned()));
    }
    env.extend(std::env::vars().filter(|(name, _)| name.starts_with("RZRAM_TEST_")));
    env
}

nix::ioctl_read_bad!(get_window_size, nix::libc::TIOCGWINSZ, nix::libc::winsize);

/// Rows and columns of this process's terminal, or what terminals used to have.
fn terminal_size() -> (u16, u16) {
    let mut size = nix::libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the structure is there for the call to fill.
    match unsafe { get_window_size(0, &mut size) } {
        Ok(_) if size.ws_row != 0 && size.ws_col != 0 => (size.ws_row, size.ws_col),
        _ => (24, 80),
    }
}
