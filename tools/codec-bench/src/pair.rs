// SPDX-License-Identifier: GPL-2.0
//! Two codecs side by side: the kernel's lz4 and another one, block of pages by block of pages.
//!
//! Each block of pages is compressed by one and then by the other, twice, and the shorter time counts: so what else the
//! machine does hits both or none. All pages are gone through once, for a branch predictor that has seen a page before is
//! one that knows it.

use crate::{
    codecs::{Codec, Name},
    corpus::Pages,
};
use anyhow::{bail, Result};
use codec_bench::{
    cost,
    results::{Figures, Pair},
};
use std::{
    hint::black_box,
    time::{Duration, Instant},
};

/// Pages that are measured together.
const BLOCK: usize = 64;
/// How often.
const PASSES: usize = 2;

/// Times and bytes of one codec, summed up.
#[derive(Default)]
struct Sums {
    compress: Duration,
    decompress: Duration,
    bytes: usize,
    memory: f64,
    huge: usize,
}

impl Sums {
    fn figures(&self, pages: usize) -> Figures {
        let per = |time: Duration, count: usize| time.as_secs_f64() * 1e9 / count as f64;
        let small = pages - self.huge;
        Figures {
            compress: per(self.compress, pages),
            decompress: (small != 0).then(|| per(self.decompress, small)),
            bytes: self.bytes as f64 / pages as f64,
            memory: self.memory / pages as f64,
            huge: self.huge as f64 / pages as f64,
        }
    }
}

/// Runs both on all pages of a kind.
pub fn run(kind: &str, name: Name, pages: &Pages) -> Result<Pair> {
    let mut codecs = [Codec::new(Name::Lz4)?, Codec::new(name)?];
    let mut sums = [Sums::default(), Sums::default()];
    let blocks = pages.len() / BLOCK;
    if blocks == 0 {
        bail!("{kind}: fewer than {BLOCK} pages");
    }
    // A page for the results, aligned.
    let mut back = vec![0_u8; 2 * cost::PAGE];
    let start = back.as_ptr().align_offset(cost::PAGE);
    let back = &mut back[start..start + cost::PAGE];
    for block in 0..blocks {
        let of = |index| pages.page(block * BLOCK + index);
        // Into the cache, where a page that is being swapped out is not always, but then for both.
        (0..BLOCK).for_each(|index| {
            black_box(of(index).iter().fold(0, |all, byte| all ^ byte));
        });
        let mut best = [Duration::MAX; 2];
        for _ in 0..PASSES {
            for (codec, best) in codecs.iter_mut().zip(&mut best) {
                let start = Instant::now();
                for index in 0..BLOCK {
                    black_box(codec.compress(black_box(of(index))));
                }
                *best = start.elapsed().min(*best);
            }
        }
        let mut stored: [Vec<Vec<u8>>; 2] = [Vec::new(), Vec::new()];
        for ((codec, sums), (stored, best)) in codecs
            .iter_mut()
            .zip(&mut sums)
            .zip(stored.iter_mut().zip(best))
        {
            sums.compress += best;
            for index in 0..BLOCK {
                let bytes = codec.compress(of(index));
                let huge = cost::is_huge(bytes.len());
                sums.bytes += if huge { cost::PAGE } else { bytes.len() };
                sums.memory += cost::stored(bytes.len());
                if huge {
                    sums.huge += 1;
                    continue;
                }
                let bytes = bytes.to_vec();
                back.fill(0x5a);
                if !codec.decompress(&bytes, back) || back != of(index) {
                    bail!("{kind}: page {} does not come back", block * BLOCK + index);
                }
                stored.push(bytes);
            }
        }
        let mut best = [Duration::MAX; 2];
        for _ in 0..PASSES {
            for ((codec, stored), best) in codecs.iter_mut().zip(&stored).zip(&mut best) {
                let start = Instant::now();
                for bytes in stored {
                    black_box(codec.decompress(black_box(bytes), back));
                }
                *best = start.elapsed().min(*best);
            }
        }
        for (sums, best) in sums.iter_mut().zip(best) {
            sums.decompress += best;
        }
    }
    let pages = blocks * BLOCK;
    let [lz4, other] = sums.map(|sums| sums.figures(pages));
    Ok(Pair {
        kind: kind.to_owned(),
        codec: name.text().to_owned(),
        pages,
        lz4,
        other,
    })
}
