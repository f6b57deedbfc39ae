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
