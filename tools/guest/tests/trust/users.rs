// SPDX-License-Identifier: GPL-2.0

//! What somebody who is not root can do with a disk: read its statistics, and use a file system that is on it.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use rzram_guest::disk::Disk;
use rzram_guest::kernel::load_ext4;
use rzram_guest::module::{scratch, try_unload, with_disk};
use rzram_guest::post::block_state_file;
use rzram_guest::run::run;
use rzram_guest::target::target;
use rzram_guest::{attr, blk, same, PAGE};

/// Nobody.
const NOBODY: libc::c_long = 65534;

/// Runs `body` in a thread that is nobody, without any right of root's.
fn as_nobody(body: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // By hand, as the C library changes all threads.
            // SAFETY: no memory is passed.
            let done = unsafe {
                libc::syscall(libc::SYS_setgroups, 0, 0)
                    | libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY)
                    | libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY)
            };
            ensure!(done == 0, "the thread is still root");
            body()
        });
        thread
            .join()
            .unwrap_or_else(|_| Err(anyhow::anyhow!("the thread panicked")))
    })
}

fn open_errno(path: &Path, flags: i32) -> std::result::Result<(), i32> {
    let access = flags & libc::O_ACCMODE;
    OpenOptions::new()
        .read(access != libc::O_WRONLY)
        .write(access != libc::O_RDONLY)
        .custom_flags(flags & !libc::O_ACCMODE)
        .open(path)
        .map(drop)
        .map_err(|e| e.raw_os_error().unwrap_or(0))
}

fn denied(path: &Path, flags: i32) -> Result<()> {
    let what = format!("opening {} with {flags:#x}", path.display());
    same(what, Err(libc::EACCES), open_errno(path, flags))
}

#[test]
fn nobody_opens_the_node_or_changes_a_setting() -> Result<()> {
    with_disk("4M", |disk| {
        let attributes: Vec<_> = fs::read_dir(disk.sys(""))?
            .collect::<std::io::Result<Vec<_>>>()?
            .into_iter()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
            .map(|entry| entry.path())
            .collect();
        let state = block_state_file(disk);
        as_nobody(|| {
            let node = disk.node();
            for flags in [libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR] {
                for more in [0, libc::O_DIRECT, libc::O_EXCL, libc::O_NONBLOCK] {
                    denied(Path::new(&node), flags | more)?;
                }
            }
            let (mut writable, mut readable) = (0, 0);
            for path in &attributes {
                denied(path, libc::O_WRONLY)?;
                denied(path, libc::O_RDWR)?;
                let mode = fs::metadata(path)?.mode();
                if mode & 0o004 != 0 {
                    readable += 1;
                    attr::read(path).with_context(|| format!("reading {}", path.display()))?;
                } else {
                    denied(path, libc::O_RDONLY)?;
                }
                writable += u32::from(mode & 0o200 != 0);
            }
            println!("{readable} attributes to read, {writable} that only root writes");
            ensure!(readable > 15 && writable > 15, "attributes are missing");
            denied(&target().control("hot_add"), libc::O_RDONLY)?;
            denied(&target().control("hot_remove"), libc::O_WRONLY)?;
            denied(&state, libc::O_RDONLY)
        })?;
        same(
            "the node's mode",
            0o600,
            attr::mode(Path::new(&disk.node()))?,
        )?;
        disk.shows("disksize", "4194304\n")
    })
}

#[test]
fn nobody_gets_at_the_disk_by_another_way() -> Result<()> {
    with_disk("4M", |disk| {
        let number = fs::metadata(disk.node())?.rdev();
        let at = scratch("nobody")?;
        fs::set_permissions(&at, fs::Permissions::from_mode(0o777))?;
        run("mkswap", &[&disk.node()])?;
        // Somebody may have been handed the open node, for reading.
        let handed = File::open(disk.node())?;
        as_nobody(|| {
            let own = CString::new(at.join("node").to_string_lossy().into_owned())?;
            // SAFETY: a C string and two numbers.
            let rc = unsafe { libc::mknod(own.as_ptr(), libc::S_IFBLK | 0o666, number) };
            same("mknod", Err(Errno::EPERM), Errno::result(rc).map(drop))?;
            let node = CString::new(disk.node())?;
            // SAFETY: a C string and flags.
            let rc = unsafe { libc::swapon(node.as_ptr(), 0) };
            same("swapon", Err(Errno::EPERM), Errno::result(rc).map(drop))?;
            let (place, kind) = (CString::new("/tmp")?, CString::new("ext4")?);
            // SAFETY: C strings, and no data.
            let rc = unsafe {
                libc::mount(
                    node.as_ptr(),
                    place.as_ptr(),
                    kind.as_ptr(),
                    0,
                    std::ptr::null(),
                )
            };
            same("mount", Err(Errno::EPERM), Errno::result(rc).map(drop))?;
            same("rmmod", Err(Errno::EPERM), try_unload())?;
            let denied = [
                ("BLKDISCARD", Errno::EBADF, blk::discard(&handed, 0, 4096)),
                ("BLKZEROOUT", Errno::EBADF, blk::zero_out(&handed, 0, 4096)),
                ("BLKFLSBUF", Errno::EACCES, blk::flush_buffers(&handed)),
            ];
            for (what, expected, came) in denied {
                same(what, Err(expected), came)?;
            }
            let written = blk::try_write(&handed, &[0; PAGE], 0);
            same(
                "writing to what is open for reading",
                Err(Errno::EBADF),
                written,
            )?;
            blk::read(&handed, &mut [0; PAGE], 0)
        })?;
        drop(handed);
        ensure!(!at.join("node").exists(), "there is a node");
        run("swapon", &[&disk.node()])?;
        run("swapoff", &[&disk.node()]).map(drop)
    })
}

#[test]
fn nobody_uses_a_file_system_on_the_disk_as_it_allows() -> Result<()> {
    load_ext4()?;
    with_disk("32M", |disk| {
        let at = scratch("shared")?;
        let mount = at.to_string_lossy().into_owned();
        run("mkfs.ext4", &["-q", &disk.node()])?;
        run("mount", &[&disk.node(), &mount])?;
        let result = share(disk, &at);
        run("umount", &[&mount])?;
        result
    })
}

fn share(disk: &Disk, at: &Path) -> Result<()> {
    let (secret, open, common) = (at.join("secret"), at.join("open"), at.join("common"));
    fs::write(&secret, "root's")?;
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600))?;
    fs::write(&open, "everybody's")?;
    fs::create_dir(&common)?;
    fs::set_permissions(&common, fs::Permissions::from_mode(0o1777))?;
    as_nobody(|| {
        denied(&secret, libc::O_RDONLY)?;
        denied(&open, libc::O_RDWR)?;
        same(
            "a file for all",
            "everybody's".to_owned(),
            fs::read_to_string(&open)?,
        )?;
        let own = common.join("own");
        fs::write(&own, vec![7; 3 * PAGE])?;
        same("its own file", vec![7; 3 * PAGE], fs::read(&own)?)?;
        // Space in a file that was never written is nobody's old data.
        let file = File::options().read(true).write(true).open(&own)?;
        file.set_len(20 * PAGE as u64)?;
        blk::fallocate(&file, 0, 0, 40 * PAGE as u64)?;
        let grown = fs::read(&own)?;
        ensure!(grown[3 * PAGE..].iter().all(|byte| *byte == 0), "not zeros");
        denied(Path::new(&disk.node()), libc::O_RDONLY)
    })
}
