// SPDX-License-Identifier: GPL-2.0
//! Just enough of Rust's syntax to search code without its comments, strings and tests.

/// The source with comments, strings and character literals blanked; lines stay where they are.
pub fn code_only(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let end = match chars[at] {
            '/' if chars.get(at + 1) == Some(&'/') => find(&chars, at, |rest| rest[0] == '\n'),
            '/' if chars.get(at + 1) == Some(&'*') => block_comment(&chars, at),
            '"' => string(&chars, at),
            'r' if !is_word(before(&chars, at, 1))
                || matches!(before(&chars, at, 1), Some('b' | 'c')) =>
            {
                raw_string(&chars, at)
            }
            '\'' => character(&chars, at),
            _ => at,
        };
        if end == at {
            out.push(chars[at]);
            at += 1;
        } else {
            out.extend(
                chars[at..end]
                    .iter()
                    .map(|c| if *c == '\n' { '\n' } else { ' ' }),
            );
            at = end;
        }
    }
    out
}

/// Blanks the items that begin with one of these texts: an attribute such as `#[cfg(test)]`, or `const _: () =`, whose
/// assertions are the compiler's.
pub fn without_items(code: &str, attributes: &[&str]) -> String {
    let mut chars: Vec<char> = code.chars().collect();
    for attribute in attributes {
        let needle: Vec<char> = attribute.chars().collect();
        let mut at = 0;
        while at + needle.len() <= chars.len() {
            if chars[at..at + needle.len()] != needle[..] {
                at += 1;
                continue;
            }
            let end = item_end(&chars, at + needle.len());
            for c in &mut chars[at..end] {
                if *c != '\n' {
                    *c = ' ';
                }
            }
            at = end;
        }
    }
    chars.into_iter().collect()
}

/// Line numbers (from 1) at which `word` occurs as a word of its own.
pub fn lines_with_word(code: &str, word: &str) -> Vec<usize> {
    let hits = |line: &str| {
        line.match_indices(word).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = line[at + word.len()..].chars().next();
            let starts = !word.starts_with(|c: char| is_word(Some(c))) || !is_word(before);
            let ends = !word.ends_with(|c: char| is_word(Some(c))) || !is_word(after);
            starts && ends
        })
    };
    code.lines()
        .enumerate()
        .filter(|(_, line)| hits(line))
        .map(|(number, _)| number + 1)
        .collect()
}

fn is_word(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_alphanumeric() || c == '_')
}

fn before(chars: &[char], at: usize, distance: usize) -> Option<char> {
    at.checked_sub(distance).map(|at| chars[at])
}

fn find(chars: &[char], from: usize, end: impl Fn(&[char]) -> bool) -> usize {
    (from..chars.len())
        .find(|at| end(&chars[*at..]))
        .unwrap_or(chars.len())
}

fn block_comment(chars: &[char], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0);
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at.min(chars.len())
}

fn string(chars: &[char], from: usize) -> usize {
    let mut at = from + 1;
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

/// `from` itself where no raw string begins there.
fn raw_string(chars: &[char], from: usize) -> usize {
    let hashes = chars[from + 1..].iter().take_while(|c| **c == '#').count();
    let open = from + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return from;
    }
    let close = find(chars, open + 1, |rest| {
        rest[0] == '"' && rest[1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes
    });
    (close + 1 + hashes).min(chars.len())
}

/// `from` itself where the quote begins a lifetime.
fn character(chars: &[char], from: usize) -> usize {
    match (chars.get(from + 1), chars.get(from + 2)) {
        (Some('\\'), _) => (find(chars, from + 3, |rest| rest[0] == '\'') + 1).min(chars.len()),
        (Some(_), Some('\'')) => from + 3,
        _ => from,
    }
}

/// The end of the item that begins at `from`: its closing brace, or a semicolon before any brace.
fn item_end(chars: &[char], from: usize) -> usize {
    let mut depth = 0;
    for (at, c) in chars.iter().enumerate().skip(from) {
        match c {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth <= 0 {
                    return at + 1;
                }
            }
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    chars.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_no_code() {
        let code = code_only("a // unsafe\n/* unsafe /* unsafe */ unsafe */ b \"unsafe \\\" unsafe\" r#\"unsafe \" \"# c\"unsafe\" 'u' '\\'' d<'unsafe>");
        assert_eq!(lines_with_word(&code, "unsafe"), [2], "{code}"); // the lifetime, which rustc refuses anyway
        assert!(code.contains('b') && code.contains("d<"));
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(
            lines_with_word(
                "unsafe_op\nx.unwrap()\nx.unwrap_or(1)\nunsafe { }",
                "unsafe"
            ),
            [4]
        );
        assert_eq!(
            lines_with_word("x.unwrap()\nx.unwrap_or(1)", ".unwrap"),
            [1]
        );
        assert_eq!(
            lines_with_word("static_assert!(x);\nassert!(x);", "assert!"),
            [2]
        );
    }

    #[test]
    fn tests_are_left_out() {
        let code = without_items(
            "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() { x.unwrap() }\n}\nfn c() { y }",
            &["#[cfg(test)]"],
        );
        assert!(!code.contains("unwrap") && code.contains("fn c"));
        assert_eq!(code.lines().count(), 6);
    }
}
