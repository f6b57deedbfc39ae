// SPDX-License-Identifier: GPL-2.0
//! Whether every page comes back, with nothing but a fault around it, and is taken by the kernel's LZ4 where it is in its
//! format.

use crate::{
    codecs::{self, Codec, Name},
    corpus::Pages,
};
use anyhow::{bail, Result};
use codec_bench::cost::PAGE;
use nix::sys::mman::{mmap_anonymous, mprotect, MapFlags, ProtFlags};
use std::num::NonZeroUsize;

/// Memory with pages around it that cannot be touched.
struct Guarded(&'static mut [u8]);

impl Guarded {
    fn new(pages: usize) -> Result<Self> {
        let len = NonZeroUsize::MIN.saturating_add((pages + 2) * PAGE - 1);
        let inside = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: New memory, of which only the part that is handed out is ever touched; it is never unmapped.
        unsafe {
            let all = mmap_anonymous(None, len, ProtFlags::PROT_NONE, MapFlags::MAP_PRIVATE)?;
            let start = all.byte_add(PAGE);
            mprotect(start, pages * PAGE, inside)?;
            Ok(Self(std::slice::from_raw_parts_mut(
                start.cast().as_ptr(),
                pages * PAGE,
            )))
        }
    }
}

/// The last byte of what is stored in LZ4's format, as compress/wlz/choose.rs has it.
const SEQUENCES: u8 = 2;

/// Checks all pages of a kind, and returns how many were stored in which form.
pub fn run(kind: &str, pages: &Pages) -> Result<[usize; 3]> {
    let mut codec = Codec::new(Name::Wlz)?;
    let (source, stored, back) = (Guarded::new(1)?, Guarded::new(2)?, Guarded::new(1)?);
    let mut forms = [0; 3];
    for index in 0..pages.len() {
        let fault = |what: &str| anyhow::anyhow!("{kind}: page {index} {what}");
        source.0.copy_from_slice(pages.page(index));
        let bytes = codec.compress(source.0).to_vec();
        // At the end of its memory, so that nothing can be read behind it.
        let at = stored.0.len() - bytes.len();
        stored.0[at..].copy_from_slice(&bytes);
        back.0.fill(0x5a);
        if !codec.decompress(&stored.0[at..], back.0) || *back.0 != *source.0 {
            return Err(fault("does not come back"));
        }
        let Some((form, rest)) = bytes.split_last() else {
            return Err(fault("became nothing"));
        };
        if *form == SEQUENCES {
            back.0.fill(0x5a);
            if !codecs::is_lz4(rest, back.0) || *back.0 != *source.0 {
                return Err(fault("is no LZ4"));
            }
        }
        match forms.get_mut(usize::from(*form)) {
            Some(count) => *count += 1,
            None => bail!(fault("has no form")),
        }
        // And at its start.
        stored.0[..bytes.len()].copy_from_slice(&bytes);
        if !codec.decompress(&stored.0[..bytes.len()], back.0) || *back.0 != *source.0 {
            return Err(fault("does not come back from the start of memory"));
        }
    }
    Ok(forms)
}
