//! Writes files with holes instead of zeros.

use crate::disk::DiskFile;
use std::io;

/// The smallest unit that a file system stores separately.
const HOLE_BYTES: usize = 4096;
const ZEROS: [u8; HOLE_BYTES] = [0; HOLE_BYTES];

/// A new file in which pages of zeros are not written.
pub(crate) struct Sparse<'f> {
    file: &'f dyn DiskFile,
    /// The end of the last byte that was written.
    end: u64,
}

impl<'f> Sparse<'f> {
    pub(crate) fn new(file: &'f dyn DiskFile) -> Sparse<'f> {
        Sparse { file, end: 0 }
    }

    /// Writes bytes at an offset that is a multiple of 4096, in as few writes as possible.
    pub(crate) fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let is_zero = |page: &[u8]| *page == ZEROS[..page.len()];
        let mut at = 0;
        for run in bytes.chunks(HOLE_BYTES).collect::<Vec<_>>().chunk_by(|a, b| is_zero(a) == is_zero(b)) {
            let len: usize = run.iter().map(|page| page.len()).sum();
            if !run.first().is_some_and(|page| is_zero(page)) {
                self.file.write_at(&bytes[at..at + len], offset + at as u64)?;
                self.end = self.end.max(offset + (at + len) as u64);
            }
            at += len;
        }
        Ok(())
    }

    /// Sets the length of the file if it ends in zeros.
    pub(crate) fn end(self, len: u64) -> io::Result<()> {
        if self.end < len { self.file.set_len(len) } else { Ok(()) }
    }
}
