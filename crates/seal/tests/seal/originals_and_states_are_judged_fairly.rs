//! Claims: only unreadable blocks are lost; a truncated mtime does not count as a change; possible
//! rot does not either. A renamed file is not lost, and a newer state with too few shards is not
//! overwritten.

use crate::common::fault::{FaultDisk, Faults};
use crate::common::*;
use pantile_seal::*;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// Seals files of these sizes, named f0, f1 and so on, beside parity.
fn sealed(code: &str, sizes: &[usize]) -> Place {
    let place = Place::new();
    fs::create_dir(place.tree()).unwrap();
    for (i, &size) in sizes.iter().enumerate() {
        write(&place.tree().join(format!("f{i}")), &Seed(i as u64 + 50).bytes(size));
    }
    let mut options = place.options(code);
    options.mode = Some(Mode::Beside);
    options.block_len = Some(4096);
    seal(&options, &mut Silent).unwrap();
    place
}

fn status(report: &VerifyReport, path: &str) -> Option<(FileStatus, u64)> {
    report.files.iter().find(|file| file.path == path).map(|file| (file.status, file.lost_blocks))
}

#[test]
fn one_unreadable_sector_of_an_original_costs_one_block() {
    let place = sealed("raid5:2", &[400_000, 400_000]);
    let before = [fs::read(place.tree().join("f0")).unwrap(), fs::read(place.tree().join("f1")).unwrap()];
    let faults = Faults { bad_sectors: &[("tree/f0", 100_000), ("tree/f1", 300_000)], ..Faults::default() };
    let disk = FaultDisk::new(place.dir.path(), faults);
    let world = World { disk: &disk, threads: 1 };
    let found = world.verify(&VerifyOptions { set: place.set(), ..Default::default() }, &mut Silent).unwrap();
    assert_eq!(status(&found, "f0"), Some((FileStatus::Rotten, 1)));
    assert_eq!(status(&found, "f1"), Some((FileStatus::Rotten, 1)));
    assert!(found.recoverable, "{found:?}");
    let healed = world.heal(&HealOptions { set: place.set(), ..Default::default() }, &mut Silent).unwrap();
    assert_eq!((healed.files_healed.len(), healed.blocks_repaired), (2, 2));
    for (i, bytes) in before.iter().enumerate() {
        assert!(fs::read(place.tree().join(format!("f{i}"))).unwrap() == *bytes);
    }
}

/// Truncates the mtimes of all files to a resolution in nanoseconds.
fn cut_times(tree: &Path, resolution: u64) {
    for entry in fs::read_dir(tree).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs::metadata(&path).unwrap();
        let nanos = meta.mtime() as u64 * 1_000_000_000 + meta.mtime_nsec() as u64;
        let time = UNIX_EPOCH + Duration::from_nanos(nanos / resolution * resolution);
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    }
}

#[test]
fn times_that_a_coarser_file_system_cut_are_no_change_and_hide_no_rot() {
    for resolution in [100, 1000, 1_000_000, 1_000_000_000, 2_000_000_000] {
        let place = sealed("rs:4+2", &[100_001, 100_000]);
        let good = fs::read(place.tree().join("f1")).unwrap();
        let parity = shards(&place.out());
        flip(&place.tree().join("f1"), 50_000);
        cut_times(&place.tree(), resolution);
        let found = place.verify();
        assert_eq!(status(&found, "f0"), None, "{resolution}");
        assert_eq!(status(&found, "f1"), Some((FileStatus::Rotten, 1)), "{resolution}");
        // Sealing refuses the rotten file.
        let refused = seal(&place.again(), &mut Silent);
        assert!(
            matches!(&refused, Err(Fault { kind: FaultKind::Suspect, what, .. }) if what.starts_with("1 file holds")),
            "{resolution}: {refused:?}"
        );
        assert!(shards(&place.out()) == parity, "{resolution}");
        assert_eq!(place.heal().unwrap().files_healed.len(), 1, "{resolution}");
        assert!(fs::read(place.tree().join("f1")).unwrap() == good, "{resolution}");
    }
}

#[test]
fn a_file_of_which_all_blocks_but_few_are_as_sealed_may_be_rotten_or_changed_and_is_not_sealed_unasked() {
    let place = sealed("rs:4+2", &[60 * 4096, 60 * 4096, 60 * 4096, 4096]);
    let parity = shards(&place.out());
    let path = |i: usize| place.tree().join(format!("f{i}"));
    // Changed are few blocks, many blocks, the length, and a file of a single block.
    flip(&path(0), 100_000);
    spoil(&path(1), 0, 30 * 4096);
    fs::write(path(2), [fs::read(path(2)).unwrap(), vec![1; 10]].concat()).unwrap();
    flip(&path(3), 17);
    (0..4).for_each(|i| age(&path(i), 1_000_000_000));
    let found = place.verify();
    assert_eq!(status(&found, "f0"), Some((FileStatus::RotOrChange, 1)));
    for i in 1..4 {
        assert_eq!(status(&found, &format!("f{i}")).unwrap().0, FileStatus::Changed, "{i}");
    }
    assert!(!found.clean && found.needs_seal && !found.needs_heal);
    // Heal does not change these files, and seal refuses the suspect one.
    let now = picture(&place.tree());
    assert_eq!(place.heal().unwrap().left_changed, ["f0", "f1", "f2", "f3"]);
    let refused = seal(&place.again(), &mut Silent);
    let Err(Fault { kind: FaultKind::Suspect, path: Some(first), what, .. }) = &refused else {
        panic!("{refused:?}")
    };
    assert!(*first == path(0) && what.starts_with("1 file has an earlier time"), "{what}");
    assert!(picture(&place.tree()) == now && shards(&place.out()) == parity);
    let options = SealOptions { accept_changes: true, ..place.again() };
    assert_eq!(seal(&options, &mut Silent).unwrap().changed, 4);
    assert!(place.verify().clean);
    // A changed mtime alone is not a change of content.
    age(&path(0), 1_000_000_001);
    assert_eq!(status(&place.verify(), "f0"), Some((FileStatus::Changed, 0)));
    place.reseal();
}

/// A program writes in place to files such as the image of a virtual machine, a database or a
/// tagged song.
#[test]
fn a_file_that_a_program_wrote_in_place_is_a_change_and_is_sealed() {
    let place = sealed("rs:4+2", &[60 * 4096, 60 * 4096]);
    let path = place.tree().join("f0");
    flip(&path, 100_000);
    age(&path, 4_000_000_000);
    assert_eq!(status(&place.verify(), "f0"), Some((FileStatus::Changed, 1)));
    let now = fs::read(&path).unwrap();
    assert_eq!(place.heal().unwrap().left_changed, ["f0"]);
    assert!(fs::read(&path).unwrap() == now);
    assert_eq!(seal(&place.again(), &mut Silent).unwrap().changed, 1);
    assert!(place.verify().clean);
}

#[test]
fn renamed_originals_are_recognised_and_not_lost() {
    let place = sealed("rs:8+2", &[100_000; 6]);
    for i in 0..4 {
        fs::rename(place.tree().join(format!("f{i}")), place.tree().join(format!("other-{i}"))).unwrap();
    }
    let before = picture(&place.tree());
    let found = place.verify();
    assert!(found.recoverable && !found.needs_heal && found.needs_seal && !found.clean, "{found:?}");
    for i in 0..4 {
        assert_eq!(status(&found, &format!("f{i}")), Some((FileStatus::Renamed, 0)));
        assert!(found.renamed[i].to.ends_with(&format!("other-{i}")));
    }
    assert!(found.files.iter().all(|file| file.status != FileStatus::New));
    // No file is written again, and the lost file is recovered with the help of the renamed ones.
    place.heal().unwrap();
    assert!(picture(&place.tree()) == before);
    let lost = fs::read(place.tree().join("f5")).unwrap();
    fs::remove_file(place.tree().join("f5")).unwrap();
    assert_eq!(place.heal().unwrap().files_healed.len(), 1);
    assert!(fs::read(place.tree().join("f5")).unwrap() == lost);
    // A renamed file that was also changed is another file.
    flip(&place.tree().join("other-0"), 5);
    let found = place.verify();
    assert_eq!(status(&found, "f0").unwrap().0, FileStatus::Missing);
    assert_eq!(status(&found, "other-0").unwrap().0, FileStatus::New);
    assert_eq!(place.heal().unwrap().files_healed.len(), 1);
    assert_eq!(place.reseal().renamed, 3);
}

#[test]
fn newer_shards_among_old_copies_are_called_newer_and_kept() {
    let place = Place::new();
    awkward_tree(&place.tree(), 3);
    seal(&place.options("rs:3+2"), &mut Silent).unwrap();
    let old = shards(&place.out());
    write(&place.tree().join("one more"), &Seed(8).bytes(20_000));
    place.reseal();
    let new = shards(&place.out());
    let generation = place.verify().generation;
    // Two shards have the new state, three have the old one.
    let put = |from: &std::collections::BTreeMap<std::path::PathBuf, Vec<u8>>,
               columns: std::ops::Range<usize>| {
        for column in columns {
            let path = place.shard(column);
            fs::write(&path, &from[Path::new(path.file_name().unwrap())]).unwrap();
        }
    };
    put(&old, 2..5);
    let mixed = shards(&place.out());
    let found = place.verify();
    assert_eq!(found.shards[0].status, ShardStatus::Newer { generation });
    assert_eq!(found.newer, Some(NewerState { generation, have: vec![0, 1], lack: vec![2, 3, 4] }));
    assert!(!found.clean && found.generation == 1);
    let Err(Fault { kind: FaultKind::NotHealed(report), .. }) = place.heal() else { panic!("healed") };
    assert_eq!(report.not_healed.len(), 2);
    assert!(
        report.not_healed[0].reason.contains(&format!("bring the shards of generation {generation}")),
        "{report:?}"
    );
    assert!(shards(&place.out()) == mixed, "something was written");
    // A third shard of the newer state returns, so that it is recoverable: older shards are healed.
    put(&new, 4..5);
    place.heal().unwrap();
    assert!(place.verify().clean && place.verify().generation == generation);
    place.assert_restores();
    // On request the whole older state is restored.
    put(&new, 0..2);
    put(&old, 2..5);
    heal(&HealOptions { set: place.set(), yes: true, ..Default::default() }, &mut Silent).unwrap();
    let found = place.verify();
    assert!(found.shards.iter().all(|shard| shard.status == ShardStatus::Good) && found.generation == 1);
}

#[test]
fn newer_shards_whose_manifests_cannot_be_read_hold_back_the_healing_of_originals() {
    let place = Place::new();
    awkward_tree(&place.tree(), 3);
    let options = SealOptions { mode: Some(Mode::Beside), ..place.options("rs:3+2") };
    seal(&options, &mut Silent).unwrap();
    let old = shards(&place.out());
    write(&place.tree().join("one more"), &Seed(8).bytes(20_000));
    place.reseal();
    // One column has its old shard; another one has its new shard, without a manifest.
    let columns: Vec<usize> = (0..5).filter(|&column| place.shard(column).exists()).collect();
    let (older, newer) = (place.shard(columns[0]), place.shard(columns[1]));
    fs::write(&older, &old[Path::new(older.file_name().unwrap())]).unwrap();
    let bytes = fs::read(&newer).unwrap();
    let header =
        pantile_format::ShardHeader::decode(&bytes[..pantile_format::HEADER_BYTES as usize]).unwrap();
    header.meta_copies().into_iter().for_each(|at| spoil(&newer, at, header.manifest_len));
    fs::remove_file(place.records().join(format!("{}.manifest", header.set))).unwrap();
    let found = place.verify();
    assert!(found.generation == 1 && found.newer.is_some(), "{found:?}");
    let lost = place.tree().join("deep");
    fs::remove_dir_all(&lost).unwrap();
    let before = picture(&place.tree());
    let Err(error) = place.heal() else { panic!("healed") };
    assert!(error.to_string().contains("of which no manifest can be read") || !lost.exists(), "{error}");
    assert_eq!(picture(&place.tree()), before, "something was put back");
    let _ = heal(&HealOptions { set: place.set(), yes: true, ..Default::default() }, &mut Silent);
    assert!(lost.exists());
}

#[test]
fn a_directory_in_which_something_is_put_back_has_its_time_again() {
    let place = Place::new();
    for dir in ["whole", "more"] {
        fs::create_dir_all(place.tree().join(dir)).unwrap();
    }
    for name in ["whole/a", "whole/b", "more/a", "more/b"] {
        write(&place.tree().join(name), &Seed(name.len() as u64).bytes(9000));
    }
    for dir in ["whole", "more"] {
        age(&place.tree().join(dir), 5000);
    }
    let options = SealOptions { mode: Some(Mode::Beside), ..place.options("rs:3+2") };
    seal(&options, &mut Silent).unwrap();
    let time = |dir: &str| fs::metadata(place.tree().join(dir)).unwrap().modified().unwrap();
    let sealed = time("whole");
    for name in ["whole/a", "more/a"] {
        fs::remove_file(place.tree().join(name)).unwrap();
    }
    // A file was added in the meantime, so the directory keeps its present mtime.
    write(&place.tree().join("more/new"), b"new");
    age(&place.tree().join("more"), 300);
    let came = time("more");
    place.heal().unwrap();
    assert_eq!((time("whole"), time("more")), (sealed, came));
}
