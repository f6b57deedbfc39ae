// SPDX-License-Identifier: GPL-2.0

//! What is done to blocks after they were stored: blocks by number, the statistics about it, and devices to write back to.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use crate::buf::Mapping;
use crate::disk::Disk;
use crate::pattern::{self, Kind, Rng};
use crate::run::run;
use crate::target::target;
use crate::{attr, blk, same, PAGE};
use anyhow::{ensure, Context, Result};

/// The size of a block.
pub const P: u64 = PAGE as u64;

/// Blocks of a disk, read and written one by one past the page cache.
pub struct Blocks {
    file: File,
    page: Mapping,
}

impl Blocks {
    /// The blocks of `disk`.
    pub fn of(disk: &Disk) -> Result<Blocks> {
        Ok(Blocks {
            file: disk.direct()?,
            page: Mapping::new(PAGE)?,
        })
    }

    /// Writes block `index`.
    pub fn write(&mut self, index: u64, content: &[u8]) -> Result<()> {
        self.page.copy_from_slice(content);
        blk::write(&self.file, &self.page, index * P)
    }

    /// Writes a block of every `contents`, from block 0 on.
    pub fn write_all(&mut self, contents: &[Vec<u8>]) -> Result<()> {
        for (index, content) in (0..).zip(contents) {
            self.write(index, content)?;
        }
        Ok(())
    }

    /// Reads block `index`; the errno if that fails.
    pub fn read(&mut self, index: u64) -> nix::Result<&[u8]> {
        blk::try_read(&self.file, &mut self.page, index * P)?;
        Ok(&self.page)
    }

    /// Fails unless block `index` holds `content`.
    pub fn holds(&mut self, index: u64, content: &[u8]) -> Result<()> {
        let came = self
            .read(index)
            .with_context(|| format!("reading block {index}"))?;
        blk::equal(&format!("block {index}"), content, came)
    }

    /// Fails unless the blocks from 0 on hold `contents`.
    pub fn hold_all(&mut self, contents: &[Vec<u8>]) -> Result<()> {
        for (index, content) in (0..).zip(contents) {
            self.holds(index, content)?;
        }
        Ok(())
    }

    /// Discards `count` blocks.
    pub fn discard(&self, first: u64, count: u64) -> Result<()> {
        blk::discard(&self.file, first * P, count * P).context("discarding")
    }
}

/// A page of a kind.
pub fn page(kind: Kind, seed: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    pattern::fill(kind, seed, &mut page);
    page
}

/// Pages of a kind, each of them different.
pub fn pages(kind: Kind, seed: u64, count: u64) -> Vec<Vec<u8>> {
    (0..count).map(|n| page(kind, (seed << 32) | n)).collect()
}

/// Random bytes of 64 values: nothing repeats, so LZ77 alone gains nothing, and entropy coding a quarter.
pub fn six_bits(seed: u64) -> Vec<u8> {
    let mut page = page(Kind::Random, seed);
    for byte in &mut page {
        *byte &= 63;
    }
    page
}

/// Text, then zeros from byte `len` on.
pub fn text(len: usize, seed: u64) -> Vec<u8> {
    let mut page = page(Kind::Text, seed);
    page[len..].fill(0);
    page
}

/// `bd_stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BdStat {
    /// Blocks on the backing device.
    pub count: u64,
    /// Blocks read from it.
    pub reads: u64,
    /// Blocks written to it.
    pub writes: u64,
}

/// Reads `bd_stat`, which must be in zram's exact format.
pub fn bd(disk: &Disk) -> Result<BdStat> {
    let text = disk.get("bd_stat")?;
    let numbers: Vec<u64> = text
        .split_whitespace()
        .map(str::parse)
        .collect::<std::result::Result<_, _>>()
        .with_context(|| format!("bd_stat: {text:?}"))?;
    ensure!(numbers.len() == 3, "bd_stat: {text:?}");
    let stat = BdStat {
        count: numbers[0],
        reads: numbers[1],
        writes: numbers[2],
    };
    let exact = format!("{:8} {:8} {:8}\n", stat.count, stat.reads, stat.writes);
    same("bd_stat", exact, text)?;
    Ok(stat)
}

/// What `block_state` says of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// When it was accessed, in microseconds since boot.
    pub accessed: u64,
    /// Its flags, such as `.....`.
    pub flags: String,
}

impl State {
    /// Whether the block has a flag.
    pub fn is(&self, flag: char) -> bool {
        self.flags.contains(flag)
    }
}

/// The path of a disk's `block_state`.
pub fn block_state_file(disk: &Disk) -> PathBuf {
    let name = target().name;
    PathBuf::from(format!(
        "/sys/kernel/debug/{name}/{}/block_state",
        disk.name()
    ))
}

/// The text of a file, read with a buffer of `size` bytes. `fs::read_to_string` begins with one that is too small for a line
/// of `block_state`.
pub fn read_in_pieces(path: &Path, size: usize) -> Result<String> {
    use std::io::Read;
    let open = || format!("reading {}", path.display());
    let mut file = File::open(path).with_context(open)?;
    let (mut text, mut piece) = (Vec::new(), vec![0; size]);
    loop {
        match file.read(&mut piece).with_context(open)? {
            0 => return Ok(String::from_utf8(text)?),
            len => text.extend_from_slice(&piece[..len]),
        }
    }
}

/// Reads `block_state`, every line of which must be in zram's exact format.
pub fn block_state(disk: &Disk) -> Result<BTreeMap<u64, State>> {
    let text = read_in_pieces(&block_state_file(disk), 1 << 16)?;
    let mut states = BTreeMap::new();
    for line in text.lines() {
        let (index, state) = parse_line(line).with_context(|| format!("block_state: {line:?}"))?;
        let last = states.last_key_value().map(|(index, _)| *index);
        ensure!(last < Some(index), "{index} comes after {last:?}");
        states.insert(index, state);
    }
    Ok(states)
}

fn parse_line(line: &str) -> Result<(u64, State)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [index, time, flags] = words[..] else {
        anyhow::bail!("three words expected");
    };
    let (seconds, micros) = time.split_once('.').context("a time without a dot")?;
    let (index, seconds, micros): (u64, u64, u64) =
        (index.parse()?, seconds.parse()?, micros.parse()?);
    same(
        "the line",
        format!("{index:12} {seconds:12}.{micros:06} {flags}").as_str(),
        line,
    )?;
    ensure!(flags.len() == 6, "six flags expected");
    for (flag, letter) in flags.chars().zip("swhirn".chars()) {
        ensure!(flag == '.' || flag == letter, "{flag:?} for {letter:?}");
    }
    Ok((
        index,
        State {
            accessed: seconds * 1_000_000 + micros,
            flags: flags.to_owned(),
        },
    ))
}

/// The blocks whose state has `flag`.
pub fn flagged(disk: &Disk, flag: char) -> Result<Vec<u64>> {
    Ok(block_state(disk)?
        .into_iter()
        .filter(|(_, state)| state.is(flag))
        .map(|(index, _)| index)
        .collect())
}

/// How many bytes `mm_stat` says are stored, compressed.
pub fn compressed(disk: &Disk) -> Result<u64> {
    Ok(disk.mm()?.compr)
}

/// Block devices in memory, from `/dev/ram0` on. One of these at a time.
pub struct Ram;

impl Ram {
    /// The device's node.
    pub const NODE: &'static str = "/dev/ram0";

    /// A device of `kib` KiB.
    pub fn new(kib: u64) -> Result<Ram> {
        Self::several(1, kib)
    }

    /// `count` devices of `kib` KiB each.
    pub fn several(count: u32, kib: u64) -> Result<Ram> {
        let args = ["brd", &format!("rd_nr={count}"), &format!("rd_size={kib}")];
        run("modprobe", &args)?;
        Ok(Ram)
    }

    /// The node of device `n`.
    pub fn node(n: u32) -> String {
        format!("/dev/ram{n}")
    }
}

impl Drop for Ram {
    fn drop(&mut self) {
        // In use where a test failed before it reset the disk; the next test then says so.
        if let Err(error) = run("rmmod", &["brd"]) {
            eprintln!("{error:#}");
        }
    }
}

/// A device-mapper device: its name there, and its node. Nobody else makes nodes in this guest, so it is the kernel's own.
pub struct Mapped(String, String);

impl Mapped {
    /// A device with a table such as `0 8 linear /dev/ram0 0`.
    pub fn new(name: &str, table: &str) -> Result<Mapped> {
        run("modprobe", &["dm-mod"])?;
        let args = [
            "create",
            name,
            "--noudevsync",
            "--noudevrules",
            "--table",
            table,
        ];
        run("dmsetup", &args)?;
        let args = ["info", "-c", "--noheadings", "-o", "blkdevname", name];
        let node = format!("/dev/{}", run("dmsetup", &args)?.trim());
        Ok(Mapped(name.to_owned(), node))
    }

    /// Its node.
    pub fn node(&self) -> &str {
        &self.1
    }

    /// Gives it another table.
    pub fn becomes(&self, table: &str) -> Result<()> {
        run("dmsetup", &["reload", &self.0, "--table", table])?;
        run(
            "dmsetup",
            &["resume", "--noudevsync", "--noudevrules", &self.0],
        )
        .map(drop)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let args = ["remove", "--noudevsync", "--noudevrules", &self.0];
        if let Err(error) = run("dmsetup", &args) {
            eprintln!("{error:#}");
        }
    }
}

/// Gives disk 0 a backing device, an algorithm and a size.
pub fn set_up_backed(disk: &Disk, backing: &str, algorithm: &str, size: &str) -> Result<()> {
    disk.set("backing_dev", backing)?;
    disk.set_up(algorithm, size)
}

/// A random generator for a test.
pub fn rng(seed: u64) -> Rng {
    Rng::new(seed, 0xe47a)
}

/// A file with this content.
pub fn file(name: &str, content: &[u8]) -> Result<String> {
    let path = crate::module::scratch("files")?.join(name);
    std::fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
    Ok(path.display().to_string())
}

/// Fails unless reading the attribute takes an errno.
pub fn unreadable(path: &Path, expected: nix::errno::Errno) -> Result<()> {
    same(
        format!("reading {}", path.display()),
        Err(expected),
        attr::read(path),
    )
}
