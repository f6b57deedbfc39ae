// SPDX-License-Identifier: GPL-2.0
//! Reading the guest kernel's log as it comes, and recognising the lines after which the guest has failed.

/// Texts that a healthy kernel never prints.
const TROUBLE: [&str; 24] = [
    "Initramfs unpacking failed",
    "Kernel panic",
    "BUG: ",
    "kernel BUG at ",
    "list_add corruption",
    "list_del corruption",
    "WARNING: ",
    "Oops: ",
    "general protection fault",
    "Internal error",
    "KASAN: ",
    "KFENCE: ",
    "UBSAN: ",
    "INFO: rcu_",
    "INFO: task ",
    "INFO: trying to register non-static key",
    "INFO: inconsistent lock state",
    "INFO: possible recursive locking",
    "refcount_t: ",
    "soft lockup",
    "INFO: lockdep is turned off",
    "kmemleak: Kernel memory leak detector disabled",
    "kmemleak: Cannot allocate a kmemleak_object structure",
    "rcu: INFO: ",
];

/// The log so far.
#[derive(Debug, Default)]
pub struct Log {
    text: Vec<u8>,
    line: Vec<u8>,
    trouble: Option<String>,
}

impl Log {
    /// Takes in what the console wrote.
    pub fn add(&mut self, data: &[u8]) {
        self.text.extend(data.iter().filter(|byte| **byte != b'\r'));
        for byte in data {
            if *byte != b'\n' {
                self.line.push(*byte);
                continue;
            }
            let line = String::from_utf8_lossy(&self.line).trim_end().to_owned();
            self.line.clear();
            if self.trouble.is_none() && is_trouble(&line) {
                self.trouble = Some(message(&line).to_owned());
            }
        }
    }

    /// The first line that says that something is wrong.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Whether `text` has been printed.
    pub fn has(&self, text: &str) -> bool {
        self.text
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    }

    /// All of it.
    pub fn into_text(self) -> String {
        String::from_utf8_lossy(&self.text).into_owned()
    }
}

/// What follows the time stamp.
fn message(line: &str) -> &str {
    match line.split_once("] ") {
        Some((stamp, rest)) if stamp.starts_with('[') => rest,
        _ => line,
    }
}

fn is_trouble(line: &str) -> bool {
    let message = message(line);
    // The allocator's way of putting it: "BUG kmalloc-64 (Tainted: G): Redzone overwritten".
    if message.starts_with("BUG ") {
        return true;
    }
    TROUBLE.iter().any(|text| {
        message.match_indices(text).any(|(at, _)| {
            // "DEBUG: " is no "BUG: ".
            !message[..at].ends_with(|before: char| before.is_ascii_alphanumeric() || before == '_')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trouble(text: &str) -> Option<String> {
        let mut log = Log::default();
        log.add(text.as_bytes());
        log.trouble().map(str::to_owned)
    }

    #[test]
    fn trouble_is_recognised() {
        for line in [
            "Kernel panic - not syncing: Fatal exception",
            "BUG: kernel NULL pointer dereference, address: 0000000000000000",
            "watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [sh:99]",
            "WARNING: CPU: 1 PID: 77 at mm/page_alloc.c:4711 __alloc_pages+0x1/0x2",
            "WARNING: possible circular locking dependency detected",
            "INFO: task sh:99 blocked for more than 60 seconds.",
            "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "BUG: KASAN: slab-use-after-free in rzram_do_things+0x1c/0x30 [rzram]",
            "BUG: KASAN: slab-out-of-bounds in _RNvNtCs1234_5rzram3sys4poke+0x1/0x2 [rzram]",
            "BUG: sleeping function called from invalid context at kernel/locking/mutex.c:591",
            "BUG: scheduling while atomic: sh/99/0x00000002",
            "[ BUG: Invalid wait context ]",
            "BUG: MAX_LOCKDEP_CHAIN_HLOCKS too low!",
            "BUG kmalloc-64 (Tainted: G           O       ): Redzone overwritten",
            "WARNING: inconsistent lock state",
            "WARNING: bad unlock balance detected!",
            "WARNING: suspicious RCU usage",
            "WARNING: sh/99 still has locks held!",
            "INFO: trying to register non-static key.",
            "kmemleak: Kernel memory leak detector disabled",
            "UBSAN: array-index-out-of-bounds in drivers/block/brd.c:1:2",
            "kernel BUG at lib/list_debug.c:32!",
            "list_add corruption. next->prev should be prev (ffff88800), but was 0000000000000000. (next=ffff88800).",
            "watchdog: BUG: soft lockup - CPU#0 stuck for 104s! [sh:99]",
            "BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck for 46s!",
            "Oops: general protection fault, probably for non-canonical address 0xdead: 0000 [#1] SMP NOPTI",
        ] {
            assert_eq!(trouble(&format!("[    1.000000] {line}\r\n")).as_deref(), Some(line));
        }
    }

    #[test]
    fn ordinary_lines_are_not() {
        for line in [
            "rzram: loading out-of-tree module taints kernel.",
            "DEBUG: nothing",
            "Out of memory: Killed process 99 (sh)",
            "Call Trace:",
            "page allocation failure: order:0",
            "kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)", // init judges them
            "FAULT_INJECTION: forcing a failure.",
        ] {
            assert_eq!(trouble(&format!("[    1.000000] {line}\n")), None);
        }
    }

    #[test]
    fn lines_may_come_in_pieces() {
        let mut log = Log::default();
        log.add(b"[    1.0] BU");
        assert_eq!(log.trouble(), None);
        log.add(b"G: bad page\n");
        assert_eq!(log.trouble(), Some("BUG: bad page"));
        assert!(log.has("bad page"));
    }
}
