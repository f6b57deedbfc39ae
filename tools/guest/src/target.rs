// SPDX-License-Identifier: GPL-2.0

//! Which module is tested: rzram, or the C zram of the same kernel.
//!
//! `RZRAM_TEST_TARGET=zram` runs everything against C zram. It shows that the tests describe what
//! zram does, and which of them only rzram passes. `RZRAM_TEST_ALGORITHM=wlz` gives rzram's disks that algorithm
//! wherever a test does not choose one itself, as if it were what they come with.

use std::path::PathBuf;
use std::sync::OnceLock;

/// The names a module goes by.
pub struct Target {
    /// The name in /proc/modules, and the prefix of disks and of the control class.
    pub name: &'static str,
    /// The algorithms as `comp_algorithm` lists them before anything is selected.
    pub algorithms: &'static [&'static str],
    /// The algorithm that is selected at first.
    pub default_algorithm: &'static str,
}

const RZRAM: Target = Target {
    name: "rzram",
    algorithms: &["lzo-rle", "lzo", "lz4", "zstd", "deflate", "wlz"],
    default_algorithm: "lzo-rle",
};

const ZRAM: Target = Target {
    name: "zram",
    algorithms: &["lz4", "lz4hc", "zstd", "deflate"],
    default_algorithm: "lz4",
};

/// The module under test, from the environment.
pub fn target() -> &'static Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    TARGET.get_or_init(|| match std::env::var("RZRAM_TEST_TARGET").as_deref() {
        Ok("zram") => ZRAM,
        _ => Target {
            default_algorithm: wanted().unwrap_or(RZRAM.default_algorithm),
            ..RZRAM
        },
    })
}

/// The algorithm that disks are to be given, if the environment names one.
fn wanted() -> Option<&'static str> {
    let name = std::env::var("RZRAM_TEST_ALGORITHM").ok()?;
    let found = RZRAM.algorithms.iter().find(|known| **known == name);
    Some(found.unwrap_or_else(|| panic!("RZRAM_TEST_ALGORITHM: there is no {name}")))
}

impl Target {
    /// True when the module under test is C zram.
    pub fn is_c_zram(&self) -> bool {
        self.name == "zram"
    }

    /// The algorithm that disks have to be given anew, where it is not the one that they come with.
    pub fn imposed_algorithm(&self) -> Option<&'static str> {
        let own = if self.is_c_zram() { ZRAM } else { RZRAM };
        (self.default_algorithm != own.default_algorithm).then_some(self.default_algorithm)
    }

    /// The name of disk `id`.
    pub fn disk(&self, id: u32) -> String {
        format!("{}{id}", self.name)
    }

    /// A file of the control class.
    pub fn control(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("/sys/class/{}-control/{file}", self.name))
    }

    /// What `comp_algorithm` shows with `selected` selected, byte for byte.
    pub fn algorithm_list(&self, selected: &str) -> String {
        let mut text = String::new();
        for name in self.algorithms {
            if *name == selected {
                text += &format!("[{name}] ");
            } else {
                text += &format!("{name} ");
            }
        }
        text + "\n"
    }
}
