// SPDX-License-Identifier: GPL-2.0

//! What people write to attributes, read as the kernel's own parsers read it.
//!
//! Source: `lib/cmdline.c` (`memparse`), `lib/kstrtox.c` (`kstrto*`), `lib/string_helpers.c` (`sysfs_streq`).

/// Why a number was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// Not a number, or more than a number.
    Invalid,
    /// Outside the range.
    Range,
}

/// Yes or no, in the many ways that `kstrtobool()` takes: by the first letter, or the first two of `on` and `off`.
pub(super) fn boolean(input: &[u8]) -> Option<bool> {
    match input {
        [b'e' | b'E' | b'y' | b'Y' | b't' | b'T' | b'1', ..] => Some(true),
        [b'd' | b'D' | b'n' | b'N' | b'f' | b'F' | b'0', ..] => Some(false),
        [b'o' | b'O', b'n' | b'N', ..] => Some(true),
        [b'o' | b'O', b'f' | b'F', ..] => Some(false),
        _ => None,
    }
}

/// What is before one newline at the end.
pub(super) fn word(input: &[u8]) -> &[u8] {
    input.strip_suffix(b"\n").unwrap_or(input)
}

/// The base of a number that says its base itself, and the number without its prefix.
fn prefixed(input: &[u8]) -> (u32, &[u8]) {
    match input {
        [b'0', b'x' | b'X', rest @ ..] if rest.first().is_some_and(u8::is_ascii_hexdigit) => {
            (16, rest)
        }
        [b'0', ..] => (8, input),
        _ => (10, input),
    }
}

/// The digits at the start, as a number that stops at `u64::MAX`, whether it did, and the rest; `None` without digits.
fn digits(input: &[u8], base: u32) -> Option<(u64, bool, &[u8])> {
    let mut value = 0u64;
    let mut overflow = false;
    let mut rest = input;
    while let [first, tail @ ..] = rest {
        let Some(digit) = char::from(*first).to_digit(base) else {
            break;
        };
        let next = value
            .checked_mul(base.into())
            .and_then(|v| v.checked_add(digit.into()));
        overflow |= next.is_none();
        value = next.unwrap_or(u64::MAX);
        rest = tail;
    }
    (rest.len() < input.len()).then_some((value, overflow, rest))
}

/// An amount of memory: a number with an optional suffix K, M, G, T, P or E; whatever follows is ignored.
///
/// Decimal, octal with a leading 0, or hexadecimal with 0x. Too large a number is `u64::MAX`. `None` without a number.
pub(super) fn memory(input: &[u8]) -> Option<u64> {
    let (base, input) = prefixed(input);
    let (value, _, rest) = digits(input, base)?;
    let shift = match rest.first().map(u8::to_ascii_uppercase) {
        Some(b'K') => 10,
        Some(b'M') => 20,
        Some(b'G') => 30,
        Some(b'T') => 40,
        Some(b'P') => 50,
        Some(b'E') => 60,
        _ => 0,
    };
    Some(value.checked_mul(1 << shift).unwrap_or(u64::MAX))
}

/// A whole number in base `base`, where 0 means that the number says its base itself. A plus sign may precede it, a minus
/// sign if `min` is negative, and one newline may follow.
pub(crate) fn integer(input: &[u8], base: u32, min: i128, max: i128) -> Result<i128, Refusal> {
    let (negative, input) = match input {
        [b'-', rest @ ..] if min < 0 => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, input),
    };
    let (base, input) = match base {
        0 => prefixed(input),
        base => (base, input),
    };
    let (value, overflow, rest) = digits(input, base).ok_or(Refusal::Invalid)?;
    // A number that is too large is that first, whatever follows it, as in `_kstrtoull()`.
    if overflow {
        return Err(Refusal::Range);
    }
    if !matches!(rest, b"" | b"\n") {
        return Err(Refusal::Invalid);
    }
    let value = if negative {
        -i128::from(value)
    } else {
        i128::from(value)
    };
    if (min..=max).contains(&value) {
        Ok(value)
    } else {
        Err(Refusal::Range)
    }
}

/// Whether the kernel's `isspace()` takes it for white space: ASCII's, and the no-break space of Latin-1.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r' | 0xa0)
}

/// One word of a list of `key=value`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Argument<'a> {
    /// What is before the equals sign, or all of it.
    pub(super) key: &'a [u8],
    /// What is behind it, without quotes; `None` without one.
    pub(super) value: Option<&'a [u8]>,
}

impl<'a> Argument<'a> {
    /// The value, unless there is none, or nothing in it.
    pub(super) fn value(self) -> Option<&'a [u8]> {
        self.value.filter(|value| !value.is_empty())
    }
}

/// The words of a list of `key=value`, separated by white space; double quotes keep white space together.
///
/// Source: `next_arg()` and `skip_spaces()`.
pub(super) struct Arguments<'a>(&'a [u8]);

impl<'a> Arguments<'a> {
    /// The words of `input`.
    pub(super) fn new(input: &'a [u8]) -> Self {
        Self(skip_spaces(input))
    }
}

fn skip_spaces(input: &[u8]) -> &[u8] {
    let spaces = input.iter().take_while(|byte| is_space(**byte)).count();
    input.get(spaces..).unwrap_or_default()
}

impl<'a> Iterator for Arguments<'a> {
    type Item = Argument<'a>;

    fn next(&mut self) -> Option<Argument<'a>> {
        if self.0.is_empty() {
            return None;
        }
        let (quoted, input) = match self.0 {
            [b'"', rest @ ..] => (true, rest),
            all => (false, all),
        };
        let mut in_quotes = quoted;
        let mut equals = None;
        let mut end = input.len();
        for (i, byte) in input.iter().enumerate() {
            if is_space(*byte) && !in_quotes {
                end = i;
                break;
            }
            // One at the very start is part of the key.
            if *byte == b'=' && equals.is_none() && i != 0 {
                equals = Some(i);
            }
            in_quotes ^= *byte == b'"';
        }
        let (word, rest) = input.split_at_checked(end).unwrap_or((input, &[]));
        self.0 = skip_spaces(rest.get(1..).unwrap_or_default());

        let (key, value) = match equals {
            None => (word, None),
            Some(i) => (
                word.get(..i).unwrap_or_default(),
                Some(word.get(i.saturating_add(1)..).unwrap_or_default()),
            ),
        };
        // The closing quote belongs to the value if there is one, to the key otherwise.
        let unquote = |text: &'a [u8]| text.strip_suffix(b"\"").unwrap_or(text);
        Some(match value {
            None if quoted => Argument {
                key: unquote(key),
                value: None,
            },
            None => Argument { key, value: None },
            Some([b'"', inner @ ..]) => Argument {
                key,
                value: Some(unquote(inner)),
            },
            Some(value) if quoted => Argument {
                key,
                value: Some(unquote(value)),
            },
            Some(value) => Argument {
                key,
                value: Some(value),
            },
        })
    }
}
