//! Claim: hard links are sealed once and restored as hard links.

use crate::common::fault::{FaultDisk, Faults};
use crate::common::*;
use pantile_seal::*;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns a number for each name: names of one file have the same number.
fn names(tree: &Path) -> BTreeMap<PathBuf, usize> {
    let mut inodes = Vec::new();
    let mut names = BTreeMap::new();
    for path in picture(tree).into_keys() {
        let meta = fs::symlink_metadata(tree.join(&path)).unwrap();
        if meta.is_file() {
            let known = inodes.iter().position(|inode| *inode == meta.ino());
            let number = known.unwrap_or_else(|| {
                inodes.push(meta.ino());
                inodes.len() - 1
            });
            names.insert(path, number);
        }
    }
    names
}

/// Makes a file of many names, one of two names in different directories, and one of one name.
fn linked(tree: &Path) {
    fs::create_dir_all(tree.join("d")).unwrap();
    write(&tree.join("many00"), &Seed(1).bytes(11_000));
    (1..20).for_each(|i| fs::hard_link(tree.join("many00"), tree.join(format!("many{i:02}"))).unwrap());
    write(&tree.join("d/two"), &Seed(2).bytes(9_000));
    fs::hard_link(tree.join("d/two"), tree.join("two")).unwrap();
    write(&tree.join("one"), &Seed(3).bytes(80_000));
}

fn place(mode: Mode, checksums: bool) -> (Place, SealReport) {
    let place = Place::new();
    linked(&place.tree());
    let mut options = place.options("raid6:4");
    (options.mode, options.checksums, options.block_len) = (Some(mode), Some(checksums), Some(4096));
    let report = seal(&options, &mut Silent).unwrap();
    (place, report)
}

/// Returns the content of the whole tree, and the numbers of the names.
fn look(place: &Place) -> (BTreeMap<PathBuf, String>, BTreeMap<PathBuf, usize>) {
    let all = picture(&place.tree()).into_iter().filter(|(_, text)| !text.starts_with("dir")).collect();
    (all, names(&place.tree()))
}

#[test]
fn content_with_many_names_is_sealed_once() {
    for mode in [Mode::Full, Mode::Beside] {
        let (place, report) = place(mode, true);
        assert_eq!((report.files, report.hard_links, report.file_bytes), (3, 20, 100_000), "{mode:?}");
        // Blocks of 4 KiB: 3 + 3 + 20, on four columns.
        assert!(report.stripes <= 13, "{report:?}");
        let found = place.verify();
        assert!(found.clean && found.files_unchanged == 23, "{found:?}");
        place.assert_restores();
        assert_eq!(names(&place.target()), names(&place.tree()), "{mode:?}");
        let again = UnsealOptions { set: place.set(), target: place.target(), ..Default::default() };
        let again = unseal(&again, &mut Silent).unwrap();
        assert_eq!((again.files, again.hard_links, again.already_there), (0, 0, 23));
        let listed = list(&place.set(), &Select::default()).unwrap();
        let name = listed.paths.iter().find(|path| path.path == "many07").unwrap();
        assert_eq!(
            (name.kind.as_str(), name.bytes, name.target.as_deref()),
            ("hard-link", 11_000, Some("many00"))
        );
    }
}

#[test]
fn one_name_alone_is_restored_with_its_content() {
    let (place, _) = place(Mode::Full, true);
    let select = Select { patterns: vec!["many1*".into()], ..Select::default() };
    let options = UnsealOptions { set: place.set(), target: place.target(), select, ..Default::default() };
    let report = unseal(&options, &mut Silent).unwrap();
    assert_eq!((report.files, report.hard_links), (1, 9));
    assert!(fs::read(place.target().join("many13")).unwrap() == Seed(1).bytes(11_000));
    assert_eq!(fs::metadata(place.target().join("many13")).unwrap().nlink(), 10);
}

#[test]
fn lost_names_come_back_as_names_of_the_file() {
    for checksums in [true, false] {
        let (place, _) = place(Mode::Beside, checksums);
        let want = look(&place);
        let all: Vec<String> = (0..20).map(|i| format!("many{i:02}")).collect();
        let cases: [&[&str]; 5] = [
            &["many05"],
            &["many00"],
            &["many00", "many01", "many19", "d/two"],
            &["d/two", "two"],
            &all.iter().map(String::as_str).collect::<Vec<_>>(),
        ];
        for lost in cases {
            let inode = fs::metadata(place.tree().join("many10")).unwrap().ino();
            lost.iter().for_each(|name| fs::remove_file(place.tree().join(name)).unwrap());
            let found = place.verify();
            assert!(!found.clean && found.recoverable && found.needs_heal, "{lost:?}: {found:?}");
            make_shards_younger(&place);
            let report = place.heal().unwrap_or_else(|error| panic!("{lost:?}, {checksums}: {error}"));
            assert_eq!(report.files_healed.len(), lost.len(), "{lost:?}: {report:?}");
            assert_eq!(look(&place), want, "{lost:?}");
            let stays =
                lost.contains(&"many10") || fs::metadata(place.tree().join("many10")).unwrap().ino() == inode;
            assert!(stays, "{lost:?}: the file that was there is the one that stays");
            assert!(place.verify().clean, "{lost:?}");
        }
        // A file is selected by one of its names.
        for name in ["many00", "many07", "d/two"] {
            fs::remove_file(place.tree().join(name)).unwrap();
        }
        let select = Select { paths: vec!["many07".into()], ..Select::default() };
        heal(&HealOptions { set: place.set(), select, ..Default::default() }, &mut Silent).unwrap();
        assert!(place.tree().join("many07").exists() && !place.tree().join("d/two").exists());
        place.heal().unwrap();
        assert_eq!(look(&place), want);
    }
}

#[test]
fn rot_is_repaired_under_all_names() {
    let (place, _) = place(Mode::Beside, true);
    let want = look(&place);
    let rot = |name: &str| {
        let path = place.tree().join(name);
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"rotten", 5_000).unwrap();
        file.set_modified(time).unwrap();
    };
    rot("many03");
    place.heal().unwrap();
    let aside = |tree: &Path| {
        let is_kept = |path: &PathBuf| {
            [".before-heal", ".replaced-blocks"].iter().any(|end| path.to_string_lossy().ends_with(end))
        };
        for path in picture(tree).into_keys().filter(is_kept) {
            fs::remove_file(tree.join(path)).unwrap();
        }
    };
    aside(&place.tree());
    assert_eq!(look(&place), want);
    // The first name is lost, and the file behind the other names is rotten.
    rot("many03");
    fs::remove_file(place.tree().join("many00")).unwrap();
    place.heal().unwrap();
    aside(&place.tree());
    assert_eq!(look(&place), want);
    assert!(place.verify().clean);
}

#[test]
fn a_copy_in_the_place_of_a_name_is_a_change() {
    let (place, _) = place(Mode::Beside, true);
    let (name, copy) = (place.tree().join("many03"), place.dir.path().join("copy"));
    let done = std::process::Command::new("cp").arg("-p").arg(&name).arg(&copy).status().unwrap();
    assert!(done.success());
    fs::rename(&copy, &name).unwrap();
    let found = place.verify();
    let changed: Vec<&str> = found.files.iter().map(|file| file.path.as_str()).collect();
    assert!(changed == ["many03"] && found.needs_seal && !found.needs_heal, "{found:?}");
    let report = place.reseal();
    assert_eq!((report.files, report.hard_links), (4, 19), "{report:?}");
    assert!(place.verify().clean);
    place.assert_restores();
    assert_eq!(names(&place.target()), names(&place.tree()));
}

#[test]
fn names_that_come_and_go_cost_no_content() {
    let (place, _) = place(Mode::Full, true);
    fs::hard_link(place.tree().join("many00"), place.tree().join("a-first-name")).unwrap();
    let report = place.reseal();
    assert_eq!((report.added, report.changed, report.stripes_touched), (1, 0, 0), "{report:?}");
    fs::remove_file(place.tree().join("many00")).unwrap();
    let report = place.reseal();
    assert_eq!((report.removed, report.changed, report.stripes_touched), (1, 0, 0), "{report:?}");
    place.assert_restores();
    // One of two files becomes a hard link to the other: no name is gone, and blocks are free.
    fs::remove_file(place.tree().join("one")).unwrap();
    fs::hard_link(place.tree().join("two"), place.tree().join("one")).unwrap();
    let report = place.reseal();
    assert_eq!((report.files, report.removed), (2, 0), "{report:?}");
    place.assert_restores();
    assert_eq!(names(&place.target()), names(&place.tree()));
}

/// Names are added, removed and replaced by a seed; the restored tree is the one that was sealed
/// last.
#[test]
fn any_change_of_names_is_sealed_and_restored() {
    for (number, mode) in [(1, Mode::Full), (2, Mode::Beside), (3, Mode::Full)] {
        let (place, _) = place(mode, true);
        let mut seed = Seed(number);
        for round in 0..12 {
            for step in 0..6 {
                let there: Vec<PathBuf> = names(&place.tree()).into_keys().collect();
                let mut pick = || place.tree().join(&there[seed.below(there.len() as u64) as usize]);
                let (one, other) = (pick(), pick());
                let new = place.tree().join(format!("n{:02}-{round}-{step}", seed.below(50)));
                match seed.below(5) {
                    0 if there.len() > 5 => fs::remove_file(&one).unwrap(),
                    1 => fs::hard_link(&one, &new).unwrap(),
                    2 => fs::rename(&one, &new).unwrap(),
                    3 if one != other => {
                        fs::remove_file(&one).unwrap();
                        fs::hard_link(&other, &one).unwrap();
                    }
                    _ => {
                        fs::remove_file(&one).unwrap();
                        write(&one, &seed.bytes(100 + 700 * step));
                    }
                }
            }
            let again = SealOptions { removed_max: FilesMax::Percent(100), ..place.again() };
            seal(&again, &mut Silent).unwrap();
            let found = place.verify();
            assert!(found.clean, "{mode:?} {number} round {round}: {found:?}");
            place.assert_restores();
            assert_eq!(names(&place.target()), names(&place.tree()), "{mode:?} {number} round {round}");
        }
    }
}

#[test]
fn many_lost_names_come_back_with_few_syncs() {
    let (place, _) = place(Mode::Beside, true);
    let before = look(&place);
    (1..20).for_each(|i| fs::remove_file(place.tree().join(format!("many{i:02}"))).unwrap());
    let disk = FaultDisk::new(place.dir.path(), Faults::default());
    let options = HealOptions { set: place.set(), ..Default::default() };
    World { disk: &disk, threads: 1 }.heal(&options, &mut Silent).unwrap();
    assert!(disk.syncs() < 5, "{} syncs for 19 names", disk.syncs());
    assert!(look(&place) == before);
}

#[test]
fn a_name_that_is_not_durable_is_reported() {
    let heal = |crash_after| {
        let (place, _) = place(Mode::Beside, true);
        fs::remove_file(place.tree().join("two")).unwrap();
        let disk = FaultDisk::new(place.dir.path(), Faults { crash_after, ..Faults::default() });
        let options = HealOptions { set: place.set(), ..Default::default() };
        let report = World { disk: &disk, threads: 1 }.heal(&options, &mut Silent);
        (report, disk, place)
    };
    let (_, whole, _) = heal(None);
    let mut tried = 0;
    for after in 0..whole.operations() {
        let (report, disk, place) = heal(Some(after));
        if place.tree().join("two").exists() && disk.syncs() < whole.syncs() {
            tried += 1;
            assert!(report.is_err(), "after {after} operations");
        }
    }
    assert!(tried > 0);
}
