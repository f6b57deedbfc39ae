// SPDX-License-Identifier: GPL-2.0

//! The module is loaded with parameters of any kind: it loads as they say, or not at all.

use std::ffi::CString;
use std::fs::File;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use nix::kmod::{finit_module, ModuleInitFlags};
use rzram_guest::module::{disk_ids, is_loaded, module_file, try_unload};
use rzram_guest::pattern::Rng;
use rzram_guest::same;

use super::model::seed;
use super::text;

/// How often the module is loaded.
const ROUNDS: u64 = 80;

/// More disks take too long to make, which is for whoever asks for them.
const MANY: u64 = 8;

/// A number of disks that does not take long, or something that is none.
fn devices(rng: &mut Rng) -> String {
    match rng.below(3) {
        0 => rng.below(MANY).to_string(),
        1 => String::from_utf8_lossy(&text::any(rng, "comp_algorithm")).into_owned(),
        _ => (*["-1", "", "0x2", "4294967296", "1M", "1 1", "03"]
            .get(rng.below(7) as usize)
            .unwrap_or(&"1"))
        .to_owned(),
    }
}

fn parameters(rng: &mut Rng) -> String {
    let mut words = Vec::new();
    for _ in 0..rng.below(4) {
        words.push(match rng.below(5) {
            0 | 1 => format!("num_devices={}", devices(rng)),
            2 => {
                let value = String::from_utf8_lossy(&text::any(rng, "reset")).into_owned();
                format!("track_access={value}")
            }
            3 => format!(
                "compat={}",
                ["0", "2", "maybe", "", "off"][rng.below(5) as usize]
            ),
            _ => String::from_utf8_lossy(&text::any(rng, "algorithm_params")).into_owned(),
        });
    }
    words.join(" ")
}

/// Whether a text asks for more disks than are worth the time.
fn asks_for_many(text: &str) -> bool {
    text.split("num_devices=").skip(1).any(|rest| {
        let digits: String = rest
            .trim_start_matches(['"', '+'])
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .collect();
        let number = match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => digits.parse(),
        };
        number.is_ok_and(|number| number > MANY && u32::try_from(number).is_ok())
    })
}

#[test]
fn the_module_loads_with_any_parameters_or_says_no() -> Result<()> {
    let seed = seed();
    let mut rng = Rng::new(seed, 0x9a7);
    let (mut loads, mut refusals) = (0, 0);
    for round in 0..ROUNDS {
        let text = parameters(&mut rng).replace('\0', "");
        if asks_for_many(&text) {
            continue;
        }
        let file = File::open(module_file()).context("opening the module's file")?;
        let c_text = CString::new(text.clone())?;
        match finit_module(&file, &c_text, ModuleInitFlags::empty()) {
            Ok(()) => {
                loads += 1;
                ensure!(is_loaded()?, "{text:?}: loaded, and not to be seen");
                ensure!(
                    disk_ids()?.len() as u64 <= MANY,
                    "{text:?}: {:?}",
                    disk_ids()?
                );
                same(format!("unloading, after {text:?}"), Ok(()), try_unload())?;
            }
            Err(e) => {
                refusals += 1;
                // A parameter that is given twice exists: the kernel's Rust code sets each once.
                let known = [Errno::EINVAL, Errno::ERANGE, Errno::ENOSPC, Errno::EEXIST];
                ensure!(
                    known.contains(&e),
                    "round {round} of seed {seed}: {text:?}: {e:?}"
                );
            }
        }
        ensure!(!is_loaded()?, "{text:?}: it is loaded");
        same("disks", Vec::<u32>::new(), disk_ids()?)?;
    }
    println!("seed {seed}: loaded {loads} times, refused {refusals} times");
    ensure!(loads > 5 && refusals > 5, "hardly any of one kind");
    Ok(())
}
