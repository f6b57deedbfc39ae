// SPDX-License-Identifier: GPL-2.0

//! One disk: how it is set up, and how it comes to an end.
//!
//! What a disk has only while it is set up, [`Active`], is published for I/O, which reads it without a lock; the
//! configuration lock is for those who set up, reset and ask.

mod config;
mod io;
mod post;
mod recompress;
mod store;
mod unpack;
mod writeback;

use crate::{
    compress::{
        Compressor,
        Hotplug, //
    },
    stats::{
        Contents,
        MemoryFigures,
        PoolFigures,
        Requests, //
    },
    sys::{
        backing::Claims,
        clock,
        gendisk::Disk,
        page::BLOCK_SIZE,
        published::Published,
        rwsem::{
            Held,
            RwSem, //
        }, //
    },
    table::{
        meta::IDLE,
        Info,
        Shape,
        Table, //
    }, //
};
use config::Config;
use kernel::{
    block::SECTOR_SIZE,
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    static_lock_class,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
    time::{
        msecs_to_jiffies,
        Msecs, //
    }, //
};
use store::Store;
use writeback::Policy;

pub(crate) use config::{
    Named,
    Parameters,
    PRIORITIES, //
};
pub(crate) use post::Kind;
pub(crate) use recompress::Request;
pub(crate) use writeback::Selection;

/// How long a reset or a removal waits for somebody who has the disk open: long enough for udev to look at a new disk, short
/// enough for a script that tries to reset a disk in use.
const PATIENCE_MS: Msecs = 1000;

/// What a disk has while it is set up.
pub(crate) struct Active {
    table: Table,
    /// By priority; the first is there.
    compressors: [Option<Compressor>; PRIORITIES],
    requests: Requests,
    /// Where blocks are written back to.
    store: Option<Store>,
    /// Whether they are written back as they are stored.
    compressed_writeback: bool,
}

impl Active {
    fn memory(&self) -> MemoryFigures {
        let compressors = self.compressors.iter().flatten().map(Compressor::bytes);
        MemoryFigures {
            table: self.table.bytes(),
            buffers: Iterator::chain(compressors, self.store.as_ref().map(Store::bytes))
                .fold(0, u64::saturating_add),
            written_back: self.table.places_taken(),
        }
    }
}

/// The driver's data of a disk.
#[pin_data]
pub(crate) struct Device {
    #[pin]
    config: RwSem<Config>,
    active: Published<Active>,
    /// Pages that the pool may take; 0 is no limit.
    limit_pages: Atomic<u64>,
    /// Streams that writes use at most; 0 is as many as there are CPUs.
    max_streams: Atomic<u32>,
    /// How writeback is limited.
    policy: Policy,
    /// Held by whoever recompresses or writes back: one at a time.
    #[pin]
    post: Mutex<()>,
    /// Whether to note when blocks are accessed.
    track: bool,
    hotplug: Arc<Hotplug>,
    /// The files that disks have for their backing store.
    files: Arc<Claims>,
}

/// A disk of this driver.
pub(crate) type RzDisk = Disk<Device>;

impl Device {
    /// A disk that is not set up. It notes when blocks are accessed if `track`.
    pub(crate) fn new(
        track: bool,
        hotplug: Arc<Hotplug>,
        files: Arc<Claims>,
    ) -> impl PinInit<Self, Error> {
        pin_init!(Self {
            config <- RwSem::new(Config::new(), c"rzram_config", static_lock_class!()),
            active: Published::new(),
            limit_pages: Atomic::new(0),
            max_streams: Atomic::new(0),
            policy: Policy::new(),
            post <- new_mutex!((), "rzram_post"),
            track,
            hotplug,
            files,
        }? Error)
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
        match self.max_streams.load(Relaxed) {
            0 => u32::MAX,
            limit => limit,
        }
    }

    /// The same, to show: where nothing was said, as many as there are CPUs up.
    pub(crate) fn shown_streams(&self) -> u32 {
        match self.max_streams.load(Relaxed) {
            0 => crate::sys::hotplug::online_cpus(),
            limit => limit,
        }
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

    /// Calls `f` with the disk's counters and the figures of its memory; all zeros, but for the limit, as long as it is not set
    /// up. May sleep.
    pub(crate) fn with_memory<R>(
        &self,
        f: impl FnOnce(&Contents, PoolFigures, MemoryFigures) -> R,
    ) -> R {
        let limit_pages = self.limit_pages.load(Relaxed);
        let config = self.config.read();
        match self.active.get_configured(&config) {
            Some(active) => f(
                active.table.contents(),
                active.table.figures(limit_pages),
                active.memory(),
            ),
            None => {
                let pool = PoolFigures {
                    limit: limit_pages.saturating_mul(PAGE_SIZE as u64),
                    ..PoolFigures::default()
                };
                f(&Contents::new(), pool, MemoryFigures::default())
            }
        }
    }

    /// Calls `f` with the counters of requests, and the number of blocks on the backing device. May sleep.
    pub(crate) fn with_requests<R>(&self, f: impl FnOnce(&Requests, u64) -> R) -> R {
        let config = self.config.read();
        match self.active.get_configured(&config) {
            Some(active) => f(&active.requests, active.table.places_taken()),
            None => f(&Requests::new(), 0),
        }
    }

    /// Calls `f` with the number, the time of the last access (in nanoseconds since boot), and the properties of each block
    /// that is stored, from number `first` on, until it returns `false` or an error. `EINVAL` as long as the disk is not set
    /// up. May sleep.
    pub(crate) fn for_each_stored(
        &self,
        first: u64,
        mut f: impl FnMut(u64, u64, Info) -> Result<bool>,
    ) -> Result {
        let config = self.config.read();
        let active = self.active.get_configured(&config).ok_or(EINVAL)?;
        let table = &active.table;
        for index in table.stored(first..table.blocks()) {
            let info = table.lock(index).and_then(|slot| slot.info());
            let accessed = table.last_access(index).unwrap_or(0);
            if let Some(info) = info {
                if !f(index, accessed, info)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Whether access times are tracked.
    pub(crate) fn tracks(&self) -> bool {
        self.track
    }

    /// Marks what is stored as idle, and unmarks the rest: what was not accessed for `seconds`, if that is given. `EINVAL` as
    /// long as the disk is not set up. May sleep.
    pub(crate) fn mark_idle(&self, seconds: Option<u64>) -> Result {
        let config = self.config.read();
        let active = self.active.get_configured(&config).ok_or(EINVAL)?;
        let cutoff = seconds.map(|seconds| {
            clock::since_boot().saturating_sub(seconds.saturating_mul(1_000_000_000))
        });
        let table = &active.table;
        for index in table.stored(0..table.blocks()) {
            let Some(mut slot) = table.lock(index) else {
                continue;
            };
            let Some(info) = slot.info() else {
                continue;
            };
            // Patterns cost nothing, and what was written back is out of memory already.
            if info.same || info.elsewhere {
                continue;
            }
            let idle = match (cutoff, table.last_access(index)) {
                (Some(cutoff), Some(last)) => last <= cutoff,
                _ => true,
            };
            if idle {
                slot.mark(IDLE, 0);
            } else {
                slot.mark(0, IDLE);
            }
        }
        Ok(())
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
        self.max_streams.store(0, Relaxed);
        self.policy.reset();
    }
}

/// Sets the disk up with `bytes`, rounded up to pages. May sleep.
///
/// `EBUSY` if it is set up already; `EINVAL` if that is nothing, or more than a disk can have; `ENOMEM`. If it fails, all is
/// as before, and the choices that were made stay.
pub(crate) fn set_up(disk: &RzDisk, bytes: u64) -> Result {
    if bytes == 0 {
        return Err(EINVAL);
    }
    let mut config = disk.config_to_set_up().inspect_err(|_| {
        pr_info!("Cannot change disksize for initialized device\n");
    })?;
    // A file's size, which is what user space sees of a disk's, is signed.
    let bytes = bytes
        .checked_next_multiple_of(PAGE_SIZE as u64)
        .filter(|bytes| i64::try_from(*bytes).is_ok());
    let Some(bytes) = bytes else {
        pr_info!("{}: a disk cannot be that large\n", disk.name());
        return Err(EINVAL);
    };
    let shape = Shape {
        blocks: bytes / BLOCK_SIZE as u64,
        track: disk.track,
        backing: config.backing.as_ref().map(|backing| backing.blocks()),
    };
    #[cfg(locking_lab)]
    crate::table::lab::check_backing(shape.backing.is_some())?;
    let table = Table::new(disk.name(), shape).inspect_err(|_| {
        pr_err!(
            "{}: no memory for the table of a disk of {} bytes\n",
            disk.name(),
            bytes
        );
    })?;
    let compressors = config.compressors(&disk.hotplug)?;
    let store = config.backing.clone().map(Store::new).transpose()?;
    let active = KBox::new(
        Active {
            table,
            compressors,
            requests: Requests::new(),
            store,
            compressed_writeback: config.compressed_writeback,
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
        pr_info!("{}: in use; unmount it, or swapoff, first\n", disk.name());
        return Err(EBUSY);
    }
    disk.claim(msecs_to_jiffies(PATIENCE_MS)).inspect_err(|e| {
        if *e == EBUSY {
            pr_info!(
                "{}: somebody has it open; try again when it is closed\n",
                disk.name()
            );
        }
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
    *config = Config::new();
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
