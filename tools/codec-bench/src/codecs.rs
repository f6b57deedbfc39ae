// SPDX-License-Identifier: GPL-2.0
//! The codecs, all behind one face.

use anyhow::{bail, Result};
use codec_bench::cost::PAGE;
use std::ffi::{c_int, c_void};

/// `ZSTD_parameters`: those of compression, seven, come first.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct ZstdParams([u32; 10]);

extern "C" {
    fn LZ4_compress_fast(
        src: *const u8,
        dst: *mut u8,
        len: c_int,
        room: c_int,
        acceleration: c_int,
        work: *mut u8,
    ) -> c_int;
    fn LZ4_decompress_safe(src: *const u8, dst: *mut u8, len: c_int, room: c_int) -> c_int;
    fn lzorle1x_1_compress(
        src: *const u8,
        len: usize,
        dst: *mut u8,
        dst_len: *mut usize,
        work: *mut u8,
    ) -> c_int;
    fn lzo1x_decompress_safe(
        src: *const u8,
        len: usize,
        dst: *mut u8,
        dst_len: *mut usize,
    ) -> c_int;
    fn zstd_get_params(level: c_int, size: u64) -> ZstdParams;
    fn zstd_cctx_workspace_bound(params: *const ZstdParams) -> usize;
    fn zstd_init_cctx(work: *mut u8, len: usize) -> *mut c_void;
    fn zstd_compress_cctx(
        cctx: *mut c_void,
        dst: *mut u8,
        room: usize,
        src: *const u8,
        len: usize,
        params: *const ZstdParams,
    ) -> usize;
    fn zstd_is_error(code: usize) -> u32;
    fn zstd_dctx_workspace_bound() -> usize;
    fn zstd_init_dctx(work: *mut u8, len: usize) -> *mut c_void;
    fn zstd_decompress_dctx(
        dctx: *mut c_void,
        dst: *mut u8,
        room: usize,
        src: *const u8,
        len: usize,
    ) -> usize;
    fn wlz_workspace() -> usize;
    fn wlz_encode(workspace: *mut u8, block: *const u8, out: *mut *const u8) -> usize;
    fn wlz_decode(bytes: *const u8, len: usize, block: *mut u8) -> bool;
}

/// What zram takes for zstd by itself.
const ZSTD_LEVEL: c_int = 3;
/// More than any of them makes of a page.
const ROOM: usize = 2 * PAGE;
/// More than LZ4 and LZO work with.
const WORK: usize = 64 << 10;

/// Which codec.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Name {
    /// The kernel's lz4.
    Lz4,
    /// The kernel's lzo-rle.
    LzoRle,
    /// The kernel's zstd, with zram's level.
    Zstd,
    /// The module's own.
    Wlz,
}

impl Name {
    /// As `comp_algorithm` has it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Lz4 => "lz4",
            Self::LzoRle => "lzo-rle",
            Self::Zstd => "zstd",
            Self::Wlz => "wlz",
        }
    }
}

/// A codec with what it works with.
pub struct Codec {
    name: Name,
    work: Vec<u64>,
    work_back: Vec<u64>,
    out: Vec<u8>,
    params: ZstdParams,
    cctx: *mut c_void,
    dctx: *mut c_void,
}

fn words(bytes: usize) -> Vec<u64> {
    vec![0; bytes.div_ceil(8)]
}

impl Codec {
    /// Allocates it.
    pub fn new(name: Name) -> Result<Self> {
        let mut codec = Self {
            name,
            work: words(WORK),
            work_back: Vec::new(),
            out: vec![0; ROOM],
            params: ZstdParams::default(),
            cctx: std::ptr::null_mut(),
            dctx: std::ptr::null_mut(),
        };
        match name {
            Name::Lz4 | Name::LzoRle => {}
            Name::Wlz => {
                // SAFETY: Has no preconditions.
                codec.work = words(unsafe { wlz_workspace() });
            }
            Name::Zstd => {
                // SAFETY: Have no preconditions but a size.
                let (work, back) = unsafe {
                    codec.params = zstd_get_params(ZSTD_LEVEL, PAGE as u64);
                    (
                        zstd_cctx_workspace_bound(&codec.params),
                        zstd_dctx_workspace_bound(),
                    )
                };
                codec.work = words(work);
                codec.work_back = words(back);
                // SAFETY: The memory has the sizes asked for, and stays where it is.
                unsafe {
                    codec.cctx = zstd_init_cctx(codec.work.as_mut_ptr().cast(), work);
                    codec.dctx = zstd_init_dctx(codec.work_back.as_mut_ptr().cast(), back);
                }
                if codec.cctx.is_null() || codec.dctx.is_null() {
                    bail!("zstd does not take its memory");
                }
            }
        }
        Ok(codec)
    }

    /// Compresses a page; what comes of it may be longer.
    #[inline(always)]
    pub fn compress(&mut self, page: &[u8]) -> &[u8] {
        assert_eq!(page.len(), PAGE);
        let (src, dst) = (page.as_ptr(), self.out.as_mut_ptr());
        let work: *mut u8 = self.work.as_mut_ptr().cast();
        let mut len = ROOM;
        match self.name {
            Name::Lz4 => {
                // SAFETY: A page, room for the worst case, and more work memory than it wants.
                let made =
                    unsafe { LZ4_compress_fast(src, dst, PAGE as c_int, ROOM as c_int, 1, work) };
                len = made as usize;
            }
            Name::LzoRle => {
                // SAFETY: As above.
                unsafe { lzorle1x_1_compress(src, PAGE, dst, &mut len, work) };
            }
            Name::Zstd => {
                // SAFETY: As above; the context is that of `new()`.
                len = unsafe { zstd_compress_cctx(self.cctx, dst, ROOM, src, PAGE, &self.params) };
                // SAFETY: Has no preconditions.
                assert_eq!(unsafe { zstd_is_error(len) }, 0);
            }
            Name::Wlz => {
                let mut out = std::ptr::null();
                // SAFETY: A page, and a workspace of its own.
                let len = unsafe { wlz_encode(work, src, &mut out) };
                // SAFETY: What it made, in the workspace.
                return unsafe { std::slice::from_raw_parts(out, len) };
            }
        }
        &self.out[..len]
    }

    /// Decompresses to a page; whether that worked.
    #[inline(always)]
    pub fn decompress(&mut self, bytes: &[u8], page: &mut [u8]) -> bool {
        assert_eq!(page.len(), PAGE);
        let (src, dst) = (bytes.as_ptr(), page.as_mut_ptr());
        let mut len = PAGE;
        // SAFETY: What can be read, and a page; the context is that of `new()`.
        unsafe {
            match self.name {
                Name::Lz4 => {
                    LZ4_decompress_safe(src, dst, bytes.len() as c_int, PAGE as c_int)
                        == PAGE as c_int
                }
                Name::LzoRle => {
                    lzo1x_decompress_safe(src, bytes.len(), dst, &mut len) == 0 && len == PAGE
                }
                Name::Zstd => zstd_decompress_dctx(self.dctx, dst, PAGE, src, bytes.len()) == PAGE,
                Name::Wlz => wlz_decode(src, bytes.len(), dst),
            }
        }
    }
}

/// Whether the kernel's LZ4 makes a page of it.
pub fn is_lz4(bytes: &[u8], page: &mut [u8]) -> bool {
    assert_eq!(page.len(), PAGE);
    // SAFETY: What can be read, and a page.
    let made = unsafe {
        LZ4_decompress_safe(
            bytes.as_ptr(),
            page.as_mut_ptr(),
            bytes.len() as c_int,
            PAGE as c_int,
        )
    };
    made == PAGE as c_int
}
