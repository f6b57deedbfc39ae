// SPDX-License-Identifier: GPL-2.0

//! Some thousand random steps, compared with a model; `make soak` does a million of them.

use anyhow::Result;
use rzram_guest::model::{self, Options};

/// What the random tests of this guest follow from: `RZRAM_TEST_SEED`, or another one each time.
pub fn seed() -> u64 {
    let given = std::env::var("RZRAM_TEST_SEED").ok();
    given
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(model::any_seed)
}

#[test]
fn disks_do_what_a_model_of_a_disk_does() -> Result<()> {
    let options = Options {
        seed: Some(seed()),
        operations: 4000,
        lanes: 2,
        shrink: 60,
        replay: None,
        progress: false,
    };
    let outcome = model::run(&options)?;
    println!("{outcome:?}");
    Ok(())
}
