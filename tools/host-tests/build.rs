// SPDX-License-Identifier: GPL-2.0

//! Sets what the kernel's build would set, so that the module's files are compiled here as they are there.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(fuzzing)");
    println!("cargo::rustc-check-cfg=cfg(CONFIG_X86_64)");
    println!("cargo::rustc-check-cfg=cfg(CONFIG_KMAP_LOCAL)");
    // Not set: the stand-ins for the kernel's atomics can do more than the instructions themselves.
    println!("cargo::rustc-check-cfg=cfg(inline_atomics)");
    println!("cargo::rustc-check-cfg=cfg(locking_lab)");
    // Miri knows no assembler.
    let miri = env::var_os("CARGO_CFG_MIRI").is_some();
    if !miri && env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64") {
        println!("cargo::rustc-cfg=CONFIG_X86_64");
    }
}
