// SPDX-License-Identifier: GPL-2.0
//! Writing cpio archives in the "newc" format, which the kernel unpacks at boot.

use anyhow::{Context, Result};
use std::io::{self, Write};

/// An archive being written.
pub struct Archive<W: Write> {
    out: W,
    inode: u32,
}

impl<W: Write> Archive<W> {
    /// Starts an archive.
    pub fn new(out: W) -> Self {
        Self { out, inode: 0 }
    }

    /// Adds a directory.
    pub fn dir(&mut self, path: &str) -> Result<()> {
        self.entry(path, 0o040_755, &[])
    }

    /// Adds a file with its content.
    pub fn file(&mut self, path: &str, executable: bool, data: &[u8]) -> Result<()> {
        self.entry(path, if executable { 0o100_755 } else { 0o100_644 }, data)
    }

    /// Writes the trailer and gives the writer back.
    pub fn finish(mut self) -> Result<W> {
        self.entry("TRAILER!!!", 0, &[])?;
        Ok(self.out)
    }

    fn entry(&mut self, path: &str, mode: u32, data: &[u8]) -> Result<()> {
        self.inode += 1;
        let size = u32::try_from(data.len())
            .with_context(|| format!("{path} is too large for a guest"))?;
        let name = u32::try_from(path.len() + 1)?;
        let links = 1;
        write!(self.out, "070701")?;
        // inode, mode, uid, gid, links, mtime, size, device and special device (two numbers each), length of name, checksum
        for field in [self.inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name, 0] {
            write!(self.out, "{field:08X}")?;
        }
        self.out.write_all(path.as_bytes())?;
        self.out.write_all(&[0])?;
        pad(&mut self.out, 110 + path.len() + 1)?;
        self.out.write_all(data)?;
        pad(&mut self.out, data.len())?;
        Ok(())
    }
}

fn pad(out: &mut impl Write, written: usize) -> io::Result<()> {
    out.write_all(&[0; 3][..written.wrapping_neg() % 4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned() -> Result<()> {
        let mut archive = Archive::new(Vec::new());
        archive.dir("a")?;
        archive.file("a/bc", true, b"12345")?;
        let bytes = archive.finish()?;
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(&bytes[..6], b"070701");
        assert_eq!(&bytes[112..118], b"070701");
        Ok(())
    }
}
