// SPDX-License-Identifier: GPL-2.0

//! Requests of any kind to the node, with any argument: blocks change by those that free them, and by nothing else.

use std::fs::File;
use std::os::fd::AsRawFd;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use rzram_guest::buf::Mapping;
use rzram_guest::disk::Disk;
use rzram_guest::module::with_module;
use rzram_guest::pattern::Rng;
use rzram_guest::post::P;
use rzram_guest::{blk, MIB, PAGE};

use super::attributes::Known;
use super::model::seed;

/// How many requests.
const ROUNDS: u64 = 6000;

const BLKROSET: u32 = 0x125d;
const BLKDISCARD: u32 = 0x1277;
const BLKSECDISCARD: u32 = 0x127d;
const BLKZEROOUT: u32 = 0x127f;
/// Has the kernel take as much memory as it is told to, for its trace: for that it needs no disk.
const BLKTRACESETUP: u32 = 0xc048_1273;

/// Requests that block devices know, or might take for one that they know.
const KNOWN: [u32; 44] = [
    BLKROSET,
    0x125e,
    0x125f, // BLKRRPART
    0x1260,
    0x1261, // BLKFLSBUF
    0x1262,
    0x1263,
    0x1264,
    0x1265,
    0x1266,
    0x1267,
    0x1268,
    0x1269, // BLKPG
    0x8008_1270,
    0x4008_1271, // BLKBSZSET
    0x8008_1272,
    0x1274,
    0x1275,
    0x1276,
    BLKDISCARD,
    BLKDISCARD,
    0x1278,
    0x1279,
    0x127a,
    0x127b,
    0x127c,
    BLKSECDISCARD,
    0x127e,
    BLKZEROOUT,
    BLKZEROOUT,
    0x8008_1280,
    0xc010_1282, // BLKREPORTZONE
    0x4010_1283,
    0x8004_1284,
    0x0301,      // HDIO_GETGEO
    0x2285,      // SG_IO
    0x4c00,      // LOOP_SET_FD
    0x5310,      // CDROM
    0xc004_5877, // FIFREEZE
    0xc018_5879, // FITRIM
    0x4018_70c8, // IOC_PR_REGISTER
    0x4010_70c9,
    0x4010_70cd,
    0x8000_70dc, // IOC_OPAL
];

/// Fills the argument's memory: with noise, or with a range of bytes.
fn prepare(memory: &mut Mapping, disksize: u64, rng: &mut Rng) -> (u64, u64) {
    for word in memory[..256].chunks_exact_mut(8) {
        word.copy_from_slice(&(rng.next() >> rng.below(64)).to_le_bytes());
    }
    if rng.below(4) > 0 {
        let (mut start, mut len) = (rng.below(disksize), rng.below(disksize / 8));
        if rng.below(4) > 0 {
            (start, len) = (start & !(P - 1), len & !(P - 1));
        }
        memory[..8].copy_from_slice(&start.to_le_bytes());
        memory[8..16].copy_from_slice(&len.to_le_bytes());
    }
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&memory[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    (word(0), word(8))
}

fn request(file: &File, number: u32, argument: u64) -> nix::Result<i32> {
    // SAFETY: What the kernel is told to write to is a mapping that has room for any of these requests, or not there at
    // all; nothing refers to that mapping meanwhile.
    let rc = unsafe { libc::ioctl(file.as_raw_fd(), u64::from(number), argument) };
    Errno::result(rc)
}

#[test]
fn any_request_may_come_to_the_node() -> Result<()> {
    let seed = seed();
    println!("seed {seed}, {ROUNDS} requests");
    let mut rng = Rng::new(seed, 0x10c71);
    with_module("", || {
        let disk = Disk::new(0);
        disk.set_up("lzo-rle", &MIB.to_string())?;
        let mut known = Known::new(disk)?;
        let file = disk.direct()?;
        let mut memory = Mapping::new(4 * PAGE)?;
        let (mut taken, mut freed) = (0, 0);
        for round in 0..ROUNDS {
            let number = match rng.below(4) {
                0 => rng.next() as u32,
                1 => 0x1200 | rng.below(256) as u32,
                _ => KNOWN[rng.below(KNOWN.len() as u64) as usize],
            };
            if number == BLKTRACESETUP {
                continue;
            }
            let (start, len) = prepare(&mut memory, MIB, &mut rng);
            let (address, _) = memory.raw();
            let own = rng.below(4) > 0;
            let argument = match own {
                true => address as u64,
                // Nothing is at such addresses: the first page, and the half that is the kernel's.
                false => [0, 1, 4095, u64::MAX, 1 << 63, !4095][rng.below(6) as usize],
            };
            let came = request(&file, number, argument);
            taken += u64::from(came.is_ok());
            if let Err(e) = came {
                ensure!(
                    e != Errno::UnknownErrno && (e as i32) < 134,
                    "request {number:#x}: {e:?}"
                );
            }
            let frees = [BLKDISCARD, BLKSECDISCARD, BLKZEROOUT].contains(&number);
            if frees && came.is_ok() {
                ensure!(own, "{number:#x} took a range from nowhere");
                ensure!(
                    start % P == 0 && len % P == 0 && start + len <= MIB,
                    "{number:#x} took {len} bytes at {start}"
                );
                known.freed(start / P, len / P);
                freed += 1;
            }
            // Some of them make it read-only, or have it cache in other units.
            request(&file, BLKROSET, &raw const ZERO as u64).context("BLKROSET")?;
            if round % 16 == 0 {
                known
                    .write(&file, &mut rng)
                    .and_then(|()| known.check(&file))
                    .with_context(|| format!("round {round} of seed {seed}"))?;
            }
        }
        println!("{taken} were taken, {freed} of them freed blocks");
        ensure!(taken > ROUNDS / 20 && freed > 50, "hardly any was taken");
        known.check(&file)?;
        blk::discard(&file, 0, MIB)?;
        disk.wait_empty()?;
        drop(file);
        disk.reset()
    })
}

/// What `BLKROSET` reads: not read-only.
static ZERO: i32 = 0;
