//! The content of a block: 16 bytes that stand for data, or 4096 real bytes of metadata.
//!
//! Both have [`SECTORS`] sectors, the units that a crash keeps or drops: 2 of the 16 bytes, or 512
//! of the 4096. The 16 bytes stand for the block in which each sector repeats its 2 bytes, so the
//! two forms can be mixed sector by sector. A block has exactly one [`Content`]: the short form if
//! there is one.

use std::sync::Arc;

use pantile_volume::{BLOCK_BYTES, Seed};

use crate::random::hash;

/// Sectors in a block; a crash never tears a sector.
pub const SECTORS: usize = 8;

/// The bytes that stand for a block of data.
pub type Data = [u8; 16];

const DATA_SECTOR: usize = size_of::<Data>() / SECTORS;
const SECTOR_BYTES: usize = BLOCK_BYTES as usize / SECTORS;

/// The content of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content(Form);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    Data(Data),
    /// A block of [`BLOCK_BYTES`] in which some sector does not repeat its first two bytes.
    Bytes(Arc<[u8]>),
}

impl Content {
    /// A block that was never written.
    pub const ZEROS: Content = Content(Form::Data([0; 16]));

    /// A block of data.
    pub fn of_data(data: Data) -> Content {
        Content(Form::Data(data))
    }

    /// A block of metadata. Panics unless it is [`BLOCK_BYTES`] long.
    pub fn of_bytes(bytes: &[u8]) -> Content {
        assert_eq!(bytes.len() as u64, BLOCK_BYTES, "a block of metadata has {BLOCK_BYTES} bytes");
        let mut data = [0; 16];
        for (sector, two) in bytes.chunks_exact(SECTOR_BYTES).zip(data.chunks_exact_mut(DATA_SECTOR)) {
            if !repeats(sector) {
                return Content(Form::Bytes(bytes.into()));
            }
            two.copy_from_slice(&sector[..DATA_SECTOR]);
        }
        Content(Form::Data(data))
    }

    /// Returns the block as data; a sector of metadata becomes two bytes of its hash.
    pub fn data(&self) -> Data {
        match &self.0 {
            Form::Data(data) => *data,
            Form::Bytes(bytes) => {
                let mut data = [0; 16];
                for (sector, two) in bytes.chunks_exact(SECTOR_BYTES).zip(data.chunks_exact_mut(DATA_SECTOR))
                {
                    let short = if repeats(sector) { [sector[0], sector[1]] } else { short_hash(sector) };
                    two.copy_from_slice(&short);
                }
                data
            }
        }
    }

    /// Appends the block as 4096 bytes.
    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        match &self.0 {
            Form::Bytes(own) => bytes.extend_from_slice(own),
            Form::Data(data) => {
                for two in data.as_chunks::<DATA_SECTOR>().0 {
                    bytes.extend_from_slice([*two; SECTOR_BYTES / DATA_SECTOR].as_flattened());
                }
            }
        }
    }

    /// Returns the checksum of the block under a seed: CRC-64/NVME over volume, slot, address,
    /// generation and content.
    pub fn checksum(&self, volume: &[u8; 16], seed: Seed) -> u64 {
        data_checksum(&self.data(), volume, seed)
    }

    /// Returns the block with one bit flipped; `bit` can be any number.
    pub fn flipped(&self, bit: u64) -> Content {
        match &self.0 {
            Form::Data(data) => {
                let mut data = *data;
                data[(bit / 8) as usize % data.len()] ^= 1 << (bit % 8);
                Content(Form::Data(data))
            }
            Form::Bytes(bytes) => {
                let mut bytes = bytes.to_vec();
                let at = (bit / 8) as usize % bytes.len();
                bytes[at] ^= 1 << (bit % 8);
                Content::of_bytes(&bytes)
            }
        }
    }

    /// Returns true if a sector is the same in both.
    pub fn same_sector(&self, other: &Content, sector: usize) -> bool {
        match (&self.0, &other.0) {
            (Form::Data(a), Form::Data(b)) => a[sector * 2..][..2] == b[sector * 2..][..2],
            (Form::Bytes(a), Form::Bytes(b)) => a[range_of(sector)] == b[range_of(sector)],
            (Form::Data(data), Form::Bytes(bytes)) | (Form::Bytes(bytes), Form::Data(data)) => {
                let sector_bytes = &bytes[range_of(sector)];
                repeats(sector_bytes) && sector_bytes[..2] == data[sector * 2..][..2]
            }
        }
    }

    /// Returns the block whose sector i is sector i of `parts[i]`.
    pub fn assembled(parts: [&Content; SECTORS]) -> Content {
        if parts.iter().all(|part| std::ptr::eq(*part, parts[0])) {
            return parts[0].clone();
        }
        let mut data = [0; 16];
        for (i, part) in parts.iter().enumerate() {
            let Form::Data(from) = &part.0 else { return assembled_of_bytes(parts) };
            data[i * 2..][..2].copy_from_slice(&from[i * 2..][..2]);
        }
        Content(Form::Data(data))
    }
}

fn assembled_of_bytes(parts: [&Content; SECTORS]) -> Content {
    let mut block = Vec::with_capacity(BLOCK_BYTES as usize);
    let mut whole = Vec::with_capacity(BLOCK_BYTES as usize);
    for (i, part) in parts.iter().enumerate() {
        whole.clear();
        part.append_to(&mut whole);
        block.extend_from_slice(&whole[range_of(i)]);
    }
    Content::of_bytes(&block)
}

/// Returns the checksum of a block of data under a seed.
pub(crate) fn data_checksum(data: &Data, volume: &[u8; 16], seed: Seed) -> u64 {
    use pantile_format::volume::{VolumeId, block_checksum};
    let generation = pantile_format::Generation(seed.generation);
    block_checksum(VolumeId(*volume), seed.slot, seed.address, generation, data).0
}

fn range_of(sector: usize) -> std::ops::Range<usize> {
    sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES
}

fn repeats(sector: &[u8]) -> bool {
    sector[DATA_SECTOR..] == sector[..sector.len() - DATA_SECTOR]
}

fn short_hash(sector: &[u8]) -> [u8; 2] {
    let [low, high, ..] = hash(sector).to_le_bytes();
    [low, high]
}

#[cfg(test)]
mod tests {
    use pantile_volume::{DeviceBlock, Slot};

    use super::*;

    fn painted() -> Vec<u8> {
        (0..BLOCK_BYTES as usize).map(|i| (i % 251) as u8).collect()
    }

    #[test]
    fn the_two_forms_tell_the_same_block() {
        let data = Content::of_data(*b"0123456789abcdef");
        let mut bytes = Vec::new();
        data.append_to(&mut bytes);
        assert_eq!(&bytes[511..514], b"123");
        assert_eq!(Content::of_bytes(&bytes), data);
        assert_eq!(Content::of_bytes(&[0; 4096]), Content::ZEROS);
        let mut again = Vec::new();
        Content::of_bytes(&painted()).append_to(&mut again);
        assert_eq!(again, painted());
    }

    #[test]
    fn a_mixture_has_each_sector_from_its_part() {
        let (data, bytes) = (Content::of_data([7; 16]), Content::of_bytes(&painted()));
        let mixed = Content::assembled([&data, &bytes, &data, &data, &bytes, &data, &data, &data]);
        for sector in 0..SECTORS {
            assert_eq!(mixed.same_sector(&bytes, sector), [1, 4].contains(&sector));
            assert_eq!(mixed.same_sector(&data, sector), ![1, 4].contains(&sector));
        }
        assert_eq!(mixed.data()[0..2], [7, 7]);
    }

    #[test]
    fn a_flipped_bit_is_seen_and_flips_back() {
        for content in [Content::of_data([3; 16]), Content::of_bytes(&painted())] {
            for bit in [0, 1, 127, 128, 32767, u64::MAX] {
                assert_ne!(content.flipped(bit), content);
                assert_ne!(content.flipped(bit).data(), content.data());
                assert_eq!(content.flipped(bit).flipped(bit), content);
            }
        }
    }

    #[test]
    fn a_checksum_depends_on_all_that_seeds_it() {
        let seed = Seed { slot: Slot(1), address: DeviceBlock(2), generation: 3 };
        let content = Content::of_data([9; 16]);
        let sum = content.checksum(&[5; 16], seed);
        let mut bytes = vec![5; 16];
        bytes.extend(1u32.to_le_bytes());
        bytes.extend(2u64.to_le_bytes());
        bytes.extend(3u64.to_le_bytes());
        bytes.extend([9; 16]);
        assert_eq!(sum, pantile_format::Crc64::of(&bytes).0);
        assert_ne!(sum, content.checksum(&[6; 16], seed));
        assert_ne!(sum, content.checksum(&[5; 16], Seed { slot: Slot(2), ..seed }));
        assert_ne!(sum, content.checksum(&[5; 16], Seed { address: DeviceBlock(3), ..seed }));
        assert_ne!(sum, content.checksum(&[5; 16], Seed { generation: 4, ..seed }));
        assert_ne!(sum, content.flipped(11).checksum(&[5; 16], seed));
    }
}
