// SPDX-License-Identifier: GPL-2.0

//! What the tests with many threads at once are made of: something that is done over and over, counted, until all that was
//! to be done was done.

use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{bail, ensure, Result};
use nix::errno::Errno;
use rzram_guest::buf::Mapping;
use rzram_guest::disk::Disk;
use rzram_guest::kernel::patience;
use rzram_guest::pattern::{self, Rng};
use rzram_guest::post::P;
use rzram_guest::stress::Work;
use rzram_guest::{blk, PAGE};

/// A test that has not done its rounds by then has failed.
pub fn time() -> Duration {
    Duration::from_secs(280) * patience()
}

/// How often something was done, and refused.
#[derive(Default)]
pub struct Count {
    done: AtomicU64,
    refused: AtomicU64,
}

impl Count {
    /// One more; what may not come is an error.
    pub fn add(&self, what: &str, came: nix::Result<()>, allowed: &[Errno]) -> Result<()> {
        match came {
            Ok(()) => self.done.fetch_add(1, Ordering::Relaxed),
            Err(e) if allowed.contains(&e) => self.refused.fetch_add(1, Ordering::Relaxed),
            Err(other) => bail!("{what}: {other:?}"),
        };
        Ok(())
    }

    /// How often it was done.
    pub fn get(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// As text.
    pub fn show(&self) -> String {
        format!(
            "{} (refused {} times)",
            self.done.load(Ordering::Relaxed),
            self.refused.load(Ordering::Relaxed)
        )
    }
}

/// What one sees of a disk that is being removed, reset or set up.
pub const PASSING: [Errno; 9] = [
    Errno::ENOENT,
    Errno::ENXIO,
    Errno::ENODEV,
    Errno::EBUSY,
    Errno::EIO,
    Errno::EINVAL,
    Errno::ENOSPC,
    Errno::EPERM,
    // Written to while it is swapped on.
    Errno::ETXTBSY,
];

/// Does `action` over and over.
pub fn over_and_over<'a>(
    what: &'static str,
    count: &'a Count,
    allowed: &'a [Errno],
    mut action: impl FnMut(u64) -> nix::Result<()> + Send + 'a,
) -> Work<'a> {
    Box::new(move |until| {
        let mut n = 0;
        while until.more() {
            let came = action(n);
            count.add(what, came, allowed)?;
            if came.is_err() {
                // What is refused now may be so for a while.
                std::thread::sleep(Duration::from_micros(300));
            }
            n += 1;
        }
        Ok(())
    })
}

/// Ends the run once all of this was done at least so often.
pub fn enough<'a>(wanted: Vec<(&'static str, &'a Count, u64)>) -> Work<'a> {
    Box::new(move |until| {
        while until.more() {
            std::thread::sleep(Duration::from_millis(20));
            if wanted
                .iter()
                .all(|(_, count, rounds)| count.get() >= *rounds)
            {
                until.stop();
                return Ok(());
            }
        }
        for (what, count, rounds) in wanted {
            let done = count.get();
            ensure!(done >= rounds, "{what}: {done} times, of {rounds}");
        }
        Ok(())
    })
}

/// Writes and reads tagged blocks: each holds zeros, or what was once written to it, whole.
pub fn tagged(disk: Disk, seed: u64, count: &Count) -> Work<'_> {
    Box::new(move |until| {
        let mut rng = Rng::new(seed, 0x7a9);
        let (mut page, mut scratch) = (Mapping::new(PAGE)?, Mapping::new(PAGE)?);
        while until.more() {
            let opened = if rng.below(2) == 0 {
                disk.direct()
            } else {
                disk.buffered()
            };
            let Ok(file) = opened else { continue };
            for _ in 0..16 {
                // Behind the swap area and the file system of the others.
                let block = 200 + rng.below(56);
                pattern::stamp(block, 1 + rng.below(1 << 20), &mut page);
                let came = match rng.below(4) {
                    0 | 1 => blk::try_write(&file, &page, block * P).map(drop),
                    2 => blk::discard(&file, block * P, P),
                    _ => blk::try_read(&file, &mut page, block * P).and_then(|len| match len {
                        PAGE => Ok(()),
                        _ => Err(Errno::ENOSPC),
                    }),
                };
                if came.is_ok() {
                    pattern::version(block, &page, &mut scratch)?;
                }
                count.add("I/O", came, &PASSING)?;
            }
        }
        Ok(())
    })
}

/// The path of the node, for C.
pub fn c_node(disk: &Disk) -> Result<CString> {
    Ok(CString::new(disk.node())?)
}

/// The first page of a swap area of `pages` pages.
pub fn swap_header(pages: u32) -> Result<Mapping> {
    let mut page = Mapping::new(PAGE)?;
    page[1024..1028].copy_from_slice(&1_u32.to_le_bytes());
    page[1028..1032].copy_from_slice(&(pages - 1).to_le_bytes());
    page[PAGE - 10..].copy_from_slice(b"SWAPSPACE2");
    Ok(page)
}

/// Makes a swap area, and uses it for a moment.
pub fn swap_on_and_off(disk: &Disk, header: &[u8], node: &CString) -> nix::Result<()> {
    {
        let file = disk.direct().map_err(|_| Errno::ENXIO)?;
        blk::try_write(&file, header, 0)?;
    }
    // SAFETY: a C string and flags.
    Errno::result(unsafe { libc::swapon(node.as_ptr(), 0) })?;
    // SAFETY: as above.
    Errno::result(unsafe { libc::swapoff(node.as_ptr()) }).map(drop)
}
