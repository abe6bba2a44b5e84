//! A snapshot: the maps at one record, as a stream of blocks that needs memory for one piece of it.
//!
//! The stream is a head, the members by slot, the stripe table by logical stripe, and the log by
//! row. It is cut into pieces of 1 MiB (the last one is shorter). Each piece has a head, which
//! identifies it, and a CRC, so that it can be read from any device with an intact copy. The head
//! of a piece has the CRC of the piece before it. So the CRC of the last piece, which the
//! superblock stores, depends on every byte. (A second CRC over the pieces would not: see the
//! module's
//! description.)

use super::entry::{LONE_CELL_BYTES, MEMBER_BYTES};
use super::{
    BLOCK_BYTES, Entry, LogRow, LogWrite, LogicalStripe, Member, PhysicalStripe, RecordNumber, Session,
    Shape, Slot, SnapshotRef, VOLUME_VERSION, VolumeId, check_start, must_be_volume, must_be_zero, seal,
    unseal,
};
use crate::layout::layout;
use crate::{Crc64, FormatError, Generation, Part};
use std::collections::VecDeque;

/// Blocks of a piece: 1 MiB.
pub const PIECE_BLOCKS: u32 = 256;

const PART: Part = Part::Snapshot;
const MAGIC_BYTES: &[u8; 8] = b"PANTSNAP";
const PIECE_HEAD_BYTES: usize = 64;
const PAYLOAD_BYTES: usize = PIECE_BLOCKS as usize * BLOCK_BYTES - PIECE_HEAD_BYTES - 8;
const HEAD_BYTES: usize = 24;
const STRIPE_BYTES: usize = 12;
/// In place of a physical stripe: a run of logical stripes that are not mapped.
const UNMAPPED: u32 = u32::MAX;
/// The end of all generations: each is lower.
const GENERATIONS_END: u64 = 1 << 63;

layout! {
    /// The head of a piece. Its part of the stream follows, then zeros, then a CRC at the end of
    /// its last block.
    PIECE_HEAD_LAYOUT {
        MAGIC: "magic" @ 0 + 8, "`PANTSNAP`";
        VERSION: "version" @ 8 + 4, "format version, 3";
        PIECE: "piece" @ 12 + 4, "its number, from 0";
        VOLUME: "volume" @ 16 + 16, "the volume's UUID";
        SESSION: "session" @ 32 + 8, "the session that wrote it";
        RECORD: "record" @ 40 + 8, "the last record that is in the maps";
        BEFORE: "checksum before" @ 48 + 8, "the CRC at the end of the piece before; 0 in the first";
        PAYLOAD: "payload" @ 56 + 4, "bytes of the stream in it; 1048504 in every piece but the last";
        LAST: "last" @ 60 + 4, "1 in the last piece, else 0";
    }
}

layout! {
    /// The head of the stream. The members follow, as in records, then the stripe table, then the
    /// log.
    SNAPSHOT_LAYOUT {
        NEXT_GENERATION: "next generation" @ 0 + 8, "above all that stand in the maps";
        STRIPES: "logical stripes" @ 8 + 8, "stripes of the table";
        DEVICES: "devices" @ 16 + 4, "members";
        ROWS: "log rows" @ 20 + 4, "rows of the log";
    }
}

layout! {
    /// An entry of the stripe table: one mapped stripe, or a run of stripes that are not mapped.
    STRIPE_LAYOUT {
        PHYSICAL: "physical stripe" @ 0 + 4, "where the next logical stripe lies; 4294967295: not mapped";
        GENERATION: "generation" @ 4 + 8, "of its write, below 2^63; of a run its length, the longest possible";
    }
}

/// Head of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SnapshotHead {
    /// The volume.
    pub volume: VolumeId,
    /// The session that wrote it.
    pub session: Session,
    /// The last record that is in the maps.
    pub record: RecordNumber,
    /// A generation above all those in the maps.
    pub next_generation: Generation,
}

/// One item of the maps. All members come first, by slot; then mapped stripes, by logical stripe;
/// then the log, by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotItem {
    /// A member's state.
    Member(Member),
    /// A mapped stripe. Stripes without an item are not mapped.
    Stripe {
        /// The stripe.
        logical: LogicalStripe,
        /// The physical stripe that it is mapped to.
        physical: PhysicalStripe,
        /// Generation of its write, below 2^63.
        generation: Generation,
    },
    /// Cells of a log row that were written at once. Adjacent items may be of one row.
    LogWrite(LogWrite),
}

/// The length and the checksum of a whole snapshot, for the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SnapshotSum {
    /// Its length in blocks.
    pub blocks: u32,
    /// The CRC at the end of its last piece.
    pub crc: Crc64,
}

/// Position in the order of the stream: it decides which items may come next.
///
/// Encoder and decoder use the same order, so that every written stream can be read.
#[derive(Clone, Debug)]
struct Order {
    shape: Shape,
    next_generation: Generation,
    members: u32,
    /// The first logical stripe behind those of the stream so far.
    stripe: u64,
    row: Option<LogRow>,
    /// A bitmap of the slots of `row` that have a cell so far.
    taken: [u64; 4],
}

impl Order {
    fn new(shape: &Shape, next_generation: Generation) -> Order {
        Order { shape: *shape, next_generation, members: 0, stripe: 0, row: None, taken: [0; 4] }
    }

    fn member(&mut self, member: &Member) -> Result<(), FormatError> {
        member.check(PART, &self.shape)?;
        if member.slot != Slot(self.members) {
            return Err(invalid("slot", "must be the one after the member before"));
        }
        self.members += 1;
        Ok(())
    }

    fn stripe(&mut self, physical: PhysicalStripe, generation: Generation) -> Result<(), FormatError> {
        if physical.0 >= self.shape.physical_stripes {
            return Err(invalid("physical stripe", "must be one of the volume's"));
        }
        self.pass(1)?;
        let rule = "must be below 2^63";
        if generation.0 >= GENERATIONS_END {
            Err(invalid("generation", rule))
        } else {
            self.generation(generation)
        }
    }

    /// Advances the position by this many logical stripes.
    fn pass(&mut self, count: u64) -> Result<(), FormatError> {
        let end = self.stripe.checked_add(count).filter(|&end| end <= self.shape.logical_stripes);
        self.stripe = end.ok_or(invalid("logical stripes", "must be those of the volume"))?;
        Ok(())
    }

    fn log(&mut self, write: &LogWrite) -> Result<(), FormatError> {
        write.check(PART, &self.shape)?;
        self.generation(write.generation)?;
        if self.row.is_some_and(|row| write.row < row) {
            return Err(invalid("row", "must not be below the one before"));
        }
        if self.row != Some(write.row) {
            (self.row, self.taken) = (Some(write.row), [0; 4]);
        }
        for cell in &write.cells {
            let (word, bit) = (cell.slot.0 as usize / 64, 1 << (cell.slot.0 % 64));
            if self.taken[word] & bit != 0 {
                return Err(invalid("slot", "must stand once in a row"));
            }
            self.taken[word] |= bit;
        }
        Ok(())
    }

    fn generation(&self, generation: Generation) -> Result<(), FormatError> {
        let rule = "must be below the next one";
        if generation < self.next_generation { Ok(()) } else { Err(invalid("generation", rule)) }
    }
}

/// Encodes a snapshot from items that are pushed; holds at most one piece and the blocks that were
/// not taken yet.
#[derive(Debug)]
pub struct SnapshotEncoder {
    head: SnapshotHead,
    order: Order,
    /// Bytes that are not in a piece yet.
    stream: Vec<u8>,
    ready: VecDeque<Vec<u8>>,
    pieces: u32,
    blocks: u32,
    crc: Crc64,
}

impl SnapshotEncoder {
    /// Begins a snapshot.
    pub fn new(head: SnapshotHead, shape: &Shape) -> SnapshotEncoder {
        let mut stream = vec![0; HEAD_BYTES];
        NEXT_GENERATION.put_u64(&mut stream, head.next_generation.0);
        STRIPES.put_u64(&mut stream, shape.logical_stripes);
        DEVICES.put_u32(&mut stream, shape.devices);
        ROWS.put_u32(&mut stream, shape.log_rows);
        let order = Order::new(shape, head.next_generation);
        let crc = Crc64(0);
        SnapshotEncoder { head, order, stream, ready: VecDeque::new(), pieces: 0, blocks: 0, crc }
    }

    /// Appends an item to the stream.
    ///
    /// Panics if its place in the order is wrong, or if it is invalid for the shape.
    pub fn push(&mut self, item: &SnapshotItem) {
        if let Err(error) = self.try_push(item) {
            panic!("a snapshot is written only if it can be read: {error}");
        }
        while self.stream.len() > PAYLOAD_BYTES {
            self.piece(false);
        }
    }

    /// Returns the next complete block, if there is one.
    pub fn next_block(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }

    /// Ends the snapshot. Returns its remaining blocks, its length and its checksum.
    ///
    /// Panics if members are missing.
    pub fn finish(mut self) -> (Vec<Vec<u8>>, SnapshotSum) {
        assert_eq!(self.order.members, self.order.shape.devices, "every device has a state");
        self.unmapped_until(self.order.shape.logical_stripes).expect("the table ends where it ends");
        while self.stream.len() > PAYLOAD_BYTES {
            self.piece(false);
        }
        self.piece(true);
        (self.ready.into(), SnapshotSum { blocks: self.blocks, crc: self.crc })
    }

    fn try_push(&mut self, item: &SnapshotItem) -> Result<(), FormatError> {
        let stripes = self.order.shape.logical_stripes;
        match item {
            SnapshotItem::Member(member) => {
                if self.order.stripe > 0 || self.order.row.is_some() {
                    return Err(invalid("kind", "must be a member only at the front"));
                }
                self.order.member(member)?;
                member.encode(&mut self.stream);
            }
            SnapshotItem::Stripe { logical, physical, generation } => {
                if self.order.members != self.order.shape.devices || self.order.row.is_some() {
                    return Err(invalid("kind", "must be a stripe only between members and log"));
                }
                self.unmapped_until(logical.0)?;
                self.order.stripe(*physical, *generation)?;
                self.stripe(physical.0 as u32, generation.0);
            }
            SnapshotItem::LogWrite(write) => {
                if self.order.members != self.order.shape.devices {
                    return Err(invalid("kind", "must be a member until all have come"));
                }
                self.unmapped_until(stripes)?;
                self.order.log(write)?;
                write.encode(&mut self.stream);
            }
        }
        Ok(())
    }

    /// Appends a run of unmapped stripes up to this logical stripe.
    fn unmapped_until(&mut self, logical: u64) -> Result<(), FormatError> {
        let rule = "must be above the one before";
        let run = logical.checked_sub(self.order.stripe).ok_or(invalid("logical stripe", rule))?;
        self.order.pass(run)?;
        if run > 0 {
            self.stripe(UNMAPPED, run);
        }
        Ok(())
    }

    fn stripe(&mut self, physical: u32, generation: u64) {
        let mut bytes = [0; STRIPE_BYTES];
        PHYSICAL.put_u32(&mut bytes, physical);
        GENERATION.put_u64(&mut bytes, generation);
        self.stream.extend_from_slice(&bytes);
    }

    /// Cuts the next piece from the front of the stream.
    fn piece(&mut self, last: bool) {
        let payload = self.stream.len().min(PAYLOAD_BYTES);
        let blocks = piece_blocks(payload);
        let mut bytes = vec![0; blocks * BLOCK_BYTES];
        MAGIC.put(&mut bytes, MAGIC_BYTES);
        VERSION.put_u32(&mut bytes, VOLUME_VERSION);
        PIECE.put_u32(&mut bytes, self.pieces);
        VOLUME.put(&mut bytes, &self.head.volume.0);
        SESSION.put_u64(&mut bytes, self.head.session.0);
        RECORD.put_u64(&mut bytes, self.head.record.0);
        BEFORE.put_u64(&mut bytes, self.crc.0);
        PAYLOAD.put_u32(&mut bytes, payload as u32);
        LAST.put_u32(&mut bytes, last.into());
        bytes[PIECE_HEAD_BYTES..PIECE_HEAD_BYTES + payload].copy_from_slice(&self.stream[..payload]);
        self.stream.drain(..payload);
        self.crc = seal(&mut bytes);
        self.pieces += 1;
        self.blocks += blocks as u32;
        self.ready.extend(bytes.chunks_exact(BLOCK_BYTES).map(<[u8]>::to_vec));
    }
}

/// Blocks of a snapshot whose items come from an iterator.
pub struct SnapshotBlocks<I> {
    encoder: Option<SnapshotEncoder>,
    items: I,
    rest: VecDeque<Vec<u8>>,
    sum: Option<SnapshotSum>,
}

impl<I: Iterator<Item = SnapshotItem>> SnapshotBlocks<I> {
    /// Begins a snapshot. Iteration panics where [`SnapshotEncoder::push`] would.
    pub fn new(head: SnapshotHead, shape: &Shape, items: I) -> SnapshotBlocks<I> {
        let encoder = Some(SnapshotEncoder::new(head, shape));
        SnapshotBlocks { encoder, items, rest: VecDeque::new(), sum: None }
    }

    /// Returns length and checksum, once all blocks were taken.
    pub fn done(&self) -> Option<SnapshotSum> {
        self.sum.filter(|_| self.rest.is_empty())
    }
}

impl<I: Iterator<Item = SnapshotItem>> Iterator for SnapshotBlocks<I> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        while let Some(encoder) = &mut self.encoder {
            if let Some(block) = encoder.next_block() {
                return Some(block);
            }
            match self.items.next() {
                Some(item) => encoder.push(&item),
                None => {
                    let (rest, sum) = self.encoder.take()?.finish();
                    (self.rest, self.sum) = (rest.into(), Some(sum));
                }
            }
        }
        self.rest.pop_front()
    }
}

/// Reads a snapshot block by block; holds at most one piece.
///
/// A piece that is refused is forgotten, and may be pushed again from another device: see
/// [`SnapshotDecoder::wanted`].
#[derive(Debug)]
pub struct SnapshotDecoder {
    volume: VolumeId,
    reference: SnapshotRef,
    /// Number of blocks in the accepted pieces.
    accepted: u32,
    pieces: u32,
    crc: Crc64,
    session: Option<Session>,
    piece: Vec<u8>,
    stream: Stream,
}

impl SnapshotDecoder {
    /// Begins to read the snapshot that a superblock refers to.
    pub fn new(volume: VolumeId, shape: &Shape, reference: &SnapshotRef) -> SnapshotDecoder {
        SnapshotDecoder {
            volume,
            reference: *reference,
            accepted: 0,
            pieces: 0,
            crc: Crc64(0),
            session: None,
            piece: Vec::new(),
            stream: Stream { shape: *shape, bytes: Vec::new(), order: None, after_run: false },
        }
    }

    /// Returns the index of the block to push next; `None` after the last. After an error it is the
    /// first block of the refused piece.
    pub fn wanted(&self) -> Option<u32> {
        let block = self.accepted + (self.piece.len() / BLOCK_BYTES) as u32;
        (block < self.reference.blocks).then_some(block)
    }

    /// Takes the next block. Returns the items of a piece with its last block, otherwise none.
    ///
    /// The items must not be used before [`SnapshotDecoder::finish`] has succeeded.
    ///
    /// Errors: the piece is another one, damaged, or breaks a rule. Panics if the length is not
    /// that of a block, or if no block is wanted.
    pub fn push(&mut self, block: &[u8]) -> Result<Vec<SnapshotItem>, FormatError> {
        assert_eq!(block.len(), BLOCK_BYTES, "blocks are pushed whole");
        assert!(self.wanted().is_some(), "the snapshot is at its end");
        self.piece.extend_from_slice(block);
        let blocks = (self.reference.blocks - self.accepted).min(PIECE_BLOCKS);
        if self.piece.len() < blocks as usize * BLOCK_BYTES {
            return Ok(Vec::new());
        }
        let piece = std::mem::take(&mut self.piece);
        let crc = self.check_piece(&piece)?;
        let mut stream = self.stream.clone();
        let payload = PAYLOAD.u32(&piece) as usize;
        let is_last = self.accepted + blocks == self.reference.blocks;
        let items = stream.read(&piece[PIECE_HEAD_BYTES..PIECE_HEAD_BYTES + payload], is_last)?;
        self.stream = stream;
        self.session = Some(Session(SESSION.u64(&piece)));
        self.crc = crc;
        self.pieces += 1;
        self.accepted += blocks;
        Ok(items)
    }

    /// Returns the head of the snapshot. Errors: blocks are missing.
    pub fn finish(self) -> Result<SnapshotHead, FormatError> {
        let bytes = |blocks: u32| u64::from(blocks) * BLOCK_BYTES as u64;
        let (have, need) = (bytes(self.accepted), bytes(self.reference.blocks));
        let truncated = FormatError::Truncated { part: PART, have, need };
        match (self.wanted(), self.session, self.stream.order) {
            (None, Some(session), Some(order)) => Ok(SnapshotHead {
                volume: self.volume,
                session,
                record: self.reference.record,
                next_generation: order.next_generation,
            }),
            _ => Err(truncated),
        }
    }

    /// Checks that a piece is intact and the next one of this snapshot. Returns its CRC.
    fn check_piece(&self, piece: &[u8]) -> Result<Crc64, FormatError> {
        let rule = |holds: bool, field, rule| if holds { Ok(()) } else { Err(invalid(field, rule)) };
        check_start(PART, MAGIC_BYTES, piece, piece.len() as u64)?;
        let crc = unseal(PART, piece)?;
        must_be_volume(PART, VOLUME.get(piece), self.volume)?;
        rule(PIECE.u32(piece) == self.pieces, "piece", "must be the one after the piece before")?;
        let session = Session(SESSION.u64(piece));
        rule(self.session.is_none_or(|s| s == session), "session", "must be that of the first piece")?;
        let record = RecordNumber(RECORD.u64(piece));
        rule(record == self.reference.record, "record", "must be the one that the superblock names")?;
        let follows = BEFORE.u64(piece) == self.crc.0;
        rule(follows, "checksum before", "must be that of the piece before")?;
        let end = self.accepted + (piece.len() / BLOCK_BYTES) as u32;
        let is_last = end == self.reference.blocks;
        rule(LAST.u32(piece) == is_last.into(), "last", "must be 1 exactly in the last piece")?;
        if is_last && crc != self.reference.crc {
            return Err(FormatError::Checksum { part: PART });
        }
        let payload = PAYLOAD.u32(piece) as usize;
        let fits = match is_last {
            true => {
                (1..=PAYLOAD_BYTES).contains(&payload) && piece_blocks(payload) * BLOCK_BYTES == piece.len()
            }
            false => payload == PAYLOAD_BYTES,
        };
        rule(fits, "payload", "must fill the piece")?;
        must_be_zero(PART, &piece[PIECE_HEAD_BYTES + payload..piece.len() - 8])?;
        Ok(crc)
    }
}

/// Decoder of the stream that the pieces contain.
#[derive(Clone, Debug)]
struct Stream {
    shape: Shape,
    /// Bytes behind the last complete item.
    bytes: Vec<u8>,
    /// Position in the order of items; `None` before the head of the stream.
    order: Option<Order>,
    /// True if the last item was a run of unmapped stripes.
    after_run: bool,
}

impl Stream {
    fn read(&mut self, payload: &[u8], is_last: bool) -> Result<Vec<SnapshotItem>, FormatError> {
        self.bytes.extend_from_slice(payload);
        let bytes = std::mem::take(&mut self.bytes);
        let mut rest = bytes.as_slice();
        let mut items = Vec::new();
        while let Some(len) = self.next_len(rest)? {
            let (front, behind) = rest.split_at(len);
            items.extend(self.item(front)?);
            rest = behind;
        }
        self.bytes = rest.to_vec();
        let shape = &self.shape;
        let whole = |o: &Order| o.members == shape.devices && o.stripe == shape.logical_stripes;
        if is_last && !(rest.is_empty() && self.order.as_ref().is_some_and(whole)) {
            return Err(invalid("last", "must be 1 in the piece where the maps end"));
        }
        Ok(items)
    }

    /// Returns the length of the next item; `None` if the item is incomplete.
    fn next_len(&self, bytes: &[u8]) -> Result<Option<usize>, FormatError> {
        let len = match &self.order {
            None => Some(HEAD_BYTES),
            Some(order)
                if order.members == self.shape.devices && order.stripe < self.shape.logical_stripes =>
            {
                Some(STRIPE_BYTES)
            }
            Some(_) => Entry::len_at_front(PART, bytes)?,
        };
        Ok(len.filter(|&len| len <= bytes.len()))
    }

    fn item(&mut self, bytes: &[u8]) -> Result<Option<SnapshotItem>, FormatError> {
        let shape = self.shape;
        let Some(order) = &mut self.order else {
            let fits = STRIPES.u64(bytes) == shape.logical_stripes
                && DEVICES.u32(bytes) == shape.devices
                && ROWS.u32(bytes) == shape.log_rows;
            if !fits {
                return Err(invalid("logical stripes", "must be, as devices and rows, those of the volume"));
            }
            self.order = Some(Order::new(&shape, Generation(NEXT_GENERATION.u64(bytes))));
            return Ok(None);
        };
        if order.members < shape.devices {
            return match Entry::decode(PART, bytes)? {
                Entry::Member(member) => {
                    order.member(&member)?;
                    Ok(Some(SnapshotItem::Member(member)))
                }
                _ => Err(invalid("kind", "must be a member until all have come")),
            };
        }
        if order.stripe < shape.logical_stripes {
            let logical = LogicalStripe(order.stripe);
            let (physical, generation) = (PHYSICAL.u32(bytes), GENERATION.u64(bytes));
            let is_run = physical == UNMAPPED;
            if is_run && (generation == 0 || self.after_run) {
                return Err(invalid("generation", "must be the longest possible length of the run"));
            }
            self.after_run = is_run;
            if is_run {
                order.pass(generation)?;
                return Ok(None);
            }
            let (physical, generation) = (PhysicalStripe(physical.into()), Generation(generation));
            order.stripe(physical, generation)?;
            return Ok(Some(SnapshotItem::Stripe { logical, physical, generation }));
        }
        match Entry::decode(PART, bytes)? {
            Entry::LogWrite(write) => {
                order.log(&write)?;
                Ok(Some(SnapshotItem::LogWrite(write)))
            }
            _ => Err(invalid("kind", "must be a log write behind the stripe table")),
        }
    }
}

/// Returns the blocks of the longest snapshot.
pub(super) fn blocks_needed(shape: &Shape) -> u64 {
    let members = u64::from(shape.devices) * MEMBER_BYTES as u64;
    let table = shape.logical_stripes.saturating_mul(STRIPE_BYTES as u64);
    let cells = u64::from(shape.log_rows) * u64::from(shape.devices);
    let log = cells.saturating_mul(LONE_CELL_BYTES as u64);
    let stream = (HEAD_BYTES as u64 + members).saturating_add(table).saturating_add(log);
    let (whole, rest) = ((stream - 1) / PAYLOAD_BYTES as u64, (stream - 1) % PAYLOAD_BYTES as u64 + 1);
    whole * u64::from(PIECE_BLOCKS) + piece_blocks(rest as usize) as u64
}

fn piece_blocks(payload: usize) -> usize {
    (PIECE_HEAD_BYTES + payload + 8).div_ceil(BLOCK_BYTES)
}

fn invalid(field: &'static str, rule: &'static str) -> FormatError {
    FormatError::Invalid { part: PART, field, rule }
}
