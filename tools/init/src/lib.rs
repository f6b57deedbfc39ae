// SPDX-License-Identifier: GPL-2.0
//! What host and guest agree on: what a boot is to do, and how its end is told.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where the guest finds its [`Boot`]; removed before the command starts.
pub const BOOT_FILE: &str = "/rzram-boot.json";

/// The directory in which the command runs.
pub const WORK_DIR: &str = "/rzram";

/// Where `--share` shows the host's directory.
pub const SHARE_DIR: &str = "/share";

/// Numbers of the ports: the command's standard output.
pub const PORT_OUT: u32 = 1;
/// The command's standard error.
pub const PORT_ERR: u32 = 2;
/// Messages of the guest's init itself, see [`status_line`].
pub const PORT_CTL: u32 = 3;
/// The terminal, where a user-mode kernel has one.
pub const PORT_TERMINAL: u32 = 4;

/// What the guest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Machine {
    /// A machine that QEMU shows, with virtio ports.
    Qemu,
    /// User-mode Linux, with serial lines.
    Uml,
}

impl Machine {
    /// The device node of a port.
    pub fn port(self, number: u32) -> String {
        match self {
            Self::Qemu => format!("/dev/vport0p{number}"),
            Self::Uml => format!("/dev/ttyS{number}"),
        }
    }

    /// The device node of the terminal.
    pub fn terminal(self) -> String {
        match self {
            Self::Qemu => "/dev/hvc0".to_owned(),
            Self::Uml => self.port(PORT_TERMINAL),
        }
    }
}

/// The task of one boot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Boot {
    /// Known to host and init only, so that a command cannot pretend to be init.
    pub nonce: String,
    /// The command with its arguments.
    pub argv: Vec<String>,
    /// Rows and columns of the terminal, where the command is to have one.
    pub terminal: Option<(u16, u16)>,
    /// What the guest is.
    pub machine: Machine,
    /// The directory of the host that is to be mounted.
    pub share: Option<PathBuf>,
    /// How many times slower than the stock kernel this one is; its watchdogs wait so much longer.
    pub patience: u32,
    /// Whether to look for leaks when the command has ended. The debug kernel only.
    pub leaks: bool,
    /// Added to the command's environment.
    pub env: Vec<(String, String)>,
}

/// What init sends on the control port when the command has ended with `code`.
pub fn status_line(nonce: &str, code: i32) -> String {
    format!("status {nonce} {code}\n")
}

/// What init sends on the control port when it cannot do its task.
pub fn failure_line(nonce: &str, why: &str) -> String {
    format!("failed {nonce} {}\n", why.replace('\n', " "))
}

/// What init writes into the kernel log before the command starts.
pub fn start_mark(nonce: &str) -> String {
    format!("rzram-init: start {nonce}")
}

/// What init writes into the kernel log after the command has ended.
pub fn end_mark(nonce: &str) -> String {
    format!("rzram-init: end {nonce}")
}

/// Memory that kmemleak finds no pointer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leak {
    /// kmemleak's report.
    pub text: String,
}

/// Leaks of the kernel itself, by a function in their backtrace, with the reason why none of ours can be among them.
const KNOWN: [(&str, &str); 0] = [];

/// Splits the content of kmemleak's file into reports and leaves out those that are known.
pub fn leaks(text: &str) -> Vec<Leak> {
    let mut found: Vec<Leak> = Vec::new();
    for line in text.lines() {
        match found.last_mut() {
            Some(leak) if !line.starts_with("unreferenced object") => {
                leak.text.push('\n');
                leak.text.push_str(line);
            }
            // What stands before the first report is not part of one.
            None if !line.starts_with("unreferenced object") => {}
            _ => found.push(Leak {
                text: line.to_owned(),
            }),
        }
    }
    found.retain(|leak| !KNOWN.iter().any(|(name, _)| leak.text.contains(name)));
    found
}

/// What stands between the page allocator and a module that takes whole pages; anything else, such as the slab allocator or
/// the page cache, keeps pages for others too.
const PAGE_TAKERS: [&str; 10] = [
    "post_alloc_hook",
    "prep_new_page",
    "get_page_from_freelist",
    "__alloc_",
    "alloc_pages_",
    "get_free_pages_",
    "get_zeroed_page_",
    "rust_helper_alloc_pages",
    "zs_",
    "alloc_z",
];

/// The stacks, from page_owner's list of them, on which a module that is gone has taken pages that are still taken: nobody
/// knows the names of its functions any more.
pub fn stray_pages(text: &str) -> Vec<&str> {
    text.split("\n\n")
        .filter(|stack| {
            let taker = stack
                .lines()
                .map(str::trim)
                .find(|frame| !PAGE_TAKERS.iter().any(|start| frame.starts_with(start)));
            taker.is_some_and(|frame| frame.starts_with("0x"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaks_are_told_apart() {
        let text = "\
unreferenced object 0xffff888005c5a000 (size 64):
  comm \"insmod\", pid 77, jiffies 4294899999
  hex dump (first 32 bytes):
    01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  ................
  backtrace (crc 0):
    __kmalloc_cache_noprof+0x1f0/0x260
    0xffffffffc0001234
unreferenced object 0xffffc90000a01000 (size 4096):
  comm \"sh\", pid 78, jiffies 4294899999
  backtrace (crc 8):
    __vmalloc_node_range_noprof+0x1/0x2
";
        let found = leaks(text);
        assert_eq!(found.len(), 2);
        assert!(found[0].text.ends_with("0xffffffffc0001234"));
        assert!(found[1]
            .text
            .starts_with("unreferenced object 0xffffc90000a01000"));
        assert!(found[1]
            .text
            .ends_with("__vmalloc_node_range_noprof+0x1/0x2"));
        assert!(leaks("").is_empty());
    }

    #[test]
    fn pages_of_a_module_that_is_gone_are_found() {
        let mine = " post_alloc_hook+0x1/0x2\n get_page_from_freelist+0x1/0x2\n __alloc_frozen_pages_noprof+0x1/0x2\n \
                    alloc_pages_noprof+0x1/0x2\n rust_helper_alloc_pages+0x1/0x2\n 0xffffffffc0123456\n ksys_write+0x1/0x2\nnr_base_pages: 3";
        let pool = mine.replace(" 0xf", " alloc_zpdesc+0x1/0x2\n zs_malloc+0x1/0x2\n 0xf");
        let slab = mine.replace(" 0xf", " allocate_slab+0x1/0x2\n 0xf");
        let loaded = mine.replace("0xffffffffc0123456", "take+0x1/0x2 [brd]");
        let text = [mine, &slab, &pool, &loaded, ""].join("\n\n");
        assert_eq!(stray_pages(&text), [mine, &pool]);
    }
}
