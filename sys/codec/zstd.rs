// SPDX-License-Identifier: GPL-2.0

//! Zstandard.
//!
//! C header: [`include/linux/zstd.h`](srctree/include/linux/zstd.h)

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
use core::{
    cell::Cell,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    bindings,
    prelude::*,
    sync::Arc, //
};

/// The level that the library takes where none is asked for.
pub(crate) fn default_level() -> i32 {
    // SAFETY: No requirements.
    unsafe { ffi::zstd_default_clevel() }
}

/// The levels that the library knows.
pub(crate) fn levels() -> core::ops::RangeInclusive<i32> {
    // SAFETY: No requirements.
    unsafe { ffi::zstd_min_clevel()..=ffi::zstd_max_clevel() }
}

/// # Safety
///
/// Called by the library; `opaque` is NULL, or a live `Cell<bool>` of this thread's, which is set if there is no memory.
unsafe extern "C" fn allocate(opaque: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: No requirements. May run while a block is compressed, hence no I/O.
    let address = unsafe {
        bindings::kvrealloc_node_align(
            ptr::null(),
            size,
            align_of::<u64>() as c_ulong,
            ffi::RZRAM_GFP_CODEC,
            bindings::NUMA_NO_NODE,
        )
    };
    // SAFETY: By the safety requirements of this function.
    if let (true, Some(refused)) = (address.is_null(), unsafe {
        opaque.cast::<Cell<bool>>().as_ref()
    }) {
        refused.set(true);
    }
    address
}

/// # Safety
///
/// Called by the library with what [`allocate`] gave it.
unsafe extern "C" fn free(_opaque: *mut c_void, address: *mut c_void) {
    // SAFETY: By the safety requirements of this function.
    unsafe { bindings::kvfree(address) };
}

fn memory() -> ffi::zstd_custom_mem {
    ffi::zstd_custom_mem {
        customAlloc: Some(allocate),
        customFree: Some(free),
        opaque: ptr::null_mut(),
    }
}

/// A dictionary, digested for either direction.
///
/// # Invariants
///
/// Both digests are live, and refer to `_content`.
struct Digest {
    compress: NonNull<ffi::zstd_cdict>,
    decompress: NonNull<ffi::zstd_ddict>,
    _content: Arc<Dictionary>,
}

impl Digest {
    fn new(level: i32, content: Arc<Dictionary>) -> Result<Self> {
        let (data, len) = (content.as_ptr().cast(), content.len());
        // SAFETY: Any level is allowed.
        let parameters = unsafe { ffi::zstd_get_cparams(level, BLOCK_SIZE as u64, len) };
        // The library only says that it failed. The digests keep the address, to pass it to `free()`, which does not look.
        let refused = Cell::new(false);
        let memory = || ffi::zstd_custom_mem {
            opaque: (&raw const refused).cast_mut().cast(),
            ..memory()
        };
        let failed = || if refused.get() { ENOMEM } else { EINVAL };
        // SAFETY: The dictionary is readable, and is kept as long as the digest, for which nothing is allocated later.
        let compress =
            unsafe { ffi::zstd_create_cdict_byreference(data, len, parameters, memory()) };
        let compress = NonNull::new(compress).ok_or_else(failed)?;
        // SAFETY: As above.
        let decompress = unsafe { ffi::zstd_create_ddict_byreference(data, len, memory()) };
        let Some(decompress) = NonNull::new(decompress) else {
            // SAFETY: Made above.
            unsafe { ffi::zstd_free_cdict(compress.as_ptr()) };
            return Err(failed());
        };
        // INVARIANT: As just made.
        Ok(Self {
            compress,
            decompress,
            _content: content,
        })
    }
}

impl Drop for Digest {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe {
            ffi::zstd_free_cdict(self.compress.as_ptr());
            ffi::zstd_free_ddict(self.decompress.as_ptr());
        }
    }
}

/// How to compress: the same for all encoders and decoders of a disk.
pub(crate) struct Setup {
    parameters: ffi::zstd_parameters,
    digest: Option<Digest>,
}

// SAFETY: The digests are not changed once they are made.
unsafe impl Send for Setup {}
// SAFETY: As above.
unsafe impl Sync for Setup {}

impl Setup {
    /// With one of the [`levels`]. May sleep.
    pub(crate) fn new(level: i32, dictionary: Option<Arc<Dictionary>>) -> Result<Self> {
        let digest = match dictionary {
            Some(content) => Some(Digest::new(level, content)?),
            None => None,
        };
        Ok(Self {
            // SAFETY: Any level is allowed.
            parameters: unsafe { ffi::zstd_get_params(level, BLOCK_SIZE as u64) },
            digest,
        })
    }
}

/// State for compressing.
///
/// # Invariants
///
/// `context` lies in `memory`, or has memory of its own where there is none.
pub(crate) struct Encoder {
    context: NonNull<ffi::zstd_cctx>,
    memory: Option<KVVec<u64>>,
}

// SAFETY: The context is plain memory that this object owns.
unsafe impl Send for Encoder {}

impl Encoder {
    /// Allocates the state. May sleep.
    pub(crate) fn new(setup: &Setup) -> Result<Self> {
        if setup.digest.is_some() {
            // SAFETY: The functions that it is given fit.
            let context = unsafe { ffi::zstd_create_cctx_advanced(memory()) };
            return Ok(Self {
                context: NonNull::new(context).ok_or(ENOMEM)?,
                memory: None,
            });
        }
        // SAFETY: The parameters are initialised.
        let bytes = unsafe { ffi::zstd_cctx_workspace_bound(&setup.parameters.cParams) };
        let mut memory = workspace(bytes)?;
        // SAFETY: The memory is as large as the library wants, aligned to 8, and stays where it is when the vector moves.
        let context = unsafe { ffi::zstd_init_cctx(memory.as_mut_ptr().cast(), bytes) };
        Ok(Self {
            context: NonNull::new(context).ok_or(EINVAL)?,
            memory: Some(memory),
        })
    }

    /// Bytes that the state takes; 0 where the library has allocated it itself.
    pub(crate) fn bytes(&self) -> u64 {
        self.memory.as_ref().map_or(0, super::bytes)
    }

    /// Compresses a block into `dst`, and returns how many bytes that took; `EINVAL` if it does not fit.
    #[inline]
    pub(crate) fn compress(
        &mut self,
        setup: &Setup,
        src: Source<'_>,
        dst: &mut [u8],
    ) -> Result<usize> {
        let context = self.context.as_ptr();
        let (to, room) = (dst.as_mut_ptr().cast(), dst.len());
        let from = src.as_ptr().cast();
        let ret = match &setup.digest {
            // SAFETY: By the type invariant; `src` is a readable block, and the library writes no more than `dst` has.
            None => unsafe {
                ffi::zstd_compress_cctx(context, to, room, from, BLOCK_SIZE, &setup.parameters)
            },
            // SAFETY: As above.
            Some(digest) => unsafe {
                let dictionary = digest.compress.as_ptr();
                ffi::zstd_compress_using_cdict(context, to, room, from, BLOCK_SIZE, dictionary)
            },
        };
        // SAFETY: No requirements.
        if unsafe { ffi::zstd_is_error(ret) } == 0 {
            Ok(ret)
        } else {
            Err(EINVAL)
        }
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        if self.memory.is_none() {
            // SAFETY: By the type invariant.
            unsafe { ffi::zstd_free_cctx(self.context.as_ptr()) };
        }
    }
}

/// State for decompressing.
///
/// # Invariants
///
/// `context` lies in `memory`, or has memory of its own where there is none.
pub(crate) struct Decoder {
    context: NonNull<ffi::zstd_dctx>,
    memory: Option<KVVec<u64>>,
}

// SAFETY: The context is plain memory that this object owns.
unsafe impl Send for Decoder {}

impl Decoder {
    /// Allocates the state. May sleep.
    pub(crate) fn new(setup: &Setup) -> Result<Self> {
        if setup.digest.is_some() {
            // SAFETY: The functions that it is given fit.
            let context = unsafe { ffi::zstd_create_dctx_advanced(memory()) };
            return Ok(Self {
                context: NonNull::new(context).ok_or(ENOMEM)?,
                memory: None,
            });
        }
        // SAFETY: No requirements.
        let bytes = unsafe { ffi::zstd_dctx_workspace_bound() };
        let mut memory = workspace(bytes)?;
        // SAFETY: As in `Encoder::new()`.
        let context = unsafe { ffi::zstd_init_dctx(memory.as_mut_ptr().cast(), bytes) };
        Ok(Self {
            context: NonNull::new(context).ok_or(EINVAL)?,
            memory: Some(memory),
        })
    }

    /// Bytes that the state takes; 0 where the library has allocated it itself.
    pub(crate) fn bytes(&self) -> u64 {
        self.memory.as_ref().map_or(0, super::bytes)
    }

    /// Decompresses `src`, which makes exactly one block: `EINVAL` if it does not.
    #[inline]
    pub(crate) fn decompress(&mut self, setup: &Setup, src: &[u8], mut dst: Dest<'_>) -> Result {
        let context = self.context.as_ptr();
        let to = dst.as_mut_ptr().cast();
        let (from, len) = (src.as_ptr().cast(), src.len());
        let made = match &setup.digest {
            // SAFETY: By the type invariant; `src` is readable, and `dst` is a writable block.
            None => unsafe { ffi::zstd_decompress_dctx(context, to, BLOCK_SIZE, from, len) },
            // SAFETY: As above.
            Some(digest) => unsafe {
                let dictionary = digest.decompress.as_ptr();
                ffi::zstd_decompress_using_ddict(context, to, BLOCK_SIZE, from, len, dictionary)
            },
        };
        if made == BLOCK_SIZE {
            Ok(())
        } else {
            Err(EINVAL)
        }
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        if self.memory.is_none() {
            // SAFETY: By the type invariant.
            unsafe { ffi::zstd_free_dctx(self.context.as_ptr()) };
        }
    }
}
