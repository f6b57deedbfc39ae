// SPDX-License-Identifier: GPL-2.0

//! The table against the simplest thing that does the same: a map of blocks. After each step the two hold the same, and
//! `mm_stat` says to the byte what the map adds up to.

use crate::sys::page_tests::block;
use crate::table::meta::{CHOSEN, IDLE, INCOMPRESSIBLE};
use crate::table::{Anywhere, Stored, Table};
use crate::table_tests::{full_table, mm_stat, noise, peek, raw, read, HUGE};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Blocks on both sides of where leaves and nodes of the directory end, and at the end of the disk.
const INDICES: [u64; 8] = [0, 1, 511, 512, 513, (1 << 18) - 1, 1 << 18, BLOCKS - 1];
const BLOCKS: u64 = (1 << 18) + 1000;
/// Blocks of the backing device: fewer than there are to be moved there.
const PLACES: u64 = 3;

#[derive(Clone, Debug)]
enum Content {
    Pattern(u64),
    Compressed(usize, usize, u8),
    Raw(u64),
}

impl Content {
    fn bytes(&self) -> Vec<u8> {
        match *self {
            Self::Pattern(pattern) => block(|_| pattern),
            Self::Compressed(len, _, byte) => vec![byte; len],
            Self::Raw(seed) => noise(seed),
        }
    }

    /// Bytes that it takes in the pool.
    fn size(&self) -> u64 {
        match *self {
            Self::Pattern(pattern) => {
                let number = pattern as i64;
                let twice = pattern >> 32 == pattern & 0xffff_ffff;
                if twice || number << 23 >> 23 == number {
                    0
                } else {
                    8
                }
            }
            Self::Compressed(len, ..) => len as u64,
            Self::Raw(_) => 4096,
        }
    }

    fn is_pattern(&self) -> bool {
        matches!(self, Self::Pattern(_))
    }
}

#[derive(Clone, Debug)]
struct Block {
    content: Content,
    /// Where it is on the backing device, if it is there.
    place: Option<u64>,
    flags: u32,
}

impl Block {
    /// Bytes that it takes in the pool.
    fn size(&self) -> u64 {
        match self.place {
            Some(_) => 0,
            None => self.content.size(),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Store(u64, Content),
    Clear(u64),
    FreeSoon(u64),
    FreeRange(u64, u64),
    MoveOut(u64),
    /// Compressed again: stored if the block is what was chosen still, which is said here.
    Recompress(u64, Content, bool),
    Mark(u64, u32, u32),
    Touch(u64),
    SetLimit(u64),
    ResetMax,
}

#[derive(Default)]
struct Model {
    blocks: BTreeMap<u64, Block>,
    limit: u64,
    used_max: u64,
    huge_since: u64,
}

impl Model {
    fn bytes(&self) -> u64 {
        self.blocks.values().map(Block::size).sum()
    }

    /// Whether there is room for this, beside all that is there.
    fn alloc(&mut self, content: &Content) -> bool {
        if content.size() == 0 {
            return true;
        }
        let pages = (self.bytes() + content.size()).div_ceil(4096);
        self.used_max = self.used_max.max(pages);
        self.limit == 0 || pages <= self.limit
    }

    fn count(&self, what: fn(&Block) -> bool) -> usize {
        self.blocks.values().filter(|block| what(block)).count()
    }

    fn places(&self) -> Vec<u64> {
        let places = self.blocks.values().filter_map(|block| block.place);
        places.collect()
    }

    fn mm_stat(&self) -> String {
        format!(
            "{:8} {:8} {:8} {:8} {:8} {:8} {:8} {:8} {:8}\n",
            self.blocks.len() * 4096,
            self.bytes(),
            self.bytes().div_ceil(4096) * 4096,
            self.limit * 4096,
            self.used_max * 4096,
            self.count(|block| block.content.is_pattern()),
            0,
            self.count(|block| block.size() == 4096),
            self.huge_since
        )
    }
}

fn store(table: &Table, model: &mut Model, index: u64, content: Content) {
    let room = model.alloc(&content);
    let entry = match content {
        Content::Pattern(pattern) => table.pattern(pattern, Anywhere, model.limit),
        Content::Compressed(_, priority, _) => table
            .compressed(&content.bytes(), priority, Anywhere, model.limit)
            .map(|entry| entry.expect("short enough")),
        Content::Raw(_) => raw(table, &content.bytes(), model.limit),
    };
    assert_eq!(entry.is_ok(), room, "{content:?}");
    if let Ok(entry) = entry {
        table.walk().find_or_make(index).unwrap().store(entry);
        model.huge_since += u64::from(matches!(content, Content::Raw(_)));
        let block = Block {
            content,
            place: None,
            flags: 0,
        };
        model.blocks.insert(index, block);
    }
}

/// Moves a block to the backing device, unless it is there, or that is full, or the block is a pattern.
fn move_out(table: &Table, model: &mut Model, index: u64) {
    let taken = model.places();
    let Some(block) = model.blocks.get_mut(&index) else {
        return;
    };
    if block.place.is_some() || block.content.is_pattern() {
        return;
    }
    let place = table.take_place();
    assert_eq!(place.is_some(), (taken.len() as u64) < PLACES);
    if let Some(place) = place {
        assert!(place < PLACES && !taken.contains(&place), "{place}");
        table.lock(index).unwrap().move_out(place);
        block.place = Some(place);
        block.flags &= INCOMPRESSIBLE;
    }
}

/// Exchanges a block for one that is compressed otherwise, unless it was accessed meanwhile, or is not in memory at all.
///
/// The limit is not asked.
fn recompress(table: &Table, model: &mut Model, index: u64, content: Content, chosen: bool) {
    let Content::Compressed(_, priority, _) = content else {
        return;
    };
    let limit = std::mem::take(&mut model.limit);
    assert!(model.alloc(&content));
    model.limit = limit;
    let entry = table.compressed(&content.bytes(), priority, Anywhere, 0);
    let entry = entry.expect("no limit").expect("short enough");
    let block = model.blocks.get_mut(&index);
    let block = block.filter(|block| block.place.is_none() && !block.content.is_pattern());
    match (table.lock(index), block) {
        (Some(mut guard), Some(block)) if chosen => {
            guard.store(entry);
            block.content = content;
            block.flags = 0;
        }
        _ => table.discard(entry),
    }
}

fn step(table: &Table, model: &mut Model, step: Step) {
    match step {
        Step::Recompress(index, content, chosen) => {
            recompress(table, model, index, content, chosen);
        }
        Step::Store(index, content) => store(table, model, index, content),
        Step::Clear(index) => {
            if let Some(mut guard) = table.lock(index) {
                guard.clear();
            }
            model.blocks.remove(&index);
        }
        Step::FreeSoon(index) => {
            table.free_soon(index);
            model.blocks.remove(&index);
        }
        Step::FreeRange(first, count) => {
            table.free_range(first, count);
            model
                .blocks
                .retain(|index, _| *index < first || *index - first >= count);
        }
        Step::MoveOut(index) => move_out(table, model, index),
        Step::Mark(index, set, cleared) => {
            if let Some(mut guard) = table.lock(index) {
                guard.mark(set, cleared);
            }
            if let Some(block) = model.blocks.get_mut(&index) {
                block.flags = block.flags & !cleared | set;
            }
        }
        Step::Touch(index) => {
            if let Some(mut guard) = table.lock(index) {
                guard.touch();
            }
            if let Some(block) = model.blocks.get_mut(&index) {
                block.flags &= INCOMPRESSIBLE;
            }
        }
        Step::SetLimit(limit) => model.limit = limit,
        Step::ResetMax => {
            table.reset_max_used();
            model.used_max = model.bytes().div_ceil(4096);
        }
    }
}

/// Compares what a slot says of a block that is stored.
fn compare_block(table: &Table, index: u64, block: &Block) {
    let guard = table.lock(index).expect("it was stored");
    let info = guard.info().expect("it was stored");
    let (size, priority) = match block.content {
        Content::Compressed(len, priority, _) => (len, priority),
        _ => (4096, 0),
    };
    assert_eq!(info.same, block.content.is_pattern());
    assert_eq!(info.elsewhere, block.place.is_some());
    assert_eq!(info.huge, matches!(block.content, Content::Raw(_)));
    assert_eq!((info.size, info.priority), (size, priority));
    assert_eq!(info.idle, block.flags & IDLE != 0);
    assert_eq!(info.chosen, block.flags & CHOSEN != 0);
    assert_eq!(info.incompressible, block.flags & INCOMPRESSIBLE != 0);

    match (guard.stored(), block.place) {
        (Stored::Elsewhere { place, compressed }, Some(expected)) => {
            assert_eq!(place, expected);
            let is_compressed = matches!(block.content, Content::Compressed(..));
            assert_eq!(compressed, is_compressed.then_some((size, priority)));
        }
        (_, None) => {
            drop(guard);
            assert!(read(table, index) == block.content.bytes());
        }
        (_, Some(place)) => panic!("not at {place}"),
    }
}

fn compare(table: &Table, model: &Model) {
    for index in INDICES {
        // Without the lock, what has no object can be seen.
        let peeked = match model.blocks.get(&index) {
            None => Some(0),
            Some(block) => match block.content {
                Content::Pattern(pattern) if block.size() == 0 => Some(pattern),
                _ => None,
            },
        };
        assert_eq!(peek(table, index), peeked, "block {index}");
        match model.blocks.get(&index) {
            Some(block) => compare_block(table, index, block),
            None => assert!(table.lock(index).is_none_or(|slot| slot.info().is_none())),
        }
        let elsewhere = |index| {
            let block = model.blocks.get(&index);
            block.is_some_and(|block| block.place.is_some())
        };
        let any = elsewhere(index) || elsewhere(index + 1);
        assert_eq!(table.any_elsewhere(index, 2), any, "block {index}");
        assert_eq!(table.any_elsewhere(index, 1), elsewhere(index));
    }
    let stored: Vec<_> = table.stored(0..u64::MAX).collect();
    assert_eq!(stored, model.blocks.keys().copied().collect::<Vec<_>>());
    assert_eq!(table.places_taken(), model.places().len() as u64);
    assert_eq!(mm_stat(table, model.limit), model.mm_stat());
}

fn indices() -> impl Strategy<Value = u64> {
    prop::sample::select(&INDICES[..])
}

fn patterns() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        any::<u32>().prop_map(|word| u64::from(word) * 0x1_0000_0001),
        any::<i16>().prop_map(|number| i64::from(number) as u64),
    ]
}

fn compressed() -> impl Strategy<Value = Content> {
    (1..HUGE, 0..4usize, any::<u8>())
        .prop_map(|(len, priority, byte)| Content::Compressed(len, priority, byte))
}

fn contents() -> impl Strategy<Value = Content> {
    prop_oneof![
        patterns().prop_map(Content::Pattern),
        compressed(),
        any::<u32>().prop_map(|seed| Content::Raw(seed.into())),
    ]
}

fn flags() -> impl Strategy<Value = u32> {
    prop::sample::select(&[0, IDLE, CHOSEN, INCOMPRESSIBLE, IDLE | INCOMPRESSIBLE][..])
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (indices(), contents()).prop_map(|(index, content)| Step::Store(index, content)),
        1 => indices().prop_map(Step::Clear),
        1 => indices().prop_map(Step::FreeSoon),
        1 => (indices(), prop_oneof![0..1000u64, Just(1 << 18), Just(u64::MAX)])
            .prop_map(|(first, count)| Step::FreeRange(first, count)),
        3 => indices().prop_map(Step::MoveOut),
        3 => (indices(), compressed(), any::<bool>())
            .prop_map(|(index, content, chosen)| Step::Recompress(index, content, chosen)),
        3 => (indices(), flags(), flags()).prop_map(|(index, set, cleared)| Step::Mark(index, set, cleared)),
        1 => indices().prop_map(Step::Touch),
        1 => (0..4u64).prop_map(Step::SetLimit),
        1 => Just(Step::ResetMax),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_table_is_a_map_of_blocks(script in prop::collection::vec(steps(), 0..50)) {
        let (table, mut model) = (full_table(BLOCKS, PLACES), Model::default());
        for next in script {
            step(&table, &mut model, next);
            compare(&table, &model);
        }
        // What is left when the table goes is freed by it: the pool under it would notice.
        drop(table);
    }

    #[test]
    fn a_table_that_is_emptied_counts_nothing(script in prop::collection::vec(steps(), 0..50)) {
        let (table, mut model) = (full_table(BLOCKS, PLACES), Model::default());
        for next in script {
            step(&table, &mut model, next);
        }
        step(&table, &mut model, Step::FreeRange(0, BLOCKS));
        assert!(model.blocks.is_empty());
        compare(&table, &model);
    }
}
