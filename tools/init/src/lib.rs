// SPDX-License-Identifier: GPL-2.0
//! What host and guest agree on: what a boot is to do, and how its end is told.

use serde::{Deserialize, Serialize};

/// Where the guest finds its [`Boot`]; removed before the command starts.
pub const BOOT_FILE: &str = "/rzram-boot.json";

/// The directory in which the command runs.
pub const WORK_DIR: &str = "/rzram";

/// Where `--share` shows the host's directory.
pub const SHARE_DIR: &str = "/share";

/// Numbers of the virtio ports: the command's standard output.
pub const PORT_OUT: u32 = 1;
/// The command's standard error.
pub const PORT_ERR: u32 = 2;
/// Messages of the guest's init itself, see [`status_line`].
pub const PORT_CTL: u32 = 3;

/// The task of one boot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Boot {
    /// Known to host and init only, so that a command cannot pretend to be init.
    pub nonce: String,
    /// The command with its arguments.
    pub argv: Vec<String>,
    /// Rows and columns of the terminal, where the command is to have one.
    pub terminal: Option<(u16, u16)>,
    /// Whether a directory of the host is to be mounted.
    pub share: bool,
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
