//! A pin: digests of one state of a set, which its owner keeps where no other writer of the set can
//! write.
//!
//! It has a header, the BLAKE3 digest of every block of the grid by cell, then stripe, and the
//! BLAKE3 digest of everything before. The set has no record of its pin. The digest at the end
//! detects accidental changes of the pin; an attacker who can change the pin can also recompute
//! that digest.

use crate::layout::layout;
use crate::{BlockLen, FormatError, Generation, Part, SetId};

/// The length of a pin's header.
pub const PIN_HEADER_BYTES: u64 = 96;

/// The length of a BLAKE3 digest.
pub const DIGEST_BYTES: u64 = 32;

/// The version of pins that this program writes, and the newest that it reads.
pub const PIN_VERSION: u32 = 1;

const MAGIC_BYTES: &[u8; 8] = b"PANTPINS";

layout! {
    /// A pin's header, byte by byte.
    PIN_LAYOUT {
        MAGIC: "magic" @ 0 + 8, "`PANTPINS`";
        VERSION: "version" @ 8 + 4, "version of the pin, 1";
        RESERVED: "reserved" @ 12 + 4, "zero";
        SET: "set" @ 16 + 16, "the set's UUID";
        GENERATION: "generation" @ 32 + 8, "the commit that is pinned";
        BLOCK_LEN: "block length" @ 40 + 8, "bytes of a block";
        STRIPES: "stripes" @ 48 + 8, "stripes of the set";
        CELLS: "cells" @ 56 + 4, "cells of a stripe, data and parity";
        RESERVED_TOO: "reserved" @ 60 + 4, "zero";
        MANIFEST: "manifest" @ 64 + 32, "BLAKE3 digest of the manifest's bytes";
    }
}

/// Description of a pin before its digests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinHeader {
    /// The set.
    pub set: SetId,
    /// The commit of the set.
    pub generation: Generation,
    /// The length of its blocks.
    pub block_len: BlockLen,
    /// The number of its stripes.
    pub stripes: u64,
    /// Cells of a stripe.
    pub cells: u32,
    /// The BLAKE3 digest of its manifest.
    pub manifest: [u8; DIGEST_BYTES as usize],
}

impl PinHeader {
    /// Returns the encoded header.
    pub fn encode(&self) -> [u8; PIN_HEADER_BYTES as usize] {
        let mut bytes = [0; PIN_HEADER_BYTES as usize];
        MAGIC.put(&mut bytes, MAGIC_BYTES);
        VERSION.put_u32(&mut bytes, PIN_VERSION);
        SET.put(&mut bytes, &self.set.0);
        GENERATION.put_u64(&mut bytes, self.generation.0);
        BLOCK_LEN.put_u64(&mut bytes, self.block_len.bytes());
        STRIPES.put_u64(&mut bytes, self.stripes);
        CELLS.put_u32(&mut bytes, self.cells);
        MANIFEST.put(&mut bytes, &self.manifest);
        bytes
    }

    /// Decodes it. Errors: no magic, another version, cut off, or fields that break a rule.
    pub fn decode(bytes: &[u8]) -> Result<PinHeader, FormatError> {
        let part = Part::Pin;
        let have = bytes.len() as u64;
        if bytes.len() >= 8 && bytes[..8] != *MAGIC_BYTES {
            return Err(FormatError::NotPantile { part });
        }
        if have < PIN_HEADER_BYTES {
            return Err(FormatError::Truncated { part, have, need: PIN_HEADER_BYTES });
        }
        let invalid = |field, rule| FormatError::Invalid { part, field, rule };
        match VERSION.u32(bytes) {
            PIN_VERSION => {}
            version if version > PIN_VERSION => {
                return Err(FormatError::Newer { part, version, known: PIN_VERSION });
            }
            _ => return Err(invalid("version", "must be 1 or more")),
        }
        if RESERVED.u32(bytes) != 0 || RESERVED_TOO.u32(bytes) != 0 {
            return Err(invalid("reserved", "must be zero"));
        }
        let header = PinHeader {
            set: SetId(SET.get(bytes)),
            generation: Generation(GENERATION.u64(bytes)),
            block_len: BlockLen::new(BLOCK_LEN.u64(bytes))
                .ok_or(invalid("block length", "must be a power of two from 4096 to 1048576"))?,
            stripes: STRIPES.u64(bytes),
            cells: CELLS.u32(bytes),
            manifest: MANIFEST.get(bytes),
        };
        let rule = "must be so many that the pin fits a file";
        header.file_len().map(|_| header.clone()).ok_or(invalid("stripes", rule))
    }

    /// Returns the offset of a block's digest; `None` beyond the end of any file.
    pub fn digest_offset(&self, cell: u32, stripe: u64) -> Option<u64> {
        let index = u64::from(cell).checked_mul(self.stripes)?.checked_add(stripe)?;
        index.checked_mul(DIGEST_BYTES)?.checked_add(PIN_HEADER_BYTES)
    }

    /// Length of the pin.
    pub fn file_len(&self) -> Option<u64> {
        let len = self.digest_offset(self.cells, 0)?.checked_add(DIGEST_BYTES)?;
        i64::try_from(len).is_ok().then_some(len)
    }
}
