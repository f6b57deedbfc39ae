// SPDX-License-Identifier: GPL-2.0

//! What is done to blocks that are stored, and what is known of them: flags and figures.
//!
//! The flags of each block, as `block_state` shows them, are compared with what they were: only what was chosen may have
//! changed, and as it should.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{bail, ensure, Context, Result};
use nix::errno::Errno;

use super::disk::{Block, Class};
use super::drive::Live;
use super::step::{Again, Backing, Step, Which, PLACES};
use crate::post::{bd, block_state};
use crate::same;

/// How writeback is limited.
#[derive(Clone, Copy, Default)]
pub(super) struct Settings {
    limit: Option<u64>,
}

/// The flags of the blocks that are stored, by number.
pub(super) type Flags = BTreeMap<u64, String>;

fn has(flags: &str, flag: char) -> bool {
    flags.contains(flag)
}

fn is_in_memory(flags: &str) -> bool {
    !has(flags, 's') && !has(flags, 'w')
}

/// With one flag taken away.
fn without(flags: &str, flag: char) -> String {
    flags.replace(flag, ".")
}

impl Live {
    /// Which blocks the disk says are stored, and their flags.
    pub(super) fn stored(&self) -> Result<Flags> {
        let states = block_state(&self.disk)?;
        Ok(states
            .into_iter()
            .map(|(at, state)| (at, state.flags))
            .collect())
    }

    /// Compares what the disk says about blocks, and about itself, with what is known.
    pub(super) fn compare_state(&mut self) -> Result<Flags> {
        let stored = self.stored()?;
        let expected: Vec<u64> = (0..self.window.len())
            .filter(|at| self.memory.blocks[*at as usize].is_some())
            .map(|at| self.window.block(at))
            .collect();
        let came: Vec<u64> = stored.keys().copied().collect();
        same("the blocks that are stored", expected, came)?;
        for at in 0..self.window.len() {
            let number = self.window.block(at);
            let Some(block) = &mut self.memory.blocks[at as usize] else {
                continue;
            };
            let Some(flags) = stored.get(&number) else {
                bail!("block {number} has no flags");
            };
            check_flags(&self.shape.algorithm, block, flags)
                .with_context(|| format!("block {number}, {:?}", block.class))?;
            block.flags = Some(flags.clone());
            block.touched = false;
        }
        self.compare_figures(&stored)?;
        Ok(stored)
    }

    fn compare_figures(&mut self, stored: &Flags) -> Result<()> {
        let (mm, bd, io) = (self.disk.mm()?, bd(&self.disk)?, self.disk.io()?);
        let count = |wanted: &dyn Fn(&str) -> bool| {
            stored.values().filter(|flags| wanted(flags)).count() as u64
        };
        same("orig_data_size", stored.len() as u64 * 4096, mm.orig)?;
        let patterns = self.memory.count(|block| block.class == Class::Same);
        same("same_pages", patterns, mm.same)?;
        let huge = count(&|flags| has(flags, 'h') && !has(flags, 'w'));
        same("huge_pages", huge, mm.huge)?;
        same("mem_limit", self.limit, mm.limit)?;
        ensure!(mm.used >= mm.compr, "less is used than stored: {mm:?}");
        let in_memory = count(&is_in_memory);
        ensure!(
            mm.compr >= huge * 4096 && mm.compr <= in_memory * 4096 + mm.same * 8,
            "compr_data_size with {in_memory} blocks in memory, {huge} of them huge: {mm:?}"
        );
        ensure!(
            mm.huge_since >= self.huge_since,
            "huge_pages_since fell from {} to {}",
            self.huge_since,
            mm.huge_since
        );
        self.huge_since = mm.huge_since;
        same("bd_count", count(&|flags| has(flags, 'w')), bd.count)?;
        same(
            "blocks written to the backing device",
            self.moved,
            bd.writes,
        )?;
        ensure!(
            bd.reads >= self.backing_reads,
            "bd_stat counts down: {bd:?}"
        );
        self.backing_reads = bd.reads;
        same("notify_free", self.freed, io.notify_free)?;
        same("failed_reads", 0, io.failed_reads)
    }

    pub(super) fn post_process(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Idle(seconds) => self.mark_idle(*seconds),
            Step::Recompress(again) => self.recompress(again),
            Step::Writeback(which) => self.write_back(which),
            Step::WritebackLimit(limit) => {
                self.settings.limit = limit.map(u64::from);
                if let Some(limit) = limit {
                    self.disk.set("writeback_limit", &limit.to_string())?;
                }
                let enable = if limit.is_some() { "1" } else { "0" };
                self.disk.set("writeback_limit_enable", enable)
            }
            Step::Batch(blocks) => self.disk.set("writeback_batch_size", &blocks.to_string()),
            _ => bail!("not a step of this kind"),
        }
    }

    /// Calls `allowed` with each block's flags before and after something; then takes the new ones as known.
    fn changed(
        &mut self,
        before: &Flags,
        allowed: impl Fn(u64, &Block, &str, &str) -> Result<()>,
    ) -> Result<Flags> {
        let after = self.stored()?;
        for at in 0..self.window.len() {
            let number = self.window.block(at);
            let Some(block) = &mut self.memory.blocks[at as usize] else {
                continue;
            };
            let (Some(old), Some(new)) = (before.get(&number), after.get(&number)) else {
                bail!("block {number} is not stored any more");
            };
            allowed(number, block, old, new).with_context(|| {
                format!("block {number}, {:?}, was {old} and is {new}", block.class)
            })?;
            block.flags = Some(new.clone());
            block.touched = false;
        }
        self.compare_state()
    }

    fn mark_idle(&mut self, seconds: Option<u32>) -> Result<()> {
        let before = self.compare_state()?;
        let value = seconds.map_or("all".to_owned(), |seconds| seconds.to_string());
        let came = self.disk.put("idle", &value);
        if seconds.is_some() {
            // When a block was accessed is not tracked here.
            same("idle by age", Err(Errno::EINVAL), came)?;
        } else {
            same("idle", Ok(()), came)?;
        }
        let all = seconds.is_none();
        self.changed(&before, |_, _, old, new| {
            let idle = has(old, 'i') || all && is_in_memory(old);
            same("idle", idle, has(new, 'i'))?;
            same("the rest", without(old, 'i'), without(new, 'i'))
        })?;
        Ok(())
    }

    fn recompress(&mut self, again: &Again) -> Result<()> {
        let before = self.compare_state()?;
        let mut words = Vec::new();
        if !again.kind.is_empty() {
            words.push(format!("type={}", again.kind));
        }
        if again.threshold != 0 {
            words.push(format!("threshold={}", again.threshold));
        }
        if let Some(max) = again.max {
            words.push(format!("max_pages={max}"));
        }
        words.push(format!("priority={}", again.priority));
        let came = self.disk.put("recompress", &words.join(" "));

        let priority = again.priority as usize;
        let algorithms = self.shape.again.clone();
        let algorithm = algorithms.get(priority - 1).map(String::as_str);
        let works = algorithm.is_some() && again.threshold < 4096;
        let expected = if works { Ok(()) } else { Err(Errno::EINVAL) };
        same(words.join(" "), expected, came)?;
        let last = priority == algorithms.len();
        let codes_entropy = matches!(algorithm, Some("zstd" | "deflate"));
        let all = again.threshold == 0 && again.max.is_none();
        let mut tried = 0;
        let after = self.changed(&before, |_, block, old, new| {
            let wanted = works
                && is_in_memory(old)
                && !has(old, 'n')
                && (has(old, 'i') || !again.kind.contains("idle"))
                && (has(old, 'h') || !again.kind.contains("huge"))
                && (priority > 1 || !has(old, 'r'));
            if !wanted {
                return same("what was not chosen", old, new);
            }
            let changed = has(new, 'r') && !has(old, 'r');
            ensure!(!has(new, 'i') || has(old, 'i'), "it became idle");
            ensure!(
                has(new, 'r') || !has(old, 'r'),
                "it was recompressed before"
            );
            ensure!(!has(new, 'n') || last, "it may compress further yet");
            ensure!(
                has(new, 'h') == (has(old, 'h') && !changed),
                "huge is what is not compressed"
            );
            ensure!(!has(new, 'w') && !has(new, 's'), "it is where it was");
            if block.class == Class::Huge {
                ensure!(!changed, "random bytes do not compress");
            }
            if all && !has(old, 'r') {
                ensure!(!has(new, 'i'), "who recompresses takes the mark");
                ensure!(changed || has(new, 'n') == last, "it was tried in vain");
                let is_hard = block.class == Class::SixBits && has(old, 'h');
                ensure!(!is_hard || changed == codes_entropy, "of six bits a byte");
            }
            Ok(())
        })?;
        for (number, new) in &after {
            tried += u64::from(before.get(number) != Some(new));
        }
        let max = again.max.unwrap_or(u64::MAX);
        ensure!(tried <= max, "{tried} blocks changed, with max_pages={max}");
        Ok(())
    }

    fn write_back(&mut self, which: &Which) -> Result<()> {
        let before = self.compare_state()?;
        let len = self.window.len();
        let number = |at: u32| self.window.block(at % len);
        let of = |wanted: &dyn Fn(u64, &str) -> bool| -> BTreeSet<u64> {
            before
                .iter()
                .filter(|(number, flags)| is_in_memory(flags) && wanted(**number, flags))
                .map(|(number, _)| *number)
                .collect()
        };
        let (text, chosen, mut expected) = match which {
            Which::Type(kind) => {
                let chosen = of(&|_, flags| match kind.as_str() {
                    "incompressible" => has(flags, 'n'),
                    kind => {
                        (has(flags, 'i') || !kind.contains("idle"))
                            && (has(flags, 'h') || !kind.contains("huge"))
                    }
                });
                (format!("type={kind}"), chosen, Ok(()))
            }
            Which::Indices(all) => {
                let all: Vec<u64> = all.iter().map(|at| number(*at)).collect();
                let words: Vec<_> = all.iter().map(|n| format!("page_index={n}")).collect();
                (words.join(" "), of(&|n, _| all.contains(&n)), Ok(()))
            }
            Which::Range(lo, hi) => {
                let (lo, hi) = (number(*lo), number(*hi));
                let (lo, hi) = (lo.min(hi), lo.max(hi));
                let chosen = of(&|n, _| (lo..=hi).contains(&n));
                (format!("page_indexes={lo}-{hi}"), chosen, Ok(()))
            }
            Which::Beyond(at) => {
                let (inside, behind) = (number(*at), self.shape.blocks);
                let text = format!("page_index={inside} page_index={behind}");
                (text, BTreeSet::new(), Err(Errno::ERANGE))
            }
        };
        let there = before.values().filter(|flags| has(flags, 'w')).count() as u64;
        let (limit, free) = (self.settings.limit.unwrap_or(u64::MAX), PLACES - there);
        let mut moves = (chosen.len() as u64).min(limit).min(free);
        if self.shape.backing == Backing::None {
            (moves, expected) = (0, Err(Errno::ENODEV));
        }
        let came = self.disk.put("writeback", &text);
        let is_short = expected.is_ok() && moves < chosen.len() as u64;
        if is_short {
            // Which of the two is met first may depend on who is quickest.
            let fits = match came {
                Err(Errno::EIO) => limit < chosen.len() as u64,
                Err(Errno::ENOSPC) => free < chosen.len() as u64,
                _ => false,
            };
            ensure!(
                fits,
                "{text}: {came:?}, with {limit} allowed and {free} free"
            );
        } else {
            same(&text, expected, came)?;
        }
        self.moved += moves;
        if let Some(limit) = &mut self.settings.limit {
            *limit -= moves;
            self.disk.shows("writeback_limit", &format!("{limit}\n"))?;
        }
        let after = self.changed(&before, |number, _, old, new| {
            let may = chosen.contains(&number);
            if has(new, 'w') == has(old, 'w') {
                ensure!(!may || is_short || moves == 0, "it was chosen");
                return same("what was not written back", old, new);
            }
            ensure!(may, "it was not chosen");
            let gone = without(&without(new, 'w'), 'i');
            same("the rest", without(old, 'i'), gone)
        })?;
        let now = after.values().filter(|flags| has(flags, 'w')).count() as u64;
        same("blocks that were written back", moves, now - there)
    }
}

/// Compares the flags of a block with what is known about it.
fn check_flags(algorithm: &str, block: &Block, flags: &str) -> Result<()> {
    same("same-filled", block.class == Class::Same, has(flags, 's'))?;
    if let Some(before) = &block.flags {
        let (mut expected, mut came) = (before.clone(), flags.to_owned());
        if block.touched && !has(flags, 'i') {
            (expected, came) = (without(&expected, 'i'), without(&came, 'i'));
        }
        return same(
            "the flags of a block that was not written since",
            expected,
            came,
        );
    }
    let huge = match block.class {
        Class::Huge => Some(true),
        Class::SixBits => Some(!matches!(algorithm, "zstd" | "deflate")),
        Class::Small | Class::Same => Some(false),
        Class::Unknown => None,
    };
    let huge = huge.unwrap_or(has(flags, 'h'));
    ensure!(
        has(flags, 'h') == huge && without(&without(flags, 's'), 'h') == "......",
        "a block that was just written\n  expected: huge {huge}, nothing else\n  came:     {flags}"
    );
    Ok(())
}
