// SPDX-License-Identifier: GPL-2.0

//! Nobody's data shows up where it does not belong: what was never written, or is gone, reads as zeros, whatever the
//! memory behind it held before.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use rzram_guest::buf::Mapping;
use rzram_guest::disk::Disk;
use rzram_guest::module::with_module;
use rzram_guest::pattern::Kind;
use rzram_guest::post::{flagged, page, set_up_backed, Blocks, Ram, P};
use rzram_guest::target::target;
use rzram_guest::{blk, same, MIB, PAGE};

/// What other people's memory is full of. No word of the tests' own data is this one.
const MARKER: [u8; 8] = *b"SECRET!\n";

/// Has the memory that is handed out next hold the marker.
fn soil_memory() -> Result<()> {
    // In huge pages, as it is quicker.
    let mut memory = Mapping::huge(96 * MIB as usize)?;
    for word in memory.chunks_exact_mut(8) {
        word.copy_from_slice(&MARKER);
    }
    Ok(())
}

/// How often the marker is in some bytes, at any place.
fn markers(bytes: &[u8]) -> usize {
    bytes.windows(8).filter(|word| *word == MARKER).count()
}

/// Fails unless all of the disk but `written` blocks at its start reads as zeros, by each way.
fn is_zero_from(disk: &Disk, what: &str, written: u64) -> Result<()> {
    let size = blk::size(&disk.direct()?)?;
    let mut memory = Mapping::new(MIB as usize)?;
    for file in [disk.direct()?, disk.buffered()?] {
        for at in (written * P..size).step_by(MIB as usize) {
            let len = MIB.min(size - at) as usize;
            memory.fill(0xdb);
            blk::read(&file, &mut memory[..len], at)?;
            if let Some(byte) = memory[..len].iter().position(|byte| *byte != 0) {
                anyhow::bail!(
                    "{what}: byte {} is not zero: {:02x?}",
                    at + byte as u64,
                    &memory[byte..(byte + 16).min(len)]
                );
            }
        }
    }
    Ok(())
}

/// Writes blocks of every sort to the start of the disk.
fn write_some(disk: &Disk, count: u64) -> Result<()> {
    let mut blocks = Blocks::of(disk)?;
    for n in 0..count {
        let kinds = [
            Kind::Text,
            Kind::Random,
            Kind::Word(0x4141_4141_0000_0000 | n),
            Kind::Records,
        ];
        blocks.write(n, &page(kinds[n as usize % 4], n))?;
    }
    Ok(())
}

#[test]
fn what_is_not_stored_reads_as_zeros() -> Result<()> {
    let _ram = Ram::new(1024)?;
    with_module("", || {
        let mut disk = Disk::new(0);
        for (n, algorithm) in target().algorithms.iter().enumerate() {
            soil_memory()?;
            if n % 2 == 0 {
                disk.set("backing_dev", Ram::NODE)?;
            }
            disk.set_up(algorithm, "3M")?;
            is_zero_from(&disk, "a new disk", 0)?;
            write_some(&disk, 200)?;
            is_zero_from(&disk, "behind what was written", 200)?;
            if n % 2 == 0 {
                disk.set("idle", "all")?;
                disk.set("writeback", "type=idle")?;
                ensure!(flagged(&disk, 'w')?.len() > 50, "hardly any writeback");
            }
            blk::discard(&disk.direct()?, 0, 100 * P)?;
            blk::zero_out(&disk.direct()?, 100 * P, 100 * P)?;
            is_zero_from(&disk, "what was discarded", 0)?;
            for size in ["1M", "8M", "3M"] {
                write_some(&disk, 200)?;
                disk.reset()?;
                soil_memory()?;
                disk.set_up(algorithm, size)?;
                is_zero_from(&disk, &format!("{size} after a reset"), 0)?;
            }
            write_some(&disk, 200)?;
            disk.hot_remove().context("hot_remove")?;
            disk = Disk::hot_add()?;
            disk.set_up(algorithm, "3M")?;
            is_zero_from(&disk, "another disk", 0)?;
            disk.reset()?;
        }
        Ok(())
    })
}

/// Opens the backing device behind the back of the disk.
fn behind() -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(Ram::NODE)
        .context("opening the backing device")
}

#[test]
fn only_what_was_stored_goes_to_the_backing_device() -> Result<()> {
    let _ram = Ram::new(1024)?;
    with_module("", || {
        let disk = Disk::new(0);
        for algorithm in target().algorithms {
            for compressed in ["1", "0"] {
                soil_memory()?;
                disk.set("compressed_writeback", compressed)?;
                set_up_backed(&disk, Ram::NODE, algorithm, "1M")?;
                write_some(&disk, 200)?;
                disk.set("idle", "all")?;
                disk.set("writeback", "type=idle")?;
                let there = flagged(&disk, 'w')?.len();
                ensure!(there > 100, "{algorithm}: hardly any writeback");
                let mut all = vec![0; MIB as usize];
                blk::read(&behind()?, &mut all, 0)?;
                ensure!(all.iter().any(|byte| *byte != 0), "nothing is there");
                same(format!("{algorithm}: markers there"), 0, markers(&all))?;
                disk.reset()?;
            }
        }
        Ok(())
    })
}

/// A stream of LZ4 that is `len` bytes long and says nothing but those: it ends long before the block does.
fn short_lz4(len: usize) -> Vec<u8> {
    // A token for 15 literals and more, then how many more in bytes of 255, then the literals.
    let mut stream = vec![0xf0];
    let mut more = len - 1 - 15;
    more -= more / 256 + 1;
    let literals = more + 15;
    while more >= 255 {
        stream.push(255);
        more -= 255;
    }
    stream.push(more as u8);
    stream.extend(std::iter::repeat_n(b'x', literals));
    stream.resize(len, b'x');
    stream
}

/// Replaces what is on the backing device by `damage` of it, and reads the blocks.
///
/// Returns how many reads failed.
fn read_damaged(disk: &Disk, count: u64, damage: impl Fn(u64, &mut [u8])) -> Result<u64> {
    let backing = behind()?;
    let mut page = vec![0; PAGE];
    for place in 0..count {
        backing.read_exact_at(&mut page, place * P)?;
        damage(place, &mut page);
        backing.write_all_at(&page, place * P)?;
    }
    backing.sync_all()?;
    let (direct, cached) = (disk.direct()?, disk.buffered()?);
    let mut memory = Mapping::new(PAGE)?;
    let mut failed = 0;
    for block in 0..count {
        memory.fill(0xdb);
        match blk::try_read(&direct, &mut memory, block * P) {
            Ok(_) => same("markers in what came", 0, markers(&memory))?,
            Err(e) => {
                same("reading what is damaged", Errno::EIO, e)?;
                failed += 1;
            }
        }
        // The page cache begins with memory of the kernel's.
        let mut came = [0xdb; PAGE];
        if let Ok(len) = blk::try_read(&cached, &mut came, block * P) {
            same("markers in what came, cached", 0, markers(&came[..len]))?;
        }
    }
    Ok(failed)
}

#[test]
fn a_block_that_does_not_decompress_is_an_error_and_shows_nothing() -> Result<()> {
    let _ram = Ram::new(256)?;
    with_module("", || {
        let disk = Disk::new(0);
        for algorithm in target().algorithms {
            soil_memory()?;
            disk.set("compressed_writeback", "1")?;
            set_up_backed(&disk, Ram::NODE, algorithm, "256K")?;
            let mut blocks = Blocks::of(&disk)?;
            for n in 0..64 {
                blocks.write(n, &page(Kind::Text, 1))?;
            }
            drop(blocks);
            // All alike, so of the same length.
            let len = (disk.mm()?.compr / 64) as usize;
            disk.set("writeback", "page_indexes=0-63")?;
            same("blocks that are out", 64, flagged(&disk, 'w')?.len())?;
            let zeros = read_damaged(&disk, 64, |_, page| page.fill(0))?;
            let noise = read_damaged(&disk, 64, |place, page| {
                rzram_guest::pattern::fill(Kind::Random, place, page);
            })?;
            println!("{algorithm}: of 64 blocks, {zeros} (zeros) and {noise} (noise) are errors");
            ensure!(zeros + noise > 64, "{algorithm} takes anything");
            if *algorithm == "lz4" {
                let short = read_damaged(&disk, 64, |_, page| {
                    page[..len].copy_from_slice(&short_lz4(len));
                })?;
                same("streams that end too early, refused", 64, short)?;
            }
            let io = disk.io()?;
            ensure!(
                io.failed_reads >= zeros + noise,
                "not all are counted: {io:?}"
            );
            disk.reset()?;
        }
        Ok(())
    })
}
