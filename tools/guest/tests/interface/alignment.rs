// SPDX-License-Identifier: GPL-2.0

//! Direct I/O from and to memory at every alignment that the queue advertises (`dma_alignment`
//! 511: any multiple of 512), between guard bytes, on the raw disk and through a file.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;

use anyhow::{Context, Result};
use rzram_guest::buf::Guarded;
use rzram_guest::kernel::load_ext4;
use rzram_guest::module::{scratch, with_disk, with_module};
use rzram_guest::run::run;
use rzram_guest::target::target;
use rzram_guest::{blk, disk::Disk, pattern, PAGE};

/// Writes from one alignment, reads back into every other, and compares.
fn every_pair_of_alignments(what: &str, file: &File, pages: usize, at: u64) -> Result<()> {
    let len = pages * PAGE;
    for from in 0..8 {
        let seed = at + pages as u64 * 8 + from as u64;
        let mut data = Guarded::new(len, from * 512)?;
        pattern::fill_all(seed, 0, &mut data);
        blk::write(file, &data, at)?;
        let case = format!("{what}, {pages} pages written from {from}*512");
        data.check_guards().with_context(|| case.clone())?;
        let mut expected = vec![0; len];
        pattern::fill_all(seed, 0, &mut expected);
        blk::equal(
            &format!("{case}: the source after writing"),
            &expected,
            &data,
        )?;
        for into in 0..8 {
            let mut back = Guarded::new(len, into * 512)?;
            back.fill(0xee);
            blk::read(file, &mut back, at)?;
            let case = format!("{case}, read into {into}*512");
            back.check_guards().with_context(|| case.clone())?;
            blk::equal(&case, &expected, &back)?;
        }
    }
    Ok(())
}

#[test]
fn raw_direct_io_works_at_every_multiple_of_512() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        for algorithm in target().algorithms {
            disk.set_up(algorithm, "16M")?;
            let file = disk.direct()?;
            for pages in [1, 2, 3, 17] {
                every_pair_of_alignments(algorithm, &file, pages, 5 * PAGE as u64)?;
            }
            drop(file);
            disk.reset()?;
        }
        Ok(())
    })
}

#[test]
fn unaligned_reads_of_empty_and_same_filled_blocks_stay_inside_the_buffer() -> Result<()> {
    with_disk("16M", |disk| {
        let file = disk.direct()?;
        let mut word = vec![0; PAGE];
        for (block, fill) in [(1, 0), (3, 0x0123_4567_89ab_cdef_u64), (5, u64::MAX)] {
            pattern::fill(pattern::Kind::Word(fill), 0, &mut word);
            let mut data = Guarded::new(PAGE, 512 * block as usize)?;
            data.copy_from_slice(&word);
            blk::write(&file, &data, block * PAGE as u64)?;
        }
        for shift in 0..8 {
            let mut back = Guarded::new(7 * PAGE, shift * 512)?;
            back.fill(0xee);
            blk::read(&file, &mut back, 0)?;
            back.check_guards()?;
            let mut expected = vec![0; 7 * PAGE];
            pattern::fill(
                pattern::Kind::Word(0x0123_4567_89ab_cdef),
                0,
                &mut expected[3 * PAGE..4 * PAGE],
            );
            expected[5 * PAGE..6 * PAGE].fill(0xff);
            blk::equal(&format!("read into {shift}*512"), &expected, &back)?;
        }
        Ok(())
    })
}

#[test]
fn direct_io_through_a_file_on_ext4_works_at_every_multiple_of_512() -> Result<()> {
    load_ext4()?;
    with_disk("64M", |disk| {
        let at = scratch("alignment")?;
        let mount = at.to_string_lossy().into_owned();
        run("mkfs.ext4", &["-q", "-b", "4096", &disk.node()])?;
        run("mount", &[&disk.node(), &mount])?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(libc::O_DIRECT)
            .open(at.join("file"))?;
        for pages in [1, 2, 16] {
            every_pair_of_alignments("a file", &file, pages, 3 * PAGE as u64)?;
        }
        drop(file);
        run("umount", &[&mount])?;
        run("e2fsck", &["-fn", &disk.node()]).map(drop)
    })
}
