// SPDX-License-Identifier: GPL-2.0

//! `algorithm_params`: levels, windows and dictionaries.

use anyhow::{ensure, Result};
use nix::errno::Errno;
use rzram_guest::disk::Disk;
use rzram_guest::kernel::Log;
use rzram_guest::module::{with_disk, with_module};
use rzram_guest::pattern::Kind;
use rzram_guest::same;
use rzram_guest::target::target;

use rzram_guest::post::{compressed, file, page, pages, rng, Blocks, P};

const PARAMS: &str = "algorithm_params";

#[test]
fn what_is_written_is_looked_at_when_it_is_written() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        for text in [
            "level=1",
            "level=-7",
            "level=+3",
            "level=3\n",
            "level=3 deflate.winbits=12",
            " level=3",
            "level=\"3\"",
            "priority=0 level=3",
            " ",
            "\n",
            "foo=1",
            "foo=1 bar=2 level=4",
            &format!("algo={} level=4", target().default_algorithm),
            &format!("algo={} priority=0", target().default_algorithm),
        ] {
            disk.set(PARAMS, text)?;
        }
        if !target().is_c_zram() {
            disk.set(PARAMS, "priority=3 level=3")?;
        }
        for text in [
            "level",
            "level=",
            "level=x",
            "level=3x",
            "level=0x3",
            "level=3.5",
            "foo",
            "foo=",
            "deflate.winbits=",
            "deflate.winbits=z",
            "priority=x",
            "priority=-1",
            "priority=4",
            "priority=1000",
            "algo=nonsense",
            "algo=deflate",
            "algo=deflate priority=0",
            "dict=",
        ] {
            disk.refuses(PARAMS, text, Errno::EINVAL)?;
        }
        for text in [
            "level=99999999999",
            "level=2147483648",
            "level=-2147483649",
            "deflate.winbits=99999999999",
            "priority=99999999999",
        ] {
            disk.refuses(PARAMS, text, Errno::ERANGE)?;
        }
        Ok(())
    })
}

#[test]
fn dictionaries_that_cannot_be_read_are_refused_at_once() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        let mut log = Log::follow()?;
        disk.refuses(PARAMS, "dict=/nonexistent", Errno::ENOENT)?;
        log.expect("failed to load dictionary /nonexistent (err=-2)")?;
        let empty = file("empty", b"")?;
        disk.refuses(PARAMS, &format!("dict={empty}"), Errno::EINVAL)?;
        // The kernel's own function that reads files refuses empty ones.
        log.expect(&format!("failed to load dictionary {empty} ("))?;
        // What was refused was not taken.
        disk.set("disksize", "1M")?;
        disk.reset()
    })
}

#[test]
fn a_live_disk_takes_no_parameters() -> Result<()> {
    with_disk("1M", |disk| {
        disk.refuses(PARAMS, "level=3", Errno::EBUSY)?;
        disk.refuses(PARAMS, "algo=nonsense", Errno::EBUSY)?;
        // Numbers are looked at first.
        disk.refuses(PARAMS, "level=x", Errno::EINVAL)?;
        disk.refuses(PARAMS, "level=99999999999", Errno::ERANGE)
    })
}

#[test]
fn ranges_are_looked_at_when_the_disk_is_set_up() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        for (algorithm, good, bad) in [
            (
                "lz4",
                vec!["level=1", "level=100000"],
                vec!["level=0", "level=-1"],
            ),
            (
                "zstd",
                vec!["level=-131072", "level=0", "level=1", "level=22"],
                vec!["level=-131073", "level=23"],
            ),
            (
                "deflate",
                vec![
                    "level=-1",
                    "level=0",
                    "level=9",
                    "deflate.winbits=9",
                    "deflate.winbits=15",
                    "deflate.winbits=-9",
                    "deflate.winbits=-15",
                ],
                vec![
                    "level=-2",
                    "level=10",
                    "deflate.winbits=0",
                    "deflate.winbits=8",
                    "deflate.winbits=16",
                    "deflate.winbits=-8",
                    "deflate.winbits=-16",
                ],
            ),
        ] {
            for params in good {
                println!("{algorithm} {params}");
                disk.set("comp_algorithm", algorithm)?;
                disk.set(PARAMS, params)?;
                disk.set("disksize", "1M")?;
                let content = pages(Kind::Records, 7, 8);
                let mut blocks = Blocks::of(&disk)?;
                blocks.write_all(&content)?;
                blocks.hold_all(&content)?;
                drop(blocks);
                disk.reset()?;
            }
            for params in bad {
                println!("{algorithm} {params}");
                let mut log = Log::follow()?;
                disk.set("comp_algorithm", algorithm)?;
                disk.set(PARAMS, params)?;
                disk.refuses("disksize", "1M", Errno::EINVAL)?;
                log.expect(&format!(
                    "Cannot initialise {algorithm} compressing backend"
                ))?;
            }
        }
        Ok(())
    })
}

#[test]
fn what_an_algorithm_does_not_have_is_refused_when_the_disk_is_set_up() -> Result<()> {
    let dictionary = file("dictionary", &page(Kind::Random, 1))?;
    let dict = format!("dict={dictionary}");
    with_module("", || {
        let disk = Disk::new(0);
        for (algorithm, params) in [
            ("lzo", "level=1"),
            ("lzo-rle", "level=1"),
            ("lzo", &dict),
            ("lzo-rle", &dict),
            ("deflate", &dict),
            ("wlz", "level=1"),
            ("wlz", &dict),
        ] {
            if target().algorithms.contains(&algorithm) {
                println!("{algorithm} {params}");
                disk.set("comp_algorithm", algorithm)?;
                disk.set(PARAMS, params)?;
                disk.refuses("disksize", "1M", Errno::EOPNOTSUPP)?;
                disk.shows("initstate", "0\n")?;
            }
        }
        Ok(())
    })
}

#[test]
fn after_a_set_up_that_failed_algorithm_and_parameters_are_as_they_were() -> Result<()> {
    if target().is_c_zram() {
        return Ok(()); // it forgets them
    }
    with_module("", || {
        let disk = Disk::new(0);
        disk.set("comp_algorithm", "deflate")?;
        disk.set("recomp_algorithm", "algo=zstd priority=2")?;
        // Level 0 stores, which shows whether the parameters are the ones that were written.
        disk.set(PARAMS, "level=0 deflate.winbits=16")?;
        for _ in 0..3 {
            disk.refuses("disksize", "1M", Errno::EINVAL)?;
            disk.shows("comp_algorithm", &target().algorithm_list("deflate"))?;
            let list = target().algorithm_list("zstd");
            disk.shows("recomp_algorithm", &format!("#2: {list}"))?;
        }
        // The other algorithm's parameter is what is wrong this time, with `level=0` still there.
        disk.set(PARAMS, "level=0")?;
        disk.set(PARAMS, "priority=2 level=23")?;
        disk.refuses("disksize", "1M", Errno::EINVAL)?;
        disk.set(PARAMS, "algo=zstd level=22")?;
        disk.set("disksize", "1M")?;
        let content = pages(Kind::Text, 3, 16);
        let mut blocks = Blocks::of(&disk)?;
        blocks.write_all(&content)?;
        blocks.hold_all(&content)?;
        same("huge pages of a deflate that stores", 16, disk.mm()?.huge)?;
        drop(blocks);
        disk.reset()?;
        // A reset forgets it all.
        disk.shows(
            "comp_algorithm",
            &target().algorithm_list(target().default_algorithm),
        )?;
        disk.shows("recomp_algorithm", "")
    })
}

/// Sets the disk up, stores `content`, checks it, and tells how many bytes it took.
fn size_with(disk: &Disk, algorithm: &str, params: &str, content: &[Vec<u8>]) -> Result<u64> {
    disk.set("comp_algorithm", algorithm)?;
    disk.set(PARAMS, params)?;
    disk.set("disksize", "4M")?;
    let mut blocks = Blocks::of(disk)?;
    blocks.write_all(content)?;
    blocks.hold_all(content)?;
    drop(blocks);
    let size = compressed(disk)?;
    disk.reset()?;
    println!("{algorithm} {params:?}: {size} bytes");
    Ok(size)
}

#[test]
fn a_level_has_an_effect() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        let content = pages(Kind::Records, 5, 64);
        for (algorithm, better, worse) in [
            ("deflate", "level=9", "level=1"),
            ("zstd", "level=19", "level=-50"),
            ("lz4", "level=1", "level=60"),
        ] {
            let good = size_with(&disk, algorithm, better, &content)?;
            let bad = size_with(&disk, algorithm, worse, &content)?;
            ensure!(good < bad, "{algorithm}: {better} {good}, {worse} {bad}");
        }
        // Each write replaces all of it: the level is the default one again.
        let default = size_with(&disk, "deflate", " ", &content)?;
        disk.set("comp_algorithm", "deflate")?;
        disk.set(PARAMS, "level=0")?;
        let again = size_with(&disk, "deflate", "deflate.winbits=15", &content)?;
        ensure!(
            again * 10 < default * 11,
            "a level that was replaced: {again} bytes, by default {default}"
        );
        Ok(())
    })
}

/// Random bytes that all come from `dictionary`, in pieces.
fn pieces(dictionary: &[u8], count: u64) -> Vec<Vec<u8>> {
    const PIECE: usize = 256;
    let mut rng = rng(9);
    (0..count)
        .map(|_| {
            let mut page = Vec::new();
            while page.len() < P as usize {
                let at = rng.below((dictionary.len() - PIECE) as u64) as usize;
                page.extend_from_slice(&dictionary[at..at + PIECE]);
            }
            page
        })
        .collect()
}

#[test]
fn a_fitting_dictionary_makes_blocks_smaller_and_all_come_back() -> Result<()> {
    let content: Vec<u8> = pages(Kind::Random, 11, 4).concat();
    let fitting = file("fitting", &content)?;
    let other = file("other", &pages(Kind::Random, 12, 4).concat())?;
    with_module("", || {
        let disk = Disk::new(0);
        let mut content = pieces(&content, 64);
        content.extend(pages(Kind::Text, 1, 16));
        content.extend(pages(Kind::Random, 2, 16));
        for algorithm in ["lz4", "zstd"] {
            let without = size_with(&disk, algorithm, " ", &content)?;
            let with = size_with(&disk, algorithm, &format!("dict={fitting}"), &content)?;
            let wrong = size_with(&disk, algorithm, &format!("dict={other}"), &content)?;
            ensure!(
                with * 2 < without && with * 2 < wrong,
                "{algorithm}: {without} bytes, with the dictionary {with}, with another {wrong}"
            );
            let both = format!("level=5 dict={fitting}");
            let both = size_with(&disk, algorithm, &both, &content)?;
            ensure!(both * 2 < without, "{algorithm} with a level: {both}");
        }
        Ok(())
    })
}

#[test]
fn a_dictionary_is_read_when_it_is_named() -> Result<()> {
    let content: Vec<u8> = pages(Kind::Random, 13, 2).concat();
    let path = file("gone", &content)?;
    with_module("", || {
        let disk = Disk::new(0);
        let content = pieces(&content, 32);
        let without = size_with(&disk, "zstd", " ", &content)?;
        disk.set("comp_algorithm", "zstd")?;
        disk.set(PARAMS, &format!("dict={path}"))?;
        std::fs::remove_file(&path)?;
        disk.set("disksize", "1M")?;
        let mut blocks = Blocks::of(&disk)?;
        blocks.write_all(&content)?;
        blocks.hold_all(&content)?;
        let with = compressed(&disk)?;
        ensure!(with * 2 < without, "{with} bytes, {without} without");
        drop(blocks);
        disk.reset()
    })
}
