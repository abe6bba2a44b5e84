//! Claim: a set identifies its disks by names; their paths can change.

use crate::common::*;
use pantile_seal::*;
use std::fs;
use std::path::{Path, PathBuf};

/// Three disks with some files each, sealed beside their parity.
struct Shelf {
    place: Place,
    disks: Vec<PathBuf>,
}

impl Shelf {
    fn new(names: [&str; 3], code: &str) -> Shelf {
        let place = Place::new();
        let disk = |(i, name): (usize, &&str)| {
            let disk = place.dir.path().join(name);
            fs::create_dir_all(disk.join("sub")).unwrap();
            (0..3u64).for_each(|file| {
                let bytes = Seed(10 * i as u64 + file).bytes(9000 + 1000 * file as usize);
                write(&disk.join(format!("sub/f{file}")), &bytes);
            });
            disk
        };
        let disks: Vec<PathBuf> = names.iter().enumerate().map(disk).collect();
        let shelf = Shelf { place, disks };
        let report = shelf.seal(&shelf.disks, |options| options.code = Some(code_of(code))).unwrap();
        assert_eq!(report.code, code);
        shelf
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.dir.path().join(name)
    }

    fn seal(&self, paths: &[PathBuf], set: impl FnOnce(&mut SealOptions)) -> Result<SealReport, Fault> {
        let mut options = SealOptions::new(paths.to_vec(), self.place.out());
        options.records = Some(self.place.records());
        (options.name, options.mode) = (Some("pool".into()), Some(Mode::Beside));
        set(&mut options);
        seal(&options, &mut Silent)
    }

    fn move_disk(&self, from: &str, to: &str) -> PathBuf {
        fs::create_dir_all(self.path(to).parent().unwrap()).unwrap();
        fs::rename(self.path(from), self.path(to)).unwrap();
        self.path(to)
    }

    /// Asserts that the seal changed only the list of disks.
    fn assert_cheap(&self, report: &SealReport) {
        assert_eq!((report.added, report.changed, report.removed), (0, 0, 0), "{report:?}");
        assert_eq!((report.stripes_touched, report.shard_bytes_read), (0, 0), "{report:?}");
        assert_eq!(report.code, "raid5:3");
    }
}

fn named(name: &str, path: &Path) -> DiskAt {
    DiskAt { name: name.into(), path: path.into() }
}

#[test]
fn a_renamed_mount_point_costs_the_list_of_disks() {
    let shelf = Shelf::new(["d1", "d2", "d3"], "raid5:3");
    let films = shelf.move_disk("d1", "films");
    let now = [films.clone(), shelf.disks[1].clone(), shelf.disks[2].clone()];
    // No name matches the moved disk, so the error gives the arguments that identify it.
    let refused = shelf.seal(&now, |_| ()).unwrap_err();
    assert!(
        refused.what.starts_with("disk d1 of the set") && refused.what.contains("is not known"),
        "{refused}"
    );
    assert!(refused.to_string().contains(&format!("--disk d1={}", films.display())), "{refused}");
    let report = shelf.seal(&now, |options| options.moved = true).unwrap();
    shelf.assert_cheap(&report);
    assert!(shelf.place.verify().clean);
    // One disk is given by its name; the other disks are where they were.
    let films = shelf.move_disk("films", "mnt/films");
    let report = shelf.seal(&[], |options| options.disks = vec![named("d1", &films)]).unwrap();
    shelf.assert_cheap(&report);
    let info = open_set(&shelf.place.set()).unwrap();
    assert_eq!(info.disk_names, ["d1", "d2", "d3"]);
    assert_eq!(info.sources[0], films.display().to_string());
    // All disks are where they were.
    write(&films.join("new"), b"new");
    let report = shelf.seal(&[], |_| ()).unwrap();
    assert_eq!((report.added, report.removed), (1, 0), "{report:?}");
}

#[test]
fn two_moved_disks_are_asked_for_by_name() {
    let shelf = Shelf::new(["d1", "d2", "d3"], "raid5:3");
    let (x, y) = (shelf.move_disk("d1", "x"), shelf.move_disk("d2", "y"));
    let now = [y.clone(), x.clone(), shelf.disks[2].clone()];
    let refused = shelf.seal(&now, |options| options.moved = true).unwrap_err();
    assert!(refused.what.contains("which of d1, d2 is where"), "{refused}");
    let disks = vec![named("d2", &y), named("d1", &x)];
    let report = shelf.seal(&[shelf.disks[2].clone()], |options| options.disks = disks).unwrap();
    shelf.assert_cheap(&report);
    assert!(shelf.place.verify().clean);
}

#[test]
fn the_order_of_paths_means_nothing() {
    let shelf = Shelf::new(["d1", "d2", "d3"], "raid5:3");
    let turned: Vec<PathBuf> = shelf.disks.iter().rev().cloned().collect();
    shelf.assert_cheap(&shelf.seal(&turned, |_| ()).unwrap());
    assert_eq!(open_set(&shelf.place.set()).unwrap().disk_names, ["d1", "d2", "d3"]);
}

/// All disks have a folder of the same name, as is usual for the disks of a pool.
#[test]
fn one_folder_name_on_every_disk_makes_three_disks() {
    let shelf = Shelf::new(["disk1/films", "disk2/films", "disk3/films"], "raid5:3");
    let info = open_set(&shelf.place.set()).unwrap();
    assert_eq!(info.disk_names, ["disk1-films", "disk2-films", "disk3-films"]);
    let turned: Vec<PathBuf> = shelf.disks.iter().rev().cloned().collect();
    shelf.assert_cheap(&shelf.seal(&turned, |_| ()).unwrap());
    fs::remove_dir_all(shelf.path("disk2/films")).unwrap();
    fs::create_dir(shelf.path("disk2/films")).unwrap();
    shelf.place.heal().unwrap();
    assert!(shelf.place.verify().clean);
    shelf.place.unseal().unwrap();
    assert_same_trees(&shelf.path("disk2/films/sub"), &shelf.place.target().join("disk2-films/sub"));
}

#[test]
fn a_disk_is_healed_by_its_name_where_it_is_now() {
    let shelf = Shelf::new(["d1", "d2", "d3"], "raid6:3");
    let want = picture(&shelf.path("d2/sub"));
    fs::remove_dir_all(shelf.path("d2")).unwrap();
    fs::remove_file(shelf.path("d3/sub/f1")).unwrap();
    // The disk is not mounted: there is no place to write to.
    let set = SetPaths { disks: vec![named("d2", &shelf.path("mnt"))], ..shelf.place.set() };
    let options =
        |set: &SetPaths, select: Select| HealOptions { set: set.clone(), select, ..Default::default() };
    let refused = heal(&options(&set, Select::default()), &mut Silent).unwrap_err();
    assert!(
        matches!(refused.kind, FaultKind::NoSource) && refused.to_string().contains("mounted"),
        "{refused}"
    );
    let unknown = SetPaths { disks: vec![named("d9", &shelf.path("d1"))], ..shelf.place.set() };
    let refused = heal(&options(&unknown, Select::default()), &mut Silent).unwrap_err();
    assert!(refused.to_string().ends_with("it has d1, d2, d3"), "{refused}");
    fs::create_dir(shelf.path("mnt")).unwrap();
    let only = Select { disks: vec!["d2".into()], ..Select::default() };
    let report = heal(&options(&set, only), &mut Silent).unwrap();
    assert!(report.files_healed.iter().all(|path| path.contains("/mnt/")), "{report:?}");
    assert_eq!(picture(&shelf.path("mnt/sub")), want);
    assert!(!shelf.path("d3/sub/f1").exists(), "only that disk was asked for");
    // From then on the disk is known at its new path.
    shelf.place.heal().unwrap();
    let report = shelf.place.verify();
    assert!(report.clean, "{report:?}");
    assert_eq!(report.sources[1], shelf.path("mnt").display().to_string());
}

/// Without a record only the named disks are known.
#[test]
fn without_a_record_every_disk_is_asked_for() {
    let shelf = Shelf::new(["d1", "d2", "d3"], "raid5:3");
    fs::remove_dir_all(shelf.place.records()).unwrap();
    fs::remove_file(shelf.path("d1/sub/f1")).unwrap();
    let some = SetPaths { disks: vec![named("d1", &shelf.path("d1"))], ..shelf.place.set() };
    let refused = heal(&HealOptions { set: some, ..Default::default() }, &mut Silent).unwrap_err();
    assert!(matches!(&refused.kind, FaultKind::PlacesUnknown(disks) if disks.len() == 3), "{refused}");
    let all = SetPaths { disks: at(&shelf.disks), ..shelf.place.set() };
    heal(&HealOptions { set: all, ..Default::default() }, &mut Silent).unwrap();
    assert!(shelf.path("d1/sub/f1").exists());
}

#[test]
fn a_new_disk_gets_the_name_that_it_is_given() {
    let shelf = Shelf::new(["d1", "d2", "d3"], "raid5:3");
    let other = shelf.path("elsewhere/d1");
    fs::create_dir_all(&other).unwrap();
    write(&other.join("f"), b"another disk");
    // A path with the name of another known disk is not confused with it.
    let refused =
        shelf.seal(&[other.clone(), shelf.disks[1].clone(), shelf.disks[2].clone()], |_| ()).unwrap_err();
    assert!(refused.what.starts_with("disk d1 of the set was sealed from"), "{refused}");
    let report = shelf.seal(&[], |options| options.disks = vec![named("d4", &other)]).unwrap();
    assert_eq!((report.added, report.removed, report.code.as_str()), (2, 0, "raid5:4"), "{report:?}");
    assert_eq!(open_set(&shelf.place.set()).unwrap().disk_names, ["d1", "d2", "d3", "d4"]);
    for bad in ["", "..", "a/b"] {
        let refused = shelf.seal(&[], |options| options.disks = vec![named(bad, &other)]).unwrap_err();
        assert!(refused.what.contains("cannot be the name of a disk"), "{refused}");
    }
}

#[test]
fn heal_refuses_a_name_that_the_disk_of_a_set_of_one_does_not_have() {
    let place = Place::new();
    fs::create_dir(place.tree()).unwrap();
    write(&place.tree().join("f"), &Seed(1).bytes(9000));
    let options = SealOptions { mode: Some(Mode::Beside), ..place.options("raid6:2") };
    seal(&options, &mut Silent).unwrap();
    let set = |name: &str| SetPaths { disks: vec![named(name, &place.tree())], ..place.set() };
    let refused = heal(&HealOptions { set: set("nosuch"), ..Default::default() }, &mut Silent).unwrap_err();
    assert_eq!(refused.what, "the set has no disk called nosuch");
    assert_eq!(refused.hint, "it has tree");
    heal(&HealOptions { set: set("tree"), ..Default::default() }, &mut Silent).unwrap();
}
