// SPDX-License-Identifier: GPL-2.0
//! What the benchmark of codecs works out: what a page costs in the pool, and what became of the targets.

pub mod cost;
pub mod results;
