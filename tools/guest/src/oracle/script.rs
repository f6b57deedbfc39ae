// SPDX-License-Identifier: GPL-2.0

//! What a script is made of: operations, their results, and the line that tells of both.

use std::ascii::escape_default;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Stdout, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::errno::Errno;

use super::Module;
use crate::{attr, buf::Mapping, kernel::Log, PAGE};

/// Between an operation and its result; occurs in neither.
const ARROW: &str = " -> ";

/// The script so far.
pub struct Script {
    pub module: Module,
    out: BufWriter<Stdout>,
    log: Log,
    group: &'static str,
    number: usize,
    total: usize,
    failed_preparation: Option<String>,
    held: BTreeMap<&'static str, File>,
}

/// Bytes as text on one line.
pub fn quoted(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(3000)];
    let mut text: String = shown
        .iter()
        .flat_map(|byte| escape_default(*byte))
        .map(char::from)
        .collect();
    if bytes.len() > 160 && bytes.iter().all(|byte| *byte == bytes[0]) {
        text = format!("{}...({})", &text[..4], bytes.len());
    }
    format!("\"{text}\"")
}

/// A success or an errno.
pub fn verdict<T>(result: Result<T, Errno>) -> String {
    result.map_or_else(errno, |_| "ok".into())
}

/// The name of an errno.
pub fn errno(errno: Errno) -> String {
    format!("{errno:?}")
}

/// The errno in an error of the standard library.
pub fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(0))
}

/// A file of a disk, by its name below `/sys/block/zram0`.
pub fn sys(name: &str) -> PathBuf {
    Path::new("/sys/block/zram0").join(name)
}

/// What a read of a file gives: its bytes or an errno.
pub fn shown(path: &Path) -> String {
    attr::read(path).map_or_else(errno, |text| quoted(text.as_bytes()))
}

/// What a single write to a file gives.
pub fn written(path: &Path, value: &[u8]) -> String {
    match attr::write(path, value) {
        Ok(len) if len == value.len() => "ok".into(),
        Ok(len) => format!("{len} bytes"),
        Err(e) => errno(e),
    }
}

impl Script {
    pub fn new(module: Module) -> Result<Script> {
        Ok(Script {
            module,
            out: BufWriter::new(std::io::stdout()),
            log: Log::follow()?,
            group: "",
            number: 0,
            total: 0,
            failed_preparation: None,
            held: BTreeMap::new(),
        })
    }

    /// Starts a group of operations, which counts as one test.
    pub fn group(&mut self, name: &'static str) {
        self.quietly();
        self.group = name;
        self.number = 0;
    }

    /// Writes an operation's line.
    pub fn op(&mut self, operation: impl Display, result: impl Display) {
        self.number += 1;
        self.total += 1;
        let mut line = format!("{}/{} {operation}{ARROW}{result}", self.group, self.number);
        for message in self.messages() {
            line += &format!("; log: {message}");
        }
        if let Some(why) = self.failed_preparation.take() {
            line += &format!("; before that: {why}");
        }
        // A transcript that cannot be written is noticed by the host, which looks for its end.
        let _ = writeln!(self.out, "{}", line.replace('\n', "\\n"));
    }

    /// The module's new lines in the log.
    fn messages(&mut self) -> Vec<String> {
        let mut lines = self.log.lines();
        // Said once of any module that is not the kernel's own, and not by the module.
        lines.retain(|line| {
            !line.contains("taints kernel") && !line.contains("verification failed")
        });
        // The block layer says that at most ten times in five seconds; there is a group for its event instead.
        lines.retain(|line| !line.contains("detected capacity change"));
        lines.retain(|line| line.starts_with("zram") || line.starts_with("rzram: "));
        for line in &mut lines {
            // The kernel puts the module's own name there, which compat=1 does not change.
            if let Some(rest) = line.strip_prefix("rzram: ") {
                *line = format!("zram: {rest}");
            }
        }
        lines
    }

    /// Forgets what was logged: it belongs to a preparation.
    pub fn quietly(&mut self) {
        self.messages();
    }

    /// A step that is not told unless it fails.
    pub fn prepare(&mut self, what: &str, result: Result<impl Sized, Errno>) {
        if let Err(e) = result {
            self.failed_preparation
                .get_or_insert_with(|| format!("{what}: {}", errno(e)));
        }
        self.quietly();
    }

    /// Writes an attribute of disk 0 as a preparation.
    pub fn set(&mut self, name: &str, value: &str) {
        let result = attr::write(&sys(name), value.as_bytes());
        self.prepare(&format!("{name} < {value}"), result);
    }

    /// Makes disk 0 as new, with lz4, which both modules have: their defaults differ.
    pub fn fresh(&mut self) {
        self.set("reset", "1");
        self.set("comp_algorithm", "lz4");
        for (name, value) in [
            ("writeback_limit_enable", "0"),
            ("writeback_limit", "0"),
            ("writeback_batch_size", "32"),
            ("compressed_writeback", "0"),
        ] {
            self.set(name, value);
        }
    }

    /// The same, and sets it up.
    pub fn disk(&mut self, size: &str) {
        self.fresh();
        self.set("disksize", size);
    }

    /// Reads a file, given by its name below `/sys/block/zram0` or its path.
    pub fn get(&mut self, name: &str) {
        let result = shown(&sys(name));
        self.op(format_args!("cat {name}"), result);
    }

    /// Writes a file with one system call.
    pub fn put(&mut self, name: &str, value: impl AsRef<[u8]>) {
        let result = written(&sys(name), value.as_ref());
        self.op(format_args!("{name} < {}", quoted(value.as_ref())), result);
    }

    /// Writes a file and tells what other files show afterwards.
    pub fn put_get(&mut self, name: &str, value: impl AsRef<[u8]>, look: &[&str]) {
        let mut result = written(&sys(name), value.as_ref());
        for other in look {
            result += &format!(", {other} {}", chosen(&shown(&sys(other))));
        }
        self.op(format_args!("{name} < {}", quoted(value.as_ref())), result);
    }

    /// Opens a file and keeps it open under a name.
    pub fn hold(&mut self, name: &'static str, path: &str, write: bool, flags: i32) {
        let result = OpenOptions::new()
            .read(true)
            .write(write)
            .custom_flags(flags)
            .open(path);
        let access = if write { "rw" } else { "r" };
        let operation = format!("open {path} {access} {flags:#o} as {name}");
        match result {
            Ok(file) => {
                self.held.insert(name, file);
                self.op(operation, "ok");
            }
            Err(e) => self.op(operation, errno(errno_of(&e))),
        }
    }

    /// Closes it.
    pub fn close(&mut self, name: &'static str) {
        let result = self.held.remove(name).map_or("was not open", |_| "ok");
        self.op(format_args!("close {name}"), result);
    }

    /// Uses `/dev/zram0`, or tells why it cannot be opened.
    pub fn with_node(
        &mut self,
        operation: impl Display,
        flags: i32,
        act: impl FnOnce(&File) -> String,
    ) {
        let result = match node(flags) {
            Ok(file) => act(&file),
            Err(e) => format!("open: {}", errno(e)),
        };
        self.op(operation, result);
    }

    /// Ends the transcript.
    pub fn end(mut self) -> Result<()> {
        writeln!(self.out, "end of {} operations", self.total)
            .and_then(|()| self.out.flush())
            .context("writing the transcript")
    }
}

/// Opens `/dev/zram0` for reading and writing.
pub fn node(flags: i32) -> Result<File, Errno> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open("/dev/zram0")
        .map_err(|e| errno_of(&e))
}

/// Of a list of algorithms only the chosen one: the lists differ, which has an operation of its own.
fn chosen(text: &str) -> String {
    match (text.find('['), text.find(']')) {
        (Some(start), Some(end)) if start < end => text[start..=end].to_owned(),
        _ => text.to_owned(),
    }
}

/// Memory for direct I/O, which starts at a page: with any other, C zram stores or overwrites the wrong memory.
pub fn aligned(len: usize) -> Mapping {
    let len = len.next_multiple_of(PAGE).max(PAGE);
    Mapping::new(len).expect("the guest has memory enough")
}

/// What a `pread` gives: how many bytes, and a sum over them.
pub fn read_at(file: &File, at: u64, buffer: &mut [u8]) -> String {
    buffer.fill(0xee);
    match file.read_at(buffer, at) {
        Ok(len) => format!("{len} bytes, {:016x}", sum(&buffer[..len])),
        Err(e) => errno(errno_of(&e)),
    }
}

/// What a `pwrite` gives.
pub fn write_at(file: &File, at: u64, buffer: &[u8]) -> String {
    match file.write_at(buffer, at) {
        Ok(len) if len == buffer.len() => "ok".into(),
        Ok(len) => format!("{len} bytes"),
        Err(e) => errno(errno_of(&e)),
    }
}

/// FNV-1a, to tell contents apart.
pub fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
