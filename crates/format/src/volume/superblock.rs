//! The superblock: the identity of the volume and of this device, and the place of its maps.
//!
//! It is written alternately to blocks 0 and 1, so that a torn write leaves the previous one
//! intact, and copied to the last block. Of the valid ones, the one with the highest update counter
//! counts. No commit changes it: the maps are in the snapshot and in the records behind it.

use super::{
    BLOCK_BYTES, Features, HistoryId, RecordNumber, STATE_BLOCKS, Session, Shape, Slot, StateRef,
    VOLUME_VERSION, VolumeId, check_start, must_be_zero, seal, unseal,
};
use crate::layout::layout;
use crate::{CodeRecord, Crc64, FormatError, Generation, Part};
use pantile_code::Placement;

const MAGIC_BYTES: &[u8; 8] = b"PANTVOLM";
const PART: Part = Part::Superblock;

/// Prefix in place of a family name; the text of the code is in the definition area.
const CUSTOM: &str = "custom:";

layout! {
    /// The superblock, byte by byte.
    SUPERBLOCK_LAYOUT {
        MAGIC: "magic" @ 0 + 8, "`PANTVOLM`";
        VERSION: "version" @ 8 + 4, "format version, 3";
        SLOT: "slot" @ 12 + 4, "this device's place in the volume, from 0";
        VOLUME: "volume" @ 16 + 16, "the volume's UUID";
        HISTORY: "history" @ 32 + 16, "drawn again whenever the volume is opened without all of its devices";
        UPDATE: "update" @ 48 + 8, "counts the writes of this superblock; the highest counts";
        SESSION: "session" @ 56 + 8, "counts the times that the volume was opened for writing";
        GENERATION_FLOOR: "generation floor" @ 64 + 8, "the first generation that this session may give";
        FIRST_RECORD: "first record" @ 72 + 8, "records from this one on count only if they are of this session, those before only if they are not";
        CREATED: "created" @ 80 + 8, "seconds since 1970, signed";
        BLOCK: "block length" @ 88 + 4, "4096";
        DEVICES: "devices" @ 92 + 4, "devices of the volume and columns of the code: 1 to 256";
        ROWS: "rows" @ 96 + 4, "elements of a chunk on this device";
        DATA_CELLS: "data cells" @ 100 + 4, "data cells of a stripe";
        ELEMENT_BLOCKS: "element blocks" @ 104 + 4, "blocks of an element: a power of two up to 1024";
        PLACEMENT: "placement" @ 108 + 4, "0 fixed, else the devices by which columns are rotated from stripe to stripe: 1 to 255";
        RESERVED_2: "reserved" @ 112 + 4, "zero";
        LOG_ROWS: "log rows" @ 116 + 4, "blocks of the log zone, at most 1048576";
        JOURNAL_BLOCKS: "journal blocks" @ 120 + 4, "blocks of the journal, 16 to 65536";
        SNAPSHOT_BLOCKS: "snapshot blocks" @ 124 + 4, "blocks of each snapshot zone, enough for the largest maps";
        PHYSICAL_STRIPES: "physical stripes" @ 128 + 8, "chunks of the data zone: 1 to 4294967295";
        LOGICAL_STRIPES: "logical stripes" @ 136 + 8, "stripes of the user's address space, at most the physical ones";
        SNAPSHOT: "snapshot" @ 144 + 4, "0 none, 1 snapshot 0, 2 snapshot 1 holds the maps; without one its other fields are zero";
        SNAPSHOT_LEN: "snapshot length" @ 148 + 4, "its blocks";
        SNAPSHOT_RECORD: "snapshot record" @ 152 + 8, "the last record that is in it; the next is the first to replay";
        SNAPSHOT_CRC: "snapshot checksum" @ 160 + 8, "the CRC at the end of its last piece";
        REPLAY: "replay block" @ 168 + 4, "the block of the journal where the first record to replay begins";
        CODE_VERSION: "code version" @ 172 + 4, "version of the code's construction";
        FINGERPRINT: "code fingerprint" @ 176 + 8, "digest of the code's shape and equations";
        DEFINITION_LEN: "definition length" @ 184 + 4, "bytes in the definition area, at most 57344; 0 for a named code";
        SPEC_LEN: "spec length" @ 188 + 4, "bytes of the code's spec: 1 to 512";
        DEFINITION_CRC: "definition checksum" @ 192 + 8, "CRC-64/NVME of the definition; 0 for a named code";
        NAME_LEN: "name length" @ 200 + 4, "bytes of the volume's name, at most 64";
        RESERVED: "reserved" @ 204 + 4, "zero";
        LOST: "lost" @ 208 + 32, "bit s of byte s / 8: the device in slot s is lost, its own superblock is out of date";
        NAME: "name" @ 240 + 64, "the volume's name in UTF-8, then zeros";
        SPEC: "spec" @ 304 + 512, "the code's spec in UTF-8, then zeros";
        ANCESTORS: "ancestors" @ 816 + 2048, "the histories before this one, the newest first, 16 bytes each, then zeros";
        SNAPSHOT_SESSION: "snapshot session" @ 2864 + 8, "the session that wrote the snapshot";
        BASE: "base session" @ 2872 + 8, "the newest session that had written a record or a snapshot when this one began";
        MAY_IGNORE: "features to ignore" @ 2880 + 8, "a reader that does not know a bit may read and write";
        READ_ONLY: "features to read" @ 2888 + 8, "a reader that does not know a bit may read and must not write";
        MUST_REFUSE: "features to refuse" @ 2896 + 8, "a reader that does not know a bit must refuse the volume: bit 0 the device is being made a copy of the one in its slot, and is no member";
        STATE_CRC: "state checksum" @ 2904 + 8, "the CRC at the end of the state that goes with the snapshot; 0 for none";
        COPY_BEGUN: "copy begun" @ 2912 + 8, "of a device that is being made a copy: when that began, seconds since 1970; else 0";
        STATE_LEN: "state length" @ 2920 + 4, "blocks of the state: 1 to 4; 0 for none";
        REST: "reserved" @ 2924 + 1164, "zero";
        CRC: "checksum" @ 4088 + 8, "CRC-64/NVME of the 4088 bytes before";
    }
}

/// The snapshot that holds the maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SnapshotRef {
    /// Snapshot 0 or 1.
    pub area: u8,
    /// The last record whose changes are in it; replay begins with the next record.
    pub record: RecordNumber,
    /// Its length in blocks.
    pub blocks: u32,
    /// The CRC at the end of its last piece, which depends on all of it.
    pub crc: Crc64,
    /// The block of the journal at which replay begins.
    pub replay_at: u32,
    /// The session that wrote it.
    pub session: Session,
}

/// The superblock: the identity of the volume and of this device, and the place of its maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The volume.
    pub volume: VolumeId,
    /// Identity of the history, drawn at random whenever the volume is opened without all of its
    /// devices. So devices that ran separately have different histories.
    pub history: HistoryId,
    /// Earlier histories of this one, the newest first; at most [`Superblock::ANCESTORS_MOST`],
    /// older ones are dropped. A device with one of these histories was left behind; a device with
    /// any other history ran separately.
    pub ancestors: Vec<HistoryId>,
    /// The slot of this device.
    pub slot: Slot,
    /// Number of writes of this superblock.
    pub update: u64,
    /// Number of times that the volume was opened for writing.
    pub session: Session,
    /// The base of this session: the newest earlier session that has written a record or a
    /// snapshot.
    ///
    /// A session that has written neither has changed nothing. Its superblock, which may be on only
    /// one device, then counts no more than that of its base.
    pub base: Session,
    /// The first generation that this session may use.
    ///
    /// It is above every generation that earlier sessions can have used. So no generation is used
    /// twice, although the last records of a session can be lost.
    pub generation_floor: Generation,
    /// The first record of this session. Of the records from this number on only those of this
    /// session are valid, and of those before it only those of earlier sessions.
    ///
    /// So a record that was discarded when the session began cannot become valid again, even if the
    /// session wrote none.
    pub first_record: RecordNumber,
    /// Time at which the volume was made, in seconds since 1970.
    pub created: i64,
    /// The volume's name, at most 64 bytes.
    pub name: String,
    /// The spec of the code. For a code without a family, `definition` refers to its text.
    pub spec: String,
    /// The version of the code's construction.
    pub code_version: u32,
    /// The digest of the code's shape and equations.
    pub fingerprint: u64,
    /// Length and checksum of the code's text in the definition area, for a code that no family
    /// names.
    pub definition: Option<DefinitionRef>,
    /// The numbers from which all addresses follow.
    pub shape: Shape,
    /// The device that holds each column of a stripe.
    pub placement: Placement,
    /// The snapshot of the maps; `None`: the volume is new, nothing is mapped, and replay begins
    /// with record 1 at block 0.
    pub snapshot: Option<SnapshotRef>,
    /// The devices that are lost, ascending; never this one.
    pub lost: Vec<Slot>,
    /// Features of the volume.
    pub features: Features,
    /// The state beside the snapshot; `None` without a snapshot.
    pub state: Option<StateRef>,
    /// Time at which this device began to become a copy of another ([`Features::REPLACEMENT`]), in
    /// seconds since 1970, at least 1; otherwise 0.
    pub copy_begun: u64,
}

/// A reference to the text in the definition area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DefinitionRef {
    /// Its length: 1 to [`DEFINITION_BYTES_MAX`](Superblock::DEFINITION_BYTES_MAX) bytes.
    pub len: u32,
    /// The CRC-64/NVME of the text.
    pub crc: Crc64,
}

impl Superblock {
    /// The longest definition: the area is from 8 KiB to 64 KiB.
    pub const DEFINITION_BYTES_MAX: u32 = 56 << 10;

    /// The most earlier histories that are stored.
    pub const ANCESTORS_MOST: usize = ANCESTORS.len as usize / size_of::<HistoryId>();

    /// Checks that the superblock is valid: exactly the superblocks accepted here can be written by
    /// [`Superblock::encode`] and read by [`Superblock::decode`].
    ///
    /// Errors: `Invalid` with the field that breaks a rule.
    pub fn check(&self) -> Result<(), FormatError> {
        let rule = |holds: bool, field, rule| {
            if holds { Ok(()) } else { Err(FormatError::Invalid { part: PART, field, rule }) }
        };
        self.shape.check()?;
        let devices = self.shape.devices;
        rule(self.slot.0 < devices, "slot", "must be below the number of devices")?;
        let name = self.name.as_bytes();
        let fits = name.len() <= NAME.len as usize && !name.contains(&0);
        rule(fits, "name", "must be 64 bytes at most, none of them zero")?;
        let spec = self.spec.as_bytes();
        let fits = (1..=SPEC.len as usize).contains(&spec.len()) && spec.iter().all(u8::is_ascii_graphic);
        rule(fits, "spec", "must be 1 to 512 visible ASCII characters")?;
        let fits = self.spec.starts_with(CUSTOM) == self.definition.is_some();
        rule(fits, "definition length", "must be 0 exactly for a named code")?;
        let fits = |d: DefinitionRef| (1..=Superblock::DEFINITION_BYTES_MAX).contains(&d.len);
        rule(self.definition.is_none_or(fits), "definition length", "must be 57344 at most")?;
        let fits = self.ancestors.len() <= Superblock::ANCESTORS_MOST;
        rule(
            fits && !self.ancestors.contains(&HistoryId([0; 16])),
            "ancestors",
            "must be 128 at most, none zero",
        )?;
        let ascending = self.lost.windows(2).all(|pair| pair[0] < pair[1]);
        let known = self.lost.iter().all(|&slot| slot.0 < devices && slot != self.slot);
        rule(ascending && known, "lost", "must name devices of the volume, not this one")?;
        rule(self.base <= self.session, "base session", "must not be after the session")?;
        if let Some(snapshot) = self.snapshot {
            let fits = snapshot.session <= self.session;
            rule(fits, "snapshot session", "must not be after the session")?;
            rule(snapshot.area < 2, "snapshot", "must be 0, 1 or 2")?;
            let fits = (1..=self.shape.snapshot_blocks).contains(&snapshot.blocks);
            rule(fits, "snapshot length", "must be 1 or more and fit the snapshot zone")?;
            let fits = snapshot.replay_at < self.shape.journal_blocks;
            rule(fits, "replay block", "must lie in the journal")?;
        }
        let is_copy = self.features.must_refuse & Features::REPLACEMENT != 0;
        rule(is_copy == (self.copy_begun > 0), "copy begun", "must be 0 exactly for a member")?;
        let Some(state) = self.state else { return Ok(()) };
        rule(self.snapshot.is_some(), "state length", "must be 0 without a snapshot")?;
        rule((1..=STATE_BLOCKS).contains(&state.blocks), "state length", "must be 1 to 4")
    }

    /// Returns the encoded block.
    ///
    /// Panics unless [`Superblock::check`] passes.
    pub fn encode(&self) -> Vec<u8> {
        if let Err(error) = self.check() {
            panic!("a superblock is written only if it can be read: {error}");
        }
        let mut bytes = vec![0; BLOCK_BYTES];
        MAGIC.put(&mut bytes, MAGIC_BYTES);
        VERSION.put_u32(&mut bytes, VOLUME_VERSION);
        SLOT.put_u32(&mut bytes, self.slot.0);
        VOLUME.put(&mut bytes, &self.volume.0);
        HISTORY.put(&mut bytes, &self.history.0);
        UPDATE.put_u64(&mut bytes, self.update);
        SESSION.put_u64(&mut bytes, self.session.0);
        BASE.put_u64(&mut bytes, self.base.0);
        GENERATION_FLOOR.put_u64(&mut bytes, self.generation_floor.0);
        FIRST_RECORD.put_u64(&mut bytes, self.first_record.0);
        CREATED.put(&mut bytes, &self.created.to_le_bytes());
        put_shape(&mut bytes, &self.shape);
        PLACEMENT.put_u32(&mut bytes, self.placement.number());
        if let Some(snapshot) = self.snapshot {
            SNAPSHOT.put_u32(&mut bytes, u32::from(snapshot.area) + 1);
            SNAPSHOT_LEN.put_u32(&mut bytes, snapshot.blocks);
            SNAPSHOT_RECORD.put_u64(&mut bytes, snapshot.record.0);
            SNAPSHOT_CRC.put_u64(&mut bytes, snapshot.crc.0);
            REPLAY.put_u32(&mut bytes, snapshot.replay_at);
            SNAPSHOT_SESSION.put_u64(&mut bytes, snapshot.session.0);
        }
        CODE_VERSION.put_u32(&mut bytes, self.code_version);
        FINGERPRINT.put_u64(&mut bytes, self.fingerprint);
        if let Some(definition) = self.definition {
            DEFINITION_LEN.put_u32(&mut bytes, definition.len);
            DEFINITION_CRC.put_u64(&mut bytes, definition.crc.0);
        }
        for (place, ancestor) in bytes[ANCESTORS.offset as usize..].chunks_exact_mut(16).zip(&self.ancestors)
        {
            place.copy_from_slice(&ancestor.0);
        }
        for slot in &self.lost {
            bytes[(LOST.offset + slot.0 / 8) as usize] |= 1 << (slot.0 % 8);
        }
        MAY_IGNORE.put_u64(&mut bytes, self.features.may_ignore);
        READ_ONLY.put_u64(&mut bytes, self.features.read_only);
        MUST_REFUSE.put_u64(&mut bytes, self.features.must_refuse);
        COPY_BEGUN.put_u64(&mut bytes, self.copy_begun);
        if let Some(state) = self.state {
            STATE_LEN.put_u32(&mut bytes, state.blocks);
            STATE_CRC.put_u64(&mut bytes, state.crc.0);
        }
        NAME_LEN.put_u32(&mut bytes, self.name.len() as u32);
        put_text(NAME, &mut bytes, &self.name);
        SPEC_LEN.put_u32(&mut bytes, self.spec.len() as u32);
        put_text(SPEC, &mut bytes, &self.spec);
        seal(&mut bytes);
        bytes
    }

    /// Reads a superblock at the front of `bytes`.
    ///
    /// Errors: no magic, a newer version, unknown features that a reader must know, cut off, a
    /// checksum that does not match, or fields that contradict each other.
    pub fn decode(bytes: &[u8]) -> Result<Superblock, FormatError> {
        Superblock::decode_knowing(bytes, Features::KNOWN_MUST_REFUSE)
    }

    /// Reads the superblock of a device that is being made a copy of the one in its slot.
    ///
    /// Errors: those of [`Superblock::decode`]; `Invalid` if it is the superblock of a member.
    pub fn decode_copy(bytes: &[u8]) -> Result<Superblock, FormatError> {
        let known = Features::KNOWN_MUST_REFUSE | Features::REPLACEMENT;
        let found = Superblock::decode_knowing(bytes, known)?;
        let rule = "must not be 0 for a copy";
        (found.copy_begun > 0).then_some(found).ok_or(FormatError::Invalid {
            part: PART,
            field: "copy begun",
            rule,
        })
    }

    /// Returns the superblock that marks a new device as an unfinished copy of this one.
    ///
    /// `begun`: seconds since 1970.
    pub fn of_copy(&self, begun: i64) -> Superblock {
        let mut copy = self.clone();
        copy.features.must_refuse |= Features::REPLACEMENT;
        copy.copy_begun = u64::try_from(begun).unwrap_or(0).max(1);
        copy
    }

    fn decode_knowing(bytes: &[u8], known: u64) -> Result<Superblock, FormatError> {
        let invalid = |field, rule| FormatError::Invalid { part: PART, field, rule };
        check_start(PART, MAGIC_BYTES, bytes, BLOCK_BYTES as u64)?;
        let bytes = &bytes[..BLOCK_BYTES];
        unseal(PART, bytes)?;
        let unknown = MUST_REFUSE.u64(bytes) & !known;
        if unknown != 0 {
            return Err(FormatError::Features { part: PART, unknown });
        }
        if BLOCK.u32(bytes) != BLOCK_BYTES as u32 {
            return Err(invalid("block length", "must be 4096"));
        }
        let placement = Placement::of_number(PLACEMENT.u32(bytes));
        let placement = placement.ok_or_else(|| invalid("placement", "must be 255 or less"))?;
        let lost: [u8; 32] = LOST.get(bytes);
        let is_lost = |slot: &u32| lost[*slot as usize / 8] & (1 << (slot % 8)) != 0;
        let superblock = Superblock {
            volume: VolumeId(VOLUME.get(bytes)),
            history: HistoryId(HISTORY.get(bytes)),
            ancestors: get_ancestors(bytes)?,
            slot: Slot(SLOT.u32(bytes)),
            update: UPDATE.u64(bytes),
            session: Session(SESSION.u64(bytes)),
            base: Session(BASE.u64(bytes)),
            generation_floor: Generation(GENERATION_FLOOR.u64(bytes)),
            first_record: RecordNumber(FIRST_RECORD.u64(bytes)),
            created: i64::from_le_bytes(CREATED.get(bytes)),
            name: get_text(NAME, "name", bytes, NAME_LEN.u32(bytes))?,
            spec: get_text(SPEC, "spec", bytes, SPEC_LEN.u32(bytes))?,
            code_version: CODE_VERSION.u32(bytes),
            fingerprint: FINGERPRINT.u64(bytes),
            definition: get_definition(bytes)?,
            shape: get_shape(bytes),
            placement,
            snapshot: get_snapshot(bytes)?,
            lost: (0..256).filter(is_lost).map(Slot).collect(),
            features: Features {
                may_ignore: MAY_IGNORE.u64(bytes),
                read_only: READ_ONLY.u64(bytes),
                must_refuse: MUST_REFUSE.u64(bytes),
            },
            state: get_state(bytes)?,
            copy_begun: COPY_BEGUN.u64(bytes),
        };
        must_be_zero(PART, &RESERVED.get::<4>(bytes))?;
        must_be_zero(PART, &RESERVED_2.get::<4>(bytes))?;
        must_be_zero(PART, &bytes[REST.offset as usize..CRC.offset as usize])?;
        superblock.check()?;
        Ok(superblock)
    }

    /// Returns the code, with the text that the definition area contains.
    ///
    /// Errors: the area is cut off, or does not match this superblock.
    pub fn code(&self, area: &[u8]) -> Result<CodeRecord, FormatError> {
        let definition = match self.definition {
            None => None,
            Some(DefinitionRef { len, crc }) => {
                let have = area.len() as u64;
                let truncated = FormatError::Truncated { part: PART, have, need: len.into() };
                let text = area.get(..len as usize).ok_or(truncated)?;
                if Crc64::of(text) != crc {
                    return Err(FormatError::Checksum { part: PART });
                }
                let rule = "must be UTF-8";
                let text = std::str::from_utf8(text).ok();
                let text = text.ok_or(FormatError::Invalid { part: PART, field: "definition", rule })?;
                Some(text.to_owned())
            }
        };
        let (version, fingerprint) = (self.code_version, self.fingerprint);
        Ok(CodeRecord { spec: self.spec.clone(), version, fingerprint, definition })
    }
}

impl DefinitionRef {
    /// Returns the reference to a text; `None` if the text is empty or longer than the area.
    pub fn of(text: &str) -> Option<DefinitionRef> {
        let len = u32::try_from(text.len()).ok()?;
        let fits = (1..=Superblock::DEFINITION_BYTES_MAX).contains(&len);
        fits.then(|| DefinitionRef { len, crc: Crc64::of(text.as_bytes()) })
    }
}

fn put_shape(bytes: &mut [u8], shape: &Shape) {
    BLOCK.put_u32(bytes, BLOCK_BYTES as u32);
    DEVICES.put_u32(bytes, shape.devices);
    ROWS.put_u32(bytes, shape.rows);
    DATA_CELLS.put_u32(bytes, shape.data_cells);
    ELEMENT_BLOCKS.put_u32(bytes, shape.element_blocks);
    LOG_ROWS.put_u32(bytes, shape.log_rows);
    JOURNAL_BLOCKS.put_u32(bytes, shape.journal_blocks);
    SNAPSHOT_BLOCKS.put_u32(bytes, shape.snapshot_blocks);
    PHYSICAL_STRIPES.put_u64(bytes, shape.physical_stripes);
    LOGICAL_STRIPES.put_u64(bytes, shape.logical_stripes);
}

fn get_shape(bytes: &[u8]) -> Shape {
    Shape {
        devices: DEVICES.u32(bytes),
        rows: ROWS.u32(bytes),
        data_cells: DATA_CELLS.u32(bytes),
        element_blocks: ELEMENT_BLOCKS.u32(bytes),
        physical_stripes: PHYSICAL_STRIPES.u64(bytes),
        logical_stripes: LOGICAL_STRIPES.u64(bytes),
        log_rows: LOG_ROWS.u32(bytes),
        journal_blocks: JOURNAL_BLOCKS.u32(bytes),
        snapshot_blocks: SNAPSHOT_BLOCKS.u32(bytes),
    }
}

fn get_snapshot(bytes: &[u8]) -> Result<Option<SnapshotRef>, FormatError> {
    let invalid = |field, rule| FormatError::Invalid { part: PART, field, rule };
    let reference = |area| SnapshotRef {
        area,
        record: RecordNumber(SNAPSHOT_RECORD.u64(bytes)),
        blocks: SNAPSHOT_LEN.u32(bytes),
        crc: Crc64(SNAPSHOT_CRC.u64(bytes)),
        replay_at: REPLAY.u32(bytes),
        session: Session(SNAPSHOT_SESSION.u64(bytes)),
    };
    let (record, crc, session) = (RecordNumber(0), Crc64(0), Session(0));
    let nothing = SnapshotRef { area: 0, record, blocks: 0, crc, replay_at: 0, session };
    match SNAPSHOT.u32(bytes) {
        0 if reference(0) == nothing => Ok(None),
        0 => Err(invalid("snapshot length", "must be 0 without a snapshot")),
        number @ 1..=2 => Ok(Some(reference(number as u8 - 1))),
        _ => Err(invalid("snapshot", "must be 0, 1 or 2")),
    }
}

fn get_state(bytes: &[u8]) -> Result<Option<StateRef>, FormatError> {
    match (STATE_LEN.u32(bytes), Crc64(STATE_CRC.u64(bytes))) {
        (0, Crc64(0)) => Ok(None),
        (0, _) => {
            let rule = "must be 0 without a state";
            Err(FormatError::Invalid { part: PART, field: "state checksum", rule })
        }
        (blocks, crc) => Ok(Some(StateRef { blocks, crc })),
    }
}

fn get_ancestors(bytes: &[u8]) -> Result<Vec<HistoryId>, FormatError> {
    let area = &bytes[ANCESTORS.offset as usize..][..ANCESTORS.len as usize];
    let all = area.chunks_exact(16).map(|id| HistoryId(id.try_into().expect("16 bytes")));
    let ancestors: Vec<HistoryId> = all.take_while(|id| id.0 != [0; 16]).collect();
    must_be_zero(PART, &area[16 * ancestors.len()..])?;
    Ok(ancestors)
}

fn get_definition(bytes: &[u8]) -> Result<Option<DefinitionRef>, FormatError> {
    let rule = "must be 0 for a named code";
    match (DEFINITION_LEN.u32(bytes), Crc64(DEFINITION_CRC.u64(bytes))) {
        (0, Crc64(0)) => Ok(None),
        (0, _) => Err(FormatError::Invalid { part: PART, field: "definition checksum", rule }),
        (len, crc) => Ok(Some(DefinitionRef { len, crc })),
    }
}

fn put_text(field: crate::Field, bytes: &mut [u8], text: &str) {
    let start = field.offset as usize;
    bytes[start..start + text.len()].copy_from_slice(text.as_bytes());
}

/// Decodes a text of `len` bytes, and checks that only zeros follow.
fn get_text(field: crate::Field, name: &'static str, bytes: &[u8], len: u32) -> Result<String, FormatError> {
    let invalid = |rule| FormatError::Invalid { part: PART, field: name, rule };
    let (start, end) = (field.offset as usize, (field.offset + field.len) as usize);
    let whole = &bytes[start..end];
    let (text, rest) = whole.split_at_checked(len as usize).ok_or(invalid("must fit its field"))?;
    must_be_zero(PART, rest)?;
    String::from_utf8(text.to_vec()).map_err(|_| invalid("must be UTF-8"))
}
