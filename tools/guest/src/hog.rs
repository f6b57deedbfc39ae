// SPDX-License-Identifier: GPL-2.0

//! A program that uses more memory than there is, and knows what should be in every byte of it.

use anyhow::{bail, Context, Result};

use crate::buf::Mapping;
use crate::pattern::{fill_mixed, Rng};
use crate::PAGE;

/// A large piece of memory, filled page by page from a seed.
pub struct Hog {
    map: Mapping,
    seeds: Vec<u32>,
}

impl Hog {
    /// Maps the memory; nothing is used until it is filled.
    pub fn new(bytes: u64) -> Result<Hog> {
        let pages = bytes as usize / PAGE;
        let map = Mapping::new(pages * PAGE)?;
        let (base, len) = map.raw();
        // Whole huge pages would be split on their way out; small ones show more traffic.
        // SAFETY: the range is the mapping's own; the call is advice.
        unsafe { libc::madvise(base.cast(), len, libc::MADV_NOHUGEPAGE) };
        Ok(Hog {
            map,
            seeds: vec![0; pages],
        })
    }

    /// How many pages there are.
    pub fn pages(&self) -> u64 {
        self.seeds.len() as u64
    }

    /// Fills every page anew from `seed`, reporting how many pages are done now and then.
    pub fn fill(&mut self, seed: u32, progress: impl FnMut(u64)) {
        let pages = 0..self.pages();
        self.fill_some(seed, pages, progress);
    }

    /// Fills about one page in `n`, chosen at random, anew.
    pub fn touch(&mut self, seed: u32, n: u64) {
        let mut rng = Rng::new(u64::from(seed), 0x70c4);
        let pages: Vec<u64> = (0..self.pages()).filter(|_| rng.below(n) == 0).collect();
        self.fill_some(seed, pages.into_iter(), |_| ());
    }

    fn fill_some(
        &mut self,
        seed: u32,
        pages: impl Iterator<Item = u64>,
        mut progress: impl FnMut(u64),
    ) {
        for (done, index) in pages.enumerate() {
            let at = index as usize * PAGE;
            fill_mixed(u64::from(seed), index, &mut self.map[at..at + PAGE]);
            self.seeds[index as usize] = seed;
            if done % 4096 == 0 {
                progress(done as u64);
            }
        }
    }

    /// Asks the kernel to write everything to swap now.
    pub fn page_out(&self) -> Result<()> {
        let (base, len) = self.map.raw();
        // SAFETY: the range is the mapping's own, and its content stays the same.
        let rc = unsafe { libc::madvise(base.cast(), len, libc::MADV_PAGEOUT) };
        if rc != 0 {
            bail!("MADV_PAGEOUT: {}", std::io::Error::last_os_error());
        }
        Ok(())
    }

    /// Compares every byte with what it should be, in the order of addresses.
    pub fn verify(&self, mut progress: impl FnMut(u64)) -> Result<()> {
        let mut expected = vec![0; PAGE];
        for index in 0..self.pages() {
            self.verify_page(index, &mut expected)?;
            if index % 4096 == 0 {
                progress(index);
            }
        }
        Ok(())
    }

    /// Compares `count` pages in random order, which reads ahead badly and mixes with writing out.
    pub fn verify_random(&self, seed: u64, count: u64) -> Result<()> {
        let mut expected = vec![0; PAGE];
        let mut rng = Rng::new(seed, 0x5eed);
        for _ in 0..count {
            self.verify_page(rng.below(self.pages()), &mut expected)?;
        }
        Ok(())
    }

    fn verify_page(&self, index: u64, expected: &mut [u8]) -> Result<()> {
        let at = index as usize * PAGE;
        fill_mixed(u64::from(self.seeds[index as usize]), index, expected);
        crate::blk::equal(
            &format!("memory page {index} of {}", self.pages()),
            expected,
            &self.map[at..at + PAGE],
        )
    }
}

/// Pages that went out to swap and came back, so far.
#[derive(Clone, Copy, Debug)]
pub struct SwapTraffic {
    /// Pages written to swap.
    pub out: u64,
    /// Pages read from swap.
    pub back: u64,
}

impl SwapTraffic {
    /// The kernel's counters now.
    pub fn now() -> Result<SwapTraffic> {
        use crate::stat::vmstat;
        Ok(SwapTraffic {
            out: vmstat("pswpout")?,
            back: vmstat("pswpin")?,
        })
    }

    /// The traffic since `earlier`; an error if there was none in either direction.
    pub fn since(self, earlier: SwapTraffic) -> Result<SwapTraffic> {
        let traffic = SwapTraffic {
            out: self.out - earlier.out,
            back: self.back - earlier.back,
        };
        if traffic.out == 0 || traffic.back == 0 {
            bail!(
                "no memory pressure: {} pages went to swap, {} came back",
                traffic.out,
                traffic.back
            );
        }
        Ok(traffic)
    }
}

/// How much memory to use so that about as much as `percent` of what is available is used.
pub fn pressure(percent: u64) -> Result<u64> {
    let available = crate::stat::meminfo("MemAvailable")?;
    (available / 100)
        .checked_mul(percent)
        .context("the guest has an absurd amount of memory")
}
