// SPDX-License-Identifier: GPL-2.0

//! What is in each block, for those who want to know: `block_state` in debugfs.
//!
//! The offset in the file is the number of a block, so that reading can go on anywhere; only blocks that are stored have a
//! line. A read gives whole lines: one that is too short for any is `EINVAL`.

use crate::{
    device::RzDisk,
    sys::attr::Text,
    table::Info, //
};
use core::fmt::Write;
use kernel::{
    debugfs::{
        BinaryWriter,
        Dir,
        File, //
    },
    fs::file::Offset,
    prelude::*,
    str::CString,
    sync::Arc,
    uaccess::UserSliceWriter, //
};

const NANOSECONDS: u64 = 1_000_000_000;

/// A line of the file: the block's number, when it was accessed, in seconds since boot, and its flags.
struct Line {
    index: u64,
    accessed: u64,
    info: Info,
}

impl Line {
    fn write(&self, out: &mut impl Write) -> core::fmt::Result {
        let flag = |set: bool, letter: char| if set { letter } else { '.' };
        writeln!(
            out,
            "{:12} {:12}.{:06} {}{}{}{}{}{}",
            self.index,
            self.accessed / NANOSECONDS,
            self.accessed % NANOSECONDS / 1000,
            flag(self.info.same, 's'),
            flag(self.info.elsewhere, 'w'),
            flag(self.info.huge, 'h'),
            flag(self.info.idle, 'i'),
            flag(self.info.priority != 0, 'r'),
            flag(self.info.incompressible, 'n'),
        )
    }
}

/// The content of a disk's `block_state`.
pub(crate) struct BlockState(Arc<RzDisk>);

impl BinaryWriter for BlockState {
    fn write_to_slice(&self, writer: &mut UserSliceWriter, offset: &mut Offset) -> Result<usize> {
        let first = u64::try_from(*offset).map_err(|_| EINVAL)?;
        let mut written = 0usize;
        self.0.for_each_stored(first, |index, accessed, info| {
            let mut line = [0; 64];
            let mut text = Text::in_buffer(&mut line);
            Line {
                index,
                accessed,
                info,
            }
            .write(&mut text)?;
            let text = text.as_bytes();
            if text.len() > writer.len() {
                // Nothing read would be the end of the file.
                return if written == 0 { Err(EINVAL) } else { Ok(false) };
            }
            writer.write_slice(text)?;
            written = written.saturating_add(text.len());
            *offset = Offset::try_from(index.saturating_add(1))?;
            Ok(true)
        })?;
        Ok(written)
    }
}

/// The folder of a disk, which goes when this is dropped.
pub(crate) struct Folder {
    _block_state: Pin<KBox<File<BlockState>>>,
    _folder: Dir,
}

impl Folder {
    /// Makes the folder of `disk` in `parent`. May sleep.
    pub(crate) fn new(parent: &Dir, disk: Arc<RzDisk>) -> Result<Self> {
        let folder = parent.subdir(&CString::try_from(disk.name())?);
        let block_state = KBox::pin_init(
            folder.read_binary_file(c"block_state", BlockState(disk)),
            GFP_KERNEL,
        )?;
        Ok(Self {
            _block_state: block_state,
            _folder: folder,
        })
    }
}
