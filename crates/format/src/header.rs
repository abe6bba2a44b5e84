//! The header of a shard: its set, its column, and the offsets of its parts.
//!
//! A shard is `HEADER_COPIES` equal headers, the blocks of its column stripe by stripe, and a meta
//! area: the manifest, the check table (one CRC per parity block of this column) and the piece
//! table (a CRC for each `PIECE_BYTES` of the manifest and then of the check table). The meta area
//! holds all three twice, [`META_COPIES_APART_BYTES`] apart, and ends with a third copy of the
//! header, which ends the shard. So no run of damage shorter than that distance destroys the
//! metadata of a shard. The meta area begins behind the blocks, at `meta_offset`. A new one is
//! always written beside the one in use; then a new header points to it.

use crate::layout::layout;
use crate::version::{FEATURES_BYTES, FORMAT_VERSION, check_version};
use crate::{
    BlockLen, Column, Crc64, Features, FormatError, Generation, PIECE_BYTES, Part, SetId, combine, pieces_of,
};

/// The length of one copy of the header; a page, so that a copy is one sector of every device.
pub const HEADER_BYTES: u64 = 4096;

/// Equal copies at the start of a shard, so that one bad sector does not destroy the header.
pub const HEADER_COPIES: u64 = 2;

/// Offset of the blocks: block (stripe, stored row) is at `BODY_OFFSET + (stripe * stored rows +
/// row) * block`.
pub const BODY_OFFSET: u64 = HEADER_BYTES * HEADER_COPIES;

/// The least distance between the beginnings of the two copies of manifest, check table and piece
/// table: 64 KiB plus the length of a piece. A run of up to 64 KiB of damage therefore leaves every
/// piece intact in one copy. Such a run is longer than a sector, a flash page and the stripe unit
/// of usual arrays.
pub const META_COPIES_APART_BYTES: u64 = (64 << 10) + PIECE_BYTES;

const MAGIC_BYTES: &[u8; 8] = b"PANTSHRD";

layout! {
    /// The header, byte by byte.
    HEADER_LAYOUT {
        MAGIC: "magic" @ 0 + 8, "`PANTSHRD`";
        VERSION: "version" @ 8 + 4, "format version, 2";
        COLUMN: "column" @ 12 + 4, "the column of the code that this shard holds, from 0";
        SET: "set" @ 16 + 16, "the set's UUID";
        GENERATION: "generation" @ 32 + 8, "the commit that this shard belongs to";
        COLUMNS: "columns" @ 40 + 4, "columns of the code";
        STORED_ROWS: "stored rows" @ 44 + 4, "blocks of each stripe in this shard";
        BLOCK_LEN: "block length" @ 48 + 8, "bytes of a block: a power of two from 4096 to 1048576";
        STRIPES: "stripes" @ 56 + 8, "stripes committed";
        META_OFFSET: "meta offset" @ 64 + 8, "first byte of the manifest";
        MANIFEST_LEN: "manifest length" @ 72 + 8, "bytes of the manifest; the check table follows it";
        MANIFEST_CRC: "manifest checksum" @ 80 + 8, "CRC-64/NVME of the manifest, which is equal in all shards";
        CHECKS_LEN: "check table length" @ 88 + 8, "bytes of the check table: 8 per parity block, by stripe and row; 0 without checksums";
        CHECKS_CRC: "check table checksum" @ 96 + 8, "CRC-64/NVME of the check table";
        FEATURES: "features" @ 104 + 24, "the feature words";
        PIECES_LEN: "piece table length" @ 128 + 8, "bytes of the piece table, which follows the check table";
        PIECES_CRC: "piece table checksum" @ 136 + 8, "CRC-64/NVME of the piece table";
        RESERVED: "reserved" @ 144 + 3944, "zero; a reader does not look at it";
        CRC: "checksum" @ 4088 + 8, "CRC-64/NVME of the 4088 bytes before";
    }
}

/// Description of a shard at its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardHeader {
    /// Features that the set uses.
    pub features: Features,
    /// The set it belongs to.
    pub set: SetId,
    /// The commit it belongs to.
    pub generation: Generation,
    /// The column it holds.
    pub column: Column,
    /// Number of columns of the code.
    pub columns: u32,
    /// Number of blocks of each stripe in this shard.
    pub stored_rows: u32,
    /// The length of a block.
    pub block_len: BlockLen,
    /// Number of committed stripes.
    pub stripes: u64,
    /// First byte of the manifest.
    pub meta_offset: u64,
    /// Length of the manifest in bytes.
    pub manifest_len: u64,
    /// Its checksum.
    pub manifest_crc: Crc64,
    /// Length of the check table in bytes.
    pub checks_len: u64,
    /// Its checksum.
    pub checks_crc: Crc64,
    /// Length of the piece table in bytes.
    pub pieces_len: u64,
    /// Its checksum.
    pub pieces_crc: Crc64,
}

impl ShardHeader {
    /// Returns the encoded header: one copy.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES as usize];
        MAGIC.put(&mut bytes, MAGIC_BYTES);
        VERSION.put_u32(&mut bytes, FORMAT_VERSION);
        COLUMN.put_u32(&mut bytes, self.column.0);
        SET.put(&mut bytes, &self.set.0);
        GENERATION.put_u64(&mut bytes, self.generation.0);
        COLUMNS.put_u32(&mut bytes, self.columns);
        STORED_ROWS.put_u32(&mut bytes, self.stored_rows);
        BLOCK_LEN.put_u64(&mut bytes, self.block_len.bytes());
        STRIPES.put_u64(&mut bytes, self.stripes);
        META_OFFSET.put_u64(&mut bytes, self.meta_offset);
        MANIFEST_LEN.put_u64(&mut bytes, self.manifest_len);
        MANIFEST_CRC.put_u64(&mut bytes, self.manifest_crc.0);
        CHECKS_LEN.put_u64(&mut bytes, self.checks_len);
        CHECKS_CRC.put_u64(&mut bytes, self.checks_crc.0);
        let mut words = [0; FEATURES_BYTES];
        self.features.put(&mut words);
        FEATURES.put(&mut bytes, &words);
        PIECES_LEN.put_u64(&mut bytes, self.pieces_len);
        PIECES_CRC.put_u64(&mut bytes, self.pieces_crc.0);
        let crc = Crc64::of(&bytes[..CRC.offset as usize]);
        CRC.put_u64(&mut bytes, crc.0);
        bytes
    }

    /// Decodes one copy.
    ///
    /// Errors: no magic, another version, cut off, a checksum that does not fit, or fields that
    /// contradict each other.
    pub fn decode(bytes: &[u8]) -> Result<ShardHeader, FormatError> {
        let part = Part::Header;
        let have = bytes.len() as u64;
        if bytes.len() >= 8 && bytes[..8] != *MAGIC_BYTES {
            return Err(FormatError::NotPantile { part });
        }
        if have < HEADER_BYTES {
            return Err(FormatError::Truncated { part, have, need: HEADER_BYTES });
        }
        let bytes = &bytes[..HEADER_BYTES as usize];
        let fits = Crc64::of(&bytes[..CRC.offset as usize]).0 == CRC.u64(bytes);
        check_version(part, VERSION.u32(bytes))?;
        if !fits {
            return Err(FormatError::Checksum { part });
        }
        let invalid = |field, rule| FormatError::Invalid { part, field, rule };
        let block_len = BlockLen::new(BLOCK_LEN.u64(bytes))
            .ok_or(invalid("block length", "must be a power of two from 4096 to 1048576"))?;
        let header = ShardHeader {
            features: Features::read(part, &FEATURES.get::<FEATURES_BYTES>(bytes))?,
            set: SetId(SET.get(bytes)),
            generation: Generation(GENERATION.u64(bytes)),
            column: Column(COLUMN.u32(bytes)),
            columns: COLUMNS.u32(bytes),
            stored_rows: STORED_ROWS.u32(bytes),
            block_len,
            stripes: STRIPES.u64(bytes),
            meta_offset: META_OFFSET.u64(bytes),
            manifest_len: MANIFEST_LEN.u64(bytes),
            manifest_crc: Crc64(MANIFEST_CRC.u64(bytes)),
            checks_len: CHECKS_LEN.u64(bytes),
            checks_crc: Crc64(CHECKS_CRC.u64(bytes)),
            pieces_len: PIECES_LEN.u64(bytes),
            pieces_crc: Crc64(PIECES_CRC.u64(bytes)),
        };
        // The length of the file bounds the number of stripes only if each stripe has stored rows.
        if header.stored_rows == 0 {
            return Err(invalid("stored rows", "must be at least 1"));
        }
        if header.column.0 >= header.columns {
            return Err(invalid("column", "must be below the number of columns"));
        }
        if header.pieces_len != pieces_len(header.manifest_len, header.checks_len) {
            return Err(invalid(
                "piece table length",
                "must be 8 for each piece of manifest and check table",
            ));
        }
        match (header.body_end(), header.file_len()) {
            (Some(end), Some(_)) if end <= header.meta_offset => Ok(header),
            _ => Err(invalid("meta offset", "must lie behind the blocks and within 2^63 bytes")),
        }
    }

    /// Returns the first byte behind the committed blocks; `None` if it does not fit 63 bits.
    pub fn body_end(&self) -> Option<u64> {
        body_end(self.stripes, self.stored_rows, self.block_len)
    }

    /// Returns the length of the whole shard; `None` if it does not fit 63 bits.
    pub fn file_len(&self) -> Option<u64> {
        let end = self.meta_offset.checked_add(self.meta_len()?)?;
        (end <= i64::MAX as u64).then_some(end)
    }

    /// Returns the length of the meta area: both copies of manifest, check table and piece table,
    /// and the last copy of the header. `None` if it does not fit 64 bits.
    pub fn meta_len(&self) -> Option<u64> {
        self.meta_distance()?.checked_add(self.meta_copy_len()?)?.checked_add(HEADER_BYTES)
    }

    /// Returns the offsets of the copies of manifest, check table and piece table, in the order in
    /// which they are written.
    pub fn meta_copies(&self) -> Vec<u64> {
        let second = self.meta_distance().and_then(|distance| self.meta_offset.checked_add(distance));
        [self.meta_offset].into_iter().chain(second).collect()
    }

    /// Returns the length of manifest, check table and piece table together.
    fn meta_copy_len(&self) -> Option<u64> {
        self.manifest_len.checked_add(self.checks_len)?.checked_add(self.pieces_len)
    }

    /// Returns the distance between the beginnings of the two copies: a multiple of a page.
    fn meta_distance(&self) -> Option<u64> {
        self.meta_copy_len()?.max(META_COPIES_APART_BYTES).checked_next_multiple_of(HEADER_BYTES)
    }

    /// Returns the offsets of the copies of the header, in the order in which they are written.
    pub fn copy_offsets(&self) -> Vec<u64> {
        let front = (0..HEADER_COPIES).map(|copy| copy * HEADER_BYTES);
        let last = self.file_len().map(|end| end - HEADER_BYTES);
        front.chain(last).collect()
    }

    /// Combines damaged copies of a header, none of which is valid alone, into a valid one.
    pub fn combine(copies: &[&[u8]]) -> Option<ShardHeader> {
        let bytes = combine(copies, |bytes| ShardHeader::decode(bytes).is_ok())?;
        ShardHeader::decode(&bytes).ok()
    }

    /// Returns the offset of a block.
    pub fn block_offset(&self, stripe: u64, stored_row: u32) -> u64 {
        let rows = u64::from(self.stored_rows);
        BODY_OFFSET + (stripe * rows + u64::from(stored_row)) * self.block_len.bytes()
    }
}

/// Returns the length of the piece table of a manifest and a check table of these lengths.
pub(crate) fn pieces_len(manifest_len: u64, checks_len: u64) -> u64 {
    8 * (pieces_of(manifest_len) + pieces_of(checks_len))
}

fn body_end(stripes: u64, stored_rows: u32, block_len: BlockLen) -> Option<u64> {
    let body = stripes.checked_mul(stored_rows.into())?.checked_mul(block_len.bytes())?;
    let end = body.checked_add(BODY_OFFSET)?;
    (end <= i64::MAX as u64).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> ShardHeader {
        ShardHeader {
            features: Features::default(),
            set: SetId([7; 16]),
            generation: Generation(3),
            column: Column(4),
            columns: 14,
            stored_rows: 2,
            block_len: BlockLen::LEAST,
            stripes: 10,
            meta_offset: BODY_OFFSET + 20 * 4096 + 512,
            manifest_len: 1000,
            manifest_crc: Crc64(5),
            checks_len: 160,
            checks_crc: Crc64(6),
            pieces_len: 16,
            pieces_crc: Crc64(7),
        }
    }

    #[test]
    fn a_header_is_read_back_as_written() {
        assert_eq!(ShardHeader::decode(&sample().encode()), Ok(sample()));
    }

    #[test]
    fn the_last_copy_of_the_header_ends_the_shard() {
        let header = sample();
        let end = header.meta_offset + 69_632 + 1000 + 160 + 16 + 4096;
        assert_eq!(header.file_len(), Some(end));
        assert_eq!(header.copy_offsets(), [0, 4096, end - 4096]);
    }

    #[test]
    fn the_copies_of_the_meta_area_do_not_overlap_and_lie_apart() {
        for manifest_len in [1, 1000, 65_000, 65_536, 70_001, 1 << 40] {
            let header = ShardHeader { manifest_len, pieces_len: pieces_len(manifest_len, 160), ..sample() };
            let [first, second] = header.meta_copies()[..] else { panic!("two copies") };
            let one = manifest_len + 160 + header.pieces_len;
            assert!(second - first >= one.max(META_COPIES_APART_BYTES), "{manifest_len}");
            assert_eq!(header.file_len(), Some(second + one + HEADER_BYTES));
        }
    }

    #[test]
    fn copies_that_are_all_damaged_still_tell_if_not_in_one_place() {
        let header = sample();
        let mut copies = vec![header.encode(); header.copy_offsets().len()];
        for (i, copy) in copies.iter_mut().enumerate() {
            copy[i * 64..(i + 1) * 64].fill(0xa5);
            copy[4000 - i * 100] ^= 1;
        }
        let views: Vec<&[u8]> = copies.iter().map(Vec::as_slice).collect();
        assert!(views.iter().all(|copy| ShardHeader::decode(copy).is_err()));
        assert_eq!(ShardHeader::combine(&views), Some(header));
        copies.iter_mut().for_each(|copy| copy[2000] ^= 1);
        let views: Vec<&[u8]> = copies.iter().map(Vec::as_slice).collect();
        assert_eq!(ShardHeader::combine(&views), None);
    }

    #[test]
    fn a_feature_that_must_be_known_refuses_the_shard() {
        let features = Features { required: 4, ..Features::default() };
        let error = ShardHeader::decode(&ShardHeader { features, ..sample() }.encode()).unwrap_err();
        assert_eq!(error, FormatError::Features { part: Part::Header, unknown: 4 });
    }

    #[test]
    fn a_flipped_bit_anywhere_is_an_error() {
        let good = sample().encode();
        for i in 0..good.len() {
            for bit in [0, 7] {
                let mut bad = good.clone();
                bad[i] ^= 1 << bit;
                assert!(ShardHeader::decode(&bad).is_err(), "byte {i}");
            }
        }
    }

    #[test]
    fn a_header_cut_off_anywhere_is_an_error() {
        let good = sample().encode();
        for len in 0..good.len() {
            assert!(ShardHeader::decode(&good[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn another_version_is_refused_by_number() {
        let mut bytes = sample().encode();
        VERSION.put_u32(&mut bytes, 9);
        let error = ShardHeader::decode(&bytes).unwrap_err();
        assert_eq!(error, FormatError::Newer { part: Part::Header, version: 9, known: 2 });
        assert!(error.to_string().contains("version 9"));
        VERSION.put_u32(&mut bytes, 1);
        let error = ShardHeader::decode(&bytes).unwrap_err();
        assert!(matches!(error, FormatError::Invalid { field: "version", .. }));
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        for change in [
            |h: &mut ShardHeader| h.stripes = u64::MAX,
            |h: &mut ShardHeader| h.meta_offset = u64::MAX,
            |h: &mut ShardHeader| h.manifest_len = u64::MAX,
            |h: &mut ShardHeader| h.checks_len = u64::MAX / 2,
            |h: &mut ShardHeader| h.meta_offset = BODY_OFFSET,
            |h: &mut ShardHeader| h.column = Column(14),
        ] {
            let mut header = sample();
            change(&mut header);
            header.pieces_len = pieces_len(header.manifest_len, header.checks_len);
            assert!(matches!(ShardHeader::decode(&header.encode()), Err(FormatError::Invalid { .. })));
        }
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..9000), fix: bool,
        ) {
            if fix && bytes.len() >= 4096 {
                MAGIC.put(&mut bytes, MAGIC_BYTES);
                VERSION.put_u32(&mut bytes, FORMAT_VERSION);
                bytes[104..128].fill(0);
                let lengths = pieces_len(MANIFEST_LEN.u64(&bytes), CHECKS_LEN.u64(&bytes));
                PIECES_LEN.put_u64(&mut bytes, lengths);
                let crc = Crc64::of(&bytes[..4088]);
                CRC.put_u64(&mut bytes, crc.0);
            }
            let _ = ShardHeader::decode(&bytes);
        }
    }
}
