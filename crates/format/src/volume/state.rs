//! The state: all valid notes at one record, beside the snapshot of the maps at that record.
//!
//! It is one structure of a few blocks: a head, notes, zeros, and a CRC over all of it. Notes in
//! later records change it.

use super::note::{BAD_BYTES, DEVICE_BYTES, EVENT_BYTES, RANGE_BYTES, SCRUB_BYTES};
use super::record::decode_entries;
use super::{
    BLOCK_BYTES, Entry, Note, RecordNumber, STATE_BLOCKS, Session, Shape, VOLUME_VERSION, VolumeId,
    check_start, must_be_volume, must_be_zero, seal, unseal,
};
use crate::layout::layout;
use crate::{Crc64, FormatError, Part};

const PART: Part = Part::State;
const MAGIC_BYTES: &[u8; 8] = b"PANTSTAT";
const HEAD_BYTES: usize = 64;

layout! {
    /// The head of the state. Notes follow, then zeros, then a CRC at the end of its last block.
    STATE_LAYOUT {
        MAGIC: "magic" @ 0 + 8, "`PANTSTAT`";
        VERSION: "version" @ 8 + 4, "format version, 3";
        BLOCKS: "blocks" @ 12 + 4, "blocks of the state, as few as it needs";
        VOLUME: "volume" @ 16 + 16, "the volume's UUID";
        SESSION: "session" @ 32 + 8, "the session that wrote it";
        RECORD: "record" @ 40 + 8, "the last record that is in it, that of the snapshot";
        RESERVED: "reserved" @ 48 + 8, "zero";
        ENTRIES: "entries" @ 56 + 4, "number of notes";
        BODY_LEN: "body length" @ 60 + 4, "bytes of all notes";
    }
}

/// All valid notes at one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The volume.
    pub volume: VolumeId,
    /// The session that wrote it.
    pub session: Session,
    /// The last record whose notes are in it.
    pub record: RecordNumber,
    /// The notes, in order.
    pub notes: Vec<Note>,
}

/// Room for notes in a state, without one of each device and one of a scrub, which always have
/// room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateRoom {
    /// The most notes of ranges.
    pub ranges: usize,
    /// The most events.
    pub events: usize,
    /// The most runs of bad chunks, over all devices.
    pub bad: usize,
}

impl StateRoom {
    /// Returns the room in a volume of so many devices. Of the bytes left by the notes of devices
    /// and scrub, a quarter is for bad chunks, half for ranges, and the rest for events.
    pub fn of(devices: u32) -> StateRoom {
        let bytes = STATE_BLOCKS as usize * BLOCK_BYTES;
        let fixed = HEAD_BYTES + 8 + SCRUB_BYTES + devices as usize * DEVICE_BYTES;
        let left = bytes.saturating_sub(fixed);
        let (bad, ranges) = (left / 4 / BAD_BYTES, left / 2 / RANGE_BYTES);
        let events = (left - bad * BAD_BYTES - ranges * RANGE_BYTES) / EVENT_BYTES;
        StateRoom { ranges, events, bad }
    }
}

impl State {
    /// Returns its length in blocks.
    pub fn len_blocks(&self) -> u64 {
        let body: u64 = self.notes.iter().map(|note| note.len_bytes() as u64).sum();
        blocks_of(body)
    }

    /// Returns the encoded state, whole blocks, and the CRC at its end.
    ///
    /// Panics if a note is invalid for a volume of this shape.
    pub fn encode(&self, shape: &Shape) -> (Vec<u8>, Crc64) {
        let blocks = self.len_blocks();
        let mut bytes = vec![0; HEAD_BYTES];
        for note in &self.notes {
            if let Err(error) = note.check(PART, shape) {
                panic!("a state is written only if it can be read: {error}");
            }
            Entry::Note(*note).encode(&mut bytes);
        }
        MAGIC.put(&mut bytes, MAGIC_BYTES);
        VERSION.put_u32(&mut bytes, VOLUME_VERSION);
        BLOCKS.put_u32(&mut bytes, blocks as u32);
        VOLUME.put(&mut bytes, &self.volume.0);
        SESSION.put_u64(&mut bytes, self.session.0);
        RECORD.put_u64(&mut bytes, self.record.0);
        ENTRIES.put_u32(&mut bytes, self.notes.len() as u32);
        let body = bytes.len() - HEAD_BYTES;
        BODY_LEN.put_u32(&mut bytes, body as u32);
        bytes.resize(blocks as usize * BLOCK_BYTES, 0);
        let crc = seal(&mut bytes);
        (bytes, crc)
    }

    /// Decodes a state at the front of `bytes`, which may be longer. Entries that a reader may
    /// ignore are skipped.
    ///
    /// Errors: no magic, a newer version, cut off, a checksum that does not match, another volume,
    /// or a note that is invalid for a volume of this shape. The caller compares the returned CRC
    /// with that of the superblock.
    pub fn decode(bytes: &[u8], volume: VolumeId, shape: &Shape) -> Result<(State, Crc64), FormatError> {
        let invalid = |field, rule| FormatError::Invalid { part: PART, field, rule };
        check_start(PART, MAGIC_BYTES, bytes, HEAD_BYTES as u64)?;
        let (blocks, body_len) = (u64::from(BLOCKS.u32(bytes)), u64::from(BODY_LEN.u32(bytes)));
        if blocks != blocks_of(body_len) {
            return Err(invalid("blocks", "must be as many as the notes need"));
        }
        let need = blocks * BLOCK_BYTES as u64;
        check_start(PART, MAGIC_BYTES, bytes, need)?;
        let bytes = &bytes[..need as usize];
        let crc = unseal(PART, bytes)?;
        must_be_volume(PART, VOLUME.get(bytes), volume)?;
        must_be_zero(PART, &RESERVED.get::<8>(bytes))?;
        let (mut body, rest) = bytes[HEAD_BYTES..bytes.len() - 8].split_at(body_len as usize);
        must_be_zero(PART, rest)?;
        let entries = decode_entries(PART, ENTRIES.u32(bytes), &mut body, shape)?;
        let note = |entry: Entry| match entry {
            Entry::Note(note) => Ok(note),
            _ => Err(invalid("kind", "must be 7 to 10, or 13")),
        };
        let notes = entries.into_iter().map(note).collect::<Result<Vec<Note>, FormatError>>()?;
        let (session, record) = (Session(SESSION.u64(bytes)), RecordNumber(RECORD.u64(bytes)));
        Ok((State { volume, session, record, notes }, crc))
    }
}

fn blocks_of(body: u64) -> u64 {
    (HEAD_BYTES as u64 + body + 8).div_ceil(BLOCK_BYTES as u64)
}
