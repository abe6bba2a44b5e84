//! Feature bits of a superblock, and its reference to the state.

use crate::Crc64;

/// Features of a volume, by the rights of a reader that does not know them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Features {
    /// A reader that does not know one of these may read and write the volume.
    pub may_ignore: u64,
    /// It may read, and must not write.
    pub read_only: u64,
    /// It must refuse the volume.
    pub must_refuse: u64,
}

impl Features {
    /// Among `must_refuse`, in the superblocks of one device alone: it is being made a copy of the
    /// device in its slot, and is no member. [`super::Superblock::decode`] refuses it like any bit
    /// that is not known, so that only [`super::Superblock::decode_copy`] reads it.
    pub const REPLACEMENT: u64 = 1 << 0;
    /// Bits of `read_only` that this program knows.
    pub const KNOWN_READ_ONLY: u64 = 0;
    /// Bits of `must_refuse` that it knows.
    pub const KNOWN_MUST_REFUSE: u64 = 0;

    /// The bits without which nothing may be written, that are not known here; 0: it may.
    pub fn unknown_to_write(&self) -> u64 {
        self.read_only & !Features::KNOWN_READ_ONLY
    }
}

/// The state that goes with the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StateRef {
    /// Its blocks.
    pub blocks: u32,
    /// The CRC at its end.
    pub crc: Crc64,
}
