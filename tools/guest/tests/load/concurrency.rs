// SPDX-License-Identifier: GPL-2.0

//! Many threads on the same blocks, and user space that changes a page while it is written.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{ensure, Result};
use rzram_guest::buf::Mapping;
use rzram_guest::disk::Disk;
use rzram_guest::module::{with_disk, with_module};
use rzram_guest::pattern::{self, Kind};
use rzram_guest::stress::{discarder, owner, reader, statistician, together, writer, Until};
use rzram_guest::target::target;
use rzram_guest::{blk, same, MIB, PAGE};

const P: u64 = PAGE as u64;

#[test]
fn readers_writers_and_discarders_on_the_same_blocks_leave_exact_statistics() -> Result<()> {
    with_disk("1M", |disk| {
        for blocks in [1, 2, 256] {
            let until = Until::after(Duration::from_millis(2500));
            together(
                &until,
                vec![
                    ("writer 1", writer(*disk, blocks, 1)),
                    ("writer 2", writer(*disk, blocks, 2)),
                    ("reader 1", reader(*disk, blocks, 3)),
                    ("reader 2", reader(*disk, blocks, 4)),
                    ("discarder", discarder(*disk, blocks, 5)),
                    ("mm_stat", statistician(*disk, blocks * P)),
                ],
            )?;
            ensure!(
                until.done.load(Ordering::Relaxed) > 500,
                "hardly anything was done"
            );
            // At rest the number of pages is the number of blocks that are not zeros by discard.
            ensure!(disk.mm()?.orig <= blocks * P, "{:?}", disk.mm()?);
            blk::discard(&disk.direct()?, 0, MIB)?;
            disk.wait_empty()?;
            same("miss_free", 0, disk.debug()?.miss_free)?;
            same(
                "failed I/O",
                (0, 0),
                (disk.io()?.failed_reads, disk.io()?.failed_writes),
            )?;
        }
        Ok(())
    })
}

#[test]
fn owners_of_neighbouring_blocks_never_see_each_other() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        for algorithm in target().algorithms {
            disk.set_up(algorithm, "64M")?;
            let until = Until::after(Duration::from_millis(1200));
            let owners = (0..4)
                .map(|n| ("an owner", owner(disk, n * 61, 61, n)))
                .chain([("mm_stat", statistician(disk, 64 * MIB))])
                .collect();
            together(&until, owners)?;
            disk.reset()?;
        }
        Ok(())
    })
}

#[test]
fn a_page_that_changes_while_it_is_written_harms_no_other_block() -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        for algorithm in target().algorithms {
            disk.set_up(algorithm, "8M")?;
            changing_pages(disk)?;
            disk.reset()?;
        }
        Ok(())
    })
}

fn changing_pages(disk: Disk) -> Result<()> {
    let file = disk.direct()?;
    // Blocks 0 and 2 stay as they are, block 1 is written from memory that changes all the time.
    let (mut calm, mut back) = (Mapping::new(PAGE)?, Mapping::new(PAGE)?);
    for block in [0, 2] {
        pattern::stamp(block, 6, &mut calm);
        blk::write(&file, &calm, block * P)?;
    }
    let shared = Mapping::new(PAGE)?;
    let (address, len) = shared.raw();
    let words = address as usize;
    let stop = AtomicBool::new(false);
    let changes = AtomicU64::new(0);
    std::thread::scope(|scope| -> Result<()> {
        scope.spawn(|| {
            let mut rng = pattern::Rng::new(1, 1);
            let mut fresh = vec![0; PAGE];
            while !stop.load(Ordering::Relaxed) {
                // From same-filled to random to text, now and then whole pages, now and then a word.
                let kind =
                    [Kind::Word(3), Kind::Random, Kind::Text, Kind::Records][rng.below(4) as usize];
                pattern::fill(kind, rng.next(), &mut fresh);
                for at in (0..len).step_by(8) {
                    let mut word = [0; 8];
                    word.copy_from_slice(&fresh[at..at + 8]);
                    // SAFETY: inside the mapping, which outlives the scope; the kernel alone reads
                    // it meanwhile, and a torn read is what this test is for.
                    unsafe { ((words + at) as *mut u64).write_volatile(u64::from_le_bytes(word)) };
                }
                changes.fetch_add(1, Ordering::Relaxed);
            }
        });
        let outcome = (|| {
            // On a busy machine the other thread may hardly run: until it has, or for long enough.
            let start = Instant::now();
            let raced = || changes.load(Ordering::Relaxed) > 100;
            for round in 0.. {
                if round >= 400 && (raced() || start.elapsed() > Duration::from_secs(15)) {
                    break;
                }
                // SAFETY: only passed on to `pwrite` and `pread`.
                let racing = unsafe { std::slice::from_raw_parts(address, len) };
                same("a racing write", Ok(PAGE), blk::try_write(&file, racing, P))?;
                if round % 8 == 0 {
                    // Whatever it holds now, reading it must not hurt.
                    same("reading it", Ok(PAGE), blk::try_read(&file, &mut back, P))?;
                    for block in [0, 2] {
                        blk::read(&file, &mut back, block * P)?;
                        pattern::stamp(block, 6, &mut calm);
                        blk::equal(&format!("block {block}, which nobody wrote"), &calm, &back)?;
                    }
                }
            }
            Ok(())
        })();
        stop.store(true, Ordering::Relaxed);
        outcome
    })?;
    ensure!(
        changes.load(Ordering::Relaxed) > 100,
        "the page hardly changed"
    );
    pattern::stamp(1, 7, &mut calm);
    blk::write(&file, &calm, P)?;
    blk::read(&file, &mut back, P)?;
    blk::equal("block 1, written again from calm memory", &calm, &back)?;
    same("orig_data_size", 3 * P, disk.mm()?.orig)?;
    blk::discard(&file, 0, 3 * P)?;
    drop(file);
    disk.wait_empty()
}

#[test]
fn compaction_and_statistics_beside_io_disturb_nothing() -> Result<()> {
    with_disk("32M", |disk| {
        let until = Until::after(Duration::from_millis(2500));
        together(
            &until,
            vec![
                ("owner 1", owner(*disk, 0, 1500, 1)),
                ("owner 2", owner(*disk, 1500, 1500, 2)),
                ("mm_stat", statistician(*disk, 32 * MIB)),
                (
                    "attributes",
                    Box::new(|until: &Until| {
                        while until.more() {
                            disk.set("compact", "1")?;
                            disk.set("mem_used_max", "0")?;
                            disk.set("mem_limit", "1G")?;
                            for name in [
                                "io_stat",
                                "debug_stat",
                                "comp_algorithm",
                                "disksize",
                                "initstate",
                            ] {
                                disk.get(name)?;
                            }
                        }
                        Ok(())
                    }),
                ),
            ],
        )
    })
}

#[test]
fn the_number_of_streams_changes_under_load() -> Result<()> {
    with_disk("32M", |disk| {
        let until = Until::after(Duration::from_millis(2500));
        let mut work = vec![(
            "streams",
            Box::new(|until: &Until| {
                let mut rng = pattern::Rng::new(1, 9);
                while until.more() {
                    let streams = 1 + rng.below(4);
                    disk.set("max_comp_streams", &streams.to_string())?;
                    disk.shows("max_comp_streams", &format!("{streams}\n"))?;
                    std::thread::sleep(Duration::from_millis(2));
                }
                Ok(())
            }) as rzram_guest::stress::Work<'_>,
        )];
        work.extend((0..3).map(|n| ("an owner", owner(*disk, n * 500, 500, n))));
        together(&until, work)
    })
}
