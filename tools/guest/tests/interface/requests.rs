// SPDX-License-Identifier: GPL-2.0

//! Every shape of I/O, and what a disk cannot do.

use std::io::{IoSlice, IoSliceMut};

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use nix::sys::uio::{preadv, pwritev};
use rzram_guest::buf::{Guarded, Mapping};
use rzram_guest::disk::Disk;
use rzram_guest::module::{with_disk, with_module};
use rzram_guest::{blk, pattern, same, MIB, PAGE};

const P: u64 = PAGE as u64;

#[test]
fn large_direct_io_is_right_in_small_and_in_huge_pages() -> Result<()> {
    with_disk("64M", |disk| {
        let file = disk.direct()?;
        for (what, huge) in [("small pages", false), ("huge pages", true)] {
            let len = 5 * MIB as usize;
            let map = |len| {
                if huge {
                    Mapping::huge(len)
                } else {
                    Mapping::new(len)
                }
            };
            let (mut data, mut back) = (map(len)?, map(len)?);
            pattern::fill_all(u64::from(huge), 0, &mut data);
            for (at, len) in [
                (0, len),
                (7 * P, 3 * MIB as usize + PAGE),
                (40 * MIB, MIB as usize),
            ] {
                blk::write(&file, &data[..len], at)?;
                back[..len].fill(0xee);
                blk::read(&file, &mut back[..len], at)?;
                blk::equal(
                    &format!("{len} bytes at {at} from {what}"),
                    &data[..len],
                    &back[..len],
                )?;
            }
        }
        Ok(())
    })
}

/// Lengths of segments: each a multiple of 512, blocks split in every way, whole and joined pages.
const SEGMENTS: [&[usize]; 7] = [
    &[512, 3584, 4096],
    &[3584, 512, 512, 3584],
    &[512, 512, 512, 512, 512, 512, 512, 512],
    &[1536, 8192, 2560],
    &[4096, 512, 7680, 4096, 3584, 512],
    &[2048, 4096, 4096, 4096, 2048],
    &[512, 65536, 3584, 1024, 131072, 3072],
];

#[test]
fn vectors_of_odd_segments_are_gathered_and_scattered() -> Result<()> {
    with_disk("64M", |disk| {
        let file = disk.direct()?;
        for (case, lengths) in SEGMENTS.iter().enumerate() {
            let total: usize = lengths.iter().sum();
            let mut expected = Mapping::new(total)?;
            pattern::fill_all(case as u64, 0, &mut expected);
            // The segments lie apart from one another, at various offsets inside their pages.
            let mut source = Mapping::new(lengths.len() * (1 << 18))?;
            let mut ranges = Vec::new();
            let mut done = 0;
            for (n, len) in lengths.iter().enumerate() {
                let start = n * (1 << 18) + 512 * ((n * 3 + case) % 8);
                source[start..start + len].copy_from_slice(&expected[done..done + len]);
                ranges.push(start..start + len);
                done += len;
            }
            let slices: Vec<_> = ranges
                .iter()
                .map(|r| IoSlice::new(&source[r.clone()]))
                .collect();
            same(
                format!("pwritev of {lengths:?}"),
                Ok(total),
                pwritev(&file, &slices, 8 * P as i64),
            )?;
            let mut back = Mapping::new(total)?;
            blk::read(&file, &mut back, 8 * P)?;
            blk::equal(&format!("written as {lengths:?}"), &expected, &back)?;

            source.fill(0xa5);
            let mut rest: &mut [u8] = &mut source;
            let (mut slices, mut at) = (Vec::new(), 0);
            for range in &ranges {
                let (_, tail) = rest.split_at_mut(range.start - at);
                let (this, tail) = tail.split_at_mut(range.len());
                slices.push(IoSliceMut::new(this));
                rest = tail;
                at = range.end;
            }
            same(
                format!("preadv of {lengths:?}"),
                Ok(total),
                preadv(&file, &mut slices, 8 * P as i64),
            )?;
            let (mut done, mut at) = (0, 0);
            for range in &ranges {
                let what = format!("read as {lengths:?}, segment {range:?}");
                blk::equal(
                    &what,
                    &expected[done..done + range.len()],
                    &source[range.clone()],
                )?;
                let between = &source[at..range.start];
                ensure!(
                    between.iter().all(|b| *b == 0xa5),
                    "{what}: memory before it changed"
                );
                done += range.len();
                at = range.end;
            }
            ensure!(
                source[at..].iter().all(|b| *b == 0xa5),
                "{lengths:?}: memory behind changed"
            );
        }
        Ok(())
    })
}

#[test]
fn buffered_io_of_odd_sizes_survives_dropping_the_cache() -> Result<()> {
    with_disk("16M", |disk| {
        let file = disk.buffered()?;
        let mut model = vec![0; 4 * MIB as usize];
        let mut rng = pattern::Rng::new(11, 0);
        for round in 0..120 {
            let at = rng.below(4 * MIB - 40_000) as usize;
            let len = 1 + rng.below(40_000) as usize;
            let kind = pattern::mixed(12, round);
            pattern::fill(kind, round, &mut model[at..at + len]);
            blk::write(&file, &model[at..at + len], at as u64)?;
            if round % 20 == 0 {
                file.sync_all().context("fsync")?;
                blk::flush_buffers(&file)?;
            }
        }
        file.sync_all().context("fsync")?;
        file.sync_data().context("fdatasync")?;
        blk::flush_buffers(&file)?;
        let mut back = vec![0xee; model.len()];
        blk::read(&file, &mut back, 0)?;
        blk::equal("after 120 buffered writes", &model, &back)
    })
}

#[test]
fn what_a_disk_cannot_do_is_refused_with_the_right_error() -> Result<()> {
    with_disk("16M", |disk| {
        let (file, end) = (disk.direct()?, 16 * MIB);
        let mut page = Mapping::new(2 * PAGE)?;
        blk::fails_with(
            "a 512-byte direct write",
            Errno::EINVAL,
            blk::try_write(&file, &page[..512], 0),
        )?;
        blk::fails_with(
            "a 512-byte direct read",
            Errno::EINVAL,
            blk::try_read(&file, &mut page[..512], 0),
        )?;
        blk::fails_with(
            "a direct write at 512",
            Errno::EINVAL,
            blk::try_write(&file, &page, 512),
        )?;
        blk::fails_with(
            "a write at the end",
            Errno::ENOSPC,
            blk::try_write(&file, &page, end),
        )?;
        blk::fails_with(
            "a write past the end",
            Errno::ENOSPC,
            blk::try_write(&file, &page, end + MIB),
        )?;
        same(
            "a read at the end",
            Ok(0),
            blk::try_read(&file, &mut page, end),
        )?;
        same(
            "a write across the end",
            Ok(PAGE),
            blk::try_write(&file, &page, end - P),
        )?;
        same(
            "a read across the end",
            Ok(PAGE),
            blk::try_read(&file, &mut page, end - P),
        )?;
        file.sync_all().context("fsync")?;
        blk::fails_with(
            "BLKSECDISCARD",
            Errno::EOPNOTSUPP,
            blk::secure_discard(&file, 0, P),
        )?;
        let nowait = pwritev2(&file, &page[..PAGE], libc::RWF_NOWAIT);
        blk::fails_with("a write with RWF_NOWAIT", Errno::EOPNOTSUPP, nowait)?;
        same(
            "a write with RWF_DSYNC",
            Ok(PAGE),
            pwritev2(&file, &page[..PAGE], libc::RWF_DSYNC),
        )?;
        same(
            "failed reads and writes",
            (0, 0),
            (disk.io()?.failed_reads, disk.io()?.failed_writes),
        )
    })
}

fn pwritev2(file: &std::fs::File, data: &[u8], flags: i32) -> nix::Result<usize> {
    let iov = libc::iovec {
        iov_base: data.as_ptr() as *mut _,
        iov_len: data.len(),
    };
    let fd = std::os::fd::AsRawFd::as_raw_fd(file);
    // SAFETY: the vector describes `data`, which is only read.
    let len = unsafe { libc::pwritev2(fd, &iov, 1, 0, flags) };
    Errno::result(len).map(|len| len as usize)
}

#[test]
fn a_disk_without_a_size_has_nothing_to_read_or_write() -> Result<()> {
    with_module("", || {
        let file = Disk::new(0).direct()?;
        let mut page = Mapping::new(PAGE)?;
        same("reading", Ok(0), blk::try_read(&file, &mut page, 0))?;
        blk::fails_with("writing", Errno::ENOSPC, blk::try_write(&file, &page, 0))
    })
}

#[test]
fn the_block_layers_stat_counts_reads_and_writes() -> Result<()> {
    with_disk("16M", |disk| {
        let numbers = || -> Result<Vec<u64>> {
            Ok(disk
                .get("stat")?
                .split_whitespace()
                .map(str::parse)
                .collect::<Result<_, _>>()?)
        };
        let file = disk.direct()?;
        let mut data = Mapping::new(MIB as usize)?;
        let before = numbers()?;
        blk::write(&file, &data, 0)?;
        blk::read(&file, &mut data, 0)?;
        blk::read(&file, &mut data, 0)?;
        let after = numbers()?;
        same("sectors read", 2 * 2048, after[2] - before[2])?;
        same("sectors written", 2048, after[6] - before[6])?;
        ensure!(
            after[0] > before[0] && after[4] > before[4],
            "no reads or writes counted: {after:?}"
        );
        same("in flight at rest", 0, after[8])
    })
}

#[test]
fn memory_that_is_not_aligned_to_512_is_refused_or_right_but_never_spoilt() -> Result<()> {
    with_disk("16M", |disk| {
        let file = disk.direct()?;
        let mut whole = Mapping::new(4 * PAGE)?;
        pattern::fill_all(1, 0, &mut whole);
        blk::write(&file, &whole, 0)?;
        for shift in [1, 4, 256, 511, 513, 1000, 4095] {
            let mut data = Guarded::new(2 * PAGE, shift)?;
            data.fill(0xee);
            let came = blk::try_read(&file, &mut data, 0);
            data.check_guards()
                .with_context(|| format!("reading to an address {shift} past a page"))?;
            match came {
                Err(Errno::EINVAL) => (),
                Ok(len) if len == 2 * PAGE => blk::equal("what was read", &whole[..len], &data)?,
                other => same("reading", Ok(2 * PAGE), other)?,
            }
        }
        Ok(())
    })
}

#[test]
fn polled_reads_work() -> Result<()> {
    with_disk("16M", |disk| {
        let file = disk.direct()?;
        let (mut data, mut back) = (Mapping::new(PAGE)?, Mapping::new(PAGE)?);
        pattern::fill(pattern::Kind::Text, 1, &mut data);
        blk::write(&file, &data, 0)?;
        let iov = libc::iovec {
            iov_base: back.as_mut_ptr().cast(),
            iov_len: PAGE,
        };
        let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
        // SAFETY: the vector describes `back`, which lives longer than the call.
        let len = unsafe { libc::preadv2(fd, &iov, 1, 0, libc::RWF_HIPRI) };
        same(
            "preadv2 with RWF_HIPRI",
            Ok(PAGE as isize),
            Errno::result(len),
        )?;
        blk::equal("a polled read", &data, &back)
    })
}

#[test]
fn a_mapped_node_is_written_back_and_read_in() -> Result<()> {
    with_disk("16M", |disk| {
        let file = disk.buffered()?;
        let len = 64 * PAGE;
        // SAFETY: a new mapping of the node, which only this test uses.
        let base = unsafe {
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
            libc::mmap(std::ptr::null_mut(), len, rights, libc::MAP_SHARED, fd, 0)
        };
        ensure!(base != libc::MAP_FAILED, "mapping the node failed");
        // SAFETY: the mapping is `len` bytes long and stays until the end of the block.
        let mapped = unsafe { std::slice::from_raw_parts_mut(base.cast::<u8>(), len) };
        ensure!(
            mapped.iter().all(|b| *b == 0),
            "a new disk is not all zeros"
        );
        pattern::fill_all(8, 0, mapped);
        let expected = mapped.to_vec();
        // SAFETY: the range is the mapping; nothing refers to it after it is unmapped.
        unsafe {
            same("msync", 0, libc::msync(base, len, libc::MS_SYNC))?;
            same("munmap", 0, libc::munmap(base, len))?;
        }
        blk::flush_buffers(&file)?;
        drop(file);
        let mut back = Mapping::new(len)?;
        blk::read(&disk.direct()?, &mut back, 0)?;
        blk::equal("what was written through a mapping", &expected, &back)
    })
}
