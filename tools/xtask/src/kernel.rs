// SPDX-License-Identifier: GPL-2.0
//! Debian's stock kernel: which one, its image and modules, and a build tree in which Rust modules can be built; and the
//! kernels that are made from its source.
//!
//! Debian's header packages carry no Rust metadata, so the build tree is made from the source package of the same
//! version with the packaged configuration and symbol table. It fits the stock kernel because the compiler is the same.

mod made;

use crate::{apt, cache, ctx::Ctx, progress::Job};
use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

/// The oldest kernel that the module supports.
const FLOOR: [u64; 2] = [7, 3];

/// Counts up when what `make` does below changes.
const RECIPE: u32 = 2;

/// The packages of one kernel, beside its source: `linux-PART-NAME`.
const PARTS: [&str; 4] = ["headers", "base", "binary", "modules"];

/// A kernel of the archive whose packages agree on one version.
#[derive(Clone, Debug, Hash, Serialize, Deserialize, PartialEq, Eq)]
pub struct Release {
    /// What `uname -r` says, such as `7.3.4+deb13-amd64`.
    pub name: String,
    /// The version of the Debian packages.
    pub package: String,
    /// The source package, such as `linux-source-7.3`.
    pub source: String,
}

/// What a kernel is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Debian's own.
    Stock,
    /// One that watches memory, locks and leaks.
    Debug,
    /// One that runs as a program of the host, at its speed: user-mode Linux.
    Uml,
}

/// A kernel in the cache, ready to build against and to boot.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// What it is for.
    pub kind: Kind,
    /// Which one it is.
    pub release: Release,
    /// The unpacked source.
    pub source: PathBuf,
    /// The prepared build tree (KDIR).
    pub build: PathBuf,
    /// Its `lib/modules/NAME`.
    pub modules: PathBuf,
}

impl Kernel {
    /// The bootable image.
    pub fn image(&self) -> PathBuf {
        self.modules.join("vmlinuz")
    }

    /// What make has to be told when it builds for this kernel.
    pub fn make_args(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::Stock => &[],
            Kind::Debug => made::DEBUG.make,
            Kind::Uml => made::UML.make,
        }
    }
}

/// Which of the archive's kernels is wanted.
#[derive(Clone, Debug)]
enum Want {
    /// The newest one of this flavour.
    Newest(String),
    /// The one of this name.
    Exactly(String),
}

impl Want {
    /// What sets it apart from others; part of a file's name.
    fn id(&self) -> &str {
        match self {
            Self::Newest(flavour) => flavour,
            Self::Exactly(name) => name,
        }
    }

    /// The version of the kernel `name` where it is one of those wanted.
    fn version_of(&self, name: &str) -> Option<Vec<u64>> {
        match self {
            Self::Newest(flavour) => version_of(name, flavour),
            Self::Exactly(wanted) => {
                version_of(name, flavour_of(wanted)?).filter(|_| name == wanted)
            }
        }
    }
}

/// Returns the kernel of this kind that guests boot; makes what the cache lacks.
pub fn ensure_kind(ctx: &Ctx, kind: Kind) -> Result<Kernel> {
    match kind {
        Kind::Stock => ensure(ctx),
        Kind::Debug => made::ensure(ctx, &made::DEBUG),
        Kind::Uml => made::ensure(ctx, &made::UML),
    }
}

/// Returns the stock kernel; resolves, fetches and prepares what the cache lacks.
pub fn ensure(ctx: &Ctx) -> Result<Kernel> {
    ensure_wanted(ctx, &Want::Newest(ctx.flavour.clone()))
}

/// Makes sure that it is known which kernel [`ensure`] is to return.
pub fn resolve_newest(ctx: &Ctx) -> Result<Release> {
    resolved(ctx, &Want::Newest(ctx.flavour.clone()))
}

/// Whether this is the name of a Debian kernel that the module can be built for.
pub fn is_supported_debian(name: &str) -> bool {
    flavour_of(name)
        .and_then(|flavour| version_of(name, flavour))
        .is_some_and(|version| version.as_slice() >= FLOOR.as_slice())
}

/// The same for the Debian kernel of this name.
pub fn ensure_exactly(ctx: &Ctx, name: &str) -> Result<Kernel> {
    ensure_wanted(ctx, &Want::Exactly(name.to_owned()))
}

fn ensure_wanted(ctx: &Ctx, want: &Want) -> Result<Kernel> {
    let release = resolved(ctx, want)?;
    let name = format!(
        "kernel-{}-{}",
        release.name,
        cache::key(&(&release, RECIPE))
    );
    let modules = format!("image/usr/lib/modules/{}", release.name);
    let watched = [
        "build",
        "src/include",
        "src/arch/x86",
        "src/rust",
        "src/scripts",
        "src/Makefile",
        &modules,
    ];
    let dir = cache::entry(ctx, &name, &watched, |dir| make(ctx, &release, dir))?;
    Ok(Kernel {
        kind: Kind::Stock,
        source: dir.join("src"),
        build: dir.join("build"),
        modules: dir.join(modules),
        release,
    })
}

/// Asks the archive anew which kernel is the newest.
pub fn update(ctx: &Ctx) -> Result<()> {
    let mut job = Job::new("kernel", 1, ctx.logs().join("update.log"))?;
    job.step("fetching the package lists");
    apt::update(&job)?;
    match fs::remove_file(pin_file(ctx, &Want::Newest(ctx.flavour.clone()))) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

fn pin_file(ctx: &Ctx, want: &Want) -> PathBuf {
    ctx.cache
        .join("pins")
        .join(format!("kernel-{}.json", want.id()))
}

fn pinned(ctx: &Ctx, want: &Want) -> Option<Release> {
    serde_json::from_slice(&fs::read(pin_file(ctx, want)).ok()?).ok()
}

fn resolved(ctx: &Ctx, want: &Want) -> Result<Release> {
    match pinned(ctx, want) {
        Some(release) => Ok(release),
        None => resolve_and_pin(ctx, want),
    }
}

fn resolve_and_pin(ctx: &Ctx, want: &Want) -> Result<Release> {
    let _lock = cache::lock(ctx, "resolve")?;
    if let Some(release) = pinned(ctx, want) {
        return Ok(release);
    }
    let mut job = Job::new("kernel", 1, ctx.logs().join("resolve.log"))?;
    job.step(match want {
        Want::Newest(_) => "asking the archive for the newest kernel",
        Want::Exactly(_) => "asking the archive for the running kernel",
    });
    apt::update_if_old(&job)?;
    let release = resolve(want)?;
    eprintln!(
        "kernel: using {} ({}, {})",
        release.name, release.package, release.source
    );
    let file = pin_file(ctx, want);
    fs::create_dir_all(file.parent().context("a pin file has a directory")?)?;
    fs::write(file, serde_json::to_vec_pretty(&release)?)?;
    Ok(release)
}

/// The newest wanted kernel whose image, modules, headers and source have the same version.
fn resolve(want: &Want) -> Result<Release> {
    let mut names: Vec<(Vec<u64>, String)> = apt::names("linux-headers-")?
        .iter()
        .filter_map(|package| package.strip_prefix("linux-headers-"))
        .filter_map(|name| Some((want.version_of(name)?, name.to_owned())))
        .filter(|(version, _)| version.as_slice() >= FLOOR.as_slice())
        .collect();
    names.sort();
    names.reverse();
    let mut wanted = Vec::new();
    for (version, name) in &names {
        wanted.extend(PARTS.map(|part| format!("linux-{part}-{name}")));
        wanted.push(source_package(version));
    }
    let versions = apt::versions(&wanted)?;
    for (version, name) in &names {
        let source = source_package(version);
        let of = |package: &str| versions.get(package).cloned().unwrap_or_default();
        let agreed = of(&format!("linux-headers-{name}"))
            .into_iter()
            .find(|package| {
                let mut all = PARTS
                    .iter()
                    .map(|part| format!("linux-{part}-{name}"))
                    .chain([source.clone()]);
                all.all(|other| of(&other).contains(package))
            });
        if let Some(package) = agreed {
            return Ok(Release {
                name: name.clone(),
                package,
                source,
            });
        }
        eprintln!("kernel: {name} has no matching image, modules, headers and source in the archive; trying an older one");
    }
    bail!(
        "the archive has no kernel {} from {}.{} on with a matching source package",
        want.id(),
        FLOOR[0],
        FLOOR[1]
    );
}

fn source_package(version: &[u64]) -> String {
    let parts: Vec<String> = version.iter().take(2).map(u64::to_string).collect();
    format!("linux-source-{}", parts.join("."))
}

/// The flavour of `7.3.4+deb13-amd64`: what follows the first dash behind the plus.
fn flavour_of(name: &str) -> Option<&str> {
    let (_, local) = name.split_once('+')?;
    let (distribution, flavour) = local.split_once('-')?;
    distribution.starts_with("deb").then_some(flavour)
}

/// The numbers of `7.3.4+deb13-amd64` where it is of this flavour, `None` otherwise or for release candidates.
fn version_of(name: &str, flavour: &str) -> Option<Vec<u64>> {
    let base = name.strip_suffix(flavour)?.strip_suffix('-')?;
    let (version, local) = base.split_once('+')?;
    if local.contains('-') {
        return None;
    }
    version.split('.').map(|part| part.parse().ok()).collect()
}

fn make(ctx: &Ctx, release: &Release, dir: &Path) -> Result<()> {
    let mut job = Job::new("kernel", 3, ctx.logs().join("kernel.log"))?;
    job.step(&format!(
        "fetching {} with its headers and source",
        release.name
    ));
    let name = &release.name;
    let packages = PARTS.map(|part| format!("linux-{part}-{name}"));
    let wanted: Vec<String> = packages
        .iter()
        .chain([&release.source])
        .map(|package| format!("{package}={}", release.package))
        .collect();
    let debs = dir.join("debs");
    let files = match apt::download(&job, &debs, &wanted) {
        Ok(files) => files,
        // The lists may be too old for the archive of today.
        Err(_) => {
            apt::update(&job)?;
            apt::download(&job, &debs, &wanted).with_context(|| {
                format!("{name} cannot be fetched any more; `make update-kernel` takes the newest")
            })?
        }
    };

    job.step("unpacking");
    let image = dir.join("image");
    for file in files {
        job.run(Command::new("dpkg-deb").arg("-x").args([&file, &image]))?;
    }
    fs::remove_dir_all(&debs)?;
    symlink("usr/lib", image.join("lib"))?; // where depmod looks
    job.run(
        Command::new("depmod")
            .arg("-b")
            .args([&image, Path::new(name)]),
    )?;
    let source = dir.join("src");
    fs::create_dir_all(&source)?;
    let archive = image
        .join("usr/src")
        .join(format!("{}.tar.xz", release.source));
    job.run(
        Command::new("tar")
            .args(["-I", "xz -T0", "--strip-components=1", "-xf"])
            .arg(&archive)
            .arg("-C")
            .arg(&source),
    )?;
    fs::remove_file(archive)?;

    job.step("preparing the build tree (about two minutes)");
    prepare(&job, release, &image, &source, &dir.join("build"))?;
    job.done();
    Ok(())
}

/// A call of make on a kernel's source, for a build tree beside it.
fn make_in(source: &Path, build: &Path) -> Command {
    let mut output = std::ffi::OsString::from("O=");
    output.push(build);
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut make = Command::new("make");
    make.arg("-C")
        .arg(source)
        .arg(output)
        .arg(format!("-j{jobs}"));
    make
}

fn prepare(job: &Job, release: &Release, image: &Path, source: &Path, build: &Path) -> Result<()> {
    let name = &release.name;
    let headers = image.join("usr/src").join(format!("linux-headers-{name}"));
    let config = fs::read_to_string(headers.join(".config"))
        .context("the headers package has no .config")?;
    if !has_rust(&config) {
        bail!("kernel {name} is built without Rust support (CONFIG_RUST); no Rust module can be built for it");
    }
    fs::create_dir_all(build)?;
    fs::write(build.join(".config"), config)?;
    fs::copy(headers.join("Module.symvers"), build.join("Module.symvers"))?;
    let local = name
        .find('+')
        .map(|at| &name[at..])
        .context("a Debian release name has a +")?;
    for targets in [&["olddefconfig"][..], &["prepare", "modules_prepare"]] {
        job.run(
            make_in(source, build)
                .arg(format!("LOCALVERSION={local}"))
                .args(targets),
        )?;
    }
    if !has_rust(&fs::read_to_string(build.join(".config"))?) {
        bail!("the toolchain of the build root does not fit kernel {name}: CONFIG_RUST was switched off");
    }
    let made = fs::read_to_string(build.join("include/config/kernel.release"))?;
    if made.trim() != name {
        bail!(
            "the build tree calls itself {}, but the kernel is {name}",
            made.trim()
        );
    }
    Ok(())
}

fn has_rust(config: &str) -> bool {
    config.lines().any(|line| line == "CONFIG_RUST=y")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_wanted_flavour_is_taken() {
        assert_eq!(
            version_of("7.3.4+deb13-amd64", "amd64"),
            Some(vec![7, 3, 4])
        );
        assert_eq!(version_of("7.3.4+deb13-rt-amd64", "amd64"), None);
        assert_eq!(
            version_of("7.3.4+deb13-rt-amd64", "rt-amd64"),
            Some(vec![7, 3, 4])
        );
        assert_eq!(version_of("7.10+deb13.1-amd64", "amd64"), Some(vec![7, 10]));
        assert_eq!(version_of("7.4~rc2+deb13-amd64", "amd64"), None);
        assert_eq!(version_of("amd64", "amd64"), None);
    }

    #[test]
    fn an_exact_name_matches_itself_only() {
        let want = Want::Exactly("7.3.4+deb13-cloud-amd64".into());
        assert_eq!(
            want.version_of("7.3.4+deb13-cloud-amd64"),
            Some(vec![7, 3, 4])
        );
        assert_eq!(want.version_of("7.3.4+deb13-amd64"), None);
        assert_eq!(want.version_of("7.3.5+deb13-cloud-amd64"), None);
        assert!(is_supported_debian("7.3.4+deb13-cloud-amd64"));
        assert!(!is_supported_debian("6.12.117+deb13-amd64"));
        assert!(!is_supported_debian("7.3.4-arch1-1"));
        assert!(!is_supported_debian("7.3.4"));
    }

    #[test]
    fn newer_sorts_after_older() {
        assert!(
            version_of("7.10.1+deb13-amd64", "amd64") > version_of("7.9.12+deb13-amd64", "amd64")
        );
    }
}
