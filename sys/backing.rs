// SPDX-License-Identifier: GPL-2.0

//! A file to keep blocks in: a block device, or a regular file.
//!
//! It is read and written past the page cache where its file system allows that: keeping what was moved out of memory in
//! other memory would defeat the purpose.
//!
//! C header: [`include/linux/fs.h`](srctree/include/linux/fs.h)

use super::{
    attr::Text,
    page::BLOCK_SIZE, //
};
use core::{
    mem,
    ptr::NonNull, //
};
use kernel::{
    bindings,
    error::{
        from_err_ptr,
        to_result, //
    },
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

const O_RDWR: c_int = bindings::O_RDWR as c_int;
// These differ between architectures; the bindings have the right ones.
const O_LARGEFILE: c_int = bindings::O_LARGEFILE as c_int;
const O_EXCL: c_int = bindings::O_EXCL as c_int;
const O_DIRECT: c_int = bindings::O_DIRECT as c_int;

const S_IFMT: u32 = bindings::S_IFMT;

/// The regular files that blocks are kept in: the kernel opens only block devices exclusively.
#[pin_data]
pub(crate) struct Claims {
    /// Addresses of inodes, each of which an open file keeps where it is.
    #[pin]
    inodes: Mutex<KVec<usize>>,
}

impl Claims {
    /// None as yet. May sleep.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self { inodes <- new_mutex!(KVec::new(), "rzram_files") }),
            GFP_KERNEL,
        )
    }

    /// `EBUSY` if the inode is claimed already.
    fn claim(self: &Arc<Self>, inode: usize) -> Result<Claim> {
        let mut inodes = self.inodes.lock();
        if inodes.contains(&inode) {
            return Err(EBUSY);
        }
        inodes.push(inode, GFP_KERNEL)?;
        Ok(Claim {
            inode,
            among: self.clone(),
        })
    }
}

/// A regular file is nobody else's while this lives.
struct Claim {
    inode: usize,
    among: Arc<Claims>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.among
            .inodes
            .lock()
            .retain(|inode| *inode != self.inode);
    }
}

/// An open file that blocks are kept in.
///
/// # Invariants
///
/// `file` is open for reading and writing, and ours.
pub(crate) struct Backing {
    file: NonNull<bindings::file>,
    blocks: u64,
    /// `None` for a block device, which is opened exclusively.
    claim: Option<Claim>,
}

// SAFETY: An open file may be used from any thread.
unsafe impl Send for Backing {}
// SAFETY: As above: reads and writes give their positions.
unsafe impl Sync for Backing {}

impl Backing {
    /// Opens the file at `path`, exclusively: among all that are in `claims` if it is a regular file. May sleep.
    ///
    /// What opening says; `ENOTBLK` if it is neither a block device nor a regular file, `EINVAL` if it has no room for a
    /// block, `EBUSY` if somebody else has it.
    pub(crate) fn open(path: &CStr, claims: &Arc<Claims>) -> Result<Self> {
        let open = |flags: c_int| {
            // SAFETY: `path` is a C string.
            from_err_ptr(unsafe {
                bindings::filp_open(path.as_char_ptr(), O_RDWR | O_LARGEFILE | O_EXCL | flags, 0)
            })
        };
        let file = match open(O_DIRECT) {
            // A file system that cannot do that.
            Err(e) if e == EINVAL => open(0)?,
            other => other?,
        };
        // INVARIANT: Just opened. From here on it is closed when this is dropped.
        let mut this = Self {
            file: NonNull::new(file).ok_or(EINVAL)?,
            blocks: 0,
            claim: None,
        };
        // SAFETY: The file is open, so it has a mapping, which belongs to an inode.
        let inode = unsafe { (*(*file).f_mapping).host };
        // SAFETY: As above. A copy.
        let mode = unsafe { (*inode).i_mode };
        let kind = u32::from(mode) & S_IFMT;
        if kind != bindings::S_IFBLK && kind != bindings::S_IFREG {
            return Err(ENOTBLK);
        }
        // SAFETY: As above. On 64-bit machines this is how `i_size_read()` reads it.
        let size = unsafe { (&raw const (*inode).i_size).read_volatile() };
        this.blocks = u64::try_from(size)? / BLOCK_SIZE as u64;
        if this.blocks == 0 {
            return Err(EINVAL);
        }
        if kind == bindings::S_IFREG {
            this.claim = Some(claims.claim(inode.addr())?);
        }
        Ok(this)
    }

    /// Whether it is a block device.
    pub(crate) fn is_device(&self) -> bool {
        self.claim.is_none()
    }

    /// How many blocks fit.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Writes the file's path. May sleep.
    pub(crate) fn write_path(&self, text: &mut Text<'_>) -> Result {
        let mut buffer = KVec::from_elem(0u8, bindings::PATH_MAX as usize, GFP_KERNEL)?;
        // SAFETY: By the type invariant; the function writes to the buffer only, and returns a pointer into it.
        let path = from_err_ptr(unsafe {
            bindings::file_path(
                self.file.as_ptr(),
                buffer.as_mut_ptr().cast(),
                bindings::PATH_MAX as c_int,
            )
        })?;
        // SAFETY: The path ends with a NUL, in the buffer.
        let path = unsafe { CStr::from_char_ptr(path) };
        text.write_bytes(path.to_bytes());
        text.write_bytes(b"\n");
        Ok(())
    }

    fn position(block: u64) -> Result<bindings::loff_t> {
        let bytes = block.checked_mul(BLOCK_SIZE as u64).ok_or(EINVAL)?;
        Ok(bindings::loff_t::try_from(bytes)?)
    }

    /// Reads a block to the start of `buffer`, which is a block long at least. May sleep, until the device has done it.
    pub(crate) fn read(&self, block: u64, buffer: &mut [u8]) -> Result {
        let buffer = buffer.get_mut(..BLOCK_SIZE).ok_or(EINVAL)?;
        let mut position = Self::position(block)?;
        // SAFETY: By the type invariant, and the buffer is ours.
        let read = unsafe {
            bindings::kernel_read(
                self.file.as_ptr(),
                buffer.as_mut_ptr().cast(),
                BLOCK_SIZE,
                &mut position,
            )
        };
        Self::whole(read)
    }

    /// Writes a block from the start of `buffer`, which is a block long at least. May sleep, until the device has done it.
    pub(crate) fn write(&self, block: u64, buffer: &[u8]) -> Result {
        let buffer = buffer.get(..BLOCK_SIZE).ok_or(EINVAL)?;
        let mut position = Self::position(block)?;
        // SAFETY: By the type invariant, and the buffer is ours.
        let written = unsafe {
            bindings::kernel_write(
                self.file.as_ptr(),
                buffer.as_ptr().cast(),
                BLOCK_SIZE,
                &mut position,
            )
        };
        Self::whole(written)
    }

    fn whole(done: isize) -> Result {
        if done < 0 {
            // CAST: An errno.
            return to_result(done as c_int);
        }
        if done == BLOCK_SIZE as isize {
            Ok(())
        } else {
            // The file has become shorter, or its file system full.
            Err(EIO)
        }
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        // While the inode cannot be another one yet.
        drop(mem::take(&mut self.claim));
        // SAFETY: By the type invariant; nobody uses it any more.
        unsafe { bindings::filp_close(self.file.as_ptr(), core::ptr::null_mut()) };
    }
}
