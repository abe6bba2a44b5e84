//! Feature bits of a superblock, and its reference to the state.

use crate::Crc64;

/// Feature bits of a volume, by the rights of a reader that does not know them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Features {
    /// A reader that does not know one of these may read and write the volume.
    pub may_ignore: u64,
    /// A reader that does not know one of these may read the volume, and must not write it.
    pub read_only: u64,
    /// A reader that does not know one of these must refuse the volume.
    pub must_refuse: u64,
}

impl Features {
    /// A bit of `must_refuse`: this device is under construction as a copy of the device in its
    /// slot, and no member. Only its own superblocks have the bit. [`super::Superblock::decode`]
    /// refuses it like any unknown bit; only [`super::Superblock::decode_copy`] reads it.
    pub const REPLACEMENT: u64 = 1 << 0;
    /// Bits of `read_only` that this program knows.
    pub const KNOWN_READ_ONLY: u64 = 0;
    /// Bits of `must_refuse` that it knows.
    pub const KNOWN_MUST_REFUSE: u64 = 0;

    /// Returns the bits that a writer must know and this program does not; 0: it may write.
    pub fn unknown_to_write(&self) -> u64 {
        self.read_only & !Features::KNOWN_READ_ONLY
    }
}

/// A reference to the state beside a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StateRef {
    /// Its length in blocks.
    pub blocks: u32,
    /// The CRC at its end.
    pub crc: Crc64,
}
