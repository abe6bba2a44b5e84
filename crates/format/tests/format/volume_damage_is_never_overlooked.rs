//! Changed, truncated, swapped, foreign and random bytes are detected as errors: they never decode
//! to another value and never cause a panic.

use crate::volume_common::*;
use pantile_format::volume::*;
use pantile_format::{Crc64, FormatError, Generation, Part};
use proptest::prelude::*;

/// A reader of a structure: decodes its bytes, and returns them encoded again.
type Reader = fn(&[u8]) -> Result<Vec<u8>, FormatError>;

fn structures() -> [(Part, Vec<u8>, Reader); 6] {
    [
        (Part::Superblock, superblock().encode(), |bytes| Ok(Superblock::decode(bytes)?.encode())),
        (Part::ChunkHeader, long_chunk_header().encode(), |bytes| {
            Ok(ChunkHeader::decode(bytes, VOLUME)?.encode())
        }),
        (Part::Record, long_record().encode(&SHAPE), |bytes| {
            Ok(Record::decode(bytes, VOLUME, &SHAPE)?.encode(&SHAPE))
        }),
        (Part::Snapshot, small_snapshot().0, |bytes| {
            // The checksum that a superblock would have of these bytes.
            let crc = if bytes.len() < 8 { Crc64(0) } else { ChunkHeader::digest_of(bytes) };
            let reference = SnapshotRef { crc, ..small_snapshot().1 };
            let (head, items) = read_snapshot(bytes, &SHAPE, &reference)?;
            Ok(SnapshotBlocks::new(head, &SHAPE, items.into_iter()).flatten().collect())
        }),
        (Part::State, long_state().encode(&SHAPE).0, |bytes| {
            Ok(State::decode(bytes, VOLUME, &SHAPE)?.0.encode(&SHAPE).0)
        }),
        (Part::Claim, claim().encode(), |bytes| Ok(Claim::decode(bytes, VOLUME)?.encode())),
    ]
}

/// Returns a chunk header of two blocks.
fn long_chunk_header() -> ChunkHeader {
    let mut header = chunk_header();
    header.checksums = header.checksums.into_iter().cycle().take(600).collect();
    header
}

/// Returns a record of three blocks.
fn long_record() -> Record {
    let mut record = record();
    record.entries = record.entries.into_iter().cycle().take(9 * 25).collect();
    record
}

/// Returns a state of two blocks.
fn long_state() -> State {
    State { notes: notes().into_iter().cycle().take(5 * 15).collect(), ..state() }
}

fn small_snapshot() -> (Vec<u8>, SnapshotRef) {
    snapshot_bytes(&SHAPE, &snapshot_items(&SHAPE))
}

#[test]
fn every_structure_is_read_as_it_is() {
    for (part, good, read) in structures() {
        assert!(read(&good).unwrap() == good, "{part}");
    }
    assert_eq!(structures().map(|(_, bytes, _)| bytes.len() / BLOCK), [1, 2, 4, 1, 2, 1]);
}

#[test]
fn a_flipped_bit_anywhere_is_an_error() {
    for (part, mut bytes, read) in structures() {
        for (at, bit) in (0..bytes.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            bytes[at] ^= 1 << bit;
            assert!(read(&bytes).is_err(), "{part}, byte {at}, bit {bit}");
            bytes[at] ^= 1 << bit;
        }
    }
}

#[test]
fn any_other_byte_anywhere_is_an_error() {
    for (part, mut bytes, read) in structures() {
        for at in 0..bytes.len() {
            for other in [0, 1, 127, 255] {
                let good = std::mem::replace(&mut bytes[at], other);
                assert!(other == good || read(&bytes).is_err(), "{part}, byte {at}, {other}");
                bytes[at] = good;
            }
        }
    }
}

#[test]
fn cut_off_anywhere_is_an_error() {
    for (part, good, read) in structures() {
        for len in 0..good.len() {
            let error = read(&good[..len]).unwrap_err();
            assert!(matches!(error, FormatError::Truncated { .. }), "{part}, {len}: {error}");
        }
    }
}

#[test]
fn a_block_torn_off_or_left_from_before_is_an_error() {
    for (part, good, read) in structures() {
        for block in 0..good.len() / BLOCK {
            for old in [0, 251, 255] {
                let mut bytes = good.clone();
                bytes[block * BLOCK..][..BLOCK].fill(old);
                assert!(read(&bytes).is_err(), "{part}, block {block}");
            }
        }
    }
    // The first block of one record, followed by the rest of another record of the same length.
    let new = long_record();
    let mut old = new.clone();
    old.session.0 -= 1;
    let [old, new] = [old, new].map(|record| record.encode(&SHAPE));
    for block in 0..3 {
        let mut bytes = new.clone();
        let range = block * BLOCK..(block + 1) * BLOCK;
        let same = old[range.clone()] == new[range.clone()];
        bytes[range.clone()].copy_from_slice(&old[range]);
        assert_eq!(Record::decode(&bytes, VOLUME, &SHAPE).is_ok(), same, "block {block}");
    }
}

#[test]
fn newer_versions_are_refused_by_number_and_older_ones_as_invalid() {
    for (part, good, read) in structures() {
        let known = VOLUME_VERSION;
        for version in [known + 1, 9, u32::MAX] {
            let mut bytes = good.clone();
            bytes[8..12].copy_from_slice(&version.to_le_bytes());
            assert_eq!(read(&bytes), Err(FormatError::Newer { part, version, known }));
        }
        for version in 0..known {
            let mut bytes = good.clone();
            bytes[8..12].copy_from_slice(&version.to_le_bytes());
            reseal(&mut bytes);
            let error = read(&bytes).unwrap_err();
            assert!(matches!(error, FormatError::Invalid { field: "version", .. }), "{part}: {error}");
        }
    }
}

#[test]
fn something_else_is_told_apart() {
    let all = structures();
    for (part, _, read) in &all {
        for (other, bytes, _) in &all {
            let is_other = read(bytes) == Err(FormatError::NotPantile { part: *part });
            assert_eq!(is_other, part != other, "{other} read as {part}");
        }
    }
}

#[test]
fn structures_of_another_volume_are_refused() {
    let foreign = |result: FormatError| matches!(result, FormatError::Invalid { field: "volume", .. });
    assert!(foreign(ChunkHeader::decode(&chunk_header().encode(), OTHER).unwrap_err()));
    assert!(foreign(Record::decode(&record().encode(&SHAPE), OTHER, &SHAPE).unwrap_err()));
    assert!(foreign(Record::peek(&record().encode(&SHAPE), OTHER).unwrap_err()));
    let (bytes, reference) = small_snapshot();
    assert!(foreign(SnapshotDecoder::new(OTHER, &SHAPE, &reference).push(&bytes).unwrap_err()));
}

#[test]
fn a_superblock_whose_fields_cannot_be_so_is_refused() {
    for (name, value, field) in [
        ("slot", 5, "slot"),
        ("slot", 4, "lost"),
        ("block length", 512, "block length"),
        ("devices", 0, "devices"),
        ("devices", 257, "devices"),
        ("devices", u64::MAX, "devices"),
        ("devices", 4, "lost"),
        ("rows", 0, "rows"),
        ("rows", 1 << 15, "rows"),
        ("rows", u64::MAX, "rows"),
        ("data cells", 0, "data cells"),
        ("data cells", (5 << 14) + 1, "data cells"),
        ("element blocks", 0, "element blocks"),
        ("element blocks", 3, "element blocks"),
        ("element blocks", 2048, "element blocks"),
        ("placement", 256, "placement"),
        ("log rows", u64::MAX, "log rows"),
        ("log rows", (1 << 20) + 1, "log rows"),
        ("log rows", 1 << 20, "snapshot blocks"),
        ("journal blocks", 15, "journal blocks"),
        ("journal blocks", 19, "replay block"),
        ("snapshot blocks", 0, "snapshot blocks"),
        ("physical stripes", 0, "physical stripes"),
        ("physical stripes", 31, "logical stripes"),
        ("physical stripes", 1 << 32, "physical stripes"),
        ("physical stripes", u64::MAX, "physical stripes"),
        ("logical stripes", 0, "logical stripes"),
        ("logical stripes", 41, "logical stripes"),
        ("logical stripes", u64::MAX, "logical stripes"),
        ("snapshot", 0, "snapshot length"),
        ("snapshot", 3, "snapshot"),
        ("snapshot length", 0, "snapshot length"),
        ("snapshot length", 3, "snapshot length"),
        ("replay block", 20, "replay block"),
        ("snapshot session", 6, "snapshot session"),
        ("base session", 6, "base session"),
        ("definition length", 1, "definition length"),
        ("definition checksum", 1, "definition checksum"),
        ("spec length", 0, "reserved"),
        ("spec length", 5, "reserved"),
        ("spec length", 513, "spec"),
        ("spec", 0, "spec"),
        ("spec", 0xff, "spec"),
        ("spec", u64::from_le_bytes(*b"custom:x"), "definition length"),
        ("name length", 65, "name"),
        ("name length", 3, "reserved"),
        ("name length", 20, "name"),
        ("name", 0xff, "name"),
        ("reserved", 1, "reserved"),
        ("lost", 1 << 3, "lost"),
        ("lost", 1 << 5, "lost"),
    ] {
        let mut bytes = superblock().encode();
        put(&mut bytes, SUPERBLOCK_LAYOUT, name, value);
        if name == "spec" && value != 0 && value != 0xff {
            put(&mut bytes, SUPERBLOCK_LAYOUT, "spec length", 8);
        }
        reseal(&mut bytes);
        match Superblock::decode(&bytes) {
            Err(FormatError::Invalid { field: found, .. }) => assert_eq!(found, field, "{name} = {value}"),
            other => panic!("{name} = {value}: {other:?}"),
        }
    }
    for (spec, is_good) in [("", false), ("rs:3+2", true), ("rs 3+2", false), ("rs:3+\u{b2}", false)] {
        assert_eq!(Superblock { spec: spec.into(), ..superblock() }.check().is_ok(), is_good, "{spec}");
    }
    for (len, is_good) in [(0, false), (1, true), (57_344, true), (57_345, false)] {
        let definition = Some(DefinitionRef { len, crc: Crc64(0) });
        let custom = Superblock { spec: "custom:x".into(), definition, ..superblock() };
        assert_eq!(custom.check().is_ok(), is_good, "{len}");
    }
    for lost in [vec![Slot(4), Slot(0)], vec![Slot(0), Slot(0)]] {
        assert!(Superblock { lost, ..superblock() }.check().is_err());
    }
    for at in [816 + 64, 2924, 4087] {
        let mut bytes = superblock().encode();
        bytes[at] = 1;
        reseal(&mut bytes);
        assert!(matches!(Superblock::decode(&bytes), Err(FormatError::Invalid { field: "reserved", .. })));
    }
}

#[test]
fn a_chunk_header_whose_fields_cannot_be_so_is_refused() {
    for (blocks, field) in [(0, "blocks"), (65_537, "blocks"), (u64::MAX, "blocks"), (7, "reserved")] {
        let mut bytes = chunk_header().encode();
        put(&mut bytes, CHUNK_LAYOUT, "blocks", blocks);
        reseal(&mut bytes);
        match ChunkHeader::decode(&bytes, VOLUME) {
            Err(FormatError::Invalid { field: found, .. }) => assert_eq!(found, field, "{blocks}"),
            other => panic!("{blocks}: {other:?}"),
        }
    }
}

/// Decodes a record of one entry, in which one field was changed.
fn with_entry(entry: Entry, offset: usize, len: usize, value: u64) -> Result<Record, FormatError> {
    let mut record = record();
    record.entries = vec![entry];
    let mut bytes = record.encode(&SHAPE);
    bytes[RECORD_HEAD_BYTES + offset..][..len].copy_from_slice(&value.to_le_bytes()[..len]);
    reseal(&mut bytes);
    Record::decode(&bytes, VOLUME, &SHAPE)
}

#[test]
fn a_patch_whose_fields_cannot_be_so_is_refused() {
    let max = u64::MAX;
    let patch = patch_record().entries[2].clone();
    // Offset of the table behind the start of the entry: chunks begin at 24, 72 and 104.
    for (start, table, name, value, field) in [
        (0, ENTRY_HEAD_LAYOUT, "count", 0, "length"),
        (0, ENTRY_HEAD_LAYOUT, "count", 2, "length"),
        (0, ENTRY_HEAD_LAYOUT, "count", 4, "length"),
        (0, ENTRY_HEAD_LAYOUT, "count", max, "length"),
        (0, ENTRY_HEAD_LAYOUT, "length", 24, "length"),
        (0, ENTRY_HEAD_LAYOUT, "length", 8200, "length"),
        (0, PATCH_LAYOUT, "logical stripe", 32, "logical stripe"),
        (0, PATCH_LAYOUT, "logical stripe", max, "logical stripe"),
        (24, PATCH_CHUNK_LAYOUT, "slot", 3, "slot"),
        (24, PATCH_CHUNK_LAYOUT, "slot", max, "slot"),
        (104, PATCH_CHUNK_LAYOUT, "slot", 5, "slot"),
        (72, PATCH_CHUNK_LAYOUT, "blocks", 0, "length"),
        (104, PATCH_CHUNK_LAYOUT, "blocks", 2, "length"),
        (24, PATCH_CHUNK_LAYOUT, "blocks", max, "length"),
        (40, PATCH_BLOCK_LAYOUT, "place", 4, "place"),
        (40, PATCH_BLOCK_LAYOUT, "place", max, "place"),
        (40, PATCH_BLOCK_LAYOUT, "reserved", 1, "reserved"),
    ] {
        let range = crate::volume_common::field(table, name);
        match with_entry(patch.clone(), start + range.start, range.len().min(8), value) {
            Err(FormatError::Invalid { field: found, .. }) => assert_eq!(found, field, "{name} = {value}"),
            other => panic!("{start}, {name} = {value}: {other:?}"),
        }
    }
    let over = patch_record().entries[0].clone();
    let range = crate::volume_common::field(PATCH_LAYOUT, "generation");
    assert!(matches!(
        with_entry(over, range.start, 8, 1),
        Err(FormatError::Invalid { field: "generation", .. })
    ));
    let mut record = patch_record();
    let Some(Entry::Patch(patch)) = record.entries.last_mut() else { panic!("it ends with a patch") };
    patch.chunks[0].blocks.clear();
    assert!(matches!(record.check(&SHAPE), Err(FormatError::Invalid { field: "blocks", .. })));
}

#[test]
fn a_record_whose_fields_cannot_be_so_is_refused() {
    let max = u64::MAX;
    let entries = record().entries;
    // The entry, the table, the field, the offset of the table in the entry, the value, and the
    // field that is refused.
    for (entry, table, name, value, field) in [
        (0, ENTRY_HEAD_LAYOUT, "kind", 0, "kind"),
        (0, ENTRY_HEAD_LAYOUT, "kind", 6, "kind"),
        (0, ENTRY_HEAD_LAYOUT, "kind", 2, "length"),
        (0, ENTRY_HEAD_LAYOUT, "kind", 11, "kind"),
        (0, ENTRY_HEAD_LAYOUT, "kind", 63, "kind"),
        (0, ENTRY_HEAD_LAYOUT, "kind", 4, "length"),
        (0, ENTRY_HEAD_LAYOUT, "count", 1, "count"),
        (0, ENTRY_HEAD_LAYOUT, "length", 55, "length"),
        (0, ENTRY_HEAD_LAYOUT, "length", MEMBER_BYTES as u64 + 1, "entries"),
        (0, ENTRY_HEAD_LAYOUT, "length", 7, "length"),
        (0, ENTRY_HEAD_LAYOUT, "length", 0, "length"),
        (0, ENTRY_HEAD_LAYOUT, "length", max, "length"),
        (0, MEMBER_LAYOUT, "slot", 5, "slot"),
        (0, MEMBER_LAYOUT, "state", 0, "missed from"),
        (0, MEMBER_LAYOUT, "state", 1, "missed from"),
        (0, MEMBER_LAYOUT, "state", 3, "state"),
        (0, MEMBER_LAYOUT, "missed from", 21, "missed until"),
        (0, MEMBER_LAYOUT, "cursor", 33, "cursor"),
        (0, MEMBER_LAYOUT, "ahead until", 33, "ahead until"),
        (0, MEMBER_LAYOUT, "rows ahead", 0, "ahead until"),
        (1, ENTRY_HEAD_LAYOUT, "count", 4, "count"),
        (1, ENTRY_HEAD_LAYOUT, "count", 3, "written"),
        (1, ENTRY_HEAD_LAYOUT, "count", max, "written"),
        (1, ENTRY_HEAD_LAYOUT, "length", 80, "length"),
        (1, ENTRY_HEAD_LAYOUT, "length", 84, "length"),
        (1, SWITCH_LAYOUT, "logical stripe", 32, "logical stripe"),
        (1, SWITCH_LAYOUT, "physical stripe", 40, "physical stripe"),
        (1, SWITCH_LAYOUT, "written", 0b11111, "length"),
        (1, SWITCH_LAYOUT, "written", 0b00001, "length"),
        (1, SWITCH_LAYOUT, "written", 0b101101, "written"),
        (2, FORGET_LAYOUT, "first user block", 768, "first user block"),
        (2, FORGET_LAYOUT, "first user block", max, "first user block"),
        (2, FORGET_LAYOUT, "count", 0, "first user block"),
        (2, FORGET_LAYOUT, "count", 25, "first user block"),
        (3, UNMAP_LAYOUT, "count", 0, "first logical stripe"),
        (3, UNMAP_LAYOUT, "count", 33, "first logical stripe"),
        (3, UNMAP_LAYOUT, "first logical stripe", 1, "first logical stripe"),
        (3, UNMAP_LAYOUT, "first logical stripe", max, "first logical stripe"),
        (4, ENTRY_HEAD_LAYOUT, "count", 2, "length"),
        (4, ENTRY_HEAD_LAYOUT, "count", 4, "length"),
        (4, LOG_WRITE_LAYOUT, "row", 8, "row"),
        (4, LOG_WRITE_LAYOUT, "reserved", 1, "reserved"),
        (3, ENTRY_HEAD_LAYOUT, "count", 1, "count"),
        (3, ENTRY_HEAD_LAYOUT, "length", 32, "entries"),
    ] {
        let range = crate::volume_common::field(table, name);
        let result = with_entry(entries[entry].clone(), range.start, range.len().min(8), value);
        match result {
            Err(FormatError::Invalid { field: found, .. }) => assert_eq!(found, field, "{name} = {value}"),
            other => panic!("entry {entry}, {name} = {value}: {other:?}"),
        }
    }
    // A cell of the log write; cells begin at offset 24 of the entry.
    for (cell, name, value, field) in [
        (0, "user block", 768, "user block"),
        (0, "user block", max, "user block"),
        (1, "user block", 1, "user block"),
        (0, "holds", 2, "user block"),
        (1, "holds", 4, "holds"),
        (0, "slot", 3, "slot"),
        (2, "slot", 5, "slot"),
        (2, "slot", 3, "slot"),
    ] {
        let range = crate::volume_common::field(LOG_CELL_LAYOUT, name);
        match with_entry(entries[4].clone(), 24 + 16 * cell + range.start, range.len(), value) {
            Err(FormatError::Invalid { field: found, .. }) => assert_eq!(found, field, "{name} = {value}"),
            other => panic!("cell {cell}, {name} = {value}: {other:?}"),
        }
    }
    for (name, value, field) in [
        ("blocks", 0, "blocks"),
        ("blocks", 2, "blocks"),
        ("blocks", max, "blocks"),
        ("body length", 0, "reserved"),
        ("body length", 8, "reserved"),
        ("body length", max, "blocks"),
        ("entries", 0, "body length"),
        ("entries", 6, "body length"),
        ("entries", 8, "entries"),
        ("entries", 10, "entries"),
        ("entries", max, "entries"),
        ("number", 900, "flushed through"),
        ("number", 0, "flushed through"),
        ("flushed through", 901, "flushed through"),
    ] {
        let mut bytes = record().encode(&SHAPE);
        put(&mut bytes, RECORD_HEAD_LAYOUT, name, value);
        reseal(&mut bytes);
        match Record::decode(&bytes, VOLUME, &SHAPE) {
            Err(FormatError::Invalid { field: found, .. }) => assert_eq!(found, field, "{name} = {value}"),
            other => panic!("{name} = {value}: {other:?}"),
        }
    }
}

#[test]
fn an_entry_whose_length_and_counts_disagree_is_refused() {
    let switch = |len: u32, written: u8| {
        let mut entry = vec![0; len as usize];
        (entry[0], entry[2]) = (1, 5);
        entry[4..8].copy_from_slice(&len.to_le_bytes());
        entry[32] = written;
        entry
    };
    let log_write = [&[3, 0, 0, 0, 24, 0, 0, 0][..], &[0; 16]].concat();
    for (body, field) in [
        (switch(88, 0b111), None),
        (switch(92, 0b111), Some("length")),
        (switch(96, 0b111), Some("length")),
        (switch(64, 0), Some("written")),
        (log_write, Some("count")),
    ] {
        let mut bytes = Record { entries: vec![], ..record() }.encode(&SHAPE);
        bytes[RECORD_HEAD_BYTES..][..body.len()].copy_from_slice(&body);
        put(&mut bytes, RECORD_HEAD_LAYOUT, "entries", 1);
        put(&mut bytes, RECORD_HEAD_LAYOUT, "body length", body.len() as u64);
        reseal(&mut bytes);
        let found = match Record::decode(&bytes, VOLUME, &SHAPE) {
            Ok(_) => None,
            Err(FormatError::Invalid { field, .. }) => Some(field),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(found, field, "{} bytes", body.len());
    }
}

#[test]
fn a_peek_never_asks_for_more_than_the_limit() {
    let mut bytes = record().encode(&SHAPE);
    for (blocks, is_good) in [(4096u64, true), (4097, false), (1 << 20, false)] {
        put(&mut bytes, RECORD_HEAD_LAYOUT, "blocks", blocks);
        put(&mut bytes, RECORD_HEAD_LAYOUT, "body length", (blocks * 4096 - 72).min(u64::from(u32::MAX)));
        assert_eq!(Record::peek(&bytes, VOLUME).is_ok(), is_good, "{blocks}");
    }
}

#[test]
fn records_are_as_long_as_the_journal_and_the_limit_allow() {
    let forget = Entry::LogForget { first: UserBlock(0), count: 1 };
    let of = |entries: usize| Record { entries: vec![forget.clone(); entries], ..record() };
    // An entry has 24 bytes, head and checksum have 72: 20 blocks hold 3410 entries, 4096 blocks
    // hold 699047.
    assert_eq!((of(3410).len_blocks(), of(3411).len_blocks()), (20, 21));
    assert!(of(3410).check(&SHAPE).is_ok());
    assert!(of(3411).check(&SHAPE).is_err());
    let roomy = Shape { journal_blocks: 60_000, ..SHAPE };
    assert!(Record::decode(&of(3411).encode(&roomy), VOLUME, &roomy).is_ok());
    assert!(Record::decode(&of(3411).encode(&roomy), VOLUME, &SHAPE).is_err());
    assert_eq!(of(699_047).len_blocks(), 4096);
    assert!(Record::decode(&of(699_047).encode(&roomy), VOLUME, &roomy).is_ok());
    assert!(of(699_048).check(&roomy).is_err());
}

#[test]
fn a_snapshot_whose_fields_cannot_be_so_is_refused() {
    let max = u64::MAX;
    let members = 64 + 24;
    let table = members + 5 * MEMBER_BYTES;
    let (bytes, reference) = small_snapshot();
    // The table of `snapshot_items` has the stripes 0 1 2 - 4 5 6 7 8 - (9..12) 12 ..., so entry 3
    // is a run of one unmapped stripe.
    let at = |entry: usize| table + 12 * entry;
    let entries = (0..32u64).filter(|l| l % 7 != 3 && !(9..12).contains(l)).count() + 5;
    let log = at(entries);
    for (offset, len, value, field) in [
        (12, 4, 1, "piece"),
        (40, 8, 899, "record"),
        (48, 8, 1, "checksum before"),
        (56, 4, 0, "payload"),
        (56, 4, 4025, "payload"),
        (56, 4, max, "payload"),
        (56, 4, 100, "reserved"),
        (60, 4, 0, "last"),
        (60, 4, 2, "last"),
        (64, 8, 1, "generation"),
        (72, 8, 33, "logical stripes"),
        (80, 4, 4, "logical stripes"),
        (84, 4, 9, "logical stripes"),
        (members, 2, 4, "length"),
        (members, 2, 11, "kind"),
        (members + 4, 4, max, "length"),
        (members + 8, 4, 1, "slot"),
        (members + MEMBER_BYTES + 8, 4, 0, "slot"),
        (at(0), 4, 40, "physical stripe"),
        (at(0) + 4, 8, 1 << 20, "generation"),
        (at(0) + 4, 8, (1 << 63) + (1 << 20), "generation"),
        (at(3) + 4, 8, (1 << 63) + 1, "logical stripes"),
        (at(3) + 4, 8, 0, "generation"),
        (at(3) + 4, 8, 33, "logical stripes"),
        (at(3) + 4, 8, max, "logical stripes"),
        (at(2), 4, 0xffff_ffff, "generation"),
        (at(4), 4, 0xffff_ffff, "generation"),
        (log, 2, 5, "length"),
        (log, 2, 1, "length"),
        (log + 8, 4, 8, "row"),
        (log + 8, 4, 3, "row"),
        (log + 16, 8, 1 << 20, "generation"),
        (log + 24 + 6, 1, 2, "slot"),
        (log + 24 + 6, 1, 1, "slot"),
        (log + 24, 6, 768, "user block"),
    ] {
        let mut bytes = bytes.clone();
        bytes[offset..offset + len].copy_from_slice(&value.to_le_bytes()[..len]);
        reseal(&mut bytes);
        let crc = ChunkHeader::digest_of(&bytes);
        match read_snapshot(&bytes, &SHAPE, &SnapshotRef { crc, ..reference }) {
            Err(FormatError::Invalid { field: found, .. }) => assert_eq!(found, field, "{offset} = {value}"),
            other => panic!("{offset} = {value}: {other:?}"),
        }
        let old = read_snapshot(&bytes, &SHAPE, &reference);
        assert!(old.is_err(), "{offset} = {value} under the old checksum");
    }
}

#[test]
fn pieces_of_two_snapshots_are_never_mixed() {
    let shape = long_shape();
    let items = snapshot_items(&shape);
    let (good, reference) = snapshot_bytes(&shape, &items);
    // The maps at the same record, with one stripe elsewhere: the pieces have the same lengths, and
    // each is intact.
    let mut moved = items.clone();
    let SnapshotItem::Stripe { physical, .. } = &mut moved[20] else { panic!("a stripe") };
    physical.0 = 0;
    let (other, _) = snapshot_bytes(&shape, &moved);
    assert_eq!(good.len(), other.len());
    const PIECE: usize = 256 * BLOCK;
    for take in 0..3 {
        let end = (PIECE * (take + 1)).min(good.len());
        let mut bytes = good.clone();
        bytes[PIECE * take..end].copy_from_slice(&other[PIECE * take..end]);
        assert!(read_snapshot(&bytes, &shape, &reference).is_err(), "piece {take}");
    }
    // The whole other snapshot is intact, but not the one of the superblock.
    let error = read_snapshot(&other, &shape, &reference).unwrap_err();
    assert_eq!(error, FormatError::Checksum { part: Part::Snapshot });
    // Two pieces are swapped.
    let mut bytes = good.clone();
    let (first, second) = bytes.split_at_mut(PIECE);
    first.swap_with_slice(&mut second[..PIECE]);
    assert!(read_snapshot(&bytes, &shape, &reference).is_err());
    // Fewer or more blocks than the superblock says.
    for blocks in [1, 255, 256, 257, 512, reference.blocks - 1, reference.blocks + 1] {
        let reference = SnapshotRef { blocks, ..reference };
        let len = good.len().min(blocks as usize * BLOCK);
        assert!(read_snapshot(&good[..len], &shape, &reference).is_err(), "{blocks}");
    }
}

#[test]
fn pieces_in_one_chain_that_do_not_agree_are_refused() {
    let shape = long_shape();
    let (good, reference) = snapshot_bytes(&shape, &snapshot_items(&shape));
    const PIECE: usize = 256 * BLOCK;
    for (offset, value, field) in [
        (32, 6, "session"),
        (40, 899, "record"),
        (12, 2, "piece"),
        (56, 1_048_503, "payload"),
        (56, 1_048_505, "payload"),
        (60, 1, "last"),
    ] {
        let mut bytes = good.clone();
        let changed = &mut bytes[PIECE + offset..][..4];
        changed.copy_from_slice(&u32::to_le_bytes(value));
        bytes[2 * PIECE - 9] = 0;
        let mut before = [0; 8];
        for piece in bytes.chunks_mut(PIECE) {
            piece[48..56].copy_from_slice(&before);
            reseal(piece);
            before = *piece.last_chunk().unwrap();
        }
        let reference = SnapshotRef { crc: Crc64(u64::from_le_bytes(before)), ..reference };
        match read_snapshot(&bytes, &shape, &reference) {
            Err(FormatError::Invalid { field: found, .. }) => assert_eq!(found, field),
            other => panic!("{field}: {:?}", other.map(|_| ())),
        }
    }
}

#[test]
fn a_stream_that_ends_too_early_is_refused() {
    let (good, reference) = small_snapshot();
    let end = 64 + u32::from_le_bytes(good[56..60].try_into().unwrap()) as usize;
    let table = 64 + 24 + 5 * MEMBER_BYTES;
    // The stream is cut in the middle of the head, of a member, of a table entry or of a log write,
    // or between items of which more must follow.
    for cut in [64 + 23, 64 + 24, table - 1, table, table + 12, table + 18, end - 16, end - 1] {
        let mut bytes = good.clone();
        put(&mut bytes, PIECE_HEAD_LAYOUT, "payload", cut as u64 - 64);
        bytes[cut..end].fill(0);
        reseal(&mut bytes);
        let crc = ChunkHeader::digest_of(&bytes);
        match read_snapshot(&bytes, &SHAPE, &SnapshotRef { crc, ..reference }) {
            Err(FormatError::Invalid { field, .. }) => assert_eq!(field, "last", "{cut}"),
            other => panic!("{cut}: {other:?}"),
        }
    }
}

#[test]
fn a_refused_piece_leaves_no_trace() {
    let shape = long_shape();
    let items = snapshot_items(&shape);
    let (good, reference) = snapshot_bytes(&shape, &items);
    const PIECE: usize = 256 * BLOCK;
    // A piece that is intact and in its place, but has an invalid entry near its end: a physical
    // stripe that does not exist.
    let mut bad = good[..PIECE].to_vec();
    bad[64 + 24 + 5 * MEMBER_BYTES + 12 * 80_000..][..4].fill(0xee);
    reseal(&mut bad);
    let mut decoder = SnapshotDecoder::new(VOLUME, &shape, &reference);
    let results: Vec<_> = bad.chunks(BLOCK).map(|block| decoder.push(block)).collect();
    let error = results[255].as_ref().unwrap_err();
    assert!(matches!(error, FormatError::Invalid { field: "physical stripe", .. }), "{error}");
    let read: Vec<SnapshotItem> = good.chunks(BLOCK).flat_map(|block| decoder.push(block).unwrap()).collect();
    assert_eq!(decoder.finish(), Ok(snapshot_head()));
    assert_eq!(read, items);
}

#[test]
fn a_refused_piece_may_be_taken_from_another_device() {
    let shape = long_shape();
    let items = snapshot_items(&shape);
    let (good, reference) = snapshot_bytes(&shape, &items);
    let mut decoder = SnapshotDecoder::new(VOLUME, &shape, &reference);
    let (mut read, mut refused) = (Vec::new(), 0);
    while let Some(block) = decoder.wanted() {
        let mut bytes = good[block as usize * BLOCK..][..BLOCK].to_vec();
        // The first device has a damaged block in the middle of each piece.
        let is_bad = block as usize == refused * 256 + 20;
        bytes[100] ^= u8::from(is_bad);
        refused += usize::from(is_bad);
        match decoder.push(&bytes) {
            Ok(more) => read.extend(more),
            Err(error) => {
                assert_eq!(error, FormatError::Checksum { part: Part::Snapshot });
                assert_eq!(decoder.wanted(), Some((refused as u32 - 1) * 256));
            }
        }
    }
    assert_eq!(refused, 3);
    assert_eq!(decoder.finish(), Ok(snapshot_head()));
    assert_eq!(read, items);
}

#[test]
#[should_panic(expected = "must be above the one before")]
fn stripes_out_of_order_are_not_written() {
    let mut encoder = SnapshotEncoder::new(snapshot_head(), &SHAPE);
    members(&SHAPE).for_each(|member| encoder.push(&member));
    encoder.push(&stripe(4, 0, 0));
    encoder.push(&stripe(3, 1, 0));
}

#[test]
#[should_panic(expected = "must be below 2^63")]
fn a_generation_that_no_volume_counts_to_is_not_written() {
    let head = SnapshotHead { next_generation: Generation(u64::MAX), ..snapshot_head() };
    let mut encoder = SnapshotEncoder::new(head, &SHAPE);
    members(&SHAPE).for_each(|member| encoder.push(&member));
    encoder.push(&stripe(0, 0, 1 << 63));
}

#[test]
#[should_panic(expected = "name must be 64 bytes at most")]
fn a_superblock_that_could_not_be_read_is_not_written() {
    Superblock { name: "x".repeat(65), ..superblock() }.encode();
}

proptest! {
    #[test]
    fn random_bytes_never_panic(seed in proptest::collection::vec(any::<u8>(), 0..3 * BLOCK), start in 0..4usize, fix: bool) {
        for (which, (_, good, read)) in structures().into_iter().enumerate() {
            let mut bytes = seed.clone();
            let start = [0, 12, 32, 64][start].min(bytes.len());
            bytes[..start].copy_from_slice(&good[..start]);
            let whole = bytes.len() / BLOCK * BLOCK;
            if fix && whole > 0 {
                reseal(&mut bytes[..whole]);
                if which == 0 {
                    reseal(&mut bytes[..BLOCK]);
                }
            }
            prop_assert!(read(&bytes).is_err());
        }
    }

    /// Recomputes the checksum, so that every check behind it is reached. Every accepted structure
    /// is encoded to the same bytes.
    #[test]
    fn random_changes_under_a_fitting_checksum_never_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), prop_oneof![0..9u8, any::<u8>()]), 1..6),
        near: bool,
    ) {
        for (part, good, read) in structures() {
            let mut bytes = good.clone();
            for (index, value) in &changes {
                let range = if near { 512.min(good.len()) } else { good.len() - 8 };
                bytes[12 + index.index(range - 12)] = *value;
            }
            reseal(&mut bytes);
            match read(&bytes) {
                Ok(again) => {
                    // A reader skips entries of kinds that it may ignore, so the number of entries
                    // can differ.
                    let is_list = matches!(part, Part::Record | Part::State);
                    let ignores = is_list && again[56..60] != bytes[56..60];
                    prop_assert!(ignores || again == bytes, "{part} was read as what it is not");
                }
                Err(FormatError::NotPantile { .. } | FormatError::Newer { .. }) => prop_assert!(false, "{part}"),
                Err(_) => {}
            }
        }
    }
}
