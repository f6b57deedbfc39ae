// SPDX-License-Identifier: GPL-2.0

//! Plots, as SVG.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{anyhow, Result};
use plotters::prelude::*;
use rzram_cells::{size, Cell};

use crate::native;
use crate::results::{Results, Set};
use crate::tables::PEER;

const SIZE: (u32, u32) = (900, 520);
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x4e, 0x79, 0xa7),
    RGBColor(0xf2, 0x8e, 0x2b),
    RGBColor(0x59, 0xa1, 0x4f),
    RGBColor(0xe1, 0x57, 0x59),
    RGBColor(0x76, 0xb7, 0xb2),
    RGBColor(0x9c, 0x75, 0x5f),
];

/// All plots that the results have figures for.
pub fn all(results: &Results, dir: &Path) -> Result<()> {
    scaling(results, dir)?;
    for name in [
        "icount",
        "same-filled",
        "corpus",
        "iozone-12",
        "fio",
        "iozone",
    ] {
        if let Some(set) = results.sets.iter().find(|set| set.name == name) {
            ratios(set, cells(set), &dir.join(format!("{name}.svg")))?;
        }
    }
    if let Some(set) = results.sets.iter().find(|set| set.name == "native") {
        ratios(set, native::bars(set), &dir.join("native.svg"))?;
    }
    Ok(())
}

fn failed<E: std::fmt::Display>(error: E) -> anyhow::Error {
    anyhow!("drawing: {error}")
}

/// Throughput against CPUs, in virtual time: blocks for each million instructions of time.
fn scaling(results: &Results, dir: &Path) -> Result<()> {
    let mut lines: BTreeMap<(String, String), BTreeMap<u32, f64>> = BTreeMap::new();
    for set in &results.sets {
        if !set.is_scaling() {
            continue;
        }
        for (cell, modules) in set.cells() {
            if cell.codec != "lz4" || cell.request != 16 << 10 {
                continue;
            }
            for (module, time) in modules {
                let threads = f64::from(cell.threads);
                let line = lines.entry((cell.load.clone(), module)).or_default();
                line.insert(cell.threads, threads * 1e6 / time);
            }
        }
    }
    let loads: BTreeSet<String> = lines.keys().map(|(load, _)| load.clone()).collect();
    for load in loads {
        let of_load: Vec<_> = lines
            .iter()
            .filter(|((name, _), _)| *name == load)
            .collect();
        let values = of_load.iter().flat_map(|(_, line)| line.values().copied());
        let highest = values.fold(0.0, f64::max) * 1.1;
        let cpus = of_load.iter().flat_map(|(_, line)| line.keys().copied());
        let most = cpus.max().unwrap_or(1);
        if most < 2 {
            continue;
        }
        let file = dir.join(format!("scaling-{load}.svg"));
        let area = SVGBackend::new(&file, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(
                format!("{load}, lz4, 16 KiB direct I/O, virtual time"),
                ("sans-serif", 20),
            )
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(64)
            .build_cartesian_2d(0u32..most + 1, 0.0..highest)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .x_desc("CPUs, and threads")
            .y_desc("blocks of 4 KiB for each million instructions of time")
            .draw()
            .map_err(failed)?;
        for (((_, module), line), colour) in of_load.iter().zip(COLOURS) {
            let points: Vec<(u32, f64)> = line.iter().map(|(x, y)| (*x, *y)).collect();
            chart
                .draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))
                .map_err(failed)?
                .label(module.clone())
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3))
                });
            chart
                .draw_series(points.iter().map(|p| Circle::new(*p, 4, colour.filled())))
                .map_err(failed)?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.filled())
            .border_style(BLACK)
            .draw()
            .map_err(failed)?;
        area.present().map_err(failed)?;
    }
    Ok(())
}

fn label(cell: &Cell) -> String {
    let data = cell.data.rsplit('/').next().unwrap_or(&cell.data);
    format!(
        "{} {} {data} {}",
        cell.load,
        cell.codec,
        size(u64::from(cell.request))
    )
}

/// How many times as fast as the peer each cell is.
fn cells(set: &Set) -> Vec<(String, f64)> {
    set.cells()
        .into_iter()
        .filter_map(|(cell, modules)| {
            let (peer, ours) = (modules.get(PEER)?, modules.get("rzram")?);
            Some((label(&cell), peer / ours))
        })
        .collect()
}

/// A bar for each of these: how many times as fast as the peer.
fn ratios(set: &Set, bars: Vec<(String, f64)>, file: &Path) -> Result<()> {
    if bars.is_empty() {
        return Ok(());
    }
    let count = bars.len();
    let highest = bars.iter().map(|(_, ratio)| *ratio).fold(1.0, f64::max) * 1.08;
    let height = 100 + 18 * count as u32;
    let area = SVGBackend::new(file, (SIZE.0, height)).into_drawing_area();
    area.fill(&WHITE).map_err(failed)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(
            format!(
                "{}: times as fast as C zram ({})",
                set.name,
                set.meter.unit()
            ),
            ("sans-serif", 20),
        )
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(230)
        .build_cartesian_2d(0.0..highest, (0..count).into_segmented())
        .map_err(failed)?;
    let names: Vec<String> = bars.iter().map(|(name, _)| name.clone()).collect();
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(count)
        .y_label_formatter(&|segment| match segment {
            // There is one more than there are bars.
            SegmentValue::CenterOf(index) if *index < count => names[count - 1 - index].clone(),
            _ => String::new(),
        })
        .draw()
        .map_err(failed)?;
    chart
        .draw_series(bars.iter().enumerate().map(|(index, (_, ratio))| {
            let row = count - 1 - index;
            let colour = if *ratio >= 1.0 {
                COLOURS[2]
            } else {
                COLOURS[1]
            };
            let mut bar = Rectangle::new(
                [
                    (0.0, SegmentValue::Exact(row)),
                    (*ratio, SegmentValue::Exact(row + 1)),
                ],
                colour.filled(),
            );
            bar.set_margin(2, 2, 0, 0);
            bar
        }))
        .map_err(failed)?;
    chart
        .draw_series([PathElement::new(
            [
                (1.0, SegmentValue::Exact(0)),
                (1.0, SegmentValue::Exact(count)),
            ],
            BLACK.stroke_width(1),
        )])
        .map_err(failed)?;
    area.present().map_err(failed)
}
