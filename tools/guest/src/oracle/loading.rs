// SPDX-License-Identifier: GPL-2.0

//! Loading and unloading, module parameters, names that the module takes.

use std::path::Path;

use anyhow::Result;

use super::script::{shown, verdict, Script};

/// The names in a directory, sorted.
pub fn list(path: &str) -> String {
    match std::fs::read_dir(path) {
        Ok(entries) => {
            let mut names: Vec<String> = entries
                .flatten()
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect();
            names.sort();
            names.join(" ")
        }
        Err(e) => super::script::errno(super::script::errno_of(&e)),
    }
}

fn disks() -> String {
    let all = list("/sys/block");
    let disks: Vec<&str> = all
        .split(' ')
        .filter(|name| name.contains("zram"))
        .collect();
    disks.join(" ")
}

fn load(s: &mut Script, parameters: &str) -> Result<()> {
    let result = verdict(s.module.load(parameters)?);
    s.op(
        format_args!("load with {parameters:?}"),
        format_args!("{result}, disks: {}", disks()),
    );
    Ok(())
}

fn unload(s: &mut Script) {
    let result = verdict(s.module.unload());
    s.op("unload", format_args!("{result}, disks: {}", disks()));
}

fn devices() -> String {
    let text = std::fs::read_to_string("/proc/devices").unwrap_or_default();
    // The number is whatever was free.
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim().split_once(' '))
        .map(|(_, name)| name)
        .filter(|name| name.contains("zram"))
        .collect();
    names.join(" ")
}

pub fn run(s: &mut Script) -> Result<()> {
    s.group("loading");
    unload(s);
    for parameters in [
        "num_devices=0",
        "num_devices=1",
        "num_devices=3",
        "num_devices=0x2",
        "num_devices=02",
        "num_devices=+2",
        "num_devices=\"2\"",
        "num_devices=2 num_devices=1",
        "num_devices=",
        "num_devices",
        "num_devices=x",
        "num_devices=2x",
        "num_devices=-1",
        "num_devices=4294967296",
        "no_such=1",
        "zram.num_devices=2",
    ] {
        load(s, parameters)?;
        unload(s);
    }
    load(s, "num_devices=2")?;
    load(s, "")?;
    unload(s);
    load(s, "")?;

    s.group("names");
    s.op("names in /proc/devices", devices());
    s.op(
        "ls /sys/class/zram-control",
        list("/sys/class/zram-control"),
    );
    s.op(
        "ls /sys/class/rzram-control",
        list("/sys/class/rzram-control"),
    );
    s.op("ls /sys/kernel/debug/zram", list("/sys/kernel/debug/zram"));
    s.op(
        "ls /sys/kernel/debug/zram/zram0",
        list("/sys/kernel/debug/zram/zram0"),
    );
    s.op(
        "ls /sys/kernel/debug/rzram",
        list("/sys/kernel/debug/rzram"),
    );
    let modules = std::fs::read_to_string("/proc/modules").unwrap_or_default();
    let names: Vec<&str> = modules
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|name| name.contains("zram"))
        .collect();
    s.op("names in /proc/modules", names.join(" "));
    let own = s.module.name().to_string_lossy().into_owned();
    let folder = format!("/sys/module/{own}");
    s.op(
        "ls parameters of the module",
        list(&format!("{folder}/parameters")),
    );
    for file in ["initstate", "refcnt"] {
        s.op(
            format_args!("{file} of the module"),
            shown(&Path::new(&folder).join(file)),
        );
    }
    let target = std::fs::read_link("/sys/block/zram0").unwrap_or_default();
    s.op("readlink /sys/block/zram0", target.display());
    s.op(
        "ls /sys/block/zram0/holders",
        list("/sys/block/zram0/holders"),
    );
    s.op(
        "ls /sys/block/zram0/slaves",
        list("/sys/block/zram0/slaves"),
    );
    s.op(
        "ls /sys/block/zram0/integrity",
        list("/sys/block/zram0/integrity"),
    );
    Ok(())
}
