// SPDX-License-Identifier: GPL-2.0

//! Anything at all is written to attributes, and read from them in any way, in every state that this leads to.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use rzram_guest::buf::Mapping;
use rzram_guest::disk::Disk;
use rzram_guest::module::{disk_ids, with_module};
use rzram_guest::pattern::{self, Rng};
use rzram_guest::post::{self, block_state_file, file, Ram, P};
use rzram_guest::target::target;
use rzram_guest::{attr, blk, same, MIB, PAGE};

use super::model::seed;
use super::text;

/// How often something is written.
const ROUNDS: u64 = 2500;

const ATTRIBUTES: [&str; 24] = [
    "disksize",
    "disksize",
    "disksize",
    "initstate",
    "reset",
    "comp_algorithm",
    "algorithm_params",
    "recomp_algorithm",
    "mem_limit",
    "mem_used_max",
    "compact",
    "max_comp_streams",
    "idle",
    "recompress",
    "backing_dev",
    "writeback",
    "writeback_limit",
    "writeback_limit_enable",
    "writeback_batch_size",
    "compressed_writeback",
    "bd_stat",
    "memory_stat",
    "mm_stat",
    "debug_stat",
];

/// Blocks that are written and compared.
const BLOCKS: u64 = 64;

/// A disk, and what its blocks should hold.
pub struct Known {
    /// The disk.
    pub disk: Disk,
    /// By number of the block; 0 is nothing.
    versions: BTreeMap<u64, u64>,
    page: Mapping,
    scratch: Mapping,
}

impl Known {
    /// A disk that holds nothing.
    pub fn new(disk: Disk) -> Result<Known> {
        Ok(Known {
            disk,
            versions: BTreeMap::new(),
            page: Mapping::new(PAGE)?,
            scratch: Mapping::new(PAGE)?,
        })
    }

    /// All was forgotten.
    pub fn forget(&mut self) {
        self.versions.clear();
    }

    /// Blocks were freed.
    pub fn freed(&mut self, first: u64, count: u64) {
        self.versions
            .retain(|block, _| *block < first || *block - first >= count);
    }

    /// Writes some blocks; where that fails, they must hold what they held.
    pub fn write(&mut self, file: &File, rng: &mut Rng) -> Result<()> {
        let blocks = (blk::size(file)? / P).min(BLOCKS);
        for _ in 0..rng.below(6) {
            if blocks == 0 {
                return Ok(());
            }
            let (block, version) = (rng.below(blocks), 1 + rng.below(1 << 20));
            pattern::stamp(block, version, &mut self.page);
            match blk::try_write(file, &self.page, block * P) {
                Ok(_) => {
                    self.versions.insert(block, version);
                }
                // A limit that was set.
                Err(Errno::EIO | Errno::ENOSPC | Errno::ENOMEM) => {}
                Err(other) => anyhow::bail!("writing block {block}: {other:?}"),
            }
        }
        Ok(())
    }

    /// Compares blocks.
    pub fn check(&mut self, file: &File) -> Result<()> {
        let blocks = (blk::size(file)? / P).min(BLOCKS);
        for block in 0..blocks {
            blk::read(file, &mut self.page, block * P)?;
            let version = pattern::version(block, &self.page, &mut self.scratch)?;
            let expected = self.versions.get(&block).copied().unwrap_or(0);
            same(format!("the version of block {block}"), expected, version)?;
        }
        Ok(())
    }
}

/// The file of an attribute.
fn path_of(disk: &Disk, name: &str) -> PathBuf {
    disk.sys(name)
}

/// An errno that user space may see.
fn is_for_users(e: Errno) -> bool {
    e != Errno::UnknownErrno && (e as i32) < 134
}

/// Reads part of a file with an odd buffer; it must be that part, unless the whole changes meanwhile.
fn read_part(path: &Path, rng: &mut Rng) -> Result<()> {
    let Ok(before) = attr::read(path) else {
        return Ok(());
    };
    let sizes = [0, 1, 2, 3, 7, 64, 100, 4095, 4096, 4097, 10_000];
    let offsets = [
        0,
        0,
        0,
        1,
        5,
        60,
        4095,
        4096,
        4097,
        1 << 20,
        i64::MAX - 4096,
    ];
    let size = sizes[rng.below(11) as usize];
    let offset = offsets[rng.below(11) as usize];
    let mut buffer = vec![0xdb; size];
    let opened = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let came = nix::sys::uio::pread(&opened, &mut buffer, offset);
    let Ok(len) = came else {
        let e = came.err().unwrap_or(Errno::UnknownErrno);
        ensure!(is_for_users(e), "reading {}: {e:?}", path.display());
        return Ok(());
    };
    ensure!(len <= size, "{len} bytes came for {size}");
    ensure!(
        buffer[len..].iter().all(|byte| *byte == 0xdb),
        "{}: more was written than the {len} bytes that came",
        path.display()
    );
    if attr::read(path) == Ok(before.clone()) {
        let whole = before.as_bytes();
        let from = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(whole.len());
        let part = &whole[from..(from + size).min(whole.len())];
        let what = format!("{size} bytes at {offset} of {}", path.display());
        blk::equal(&what, part, &buffer[..len])?;
    }
    Ok(())
}

/// Reads `block_state` from anywhere: whole lines come, or nothing, or that the buffer is too short.
fn read_states(disk: &Disk, rng: &mut Rng) -> Result<()> {
    let opened = File::open(block_state_file(disk)).context("opening block_state")?;
    let mut buffer = vec![0; [1, 40, 41, 42, 43, 100, 4096, 70_000][rng.below(8) as usize]];
    let offset = [0, 1, 63, 64, 1 << 18, 1 << 40, i64::MAX][rng.below(7) as usize];
    match nix::sys::uio::pread(&opened, &mut buffer, offset) {
        Ok(0) => Ok(()),
        Ok(len) => {
            let text = String::from_utf8_lossy(&buffer[..len]);
            ensure!(text.ends_with('\n'), "part of a line: {text:?}");
            Ok(())
        }
        Err(Errno::EINVAL | Errno::EOVERFLOW) => Ok(()),
        Err(other) => anyhow::bail!("reading block_state at {offset}: {other:?}"),
    }
}

/// Holds a disk in a way in which nobody else gets it, and has it busy at once.
fn exclusively(disk: &Disk) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_EXCL | libc::O_DIRECT)
        .open(disk.node())
        .with_context(|| format!("opening {}", disk.node()))
}

/// Writes something to an attribute of the disk, and notes what that changes.
fn write_one(known: &mut Known, rng: &mut Rng) -> Result<()> {
    let name = ATTRIBUTES[rng.below(ATTRIBUTES.len() as u64) as usize];
    let input = text::any(rng, name);
    let came = attr::write(&path_of(&known.disk, name), &input);
    let shown = String::from_utf8_lossy(&input[..input.len().min(80)]).into_owned();
    match came {
        Ok(len) => {
            // A page is as much as sysfs takes at a time.
            same(
                format!("{shown:?} to {name}: bytes taken"),
                input.len().min(PAGE),
                len,
            )?;
            if !input.is_empty() && matches!(name, "reset" | "disksize") {
                known.forget();
            }
        }
        Err(e) => ensure!(is_for_users(e), "{shown:?} to {name}: {e:?}"),
    }
    Ok(())
}

/// Writes something to the control files. Disk 0 is there again afterwards, and others are not.
fn control(known: &mut Known, rng: &mut Rng) -> Result<()> {
    let path = target().control("hot_remove");
    let input = match rng.below(3) {
        0 => text::any(rng, "hot_remove"),
        _ => rng.below(5).to_string().into_bytes(),
    };
    if let Err(e) = attr::write(&path, &input) {
        ensure!(is_for_users(e), "{input:?} to hot_remove: {e:?}");
    }
    read_part(&path, rng)?;
    while !disk_ids()?.contains(&0) {
        known.forget();
        Disk::hot_add()?;
    }
    if rng.below(4) == 0 {
        Disk::hot_add()?;
    }
    for id in disk_ids()?.into_iter().filter(|id| *id > 1) {
        Disk::new(id).hot_remove().context("hot_remove")?;
    }
    same("disks", vec![0, 1], disk_ids()?)
}

#[test]
fn anything_may_be_written_to_attributes_and_read_from_them() -> Result<()> {
    let seed = seed();
    println!("seed {seed}, {ROUNDS} rounds");
    let mut rng = Rng::new(seed, 0xa77);
    let _ram = Ram::new(256)?;
    file("fuzz", &post::text(PAGE, 1))?;
    with_module("num_devices=2 track_access=1", || {
        let mut keeper = Known::new(Disk::new(1))?;
        keeper.disk.set_up("lz4", "1M")?;
        let held = exclusively(&keeper.disk)?;
        for _ in 0..20 {
            keeper.write(&held, &mut rng)?;
        }
        let mut known = Known::new(Disk::new(0))?;
        let (mut set_up, mut looks) = (0, 0);
        for round in 0..ROUNDS {
            let disk = known.disk;
            write_one(&mut known, &mut rng)
                .and_then(|()| match round % 8 {
                    0 => control(&mut known, &mut rng),
                    1..=3 => {
                        let name = ATTRIBUTES[rng.below(ATTRIBUTES.len() as u64) as usize];
                        read_part(&disk.sys(name), &mut rng)
                    }
                    4 => read_states(&disk, &mut rng),
                    _ => Ok(()),
                })
                .with_context(|| format!("round {round} of seed {seed}"))?;
            looks += 1;
            if round % 5 == 0 && disk.get("initstate")? == "1\n" {
                set_up += 1;
                let file = disk.direct()?;
                known
                    .write(&file, &mut rng)
                    .and_then(|()| known.check(&file))
                    .with_context(|| format!("round {round} of seed {seed}"))?;
            }
            // As nothing that is written resets the disk as often as would be of use.
            if round % 40 == 39 {
                disk.reset()?;
                known.forget();
            }
        }
        println!("of {looks} looks at the disk, {set_up} found it set up");
        ensure!(set_up > ROUNDS / 50, "it was hardly ever set up");
        keeper.check(&held)?;
        drop(held);
        for disk in [known.disk, keeper.disk] {
            disk.reset()?;
            disk.set_up("zstd", &MIB.to_string())?;
            let mut fresh = Known::new(disk)?;
            let file = disk.direct()?;
            fresh.check(&file)?;
            fresh.write(&file, &mut rng)?;
            fresh.check(&file)?;
        }
        Ok(())
    })
}
