//! Claim: a set has the whole content of its sources and nothing else. It takes no other tree of
//! the same name, misses no changed file with unchanged size and mtime, and includes the files
//! beside the shards. A user's changes are never undone without a copy, and restored files are
//! never more open to others than before.

use crate::common::fault::{FaultDisk, Faults};
use crate::common::*;
use pantile_seal::*;
use std::cell::Cell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

#[test]
fn another_tree_of_the_same_name_is_refused_and_one_that_was_moved_is_not() {
    for mode in [Mode::Full, Mode::Beside] {
        let place = Place::new();
        let (one, other) = (place.dir.path().join("a/data"), place.dir.path().join("b/data"));
        for (tree, text) in [(&one, "important"), (&other, "of no interest")] {
            fs::create_dir_all(tree).unwrap();
            write(&tree.join(text), text.as_bytes());
        }
        let mut options = SealOptions::new(vec![one.clone()], place.out());
        (options.code, options.mode) = (Some(code_of("rs:3+2")), Some(mode));
        seal(&options, &mut Silent).unwrap();
        let before = shards(&place.out());
        options.sources = vec![other.clone()];
        let error = seal(&options, &mut Silent).unwrap_err();
        assert!(error.what.contains(&format!(
            "was sealed from {}, not from {}",
            one.display(),
            other.display()
        )));
        assert!(error.to_string().contains("--moved") && error.to_string().contains("--name"), "{error}");
        assert!(shards(&place.out()) == before);
        // Under a separate name it is another set; and the first tree can be moved.
        let named = SealOptions { name: Some("other".into()), ..options.clone() };
        seal(&named, &mut Silent).unwrap();
        let moved = place.dir.path().join("c");
        fs::rename(&one, &moved).unwrap();
        let again = SealOptions { sources: vec![moved], moved: true, name: Some("data".into()), ..options };
        let report = seal(&again, &mut Silent).unwrap();
        assert_eq!((report.files, report.added, report.removed, report.changed), (1, 0, 0, 0));
        seal(&SealOptions { moved: false, ..again }, &mut Silent).unwrap();
    }
}

#[test]
fn files_in_the_directory_of_the_shards_are_sealed_too() {
    let place = Place::new();
    let out = place.tree().join("2024");
    fs::create_dir_all(&out).unwrap();
    write(&out.join("a.jpg"), b"precious");
    write(&out.join("diary.journal"), b"dear diary");
    write(&place.tree().join("b.jpg"), b"b");
    let mut options = SealOptions::new(vec![place.tree()], out.clone());
    options.code = Some(code_of("rs:3+2"));
    let unsealed = || {
        let _ = fs::remove_dir_all(place.target());
        let set = SetPaths { name: Some("tree".into()), ..SetPaths::dir(&out) };
        unseal(
            &UnsealOptions { set, target: place.target(), overwrite: false, ..Default::default() },
            &mut Silent,
        )
        .unwrap();
        let names = picture(&place.target()).into_keys().map(|path| path.display().to_string());
        names.filter(|name| !name.is_empty()).collect::<Vec<_>>().join(" ")
    };
    for round in 0..3 {
        let report = seal(&options, &mut Silent).unwrap();
        assert_eq!((report.files, report.skipped.len()), (3, 0), "{round}");
        assert_eq!(unsealed(), "2024 2024/a.jpg 2024/diary.journal b.jpg");
    }
    // Shards of another set in this directory are left out, and reported.
    let other = place.dir.path().join("other");
    write(&other, b"other");
    seal(&SealOptions { sources: vec![other], ..options.clone() }, &mut Silent).unwrap();
    write(&out.join("new"), b"new");
    let report = seal(&options, &mut Silent).unwrap();
    assert_eq!((report.files, report.skipped.len()), (4, 5), "{:?}", report.skipped);
    assert!(report.skipped.iter().all(|path| path.contains("2024/other.0")), "{:?}", report.skipped);
    assert_eq!(unsealed(), "2024 2024/a.jpg 2024/diary.journal 2024/new b.jpg");
}

#[test]
fn a_directory_of_shards_alone_is_no_part_of_the_tree() {
    let place = Place::new();
    let out = place.tree().join("parity");
    fs::create_dir(place.tree()).unwrap();
    write(&place.tree().join("a"), b"a");
    // The directory of the shards is made before, and a clock tick passes: from here on only
    // sealing itself changes the tree.
    fs::create_dir(&out).unwrap();
    tick();
    let mut options = SealOptions::new(vec![place.tree()], out.clone());
    options.code = Some(code_of("rs:3+2"));
    for _ in 0..2 {
        assert_eq!(seal(&options, &mut Silent).unwrap().generation, 1, "nothing changes by sealing");
    }
    unseal(
        &UnsealOptions {
            set: SetPaths::dir(out),
            target: place.target(),
            overwrite: false,
            ..Default::default()
        },
        &mut Silent,
    )
    .unwrap();
    assert!(place.target().join("a").exists() && !place.target().join("parity").exists());
}

/// Exchanges the names of two files of one size and mtime.
fn exchange(place: &Place) {
    let tree = place.tree();
    for (from, to) in [("a", "t"), ("b", "a"), ("t", "b")] {
        fs::rename(tree.join(from), tree.join(to)).unwrap();
    }
}

fn two_files(mode: Mode) -> Place {
    let place = Place::new();
    fs::create_dir(place.tree()).unwrap();
    write(&place.tree().join("a"), &Seed(1).bytes(9000));
    write(&place.tree().join("b"), &Seed(2).bytes(9000));
    let mut options = place.options("rs:3+2");
    options.mode = Some(mode);
    seal(&options, &mut Silent).unwrap();
    place
}

#[test]
fn files_that_were_exchanged_under_the_same_times_are_not_taken_for_unchanged() {
    for mode in [Mode::Full, Mode::Beside] {
        let place = two_files(mode);
        exchange(&place);
        let before = shards(&place.out());
        let again = SealOptions::new(vec![place.tree()], place.out());
        let error = seal(&again, &mut Silent).unwrap_err();
        assert!(
            matches!(error.kind, FaultKind::Suspect) && error.what.starts_with("2 files hold"),
            "{error}"
        );
        assert!(error.to_string().contains("run 'touch "), "{error}");
        assert!(shards(&place.out()) == before, "nothing is written");
        let all = SealOptions { read_all: true, ..again.clone() };
        let report = seal(&all, &mut Silent);
        if mode == Mode::Beside {
            // Both blocks of a stripe lost their old content: parity is computed again if the code
            // tolerates that.
            report.unwrap();
        } else {
            assert_eq!(report.unwrap().changed, 2);
            place.assert_restores();
        }
        assert!(place.verify().clean);
        assert_eq!(seal(&again, &mut Silent).unwrap().source_bytes_read, 0);
    }
}

/// Waits until the clock that stamps files has advanced.
fn tick() {
    std::thread::sleep(Duration::from_millis(20));
}

#[test]
fn a_directory_renamed_into_place_is_not_taken_for_the_one_that_was_sealed() {
    for (mode, swapped) in [(Mode::Full, "a"), (Mode::Beside, "a"), (Mode::Beside, "a/b"), (Mode::Beside, "")]
    {
        let place = Place::new();
        let (tree, new) = (place.tree(), place.dir.path().join("new"));
        for (root, seed) in [(&tree, 1), (&new, 2)] {
            fs::create_dir_all(root.join("a/b")).unwrap();
            write(&root.join("a/b/f"), &Seed(seed).bytes(4000));
        }
        let file = tree.join("a/b/f");
        let want = fs::read(new.join("a/b/f")).unwrap();
        tick();
        let mut options = place.options("rs:3+2");
        options.mode = Some(mode);
        seal(&options, &mut Silent).unwrap();
        tick();
        fs::rename(tree.join(swapped), place.dir.path().join("old")).unwrap();
        fs::rename(new.join(swapped), tree.join(swapped)).unwrap();
        let before = shards(&place.out());
        let error = seal(&place.again(), &mut Silent).unwrap_err();
        assert!(matches!(error.kind, FaultKind::Suspect) && error.path.as_ref() == Some(&file), "{error}");
        assert!(shards(&place.out()) == before, "nothing is written");
        if mode == Mode::Beside {
            let aside = format!("{}.before-heal", file.display());
            // If the source itself was replaced, the user must name its place.
            let sources = if swapped.is_empty() { vec![tree.clone()] } else { Vec::new() };
            let set = SetPaths { disks: at(&sources), ..place.set() };
            let healed = heal(&HealOptions { set, ..Default::default() }, &mut Silent).unwrap();
            assert_eq!(healed.kept_aside, std::slice::from_ref(&aside), "'{swapped}'");
            assert!(fs::read(&aside).unwrap() == want, "'{swapped}'");
        } else {
            let all = SealOptions { read_all: true, ..place.again() };
            assert_eq!(seal(&all, &mut Silent).unwrap().changed, 1);
            place.assert_restores();
        }
    }
}

#[test]
fn shards_from_the_future_do_not_vouch_for_files() {
    let place = two_files(Mode::Beside);
    let later = SystemTime::now() + Duration::from_secs(3600);
    let set_time = |column: usize, time: SystemTime| {
        fs::File::options().write(true).open(place.shard(column)).unwrap().set_modified(time).unwrap();
    };
    (3..5).for_each(|column| set_time(column, later));
    exchange(&place);
    assert!(
        matches!(seal(&place.again(), &mut Silent), Err(Fault { kind: FaultKind::Suspect, what, .. }) if what.starts_with("2 files hold"))
    );
    exchange(&place);
    tick();
    // One shard with a time from a wrong clock is enough.
    set_time(3, SystemTime::now());
    assert_eq!(place.reseal().source_bytes_read, 18_000);
    tick();
    assert_eq!(place.reseal().source_bytes_read, 0);
}

#[test]
fn a_shard_that_was_healed_does_not_look_younger() {
    for mode in [Mode::Full, Mode::Beside] {
        let place = two_files(mode);
        flip(&place.tree().join("a"), 77);
        tick();
        let there: Vec<usize> = (0..5).filter(|&column| place.shard(column).exists()).collect();
        // One header copy of each shard is damaged: all shards are rebuilt, and nothing is lost.
        there.iter().for_each(|&column| flip(&place.shard(column), 100));
        let report = place.heal().unwrap();
        assert_eq!(report.shards_written.len(), there.len(), "{mode:?}");
        match mode {
            Mode::Full => {
                let refused = seal(&place.again(), &mut Silent);
                assert!(
                    matches!(&refused, Err(Fault { kind: FaultKind::Suspect, what, .. }) if what.starts_with("1 file holds")),
                    "{refused:?}"
                );
            }
            Mode::Beside => assert_eq!(report.kept_aside.len(), 1, "what was edited is kept"),
        }
    }
}

/// Runs a function once, as soon as content was read.
struct Meanwhile<F: Fn()>(Cell<Option<F>>);

impl<F: Fn()> Progress for Meanwhile<F> {
    fn phase(&mut self, _: &'static str, _: u64) {}
    fn advance(&mut self, _: u64) {
        if let Some(act) = self.0.take() {
            act();
        }
    }
}

#[test]
fn changes_during_a_seal_are_seen_the_next_time() {
    for mode in [Mode::Full, Mode::Beside] {
        for first in [true, false] {
            let place = Place::new();
            fs::create_dir_all(place.tree()).unwrap();
            write(&place.tree().join("a"), &Seed(1).bytes(9000));
            tick();
            let options = SealOptions { mode: Some(mode), ..place.options("rs:3+2") };
            if !first {
                seal(&options, &mut Silent).unwrap();
                tick();
                write(&place.tree().join("b"), &Seed(2).bytes(50_000));
            }
            tick();
            let change = || {
                flip(&place.tree().join("a"), 5000);
                tick();
            };
            seal(&options, &mut Meanwhile(Cell::new(Some(change)))).unwrap();
            if first {
                // The file was being read, and was read again.
                place.assert_restores();
                continue;
            }
            let refused = seal(&place.again(), &mut Silent);
            assert!(
                matches!(&refused, Err(Fault { kind: FaultKind::Suspect, what, .. }) if what.starts_with("1 file holds")),
                "{mode:?}, {first}: {refused:?}"
            );
        }
    }
}

#[test]
fn changes_during_a_killed_seal_are_seen_the_next_time() {
    let start = two_files(Mode::Full);
    write(&start.tree().join("c"), &Seed(3).bytes(50_000));
    for after in 0.. {
        let place = Place::new();
        fs::create_dir(place.tree()).unwrap();
        fs::create_dir(place.out()).unwrap();
        for name in ["a", "b", "c"] {
            write(&place.tree().join(name), &fs::read(start.tree().join(name)).unwrap());
        }
        tick();
        for column in 0..5 {
            fs::copy(start.shard(column), place.shard(column)).unwrap();
        }
        tick();
        let change = || {
            flip(&place.tree().join("a"), 5000);
            tick();
        };
        let disk = FaultDisk::new(place.dir.path(), Faults { crash_after: Some(after), ..Faults::default() });
        let mut progress = Meanwhile(Cell::new(Some(change)));
        let killed = World { disk: &disk, threads: 1 }.seal(&place.again(), &mut progress);
        if progress.0.take().is_none() {
            let refused = seal(&place.again(), &mut Silent);
            assert!(
                matches!(&refused, Err(Fault { kind: FaultKind::Suspect, what, .. }) if what.starts_with("1 file holds")),
                "{after}: {refused:?}"
            );
        }
        if killed.is_ok() {
            assert!(after > 20);
            break;
        }
    }
}

#[test]
fn files_beside_a_new_one_are_not_read() {
    let place = Place::new();
    let tree = place.tree();
    fs::create_dir_all(tree.join("d")).unwrap();
    fs::create_dir_all(tree.join("e")).unwrap();
    write(&tree.join("top"), &Seed(3).bytes(9000));
    write(&tree.join("d/old"), &Seed(1).bytes(9000));
    write(&tree.join("e/other"), &Seed(2).bytes(9000));
    tick();
    seal(&place.options("rs:3+2"), &mut Silent).unwrap();
    assert_eq!(place.reseal().source_bytes_read, 0);
    for (new, read) in [(&["new"][..], 0), (&["d/new"], 0), (&["newer", "e/new"], 9000)] {
        tick();
        new.iter().for_each(|name| write(&tree.join(name), b""));
        tick();
        let report = place.reseal();
        // A directory and its parent both changed, so the directory may have been renamed to this
        // place.
        let counted = (report.source_bytes_read, report.added, report.removed);
        assert_eq!(counted, (read, new.len() as u64, 0), "{new:?}");
        assert_eq!(place.reseal().source_bytes_read, 0);
    }
}

#[test]
fn files_beside_new_shards_are_not_read_again() {
    let place = Place::new();
    for out in [place.tree(), place.tree().join("parity")] {
        let _ = fs::remove_dir_all(place.tree());
        fs::create_dir_all(out.join("below")).unwrap();
        write(&out.join("a"), &Seed(1).bytes(9000));
        write(&out.join("below/b"), &Seed(2).bytes(9000));
        let mut options = SealOptions::new(vec![place.tree()], out);
        options.code = Some(code_of("rs:3+2"));
        tick();
        for round in 0..3 {
            let report = seal(&options, &mut Silent).unwrap();
            assert_eq!(
                (report.unchanged, report.source_bytes_read > 0),
                (2 * u64::from(round > 0), round == 0)
            );
        }
    }
}

#[test]
fn touched_and_unchanged_files_are_read_once() {
    let place = two_files(Mode::Full);
    for name in ["a", "b"] {
        let path = place.tree().join(name);
        fs::set_permissions(&path, fs::metadata(&path).unwrap().permissions()).unwrap();
    }
    let again = SealOptions::new(vec![place.tree()], place.out());
    let report = seal(&again, &mut Silent).unwrap();
    assert_eq!((report.source_bytes_read, report.changed, report.unchanged), (18_000, 0, 2));
    let report = seal(&again, &mut Silent).unwrap();
    assert_eq!((report.source_bytes_read, report.unchanged), (0, 2));
    let report = seal(&SealOptions { read_all: true, ..again }, &mut Silent).unwrap();
    assert_eq!((report.source_bytes_read, report.changed, report.unchanged), (18_000, 0, 2));
}

#[test]
fn an_edit_that_kept_its_time_is_kept_aside_when_it_is_healed() {
    let place = two_files(Mode::Beside);
    let path = place.tree().join("a");
    let sealed = fs::read(&path).unwrap();
    flip(&path, 77);
    let edited = fs::read(&path).unwrap();
    assert!(edited != sealed && !place.verify().clean);
    let report = place.heal().unwrap();
    let aside = format!("{}.before-heal", path.display());
    assert_eq!((report.files_healed.len(), &report.kept_aside), (1, &vec![aside.clone()]));
    assert!(fs::read(&path).unwrap() == sealed && fs::read(&aside).unwrap() == edited);
    // Existing files at the path of a copy are not overwritten.
    flip(&path, 78);
    let report = place.heal().unwrap();
    assert_eq!(report.kept_aside, [format!("{aside}.1")]);
    assert!(fs::read(&path).unwrap() == sealed && fs::read(&aside).unwrap() == edited);
    assert!(!Path::new(&format!("{aside}.2")).exists());
}

/// Ends the work after this many reports of progress, and watches a directory until then.
struct Ends<'p> {
    left: Cell<u32>,
    dir: &'p Path,
    open: bool,
}

impl Progress for Ends<'_> {
    fn phase(&mut self, _: &'static str, _: u64) {}
    fn advance(&mut self, _: u64) {
        let mode = fs::metadata(self.dir).map_or(0, |meta| meta.permissions().mode());
        self.open |= mode & 0o077 != 0;
        self.left.set(self.left.get().saturating_sub(1));
    }
    fn cancelled(&self) -> bool {
        self.left.get() == 0
    }
}

#[test]
fn an_unseal_that_was_cut_off_and_run_again_restores_modes_and_times_of_directories() {
    let place = Place::new();
    let (tree, target) = (place.tree(), place.target());
    for dir in ["secret", "open/read only"] {
        fs::create_dir_all(tree.join(dir)).unwrap();
        write(&tree.join(dir).join("file"), &Seed(3).bytes(9000));
    }
    write(&tree.join("z"), &Seed(4).bytes(900_000));
    for (dir, mode) in [("secret", 0o700), ("open/read only", 0o555), ("open", 0o755)] {
        fs::set_permissions(tree.join(dir), fs::Permissions::from_mode(mode)).unwrap();
        age(&tree.join(dir), 1_000_000_000);
    }
    seal(&place.options("rs:3+2"), &mut Silent).unwrap();
    let options =
        || UnsealOptions { set: place.set(), target: target.clone(), overwrite: false, ..Default::default() };
    let mut cut_off = 0;
    for after in 1..20 {
        let _ = fs::remove_dir_all(&target);
        let mut ends = Ends { left: Cell::new(after), dir: &target.join("secret"), open: false };
        let first = unseal(&options(), &mut ends);
        assert!(!ends.open, "open to others on the way");
        cut_off += u32::from(first.is_err());
        unseal(&options(), &mut Silent).unwrap();
        let below = |root: &Path| {
            let mut all = picture(root);
            all.remove(Path::new(""));
            all
        };
        assert_eq!(below(&target), below(&tree), "after {after}");
    }
    assert!(cut_off > 2, "{cut_off}");
    // An existing directory of the user keeps its permissions.
    fs::remove_dir_all(&target).unwrap();
    fs::create_dir_all(target.join("open")).unwrap();
    fs::set_permissions(target.join("open"), fs::Permissions::from_mode(0o700)).unwrap();
    unseal(&options(), &mut Silent).unwrap();
    assert_eq!(fs::metadata(target.join("open")).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn existing_files_are_compared_and_not_written() {
    let place = two_files(Mode::Full);
    place.unseal().unwrap();
    let options =
        UnsealOptions { set: place.set(), target: place.target(), overwrite: false, ..Default::default() };
    let before = picture(&place.target());
    let disk = crate::common::fault::FaultDisk::new(place.dir.path(), Default::default());
    let report = World { disk: &disk, threads: 1 }.unseal(&options, &mut Silent).unwrap();
    assert_eq!((report.files, report.already_there), (0, 2));
    assert_eq!(picture(&place.target()), before);
    // One different byte makes it another file, which is not overwritten.
    flip(&place.target().join("b"), 8999);
    let changed = contents_of(&place);
    let error = unseal(&options, &mut Silent).unwrap_err();
    assert!(matches!(&error.kind, FaultKind::NotRestored { why, .. } if why.what.contains("is in the way")));
    assert_eq!(contents_of(&place), changed);
}

fn contents_of(place: &Place) -> Vec<Vec<u8>> {
    ["a", "b"].iter().map(|name| fs::read(place.target().join(name)).unwrap()).collect()
}
