//! Numbers of the format as distinct types, and the checksum.

use std::fmt;

/// The identity of a sealed set, drawn at random when it is first sealed (a version 4 UUID).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SetId(pub [u8; 16]);

impl fmt::Display for SetId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                out.write_str("-")?;
            }
            write!(out, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// Number of a commit of a set or of a write of a volume, never used twice; all shards of one state
/// have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(pub u64);

/// Index of a column of the code, which is the index of its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Column(pub u32);

/// Index of a data cell of the stripe, counted by column and row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane(pub u32);

/// The number of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stripe(pub u64);

/// The length of a block in bytes: a power of two from 4 KiB to 1 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockLen(u32);

impl BlockLen {
    /// The shortest block.
    pub const LEAST: BlockLen = BlockLen(4 << 10);
    /// The longest block.
    pub const MOST: BlockLen = BlockLen(1 << 20);

    /// Returns the length; `None` unless it is a power of two from 4 KiB to 1 MiB.
    pub fn new(bytes: u64) -> Option<BlockLen> {
        let fits = bytes.is_power_of_two() && (4 << 10..=1 << 20).contains(&bytes);
        fits.then_some(BlockLen(bytes as u32))
    }

    /// Returns the length in bytes.
    pub fn bytes(self) -> u64 {
        u64::from(self.0)
    }

    /// Returns the number of blocks that so many bytes need.
    pub fn blocks(self, bytes: u64) -> u64 {
        bytes.div_ceil(self.bytes())
    }
}

/// A CRC-64/NVME.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Crc64(pub u64);

impl Crc64 {
    /// In a check table: the checksum is unknown, because the block was missing when its shard was
    /// rebuilt.
    pub const UNKNOWN: Crc64 = Crc64(u64::MAX);

    /// Returns the checksum of some bytes.
    pub fn of(bytes: &[u8]) -> Crc64 {
        Crc64(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes))
    }
}

/// A checksum of bytes that come piece by piece.
pub struct CrcStream(crc_fast::Digest);

impl CrcStream {
    /// Begins a checksum; no bytes are in it yet.
    #[allow(clippy::new_without_default, reason = "a stream is begun, not defaulted")]
    pub fn new() -> CrcStream {
        CrcStream(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme))
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the checksum of all bytes so far.
    pub fn crc(&self) -> Crc64 {
        Crc64(self.0.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_has_the_value_of_the_catalogue() {
        assert_eq!(Crc64::of(b"123456789"), Crc64(0xae8b_1486_0a79_9888));
        let mut stream = CrcStream::new();
        stream.update(b"1234");
        stream.update(b"56789");
        assert_eq!(stream.crc(), Crc64(0xae8b_1486_0a79_9888));
    }

    #[test]
    fn block_lengths_are_powers_of_two_in_range() {
        for good in [4096, 8192, 1 << 20] {
            assert_eq!(BlockLen::new(good).unwrap().bytes(), good);
        }
        for bad in [0, 1, 2048, 4097, 12288, 1 << 21, u64::MAX] {
            assert_eq!(BlockLen::new(bad), None);
        }
        assert_eq!(BlockLen::LEAST.blocks(0), 0);
        assert_eq!(BlockLen::LEAST.blocks(4097), 2);
    }
}
