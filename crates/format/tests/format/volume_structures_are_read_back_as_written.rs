//! Encoded structures of a volume decode to equal ones, and have the promised length.

use crate::volume_common::*;
use pantile_format::volume::*;
use pantile_format::{Crc64, FormatError, Part};
use proptest::prelude::*;

proptest! {
    #[test]
    fn superblocks(superblock in any_superblock()) {
        let bytes = superblock.encode();
        prop_assert_eq!(bytes.len(), BLOCK);
        prop_assert_eq!(Superblock::decode(&bytes), Ok(superblock));
    }

    #[test]
    fn chunk_headers(header in any_chunk_header(), behind in 0..3 * BLOCK) {
        let mut bytes = header.encode();
        prop_assert_eq!(bytes.len() as u64, ChunkHeader::blocks(header.checksums.len() as u64) * 4096);
        prop_assert_eq!(header.digest(), ChunkHeader::digest_of(&bytes));
        prop_assert_eq!(header.digest(), Crc64::of(&bytes[..bytes.len() - 8]));
        bytes.resize(bytes.len() + behind, 251);
        prop_assert_eq!(ChunkHeader::decode(&bytes, VOLUME), Ok(header));
    }

    #[test]
    fn records(record in any_record(), behind in 0..3 * BLOCK) {
        let mut bytes = record.encode(&SHAPE);
        prop_assert_eq!(bytes.len() as u64, record.len_blocks() * 4096);
        let head = Record::peek(&bytes[..BLOCK], VOLUME).unwrap();
        prop_assert_eq!(u64::from(head.blocks), record.len_blocks());
        prop_assert_eq!((head.session, head.number), (record.session, record.number));
        prop_assert_eq!(head.flushed_through, record.flushed_through);
        bytes.resize(bytes.len() + behind, 251);
        prop_assert_eq!(Record::decode(&bytes, VOLUME, &SHAPE), Ok(record));
    }

    #[test]
    fn states(notes in proptest::collection::vec(any_note(), 0..300), behind in 0..3 * BLOCK) {
        let state = State { notes, ..state() };
        let (mut bytes, crc) = state.encode(&SHAPE);
        prop_assert_eq!(bytes.len() as u64, state.len_blocks() * 4096);
        bytes.resize(bytes.len() + behind, 251);
        prop_assert_eq!(State::decode(&bytes, VOLUME, &SHAPE), Ok((state, crc)));
    }

    #[test]
    fn claims(claim in any_claim()) {
        let bytes = claim.encode();
        prop_assert_eq!(bytes.len(), BLOCK);
        prop_assert_eq!(Claim::decode(&bytes, VOLUME), Ok(claim));
    }

    #[test]
    fn snapshots(items in any_snapshot()) {
        let (bytes, reference) = snapshot_bytes(&SHAPE, &items);
        let (head, read) = read_snapshot(&bytes, &SHAPE, &reference).unwrap();
        prop_assert_eq!(head, snapshot_head());
        prop_assert_eq!(read, items);
    }
}

#[test]
fn an_entry_of_every_kind() {
    let record = record();
    assert_eq!(Record::decode(&record.encode(&SHAPE), VOLUME, &SHAPE), Ok(record));
}

#[test]
fn a_snapshot_of_several_pieces_comes_piece_by_piece() {
    let shape = long_shape();
    let items = snapshot_items(&shape);
    let (bytes, reference) = snapshot_bytes(&shape, &items);
    assert_eq!(reference.blocks.div_ceil(PIECE_BLOCKS), 3);
    let mut decoder = SnapshotDecoder::new(VOLUME, &shape, &reference);
    let mut read = Vec::new();
    for (i, block) in bytes.chunks_exact(BLOCK).enumerate() {
        assert_eq!(decoder.wanted(), Some(i as u32));
        let more = decoder.push(block).unwrap();
        let is_end = (i + 1) % 256 == 0 || i + 1 == reference.blocks as usize;
        assert_eq!(more.is_empty(), !is_end, "block {i}");
        read.extend(more);
    }
    assert_eq!(decoder.wanted(), None);
    assert_eq!(decoder.finish(), Ok(snapshot_head()));
    assert_eq!(read, items);
}

#[test]
fn pushing_gives_the_same_blocks_as_iterating_and_holds_one_piece() {
    let shape = long_shape();
    let items = snapshot_items(&shape);
    let (bytes, reference) = snapshot_bytes(&shape, &items);
    let mut encoder = SnapshotEncoder::new(snapshot_head(), &shape);
    let mut pushed = Vec::new();
    for item in &items {
        encoder.push(item);
        let before = pushed.len();
        while let Some(block) = encoder.next_block() {
            pushed.extend(block);
        }
        assert!(pushed.len() - before <= PIECE_BLOCKS as usize * BLOCK);
    }
    let (rest, sum) = encoder.finish();
    pushed.extend(rest.into_iter().flatten());
    assert!(pushed == bytes);
    assert_eq!(sum, SnapshotSum { blocks: reference.blocks, crc: reference.crc });
}

#[test]
fn the_fullest_maps_fill_the_snapshot_exactly() {
    // 24 + 5 * 40 + 5 * 40 + 12 * 87340 bytes are one full piece.
    for (logical_stripes, log_rows) in
        [(1, 0), (32, 8), (87_339, 1), (87_340, 1), (87_341, 1), (87_500, 0), (180_000, 3)]
    {
        let shape = Shape { logical_stripes, physical_stripes: logical_stripes, log_rows, ..SHAPE };
        let mut items: Vec<SnapshotItem> = members(&shape).collect();
        items.extend((0..logical_stripes).map(|l| stripe(l, l, l)));
        for (row, slot) in (0..shape.log_rows).flat_map(|row| (0..5).map(move |slot| (row, slot))) {
            items.push(SnapshotItem::LogWrite(log_write(row, 1, &[(slot, Holds::Parity)])));
        }
        let (bytes, reference) = snapshot_bytes(&shape, &items);
        assert_eq!(u64::from(reference.blocks), shape.snapshot_blocks_needed(), "{logical_stripes}");
        assert_eq!(read_snapshot(&bytes, &shape, &reference).unwrap().1, items);
    }
}

#[test]
fn an_empty_volume_has_a_snapshot_of_one_block() {
    let items: Vec<SnapshotItem> = members(&SHAPE).collect();
    let (bytes, reference) = snapshot_bytes(&SHAPE, &items);
    assert_eq!(reference.blocks, 1);
    assert_eq!(read_snapshot(&bytes, &SHAPE, &reference).unwrap().1, items);
}

#[test]
fn a_definition_is_taken_from_its_area() {
    let text = "pantile-code 1\n# a code of my own\n";
    let mut superblock = superblock();
    superblock.spec = "custom:mine-0123456789abcdef".into();
    superblock.definition = DefinitionRef::of(text);
    let superblock = Superblock::decode(&superblock.encode()).unwrap();
    let mut area = text.as_bytes().to_vec();
    area.resize(Superblock::DEFINITION_BYTES_MAX as usize, 0);
    let code = superblock.code(&area).unwrap();
    assert_eq!((code.definition.as_deref(), code.version), (Some(text), 1));
    assert!(superblock.code(&area[..10]).is_err());
    for at in 0..text.len() {
        area[at] ^= 4;
        assert!(superblock.code(&area).is_err(), "byte {at}");
        area[at] ^= 4;
    }
    assert!(DefinitionRef::of("").is_none());
    assert!(DefinitionRef::of(&"x".repeat(57_345)).is_none());
    assert!(DefinitionRef::of(&"x".repeat(57_344)).is_some());
}

#[test]
fn equal_bytes_elsewhere_have_another_checksum() {
    use pantile_format::Generation;
    let bytes = [251; BLOCK];
    let home = (VOLUME, Slot(1), DeviceBlock(2), Generation(3));
    let sum = |(v, s, a, g)| block_checksum(v, s, a, g, &bytes);
    let mut seeded = VOLUME.0.to_vec();
    seeded.extend([1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    seeded.extend(bytes);
    assert_eq!(sum(home), Crc64::of(&seeded));
    for other in [
        (OTHER, home.1, home.2, home.3),
        (home.0, Slot(2), home.2, home.3),
        (home.0, home.1, DeviceBlock(3), home.3),
        (home.0, home.1, home.2, Generation(2)),
    ] {
        assert_ne!(sum(home), sum(other));
    }
}

#[test]
fn a_member_that_rebuilds_has_what_it_did_not_miss_and_what_is_rebuilt() {
    use pantile_format::Generation;
    let state = MemberState::Rebuilding {
        missed_from: Generation(10),
        missed_until: Generation(20),
        cursor: LogicalStripe(5),
        ahead: RowsAhead { rows: 0b10, until: LogicalStripe(8) },
    };
    for (logical, row, has) in [(7, 1, true), (7, 0, false), (8, 1, false), (4, 0, true), (7, 64, false)] {
        assert_eq!(state.has_row(Generation(12), LogicalStripe(logical), row), has, "{logical} {row}");
    }
    for (generation, logical, has) in
        [(9, 9, true), (10, 9, false), (19, 5, false), (19, 4, true), (20, 5, true)]
    {
        assert_eq!(state.has(Generation(generation), LogicalStripe(logical)), has, "{generation} {logical}");
    }
    assert!(state.has_log(Generation(12)), "the log comes before all stripes");
    let begins = MemberState::Rebuilding {
        missed_from: Generation(10),
        missed_until: Generation(20),
        cursor: LogicalStripe(0),
        ahead: RowsAhead { rows: 1, until: LogicalStripe(0) },
    };
    assert!(!begins.has_log(Generation(12)) && begins.has_log(Generation(20)));
    assert!(MemberState::Present.has(Generation(0), LogicalStripe(0)));
    assert!(!MemberState::Lost { missed_from: Generation(5) }.has(Generation(6), LogicalStripe(0)));
}

#[test]
fn features_that_must_be_known_refuse_a_volume_and_the_others_do_not() {
    let with = |name: &str, bits: u64| {
        let mut bytes = superblock().encode();
        put(&mut bytes, SUPERBLOCK_LAYOUT, name, bits);
        reseal(&mut bytes);
        Superblock::decode(&bytes)
    };
    for bit in (0..64).map(|bit| 1 << bit) {
        let part = Part::Superblock;
        let unknown = bit & !Features::KNOWN_MUST_REFUSE;
        if unknown != 0 {
            assert_eq!(with("features to refuse", bit), Err(FormatError::Features { part, unknown }));
        }
        let features = with("features to read", bit).unwrap().features;
        assert_eq!(features.unknown_to_write(), bit & !Features::KNOWN_READ_ONLY);
        let features = with("features to ignore", bit).unwrap().features;
        assert_eq!((features.may_ignore, features.unknown_to_write()), (bit, 0));
    }
}

#[test]
fn the_superblock_of_a_copy_under_way_is_none_of_a_member() {
    let copy = superblock().of_copy(1_700_000_000);
    assert_eq!(copy.copy_begun, 1_700_000_000);
    assert_eq!(superblock().of_copy(-5).copy_begun, 1);
    let bytes = copy.encode();
    assert_eq!(Superblock::decode_copy(&bytes), Ok(copy));
    let (part, unknown) = (Part::Superblock, Features::REPLACEMENT);
    assert_eq!(Superblock::decode(&bytes), Err(FormatError::Features { part, unknown }));
    assert!(Superblock::decode_copy(&superblock().encode()).is_err(), "it is a member");
    // A mark without a time is refused, and so is a time without the mark.
    for (name, value) in [("copy begun", 0), ("features to refuse", 0)] {
        let mut bytes = bytes.clone();
        put(&mut bytes, SUPERBLOCK_LAYOUT, name, value);
        reseal(&mut bytes);
        assert!(Superblock::decode(&bytes).is_err() && Superblock::decode_copy(&bytes).is_err(), "{name}");
    }
}

#[test]
fn an_entry_of_a_kind_that_may_be_ignored_is_passed_over() {
    let mut bytes = record_2().encode(&SHAPE);
    // The kind of the first entry is changed to one that no reader knows.
    bytes[64..66].copy_from_slice(&64u16.to_le_bytes());
    reseal(&mut bytes);
    let read = Record::decode(&bytes, VOLUME, &SHAPE).unwrap();
    assert_eq!(read.entries[..], record_2().entries[1..]);
    bytes[64..66].copy_from_slice(&63u16.to_le_bytes());
    reseal(&mut bytes);
    assert!(Record::decode(&bytes, VOLUME, &SHAPE).is_err());
    let (mut bytes, _) = state().encode(&SHAPE);
    bytes[64..66].copy_from_slice(&u16::MAX.to_le_bytes());
    reseal(&mut bytes);
    assert_eq!(State::decode(&bytes, VOLUME, &SHAPE).unwrap().0.notes[..], notes()[1..]);
}

#[test]
fn the_fullest_state_fits_its_place() {
    for devices in [1, 5, 64, 256] {
        let room = StateRoom::of(devices);
        assert!(room.ranges >= 45 && room.events >= 20 && room.bad >= 30, "{devices}: {room:?}");
        let all = notes();
        let mut notes = vec![all[0]; devices as usize];
        notes.extend(std::iter::repeat_n(all[1], room.events));
        notes.push(all[3]);
        notes.extend(std::iter::repeat_n(all[4], room.ranges));
        notes.extend(std::iter::repeat_n(all[5], room.bad));
        assert!(State { notes, ..state() }.len_blocks() <= 4, "{devices}");
    }
}
