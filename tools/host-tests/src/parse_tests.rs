// SPDX-License-Identifier: GPL-2.0

//! Parsing as the kernel parses: a table of what people write, then everything short, then anything at all, compared with
//! the C functions.

use crate::parse::{boolean, integer, memory, word, Arguments, Refusal};
use crate::parse_reference as reference;
use proptest::prelude::*;
use Refusal::{Invalid, Range};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const U64: i128 = u64::MAX as i128;

fn text(input: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(input)
}

#[test]
fn amounts_of_memory() {
    for (input, expected) in [
        ("0", Some(0)),
        ("0\n", Some(0)),
        ("4096", Some(4096)),
        ("4096\n", Some(4096)),
        ("1K", Some(KIB)),
        ("1k\n", Some(KIB)),
        ("512M", Some(512 * MIB)),
        ("3g", Some(3 * GIB)),
        ("1T", Some(1 << 40)),
        ("2p", Some(1 << 51)),
        ("1E", Some(1 << 60)),
        ("15E", Some(15 << 60)),
        ("16E", Some(u64::MAX)),
        ("17592186044415M", Some(17_592_186_044_415 << 20)),
        ("17592186044416M", Some(u64::MAX)),
        ("18446744073709551615", Some(u64::MAX)),
        ("18446744073709551616", Some(u64::MAX)),
        ("99999999999999999999999999", Some(u64::MAX)),
        ("99999999999999999999999999K", Some(u64::MAX)),
        ("0x1000", Some(4096)),
        ("0X1f", Some(31)),
        ("0x1K", Some(KIB)),
        ("0x1E", Some(0x1e)),
        ("0x1e\n", Some(0x1e)),
        ("010", Some(8)),
        ("010K", Some(8 * KIB)),
        ("08", Some(0)),
        ("09K", Some(0)),
        ("0x", Some(0)),
        ("0xg", Some(0)),
        ("0K", Some(0)),
        // What follows is ignored.
        ("1GB", Some(GIB)),
        ("100Kfoo\n", Some(100 * KIB)),
        ("1KM", Some(KIB)),
        ("1 K", Some(1)),
        ("1.5G", Some(1)),
        ("12abc", Some(12)),
        ("1\n\n", Some(1)),
        // No number.
        ("", None),
        ("\n", None),
        ("K", None),
        ("E", None),
        ("-1", None),
        ("+1", None),
        (" 1M", None),
        ("x10", None),
        ("abc", None),
        ("ff", None),
    ] {
        assert_eq!(memory(input.as_bytes()), expected, "{input:?}");
        assert_eq!(reference::memparse(input.as_bytes()), expected, "{input:?}");
    }
}

#[test]
fn whole_numbers() {
    let u16_max = i128::from(u16::MAX);
    let int = (i128::from(i32::MIN), i128::from(i32::MAX));
    for (input, base, (min, max), expected) in [
        // `reset`: base 10, 16 bits, no sign.
        ("1", 10, (0, u16_max), Ok(1)),
        ("1\n", 10, (0, u16_max), Ok(1)),
        ("+1", 10, (0, u16_max), Ok(1)),
        ("0", 10, (0, u16_max), Ok(0)),
        ("00", 10, (0, u16_max), Ok(0)),
        ("010", 10, (0, u16_max), Ok(10)),
        ("65535", 10, (0, u16_max), Ok(65535)),
        ("65536", 10, (0, u16_max), Err(Range)),
        ("65536\n", 10, (0, u16_max), Err(Range)),
        ("65536x", 10, (0, u16_max), Err(Invalid)),
        ("99999999999999999999", 10, (0, u16_max), Err(Range)),
        ("99999999999999999999x", 10, (0, u16_max), Err(Range)),
        ("0x1", 10, (0, u16_max), Err(Invalid)),
        ("-1", 10, (0, u16_max), Err(Invalid)),
        ("-0", 10, (0, u16_max), Err(Invalid)),
        ("++1", 10, (0, u16_max), Err(Invalid)),
        ("+-1", 10, (0, u16_max), Err(Invalid)),
        ("+", 10, (0, u16_max), Err(Invalid)),
        ("", 10, (0, u16_max), Err(Invalid)),
        ("\n", 10, (0, u16_max), Err(Invalid)),
        ("1\n\n", 10, (0, u16_max), Err(Invalid)),
        ("1 ", 10, (0, u16_max), Err(Invalid)),
        (" 1", 10, (0, u16_max), Err(Invalid)),
        ("1\r\n", 10, (0, u16_max), Err(Invalid)),
        ("yes", 10, (0, u16_max), Err(Invalid)),
        ("1K", 10, (0, u16_max), Err(Invalid)),
        ("\u{661}", 10, (0, u16_max), Err(Invalid)),
        // `hot_remove`: base 10, int.
        ("0", 10, int, Ok(0)),
        ("-1", 10, int, Ok(-1)),
        ("-0", 10, int, Ok(0)),
        ("2147483647", 10, int, Ok(i32::MAX.into())),
        ("2147483648", 10, int, Err(Range)),
        ("-2147483648", 10, int, Ok(i32::MIN.into())),
        ("-2147483649", 10, int, Err(Range)),
        ("-99999999999999999999", 10, int, Err(Range)),
        ("--1", 10, int, Err(Invalid)),
        ("-+1", 10, int, Err(Invalid)),
        ("-", 10, int, Err(Invalid)),
        // `max_comp_streams`: int, says its base itself.
        ("0x10", 0, int, Ok(16)),
        ("0X1F\n", 0, int, Ok(31)),
        ("-0x10", 0, int, Ok(-16)),
        ("+010", 0, int, Ok(8)),
        ("08", 0, int, Err(Invalid)),
        ("0x", 0, int, Err(Invalid)),
        ("0xg", 0, int, Err(Invalid)),
        ("0", 0, int, Ok(0)),
        // `mem_used_max`: unsigned long.
        ("18446744073709551615", 10, (0, U64), Ok(U64)),
        ("18446744073709551616", 10, (0, U64), Err(Range)),
        ("00000000000000000000000000000", 10, (0, U64), Ok(0)),
    ] {
        let came = integer(input.as_bytes(), base, min, max);
        assert_eq!(came, expected, "{input:?} in base {base}, {min} to {max}");
    }
}

#[test]
fn one_newline_at_the_end_of_a_word_does_not_count() {
    for (input, expected) in [
        ("lz4", "lz4"),
        ("lz4\n", "lz4"),
        ("lz4\n\n", "lz4\n"),
        ("\n", ""),
        ("", ""),
        ("lz4 ", "lz4 "),
        ("\nlz4", "\nlz4"),
    ] {
        assert_eq!(word(input.as_bytes()), expected.as_bytes(), "{input:?}");
    }
}

#[test]
fn yes_and_no() {
    for (input, expected) in [
        ("1", Some(true)),
        ("1\n", Some(true)),
        ("yes please", Some(true)),
        ("Y", Some(true)),
        ("true", Some(true)),
        ("enable", Some(true)),
        ("on", Some(true)),
        ("ON\n", Some(true)),
        ("once", Some(true)),
        ("0", Some(false)),
        ("no", Some(false)),
        ("False", Some(false)),
        ("disable", Some(false)),
        ("off", Some(false)),
        ("of", Some(false)),
        ("o", None),
        ("o\n", None),
        ("2", None),
        ("x", None),
        ("", None),
        ("\n", None),
        (" 1", None),
        ("-1", None),
    ] {
        assert_eq!(boolean(input.as_bytes()), expected, "{input:?}");
    }
}

/// The words of a list, as the kernel has them.
fn words(input: &[u8]) -> Vec<reference::Argument> {
    Arguments::new(input)
        .map(|word| (word.key.to_vec(), word.value.map(<[u8]>::to_vec)))
        .collect()
}

#[test]
fn lists_of_keys_and_values() {
    type Expected<'a> = &'a [(&'a str, Option<&'a str>)];
    let cases: [(&str, Expected); 16] = [
        ("", &[]),
        (" \t\n", &[]),
        ("algo=zstd", &[("algo", Some("zstd"))]),
        (
            "algo=zstd level=3\n",
            &[("algo", Some("zstd")), ("level", Some("3"))],
        ),
        ("  a=1\n\tb=2  ", &[("a", Some("1")), ("b", Some("2"))]),
        (
            "dict=\"/my dict\" x=1",
            &[("dict", Some("/my dict")), ("x", Some("1"))],
        ),
        (
            "\"dict=/my dict\" x=1",
            &[("dict", Some("/my dict")), ("x", Some("1"))],
        ),
        ("dict=\"/not closed", &[("dict", Some("/not closed"))]),
        ("idle", &[("idle", None)]),
        ("\"two words\"", &[("two words", None)]),
        ("key=", &[("key", Some(""))]),
        ("key=\"\"", &[("key", Some(""))]),
        ("=value", &[("=value", None)]),
        ("=a=b", &[("=a", Some("b"))]),
        ("a=b=c", &[("a", Some("b=c"))]),
        ("a=b\u{b}c", &[("a", Some("b")), ("c", None)]),
    ];
    for (input, expected) in cases {
        let bytes = |text: &str| text.as_bytes().to_vec();
        let expected: Vec<_> = expected
            .iter()
            .map(|(key, value)| (bytes(key), value.map(bytes)))
            .collect();
        assert_eq!(words(input.as_bytes()), expected, "{input:?}");
    }
}

#[test]
fn a_value_with_nothing_in_it_is_as_good_as_none() {
    let values: Vec<_> = Arguments::new(b"a= b c=\"\" d=1")
        .map(|word| word.value())
        .collect();
    assert_eq!(values, [None, None, None, Some(&b"1"[..])]);
}

/// Compares all parsers with the kernel's on one string.
fn compare(input: &[u8]) {
    let same = |came: &dyn std::fmt::Debug, expected: &dyn std::fmt::Debug, what: &str| {
        let (came, expected) = (format!("{came:?}"), format!("{expected:?}"));
        assert_eq!(came, expected, "{what} of {:?}", text(input));
    };
    macro_rules! compare {
        ($came:expr, $expected:expr, $what:expr) => {
            let (came, expected) = ($came, $expected);
            if came != expected {
                same(&came, &expected, $what);
            }
        };
    }
    compare!(memory(input), reference::memparse(input), "memparse()");
    compare!(boolean(input), reference::kstrtobool(input), "kstrtobool()");
    compare!(words(input), reference::arguments(input), "next_arg()");
    for base in [0, 8, 10] {
        let parse = |min: i128, max: i128| integer(input, base, min, max);
        let (u64_max, i64_range) = (u64::MAX.into(), (i64::MIN.into(), i64::MAX.into()));
        compare!(
            parse(0, u64_max),
            reference::kstrtoull(input, base).map(i128::from),
            "kstrtoull()"
        );
        compare!(
            parse(i64_range.0, i64_range.1),
            reference::kstrtoll(input, base).map(i128::from),
            "kstrtoll()"
        );
        compare!(
            parse(0, u32::MAX.into()),
            reference::kstrtouint(input, base).map(i128::from),
            "kstrtouint()"
        );
        compare!(
            parse(i32::MIN.into(), i32::MAX.into()),
            reference::kstrtoint(input, base).map(i128::from),
            "kstrtoint()"
        );
        compare!(
            parse(0, u16::MAX.into()),
            reference::kstrtou16(input, base).map(i128::from),
            "kstrtou16()"
        );
    }
    for name in [&b"lz4"[..], b"0", b"11", b""] {
        compare!(
            word(input) == name,
            reference::sysfs_streq(input, name),
            "sysfs_streq()"
        );
    }
}

/// Calls `f` with each string of up to `longest` bytes out of `alphabet`, and returns how many there are.
fn strings(alphabet: &[u8], longest: u32, mut f: impl FnMut(&[u8])) -> usize {
    let mut count = 0;
    for len in 0..=longest {
        let mut string = vec![0; len as usize];
        for mut number in 0..alphabet.len().pow(len) {
            for byte in &mut string {
                *byte = alphabet[number % alphabet.len()];
                number /= alphabet.len();
            }
            f(&string);
            count += 1;
        }
    }
    count
}

#[test]
fn all_short_strings_are_taken_as_the_kernel_takes_them() {
    assert_eq!(strings(b"01789xX-+kKmEf\n ", 5, compare), 1_118_481);
}

#[test]
fn all_short_lists_are_taken_apart_as_the_kernel_takes_them_apart() {
    let compare = |input: &[u8]| {
        assert_eq!(
            words(input),
            reference::arguments(input),
            "{:?}",
            text(input)
        );
    };
    assert_eq!(strings(b"ab=\" \n", 7, compare), 335_923);
    assert_eq!(strings(b"a=\"\xa0", 8, compare), 87_381);
}

#[test]
fn all_short_words_say_yes_or_no_as_the_kernel_has_it() {
    let all: Vec<u8> = (1..=u8::MAX).collect();
    let compare = |input: &[u8]| {
        assert_eq!(
            boolean(input),
            reference::kstrtobool(input),
            "{:?}",
            text(input)
        );
    };
    strings(&all, 2, compare);
}

#[test]
fn numbers_around_the_limits_are_taken_as_the_kernel_takes_them() {
    let powers = (0..=70).map(|shift| 1u128 << shift);
    let tens = (0..=22).map(|power| 10u128.pow(power));
    for number in powers.chain(tens).flat_map(|n| n.saturating_sub(2)..=n + 2) {
        for sign in ["", "+", "-"] {
            for digits in [
                format!("{number}"),
                format!("{number:#x}"),
                format!("0{number:o}"),
            ] {
                for suffix in ["", "\n", "K", "m", "G\n", "t", "P", "e", "x", " "] {
                    compare(format!("{sign}{digits}{suffix}").as_bytes());
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    /// The module cuts what is written at the first NUL, as C does.
    #[test]
    fn any_bytes_are_taken_as_the_kernel_takes_them(
        input in prop::collection::vec(1..=u8::MAX, 0..40),
    ) {
        compare(&input);
    }

    #[test]
    fn long_numbers_are_taken_as_the_kernel_takes_them(
        input in "[-+]?(0|0x|0X)?[0-9a-fA-F]{0,30}[kKmMgGtTpPeE]?[ x]?\n?\n?",
    ) {
        compare(input.as_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    #[test]
    fn a_page_of_anything_does_no_harm(mut input in prop::collection::vec(any::<u8>(), 4096)) {
        let _ = (memory(&input), word(&input), integer(&input, 0, i128::MIN, i128::MAX));
        input.fill(b'9');
        prop_assert_eq!(memory(&input), Some(u64::MAX));
        prop_assert_eq!(integer(&input, 0, i128::MIN, i128::MAX), Err(Range));
    }
}
