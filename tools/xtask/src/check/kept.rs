// SPDX-License-Identifier: GPL-2.0
//! Whether rzram has become slower: instructions for a block, as a ratio to C zram's in the same guest, against those that are
//! recorded in tools/kept.toml.

use super::{guests::Memory, report::Outcome, Args, Item};
use crate::{
    bench::{self, kept},
    ctx::Ctx,
    vm::Platform,
};
use anyhow::Result;
use std::sync::Arc;

const NAME: &str = "bench: kept";

/// The item, if it is wanted.
pub fn items<'a>(
    ctx: &'a Ctx,
    platform: &'a Platform,
    memory: &Arc<Memory>,
    args: &Args,
) -> Result<Vec<Item<'a>>> {
    if !args.wants(NAME) || !ctx.has_member("load") {
        return Ok(Vec::new());
    }
    let files = bench::guest_files(ctx, platform)?;
    let memory = memory.clone();
    Ok(vec![Item::new(NAME.to_owned(), move || {
        let taken = memory.take(kept::set().memory);
        let measured = bench::measure_kept(ctx, platform, &files);
        memory.give(taken);
        let measured = measured?;
        let faults = kept::faults(&kept::recorded(ctx)?, &measured);
        if !faults.is_empty() {
            return Ok(Outcome::failed(faults.join("\n")));
        }
        let ratios = measured.iter().map(|cell| cell.ratio);
        Ok(Outcome {
            note: format!(
                "{} cells, the lowest {:.3} times as fast as C zram",
                measured.len(),
                ratios.fold(f64::INFINITY, f64::min)
            ),
            ..Outcome::passed()
        })
    })])
}
