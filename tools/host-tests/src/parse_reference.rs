// SPDX-License-Identifier: GPL-2.0

//! The kernel's parsers, written anew from the C line by line, to compare with: `lib/kstrtox.c`, `lib/vsprintf.c`
//! (`simple_strtoull()`), `lib/cmdline.c`, `lib/string_helpers.c`. Strings end where they end, which is where C's have their NUL.

use crate::parse::Refusal;

fn at(s: &[u8], i: usize) -> u8 {
    s.get(i).copied().unwrap_or(0)
}

fn tolower(c: u8) -> u8 {
    c | 0x20
}

/// `_parse_integer_fixup_radix()`: the base, and where the digits start.
fn fixup_radix(s: &[u8], mut base: u32) -> (u32, usize) {
    if base == 0 {
        base = if at(s, 0) != b'0' {
            10
        } else if tolower(at(s, 1)) == b'x' && at(s, 2).is_ascii_hexdigit() {
            16
        } else {
            8
        };
    }
    if base == 16 && at(s, 0) == b'0' && tolower(at(s, 1)) == b'x' {
        return (base, 2);
    }
    (base, 0)
}

/// `_parse_integer()`: the value, how many digits it has, and whether it is too large.
fn parse_integer(s: &[u8], base: u32) -> (u64, usize, bool) {
    let (mut res, mut rv, mut overflow) = (0u64, 0, false);
    loop {
        let c = at(s, rv);
        let lc = tolower(c);
        let val = if c.is_ascii_digit() {
            c - b'0'
        } else if (b'a'..=b'f').contains(&lc) {
            lc - b'a' + 10
        } else {
            break;
        };
        if u32::from(val) >= base {
            break;
        }
        if res & (!0 << 60) != 0 {
            let (product, too_large) = res.overflowing_mul(base.into());
            let (sum, larger_still) = product.overflowing_add(val.into());
            res = sum;
            if too_large || larger_still {
                res = u64::MAX;
                overflow = true;
            }
        } else {
            res = res * u64::from(base) + u64::from(val);
        }
        rv += 1;
    }
    (res, rv, overflow)
}

/// `_kstrtoull()`
fn kstrtoull_unsigned(s: &[u8], base: u32) -> Result<u64, Refusal> {
    let (base, start) = fixup_radix(s, base);
    let s = &s[start..];
    let (res, rv, overflow) = parse_integer(s, base);
    if overflow {
        return Err(Refusal::Range);
    }
    if rv == 0 {
        return Err(Refusal::Invalid);
    }
    let mut i = rv;
    if at(s, i) == b'\n' {
        i += 1;
    }
    if at(s, i) != 0 {
        return Err(Refusal::Invalid);
    }
    Ok(res)
}

pub(crate) fn kstrtoull(s: &[u8], base: u32) -> Result<u64, Refusal> {
    let start = usize::from(at(s, 0) == b'+');
    kstrtoull_unsigned(&s[start..], base)
}

pub(crate) fn kstrtoll(s: &[u8], base: u32) -> Result<i64, Refusal> {
    if at(s, 0) == b'-' {
        let tmp = kstrtoull_unsigned(&s[1..], base)?;
        let res = tmp.wrapping_neg() as i64;
        if res > 0 {
            return Err(Refusal::Range);
        }
        Ok(res)
    } else {
        let tmp = kstrtoull(s, base)? as i64;
        if tmp < 0 {
            return Err(Refusal::Range);
        }
        Ok(tmp)
    }
}

pub(crate) fn kstrtou16(s: &[u8], base: u32) -> Result<u16, Refusal> {
    let tmp = kstrtoull(s, base)?;
    if tmp != u64::from(tmp as u16) {
        return Err(Refusal::Range);
    }
    Ok(tmp as u16)
}

pub(crate) fn kstrtouint(s: &[u8], base: u32) -> Result<u32, Refusal> {
    let tmp = kstrtoull(s, base)?;
    if tmp != u64::from(tmp as u32) {
        return Err(Refusal::Range);
    }
    Ok(tmp as u32)
}

pub(crate) fn kstrtoint(s: &[u8], base: u32) -> Result<i32, Refusal> {
    let tmp = kstrtoll(s, base)?;
    if tmp != i64::from(tmp as i32) {
        return Err(Refusal::Range);
    }
    Ok(tmp as i32)
}

/// `memparse()`, with `None` where it leaves its end pointer at the start.
pub(crate) fn memparse(s: &[u8]) -> Option<u64> {
    let (base, start) = fixup_radix(s, 0);
    let (mut ret, rv, _) = parse_integer(&s[start..], base);
    let mut end = start + rv;
    let shl = match at(s, end) {
        b'E' | b'e' => 60,
        b'P' | b'p' => 50,
        b'T' | b't' => 40,
        b'G' | b'g' => 30,
        b'M' | b'm' => 20,
        b'K' | b'k' => 10,
        _ => 0,
    };
    if shl != 0 && end != 0 {
        // check_shl_overflow()
        ret = if ret << shl >> shl == ret {
            ret << shl
        } else {
            u64::MAX
        };
        end += 1;
    }
    (end != 0).then_some(ret)
}

/// `sysfs_streq()`
pub(crate) fn sysfs_streq(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while at(a, i) != 0 && at(a, i) == at(b, i) {
        i += 1;
    }
    if at(a, i) == at(b, i) {
        return true;
    }
    at(a, i) == 0 && at(b, i) == b'\n' && at(b, i + 1) == 0
        || at(a, i) == b'\n' && at(a, i + 1) == 0 && at(b, i) == 0
}

/// `kstrtobool()`
pub(crate) fn kstrtobool(s: &[u8]) -> Option<bool> {
    match at(s, 0) {
        b'e' | b'E' | b'y' | b'Y' | b't' | b'T' | b'1' => Some(true),
        b'd' | b'D' | b'n' | b'N' | b'f' | b'F' | b'0' => Some(false),
        b'o' | b'O' => match at(s, 1) {
            b'n' | b'N' => Some(true),
            b'f' | b'F' => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// `isspace()`, by the table in `lib/ctype.c`.
fn isspace(c: u8) -> bool {
    matches!(c, 9..=13 | 32 | 160)
}

/// `skip_spaces()`: where it stops.
fn skip_spaces(s: &[u8], mut i: usize) -> usize {
    while isspace(at(s, i)) {
        i += 1;
    }
    i
}

/// A key, and the value if there is one.
pub(crate) type Argument = (Vec<u8>, Option<Vec<u8>>);

/// The C string at `i`.
fn string(s: &[u8], i: usize) -> Vec<u8> {
    let rest = s.get(i..).unwrap_or_default();
    rest.iter().take_while(|c| **c != 0).copied().collect()
}

/// `next_arg()`, called again and again as zram does.
pub(crate) fn arguments(s: &[u8]) -> Vec<Argument> {
    let mut buffer = s.to_vec();
    buffer.push(0);
    let mut found = Vec::new();
    let mut args = skip_spaces(&buffer, 0);
    while buffer[args] != 0 {
        let (mut i, mut equals, mut in_quote, mut quoted) = (0, 0, false, false);
        if buffer[args] == b'"' {
            args += 1;
            in_quote = true;
            quoted = true;
        }
        while buffer[args + i] != 0 {
            let c = buffer[args + i];
            if isspace(c) && !in_quote {
                break;
            }
            if equals == 0 && c == b'=' {
                equals = i;
            }
            if c == b'"' {
                in_quote = !in_quote;
            }
            i += 1;
        }
        let param = args;
        let mut val = None;
        if equals != 0 {
            buffer[args + equals] = 0;
            let mut start = args + equals + 1;
            if buffer[start] == b'"' {
                start += 1;
                if buffer[args + i - 1] == b'"' {
                    buffer[args + i - 1] = 0;
                }
            }
            val = Some(start);
        }
        if quoted && i > 0 && buffer[args + i - 1] == b'"' {
            buffer[args + i - 1] = 0;
        }
        if buffer[args + i] != 0 {
            buffer[args + i] = 0;
            args += i + 1;
        } else {
            args += i;
        }
        args = skip_spaces(&buffer, args);
        found.push((string(&buffer, param), val.map(|val| string(&buffer, val))));
    }
    found
}
