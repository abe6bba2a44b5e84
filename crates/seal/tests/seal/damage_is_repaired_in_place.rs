//! Claim: bad blocks of an original are written in place: inode, links, holes and owner are kept.
//! After a kill at any moment each block is the old or the new one, and the next heal finishes.

use crate::common::fault::{FaultDisk, Faults};
use crate::common::*;
use pantile_format::{Crc64, Generation, JournalHeader, RecordHead, RecordKind, SetId, ShardHeader, Spot};
use pantile_seal::*;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const BLOCK: usize = 4096;

/// Seals a file of 48 blocks, the first eight of which are a hole, and a small file, beside parity.
fn sealed() -> Place {
    let place = Place::new();
    fs::create_dir(place.tree()).unwrap();
    let film = fs::File::create(film(&place)).unwrap();
    film.write_all_at(&Seed(3).bytes(40 * BLOCK - 100), 8 * BLOCK as u64).unwrap();
    drop(film);
    age(&self::film(&place), 1_600_000_000);
    write(&place.tree().join("other"), &Seed(4).bytes(60 * BLOCK));
    let options =
        SealOptions { mode: Some(Mode::Beside), block_len: Some(BLOCK as u64), ..place.options("rs:4+2") };
    seal(&options, &mut Silent).unwrap();
    place
}

fn film(place: &Place) -> PathBuf {
    place.tree().join("film")
}

fn repair(place: &Place) -> PathBuf {
    place.out().join("tree.repair")
}

fn set(place: &Place) -> SetPaths {
    SetPaths { disks: at(&[place.tree()]), ..place.set() }
}

fn heal_in(world: &World<'_>, place: &Place) -> Result<HealReport, Fault> {
    world.heal(&HealOptions { set: set(place), ..Default::default() }, &mut Silent)
}

fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

/// Damages three blocks without changing the mtime of the file.
fn spoil_film(place: &Place) {
    for at in [9 * BLOCK + 17, 20 * BLOCK, 47 * BLOCK + 5] {
        // In two sectors, so that a torn write leaves a mix of the old and the new block.
        flip(&film(place), at as u64);
        flip(&film(place), at as u64 + 2000);
    }
    make_shards_younger(place);
}

#[test]
fn bad_blocks_are_written_where_they_are() {
    let place = sealed();
    let link = place.dir.path().join("link");
    fs::hard_link(film(&place), &link).unwrap();
    let whole = fs::read(film(&place)).unwrap();
    let before = fs::metadata(film(&place)).unwrap();
    spoil_film(&place);
    let disk = FaultDisk::new(place.dir.path(), Faults::default());
    let report = heal_in(&World { disk: &disk, threads: 1 }, &place).unwrap();
    assert_eq!((report.files_healed.len(), report.blocks_repaired), (1, 3));
    assert!(report.kept_aside.is_empty() && report.kept_blocks.is_empty());
    assert!(fs::read(&link).unwrap() == whole, "the other name has it, too");
    let after = fs::metadata(film(&place)).unwrap();
    assert_eq!((after.ino(), after.nlink(), after.blocks()), (before.ino(), 2, before.blocks()));
    assert_eq!((after.mtime(), after.mtime_nsec()), (before.mtime(), before.mtime_nsec()));
    // The three blocks are written to the file, and twice to the journal.
    let written = disk.bytes_written();
    assert!(written < 10 * BLOCK as u64, "{written} bytes for three blocks");
    assert!(!repair(&place).exists() && place.verify().clean);
}

#[test]
fn two_sealed_names_of_one_file_are_repaired_and_stay_one_file() {
    let place = sealed();
    let second = place.tree().join("second");
    fs::hard_link(film(&place), &second).unwrap();
    seal(&place.options("rs:4+2"), &mut Silent).unwrap();
    let whole = fs::read(film(&place)).unwrap();
    spoil_film(&place);
    let report = heal_in(&System::new().world(), &place).unwrap();
    assert!(report.not_healed.is_empty(), "{:?}", report.not_healed);
    assert_eq!(report.files_healed.len(), 1, "one file, whatever its names");
    assert!(fs::read(&second).unwrap() == whole);
    assert_eq!(fs::metadata(&second).unwrap().ino(), fs::metadata(film(&place)).unwrap().ino());
    assert!(place.verify().clean);
}

#[test]
fn a_touched_file_keeps_its_replaced_blocks_beside_it() {
    let place = sealed();
    let (whole, inode) = (fs::read(film(&place)).unwrap(), fs::metadata(film(&place)).unwrap().ino());
    flip(&film(&place), 20 * BLOCK as u64);
    let touched = fs::read(film(&place)).unwrap();
    let report = heal_in(&System::new().world(), &place).unwrap();
    let aside = place.tree().join("film.replaced-blocks");
    assert_eq!(report.kept_blocks, [aside.display().to_string()]);
    assert!(report.kept_aside.is_empty(), "the file as it was is kept nowhere");
    assert!(fs::read(film(&place)).unwrap() == whole);
    assert_eq!(fs::metadata(film(&place)).unwrap().ino(), inode);
    let kept = fs::read(&aside).unwrap();
    let block = 20 * BLOCK..21 * BLOCK;
    assert!(kept[block.clone()] == touched[block.clone()] && kept[..block.start].iter().all(|&b| b == 0));
    assert_eq!(modified(&aside), modified(&film(&place)));
    assert!(fs::metadata(&aside).unwrap().blocks() * 512 < 4 * BLOCK as u64, "the rest is a hole");
    // If half of its blocks differ, it counts as another file, which is kept as a whole.
    fs::remove_file(&aside).unwrap();
    (0..20).for_each(|i| flip(&film(&place), (10 + i) * BLOCK as u64));
    let other = fs::read(film(&place)).unwrap();
    heal_in(&System::new().world(), &place).unwrap();
    let aside = place.tree().join("film.before-heal");
    assert!(fs::read(&aside).unwrap() == other && fs::read(film(&place)).unwrap() == whole);
    assert_ne!(fs::metadata(film(&place)).unwrap().ino(), inode);
}

/// Kills a heal after each number of operations, each time in a copy of the place.
fn killed(start: &Place, faults: Faults, mut judge: impl FnMut(&Place, u64)) -> u64 {
    for after in 0.. {
        for seed in 0..4 {
            let place = Place::new();
            copy(start.dir.path(), place.dir.path());
            make_shards_younger(&place);
            let disk = FaultDisk::new(place.dir.path(), Faults { crash_after: Some(after), ..faults });
            let _ = heal_in(&World { disk: &disk, threads: 1 }, &place);
            let is_over = disk.operations() < after;
            disk.lose_power(seed * 1000 + after);
            judge(&place, after);
            if is_over && seed == 3 {
                return after;
            }
        }
    }
    0
}

#[test]
fn a_repair_that_is_killed_leaves_the_old_or_the_new_blocks_and_is_finished() {
    let start = sealed();
    let whole = fs::read(film(&start)).unwrap();
    let time = modified(&film(&start));
    spoil_film(&start);
    let old = fs::read(film(&start)).unwrap();
    let is_known = |place: &Place| {
        let now = fs::read(film(place)).unwrap();
        now.len() == whole.len()
            && now
                .chunks(BLOCK)
                .zip(old.chunks(BLOCK))
                .zip(whole.chunks(BLOCK))
                .all(|((now, old), new)| now == old || now == new)
    };
    let (mut pending, mut torn) = (0, 0);
    let operations = killed(&start, Faults::default(), |place, after| {
        let verified = verify(&VerifyOptions { set: set(place), ..Default::default() }, &mut Silent);
        if repair(place).exists() {
            pending += 1;
            torn += u64::from(!is_known(place));
            assert!(
                matches!(verified, Err(Fault { kind: FaultKind::Pending, .. })),
                "after {after}: {verified:?}"
            );
            // The journal has the new content, so no parity is needed.
            (0..2).for_each(|column| fs::remove_file(place.shard(4 + column)).unwrap());
            fs::copy(start.shard(4), place.shard(4)).unwrap();
            spoil(&place.shard(4), pantile_format::BODY_OFFSET, 27 * BLOCK as u64);
            make_shards_younger(place);
        } else {
            assert!(is_known(place), "after {after}");
            assert_eq!(modified(&film(place)), time, "after {after}");
        }
        heal_in(&System::new().world(), place).unwrap_or_else(|error| panic!("after {after}: {error}"));
        assert!(fs::read(film(place)).unwrap() == whole, "after {after}");
        assert_eq!(modified(&film(place)), time, "after {after}");
        assert!(!repair(place).exists());
    });
    assert!(operations > 8 && pending > 10 && torn > 0, "{operations} {pending} {torn}");
    // The test would detect a missing sync of the journal.
    let unsynced = Faults { skip_sync_of: Some(".repair.tmp"), ..Faults::default() };
    let mut failures = 0;
    killed(&start, unsynced, |place, _| {
        let healed = heal_in(&System::new().world(), place);
        failures += u64::from(healed.is_err() || modified(&film(place)) != time);
    });
    assert!(failures > 0, "not noticed: the journal gets its name before it is durable");
}

/// Returns a place in which a repair was cut off, with its journal, and the right content of the
/// file.
fn cut_off() -> (Place, Vec<u8>) {
    let start = sealed();
    let whole = fs::read(film(&start)).unwrap();
    spoil_film(&start);
    let mut found = None;
    killed(&start, Faults::default(), |place, after| {
        let is_touched = modified(&film(place)) != modified(&film(&start));
        if found.is_none() && repair(place).exists() && is_touched {
            found = Some(after);
            let kept = start.dir.path().join("kept");
            fs::create_dir_all(kept.join("tree")).unwrap();
            copy(&place.tree(), &kept.join("tree"));
            fs::copy(repair(place), kept.join("repair")).unwrap();
        }
    });
    let kept = start.dir.path().join("kept");
    fs::copy(kept.join("repair"), repair(&start)).unwrap();
    let cut = fs::read(kept.join("tree/film")).unwrap();
    fs::write(film(&start), cut).unwrap();
    (start, whole)
}

#[test]
fn edits_after_a_cut_off_repair_are_kept() {
    // Another program writes to another block, or to a block that the journal has.
    for at in [30 * BLOCK, 20 * BLOCK + 7] {
        let (place, whole) = cut_off();
        let file = fs::File::options().write(true).open(film(&place)).unwrap();
        file.write_all_at(b"words of a program", at as u64).unwrap();
        drop(file);
        let time = modified(&film(&place));
        heal_in(&System::new().world(), &place).unwrap();
        let now = fs::read(film(&place)).unwrap();
        assert_eq!(&now[at..at + 18], b"words of a program");
        assert_ne!(modified(&film(&place)), modified(&place.tree().join("other")));
        assert!(modified(&film(&place)) >= time && !repair(&place).exists());
        assert!(now.iter().zip(&whole).filter(|(a, b)| a != b).count() < 30);
    }
}

#[test]
fn a_seal_finishes_a_cut_off_repair_before_it_looks() {
    let (place, whole) = cut_off();
    let refused = seal(&SealOptions { records: None, ..place.again() }, &mut Silent);
    assert!(matches!(refused, Err(Fault { kind: FaultKind::Pending, .. })), "{refused:?}");
    let report = place.reseal();
    assert_eq!((report.changed, report.unchanged), (0, 2));
    assert!(fs::read(film(&place)).unwrap() == whole);
    assert!(!repair(&place).exists() && place.verify().clean);
}

#[test]
fn a_journal_of_a_repair_writes_nothing_but_what_was_sealed() {
    let place = sealed();
    let header = ShardHeader::decode(&fs::read(place.shard(4)).unwrap()).unwrap();
    let forged = |set: SetId, entry: u64, offset: u64, new: &[u8]| {
        let header = JournalHeader { set, generation: Generation(1) };
        let head = RecordHead { kind: RecordKind::Original, targets: 1, payload_len: new.len() as u64 };
        let end = RecordHead { kind: RecordKind::End, targets: 0, payload_len: 8 };
        let spot = Spot { entry, offset }.encode();
        let mut bytes = [&header.encode()[..], &head.encode(), &spot, new, &end.encode()].concat();
        let crc = Crc64::of(&bytes);
        bytes.extend_from_slice(&crc.0.to_le_bytes());
        bytes
    };
    let whole = fs::read(film(&place)).unwrap();
    let (first, last) = (&whole[10 * BLOCK..11 * BLOCK], &whole[47 * BLOCK..]);
    let is_taken = |bytes: Vec<u8>| {
        fs::write(repair(&place), bytes).unwrap();
        let opened = heal_in(&System::new().world(), &place);
        let is_refused = matches!(opened, Err(Fault { kind: FaultKind::BadJournal, .. }));
        assert!(is_refused || opened.is_ok(), "{opened:?}");
        assert!(fs::read(film(&place)).unwrap() == whole);
        let _ = fs::remove_file(repair(&place));
        !is_refused
    };
    let at = 10 * BLOCK as u64;
    assert!(is_taken(forged(header.set, 1, at, first)));
    assert!(is_taken(forged(header.set, 1, 47 * BLOCK as u64, last)));
    for bytes in [
        forged(header.set, 1, at, &Seed(9).bytes(BLOCK)),
        forged(header.set, 1, at + 1, first),
        forged(header.set, 1, 1 << 40, first),
        forged(header.set, 0, at, first),
        forged(header.set, 77, at, first),
        forged(header.set, 1, at, &first[..100]),
        forged(SetId([7; 16]), 1, at, first),
        b"dear diary, this is longer than the header of any journal".to_vec(),
    ] {
        assert!(!is_taken(bytes));
    }
}

#[test]
fn a_file_made_again_from_parity_has_holes_where_it_is_zero() {
    let place = sealed();
    let (whole, blocks) = (fs::read(film(&place)).unwrap(), fs::metadata(film(&place)).unwrap().blocks());
    fs::remove_file(film(&place)).unwrap();
    heal_in(&System::new().world(), &place).unwrap();
    assert!(fs::read(film(&place)).unwrap() == whole);
    assert_eq!(fs::metadata(film(&place)).unwrap().blocks(), blocks);
    // A file of zeros, whose last block is not full.
    let hole = place.tree().join("hole");
    fs::File::create(&hole).unwrap().set_len(100 * BLOCK as u64 + 1).unwrap();
    age(&hole, 1_600_000_000);
    place.reseal();
    fs::remove_file(&hole).unwrap();
    heal_in(&System::new().world(), &place).unwrap();
    let healed = fs::metadata(&hole).unwrap();
    assert_eq!((healed.len(), healed.blocks()), (100 * BLOCK as u64 + 1, 0));
}

#[test]
fn a_truncated_shard_under_the_name_of_another_is_rebuilt() {
    let place = Place::new();
    fs::create_dir(place.tree()).unwrap();
    write(&place.tree().join("f"), &Seed(1).bytes(100_000));
    seal(&place.options("raid6:2"), &mut Silent).unwrap();
    let sealed = shards(&place.out());
    fs::File::options().write(true).open(place.shard(2)).unwrap().set_len(20_000).unwrap();
    let aside = place.dir.path().join("aside");
    fs::rename(place.shard(2), &aside).unwrap();
    fs::rename(place.shard(3), place.shard(2)).unwrap();
    fs::rename(&aside, place.shard(3)).unwrap();
    assert!(place.verify().recoverable);
    place.heal().unwrap();
    assert!(place.verify().clean);
    assert!(shards(&place.out()) == sealed);
}
