//! Claim: a file or directory that a user moved to where it is, which her own directories let her
//! do with what is root's or a third user's, is neither written to for her, nor told to her, nor
//! given what she wants; nor is what is exchanged while a command runs.

use crate::common::users::{give_to as give, is_root, mode_of, set_mode};
use crate::common::*;
use pantile_seal::*;
use rustix::fs::{CWD, RenameFlags, XattrFlags, renameat_with, setxattr};
use std::fs;
use std::os::unix::fs::{MetadataExt, chown, lchown};
use std::path::{Path, PathBuf};

/// Any user but root, and another.
const SHE: u32 = 65534;
const ANOTHER: u32 = 65533;

fn owner(path: &Path) -> u32 {
    fs::metadata(path).unwrap().uid()
}

fn file(path: &Path, content: &[u8], mode: u32, user: u32) {
    write(path, content);
    set_mode(path, mode);
    chown(path, Some(user), Some(user)).unwrap();
}

/// Her tree, which root seals beside: what she wants is in `d`, a directory of another's beside it.
fn hers(place: &Place) {
    let tree = place.tree();
    fs::create_dir_all(tree.join("d")).unwrap();
    fs::create_dir(tree.join("of another")).unwrap();
    give(&tree, SHE);
    give(&tree.join("of another"), ANOTHER);
    file(&tree.join("d/f"), b"as she wants", 0o755, SHE);
    file(&tree.join("d/new"), b"planted", 0o644, SHE);
    file(&tree.join("of another/f"), b"of another..", 0o755, ANOTHER);
    seal(&SealOptions { mode: Some(Mode::Beside), ..place.options("rs:4+4") }, &mut Silent).unwrap();
}

#[test]
fn by_record_nothing_is_made_in_a_directory_of_a_third_user_that_was_moved_there() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    hers(&place);
    let (d, theirs) = (place.tree().join("d"), place.tree().join("of another"));
    renameat_with(CWD, &d, CWD, &theirs, RenameFlags::EXCHANGE).unwrap();
    let error = place.heal().unwrap_err();
    assert!(error.to_string().contains("others may have moved it there"), "{error}");
    assert_eq!(fs::read(d.join("f")).unwrap(), b"of another..");
    assert!(!d.join("new").exists());
    // Where it was, and was not touched since, its owner has her file back.
    renameat_with(CWD, &d, CWD, &theirs, RenameFlags::EXCHANGE).unwrap();
    fs::remove_file(theirs.join("f")).unwrap();
    make_shards_younger(&place);
    place.heal().unwrap();
    assert_eq!(fs::read(theirs.join("f")).unwrap(), b"of another..");
}

#[test]
fn what_is_healed_over_a_file_that_was_moved_there_is_not_its_owners() {
    if !is_root() {
        return;
    }
    for user in [0, ANOTHER] {
        let place = Place::new();
        hers(&place);
        let (path, moved) = (place.tree().join("d/f"), place.dir.path().join("moved"));
        file(&moved, b"of the owner", 0o755, user);
        fs::rename(&moved, &path).unwrap();
        let healed = place.heal().unwrap();
        assert_eq!((owner(&path), mode_of(&path)), (0, 0o700));
        assert_eq!(fs::read(path.with_file_name("f.before-heal")).unwrap(), b"of the owner");
        assert!(healed.not_kept[0].reason.contains("its owner is not that of the directory"));
    }
}

/// Exchanges two paths when so many bytes of some phase are done.
struct Exchanging {
    phase: &'static str,
    bytes: u64,
    paths: [PathBuf; 2],
    is_now: bool,
}

impl Exchanging {
    fn exchange(&mut self) {
        if self.is_now && self.bytes == 0 {
            self.is_now = false;
            renameat_with(CWD, &self.paths[0], CWD, &self.paths[1], RenameFlags::EXCHANGE).unwrap();
        }
    }
}

impl Progress for Exchanging {
    fn phase(&mut self, name: &'static str, _total_bytes: u64) {
        self.is_now |= name == self.phase;
        self.exchange();
    }

    fn advance(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(if self.is_now { bytes } else { 0 });
        self.exchange();
    }
}

#[test]
fn a_file_that_takes_the_place_of_one_that_is_healed_stays() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    fs::create_dir(place.tree()).unwrap();
    give(&place.tree(), SHE);
    for name in ["a", "b"] {
        file(&place.tree().join(name), &Seed(3).bytes(20_000), 0o755, SHE);
    }
    seal(&SealOptions { mode: Some(Mode::Beside), ..place.options("rs:4+4") }, &mut Silent).unwrap();
    let (healed, other) = (place.tree().join("a"), place.tree().join("other"));
    file(&other, &[7; 20_000], 0o755, ANOTHER);
    ["a", "b"].iter().for_each(|name| flip(&place.tree().join(name), 100));
    make_shards_younger(&place);
    // The first waits for its name while the second is written.
    let paths = [healed.clone(), other];
    let mut progress = Exchanging { phase: "healing files", bytes: 25_000, paths, is_now: false };
    let options = HealOptions { set: place.set(), ..Default::default() };
    let SealError::NotHealed { report } = heal(&options, &mut progress).unwrap_err() else { panic!() };
    assert!(!progress.is_now && report.not_healed.len() == 1, "{report:?}");
    assert_eq!((owner(&healed), fs::read(&healed).unwrap()), (ANOTHER, vec![7; 20_000]));
}

/// Without checksums what is computed of a file that took the place of one tells what is in it.
#[test]
fn a_secret_that_was_moved_over_an_original_is_not_told_by_another() {
    if !is_root() {
        return;
    }
    for user in [0, ANOTHER] {
        let place = Place::new();
        fs::create_dir(place.tree()).unwrap();
        give(&place.tree(), SHE);
        for name in ["f1", "f2"] {
            file(&place.tree().join(name), &Seed(name.len() as u64).bytes(4000), 0o644, SHE);
        }
        let options = place.options("raid5:2");
        let options = SealOptions { mode: Some(Mode::Beside), checksums: Some(false), ..options };
        seal(&options, &mut Silent).unwrap();
        let (f2, secret) = (place.tree().join("f2"), place.dir.path().join("secret"));
        let sealed = fs::read(&f2).unwrap();
        fs::remove_file(&f2).unwrap();
        make_shards_younger(&place);
        place.heal().unwrap();
        assert_eq!((mode_of(&f2), fs::read(&f2).unwrap()), (0o644, sealed), "as it was");
        fs::remove_file(&f2).unwrap();
        make_shards_younger(&place);
        std::thread::sleep(std::time::Duration::from_millis(20));
        file(&secret, &Seed(9).bytes(4000), 0o600, user);
        fs::rename(&secret, place.tree().join("f1")).unwrap();
        place.heal().unwrap();
        assert_eq!((owner(&f2), mode_of(&f2)), (0, 0o600), "of {user}");
        let options = UnsealOptions { set: place.set(), target: place.target(), ..Default::default() };
        fs::remove_file(&f2).unwrap();
        unseal(&options, &mut Silent).unwrap();
        assert_eq!(mode_of(&place.target().join("f2")), 0o600, "of {user}");
    }
}

/// Root's own copy of shards that a user chose, in a directory of root's that she may exchange.
#[test]
fn shards_that_a_user_may_have_exchanged_make_no_program_of_root() {
    if !is_root() {
        return;
    }
    for mode_of_place in [0o755, 0o777] {
        let place = Place::new();
        fs::create_dir(place.tree()).unwrap();
        let program = place.tree().join("p");
        file(&program, &Seed(1).bytes(3000), 0o755, 0);
        seal(&SealOptions { mode: Some(Mode::Beside), ..place.options("mirror:2") }, &mut Silent).unwrap();
        let hers = place.dir.path().join("hers");
        fs::create_dir(&hers).unwrap();
        fs::rename(place.out(), hers.join("out")).unwrap();
        give_dir(&hers, if mode_of_place == 0o777 { SHE } else { 0 });
        set_mode(&program, 0o4755);
        flip(&program, 100);
        let set = SetPaths { sources: vec![place.tree()], ..SetPaths::dir(hers.join("out")) };
        let healed = heal(&HealOptions { set, ..Default::default() }, &mut Silent);
        assert_eq!(healed.is_ok(), mode_of_place == 0o755);
        assert_eq!(mode_of(&program), 0o4755);
    }
}

fn give_dir(dir: &Path, user: u32) {
    chown(dir, Some(user), Some(user)).unwrap();
}

#[test]
fn nothing_is_restored_into_a_directory_of_a_third_user_that_was_moved_there() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    fs::create_dir_all(place.tree().join("d")).unwrap();
    write(&place.tree().join("d/f"), b"planted");
    seal(&place.options("mirror:2"), &mut Silent).unwrap();
    let home = place.dir.path().join("home");
    let (target, inner) = (home.join("target"), home.join("target/d"));
    fs::create_dir_all(&inner).unwrap();
    let options = UnsealOptions { set: place.set(), target: target.clone(), ..Default::default() };
    for owners in [[SHE, ANOTHER, ANOTHER], [SHE, SHE, ANOTHER]] {
        [&home, &target, &inner].into_iter().zip(owners).for_each(|(dir, user)| give_dir(dir, user));
        let error = unseal(&options, &mut Silent).unwrap_err();
        assert!(error.to_string().contains("others may have moved it there"), "{error}");
        assert!(!inner.join("f").exists(), "{owners:?}");
    }
    for owners in [[SHE, SHE, SHE], [0, ANOTHER, ANOTHER]] {
        [&home, &target, &inner].into_iter().zip(owners).for_each(|(dir, user)| give_dir(dir, user));
        unseal(&options, &mut Silent).unwrap();
        fs::remove_file(inner.join("f")).unwrap();
    }
}

/// A mark of root's has another name elsewhere: it is a file of root's that she moved there.
#[test]
fn a_file_in_the_place_of_a_mark_is_not_written_to() {
    let place = Place::new();
    fs::create_dir_all(place.tree().join("d")).unwrap();
    write(&place.tree().join("d/f"), b"content");
    let set = seal(&place.options("mirror:2"), &mut Silent).unwrap().set;
    fs::create_dir(place.target()).unwrap();
    let kept = place.dir.path().join("kept");
    fs::write(&kept, "a note of 35 bytes that is not hers").unwrap();
    fs::hard_link(&kept, place.target().join(format!(".pantile-{set}.{}.tmp", u32::MAX))).unwrap();
    let options = UnsealOptions { set: place.set(), target: place.target(), ..Default::default() };
    unseal(&options, &mut Silent).unwrap();
    assert_eq!(fs::read(&kept).unwrap(), b"a note of 35 bytes that is not hers");
    assert_eq!(fs::read(place.target().join("d/f")).unwrap(), b"content");
    assert_eq!(fs::read_dir(place.target()).unwrap().count(), 1, "nothing is left");
}

/// Owner rw, the user r, group r, mask r, others nothing.
fn acl_for(user: u32) -> Vec<u8> {
    let none = u32::MAX;
    let entries = [(1u16, 6u16, none), (2, 4, user), (4, 4, none), (0x10, 4, none), (0x20, 0, none)];
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permission, id) in entries {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&permission.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

/// Her file, which an ACL lets her read, is exchanged for root's of the same mode once it is listed.
#[test]
fn a_file_is_not_sealed_under_the_acl_of_another() {
    for is_first in [true, false] {
        let place = Place::new();
        fs::create_dir(place.tree()).unwrap();
        let (hers, secret) = (place.tree().join("f"), place.dir.path().join("secret"));
        write(&place.tree().join("a"), b"one more");
        if !is_first {
            seal(&place.options("mirror:2"), &mut Silent).unwrap();
        }
        write(&hers, b"hers");
        setxattr(&hers, "system.posix_acl_access", &acl_for(SHE), XattrFlags::empty()).unwrap();
        write(&secret, b"root");
        set_mode(&secret, 0o640);
        let paths = [hers, secret];
        let phase = if is_first { "sealing" } else { "sealing changes" };
        let mut progress = Exchanging { phase, bytes: 0, paths, is_now: false };
        let error = seal(&place.options("mirror:2"), &mut progress).unwrap_err();
        assert!(error.to_string().contains("its rights were changed just now"), "{error}");
    }
}

/// Names, links, sizes and attributes: she has a directory in the place of a closed one.
#[test]
fn what_a_closed_directory_held_is_not_made_in_one_that_she_put_in_its_place() {
    if !is_root() {
        return;
    }
    // One that cannot be searched, and one that cannot be listed.
    for closed in [0o700, 0o711] {
        what_a_closed_directory_held(closed);
    }
}

fn what_a_closed_directory_held(mode: u32) {
    let place = Place::new();
    let closed = place.tree().join("closed");
    fs::create_dir_all(closed.join("sub")).unwrap();
    file(&closed.join("sub/f"), b"secret", 0o644, 0);
    file(&closed.join("g"), b"of all", 0o644, 0);
    setxattr(closed.join("sub"), "user.note", b"secret", XattrFlags::empty()).unwrap();
    std::os::unix::fs::symlink("secret", closed.join("link")).unwrap();
    std::os::unix::fs::symlink("open", place.tree().join("link")).unwrap();
    set_mode(&closed, mode);
    give_dir(&place.tree(), SHE);
    seal(&SealOptions { mode: Some(Mode::Beside), ..place.options("rs:3+2") }, &mut Silent).unwrap();
    fs::remove_dir_all(&closed).unwrap();
    fs::remove_file(place.tree().join("link")).unwrap();
    fs::create_dir(&closed).unwrap();
    give_dir(&closed, SHE);
    let SealError::NotHealed { report } = place.heal().unwrap_err() else { panic!() };
    assert_eq!(fs::read_dir(&closed).unwrap().count(), 0);
    // A right guess of a name, of the size and the time, is not confirmed.
    file(&closed.join("g"), b"guess.", 0o644, SHE);
    let SealError::NotHealed { report: guessed } = place.heal().unwrap_err() else { panic!() };
    assert!(guessed.not_healed[0].path.ends_with("closed/g"), "{guessed:?}");
    assert_eq!((owner(&closed.join("g")), fs::read(closed.join("g")).unwrap()), (SHE, b"guess.".to_vec()));
    fs::remove_file(closed.join("g")).unwrap();
    let not_healed: Vec<&str> = report.not_healed.iter().map(|not| &*not.path).collect();
    let all = ["g", "link", "sub", "sub/f"].map(|name| closed.join(name).display().to_string());
    assert_eq!(not_healed, all);
    assert!(report.not_healed[0].reason.contains("'pantile unseal' restores it"), "{report:?}");
    assert_eq!(fs::read_link(place.tree().join("link")).unwrap(), Path::new("open"), "was for all");
    // Where nothing is, a closed one is made anew with all that it held.
    fs::remove_dir(&closed).unwrap();
    let report = place.heal().unwrap();
    assert_eq!((owner(&closed), mode_of(&closed)), (0, 0o700));
    assert_eq!((owner(&closed.join("sub")), mode_of(&closed.join("sub"))), (0, 0o700));
    assert_eq!(fs::read_link(closed.join("link")).unwrap(), Path::new("secret"));
    assert!(report.not_kept.iter().any(|not| not.path.ends_with("sub")));
}

/// A user's own closed directory, in which a file is missing.
#[test]
fn what_is_missing_in_a_closed_directory_that_nobody_moved_is_healed_for_root_alone() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let closed = place.tree().join("closed");
    fs::create_dir_all(&closed).unwrap();
    file(&closed.join("f"), b"hers", 0o644, SHE);
    set_mode(&closed, 0o700);
    [place.tree(), closed.clone()].iter().for_each(|dir| give_dir(dir, SHE));
    seal(&SealOptions { mode: Some(Mode::Beside), ..place.options("rs:3+2") }, &mut Silent).unwrap();
    fs::remove_file(closed.join("f")).unwrap();
    let report = place.heal().unwrap();
    assert_eq!((owner(&closed.join("f")), mode_of(&closed.join("f"))), (0, 0o600));
    assert_eq!(report.not_kept.len(), 1);
}

/// A secret of root's that lay in her directory, and hers of the same size and time in its place.
fn secret_and_hers(place: &Place) -> [PathBuf; 2] {
    fs::create_dir(place.tree()).unwrap();
    let paths = [place.tree().join("f"), place.dir.path().join("hers")];
    file(&paths[0], &Seed(1).bytes(3000), 0o600, 0);
    file(&paths[1], &Seed(2).bytes(3000), 0o600, SHE);
    (0..5).for_each(|i| file(&place.tree().join(format!("other{i}")), &Seed(i + 9).bytes(3000), 0o644, SHE));
    give_dir(&place.tree(), SHE);
    paths
}

fn assert_kept_from_her(place: &Place, path: &Path) {
    let healed = place.heal();
    assert!(fs::read(path).unwrap() == Seed(2).bytes(3000) || owner(path) == 0, "{healed:?}");
}

#[test]
fn a_seal_that_does_not_read_what_was_exchanged_does_not_say_that_it_is_what_was_sealed() {
    if !is_root() {
        return;
    }
    for checksums in [false, true] {
        let place = Place::new();
        let [path, hers] = secret_and_hers(&place);
        let mut options = SealOptions { mode: Some(Mode::Beside), ..place.options("rs:6+3") };
        options.checksums = Some(checksums);
        seal(&options, &mut Silent).unwrap();
        fs::rename(&hers, &path).unwrap();
        // Shards that were copied look younger than what was done before.
        wait_a_tick();
        for shard in fs::read_dir(place.out()).unwrap() {
            let shard = fs::File::options().write(true).open(shard.unwrap().path()).unwrap();
            shard.set_modified(std::time::SystemTime::now()).unwrap();
        }
        assert_eq!(place.reseal().unchanged, 6);
        assert_kept_from_her(&place, &path);
        // Nor does one that is read, where nobody can have been told anything.
        let reread = SealOptions { read_all: true, ..place.again() };
        seal(&reread, &mut Silent).unwrap();
        assert!(place.verify().clean);
    }
}

#[test]
fn shards_of_an_older_state_are_not_what_the_record_tells_of() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let [path, hers] = secret_and_hers(&place);
    seal(&SealOptions { mode: Some(Mode::Beside), ..place.options("rs:6+3") }, &mut Silent).unwrap();
    let older = place.dir.path().join("older");
    copy_dir(&place.out(), &older);
    fs::remove_file(&path).unwrap();
    place.reseal();
    fs::rename(&hers, &path).unwrap();
    wait_a_tick();
    place.reseal();
    fs::remove_dir_all(place.out()).unwrap();
    copy_dir(&older, &place.out());
    assert_kept_from_her(&place, &path);
}

/// With its times.
fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let copy = to.join(entry.file_name());
        fs::copy(entry.path(), &copy).unwrap();
        let time = entry.metadata().unwrap().modified().unwrap();
        fs::File::options().write(true).open(copy).unwrap().set_modified(time).unwrap();
    }
}

/// Nor by a directory of hers in the place of a closed one.
#[test]
fn a_file_is_not_sealed_under_the_mode_of_another_that_is_not_read() {
    if !is_root() {
        return;
    }
    for by_dir in [false, true] {
        let place = Place::new();
        let [path, hers] = secret_and_hers(&place);
        let closed = place.tree().join("closed");
        fs::create_dir(&closed).unwrap();
        file(&closed.join("g"), &Seed(1).bytes(3000), 0o644, 0);
        set_mode(&closed, 0o700);
        let options = SealOptions { checksums: Some(false), ..place.options("rs:3+2") };
        seal(&options, &mut Silent).unwrap();
        let path = if by_dir {
            fs::rename(&closed, place.dir.path().join("away")).unwrap();
            fs::create_dir(&closed).unwrap();
            closed.join("g")
        } else {
            path
        };
        fs::rename(&hers, &path).unwrap();
        set_mode(&path, 0o644);
        let refused = seal(&place.again(), &mut Silent);
        assert!(matches!(refused, Err(SealError::Disguised { .. })), "by a directory: {by_dir}");
    }
}

/// She made it there before the first seal: in a directory of hers all of it is read.
#[test]
fn what_lies_at_another_place_is_not_what_the_record_tells_of() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let [path, hers] = secret_and_hers(&place);
    let elsewhere = place.dir.path().join("elsewhere/tree");
    fs::create_dir(elsewhere.parent().unwrap()).unwrap();
    copy_dir(&place.tree(), &elsewhere);
    give(elsewhere.parent().unwrap(), SHE);
    fs::rename(&hers, elsewhere.join(path.file_name().unwrap())).unwrap();
    wait_a_tick();
    seal(&SealOptions { mode: Some(Mode::Beside), ..place.options("rs:6+3") }, &mut Silent).unwrap();
    let moved = SealOptions { sources: vec![elsewhere], ..place.again() };
    let refused = seal(&moved, &mut Silent);
    assert!(matches!(refused, Err(SealError::Disguised { .. })), "{refused:?}");
}

/// Two copies of a set, sealed by turns: without checksums two states have the same manifest.
#[test]
fn states_without_checksums_are_told_apart_by_the_times_of_their_shards() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let [path, hers] = secret_and_hers(&place);
    let aside = place.dir.path().join("aside");
    fs::rename(&path, &aside).unwrap();
    let set_dir_time = || age(&place.tree(), 1_700_000_000);
    let mut options = SealOptions { mode: Some(Mode::Beside), ..place.options("rs:6+3") };
    options.checksums = Some(false);
    set_dir_time();
    seal(&options, &mut Silent).unwrap();
    let other = place.dir.path().join("other");
    copy_dir(&place.out(), &other);
    fs::rename(&aside, &path).unwrap();
    set_dir_time();
    let first = place.reseal();
    fs::rename(&hers, &path).unwrap();
    set_dir_time();
    wait_a_tick();
    let reread = SealOptions { read_all: true, out: other, ..place.again() };
    assert_eq!(seal(&reread, &mut Silent).unwrap().manifest, first.manifest);
    assert_kept_from_her(&place, &path);
}

fn wait_a_tick() {
    std::thread::sleep(std::time::Duration::from_millis(20));
}

/// What a run that was cut off made is hers to move, where the target is hers in part.
#[test]
fn a_directory_of_a_run_that_was_cut_off_gets_no_rights_elsewhere() {
    let place = Place::new();
    for (dir, mode) in [("closed", 0o700), ("open", 0o755)] {
        fs::create_dir_all(place.tree().join(dir)).unwrap();
        write(&place.tree().join(dir).join("f"), dir.as_bytes());
        set_mode(&place.tree().join(dir), mode);
    }
    seal(&place.options("mirror:2"), &mut Silent).unwrap();
    let (set, target) = (place.set(), place.target());
    let options = UnsealOptions { set, target, overwrite: true, ..Default::default() };
    let mark = |place: &Place| fs::read_dir(place.target()).unwrap().any(|entry| is_mark(&entry.unwrap()));
    for is_moved in [false, true] {
        let mut stopped = UntilThereIs(place.target().join("open"));
        assert!(matches!(unseal(&options, &mut stopped), Err(SealError::Cancelled)));
        assert!(mark(&place), "it was cut off when both were made");
        let [closed, open] = ["closed", "open"].map(|name| place.target().join(name));
        if is_moved {
            renameat_with(CWD, &closed, CWD, &open, RenameFlags::EXCHANGE).unwrap();
        }
        unseal(&options, &mut Silent).unwrap();
        assert_eq!(mode_of(&open), if is_moved { 0o700 } else { 0o755 });
        assert!(!mark(&place));
        fs::remove_dir_all(place.target()).unwrap();
    }
}

fn is_mark(entry: &fs::DirEntry) -> bool {
    entry.file_name().to_string_lossy().starts_with(".pantile-")
}

/// Ends the work as soon as something is there.
struct UntilThereIs(PathBuf);

impl Progress for UntilThereIs {
    fn phase(&mut self, _name: &'static str, _total_bytes: u64) {}

    fn advance(&mut self, _bytes: u64) {}

    fn cancelled(&self) -> bool {
        self.0.exists()
    }
}

#[test]
fn a_file_of_a_user_that_is_as_it_was_sealed_is_made_anew_if_that_is_asked() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    fs::create_dir(place.tree()).unwrap();
    write(&place.tree().join("rc"), b"content");
    seal(&place.options("mirror:2"), &mut Silent).unwrap();
    let set = place.set();
    let options = UnsealOptions { set, target: place.target(), overwrite: true, ..Default::default() };
    unseal(&options, &mut Silent).unwrap();
    give(&place.target().join("rc"), SHE);
    unseal(&options, &mut Silent).unwrap();
    assert_eq!(owner(&place.target().join("rc")), 0);
}

/// She made it before, and could change it afterwards.
#[test]
fn a_file_or_link_that_a_user_put_in_a_sticky_directory_does_not_count_as_restored() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    fs::create_dir(place.tree()).unwrap();
    write(&place.tree().join("rc"), b"content");
    std::os::unix::fs::symlink("to", place.tree().join("link")).unwrap();
    seal(&place.options("mirror:2"), &mut Silent).unwrap();
    let options = UnsealOptions { set: place.set(), target: place.target(), ..Default::default() };
    unseal(&options, &mut Silent).unwrap();
    for name in ["rc", "link"] {
        let path = place.target().join(name);
        lchown(&path, Some(SHE), None).unwrap();
        assert_eq!(unseal(&options, &mut Silent).unwrap().already_there, 2, "root put it there");
        set_mode(&place.target(), 0o1777);
        let error = unseal(&options, &mut Silent).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        set_mode(&place.target(), 0o755);
        let overwriting = UnsealOptions { overwrite: true, ..options.clone() };
        unseal(&overwriting, &mut Silent).unwrap();
        assert_eq!(fs::symlink_metadata(&path).unwrap().uid(), 0);
    }
}
