//! A record of the journal: one atomic change of the maps.
//!
//! A record is whole blocks: a head, entries, zeros, and a CRC over all of it. It takes effect as a
//! whole or not at all; its entries take effect in order. Record numbers are consecutive. Records
//! with numbers from the first record of the newest session on are valid only if they are of that
//! session. Of several records with a lower number, the one of the highest session below the newest
//! is valid. So a record that an opening has discarded never becomes valid again.
//!
//! A record has the digest of each chunk's header and the checksum of each block of the log that it
//! maps, because the record is written together with them. It is valid only if these chunks and
//! blocks have been written, too.

use super::{
    BLOCK_BYTES, Entry, RecordNumber, Session, Shape, VOLUME_VERSION, VolumeId, check_start, must_be_volume,
    must_be_zero, seal, unseal,
};
use crate::layout::layout;
use crate::{FormatError, Part};

/// Blocks of a record, at most: 16 MiB, enough for 1.6 GiB of user blocks if each is alone in its
/// row of the log.
pub const RECORD_BLOCKS_MAX: u32 = 1 << 12;

/// Bytes before the first entry.
pub const RECORD_HEAD_BYTES: usize = 64;

const MAGIC_BYTES: &[u8; 8] = b"PANTRECD";
layout! {
    /// The head of a record. Entries follow, then zeros, then a CRC at the end of its last block.
    RECORD_HEAD_LAYOUT {
        MAGIC: "magic" @ 0 + 8, "`PANTRECD`";
        VERSION: "version" @ 8 + 4, "format version, 3";
        BLOCKS: "blocks" @ 12 + 4, "blocks of the record, as few as it needs: 1 to 4096";
        VOLUME: "volume" @ 16 + 16, "the volume's UUID";
        SESSION: "session" @ 32 + 8, "the session that wrote it";
        NUMBER: "number" @ 40 + 8, "consecutive, from 1";
        FLUSHED: "flushed through" @ 48 + 8, "the last record that was durable before this one was written; 0 for none";
        ENTRIES: "entries" @ 56 + 4, "number of entries";
        BODY_LEN: "body length" @ 60 + 4, "bytes of all entries";
    }
}

/// One atomic change of the maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The volume.
    pub volume: VolumeId,
    /// The session that wrote it.
    pub session: Session,
    /// Its number; numbers are consecutive, from 1.
    pub number: RecordNumber,
    /// The last record that was durable when this one was written; below `number`.
    pub flushed_through: RecordNumber,
    /// Changes of the maps, in order.
    pub entries: Vec<Entry>,
}

/// Head of a record, from its first block. Its checksum is not verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHead {
    /// The session that wrote it.
    pub session: Session,
    /// Its number.
    pub number: RecordNumber,
    /// The last record that was durable when this one was written.
    pub flushed_through: RecordNumber,
    /// Its length in blocks: 1 to [`RECORD_BLOCKS_MAX`].
    pub blocks: u32,
}

impl Record {
    /// Returns its length in blocks.
    pub fn len_blocks(&self) -> u64 {
        let body: u64 = self.entries.iter().map(|entry| entry.len_bytes() as u64).sum();
        blocks_of(body)
    }

    /// Checks that the record is valid for a volume of this shape, and fits its journal.
    ///
    /// Errors: `Invalid` with the field that breaks a rule.
    pub fn check(&self, shape: &Shape) -> Result<(), FormatError> {
        check_len(self.len_blocks(), shape)?;
        check_numbers(self.number, self.flushed_through)?;
        self.entries.iter().try_for_each(|entry| entry.check(shape))
    }

    /// Returns the encoded record, whole blocks.
    ///
    /// Panics unless [`Record::check`] passes.
    pub fn encode(&self, shape: &Shape) -> Vec<u8> {
        if let Err(error) = self.check(shape) {
            panic!("a record is written only if it can be read: {error}");
        }
        let blocks = self.len_blocks();
        let mut bytes = Vec::with_capacity(blocks as usize * BLOCK_BYTES);
        bytes.resize(RECORD_HEAD_BYTES, 0);
        for entry in &self.entries {
            entry.encode(&mut bytes);
        }
        MAGIC.put(&mut bytes, MAGIC_BYTES);
        VERSION.put_u32(&mut bytes, VOLUME_VERSION);
        BLOCKS.put_u32(&mut bytes, blocks as u32);
        VOLUME.put(&mut bytes, &self.volume.0);
        SESSION.put_u64(&mut bytes, self.session.0);
        NUMBER.put_u64(&mut bytes, self.number.0);
        FLUSHED.put_u64(&mut bytes, self.flushed_through.0);
        ENTRIES.put_u32(&mut bytes, self.entries.len() as u32);
        let body = bytes.len() - RECORD_HEAD_BYTES;
        BODY_LEN.put_u32(&mut bytes, body as u32);
        bytes.resize(blocks as usize * BLOCK_BYTES, 0);
        seal(&mut bytes);
        bytes
    }

    /// Decodes the head in the first block of a record, which says how much to read.
    ///
    /// Errors: no magic, a newer version, cut off, another volume, or numbers that break a rule.
    /// The checksum, which is at the record's end, is not verified.
    pub fn peek(block: &[u8], volume: VolumeId) -> Result<RecordHead, FormatError> {
        check_start(Part::Record, MAGIC_BYTES, block, RECORD_HEAD_BYTES as u64)?;
        must_be_volume(Part::Record, VOLUME.get(block), volume)?;
        let head = RecordHead {
            session: Session(SESSION.u64(block)),
            number: RecordNumber(NUMBER.u64(block)),
            flushed_through: RecordNumber(FLUSHED.u64(block)),
            blocks: BLOCKS.u32(block),
        };
        check_numbers(head.number, head.flushed_through)?;
        if u64::from(head.blocks) != blocks_of(BODY_LEN.u32(block).into()) || head.blocks > RECORD_BLOCKS_MAX
        {
            return Err(invalid("blocks", "must be as many as the entries need, and 1 to 4096"));
        }
        Ok(head)
    }

    /// Decodes a record at the front of `bytes`, which may be longer.
    ///
    /// Errors: no magic, a newer version, cut off, a checksum that does not match, another volume,
    /// or an entry that is invalid for a volume of this shape. Cost: linear in the record; never
    /// more memory than a few times its bytes.
    pub fn decode(bytes: &[u8], volume: VolumeId, shape: &Shape) -> Result<Record, FormatError> {
        let part = Part::Record;
        let head = Record::peek(bytes, volume)?;
        check_len(head.blocks.into(), shape)?;
        let need = u64::from(head.blocks) * BLOCK_BYTES as u64;
        check_start(part, MAGIC_BYTES, bytes, need)?;
        let bytes = &bytes[..need as usize];
        unseal(part, bytes)?;
        let (mut body, rest) =
            bytes[RECORD_HEAD_BYTES..bytes.len() - 8].split_at(BODY_LEN.u32(bytes) as usize);
        must_be_zero(part, rest)?;
        let entries = decode_entries(part, ENTRIES.u32(bytes), &mut body, shape)?;
        let RecordHead { session, number, flushed_through, .. } = head;
        Ok(Record { volume, session, number, flushed_through, entries })
    }
}

/// Decodes the entries of a body, without those that a reader may ignore.
pub(super) fn decode_entries(
    part: Part,
    count: u32,
    body: &mut &[u8],
    shape: &Shape,
) -> Result<Vec<Entry>, FormatError> {
    let wrong = |field, rule| FormatError::Invalid { part, field, rule };
    let mut entries = Vec::new();
    for _ in 0..count {
        let len = match Entry::len_at_front(part, body)? {
            Some(len) if len <= body.len() => len,
            _ => return Err(wrong("entries", "must fit the body")),
        };
        let (entry, rest) = body.split_at(len);
        *body = rest;
        if !Entry::may_be_ignored(entry) {
            let entry = Entry::decode(part, entry)?;
            entry.check(shape)?;
            entries.push(entry);
        }
    }
    if !body.is_empty() {
        return Err(wrong("body length", "must end behind the last entry"));
    }
    Ok(entries)
}

fn invalid(field: &'static str, rule: &'static str) -> FormatError {
    FormatError::Invalid { part: Part::Record, field, rule }
}

fn check_numbers(number: RecordNumber, flushed_through: RecordNumber) -> Result<(), FormatError> {
    if flushed_through < number {
        Ok(())
    } else {
        Err(invalid("flushed through", "must be below the number"))
    }
}

fn blocks_of(body: u64) -> u64 {
    (RECORD_HEAD_BYTES as u64 + body + 8).div_ceil(BLOCK_BYTES as u64)
}

fn check_len(blocks: u64, shape: &Shape) -> Result<(), FormatError> {
    let most = RECORD_BLOCKS_MAX.min(shape.journal_blocks);
    let rule = "must be 1 to 4096, and not more than the journal has";
    if blocks <= most.into() { Ok(()) } else { Err(invalid("blocks", rule)) }
}
