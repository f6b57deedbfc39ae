// SPDX-License-Identifier: GPL-2.0

//! The word of a slot: what goes in comes out, and nothing else changes.

use super::slot::{Body, Owner, Slot, View, BODY_BITS, META_BITS};
use super::zsmalloc::{Handle, PackedHandle};
use crate::sync::atomic::{Atomic, Relaxed};
use proptest::prelude::*;
use std::cell::RefCell;

/// Remembers what it was told of.
#[derive(Default)]
struct Log(RefCell<Vec<(u32, Content)>>);

impl Owner for Log {
    fn freed(&self, meta: u32, body: Body) {
        self.0.borrow_mut().push((meta, Content::from(body)));
    }
}

/// What a slot stores; an object is its handle's bits, which need not stand for anything here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Content {
    Empty,
    Value(u64),
    Object(u64),
    Elsewhere(u64),
}

impl From<Body> for Content {
    fn from(body: Body) -> Self {
        match body {
            Body::Empty => Self::Empty,
            Body::Value(value) => Self::Value(value),
            Body::Object(handle) => Self::Object(handle.into_packed()),
            Body::Elsewhere(place) => Self::Elsewhere(place),
        }
    }
}

impl From<View<'_>> for Content {
    fn from(view: View<'_>) -> Self {
        match view {
            View::Empty => Self::Empty,
            View::Value(value) => Self::Value(value),
            View::Elsewhere(place) => Self::Elsewhere(place),
            View::Object(object) => {
                // SAFETY: A number, and nothing else that takes room.
                let bits = unsafe { std::mem::transmute::<PackedHandle<'_>, u64>(object) };
                Self::Object(bits)
            }
        }
    }
}

impl Content {
    fn body(self) -> Body {
        match self {
            Self::Empty => Body::Empty,
            Self::Value(value) => Body::Value(value),
            Self::Elsewhere(place) => Body::Elsewhere(place),
            // SAFETY: Nobody uses the object.
            Self::Object(bits) => Body::Object(unsafe { Handle::from_packed(bits) }),
        }
    }

    /// The bits that tell what the body is, in their place.
    fn kind(self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Value(_) => 1 << 3,
            Self::Object(_) => 2 << 3,
            Self::Elsewhere(_) => 3 << 3,
        }
    }
}

fn word(slot: &Slot) -> u64 {
    // SAFETY: A slot is an atomic and nothing else.
    unsafe { &*(&raw const *slot).cast::<Atomic<u64>>() }.load(Relaxed)
}

const BODY_MAX: u64 = (1 << BODY_BITS) - 1;
const META_MAX: u32 = (1 << META_BITS) - 1;

/// Puts `content` into `slot`, looks at it in all ways that there are, and returns what was there.
fn exchange(slot: &Slot, meta: u32, content: Content) -> (u32, Content) {
    let log = Log::default();
    let mut guard = slot.lock(&log);
    let (old_meta, old) = guard.replace(meta, content.body());
    let meta = if content == Content::Empty { 0 } else { meta };
    assert_eq!(guard.meta(), meta);
    assert_eq!(Content::from(guard.view()), content);
    drop(guard);

    let bits = match content {
        Content::Empty => 0,
        Content::Value(bits) | Content::Object(bits) | Content::Elsewhere(bits) => bits,
    };
    let expected = content.kind() | (u64::from(meta) << 5) | (bits << 22);
    assert_eq!(word(slot), expected, "{content:x?} with {meta:#x}");

    let snapshot = slot.snapshot();
    assert_eq!(snapshot.is_empty(), content == Content::Empty);
    let value = matches!(content, Content::Value(_)).then_some(bits);
    assert_eq!(snapshot.value(), value);
    let elsewhere = matches!(content, Content::Elsewhere(_));
    assert_eq!(snapshot.is_elsewhere(), elsewhere);

    let guard = slot.lock(&log);
    assert_eq!(guard.meta(), meta);
    assert_eq!(Content::from(guard.view()), content);
    drop(guard);
    assert!(log.0.borrow().is_empty(), "nobody asked for a free");
    (old_meta, old.into())
}

#[test]
fn the_word_is_64_bits_and_all_of_them_are_spoken_for() {
    assert_eq!(size_of::<Slot>(), 8);
    assert_eq!(3 + 2 + META_BITS + BODY_BITS, 64);
    assert_eq!(word(&Slot::new()), 0);
}

#[test]
fn each_bit_of_each_kind_comes_back() {
    let slot = Slot::new();
    let mut last = (0, Content::Empty);
    let metas = (0..META_BITS).map(|bit| 1 << bit).chain([0, META_MAX]);
    for meta in metas {
        let bodies = (0..BODY_BITS).map(|bit| 1 << bit).chain([0, BODY_MAX]);
        for body in bodies {
            for content in [
                Content::Value(body),
                Content::Object(body),
                Content::Elsewhere(body),
                Content::Empty,
            ] {
                assert_eq!(exchange(&slot, meta, content), last);
                last = (if content == Content::Empty { 0 } else { meta }, content);
            }
        }
    }
}

#[test]
fn all_bits_of_the_table_come_back_with_each_kind() {
    let slot = Slot::new();
    for meta in 0..=META_MAX {
        exchange(&slot, meta, Content::Value(BODY_MAX));
        exchange(&slot, meta, Content::Object(0));
    }
}

#[test]
fn the_tables_own_bits_change_alone_and_not_where_nothing_is_stored() {
    for content in [
        Content::Value(BODY_MAX),
        Content::Value(0),
        Content::Object(0x155),
        Content::Elsewhere(1),
        Content::Empty,
    ] {
        let (slot, log) = (Slot::new(), Log::default());
        exchange(&slot, 0x0_aaaa, content);
        for meta in [META_MAX, 0, 0x1_5555, u32::MAX] {
            let mut guard = slot.lock(&log);
            guard.set_meta(meta);
            let expected = match content {
                Content::Empty => 0,
                _ => meta & META_MAX,
            };
            assert_eq!(guard.meta(), expected);
            assert_eq!(Content::from(guard.view()), content);
            drop(guard);
            let guard = slot.lock(&log);
            assert_eq!(guard.meta(), expected);
            assert_eq!(Content::from(guard.view()), content);
        }
    }
}

#[test]
fn what_is_too_wide_is_cut_off_and_spills_into_nothing() {
    for (meta, body) in [(u32::MAX, u64::MAX), (u32::MAX, 0), (0, u64::MAX)] {
        let (slot, log) = (Slot::new(), Log::default());
        let mut guard = slot.lock(&log);
        let _ = guard.replace(meta, Body::Value(body));
        let (meta, body) = (meta & META_MAX, body & BODY_MAX);
        assert_eq!(guard.meta(), meta);
        assert_eq!(Content::from(guard.view()), Content::Value(body));
        drop(guard);
        assert_eq!(
            word(&slot),
            (1 << 3) | (u64::from(meta) << 5) | (body << 22)
        );
    }
}

#[test]
fn a_lock_is_had_once_and_shows_in_the_lowest_bit() {
    let (slot, log) = (Slot::new(), Log::default());
    let guard = slot.try_lock(&log).expect("nobody has it");
    assert_eq!(word(&slot), 1);
    assert!(slot.try_lock(&log).is_none());
    drop(guard);
    assert_eq!(word(&slot), 0);
    assert!(slot.try_lock(&log).is_some());
}

#[test]
fn a_snapshot_shows_what_was_there_before_the_lock() {
    let (slot, log) = (Slot::new(), Log::default());
    exchange(&slot, 1, Content::Value(7));
    let mut guard = slot.lock(&log);
    let _ = guard.replace(2, Body::Value(8));
    assert_eq!(slot.snapshot().value(), Some(7));
    let _ = guard.replace(0, Body::Empty);
    assert!(!slot.snapshot().is_empty());
    drop(guard);
    assert!(slot.snapshot().is_empty());
}

#[test]
fn a_free_is_refused_where_nobody_has_the_lock() {
    let slot = Slot::new();
    assert!(!slot.request_free());
    exchange(&slot, 3, Content::Object(9));
    assert!(!slot.request_free());
    assert_eq!(exchange(&slot, 0, Content::Empty), (3, Content::Object(9)));
}

#[test]
fn a_free_is_carried_out_by_the_holder_once_however_often_it_is_asked_for() {
    for content in [
        Content::Object(BODY_MAX),
        Content::Value(5),
        Content::Elsewhere(6),
        Content::Empty,
    ] {
        let (slot, log) = (Slot::new(), Log::default());
        exchange(&slot, 0x155, content);
        let guard = slot.lock(&log);
        assert!(slot.request_free());
        assert!(slot.request_free());
        assert_eq!(Content::from(guard.view()), content, "freed under the lock");
        assert!(log.0.borrow().is_empty());
        drop(guard);
        assert_eq!(word(&slot), 0);
        let meta = if content == Content::Empty { 0 } else { 0x155 };
        assert_eq!(*log.0.borrow(), [(meta, content)]);
    }
}

#[test]
fn a_free_takes_what_the_holder_has_stored_meanwhile() {
    let (slot, log) = (Slot::new(), Log::default());
    let mut guard = slot.lock(&log);
    assert!(slot.request_free());
    let _ = guard.replace(4, Content::Object(11).body());
    drop(guard);
    assert_eq!(word(&slot), 0);
    assert_eq!(*log.0.borrow(), [(4, Content::Object(11))]);
}

fn contents() -> impl Strategy<Value = Content> {
    prop_oneof![
        Just(Content::Empty),
        (0..=BODY_MAX).prop_map(Content::Value),
        (0..=BODY_MAX).prop_map(Content::Object),
        (0..=BODY_MAX).prop_map(Content::Elsewhere),
    ]
}

proptest! {
    #[test]
    fn whatever_goes_in_comes_out(steps in prop::collection::vec((0..=META_MAX, contents()), 1..20)) {
        let mut slot = Slot::new();
        let mut last = (0, Content::Empty);
        for (meta, content) in steps {
            prop_assert_eq!(exchange(&slot, meta, content), last);
            last = (if content == Content::Empty { 0 } else { meta }, content);
        }
        let (meta, body) = slot.get_mut_take();
        prop_assert_eq!((meta, Content::from(body)), last);
        prop_assert_eq!(word(&slot), 0);
    }
}
