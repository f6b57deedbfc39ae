// SPDX-License-Identifier: GPL-2.0

//! What is compared, with what, and in which order.

use anyhow::Result;
use clap::Args;
use rzram_cells::{Cell, Run};

use crate::disk::Disk;

/// Modules, and how often each has its turn.
#[derive(Args)]
pub struct Peers {
    /// Modules, in the order in which they take turns
    #[arg(long, value_delimiter = ',', default_value = "zram,rzram")]
    modules: Vec<String>,
    /// How often everything is measured
    #[arg(long, default_value_t = 2)]
    repeat: u32,
}

impl Peers {
    /// Their disks, in the order in which they are to be measured: each is the first one as often as the others.
    pub fn turns(&self) -> Result<Vec<Disk>> {
        let mut turns = Vec::new();
        for round in 0..self.repeat {
            let mut round_of = self.disks()?;
            if round % 2 == 1 {
                round_of.reverse();
            }
            turns.append(&mut round_of);
        }
        Ok(turns)
    }

    fn disks(&self) -> Result<Vec<Disk>> {
        self.modules
            .iter()
            .map(|module| Disk::new(module))
            .collect()
    }
}

/// Algorithms and data: all combinations.
#[derive(Args)]
pub struct Matrix {
    /// Algorithms; those that a module does not have are left out for all. wlz/lz4 is rzram's wlz beside zram's lz4
    #[arg(long, value_delimiter = ',', default_value = "lz4")]
    codecs: Vec<String>,
    /// What blocks are made of: zero, byte, word, half, text, records, random, file:PATH
    #[arg(long, value_delimiter = ',', default_value = "half")]
    pub data: Vec<String>,
}

impl Matrix {
    /// The algorithms that all of the modules have.
    pub fn codecs(&self, peers: &Peers) -> Result<Vec<&str>> {
        let disks = peers.disks()?;
        let mut common = Vec::new();
        for codec in &self.codecs {
            let missing = disks.iter().map(|disk| Ok(!disk.has(codec)?));
            if missing.collect::<Result<Vec<_>>>()?.contains(&true) {
                eprintln!("rzram-load: {codec}: not there in all modules, left out");
            } else {
                common.push(codec.as_str());
            }
        }
        Ok(common)
    }
}

/// Prints what came out of a cell on a disk.
pub fn print(disk: &Disk, cell: Cell, blocks: u64, ns: u64, figures: &[(&str, u64)]) {
    let named = figures.iter();
    let run = Run {
        cell,
        module: disk.module.clone(),
        blocks,
        ns,
        virtual_time: None,
        figures: named
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect(),
    };
    println!("{}", run.to_line());
}
