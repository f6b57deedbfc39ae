// SPDX-License-Identifier: GPL-2.0

//! One disk: how it is set up, and how it comes to an end.
//!
//! What a disk has only while it is set up, [`Active`], is published for I/O, which reads it without a lock; the
//! configuration lock is for those who set up, reset and ask.

mod io;

use crate::{
    compress::{
        Algorithm,
        Compressor,
        Hotplug, //
    },
    stats::{
        Contents,
        PoolFigures,
        Requests, //
    },
    sys::{
        gendisk::Disk,
        page::BLOCK_SIZE,
        published::Published,
        rwsem::{
            Held,
            RwSem, //
        }, //
    },
    table::Table, //
};
use kernel::{
    block::SECTOR_SIZE,
    page::PAGE_SIZE,
    prelude::*,
    static_lock_class,
    str::CString,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    time::{
        msecs_to_jiffies,
        Msecs, //
    }, //
};

/// How long a reset or a removal waits for somebody who has the disk open: long enough for udev to look at a new disk, short
/// enough for a script that tries to reset a disk in use.
const PATIENCE_MS: Msecs = 1000;

/// What the user has chosen.
pub(crate) struct Config {
    /// Bytes; 0 as long as the disk is not set up.
    disksize: u64,
    algorithm: Algorithm,
}

impl Config {
    const NEW: Self = Self {
        disksize: 0,
        algorithm: Algorithm::DEFAULT,
    };
}

/// What a disk has while it is set up.
pub(crate) struct Active {
    table: Table,
    compressor: Compressor,
    requests: Requests,
}

/// The driver's data of a disk.
#[pin_data]
pub(crate) struct Device {
    id: u32,
    #[pin]
    config: RwSem<Config>,
    active: Published<Active>,
    /// Pages that the pool may take; 0 is no limit.
    limit_pages: Atomic<u64>,
    /// Streams that writes use; more than there are CPUs means all.
    max_streams: Atomic<u32>,
    hotplug: Arc<Hotplug>,
}

/// A disk of this driver.
pub(crate) type RzDisk = Disk<Device>;

impl Device {
    /// A disk with number `id` that is not set up.
    pub(crate) fn new(id: u32, hotplug: Arc<Hotplug>) -> impl PinInit<Self, Error> {
        pin_init!(Self {
            id,
            config <- RwSem::new(Config::NEW, c"rzram_config", static_lock_class!()),
            active: Published::new(),
            limit_pages: Atomic::new(0),
            max_streams: Atomic::new(default_streams()),
            hotplug,
        }? Error)
    }

    /// The disk's number.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// The size in bytes, 0 as long as the disk is not set up. May sleep.
    pub(crate) fn disksize(&self) -> u64 {
        self.config.read().disksize
    }

    /// The algorithm that is, or will be, used. May sleep.
    pub(crate) fn algorithm(&self) -> Algorithm {
        self.config.read().algorithm
    }

    /// Chooses an algorithm; `EBUSY` once the disk is set up. May sleep.
    pub(crate) fn set_algorithm(&self, algorithm: Algorithm) -> Result {
        let mut config = self.config.write();
        if config.disksize != 0 {
            pr_info!("Can't change algorithm for initialized device\n");
            return Err(EBUSY);
        }
        config.algorithm = algorithm;
        Ok(())
    }

    /// Limits the memory of the pool to `bytes`, rounded up to pages; 0 is no limit. `EINVAL` if that is more than there can
    /// be.
    pub(crate) fn set_limit(&self, bytes: u64) -> Result {
        let bytes = bytes
            .checked_next_multiple_of(PAGE_SIZE as u64)
            .ok_or(EINVAL)?;
        self.limit_pages.store(bytes / PAGE_SIZE as u64, Relaxed);
        Ok(())
    }

    /// How many streams writes use at most.
    pub(crate) fn max_streams(&self) -> u32 {
        self.max_streams.load(Relaxed)
    }

    /// Has writes use at most `streams` streams, from now on.
    pub(crate) fn set_max_streams(&self, streams: u32) {
        self.max_streams.store(streams, Relaxed);
    }

    /// Runs `f` with what the disk has while it is set up, if it is. May sleep.
    fn with_active<R>(&self, f: impl FnOnce(&Active) -> R) -> Option<R> {
        let config: Held<'_, _> = self.config.read();
        self.active.get_configured(&config).map(f)
    }

    /// Calls `f` with the disk's counters and the figures of its pool; all zeros, but for the limit, as long as it is not set
    /// up. May sleep.
    pub(crate) fn with_memory<R>(&self, f: impl FnOnce(&Contents, PoolFigures) -> R) -> R {
        let limit_pages = self.limit_pages.load(Relaxed);
        let config = self.config.read();
        match self.active.get_configured(&config) {
            Some(active) => f(active.table.contents(), active.table.figures(limit_pages)),
            None => f(
                &Contents::new(),
                PoolFigures {
                    limit: limit_pages.saturating_mul(PAGE_SIZE as u64),
                    ..PoolFigures::default()
                },
            ),
        }
    }

    /// Calls `f` with the counters of requests. May sleep.
    pub(crate) fn with_requests<R>(&self, f: impl FnOnce(&Requests) -> R) -> R {
        let config = self.config.read();
        match self.active.get_configured(&config) {
            Some(active) => f(&active.requests),
            None => f(&Requests::new()),
        }
    }

    /// Moves objects of the pool together; `EINVAL` as long as the disk is not set up. May sleep.
    pub(crate) fn compact(&self) -> Result {
        self.with_active(|active| active.table.compact())
            .ok_or(EINVAL)
    }

    /// Forgets how large the pool once was. May sleep.
    pub(crate) fn reset_max_used(&self) {
        self.with_active(|active| active.table.reset_max_used());
    }

    fn default_again(&self) {
        self.limit_pages.store(0, Relaxed);
        self.max_streams.store(default_streams(), Relaxed);
    }
}

fn default_streams() -> u32 {
    crate::sys::hotplug::online_cpus()
}

/// Sets the disk up with `bytes`, rounded up to pages. May sleep.
///
/// `EBUSY` if it is set up already; `EINVAL` if that is nothing, or more than a disk can have; `ENOMEM`. If it fails, all is
/// as before, and the choices that were made stay.
pub(crate) fn set_up(disk: &RzDisk, bytes: u64) -> Result {
    if bytes == 0 {
        return Err(EINVAL);
    }
    let mut config = disk.config.write();
    if config.disksize != 0 {
        pr_info!("Cannot change disksize for initialized device\n");
        return Err(EBUSY);
    }
    let Some(bytes) = bytes.checked_next_multiple_of(PAGE_SIZE as u64) else {
        pr_info!("rzram{}: a disk cannot be that large\n", disk.id);
        return Err(EINVAL);
    };
    let name = CString::try_from_fmt(fmt!("rzram{}", disk.id))?;
    let table = Table::new(bytes / BLOCK_SIZE as u64, &name).inspect_err(|_| {
        pr_err!(
            "{}: no memory for the table of a disk of {} bytes\n",
            &*name,
            bytes
        );
    })?;
    let algorithm = config.algorithm;
    let compressor = Compressor::new(algorithm, disk.hotplug.clone()).inspect_err(|_| {
        pr_err!(
            "Cannot initialise {} compressing backend\n",
            algorithm.name()
        );
    })?;
    let active = KBox::new(
        Active {
            table,
            compressor,
            requests: Requests::new(),
        },
        GFP_KERNEL,
    )?;
    disk.active.set(&mut config, active).map_err(|_| EBUSY)?;
    config.disksize = bytes;
    disk.set_capacity(bytes / u64::from(SECTOR_SIZE));
    Ok(())
}

/// Claims the disk for a reset or a removal. May sleep, for a second at most.
///
/// `EBUSY` at once if it is mounted or a swap area, and in the end if somebody keeps it open.
fn claim(disk: &RzDisk) -> Result<crate::sys::gendisk::Claim<'_, Device>> {
    if disk.is_held() {
        pr_info!("rzram{}: in use; unmount it, or swapoff, first\n", disk.id);
        return Err(EBUSY);
    }
    disk.claim(msecs_to_jiffies(PATIENCE_MS)).inspect_err(|_| {
        pr_info!(
            "rzram{}: somebody has it open; try again when it is closed\n",
            disk.id
        );
    })
}

/// Empties the disk, frees what it has, and forgets all choices: as it was when it was made. May sleep.
///
/// `EBUSY` if it is in use; `EINTR` on a signal.
pub(crate) fn reset(disk: &RzDisk) -> Result {
    let claim = claim(disk)?;
    // Cached writes must not come later, to a disk that was set up anew.
    claim.sync();
    let mut config = disk.config.write();
    disk.set_capacity(0);
    let active = claim.idle(|idle| disk.active.take(&mut config, idle));
    claim.clear_io_stats();
    *config = Config::NEW;
    disk.default_again();
    drop(active);
    Ok(())
}

/// Removes the disk from the system, for good. May sleep.
///
/// `EBUSY` if it is in use; `EINTR` on a signal.
pub(crate) fn remove(disk: &RzDisk) -> Result {
    claim(disk)?.remove();
    Ok(())
}
