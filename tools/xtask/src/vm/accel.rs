// SPDX-License-Identifier: GPL-2.0
//! KVM where a guest really comes up with it, TCG elsewhere.
//!
//! That /dev/kvm exists says little: on some machines QEMU aborts, on others the guest never starts. So a guest is tried
//! once for each kernel and host kernel, and the answer kept.

use super::{run::Sink, Platform, Spec};
use crate::{cache, ctx::Ctx};
use anyhow::Result;
use std::{
    fs::{self, OpenOptions},
    time::Duration,
};

/// How long a guest under KVM may take to come up.
const PROBE_TIME: Duration = Duration::from_secs(20);

/// What runs the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accel {
    /// The processor itself.
    Kvm,
    /// QEMU's translator.
    Tcg,
}

impl Accel {
    /// For people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Kvm => "KVM",
            Self::Tcg => "TCG (no usable KVM)",
        }
    }
}

struct Silent;

impl Sink for Silent {
    fn out(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn err(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
}

/// Finds out, once, whether KVM works here.
pub fn choose(ctx: &Ctx, platform: &Platform) -> Result<Accel> {
    match std::env::var("RZRAM_ACCEL").as_deref() {
        Ok("kvm") => return Ok(Accel::Kvm),
        Ok("tcg") => return Ok(Accel::Tcg),
        _ => {}
    }
    if !has_virtualisation()
        || OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/kvm")
            .is_err()
    {
        return Ok(Accel::Tcg);
    }
    let host = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let file = ctx.cache.join(format!(
        "accel-{}",
        cache::key(&(host, &platform.kernel.release))
    ));
    match fs::read_to_string(&file).as_deref() {
        Ok("kvm") => return Ok(Accel::Kvm),
        Ok("tcg") => return Ok(Accel::Tcg),
        _ => {}
    }
    eprintln!(
        "vm: trying whether KVM works here (once, at most {} s)",
        (PROBE_TIME * platform.patience()).as_secs()
    );
    let spec = Spec {
        argv: vec!["true".into()],
        timeout: Some(PROBE_TIME * platform.patience()),
        ..Spec::default()
    };
    let works = match platform.run_with(Accel::Kvm, &spec, &mut Silent) {
        Ok(ending) => ending.failure.is_none() && ending.status == 0,
        Err(_) => false,
    };
    fs::write(file, if works { "kvm" } else { "tcg" })?;
    Ok(if works { Accel::Kvm } else { Accel::Tcg })
}

fn has_virtualisation() -> bool {
    fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| {
        text.lines()
            .filter(|line| line.starts_with("flags"))
            .any(|line| {
                line.split_whitespace()
                    .any(|flag| flag == "vmx" || flag == "svm")
            })
    })
}
