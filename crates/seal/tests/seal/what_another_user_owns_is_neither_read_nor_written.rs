//! Claim: root, who may do everything, does nothing for one user with what belongs to another: no
//! link of a user leads to what is not hers, no shard of a user gets what is not hers, and what a
//! user put together is not for more people to read than its parts. A user's own folder is worked
//! on as before.

use crate::common::fault::{FaultDisk, Faults};
use crate::common::*;
use pantile_seal::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};

/// Any user but root.
const USER: u32 = 65534;

/// Whether this is root, without whom there is no second user to try.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: only root can make files of another user");
    }
    is_root
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Gives the user a directory, or file, and everything below it.
fn give(path: &Path) {
    lchown(path, Some(USER), Some(USER)).unwrap();
    if fs::symlink_metadata(path).unwrap().is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give(&entry.unwrap().path()));
    }
}

fn sealed(mode: Mode) -> Place {
    let place = Place::new();
    fs::create_dir_all(place.tree().join("d")).unwrap();
    for name in ["a", "d/b"] {
        write(&place.tree().join(name), &Seed(name.len() as u64).bytes(20_000));
        set_mode(&place.tree().join(name), 0o644);
    }
    seal(&SealOptions { mode: Some(mode), ..place.options("rs:3+2") }, &mut Silent).unwrap();
    place
}

/// A directory with a link to each shard.
fn links(place: &Place) -> PathBuf {
    let dir = place.dir.path().join("links");
    fs::create_dir(&dir).unwrap();
    for shard in fs::read_dir(place.out()).unwrap().map(|shard| shard.unwrap()) {
        symlink(shard.path(), dir.join(shard.file_name())).unwrap();
    }
    dir
}

fn unsealing(place: &Place, dir: &Path) -> UnsealOptions {
    UnsealOptions { set: SetPaths::dir(dir), target: place.target(), ..Default::default() }
}

fn healing(dir: &Path) -> HealOptions {
    HealOptions { set: SetPaths::dir(dir), ..Default::default() }
}

#[test]
fn links_of_a_user_lead_root_to_no_shards_of_others_neither_to_read_nor_to_write() {
    if !is_root() {
        return;
    }
    let place = sealed(Mode::Full);
    let dir = links(&place);
    // Hers, and those that root made elsewhere and she moved there.
    for is_root_s in [false, true] {
        give(&dir);
        if is_root_s {
            fs::read_dir(&dir).unwrap().for_each(|link| lchown(link.unwrap().path(), Some(0), None).unwrap());
        }
        let refused = unseal(&unsealing(&place, &dir), &mut Silent).unwrap_err().to_string();
        assert!(refused.contains("name what it leads to"), "{refused}");
        assert!(!place.target().exists());
        flip(&place.shard(3), 9000);
        let before = shards(&place.out());
        let refused = heal(&healing(&dir), &mut Silent).unwrap_err().to_string();
        assert!(refused.contains("name what it leads to"), "{refused}");
        write(&place.tree().join("a"), b"another");
        let again = SealOptions { out: dir.clone(), ..place.again() };
        let refused = seal(&again, &mut Silent).unwrap_err().to_string();
        assert!(refused.contains("name what it leads to"), "{refused}");
        assert!(shards(&place.out()) == before);
        flip(&place.shard(3), 9000);
    }
}

/// One shard is hers, of a set that she forged or has for good, and the others are links.
#[test]
fn a_set_in_which_some_shards_are_links_of_a_user_to_those_of_others_is_not_healed() {
    if !is_root() {
        return;
    }
    let place = sealed(Mode::Full);
    let dir = links(&place);
    let own = dir.join(place.shard(0).file_name().unwrap());
    fs::remove_file(&own).unwrap();
    fs::copy(place.shard(0), &own).unwrap();
    give(&dir);
    flip(&place.shard(3), 9000);
    let before = shards(&place.out());
    let error = heal(&healing(&dir), &mut Silent).unwrap_err();
    assert!(matches!(&error, SealError::CannotOpen { count: 4, .. }), "{error}");
    assert!(shards(&place.out()) == before);
}

#[test]
fn a_users_own_folder_and_links_are_healed_and_sealed_for_her() {
    if !is_root() {
        return;
    }
    for mode in [Mode::Full, Mode::Beside] {
        let place = sealed(mode);
        // Shards on another disk, to which her links lead.
        let disk = place.dir.path().join("disk");
        fs::create_dir(&disk).unwrap();
        for column in [3, 4] {
            let there = disk.join(place.shard(column).file_name().unwrap());
            fs::copy(place.shard(column), &there).unwrap();
            set_mode(&there, 0o600);
            fs::remove_file(place.shard(column)).unwrap();
            symlink(&there, place.shard(column)).unwrap();
        }
        [place.out(), place.tree(), disk.clone()].iter().for_each(|path| give(path));
        flip(&place.shard(4), 9000);
        write(&place.tree().join("d/new"), &Seed(8).bytes(5000));
        give(&place.tree());
        if mode == Mode::Full {
            fs::remove_file(place.shard(0)).unwrap();
        }
        assert!(!place.heal().unwrap().shards_written.is_empty());
        place.reseal();
        assert!(place.verify().clean);
        let all =
            [place.out(), disk].map(|dir| fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()));
        for path in all.into_iter().flatten() {
            let meta = fs::symlink_metadata(&path).unwrap();
            assert_eq!((meta.uid(), meta.gid()), (USER, USER), "{}", path.display());
            assert!(meta.is_symlink() || meta.mode() & 0o777 == 0o600, "{}", path.display());
        }
        place.assert_restores();
    }
}

#[test]
fn shards_that_another_user_put_there_are_not_written_to() {
    if !is_root() {
        return;
    }
    let place = sealed(Mode::Full);
    let before = |place: &Place| shards(&place.out());
    give(&place.out());
    // In a directory such as /tmp, in which everybody may put something.
    chown(place.out(), Some(0), Some(0)).unwrap();
    set_mode(&place.out(), 0o1777);
    let untouched = before(&place);
    write(&place.tree().join("a"), b"a secret");
    let error = seal(&place.again(), &mut Silent).unwrap_err();
    assert!(matches!(error, SealError::OfAnother { owner: USER, .. }), "{error}");
    flip(&place.shard(1), 9000);
    let error = place.heal().unwrap_err();
    assert!(matches!(error, SealError::OfAnother { owner: USER, .. }), "{error}");
    flip(&place.shard(1), 9000);
    // In her own directory root does her work, but not with files of others.
    give(&place.out());
    let error = seal(&place.again(), &mut Silent).unwrap_err();
    assert!(matches!(error, SealError::NotForOwner { owner: USER, .. }), "{error}");
    give(&place.tree());
    chown(place.tree().join("a"), Some(0), None).unwrap();
    let error = seal(&place.again(), &mut Silent).unwrap_err();
    assert!(
        matches!(&error, SealError::NotForOwner { path, .. } if *path == place.tree().join("a")),
        "{error}"
    );
    assert!(before(&place) == untouched);
    give(&place.tree());
    // Of it nobody learns anything; but what it holds, or is said of it, may be another's.
    let lost_and_found = place.tree().join("lost+found");
    fs::create_dir(&lost_and_found).unwrap();
    set_mode(&lost_and_found, 0o700);
    write(&lost_and_found.join("f"), b"a secret");
    let error = seal(&place.again(), &mut Silent).unwrap_err();
    assert!(matches!(error, SealError::NotForOwner { owner: USER, .. }), "{error}");
    fs::remove_file(lost_and_found.join("f")).unwrap();
    assert_eq!(place.reseal().generation, 2);
}

/// A user puts shards that she cannot read under a manifest of hers.
#[test]
fn what_shards_of_several_users_give_is_for_who_restores_it_alone() {
    if !is_root() {
        return;
    }
    let place = sealed(Mode::Full);
    let restored = |modes: bool| {
        let _ = fs::remove_dir_all(place.target());
        let report =
            unseal(&UnsealOptions { modes, ..unsealing(&place, &place.out()) }, &mut Silent).unwrap();
        let found = (mode_of(&place.target().join("a")), mode_of(&place.target().join("d")) & 0o077);
        assert_eq!(report.for_owner_alone, found == (0o600, 0));
        found
    };
    let of_root = restored(false);
    give(&place.out());
    let of_user = restored(false);
    chown(place.shard(1), Some(0), None).unwrap();
    let mixed = restored(false);
    let asked = restored(true);
    // Who could read all of them anyway gets no more than she had.
    for column in 0..5 {
        set_mode(&place.shard(column), 0o644);
    }
    let for_all = restored(false);
    // A file of one user that others may write to says what they say.
    give(&place.out());
    set_mode(&place.shard(1), 0o606);
    set_mode(&place.shard(2), 0o600);
    let written_by_all = restored(false);
    fs::create_dir(place.dir.path().join("made")).unwrap();
    let left = mode_of(&place.dir.path().join("made"));
    assert_eq!([of_root, of_user, for_all], [(0o644 & left, 0o055 & left); 3]);
    assert_eq!(asked, (0o644, 0o055));
    assert_eq!([mixed, written_by_all], [(0o600, 0); 2]);
}

/// Of two owners, one put a shard of his among root's, as if all were his.
#[test]
fn shards_of_several_owners_are_nobodys_to_be_made_anew() {
    if !is_root() {
        return;
    }
    let place = sealed(Mode::Full);
    chown(place.out(), Some(USER), Some(USER)).unwrap();
    chown(place.shard(0), Some(USER), Some(USER)).unwrap();
    flip(&place.shard(3), 9000);
    write(&place.tree().join("a"), b"a secret");
    let before = shards(&place.out());
    for error in [place.heal().unwrap_err(), seal(&place.again(), &mut Silent).unwrap_err()] {
        assert!(matches!(error, SealError::OfAnother { owner: USER, .. }), "{error}");
    }
    assert!(shards(&place.out()) == before);
}

/// As many newer shards as suffice lie in a directory of a user, older ones in one of root's.
#[test]
fn newer_shards_of_a_user_take_the_place_of_nobody_elses() {
    if !is_root() {
        return;
    }
    let place = sealed(Mode::Full);
    let [hers, his, newer] = ["hers", "his", "newer.pin"].map(|name| place.dir.path().join(name));
    for (dir, columns) in [(&hers, 3..5), (&his, 0..3)] {
        fs::create_dir(dir).unwrap();
        for column in columns {
            fs::copy(place.shard(column), dir.join(place.shard(column).file_name().unwrap())).unwrap();
        }
        pin(&place.set(), &newer, &mut Silent).unwrap();
        write(&place.tree().join("a"), b"newer");
        place.reseal();
    }
    let before = shards(&hers);
    let set = SetPaths { paths: vec![hers.clone(), his.clone()], ..Default::default() };
    let pinned = SetPaths { pin: Some(newer), ..set.clone() };
    // What root has restored for a user can lie in that user's directory as well.
    let put_there = |dir: &Path| chown(dir, Some(USER), Some(USER)).unwrap();
    for of_user in [put_there, give as fn(&Path)] {
        of_user(&his);
        let heal_as = |set: &SetPaths| {
            heal(&HealOptions { set: set.clone(), ..Default::default() }, &mut Silent).unwrap_err()
        };
        let error = heal_as(&set);
        assert!(
            matches!(
                &error,
                SealError::StateOfAnother { owner: USER, generation: 2, other_generation: 1, .. }
            ),
            "{error}"
        );
        // A pin tells that the state is the right one, not that its owner may write there.
        let error = heal_as(&pinned);
        assert!(matches!(&error, SealError::NotHealed { report } if report.not_healed.len() == 2), "{error}");
        assert!(shards(&hers) == before);
    }
    give(&hers);
    heal(&HealOptions { set, ..Default::default() }, &mut Silent).unwrap();
    assert!(shards(&hers) != before, "of one user all are brought up to date");
}

/// The directory and its links are root's, restored perhaps, and lie in a directory of a user.
#[test]
fn links_of_root_are_not_followed_where_a_user_can_have_moved_them() {
    if !is_root() {
        return;
    }
    let place = sealed(Mode::Full);
    let his = place.dir.path().join("his");
    fs::create_dir(&his).unwrap();
    let dir = his.join("links");
    fs::rename(links(&place), &dir).unwrap();
    unseal(&unsealing(&place, &dir), &mut Silent).unwrap();
    fs::remove_dir_all(place.target()).unwrap();
    give(&his);
    for entry in fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).chain([dir.clone()]) {
        lchown(&entry, Some(0), Some(0)).unwrap();
    }
    let refused = unseal(&unsealing(&place, &dir), &mut Silent).unwrap_err().to_string();
    assert!(refused.contains("name what it leads to"), "{refused}");
    assert!(disk::real_path(&dir.join(place.shard(0).file_name().unwrap())).is_err());
}

/// Every journal that a seal which is cut off leaves behind.
#[test]
fn a_journal_is_obeyed_only_for_shards_of_whoever_wrote_it() {
    if !is_root() {
        return;
    }
    let start = sealed(Mode::Full);
    let mut left = 0;
    for after in 0.. {
        let place = Place::new();
        copy(start.dir.path(), place.dir.path());
        write(&place.tree().join("a"), &Seed(3).bytes(21_000));
        let disk = FaultDisk::new(place.dir.path(), Faults { crash_after: Some(after), ..Faults::default() });
        let journal = place.out().join("tree.journal");
        let sealed = World { disk: &disk, threads: 1 }.seal(&place.again(), &mut Silent);
        let is_done = disk.operations() < after;
        if is_done {
            sealed.unwrap();
        }
        if journal.exists() {
            left += 1;
            let before = shards(&place.out());
            chown(&journal, Some(USER), Some(USER)).unwrap();
            let error = place.heal().unwrap_err();
            assert!(matches!(error, SealError::JournalOfAnother { owner: USER, .. }), "{error}");
            assert!(shards(&place.out()) == before, "after {after}");
            // Of one user all is finished for her, and so is root's own.
            if left % 2 == 0 {
                give(&place.out())
            } else {
                chown(&journal, Some(0), Some(0)).unwrap()
            }
            place.heal().unwrap();
            assert!(!journal.exists() && place.verify().clean, "after {after}");
        }
        if is_done {
            break;
        }
    }
    assert!(left > 3, "{left}");
}

/// A user in whose directory root keeps shards has a file that looks like one of them, and
/// exchanges the two at any moment of finishing what was cut off.
#[test]
fn what_a_journal_holds_is_written_to_no_file_of_a_user_whatever_she_exchanges() {
    if !is_root() {
        return;
    }
    let (start, secret) = (sealed(Mode::Full), b"a secret of root's, ".repeat(1050));
    let mut exchanged = 0;
    for after in 0.. {
        let cut_off = || {
            let place = Place::new();
            copy(start.dir.path(), place.dir.path());
            write(&place.tree().join("a"), &secret);
            let faults = Faults { crash_after: Some(after), ..Faults::default() };
            let disk = FaultDisk::new(place.dir.path(), faults);
            let _ = World { disk: &disk, threads: 1 }.seal(&place.again(), &mut Silent);
            for shard in fs::read_dir(place.out()).unwrap() {
                set_mode(&shard.unwrap().path(), 0o600);
            }
            chown(place.out(), Some(USER), Some(USER)).unwrap();
            let is_done = disk.operations() < after;
            (place, is_done)
        };
        let (place, is_done) = cut_off();
        if is_done {
            break;
        }
        if !place.out().join("tree.journal").exists() {
            continue;
        }
        for opening in 1.. {
            let (place, _) = cut_off();
            let others = [(USER, 0o600), (0, 0o644)];
            let (owner, mode) = others[exchanged % 2];
            let other = place.shard(0).with_extension("other");
            let holds_secret = |path: &Path| {
                let bytes = fs::read(path).unwrap();
                bytes.windows(20).any(|window| *window == secret[..20])
            };
            if holds_secret(&place.shard(0)) {
                break;
            }
            fs::copy(place.shard(0), &other).unwrap();
            set_mode(&other, mode);
            chown(&other, Some(owner), None).unwrap();
            let faults = Faults { exchanges: Some(opening), ..Faults::default() };
            let disk = FaultDisk::new(place.dir.path(), faults);
            let options = HealOptions { set: place.set(), ..Default::default() };
            let healed = World { disk: &disk, threads: 1 }.heal(&options, &mut Silent);
            if disk.opened_first() < opening {
                healed.unwrap();
                assert!(holds_secret(&place.shard(0)));
                break;
            }
            exchanged += 1;
            for path in [place.shard(0), other] {
                let found = fs::metadata(&path).unwrap();
                let is_hers = found.uid() == USER || found.mode() & 0o044 != 0;
                assert!(!is_hers || !holds_secret(&path), "after {after}, opening {opening}: {healed:?}");
            }
        }
    }
    assert!(exchanged > 10, "{exchanged}");
}

/// A user's set of her folder, healed by root's record, in which root puts a file: she seals a file
/// of hers in its place, which is what she guesses, and looks what becomes of the set.
#[test]
fn what_a_file_of_another_holds_is_not_told_by_what_becomes_of_a_set() {
    if !is_root() {
        return;
    }
    let place = sealed(Mode::Beside);
    [place.out(), place.tree()].iter().for_each(|path| give(path));
    place.reseal();
    let (of_root, gone) = (place.tree().join("d/b"), place.tree().join("a"));
    let content = fs::read(&gone).unwrap();
    let healed = |options: &HealOptions| heal(options, &mut Silent).map(|report| report.files_healed.len());
    let by_record = || HealOptions { set: place.set(), ..Default::default() };
    let named = || SetPaths { sources: vec![place.tree()], ..place.set() };
    let unsealing = |set| UnsealOptions { set, target: place.target(), ..Default::default() };
    let dir = place.tree().join("d");
    for (owner, mode, dir_mode, is_told) in [
        // The file's, and the directory's.
        (USER, 0o600, 0o700, true),
        (0, 0o644, 0o755, true),
        (0, 0o600, 0o755, false),
        (0, 0o644, 0o711, false),
    ] {
        chown(&of_root, Some(owner), None).unwrap();
        chown(&dir, Some(owner), None).unwrap();
        set_mode(&of_root, mode);
        set_mode(&dir, dir_mode);
        fs::remove_file(&gone).unwrap();
        if is_told {
            assert_eq!(healed(&by_record()).unwrap(), 1);
        } else {
            // Nor does it tell whether there is a file where she cannot look.
            for is_there in [true, false] {
                let aside = place.dir.path().join("aside");
                if !is_there && dir_mode == 0o711 {
                    fs::rename(&of_root, &aside).unwrap();
                }
                let error = healed(&by_record()).unwrap_err();
                assert!(matches!(error, SealError::OriginalOfAnother { owner: 0, .. }), "{error}");
                let error = unseal(&unsealing(place.set()), &mut Silent).unwrap_err();
                assert!(matches!(error, SealError::OriginalOfAnother { owner: 0, .. }), "{error}");
                assert!(!gone.exists() && !place.target().exists());
                if aside.exists() {
                    fs::rename(&aside, &of_root).unwrap();
                }
            }
            unseal(&unsealing(named()), &mut Silent).unwrap();
            fs::remove_dir_all(place.target()).unwrap();
            assert_eq!(healed(&HealOptions { set: named(), ..Default::default() }).unwrap(), 1);
        }
        assert!(fs::read(&gone).unwrap() == content);
        chown(&gone, Some(USER), Some(USER)).unwrap();
    }
}

/// The file is put there when it was asked whose the files are.
#[test]
fn a_file_of_another_that_comes_meanwhile_is_not_read_either() {
    if !is_root() {
        return;
    }
    let place = sealed(Mode::Beside);
    [place.out(), place.tree()].iter().for_each(|path| give(path));
    place.reseal();
    let (of_root, gone) = (place.tree().join("d/b"), place.tree().join("a"));
    fs::remove_file(&gone).unwrap();
    struct Exchange<'p>(&'p Path);
    impl Progress for Exchange<'_> {
        fn phase(&mut self, _name: &'static str, _total_bytes: u64) {
            chown(self.0, Some(0), Some(0)).unwrap();
            set_mode(self.0, 0o600);
        }
        fn advance(&mut self, _bytes: u64) {}
    }
    let options = HealOptions { set: place.set(), ..Default::default() };
    let error = heal(&options, &mut Exchange(&of_root)).unwrap_err();
    assert!(matches!(error, SealError::TooMuchLost { .. }), "{error}");
    assert!(!gone.exists());
    [place.out(), place.tree()].iter().for_each(|path| give(path));
    assert_eq!(heal(&options, &mut Silent).unwrap().files_healed.len(), 1);
}

/// The directory of the shards lies in the source, or is it: a user has another one there, or a
/// directory in it, with a file of hers that is called as one that was root's.
#[test]
fn a_directory_that_is_exchanged_beside_the_shards_gives_nobody_what_she_could_not_read() {
    if !is_root() {
        return;
    }
    let cases = [("", "sub"), ("backup", "backup/sub"), ("backup", "backup")];
    for ((below, is_exchanged), is_sealed_again) in
        cases.iter().flat_map(|case| [(*case, false), (*case, true)])
    {
        let place = Place::new();
        let (out, dir) = (place.tree().join(below), place.tree().join(is_exchanged));
        let doc = if is_exchanged == "backup" { dir.clone() } else { out.join("sub") }.join("doc");
        fs::create_dir_all(doc.parent().unwrap()).unwrap();
        give(&place.tree());
        write(&doc, &Seed(1).bytes(5000));
        set_mode(&doc, 0o600);
        // Made before, of her file.
        let other = place.tree().join("other");
        fs::create_dir(&other).unwrap();
        write(&other.join("doc"), &Seed(2).bytes(5000));
        set_mode(&other.join("doc"), 0o600);
        let time = fs::metadata(&doc).unwrap().modified().unwrap();
        fs::File::open(other.join("doc")).unwrap().set_modified(time).unwrap();
        give(&other);
        let options = SealOptions {
            mode: Some(Mode::Beside),
            out: out.clone(),
            records: Some(place.records()),
            ..place.options("rs:3+2")
        };
        seal(&options, &mut Silent).unwrap();
        fs::rename(&dir, place.dir.path().join("aside")).unwrap();
        fs::rename(&other, &dir).unwrap();
        if is_exchanged == "backup" {
            for shard in [3, 4] {
                let name = place.shard(shard);
                let name = name.file_name().unwrap();
                fs::rename(place.dir.path().join("aside").join(name), dir.join(name)).unwrap();
            }
        }
        write(&dir.join("new"), b"");
        let set = SetPaths { records: Some(place.records()), ..SetPaths::dir(&out) };
        if is_sealed_again {
            let error = seal(&options, &mut Silent).map(|_| "what came there was not read").unwrap_err();
            assert!(matches!(error, SealError::Disguised { count: 1, .. }), "{is_exchanged}: {error}");
            continue;
        }
        let healed = heal(&HealOptions { set, ..Default::default() }, &mut Silent);
        let found = fs::metadata(&doc).unwrap();
        let is_hers = found.uid() == USER || found.mode() & 0o044 != 0;
        let is_roots = fs::read(&doc).unwrap() == Seed(1).bytes(5000);
        assert!(is_roots && !is_hers, "{is_exchanged}: {is_roots} {is_hers} {healed:?}");
    }
}

#[test]
fn a_path_of_an_original_is_not_led_elsewhere_by_a_link_of_a_user() {
    if !is_root() {
        return;
    }
    let place = sealed(Mode::Beside);
    let hers = place.dir.path().join("hers");
    fs::create_dir(&hers).unwrap();
    symlink(place.tree().join("d"), hers.join("photos")).unwrap();
    give(&hers);
    fs::remove_file(place.tree().join("d/b")).unwrap();
    let select =
        |path: PathBuf| Select { paths: vec![path.display().to_string().into()], ..Select::default() };
    let heal_at = |path| {
        heal(&HealOptions { set: place.set(), select: select(path), ..Default::default() }, &mut Silent)
    };
    let error = heal_at(hers.join("photos/b")).unwrap_err();
    assert!(matches!(error, SealError::NothingMeant { .. }), "{error}");
    assert!(!place.tree().join("d/b").exists());
    heal_at(place.tree().join("d/b")).unwrap();
    assert!(place.tree().join("d/b").exists());
}

/// A forged set with the UUID of one that was sealed here could name a file that is not there,
/// beside the one that was sealed.
#[test]
fn a_record_of_one_file_is_none_of_another_in_its_directory() {
    let place = Place::new();
    let etc = place.dir.path().join("etc");
    fs::create_dir(&etc).unwrap();
    write(&etc.join("hosts"), &Seed(1).bytes(20_000));
    let mut options = place.options("rs:1+2");
    (options.sources, options.mode) = (vec![etc.join("hosts")], Some(Mode::Beside));
    options.name = Some("tree".into());
    seal(&options, &mut Silent).unwrap();
    // The record says which name it is of, and what is not there is no directory.
    let record = fs::read_dir(place.records()).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&record).unwrap();
    let parts: Vec<&str> = text.splitn(3, '\n').collect();
    assert!(parts[0] == "pantile record 3" && parts[1].starts_with("state "), "{text}");
    assert!(parts[2].starts_with("file ") && text.ends_with("etc/hosts\n"), "{text}");
    fs::remove_file(etc.join("hosts")).unwrap();
    assert_eq!(place.heal().unwrap().files_healed.len(), 1);
    fs::remove_file(etc.join("hosts")).unwrap();
    let of_another = text.replace("hosts", "preload");
    fs::write(&record, &of_another).unwrap();
    let refused = || match place.heal() {
        Err(SealError::NotHealed { report }) => {
            report.not_healed.iter().all(|not| not.reason.contains("--source")) && !etc.join("hosts").exists()
        }
        _ => false,
    };
    assert!(refused());
    // Version 1 did not say which file it was.
    let v1 = format!("pantile record 1\n{}", parts[2].replace("file ", "source "));
    fs::write(&record, v1.split(" /").next().unwrap().to_owned() + "\n").unwrap();
    assert!(refused());
    // Version 2 did not say which state.
    for text in [&*format!("pantile record 2\n{}", parts[2]), &text] {
        fs::write(&record, text).unwrap();
        assert!(!refused() && etc.join("hosts").exists());
        fs::remove_file(etc.join("hosts")).unwrap();
    }
}

/// Whoever may write to a sticky directory can have moved a file of root's there.
#[test]
fn what_lies_where_others_may_write_is_nobodys_word() {
    let place = sealed(Mode::Beside);
    flip(&place.tree().join("d/b"), 5000);
    make_shards_younger(&place);
    set_mode(&place.out(), 0o1777);
    assert!(matches!(place.heal(), Err(SealError::SourcesNotNamed { .. })));
    set_mode(&place.shard(3), 0o644);
    let error = seal(&SealOptions { read_all: true, ..place.again() }, &mut Silent).unwrap_err();
    assert!(matches!(error, SealError::OfAnother { .. }), "{error}");
    assert!(error.to_string().contains("others may write there"), "{error}");
    set_mode(&place.out(), 0o755);
    assert_eq!(place.heal().unwrap().files_healed.len(), 1);
}

/// He moves a file of root's into a directory of his, over which his set says what it should be.
#[test]
fn a_file_that_was_moved_is_not_made_anew_for_its_owner() {
    if !is_root() {
        return;
    }
    let place = sealed(Mode::Beside);
    let moved = place.tree().join("d/b");
    give(&place.tree());
    give(&place.out());
    flip(&moved, 5000);
    make_shards_younger(&place);
    let set = SetPaths { sources: vec![place.tree()], ..SetPaths::dir(place.out()) };
    let heal_as = || heal(&HealOptions { set: set.clone(), ..Default::default() }, &mut Silent);
    for owner in [0, USER - 1] {
        chown(&moved, Some(owner), None).unwrap();
        let before = fs::read(&moved).unwrap();
        let error = heal_as().unwrap_err();
        assert!(matches!(&error, SealError::NotHealed { report } if report.not_healed.len() == 1), "{error}");
        assert!(fs::read(&moved).unwrap() == before && fs::metadata(&moved).unwrap().uid() == owner);
    }
    chown(&moved, Some(USER), None).unwrap();
    heal_as().unwrap();
    assert_eq!(fs::metadata(&moved).unwrap().uid(), USER);
}

/// The set names a place that is not there, below the folder of its shards, which is written to.
#[test]
fn what_only_a_set_names_is_not_made_where_its_shards_lie() {
    let place = Place::new();
    let home = place.out();
    fs::create_dir_all(home.join("ssh")).unwrap();
    write(&home.join("ssh/keys"), &Seed(1).bytes(20_000));
    let options = SealOptions {
        sources: vec![home.join("ssh")],
        name: Some("tree".into()),
        mode: Some(Mode::Beside),
        ..place.options("rs:1+2")
    };
    seal(&options, &mut Silent).unwrap();
    fs::remove_dir_all(home.join("ssh")).unwrap();
    let by_set = || HealOptions { set: SetPaths::dir(&home), ..Default::default() };
    let select = Select { paths: vec!["keys".into()], ..Select::default() };
    for options in [by_set(), HealOptions { select, ..by_set() }] {
        let error = heal(&options, &mut Silent).unwrap_err();
        assert!(
            matches!(&error, SealError::NotHealed { report } if !report.not_healed.is_empty()),
            "{error}"
        );
        assert!(!home.join("ssh").exists());
    }
    let set = SetPaths { sources: vec![home.join("ssh")], ..SetPaths::dir(&home) };
    fs::create_dir(home.join("ssh")).unwrap();
    heal(&HealOptions { set, ..Default::default() }, &mut Silent).unwrap();
    assert!(home.join("ssh/keys").exists());
}

/// A user's set of her folder, healed by root's record: what lies in it of others is not hers.
#[test]
fn by_record_nothing_is_made_or_replaced_in_directories_of_others_than_whose_the_shards_are() {
    if !is_root() {
        return;
    }
    let place = sealed(Mode::Beside);
    give(&place.tree());
    give(&place.out());
    let (dir, file) = (place.tree().join("d"), place.tree().join("d/b"));
    let heal_of = |damage: &dyn Fn(), owner_of_dir: u32, owner_of_file: u32| {
        damage();
        make_shards_younger(&place);
        chown(&dir, Some(owner_of_dir), None).unwrap();
        let _ = chown(&file, Some(owner_of_file), None);
        place.heal()
    };
    let (rots, goes): (&dyn Fn(), &dyn Fn()) = (&|| flip(&file, 5000), &|| fs::remove_file(&file).unwrap());
    for (dir_of, file_of) in [(USER - 1, USER - 1), (0, 0), (USER, USER - 1), (USER - 1, USER)] {
        let error = heal_of(rots, dir_of, file_of).unwrap_err();
        assert!(matches!(&error, SealError::NotHealed { report } if report.not_healed.len() == 1), "{error}");
        flip(&file, 5000);
    }
    for dir_of in [USER - 1, 0] {
        assert!(heal_of(goes, dir_of, 0).is_err() && !file.exists());
        chown(&dir, Some(USER), None).unwrap();
        place.heal().unwrap();
        chown(&file, Some(USER), None).unwrap();
    }
    heal_of(rots, USER, USER).unwrap();
    // What the run makes itself is no obstacle.
    fs::remove_dir_all(&dir).unwrap();
    make_shards_younger(&place);
    place.heal().unwrap();
    assert!(file.exists());
}

/// Whoever puts a file in its place must not be given what she could not read.
#[test]
fn a_source_that_is_one_file_lies_where_its_directory_says() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let shared = place.dir.path().join("shared");
    fs::create_dir(&shared).unwrap();
    set_mode(&shared, 0o1777);
    let key = shared.join("key");
    write(&key, &Seed(1).bytes(20_000));
    set_mode(&key, 0o600);
    let time = fs::metadata(&key).unwrap().modified().unwrap();
    let options = SealOptions {
        sources: vec![key.clone()],
        name: Some("tree".into()),
        mode: Some(Mode::Beside),
        ..place.options("rs:1+2")
    };
    seal(&options, &mut Silent).unwrap();
    fs::remove_file(&key).unwrap();
    fs::write(&key, [0; 20_000]).unwrap();
    fs::File::options().write(true).open(&key).unwrap().set_modified(time).unwrap();
    set_mode(&key, 0o644);
    chown(&key, Some(USER), Some(USER)).unwrap();
    place.heal().unwrap();
    let healed = fs::metadata(&key).unwrap();
    assert_eq!((healed.uid(), healed.mode() & 0o077), (0, 0));
}

/// A group that a directory gives to what is made in it is not the one that was sealed.
#[test]
fn a_setgid_folder_gives_its_group_no_more_than_everybody_has() {
    if !is_root() {
        return;
    }
    let place = sealed(Mode::Full);
    set_mode(&place.tree().join("a"), 0o640);
    set_mode(&place.tree().join("d"), 0o750);
    place.reseal();
    fs::create_dir(place.target()).unwrap();
    chown(place.target(), Some(0), Some(USER)).unwrap();
    set_mode(&place.target(), 0o2755);
    let options = UnsealOptions { modes: true, set: place.set(), ..unsealing(&place, &place.out()) };
    unseal(&options, &mut Silent).unwrap();
    let restored = |name: &str| fs::metadata(place.target().join(name)).unwrap();
    assert_eq!((restored("a").gid(), restored("a").mode() & 0o777), (USER, 0o600));
    assert_eq!(restored("d").mode() & 0o777, 0o700);
    assert_eq!(restored("d/b").mode() & 0o777, 0o644);
}

/// Nor has she to wait for root if root was stopped there.
#[test]
fn the_journal_of_what_root_seals_for_a_user_is_that_users() {
    if !is_root() {
        return;
    }
    let start = sealed(Mode::Full);
    give(&start.tree());
    give(&start.out());
    let mut left = 0;
    for after in 20..60 {
        let place = Place::new();
        copy(start.dir.path(), place.dir.path());
        write(&place.tree().join("a"), &Seed(3).bytes(21_000));
        give(&place.tree());
        give(&place.out());
        let disk = FaultDisk::new(place.dir.path(), Faults { crash_after: Some(after), ..Faults::default() });
        let _ = World { disk: &disk, threads: 1 }.seal(&place.again(), &mut Silent);
        let Ok(journal) = fs::metadata(place.out().join("tree.journal")) else { continue };
        left += 1;
        assert_eq!((journal.uid(), journal.gid(), journal.mode() & 0o777), (USER, USER, 0o600));
    }
    assert!(left > 0);
}

/// Without checksums it could be made of whatever lies where she says that her originals are.
#[test]
fn a_shard_that_nothing_tells_from_a_secret_is_not_given_to_a_user_and_root_is_told() {
    if !is_root() {
        return;
    }
    for (checksums, owner) in [(true, USER), (false, 0)] {
        let place = Place::new();
        fs::create_dir(place.tree()).unwrap();
        write(&place.tree().join("a"), &Seed(1).bytes(20_000));
        let mode = Some(Mode::Beside);
        let options = SealOptions { mode, checksums: Some(checksums), ..place.options("rs:3+2") };
        seal(&options, &mut Silent).unwrap();
        give(&place.tree());
        give(&place.out());
        fs::remove_file(place.shard(3)).unwrap();
        let set = SetPaths { sources: vec![place.tree()], ..SetPaths::dir(place.out()) };
        let report = heal(&HealOptions { set, ..Default::default() }, &mut Silent).unwrap();
        assert_eq!(fs::metadata(place.shard(3)).unwrap().uid(), owner);
        let told: Vec<&str> = report.not_kept.iter().map(|note| note.reason.as_str()).collect();
        assert_eq!(told.len(), usize::from(!checksums), "{told:?}");
        assert!(told.iter().all(|told| told.contains("chown") && told.contains("65534")), "{told:?}");
    }
}

/// Of a set of root's in a folder for everybody one shard was lost, and a user puts in its place
/// what he made of it.
#[test]
fn a_state_that_only_another_user_tells_of_does_not_count() {
    if !is_root() {
        return;
    }
    for mode in [Mode::Full, Mode::Beside] {
        let (place, his) = (sealed(mode), Place::new());
        let whole = place.dir.path().join("whole.pin");
        pin(&place.set(), &whole, &mut Silent).unwrap();
        copy(place.dir.path(), his.dir.path());
        write(&his.tree().join("a"), b"his");
        his.reseal();
        let before = picture(&place.tree());
        // Where one suffices; elsewhere as many as it takes.
        let columns = if mode == Mode::Beside { 4..5 } else { 2..5 };
        let forged = |owner: u32| {
            for column in columns.clone() {
                fs::copy(his.shard(column), place.shard(column)).unwrap();
                chown(place.shard(column), Some(owner), Some(owner)).unwrap();
            }
        };
        let disputed = |set: SetPaths| {
            let _ = fs::remove_dir_all(place.target());
            let options = UnsealOptions { set: set.clone(), target: place.target(), ..Default::default() };
            let errors = [
                unseal(&options, &mut Silent).unwrap_err(),
                heal(&HealOptions { set, ..Default::default() }, &mut Silent).unwrap_err(),
                seal(&place.again(), &mut Silent).unwrap_err(),
            ];
            for error in errors {
                let is_it = matches!(error, SealError::StateOfAnother { generation: 2, .. });
                assert!(is_it, "{mode:?}: {error}");
            }
        };
        forged(USER);
        disputed(place.set());
        // The set is one user's, and so are not those shards.
        for column in (0..5).filter(|column| place.shard(*column).exists()) {
            chown(place.shard(column), Some(USER - 1), None).unwrap();
        }
        forged(USER);
        disputed(place.set());
        // All are of one owner again, who has the newest.
        forged(USER - 1);
        let his_state = SetPaths { sources: vec![his.tree()], ..place.set() };
        let unseal_as = |set| unseal(&UnsealOptions { set, ..unsealing(&place, &place.out()) }, &mut Silent);
        unseal_as(his_state).unwrap();
        assert_eq!(fs::read(place.target().join("a")).unwrap(), b"his");
        fs::remove_dir_all(place.target()).unwrap();
        if mode == Mode::Beside {
            // What is pinned is not what he says.
            forged(USER);
            let set = SetPaths { pin: Some(whole), ..place.set() };
            unseal_as(set).unwrap();
            assert_same_trees(&place.tree(), &place.target());
        }
        assert_eq!(picture(&place.tree()), before);
    }
}

/// Both of generation 2: his is in the place of the first.
#[test]
fn of_two_manifests_of_one_generation_that_counts_which_nobody_else_put_there() {
    if !is_root() {
        return;
    }
    let (place, his) = (sealed(Mode::Full), Place::new());
    copy(place.dir.path(), his.dir.path());
    for (place, content) in [(&his, b"his".as_slice()), (&place, b"of root")] {
        write(&place.tree().join("a"), content);
        place.reseal();
    }
    fs::remove_file(place.shard(0)).unwrap();
    fs::copy(his.shard(0), place.shard(0)).unwrap();
    chown(place.shard(0), Some(USER), Some(USER)).unwrap();
    place.assert_restores();
    // By number where neither is trusted.
    for column in 0..3 {
        fs::copy(his.shard(column), place.shard(column)).unwrap();
    }
    give(&place.out());
    place.unseal().unwrap();
    assert_same_trees(&his.tree(), &place.target());
}

/// Sealed by root, whose record that is, with the parity where a user can put shards.
#[test]
fn originals_are_not_written_as_shards_of_another_say_unless_they_are_named() {
    if !is_root() {
        return;
    }
    let place = sealed(Mode::Beside);
    let mut at = 0;
    let mut healed = |options: HealOptions| {
        at += 5000;
        flip(&place.tree().join("d/b"), at % 19_000);
        make_shards_younger(&place);
        heal(&options, &mut Silent).map(|report| report.files_healed.len())
    };
    let whole = || HealOptions { set: place.set(), ..Default::default() };
    let part =
        || HealOptions { select: Select { paths: vec!["d/b".into()], ..Select::default() }, ..whole() };
    assert_eq!(healed(whole()).unwrap(), 1);
    for of_user in [|dir: &Path| chown(dir, Some(USER), Some(USER)).unwrap(), give as fn(&Path)] {
        of_user(&place.out());
        for options in [whole(), part()] {
            let error = healed(options).unwrap_err();
            assert!(matches!(error, SealError::SourcesNotNamed { .. }), "{error}");
        }
        let set = SetPaths { sources: vec![place.tree()], ..place.set() };
        assert_eq!(healed(HealOptions { set, ..Default::default() }).unwrap(), 1);
    }
    give(&place.tree());
    assert_eq!(healed(whole()).unwrap(), 1, "all of it is that user's");
}

/// Root's own shards, which everybody may read, lie in a directory of a user: restored, perhaps.
#[test]
fn what_root_seals_is_not_shown_by_shards_that_a_user_can_have_put_there() {
    if !is_root() {
        return;
    }
    let place = sealed(Mode::Full);
    chown(place.out(), Some(USER), Some(USER)).unwrap();
    set_mode(&place.shard(2), 0o644);
    write(&place.tree().join("a"), b"a secret");
    let before = shards(&place.out());
    let error = seal(&place.again(), &mut Silent).unwrap_err();
    assert!(matches!(&error, SealError::OfAnother { path, owner: USER } if *path == place.out()), "{error}");
    assert!(shards(&place.out()) == before);
    set_mode(&place.shard(2), 0o600);
    assert_eq!(place.reseal().generation, 2);
}
