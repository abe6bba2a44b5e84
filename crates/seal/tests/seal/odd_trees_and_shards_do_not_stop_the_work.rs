//! Claims: an odd file, shard or name is reported, and does not stop the work on the others.

use crate::common::fault::{FaultDisk, Faults};
use crate::common::*;
use pantile_seal::*;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

const BODY: u64 = pantile_format::BODY_OFFSET;

fn sealed(code: &str, mode: Mode, checksums: bool) -> Place {
    let place = Place::new();
    awkward_tree(&place.tree(), 9);
    let mut options = place.options(code);
    (options.mode, options.checksums) = (Some(mode), Some(checksums));
    seal(&options, &mut Silent).unwrap();
    place
}

/// Returns the temporary files below a directory, at any depth.
fn strays(root: PathBuf) -> Vec<PathBuf> {
    let is_stray = |path: &PathBuf| path.to_string_lossy().contains(".pantile-");
    picture(&root).into_keys().filter(is_stray).collect()
}

fn stray_of(place: &Place) -> String {
    format!(".pantile-{}.tmp", open_set(&place.set()).unwrap().set)
}

#[test]
fn without_checksums_nothing_corrupt_is_restored_as_if_it_were_right() {
    for code in ["rs:3+2", "dcode:5", "rs:4+4"] {
        let place = sealed(code, Mode::Full, false);
        for (column, stripe) in [(0, 1), (2, 3), (1, 0)] {
            spoil(&place.shard(column), BODY + stripe * 4096 * code_of(code).rows(0) as u64 + 77, 8);
        }
        let report = place.unseal().unwrap();
        assert!(report.blocks_reconstructed > 0 && report.unchecked, "{code}");
        assert_same_trees(&place.tree(), &place.target());
    }
    // With one parity, an error is detected but not located. Only the files in that stripe are not
    // restored.
    let place = sealed("raid5:4", Mode::Full, false);
    flip(&place.shard(2), BODY + 100);
    let Err(Fault { kind: FaultKind::NotRestored { why, report }, .. }) = place.unseal() else {
        panic!("restored")
    };
    assert!(why.what.contains("stripe 0 contradicts"), "{why}");
    assert!(report.files > 0 && report.not_restored_count > 0, "{report:?}");
    assert_eq!(report.files + report.not_restored_count, 10);
    let (tree, target) = (picture(&place.tree()), picture(&place.target()));
    let restored = target.iter().filter(|(_, text)| text.starts_with("file"));
    for (path, text) in restored {
        assert_eq!(tree.get(path), Some(text), "{path:?}");
        assert!(report.not_restored.iter().all(|lost| *path != *lost.path), "{path:?}");
    }
    assert!(!report.blind);
    // A user who knows the wrong shard can omit it.
    let paths = (0..5).filter(|&column| column != 2).map(|column| place.shard(column)).collect();
    let set = SetPaths { paths, ..SetPaths::default() };
    let _ = fs::remove_dir_all(place.target());
    let options = UnsealOptions { set, target: place.target(), overwrite: false, ..Default::default() };
    // Then no spare equation is left, and the report says so.
    assert!(unseal(&options, &mut Silent).unwrap().blind);
    assert_same_trees(&place.tree(), &place.target());
}

#[test]
fn names_of_any_length_are_restored_and_healed() {
    for mode in [Mode::Full, Mode::Beside] {
        let place = Place::new();
        fs::create_dir(place.tree()).unwrap();
        let names: Vec<PathBuf> = [1, 251, 252, 253, 254, 255]
            .into_iter()
            .map(|len| place.tree().join(OsStr::from_bytes(&vec![b'n'; len])))
            .collect();
        for (i, name) in names.iter().enumerate() {
            write(name, &Seed(i as u64).bytes(5000 + i));
        }
        symlink("somewhere", place.tree().join(OsStr::from_bytes(&[b'l'; 255]))).unwrap();
        let mut options = place.options("rs:3+2");
        options.mode = Some(mode);
        seal(&options, &mut Silent).unwrap();
        place.assert_restores();
        for name in &names {
            let content = fs::read(name).unwrap();
            fs::remove_file(name).unwrap();
            if mode == Mode::Beside {
                place.heal().unwrap();
                assert!(fs::read(name).unwrap() == content);
            }
        }
    }
}

#[test]
fn one_file_that_cannot_be_restored_does_not_stop_the_others() {
    let place = sealed("rs:3+2", Mode::Full, true);
    // A directory has the name of the temporary files in one of the directories.
    let deepest = "deep/er/still/deeper/and/deeper";
    fs::create_dir_all(place.target().join(deepest).join(stray_of(&place))).unwrap();
    let options =
        UnsealOptions { set: place.set(), target: place.target(), overwrite: false, ..Default::default() };
    let error = unseal(&options, &mut Silent).unwrap_err();
    let FaultKind::NotRestored { report, .. } = &error.kind else { panic!("{error}") };
    assert_eq!((report.files, report.not_restored_count), (9, 1));
    assert_eq!(report.not_restored[0].path, format!("{deepest}/file"));
    assert!(error.to_string().contains("Paths not restored: 1; files restored: 9"), "{error}");
    for name in ["two blocks", "large", "deep/er/still"] {
        assert!(place.target().join(name).exists(), "{name}");
    }
}

#[test]
fn leftovers_of_killed_commands_are_not_sealed_and_removed_by_heal() {
    for mode in [Mode::Full, Mode::Beside] {
        let place = sealed("rs:3+2", mode, true);
        let set = open_set(&place.set()).unwrap().set;
        for left in [
            place.tree().join(stray_of(&place)),
            place.tree().join("deep/er").join(stray_of(&place)),
            place.out().join(format!(".pantile-{set}.3.tmp")),
            place.out().join("tree.03.shard.tmp"),
        ] {
            fs::write(left, b"half of a file").unwrap();
        }
        // A file with a similar name belongs to the user, and one of another set must not be
        // removed.
        let other = place.tree().join(".pantile-00000000-0000-4000-8000-000000000000.tmp");
        write(&other, b"of another set");
        write(&place.tree().join(".pantile-notes.tmp"), b"mine");
        let report = place.reseal();
        assert_eq!((report.added, report.strays.len()), (1, 3), "{mode:?}");
        assert!(place.verify().files.iter().all(|file| !file.path.contains(&set)));
        let healed = place.heal().unwrap();
        assert_eq!(healed.strays_removed.len(), 3, "{healed:?}");
        assert_eq!(strays(place.tree()).len(), 2);
        assert!(other.exists() && strays(place.out()).is_empty());
        assert!(!place.out().join("tree.03.shard.tmp").exists());
        place.unseal().unwrap();
        assert_eq!(fs::read(place.target().join(".pantile-notes.tmp")).unwrap(), b"mine");
    }
}

#[test]
fn a_shard_that_cannot_be_opened_is_missing_with_its_reason_and_the_work_goes_on() {
    type Spoil = fn(&Place) -> &'static str;
    let spoils: [Spoil; 3] = [
        |place| {
            fs::remove_file(place.shard(1)).unwrap();
            symlink(place.dir.path().join("nowhere/x"), place.shard(1)).unwrap();
            "the link leads to"
        },
        |place| {
            fs::remove_file(place.shard(1)).unwrap();
            fs::create_dir(place.shard(1)).unwrap();
            "it is a directory"
        },
        |place| {
            fs::remove_file(place.shard(1)).unwrap();
            symlink(place.shard(1), place.shard(1)).unwrap();
            "it cannot be opened"
        },
    ];
    for (i, spoil) in spoils.into_iter().enumerate() {
        let place = sealed("rs:3+2", Mode::Full, true);
        let reason = spoil(&place);
        let disk = FaultDisk::new(place.dir.path(), Faults::default());
        let world = World { disk: &disk, threads: 1 };
        let info = world.open_set(&place.set()).unwrap();
        let ShardStatus::Unreadable { reason: found } = &info.shards[1].status else { panic!("{info:?}") };
        assert!(found.contains(reason), "{i}: {found}");
        let options = VerifyOptions { set: place.set(), ..Default::default() };
        let found = world.verify(&options, &mut Silent).unwrap();
        assert!(!found.clean && found.recoverable && found.needs_heal, "{i}");
        let options = UnsealOptions {
            set: place.set(),
            target: place.target(),
            overwrite: false,
            ..Default::default()
        };
        world.unseal(&options, &mut Silent).unwrap();
        assert_same_trees(&place.tree(), &place.target());
        let again = world.seal(&SealOptions::new(vec![place.tree()], place.out()), &mut Silent).unwrap_err();
        assert!(again.to_string().contains("columns 1 cannot be used"), "{again}");
        // The other shards are healed. The obstacle is named, and left in place.
        flip(&place.shard(4), BODY + 9);
        let options = HealOptions { set: place.set(), ..Default::default() };
        match world.heal(&options, &mut Silent) {
            Ok(report) => panic!("{i}: {report:?}"),
            Err(Fault { kind: FaultKind::NotHealed(report), .. }) => {
                assert_eq!((report.not_healed.len(), report.shards_written.len()), (1, 1), "{i}");
            }
            Err(error) => panic!("{i}: {error}"),
        }
        assert!(fs::symlink_metadata(place.shard(1)).is_ok(), "{i}");
        let elsewhere = place.dir.path().join("elsewhere");
        let options = HealOptions { set: place.set(), out: Some(elsewhere.clone()), ..Default::default() };
        world.heal(&options, &mut Silent).unwrap();
        assert!(elsewhere.join("tree.01.shard").exists(), "{i}");
        assert_eq!(strays(place.dir.path().to_path_buf()), Vec::<PathBuf>::new());
    }
    // If no shard can be opened, the error gives the first reason.
    let place = Place::new();
    fs::create_dir_all(place.shard(0)).unwrap();
    let error = open_set(&place.set()).unwrap_err().to_string();
    assert!(error.contains("it is a directory") && error.contains("one good shard"), "{error}");
}

/// A command that named one directory twice was once kept out by its own lock.
#[test]
fn a_directory_that_is_named_by_two_paths_is_one() {
    let place = sealed("rs:3+2", Mode::Full, true);
    let link = place.dir.path().join("link");
    symlink(place.out(), &link).unwrap();
    let dotted = place.dir.path().join("target/../out/.");
    fs::create_dir(place.target()).unwrap();
    for paths in [
        vec![place.out(), dotted.clone()],
        vec![place.out(), place.shard(0), dotted.join("tree.00.shard")],
        vec![link.clone(), place.out()],
        vec![link.join("tree.01.shard"), place.out(), dotted],
    ] {
        fs::remove_file(place.shard(1)).unwrap();
        let is_there = |path: &PathBuf| path.exists();
        let set = SetPaths { paths: paths.into_iter().filter(is_there).collect(), ..SetPaths::default() };
        assert_eq!(open_set(&set).unwrap().shards.len(), 5);
        let healed = heal(&HealOptions { set: set.clone(), ..Default::default() }, &mut Silent).unwrap();
        assert_eq!(healed.shards_written.len(), 1);
        let found = verify(&VerifyOptions { set, ..Default::default() }, &mut Silent).unwrap();
        assert!(found.clean, "{found:?}");
    }
    // If another command works there, the lock still keeps this one out.
    let lock = fs::File::create(place.out().join(".pantile.lock")).unwrap();
    lock.lock().unwrap();
    let set = SetPaths { paths: vec![link, place.out()], ..SetPaths::default() };
    let options = HealOptions { set, ..Default::default() };
    assert!(matches!(heal(&options, &mut Silent), Err(Fault { kind: FaultKind::Busy, .. })));
}

/// Moves each of five shards to a separate directory, under the name that `name` returns.
fn to_disks(place: &Place, name: impl Fn(usize) -> OsString) -> Vec<PathBuf> {
    let disks: Vec<PathBuf> = (0..5).map(|i| place.dir.path().join(format!("disk{i}"))).collect();
    for (column, disk) in disks.iter().enumerate() {
        fs::create_dir(disk).unwrap();
        fs::rename(place.shard(column), disk.join(name(column))).unwrap();
    }
    disks
}

#[test]
fn a_shard_behind_a_link_is_changed_and_healed_where_it_lies() {
    let place = sealed("rs:3+2", Mode::Full, true);
    let disks = to_disks(&place, |column| format!("of column {column}").into());
    for (column, disk) in disks.iter().enumerate() {
        let shard = disk.join(format!("of column {column}"));
        // One link is relative, and one leads to another link.
        match column {
            0 => symlink("../disk0/of column 0", place.shard(0)).unwrap(),
            1 => {
                symlink(&shard, disk.join("link")).unwrap();
                symlink(disk.join("link"), place.shard(1)).unwrap();
            }
            _ => symlink(&shard, place.shard(column)).unwrap(),
        }
    }
    let is_link = |column: usize| fs::symlink_metadata(place.shard(column)).unwrap().is_symlink();
    write(&place.tree().join("one more"), b"more");
    place.reseal();
    assert!(place.verify().clean);
    for (column, disk) in disks.iter().enumerate() {
        let shard = disk.join(format!("of column {column}"));
        flip(&shard, BODY + 10);
        let healed = place.heal().unwrap();
        assert_eq!(healed.shards_written.len(), 1);
        assert!(is_link(column) && place.verify().clean, "{column}");
    }
    place.assert_restores();
    // A link has no target, but its disk exists: the shard is rebuilt at the target if the target
    // has the shard's name.
    for (column, disk) in disks.iter().enumerate() {
        fs::remove_file(disk.join(format!("of column {column}"))).unwrap();
        fs::remove_file(place.shard(column)).unwrap();
        let own = place.shard(column).file_name().unwrap().to_os_string();
        let to = if column < 4 { disk.join(own) } else { disk.join("something else") };
        symlink(&to, place.shard(column)).unwrap();
        place.heal().unwrap();
        assert!(is_link(column) == (column < 4) && place.verify().clean, "{column}");
        assert!(to.exists() == (column < 4));
    }
    // A link to a shard of another set is moved aside; that shard is not changed.
    let other = sealed("rs:3+2", Mode::Full, true);
    let foreign = fs::read(other.shard(2)).unwrap();
    fs::remove_file(place.shard(2)).unwrap();
    symlink(other.shard(2), place.shard(2)).unwrap();
    place.heal().unwrap();
    assert!(place.verify().clean && !is_link(2));
    assert!(fs::read(other.shard(2)).unwrap() == foreign);
}

/// Runs a function once, as soon as work is under way.
struct Meanwhile<F: FnMut()>(Option<F>);

impl<F: FnMut()> Progress for Meanwhile<F> {
    fn phase(&mut self, _: &'static str, _: u64) {}
    fn advance(&mut self, _: u64) {
        if let Some(mut act) = self.0.take() {
            act();
        }
    }
}

/// Runs a function at every report of progress.
struct Always<F: FnMut()>(F);

impl<F: FnMut()> Progress for Always<F> {
    fn phase(&mut self, _: &'static str, _: u64) {}
    fn advance(&mut self, _: u64) {
        (self.0)();
    }
}

#[test]
fn commands_on_links_and_on_their_shards_exclude_each_other() {
    let place = sealed("rs:3+2", Mode::Full, true);
    let name = |column: usize| place.shard(column).file_name().unwrap().to_os_string();
    let disks = to_disks(&place, name);
    for (column, disk) in disks.iter().enumerate() {
        symlink(disk.join(name(column)), place.shard(column)).unwrap();
    }
    let real = SetPaths { paths: disks.clone(), ..SetPaths::default() };
    let read = VerifyOptions { set: real.clone(), ..Default::default() };
    let write_real = HealOptions { set: real.clone(), ..Default::default() };
    let (mut seen, mut healed) = (None, None);
    let mut meanwhile = Meanwhile(Some(|| {
        seen = Some(verify(&read, &mut Silent));
        healed = Some(heal(&write_real, &mut Silent));
    }));
    write(&place.tree().join("one more"), &Seed(5).bytes(50_000));
    seal(&place.again(), &mut meanwhile).unwrap();
    assert!(matches!(seen, Some(Err(Fault { kind: FaultKind::Busy, .. }))), "{seen:?}");
    assert!(matches!(healed, Some(Err(Fault { kind: FaultKind::Busy, .. }))), "{healed:?}");
    // If the reader comes first, the writer does not wait for it, and the reader detects the
    // change. Readers do not exclude each other.
    let (mut sealed, mut seen) = (None, None);
    write(&place.tree().join("two more"), &Seed(6).bytes(50_000));
    let mut meanwhile = Meanwhile(Some(|| {
        sealed = Some(seal(&place.again(), &mut Silent));
        seen = Some(verify(&VerifyOptions { set: place.set(), ..Default::default() }, &mut Silent));
    }));
    let read_first = verify(&read, &mut meanwhile);
    assert!(matches!(read_first, Err(Fault { kind: FaultKind::Busy, .. })), "{read_first:?}");
    assert!(sealed.unwrap().is_ok());
    assert!(seen.unwrap().unwrap().clean);
    let (mut seen, mut all) = (None, 0);
    let mut meanwhile = Meanwhile(Some(|| seen = Some(verify(&read, &mut Silent).unwrap().clean)));
    all += usize::from(verify(&read, &mut meanwhile).unwrap().clean);
    assert_eq!((seen, all), (Some(true), 1));
    // A command that restores into the directory of a shard does not lock itself out.
    let options =
        UnsealOptions { set: place.set(), target: disks[3].clone(), overwrite: false, ..Default::default() };
    unseal(&options, &mut Silent).unwrap();
}

/// Two commands that healed to one directory, or restored to one with shards, once wrote to the
/// same temporary file.
#[test]
fn two_that_write_to_one_directory_keep_each_other_out() {
    let place = sealed("rs:3+2", Mode::Full, true);
    let copies = ["one", "two"].map(|name| place.dir.path().join(name));
    for copy in &copies {
        fs::create_dir(copy).unwrap();
        for column in 0..4 {
            let shard = place.shard(column);
            fs::copy(&shard, copy.join(shard.file_name().unwrap())).unwrap();
        }
    }
    let new = place.dir.path().join("new");
    let heal_from = |copy: &PathBuf| HealOptions {
        set: SetPaths::dir(copy),
        out: Some(new.clone()),
        ..Default::default()
    };
    // The directory exists, or the first command creates it.
    fs::create_dir(&new).unwrap();
    for is_there in [true, false] {
        if !is_there {
            fs::remove_dir_all(&new).unwrap();
        }
        let mut second = None;
        // The second command begins as soon as the directory exists, while the first one is at
        // work.
        let mut meanwhile = Always(|| {
            if second.is_none() && new.exists() {
                second = Some(heal(&heal_from(&copies[1]), &mut Silent));
            }
        });
        let first = heal(&heal_from(&copies[0]), &mut meanwhile).unwrap();
        assert_eq!(first.shards_written.len(), 1, "{is_there}");
        let busy = |fault: &Fault| matches!(fault.kind, FaultKind::Busy) && fault.path.as_ref() == Some(&new);
        assert!(second.as_ref().is_some_and(|done| done.as_ref().is_err_and(busy)), "{second:?}");
        let whole = SetPaths { paths: vec![copies[0].clone(), new.clone()], ..SetPaths::default() };
        assert!(verify(&VerifyOptions { set: whole, ..Default::default() }, &mut Silent).unwrap().clean);
        // Afterwards the lock is free, and the content of the directory was not changed.
        let again = heal(&heal_from(&copies[1]), &mut Silent);
        assert!(matches!(again, Err(Fault { kind: FaultKind::NotHealed(_), .. })), "{again:?}");
    }
    let options =
        UnsealOptions { set: place.set(), target: place.out(), overwrite: false, ..Default::default() };
    let (mut second, mut read) = (None, None);
    let mut meanwhile = Meanwhile(Some(|| {
        second = Some(unseal(&options, &mut Silent));
        read = Some(verify(&VerifyOptions { set: place.set(), ..Default::default() }, &mut Silent));
    }));
    unseal(&options, &mut meanwhile).unwrap();
    assert!(matches!(second, Some(Err(Fault { kind: FaultKind::Busy, .. }))), "{second:?}");
    assert!(matches!(read, Some(Err(Fault { kind: FaultKind::Busy, .. }))), "{read:?}");
    assert!(unseal(&options, &mut Silent).unwrap().already_there > 0);
}

#[test]
fn a_good_shard_under_the_name_of_a_lost_one_is_not_replaced() {
    let place = sealed("raid6:4", Mode::Full, true);
    let whole = shards(&place.out());
    // Shard 4 has the name of 2, and 3 has that of 4: they get their names back one after the
    // other.
    fs::remove_file(place.shard(2)).unwrap();
    fs::rename(place.shard(4), place.shard(2)).unwrap();
    fs::rename(place.shard(3), place.shard(4)).unwrap();
    let report = place.heal().unwrap();
    assert_eq!(report.shards_written.len(), 1);
    assert!(shards(&place.out()) == whole);
    // A file that is not a shard has the name of shard 4: it is reported, and not replaced.
    fs::remove_file(place.shard(2)).unwrap();
    fs::rename(place.shard(4), place.shard(2)).unwrap();
    fs::write(place.shard(4), b"somebody's").unwrap();
    let good = fs::read(place.shard(2)).unwrap();
    let Err(Fault { kind: FaultKind::NotHealed(report), .. }) = place.heal() else { panic!("healed") };
    assert!(report.not_healed[0].reason.contains("column 4 has this name"), "{report:?}");
    assert!(fs::read(place.shard(2)).unwrap() == good);
    // A broken shard has replaced another one and has its name: both are rebuilt under their own
    // names.
    let place = sealed("raid6:4", Mode::Full, true);
    let whole = shards(&place.out());
    fs::File::options().write(true).open(place.shard(1)).unwrap().set_len(10_000).unwrap();
    fs::rename(place.shard(1), place.shard(3)).unwrap();
    assert_eq!(place.heal().unwrap().shards_written.len(), 2);
    assert!(shards(&place.out()) == whole);
    // Two links lead to one file, which cannot be two shards, however often heal is run.
    let one = place.dir.path().join("one");
    fs::rename(place.shard(0), &one).unwrap();
    fs::remove_file(place.shard(5)).unwrap();
    [0, 5].into_iter().for_each(|column| symlink(&one, place.shard(column)).unwrap());
    let first = fs::read(&one).unwrap();
    let Err(Fault { kind: FaultKind::NotHealed(report), .. }) = place.heal() else { panic!("healed") };
    assert_eq!((report.shards_written.len(), report.not_healed.len()), (0, 1));
    assert!(report.not_healed[0].reason.contains("where the shard of column 0 lies"), "{report:?}");
    assert!(fs::read(&one).unwrap() == first);
}

#[test]
fn a_shard_that_is_healed_elsewhere_takes_nobodys_place() {
    let place = sealed("rs:3+2", Mode::Full, true);
    let other = sealed("rs:3+2", Mode::Full, true);
    let theirs = shards(&other.out());
    fs::remove_file(place.shard(2)).unwrap();
    let to = |dir: PathBuf| HealOptions { set: place.set(), out: Some(dir), ..Default::default() };
    let refused = heal(&to(other.out()), &mut Silent);
    let Err(Fault { kind: FaultKind::NotHealed(report), .. }) = refused else { panic!("{refused:?}") };
    assert!(report.not_healed[0].reason.contains("another directory"), "{report:?}");
    assert!(shards(&other.out()) == theirs && other.verify().clean);
    // In the directory of the set's own shards, a foreign shard is moved aside, whichever path
    // names that directory.
    fs::copy(other.shard(2), place.shard(2)).unwrap();
    let report = heal(&to(place.out().join(".")), &mut Silent).unwrap();
    assert!(fs::read(&report.moved_aside[0].to).unwrap() == fs::read(other.shard(2)).unwrap());
    assert!(place.verify().clean);
    fs::remove_file(place.shard(2)).unwrap();
    let elsewhere = place.dir.path().join("elsewhere");
    assert_eq!(heal(&to(elsewhere), &mut Silent).unwrap().shards_written.len(), 1);
}

#[test]
fn the_command_that_adds_a_source_to_a_set_is_printed() {
    let place = Place::new();
    let disks = ["one", "two", "new disk"].map(|name| place.dir.path().join(name));
    for disk in &disks {
        fs::create_dir(disk).unwrap();
        write(&disk.join("file"), disk.as_os_str().as_encoded_bytes());
    }
    let of = |disks: &[PathBuf]| SealOptions::new(disks.to_vec(), place.out());
    let first = SealOptions { mode: Some(Mode::Beside), code: Some(code_of("raid6:2")), ..of(&disks[..2]) };
    seal(&first, &mut Silent).unwrap();
    let text = seal(&of(&disks[2..]), &mut Silent).unwrap_err().to_string();
    let [one, two, new] = disks.each_ref().map(|disk| disk.display().to_string().replace(' ', "\\ "));
    let command = format!("pantile seal {one} {two} {new} --out {} --name one'", place.out().display());
    assert!(text.contains(&command), "{text}");
    let all = SealOptions { name: Some("one".into()), ..of(&disks) };
    assert_eq!(seal(&all, &mut Silent).unwrap().files, 3);
}

#[test]
fn shards_that_were_moved_are_asked_for_where_sealing_looks_for_them() {
    let place = sealed("rs:3+2", Mode::Full, true);
    let disk = |column: usize| place.dir.path().join(format!("disk{column}"));
    let again = || seal(&SealOptions::new(vec![place.tree()], place.out()), &mut Silent);
    for column in 0..5 {
        fs::create_dir(disk(column)).unwrap();
        fs::rename(place.shard(column), disk(column).join(place.shard(column).file_name().unwrap())).unwrap();
        let text = again().unwrap_err().to_string();
        let out = place.out().display().to_string();
        assert!(text.contains("a symbolic link") && text.contains(&out), "{column}: {text}");
        assert!((column == 4) == text.contains("there is no set named 'tree'"), "{column}: {text}");
        assert!((column == 2) == text.contains("columns 0-2 are not in"), "{column}: {text}");
    }
    // The links are made as the error proposes.
    for column in 0..5 {
        symlink(disk(column).join(place.shard(column).file_name().unwrap()), place.shard(column)).unwrap();
    }
    write(&place.tree().join("one more"), b"more");
    again().unwrap();
    let paths = (0..5).map(disk).chain([place.out()]).collect();
    let set = SetPaths { paths, ..SetPaths::default() };
    let found = verify(&VerifyOptions { set, ..Default::default() }, &mut Silent).unwrap();
    assert!(found.clean && found.superfluous.is_empty(), "{found:?}");
}

/// Rotates the names of some shards: the first gets the name of the second, and so on; the last
/// gets that of the first.
fn rotate_names(place: &Place, columns: &[usize]) {
    let aside = place.dir.path().join("aside");
    let last = columns.len() - 1;
    fs::rename(place.shard(columns[last]), &aside).unwrap();
    for i in (0..last).rev() {
        fs::rename(place.shard(columns[i]), place.shard(columns[i + 1])).unwrap();
    }
    fs::rename(&aside, place.shard(columns[0])).unwrap();
}

#[test]
fn shards_that_bear_the_names_of_others_are_named_and_get_their_own_back() {
    for code in ["rs:3+2", "dcode:5"] {
        let place = sealed(code, Mode::Full, true);
        let whole = shards(&place.out());
        rotate_names(&place, &[0, 1]);
        rotate_names(&place, &[2, 4, 3]);
        let found = place.verify();
        assert!(!found.clean && found.needs_heal && found.recoverable, "{found:?}");
        for (column, shard) in found.shards.iter().enumerate() {
            assert_eq!(shard.misnamed, Some(place.shard(column).display().to_string()));
            assert_eq!(shard.status, ShardStatus::Good);
        }
        let healed = place.heal().unwrap();
        assert_eq!((healed.shards_renamed.len(), healed.shards_written.len()), (5, 0), "{healed:?}");
        assert!(shards(&place.out()) == whole && place.verify().clean);
        // Sealing again gives the names back too, unless the set must be healed first.
        rotate_names(&place, &[0, 3, 2]);
        write(&place.tree().join("one more"), b"more");
        place.reseal();
        assert!(place.verify().clean);
        fs::remove_file(place.shard(1)).unwrap();
        fs::remove_file(place.shard(2)).unwrap();
        place.assert_restores();
    }
}

#[test]
fn a_copy_beside_a_shard_is_named_and_hides_nothing() {
    let place = sealed("rs:3+2", Mode::Full, true);
    let whole = shards(&place.out());
    let copy = place.out().join("tree.03 (copy).shard");
    fs::copy(place.shard(3), &copy).unwrap();
    let found = place.verify();
    assert!(found.clean && found.superfluous.len() == 1, "{found:?}");
    assert_eq!((found.superfluous[0].column, &found.superfluous[0].status), (3, &ShardStatus::Good));
    assert_eq!(found.superfluous[0].path, copy.display().to_string());
    assert_eq!(found.shards[3].path, place.shard(3).display().to_string());
    // Damage of a shard counts as damage, even if a copy of the shard is intact.
    for spoil in [0, BODY + 4096] {
        use std::os::unix::fs::FileExt;
        let file = fs::File::options().write(true).open(place.shard(3)).unwrap();
        file.write_all_at(&[0; 8192], spoil).unwrap();
        let found = place.verify();
        assert!(!found.clean && found.needs_heal, "{spoil}: {found:?}");
        assert_eq!(found.shards[3].path, place.shard(3).display().to_string());
        let again = seal(&SealOptions::new(vec![place.tree()], place.out()), &mut Silent);
        assert!(spoil > 0 || matches!(again, Err(Fault { kind: FaultKind::NeedsHeal, .. })), "{again:?}");
        assert_eq!(place.heal().unwrap().shards_written, [place.shard(3).display().to_string()]);
        fs::rename(&copy, place.dir.path().join("kept")).unwrap();
        assert!(shards(&place.out()) == whole, "{spoil}");
        fs::rename(place.dir.path().join("kept"), &copy).unwrap();
    }
    // More is lost than the code tolerates, but the copy has the content of one shard.
    for column in [0, 1] {
        fs::remove_file(place.shard(column)).unwrap();
    }
    fs::write(place.shard(3), b"no header").unwrap();
    place.assert_restores();
    place.heal().unwrap();
    // The copy does not hinder sealing, after which it is of an older state.
    write(&place.tree().join("one more"), b"more");
    place.reseal();
    let found = place.verify();
    assert!(found.clean, "{found:?}");
    assert_eq!(found.superfluous[0].status, ShardStatus::Stale { generation: 1 });
    // If the journal would confuse a copy with the shard, sealing is refused.
    fs::copy(place.shard(3), place.out().join("tree.3.shard")).unwrap();
    let error = seal(&SealOptions::new(vec![place.tree()], place.out()), &mut Silent).unwrap_err();
    assert!(error.to_string().contains("tree.3.shard is called like a shard of the set"), "{error}");
    // A link to the shard itself does not count as a copy.
    fs::remove_file(place.out().join("tree.3.shard")).unwrap();
    fs::remove_file(&copy).unwrap();
    symlink(place.shard(3), place.out().join("link.shard")).unwrap();
    assert!(place.verify().superfluous.is_empty());
}

#[test]
fn a_copy_in_the_place_of_a_lost_shard_is_moved_aside() {
    let place = sealed("rs:3+2", Mode::Full, true);
    let whole = shards(&place.out());
    for round in 0..2 {
        fs::copy(place.shard(1), place.shard(0)).unwrap();
        let found = place.verify();
        assert_eq!((found.shards[0].status.clone(), found.superfluous.len()), (ShardStatus::Missing, 1));
        let moved = place.heal().unwrap().moved_aside;
        assert_eq!((moved.len(), &moved[0].from), (1, &place.shard(0).display().to_string()));
        assert!(fs::exists(&moved[0].to).unwrap(), "{moved:?}");
        let after = shards(&place.out());
        assert_eq!(after.len(), 6 + round);
        for (name, content) in &whole {
            assert!(after.get(name) == Some(content), "{name:?}");
        }
        let aside = after.iter().filter(|(name, _)| name.to_string_lossy().contains(".of-column-1"));
        assert!(aside.clone().count() == 1 + round);
        assert!(
            aside.into_iter().all(|(_, content)| *content == whole[std::path::Path::new("tree.01.shard")])
        );
        assert!(place.verify().clean);
    }
}

#[test]
fn a_file_that_was_touched_beside_its_parity_asks_for_sealing_not_for_healing() {
    let place = sealed("rs:3+2", Mode::Beside, true);
    age(&place.tree().join("large"), 1_700_000_000);
    let found = place.verify();
    assert!(
        (found.clean, found.recoverable, found.needs_heal, found.needs_seal) == (false, true, false, true)
    );
    let healed = place.heal().unwrap();
    assert_eq!((healed.left_changed, healed.shards_written.len()), (vec!["large".to_string()], 0));
    // With damage as well, both are reported.
    flip(&place.shard(4), BODY + 10);
    let found = place.verify();
    assert!(found.needs_heal && found.needs_seal);
    place.heal().unwrap();
    place.reseal();
    let found = place.verify();
    assert!(found.clean && !found.needs_heal && !found.needs_seal);
}

#[test]
fn beside_its_parity_any_one_file_comes_back_after_a_long_life_unless_it_is_named() {
    for (code, seeds) in [("rs:6+2", 12), ("raid5:4", 6), ("dcode:5", 4)] {
        for seed in 0..seeds {
            let place = Place::new();
            fs::create_dir(place.tree()).unwrap();
            let mut seed = Seed(seed);
            let path = |i: u64| place.tree().join(format!("f{i}"));
            let mut time = 1_610_000_000;
            let mut put = |seed: &mut Seed, i: u64, most: u64| {
                time += 1;
                let len = seed.below(most * 4096) as usize;
                write(&path(i), &seed.bytes(len));
                age(&path(i), time);
            };
            (0..14).for_each(|i| put(&mut seed, i, 6));
            let mut options = place.options(code);
            options.mode = Some(Mode::Beside);
            seal(&options, &mut Silent).unwrap();
            for _ in 0..6 {
                for _ in 0..3 {
                    let _ = fs::remove_file(path(seed.below(14)));
                    let i = seed.below(14);
                    put(&mut seed, i, 9);
                }
                place.reseal();
            }
            let found = place.verify();
            assert!(found.clean, "{code}: {found:?}");
            assert_eq!(found.exposed_count as usize, found.exposed.len());
            // A file has at most nine blocks, and two columns have at least five stripes: so its
            // blocks fit into different stripes.
            assert!(code != "rs:6+2" || (found.stripes >= 5 && found.exposed.is_empty()), "{found:?}");
            let mut came_back = 0;
            for i in 0..14 {
                let Ok(content) = fs::read(path(i)) else { continue };
                fs::remove_file(path(i)).unwrap();
                let healed = place.heal().is_ok();
                let named = found.exposed.contains(&format!("f{i}"));
                assert_eq!(healed, !named, "{code}: f{i}, exposed {:?}", found.exposed);
                came_back += u64::from(healed);
                if !healed {
                    write(&path(i), &content);
                    place.reseal();
                }
            }
            assert!(came_back > 3, "{code}: {came_back}");
        }
    }
    // A single file shares its stripes with no other file.
    let place = Place::new();
    fs::create_dir(place.tree()).unwrap();
    write(&place.tree().join("film"), &Seed(1).bytes(100_000));
    let mut options = place.options("raid6:4");
    options.mode = Some(Mode::Beside);
    assert_eq!(seal(&options, &mut Silent).unwrap().exposed, ["film"]);
    assert_eq!(open_set(&place.set()).unwrap().exposed_count, 1);
}

#[test]
fn a_source_that_is_named_and_not_there_is_refused_and_one_that_is_gone_is_said() {
    for mode in [Mode::Full, Mode::Beside] {
        let place = sealed("rs:3+2", mode, true);
        let moved = place.dir.path().join("moved");
        let set = || SetPaths { disks: at(std::slice::from_ref(&moved)), ..place.set() };
        let options = VerifyOptions { set: set(), ..Default::default() };
        let error = verify(&options, &mut Silent).unwrap_err();
        assert!(matches!(error.kind, FaultKind::NoSource) && error.path.as_ref() == Some(&moved), "{error}");
        let options = HealOptions { set: set(), ..Default::default() };
        assert!(heal(&options, &mut Silent).is_err());
        assert!(!moved.exists());
        fs::rename(place.tree(), &moved).unwrap();
        let found = verify(&VerifyOptions { set: set(), ..Default::default() }, &mut Silent).unwrap();
        assert!(found.clean && found.sources_seen && found.sources_missing.is_empty());
        let found = place.verify();
        assert_eq!(found.sources_missing, [place.tree().display().to_string()]);
        assert_eq!(found.sources_seen, mode == Mode::Beside);
    }
}

#[test]
fn losses_beside_the_files_name_the_files_and_shards_that_would_help() {
    let place = Place::new();
    fs::create_dir(place.tree()).unwrap();
    for name in ["a", "b", "c", "d"] {
        write(&place.tree().join(name), &Seed(name.len() as u64).bytes(8 * 4096));
    }
    let mut options = place.options("rs:4+2");
    options.mode = Some(Mode::Beside);
    seal(&options, &mut Silent).unwrap();
    fs::remove_file(place.tree().join("a")).unwrap();
    fs::remove_file(place.tree().join("b")).unwrap();
    fs::remove_file(place.shard(5)).unwrap();
    let error = place.heal().unwrap_err().to_string();
    assert!(error.contains("bring back any 1 of a, b, shard 5"), "{error}");
}

#[test]
fn losses_of_a_code_whose_columns_differ_name_sets_that_are_enough() {
    for (code, lost) in [("lrc:12,2,2", 8), ("shec:12,6,4", 14), ("lrc:6,2,2", 7)] {
        let place = sealed(code, Mode::Full, true);
        (0..lost).for_each(|column| fs::remove_file(place.shard(column)).unwrap());
        let Err(Fault { kind: FaultKind::TooMuchLost { losses, .. }, .. }) = place.heal() else {
            panic!("{code}")
        };
        assert!(losses.bring_back > 0 && losses.enough_count > 0, "{code}: {losses:?}");
        let text = losses.to_string();
        let sentence = format!("bring back {}", losses.bring_back);
        assert!(text.contains(&sentence) || losses.any, "{code}: {text}");
        // The advice is right: with these shards back, the others are healed.
        let whole = sealed(code, Mode::Full, true);
        let back: Vec<u64> = losses.enough[0].clone();
        assert_eq!(back.len() as u64, losses.bring_back, "{code}");
        for column in (0..lost).filter(|column| !back.contains(&(*column as u64))) {
            fs::remove_file(whole.shard(column)).unwrap();
        }
        whole.heal().unwrap();
    }
}

/// A program that ran as its owner must not run as the user who heals or unseals it.
#[test]
fn a_setuid_bit_is_kept_with_modes_alone_and_never_given() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    fs::create_dir(place.tree()).unwrap();
    let (gone, rotten) = (place.tree().join("gone"), place.tree().join("rotten"));
    for path in [&gone, &rotten] {
        write(path, &Seed(3).bytes(5000));
        fs::set_permissions(path, fs::Permissions::from_mode(0o4755)).unwrap();
    }
    let mut options = place.options("rs:3+2");
    options.mode = Some(Mode::Beside);
    seal(&options, &mut Silent).unwrap();
    fs::remove_file(&gone).unwrap();
    let mode = fs::metadata(&rotten).unwrap().permissions();
    let rot_again = || {
        flip(&rotten, 99);
        fs::set_permissions(&rotten, mode.clone()).unwrap();
    };
    rot_again();
    place.heal().unwrap();
    let bits = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((bits(&gone), bits(&rotten)), (0o755, 0o755));
    rot_again();
    heal(&HealOptions { set: place.set(), modes: true, ..Default::default() }, &mut Silent).unwrap();
    assert_eq!(bits(&rotten), 0o4755);
    assert_eq!(fs::read(&gone).unwrap(), fs::read(&rotten).unwrap());
}

/// A path can be created step by step that is too long for any system to open at once.
#[test]
fn a_path_that_no_system_opens_is_left_out_and_said() {
    use rustix::fs::{AtFlags, Mode as Bits, OFlags, mkdirat, openat, unlinkat};
    let place = Place::new();
    fs::create_dir_all(place.tree()).unwrap();
    write(&place.tree().join("a"), b"sealed all the same");
    let name = "n".repeat(250);
    let open =
        |dir: &std::os::fd::OwnedFd, name: &str| openat(dir, name, OFlags::DIRECTORY, Bits::empty()).unwrap();
    let mut dirs = vec![std::os::fd::OwnedFd::from(fs::File::open(place.tree()).unwrap())];
    for _ in 0..20 {
        let dir = dirs.last().unwrap();
        mkdirat(dir, name.as_str(), Bits::from_raw_mode(0o755)).unwrap();
        dirs.push(open(dir, &name));
    }
    let report = seal(&place.options("raid5:2"), &mut Silent).unwrap();
    assert_eq!((report.files, report.too_long_count, report.too_long.len()), (1, 1, 1));
    assert!(report.too_long[0].len() > 4095);
    let again = place.reseal();
    assert_eq!((again.unchanged, again.too_long_count), (1, 1));
    place.unseal().unwrap();
    assert_eq!(fs::read(place.target().join("a")).unwrap(), b"sealed all the same");
    // The path is too long to be removed in one step.
    for dir in dirs.iter().rev().skip(1) {
        unlinkat(dir, name.as_str(), AtFlags::REMOVEDIR).unwrap();
    }
}
