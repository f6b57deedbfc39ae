// SPDX-License-Identifier: GPL-2.0

//! A backing device some of whose requests fail, in the midst of many that are under way, and that is
//! well again later. Devices that fail in other ways are in `extra/backing_errors.rs`.

use std::fs;

use anyhow::{ensure, Result};
use nix::errno::Errno;
use rzram_guest::disk::Disk;
use rzram_guest::faults::note;
use rzram_guest::module::with_module;
use rzram_guest::pattern::Kind;
use rzram_guest::post::{bd, pages, set_up_backed, Blocks, Ram};
use rzram_guest::{same, stress, PAGE};

/// Makes requests to the RAM disk fail.
struct Requests;

impl Requests {
    fn fail(percent: u32) -> Result<Requests> {
        fs::write("/sys/block/ram0/make-it-fail", "1")?;
        for (name, value) in [
            ("verbose", "0".to_owned()),
            ("times", "-1".to_owned()),
            ("interval", "1".to_owned()),
            ("probability", percent.to_string()),
        ] {
            fs::write(format!("/sys/kernel/debug/fail_make_request/{name}"), value)?;
        }
        Ok(Requests)
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        let _ = fs::write("/sys/kernel/debug/fail_make_request/probability", "0");
    }
}

const BLOCKS: u64 = 512;

#[test]
fn what_fails_in_the_midst_of_others_stays_in_memory_and_what_is_out_comes_back() -> Result<()> {
    let _ram = Ram::new(BLOCKS * 4)?;
    with_module("", || {
        let disk = Disk::new(0);
        set_up_backed(&disk, Ram::NODE, "lz4", "4M")?;
        let content = pages(Kind::Text, 1, BLOCKS);
        let mut blocks = Blocks::of(&disk)?;
        blocks.write_all(&content)?;
        disk.set("writeback_limit", "2000")?;
        disk.set("writeback_limit_enable", "1")?;
        let all = format!("page_indexes=0-{}", BLOCKS - 1);
        let mut rounds = 0;
        loop {
            let out = {
                let _failing = Requests::fail(40)?;
                match disk.put("writeback", &all) {
                    Ok(()) | Err(Errno::EIO) => {}
                    Err(error) => anyhow::bail!("writeback says {error:?}"),
                }
                bd(&disk)?.count
            };
            blocks.hold_all(&content)?;
            disk.shows("writeback_limit", &format!("{}\n", 2000 - out))?;
            rounds += 1;
            if rounds == 1 {
                ensure!((1..BLOCKS).contains(&out), "{out} blocks went out");
            }
            if out == BLOCKS {
                break;
            }
            ensure!(rounds < 100, "no end of it");
        }
        // Now the other way: many reads at once.
        let failed = reads_failing(&disk, &content)?;
        note(&format!(
            "backing device that fails 40 of 100: all {BLOCKS} blocks out after {rounds} writebacks; \
             then {failed} reads failed, and none gave a wrong byte"
        ));
        same("failed reads", failed, disk.io()?.failed_reads)?;
        blocks.hold_all(&content)?;
        same("blocks on the device", BLOCKS, bd(&disk)?.count)?;
        drop(blocks);
        disk.reset()
    })
}

/// Reads all blocks several times in several threads; returns how many reads failed.
fn reads_failing(disk: &Disk, content: &[Vec<u8>]) -> Result<u64> {
    let _failing = Requests::fail(40)?;
    let until = stress::Until::after(std::time::Duration::from_secs(600));
    let failed = std::sync::atomic::AtomicU64::new(0);
    let work = (0..4)
        .map(|thread| {
            let failed = &failed;
            let body: stress::Work<'_> = Box::new(move |_| {
                let mut blocks = Blocks::of(disk)?;
                for n in 0..2 * BLOCKS {
                    let index = (n + thread * BLOCKS / 4) % BLOCKS;
                    match blocks.read(index) {
                        Ok(came) => rzram_guest::blk::equal(
                            &format!("block {index}"),
                            &content[index as usize],
                            came,
                        )?,
                        Err(Errno::EIO) => {
                            failed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        }
                        Err(error) => anyhow::bail!("block {index}: {error:?}"),
                    }
                }
                Ok(())
            });
            ("a reader", body)
        })
        .collect();
    stress::together(&until, work)?;
    let failed = failed.into_inner();
    ensure!(
        (BLOCKS..7 * BLOCKS).contains(&failed),
        "{failed} of {} reads failed",
        8 * BLOCKS
    );
    Ok(failed)
}

#[test]
fn a_device_that_fails_from_the_beginning_and_in_the_end() -> Result<()> {
    let _ram = Ram::new(1024)?;
    with_module("", || {
        let disk = Disk::new(0);
        let _failing = Requests::fail(100)?;
        // Nothing is read from it to set up, and it fails later.
        set_up_backed(&disk, Ram::NODE, "lz4", "4M")?;
        let content = pages(Kind::Text, 1, 20);
        let mut blocks = Blocks::of(&disk)?;
        blocks.write_all(&content)?;
        disk.refuses("writeback", "page_indexes=0-19", Errno::EIO)?;
        same("blocks on the device", 0, bd(&disk)?.count)?;
        blocks.hold_all(&content)?;
        drop(_failing);
        disk.set("writeback", "page_indexes=0-19")?;
        same("blocks on the device", 20, bd(&disk)?.count)?;
        blocks.hold_all(&content)?;
        // A reset of a disk whose device has failed.
        let _failing = Requests::fail(100)?;
        same(
            "a read",
            Err(Errno::EIO),
            blocks.read(3).map(|b| b.len() == PAGE),
        )?;
        drop(blocks);
        disk.reset()
    })
}
