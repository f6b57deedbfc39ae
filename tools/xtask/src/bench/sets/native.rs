// SPDX-License-Identifier: GPL-2.0
//! At the speed of the host's own CPUs.

use super::{Bench, Set, BOTH, CORPUS};
use crate::kernel::Kind;
use anyhow::{Context, Result};
use rzram_cells::Meter;
use std::{fs, path::Path};

/// Both modules at the host's own speed, on both of two CPUs, with large requests because system calls are slow there.
///
/// The data are the pages in `corpus`, where there are any.
pub fn set(quick: bool, corpus: &Path) -> Result<Set> {
    let kinds = kinds(corpus)?;
    let pages: Vec<String> = kinds
        .iter()
        .map(|kind| format!("file:/share/{kind}.pages"))
        .collect();
    let real: Vec<&str> = match pages.is_empty() {
        true => vec!["file:/tmp/corpus"],
        false => pages.iter().map(String::as_str).collect(),
    };
    let call = |codecs: &[&str], data: &[&str], threads| {
        let call = Bench {
            modules: BOTH,
            codecs,
            data,
            requests: &["1M"],
            threads,
            loads: &["write", "read"],
            // As many pages as no branch predictor remembers.
            region: "40M",
            repeat: if quick { 5 } else { 15 },
        };
        call.apart("40M")
    };
    let codecs: &[&str] = match quick {
        true => &["lz4", "wlz/lz4"],
        false => &["lzo", "lzo-rle", "lz4", "zstd", "wlz/lz4"],
    };
    let mut calls = Vec::new();
    if pages.is_empty() {
        calls.push((CORPUS.to_owned(), 0));
    }
    for threads in [1, 2] {
        calls.push(call(codecs, &real, threads));
        // All of it is the driver's work, or the decision not to compress.
        let made: &[&str] = match kinds.iter().any(|kind| kind == "random") {
            true => &["zero"],
            false => &["zero", "random"],
        };
        calls.push(call(&["lz4", "wlz/lz4"], made, threads));
    }
    let about = "at the speed of the host's CPUs, in user-mode Linux, requests of 1 MiB";
    Ok(Set {
        append: String::new(),
        kernel: Some(Kind::Uml),
        share: (!pages.is_empty()).then(|| corpus.to_owned()),
        ..super::set("native", about, Meter::Wall, 2, &calls)
    })
}

/// The kinds of pages that tools/corpus has collected there.
fn kinds(corpus: &Path) -> Result<Vec<String>> {
    let mut kinds = Vec::new();
    if !corpus.exists() {
        return Ok(kinds);
    }
    for entry in
        fs::read_dir(corpus).with_context(|| format!("cannot read {}", corpus.display()))?
    {
        let name = entry?.file_name();
        kinds.extend(
            name.to_string_lossy()
                .strip_suffix(".pages")
                .map(str::to_owned),
        );
    }
    kinds.sort();
    Ok(kinds)
}
