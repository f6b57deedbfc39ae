// SPDX-License-Identifier: GPL-2.0

//! LZ4.
//!
//! C header: [`include/linux/lz4.h`](srctree/include/linux/lz4.h)

use super::{
    workspace,
    Dictionary, //
};
use crate::sys::{
    ffi,
    page::{
        Dest,
        Source,
        BLOCK_SIZE, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Memory for a stream of the library's. Too large for the stack.
pub(crate) struct Stream(KVVec<u64>);

impl Stream {
    fn new() -> Result<Self> {
        Ok(Self(workspace(size_of::<ffi::LZ4_stream_t>())?))
    }

    fn as_mut_ptr(&mut self) -> *mut ffi::LZ4_stream_t {
        self.0.as_mut_ptr().cast()
    }
}

/// How to compress: the same for all encoders and decoders of a disk.
///
/// # Invariants
///
/// `primed`, where it is there, has loaded the dictionary.
pub(crate) struct Setup {
    acceleration: c_int,
    dictionary: Option<Arc<Dictionary>>,
    primed: Option<Stream>,
}

impl Setup {
    /// A higher `acceleration` (1 and up) compresses faster and less. May sleep.
    pub(crate) fn new(acceleration: i32, dictionary: Option<Arc<Dictionary>>) -> Result<Self> {
        let primed = match &dictionary {
            None => None,
            Some(dictionary) => {
                let mut stream = Stream::new()?;
                let len = c_int::try_from(dictionary.len())?;
                // SAFETY: The stream is zeroed, as the library wants it, and the dictionary is readable. The stream keeps
                // its address; both are kept by the result.
                let loaded = unsafe {
                    ffi::LZ4_loadDict(stream.as_mut_ptr(), dictionary.as_ptr().cast(), len)
                };
                // Only the last 64 KiB can be used; C zram does not take more than that either.
                if loaded != len {
                    pr_err!(
                        "lz4: takes a dictionary of 8 bytes to 64 KiB, not of {} bytes\n",
                        len
                    );
                    return Err(EINVAL);
                }
                Some(stream)
            }
        };
        // INVARIANT: As just done.
        Ok(Self {
            acceleration,
            dictionary,
            primed,
        })
    }

    /// Decompresses `src`, which makes exactly one block: `EINVAL` if it does not.
    #[inline]
    pub(crate) fn decompress(&self, src: &[u8], dst: Dest<'_>) -> Result {
        decompress(src, dst, self.dictionary.as_deref())
    }
}

/// Decompresses `src`, which makes exactly one block: `EINVAL` if it does not.
#[inline]
pub(super) fn decompress(src: &[u8], mut dst: Dest<'_>, dictionary: Option<&Dictionary>) -> Result {
    let len = c_int::try_from(src.len())?;
    let (from, to) = (src.as_ptr().cast(), dst.as_mut_ptr().cast());
    let made = match dictionary {
        // SAFETY: `src` is readable, and `dst` is a writable block.
        None => unsafe { ffi::LZ4_decompress_safe(from, to, len, BLOCK_SIZE as c_int) },
        // SAFETY: As above, and the dictionary is readable.
        Some(dictionary) => unsafe {
            ffi::LZ4_decompress_safe_usingDict(
                from,
                to,
                len,
                BLOCK_SIZE as c_int,
                dictionary.as_ptr().cast(),
                c_int::try_from(dictionary.len())?,
            )
        },
    };
    if made == BLOCK_SIZE as c_int {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// State for compressing.
pub(crate) enum Encoder {
    /// Work memory.
    Plain(KVVec<u64>),
    /// A stream that has the dictionary before its start.
    Primed(Stream),
}

impl Encoder {
    /// Allocates the state. May sleep.
    pub(crate) fn new(setup: &Setup) -> Result<Self> {
        Ok(match &setup.primed {
            None => Self::Plain(workspace(ffi::RZRAM_LZ4_MEM_COMPRESS)?),
            Some(_) => Self::Primed(Stream::new()?),
        })
    }

    /// Bytes that the state takes.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Plain(memory) | Self::Primed(Stream(memory)) => super::bytes(memory),
        }
    }

    /// Compresses a block into `dst`, and returns how many bytes that took; `EINVAL` if it does not fit.
    #[inline]
    pub(crate) fn compress(
        &mut self,
        setup: &Setup,
        src: Source<'_>,
        dst: &mut [u8],
    ) -> Result<usize> {
        let room = c_int::try_from(dst.len())?;
        let (from, to) = (src.as_ptr().cast(), dst.as_mut_ptr().cast());
        let len = match (self, &setup.primed) {
            // SAFETY: `src` is a readable block; the library writes no more than it is told that `dst` has, or, with room for
            // the worst case, uses up as much input as it makes output but for that margin, whatever it reads; the work
            // memory has the size that it wants.
            (Self::Plain(memory), _) => unsafe {
                ffi::LZ4_compress_fast(
                    from,
                    to,
                    BLOCK_SIZE as c_int,
                    room,
                    setup.acceleration,
                    memory.as_mut_ptr().cast(),
                )
            },
            (Self::Primed(stream), Some(primed)) => {
                // A stream is plain data. Each block starts anew, behind the dictionary.
                super::copy(&mut stream.0, &primed.0);
                // SAFETY: As above; the stream refers to the dictionary, which `setup` keeps.
                unsafe {
                    ffi::LZ4_compress_fast_continue(
                        stream.as_mut_ptr(),
                        from,
                        to,
                        BLOCK_SIZE as c_int,
                        room,
                        setup.acceleration,
                    )
                }
            }
            (Self::Primed(_), None) => return Err(EINVAL),
        };
        super::lz4_length(len)
    }
}
