//! Claim: a lost original counts as renamed only while its disk and its directory exist and exactly
//! one new file matches it. In all other cases heal restores it, with the help of the copies.

use crate::common::*;
use pantile_seal::*;
use std::fs;
use std::path::{Path, PathBuf};

/// Makes three disks with four files each in a directory, and parity for one disk.
fn disks(place: &Place) -> Vec<PathBuf> {
    let disks: Vec<PathBuf> = (0..3).map(|i| place.dir.path().join(format!("disk{i}"))).collect();
    for (i, disk) in disks.iter().enumerate() {
        fs::create_dir_all(disk.join("m")).unwrap();
        for file in 0..4 {
            write(&disk.join(format!("m/f{file}")), &Seed(i as u64 * 10 + file).bytes(9000 + file as usize));
        }
    }
    let options = SealOptions { mode: Some(Mode::Beside), ..place.options("raid5:3") };
    seal(&SealOptions { sources: disks.clone(), ..options }, &mut Silent).unwrap();
    make_shards_younger(place);
    disks
}

/// Copies files of a directory to another one, with their times.
fn copy_some(from: &Path, to: &Path, names: &[&str]) {
    fs::create_dir_all(to).unwrap();
    for name in names {
        fs::copy(from.join(name), to.join(name)).unwrap();
        let time = fs::metadata(from.join(name)).unwrap().modified().unwrap();
        fs::File::options().write(true).open(to.join(name)).unwrap().set_modified(time).unwrap();
    }
}

fn renamed(report: &VerifyReport) -> usize {
    report.files.iter().filter(|file| file.status == FileStatus::Renamed).count()
}

#[test]
fn a_lost_disk_comes_back_although_copies_of_its_files_lie_elsewhere() {
    for is_emptied in [false, true] {
        let place = Place::new();
        let disks = disks(&place);
        let kept = picture(&disks[1]);
        copy_some(&disks[1].join("m"), &disks[2].join("rescue"), &["f0", "f1", "f2"]);
        fs::remove_dir_all(disks[1].join("m")).unwrap();
        if is_emptied {
            // A directory of the same name on the new disk is not the old one.
            fs::create_dir(disks[1].join("m")).unwrap();
        }
        let found = place.verify();
        assert!(found.needs_heal && found.recoverable && renamed(&found) == 0, "{found:?}");
        let healed = place.heal().unwrap();
        assert!(healed.found.renamed.is_empty());
        for file in 0..4 {
            let name = PathBuf::from(format!("m/f{file}"));
            assert_eq!(picture(&disks[1]).get(&name), kept.get(&name), "{name:?} {is_emptied}");
        }
        assert_eq!(fs::read_dir(disks[2].join("rescue")).unwrap().count(), 3);
    }
}

/// Files of which only copies are left are recovered even beyond the tolerance of the code.
#[test]
fn copies_are_read_in_place_of_what_is_lost() {
    let place = Place::new();
    let disks = disks(&place);
    let kept: Vec<_> = disks.iter().map(|disk| fs::read(disk.join("m/f1")).unwrap()).collect();
    for disk in &disks[..2] {
        copy_some(&disk.join("m"), &disks[2].join("rescue").join(disk.file_name().unwrap()), &["f0", "f1"]);
        fs::remove_dir_all(disk.join("m")).unwrap();
    }
    let Err(Fault { kind: FaultKind::TooMuchLost { healed: Some(healed), .. }, .. }) = place.heal() else {
        panic!("healed")
    };
    assert!(healed.files_healed.len() >= 4, "{healed:?}");
    for (disk, kept) in disks.iter().zip(kept) {
        assert!(fs::read(disk.join("m/f1")).unwrap() == kept, "{disk:?}");
    }
}

#[test]
fn two_files_of_one_content_are_restored_where_one_new_file_has_it() {
    for copies in [1, 2] {
        let place = Place::new();
        let disks = disks(&place);
        let (f0, f1) = (disks[1].join("m/f0"), disks[1].join("m/f1"));
        fs::copy(&f0, &f1).unwrap();
        age(&f1, 1_600_000_000);
        let again = SealOptions { sources: disks.clone(), ..place.again() };
        seal(&again, &mut Silent).unwrap();
        for copy in 0..copies {
            fs::copy(&f0, disks[1].join(format!("m/new{copy}"))).unwrap();
        }
        fs::remove_file(&f0).unwrap();
        fs::remove_file(&f1).unwrap();
        let healed = place.heal().unwrap();
        assert_eq!((healed.files_healed.len(), healed.found.renamed.len()), (2, 0), "{copies}");
        assert!(f0.exists() && f1.exists());
    }
}

/// A file that is renamed within its directory, and a directory that is renamed as a whole, are
/// reported as renamed.
#[test]
fn renames_on_a_living_disk_are_left_and_named() {
    let place = Place::new();
    let disks = disks(&place);
    fs::rename(disks[0].join("m/f0"), disks[0].join("m/other")).unwrap();
    fs::rename(disks[1].join("m"), disks[1].join("moved")).unwrap();
    let found = place.verify();
    assert_eq!(renamed(&found), 5, "{found:?}");
    let healed = place.heal().unwrap();
    assert_eq!(healed.found.renamed.len(), 5);
    assert!(!disks[0].join("m/f0").exists() && !disks[1].join("m/f1").exists());
}

#[test]
fn a_directory_of_which_a_file_is_missing_was_not_renamed_as_a_whole() {
    let place = Place::new();
    let disks = disks(&place);
    fs::rename(disks[1].join("m"), disks[1].join("moved")).unwrap();
    fs::remove_file(disks[1].join("moved/f3")).unwrap();
    let healed = place.heal().unwrap();
    assert!(healed.found.renamed.is_empty(), "{healed:?}");
    assert!((0..4).all(|file| disks[1].join(format!("m/f{file}")).exists()));
}
