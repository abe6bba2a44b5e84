//! Claim: metadata is read from the good parts of all its copies. Headers, manifests and check
//! tables without an intact copy are fully used as long as each part is good in some copy.

use crate::common::*;
use pantile_format::ShardHeader;
use pantile_seal::*;
use std::fs;
use std::os::unix::fs::FileExt;

fn sealed(code: &str, files: usize) -> Place {
    let place = Place::new();
    awkward_tree(&place.tree(), 9);
    for i in 0..files {
        write(
            &place.tree().join(format!("a file with a rather long name, number {i:05}")),
            &Seed(i as u64).bytes(100),
        );
    }
    let mut options = place.options(code);
    options.block_len = Some(4096);
    seal(&options, &mut Silent).unwrap();
    place
}

fn header(place: &Place, column: usize) -> ShardHeader {
    ShardHeader::decode(&fs::read(place.shard(column)).unwrap()).unwrap()
}

fn spoil(place: &Place, column: usize, at: u64, len: u64) {
    let file = fs::File::options().write(true).open(place.shard(column)).unwrap();
    file.write_all_at(&Seed(at).bytes(len as usize), at).unwrap();
}

/// Damages the same part of both copies of the metadata in a shard.
fn spoil_copies(place: &Place, column: usize, at: u64, len: u64) {
    header(place, column).meta_copies().into_iter().for_each(|copy| spoil(place, column, copy + at, len));
}

/// Damages a different part of the manifest in every shard, so that no copy is intact afterwards.
fn spoil_manifests(place: &Place, columns: usize) {
    for column in 0..columns {
        let part = header(place, column).manifest_len / columns as u64;
        spoil_copies(place, column, column as u64 * part + 3, (part / 3).clamp(1, 3000));
    }
}

/// Removes the copy of the manifest that is kept beside the record.
fn forget_kept(place: &Place) {
    fs::remove_dir_all(place.records()).unwrap();
}

#[test]
fn manifests_of_which_no_copy_is_whole_still_tell_everything() {
    // With the piece tables, and without an intact one.
    for (has_pieces, code, columns) in
        [(false, "rs:4+2", 6), (true, "rs:4+2", 6), (false, "raid5:2", 3), (true, "mirror:2", 2)]
    {
        let place = sealed(code, 150);
        let whole: Vec<Vec<u8>> = (0..columns).map(|column| fs::read(place.shard(column)).unwrap()).collect();
        spoil_manifests(&place, columns);
        for column in (0..columns).filter(|_| !has_pieces) {
            let header = header(&place, column);
            spoil_copies(&place, column, header.manifest_len + header.checks_len, header.pieces_len);
        }
        forget_kept(&place);
        let found = place.verify();
        assert!(found.shards.iter().all(|shard| shard.status == ShardStatus::MetaDamaged), "{found:?}");
        assert!(found.recoverable && found.needs_heal, "{has_pieces} {code}");
        place.assert_restores();
        place.heal().unwrap();
        let healed: Vec<Vec<u8>> =
            (0..columns).map(|column| fs::read(place.shard(column)).unwrap()).collect();
        assert!(healed == whole, "{has_pieces} {code}");
        assert!(place.verify().clean, "{has_pieces} {code}");
    }
}

#[test]
fn more_damage_than_choices_can_be_tried_for_is_borne_by_pieces() {
    // Each piece of the manifest is intact in only one of the three shards.
    let place = sealed("raid5:2", 400);
    for column in 0..3 {
        let header = header(&place, column);
        for at in (0..header.manifest_len).step_by(190).filter(|at| at / 4096 % 3 != column as u64) {
            spoil_copies(&place, column, at, 2);
        }
    }
    forget_kept(&place);
    assert!(place.verify().recoverable);
    place.assert_restores();
    place.heal().unwrap();
    assert!(place.verify().clean);
}

#[test]
fn a_manifest_that_is_bad_in_one_place_everywhere_is_refused() {
    let place = sealed("rs:3+2", 10);
    (0..5).for_each(|column| spoil_copies(&place, column, 500, 100));
    forget_kept(&place);
    let error = place.unseal().unwrap_err();
    assert!(matches!(error.kind, FaultKind::Lost), "{error}");
}

#[test]
fn a_shard_whose_start_is_gone_is_known_by_its_end() {
    let place = sealed("rs:4+2", 20);
    let whole: Vec<Vec<u8>> = (0..6).map(|column| fs::read(place.shard(column)).unwrap()).collect();
    // In more shards than the code tolerates, both header copies at the start are damaged.
    (0..4).for_each(|column| spoil(&place, column, 0, 8192));
    let found = place.verify();
    assert!(
        found.shards[..4].iter().all(|shard| shard.status == ShardStatus::HeaderCopyDamaged),
        "{found:?}"
    );
    place.assert_restores();
    // Sealing again writes to the copies at the start, so it requires healing first.
    write(&place.tree().join("new"), b"new");
    assert!(matches!(seal(&place.again(), &mut Silent), Err(Fault { kind: FaultKind::NeedsHeal, .. })));
    place.heal().unwrap();
    let healed: Vec<Vec<u8>> = (0..6).map(|column| fs::read(place.shard(column)).unwrap()).collect();
    assert!(healed == whole);
}

#[test]
fn headers_of_which_no_copy_is_whole_still_tell() {
    let place = sealed("rs:3+2", 20);
    for column in 0..5 {
        spoil(&place, column, 10, 20);
        spoil(&place, column, 4096 + 70, 50);
        let end = fs::metadata(place.shard(column)).unwrap().len();
        spoil(&place, column, end - 4096 + 130, 9);
    }
    place.assert_restores();
    place.heal().unwrap();
    assert!(place.verify().clean);
}

#[test]
fn a_damaged_last_copy_is_found_and_mended() {
    let place = sealed("rs:3+2", 3);
    let whole = fs::read(place.shard(1)).unwrap();
    spoil(&place, 1, whole.len() as u64 - 100, 50);
    assert_eq!(place.verify().shards[1].status, ShardStatus::HeaderCopyDamaged);
    // It is harmless: sealing again writes a new one.
    write(&place.tree().join("new"), &[1; 5000]);
    place.reseal();
    assert!(place.verify().clean);
}

#[test]
fn a_check_table_damaged_in_part_costs_the_blocks_of_that_part_alone() {
    let place = Place::new();
    fs::create_dir_all(place.tree()).unwrap();
    // There are more parity blocks than one piece of the check table has checksums.
    write(&place.tree().join("large"), &Seed(1).bytes(5 << 20));
    let mut options = place.options("rs:2+2");
    options.block_len = Some(4096);
    seal(&options, &mut Silent).unwrap();
    let header = header(&place, 2);
    assert!(header.checks_len > 4096);
    spoil_copies(&place, 2, header.manifest_len + header.checks_len - 100, 50);
    let found = place.verify();
    assert_eq!(found.shards[2].status, ShardStatus::MetaDamaged);
    let last_piece = (header.checks_len % 4096) / 8;
    assert_eq!(found.shards[2].wrong_blocks, last_piece, "of {}", header.checks_len / 8);
    place.heal().unwrap();
    assert!(place.verify().clean);
}
