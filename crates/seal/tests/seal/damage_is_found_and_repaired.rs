//! Claims: all damage of shards and originals is found and named, repaired if the repair is
//! certain, and left alone if a user made the change.

use crate::common::fault::{FaultDisk, Faults};
use crate::common::*;
use pantile_seal::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const BODY: u64 = pantile_format::BODY_OFFSET;

/// The number of adjacent wrong bytes that suffices for a repair without checksums.
const FLIPPED: u64 = 8;

fn sealed(code: &str, mode: Mode, checksums: bool) -> Place {
    let place = Place::new();
    awkward_tree(&place.tree(), 9);
    let mut options = place.options(code);
    options.mode = Some(mode);
    options.checksums = Some(checksums);
    seal(&options, &mut Silent).unwrap();
    place
}

/// Returns the worst reason why not all paths are restored.
fn why_not(place: &Place) -> Fault {
    match place.unseal() {
        Err(Fault { kind: FaultKind::NotRestored { why, report }, .. }) => {
            assert!(report.not_restored_count > 0);
            *why
        }
        other => panic!("{other:?}"),
    }
}

fn verify_without_checksums(place: &Place) -> VerifyReport {
    verify(&VerifyOptions { set: place.set(), ignore_checksums: true, ..Default::default() }, &mut Silent)
        .unwrap()
}

fn heal_without_checksums(place: &Place) -> Result<HealReport, Fault> {
    heal(&HealOptions { set: place.set(), ignore_checksums: true, ..Default::default() }, &mut Silent)
}

#[test]
fn a_flipped_byte_anywhere_in_a_shard_is_found_and_healed() {
    for code in ["rs:3+2", "dcode:5"] {
        let place = sealed(code, Mode::Full, true);
        let whole = shards(&place.out());
        let mut seed = Seed(3);
        for column in 0..code_of(code).columns() {
            let len = fs::metadata(place.shard(column)).unwrap().len();
            let places = [0, 9, 4095, 4096, 5000, BODY - 1, BODY, BODY + 4096, len - 1, len - 9];
            let header =
                pantile_format::ShardHeader::decode(&fs::read(place.shard(column)).unwrap()).unwrap();
            let one = header.manifest_len + header.checks_len + header.pieces_len;
            // The gap between the copies of the metadata has no content.
            let is_gap = |at: &u64| (header.meta_offset + one..header.meta_copies()[1]).contains(at);
            let random: Vec<u64> = (0..12).map(|_| seed.below(len)).filter(|at| !is_gap(at)).collect();
            for at in places.into_iter().chain(random) {
                flip(&place.shard(column), at);
                let found = place.verify();
                assert!(!found.clean && found.recoverable, "{code}: column {column}, byte {at}: {found:?}");
                let bad: Vec<&ShardReport> = found
                    .shards
                    .iter()
                    .filter(|s| s.status != ShardStatus::Good || s.wrong_blocks > 0)
                    .collect();
                assert_eq!(bad.len(), 1, "{code}: column {column}, byte {at}");
                assert_eq!(bad[0].column, column as u64);
                place.assert_restores();
                place.heal().unwrap();
                assert!(shards(&place.out()) == whole, "{code}: column {column}, byte {at}");
            }
        }
    }
}

#[test]
fn without_checksums_a_few_flipped_bytes_are_located_and_healed_by_the_equations() {
    for (code, checksums) in [("rs:3+2", false), ("rs:3+2", true), ("dcode:5", false), ("rs:4+4", false)] {
        let place = sealed(code, Mode::Full, checksums);
        let whole = shards(&place.out());
        let mut seed = Seed(4);
        for _ in 0..12 {
            let column = seed.below(code_of(code).columns() as u64) as usize;
            let blocks = open_set(&place.set()).unwrap().stripes * code_of(code).rows(column) as u64;
            let at = BODY + seed.below(blocks) * 4096 + seed.below(4096 - FLIPPED);
            spoil(&place.shard(column), at, FLIPPED);
            let found = verify_without_checksums(&place);
            assert!(!found.clean && found.recoverable && !found.by_checksums);
            assert_eq!(found.finding_count, 1);
            let StripeVerdict::Located { columns, certain: true, evidence_bits: 40.. } =
                &found.findings[0].verdict
            else {
                panic!("{code}: {:?}", found.findings)
            };
            assert_eq!(*columns, [column as u64], "{code}");
            assert_eq!(found.shards[column].wrong_blocks, 1);
            let first = found.shards[column].first_wrong.unwrap();
            assert!((first.offset..first.offset + 4096).contains(&at));
            heal_without_checksums(&place).unwrap();
            assert!(shards(&place.out()) == whole, "{code}");
        }
    }
}

#[test]
fn without_checksums_a_block_that_rotted_is_not_added_to_parity_when_its_file_changes() {
    for code in ["lch:3+5", "rs:3+2", "rs:4+4", "dcode:5"] {
        for column in 0..code_of(code).columns() {
            let place = Place::new();
            fs::create_dir(place.tree()).unwrap();
            write(&place.tree().join("f"), &[b'A'; 4096]);
            write(&place.tree().join("g"), &Seed(7).bytes(8192));
            let mut options = place.options(code);
            options.checksums = Some(false);
            seal(&options, &mut Silent).unwrap();
            spoil(&place.shard(column), BODY + 100, FLIPPED);
            let rotten = shards(&place.out());
            write(&place.tree().join("f"), &[b'B'; 4096]);
            age(&place.tree().join("f"), 1_700_000_000);
            let refused = seal(&place.again(), &mut Silent);
            assert!(
                matches!(&refused, Err(Fault { kind: FaultKind::NeedsHeal, what, .. }) if what.contains("1 of its blocks")),
                "{code}: {column}: {refused:?}"
            );
            assert!(shards(&place.out()) == rotten, "{code}: {column}: nothing is written");
            assert_eq!(place.heal().unwrap().blocks_repaired, 1);
            assert_eq!(place.reseal().changed, 1);
            assert!(place.verify().clean, "{code}: {column}");
            place.assert_restores();
        }
    }
}

#[test]
fn unlocated_errors_are_reported_and_left_alone() {
    // With one parity, an error is detected but not located.
    let place = sealed("raid5:4", Mode::Full, false);
    flip(&place.shard(2), BODY + 100);
    let before = shards(&place.out());
    let found = place.verify();
    assert!(!found.clean && !found.recoverable);
    assert_eq!(found.finding_count, 1);
    assert!(!matches!(found.findings[0].verdict, StripeVerdict::Located { certain: true, .. }));
    let healed = place.heal().unwrap();
    assert_eq!((healed.blocks_repaired, healed.blocks_left), (0, 1));
    assert!(shards(&place.out()) == before);
    // A lost shard is not rebuilt from stripes that may be wrong.
    fs::remove_file(place.shard(0)).unwrap();
    flip(&place.shard(2), BODY + 100);
    place.heal().unwrap();
    place.assert_restores();
}

#[test]
fn missing_truncated_foreign_and_stale_shards_are_named_and_made_anew() {
    let place = sealed("rs:3+2", Mode::Full, true);
    let other = sealed("rs:3+2", Mode::Full, true);
    let stale = fs::read(place.shard(1)).unwrap();
    write(&place.tree().join("one more"), b"more");
    place.reseal();
    let status = |place: &Place, column: usize| place.verify().shards[column].status.clone();

    fs::remove_file(place.shard(0)).unwrap();
    assert_eq!(status(&place, 0), ShardStatus::Missing);
    fs::write(place.shard(1), &stale).unwrap();
    assert_eq!(status(&place, 1), ShardStatus::Stale { generation: 1 });
    place.assert_restores();
    place.heal().unwrap();
    assert!(place.verify().clean);
    place.assert_restores();

    // A rebuilt shard has its manifest right behind its blocks.
    fs::remove_file(place.shard(2)).unwrap();
    fs::remove_file(place.shard(3)).unwrap();
    place.heal().unwrap();
    let whole = shards(&place.out());
    let len = whole[std::path::Path::new("tree.02.shard")].len() as u64;
    for keep in [0, 1, 4096, 8191, 8192, 20_000, len - 1] {
        fs::File::options().write(true).open(place.shard(2)).unwrap().set_len(keep).unwrap();
        let ShardStatus::Truncated { have, need } = status(&place, 2) else {
            panic!("{keep}: {:?}", status(&place, 2))
        };
        assert_eq!(have, keep);
        assert!(need > keep);
        place.heal().unwrap();
        assert!(shards(&place.out()) == whole, "{keep}");
    }

    let foreign = fs::read(other.shard(3)).unwrap();
    fs::write(place.shard(3), &foreign).unwrap();
    assert!(matches!(status(&place, 3), ShardStatus::OtherSet { .. }));
    let moved = place.heal().unwrap().moved_aside;
    // The shard of the other set was moved aside, and the report names it.
    assert_eq!((moved.len(), &moved[0].from), (1, &place.shard(3).display().to_string()));
    assert!(fs::read(&moved[0].to).unwrap() == foreign);
    let mut after = shards(&place.out());
    let aside: Vec<_> =
        after.keys().filter(|name| name.to_string_lossy().contains(".of-")).cloned().collect();
    assert_eq!(aside.len(), 1);
    assert_eq!(after.remove(&aside[0]), Some(foreign));
    assert!(after == whole);

    fs::write(place.shard(4), b"something else entirely, and longer than nothing").unwrap();
    assert!(!status(&place, 4).is_usable());
    place.heal().unwrap();
}

#[test]
fn shards_of_two_sets_are_refused_by_name_and_one_can_be_chosen() {
    let place = sealed("rs:3+2", Mode::Full, true);
    let mut options = place.options("rs:2+1");
    options.name = Some("second".into());
    seal(&options, &mut Silent).unwrap();
    let error = verify(&VerifyOptions { set: place.set(), ..Default::default() }, &mut Silent).unwrap_err();
    assert!(error.to_string().contains("'second'") && error.to_string().contains("'tree'"), "{error}");
    let set = SetPaths { name: Some("second".into()), ..place.set() };
    assert!(verify(&VerifyOptions { set, ..Default::default() }, &mut Silent).unwrap().clean);
    // The shards are named individually, and belong to two sets.
    let set =
        SetPaths { paths: vec![place.shard(0), place.out().join("second.00.shard")], ..SetPaths::default() };
    assert!(open_set(&set).unwrap_err().what.contains("several sets"));
}

#[test]
fn shards_may_be_renamed_and_lie_in_several_directories() {
    let place = sealed("rs:3+2", Mode::Full, true);
    let (a, b) = (place.dir.path().join("disk a"), place.dir.path().join("disk b"));
    fs::create_dir(&a).unwrap();
    fs::create_dir(&b).unwrap();
    fs::rename(place.shard(0), a.join("x")).unwrap();
    fs::rename(place.shard(3), b.join("whatever.shard")).unwrap();
    fs::rename(place.shard(4), b.join("tree.00.shard")).unwrap();
    let set = SetPaths { paths: vec![a.join("x"), b], ..SetPaths::default() };
    unseal(
        &UnsealOptions { set, target: place.target(), overwrite: false, ..Default::default() },
        &mut Silent,
    )
    .unwrap();
    assert_same_trees(&place.tree(), &place.target());
}

#[test]
fn more_losses_than_the_code_bears_are_an_error_that_says_what_would_help() {
    let place = sealed("rs:3+2", Mode::Full, true);
    for column in [0, 1, 4] {
        fs::remove_file(place.shard(column)).unwrap();
    }
    let found = place.verify();
    assert!(!found.recoverable);
    let losses = found.losses.unwrap();
    assert_eq!((losses.columns.clone(), losses.bring_back, losses.any), (vec![0, 1, 4], 1, true));
    let error = place.heal().unwrap_err().to_string();
    assert!(error.contains("bring back any 1 of columns 0, 1, 4"), "{error}");
    assert!(place.unseal().is_err());

    // In this code the columns are not equal, so not any column suffices.
    let place = sealed("lrc:4,2,1", Mode::Full, true);
    let columns = code_of("lrc:4,2,1").columns();
    for column in 0..columns - 3 {
        fs::remove_file(place.shard(column)).unwrap();
    }
    let Err(Fault { kind: FaultKind::TooMuchLost { losses, .. }, what, .. }) = place.heal() else {
        panic!("nothing was lost")
    };
    assert!(losses.bring_back >= 1 && !losses.enough.is_empty());
    assert!(what.contains("bring back"), "{what}");
}

#[test]
fn repairable_stripes_are_repaired_beside_lost_ones() {
    let place = sealed("rs:3+2", Mode::Full, true);
    let whole = shards(&place.out());
    // Stripe 0 loses three blocks, stripe 3 loses one.
    for column in 0..3 {
        flip(&place.shard(column), BODY + 5);
    }
    flip(&place.shard(4), BODY + 3 * 4096);
    let Err(Fault { kind: FaultKind::TooMuchLost { losses, healed }, .. }) = place.heal() else {
        panic!("not noticed")
    };
    assert_eq!((losses.stripes, losses.first_stripe, losses.columns), (1, 0, vec![0, 1, 2]));
    assert_eq!(healed.unwrap().blocks_repaired, 1);
    assert!(fs::read(place.shard(4)).unwrap() == whole[std::path::Path::new("tree.04.shard")]);
    // Files that have no block in stripe 0 are restored.
    assert!(matches!(why_not(&place), Fault { kind: FaultKind::TooMuchLost { .. }, .. }));
    assert!(
        fs::read(place.target().join("two blocks")).is_ok() || fs::read(place.target().join("large")).is_ok()
    );
    // Lost blocks still count as lost after another shard was rebuilt.
    fs::remove_file(place.shard(3)).unwrap();
    let Err(Fault { kind: FaultKind::TooMuchLost { .. }, .. }) = place.heal() else { panic!("blessed") };
    assert!(!place.verify().clean);
    for column in 0..3 {
        flip(&place.shard(column), BODY + 5);
    }
    place.heal().unwrap();
    assert!(shards(&place.out()) == whole);
}

#[test]
fn beside_the_files_only_parity_is_stored_and_lost_files_come_back() {
    for code in ["rs:3+2", "dcode:5", "raid6:4", "evenodd:5"] {
        for checksums in [true, false] {
            let place = sealed(code, Mode::Beside, checksums);
            let before = picture(&place.tree());
            let found = place.verify();
            assert!(found.clean, "{code}: {found:?}");
            let parity: usize = code_of(code).parity().len();
            let stored: u64 = shards(&place.out()).values().map(|bytes| bytes.len() as u64).sum();
            let info = open_set(&place.set()).unwrap();
            assert!(stored < info.stripes * 4096 * parity as u64 + 100_000 * info.shards.len() as u64);

            fs::remove_file(place.tree().join("block+1")).unwrap();
            let found = place.verify();
            let report = found.files.iter().find(|file| file.path == "block+1").unwrap();
            assert_eq!((report.status, report.lost_blocks), (FileStatus::Missing, 2), "{code}");
            let healed = place.heal().unwrap();
            assert_eq!(healed.files_healed.len(), 1, "{code}");
            let mut after = picture(&place.tree());
            // The mtime of the directory changed, since heal wrote to it.
            after.insert("".into(), before[std::path::Path::new("")].clone());
            assert_eq!(after, before, "{code}");
        }
    }
}

#[test]
fn rot_in_an_original_is_healed_with_mode_and_time_kept() {
    for checksums in [true, false] {
        let place = sealed("rs:4+4", Mode::Beside, checksums);
        let path = place.tree().join("large");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let before = picture(&place.tree());
        spoil(&path, 123_456, FLIPPED);
        make_shards_younger(&place);
        let found = place.verify();
        let report = found.files.iter().find(|file| file.path == "large").unwrap();
        assert_eq!((report.status, report.lost_blocks), (FileStatus::Rotten, 1));
        assert!(!found.clean && found.recoverable);
        let healed = place.heal().unwrap();
        assert_eq!((healed.files_healed.len(), healed.blocks_repaired), (1, 1));
        let mut after = picture(&place.tree());
        after.insert("".into(), before[std::path::Path::new("")].clone());
        assert_eq!(after, before);
    }
}

#[test]
fn a_file_changed_since_is_reported_and_never_repaired_back() {
    for checksums in [true, false] {
        let place = sealed("rs:3+2", Mode::Beside, checksums);
        let path = place.tree().join("two blocks");
        let mut bytes = fs::read(&path).unwrap();
        bytes[10] ^= 1;
        write(&path, &bytes);
        age(&path, 1_700_000_000);
        let found = place.verify();
        let report = found.files.iter().find(|file| file.path == "two blocks").unwrap();
        assert_eq!(report.status, FileStatus::Changed);
        assert!(found.recoverable && !found.clean);
        // Other files are healed, although this one is left alone.
        fs::remove_file(place.tree().join("one")).unwrap();
        let healed = place.heal().unwrap();
        assert_eq!(healed.left_changed, ["two blocks"]);
        assert_eq!(fs::read(&path).unwrap(), bytes);
        assert_eq!(fs::read(place.tree().join("one")).unwrap(), [7]);
        // The file is sealed again in its present state.
        let report = place.reseal();
        assert_eq!((report.changed, report.unchanged), (1, 9));
        assert!(place.verify().clean);
        fs::remove_file(&path).unwrap();
        place.heal().unwrap();
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    // The same in mode full, where new and missing files are named as well.
    let place = sealed("rs:3+2", Mode::Full, true);
    write(&place.tree().join("one more"), b"x");
    write(&place.tree().join("block"), b"changed");
    fs::remove_file(place.tree().join("empty")).unwrap();
    let files = place.verify().files;
    let status = |name: &str| files.iter().find(|file| file.path == name).unwrap().status;
    assert_eq!(
        (status("one more"), status("block"), status("empty")),
        (FileStatus::New, FileStatus::Changed, FileStatus::Missing)
    );
    place.heal().unwrap();
    assert_eq!(fs::read(place.tree().join("block")).unwrap(), b"changed");
}

/// Seals two files of this many blocks on two lanes, beside parity.
fn two_files(code: &str, blocks: usize) -> Place {
    let place = Place::new();
    fs::create_dir(place.tree()).unwrap();
    let mut seed = Seed(21);
    for name in ["a", "b"] {
        write(&place.tree().join(name), &seed.bytes(blocks * 4096));
    }
    let mut options = place.options(code);
    options.mode = Some(Mode::Beside);
    seal(&options, &mut Silent).unwrap();
    place
}

#[test]
fn new_parity_beside_the_files_never_blesses_a_rotten_block() {
    for (code, bearable) in [("rs:2+1", false), ("rs:2+2", true)] {
        let place = two_files(code, 6);
        let good = fs::read(place.tree().join("b")).unwrap();
        // Every block of one file changes, while a block of the other has rotted.
        rot(&place, &place.tree().join("b"), 3 * 4096 + 5);
        write(&place.tree().join("a"), &Seed(22).bytes(6 * 4096));
        age(&place.tree().join("a"), 1_700_000_000);
        let before = shards(&place.out());
        let sealed = seal(&SealOptions::new(vec![place.tree()], place.out()), &mut Silent);
        if bearable {
            // The right content of the rotten block follows from the old parity, and the new parity
            // is computed from that.
            sealed.unwrap();
            assert_eq!(place.verify().files.len(), 1);
            place.heal().unwrap();
            assert!(fs::read(place.tree().join("b")).unwrap() == good);
            assert!(place.verify().clean);
        } else {
            let Err(Fault { kind: FaultKind::TooMuchLost { losses, .. }, .. }) = sealed else {
                panic!("blessed")
            };
            assert_eq!((losses.first_stripe, losses.files), (3, vec!["b".to_string()]));
            assert!(shards(&place.out()) == before);
        }
    }
}

#[test]
fn a_delta_is_never_taken_from_a_damaged_block() {
    let place = Place::new();
    fs::create_dir(place.tree()).unwrap();
    let mut seed = Seed(31);
    for name in ["a", "b", "c", "d", "e", "f"] {
        write(&place.tree().join(name), &seed.bytes(8 * 4096));
    }
    seal(&place.options("rs:6+2"), &mut Silent).unwrap();
    // Damaged are the old content of the block that changes, a parity block that depends on it, and
    // a block that the seal does not need.
    for (column, stripe) in [(0, 1), (6, 2), (3, 4)] {
        flip(&place.shard(column), BODY + stripe * 4096 + 9);
    }
    let mut bytes = fs::read(place.tree().join("a")).unwrap();
    for stripe in [1, 2, 4] {
        bytes[stripe * 4096] ^= 1;
    }
    write(&place.tree().join("a"), &bytes);
    age(&place.tree().join("a"), 1_700_000_000);
    let report = place.reseal();
    assert_eq!(report.stripes_touched, 3);
    // Damaged blocks that the seal needed were written again; the one that it did not read must
    // still be healed.
    let wrong: Vec<u64> = place.verify().shards.iter().map(|shard| shard.wrong_blocks).collect();
    assert_eq!(wrong, [0, 0, 0, 1, 0, 0, 0, 0]);
    place.heal().unwrap();
    for pair in [[1, 2], [0, 7], [6, 7]] {
        for column in pair {
            fs::remove_file(place.shard(column)).unwrap();
        }
        place.assert_restores();
        place.heal().unwrap();
    }
}

#[test]
fn sealing_again_reads_and_writes_only_what_changed() {
    for code in ["rs:4+2", "dcode:5"] {
        let place = Place::new();
        fs::create_dir(place.tree()).unwrap();
        let mut seed = Seed(11);
        for i in 0..40 {
            write(&place.tree().join(format!("f{i}")), &seed.bytes(100_000));
        }
        seal(&place.options(code), &mut Silent).unwrap();
        let run = |place: &Place| {
            let disk = FaultDisk::new(place.dir.path(), Faults::default());
            let world = World { disk: &disk, threads: 1 };
            // Only one block of many changes below, which would be refused as suspect without this
            // option.
            let options =
                SealOptions { accept_changes: true, ..SealOptions::new(vec![place.tree()], place.out()) };
            let report = world.seal(&options, &mut Silent).unwrap();
            (report, disk)
        };
        let (report, disk) = run(&place);
        assert_eq!((report.unchanged, report.changed, report.added, report.removed), (40, 0, 0, 0));
        assert_eq!((disk.bytes_written(), report.source_bytes_read, report.generation), (0, 0, 1));
        assert!((0..40).all(|i| disk.bytes_read(&format!("/f{i}")) == 0));

        // One byte of one file changes.
        let path = place.tree().join("f7");
        let mut bytes = fs::read(&path).unwrap();
        bytes[50_000] ^= 1;
        write(&path, &bytes);
        age(&path, 1_700_000_000);
        let (report, disk) = run(&place);
        assert_eq!((report.changed, report.stripes_touched, report.generation), (1, 1, 2), "{code}");
        assert!((0..40).filter(|i| *i != 7).all(|i| disk.bytes_read(&format!("/f{i}")) == 0));
        // Read: the file twice, once to find its changes. Written: a few blocks and the manifests.
        let manifests = 8 * 20_000;
        assert!(report.source_bytes_read <= 100_000 + 2 * 4096 + 4096);
        assert!(disk.bytes_written() < 16 * 4096 + 4 * manifests, "{code}: {}", disk.bytes_written());
        place.assert_restores();
        assert!(place.verify().clean);

        // A new file of the same size gets the blocks of a removed file.
        let stripes = report.stripes;
        fs::remove_file(place.tree().join("f3")).unwrap();
        run(&place);
        write(&place.tree().join("new"), &seed.bytes(100_000));
        let (report, _) = run(&place);
        assert_eq!(report.stripes, stripes);
        assert!(place.verify().clean);
        place.assert_restores();
        for column in [0, 2] {
            fs::remove_file(place.shard(column)).unwrap();
        }
        place.assert_restores();
    }
}

#[test]
fn a_long_life_of_changes_stays_sound() {
    for (code, mode, checksums) in [
        ("rs:3+2", Mode::Full, true),
        ("dcode:5", Mode::Full, false),
        ("evenodd:5", Mode::Full, true),
        ("rs:4+3", Mode::Beside, true),
        ("dcode:7", Mode::Beside, false),
    ] {
        let place = Place::new();
        awkward_tree(&place.tree(), 5);
        let mut options = place.options(code);
        (options.mode, options.checksums) = (Some(mode), Some(checksums));
        seal(&options, &mut Silent).unwrap();
        let mut seed = Seed(code.len() as u64);
        let mut time = 1_610_000_000;
        for round in 0..25 {
            for _ in 0..seed.below(4) {
                let path = place.tree().join(format!("file{}", seed.below(6)));
                time += 1;
                match seed.below(5) {
                    0 => {
                        let _ = fs::remove_file(&path);
                    }
                    1 if path.exists() => {
                        let mut bytes = fs::read(&path).unwrap();
                        if let Some(byte) = bytes.last_mut() {
                            *byte ^= 1;
                        }
                        write(&path, &bytes);
                        age(&path, time);
                    }
                    _ => {
                        let len = seed.below(60_000) as usize;
                        write(&path, &seed.bytes(len));
                        age(&path, time);
                    }
                }
            }
            place.reseal();
            let found = place.verify();
            assert!(found.clean, "{code} round {round}: {found:?}");
            place.assert_restores();
            if mode == Mode::Full && round % 5 == 0 {
                let columns = code_of(code).columns() as u64;
                let (a, b) = (seed.below(columns) as usize, seed.below(columns) as usize);
                let whole = shards(&place.out());
                let _ = fs::remove_file(place.shard(a));
                let _ = fs::remove_file(place.shard(b));
                place.assert_restores();
                place.heal().unwrap();
                assert!(place.verify().clean);
                let same = whole.keys().eq(shards(&place.out()).keys());
                assert!(same, "{code} round {round}");
            }
        }
    }
}

#[test]
fn unsealing_overwrites_nothing_unless_told() {
    let place = sealed("rs:3+2", Mode::Full, true);
    fs::create_dir(place.target()).unwrap();
    write(&place.target().join("one"), b"8");
    let options = |overwrite| UnsealOptions {
        set: place.set(),
        target: place.target(),
        overwrite,
        ..Default::default()
    };
    let error = unseal(&options(false), &mut Silent).unwrap_err();
    let FaultKind::NotRestored { why, report } = &error.kind else { panic!("{error}") };
    let path = why.path.as_ref().unwrap();
    assert!(path.ends_with("one") && why.hint.contains("--overwrite"), "{error}");
    assert_eq!((report.not_restored_count, report.files), (1, 9));
    assert_eq!(fs::read(place.target().join("one")).unwrap(), b"8");
    let report = unseal(&options(true), &mut Silent).unwrap();
    assert_eq!(
        (report.files, report.links, report.already_there),
        (1, 0, 12),
        "what is right is not rewritten"
    );
    assert_eq!(fs::read(place.target().join("one")).unwrap(), [7]);
    // Existing files with the right content are left alone.
    let report = unseal(&options(false), &mut Silent).unwrap();
    assert_eq!((report.files, report.dirs, report.links, report.already_there), (0, 0, 0, 13));
    // A link in place of a directory would lead elsewhere.
    fs::remove_dir_all(place.target().join("deep")).unwrap();
    std::os::unix::fs::symlink(place.dir.path(), place.target().join("deep")).unwrap();
    let error = unseal(&options(true), &mut Silent).unwrap_err();
    assert!(error.what.contains("is of another kind"), "{error}");
    assert!(error.to_string().contains("another kind"), "{error}");
}

#[test]
fn bad_input_gets_one_sentence() {
    let place = Place::new();
    awkward_tree(&place.tree(), 1);
    let fails = |options: &SealOptions| seal(options, &mut Silent).unwrap_err().to_string();
    let mut options = SealOptions::new(vec![place.tree()], place.out());
    assert!(fails(&options).contains("needs a code"));
    options.code = Some(code_of("rs:3+2"));
    options.block_len = Some(5000);
    assert!(fails(&options).contains("power of two from 4096 to 1048576"));
    options.block_len = None;
    options.name = Some("a/b".into());
    assert!(fails(&options).contains("cannot be the name"));
    options.name = None;
    options.sources.push(place.dir.path().join("nowhere"));
    assert!(fails(&options).contains("not there"));
    options.sources = vec![];
    assert!(fails(&options).contains("name a directory or files"));
    options.sources = vec![place.tree(), place.tree()];
    assert!(fails(&options).contains("are one place"));
    options.sources = vec![place.tree()];
    options.code = Some(code_of("dcode:9,raw"));
    assert!(fails(&options).contains("to be studied"));
    assert!(!place.out().exists());
    options.code = Some(code_of("rs:3+2"));
    seal(&options, &mut Silent).unwrap();
    options.code = Some(code_of("rs:4+2"));
    assert!(fails(&options).contains("rs:3+2, not rs:4+2"));
    options.code = None;
    options.mode = Some(Mode::Beside);
    assert!(fails(&options).contains("full, not beside"));
    options.mode = None;
    fs::remove_file(place.shard(1)).unwrap();
    assert!(fails(&options).contains("run 'pantile heal "));
    let lock = fs::File::create(place.out().join(".pantile.lock")).unwrap();
    lock.lock().unwrap();
    assert!(fails(&options).contains("another command works"));
    let empty = SetPaths::dir(place.tree());
    assert!(open_set(&empty).unwrap_err().to_string().contains("no shard"));
}

#[test]
fn other_paths_than_those_sealed_are_told_from_a_set_that_is_not_there() {
    let place = Place::new();
    let path = |name: &str| place.dir.path().join(name);
    for name in ["one", "two", "three"] {
        fs::create_dir(path(name)).unwrap();
        write(&path(name).join(name), name.as_bytes());
    }
    let options =
        |names: &[&str]| SealOptions::new(names.iter().map(|name| path(name)).collect(), place.out());
    let mut first = options(&["one", "two"]);
    first.code = Some(code_of("rs:3+2"));
    seal(&first, &mut Silent).unwrap();
    let before = shards(&place.out());
    let sealed = format!("{}, {}", path("one").display(), path("two").display());
    for names in [&["one"][..], &["one", "two", "three"], &["one", "three"]] {
        let error = seal(&options(names), &mut Silent).unwrap_err();
        assert!(error.what.contains("was sealed from"), "{error}");
        let text = error.to_string();
        assert!(text.contains(&sealed) && text.contains("exactly these paths"), "{text}");
        assert!(!text.contains("leave"), "{text}");
    }
    // The name of the set is that of the first path. In another order the set is not found, but the
    // error names it.
    for names in [&["two", "one"][..], &["three", "one", "two"]] {
        let text = seal(&options(names), &mut Silent).unwrap_err().to_string();
        assert!(text.contains(&format!("but 'one', sealed from {sealed}")), "{text}");
        assert!(text.contains("by --name") && text.contains("needs a code"), "{text}");
    }
    assert!(shards(&place.out()) == before);
    seal(&options(&["one", "two"]), &mut Silent).unwrap();
}

#[test]
fn a_source_that_is_not_mounted_is_not_forgotten() {
    let place = sealed("rs:3+2", Mode::Full, true);
    let before = shards(&place.out());
    fs::rename(place.tree(), place.dir.path().join("elsewhere")).unwrap();
    fs::create_dir(place.tree()).unwrap();
    let error = seal(&SealOptions::new(vec![place.tree()], place.out()), &mut Silent).unwrap_err();
    assert!(error.to_string().contains("mount"), "{error}");
    assert!(shards(&place.out()) == before);
}

#[test]
fn a_shard_that_was_renamed_is_updated_with_the_others() {
    let place = sealed("rs:3+2", Mode::Full, true);
    fs::rename(place.shard(1), place.out().join("odd.shard")).unwrap();
    write(&place.tree().join("one more"), b"more");
    place.reseal();
    assert!(place.verify().clean);
    for column in [0, 2] {
        fs::remove_file(place.shard(column)).unwrap();
    }
    place.assert_restores();
}

#[test]
fn parity_without_its_originals_says_so() {
    let place = sealed("rs:3+2", Mode::Beside, true);
    fs::remove_dir_all(place.tree()).unwrap();
    assert!(matches!(why_not(&place), Fault { kind: FaultKind::Lost, .. }));
    assert!(matches!(place.heal(), Err(Fault { kind: FaultKind::TooMuchLost { .. }, .. })));
}

#[test]
fn several_sources_are_kept_apart_and_the_shards_may_lie_among_them() {
    let place = Place::new();
    let (a, b) = (place.dir.path().join("a"), place.dir.path().join("b"));
    awkward_tree(&a, 1);
    fs::create_dir(&b).unwrap();
    write(&b.join("x"), b"in b");
    write(&place.dir.path().join("single"), b"a file");
    let mut options = SealOptions::new(vec![a.clone(), b, place.dir.path().join("single")], a.clone());
    options.code = Some(code_of("rs:2+2"));
    options.name = Some("all".into());
    let report = seal(&options, &mut Silent).unwrap();
    assert_eq!(report.files, 12);
    assert_eq!(seal(&options, &mut Silent).unwrap().changed, 0);
    let set = SetPaths::dir(&a);
    unseal(
        &UnsealOptions { set, target: place.target(), overwrite: false, ..Default::default() },
        &mut Silent,
    )
    .unwrap();
    assert_eq!(fs::read(place.target().join("b/x")).unwrap(), b"in b");
    assert_eq!(fs::read(place.target().join("single")).unwrap(), b"a file");
    assert_eq!(picture(&place.target().join("a")).len(), picture(&a).len() - 4);
}

#[test]
fn three_thousand_small_files_are_sealed_healed_and_restored() {
    let place = Place::new();
    let mut seed = Seed(8);
    for i in 0..3000u64 {
        let dir = place.tree().join(format!("{}/{}", i % 7, i % 11));
        fs::create_dir_all(&dir).unwrap();
        let len = seed.below(6000) as usize;
        write(&dir.join(format!("{i}")), &seed.bytes(len));
    }
    seal(&place.options("rs:10+4"), &mut Silent).unwrap();
    let whole = shards(&place.out());
    for column in [0, 5, 9, 13] {
        fs::remove_file(place.shard(column)).unwrap();
    }
    place.assert_restores();
    place.heal().unwrap();
    assert!(shards(&place.out()) == whole);
}

#[test]
fn a_cancelled_seal_leaves_nothing_behind() {
    struct Impatient(u32);
    impl Progress for Impatient {
        fn phase(&mut self, _: &'static str, _: u64) {}
        fn advance(&mut self, _: u64) {
            self.0 = self.0.saturating_sub(1);
        }
        fn cancelled(&self) -> bool {
            self.0 == 0
        }
    }
    let place = Place::new();
    awkward_tree(&place.tree(), 1);
    for patience in 0..2 {
        let done = seal(&place.options("rs:3+2"), &mut Impatient(patience));
        assert!(matches!(done, Err(Fault { kind: FaultKind::Cancelled, .. })));
        assert!(!place.out().exists());
    }
}

#[test]
fn reports_are_json_and_back() {
    let place = sealed("rs:3+2", Mode::Full, true);
    flip(&place.shard(2), BODY + 4);
    let report = place.verify();
    let text = serde_json::to_string(&report).unwrap();
    assert!(text.contains("\"wrong_blocks\":1"), "{text}");
    assert_eq!(serde_json::from_str::<VerifyReport>(&text).unwrap(), report);
}

/// A documented limit: in mode beside the old content of a changed file no longer exists, so it
/// cannot be checked.
#[test]
fn without_checksums_beside_the_files_rot_shows_as_long_as_an_equation_is_left() {
    for (changed, shows) in [(&["a"][..], true), (&["a", "b"], false)] {
        let place = Place::new();
        fs::create_dir(place.tree()).unwrap();
        for (name, seed) in [("a", 1), ("b", 2), ("c", 3)] {
            write(&place.tree().join(name), &Seed(seed).bytes(4096));
        }
        let mode = Some(Mode::Beside);
        let options = SealOptions { mode, checksums: Some(false), ..place.options("rs:3+2") };
        seal(&options, &mut Silent).unwrap();
        flip(&place.tree().join("c"), 77);
        for name in changed {
            write(&place.tree().join(name), &Seed(9).bytes(4096));
            age(&place.tree().join(name), 1_700_000_000);
        }
        let sealed = seal(&place.again(), &mut Silent);
        match shows {
            true => assert!(matches!(sealed, Err(Fault { kind: FaultKind::NeedsHeal, .. })), "{sealed:?}"),
            false => assert!(sealed.is_ok() && place.verify().clean, "{sealed:?}"),
        }
    }
}

/// Rotates the names of the first shards, and makes the headers of some of them unreadable.
fn exchange_names_and_lose_headers(columns: usize, lost: &[usize]) -> Place {
    let place = sealed("rs:3+2", Mode::Full, true);
    let parked = place.out().join("parked");
    fs::rename(place.shard(0), &parked).unwrap();
    (1..columns).for_each(|column| fs::rename(place.shard(column), place.shard(column - 1)).unwrap());
    fs::rename(&parked, place.shard(columns - 1)).unwrap();
    for &column in lost {
        let last = fs::metadata(place.shard(column)).unwrap().len() - 4096;
        [0, 4096, last].iter().for_each(|copy| flip(&place.shard(column), copy + 100));
    }
    place
}

#[test]
fn a_shard_without_a_header_is_not_replaced_where_names_were_exchanged() {
    let place = exchange_names_and_lose_headers(2, &[0]);
    let file = fs::read(place.shard(0)).unwrap();
    let verified = place.verify();
    let ShardStatus::Unreadable { reason } = &verified.shards[0].status else { panic!("{verified:?}") };
    assert!(reason.contains("tree.01.shard") && reason.contains("of another column"), "{reason}");
    let Err(Fault { kind: FaultKind::NotHealed(report), .. }) = place.heal() else {
        panic!("the name of column 1 is taken")
    };
    assert!(report.not_healed[0].reason.contains("heal again"), "{report:?}");
    assert!(fs::read(&report.moved_aside[0].to).unwrap() == file);
    place.heal().unwrap();
    assert!(place.verify().clean);
    // More is lost than the code tolerates, but repaired headers would still help.
    let place = exchange_names_and_lose_headers(5, &[0, 1, 2]);
    let before = shards(&place.out());
    assert!(matches!(place.heal(), Err(Fault { kind: FaultKind::TooMuchLost { .. }, .. })));
    let after: Vec<Vec<u8>> = shards(&place.out()).into_values().collect();
    assert!(before.values().all(|bytes| after.contains(bytes)));
}
