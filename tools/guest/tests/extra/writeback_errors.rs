// SPDX-License-Identifier: GPL-2.0

//! What the attributes of writeback show, take and refuse.

use anyhow::Result;
use nix::errno::Errno;
use rzram_guest::disk::Disk;
use rzram_guest::module::{with_disk, with_module};
use rzram_guest::pattern::Kind;
use rzram_guest::same;
use rzram_guest::target::target;

use crate::writeback::with_backing;
use rzram_guest::post::{bd, page, Ram};

#[test]
fn writeback_needs_a_disk_and_a_device() -> Result<()> {
    let _ram = Ram::new(64)?;
    with_module("", || {
        let disk = Disk::new(0);
        disk.refuses("writeback", "idle", Errno::EINVAL)?;
        disk.refuses("writeback", "nonsense", Errno::EINVAL)?;
        disk.set("backing_dev", Ram::NODE)?;
        disk.refuses("writeback", "idle", Errno::EINVAL)?;
        disk.reset()?;
        disk.set("disksize", "1M")?;
        disk.refuses("writeback", "idle", Errno::ENODEV)?;
        disk.refuses("writeback", "nonsense", Errno::ENODEV)?;
        disk.refuses("writeback", "page_index=99999", Errno::ENODEV)?;
        disk.shows("bd_stat", "       0        0        0\n")?;
        disk.reset()
    })
}

#[test]
fn writeback_refuses_what_it_does_not_know() -> Result<()> {
    with_backing(64, "zstd", |disk, blocks| {
        blocks.write(0, &page(Kind::Text, 1))?;
        for text in [
            "nonsense",
            "Idle",
            "idle-huge",
            "type=nonsense",
            "type",
            "page_index",
            "page_indexes=5",
            "page_indexes=",
            "page_index=x",
            "page_index=-1",
            "page_index=1x",
            "page_indexes=x-3",
            "page_indexes=3-x",
            "page_indexes=-3",
            "page_indexes=3-",
            "page_indexes=1-2-3",
        ] {
            disk.refuses("writeback", text, Errno::EINVAL)?;
        }
        for text in [
            "page_index=4096",
            "page_index=18446744073709551615",
            "page_index=18446744073709551616",
            "page_indexes=0-4096",
            "page_indexes=4096-4097",
            "page_indexes=5-3",
        ] {
            disk.refuses("writeback", text, Errno::ERANGE)?;
        }
        for text in [" ", "\n", "foo=1", "foo=1 bar=2", "page_index=4095"] {
            disk.set("writeback", text)?;
        }
        same("blocks written", 0, bd(disk)?.writes)?;
        // What was right before the mistake is not done either.
        disk.refuses("writeback", "page_index=0 page_index=x", Errno::EINVAL)?;
        same("blocks written", 0, bd(disk)?.writes)
    })
}

#[test]
fn limits_and_batches_take_numbers() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        for live in [false, true] {
            if live {
                disk.set("disksize", "1M")?;
            }
            for (text, shown) in [
                ("1", "1\n"),
                ("+5\n", "5\n"),
                ("0", "0\n"),
                ("18446744073709551615", "18446744073709551615\n"),
                ("007", "7\n"),
            ] {
                disk.set("writeback_limit", text)?;
                disk.shows("writeback_limit", shown)?;
            }
            for text in ["x", "-1", "1M", "0x10", "1 ", "\n", "18446744073709551616"] {
                disk.refuses("writeback_limit", text, Errno::EINVAL)?;
            }
            disk.shows("writeback_limit", "7\n")?;

            for (text, shown) in [("1", "1\n"), ("0", "0\n"), ("7\n", "1\n"), ("00", "0\n")] {
                disk.set("writeback_limit_enable", text)?;
                disk.shows("writeback_limit_enable", shown)?;
            }
            for text in ["on", "y", "-1", "\n", "18446744073709551616"] {
                disk.refuses("writeback_limit_enable", text, Errno::EINVAL)?;
            }

            if !live {
                disk.shows("writeback_batch_size", "32\n")?;
            }
            for (text, shown) in [
                ("1", "1\n"),
                ("4294967295", "4294967295\n"),
                ("32\n", "32\n"),
            ] {
                disk.set("writeback_batch_size", text)?;
                disk.shows("writeback_batch_size", shown)?;
            }
            for text in ["0", "x", "-1", "\n", "4294967296", "0x10"] {
                disk.refuses("writeback_batch_size", text, Errno::EINVAL)?;
            }
        }
        disk.reset()
    })
}

#[test]
fn compressed_writeback_is_yes_or_no_until_the_disk_is_set_up() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        disk.shows("compressed_writeback", "0\n")?;
        for (text, shown) in [
            ("1", "1\n"),
            ("n", "0\n"),
            ("yes please", "1\n"),
            ("off", "0\n"),
            ("on\n", "1\n"),
            ("False", "0\n"),
            ("T", "1\n"),
            ("d", "0\n"),
            ("E", "1\n"),
        ] {
            disk.set("compressed_writeback", text)?;
            disk.shows("compressed_writeback", shown)?;
        }
        for text in ["2", "o", "x", "\n", " 1", "-1"] {
            disk.refuses("compressed_writeback", text, Errno::EINVAL)?;
        }
        disk.set("disksize", "1M")?;
        disk.refuses("compressed_writeback", "0", Errno::EBUSY)?;
        disk.refuses("compressed_writeback", "x", Errno::EINVAL)?;
        disk.shows("compressed_writeback", "1\n")?;
        disk.reset()
    })
}

#[test]
fn a_reset_makes_these_new_as_well() -> Result<()> {
    if target().is_c_zram() {
        return Ok(()); // it keeps them
    }
    with_module("", || {
        let disk = Disk::new(0);
        disk.set("writeback_limit", "5")?;
        disk.set("writeback_limit_enable", "1")?;
        disk.set("writeback_batch_size", "5")?;
        disk.set("compressed_writeback", "1")?;
        disk.reset()?;
        disk.shows("writeback_limit", "0\n")?;
        disk.shows("writeback_limit_enable", "0\n")?;
        disk.shows("writeback_batch_size", "32\n")?;
        disk.shows("compressed_writeback", "0\n")
    })
}

#[test]
fn modes_are_those_of_zram() -> Result<()> {
    with_disk("1M", |disk| {
        for (names, mode) in [
            (&["bd_stat"][..], 0o444),
            (&["idle", "algorithm_params", "writeback"], 0o200),
            (
                &[
                    "backing_dev",
                    "writeback_limit",
                    "writeback_limit_enable",
                    "writeback_batch_size",
                    "compressed_writeback",
                ],
                0o644,
            ),
        ] {
            for name in names {
                same(*name, mode, rzram_guest::attr::mode(&disk.sys(name))?)?;
            }
        }
        if target().is_c_zram() {
            return Ok(());
        }
        for (name, mode) in [
            ("recompress", 0o200),
            ("recomp_algorithm", 0o644),
            ("memory_stat", 0o444),
        ] {
            same(name, mode, rzram_guest::attr::mode(&disk.sys(name))?)?;
        }
        Ok(())
    })
}
