// SPDX-License-Identifier: GPL-2.0

//! Blocks are recompressed, written back, marked and moved together, all the time, while they are read and written, freed
//! by swap, while CPUs come and go, and while the same happens to other disks.

use std::ffi::CString;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use rzram_guest::disk::Disk;
use rzram_guest::hog::Hog;
use rzram_guest::kernel::{cpu_online, EarlyReclaim};
use rzram_guest::module::with_module;
use rzram_guest::post::{bd, Ram, P};
use rzram_guest::run::run;
use rzram_guest::stress::{discarder, owner, reader, statistician, together, writer, Until, Work};
use rzram_guest::{blk, same, MIB};

use super::crowd::{enough, over_and_over, swap_on_and_off, time, Count};

/// What writeback says where there is no room, or nothing more is allowed.
const SHORT: [Errno; 2] = [Errno::ENOSPC, Errno::EIO];

/// Sets a disk up that can do everything.
fn set_up(disk: &Disk, n: u32, algorithm: &str, size: &str) -> Result<()> {
    disk.set("recomp_algorithm", "algo=zstd priority=1")?;
    disk.set("recomp_algorithm", "algo=deflate priority=3")?;
    disk.set("compressed_writeback", if n % 2 == 0 { "1" } else { "0" })?;
    disk.set("backing_dev", &Ram::node(n))?;
    disk.set_up(algorithm, size)
}

/// What is done to blocks that are stored, in turns.
fn post_process(disk: Disk, count: &Count) -> Work<'_> {
    const STEPS: [(&str, &str); 10] = [
        ("idle", "all"),
        ("recompress", "type=idle priority=1 max_pages=60"),
        ("idle", "all"),
        ("writeback", "type=idle"),
        ("compact", "1"),
        ("recompress", "threshold=100 priority=3 max_pages=30"),
        ("writeback", "page_indexes=0-40"),
        ("idle", "all"),
        ("writeback", "huge_idle"),
        ("mem_used_max", "0"),
    ];
    over_and_over("post-processing", count, &SHORT, move |n| {
        // The others are to get something done as well.
        std::thread::sleep(Duration::from_micros(500));
        let (attribute, value) = STEPS[n as usize % STEPS.len()];
        disk.put(attribute, value)
    })
}

/// Takes CPU 1 away and brings it back.
fn plug(count: &Count) -> Work<'_> {
    over_and_over("CPU hotplug", count, &[Errno::EBUSY], |_| {
        let came = cpu_online(1, false).and_then(|()| cpu_online(1, true));
        std::thread::sleep(Duration::from_millis(50));
        came.map_err(|_| Errno::EBUSY)
    })
}

/// Counts how often blocks were written to, and read from, the backing device.
fn moves(disk: Disk, count: &Count) -> Work<'_> {
    Box::new(move |until| {
        while until.more() {
            let stat = bd(&disk)?;
            if stat.writes.min(stat.reads) > count.get() {
                count.add("moves", Ok(()), &[])?;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    })
}

#[test]
fn readers_writers_and_discarders_of_the_same_blocks() -> Result<()> {
    const ROUNDS: u64 = 120;
    let _ram = Ram::new(256)?;
    with_module("", || {
        let disk = Disk::new(0);
        for (n, blocks) in [(0, 2), (1, 256)] {
            set_up(&disk, 0, ["lz4", "lzo-rle"][n], "1M")?;
            let counts: [Count; 4] = Default::default();
            let [one, two, plugs, moved] = &counts;
            let until = Until::after(time());
            together(
                &until,
                vec![
                    ("writer", writer(disk, blocks, 1)),
                    ("reader", reader(disk, blocks, 2)),
                    ("discarder", discarder(disk, blocks, 3)),
                    ("post", post_process(disk, one)),
                    ("more post", post_process(disk, two)),
                    ("hotplug", plug(plugs)),
                    ("mm_stat", statistician(disk, MIB)),
                    ("moves", moves(disk, moved)),
                    (
                        "enough",
                        enough(vec![("rounds", one, ROUNDS), ("blocks moved", moved, 10)]),
                    ),
                ],
            )?;
            cpu_online(1, true)?;
            let stat = bd(&disk)?;
            println!(
                "{blocks} blocks: {} and {} times, CPU 1 came back {}; {stat:?}, {} operations",
                one.show(),
                two.show(),
                plugs.show(),
                until.done.load(Ordering::Relaxed)
            );
            blk::discard(&disk.direct()?, 0, MIB)?;
            disk.wait_empty()?;
            same("blocks on the device", 0, bd(&disk)?.count)?;
            disk.reset()?;
        }
        Ok(())
    })
}

#[test]
fn owners_on_several_disks_find_what_they_wrote() -> Result<()> {
    const ROUNDS: u64 = 80;
    let _ram = Ram::several(3, 512)?;
    with_module("num_devices=3", || {
        let disks = [Disk::new(0), Disk::new(1), Disk::new(2)];
        for (n, disk) in disks.iter().enumerate() {
            set_up(disk, n as u32, ["lz4", "zstd", "lzo"][n], "2M")?;
        }
        let counts: [Count; 4] = Default::default();
        let [one, two, three, plugs] = &counts;
        let until = Until::after(time());
        let mut work = vec![
            ("post 0", post_process(disks[0], one)),
            ("post 1", post_process(disks[1], two)),
            ("post 2", post_process(disks[2], three)),
            ("hotplug", plug(plugs)),
            ("mm_stat", statistician(disks[0], 2 * MIB)),
        ];
        work.push(("enough", enough(vec![("rounds", one, ROUNDS)])));
        for disk in disks {
            work.push(("an owner", owner(disk, 0, 200, 1)));
            work.push(("another owner", owner(disk, 200, 200, 2)));
        }
        together(&until, work)?;
        cpu_online(1, true)?;
        println!(
            "{}, {}, {} times; CPU 1 came back {}; {} operations",
            one.show(),
            two.show(),
            three.show(),
            plugs.show(),
            until.done.load(Ordering::Relaxed)
        );
        for disk in &disks {
            let stat = bd(disk)?;
            println!("{}: {stat:?}", disk.name());
            ensure!(stat.writes > 20, "{}: {stat:?}", disk.name());
            disk.reset()?;
        }
        Ok(())
    })
}

#[test]
fn resets_and_removals_wait_for_what_goes_on() -> Result<()> {
    const ROUNDS: u64 = 20;
    let _ram = Ram::new(512)?;
    with_module("", || {
        let disk = Disk::new(0);
        let gone = [
            Errno::ENOSPC,
            Errno::EIO,
            Errno::EINVAL,
            Errno::ENODEV,
            Errno::ENOENT,
        ];
        let counts: [Count; 4] = Default::default();
        let [downs, posts, more, header] = &counts;
        let until = Until::after(time());
        let busy = |what, count, attribute: &'static str, value: &'static str| {
            over_and_over(what, count, &gone, move |_| disk.put(attribute, value))
        };
        let life: Work<'_> = Box::new(|until| {
            let mut page = rzram_guest::buf::Mapping::new(256 * 4096)?;
            for round in 0..ROUNDS {
                set_up(&disk, 0, "lz4", "1M").context("setting up")?;
                rzram_guest::pattern::fill_all(round, 0, &mut page);
                blk::write(&disk.direct()?, &page, 0)?;
                std::thread::sleep(Duration::from_millis(round % 7));
                if round % 3 == 2 {
                    disk.hot_remove().context("hot_remove")?;
                    same("the new disk", 0, Disk::hot_add()?.id)?;
                } else {
                    disk.set("reset", "1")?;
                }
                downs.add("reset", Ok(()), &[])?;
            }
            until.stop();
            Ok(())
        });
        together(
            &until,
            vec![
                ("life", life),
                ("idle", busy("idle", posts, "idle", "all")),
                (
                    "recompress",
                    busy("recompress", more, "recompress", "priority=1"),
                ),
                (
                    "writeback",
                    busy("writeback", header, "writeback", "type=idle"),
                ),
                ("compact", busy("compact", posts, "compact", "1")),
            ],
        )?;
        println!(
            "{} resets and removals; idle and compact {}, recompress {}, writeback {}",
            downs.show(),
            posts.show(),
            more.show(),
            header.show()
        );
        for count in [more, header] {
            ensure!(count.get() > 5, "hardly any");
        }
        Ok(())
    })
}

#[test]
fn swap_frees_blocks_that_are_being_worked_on() -> Result<()> {
    const ROUNDS: u64 = 6;
    let _ram = Ram::new(512)?;
    let _reserve = EarlyReclaim::start()?;
    with_module("", || {
        let disk = Disk::new(0);
        set_up(&disk, 0, "lzo-rle", "8M")?;
        run("mkswap", &[&disk.node()])?;
        let count = Count::default();
        let until = Until::after(time());
        let notices = disk.io()?.notify_free;
        let swapper: Work<'_> = Box::new(|until| {
            for round in 0..ROUNDS {
                run("swapon", &[&disk.node()])?;
                let mut hog = Hog::new(3 * MIB)?;
                hog.fill(round as u32 + 1, |_| ());
                hog.page_out()?;
                if round % 3 == 0 {
                    hog.verify_random(round, 200)?;
                }
                // Frees what is out: by giving up the memory, or by reading all of it back.
                if round % 2 == 0 {
                    drop(hog);
                    run("swapoff", &[&disk.node()])?;
                } else {
                    run("swapoff", &[&disk.node()])?;
                    hog.verify(|_| ())?;
                }
            }
            until.stop();
            Ok(())
        });
        together(
            &until,
            vec![("swap", swapper), ("post", post_process(disk, &count))],
        )?;
        let (notices, stat) = (disk.io()?.notify_free - notices, bd(&disk)?);
        println!(
            "{ROUNDS} rounds, {notices} notices, {} times post-processed, {stat:?}",
            count.show()
        );
        ensure!(notices > ROUNDS * 300, "hardly any notice: {notices}");
        ensure!(stat.writes > 50, "hardly any writeback: {stat:?}");
        disk.wait_for("at most the header stored", |mm| mm.orig <= 4 * P)?;
        ensure!(
            bd(&disk)?.count <= 4,
            "left on the device: {:?}",
            bd(&disk)?
        );
        same("failed reads", 0, disk.io()?.failed_reads)?;
        let node = CString::new(disk.node())?;
        let mut header = rzram_guest::buf::Mapping::new(4096)?;
        blk::read(&disk.direct()?, &mut header, 0)?;
        same(
            "swapon once more",
            Ok(()),
            swap_on_and_off(&disk, &header, &node),
        )?;
        disk.reset()
    })
}
