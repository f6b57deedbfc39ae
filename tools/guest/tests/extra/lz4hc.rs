// SPDX-License-Identifier: GPL-2.0

//! lz4hc, which comes in a module of its own.

use std::fs;
use std::path::Path;

use anyhow::{ensure, Result};
use nix::errno::Errno;
use rzram_guest::disk::Disk;
use rzram_guest::installed::Installed;
use rzram_guest::kernel::Log;
use rzram_guest::module::{lz4hc_file, with_module};
use rzram_guest::pattern::Kind;
use rzram_guest::run::run;
use rzram_guest::same;
use rzram_guest::target::target;

use rzram_guest::post::{compressed, file, page, pages, Blocks};

use super::recompress::with_second;

const NEEDED: &str = "load the modules lz4hc_compress and rzram_lz4hc";

fn is_loaded(module: &str) -> bool {
    Path::new("/sys/module").join(module).exists()
}

/// Runs `body` with lz4hc to be had, on rzram; without any trace of it before and after.
fn with_lz4hc(body: impl FnOnce() -> Result<()>) -> Result<()> {
    if target().is_c_zram() {
        return Ok(()); // it is linked to it
    }
    unload();
    run("modprobe", &["lz4hc_compress"])?;
    run("insmod", &[&lz4hc_file()])?;
    let result = body();
    unload();
    result
}

fn unload() {
    for module in ["rzram_lz4hc", "lz4hc_compress"] {
        let _ = run("rmmod", &[module]);
    }
}

fn listed(disk: &Disk) -> Result<bool> {
    Ok(disk.get("comp_algorithm")?.contains("lz4hc"))
}

/// Writes pages that compress well and badly, and returns the bytes that they take.
fn stores(disk: &Disk) -> Result<u64> {
    let mut content = pages(Kind::Text, 1, 32);
    content.extend(pages(Kind::Records, 2, 32));
    content.extend(pages(Kind::Random, 3, 2));
    content.push(page(Kind::Word(5), 0));
    let mut blocks = Blocks::of(disk)?;
    blocks.write_all(&content)?;
    blocks.hold_all(&content)?;
    compressed(disk)
}

#[test]
fn without_its_module_it_is_not_listed_and_not_taken() -> Result<()> {
    if target().is_c_zram() {
        return Ok(());
    }
    unload();
    with_module("", || {
        ensure!(!is_loaded("lz4hc_compress"), "rzram depends on lz4hc");
        let disk = Disk::new(0);
        disk.shows(
            "comp_algorithm",
            &target().algorithm_list(target().default_algorithm),
        )?;
        disk.set("comp_algorithm", "lz4")?;
        for (attribute, value) in [
            ("comp_algorithm", "lz4hc"),
            ("recomp_algorithm", "algo=lz4hc priority=2"),
        ] {
            let mut log = Log::follow()?;
            disk.refuses(attribute, value, Errno::EINVAL)?;
            log.expect(NEEDED)?;
        }
        disk.shows("comp_algorithm", &target().algorithm_list("lz4"))?;
        disk.shows("recomp_algorithm", "")
    })
}

#[test]
fn choosing_it_loads_its_module_where_that_is_installed() -> Result<()> {
    if target().is_c_zram() {
        return Ok(());
    }
    unload();
    let _installed = Installed::new()?;
    with_module("", || {
        let disk = Disk::new(0);
        ensure!(!listed(&disk)?, "insmod knows of no other module");
        disk.set("comp_algorithm", "lz4hc")?;
        ensure!(is_loaded("rzram_lz4hc"), "it was not loaded");
        disk.shows(
            "comp_algorithm",
            "lzo-rle lzo lz4 [lz4hc] zstd deflate wlz \n",
        )?;
        disk.set("disksize", "1M")?;
        stores(&disk)?;
        disk.reset()
    })?;
    unload();
    ensure!(!is_loaded("rzram_lz4hc"), "something still holds it");
    Ok(())
}

#[test]
fn modprobe_loads_it_beside_rzram() -> Result<()> {
    if target().is_c_zram() {
        return Ok(());
    }
    unload();
    let _installed = Installed::new()?;
    run("modprobe", &["rzram"])?;
    let result = listed(&Disk::new(0));
    run("modprobe", &["-r", "rzram"])?;
    ensure!(result?, "lz4hc is not listed after modprobe rzram");
    ensure!(!is_loaded("rzram"), "modprobe -r leaves rzram");
    Ok(())
}

#[test]
fn a_disk_that_uses_it_keeps_it_loaded() -> Result<()> {
    with_lz4hc(|| {
        with_module("", || {
            let disk = Disk::new(0);
            ensure!(listed(&disk)?, "it is loaded and not listed");
            disk.set("comp_algorithm", "lz4hc")?;
            disk.set("disksize", "1M")?;
            ensure!(run("rmmod", &["rzram_lz4hc"]).is_err(), "unloaded in use");
            stores(&disk)?;
            disk.reset()?;

            // Chosen, and gone before it is used.
            disk.set("comp_algorithm", "lz4hc")?;
            run("rmmod", &["rzram_lz4hc"])?;
            let mut log = Log::follow()?;
            disk.refuses("disksize", "1M", Errno::EINVAL)?;
            log.expect(NEEDED)?;
            disk.shows(
                "comp_algorithm",
                "lzo-rle lzo lz4 [lz4hc] zstd deflate wlz \n",
            )?;
            run("insmod", &[&lz4hc_file()])?;
            disk.set("disksize", "1M")?;
            stores(&disk)?;
            disk.reset()
        })
    })
}

#[test]
fn levels_and_dictionaries() -> Result<()> {
    let dictionary = file("lz4hc-dictionary", &pages(Kind::Text, 1, 16).concat())?;
    let long = file("lz4hc-long", &pages(Kind::Text, 1, 17).concat())?;
    with_lz4hc(|| {
        with_module("", || {
            let disk = Disk::new(0);
            let size_with = |algorithm: &str, params: &str| {
                disk.set("comp_algorithm", algorithm)?;
                if !params.is_empty() {
                    disk.set("algorithm_params", params)?;
                }
                disk.set("disksize", "1M")?;
                let size = stores(&disk)?;
                println!("{algorithm} {params}: {size} bytes");
                disk.reset()?;
                Ok::<u64, anyhow::Error>(size)
            };
            let lz4 = size_with("lz4", "")?;
            let first = size_with("lz4hc", "level=1")?;
            let default = size_with("lz4hc", "")?;
            same("level 9", default, size_with("lz4hc", "level=9")?)?;
            let best = size_with("lz4hc", "level=16")?;
            ensure!(best <= default && default <= first, "levels do nothing");
            ensure!(default < lz4, "not better than lz4");
            let with_dictionary = size_with("lz4hc", &format!("dict={dictionary}"))?;
            ensure!(with_dictionary < default, "the dictionary does nothing");

            for params in ["level=0", "level=-1", "level=17", &format!("dict={long}")] {
                disk.set("comp_algorithm", "lz4hc")?;
                disk.set("algorithm_params", params)?;
                disk.refuses("disksize", "1M", Errno::EINVAL)?;
                disk.reset()?;
            }
            Ok(())
        })
    })
}

#[test]
fn recompression_with_it_saves_memory() -> Result<()> {
    with_lz4hc(|| {
        with_second("lz4", "lz4hc", |disk, blocks| {
            let content = pages(Kind::Text, 4, 128);
            blocks.write_all(&content)?;
            let before = compressed(disk)?;
            disk.set("recompress", "priority=1")?;
            let after = compressed(disk)?;
            println!("lz4: {before} bytes, lz4hc: {after}");
            ensure!(after < before, "nothing gained");
            blocks.hold_all(&content)?;
            let refs = fs::read_to_string("/sys/module/rzram_lz4hc/refcnt")?;
            same("users", "1", refs.trim())
        })
    })
}
