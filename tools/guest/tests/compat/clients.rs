// SPDX-License-Identifier: GPL-2.0

//! zram's own clients, as Debian packages them, unmodified.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{ensure, Context, Result};
use rzram_guest::installed::Installed;
use rzram_guest::module::scratch;
use rzram_guest::run::{run, run_failing};
use rzram_guest::target::target;
use rzram_guest::{attr, same, MIB};

use crate::names::{is_loaded, owned_by_rzram, sys, with_compat};
use rzram_guest::post::Ram;

/// The file with the versions of the packages.
const VERSIONS: &str = "/usr/share/rzram/versions";

/// The rule for modprobe that puts rzram in zram's place.
const RULE: &str = include_str!("../../../rzram-compat.conf");

const GENERATOR: &str = "/usr/lib/systemd/system-generators/zram-generator";

/// Prints the version of a package.
fn print_version(package: &str) -> Result<()> {
    let text = fs::read_to_string(VERSIONS).context("the guest does not know its packages")?;
    let line = text.lines().find(|line| line.starts_with(package));
    println!("client: {}", line.with_context(|| format!("no {package}"))?);
    Ok(())
}

fn get(id: u32, attribute: &str) -> Result<String> {
    attr::read(&sys(id, attribute)).with_context(|| format!("reading {attribute} of zram{id}"))
}

/// The algorithm in brackets.
fn chosen(list: &str) -> Option<&str> {
    list.split(['[', ']']).nth(1)
}

/// The line of /proc/swaps for a disk: its priority.
fn swap_priority(node: &str) -> Result<Option<i32>> {
    let text = fs::read_to_string("/proc/swaps")?;
    let line = text.lines().find(|line| line.starts_with(node));
    line.map(|line| {
        let last = line.split_whitespace().last().unwrap_or("");
        last.parse().with_context(|| line.to_owned())
    })
    .transpose()
}

fn zramctl(args: &[&str]) -> Result<String> {
    run("zramctl", args)
}

/// One row of zramctl's list.
fn row(node: &str, columns: &str) -> Result<Vec<String>> {
    let text = zramctl(&[
        "--raw",
        "--noheadings",
        "--bytes",
        "--output",
        columns,
        node,
    ])?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

#[test]
fn zramctl_finds_creates_lists_and_resets() -> Result<()> {
    with_compat("", || {
        print_version("util-linux")?;
        println!("{}", zramctl(&["--version"])?.trim());
        owned_by_rzram(0)?;
        // Nothing is set up, so nothing is listed.
        same("the list", "", zramctl(&["--noheadings"])?.trim())?;
        let find = [
            "--find",
            "--size",
            "32M",
            "--algorithm",
            "zstd",
            "--streams",
            "2",
        ];
        same("the first", "/dev/zram0\n", zramctl(&find)?.as_str())?;
        same(
            "size",
            (32 * MIB).to_string(),
            get(0, "disksize")?.trim().to_owned(),
        )?;
        same(
            "algorithm",
            Some("zstd"),
            chosen(&get(0, "comp_algorithm")?),
        )?;
        // The first is taken now, so the second has to be made.
        let find = ["-f", "-s", "16M", "-a", "lz4"];
        same("the second", "/dev/zram1\n", zramctl(&find)?.as_str())?;
        owned_by_rzram(1)?;
        zramctl(&["--reset", "/dev/zram0"])?;
        // One by its name, with parameters for the algorithm.
        same(
            "the first again",
            "/dev/zram0\n",
            zramctl(&["-f", "-s", "8M"])?.as_str(),
        )?;
        zramctl(&["-r", "/dev/zram0"])?;
        zramctl(&["-r", "/dev/zram1"])?;
        same("the list", "", zramctl(&["--noheadings"])?.trim())?;
        run_failing("zramctl", &["/dev/zram0"]).map(drop)
    })
}

#[test]
fn zramctl_shows_every_column() -> Result<()> {
    with_compat("", || {
        zramctl(&["-s", "64M", "-a", "lzo-rle", "-t", "3", "/dev/zram0"])?;
        owned_by_rzram(0)?;
        attr::set(&sys(0, "mem_limit"), "32M")?;
        rzram_guest::kernel::load_ext4()?;
        run("mkfs.ext4", &["-q", "/dev/zram0"])?;
        let mount = scratch("zramctl")?.display().to_string();
        run("mount", &["/dev/zram0", &mount])?;
        fs::write(
            format!("{mount}/file"),
            "some text, again and again. ".repeat(100_000),
        )?;
        run("sync", &[])?;
        let columns = "NAME,DISKSIZE,ALGORITHM,STREAMS,MEM-LIMIT,MOUNTPOINT";
        let expected = ["/dev/zram0", "67108864", "lzo-rle", "3", "33554432", &mount];
        same(
            "columns",
            expected.map(String::from).to_vec(),
            row("/dev/zram0", columns)?,
        )?;
        let mm = get(0, "mm_stat")?;
        let mm: Vec<String> = mm.split_whitespace().map(str::to_owned).collect();
        let columns = "DATA,COMPR,TOTAL,MEM-LIMIT,MEM-USED,ZERO-PAGES,MIGRATED";
        same("columns", mm[..7].to_vec(), row("/dev/zram0", columns)?)?;
        let all = zramctl(&["--output-all"])?;
        println!("{all}");
        let heading = all.lines().next().unwrap_or("");
        for column in [
            "NAME",
            "DISKSIZE",
            "DATA",
            "COMPR",
            "ALGORITHM",
            "STREAMS",
            "MOUNTPOINT",
        ] {
            ensure!(heading.contains(column), "no {column} in {heading:?}");
        }
        // In use, it stays.
        run_failing("zramctl", &["--reset", "/dev/zram0"])?;
        run("umount", &[&mount])?;
        zramctl(&["--reset", "/dev/zram0"]).map(drop)
    })
}

#[test]
fn zramctl_sets_parameters() -> Result<()> {
    with_compat("", || {
        zramctl(&["-s", "8M", "-a", "deflate", "-p", "level=0", "/dev/zram0"])?;
        let text = "some text, again and again. ".repeat(10_000);
        fs::write("/dev/zram0", text)?;
        run("sync", &[])?;
        let mm = get(0, "mm_stat")?;
        let huge: u64 = mm.split_whitespace().nth(7).unwrap_or("").parse()?;
        // Level 0 stores, so all of it is huge.
        ensure!(huge > 60, "the level was not set: {mm:?}");
        zramctl(&["--reset", "/dev/zram0"])?;
        let bad = ["-s", "8M", "-a", "deflate", "-p", "level=77", "/dev/zram0"];
        run_failing("zramctl", &bad).map(drop)
    })
}

/// What systemd would run: the lines `KEY=` of a unit, for an instance.
fn commands(unit: &str, key: &str, instance: &str) -> Result<Vec<String>> {
    let text = fs::read_to_string(unit).with_context(|| format!("no {unit}"))?;
    let found: Vec<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='))
        .map(|command| command.replace("%i", instance))
        .collect();
    ensure!(!found.is_empty(), "{unit} has no {key}");
    Ok(found)
}

fn run_commands(unit: &str, key: &str, instance: &str) -> Result<()> {
    for command in commands(unit, key, instance)? {
        println!("{command}");
        run("sh", &["-c", &command])?;
    }
    Ok(())
}

/// The value of a key in a unit that the generator made.
fn value(unit: &Path, key: &str) -> Result<String> {
    let text = fs::read_to_string(unit).with_context(|| format!("no {}", unit.display()))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    Ok(line
        .with_context(|| format!("no {key} in {text:?}"))?
        .to_owned())
}

const CONFIGURATION: &str = "\
[zram0]
zram-size = 32
compression-algorithm = lzo-rle zstd(level=3) (type=huge)
swap-priority = 50
writeback-device = /dev/ram0

[zram1]
zram-size = 48
compression-algorithm = zstd(level=5)
fs-type = ext4
mount-point = /tmp/rzram-generated
";

#[test]
fn systemd_zram_generator_and_its_units() -> Result<()> {
    let unit = "/usr/lib/systemd/system/systemd-zram-setup@.service";
    let _ram = Ram::new(4096)?;
    rzram_guest::kernel::load_ext4()?;
    with_compat("num_devices=2", || {
        print_version("systemd-zram-generator")?;
        fs::create_dir_all("/etc/systemd")?;
        fs::write("/etc/systemd/zram-generator.conf", CONFIGURATION)?;
        let out = scratch("units")?;
        let path = out.display().to_string();
        let output = Command::new(GENERATOR)
            .args([&path, &path, &path])
            .output()?;
        println!("{}", String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "the generator: {output:?}");
        owned_by_rzram(0)?;
        owned_by_rzram(1)?;

        // What systemd does for the swap unit: the service it needs, then swapon.
        let swap = out.join("dev-zram0.swap");
        same("What", "/dev/zram0", value(&swap, "What")?.as_str())?;
        same("Priority", "50", value(&swap, "Priority")?.as_str())?;
        run_commands(unit, "ExecStart", "zram0")?;
        same(
            "size",
            (32 * MIB).to_string(),
            get(0, "disksize")?.trim().to_owned(),
        )?;
        same(
            "algorithm",
            Some("lzo-rle"),
            chosen(&get(0, "comp_algorithm")?),
        )?;
        same("second", Some("zstd"), chosen(&get(0, "recomp_algorithm")?))?;
        same(
            "backing device",
            "/dev/ram0\n",
            get(0, "backing_dev")?.as_str(),
        )?;
        run(
            "swapon",
            &["--priority", &value(&swap, "Priority")?, "/dev/zram0"],
        )?;
        same("priority", Some(50), swap_priority("/dev/zram0")?)?;

        // And for the mount unit.
        let mount = fs::read_dir(&out)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.extension().is_some_and(|end| end == "mount"))
            .context("the generator made no mount unit")?;
        run_commands(unit, "ExecStart", "zram1")?;
        let (what, place) = (value(&mount, "What")?, value(&mount, "Where")?);
        same("What", "/dev/zram1", what.as_str())?;
        fs::create_dir_all(&place)?;
        run("mount", &["-o", &value(&mount, "Options")?, &what, &place])?;
        let text = "some text, again and again. ".repeat(200_000);
        fs::write(format!("{place}/file"), &text)?;
        rzram_guest::kernel::drop_caches()?;
        ensure!(
            fs::read_to_string(format!("{place}/file"))? == text,
            "the file changed"
        );
        println!("{}", run("zramctl", &["--output-all"])?);

        run("umount", &[&place])?;
        run("swapoff", &["/dev/zram0"])?;
        for instance in ["zram0", "zram1"] {
            run_commands(unit, "ExecStop", instance)?;
        }
        same("size", "0", get(0, "disksize")?.trim())?;
        same("size", "0", get(1, "disksize")?.trim())?;
        fs::remove_file("/etc/systemd/zram-generator.conf")?;
        Ok(())
    })
}

/// Runs `body` where `modprobe zram` means rzram.
fn installed(body: impl FnOnce() -> Result<()>) -> Result<()> {
    if target().is_c_zram() {
        return Ok(());
    }
    let installed = Installed::new()?;
    let rule = Path::new("/etc/modprobe.d/rzram-compat.conf");
    fs::create_dir_all("/etc/modprobe.d")?;
    fs::write(rule, RULE)?;
    let result = body();
    drop(installed);
    fs::remove_file(rule)?;
    if result.is_err() {
        let _ = run("swapoff", &["/dev/zram0"]);
        let _ = run("rmmod", &["rzram"]);
    }
    result
}

#[test]
fn zram_tools_start_status_and_stop() -> Result<()> {
    installed(|| {
        print_version("zram-tools")?;
        println!("{}", run("zramswap", &["start"])?);
        owned_by_rzram(0)?;
        same("priority", Some(100), swap_priority("/dev/zram0")?)?;
        same("algorithm", Some("lz4"), chosen(&get(0, "comp_algorithm")?))?;
        // Half of the memory, as its configuration says.
        let size: u64 = get(0, "disksize")?.trim().parse()?;
        let memory = rzram_guest::stat::meminfo("MemTotal")?;
        same("size", (memory / 2).next_multiple_of(4096), size)?;
        println!("{}", run("zramswap", &["status"])?);
        run("zramswap", &["restart"])?;
        owned_by_rzram(0)?;
        run("zramswap", &["stop"])?;
        same("priority", None, swap_priority("/dev/zram0")?)?;
        ensure!(!is_loaded("rzram")?, "rzram is still loaded");
        Ok(())
    })
}

#[test]
fn modprobe_of_zram_loads_rzram_with_parameters() -> Result<()> {
    installed(|| {
        run("modprobe", &["zram", "num_devices=3"])?;
        for id in 0..3 {
            owned_by_rzram(id)?;
        }
        ensure!(!Path::new("/dev/zram3").exists(), "too many disks");
        // Again is no error.
        run("modprobe", &["zram"])?;
        run("modprobe", &["-r", "zram"])?;
        ensure!(!is_loaded("rzram")?, "rzram is still loaded");
        Ok(())
    })
}

/// See selftests.rs, which runs them where `modprobe zram` is theirs to call.
pub fn with_rule(body: impl FnOnce() -> Result<()>) -> Result<()> {
    installed(body)
}
