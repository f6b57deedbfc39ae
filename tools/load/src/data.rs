// SPDX-License-Identifier: GPL-2.0

//! What blocks are made of.

use std::fs;

use anyhow::{bail, ensure, Context, Result};
use rzram_guest::buf::Mapping;
use rzram_guest::pattern::{fill, Kind, Rng};
use rzram_guest::PAGE;

/// Bytes of prepared data where nothing else is said, which writes take their blocks from: many different ones, or the branch
/// predictor of a CPU would learn them.
pub const POOL: usize = 4 << 20;

/// Fills a pool of `len` bytes with data of a kind: `zero`, `byte` (one, all over), `word` (a different one for each block), `half` (of each
/// 512 bytes, half are random, as with fio's `buffer_compress_percentage=50`), `text`, `records`, `random`, or
/// `file:PATH` (the pages of a file again and again).
pub fn pool(kind: &str, seed: u64, len: usize) -> Result<Mapping> {
    let mut pool = Mapping::new(len)?;
    if let Some(path) = kind.strip_prefix("file:") {
        let file = fs::read(path).with_context(|| format!("reading {path}"))?;
        let pages = file.len() / PAGE;
        ensure!(pages > 0, "{path}: less than a page");
        // Each thread begins somewhere else.
        let first = Rng::new(seed, 0xda7a).below(pages as u64) as usize;
        for (index, page) in pool.chunks_exact_mut(PAGE).enumerate() {
            let from = (first + index) % pages * PAGE;
            page.copy_from_slice(&file[from..from + PAGE]);
        }
        return Ok(pool);
    }
    for (index, page) in pool.chunks_exact_mut(PAGE).enumerate() {
        let seed = (seed << 32) | index as u64;
        match kind {
            "zero" => {}
            "byte" => page.fill(0x5a),
            "word" => fill(Kind::Word(Rng::new(seed, 1).next()), 0, page),
            "half" => {
                for (n, piece) in page.chunks_exact_mut(512).enumerate() {
                    fill(Kind::Prefix(256), (seed << 3) | n as u64, piece);
                }
            }
            "text" => fill(Kind::Text, seed, page),
            "records" => fill(Kind::Records, seed, page),
            "random" => fill(Kind::Random, seed, page),
            other => bail!(
                "data {other}: not one of zero, byte, word, half, text, records, random, file:PATH"
            ),
        }
    }
    Ok(pool)
}
