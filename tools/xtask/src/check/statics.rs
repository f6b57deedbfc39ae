// SPDX-License-Identifier: GPL-2.0
//! Tests that only look at the sources: formatting, clippy, and two rules of this driver.

use super::{
    lexer::{code_only, lines_with_word, without_items},
    report::Outcome,
    Args, Item,
};
use crate::{codec, ctx::Ctx, kernel::Kernel, module, workspace};
use anyhow::{Context, Result};
use std::{fs, path::Path, process::Command};

/// What may end a kernel thread.
const PANICS: [&str; 12] = [
    ".unwrap()",
    ".expect(",
    "panic!",
    "unreachable!",
    "todo!",
    "unimplemented!",
    "assert!",
    "assert_eq!",
    "assert_ne!",
    "debug_assert!",
    "debug_assert_eq!",
    "unwrap_unchecked",
];

/// The static tests that are wanted.
pub fn items<'a>(ctx: &'a Ctx, kernel: &'a Kernel, args: &Args) -> Vec<Item<'a>> {
    let mut items: Vec<Item> = Vec::new();
    let mut add = |name: &str, run: Box<dyn FnOnce() -> Result<Outcome> + Send + 'a>| {
        let name = format!("static: {name}");
        if args.wants(&name) {
            items.push(Item::new(name, run));
        }
    };
    if ctx.has_module() {
        add("no unsafe outside sys", Box::new(|| no_unsafe(ctx)));
        add("no panics in the module", Box::new(|| no_panics(ctx)));
        add(
            "no panics in the codec's object",
            Box::new(|| codec_object(ctx, kernel)),
        );
        add(
            "rustfmt of the module",
            Box::new(|| command(module::rustfmt(ctx, kernel, true))),
        );
        for more in module::variants(kernel) {
            let name = [&["clippy of the module"][..], more].concat().join(" ");
            add(&name, Box::new(move || clippy(ctx, kernel, more)));
        }
    }
    add(
        "rustfmt of the tools",
        Box::new(|| command(workspace::rustfmt(ctx, true))),
    );
    add(
        "clippy of the tools",
        Box::new(|| command(workspace::clippy(ctx))),
    );
    items
}

fn clippy(ctx: &Ctx, kernel: &Kernel, more: &[&str]) -> Result<Outcome> {
    let (_lock, command_line) = module::clippy(ctx, kernel, more)?;
    command(command_line)
}

/// A command that passes by succeeding.
fn command(mut command: Command) -> Result<Outcome> {
    let out = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    if out.status.success() {
        return Ok(Outcome::passed());
    }
    let text = [out.stdout, out.stderr]
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .concat();
    Ok(Outcome::failed(text))
}

fn search(ctx: &Ctx, words: &[&str], exempt: fn(&Path) -> bool) -> Result<Outcome> {
    let mut found = String::new();
    let mut searched = 0;
    for file in module::sources(&ctx.tree)? {
        if exempt(&file) || file.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        searched += 1;
        let source = fs::read_to_string(ctx.tree.join(&file))?;
        let code = without_items(
            &code_only(&source),
            &["#[cfg(test)]", "#[kunit_tests(", "const _: () =", "const {"],
        );
        for word in words {
            for line in lines_with_word(&code, word) {
                found += &format!("{}:{line}: {word}\n", file.display());
            }
        }
    }
    if searched == 0 {
        return Ok(Outcome::failed("no sources were found".into()));
    }
    Ok(if found.is_empty() {
        Outcome::passed()
    } else {
        Outcome::failed(found)
    })
}

fn no_unsafe(ctx: &Ctx) -> Result<Outcome> {
    search(ctx, &["unsafe"], |file| {
        file == Path::new("sys.rs") || file.starts_with("sys")
    })
}

/// All that the codec may call: what the compiler makes of copying and of filling with zeros.
const CODEC_NEEDS: [&str; 2] = ["memcpy", "memset"];

/// The codec handles every block that is written, with what the compiler left in of its checks: nothing.
fn codec_object(ctx: &Ctx, kernel: &Kernel) -> Result<Outcome> {
    let object = codec::object(ctx, kernel)?;
    let mut needs = codec::needs(&object)?;
    needs.retain(|name| !CODEC_NEEDS.contains(&name.as_str()));
    Ok(match needs.is_empty() {
        true => Outcome::passed(),
        false => Outcome::failed(format!("it calls: {}\n", needs.join(", "))),
    })
}

fn no_panics(ctx: &Ctx) -> Result<Outcome> {
    search(ctx, &PANICS, |_| false)
}
