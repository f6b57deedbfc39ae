// SPDX-License-Identifier: GPL-2.0

//! What the user has chosen for a disk.

use super::Device;
use crate::{
    compress::{
        Algorithm,
        Compressor,
        Params, //
    },
    sys::{
        backing::Backing,
        codec::Dictionary,
        file,
        rwsem::HeldMut, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// How many algorithms a disk can have: one that writes use, with priority 0, and others for recompression.
pub(crate) const PRIORITIES: usize = 4;

/// What the user has chosen.
pub(super) struct Config {
    /// Bytes; 0 as long as the disk is not set up.
    pub(super) disksize: u64,
    algorithms: [Option<Algorithm>; PRIORITIES],
    params: [Params; PRIORITIES],
    /// Where blocks are written back to.
    pub(super) backing: Option<Arc<Backing>>,
    /// Whether they are written back as they are stored.
    pub(super) compressed_writeback: bool,
}

impl Config {
    /// Nothing chosen.
    pub(super) fn new() -> Self {
        Self {
            disksize: 0,
            algorithms: [Some(Algorithm::DEFAULT), None, None, None],
            params: Default::default(),
            backing: None,
            compressed_writeback: false,
        }
    }

    /// Allocates what the algorithms need, by priority. May sleep.
    pub(super) fn compressors(
        &self,
        hotplug: &Arc<crate::compress::Hotplug>,
    ) -> Result<[Option<Compressor>; PRIORITIES]> {
        let mut compressors = [const { None }; PRIORITIES];
        for (compressor, (algorithm, params)) in compressors
            .iter_mut()
            .zip(self.algorithms.iter().zip(&self.params))
        {
            if let Some(algorithm) = *algorithm {
                let new =
                    Compressor::new(algorithm, params, hotplug.clone()).inspect_err(|_| {
                        pr_err!(
                            "Cannot initialise {} compressing backend\n",
                            algorithm.name()
                        );
                    })?;
                *compressor = Some(new);
            }
        }
        Ok(compressors)
    }

    /// The priority that a request names, by number, by algorithm, or both; `first` is the lowest that an algorithm is looked
    /// for at, and what it is if nothing is named.
    ///
    /// `EINVAL` if there is no such priority, or another algorithm there, or none of that name.
    pub(super) fn priority(&self, first: usize, named: Named<'_>) -> Result<usize> {
        let at = |priority: usize| self.algorithms.get(priority).copied().flatten();
        match (named.priority, named.algorithm) {
            (None, None) => Ok(first),
            (Some(number), algorithm) => {
                let priority = usize::try_from(number).map_err(|_| EINVAL)?;
                let known = (first..PRIORITIES).contains(&priority);
                let fits = algorithm.is_none_or(|name| {
                    at(priority).is_some_and(|there| there.name().as_bytes() == name)
                });
                (known && fits).then_some(priority).ok_or(EINVAL)
            }
            (None, Some(name)) => (first..PRIORITIES)
                .find(|priority| at(*priority).is_some_and(|a| a.name().as_bytes() == name))
                .ok_or(EINVAL),
        }
    }

    /// Whether no algorithm has a higher priority than this.
    pub(super) fn is_last(&self, priority: usize) -> bool {
        self.algorithms
            .iter()
            .skip(priority.saturating_add(1))
            .all(Option::is_none)
    }
}

/// How a request says which algorithm it means.
#[derive(Clone, Copy, Default)]
pub(crate) struct Named<'a> {
    pub(crate) priority: Option<i32>,
    pub(crate) algorithm: Option<&'a [u8]>,
}

/// Parameters as they were written.
#[derive(Clone, Copy, Default)]
pub(crate) struct Parameters<'a> {
    pub(crate) level: Option<i32>,
    pub(crate) window_bits: Option<i32>,
    /// Path of the file with the dictionary.
    pub(crate) dictionary: Option<&'a CStr>,
}

fn load(path: &CStr) -> Result<Arc<Dictionary>> {
    let content = file::read_all(path).inspect_err(|e| {
        pr_err!(
            "failed to load dictionary {} (err={})\n",
            path,
            e.to_errno()
        );
    })?;
    if content.is_empty() {
        pr_err!("failed to load dictionary {} (empty file)\n", path);
        return Err(EINVAL);
    }
    Ok(Arc::new(content, GFP_KERNEL)?)
}

impl Device {
    /// The configuration, to change it before the disk is set up: `EBUSY` if it is. May sleep.
    ///
    /// Whoever comes too late does not wait for the lock, which may be long in other hands during a writeback, and does not
    /// have others wait behind him.
    pub(super) fn config_to_set_up(&self) -> Result<HeldMut<'_, Config>> {
        let set_up = |config: &Config| config.disksize != 0;
        if set_up(&self.config.read()) {
            return Err(EBUSY);
        }
        let config = self.config.write();
        if set_up(&config) {
            return Err(EBUSY);
        }
        Ok(config)
    }

    /// The size in bytes, 0 as long as the disk is not set up. May sleep.
    pub(crate) fn disksize(&self) -> u64 {
        self.config.read().disksize
    }

    /// The algorithms that are, or will be, used, by priority. May sleep.
    pub(crate) fn algorithms(&self) -> [Option<Algorithm>; PRIORITIES] {
        self.config.read().algorithms
    }

    /// Chooses the algorithm of a priority, with its parameters unset; `EBUSY` once the disk is set up, `EINVAL` if there is
    /// no such priority. May sleep.
    pub(crate) fn set_algorithm(&self, priority: usize, algorithm: Algorithm) -> Result {
        let mut config = self.config_to_set_up().inspect_err(|_| {
            pr_info!("Can't change algorithm for initialized device\n");
        })?;
        *config.algorithms.get_mut(priority).ok_or(EINVAL)? = Some(algorithm);
        *config.params.get_mut(priority).ok_or(EINVAL)? = Params::default();
        Ok(())
    }

    /// Replaces the parameters of a priority; `EBUSY` once the disk is set up, `EINVAL` if there is no such priority, and what
    /// reading a dictionary says. If it fails, all is as before. May sleep.
    pub(crate) fn set_parameters(&self, named: Named<'_>, parameters: Parameters<'_>) -> Result {
        let mut config = self.config_to_set_up()?;
        let priority = config.priority(0, named)?;
        let params = Params {
            level: parameters.level,
            window_bits: parameters.window_bits,
            dictionary: parameters.dictionary.map(load).transpose()?,
        };
        *config.params.get_mut(priority).ok_or(EINVAL)? = params;
        Ok(())
    }
}
