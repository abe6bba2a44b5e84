//! One definition of every byte that Pantile stores. Of sealed sets these are shard header,
//! manifest and journal; of volumes, in [`volume`], superblock, chunk header, record and snapshot.
//!
//! The layouts are tables of [`Field`]s; encoding and decoding use the same constants that
//! `docs/shard-format.md` and `docs/volume-format.md` print, and tests compare the pages with them.
//! All integers are little-endian. Every structure ends in a CRC-64/NVME of the bytes before it and
//! begins with a magic and a version; a newer version is refused by number. Decoded structures are
//! valid: paths stay below their root, extents are in the grid and never overlap.
//!
//! Not here: I/O. No stored number is a `usize`.
#![forbid(unsafe_code)]

mod error;
mod fields;
mod header;
mod journal;
mod layout;
mod left_out;
mod manifest;
mod pieces;
mod pin;
mod version;
pub mod volume;
mod wire;

pub use error::{FormatError, Part};
pub use fields::{ENTRY_XATTR, FIELD_BYTES, FIELD_LAYOUT, FIELD_TAGS, Fields, SOURCE_COLUMNS, TaggedField};
pub use header::{
    BODY_OFFSET, HEADER_BYTES, HEADER_COPIES, HEADER_LAYOUT, META_COPIES_APART_BYTES, ShardHeader,
};
pub use journal::{
    JOURNAL_HEADER_BYTES, JOURNAL_LAYOUT, JournalHeader, RECORD_BYTES, RECORD_LAYOUT, RecordHead, RecordKind,
    SPOT_LAYOUT, Spot, TARGET_BYTES, TARGET_LAYOUT, Target,
};
pub use layout::Field;
pub use left_out::LeftOut;
pub use manifest::{
    CodeRecord, ENTRY_LAYOUT, EXTENT_LAYOUT, Entry, EntryKind, Extent, MANIFEST_LAYOUT, Manifest, Mode,
    SOURCE_LAYOUT, Source, Timestamp,
};
pub use pieces::{PIECE_BYTES, combine, combine_pieces, piece_sums, pieces_of};
pub use pin::{DIGEST_BYTES, PIN_HEADER_BYTES, PIN_LAYOUT, PIN_VERSION, PinHeader};
pub use version::{FEATURES_LAYOUT, FORMAT_VERSION, Features};
pub use wire::{BlockLen, Column, Crc64, CrcStream, Generation, Lane, SetId, Stripe};
