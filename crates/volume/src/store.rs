//! The bytes of headers, records, snapshots and session blocks.
//!
//! Each is a list of little-endian integers after a magic, closed by a CRC-64/NVME and padded to whole blocks. What
//! decodes is valid for the geometry: no index is out of range.

use crate::maps::{Change, LogPlace, Mapping, Maps, Member, Row, RowCell, RowKind};
use crate::{BLOCK_BYTES, Geometry, Slot, UserBlock};
use pantile_format::Crc64;

const HEADER_MAGIC: u64 = u64::from_le_bytes(*b"PANTCHNK");
const RECORD_MAGIC: u64 = u64::from_le_bytes(*b"PANTRECD");
const SNAPSHOT_MAGIC: u64 = u64::from_le_bytes(*b"PANTSNAP");
const SESSION_MAGIC: u64 = u64::from_le_bytes(*b"PANTSESS");

/// Bytes of a chunk header before its checksums: magic, length, volume, physical, logical, column and slot, generation.
const HEADER_FIXED_BYTES: u64 = 8 + 8 + 16 + 4 + 4 + 4 + 4 + 8 + 8;

/// Blocks of the header of a chunk with so many blocks.
pub(crate) fn header_blocks(chunk_blocks: u64) -> u64 {
    (HEADER_FIXED_BYTES + 8 * chunk_blocks + 8).div_ceil(BLOCK_BYTES)
}

struct Writer(Vec<u8>);

impl Writer {
    fn new(magic: u64) -> Writer {
        let mut writer = Writer(Vec::new());
        writer.u64(magic);
        writer.u64(0);
        writer
    }

    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, value: &[u8]) {
        self.0.extend(value);
    }

    /// Sets the length, appends the checksum, pads to whole blocks; the checksum is also the digest.
    fn close(mut self) -> (Vec<u8>, u64) {
        let length = self.0.len() as u64 + 8;
        self.0[8..16].copy_from_slice(&length.to_le_bytes());
        let crc = Crc64::of(&self.0).0;
        self.u64(crc);
        self.0.resize(self.0.len().next_multiple_of(BLOCK_BYTES as usize), 0);
        (self.0, crc)
    }
}

struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    /// The content between magic and checksum, and the digest, if magic, length and checksum fit.
    fn open(bytes: &'b [u8], magic: u64) -> Option<(Reader<'b>, u64)> {
        let mut reader = Reader(bytes);
        if reader.u64()? != magic {
            return None;
        }
        let length = usize::try_from(reader.u64()?).ok()?;
        let body = bytes.get(..length.checked_sub(8)?)?;
        let crc = u64::from_le_bytes(bytes.get(length - 8..length)?.try_into().ok()?);
        let content = body.get(16..)?;
        (Crc64::of(body).0 == crc).then_some((Reader(content), crc))
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[b]| b)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// A count of things of at least `least` bytes each: more than the rest holds is refused.
    fn count(&mut self, least: usize) -> Option<usize> {
        let count = self.u32()? as usize;
        (count.checked_mul(least)? <= self.0.len()).then_some(count)
    }
}

/// What a chunk header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkHeader {
    pub(crate) physical: u32,
    pub(crate) logical: u32,
    pub(crate) column: u32,
    pub(crate) slot: Slot,
    pub(crate) generation: u64,
    pub(crate) sums: Vec<u64>,
}

impl ChunkHeader {
    /// The bytes and their digest.
    pub(crate) fn encode(&self, volume: &[u8; 16]) -> (Vec<u8>, u64) {
        let mut writer = Writer::new(HEADER_MAGIC);
        writer.bytes(volume);
        writer.u32(self.physical);
        writer.u32(self.logical);
        writer.u32(self.column);
        writer.u32(self.slot.0);
        writer.u64(self.generation);
        writer.u64(self.sums.len() as u64);
        self.sums.iter().for_each(|&sum| writer.u64(sum));
        writer.close()
    }

    pub(crate) fn decode(bytes: &[u8], volume: &[u8; 16]) -> Option<ChunkHeader> {
        let (mut reader, _) = Reader::open(bytes, HEADER_MAGIC)?;
        if &reader.take::<16>()? != volume {
            return None;
        }
        let (physical, logical, column) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (slot, generation) = (Slot(reader.u32()?), reader.u64()?);
        let count = usize::try_from(reader.u64()?).ok()?;
        if count != reader.0.len() / 8 {
            return None;
        }
        let sums = (0..count).map(|_| reader.u64()).collect::<Option<Vec<u64>>>()?;
        Some(ChunkHeader { physical, logical, column, slot, generation, sums })
    }
}

/// One atomic change of the maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) session: u64,
    pub(crate) number: u64,
    pub(crate) changes: Vec<Change>,
}

impl Record {
    pub(crate) fn encode(&self, volume: &[u8; 16]) -> Vec<u8> {
        let mut writer = Writer::new(RECORD_MAGIC);
        writer.bytes(volume);
        writer.u64(self.session);
        writer.u64(self.number);
        writer.u32(self.changes.len() as u32);
        self.changes.iter().for_each(|change| write_change(&mut writer, change));
        writer.close().0
    }

    pub(crate) fn decode(bytes: &[u8], geometry: &Geometry) -> Option<Record> {
        let (mut reader, _) = Reader::open(bytes, RECORD_MAGIC)?;
        if reader.take::<16>()? != geometry.volume {
            return None;
        }
        let (session, number) = (reader.u64()?, reader.u64()?);
        let count = reader.count(1)?;
        let changes =
            (0..count).map(|_| read_change(&mut reader, geometry)).collect::<Option<Vec<Change>>>()?;
        reader.0.is_empty().then_some(Record { session, number, changes })
    }
}

fn write_member(writer: &mut Writer, state: &Member) {
    writer.u8(u8::from(state.present));
    writer.u64(state.missed_from);
    writer.u64(state.missed_until);
    writer.u32(state.cursor);
}

fn read_member(reader: &mut Reader<'_>) -> Option<Member> {
    Some(Member {
        present: reader.u8()? == 1,
        missed_from: reader.u64()?,
        missed_until: reader.u64()?,
        cursor: reader.u32()?,
    })
}

fn write_row(writer: &mut Writer, row: &Row) {
    writer.u8(match row.kind {
        RowKind::Coded => 0,
        RowKind::Copies => 1,
    });
    writer.u64(row.generation);
    writer.u32(row.cells.len() as u32);
    for cell in &row.cells {
        writer.u32(cell.slot.0);
        writer.u64(cell.checksum);
    }
    writer.u32(row.blocks.len() as u32);
    row.blocks.iter().for_each(|block| writer.u64(block.0));
}

fn read_row(reader: &mut Reader<'_>, geometry: &Geometry) -> Option<Row> {
    let kind = match reader.u8()? {
        0 => RowKind::Coded,
        1 => RowKind::Copies,
        _ => return None,
    };
    let generation = reader.u64()?;
    let count = reader.count(12)?;
    let cells = (0..count)
        .map(|_| {
            let cell = RowCell { slot: Slot(reader.u32()?), checksum: reader.u64()? };
            ((cell.slot.0 as usize) < geometry.slots()).then_some(cell)
        })
        .collect::<Option<Vec<RowCell>>>()?;
    let count = reader.count(8)?;
    let blocks = (0..count)
        .map(|_| reader.u64().filter(|&b| b < geometry.user_blocks()).map(UserBlock))
        .collect::<Option<Vec<UserBlock>>>()?;
    let fits = match kind {
        RowKind::Coded => cells.len() == geometry.slots() && blocks.len() <= cells.len(),
        RowKind::Copies => cells.len() == blocks.len() * (geometry.tolerance() + 1),
    };
    fits.then_some(Row { kind, generation, cells, blocks, live: 0 })
}

fn write_change(writer: &mut Writer, change: &Change) {
    match change {
        Change::Switch { logical, physical, generation, digests } => {
            writer.u8(1);
            writer.u32(*logical);
            writer.u32(*physical);
            writer.u64(*generation);
            for digest in digests {
                writer.u8(u8::from(digest.is_some()));
                writer.u64(digest.unwrap_or(0));
            }
        }
        Change::Unmap { logical } => {
            writer.u8(2);
            writer.u32(*logical);
        }
        Change::Row { row, content } => {
            writer.u8(3);
            writer.u32(*row);
            write_row(writer, content);
        }
        Change::Forget { first, count } => {
            writer.u8(4);
            writer.u64(first.0);
            writer.u64(*count);
        }
        Change::Member { slot, state } => {
            writer.u8(5);
            writer.u32(slot.0);
            write_member(writer, state);
        }
    }
}

fn read_change(reader: &mut Reader<'_>, geometry: &Geometry) -> Option<Change> {
    let logical = |l: u32| (l < geometry.logical_stripes).then_some(l);
    Some(match reader.u8()? {
        1 => {
            let (logical, physical) = (logical(reader.u32()?)?, reader.u32()?);
            if physical >= geometry.physical_stripes {
                return None;
            }
            let generation = reader.u64()?;
            let digests = (0..geometry.slots())
                .map(|_| Some((reader.u8()? == 1, reader.u64()?)))
                .map(|d| d.map(|(there, digest)| there.then_some(digest)))
                .collect::<Option<Vec<Option<u64>>>>()?;
            Change::Switch { logical, physical, generation, digests }
        }
        2 => Change::Unmap { logical: logical(reader.u32()?)? },
        3 => {
            let row = reader.u32()?;
            let content = read_row(reader, geometry)?;
            (row < geometry.log_rows).then_some(Change::Row { row, content })?
        }
        4 => {
            let (first, count) = (reader.u64()?, reader.u64()?);
            let end = first.checked_add(count)?;
            (end <= geometry.user_blocks()).then_some(Change::Forget { first: UserBlock(first), count })?
        }
        5 => {
            let slot = Slot(reader.u32()?);
            let state = read_member(reader)?;
            ((slot.0 as usize) < geometry.slots()).then_some(Change::Member { slot, state })?
        }
        _ => return None,
    })
}

/// The maps as bytes.
pub(crate) fn encode_snapshot(maps: &Maps, number: u64, volume: &[u8; 16]) -> (Vec<u8>, u64) {
    let mut writer = Writer::new(SNAPSHOT_MAGIC);
    writer.bytes(volume);
    writer.u64(number);
    writer.u64(maps.generation);
    maps.members.iter().for_each(|member| write_member(&mut writer, member));
    writer.u32(maps.stripes.iter().flatten().count() as u32);
    for (logical, mapping) in maps.stripes.iter().enumerate() {
        if let Some(mapping) = mapping {
            writer.u32(logical as u32);
            writer.u32(mapping.physical);
            writer.u64(mapping.generation);
        }
    }
    writer.u32(maps.rows.len() as u32);
    for (number, row) in &maps.rows {
        writer.u32(*number);
        write_row(&mut writer, row);
    }
    writer.u32(maps.log.len() as u32);
    for (block, place) in &maps.log {
        writer.u64(block.0);
        writer.u32(place.row);
        writer.u32(place.index);
    }
    writer.close()
}

/// The maps, and the number of the last record that they contain.
pub(crate) fn decode_snapshot(bytes: &[u8], geometry: &Geometry) -> Option<(Maps, u64)> {
    let (mut reader, _) = Reader::open(bytes, SNAPSHOT_MAGIC)?;
    if reader.take::<16>()? != geometry.volume {
        return None;
    }
    let mut maps = Maps::new(geometry);
    let number = reader.u64()?;
    maps.generation = reader.u64()?;
    for member in &mut maps.members {
        *member = read_member(&mut reader)?;
    }
    for _ in 0..reader.count(16)? {
        let (logical, physical, generation) = (reader.u32()?, reader.u32()?, reader.u64()?);
        let entry = maps.stripes.get_mut(logical as usize)?;
        if !maps.free.remove(&physical) || entry.replace(Mapping { physical, generation }).is_some() {
            return None;
        }
    }
    for _ in 0..reader.count(17)? {
        let number = reader.u32()?;
        let row = read_row(&mut reader, geometry)?;
        if !maps.free_rows.remove(&number) {
            return None;
        }
        maps.rows.insert(number, row);
    }
    for _ in 0..reader.count(16)? {
        let (block, row, index) = (UserBlock(reader.u64()?), reader.u32()?, reader.u32()?);
        let content = maps.rows.get_mut(&row)?;
        if content.blocks.get(index as usize) != Some(&block) {
            return None;
        }
        content.live += 1;
        maps.log.insert(block, LogPlace { row, index });
    }
    (reader.0.is_empty() && maps.rows.values().all(|r| r.live > 0)).then_some((maps, number))
}

/// The block by which a volume is found again: the newest one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionBlock {
    pub(crate) session: u64,
    /// Counts the updates of this block.
    pub(crate) update: u64,
    /// Records from this number on belong to this session.
    pub(crate) first_record: u64,
    /// The snapshot area in use, if there is a snapshot, its blocks and its digest.
    pub(crate) snapshot: Option<(u8, u32, u64)>,
}

impl SessionBlock {
    pub(crate) fn encode(&self, volume: &[u8; 16]) -> Vec<u8> {
        let mut writer = Writer::new(SESSION_MAGIC);
        writer.bytes(volume);
        writer.u64(self.session);
        writer.u64(self.update);
        writer.u64(self.first_record);
        let (area, blocks, digest) = self.snapshot.unwrap_or((u8::MAX, 0, 0));
        writer.u8(area);
        writer.u32(blocks);
        writer.u64(digest);
        writer.close().0
    }

    pub(crate) fn decode(bytes: &[u8], volume: &[u8; 16]) -> Option<SessionBlock> {
        let (mut reader, _) = Reader::open(bytes, SESSION_MAGIC)?;
        if &reader.take::<16>()? != volume {
            return None;
        }
        let (session, update, first_record) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let snapshot = match (reader.u8()?, reader.u32()?, reader.u64()?) {
            (u8::MAX, _, _) => None,
            (area @ (0 | 1), blocks, digest) => Some((area, blocks, digest)),
            _ => return None,
        };
        Some(SessionBlock { session, update, first_record, snapshot })
    }
}
