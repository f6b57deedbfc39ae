// SPDX-License-Identifier: GPL-2.0

//! The disk as the block layer shows it: general attributes, ioctls, events.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;

use super::script::{errno, quoted, shown, Script};
use crate::attr;

const GENERAL: [&str; 22] = [
    "alignment_offset",
    "capability",
    "device",
    "discard_alignment",
    "events",
    "events_async",
    "events_poll_msecs",
    "ext_range",
    "hidden",
    "inflight",
    "partscan",
    "range",
    "removable",
    "ro",
    "size",
    "stat",
    "power/control",
    "power/runtime_status",
    "trace/enable",
    "mq",
    "integrity/format",
    "zoned",
];

/// The disk's `uevent` without what counts up from disk to disk.
fn uevent() -> String {
    match attr::read(Path::new("/sys/block/zram0/uevent")) {
        Ok(text) => quoted(&steady(&text, '\n')),
        Err(e) => errno(e),
    }
}

/// Leaves out numbers that depend on what else has happened since boot.
fn steady(text: &str, separator: char) -> Vec<u8> {
    let lines: Vec<&str> = text
        .split(separator)
        .filter(|line| {
            !["MAJOR=", "DISKSEQ=", "SEQNUM="]
                .iter()
                .any(|start| line.starts_with(start))
        })
        .collect();
    lines.join("\n").into_bytes()
}

/// Calls whose argument is a pointer to something of at most 32 bytes.
const CALLS: [(&str, u64); 26] = [
    ("BLKROSET", 0x125d),
    ("BLKROGET", 0x125e),
    ("BLKRRPART", 0x125f),
    ("BLKGETSIZE", 0x1260),
    ("BLKFLSBUF", 0x1261),
    ("BLKRASET", 0x1262),
    ("BLKRAGET", 0x1263),
    ("BLKFRAGET", 0x1265),
    ("BLKSECTGET", 0x1267),
    ("BLKSSZGET", 0x1268),
    ("BLKPG", 0x1269),
    ("BLKIOMIN", 0x1278),
    ("BLKIOOPT", 0x1279),
    ("BLKALIGNOFF", 0x127a),
    ("BLKPBSZGET", 0x127b),
    ("BLKDISCARDZEROES", 0x127c),
    ("BLKROTATIONAL", 0x127e),
    ("BLKBSZGET", 0x8008_1270),
    ("BLKGETSIZE64", 0x8008_1272),
    ("BLKGETZONESZ", 0x8004_1284),
    ("BLKGETNRZONES", 0x8004_1285),
    ("BLKREPORTZONE", 0xc010_1282),
    ("HDIO_GETGEO", 0x0301),
    ("CDROM_GET_CAPABILITY", 0x5331),
    ("SG_IO", 0x2285),
    ("an unknown call", 0x12ee),
];

fn call(file: &File, number: u64) -> String {
    let mut buffer = [0_u8; 32];
    // SAFETY: none of the calls touches more than the buffer; those that would follow a pointer in it find NULL.
    let rc = unsafe { libc::ioctl(file.as_raw_fd(), number as _, buffer.as_mut_ptr()) };
    match Errno::result(rc) {
        Ok(value) => {
            let mut word = [0; 8];
            word.copy_from_slice(&buffer[..8]);
            format!("{value}, {:016x}", u64::from_le_bytes(word))
        }
        Err(e) => errno(e),
    }
}

fn calls(s: &mut Script) {
    for (name, number) in CALLS {
        if name == "BLKRASET" {
            continue; // takes its argument by value, which would be an address
        }
        s.with_node(name, 0, |file| call(file, number));
    }
}

/// The kernel's own events, as udev gets them.
struct Events(OwnedFd);

impl Events {
    fn listen() -> nix::Result<Events> {
        // SAFETY: no memory is passed.
        let fd = unsafe {
            libc::socket(
                libc::AF_NETLINK,
                libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
                libc::NETLINK_KOBJECT_UEVENT,
            )
        };
        // SAFETY: the descriptor is new and nobody else's.
        let socket = unsafe { OwnedFd::from_raw_fd(Errno::result(fd)?) };
        // SAFETY: all zeros is a valid address.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as u16;
        address.nl_groups = 1;
        // SAFETY: the address is a whole `sockaddr_nl`.
        let rc = unsafe {
            libc::bind(
                socket.as_raw_fd(),
                std::ptr::from_ref(&address).cast(),
                size_of_val(&address) as u32,
            )
        };
        Errno::result(rc)?;
        Ok(Events(socket))
    }

    fn take(&self) -> String {
        let mut events = Vec::new();
        let mut buffer = [0_u8; 8192];
        loop {
            // SAFETY: the buffer is as long as is said.
            let len = unsafe {
                libc::recv(
                    self.0.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    0,
                )
            };
            let Ok(len) = usize::try_from(len) else { break };
            let text = String::from_utf8_lossy(&buffer[..len]).into_owned();
            // The cache's name holds an address or a number.
            if text.contains("/block/zram") {
                events.push(quoted(&steady(text.trim_end_matches('\0'), '\0')));
            }
        }
        events.join(" ")
    }
}

pub fn run(s: &mut Script) {
    s.group("general");
    s.fresh();
    for name in GENERAL {
        s.get(name);
    }
    s.op("cat uevent", uevent());
    calls(s);

    s.group("general of a disk that is set up");
    s.disk("5000K");
    for name in GENERAL {
        s.get(name);
    }
    s.op("cat uevent", uevent());
    calls(s);
    let node = std::fs::read_to_string("/proc/partitions").unwrap_or_default();
    let sizes: Vec<&str> = node
        .lines()
        .filter(|line| line.contains("zram"))
        .filter_map(|line| line.split_whitespace().nth(2))
        .collect();
    s.op("blocks in /proc/partitions", sizes.join(" "));
    let stats = std::fs::read_to_string("/proc/diskstats").unwrap_or_default();
    let lines = stats.lines().filter(|line| line.contains("zram")).count();
    s.op("lines in /proc/diskstats", lines);

    s.group("events");
    s.fresh();
    match Events::listen() {
        Err(e) => s.op("listen", errno(e)),
        Ok(events) => {
            for (name, value) in [
                ("disksize", "1M"),
                ("disksize", "2M"),
                ("disksize", "0"),
                ("mem_limit", "1M"),
                ("reset", "1"),
                ("reset", "1"),
                ("comp_algorithm", "zstd"),
                ("uevent", "change"),
            ] {
                s.put(name, value);
                s.op("events", events.take());
            }
            let added = shown(Path::new("/sys/class/zram-control/hot_add"));
            s.op("hot_add", added);
            s.op("events", events.take());
            let removed =
                super::script::written(Path::new("/sys/class/zram-control/hot_remove"), b"1");
            s.op("hot_remove 1", removed);
            s.op("events", events.take());
        }
    }
}
