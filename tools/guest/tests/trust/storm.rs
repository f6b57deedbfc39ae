// SPDX-License-Identifier: GPL-2.0

//! All that a disk can live through, at the same time and in any order: set up and reset, made and removed, opened,
//! mounted, swapped on, read, written; and CPUs that come and go beside it.
//!
//! Each test has a number of rounds of what it is about, and ends when they are done.

use std::ffi::CString;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use nix::errno::Errno;
use rzram_guest::buf::Mapping;
use rzram_guest::disk::Disk;
use rzram_guest::kernel::{cpu_online, load_ext4, patience};
use rzram_guest::module::{module_file, scratch, try_unload, with_module};
use rzram_guest::pattern::{self, Rng};
use rzram_guest::post::P;
use rzram_guest::run::run;
use rzram_guest::stress::{together, Until, Work};
use rzram_guest::target::target;
use rzram_guest::{attr, blk, MIB, PAGE};

use super::crowd::{
    c_node, enough, over_and_over, swap_header, swap_on_and_off, tagged, time, Count, PASSING,
};

/// The blocks of a small file system that are not empty.
fn file_system(disk: &Disk) -> Result<Vec<(u64, Vec<u8>)>> {
    disk.set("disksize", "1M")?;
    let options = "-q -b 4096 -N 16 -O ^has_journal,^resize_inode";
    let node = disk.node();
    let args = options.split(' ').chain([node.as_str(), "192"]);
    run("mkfs.ext4", &args.collect::<Vec<_>>())?;
    let mut all = Mapping::new(MIB as usize)?;
    blk::read(&disk.direct()?, &mut all, 0)?;
    disk.reset()?;
    let used = all
        .chunks(PAGE)
        .zip(0..)
        .filter(|(page, _)| page.iter().any(|byte| *byte != 0));
    Ok(used.map(|(page, n)| (n, page.to_vec())).collect())
}

/// Puts the file system there, mounts it, and unmounts it.
fn mount_and_unmount(
    disk: &Disk,
    image: &[(u64, Vec<u8>)],
    page: &mut Mapping,
    at: &CString,
) -> nix::Result<()> {
    {
        let file = disk.direct().map_err(|_| Errno::ENXIO)?;
        for (block, content) in image {
            page.copy_from_slice(content);
            blk::try_write(&file, page, block * P)?;
        }
    }
    let node = c_node(disk).map_err(|_| Errno::EINVAL)?;
    let kind = c"ext4";
    // SAFETY: C strings, and no data.
    let rc = unsafe {
        libc::mount(
            node.as_ptr(),
            at.as_ptr(),
            kind.as_ptr(),
            libc::MS_RDONLY,
            std::ptr::null(),
        )
    };
    Errno::result(rc)?;
    // SAFETY: a C string and flags.
    Errno::result(unsafe { libc::umount2(at.as_ptr(), 0) }).map(drop)
}

#[test]
fn set_up_reset_open_mount_and_swap_at_once_show_no_foreign_block() -> Result<()> {
    const ROUNDS: u64 = 8;
    load_ext4()?;
    with_module("", || {
        let disk = Disk::new(0);
        let image = file_system(&disk)?;
        let at = CString::new(scratch("storm")?.to_string_lossy().into_owned())?;
        let (header, node) = (swap_header(48)?, c_node(&disk)?);
        let counts: [Count; 7] = Default::default();
        let [ups, downs, mounts, swaps, opens, io, looks] = &counts;
        let mut page = Mapping::new(PAGE)?;
        let mut passing = PASSING.to_vec();
        // Half a file system, or what another thread wrote over it.
        passing.extend([Errno::EUCLEAN, Errno::EBADMSG, Errno::EFBIG, Errno::ENOMEM]);
        let until = Until::after(time());
        let sizes = ["1M", "4M", "2M"];
        let work = vec![
            (
                "disksize",
                over_and_over("disksize", ups, &[Errno::EBUSY], |n| {
                    let algorithm = target().algorithms[n as usize % target().algorithms.len()];
                    let _ = disk.put("comp_algorithm", algorithm);
                    disk.put("disksize", sizes[n as usize % 3])
                }),
            ),
            (
                "reset",
                over_and_over("reset", downs, &[Errno::EBUSY], |_| {
                    // Leaves some time to the others.
                    std::thread::sleep(Duration::from_millis(15));
                    disk.put("reset", "1")
                }),
            ),
            (
                "mount",
                over_and_over("mount", mounts, &passing, |_| {
                    mount_and_unmount(&disk, &image, &mut page, &at)
                }),
            ),
            (
                "swap",
                over_and_over("swap", swaps, &passing, |_| {
                    swap_on_and_off(&disk, &header, &node)
                }),
            ),
            (
                "open",
                over_and_over("open", opens, &PASSING, |_| {
                    File::open(disk.node())
                        .map(drop)
                        .map_err(|e| Errno::from_raw(e.raw_os_error().unwrap_or(0)))
                }),
            ),
            ("I/O", tagged(disk, 1, io)),
            ("attributes", read_all(disk, looks)),
            (
                "enough",
                enough(vec![
                    ("resets", downs, ROUNDS),
                    ("mounts", mounts, 1),
                    ("swapons", swaps, 5),
                    ("I/O", io, 200),
                ]),
            ),
        ];
        together(&until, work)?;
        println!(
            "disksize {}, reset {}, mount {}, swapon {}, open {}, I/O {}, attributes {}",
            ups.show(),
            downs.show(),
            mounts.show(),
            swaps.show(),
            opens.show(),
            io.show(),
            looks.show()
        );
        disk.reset()
    })
}

const READABLE: [&str; 12] = [
    "disksize",
    "initstate",
    "comp_algorithm",
    "recomp_algorithm",
    "max_comp_streams",
    "backing_dev",
    "io_stat",
    "mm_stat",
    "bd_stat",
    "memory_stat",
    "debug_stat",
    "compressed_writeback",
];

/// Reads every attribute, and `block_state`.
fn read_all(disk: Disk, count: &Count) -> Work<'_> {
    over_and_over("reading attributes", count, &PASSING, move |n| {
        if n % 13 == 12 {
            let mut buffer = vec![0; 1 << 16];
            let path = rzram_guest::post::block_state_file(&disk);
            let Ok(file) = File::open(path) else {
                return Err(Errno::ENOENT);
            };
            return blk::try_read(&file, &mut buffer, n * 7 % 512).map(drop);
        }
        attr::read(&disk.sys(READABLE[n as usize % 13])).map(drop)
    })
}

#[test]
fn statistics_fit_the_disk_while_it_is_reset_to_a_smaller_one() -> Result<()> {
    const ROUNDS: u64 = 40;
    with_module("", || {
        let disk = Disk::new(0);
        let (looks, states) = (AtomicU64::new(0), AtomicU64::new(0));
        let until = Until::after(time());
        let resets: Work<'_> = Box::new(|until| {
            let mut data = Mapping::new(MIB as usize)?;
            pattern::fill_all(1, 0, &mut data);
            for round in 0..ROUNDS {
                let size = [16 * MIB, MIB, 4 * P][round as usize % 3];
                disk.set("disksize", &size.to_string())?;
                let len = size.min(MIB) as usize;
                blk::write(&disk.direct()?, &data[..len], size - len as u64)?;
                disk.set("reset", "1")?;
            }
            until.stop();
            Ok(())
        });
        let reader = || -> Work<'_> {
            Box::new(|until| {
                while until.more() {
                    disk.mm()?.plausible(16 * MIB)?;
                    let stat = disk.get("memory_stat")?;
                    ensure!(stat.lines().count() == 12, "memory_stat: {stat:?}");
                    disk.io()?;
                    let size: u64 = disk.get("disksize")?.trim().parse()?;
                    ensure!(
                        [0, 16 * MIB, MIB, 4 * P].contains(&size),
                        "disksize is {size}"
                    );
                    looks.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            })
        };
        let state: Work<'_> = Box::new(|until| {
            let mut buffer = vec![0; 1 << 16];
            let mut offset = 0;
            let file = File::open(rzram_guest::post::block_state_file(&disk))?;
            while until.more() {
                // Offsets go on where a larger disk had blocks.
                match blk::try_read(&file, &mut buffer, offset) {
                    Ok(0) => offset = (offset + 1021) % 4100,
                    Ok(len) => {
                        let text = std::str::from_utf8(&buffer[..len])?;
                        for line in text.lines() {
                            let block = line.split_whitespace().next().context("a number")?;
                            let block: u64 = block.parse()?;
                            ensure!(block >= offset && block < 4096, "{line:?} at {offset}");
                        }
                        states.fetch_add(1, Ordering::Relaxed);
                        offset = (offset + 77) % 4100;
                    }
                    Err(Errno::EINVAL) => {}
                    Err(other) => bail!("block_state: {other:?}"),
                }
            }
            Ok(())
        });
        together(
            &until,
            vec![
                ("resets", resets),
                ("a reader", reader()),
                ("another reader", reader()),
                ("block_state", state),
            ],
        )?;
        let (looks, states) = (looks.into_inner(), states.into_inner());
        println!("{ROUNDS} resets, {looks} looks at statistics, {states} at blocks");
        ensure!(looks > ROUNDS && states > 5, "hardly anybody looked");
        Ok(())
    })
}

/// Loads the module, if it is not loaded.
fn insmod() -> nix::Result<()> {
    let file = File::open(module_file()).map_err(|_| Errno::ENOENT)?;
    let flags = nix::kmod::ModuleInitFlags::empty();
    match nix::kmod::finit_module(&file, c"num_devices=2", flags) {
        Err(Errno::EEXIST) => Ok(()),
        other => other,
    }
}

#[test]
fn the_module_comes_and_goes_beside_everything_else() -> Result<()> {
    const ROUNDS: u64 = 8;
    const LONG: Duration = Duration::from_secs(1);
    let counts: [Count; 6] = Default::default();
    let [loads, adds, removes, io, swaps, plugs] = &counts;
    let until = Until::after(time());
    let header = swap_header(48)?;
    let passing = [PASSING.as_slice(), &[Errno::EAGAIN, Errno::EACCES]].concat();
    let both = [Disk::new(0), Disk::new(1)];
    let node = c_node(&both[1])?;
    let life: Work<'_> = Box::new(|until| {
        let mut rng = Rng::new(5, 5);
        while until.more() {
            insmod().context("insmod")?;
            let loaded = Instant::now();
            let time = Duration::from_millis(rng.below(60));
            // Loading may take longer than anything that is done then, so at times it stays until something was.
            let awaited = [None, Some(io), Some(swaps)][rng.below(3) as usize];
            let before = awaited.map(Count::get);
            while loaded.elapsed() < time
                || (awaited.is_some()
                    && awaited.map(Count::get) == before
                    && loaded.elapsed() < LONG * patience())
            {
                // Those that were removed and have come back are empty.
                for disk in both {
                    let _ = disk.put("disksize", "1M");
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            for _ in 0..200 {
                let came = try_unload();
                loads.add(
                    "rmmod",
                    came,
                    &[Errno::EAGAIN, Errno::EBUSY, Errno::EWOULDBLOCK],
                )?;
                if came.is_ok() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    });
    let hot = |name: &'static str, count, write: bool| {
        over_and_over(name, count, &passing, move |n| {
            // Not so often that the module is never free.
            std::thread::sleep(Duration::from_millis(3));
            let path = target().control(name);
            match write {
                true => attr::write(&path, (n % 4).to_string().as_bytes()).map(drop),
                false => attr::read(&path).map(drop),
            }
        })
    };
    let plug = over_and_over("CPU hotplug", plugs, &[Errno::EBUSY], |_| {
        let came = cpu_online(1, false).and_then(|()| cpu_online(1, true));
        std::thread::sleep(Duration::from_millis(30));
        came.map_err(|_| Errno::EBUSY)
    });
    let result = together(
        &until,
        vec![
            ("life", life),
            ("hot_add", hot("hot_add", adds, false)),
            ("hot_remove", hot("hot_remove", removes, true)),
            ("I/O", tagged(both[0], 1, io)),
            (
                "swap",
                over_and_over("swap", swaps, &passing, |_| {
                    std::thread::sleep(Duration::from_millis(1));
                    swap_on_and_off(&both[1], &header, &node)
                }),
            ),
            ("hotplug", plug),
            (
                "enough",
                enough(vec![
                    ("unloading", loads, ROUNDS),
                    ("I/O", io, 20),
                    ("swapon", swaps, 1),
                    ("hotplug", plugs, 5),
                ]),
            ),
        ],
    );
    cpu_online(1, true)?;
    // Whatever became of it, the next test gets a kernel without the module.
    for _ in 0..100 {
        if try_unload() != Err(Errno::EAGAIN) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    result?;
    println!(
        "rmmod {}, hot_add {}, hot_remove {}, I/O {}, swapon {}, CPU hotplug {}",
        loads.show(),
        adds.show(),
        removes.show(),
        io.show(),
        swaps.show(),
        plugs.show()
    );
    Ok(())
}
