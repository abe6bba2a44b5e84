//! The journal: the changes of a commit to the shards, written down before they are made.
//!
//! A journal is a header, records, and an end record that holds the checksum of everything before
//! its payload. It takes effect when it is renamed to its final name. A program that finds it there
//! performs its records, even if they were performed before. Records are read as a stream: a head,
//! its targets, its payload.

use crate::layout::layout;
use crate::version::{FORMAT_VERSION, check_version};
use crate::{Column, FormatError, Generation, Part, SetId};

/// The length of the journal's header.
pub const JOURNAL_HEADER_BYTES: u64 = 40;
/// The length of the head of a record.
pub const RECORD_BYTES: u64 = 16;
/// The length of a target.
pub const TARGET_BYTES: u64 = 16;

/// The most targets of one record, and the limit of column numbers in targets: more than any code
/// has.
pub const TARGETS_MAX: u32 = 4096;

/// The longest payload of a record of kind [`RecordKind::Original`]: two blocks.
const ORIGINAL_BYTES_MAX: u64 = 2 << 20;

const MAGIC_BYTES: &[u8; 8] = b"PANTJRNL";

layout! {
    /// The journal's header, byte by byte.
    JOURNAL_LAYOUT {
        MAGIC: "magic" @ 0 + 8, "`PANTJRNL`";
        VERSION: "version" @ 8 + 4, "format version, 2";
        RESERVED: "reserved" @ 12 + 4, "zero";
        SET: "set" @ 16 + 16, "the set's UUID";
        GENERATION: "generation" @ 32 + 8, "the generation that the shards have afterwards";
    }
}

layout! {
    /// The head of a record; its targets and its payload follow.
    RECORD_LAYOUT {
        KIND: "kind" @ 0 + 4, "0 end, 1 write, 2 zero, 3 length, 4 replace, 5 original";
        TARGETS: "targets" @ 4 + 4, "number of targets";
        PAYLOAD_LEN: "payload length" @ 8 + 8, "bytes of the payload; of kind 2 the number of zeros, which are not stored";
    }
}

layout! {
    /// One target of a record.
    TARGET_LAYOUT {
        COLUMN: "column" @ 0 + 4, "the shard";
        TARGET_RESERVED: "reserved" @ 4 + 4, "zero";
        OFFSET: "offset" @ 8 + 8, "where to write; of kind 3 the new length of the file; of kind 4 zero";
    }
}

layout! {
    /// The only target of a record of kind 5, in place of the targets in shards.
    SPOT_LAYOUT {
        SPOT_ENTRY: "entry" @ 0 + 8, "the file, by its number in the manifest";
        SPOT_OFFSET: "offset" @ 8 + 8, "the first byte of the block in the file";
    }
}

/// The start of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalHeader {
    /// The set it changes.
    pub set: SetId,
    /// The generation of the shards afterwards.
    pub generation: Generation,
}

impl JournalHeader {
    /// Returns the encoded header.
    pub fn encode(&self) -> [u8; JOURNAL_HEADER_BYTES as usize] {
        let mut bytes = [0; JOURNAL_HEADER_BYTES as usize];
        MAGIC.put(&mut bytes, MAGIC_BYTES);
        VERSION.put_u32(&mut bytes, FORMAT_VERSION);
        SET.put(&mut bytes, &self.set.0);
        GENERATION.put_u64(&mut bytes, self.generation.0);
        bytes
    }

    /// Decodes a header. Errors: no magic, another version, cut off.
    pub fn decode(bytes: &[u8]) -> Result<JournalHeader, FormatError> {
        let part = Part::Journal;
        let have = bytes.len() as u64;
        if have < JOURNAL_HEADER_BYTES {
            return Err(FormatError::Truncated { part, have, need: JOURNAL_HEADER_BYTES });
        }
        if bytes[..8] != *MAGIC_BYTES {
            return Err(FormatError::NotPantile { part });
        }
        check_version(part, VERSION.u32(bytes))?;
        if RESERVED.u32(bytes) != 0 {
            return Err(FormatError::Invalid { part, field: "reserved", rule: "must be zero" });
        }
        Ok(JournalHeader { set: SetId(SET.get(bytes)), generation: Generation(GENERATION.u64(bytes)) })
    }
}

/// Kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// End of the journal. The payload is the CRC-64/NVME of all bytes before it.
    End,
    /// Write the payload to each target.
    Write,
    /// Write zeros to each target.
    Zero,
    /// Set the length of each target's file.
    Length,
    /// Rename each target's temporary file over it, if the temporary file exists.
    Replace,
    /// Write a block of an original; its one target is a [`Spot`].
    Original,
}

/// The head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHead {
    /// Action of the record.
    pub kind: RecordKind,
    /// Number of targets that follow.
    pub targets: u32,
    /// Bytes of payload behind them; of [`RecordKind::Zero`] the number of zeros.
    pub payload_len: u64,
}

impl RecordHead {
    /// Returns the encoded head.
    pub fn encode(&self) -> [u8; RECORD_BYTES as usize] {
        let mut bytes = [0; RECORD_BYTES as usize];
        let kind = match self.kind {
            RecordKind::End => 0,
            RecordKind::Write => 1,
            RecordKind::Zero => 2,
            RecordKind::Length => 3,
            RecordKind::Replace => 4,
            RecordKind::Original => 5,
        };
        KIND.put_u32(&mut bytes, kind);
        TARGETS.put_u32(&mut bytes, self.targets);
        PAYLOAD_LEN.put_u64(&mut bytes, self.payload_len);
        bytes
    }

    /// Decodes a head. Errors: an unknown kind, or a payload where the kind has none.
    pub fn decode(bytes: &[u8; RECORD_BYTES as usize]) -> Result<RecordHead, FormatError> {
        let part = Part::Journal;
        let (targets, payload_len) = (TARGETS.u32(bytes), PAYLOAD_LEN.u64(bytes));
        let (kind, fits) = match KIND.u32(bytes) {
            0 => (RecordKind::End, targets == 0 && payload_len == 8),
            1 => (RecordKind::Write, payload_len <= i64::MAX as u64),
            2 => (RecordKind::Zero, payload_len <= i64::MAX as u64),
            3 => (RecordKind::Length, payload_len == 0),
            4 => (RecordKind::Replace, payload_len == 0),
            5 => (RecordKind::Original, targets == 1 && (1..=ORIGINAL_BYTES_MAX).contains(&payload_len)),
            _ => return Err(FormatError::Invalid { part, field: "kind", rule: "must be 0 to 5" }),
        };
        if targets > TARGETS_MAX {
            return Err(FormatError::Invalid { part, field: "targets", rule: "must be at most 4096" });
        }
        if targets == 0 && KIND.u32(bytes) != 0 {
            return Err(FormatError::Invalid { part, field: "targets", rule: "must be there" });
        }
        if !fits {
            return Err(FormatError::Invalid { part, field: "payload length", rule: "must fit the kind" });
        }
        Ok(RecordHead { kind, targets, payload_len })
    }

    /// Returns the number of payload bytes that are stored behind the targets.
    pub fn stored_len(&self) -> u64 {
        if self.kind == RecordKind::Zero { 0 } else { self.payload_len }
    }
}

/// A place in a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The shard.
    pub column: Column,
    /// The offset in the shard or, for [`RecordKind::Length`], the new length of its file.
    pub offset: u64,
}

impl Target {
    /// Returns the encoded target.
    pub fn encode(&self) -> [u8; TARGET_BYTES as usize] {
        let mut bytes = [0; TARGET_BYTES as usize];
        COLUMN.put_u32(&mut bytes, self.column.0);
        OFFSET.put_u64(&mut bytes, self.offset);
        bytes
    }

    /// Decodes a target. Errors: a reserved byte that is not zero, a column that no code has, an
    /// offset beyond 63 bits.
    pub fn decode(bytes: &[u8; TARGET_BYTES as usize]) -> Result<Target, FormatError> {
        let part = Part::Journal;
        if TARGET_RESERVED.u32(bytes) != 0 {
            return Err(FormatError::Invalid { part, field: "reserved", rule: "must be zero" });
        }
        let column = COLUMN.u32(bytes);
        if column >= TARGETS_MAX {
            return Err(FormatError::Invalid { part, field: "column", rule: "must be below 4096" });
        }
        let offset = OFFSET.u64(bytes);
        if offset > i64::MAX as u64 {
            return Err(FormatError::Invalid { part, field: "offset", rule: "must fit 63 bits" });
        }
        Ok(Target { column: Column(column), offset })
    }
}

/// A block of an original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The file, by its number in the manifest.
    pub entry: u64,
    /// The first byte of the block.
    pub offset: u64,
}

impl Spot {
    /// Returns the encoded target.
    pub fn encode(&self) -> [u8; TARGET_BYTES as usize] {
        let mut bytes = [0; TARGET_BYTES as usize];
        SPOT_ENTRY.put_u64(&mut bytes, self.entry);
        SPOT_OFFSET.put_u64(&mut bytes, self.offset);
        bytes
    }

    /// Decodes a target. Whether entry and offset exist is known from the manifest.
    pub fn decode(bytes: &[u8; TARGET_BYTES as usize]) -> Spot {
        Spot { entry: SPOT_ENTRY.u64(bytes), offset: SPOT_OFFSET.u64(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_targets_are_read_back_as_written() {
        let header = JournalHeader { set: SetId([3; 16]), generation: Generation(9) };
        assert_eq!(JournalHeader::decode(&header.encode()), Ok(header));
        for len in 0..JOURNAL_HEADER_BYTES as usize {
            assert!(JournalHeader::decode(&header.encode()[..len]).is_err());
        }
        for (kind, payload_len) in [
            (RecordKind::End, 8),
            (RecordKind::Write, 77),
            (RecordKind::Zero, 1 << 40),
            (RecordKind::Length, 0),
            (RecordKind::Replace, 0),
            (RecordKind::Original, 8192),
        ] {
            let targets = match kind {
                RecordKind::End => 0,
                RecordKind::Original => 1,
                _ => 3,
            };
            let head = RecordHead { kind, targets, payload_len };
            assert_eq!(RecordHead::decode(&head.encode()), Ok(head));
        }
        let target = Target { column: Column(5), offset: 12345 };
        assert_eq!(Target::decode(&target.encode()), Ok(target));
        let spot = Spot { entry: 70_000, offset: 1 << 40 };
        assert_eq!(Spot::decode(&spot.encode()), spot);
    }

    #[test]
    fn impossible_records_are_refused() {
        let head = |kind: u32, payload_len: u64| {
            let mut bytes = RecordHead { kind: RecordKind::Write, targets: 1, payload_len }.encode();
            KIND.put_u32(&mut bytes, kind);
            RecordHead::decode(&bytes)
        };
        assert!(head(1, 5).is_ok() && head(5, 5).is_ok() && head(6, 5).is_err() && head(0, 8).is_err());
        assert!(head(5, 0).is_err() && head(5, ORIGINAL_BYTES_MAX + 1).is_err());
        let of_many = RecordHead { kind: RecordKind::Zero, targets: TARGETS_MAX + 1, payload_len: 1 };
        assert!(RecordHead::decode(&of_many.encode()).is_err(), "their list would fill memory");
        let of_none = RecordHead { kind: RecordKind::Zero, targets: 0, payload_len: i64::MAX as u64 };
        assert!(RecordHead::decode(&of_none.encode()).is_err(), "it would be done for years");
        assert!(head(3, 1).is_err() && head(4, 1).is_err() && head(2, u64::MAX).is_err());
        let target = |column, offset| Target::decode(&Target { column: Column(column), offset }.encode());
        assert!(target(TARGETS_MAX - 1, 0).is_ok());
        assert!(target(0, u64::MAX).is_err() && target(TARGETS_MAX, 0).is_err());
        let header = JournalHeader { set: SetId([0; 16]), generation: Generation(0) };
        let of_version = |number| {
            let mut bytes = header.encode();
            VERSION.put_u32(&mut bytes, number);
            JournalHeader::decode(&bytes)
        };
        assert!(matches!(of_version(3), Err(FormatError::Newer { version: 3, .. })));
        assert!(matches!(of_version(1), Err(FormatError::Invalid { .. })));
    }
}
