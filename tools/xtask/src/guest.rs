// SPDX-License-Identifier: GPL-2.0
//! The guest's userland: a small Debian with the programs that the tests use, and some of the stock kernel's modules.
//!
//! Both are uncompressed cpio archives, unpacked by the kernel at boot; what changes from boot to boot comes in a third one
//! behind them (see vm/boot.rs).

use crate::{cache, ctx::Ctx, kernel::Kernel, progress::Job};
use anyhow::{bail, Context, Result};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

const SUITE: &str = "trixie";

const PACKAGES: &str = "bc e2fsprogs dmsetup fdisk fio gawk iproute2 kmod less mount procps strace stress-ng systemd-zram-generator util-linux xz-utils zram-tools zstd";

/// In the archive's non-free part, so it may be missing.
const OPTIONAL: &str = "iozone3";

/// Programs that have to start in the finished userland.
const PROBES: [&str; 8] = [
    "fio --version",
    "stress-ng --version",
    "mkfs.ext4 -V",
    "modprobe --version",
    "bc --version",
    "gawk --version",
    "dmsetup --help",
    "zramctl --version",
];

/// Modules of the stock kernel that the guest can load; what they depend on comes along.
const MODULES: [&str; 24] = [
    "zram",
    "lz4hc_compress",
    "9p",
    "9pnet_virtio",
    "virtio_blk",
    "ext4",
    "loop",
    "null_blk",
    "brd",
    "dm-mod",
    "dm-flakey",
    "dm-delay",
    "dm-dust",
    "dm-crypt",
    "dm-zero",
    "nbd",
    "overlay",
    "squashfs",
    "erofs",
    "vfat",
    "configfs",
    "scsi_debug",
    "zsmalloc",
    "zlib_deflate",
];

/// What the userland can do without; most of it is there for graphics or for packaging.
const DROP: [&str; 26] = [
    "usr/lib/x86_64-linux-gnu/libLLVM*",
    "usr/lib/x86_64-linux-gnu/libgallium*",
    "usr/lib/x86_64-linux-gnu/libz3.so*",
    "usr/lib/x86_64-linux-gnu/libicu*",
    "usr/lib/x86_64-linux-gnu/libX11*",
    "usr/lib/x86_64-linux-gnu/gconv",
    "usr/lib/x86_64-linux-gnu/perl*",
    "usr/lib/python3*",
    "usr/bin/python3*",
    "usr/bin/perl*",
    "usr/share/doc",
    "usr/share/info",
    "usr/share/bash-completion",
    "usr/share/fio",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/perl*",
    "usr/share/python3*",
    "usr/share/X11",
    "usr/share/zoneinfo",
    "usr/share/i18n",
    "usr/share/gdb",
    "var/cache",
    "var/lib/apt",
    "var/lib/dpkg",
    "var/log",
];

/// Counts up when what `make` does below changes.
const RECIPE: u32 = 3;

/// Returns the userland's archive; makes it where the cache lacks it.
pub fn userland(ctx: &Ctx) -> Result<PathBuf> {
    let key = cache::key(&(SUITE, PACKAGES, OPTIONAL, DROP, RECIPE));
    let dir = cache::entry(ctx, &format!("guest-{key}"), &["base.cpio"], |dir| {
        make(ctx, dir)
    })?;
    Ok(dir.join("base.cpio"))
}

/// Returns the archive of this kernel's modules; makes it where the cache lacks it.
pub fn modules(ctx: &Ctx, kernel: &Kernel) -> Result<PathBuf> {
    let key = cache::key(&(MODULES, &kernel.release, RECIPE));
    let name = format!("guest-modules-{key}");
    let dir = cache::entry(ctx, &name, &["modules.cpio"], |dir| {
        let job = Job::new("guest", 1, ctx.logs().join("guest-modules.log"))?;
        let root = dir.join("root");
        add_modules(&job, kernel, &root)?;
        add_selftests(kernel, &root)?;
        pack(&job, &root, &dir.join("modules.cpio"))
    })?;
    Ok(dir.join("modules.cpio"))
}

fn make(ctx: &Ctx, dir: &Path) -> Result<()> {
    let mut job = Job::new("guest", 3, ctx.logs().join("guest.log"))?;
    job.step("a small Debian with fio, stress-ng, e2fsprogs and others");
    let root = dir.join("root");
    let sources = sources()?;
    let install = |packages: String| {
        if root.exists() {
            cache::remove(&root)?;
        }
        job.run(
            Command::new("mmdebstrap")
                .args([
                    "--mode=root",
                    "--variant=essential",
                    "--format=directory",
                    "--skip=check/empty",
                ])
                .arg(format!("--include={packages}"))
                .args(
                    ["man", "doc", "locale"]
                        .map(|dir| format!("--dpkgopt=path-exclude=/usr/share/{dir}/*")),
                )
                .arg(r#"--aptopt=APT::Install-Recommends "false""#)
                .args(apt_options()?)
                .arg(SUITE)
                .arg(&root)
                .args(&sources),
        )
    };
    let packages = PACKAGES.replace(' ', ",");
    if crate::apt::versions(&[OPTIONAL.to_owned()])?.is_empty() {
        eprintln!(
            "guest: the archive has no {OPTIONAL} (non-free); its benchmark runs will be left out"
        );
        install(packages)?;
    } else {
        install(format!("{packages},{OPTIONAL}"))?;
    }

    add_versions(&root)?;
    job.step("leaving out what guests have no use for");
    for pattern in DROP {
        drop_matching(&root, pattern)?;
    }
    for probe in PROBES {
        job.run(Command::new("chroot").arg(&root).args(probe.split(' ')))
            .with_context(|| format!("{probe} does not start in the guest's userland"))?;
    }
    for name in ["share", "rzram", "proc", "sys", "dev", "tmp", "run"] {
        fs::create_dir_all(root.join(name))?;
    }

    job.step("packing");
    let archive = dir.join("base.cpio");
    pack(&job, &root, &archive)?;
    eprintln!("guest: {} MiB", archive.metadata()?.len() >> 20);
    job.done();
    Ok(())
}

/// Turns a directory into an archive of its content.
fn pack(job: &Job, root: &Path, archive: &Path) -> Result<()> {
    const SCRIPT: &str =
        r#"cd "$0" && find . -xdev | LC_ALL=C sort | cpio -o -H newc --quiet >"$1""#;
    job.run(
        Command::new("bash")
            .args(["-c", SCRIPT])
            .args([root, archive]),
    )?;
    cache::remove(root)
}

/// The build root's own sources, without backports.
fn sources() -> Result<Vec<String>> {
    let mut lines = Vec::new();
    let dir = Path::new("/etc/apt/sources.list.d");
    for file in [
        Path::new("/etc/apt/sources.list"),
        &dir.join("non-free.list"),
    ] {
        lines.extend(
            fs::read_to_string(file)
                .unwrap_or_default()
                .lines()
                .map(str::to_owned),
        );
    }
    lines.retain(|line| line.starts_with("deb "));
    if lines.is_empty() {
        bail!("the build root has no package sources; run `make distclean` and start again");
    }
    Ok(lines)
}

/// Proxy and certificate settings of the build root's apt.
fn apt_options() -> Result<Vec<String>> {
    let out = Command::new("apt-config").arg("dump").output()?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    Ok(text
        .lines()
        .filter(|line| line.starts_with("Acquire::http") && !line.ends_with("\"\";"))
        .map(|line| format!("--aptopt={line}"))
        .collect())
}

/// Removes what matches `pattern`: a path whose last part may end in a star.
fn drop_matching(root: &Path, pattern: &str) -> Result<()> {
    let path = root.join(pattern);
    let (Some(parent), Some(name)) = (
        path.parent(),
        path.file_name().and_then(|name| name.to_str()),
    ) else {
        bail!("{pattern} is no path");
    };
    if !parent.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let found = entry.file_name();
        let found = found.to_string_lossy();
        let hit = match name.strip_suffix('*') {
            Some(start) => found.starts_with(start),
            None => found == name,
        };
        if hit && entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else if hit {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Writes down the version of each package, since the guest has no package manager's files to ask.
fn add_versions(root: &Path) -> Result<()> {
    let out = Command::new("dpkg-query")
        .arg(format!("--admindir={}/var/lib/dpkg", root.display()))
        .arg("--show")
        .output()?;
    if !out.status.success() {
        bail!("the versions of the guest's packages cannot be told");
    }
    let dir = root.join("usr/share/rzram");
    fs::create_dir_all(&dir)?;
    Ok(fs::write(dir.join("versions"), out.stdout)?)
}

/// Copies the kernel's own selftests for zram, as they are.
fn add_selftests(kernel: &Kernel, root: &Path) -> Result<()> {
    let to = root.join("usr/share/rzram/selftests");
    fs::create_dir_all(&to)?;
    let from = kernel.source.join("tools/testing/selftests/zram");
    for entry in fs::read_dir(&from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Copies the wanted modules and all that they depend on, uncompressed, and indexes them.
fn add_modules(job: &Job, kernel: &Kernel, root: &Path) -> Result<()> {
    let name = &kernel.release.name;
    let text = fs::read_to_string(kernel.modules.join("modules.dep"))?;
    let mut needs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut paths: BTreeMap<String, &str> = BTreeMap::new();
    for line in text.lines() {
        let (path, rest) = line
            .split_once(':')
            .context("modules.dep: a line without a colon")?;
        needs.insert(path, rest.split_whitespace().collect());
        paths.insert(module_name(path), path);
    }
    let mut wanted = BTreeSet::new();
    for module in MODULES {
        // What is not a module of this flavour is built in, or not there at all.
        if let Some(path) = paths.get(&module_name(module)) {
            wanted.insert(*path);
            wanted.extend(needs[path].iter().copied());
        }
    }
    let to = root.join("usr/lib/modules").join(name);
    for path in &wanted {
        let file = to.join(path);
        fs::create_dir_all(file.parent().context("a module has a directory")?)?;
        fs::copy(kernel.modules.join(path), &file)?;
        if path.ends_with(".xz") {
            job.run(Command::new("xz").arg("-d").arg(&file))?;
        }
    }
    for file in [
        "modules.builtin",
        "modules.builtin.modinfo",
        "modules.order",
    ] {
        fs::copy(kernel.modules.join(file), to.join(file))?;
    }
    let link = root.join("lib"); // where depmod looks; the userland has one of its own
    symlink("usr/lib", &link)?;
    job.run(Command::new("depmod").arg("-b").arg(root).arg(name))?;
    Ok(fs::remove_file(link)?)
}

/// `kernel/drivers/block/zram/zram.ko.xz` is `zram`; dashes count as underscores.
fn module_name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split(".ko").next().unwrap_or(file).replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_names_come_from_paths() {
        assert_eq!(
            module_name("kernel/drivers/md/dm-flakey.ko.xz"),
            "dm_flakey"
        );
        assert_eq!(module_name("zram"), "zram");
    }
}
