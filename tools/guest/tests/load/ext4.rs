// SPDX-License-Identifier: GPL-2.0

//! A real file system with a real tree of files on it.

use std::fs;

use anyhow::{ensure, Context, Result};
use rzram_guest::disk::Disk;
use rzram_guest::kernel::{drop_caches, load_ext4};
use rzram_guest::module::{scratch, with_module};
use rzram_guest::run::run;
use rzram_guest::target::target;
use rzram_guest::tree::{real_tree, Tree};
use rzram_guest::MIB;

#[test]
fn a_real_tree_survives_caches_dropped_remounts_deletions_and_trims() -> Result<()> {
    load_ext4()?;
    with_module("", || {
        let disk = Disk::new(0);
        disk.set_up(target().default_algorithm, "160M")?;
        let at = scratch("ext4")?;
        let (node, mount) = (disk.node(), at.to_string_lossy().into_owned());
        run("mkfs.ext4", &["-q", &node])?;
        run("mount", &[&node, &mount])?;
        let tree = Tree::copy(real_tree(), &at.join("one"), 32 * MIB)?;
        ensure!(
            tree.entries() > 20,
            "a tree of {} entries is none",
            tree.entries()
        );
        drop_caches()?;
        tree.compare().context("after dropping caches")?;
        run("umount", &[&mount])?;
        run("e2fsck", &["-fn", &node])?;
        run("mount", &["-o", "discard", &node, &mount])?;
        tree.compare().context("after mounting it again")?;

        let full = disk.mm()?;
        ensure!(full.compr < full.orig, "nothing was compressed: {full:?}");
        let again = Tree::copy(real_tree(), &at.join("two"), 16 * MIB)?;
        fs::remove_dir_all(at.join("one")).context("deleting the first copy")?;
        drop_caches()?;
        run("fstrim", &[&mount])?;
        let less = disk.mm()?;
        ensure!(
            less.orig + 8 * MIB < full.orig,
            "deleting and trimming freed too little\n  before: {full:?}\n  after:  {less:?}"
        );
        again
            .compare()
            .context("the second copy after deleting the first")?;
        run("umount", &[&mount])?;
        run("e2fsck", &["-fn", &node])?;
        disk.reset()
    })
}

#[test]
fn an_ext4_that_runs_into_the_limit_keeps_what_was_synced() -> Result<()> {
    load_ext4()?;
    with_module("", || {
        let disk = Disk::new(0);
        disk.set_up(target().default_algorithm, "64M")?;
        let at = scratch("ext4-limit")?;
        let (node, mount) = (disk.node(), at.to_string_lossy().into_owned());
        // Without a journal, so that an error stays with the file it belongs to.
        run("mkfs.ext4", &["-q", "-O", "^has_journal", &node])?;
        run("mount", &["-o", "errors=continue", &node, &mount])?;
        let kept = Tree::copy(real_tree(), &at.join("kept"), 8 * MIB)?;
        nix::unistd::sync();
        disk.set("mem_limit", "1M")?; // less than is used: no new object goes in
        let mut data = vec![0; 4 * MIB as usize];
        rzram_guest::pattern::fill(rzram_guest::pattern::Kind::Random, 1, &mut data);
        fs::write(at.join("too-much"), &data).context("into the page cache it goes")?;
        let error = fs::File::open(at.join("too-much"))?.sync_all();
        ensure!(
            error.is_err(),
            "fsync succeeded although nothing could be stored"
        );
        ensure!(disk.io()?.failed_writes > 0, "no failed write was counted");
        disk.set("mem_limit", "0")?;
        drop_caches()?;
        kept.compare().context("what was synced before")?;
        fs::write(at.join("again"), &data)?;
        fs::File::open(at.join("again"))?
            .sync_all()
            .context("fsync without a limit")?;
        drop_caches()?;
        ensure!(
            fs::read(at.join("again"))? == data,
            "what was written without a limit came back wrong"
        );
        run("umount", &[&mount])?;
        disk.reset()
    })
}
