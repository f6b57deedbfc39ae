// SPDX-License-Identifier: GPL-2.0

//! What people, programs and cats on keyboards write to attributes.

use rzram_guest::pattern::Rng;
use rzram_guest::PAGE;

/// Numbers on both sides of what anything can be.
const NUMBERS: [&str; 24] = [
    "0",
    "1",
    "2",
    "3",
    "7",
    "64",
    "4095",
    "4096",
    "65536",
    "1M",
    "16M",
    "1G",
    "3T",
    "1E",
    "0x1000",
    "010",
    "-1",
    "+5",
    "2147483647",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "99999999999999999999999",
];

const NAMES: [&str; 14] = [
    "lzo",
    "lzo-rle",
    "lz4",
    "zstd",
    "deflate",
    "lz4hc",
    "842",
    "all",
    "none",
    "idle",
    "huge",
    "huge_idle",
    "incompressible",
    "same",
];

const KEYS: [&str; 12] = [
    "type",
    "threshold",
    "max_pages",
    "algo",
    "priority",
    "page_index",
    "page_indexes",
    "level",
    "dict",
    "deflate.winbits",
    "recompress_batch_size",
    "",
];

const PATHS: [&str; 14] = [
    "/dev/ram0",
    "/dev/ram0",
    "/tmp/rzram-files/fuzz",
    "/tmp/rzram-files/fuzz",
    "/tmp/rzram-files/missing",
    "/tmp/rzram-files",
    "/dev/null",
    "/dev/zero",
    "/dev/rzram0",
    "/dev/rzram1",
    "/proc/kmsg",
    "/proc/self/mem",
    "ram0",
    "/",
];

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.below(from.len() as u64) as usize]
}

fn number(rng: &mut Rng) -> String {
    match rng.below(3) {
        0 => rng.below(300).to_string(),
        1 => (rng.next() >> rng.below(64)).to_string(),
        _ => pick(rng, &NUMBERS).to_owned(),
    }
}

fn value(rng: &mut Rng) -> String {
    match rng.below(6) {
        0..=2 => number(rng),
        3 => pick(rng, &NAMES).to_owned(),
        4 => format!("{}-{}", number(rng), number(rng)),
        _ => pick(rng, &PATHS).to_owned(),
    }
}

/// What may well be meant for an attribute.
fn plausible(rng: &mut Rng, attribute: &str) -> String {
    match attribute {
        "disksize" | "mem_limit" => number(rng),
        "reset" | "compact" | "mem_used_max" | "writeback_limit_enable" => rng.below(3).to_string(),
        "comp_algorithm" => pick(rng, &NAMES).to_owned(),
        "recomp_algorithm" => {
            let name = pick(rng, &NAMES[..5]);
            format!("algo={name} priority={}", rng.below(5))
        }
        "algorithm_params" => match rng.below(3) {
            0 => format!("level={}", number(rng)),
            1 => format!("priority={} dict={}", rng.below(4), pick(rng, &PATHS)),
            _ => format!("algo=deflate deflate.winbits={}", number(rng)),
        },
        "idle" if rng.below(3) > 0 => "all".to_owned(),
        "recompress" => match rng.below(3) {
            0 => "type=idle".to_owned(),
            1 => format!(
                "threshold={} max_pages={}",
                rng.below(5000),
                rng.below(2000)
            ),
            _ => format!("priority={} type=huge", rng.below(5)),
        },
        "writeback" => match rng.below(4) {
            0 => "type=idle".to_owned(),
            1 => "huge".to_owned(),
            2 => format!("page_index={}", rng.below(100)),
            _ => format!("page_indexes={}-{}", rng.below(60), rng.below(100)),
        },
        "backing_dev" => pick(rng, &PATHS).to_owned(),
        _ => number(rng),
    }
}

fn words(rng: &mut Rng) -> String {
    let mut text = String::new();
    for _ in 0..rng.below(5) {
        text += &match rng.below(3) {
            0 => value(rng),
            1 => format!("{}={}", pick(rng, &KEYS), value(rng)),
            _ => format!("{}=\"{}\"", pick(rng, &KEYS), value(rng)),
        };
        text += pick(rng, &[" ", " ", " ", "\t", "\n", "", ",", "\""]);
    }
    text
}

fn noise(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(20) {
        0 => PAGE as u64 + rng.below(PAGE as u64),
        1 => PAGE as u64 - rng.below(3),
        2 => rng.below(PAGE as u64),
        _ => rng.below(40),
    };
    (0..len).map(|_| rng.next() as u8).collect()
}

/// Changes some bytes, as a bad line would.
fn damage(rng: &mut Rng, text: &mut Vec<u8>) {
    for _ in 0..1 + rng.below(3) {
        let at = rng.below(text.len() as u64 + 1) as usize;
        match rng.below(5) {
            0 => text.truncate(at),
            1 => text.insert(at, rng.next() as u8),
            2 => text.insert(at, b" \n\0=\"-"[rng.below(6) as usize]),
            3 => text.extend_from_within(at..),
            _ => {
                if let Some(byte) = text.get_mut(at) {
                    *byte ^= 1 << rng.below(8);
                }
            }
        }
    }
}

/// Something to write to an attribute.
pub fn any(rng: &mut Rng, attribute: &str) -> Vec<u8> {
    let mut text = match rng.below(10) {
        0 | 1 => return noise(rng),
        2 | 3 => words(rng),
        _ => plausible(rng, attribute),
    }
    .into_bytes();
    match rng.below(6) {
        0 => damage(rng, &mut text),
        1 | 2 => text.push(b'\n'),
        _ => {}
    }
    text
}
