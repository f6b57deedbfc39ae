// SPDX-License-Identifier: GPL-2.0

//! Who has a disk open, and who may have it for himself.
//!
//! A reset or a removal needs a disk that nobody has open, and keeps it so with a claim: while a disk is claimed, opening it
//! fails with `EBUSY`. Something that opens each new node for a moment, as udev does, must not get in the way: whoever wants
//! a claim may wait for a while, during which opening goes on as ever, and is given it at the moment of the last close.

use kernel::{
    new_condvar,
    new_mutex,
    prelude::*,
    sync::{
        CondVar,
        CondVarTimeoutResult,
        Mutex, //
    },
    time::Jiffies, //
};

struct State {
    /// How often the disk is open.
    open: u32,
    /// Somebody has the disk for himself; then `open` is 0.
    claimed: bool,
    /// Somebody waits for a claim.
    waiting: bool,
    /// The claim was made for the one who waits.
    granted: bool,
}

/// Counts the openers of a disk, and knows of a claim to it.
#[pin_data]
pub(super) struct Openers {
    #[pin]
    state: Mutex<State>,
    #[pin]
    granted: CondVar,
}

impl Openers {
    /// A disk that is neither open nor claimed.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            state <- new_mutex!(State {
                open: 0,
                claimed: false,
                waiting: false,
                granted: false,
            }, "rzram_openers"),
            granted <- new_condvar!("rzram_claim"),
        })
    }

    /// Somebody opens the disk: `EBUSY` if it is claimed. May sleep.
    pub(super) fn open(&self) -> Result {
        let mut state = self.state.lock();
        if state.claimed {
            return Err(EBUSY);
        }
        state.open = state.open.checked_add(1).ok_or(EBUSY)?;
        Ok(())
    }

    /// Somebody closes the disk. May sleep.
    pub(super) fn release(&self) {
        let mut state = self.state.lock();
        state.open = state.open.saturating_sub(1);
        if state.open == 0 && state.waiting && !state.claimed {
            state.claimed = true;
            state.granted = true;
            self.granted.notify_all();
        }
    }

    /// Claims the disk, waiting for openers to go for at most `patience`. May sleep.
    ///
    /// `EBUSY` if they do not, or if somebody else has, or waits for, the claim; `EINTR` on a signal.
    pub(super) fn claim(&self, patience: Jiffies) -> Result {
        let mut state = self.state.lock();
        if state.claimed || state.waiting {
            return Err(EBUSY);
        }
        if state.open == 0 {
            state.claimed = true;
            return Ok(());
        }
        state.waiting = true;
        let mut left = patience;
        let refusal = loop {
            let outcome = self.granted.wait_interruptible_timeout(&mut state, left);
            if state.granted {
                state.granted = false;
                state.waiting = false;
                return Ok(());
            }
            match outcome {
                CondVarTimeoutResult::Woken { jiffies } => left = jiffies,
                CondVarTimeoutResult::Timeout => break EBUSY,
                CondVarTimeoutResult::Signal { .. } => break EINTR,
            }
        };
        state.waiting = false;
        Err(refusal)
    }

    /// Gives a claim back. May sleep.
    pub(super) fn unclaim(&self) {
        self.state.lock().claimed = false;
    }
}
