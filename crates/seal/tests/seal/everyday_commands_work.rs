//! Claim: a single file or folder can be restored, healed and listed; a rehearsal reports the
//! changes that the seal then makes; paths that are not selected are left alone.

use crate::common::fault::{FaultDisk, Faults};
use crate::common::*;
use pantile_seal::*;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// Makes folders `a` and `b` with twelve files each, and two files beside them.
fn place() -> Place {
    let place = Place::new();
    for dir in ["a", "b"] {
        fs::create_dir_all(place.tree().join(dir)).unwrap();
        for i in 0..12 {
            let seed = i + dir.len() as u64 * 100 + u64::from(dir == "b") * 50;
            write(&place.tree().join(dir).join(format!("{i:02}.raw")), &Seed(seed).bytes(6000 + i as usize));
        }
    }
    write(&place.tree().join("notes.txt"), b"some notes");
    write(&place.tree().join("scratch.tmp"), b"nobody needs this");
    place
}

fn patterns(patterns: &[&str]) -> Select {
    Select { patterns: patterns.iter().map(|p| p.to_string()).collect(), ..Select::default() }
}

fn beside(place: &Place, code: &str) {
    seal(&SealOptions { mode: Some(Mode::Beside), ..place.options(code) }, &mut Silent).unwrap();
}

fn names(changes: &[PathChange], is: Change) -> BTreeSet<String> {
    changes.iter().filter(|change| change.is == is).map(|change| change.path.clone()).collect()
}

#[test]
fn a_rehearsal_reports_the_later_changes_and_writes_nothing() {
    let place = place();
    let first = SealOptions { dry_run: true, ..place.options("rs:3+2") };
    let told = seal(&first, &mut Silent).unwrap();
    assert!(!place.out().exists() && told.dry_run && told.first_time);
    assert_eq!(told.changes.len() as u64, told.added);
    let done = seal(&place.options("rs:3+2"), &mut Silent).unwrap();
    assert_eq!((told.files, told.added, told.stripes), (done.files, done.added, done.stripes));
    // One change of each kind, and paths that change their kind.
    write(&place.tree().join("a/00.raw"), &Seed(900).bytes(7000));
    fs::remove_file(place.tree().join("a/01.raw")).unwrap();
    fs::rename(place.tree().join("b/02.raw"), place.tree().join("b/other.raw")).unwrap();
    write(&place.tree().join("new"), b"new");
    fs::remove_file(place.tree().join("notes.txt")).unwrap();
    fs::create_dir(place.tree().join("notes.txt")).unwrap();
    fs::remove_file(place.tree().join("scratch.tmp")).unwrap();
    std::os::unix::fs::symlink("new", place.tree().join("scratch.tmp")).unwrap();
    let (before, again) = (shards(&place.out()), place.again());
    let told = seal(&SealOptions { dry_run: true, ..again.clone() }, &mut Silent).unwrap();
    assert_eq!(shards(&place.out()), before, "a rehearsal writes nothing");
    let set = |paths: &[&str]| paths.iter().map(|path| path.to_string()).collect::<BTreeSet<_>>();
    assert_eq!(names(&told.changes, Change::Added), set(&["new", "notes.txt", "scratch.tmp"]));
    assert_eq!(names(&told.changes, Change::Changed), set(&["a/00.raw"]));
    assert_eq!(names(&told.changes, Change::Removed), set(&["a/01.raw", "notes.txt", "scratch.tmp"]));
    assert_eq!(names(&told.changes, Change::Renamed), set(&["b/other.raw"]));
    let done = seal(&again, &mut Silent).unwrap();
    // A renamed path counts as one added and one removed.
    assert_eq!((done.added, done.changed, done.removed, done.renamed), (4, 1, 4, 1));
    assert_eq!((told.added, told.changed, told.removed), (done.added, done.changed, done.removed));
    assert_eq!((told.generation, told.stripes), (done.generation, done.stripes));
    let nothing = seal(&SealOptions { dry_run: true, ..again }, &mut Silent).unwrap();
    assert!(nothing.changes.is_empty() && nothing.generation == done.generation, "{:?}", nothing.changes);
    place.assert_restores();
}

#[test]
fn files_that_fit_a_pattern_are_not_sealed() {
    let place = place();
    let exclude = vec!["*.tmp".to_string(), "/a/".to_string(), "!/a/".to_string(), "b/*1.raw".to_string()];
    let options = SealOptions { left_out: Some(without(exclude)), ..place.options("rs:3+2") };
    let report = seal(&options, &mut Silent).unwrap();
    assert_eq!((report.excluded, report.files), (3, 26 - 3));
    place.unseal().unwrap();
    for (path, is_there) in [
        ("scratch.tmp", false),
        ("b/01.raw", false),
        ("b/11.raw", false),
        ("b/10.raw", true),
        ("a/01.raw", true),
    ] {
        assert_eq!(place.target().join(path).exists(), is_there, "{path}");
    }
    // Paths that are left out from now on do not count as gone, however many there are.
    let all = SealOptions { left_out: Some(without(vec!["*.raw".into()])), ..place.again() };
    assert_eq!(seal(&all, &mut Silent).unwrap().files, 2);
    for bad in ["", "# remark"] {
        let options = SealOptions { left_out: Some(without(vec![bad.into()])), ..place.again() };
        let error = seal(&options, &mut Silent).unwrap_err();
        assert!(error.what.starts_with("the pattern"), "{error}");
    }
}

fn without(patterns: Vec<String>) -> LeftOut {
    LeftOut { patterns, other_systems: false }
}

#[test]
fn patterns_stay_until_they_are_given_again() {
    let place = place();
    let left_out = Some(without(vec!["*.tmp".into(), "/b/".into()]));
    let first = seal(&SealOptions { left_out, ..place.options("rs:3+2") }, &mut Silent).unwrap();
    let info = open_set(&place.set()).unwrap();
    assert_eq!((&info.left_out[..], info.one_file_system), (&["*.tmp".into(), "/b/".into()][..], false));
    assert!(place.verify().files.is_empty(), "{:?}", place.verify().files);
    let again = place.reseal();
    assert_eq!((again.excluded, again.files, again.generation), (2, first.files, 1));
    // Patterns that are given without any other change are stored too.
    let only = LeftOut { patterns: vec!["*.tmp".into()], other_systems: true };
    let told = seal(&SealOptions { left_out: Some(only.clone()), ..place.again() }, &mut Silent).unwrap();
    assert!(told.excluded == 1 && told.generation > again.generation, "{told:?}");
    let more = LeftOut { patterns: vec!["*.tmp".into(), "nothing".into()], ..only };
    let more = seal(&SealOptions { left_out: Some(more), ..place.again() }, &mut Silent).unwrap();
    assert_eq!(more.generation, told.generation + 1);
    fs::remove_file(place.shard(1)).unwrap();
    let found = place.heal().unwrap().found;
    assert!(found.files.iter().all(|file| file.status != FileStatus::New), "{:?}", found.files);
    let all = SealOptions { left_out: Some(LeftOut::default()), ..place.again() };
    assert_eq!(seal(&all, &mut Silent).unwrap().excluded, 0);
    assert!(open_set(&place.set()).unwrap().left_out.is_empty());
    place.assert_restores();
}

#[test]
fn more_patterns_than_a_set_may_keep_are_refused() {
    let place = place();
    for patterns in [vec!["x".to_string(); 1001], vec!["x".repeat(65 << 10)]] {
        let options = SealOptions { left_out: Some(without(patterns)), ..place.options("rs:3+2") };
        let error = seal(&options, &mut Silent).unwrap_err();
        assert!(error.what.contains("are too many"), "{error}");
    }
}

#[test]
fn many_files_that_are_gone_are_not_forgotten_without_being_asked() {
    let place = place();
    seal(&place.options("rs:3+2"), &mut Silent).unwrap();
    let before = shards(&place.out());
    // A former mount point: the directory exists, but is empty.
    for i in 0..12 {
        fs::remove_file(place.tree().join(format!("a/{i:02}.raw"))).unwrap();
    }
    let error = seal(&place.again(), &mut Silent).unwrap_err();
    let is_it = |error: &Fault| error.what.contains("/a is empty now, and 12 files");
    assert!(is_it(&error), "{error}");
    assert_eq!(shards(&place.out()), before);
    // More than half of all files of a source that is not empty are gone.
    fs::remove_dir(place.tree().join("a")).unwrap();
    for i in 0..3 {
        fs::remove_file(place.tree().join(format!("b/{i:02}.raw"))).unwrap();
    }
    let error = seal(&place.again(), &mut Silent).unwrap_err();
    assert!(error.what.starts_with("15 of the 26 files"), "{error}");
    for (most, is_enough) in
        [(FilesMax::Files(14), false), (FilesMax::Percent(57), false), (FilesMax::Percent(58), true)]
    {
        let options = SealOptions { removed_max: most, dry_run: true, ..place.again() };
        assert_eq!(seal(&options, &mut Silent).is_ok(), is_enough, "{most:?}");
    }
    let options = SealOptions { removed_max: FilesMax::Files(15), ..place.again() };
    assert_eq!(seal(&options, &mut Silent).unwrap().files, 11);
    // All files are gone: the hint of the fault helps here too.
    fs::remove_dir_all(place.tree()).unwrap();
    fs::create_dir(place.tree()).unwrap();
    let error = seal(&place.again(), &mut Silent).unwrap_err();
    assert!(error.to_string().contains("--removed-max 100%"), "{error}");
    let options = SealOptions { removed_max: FilesMax::Percent(100), ..place.again() };
    assert_eq!(seal(&options, &mut Silent).unwrap().files, 0);
}

#[test]
fn many_files_that_were_changed_are_refused_on_request() {
    let place = place();
    seal(&place.options("rs:3+2"), &mut Silent).unwrap();
    let before = shards(&place.out());
    for i in 0..6 {
        fs::write(place.tree().join(format!("b/{i:02}.raw")), vec![i; 777]).unwrap();
    }
    fs::write(place.tree().join("new"), "new").unwrap();
    for (most, is_enough) in
        [(FilesMax::Files(5), false), (FilesMax::Percent(23), false), (FilesMax::Percent(24), true)]
    {
        let options = SealOptions { changed_max: Some(most), dry_run: true, ..place.again() };
        let sealed = seal(&options, &mut Silent);
        assert_eq!(sealed.is_ok(), is_enough, "{most:?}: {:?}", sealed.err());
    }
    let limited = SealOptions { changed_max: Some(FilesMax::Files(5)), ..place.again() };
    let error = seal(&limited, &mut Silent).unwrap_err();
    assert!(error.what.starts_with("6 of the 26 sealed files"), "{error}");
    assert!(error.to_string().contains("--changed-max 100%"), "{error}");
    assert_eq!(shards(&place.out()), before, "nothing is written");
    assert_eq!(seal(&place.again(), &mut Silent).unwrap().changed, 6);
    // Files that are only read again do not count as changed.
    let all = SealOptions { read_all: true, ..limited };
    seal(&all, &mut Silent).unwrap();
}

#[test]
fn a_few_files_that_are_gone_are_forgotten() {
    let place = Place::new();
    fs::create_dir_all(place.tree().join("d")).unwrap();
    for i in 0..10 {
        write(&place.tree().join(format!("d/{i}")), &Seed(i).bytes(100));
    }
    write(&place.tree().join("kept"), b"kept");
    seal(&place.options("rs:2+1"), &mut Silent).unwrap();
    for i in 0..10 {
        fs::remove_file(place.tree().join(format!("d/{i}"))).unwrap();
    }
    assert_eq!(place.reseal().removed, 10);
}

#[test]
fn one_file_or_folder_is_restored_with_the_directories_it_lies_in() {
    let place = place();
    fs::set_permissions(place.tree().join("b"), fs::Permissions::from_mode(0o750)).unwrap();
    seal(&place.options("rs:3+2"), &mut Silent).unwrap();
    let restore = |select: Select| {
        let _ = fs::remove_dir_all(place.target());
        unseal(
            &UnsealOptions { set: place.set(), target: place.target(), select, ..Default::default() },
            &mut Silent,
        )
    };
    let report = restore(patterns(&["b/03.raw"])).unwrap();
    assert_eq!((report.files, report.dirs), (1, 2));
    let found: Vec<PathBuf> = picture(&place.target()).into_keys().collect();
    assert_eq!(found, ["", "b", "b/03.raw"].map(PathBuf::from));
    assert_eq!(fs::metadata(place.target().join("b")).unwrap().permissions().mode() & 0o777, 0o750);
    assert_eq!(restore(patterns(&["a/"])).unwrap().files, 12);
    assert_eq!(restore(patterns(&["*.raw", "!01.raw"])).unwrap().files, 22);
    let error = restore(patterns(&["b/", "nosuch"])).unwrap_err();
    assert!(error.what.contains("fits 'nosuch'"), "{error}");
    // Losses elsewhere do no harm, with checksums and without.
    let listing = list(&place.set(), &patterns(&["*.txt"])).unwrap();
    let paths: Vec<(&str, &str, u64)> =
        listing.paths.iter().map(|p| (p.path.as_str(), p.kind.as_str(), p.bytes)).collect();
    assert_eq!(paths, [("notes.txt", "file", 10)]);
    assert_eq!(list(&place.set(), &Select::default()).unwrap().paths.len(), 26 + 3);
}

#[test]
fn one_original_is_healed_and_no_more_is_read_than_that_needs() {
    let place = place();
    beside(&place, "rs:4+2");
    for path in ["a/03.raw", "b/05.raw"] {
        fs::remove_file(place.tree().join(path)).unwrap();
    }
    rot(&place, &place.tree().join("a/07.raw"), 3000);
    let disk = FaultDisk::new(place.dir.path(), Faults::default());
    let world = World { disk: &disk, threads: 1 };
    let select = Select { paths: vec!["a/03.raw".into()], ..Select::default() };
    let options = HealOptions { set: place.set(), select, ..Default::default() };
    let report = world.heal(&options, &mut Silent).unwrap();
    assert_eq!(report.files_healed.len(), 1);
    assert!(report.found.partial && place.tree().join("a/03.raw").exists());
    assert!(!place.tree().join("b/05.raw").exists(), "nobody asked for it");
    let read = disk.bytes_read(".raw");
    assert!(read <= 6 * 2 * 4096, "{read} bytes of {}", 24 * 6000);
    // By the path of the original; by a folder; and a rotten file.
    let heal_these = |paths: Vec<PathBuf>| {
        let select = Select { paths, ..Select::default() };
        heal(&HealOptions { set: place.set(), select, ..Default::default() }, &mut Silent)
    };
    assert_eq!(heal_these(vec![place.tree().join("b")]).unwrap().files_healed.len(), 1);
    assert_eq!(heal_these(vec!["a".into()]).unwrap().files_healed.len(), 1);
    assert!(place.verify().clean);
    assert!(heal_these(vec!["nosuch".into()]).unwrap_err().what.contains("fits 'nosuch'"));
    let full = Place::new();
    write(&full.dir.path().join("tree"), b"a single file");
    seal(&full.options("rs:2+1"), &mut Silent).unwrap();
    let options = HealOptions { set: full.set(), select: patterns(&["*"]), ..Default::default() };
    assert!(heal(&options, &mut Silent).unwrap_err().what.contains("no single originals"));
}

#[test]
fn right_files_are_not_written_again() {
    let place = place();
    seal(&place.options("rs:3+2"), &mut Silent).unwrap();
    let options =
        UnsealOptions { set: place.set(), target: place.target(), overwrite: true, ..Default::default() };
    unseal(&options, &mut Silent).unwrap();
    write(&place.target().join("a/04.raw"), b"something else");
    fs::set_permissions(place.target().join("notes.txt"), fs::Permissions::from_mode(0o600)).unwrap();
    let disk = FaultDisk::new(place.dir.path(), Faults::default());
    let world = World { disk: &disk, threads: 1 };
    let report = world.unseal(&options, &mut Silent).unwrap();
    // Permissions are not changed in place, since the file may have another name elsewhere.
    assert_eq!((report.files, report.already_there), (2, 24));
    let notes = fs::metadata(place.tree().join("notes.txt")).unwrap().len();
    assert_eq!(disk.bytes_written(), 6004 + notes, "only what is wrong is written");
    // Directories are excluded, since their mtime changes when something is written in them.
    let files = |root: PathBuf| picture(&root).into_iter().filter(|(_, text)| text.starts_with("file"));
    assert!(files(place.tree()).eq(files(place.target())));
}

#[test]
fn sets_of_one_name_are_told_apart_by_their_uuid() {
    let (one, other) = (place(), place());
    write(&other.tree().join("notes.txt"), b"other notes");
    let ids = [&one, &other].map(|place| seal(&place.options("rs:3+2"), &mut Silent).unwrap().set);
    let both =
        |name: Option<String>| SetPaths { paths: vec![one.out(), other.out()], name, ..SetPaths::default() };
    let error = open_set(&both(Some("tree".into()))).unwrap_err();
    assert!(error.what.contains("several sets") && error.hint.contains("UUID"), "{error}");
    for id in &ids {
        for name in [id.as_str(), &id[..8]] {
            assert_eq!(open_set(&both(Some(name.into()))).unwrap().set, *id);
        }
    }
}

#[test]
fn names_that_are_not_utf_8_are_told_apart_and_can_be_chosen() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    fs::create_dir(place.tree()).unwrap();
    let bytes: [&[u8]; 3] = [b"caf\xe9", b"caf\xe8", b"caf\\xe9"];
    for (i, name) in bytes.iter().enumerate() {
        write(&place.tree().join(OsStr::from_bytes(name)), &Seed(i as u64).bytes(5000));
    }
    beside(&place, "rs:2+2");
    for name in &bytes {
        fs::remove_file(place.tree().join(OsStr::from_bytes(name))).unwrap();
    }
    let listing = list(&place.set(), &Select::default()).unwrap();
    let told: BTreeSet<&str> = listing.paths.iter().map(|path| path.path.as_str()).collect();
    assert_eq!(told, BTreeSet::from(["", "caf\\xe8", "caf\\xe9", "caf\\x5cxe9"]));
    // A path can be selected by the text in a report, and by the name itself.
    for (path, name) in [(OsStr::new("caf\\xe9"), bytes[0]), (OsStr::from_bytes(bytes[1]), bytes[1])] {
        let select = Select { paths: vec![path.into()], ..Select::default() };
        heal(&HealOptions { set: place.set(), select, ..Default::default() }, &mut Silent).unwrap();
        let there = fs::read_dir(place.tree()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(there.into_iter().any(|there| there.as_bytes() == name), "{path:?}");
    }
}
