// SPDX-License-Identifier: GPL-2.0
//! A plot of time against size, a point for each codec and kind.

use anyhow::{anyhow, Result};
use codec_bench::results::Pair;
use plotters::prelude::*;
use std::path::Path;

const SIZE: (u32, u32) = (900, 560);
const COLOURS: [RGBColor; 4] = [
    RGBColor(0x4e, 0x79, 0xa7),
    RGBColor(0xf2, 0x8e, 0x2b),
    RGBColor(0x59, 0xa1, 0x4f),
    RGBColor(0xe1, 0x57, 0x59),
];

fn failed<E: std::fmt::Display>(error: E) -> anyhow::Error {
    anyhow!("drawing: {error}")
}

/// Writes it.
pub fn write(pairs: &[Pair], file: &Path) -> Result<()> {
    let point = |pair: &Pair| (pair.memory(), pair.time());
    let most = |of: &dyn Fn(&Pair) -> f64| pairs.iter().map(of).fold(1.0, f64::max);
    let (width, height) = (most(&|pair| pair.memory()), most(&|pair| pair.time()));
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    area.fill(&WHITE).map_err(failed)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(
            "Time and size, both by those of the kernel's lz4",
            ("sans-serif", 20),
        )
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(56)
        .build_cartesian_2d(0.4..width + 0.1, (0.2..height * 1.2).log_scale())
        .map_err(failed)?;
    chart
        .configure_mesh()
        .x_desc("memory for a page, by zsmalloc's classes")
        .y_desc("time to compress a page")
        .draw()
        .map_err(failed)?;
    let mut codecs: Vec<&str> = pairs.iter().map(|pair| pair.codec.as_str()).collect();
    codecs.sort_unstable();
    codecs.dedup();
    for (codec, colour) in codecs.into_iter().zip(COLOURS) {
        let of: Vec<&Pair> = pairs.iter().filter(|pair| pair.codec == codec).collect();
        chart
            .draw_series(
                of.iter()
                    .map(|pair| Circle::new(point(pair), 4, colour.filled())),
            )
            .map_err(failed)?
            .label(codec)
            .legend(move |(x, y)| Circle::new((x + 9, y), 4, colour.filled()));
        chart
            .draw_series(of.iter().map(|pair| {
                EmptyElement::at(point(pair))
                    + Text::new(
                        pair.kind.clone(),
                        (6, -5),
                        ("sans-serif", 11).into_font().color(&colour),
                    )
            }))
            .map_err(failed)?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.filled())
        .border_style(BLACK)
        .draw()
        .map_err(failed)?;
    area.present().map_err(failed)
}
