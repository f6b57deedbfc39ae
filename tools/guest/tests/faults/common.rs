// SPDX-License-Identifier: GPL-2.0

//! What these tests have in common: all ways to set up a disk, and data of all kinds.

use anyhow::{Context, Result};
use nix::errno::Errno;
use rzram_guest::buf::Mapping;
use rzram_guest::disk::Disk;
use rzram_guest::module::lz4hc_file;
use rzram_guest::pattern::{self, Kind};
use rzram_guest::post::{file, page};
use rzram_guest::run::run;
use rzram_guest::{blk, PAGE};

/// What an operation may say when there is no memory.
pub const NO_MEMORY: &[Errno] = &[Errno::ENOMEM];
/// What making a disk may say then: the driver core takes a name that it had no memory for as missing.
pub const NO_DISK: &[Errno] = &[Errno::ENOMEM, Errno::EINVAL];
/// What a request may say then.
pub const FAILED: &[Errno] = &[Errno::EIO];
/// Of an operation that cannot fail for want of memory.
pub const NEVER: &[Errno] = &[];

/// A page of every kind that is stored in its own way: nothing, values, an object with a pattern,
/// compressed objects of various classes, and one that is as large as it was.
pub const KINDS: [Kind; 9] = [
    Kind::Word(0),
    Kind::Word(77),
    Kind::Word(0xc0ff_ee00_c0ff_ee01),
    Kind::Text,
    Kind::Records,
    Kind::Prefix(200),
    Kind::Prefix(2000),
    Kind::Prefix(3000),
    Kind::Random,
];

/// `count` pages of all kinds, one after another.
pub fn assortment(seed: u64, count: u64) -> Result<Mapping> {
    let mut data = Mapping::new(count as usize * PAGE)?;
    for (n, page) in data.chunks_mut(PAGE).enumerate() {
        pattern::fill(KINDS[n % KINDS.len()], (seed << 20) | n as u64, page);
    }
    Ok(data)
}

/// Writes `data` from block `first` on, reads it back and compares.
pub fn keeps(disk: &Disk, first: u64, data: &[u8]) -> Result<()> {
    let file = disk.direct()?;
    blk::write(&file, data, first * PAGE as u64)?;
    holds(disk, first, data)
}

/// Fails unless the disk has `data` from block `first` on.
pub fn holds(disk: &Disk, first: u64, data: &[u8]) -> Result<()> {
    let file = disk.direct()?;
    let mut back = Mapping::new(data.len())?;
    blk::read(&file, &mut back, first * PAGE as u64)?;
    blk::equal(&format!("the disk from block {first} on"), data, &back)
}

/// A way to use an algorithm.
pub struct Way {
    /// Its name in figures.
    pub name: &'static str,
    algorithm: &'static str,
    dictionary: Option<String>,
}

impl Way {
    /// Chooses the algorithm for priority 0, and its parameters.
    pub fn choose(&self, disk: &Disk) -> Result<()> {
        disk.set("comp_algorithm", self.algorithm)?;
        if let Some(dictionary) = &self.dictionary {
            disk.set("algorithm_params", &format!("dict={dictionary}"))?;
        }
        Ok(())
    }
}

/// A dictionary for the pages of [`KINDS`].
pub fn dictionary() -> Result<String> {
    let mut content = page(Kind::Text, 1);
    content.extend(page(Kind::Records, 2));
    file("faults-dictionary", &content)
}

/// All algorithms, with a dictionary and without; also lz4hc, whose module is loaded for it.
pub fn ways() -> Result<Vec<Way>> {
    if !std::path::Path::new("/sys/module/rzram_lz4hc").exists() {
        run("modprobe", &["lz4hc_compress"])?;
        run("insmod", &[&lz4hc_file()]).context("lending lz4hc")?;
    }
    let dictionary = dictionary()?;
    let all = [
        ("lzo-rle", "lzo-rle", false),
        ("lzo", "lzo", false),
        ("lz4", "lz4", false),
        ("lz4hc", "lz4hc", false),
        ("zstd", "zstd", false),
        ("deflate", "deflate", false),
        ("wlz", "wlz", false),
        ("lz4 with a dictionary", "lz4", true),
        ("lz4hc with a dictionary", "lz4hc", true),
        ("zstd with a dictionary", "zstd", true),
    ];
    Ok(all
        .into_iter()
        .map(|(name, algorithm, with)| Way {
            name,
            algorithm,
            dictionary: with.then(|| dictionary.clone()),
        })
        .collect())
}
