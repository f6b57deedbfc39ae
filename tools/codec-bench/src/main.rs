// SPDX-License-Identifier: GPL-2.0
//! Measures the module's own codec beside the kernel's, on the pages that tools/corpus collected.

#[cfg(codecs)]
mod codecs;
#[cfg(codecs)]
mod corpus;
#[cfg(codecs)]
mod pair;
#[cfg(codecs)]
mod plot;
#[cfg(codecs)]
mod run;
#[cfg(codecs)]
mod verify;

#[cfg(codecs)]
fn main() -> anyhow::Result<()> {
    run::main()
}

/// Without the codecs there is nothing to be measured.
#[cfg(not(codecs))]
fn main() {
    eprintln!("codec-bench: built without codecs; run: tools/bootstrap xtask -- codec-bench");
    std::process::exit(2);
}
