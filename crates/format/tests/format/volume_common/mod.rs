//! Example and random structures of a small volume, for the tests of the volume's format.

use pantile_code::Placement;
use pantile_format::volume::*;
use pantile_format::{Column, Crc64, Field, FormatError, Generation};
use proptest::collection::vec;
use proptest::prelude::*;

pub const VOLUME: VolumeId = VolumeId(*b"the volume's id.");
pub const OTHER: VolumeId = VolumeId(*b"the volume's Id.");
pub const BLOCK: usize = BLOCK_BYTES;

/// The shape of a small volume of five devices.
pub const SHAPE: Shape = Shape {
    devices: 5,
    rows: 2,
    data_cells: 6,
    element_blocks: 4,
    physical_stripes: 40,
    logical_stripes: 32,
    log_rows: 8,
    journal_blocks: 20,
    snapshot_blocks: 2,
};

/// Returns a shape with so many stripes that a snapshot has three pieces.
pub fn long_shape() -> Shape {
    let mut shape = SHAPE;
    (shape.logical_stripes, shape.physical_stripes) = (190_000, 200_000);
    shape.snapshot_blocks = shape.snapshot_blocks_needed() as u32;
    shape.check().unwrap();
    shape
}

pub fn superblock() -> Superblock {
    Superblock {
        volume: VOLUME,
        history: HistoryId([8; 16]),
        ancestors: vec![HistoryId([7; 16]), HistoryId([9; 16])],
        slot: Slot(3),
        update: 77,
        session: Session(5),
        base: Session(4),
        generation_floor: Generation(1 << 40),
        first_record: RecordNumber(890),
        created: 1_700_000_000,
        name: "Bücher".into(),
        spec: "rs:3+2".into(),
        code_version: 1,
        fingerprint: 0x0123_4567_89ab_cdef,
        definition: None,
        shape: SHAPE,
        placement: Placement::ROTATED,
        snapshot: Some(SnapshotRef {
            area: 1,
            record: RecordNumber(900),
            blocks: 1,
            crc: Crc64(99),
            replay_at: 19,
            session: Session(5),
        }),
        lost: vec![Slot(0), Slot(4)],
        features: Features::default(),
        state: Some(StateRef { blocks: 1, crc: Crc64(98) }),
        copy_begun: 0,
    }
}

/// Returns a note of every kind.
pub fn notes() -> Vec<Note> {
    vec![
        Note::Device(DeviceNote {
            slot: Slot(3),
            reason: Reason::WRITE_FAILED,
            errno: 5,
            since: 1_700_000_100,
            all_bad: true,
            checksum_errors: 3,
            media_errors: 1,
        }),
        Note::Event(EventNote {
            what: EventKind::LOST,
            reason: Reason::WRITE_FAILED,
            slot: Some(Slot(3)),
            errno: 5,
            at: 1_700_000_100,
            value: 0,
        }),
        Note::Event(EventNote {
            what: EventKind::DATA_LOST,
            reason: Reason::NONE,
            slot: None,
            errno: 0,
            at: 1_700_000_200,
            value: 24,
        }),
        Note::Scrub(ScrubNote {
            state: ScrubState::Paused,
            repair: true,
            begun_at: 1_700_000_150,
            ended_at: 0,
            position: LogicalStripe(7),
            counts: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
        }),
        Note::Range(RangeNote { first: UserBlock(24), count: 4, is_lost: true, since: 1_700_000_200 }),
        Note::Bad(BadNote { slot: Slot(1), first: 2, count: 5, is_bad: true }),
    ]
}

/// Returns a state with all of these notes.
pub fn state() -> State {
    State { volume: VOLUME, session: Session(5), record: RecordNumber(900), notes: notes() }
}

/// Returns a record with all of these notes.
pub fn record_2() -> Record {
    Record { entries: notes().into_iter().map(Entry::Note).collect(), ..record() }
}

pub fn claim() -> Claim {
    Claim {
        volume: VOLUME,
        claimant: Claimant {
            id: [6; 16],
            boot: [5; 16],
            process_space: 4_026_531_836,
            process: 4242,
            process_start: 123_456,
            host: "büro".into(),
        },
        is_held: true,
        beat: 17,
        session: Session(5),
        at: 1_700_000_300,
    }
}

pub fn chunk_header() -> ChunkHeader {
    ChunkHeader {
        volume: VOLUME,
        slot: Slot(2),
        physical: PhysicalStripe(17),
        logical: LogicalStripe(4),
        generation: Generation(1000),
        column: Column(1),
        checksums: (0..8).map(|i| Crc64(0x1111_1111_1111_1111 * (i + 1))).collect(),
    }
}

pub fn log_write(row: u32, generation: u64, cells: &[(u32, Holds)]) -> LogWrite {
    let cell = |&(slot, holds): &(u32, Holds)| Cell {
        slot: Slot(slot),
        holds,
        checksum: Crc64(u64::from(slot) * 3 + generation),
    };
    LogWrite { row: LogRow(row), generation: Generation(generation), cells: cells.iter().map(cell).collect() }
}

/// Returns a record with an entry of every kind.
pub fn record() -> Record {
    let user = |block| Holds::User(UserBlock(block));
    let rebuilding = MemberState::Rebuilding {
        missed_from: Generation(10),
        missed_until: Generation(20),
        cursor: LogicalStripe(32),
        ahead: RowsAhead { rows: 0b101, until: LogicalStripe(31) },
    };
    Record {
        volume: VOLUME,
        session: Session(5),
        number: RecordNumber(901),
        flushed_through: RecordNumber(900),
        entries: vec![
            Entry::Member(Member { slot: Slot(4), state: rebuilding, first_update: 0x1122_3344_5566 }),
            Entry::StripeSwitch(StripeSwitch {
                logical: LogicalStripe(31),
                physical: PhysicalStripe(39),
                generation: Generation(1001),
                digests: vec![Some(Crc64(1)), None, Some(Crc64(3)), Some(Crc64(4)), None],
            }),
            Entry::LogForget { first: UserBlock(31 * 24), count: 24 },
            Entry::Unmap { first: LogicalStripe(0), count: 32 },
            Entry::LogWrite(log_write(7, 1002, &[(0, user(767)), (3, Holds::Parity), (4, Holds::Parity)])),
            Entry::Member(Member {
                slot: Slot(0),
                state: MemberState::Lost { missed_from: Generation(9) },
                first_update: 3,
            }),
            Entry::Member(Member { slot: Slot(1), state: MemberState::Present, first_update: 0 }),
        ],
    }
}

pub fn snapshot_head() -> SnapshotHead {
    let (session, record) = (Session(5), RecordNumber(900));
    SnapshotHead { volume: VOLUME, session, record, next_generation: Generation(1 << 20) }
}

pub fn members(shape: &Shape) -> impl Iterator<Item = SnapshotItem> + use<> {
    (0..shape.devices).map(|slot| {
        let state = match slot {
            1 => MemberState::Lost { missed_from: Generation(7) },
            _ => MemberState::Present,
        };
        SnapshotItem::Member(Member { slot: Slot(slot), state, first_update: u64::from(slot) << 33 })
    })
}

pub fn stripe(logical: u64, physical: u64, generation: u64) -> SnapshotItem {
    SnapshotItem::Stripe {
        logical: LogicalStripe(logical),
        physical: PhysicalStripe(physical),
        generation: Generation(generation),
    }
}

/// Returns members, some stripes with gaps of several lengths, and a short log.
pub fn snapshot_items(shape: &Shape) -> Vec<SnapshotItem> {
    let mut items: Vec<SnapshotItem> = members(shape).collect();
    let mapped = (0..shape.logical_stripes).filter(|l| l % 7 != 3 && !(9..12).contains(l));
    items.extend(mapped.map(|l| stripe(l, shape.physical_stripes - 1 - l, 5 * l)));
    let user = |block| Holds::User(UserBlock(block));
    items.push(SnapshotItem::LogWrite(log_write(2, 50, &[(0, user(5)), (2, user(5))])));
    items.push(SnapshotItem::LogWrite(log_write(2, 51, &[(1, user(6)), (4, user(6))])));
    let coded = [(0, Holds::Unused), (1, user(7)), (2, user(9)), (3, Holds::Parity), (4, Holds::Parity)];
    items.push(SnapshotItem::LogWrite(log_write(7, 52, &coded)));
    items
}

/// Returns the bytes of a snapshot, and its reference in the superblock.
pub fn snapshot_bytes(shape: &Shape, items: &[SnapshotItem]) -> (Vec<u8>, SnapshotRef) {
    let head = snapshot_head();
    let mut blocks = SnapshotBlocks::new(head, shape, items.iter().cloned());
    let bytes: Vec<u8> = blocks.by_ref().flatten().collect();
    let SnapshotSum { blocks, crc } = blocks.done().unwrap();
    assert_eq!(bytes.len(), blocks as usize * BLOCK);
    let (record, session) = (head.record, head.session);
    (bytes, SnapshotRef { area: 0, record, blocks, crc, replay_at: 0, session })
}

pub fn read_snapshot(
    bytes: &[u8],
    shape: &Shape,
    reference: &SnapshotRef,
) -> Result<(SnapshotHead, Vec<SnapshotItem>), FormatError> {
    let mut decoder = SnapshotDecoder::new(VOLUME, shape, reference);
    let mut items = Vec::new();
    for block in bytes.chunks_exact(BLOCK) {
        items.extend(decoder.push(block)?);
    }
    Ok((decoder.finish()?, items))
}

/// Recomputes the checksum at the end.
pub fn reseal(bytes: &mut [u8]) {
    let body = bytes.len() - 8;
    let crc = Crc64::of(&bytes[..body]);
    bytes[body..].copy_from_slice(&crc.0.to_le_bytes());
}

pub fn field(table: &[Field], name: &str) -> std::ops::Range<usize> {
    let field = table.iter().find(|field| field.name == name).unwrap_or_else(|| panic!("no field {name}"));
    field.offset as usize..(field.offset + field.len) as usize
}

/// Writes a number to a field, little-endian.
pub fn put(bytes: &mut [u8], table: &[Field], name: &str, value: u64) {
    let range = field(table, name);
    let len = range.len().min(8);
    bytes[range][..len].copy_from_slice(&value.to_le_bytes()[..len]);
}

pub fn any_generation() -> impl Strategy<Value = Generation> {
    prop_oneof![Just(0), 0..100u64, any::<u64>()].prop_map(Generation)
}

pub fn any_member_state() -> impl Strategy<Value = MemberState> {
    let lost = any_generation().prop_map(|missed_from| MemberState::Lost { missed_from });
    let stripe = 0..=SHAPE.logical_stripes;
    let interval = (any_generation(), any_generation(), stripe.clone(), any::<u64>(), stripe);
    let rebuilding = interval.prop_map(|(a, b, cursor, rows, until)| MemberState::Rebuilding {
        missed_from: a.min(b),
        missed_until: a.max(b),
        cursor: LogicalStripe(cursor),
        ahead: RowsAhead { rows, until: LogicalStripe(if rows == 0 { 0 } else { until }) },
    });
    prop_oneof![Just(MemberState::Present), lost, rebuilding]
}

pub fn any_log_write() -> impl Strategy<Value = LogWrite> {
    let user = (0..SHAPE.user_blocks()).prop_map(|block| Holds::User(UserBlock(block)));
    let holds = prop_oneof![3 => user, 1 => (0..1u64 << 48).prop_map(Holds::Home),
        1 => Just(Holds::Parity), 1 => Just(Holds::Unused)];
    let cell = proptest::option::of((holds, any::<u64>()));
    (0..SHAPE.log_rows, any_generation(), vec(cell, SHAPE.devices as usize))
        .prop_map(|(row, generation, cells)| {
            let cell = |(slot, cell): (u32, Option<(Holds, u64)>)| {
                cell.map(|(holds, crc)| Cell { slot: Slot(slot), holds, checksum: Crc64(crc) })
            };
            let cells = (0..).zip(cells).filter_map(cell).collect();
            LogWrite { row: LogRow(row), generation, cells }
        })
        .prop_filter("a log write has a cell", |write| !write.cells.is_empty())
}

pub fn any_entry() -> impl Strategy<Value = Entry> {
    let range = |limit: u64| (0..limit, 1..=limit).prop_map(move |(at, n)| (at, n.min(limit - at)));
    let digests = vec(proptest::option::of(any::<u64>().prop_map(Crc64)), SHAPE.devices as usize);
    let switch = (0..SHAPE.logical_stripes, 0..SHAPE.physical_stripes, any_generation(), digests)
        .prop_filter("a switch has a digest", |(.., digests)| digests.iter().any(Option::is_some))
        .prop_map(|(logical, physical, generation, digests)| {
            let (logical, physical) = (LogicalStripe(logical), PhysicalStripe(physical));
            Entry::StripeSwitch(StripeSwitch { logical, physical, generation, digests })
        });
    prop_oneof![
        switch,
        range(SHAPE.logical_stripes).prop_map(|(at, count)| Entry::Unmap { first: LogicalStripe(at), count }),
        any_log_write().prop_map(Entry::LogWrite),
        range(SHAPE.user_blocks()).prop_map(|(at, count)| Entry::LogForget { first: UserBlock(at), count }),
        (0..SHAPE.devices, any_member_state(), any::<u64>()).prop_map(|(slot, state, first_update)| {
            Entry::Member(Member { slot: Slot(slot), state, first_update })
        }),
        any_note().prop_map(Entry::Note),
        any_patch().prop_map(Entry::Patch),
    ]
}

/// Generates a patch: one with chunks, or one that ends a patch.
pub fn any_patch() -> impl Strategy<Value = StripePatch> {
    let blocks = proptest::collection::btree_map(any::<u32>(), any::<u64>().prop_map(Crc64), 1..9);
    let chunk = (any::<u64>(), blocks)
        .prop_map(|(digest, blocks)| (Crc64(digest), blocks.into_iter().collect::<Vec<_>>()));
    let chunks = proptest::collection::btree_map(0..SHAPE.devices, chunk, 0..=SHAPE.devices as usize);
    (0..SHAPE.logical_stripes, any_generation(), chunks).prop_map(|(logical, generation, chunks)| {
        let chunk = |(slot, (digest, blocks))| ChunkPatch { slot: Slot(slot), digest, blocks };
        let generation = if chunks.is_empty() { Generation(0) } else { generation };
        let chunks = chunks.into_iter().map(chunk).collect();
        StripePatch { logical: LogicalStripe(logical), generation, chunks }
    })
}

/// Returns a record that patches two blocks of a stripe and writes the new parity to the log, and
/// that ends another patch.
pub fn patch_record() -> Record {
    let chunk = |slot, digest, blocks: &[(u32, u64)]| ChunkPatch {
        slot: Slot(slot),
        digest: Crc64(digest),
        blocks: blocks.iter().map(|&(place, crc)| (place, Crc64(crc))).collect(),
    };
    let cells = [(0, Holds::Home(11)), (1, Holds::Home(12)), (3, Holds::Parity), (4, Holds::Parity)];
    Record {
        entries: vec![
            Entry::Patch(StripePatch {
                logical: LogicalStripe(30),
                generation: Generation(0),
                chunks: Vec::new(),
            }),
            Entry::LogWrite(log_write(2, 1003, &cells)),
            Entry::Patch(StripePatch {
                logical: LogicalStripe(31),
                generation: Generation(1001),
                chunks: vec![
                    chunk(1, 21, &[(3, 31), (4, 32)]),
                    chunk(3, 22, &[(3, 33)]),
                    chunk(4, 23, &[(3, 34)]),
                ],
            }),
        ],
        ..record()
    }
}

pub fn any_note() -> impl Strategy<Value = Note> {
    let limit = SHAPE.user_blocks();
    let range = (0..limit, 1..=limit).prop_map(move |(at, n)| (at, n.min(limit - at)));
    let state = prop_oneof![
        Just(ScrubState::Running),
        Just(ScrubState::Paused),
        Just(ScrubState::Ended),
        Just(ScrubState::Stopped)
    ];
    let device = (0..SHAPE.devices, any::<(u16, i32, i64, bool, u64, u64)>()).prop_map(
        |(slot, (reason, errno, since, all_bad, checksum_errors, media_errors))| {
            let (slot, reason) = (Slot(slot), Reason(reason));
            Note::Device(DeviceNote { slot, reason, errno, since, all_bad, checksum_errors, media_errors })
        },
    );
    let slot = proptest::option::of(0..SHAPE.devices);
    let event =
        (slot, any::<(u16, u16, i32, i64, u64)>()).prop_map(|(slot, (what, reason, errno, at, value))| {
            let (what, reason, slot) = (EventKind(what), Reason(reason), slot.map(Slot));
            Note::Event(EventNote { what, reason, slot, errno, at, value })
        });
    let scrub = (state, any::<(bool, i64, i64)>(), 0..=SHAPE.logical_stripes, any::<[u64; 12]>()).prop_map(
        |(state, (repair, begun_at, ended_at), position, counts)| {
            let position = LogicalStripe(position);
            Note::Scrub(ScrubNote { state, repair, begun_at, ended_at, position, counts })
        },
    );
    let range = (range, any::<bool>(), any::<i64>()).prop_map(|((first, count), is_lost, since)| {
        Note::Range(RangeNote { first: UserBlock(first), count, is_lost, since })
    });
    let all = SHAPE.logical_stripes + u64::from(SHAPE.log_rows);
    let bad = (0..SHAPE.devices, 0..all, 1..=all, any::<bool>()).prop_map(move |(slot, first, n, is_bad)| {
        Note::Bad(BadNote { slot: Slot(slot), first, count: n.min(all - first), is_bad })
    });
    prop_oneof![device, event, scrub, range, bad]
}

pub fn any_claim() -> impl Strategy<Value = Claim> {
    let who = (any::<[[u8; 16]; 2]>(), any::<(u64, u32, u64)>(), "[a-zäß€.-]{0,16}");
    (who, any::<(bool, u64, u64, i64)>()).prop_map(
        |((ids, (space, process, start), host), (held, beat, n, at))| Claim {
            volume: VOLUME,
            claimant: Claimant {
                id: ids[0],
                boot: ids[1],
                process_space: space,
                process,
                process_start: start,
                host,
            },
            is_held: held,
            beat,
            session: Session(n),
            at,
        },
    )
}

pub fn any_record() -> impl Strategy<Value = Record> {
    let numbers = (any::<u64>(), 1..=u64::MAX, any::<prop::sample::Index>());
    (numbers, vec(any_entry(), 0..300)).prop_map(|((session, number, before), entries)| Record {
        volume: VOLUME,
        session: Session(session),
        number: RecordNumber(number),
        flushed_through: RecordNumber(before.index(number.min(1 << 30) as usize) as u64),
        entries,
    })
}

pub fn any_superblock() -> impl Strategy<Value = Superblock> {
    let numbers = (any::<[u8; 16]>(), any::<[u8; 16]>(), any::<[u64; 4]>(), any::<i64>());
    let texts = ("[a-zäß€ ]{0,16}", "[a-z]{1,8}:[0-9a-z+,=.-]{0,503}", 1..=57_344u32, any::<u64>());
    let choices = (0..=255u32, 0..5u32, any::<[bool; 5]>());
    let snapshot = proptest::option::of((0..2u8, any::<u64>(), 1..=2u32, any::<u64>(), 0..20u32));
    let shape = (1..=64u64, 0..1000u32, 16..5000u32);
    let state = (any::<[u64; 2]>(), proptest::option::of((1..=4u32, any::<u64>())));
    (numbers, texts, choices, snapshot, shape, state).prop_map(
        |((volume, history, n, created), (name, spec, len, crc), choices, snapshot, shape, (bits, state))| {
            let (step, slot, lost) = choices;
            let custom = spec.starts_with("custom:");
            let definition = custom.then_some(DefinitionRef { len, crc: Crc64(crc) });
            let state = state.filter(|_| snapshot.is_some());
            let mut numbers = SHAPE;
            numbers.logical_stripes = shape.0.min(40);
            (numbers.log_rows, numbers.journal_blocks) = (shape.1, shape.2.max(20));
            numbers.snapshot_blocks = numbers.snapshot_blocks_needed() as u32 + 1;
            Superblock {
                volume: VolumeId(volume),
                history: HistoryId(history),
                ancestors: lost.iter().map(|&l| HistoryId([1 + u8::from(l); 16])).collect(),
                slot: Slot(slot),
                update: n[0],
                session: Session(n[1]),
                base: Session(n[1] / 2),
                generation_floor: Generation(n[2]),
                first_record: RecordNumber(n[1] ^ n[2]),
                created,
                name,
                spec,
                code_version: n[3] as u32,
                fingerprint: n[3],
                definition,
                shape: numbers,
                placement: Placement::of_number(step).unwrap(),
                snapshot: snapshot.map(|(area, record, blocks, crc, replay_at)| SnapshotRef {
                    area,
                    record: RecordNumber(record),
                    blocks,
                    crc: Crc64(crc),
                    replay_at,
                    session: Session(n[1] / 3),
                }),
                lost: (0..5).filter(|&s| lost[s as usize] && s != slot).map(Slot).collect(),
                features: Features { may_ignore: bits[0], read_only: bits[1], must_refuse: 0 },
                state: state.map(|(blocks, crc)| StateRef { blocks, crc: Crc64(crc) }),
                copy_begun: 0,
            }
        },
    )
}

pub fn any_chunk_header() -> impl Strategy<Value = ChunkHeader> {
    (any::<[u32; 2]>(), any::<[u64; 3]>(), vec(any::<u64>(), 1..1200)).prop_map(|(a, b, crcs)| ChunkHeader {
        volume: VOLUME,
        slot: Slot(a[0]),
        physical: PhysicalStripe(b[0]),
        logical: LogicalStripe(b[1]),
        generation: Generation(b[2]),
        column: Column(a[1]),
        checksums: crcs.into_iter().map(Crc64).collect(),
    })
}

pub fn any_snapshot() -> impl Strategy<Value = Vec<SnapshotItem>> {
    let members = vec(any_member_state(), SHAPE.devices as usize);
    let mapped = proptest::option::of((0..SHAPE.physical_stripes, 0..1u64 << 20));
    let stripes = vec(mapped, SHAPE.logical_stripes as usize);
    (members, stripes, vec(any_log_write(), 0..12)).prop_map(|(members, stripes, log)| {
        let member =
            |(slot, state)| SnapshotItem::Member(Member { slot: Slot(slot), state, first_update: 7 });
        let mut items: Vec<SnapshotItem> = (0..).zip(members).map(member).collect();
        for (logical, mapped) in (0..).zip(stripes) {
            items.extend(mapped.map(|(physical, generation)| stripe(logical, physical, generation)));
        }
        let mut rows: Vec<LogWrite> = log;
        rows.sort_by_key(|write| write.row);
        rows.dedup_by_key(|write| write.row);
        for mut write in rows {
            write.generation.0 %= 1 << 20;
            // Half of a row's cells become a separate log write.
            let behind = write.cells.split_off(write.cells.len() / 2);
            let second = LogWrite { cells: behind, ..write.clone() };
            let writes = [write, second].into_iter().filter(|write| !write.cells.is_empty());
            items.extend(writes.map(SnapshotItem::LogWrite));
        }
        items
    })
}
