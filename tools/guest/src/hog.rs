// SPDX-License-Identifier: GPL-2.0

//! A program that uses more memory than there is, and knows what should be in every byte of it.

use anyhow::{bail, Context, Result};

use crate::buf::Mapping;
use crate::pattern::{self, Kind, Rng};
use crate::PAGE;

/// A large piece of memory, filled page by page from a seed.
///
/// Passes over it alternate in direction. In one direction only, a replacement by age always throws
/// out what comes next, and every single access would wait for swap.
pub struct Hog {
    map: Mapping,
    seeds: Vec<u32>,
    backwards: bool,
    templates: Templates,
}

/// Pages of every sort, about as compressible as programs' memory is, made once: a page of the hog is a copy of one of them with marks of its
/// own. Making each from scratch would take longer than swapping it.
struct Templates(Vec<(Kind, Vec<u8>)>);

/// How many templates there are.
const TEMPLATES: u64 = 192;

/// A page has its own mark in every piece of this many bytes.
const MARKED: usize = 512;

impl Templates {
    fn new() -> Templates {
        let make = |n| {
            let mut rng = Rng::new(0x7e39, n);
            let kind = match n % 16 {
                0 | 1 => Kind::Word(0),
                2 => Kind::Word(n),
                3 if n % 32 == 3 => Kind::Random,
                3 => Kind::Prefix(rng.below(PAGE as u64) as usize),
                4..=7 => Kind::Repeat(100 + rng.below(600) as usize),
                8..=11 => Kind::Text,
                _ => Kind::Records,
            };
            let mut page = vec![0; PAGE];
            pattern::fill(kind, n, &mut page);
            (kind, page)
        };
        Templates((0..TEMPLATES).map(make).collect())
    }

    fn random() -> Templates {
        let make = |n| {
            let mut page = vec![0; PAGE];
            pattern::fill(Kind::Random, n, &mut page);
            (Kind::Random, page)
        };
        Templates((0..TEMPLATES).map(make).collect())
    }

    /// Fills `page` with what page `index` holds for `seed`.
    fn fill(&self, seed: u32, index: u64, page: &mut [u8]) {
        let mut rng = Rng::new(u64::from(seed), index);
        let (kind, template) = &self.0[rng.below(TEMPLATES) as usize];
        page.copy_from_slice(template);
        match kind {
            // Zeros stay zeros; other words become this page's word, all over.
            Kind::Word(0) => (),
            Kind::Word(_) => pattern::fill(Kind::Word(rng.next()), 0, page),
            _ => {
                for piece in page.chunks_exact_mut(MARKED) {
                    piece[..8].copy_from_slice(&rng.next().to_le_bytes());
                }
            }
        }
    }
}

impl Hog {
    /// More than any guest can hold, for [`Hog::fill_until_swapped`].
    pub fn boundless() -> Result<Hog> {
        Hog::new(2 * crate::stat::meminfo("MemTotal")?)
    }

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
            backwards: false,
            templates: Templates::new(),
        })
    }

    /// The same, to be filled with what does not compress.
    pub fn of_random(bytes: u64) -> Result<Hog> {
        Ok(Hog {
            templates: Templates::random(),
            ..Hog::new(bytes)?
        })
    }

    /// How many pages there are.
    pub fn pages(&self) -> u64 {
        self.seeds.len() as u64
    }

    /// How many bytes that is.
    pub fn bytes(&self) -> u64 {
        self.pages() * PAGE as u64
    }

    /// Fills every page anew from `seed`, reporting how many pages are done now and then.
    pub fn fill(&mut self, seed: u32, progress: impl FnMut(u64)) {
        let pages = self.pass();
        self.fill_some(seed, pages, progress);
    }

    /// Takes memory, page after page, until `goal` bytes of this program are in swap: more memory
    /// than the guest has to give, however much that is. The rest of the mapping is not used.
    pub fn fill_until_swapped(
        &mut self,
        seed: u32,
        goal: u64,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<()> {
        self.backwards = true;
        let before = SwapTraffic::now()?;
        for index in 0..self.pages() {
            self.fill_some(seed, index..index + 1, |_| ());
            if index % 1024 != 1023 {
                continue;
            }
            // A page counts as swapped once it has a place in swap; written it is a moment later.
            let written = (SwapTraffic::now()?.out - before.out) * PAGE as u64;
            let out = swapped_out()?.min(written);
            progress((index + 1) * PAGE as u64, out);
            if out >= goal {
                self.seeds.truncate(index as usize + 1);
                return Ok(());
            }
        }
        bail!(
            "no memory pressure: all {} pages were used, and not {goal} bytes of them went to swap",
            self.pages()
        );
    }

    /// All pages in the order of the next pass.
    fn pass(&mut self) -> Box<dyn Iterator<Item = u64>> {
        let pages = 0..self.pages();
        self.backwards = !self.backwards;
        match self.backwards {
            true => Box::new(pages),
            false => Box::new(pages.rev()),
        }
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
            self.templates
                .fill(seed, index, &mut self.map[at..at + PAGE]);
            self.seeds[index as usize] = seed;
            if done % 256 == 0 {
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

    /// Compares every byte with what it should be.
    pub fn verify(&mut self, mut progress: impl FnMut(u64)) -> Result<()> {
        let mut expected = vec![0; PAGE];
        for (done, index) in self.pass().enumerate() {
            self.verify_page(index, &mut expected)?;
            if done % 256 == 0 {
                progress(done as u64);
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
        self.templates
            .fill(self.seeds[index as usize], index, expected);
        crate::blk::equal(
            &format!("memory page {index} of {}", self.pages()),
            expected,
            &self.map[at..at + PAGE],
        )
    }
}

/// Takes all memory but about `left` bytes and keeps it from going to swap, until the result is dropped: then pressure is
/// real and yet soon there.
pub fn leave_only(left: u64) -> Result<Mapping> {
    let all = crate::stat::meminfo("MemAvailable")?;
    Mapping::locked(all.saturating_sub(left) as usize)
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

/// How much of this program is in swap now, in bytes.
fn swapped_out() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("reading own status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmSwap:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    let kib: u64 = number
        .and_then(|n| n.parse().ok())
        .context("the kernel does not tell how much of a program is in swap")?;
    Ok(kib * 1024)
}
