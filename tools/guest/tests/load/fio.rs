// SPDX-License-Identifier: GPL-2.0

//! fio writes with a checksum in every block and reads it all back, with each way of doing I/O.

use anyhow::{ensure, Result};
use rzram_guest::disk::Disk;
use rzram_guest::module::with_module;
use rzram_guest::run::run;
use rzram_guest::same;

const MIXED: &str = "--bssplit=4k/40:8k/20:12k/10:64k/20:256k/10";

/// Runs fio with `job` added to what all jobs share.
fn fio(disk: &Disk, name: &str, job: &[&str]) -> Result<()> {
    let (filename, name) = (
        format!("--filename={}", disk.node()),
        format!("--name={name}"),
    );
    let mut args = vec![
        name.as_str(),
        filename.as_str(),
        "--verify=crc32c",
        "--do_verify=1",
        "--verify_fatal=1",
        "--refill_buffers",
        "--buffer_compress_percentage=55",
        "--buffer_compress_chunk=512",
        "--randseed=7",
        "--group_reporting",
    ];
    args.extend(job);
    let report = run("fio", &args)?;
    ensure!(report.contains("err= 0"), "fio reports an error:\n{report}");
    ensure!(
        !report.contains("verify: bad"),
        "fio found bad data:\n{report}"
    );
    Ok(())
}

fn on_disk(algorithm: &str, jobs: &[(&str, &[&str])]) -> Result<()> {
    with_module("", || {
        let disk = Disk::new(0);
        disk.set_up(algorithm, "96M")?;
        for (name, job) in jobs {
            fio(&disk, name, job)?;
            same(format!("failed I/O in {name}"), (0, 0), {
                let io = disk.io()?;
                (io.failed_reads, io.failed_writes)
            })?;
        }
        ensure!(disk.mm()?.orig > 0, "fio stored nothing");
        disk.reset()
    })
}

#[test]
fn psync_with_mixed_block_sizes_verifies() -> Result<()> {
    on_disk(
        "lz4",
        &[
            (
                "psync-random",
                &[
                    "--ioengine=psync",
                    "--direct=1",
                    "--rw=randwrite",
                    MIXED,
                    "--size=40M",
                ],
            ),
            (
                "psync-buffered",
                &[
                    "--ioengine=psync",
                    "--direct=0",
                    "--rw=write",
                    "--bsrange=512-64k",
                    "--bs_unaligned",
                    "--size=16M",
                ],
            ),
        ],
    )
}

#[test]
fn libaio_with_depth_and_two_jobs_verifies() -> Result<()> {
    on_disk(
        rzram_guest::target::target().default_algorithm,
        &[
            (
                "libaio-deep",
                &[
                    "--ioengine=libaio",
                    "--direct=1",
                    "--rw=randwrite",
                    MIXED,
                    "--iodepth=16",
                    "--size=20M",
                    "--offset_increment=20M",
                    "--numjobs=2",
                ],
            ),
            (
                "libaio-mixed",
                &[
                    "--ioengine=libaio",
                    "--direct=1",
                    "--rw=randrw",
                    "--bs=4k",
                    "--iodepth=64",
                    "--size=16M",
                ],
            ),
        ],
    )
}

#[test]
fn io_uring_with_depth_and_fixed_buffers_verifies() -> Result<()> {
    on_disk(
        "zstd",
        &[
            (
                "uring-deep",
                &[
                    "--ioengine=io_uring",
                    "--direct=1",
                    "--rw=randwrite",
                    MIXED,
                    "--iodepth=32",
                    "--size=24M",
                ],
            ),
            (
                "uring-fixed",
                &[
                    "--ioengine=io_uring",
                    "--fixedbufs=1",
                    "--direct=1",
                    "--rw=write",
                    "--bs=128k",
                    "--iodepth=8",
                    "--size=24M",
                ],
            ),
            (
                "uring-1m",
                &[
                    "--ioengine=io_uring",
                    "--direct=1",
                    "--rw=randwrite",
                    "--bs=1m",
                    "--iodepth=2",
                    "--size=24M",
                ],
            ),
        ],
    )
}

#[test]
fn fio_trims_between_writes_and_still_verifies() -> Result<()> {
    on_disk(
        "deflate",
        &[(
            "trims",
            &[
                "--ioengine=psync",
                "--direct=1",
                "--rw=randwrite",
                "--bs=4k",
                "--size=8M",
                "--trim_percentage=20",
                "--trim_backlog=32",
                "--trim_verify_zero=1",
            ],
        )],
    )
}
