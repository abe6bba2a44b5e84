//! A device in memory, for tests: sparse, and with the block rules of a disk.

use crate::device::{check, parts_len};
use crate::{Device, DeviceError, Identity, OpKind, Part, PartMut};
use std::path::{Path, PathBuf};
use std::sync::RwLock;

/// Bytes under one lock: large enough to copy fast, small enough that threads seldom contend.
const CHUNK_BYTES: u64 = 64 * 1024;

/// A device in the memory of the process. Unwritten bytes read as zeros and take no memory.
pub struct MemoryDevice {
    name: PathBuf,
    len_bytes: u64,
    block_len_bytes: u32,
    chunks: Vec<RwLock<Option<Box<[u8]>>>>,
}

impl MemoryDevice {
    /// Makes a device of 512-byte blocks.
    ///
    /// Panics: see [`with_block_len`](Self::with_block_len).
    pub fn new(name: impl Into<PathBuf>, len_bytes: u64) -> Self {
        Self::with_block_len(name, len_bytes, 512)
    }

    /// Makes a device with blocks of a chosen length.
    ///
    /// Panics: if the block length is no power of two of at least 512, or the length is not whole
    /// blocks.
    pub fn with_block_len(name: impl Into<PathBuf>, len_bytes: u64, block_len_bytes: u32) -> Self {
        assert!(block_len_bytes.is_power_of_two() && block_len_bytes >= 512, "blocks of {block_len_bytes}");
        assert!(len_bytes > 0 && len_bytes.is_multiple_of(block_len_bytes.into()), "{len_bytes} bytes");
        let chunks = (0..len_bytes.div_ceil(CHUNK_BYTES)).map(|_| RwLock::new(None)).collect();
        Self { name: name.into(), len_bytes, block_len_bytes, chunks }
    }

    /// Calls `each` with (chunk, offset in it, offset in the range, length) for a checked range, in
    /// order.
    fn pieces(offset: u64, len: u64, mut each: impl FnMut(usize, usize, usize, usize)) {
        let mut done = 0;
        while done < len {
            let inside = (offset + done) % CHUNK_BYTES;
            let piece = (CHUNK_BYTES - inside).min(len - done);
            each(((offset + done) / CHUNK_BYTES) as usize, inside as usize, done as usize, piece as usize);
            done += piece;
        }
    }

    fn clear(&self, offset: u64, len: u64) {
        Self::pieces(offset, len, |chunk, inside, _, piece| {
            let mut chunk = self.chunks[chunk].write().expect("copying does not panic");
            if piece as u64 == CHUNK_BYTES {
                *chunk = None;
            } else if let Some(bytes) = chunk.as_mut() {
                bytes[inside..inside + piece].fill(0);
            }
        });
    }
}

impl Device for MemoryDevice {
    fn path(&self) -> &Path {
        &self.name
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn block_len_bytes(&self) -> u32 {
        self.block_len_bytes
    }

    fn identity(&self) -> Identity {
        Identity::Memory { address: self.chunks.as_ptr() as usize }
    }

    fn read_at(&self, offset_bytes: u64, mut into: PartMut<'_>) -> Result<(), DeviceError> {
        let len = into.len();
        let place = (into.as_ptr() as usize, len);
        check(self, OpKind::Read, offset_bytes, len as u64, [place].into_iter())?;
        Self::pieces(offset_bytes, len as u64, |chunk, inside, done, piece| {
            let into = &mut into[done..done + piece];
            match self.chunks[chunk].read().expect("copying does not panic").as_ref() {
                Some(bytes) => into.copy_from_slice(&bytes[inside..inside + piece]),
                None => into.fill(0),
            }
        });
        Ok(())
    }

    fn write_at(&self, offset_bytes: u64, parts: &[Part<'_>]) -> Result<(), DeviceError> {
        let places = parts.iter().map(|part| (part.as_ptr() as usize, part.len()));
        check(self, OpKind::Write, offset_bytes, parts_len(parts), places)?;
        let mut offset = offset_bytes;
        for part in parts {
            Self::pieces(offset, part.len() as u64, |chunk, inside, done, piece| {
                let mut chunk = self.chunks[chunk].write().expect("copying does not panic");
                let bytes = chunk.get_or_insert_with(|| vec![0; CHUNK_BYTES as usize].into());
                bytes[inside..inside + piece].copy_from_slice(&part[done..done + piece]);
            });
            offset += part.len() as u64;
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        check(self, OpKind::Discard, offset_bytes, len_bytes, std::iter::empty())?;
        self.clear(offset_bytes, len_bytes);
        Ok(())
    }

    fn zero(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        check(self, OpKind::Zero, offset_bytes, len_bytes, std::iter::empty())?;
        self.clear(offset_bytes, len_bytes);
        Ok(())
    }
}
