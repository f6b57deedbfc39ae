// SPDX-License-Identifier: GPL-2.0

//! The kernel around the module: its log, its caches, its CPUs.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;

use anyhow::{Context, Result};

/// Reads the kernel log's lines that come after its creation.
pub struct Log(std::fs::File);

impl Log {
    /// Starts at the end of the log.
    pub fn follow() -> Result<Log> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/kmsg")
            .context("opening /dev/kmsg")?;
        // SAFETY: no memory is passed.
        unsafe { libc::lseek(std::os::fd::AsRawFd::as_raw_fd(&file), 0, libc::SEEK_END) };
        Ok(Log(file))
    }

    /// What was logged since the last call, a line each.
    pub fn lines(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut record = [0_u8; 8192];
        while let Ok(len) = self.0.read(&mut record) {
            let text = String::from_utf8_lossy(&record[..len]).into_owned();
            if let Some((_, message)) = text.split_once(';') {
                lines.push(message.lines().next().unwrap_or("").to_string());
            }
        }
        lines
    }

    /// Fails unless one of the new lines contains `text`.
    pub fn expect(&mut self, text: &str) -> Result<()> {
        let lines = self.lines();
        anyhow::ensure!(
            lines.iter().any(|line| line.contains(text)),
            "the kernel log\n  expected: a line with {text:?}\n  came:     {lines:?}"
        );
        Ok(())
    }
}

/// Whether this is the debug kernel, which watches memory and locks.
pub fn is_debug() -> bool {
    fs::read_to_string("/proc/sys/kernel/osrelease")
        .is_ok_and(|release| release.trim().ends_with("-debug"))
}

/// How many times longer than with a stock kernel everything may take.
pub fn patience() -> u32 {
    match is_debug() {
        true => 5,
        false => 1,
    }
}

/// Writes dirty pages back and drops page cache, dentries and inodes.
pub fn drop_caches() -> Result<()> {
    nix::unistd::sync();
    fs::write("/proc/sys/vm/drop_caches", "3").context("dropping caches")
}

/// The number of CPUs that are online.
pub fn cpus_online() -> Result<usize> {
    let text = fs::read_to_string("/proc/cpuinfo").context("reading /proc/cpuinfo")?;
    Ok(text
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count())
}

/// Takes a CPU off or brings it back.
pub fn cpu_online(cpu: usize, online: bool) -> Result<()> {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    fs::write(&file, if online { "1" } else { "0" })
        .with_context(|| format!("writing {file}; does the guest have two CPUs?"))
}

/// Makes sure that ext4 can be mounted.
pub fn load_ext4() -> Result<()> {
    crate::run::run("modprobe", &["ext4"]).map(drop)
}

/// Lets reclaim begin early, until dropped. A burst of writing on a guest this small otherwise eats
/// the kernel's own reserve, and the kernel warns of page allocations that failed.
pub struct EarlyReclaim(String);

const RESERVE: &str = "/proc/sys/vm/min_free_kbytes";

impl EarlyReclaim {
    /// Raises the reserve.
    pub fn start() -> Result<EarlyReclaim> {
        let before = fs::read_to_string(RESERVE).context("reading min_free_kbytes")?;
        fs::write(RESERVE, "16384").context("raising min_free_kbytes")?;
        Ok(EarlyReclaim(before))
    }
}

impl Drop for EarlyReclaim {
    fn drop(&mut self) {
        // Failing to lower it again only leaves a guest that is about to end more careful.
        let _ = fs::write(RESERVE, self.0.trim());
    }
}

/// Runs `body` in a thread that is tied to one CPU.
pub fn on_cpu(cpu: usize, body: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    // In a thread of its own, so that being tied ends with it.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            tie_to(cpu)?;
            body()
        });
        thread
            .join()
            .unwrap_or_else(|_| Err(anyhow::anyhow!("the thread panicked")))
    })
}

/// Ties the calling thread to one CPU.
fn tie_to(cpu: usize) -> Result<()> {
    // SAFETY: a zeroed set is empty; the call reads it.
    let rc = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, std::mem::size_of_val(&set), &set)
    };
    if rc != 0 {
        return Err(std::io::Error::last_os_error()).context("sched_setaffinity");
    }
    Ok(())
}
