// SPDX-License-Identifier: GPL-2.0
//! Comparing two transcripts, with a list of the differences that are meant to be.

use anyhow::{bail, ensure, Context, Result};
use serde::Deserialize;
use std::collections::BTreeMap;

/// How many differences of one group are shown.
const SHOWN: usize = 12;

/// One operation of a transcript.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    group: String,
    operation: String,
    result: String,
}

/// A transcript that has its end.
#[derive(Debug)]
pub struct Transcript(Vec<Line>);

impl Transcript {
    /// Reads what the guest's script has printed: `GROUP/NUMBER OPERATION -> RESULT`, and how many there were.
    pub fn parse(text: &str) -> Result<Self> {
        let mut lines = Vec::new();
        let mut end = None;
        for text in text.lines() {
            ensure!(end.is_none(), "something follows the end: {text}");
            if let Some(rest) = text.strip_prefix("end of ") {
                let count = rest.strip_suffix(" operations").unwrap_or(rest);
                end = Some(count.parse::<usize>().with_context(|| text.to_owned())?);
                continue;
            }
            let parts = text.split_once(" -> ").and_then(|(operation, result)| {
                let (group, operation) = operation.split_once('/')?;
                let (_, operation) = operation.split_once(' ')?;
                Some((group, operation, result))
            });
            let Some((group, operation, result)) = parts else {
                bail!("a line that is no operation: {text}");
            };
            lines.push(Line {
                group: group.into(),
                operation: operation.into(),
                result: result.into(),
            });
        }
        let Some(end) = end else {
            bail!("it breaks off after {} operations", lines.len());
        };
        ensure!(
            end == lines.len(),
            "it says that it has {end} operations, and has {}",
            lines.len()
        );
        Ok(Self(lines))
    }

    /// How many operations there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// A difference that is meant to be. In all texts but `why`, a star stands for anything.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    /// The group of operations.
    group: String,
    /// The operation.
    operation: String,
    /// What zram says.
    zram: String,
    /// What rzram says.
    rzram: String,
    /// How often this occurs.
    #[serde(default = "one")]
    times: usize,
    /// The reason.
    why: String,
}

fn one() -> usize {
    1
}

/// The differences that are meant to be.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Differences {
    difference: Vec<Difference>,
}

impl Differences {
    /// Reads the list.
    pub fn parse(text: &str) -> Result<Self> {
        let list: Self = toml::from_str(text)?;
        if let Some(entry) = list.difference.iter().find(|entry| entry.why.is_empty()) {
            bail!("{}: {}: there is no reason", entry.group, entry.operation);
        }
        Ok(list)
    }
}

/// What a comparison has found.
#[derive(Debug, Default)]
pub struct Findings {
    /// The groups, in their order, with what is wrong in each.
    pub groups: Vec<(String, Vec<String>)>,
    /// What is wrong with the list.
    pub list: Vec<String>,
    /// How many operations differ as they are meant to.
    pub meant: usize,
}

/// Compares two transcripts of the same script.
pub fn compare(zram: &Transcript, rzram: &Transcript, list: &Differences) -> Findings {
    let mut findings = Findings::default();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut seen = vec![0; list.difference.len()];
    for at in 0..zram.len().max(rzram.len()) {
        let (Some(a), Some(b)) = (zram.0.get(at), rzram.0.get(at)) else {
            let text = format!("zram has {} operations, rzram {}", zram.len(), rzram.len());
            findings.groups.push(("the script".into(), vec![text]));
            break;
        };
        let place = *places.entry(&a.group).or_insert_with(|| {
            findings.groups.push((a.group.clone(), Vec::new()));
            findings.groups.len() - 1
        });
        let wrong = &mut findings.groups[place].1;
        if (&a.group, &a.operation) != (&b.group, &b.operation) {
            wrong.push(format!(
                "operation {} is not the same: {}: {} and {}: {}",
                at + 1,
                a.group,
                a.operation,
                b.group,
                b.operation
            ));
            break;
        }
        if a.result == b.result {
            continue;
        }
        let entry = list.difference.iter().position(|entry| {
            matches(&entry.group, &a.group)
                && matches(&entry.operation, &a.operation)
                && matches(&entry.zram, &a.result)
                && matches(&entry.rzram, &b.result)
        });
        match entry {
            Some(entry) => {
                seen[entry] += 1;
                findings.meant += 1;
            }
            None if wrong.len() == SHOWN => wrong.push("... and more".into()),
            None if wrong.len() > SHOWN => {}
            None => wrong.push(format!(
                "{}\n    zram  {}\n    rzram {}",
                a.operation, a.result, b.result
            )),
        }
    }
    for (entry, seen) in list.difference.iter().zip(seen) {
        if seen != entry.times {
            findings.list.push(format!(
                "{}: {}: listed {} times, found {seen} times",
                entry.group, entry.operation, entry.times
            ));
        }
    }
    findings
}

/// Whether `text` is what `pattern` says, in which a star stands for anything.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZRAM: &str =
        "a/1 x -> ok\na/2 y -> EIO\nb/1 z -> \"1 -> 2\"\nb/2 z -> 7\nend of 4 operations\n";
    const RZRAM: &str =
        "a/1 x -> ok\na/2 y -> EBUSY\nb/1 z -> \"1 -> 2\"\nb/2 z -> 8\nend of 4 operations\n";
    const LIST: &str =
        "[[difference]]\ngroup = 'a'\noperation = 'y'\nzram = 'EIO'\nrzram = 'E*'\nwhy = 'so'\n";

    fn run(zram: &str, rzram: &str, list: &str) -> Result<Findings> {
        Ok(compare(
            &Transcript::parse(zram)?,
            &Transcript::parse(rzram)?,
            &Differences::parse(list)?,
        ))
    }

    #[test]
    fn unlisted_differences_are_found() -> Result<()> {
        let findings = run(ZRAM, RZRAM, LIST)?;
        assert_eq!(findings.meant, 1);
        assert!(findings.list.is_empty());
        let (good, bad) = (&findings.groups[0], &findings.groups[1]);
        assert_eq!((good.0.as_str(), good.1.len()), ("a", 0));
        assert_eq!((bad.0.as_str(), bad.1.len()), ("b", 1));
        assert!(bad.1[0].contains('7') && bad.1[0].contains('8'));
        Ok(())
    }

    #[test]
    fn the_list_has_to_be_exact() -> Result<()> {
        assert_eq!(run(ZRAM, ZRAM, LIST)?.list.len(), 1);
        let twice = LIST.replace("why", "times = 2\nwhy");
        assert_eq!(run(ZRAM, RZRAM, &twice)?.list.len(), 1);
        // The same group and operation, another result.
        let other = RZRAM.replace("EBUSY", "ok");
        let findings = run(ZRAM, &other, LIST)?;
        assert_eq!((findings.list.len(), findings.groups[0].1.len()), (1, 1));
        Ok(())
    }

    #[test]
    fn a_list_without_reasons_or_with_strange_keys_is_refused() {
        assert!(Differences::parse(&LIST.replace("so", "")).is_err());
        assert!(Differences::parse(&LIST.replace("why", "because")).is_err());
        assert!(Differences::parse(&format!("{LIST}because = 'so'\n")).is_err());
    }

    #[test]
    fn scripts_that_part_are_noticed() -> Result<()> {
        let short = "a/1 x -> ok\nend of 1 operations\n";
        assert!(!run(ZRAM, short, LIST)?
            .groups
            .iter()
            .all(|group| group.1.is_empty()));
        let other = ZRAM.replace("a/2 y", "a/2 w");
        assert!(run(ZRAM, &other, LIST)?.groups[0].1[0].contains("operation 2"));
        Ok(())
    }

    #[test]
    fn a_transcript_has_an_end_and_no_gaps() {
        assert!(Transcript::parse("a/1 x -> ok\n").is_err());
        assert!(Transcript::parse("a/1 x -> ok\nend of 2 operations\n").is_err());
        assert!(Transcript::parse("a/1 x -> ok\nend of 1 operations\nmore\n").is_err());
        assert!(Transcript::parse("nonsense\nend of 0 operations\n").is_err());
        assert!(Transcript::parse("").is_err());
    }

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, text, verdict) in [
            ("", "", true),
            ("a", "ab", false),
            ("*", "", true),
            ("a*", "ab", true),
            ("*b", "ab", true),
            ("a*c", "abc", true),
            ("a*c", "acb", false),
            ("ab*ba", "aba", false),
            ("a*b*c", "axbxc", true),
            ("a*b*c", "axc", false),
        ] {
            assert_eq!(matches(pattern, text), verdict, "{pattern} {text}");
        }
    }
}
