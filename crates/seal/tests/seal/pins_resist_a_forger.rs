//! Claims: a forgery with correct checksums does not match a pin. Forged blocks are reported and
//! healed from pinned ones, and a forged manifest is refused. A pin itself may be forged, and is
//! checked.

use crate::common::*;
use pantile_format::{Crc64, FormatError, Manifest, Part, ShardHeader, piece_sums};
use pantile_seal::*;
use std::fs;
use std::path::{Path, PathBuf};

const BODY: u64 = pantile_format::BODY_OFFSET;
const BLOCK: u64 = 4096;

fn pin_of(place: &Place) -> PathBuf {
    place.dir.path().join("kept elsewhere")
}

/// Makes a sealed set and its pin.
fn pinned(code: &str, mode: Mode, checksums: bool) -> Place {
    let place = Place::new();
    fs::create_dir(place.tree()).unwrap();
    for i in 0..4 {
        write(&place.tree().join(format!("f{i}")), &Seed(i + 70).bytes(5 * BLOCK as usize - 100));
    }
    let mut options = place.options(code);
    (options.mode, options.checksums, options.block_len) = (Some(mode), Some(checksums), Some(BLOCK));
    seal(&options, &mut Silent).unwrap();
    let report = pin(&place.set(), &pin_of(&place), &mut Silent).unwrap();
    assert_eq!(report.bytes, fs::metadata(pin_of(&place)).unwrap().len());
    assert_eq!(report.bytes, 96 + report.blocks * 32 + 32);
    place
}

fn held(place: &Place) -> SetPaths {
    SetPaths { pin: Some(pin_of(place)), ..place.set() }
}

fn look(place: &Place) -> Result<VerifyReport, Fault> {
    verify(&VerifyOptions { set: held(place), ..Default::default() }, &mut Silent)
}

fn mend(place: &Place) -> Result<HealReport, Fault> {
    heal(&HealOptions { set: held(place), ..Default::default() }, &mut Silent)
}

/// Changes a block of a file, and makes its checksum correct again.
fn forge_block(path: &Path, at: u64) {
    let time = fs::metadata(path).unwrap().modified().unwrap();
    let mut bytes = fs::read(path).unwrap();
    let block = &mut bytes[at as usize..(at + BLOCK) as usize];
    let crc = Crc64::of(block);
    block[..3].copy_from_slice(b"999");
    forge(block, crc);
    fs::write(path, bytes).unwrap();
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn forged_blocks_do_not_fit_and_are_healed_from_what_does() {
    let place = pinned("rs:3+2", Mode::Full, true);
    assert!(look(&place).unwrap().clean && look(&place).unwrap().by_pin);
    let whole = shards(&place.out());
    forge_block(&place.shard(0), BODY + BLOCK);
    forge_block(&place.shard(4), BODY + BLOCK);
    assert!(place.verify().clean, "checksums do not resist a forger");
    let found = look(&place).unwrap();
    assert!(!found.clean && found.recoverable);
    let wrong: Vec<u64> = found.shards.iter().map(|shard| shard.wrong_blocks).collect();
    assert_eq!(wrong, [1, 0, 0, 0, 1]);
    assert_eq!(mend(&place).unwrap().blocks_repaired, 2);
    assert!(shards(&place.out()) == whole);
    // Beyond the tolerance, blocks that do not match the pin are not used, nor is any block
    // computed from them.
    (1..4).for_each(|column| forge_block(&place.shard(column), BODY));
    let forged = shards(&place.out());
    assert!(matches!(mend(&place), Err(Fault { kind: FaultKind::TooMuchLost { .. }, .. })));
    assert!(shards(&place.out()) == forged);
}

#[test]
fn a_forged_original_is_healed_from_parity_that_fits() {
    let place = pinned("rs:3+2", Mode::Beside, true);
    let path = place.tree().join("f1");
    let good = fs::read(&path).unwrap();
    forge_block(&path, 2 * BLOCK);
    make_shards_younger(&place);
    assert!(place.verify().clean);
    let found = look(&place).unwrap();
    let file = found.files.iter().find(|file| file.path == "f1").unwrap();
    assert_eq!((file.status, file.lost_blocks), (FileStatus::Rotten, 1));
    mend(&place).unwrap();
    assert!(fs::read(&path).unwrap() == good);
    assert!(look(&place).unwrap().clean);
}

#[test]
fn a_forged_file_is_not_what_an_original_is_called_now() {
    let place = pinned("rs:3+2", Mode::Beside, true);
    let renamed = place.tree().join("called so");
    fs::rename(place.tree().join("f1"), &renamed).unwrap();
    let status = |report: VerifyReport| report.files.iter().find(|file| file.path == "f1").unwrap().status;
    assert_eq!(status(look(&place).unwrap()), FileStatus::Renamed);
    forge_block(&renamed, 4096);
    assert_eq!(status(place.verify()), FileStatus::Renamed, "checksums do not resist a forger");
    assert_eq!(status(look(&place).unwrap()), FileStatus::Missing);
}

/// Replaces the manifest of shards, with correct checksums.
fn forge_manifests(place: &Place, columns: std::ops::Range<usize>, generation: u64) {
    for column in columns {
        let mut bytes = fs::read(place.shard(column)).unwrap();
        let mut header = ShardHeader::decode(&bytes).unwrap();
        let at = header.meta_offset as usize;
        let (checks, pieces) = (
            at + header.manifest_len as usize,
            at + header.manifest_len as usize + header.checks_len as usize,
        );
        let mut manifest = Manifest::decode(&bytes[at..checks]).unwrap();
        manifest.entries[1].mode ^= 0o022;
        manifest.generation.0 += generation;
        header.generation.0 += generation;
        let manifest = manifest.encode();
        let table = bytes[checks..pieces].to_vec();
        let sums = piece_sums(&manifest).into_iter().chain(piece_sums(&table));
        let sums: Vec<u8> = sums.flat_map(|sum| sum.0.to_le_bytes()).collect();
        (header.manifest_crc, header.pieces_crc) = (Crc64::of(&manifest), Crc64::of(&sums));
        let meta = [manifest, table, sums].concat();
        let headers = header.copy_offsets().into_iter().map(|at| (at, header.encode()));
        for (at, part) in header.meta_copies().into_iter().map(|at| (at, meta.clone())).chain(headers) {
            bytes[at as usize..at as usize + part.len()].copy_from_slice(&part);
        }
        fs::write(place.shard(column), bytes).unwrap();
    }
}

#[test]
fn one_forged_manifest_among_good_ones_is_a_damaged_shard() {
    // With the generation of the pinned state, and with a later one.
    for generation in [0, 1] {
        let place = pinned("rs:3+2", Mode::Full, true);
        let whole = shards(&place.out());
        forge_manifests(&place, 0..1, generation);
        let found = look(&place).unwrap();
        assert!(!found.clean && found.recoverable && found.shards[0].status != ShardStatus::Good);
        let yes = HealOptions { set: held(&place), yes: true, ..Default::default() };
        heal(&yes, &mut Silent).unwrap();
        assert!(shards(&place.out()) == whole, "{generation}");
    }
}

#[test]
fn a_forged_manifest_is_refused_before_anything_is_done() {
    let place = pinned("rs:3+2", Mode::Full, true);
    forge_manifests(&place, 0..5, 0);
    fs::remove_file(place.shard(2)).unwrap();
    assert!(place.verify().recoverable);
    let before = shards(&place.out());
    assert!(matches!(look(&place), Err(Fault { kind: FaultKind::Lost, .. })));
    assert!(matches!(mend(&place), Err(Fault { kind: FaultKind::Lost, .. })));
    let options =
        UnsealOptions { set: held(&place), target: place.target(), overwrite: false, ..Default::default() };
    assert!(matches!(unseal(&options, &mut Silent), Err(Fault { kind: FaultKind::Lost, .. })));
    assert!(shards(&place.out()) == before && !place.target().exists());
}

#[test]
fn a_pin_is_of_one_state_and_is_written_anew_for_the_next() {
    let place = pinned("rs:3+2", Mode::Full, true);
    write(&place.tree().join("one more"), b"more");
    place.reseal();
    let refused = look(&place).unwrap_err();
    assert!(
        refused.what.contains("pins generation 1 ") && refused.what.contains("is generation 2 "),
        "{refused}"
    );
    pin(&place.set(), &pin_of(&place), &mut Silent).unwrap();
    assert!(look(&place).unwrap().clean);
    // Damaged blocks are not pinned as right, and the earlier pin stays.
    flip(&place.shard(1), BODY + 5);
    let before = fs::read(pin_of(&place)).unwrap();
    assert!(matches!(
        pin(&place.set(), &pin_of(&place), &mut Silent),
        Err(Fault { kind: FaultKind::NeedsHeal, what, .. }) if what.contains("1 of its blocks")
    ));
    assert!(fs::read(pin_of(&place)).unwrap() == before);
    assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 4, "nothing is left beside it");
}

#[test]
fn a_set_without_checksums_is_judged_by_its_pin_alone() {
    let place = pinned("rs:3+2", Mode::Full, false);
    let whole = shards(&place.out());
    // One byte is flipped in each of two columns: the equations locate neither.
    flip(&place.shard(0), BODY + 5);
    flip(&place.shard(3), BODY + 5);
    assert_eq!(mend(&place).unwrap().blocks_repaired, 2);
    assert!(shards(&place.out()) == whole);
}

#[test]
fn other_files_and_damaged_pins_are_refused() {
    let place = pinned("rs:3+2", Mode::Full, true);
    let good = fs::read(pin_of(&place)).unwrap();
    let refused = |bytes: &[u8]| {
        fs::write(pin_of(&place), bytes).unwrap();
        look(&place).err().unwrap_or_else(|| panic!("taken: {} bytes", bytes.len()))
    };
    for keep in [0, 7, 8, 95, 96, 127, good.len() - 1] {
        let error = refused(&good[..keep]);
        assert!(
            matches!(error.kind, FaultKind::Damaged) && error.what.contains("is cut off: "),
            "{keep}: {error}"
        );
    }
    assert!(matches!(refused(&[good.clone(), vec![0]].concat()).kind, FaultKind::Damaged));
    for at in (0..good.len()).step_by(61).chain(0..96) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x41;
        assert!(matches!(refused(&bytes).kind, FaultKind::Damaged), "byte {at}");
    }
    let mut newer = good.clone();
    newer[8] = 2;
    let error = refused(&newer);
    let is_newer =
        error.what.contains(&FormatError::Newer { part: Part::Pin, version: 2, known: 1 }.to_string());
    assert!(matches!(error.kind, FaultKind::Damaged) && is_newer, "{error}");
    // The number of stripes is larger than that of any file: no memory is allocated for it.
    let mut huge = good.clone();
    huge[48..56].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(matches!(refused(&huge).kind, FaultKind::Damaged));
    fs::write(pin_of(&place), good).unwrap();
    assert!(look(&place).unwrap().clean);
}
