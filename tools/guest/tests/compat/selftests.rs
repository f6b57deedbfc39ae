// SPDX-License-Identifier: GPL-2.0

//! The kernel's own tests for zram, unmodified, from the source of the kernel that runs.

use std::fs;
use std::process::Command;

use anyhow::{ensure, Context, Result};
use rzram_guest::module::scratch;
use rzram_guest::run::run;

use crate::clients::with_rule;
use crate::names::{is_loaded, owned_by_rzram, with_compat};

const SELFTESTS: &str = "/usr/share/rzram/selftests";

/// Runs one of them in a directory of its own. They do not fail on `FAIL`, so it is looked for.
fn selftest(name: &str) -> Result<()> {
    let dir = scratch("selftests")?;
    for entry in fs::read_dir(SELFTESTS).context("the guest has no selftests")? {
        let entry = entry?;
        fs::copy(entry.path(), dir.join(entry.file_name()))?;
    }
    let output = Command::new("bash")
        .arg(format!("./{name}.sh"))
        .current_dir(&dir)
        .output()?;
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    println!("{name} of {}\n{text}", release.trim());
    ensure!(output.status.success(), "{name}: {}\n{text}", output.status);
    ensure!(!text.contains("FAIL"), "{name} found a fault:\n{text}");
    for word in ["rror", "denied", "No such", "busy", "invalid"] {
        ensure!(!text.contains(word), "{name} met with {word:?}:\n{text}");
    }
    ensure!(
        text.contains(&format!("{name} : [PASS]")),
        "{name} did not pass:\n{text}"
    );
    fs::remove_dir_all(&dir)?;
    Ok(())
}

#[test]
fn zram01_a_file_system() -> Result<()> {
    rzram_guest::kernel::load_ext4()?;
    with_compat("", || {
        owned_by_rzram(0)?;
        selftest("zram01")?;
        owned_by_rzram(0)
    })
}

#[test]
fn zram02_swap() -> Result<()> {
    with_compat("", || {
        owned_by_rzram(0)?;
        selftest("zram02")?;
        owned_by_rzram(0)
    })
}

#[test]
fn zram02_where_it_loads_the_module_itself() -> Result<()> {
    with_rule(|| {
        selftest("zram02")?;
        // Its `rmmod zram` does nothing: the module's name is rzram.
        ensure!(is_loaded("rzram")?, "rzram was not loaded");
        owned_by_rzram(0)?;
        run("modprobe", &["-r", "zram"]).map(drop)
    })
}
