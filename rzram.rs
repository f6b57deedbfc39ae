// SPDX-License-Identifier: GPL-2.0

//! rzram: a compressed RAM disk.
//!
//! Disks whose blocks are kept compressed in memory, for swap and for file systems: what zram does, with the same interface.
//!
//! | file | what |
//! |---|---|
//! | `rzram.rs` | the module, and the disks that there are |
//! | `sysfs.rs` | the user's interface |
//! | `debug.rs` | the developer's interface |
//! | `device.rs` | one disk: its life, and what it does with a request |
//! | `table.rs` | what a disk stores |
//! | `compress.rs` | algorithms and their buffers |
//! | `stats.rs` | counters |
//! | `sys.rs` | safe wrappers of the kernel's C interfaces; the only place with `unsafe` |
//!
//! # Lock order
//!
//! What is taken first comes first. All may be slept for and slept with.
//!
//! 1. `Registry::disks`: which disks there are. Not held while a disk is claimed or removed.
//! 2. `sys::openers`: who has a disk open. A claim is not a lock: it is held across all of the following.
//! 3. `Device::config`: the configuration of a disk. Never taken by I/O.
//! 4. `Device::post`: one at a time recompresses or writes back.
//! 5. CPU hotplug's own lock, when a disk gets or frees its buffers.
//! 6. The buffers of a CPU, for one use: a bounce buffer or a stream.
//! 7. The lock of a slot; never two of them. A read of a block that is on the backing device holds it until that device has
//!    answered.
//! 8. The state for decompressing of a CPU.
//!
//! The mutex of `sys::backing::Claims` is held for looking at a list, under 3, and nothing is taken under it.
//!
//! Memory for a block on its way back from the backing device (`device::store`) is tried for, not waited for.
//!
//! The notice that swap frees a slot comes in atomic context: it tries 7 and never waits. The spinlock of
//! `sys::deferred` is held for linking a bio in or out, and nothing is taken under it.

mod compress;
mod debug;
mod device;
mod stats;
mod sys;
mod sysfs;
mod table;

use compress::Hotplug;
use core::{
    fmt::Write,
    pin::Pin, //
};
use debug::Folder;
use device::{
    Device,
    RzDisk, //
};
use kernel::{
    debugfs::Dir,
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};
use sys::{
    attr::Text,
    backing::Claims,
    class::{
        Class,
        Control, //
    },
    gendisk::{
        Disk,
        Major, //
    },
    work::Urgent, //
};

/// The module, with `more` parameters.
macro_rules! declare {
    ($($more:tt)*) => {
        module! {
            type: Rzram,
            name: "rzram",
            authors: ["The rzram authors"],
            description: "Compressed RAM block device",
            license: "GPL",
            params: {
                num_devices: u32 {
                    default: 1,
                    description: "Number of pre-created devices",
                },
                compat: bool {
                    default: false,
                    description: "Go by the names of zram, as a drop-in for it",
                },
                track_access: bool {
                    default: false,
                    description: "Note when each block is accessed, at 4 bytes a block; always with compat",
                },
                $($more)*
            },
        }
    };
}

#[cfg(not(locking_lab))]
declare! {}

#[cfg(locking_lab)]
declare! {
    locking: u32 {
        default: 0,
        description: "0 slots' own locks, 1 one semaphore, 2 one rwlock and a mutex round compressing, 3 one rwlock, and for each slot 4 a spinlock, 5 a rwlock, 6 a bit that is spun for",
    },
}

/// `MODULE_SOFTDEP("post: rzram_lz4hc")`: modprobe, which knows where modules are, loads that one as well if it is there.
#[link_section = ".modinfo"]
#[used]
static SOFTDEP: [u8; 26] = *b"softdep=post: rzram_lz4hc\0";

/// The names that the driver goes by.
struct Names {
    /// Of a disk, before its number.
    disk: &'static str,
    /// In `/proc/devices`, and of the folder in debugfs.
    driver: &'static CStr,
    /// Of the class with the control files.
    class: &'static CStr,
    /// Where that class would be if somebody else had it.
    class_path: &'static CStr,
}

impl Names {
    const OWN: Self = Self {
        disk: "rzram",
        driver: c"rzram",
        class: c"rzram-control",
        class_path: c"/sys/class/rzram-control",
    };

    /// Those of zram, for programs that know no other.
    const ZRAM: Self = Self {
        disk: "zram",
        driver: c"zram",
        class: c"zram-control",
        class_path: c"/sys/class/zram-control",
    };
}

/// A disk's place in the registry.
struct Place {
    id: u32,
    /// `None` while the disk is being made or removed; its number is taken until then.
    disk: Option<Arc<RzDisk>>,
    /// Its folder in debugfs, if there is one.
    folder: Option<Folder>,
}

/// The disks that there are.
#[pin_data(PinnedDrop)]
struct Registry {
    /// In the order of their numbers.
    #[pin]
    disks: Mutex<KVec<Place>>,
    major: Major,
    hotplug: Arc<Hotplug>,
    files: Arc<Claims>,
    workers: Arc<Urgent>,
    names: &'static Names,
    debugfs: Dir,
    /// Whether to note when blocks are accessed.
    track: bool,
}

impl Registry {
    fn new(names: &'static Names, track: bool) -> Result<Arc<Self>> {
        let hotplug = Arc::new(Hotplug::register(c"block/rzram:prepare")?, GFP_KERNEL)?;
        let major = Major::register(names.driver).inspect_err(|_| {
            pr_err!("Unable to get major number\n");
        })?;
        let files = Claims::new()?;
        let workers = Urgent::new(names.driver)?;
        Arc::pin_init(
            pin_init!(Self {
                disks <- new_mutex!(KVec::new(), "rzram_disks"),
                major,
                hotplug,
                files,
                workers,
                names,
                debugfs: Dir::new(names.driver),
                track,
            }),
            GFP_KERNEL,
        )
    }

    /// Takes the lowest number that is free.
    fn reserve(&self) -> Result<u32> {
        let mut disks = self.disks.lock();
        let free = (0u32..)
            .zip(disks.iter())
            .take_while(|(id, place)| *id == place.id);
        let position = free.count();
        let id = u32::try_from(position)?;
        disks.reserve(1, GFP_KERNEL)?;
        // The numbers below are all taken, so this keeps the order.
        disks
            .insert_within_capacity(
                position,
                Place {
                    id,
                    disk: None,
                    folder: None,
                },
            )
            .map_err(|_| ENOMEM)?;
        Ok(id)
    }

    /// Gives a number back, with its disk if there is one.
    fn release(&self, id: u32) {
        self.disks.lock().retain(|place| place.id != id);
    }

    /// Makes a disk, and returns its number. May sleep.
    fn add(&self) -> Result<u32> {
        let id = self.reserve()?;
        let disk = Disk::add(
            &self.major,
            id,
            fmt!("{}{}", self.names.disk, id),
            sysfs::GROUPS,
            self.workers.clone(),
            Device::new(self.track, self.hotplug.clone(), self.files.clone()),
        );
        match disk {
            Ok(disk) => {
                // For looking at only: a disk does without.
                let folder = Folder::new(&self.debugfs, disk.clone()).ok();
                if let Some(place) = self.disks.lock().iter_mut().find(|place| place.id == id) {
                    place.folder = folder;
                    place.disk = Some(disk);
                }
                pr_info!("Added device: {}{}\n", self.names.disk, id);
                Ok(id)
            }
            Err(e) => {
                self.release(id);
                pr_err!("Error allocating disk structure for device {}\n", id);
                Err(e)
            }
        }
    }

    /// Removes a disk: `ENODEV` if there is no such disk, `EBUSY` if it is in use. May sleep.
    fn remove(&self, id: u32) -> Result {
        let disk = {
            let disks = self.disks.lock();
            let place = disks.iter().find(|place| place.id == id).ok_or(ENODEV)?;
            place.disk.clone().ok_or(ENODEV)?
        };
        device::remove(&disk)?;
        let listed = {
            let mut disks = self.disks.lock();
            disks
                .iter_mut()
                .find(|place| place.id == id)
                .map(|place| (place.folder.take(), place.disk.take()))
        };
        // Frees what the disk has, which may take a while: not under the mutex.
        drop((listed, disk));
        self.release(id);
        pr_info!("Removed device: {}{}\n", self.names.disk, id);
        Ok(())
    }
}

#[pinned_drop]
impl PinnedDrop for Registry {
    fn drop(self: Pin<&mut Self>) {
        // Nobody has a disk open: that would keep the module loaded.
        let places = core::mem::replace(&mut *self.disks.lock(), KVec::new());
        for place in places {
            let removed = place.disk.is_some();
            let id = place.id;
            drop(place);
            if removed {
                pr_info!("Removed device: {}{}\n", self.names.disk, id);
            }
        }
    }
}

impl Control for Registry {
    fn hot_add(&self, text: &mut Text<'_>) -> Result {
        Ok(writeln!(text, "{}", self.add()?)?)
    }

    fn hot_remove(&self, input: &[u8]) -> Result {
        let id = sysfs::integer(input, 10, i32::MIN.into(), i32::MAX.into())?;
        self.remove(u32::try_from(id).map_err(|_| EINVAL)?)
    }
}

/// The module. Fields are dropped from first to last.
struct Rzram {
    _class: Pin<KBox<Class<Registry>>>,
    _registry: Arc<Registry>,
}

impl kernel::Module for Rzram {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        #[cfg(locking_lab)]
        table::lab::announce()?;
        let compat = module_parameters::compat.value();
        let names = if compat { &Names::ZRAM } else { &Names::OWN };
        // A second class of the same name would be refused too, but with a stack trace in the log.
        if sys::file::exists(names.class_path)? {
            pr_err!(
                "the class {} is taken: another module goes by these names; rmmod it first\n",
                names.class
            );
            return Err(EBUSY);
        }
        let track = compat || module_parameters::track_access.value();
        let registry = Registry::new(names, track)?;
        for _ in 0..module_parameters::num_devices.value() {
            registry.add()?;
        }
        let class = KBox::pin_init(Class::register(names.class, registry.clone()), GFP_KERNEL)
            .inspect_err(|_| {
                pr_err!("Unable to register {} class\n", names.class);
            })?;
        Ok(Self {
            _class: class,
            _registry: registry,
        })
    }
}
