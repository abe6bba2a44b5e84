//! The entries of a record: all kinds of changes of the maps. A snapshot consists of some of these
//! kinds, too.
//!
//! Every entry begins with its kind and its length. [`Entry::check`] checks whether an entry fits
//! the volume's [`Shape`], apart from its bytes, so that encoder and decoder apply the same rules.

use super::note::Note;
use super::patch::{PATCH_BYTES, StripePatch};
use super::{LogRow, LogicalStripe, PhysicalStripe, Shape, Slot, UserBlock, get_u16, must_be_zero};
use crate::layout::layout;
use crate::{Crc64, FormatError, Generation, Part};

const KIND_SWITCH: u16 = 1;
const KIND_UNMAP: u16 = 2;
const KIND_LOG_WRITE: u16 = 3;
const KIND_FORGET: u16 = 4;
const KIND_MEMBER: u16 = 5;
pub(super) const KIND_PATCH: u16 = 12;
/// The lowest number of the kinds that a reader may skip without knowing them.
const KIND_MAY_IGNORE: u16 = 64;
pub(super) const ENTRY_HEAD_BYTES: usize = 8;
/// The longest entry: a stripe switch or a log write over all devices, or a patch.
pub(super) const ENTRY_BYTES_MOST: usize = 8192;
const SWITCH_BYTES: usize = 64;
const UNMAP_BYTES: usize = 24;
const LOG_WRITE_BYTES: usize = 24;
const CELL_BYTES: usize = 16;
const FORGET_BYTES: usize = 24;
/// Bytes of a member entry, which states the state of a device.
pub const MEMBER_BYTES: usize = 64;
/// Bytes of a log write of one cell: the longest encoding of a cell.
pub(super) const LONE_CELL_BYTES: usize = LOG_WRITE_BYTES + CELL_BYTES;

layout! {
    /// Head of every entry.
    ENTRY_HEAD_LAYOUT {
        KIND: "kind" @ 0 + 2, "1 stripe switch, 2 unmap, 3 log write, 4 log forget, 5 member, 7 device, 8 event, 9 scrub, 10 range, 12 patch";
        COUNT: "count" @ 2 + 2, "devices of a stripe switch, cells of a log write, chunks of a patch, else zero";
        LEN: "length" @ 4 + 4, "bytes of the entry with this head";
    }
}

layout! {
    /// A stripe switch, behind the head. The digests follow, 8 bytes for each set bit, in ascending
    /// order.
    SWITCH_LAYOUT {
        S_LOGICAL: "logical stripe" @ 8 + 8, "the stripe that was written";
        S_PHYSICAL: "physical stripe" @ 16 + 8, "its place from now on";
        S_GENERATION: "generation" @ 24 + 8, "of the write";
        S_WRITTEN: "written" @ 32 + 32, "bit s of byte s / 8: a chunk was written to the device in slot s";
    }
}

layout! {
    /// An unmapping, behind the head.
    UNMAP_LAYOUT {
        U_FIRST: "first logical stripe" @ 8 + 8, "of those that are mapped no more";
        U_COUNT: "count" @ 16 + 8, "how many, at least 1";
    }
}

layout! {
    /// A log write, behind the head. Its cells follow.
    LOG_WRITE_LAYOUT {
        L_ROW: "row" @ 8 + 4, "the row of the log";
        L_RESERVED: "reserved" @ 12 + 4, "zero";
        L_GENERATION: "generation" @ 16 + 8, "of the write";
    }
}

layout! {
    /// One cell of a log write: one block on one device.
    LOG_CELL_LAYOUT {
        C_USER: "user block" @ 0 + 6, "the user's block or the home block that it holds; 0 for a cell that holds none";
        C_SLOT: "slot" @ 6 + 1, "the device";
        C_HOLDS: "holds" @ 7 + 1, "0 a user's block, 1 parity, 2 neither: zeros that fill a row of the log code, or a forgotten cell; 3 a home block";
        C_CHECKSUM: "checksum" @ 8 + 8, "of the block, as it is or would be on that device";
    }
}

layout! {
    /// A log forgetting, behind the head.
    FORGET_LAYOUT {
        F_FIRST: "first user block" @ 8 + 8, "of those that the log hides no more";
        F_COUNT: "count" @ 16 + 8, "how many, at least 1";
    }
}

layout! {
    /// The state of a member, behind the head.
    MEMBER_LAYOUT {
        M_SLOT: "slot" @ 8 + 4, "the device";
        M_STATE: "state" @ 12 + 4, "0 present, 1 lost, 2 rebuilding";
        M_FROM: "missed from" @ 16 + 8, "the first generation that it missed; 0 if present";
        M_UNTIL: "missed until" @ 24 + 8, "the first generation that it did not miss; 0 unless rebuilding";
        M_CURSOR: "cursor" @ 32 + 8, "the logical stripes before it are rebuilt; 0 unless rebuilding";
        M_AHEAD_ROWS: "rows ahead" @ 40 + 8, "bit r: row r of its column is rebuilt ahead of the others; 0 unless rebuilding";
        M_AHEAD_UNTIL: "ahead until" @ 48 + 8, "these rows are rebuilt of the logical stripes before this one; 0 without such rows";
        M_FIRST_UPDATE: "first update" @ 56 + 8, "a device whose newest superblock has a lower update is not the one that the state is of";
    }
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A logical stripe was written as a whole to a physical one. Blocks of this stripe in the log
    /// stay valid until a `LogForget`.
    StripeSwitch(StripeSwitch),
    /// Logical stripes are no longer mapped: they read as zeros. Their blocks in the log stay
    /// valid.
    Unmap {
        /// The first.
        first: LogicalStripe,
        /// Number of them, at least 1.
        count: u64,
    },
    /// Blocks of one row of the log were written.
    LogWrite(LogWrite),
    /// The log no longer overrides the stripes for these blocks: they were merged or trimmed.
    LogForget {
        /// The first.
        first: UserBlock,
        /// Number of them, at least 1.
        count: u64,
    },
    /// The state of a member from now on.
    Member(Member),
    /// An event, or a fault.
    Note(Note),
    /// Blocks of a stripe that are to be written in place, or have been.
    Patch(StripePatch),
}

/// A logical stripe was written as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripeSwitch {
    /// The stripe.
    pub logical: LogicalStripe,
    /// The physical stripe that it is mapped to from now on.
    pub physical: PhysicalStripe,
    /// Generation of the write.
    pub generation: Generation,
    /// By slot, the digest of the header of the chunk there, one for each device; `None`: no chunk
    /// was written there.
    pub digests: Vec<Option<Crc64>>,
}

/// Blocks of one row of the log, written at once.
///
/// If some cells are parity, the cells are a row of the log code, in which slot s holds column (s -
/// row) mod n. Otherwise each block has as many copies as cells name it. A cell of a lost device is
/// named like the others, since it can be computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogWrite {
    /// The row.
    pub row: LogRow,
    /// Generation of the write.
    pub generation: Generation,
    /// The cells, in ascending order of slots; at least one.
    pub cells: Vec<Cell>,
}

/// One block of a row of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    /// The device.
    pub slot: Slot,
    /// Content of the block.
    pub holds: Holds,
    /// Checksum of the block; see [`block_checksum`](super::block_checksum).
    pub checksum: Crc64,
}

/// Content of a block of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holds {
    /// The block at this index of the user's address space.
    User(UserBlock),
    /// A home block: a parity block of a stripe that is in the log until it is written to the
    /// stripe. The index counts the home blocks of all logical stripes, the same number for each
    /// stripe.
    Home(u64),
    /// Parity of the row.
    Parity,
    /// Zeros that fill the row, or a block that was forgotten. The cell is named because the parity
    /// of its row covers it.
    Unused,
}

/// The state of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// The device.
    pub slot: Slot,
    /// Its state.
    pub state: MemberState,
    /// The lowest update that the newest superblock of the device can have. A device with an older
    /// one had the slot earlier, or is a copy of an earlier time: the state is not of it.
    pub first_update: u64,
}

/// Usability of a device's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberState {
    /// It holds everything.
    Present,
    /// It misses all writes since it was lost.
    Lost {
        /// The first generation that it missed.
        missed_from: Generation,
    },
    /// It takes new writes. It lacks the generations `missed_from..missed_until`, except in the
    /// stripes before the cursor and in rows that are rebuilt ahead.
    Rebuilding {
        /// The first generation that it missed.
        missed_from: Generation,
        /// The first generation after those that it missed; not below `missed_from`.
        missed_until: Generation,
        /// Every logical stripe before this one is rebuilt.
        cursor: LogicalStripe,
        /// Rows of its column that are rebuilt ahead of the others.
        ahead: RowsAhead,
    },
}

/// Rows of a column that are rebuilt before its other rows: with them every stripe tolerates one
/// more loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RowsAhead {
    /// A bitmap: bit r is row r.
    pub rows: u64,
    /// Every logical stripe before this one has these rows on the device; 0 without rows.
    pub until: LogicalStripe,
}

impl RowsAhead {
    /// Returns true if this row is rebuilt ahead and already on the device for a logical stripe.
    pub fn has(self, logical: LogicalStripe, row: usize) -> bool {
        logical < self.until && row < u64::BITS as usize && self.rows >> row & 1 == 1
    }
}

impl MemberState {
    /// True if the device has the chunk of a logical stripe that was written in this generation.
    pub fn has(self, generation: Generation, logical: LogicalStripe) -> bool {
        match self {
            MemberState::Present => true,
            MemberState::Lost { .. } => false,
            MemberState::Rebuilding { missed_from, missed_until, cursor, .. } => {
                !(missed_from..missed_until).contains(&generation) || logical < cursor
            }
        }
    }

    /// True if the device has the block of a log row that was written in this generation. The log
    /// is rebuilt before all stripes.
    pub fn has_log(self, generation: Generation) -> bool {
        let is_done = matches!(self, MemberState::Rebuilding { cursor, ahead, .. }
            if cursor.max(ahead.until).0 > 0);
        is_done || self.has(generation, LogicalStripe(u64::MAX))
    }

    /// True if the device has a row of the chunk of a logical stripe that was written in this
    /// generation.
    pub fn has_row(self, generation: Generation, logical: LogicalStripe, row: usize) -> bool {
        let is_ahead = matches!(self, MemberState::Rebuilding { ahead, .. } if ahead.has(logical, row));
        is_ahead || self.has(generation, logical)
    }
}

impl Entry {
    /// Returns the length of the encoded entry.
    pub fn len_bytes(&self) -> usize {
        match self {
            Entry::StripeSwitch(switch) => switch.len_bytes(),
            Entry::Unmap { .. } => UNMAP_BYTES,
            Entry::LogWrite(write) => write.len_bytes(),
            Entry::LogForget { .. } => FORGET_BYTES,
            Entry::Member(_) => MEMBER_BYTES,
            Entry::Note(note) => note.len_bytes(),
            Entry::Patch(patch) => patch.len_bytes(),
        }
    }

    pub(super) fn check(&self, shape: &Shape) -> Result<(), FormatError> {
        let rule = |holds: bool, field, rule| {
            let part = Part::Record;
            if holds { Ok(()) } else { Err(FormatError::Invalid { part, field, rule }) }
        };
        let within = |first: u64, count: u64, limit: u64| {
            count >= 1 && first.checked_add(count).is_some_and(|end| end <= limit)
        };
        match self {
            Entry::StripeSwitch(switch) => {
                let fits = switch.digests.len() == shape.devices as usize;
                rule(fits, "count", "must be the number of devices")?;
                let fits = switch.digests.iter().flatten().count() > 0;
                rule(fits, "written", "must name a device")?;
                let fits = switch.logical.0 < shape.logical_stripes;
                rule(fits, "logical stripe", "must be one of the volume's")?;
                let fits = switch.physical.0 < shape.physical_stripes;
                rule(fits, "physical stripe", "must be one of the volume's")
            }
            Entry::Unmap { first, count } => {
                let fits = within(first.0, *count, shape.logical_stripes);
                rule(fits, "first logical stripe", "must begin a range of the volume's")
            }
            Entry::LogWrite(write) => write.check(Part::Record, shape),
            Entry::LogForget { first, count } => {
                let fits = within(first.0, *count, shape.user_blocks());
                rule(fits, "first user block", "must begin a range of the volume's")
            }
            Entry::Member(member) => member.check(Part::Record, shape),
            Entry::Note(note) => note.check(Part::Record, shape),
            Entry::Patch(patch) => patch.check(Part::Record, shape),
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        match self {
            Entry::StripeSwitch(switch) => switch.encode(out),
            Entry::Unmap { first, count } => {
                let head = begin(out, KIND_UNMAP, 0, UNMAP_BYTES, UNMAP_BYTES);
                U_FIRST.put_u64(head, first.0);
                U_COUNT.put_u64(head, *count);
            }
            Entry::LogWrite(write) => write.encode(out),
            Entry::LogForget { first, count } => {
                let head = begin(out, KIND_FORGET, 0, FORGET_BYTES, FORGET_BYTES);
                F_FIRST.put_u64(head, first.0);
                F_COUNT.put_u64(head, *count);
            }
            Entry::Member(member) => member.encode(out),
            Entry::Patch(patch) => patch.encode(out),
            Entry::Note(note) => {
                let head = begin(out, note.kind(), 0, note.len_bytes(), note.len_bytes());
                note.encode(head);
            }
        }
        debug_assert_eq!(out.len(), start + self.len_bytes());
    }

    /// Returns the length of the entry at the front of `bytes`; `None` if its head is incomplete.
    pub(super) fn len_at_front(part: Part, bytes: &[u8]) -> Result<Option<usize>, FormatError> {
        if bytes.len() < ENTRY_HEAD_BYTES {
            return Ok(None);
        }
        match LEN.u32(bytes) as usize {
            len @ ENTRY_HEAD_BYTES..=ENTRY_BYTES_MOST => Ok(Some(len)),
            _ => Err(FormatError::Invalid { part, field: "length", rule: "must fit the kind" }),
        }
    }

    /// True if these bytes, at least the head of an entry, are of a kind that a reader may skip
    /// without knowing it.
    pub(super) fn may_be_ignored(bytes: &[u8]) -> bool {
        get_u16(KIND, bytes) >= KIND_MAY_IGNORE
    }

    /// Decodes an entry that is exactly these bytes. It may still violate the volume's shape.
    pub(super) fn decode(part: Part, bytes: &[u8]) -> Result<Entry, FormatError> {
        let invalid = |field, rule| FormatError::Invalid { part, field, rule };
        let count = usize::from(get_u16(COUNT, bytes));
        let (fixed, counted) = match get_u16(KIND, bytes) {
            KIND_SWITCH => (SWITCH_BYTES, true),
            KIND_UNMAP => (UNMAP_BYTES, false),
            KIND_LOG_WRITE => (LOG_WRITE_BYTES, true),
            KIND_FORGET => (FORGET_BYTES, false),
            KIND_MEMBER => (MEMBER_BYTES, false),
            KIND_PATCH => (PATCH_BYTES, true),
            kind if Note::is_kind(kind) => (Note::len_of(kind), false),
            _ => return Err(invalid("kind", "must be 1 to 5, 7 to 10, 12 or 13")),
        };
        if bytes.len() < fixed {
            return Err(invalid("length", "must fit the kind"));
        }
        if !counted && count != 0 {
            return Err(invalid("count", "must be zero for this kind"));
        }
        let (head, rest) = bytes.split_at(fixed);
        let entry = match get_u16(KIND, bytes) {
            KIND_SWITCH => Entry::StripeSwitch(StripeSwitch::decode(part, head, count, rest)?),
            KIND_LOG_WRITE => Entry::LogWrite(LogWrite::decode(part, head, count, rest)?),
            KIND_PATCH => Entry::Patch(StripePatch::decode(part, head, count, rest)?),
            _ if !rest.is_empty() => return Err(invalid("length", "must fit the kind")),
            KIND_UNMAP => Entry::Unmap { first: LogicalStripe(U_FIRST.u64(head)), count: U_COUNT.u64(head) },
            KIND_FORGET => Entry::LogForget { first: UserBlock(F_FIRST.u64(head)), count: F_COUNT.u64(head) },
            kind if Note::is_kind(kind) => Entry::Note(Note::decode(part, kind, head)?),
            _ => Entry::Member(Member::decode(part, head)?),
        };
        Ok(entry)
    }
}

impl StripeSwitch {
    fn len_bytes(&self) -> usize {
        SWITCH_BYTES + 8 * self.digests.iter().flatten().count()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let head = begin(out, KIND_SWITCH, self.digests.len(), SWITCH_BYTES, self.len_bytes());
        S_LOGICAL.put_u64(head, self.logical.0);
        S_PHYSICAL.put_u64(head, self.physical.0);
        S_GENERATION.put_u64(head, self.generation.0);
        let mut written = [0u8; 32];
        for (slot, _) in self.digests.iter().enumerate().filter(|(_, digest)| digest.is_some()) {
            written[slot / 8] |= 1 << (slot % 8);
        }
        S_WRITTEN.put(head, &written);
        for digest in self.digests.iter().flatten() {
            out.extend_from_slice(&digest.0.to_le_bytes());
        }
    }

    fn decode(part: Part, head: &[u8], count: usize, rest: &[u8]) -> Result<StripeSwitch, FormatError> {
        let invalid = |field, rule| FormatError::Invalid { part, field, rule };
        let written: [u8; 32] = S_WRITTEN.get(head);
        let is_written = |slot: usize| written[slot / 8] & (1 << (slot % 8)) != 0;
        if count > 256 || (count..256).any(is_written) {
            return Err(invalid("written", "must name devices of the volume"));
        }
        let mut digests = Vec::with_capacity(count);
        let mut stored = rest.chunks_exact(8);
        for slot in 0..count {
            let digest = match is_written(slot) {
                true => Some(stored.next().ok_or(invalid("length", "must fit the kind"))?),
                false => None,
            };
            let crc = |bytes: &[u8]| Crc64(u64::from_le_bytes(bytes.try_into().expect("chunks of 8")));
            digests.push(digest.map(crc));
        }
        if stored.len() != 0 || !stored.remainder().is_empty() {
            return Err(invalid("length", "must fit the kind"));
        }
        Ok(StripeSwitch {
            logical: LogicalStripe(S_LOGICAL.u64(head)),
            physical: PhysicalStripe(S_PHYSICAL.u64(head)),
            generation: Generation(S_GENERATION.u64(head)),
            digests,
        })
    }
}

impl LogWrite {
    pub(super) fn check(&self, part: Part, shape: &Shape) -> Result<(), FormatError> {
        let rule = |holds: bool, field, rule| {
            if holds { Ok(()) } else { Err(FormatError::Invalid { part, field, rule }) }
        };
        rule(self.row.0 < shape.log_rows, "row", "must be one of the log's")?;
        rule(!self.cells.is_empty(), "count", "must be 1 or more")?;
        let ascending = self.cells.windows(2).all(|pair| pair[0].slot < pair[1].slot);
        rule(ascending, "slot", "must be above the one before")?;
        let known = self.cells.iter().all(|cell| cell.slot.0 < shape.devices);
        rule(known, "slot", "must be below the number of devices")?;
        let known = |cell: &Cell| !matches!(cell.holds, Holds::User(user) if user.0 >= shape.user_blocks());
        rule(self.cells.iter().all(known), "user block", "must be one of the volume's")
    }

    fn len_bytes(&self) -> usize {
        LOG_WRITE_BYTES + CELL_BYTES * self.cells.len()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let head = begin(out, KIND_LOG_WRITE, self.cells.len(), LOG_WRITE_BYTES, self.len_bytes());
        L_ROW.put_u32(head, self.row.0);
        L_GENERATION.put_u64(head, self.generation.0);
        for cell in &self.cells {
            out.extend_from_slice(&cell.encode());
        }
    }

    fn decode(part: Part, head: &[u8], count: usize, rest: &[u8]) -> Result<LogWrite, FormatError> {
        if rest.len() != count * CELL_BYTES {
            return Err(FormatError::Invalid { part, field: "length", rule: "must fit the kind" });
        }
        must_be_zero(part, &L_RESERVED.get::<4>(head))?;
        let cells = rest.chunks_exact(CELL_BYTES).map(|bytes| Cell::decode(part, bytes));
        Ok(LogWrite {
            row: LogRow(L_ROW.u32(head)),
            generation: Generation(L_GENERATION.u64(head)),
            cells: cells.collect::<Result<Vec<Cell>, FormatError>>()?,
        })
    }
}

impl Cell {
    fn encode(&self) -> [u8; CELL_BYTES] {
        let mut bytes = [0; CELL_BYTES];
        let (user, holds) = match self.holds {
            Holds::User(user) => (user.0, 0),
            Holds::Home(home) => (home, 3),
            Holds::Parity => (0, 1),
            Holds::Unused => (0, 2),
        };
        C_USER.put(&mut bytes, &user.to_le_bytes()[..6]);
        C_SLOT.put(&mut bytes, &[self.slot.0 as u8]);
        C_HOLDS.put(&mut bytes, &[holds]);
        C_CHECKSUM.put_u64(&mut bytes, self.checksum.0);
        bytes
    }

    fn decode(part: Part, bytes: &[u8]) -> Result<Cell, FormatError> {
        let mut user = [0; 8];
        user[..6].copy_from_slice(&C_USER.get::<6>(bytes));
        let [slot] = C_SLOT.get(bytes);
        let [holds] = C_HOLDS.get(bytes);
        let holds = match (holds, u64::from_le_bytes(user)) {
            (0, user) => Holds::User(UserBlock(user)),
            (1, 0) => Holds::Parity,
            (2, 0) => Holds::Unused,
            (3, home) => Holds::Home(home),
            (1 | 2, _) => {
                let rule = "must be 0 in a cell that holds none";
                return Err(FormatError::Invalid { part, field: "user block", rule });
            }
            _ => return Err(FormatError::Invalid { part, field: "holds", rule: "must be 0 to 3" }),
        };
        Ok(Cell { slot: Slot(slot.into()), holds, checksum: Crc64(C_CHECKSUM.u64(bytes)) })
    }
}

impl Member {
    pub(super) fn check(&self, part: Part, shape: &Shape) -> Result<(), FormatError> {
        let rule = |holds: bool, field, rule| {
            if holds { Ok(()) } else { Err(FormatError::Invalid { part, field, rule }) }
        };
        rule(self.slot.0 < shape.devices, "slot", "must be below the number of devices")?;
        if let MemberState::Rebuilding { missed_from, missed_until, cursor, ahead } = self.state {
            rule(missed_from <= missed_until, "missed until", "must not be below the start")?;
            rule(cursor.0 <= shape.logical_stripes, "cursor", "must not be behind the last stripe")?;
            rule(
                ahead.until.0 <= shape.logical_stripes,
                "ahead until",
                "must not be behind the last stripe",
            )?;
            rule(ahead.rows != 0 || ahead.until.0 == 0, "ahead until", "must be 0 without rows")?;
        }
        Ok(())
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let head = begin(out, KIND_MEMBER, 0, MEMBER_BYTES, MEMBER_BYTES);
        let none = (Generation(0), LogicalStripe(0), RowsAhead::default());
        let (state, from, (until, cursor, ahead)) = match self.state {
            MemberState::Present => (0, Generation(0), none),
            MemberState::Lost { missed_from } => (1, missed_from, none),
            MemberState::Rebuilding { missed_from, missed_until, cursor, ahead } => {
                (2, missed_from, (missed_until, cursor, ahead))
            }
        };
        M_SLOT.put_u32(head, self.slot.0);
        M_STATE.put_u32(head, state);
        M_FROM.put_u64(head, from.0);
        M_UNTIL.put_u64(head, until.0);
        M_CURSOR.put_u64(head, cursor.0);
        M_AHEAD_ROWS.put_u64(head, ahead.rows);
        M_AHEAD_UNTIL.put_u64(head, ahead.until.0);
        M_FIRST_UPDATE.put_u64(head, self.first_update);
    }

    fn decode(part: Part, head: &[u8]) -> Result<Member, FormatError> {
        let invalid = |field, rule| FormatError::Invalid { part, field, rule };
        let (missed_from, missed_until) = (Generation(M_FROM.u64(head)), Generation(M_UNTIL.u64(head)));
        let cursor = LogicalStripe(M_CURSOR.u64(head));
        let ahead = RowsAhead { rows: M_AHEAD_ROWS.u64(head), until: LogicalStripe(M_AHEAD_UNTIL.u64(head)) };
        let is_plain = (missed_until.0, cursor.0, ahead) == (0, 0, RowsAhead::default());
        let state = match (M_STATE.u32(head), missed_from.0) {
            (0, 0) if is_plain => MemberState::Present,
            (1, _) if is_plain => MemberState::Lost { missed_from },
            (2, _) => MemberState::Rebuilding { missed_from, missed_until, cursor, ahead },
            (0 | 1, ..) => return Err(invalid("missed from", "must be 0 where the state has none")),
            _ => return Err(invalid("state", "must be 0, 1 or 2")),
        };
        Ok(Member { slot: Slot(M_SLOT.u32(head)), state, first_update: M_FIRST_UPDATE.u64(head) })
    }
}

/// Appends the fixed part of an entry: its head, then zeros.
pub(super) fn begin(out: &mut Vec<u8>, kind: u16, count: usize, fixed: usize, len: usize) -> &mut [u8] {
    let start = out.len();
    out.resize(start + fixed, 0);
    let head = &mut out[start..];
    KIND.put(head, &kind.to_le_bytes());
    COUNT.put(head, &(count as u16).to_le_bytes());
    LEN.put_u32(head, len as u32);
    head
}
