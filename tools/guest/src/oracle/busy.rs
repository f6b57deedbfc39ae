// SPDX-License-Identifier: GPL-2.0

//! A disk that somebody uses: what is refused then, and what is not.

use std::path::Path;

use anyhow::Result;

use super::script::{errno, verdict, written, Script};
use nix::errno::Errno;

fn attempts(s: &mut Script) {
    s.put_get("reset", "1", &["disksize"]);
    s.put_get("reset", "0", &["disksize"]);
    let removed = written(Path::new("/sys/class/zram-control/hot_remove"), b"0");
    s.op("hot_remove 0", removed);
}

fn unload(s: &mut Script) {
    let result = verdict(s.module.unload());
    s.op("unload", result);
}

fn command(s: &mut Script, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let done = crate::run::run(words[0], &words[1..]).is_ok();
    s.op(line, if done { "ok" } else { "failed" });
}

fn swap(on: bool) -> String {
    let path = c"/dev/zram0";
    // SAFETY: the path is a C string.
    let rc = unsafe {
        if on {
            libc::swapon(path.as_ptr(), 0)
        } else {
            libc::swapoff(path.as_ptr())
        }
    };
    Errno::result(rc).map_or_else(errno, |_| "ok".into())
}

pub fn run(s: &mut Script) -> Result<()> {
    let add = Path::new("/sys/class/zram-control/hot_add");
    s.group("a disk that is open");
    for set_up in [true, false] {
        for (name, write, flags) in [
            ("a reader", false, 0),
            ("a writer", true, 0),
            ("a direct writer", true, libc::O_DIRECT),
            ("an exclusive reader", false, libc::O_EXCL),
        ] {
            s.fresh();
            if set_up {
                s.set("disksize", "1M");
            }
            s.hold(name, "/dev/zram0", write, flags);
            // Each of the three takes a second on rzram, which waits for those who may close it: one kind of opener is enough.
            if flags == libc::O_EXCL || (set_up && !write) {
                attempts(s);
            }
            s.hold("another", "/dev/zram0", false, 0);
            s.hold("an exclusive one", "/dev/zram0", false, libc::O_EXCL);
            s.close("an exclusive one");
            s.close("another");
            s.put_get("mem_limit", "1M", &["initstate"]);
            s.close(name);
            s.put_get("reset", "1", &["disksize"]);
        }
    }
    s.fresh();
    s.hold("a reader", "/dev/zram0", false, 0);
    s.put_get("comp_algorithm", "zstd", &["comp_algorithm"]);
    s.put_get("disksize", "1M", &["disksize", "size"]);
    unload(s);
    s.close("a reader");

    s.group("a mounted disk");
    s.disk("16M");
    command(s, "mkfs.ext4 -q -O ^has_journal /dev/zram0");
    std::fs::create_dir_all("/tmp/mnt")?;
    command(s, "mount /dev/zram0 /tmp/mnt");
    attempts(s);
    s.put_get("disksize", "32M", &["disksize"]);
    unload(s);
    s.op(
        "write a file",
        std::fs::write("/tmp/mnt/file", vec![3; 100_000]).is_ok(),
    );
    command(s, "umount /tmp/mnt");
    command(s, "mount /dev/zram0 /tmp/mnt");
    let content = std::fs::read("/tmp/mnt/file").unwrap_or_default();
    s.op("read it back", content == vec![3; 100_000]);
    command(s, "umount /tmp/mnt");
    s.put_get("reset", "1", &["disksize"]);

    s.group("a swap area");
    s.disk("16M");
    s.op("swapon without a header", swap(true));
    command(s, "mkswap -q /dev/zram0");
    s.op("swapon", swap(true));
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    let line = swaps
        .lines()
        .find(|line| line.contains("zram"))
        .unwrap_or("none");
    let words: Vec<&str> = line.split_whitespace().take(3).collect();
    s.op("line in /proc/swaps", words.join(" "));
    attempts(s);
    unload(s);
    s.op("swapoff", swap(false));
    s.put_get("reset", "1", &["disksize"]);

    s.group("unloading");
    s.disk("1M");
    s.op("hot_add", super::script::shown(add));
    unload(s);
    s.op(
        "class after it",
        super::loading::list("/sys/class/zram-control"),
    );
    s.op(
        "debugfs after it",
        super::loading::list("/sys/kernel/debug/zram"),
    );
    s.op("node after it", Path::new("/dev/zram0").exists());
    let result = verdict(s.module.load("")?);
    s.op("load", result);
    s.get("disksize");
    s.fresh();
    Ok(())
}
