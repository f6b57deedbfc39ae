// SPDX-License-Identifier: GPL-2.0

//! backing_dev: what it can be, when it can be set, when it goes.

use std::os::unix::ffi::OsStrExt;

use anyhow::Result;

use super::script::{written, Script};

/// A disk of 1 MiB in memory, to write back to.
pub const DISK: &str = "/dev/ram0";

pub fn run(s: &mut Script) -> Result<()> {
    std::fs::write("/tmp/regular", vec![0; 256 << 10])?;
    std::fs::write("/tmp/loop-file", vec![0; 256 << 10])?;
    std::fs::write("/tmp/small-file", vec![0; 1024])?;
    let _ = std::fs::remove_file("/tmp/link");
    std::os::unix::fs::symlink(DISK, "/tmp/link")?;
    crate::run::run("losetup", &["/dev/loop0", "/tmp/loop-file"])?;
    crate::run::run("losetup", &["/dev/loop1", "/tmp/small-file"])?;

    s.group("backing_dev");
    s.fresh();
    let look: &[&str] = &["backing_dev"];
    s.get("backing_dev");
    for path in [
        "/dev/nonexistent",
        "nonexistent",
        "",
        "\n",
        "\n\n",
        " ",
        "/",
        "/tmp",
        "/dev",
        "/dev/null",
        "/proc/version",
        "/tmp/link/x",
        "/dev/ram0 ",
        " /dev/ram0",
        "none",
        "none\n",
        "/dev/loop1",
        "/dev/zram0",
    ] {
        s.put_get("backing_dev", path, look);
    }
    s.put_get("backing_dev", "a".repeat(4000), look);
    s.put_get("backing_dev", format!("/{}", "a/".repeat(2000)), look);
    for path in [
        "/dev/ram0",
        "/dev/ram0",
        "/dev/ram0\n",
        "/dev/nonexistent",
        "",
        "/dev/ram1\n",
        "/dev/ram0",
        "/dev/loop0",
    ] {
        s.put_get("backing_dev", path, look);
    }
    s.put_get("reset", "1", look);
    s.put_get("backing_dev", "/tmp/link", look);
    s.put_get("reset", "1", look);
    s.put_get("backing_dev", "/dev/../dev/ram0\0junk", look);
    s.put_get("reset", "1", look);
    s.put_get("backing_dev", "/dev/ram0\n\n", look);
    s.put_get("reset", "1", look);
    s.put_get("backing_dev", "/tmp/regular", look);
    s.put_get("reset", "1", look);

    s.group("who else has the backing device");
    for (flags, what) in [(0, "open"), (libc::O_EXCL, "open exclusively")] {
        s.fresh();
        s.hold("the device", DISK, true, flags);
        s.put_get("backing_dev", DISK, look);
        s.close("the device");
        s.put_get("backing_dev", DISK, look);
        s.hold("while it backs", DISK, true, flags);
        s.close("while it backs");
        s.put_get("reset", "1", look);
        s.hold("after the reset", DISK, true, flags);
        s.close("after the reset");
        s.op("tried with the device", what);
    }
    s.fresh();
    let add = super::script::shown(std::path::Path::new("/sys/class/zram-control/hot_add"));
    s.op("hot_add", add);
    s.put_get("backing_dev", DISK, look);
    let other = std::path::Path::new("/sys/block/zram1/backing_dev");
    s.op(
        "zram1/backing_dev < the same",
        written(other, DISK.as_bytes()),
    );
    s.op("zram1/backing_dev < zram0", written(other, b"/dev/zram0"));
    s.put("disksize", "1M");
    s.op("zram1/backing_dev < zram0", written(other, b"/dev/zram0"));
    s.put("reset", "1");
    s.op(
        "zram1/reset",
        written(std::path::Path::new("/sys/block/zram1/reset"), b"1"),
    );
    s.put("reset", "1");
    s.op(
        "hot_remove 1",
        written(
            std::path::Path::new("/sys/class/zram-control/hot_remove"),
            b"1",
        ),
    );

    s.group("backing_dev of a disk that is set up");
    s.fresh();
    s.put("backing_dev", DISK);
    s.put("disksize", "1M");
    for path in [DISK, "/dev/ram1", "/dev/nonexistent", "", "none"] {
        s.put_get("backing_dev", path, look);
    }
    s.put_get("reset", "1", look);
    s.set("disksize", "1M");
    s.put_get("backing_dev", DISK, look);
    s.get("bd_stat");
    // A name with bytes that no path has.
    let odd = std::ffi::OsStr::from_bytes(b"/dev/\xff\xfe");
    s.fresh();
    s.put_get("backing_dev", odd.as_bytes(), look);
    s.put_get("backing_dev", "/dev/ram\u{e4}", look);
    s.fresh();
    Ok(())
}
