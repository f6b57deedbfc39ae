// SPDX-License-Identifier: GPL-2.0

//! What `recomp_algorithm` and `recompress` show and refuse.

use anyhow::Result;
use nix::errno::Errno;
use rzram_guest::disk::Disk;
use rzram_guest::kernel::Log;
use rzram_guest::module::with_module;
use rzram_guest::target::target;

use crate::recompress::with_second;

#[test]
fn recomp_algorithm_lists_a_line_for_each_priority() -> Result<()> {
    if target().is_c_zram() {
        return Ok(());
    }
    with_module("", || {
        let disk = Disk::new(0);
        let list = |name: &str| target().algorithm_list(name);
        disk.shows("recomp_algorithm", "")?;
        disk.set("recomp_algorithm", "algo=zstd")?;
        disk.shows("recomp_algorithm", &format!("#1: {}", list("zstd")))?;
        disk.set("recomp_algorithm", "priority=3 algo=deflate\n")?;
        let both = format!("#1: {}#3: {}", list("zstd"), list("deflate"));
        disk.shows("recomp_algorithm", &both)?;
        disk.set("recomp_algorithm", "algo=\"lz4\" priority=1 foo=1")?;
        let both = format!("#1: {}#3: {}", list("lz4"), list("deflate"));
        disk.shows("recomp_algorithm", &both)?;
        for text in [
            "algo",
            "algo=",
            "zstd",
            " ",
            "\n",
            "priority=1",
            "foo=1",
            "algo=nonsense",
            "algo=zstd priority=0",
            "algo=zstd priority=4",
            "algo=zstd priority=-1",
            "algo=zstd priority=x",
            "algo=zstd priority=",
        ] {
            disk.refuses("recomp_algorithm", text, Errno::EINVAL)?;
        }
        let long = format!("algo={}", "a".repeat(128));
        disk.refuses("recomp_algorithm", &long, Errno::E2BIG)?;
        let range = "algo=zstd priority=99999999999";
        disk.refuses("recomp_algorithm", range, Errno::ERANGE)?;
        disk.shows("recomp_algorithm", &both)?;
        // The primary algorithm is not among them.
        disk.shows("comp_algorithm", &list(target().default_algorithm))?;
        disk.set("disksize", "1M")?;
        disk.shows("recomp_algorithm", &both)?;
        let mut log = Log::follow()?;
        disk.refuses("recomp_algorithm", "algo=zstd", Errno::EBUSY)?;
        log.expect("Can't change algorithm for initialized device")?;
        disk.refuses("recomp_algorithm", "algo=nonsense", Errno::EINVAL)?;
        disk.reset()?;
        disk.shows("recomp_algorithm", "")
    })
}

#[test]
fn recompress_refuses() -> Result<()> {
    if target().is_c_zram() {
        return Ok(());
    }
    with_second("lzo-rle", "zstd", |disk, _| {
        for text in [
            "type=idle",
            "type=huge",
            "type=huge_idle",
            "threshold=3000",
            "threshold=0",
            "max_pages=1 type=idle threshold=100",
            "max_pages=18446744073709551615",
            "algo=zstd",
            "priority=1",
            "algo=zstd priority=1",
            "foo=1",
            " ",
        ] {
            disk.set("recompress", text)?;
        }
        for text in [
            "type=",
            "type=all",
            "type=incompressible",
            "type",
            "idle",
            "huge",
            "threshold=",
            "threshold=x",
            "threshold=-1",
            "threshold=4096",
            "threshold=4000",
            "max_pages=x",
            "max_pages=-1",
            "priority=0",
            "priority=2",
            "priority=4",
            "priority=-1",
            "priority=x",
            "algo=lzo-rle",
            "algo=lz4",
            "algo=nonsense",
            "algo=lz4 priority=1",
        ] {
            disk.refuses("recompress", text, Errno::EINVAL)?;
        }
        for text in [
            "threshold=4294967296",
            "max_pages=18446744073709551616",
            "priority=2147483648",
        ] {
            disk.refuses("recompress", text, Errno::ERANGE)?;
        }
        Ok(())
    })
}

#[test]
fn recompress_needs_a_disk_and_a_second_algorithm() -> Result<()> {
    if target().is_c_zram() {
        return Ok(());
    }
    with_module("", || {
        let disk = Disk::new(0);
        disk.set("recomp_algorithm", "algo=zstd")?;
        disk.refuses("recompress", "type=idle", Errno::EINVAL)?;
        disk.reset()?;
        disk.set("disksize", "1M")?;
        disk.refuses("recompress", "type=idle", Errno::EINVAL)?;
        disk.refuses("recompress", "priority=1", Errno::EINVAL)?;
        disk.reset()
    })
}
