// SPDX-License-Identifier: GPL-2.0

//! Openers of a disk, and claims to it: a claim and an opener never meet, whoever waits is given the claim at the last close,
//! and whoever gives up leaves nothing behind.

use super::openers::Openers;
use crate::model::{check, Tally};
use crate::prelude::{Error, EBUSY, EINTR};
use crate::stand_in::lock::{expire, notify_all, patience, signal};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use pinned_init::InPlaceInit;
use std::pin::Pin;

/// How long claims are waited for here; the timer runs out when [`expire`] is called.
const PATIENCE: usize = 9;

/// A disk that can be opened and claimed.
struct Disk {
    openers: Pin<Box<Openers>>,
    /// What openers use together, and a claim has for itself: loom fails a test in which the two could be at it at the same
    /// time.
    content: UnsafeCell<()>,
}

impl Disk {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            openers: Box::pin_init(Openers::new()).unwrap(),
            content: UnsafeCell::new(()),
        })
    }

    fn open(&self) -> Result<(), Error> {
        self.openers.open()?;
        self.content.with(|_| ());
        Ok(())
    }

    fn close(&self) {
        self.content.with(|_| ());
        self.openers.release();
    }

    fn open_for_a_moment(&self) -> Result<(), Error> {
        self.open()?;
        thread::yield_now();
        self.close();
        Ok(())
    }

    fn claim(&self) -> Result<(), Error> {
        self.openers.claim(PATIENCE)?;
        self.content.with_mut(|_| ());
        Ok(())
    }

    fn unclaim(&self) {
        self.content.with_mut(|_| ());
        self.openers.unclaim();
    }

    /// To be called when all is over: the disk is neither open nor claimed, and nobody waits.
    fn finish(&self) {
        assert_eq!(self.claim(), Ok(()));
        assert_eq!(self.open(), Err(EBUSY));
        assert_eq!(self.claim(), Err(EBUSY));
        self.unclaim();
        assert_eq!(self.open(), Ok(()));
        self.close();
        assert_eq!(self.claim(), Ok(()), "closing a disk claims it for nobody");
        self.unclaim();
    }
}

fn spawn<R: 'static>(disk: &Arc<Disk>, body: fn(&Disk) -> R) -> thread::JoinHandle<R> {
    let disk = disk.clone();
    thread::spawn(move || body(&disk))
}

#[test]
fn a_claimed_disk_cannot_be_opened_or_claimed_again() {
    check(0, || {
        let disk = Disk::new();
        disk.finish();
        assert!(patience().is_empty(), "a claim to an idle disk waited");
    });
}

#[test]
fn a_claim_never_meets_an_opener_and_is_granted_when_they_have_gone() {
    static WAITED: Tally = Tally::new();
    static REFUSED: Tally = Tally::new();
    check(3, || {
        let disk = Disk::new();
        let openers = [
            spawn(&disk, Disk::open_for_a_moment),
            spawn(&disk, Disk::open_for_a_moment),
        ];
        assert_eq!(disk.claim(), Ok(()));
        if !patience().is_empty() {
            WAITED.count();
        }
        thread::yield_now();
        disk.unclaim();
        for opener in openers {
            match opener.join().unwrap() {
                Ok(()) => (),
                Err(error) => {
                    assert_eq!(error, EBUSY);
                    REFUSED.count();
                }
            }
        }
        disk.finish();
    });
    WAITED.must_have_happened("the claim had to wait");
    REFUSED.must_have_happened("the claim kept somebody out");
}

#[test]
fn a_waiting_claim_keeps_nobody_out_before_the_last_close() {
    static GRANTED: Tally = Tally::new();
    check(3, || {
        let disk = Disk::new();
        assert_eq!(disk.open(), Ok(()));
        let claimer = spawn(&disk, Disk::claim);
        // The disk is open all the time, so the claim cannot have been granted, however long it has waited.
        assert_eq!(disk.open(), Ok(()));
        disk.close();
        assert_eq!(disk.open(), Ok(()));
        disk.close();
        let waiting = !patience().is_empty();
        disk.close();
        if waiting {
            // Whoever waited at the last close has the claim from that moment on, before it even runs.
            assert_eq!(disk.open(), Err(EBUSY));
            GRANTED.count();
        }
        assert_eq!(claimer.join().unwrap(), Ok(()));
        disk.unclaim();
        disk.finish();
    });
    GRANTED.must_have_happened("the claim was granted by the last close");
}

#[test]
fn a_claim_that_runs_out_of_patience_is_refused_and_leaves_nothing_behind() {
    check(4, || {
        let disk = Disk::new();
        assert_eq!(disk.open(), Ok(()));
        let timer = thread::spawn(expire);
        assert_eq!(disk.claim(), Err(EBUSY));
        timer.join().unwrap();
        assert_eq!(disk.open(), Ok(()));
        disk.close();
        disk.close();
        disk.finish();
    });
}

#[test]
fn a_claim_that_a_signal_ends_is_refused_and_leaves_nothing_behind() {
    check(4, || {
        let disk = Disk::new();
        assert_eq!(disk.open(), Ok(()));
        let killer = thread::spawn(signal);
        assert_eq!(disk.claim(), Err(EINTR));
        killer.join().unwrap();
        disk.close();
        disk.finish();
    });
}

/// The last close and `end` at the same time, while somebody waits for a claim.
fn race(end: fn(), refusal: Error, granted: &'static Tally, refused: &'static Tally) {
    check(4, move || {
        let disk = Disk::new();
        assert_eq!(disk.open(), Ok(()));
        let end = thread::spawn(end);
        let closer = spawn(&disk, Disk::close);
        match disk.claim() {
            Ok(()) => {
                granted.count();
                assert_eq!(disk.open(), Err(EBUSY), "the claim was lost");
                closer.join().unwrap();
                assert_eq!(disk.open(), Err(EBUSY), "the claim was lost");
                disk.unclaim();
            }
            Err(error) => {
                refused.count();
                assert_eq!(error, refusal);
                closer.join().unwrap();
                assert_eq!(disk.open(), Ok(()), "a claim that nobody has");
                disk.close();
            }
        }
        end.join().unwrap();
        disk.finish();
    });
    granted.must_have_happened("the close came first");
    refused.must_have_happened("the end came first");
}

#[test]
fn a_grant_that_meets_the_timeout_is_not_lost() {
    static GRANTED: Tally = Tally::new();
    static REFUSED: Tally = Tally::new();
    race(expire, EBUSY, &GRANTED, &REFUSED);
}

#[test]
fn a_grant_that_meets_a_signal_is_not_lost() {
    static GRANTED: Tally = Tally::new();
    static REFUSED: Tally = Tally::new();
    race(signal, EINTR, &GRANTED, &REFUSED);
}

#[test]
fn one_of_two_that_want_a_claim_at_the_same_time_has_it() {
    check(3, || {
        let disk = Disk::new();
        assert_eq!(disk.open(), Ok(()));
        let claimers = [spawn(&disk, Disk::claim), spawn(&disk, Disk::claim)];
        disk.close();
        let results = claimers.map(|claimer| claimer.join().unwrap());
        assert!(
            matches!(results, [Ok(()), Err(EBUSY)] | [Err(EBUSY), Ok(())]),
            "{results:?}"
        );
        disk.unclaim();
        disk.finish();
    });
}

#[test]
fn whoever_is_woken_for_nothing_waits_for_what_is_left_of_its_patience() {
    static WOKEN: Tally = Tally::new();
    check(3, || {
        let disk = Disk::new();
        assert_eq!(disk.open(), Ok(()));
        let world = thread::spawn(|| {
            notify_all();
            expire();
        });
        assert_eq!(disk.claim(), Err(EBUSY));
        world.join().unwrap();
        match patience()[..] {
            [PATIENCE] => (),
            [PATIENCE, left] => {
                assert_eq!(left, PATIENCE - 1);
                WOKEN.count();
            }
            ref other => panic!("{other:?}"),
        }
        disk.close();
        disk.finish();
    });
    WOKEN.must_have_happened("it was woken before its time had run out");
}
