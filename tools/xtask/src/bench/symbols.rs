// SPDX-License-Identifier: GPL-2.0
//! Functions, by their addresses in a guest.

use anyhow::{Context, Result};
use std::{collections::BTreeMap, fs, path::Path};

/// Functions of a guest's kernel and modules, by address.
pub struct Symbols(Vec<(u64, String)>);

impl Symbols {
    /// From what /proc/kallsyms said.
    pub fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file)
            .with_context(|| format!("the guest left no {}", file.display()))?;
        let mut symbols: Vec<(u64, String)> = text
            .lines()
            .filter_map(|line| {
                let mut words = line.split_whitespace();
                let address = u64::from_str_radix(words.next()?, 16).ok()?;
                if !matches!(words.next()?, "t" | "T" | "w" | "W") {
                    return None;
                }
                let name = words.next()?.to_owned();
                Some((
                    address,
                    match words.next() {
                        Some(module) => format!("{} {module}", demangled(&name)),
                        None => name,
                    },
                ))
            })
            .collect();
        symbols.sort();
        Ok(Self(symbols))
    }

    fn name(&self, address: u64) -> &str {
        match self.0.partition_point(|(start, _)| *start <= address) {
            0 => "user space",
            at => &self.0[at - 1].1,
        }
    }

    /// How many of what is counted by address is in each function.
    pub fn count(&self, counted: &[(u64, u64)]) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for (address, count) in counted {
            let name = if *address < 1 << 63 {
                "user space"
            } else {
                self.name(*address)
            };
            *counts.entry(name.to_owned()).or_default() += count;
        }
        counts
    }
}

/// The path in a name as rustc makes it, without crates' hashes; other names as they are.
fn demangled(name: &str) -> String {
    match rustc_demangle::try_demangle(name) {
        Ok(path) => format!("{path:#}"),
        Err(_) => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_at_addresses_is_counted_by_function() {
        let symbols = Symbols(vec![
            (0xffff_0000_0000_1000, "a".into()),
            (0xffff_0000_0000_2000, "b rzram".into()),
        ]);
        let counts = symbols.count(&[
            (0xffff_0000_0000_1000, 2),
            (0xffff_0000_0000_1fff, 3),
            (0xffff_0000_0000_2001, 4),
            (0x1000, 5),
        ]);
        let expected = [("a", 5), ("b rzram", 4), ("user space", 5)];
        let expected = expected.map(|(name, count)| (name.to_owned(), count));
        assert_eq!(counts, BTreeMap::from(expected));
    }
}
