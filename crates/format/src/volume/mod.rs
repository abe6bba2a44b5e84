//! One definition of every byte that a volume stores on its devices.
//!
//! A [`Superblock`] identifies the volume. A [`ChunkHeader`] precedes every chunk and identifies
//! it. A [`Record`] is one atomic change of the maps, and a [`Snapshot`](SnapshotEncoder) is the
//! maps as of one record. [`State`], beside the snapshot, has the events and known faults. A
//! [`Claim`] names the server for other hosts. [`Zones`] are the addresses of all of these.
//! `docs/volume-format.md` prints the same tables, and a test compares the page with them. The
//! design and its reasons are in `docs/decisions/0001-volume.md`.
//!
//! Invariants of everything that decodes: it belongs to the expected volume; it is within the
//! volume's [`Shape`]; unused bytes are zero; encoding it again gives the same bytes.
//!
//! Two invariants concern all maps together, so they are checked by the reader of the volume, not
//! by a decoder: no two logical stripes name one physical stripe, and no two cells of the log name
//! one user's block.
//!
//! No CRC may cover bytes that end in their own CRC: the result is then the same for all valid
//! contents, so such a checksum could not tell one valid piece from another. Hence each structure
//! has one CRC, and pieces that belong together are chained.

mod chunk;
mod claim;
mod entry;
mod features;
mod note;
mod patch;
mod record;
mod snapshot;
mod state;
mod superblock;
mod zones;

pub use chunk::{CHUNK_LAYOUT, ChunkHeader, NOT_STORED};
pub use claim::{CLAIM_LAYOUT, Claim, Claimant};
pub use entry::{
    Cell, ENTRY_HEAD_LAYOUT, Entry, FORGET_LAYOUT, Holds, LOG_CELL_LAYOUT, LOG_WRITE_LAYOUT, LogWrite,
    MEMBER_BYTES, MEMBER_LAYOUT, Member, MemberState, RowsAhead, SWITCH_LAYOUT, StripeSwitch, UNMAP_LAYOUT,
};
pub use features::{Features, StateRef};
pub use note::{
    BAD_LAYOUT, BadNote, DEVICE_NOTE_LAYOUT, DeviceNote, EVENT_LAYOUT, EventKind, EventNote, Note,
    RANGE_LAYOUT, RangeNote, Reason, SCRUB_LAYOUT, ScrubNote, ScrubState,
};
pub use patch::{ChunkPatch, PATCH_BLOCK_LAYOUT, PATCH_CHUNK_LAYOUT, PATCH_LAYOUT, StripePatch};
pub use record::{RECORD_BLOCKS_MAX, RECORD_HEAD_BYTES, RECORD_HEAD_LAYOUT, Record, RecordHead};
pub use snapshot::{
    PIECE_BLOCKS, PIECE_HEAD_LAYOUT, SNAPSHOT_LAYOUT, STRIPE_LAYOUT, SnapshotBlocks, SnapshotDecoder,
    SnapshotEncoder, SnapshotHead, SnapshotItem, SnapshotSum,
};
pub use state::{STATE_LAYOUT, State, StateRoom};
pub use superblock::{DefinitionRef, SUPERBLOCK_LAYOUT, SnapshotRef, Superblock};
pub use zones::{BlockRun, CLAIM_BLOCK, Place, STATE_BLOCKS, Shape, Zones};

use crate::layout::Field;
use crate::{Crc64, CrcStream, FormatError, Generation, Part, SetId};
use std::fmt;

/// The version of the format of volumes, in every structure. Versions 1 and 2 were never released.
pub const VOLUME_VERSION: u32 = 3;

/// Bytes of a block: the unit of checksums, of the log and of atomic writes.
pub const BLOCK_BYTES: usize = 4096;

/// Devices of a volume, at most: the log and the bitmaps name a slot by one byte.
pub const DEVICES_MAX: u32 = 256;

/// Blocks of an element, at most: 4 MiB.
pub const ELEMENT_BLOCKS_MAX: u32 = 1 << 10;

/// Blocks of a chunk without its header, at most: 256 MiB.
pub const CHUNK_BLOCKS_MAX: u64 = 1 << 16;

/// Physical stripes, at most: a snapshot names one by 4 bytes, of which the largest value says
/// "unmapped".
pub const STRIPES_MAX: u64 = u32::MAX as u64;

/// Rows of the log, at most: a row holds a block or more, and memory and snapshots have room for a
/// million blocks of log.
pub const LOG_ROWS_MAX: u32 = 1 << 20;

/// Blocks of the user's address space, at most: 1 EiB, so that the log names one by 6 bytes.
pub const USER_BLOCKS_MAX: u64 = 1 << 48;

/// Blocks of a device, at most: 2^63 bytes.
pub const DEVICE_BLOCKS_MAX: u64 = 1 << 51;

/// The identity of a volume, drawn at random when it is made (a version 4 UUID).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VolumeId(pub [u8; 16]);

/// Identity of a history, drawn at random whenever the set of trusted members changes. Members with
/// different histories are never combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HistoryId(pub [u8; 16]);

/// The index of a device in the volume, from 0. The [`Placement`](pantile_code::Placement) gives
/// the column that it holds of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u32);

/// An address on a device in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceBlock(pub u64);

/// A user's block: byte address / 4096.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UserBlock(pub u64);

/// A stripe of the user's address space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogicalStripe(pub u64);

/// The storage for one chunk on every device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PhysicalStripe(pub u64);

/// One block on every device at one address of the log zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogRow(pub u32);

/// Number of times that the volume was opened for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Session(pub u64);

/// Number of a record of the journal, counted from 1; 0 is the state of a new volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordNumber(pub u64);

impl fmt::Display for VolumeId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        SetId(self.0).fmt(out)
    }
}

impl fmt::Display for HistoryId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        SetId(self.0).fmt(out)
    }
}

/// The checksum of a block in the data or log zone: a CRC-64/NVME. It covers volume id (16 bytes),
/// slot (4), address (8) and generation (8), little-endian, then the content.
///
/// The same bytes at another address, on another device or of another generation have another
/// checksum.
pub fn block_checksum(
    volume: VolumeId,
    slot: Slot,
    address: DeviceBlock,
    generation: Generation,
    content: &[u8],
) -> Crc64 {
    let mut seed = [0; 36];
    seed[..16].copy_from_slice(&volume.0);
    seed[16..20].copy_from_slice(&slot.0.to_le_bytes());
    seed[20..28].copy_from_slice(&address.0.to_le_bytes());
    seed[28..].copy_from_slice(&generation.0.to_le_bytes());
    let mut crc = CrcStream::new();
    crc.update(&seed);
    crc.update(content);
    crc.crc()
}

/// Length of the magic, with which every structure of a volume begins; the version follows.
const MAGIC_BYTES: usize = 8;
const VERSION_END: usize = 12;

/// Refuses bytes that are not the structure, are cut off before `need` bytes, or are of another
/// version.
///
/// The version is checked before the checksum, which other versions may store elsewhere.
fn check_start(part: Part, magic: &[u8; 8], bytes: &[u8], need: u64) -> Result<(), FormatError> {
    let have = bytes.len() as u64;
    if bytes.len() >= MAGIC_BYTES && bytes[..MAGIC_BYTES] != *magic {
        return Err(FormatError::NotPantile { part });
    }
    if bytes.len() >= VERSION_END {
        let version = u32::from_le_bytes(bytes[MAGIC_BYTES..VERSION_END].try_into().expect("4 bytes"));
        if version > VOLUME_VERSION {
            return Err(FormatError::Newer { part, version, known: VOLUME_VERSION });
        }
        if version < VOLUME_VERSION {
            return Err(FormatError::Invalid { part, field: "version", rule: "must be 3" });
        }
    }
    if have < need { Err(FormatError::Truncated { part, have, need }) } else { Ok(()) }
}

/// Writes the CRC of a structure of whole blocks to its last 8 bytes.
fn seal(bytes: &mut [u8]) -> Crc64 {
    let body = bytes.len() - 8;
    let crc = Crc64::of(&bytes[..body]);
    bytes[body..].copy_from_slice(&crc.0.to_le_bytes());
    crc
}

/// Checks the CRC at the end of a structure and returns it.
fn unseal(part: Part, bytes: &[u8]) -> Result<Crc64, FormatError> {
    let (body, stored) = bytes.split_at(bytes.len() - 8);
    let crc = Crc64::of(body);
    if crc.0.to_le_bytes() == *stored { Ok(crc) } else { Err(FormatError::Checksum { part }) }
}

fn get_u16(field: Field, bytes: &[u8]) -> u16 {
    u16::from_le_bytes(field.get(bytes))
}

fn must_be_zero(part: Part, bytes: &[u8]) -> Result<(), FormatError> {
    let zero = bytes.iter().all(|&byte| byte == 0);
    if zero { Ok(()) } else { Err(FormatError::Invalid { part, field: "reserved", rule: "must be zero" }) }
}

fn must_be_volume(part: Part, found: [u8; 16], volume: VolumeId) -> Result<(), FormatError> {
    let rule = "must be the one that was asked for";
    if found == volume.0 { Ok(()) } else { Err(FormatError::Invalid { part, field: "volume", rule }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_every_layout_touch_and_never_overlap() {
        for (table, first, len) in [
            (SUPERBLOCK_LAYOUT, 0, 4096),
            (CHUNK_LAYOUT, 0, 64),
            (RECORD_HEAD_LAYOUT, 0, 64),
            (ENTRY_HEAD_LAYOUT, 0, 8),
            (SWITCH_LAYOUT, 8, 64),
            (UNMAP_LAYOUT, 8, 24),
            (LOG_WRITE_LAYOUT, 8, 24),
            (LOG_CELL_LAYOUT, 0, 16),
            (FORGET_LAYOUT, 8, 24),
            (MEMBER_LAYOUT, 8, 64),
            (PATCH_LAYOUT, 8, 24),
            (PATCH_CHUNK_LAYOUT, 0, 16),
            (PATCH_BLOCK_LAYOUT, 0, 16),
            (DEVICE_NOTE_LAYOUT, 8, 48),
            (EVENT_LAYOUT, 8, 40),
            (SCRUB_LAYOUT, 8, 136),
            (RANGE_LAYOUT, 8, 40),
            (BAD_LAYOUT, 8, 32),
            (STATE_LAYOUT, 0, 64),
            (CLAIM_LAYOUT, 0, 4096),
            (PIECE_HEAD_LAYOUT, 0, 64),
            (SNAPSHOT_LAYOUT, 0, 24),
            (STRIPE_LAYOUT, 0, 12),
        ] {
            let mut at = first;
            for field in table {
                assert_eq!(field.offset, at, "{}", field.name);
                at += field.len;
            }
            assert_eq!(at, len, "{}", table[0].name);
        }
    }

    /// The reason why no CRC of this format covers bytes that end in their own CRC.
    #[test]
    fn a_crc_over_sealed_bytes_says_nothing_of_them() {
        let sealed = |fill| {
            let mut bytes = [fill; 64];
            seal(&mut bytes);
            Crc64::of(&bytes)
        };
        assert_eq!(sealed(1), sealed(2));
    }
}
