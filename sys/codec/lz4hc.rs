// SPDX-License-Identifier: GPL-2.0

//! LZ4HC: compresses better than LZ4, and slowly; what it makes is LZ4.
//!
//! Where the kernel has it as a module, it is reached through the module `rzram_lz4hc`, and only while a disk uses it: rzram
//! itself can be loaded without either.
//!
//! C header: [`include/linux/lz4.h`](srctree/include/linux/lz4.h)

use super::{
    lz4,
    workspace,
    Dictionary, //
};
use crate::sys::{
    ffi,
    lz4hc_table::Table,
    page::{
        Dest,
        Source,
        BLOCK_SIZE, //
    }, //
};
use core::ptr::NonNull;
use kernel::{
    bindings,
    prelude::*,
    sync::Arc, //
};

/// The level where none is asked for.
pub(crate) const DEFAULT_LEVEL: i32 = ffi::LZ4HC_DEFAULT_CLEVEL as i32;
/// The levels that the library takes.
pub(crate) const LEVELS: core::ops::RangeInclusive<i32> = 1..=ffi::LZ4HC_MAX_CLEVEL as i32;

/// What `rzram_lz4hc` exports.
const SYMBOL: &CStr = c"rzram_lz4hc_v1";

/// The library, kept loaded.
///
/// # Invariants
///
/// A reference to the module that has the table, which is immutable.
pub(crate) struct Library(NonNull<Table>);

// SAFETY: The table is immutable, and the reference belongs to no thread.
unsafe impl Send for Library {}
// SAFETY: As above.
unsafe impl Sync for Library {}

impl Library {
    /// The library, if its module is loaded.
    pub(crate) fn get() -> Option<Self> {
        // SAFETY: A string. What it returns is NULL or the address of the symbol, whose module it has taken a reference to.
        let table = unsafe { bindings::__symbol_get(SYMBOL.as_char_ptr()) };
        // INVARIANT: The symbol of that name is a `Table`.
        NonNull::new(table.cast()).map(Self)
    }

    /// The library, if need be after loading its module. Sleeps until that is done.
    ///
    /// `EINVAL`, as for an algorithm that is not there, with a line in the log that says what is missing; `ENOMEM`.
    pub(crate) fn load() -> Result<Self> {
        if let Some(library) = Self::get() {
            return Ok(library);
        }
        // SAFETY: A format without arguments.
        let ret = unsafe { bindings::__request_module(true, c"rzram_lz4hc".as_char_ptr()) };
        // Success does not mean that it found something.
        match Self::get() {
            Some(library) => Ok(library),
            None if ret == ENOMEM.to_errno() => Err(ENOMEM),
            None => Err(missing()),
        }
    }

    fn table(&self) -> &Table {
        // SAFETY: By the type invariant.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: By the type invariant, there is a reference to give back, for the symbol of that name.
        unsafe { bindings::__symbol_put(SYMBOL.as_char_ptr()) };
    }
}

fn missing() -> Error {
    pr_err!("lz4hc: load the modules lz4hc_compress and rzram_lz4hc for it first\n");
    EINVAL
}

/// Memory for a stream of the library's.
struct Stream(KVVec<u64>);

impl Stream {
    fn new() -> Result<Self> {
        Ok(Self(workspace(size_of::<ffi::LZ4_streamHC_t>())?))
    }

    fn as_mut_ptr(&mut self) -> *mut ffi::LZ4_streamHC_t {
        self.0.as_mut_ptr().cast()
    }
}

/// How to compress: the same for all encoders and decoders of a disk.
///
/// # Invariants
///
/// `primed`, where it is there, has loaded the dictionary.
pub(crate) struct Setup {
    library: Library,
    level: c_int,
    dictionary: Option<Arc<Dictionary>>,
    primed: Option<Stream>,
}

impl Setup {
    /// Checks nothing but that the library is there; `level` is one of [`LEVELS`]. May sleep.
    pub(crate) fn new(level: i32, dictionary: Option<Arc<Dictionary>>) -> Result<Self> {
        let library = Library::get().ok_or_else(missing)?;
        let primed = match &dictionary {
            None => None,
            Some(dictionary) => {
                let mut stream = Stream::new()?;
                let len = c_int::try_from(dictionary.len())?;
                let table = library.table();
                // SAFETY: The stream is as large as the library wants it.
                unsafe { (table.reset)(stream.as_mut_ptr(), level) };
                // SAFETY: The stream is set up, and the dictionary is readable. The stream keeps its address; both are kept
                // by the result.
                let loaded = unsafe {
                    (table.load_dictionary)(stream.as_mut_ptr(), dictionary.as_ptr().cast(), len)
                };
                // Only the last 64 KiB can be used; C zram fails on longer ones at the first write.
                if loaded != len {
                    pr_err!(
                        "lz4hc: takes a dictionary of up to 64 KiB, not of {} bytes\n",
                        len
                    );
                    return Err(EINVAL);
                }
                Some(stream)
            }
        };
        // INVARIANT: As just done.
        Ok(Self {
            library,
            level,
            dictionary,
            primed,
        })
    }

    /// Decompresses `src`, which makes exactly one block: `EINVAL` if it does not.
    pub(crate) fn decompress(&self, src: &[u8], dst: Dest<'_>) -> Result {
        lz4::decompress(src, dst, self.dictionary.as_deref())
    }
}

/// State for compressing: work memory, or a stream that has the dictionary before its start. Both are as large.
pub(crate) struct Encoder(Stream);

impl Encoder {
    /// Allocates the state. May sleep.
    pub(crate) fn new(_setup: &Setup) -> Result<Self> {
        const { assert!(size_of::<ffi::LZ4_streamHC_t>() >= ffi::RZRAM_LZ4HC_MEM_COMPRESS) };
        Ok(Self(Stream::new()?))
    }

    /// Bytes that the state takes.
    pub(crate) fn bytes(&self) -> u64 {
        super::bytes(&self.0 .0)
    }

    /// Compresses a block into `dst`, and returns how many bytes that took; `EINVAL` if it does not fit.
    pub(crate) fn compress(
        &mut self,
        setup: &Setup,
        src: Source<'_>,
        dst: &mut [u8],
    ) -> Result<usize> {
        let Self(stream) = self;
        let table = setup.library.table();
        let room = c_int::try_from(dst.len())?;
        let (from, to) = (src.as_ptr().cast(), dst.as_mut_ptr().cast());
        let len = match &setup.primed {
            // SAFETY: `src` is a readable block; the library writes no more than it is told that `dst` has; the work memory
            // has the size that it wants.
            None => unsafe {
                (table.compress)(
                    from,
                    to,
                    BLOCK_SIZE as c_int,
                    room,
                    setup.level,
                    stream.as_mut_ptr().cast(),
                )
            },
            Some(primed) => {
                // A stream is plain data. Each block starts anew, behind the dictionary.
                super::copy(&mut stream.0, &primed.0);
                // SAFETY: As above; the stream refers to the dictionary, which `setup` keeps.
                unsafe {
                    (table.compress_continue)(
                        stream.as_mut_ptr(),
                        from,
                        to,
                        BLOCK_SIZE as c_int,
                        room,
                    )
                }
            }
        };
        super::lz4_length(len)
    }
}
