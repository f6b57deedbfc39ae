// SPDX-License-Identifier: GPL-2.0

//! Attributes: showing all, and storing those that choose something.

use std::fs;

use anyhow::Result;
use rzram_guest::attr;
use rzram_guest::disk::Disk;
use rzram_guest::faults::{
    at_least, errno, one_by_one, one_by_one_and_all_after, Faults, Of, Outcome, Place,
};
use rzram_guest::installed::Installed;
use rzram_guest::module::{scratch, with_module};
use rzram_guest::post::{block_state_file, Ram};
use rzram_guest::run::run;

use crate::common::{assortment, dictionary, holds, keeps, NEVER, NO_MEMORY};

/// Files of a disk that can be read, in the order of their names.
fn readable(disk: &Disk) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(disk.sys(""))? {
        let entry = entry?;
        if entry.file_type()?.is_file() && attr::mode(&entry.path())? & 0o444 != 0 {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

#[test]
fn showing_says_the_same_afterwards() -> Result<()> {
    let _faults = Faults::set_up(Of::Modules)?;
    let _ram = Ram::new(1024)?;
    with_module("track_access=1", || {
        let disk = Disk::new(0);
        for live in [false, true] {
            if live {
                disk.set("backing_dev", Ram::NODE)?;
                disk.set("recomp_algorithm", "algo=zstd priority=1")?;
                disk.set_up("lz4", "16M")?;
                keeps(&disk, 0, &assortment(1, 40)?)?;
                disk.set("writeback", "page_indexes=0-9")?;
            }
            for name in readable(&disk)? {
                let expected = disk.get(&name)?;
                let file = disk.sys(&name);
                let show = || attr::read(&file).map(drop);
                let what = format!("show {name}{}", if live { ", set up" } else { "" });
                one_by_one(&what, Place::Here, NO_MEMORY, show, |_| {
                    // Those of the block layer change by themselves.
                    match name.as_str() {
                        "stat" | "inflight" | "uevent" => Ok(()),
                        _ => disk.shows(&name, &expected),
                    }
                })?;
            }
        }
        let state = block_state_file(&disk);
        let expected = attr::read(&state)?;
        let show = || attr::read(&state).map(drop);
        one_by_one("read block_state", Place::Here, NO_MEMORY, show, |_| {
            rzram_guest::same(
                "block_state",
                expected.as_str(),
                attr::read(&state)?.as_str(),
            )
        })?;
        disk.reset()
    })
}

#[test]
fn a_choice_is_made_or_refused_whole() -> Result<()> {
    let _faults = Faults::set_up(Of::Modules)?;
    with_module("", || {
        let disk = Disk::new(0);
        let dict = format!("dict={}", dictionary()?);
        let other = format!("dict={} level=3", dictionary()?);
        for (attribute, value, least) in [
            ("comp_algorithm", "zstd", 0),
            ("recomp_algorithm", "algo=lz4 priority=2", 0),
            ("algorithm_params", "level=3", 0),
            ("algorithm_params", dict.as_str(), 3),
            ("algorithm_params", other.as_str(), 3),
            ("mem_limit", "10M", 0),
            ("max_comp_streams", "2", 0),
            ("compressed_writeback", "1", 0),
            ("writeback_limit", "7", 0),
            ("writeback_batch_size", "4", 0),
        ] {
            disk.set("comp_algorithm", "zstd")?;
            let failed = one_by_one_and_all_after(
                &format!("{attribute} {}", value.split('=').next().unwrap_or("")),
                Place::Here,
                NO_MEMORY,
                || disk.put(attribute, value),
                |_| Ok(()),
            )?;
            at_least(least, failed)?;
            // It works with what was chosen last.
            disk.set("disksize", "16M")?;
            keeps(&disk, 0, &assortment(1, 40)?)?;
            disk.reset()?;
        }
        Ok(())
    })
}

#[test]
fn on_a_live_disk_too() -> Result<()> {
    let _faults = Faults::set_up(Of::Modules)?;
    with_module("track_access=1", || {
        let disk = Disk::new(0);
        let data = assortment(1, 400)?;
        disk.set_up("lz4", "16M")?;
        keeps(&disk, 0, &data)?;
        for (attribute, value) in [
            ("mem_limit", "10M"),
            ("mem_used_max", "0"),
            ("max_comp_streams", "1"),
            ("compact", "1"),
            ("idle", "all"),
            ("idle", "1"),
        ] {
            let store = || disk.put(attribute, value);
            let name = format!("{attribute} {value}, set up");
            one_by_one(&name, Place::Here, NEVER, store, |_| holds(&disk, 0, &data))?;
        }
        disk.reset()
    })
}

/// A regular file of 1 MiB, which can be a backing store.
fn regular() -> Result<String> {
    let path = scratch("faults")?.join("backing");
    fs::File::create(&path)?.set_len(1 << 20)?;
    Ok(path.display().to_string())
}

#[test]
fn a_backing_store_that_was_not_taken_is_free() -> Result<()> {
    let _faults = Faults::set_up(Of::Modules)?;
    let _ram = Ram::new(1024)?;
    let file = regular()?;
    with_module("", || {
        let disk = Disk::new(0);
        for (before, path) in [
            (None, Ram::NODE),
            (None, file.as_str()),
            (Some(Ram::NODE), file.as_str()),
            (Some(file.as_str()), Ram::NODE),
        ] {
            let start = || match before {
                Some(before) => disk.set("backing_dev", before),
                None => Ok(()),
            };
            let kind = |path: &str| if path == file { "a file" } else { "a device" };
            let name = match before {
                None => format!("backing_dev, {}", kind(path)),
                Some(before) => format!("backing_dev, {} for {}", kind(path), kind(before)),
            };
            start()?;
            let failed = one_by_one_and_all_after(
                &name,
                Place::Here,
                NO_MEMORY,
                || disk.put("backing_dev", path),
                |outcome| {
                    let now = match outcome {
                        Outcome::Failed => before.unwrap_or("none"),
                        Outcome::Done => path,
                    };
                    disk.shows("backing_dev", &format!("{now}\n"))?;
                    if outcome == Outcome::Done {
                        disk.reset()?;
                        start()?;
                    }
                    Ok(())
                },
            )?;
            at_least(5, failed)?;
            disk.reset()?;
        }
        // Nobody has either of them any more.
        errno(fs::OpenOptions::new().write(true).open(Ram::NODE).map(drop))?;
        Ok(())
    })
}

#[test]
fn lz4hc_whose_module_is_not_loaded_yet() -> Result<()> {
    let _faults = Faults::set_up(Of::Modules)?;
    let unload = || {
        for module in ["rzram_lz4hc", "lz4hc_compress"] {
            let _ = run("rmmod", &[module]);
        }
    };
    unload();
    let _installed = Installed::new()?;
    with_module("", || {
        let disk = Disk::new(0);
        let failed = one_by_one(
            "comp_algorithm lz4hc, with its module to be loaded",
            Place::Here,
            NO_MEMORY,
            || disk.put("comp_algorithm", "lz4hc"),
            |outcome| {
                if outcome == Outcome::Done {
                    disk.set("disksize", "16M")?;
                    keeps(&disk, 0, &assortment(1, 40)?)?;
                    disk.reset()?;
                    unload();
                }
                Ok(())
            },
        )?;
        at_least(1, failed)
    })?;
    unload();
    Ok(())
}
