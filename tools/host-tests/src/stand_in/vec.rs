// SPDX-License-Identifier: GPL-2.0

//! Vectors whose allocations can fail.

use super::prelude::{Error, Result};
use std::ops::{Deref, DerefMut};

/// Flags of an allocation; nothing depends on them here.
#[derive(Clone, Copy)]
pub(crate) struct Flags;

impl std::ops::BitOr for Flags {
    type Output = Self;

    fn bitor(self, _: Self) -> Self {
        Self
    }
}

pub(crate) const GFP_KERNEL: Flags = Flags;
pub(crate) const __GFP_NOWARN: Flags = Flags;

pub(crate) struct AllocError;

impl From<AllocError> for Error {
    fn from(_: AllocError) -> Self {
        super::prelude::ENOMEM
    }
}

pub(crate) struct KVVec<T>(Vec<T>);

impl<T> KVVec<T> {
    pub(crate) fn with_capacity(capacity: usize, _: Flags) -> Result<Self, AllocError> {
        let mut inner = Vec::new();
        inner.try_reserve_exact(capacity).map_err(|_| AllocError)?;
        Ok(Self(inner))
    }

    pub(crate) fn from_elem(value: T, len: usize, flags: Flags) -> Result<Self, AllocError>
    where
        T: Clone,
    {
        let mut vec = Self::with_capacity(len, flags)?;
        vec.0.resize(len, value);
        Ok(vec)
    }

    pub(crate) fn push(&mut self, value: T, _: Flags) -> Result<(), AllocError> {
        self.0.try_reserve(1).map_err(|_| AllocError)?;
        self.0.push(value);
        Ok(())
    }

    pub(crate) fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

impl<T> Deref for KVVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for KVVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<'a, T> IntoIterator for &'a mut KVVec<T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter_mut()
    }
}
