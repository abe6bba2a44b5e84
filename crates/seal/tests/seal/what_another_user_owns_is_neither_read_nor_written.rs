//! Claim: root, who may do everything, does nothing for one user with what belongs to another: no
//! link of a user leads to what is not hers, no shard of a user gets what is not hers, and what a
//! user put together is not for more people to read than its parts. A user's own folder is worked
//! on as before.

use crate::common::fault::{FaultDisk, Faults};
use crate::common::users::*;
use crate::common::*;
use pantile_seal::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};

/// A directory with a link to each shard.
fn links(place: &Place) -> PathBuf {
    let dir = place.dir.path().join("links");
    fs::create_dir(&dir).unwrap();
    for shard in fs::read_dir(place.out()).unwrap().map(|shard| shard.unwrap()) {
        symlink(shard.path(), dir.join(shard.file_name())).unwrap();
    }
    dir
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
        let error = heal(&healing(&dir), &mut Silent).unwrap_err();
        assert!(matches!(error, SealError::OfAnother { owner: USER, .. }), "{error}");
        write(&place.tree().join("a"), b"another");
        let again = SealOptions { out: dir.clone(), ..place.again() };
        let error = seal(&again, &mut Silent).unwrap_err();
        assert!(matches!(error, SealError::OfAnother { owner: USER, .. }), "{error}");
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
    assert!(matches!(&error, SealError::OfAnother { owner: USER, .. }), "{error}");
    // Nor if the folder is root's.
    chown(&dir, Some(0), Some(0)).unwrap();
    let error = heal(&healing(&dir), &mut Silent).unwrap_err();
    assert!(matches!(&error, SealError::CannotOpen { count: 4, .. }), "{error}");
    assert!(shards(&place.out()) == before);
}

/// By sudo it does, for whom gave the command: a test of the command has that.
#[test]
fn root_writes_to_no_set_in_a_folder_of_a_user_and_reads_no_originals_for_it() {
    if !is_root() {
        return;
    }
    for mode in [Mode::Full, Mode::Beside] {
        let place = sealed(mode);
        // Hers, and of root's shards in it.
        for is_root_s in [false, true] {
            give(&place.tree());
            give(&place.out());
            if is_root_s {
                fs::read_dir(place.out())
                    .unwrap()
                    .for_each(|it| chown(it.unwrap().path(), Some(0), None).unwrap());
            }
            flip(&place.shard(4), 9000);
            let before = shards(&place.out());
            let named = || SetPaths { sources: vec![place.tree()], ..place.set() };
            let sources = if mode == Mode::Full { place.set() } else { named() };
            let to = |set| UnsealOptions { set, target: place.target(), ..Default::default() };
            let mut refused = vec![
                place.heal().map(drop).unwrap_err(),
                heal(&HealOptions { set: named(), ..Default::default() }, &mut Silent).map(drop).unwrap_err(),
                seal(&place.again(), &mut Silent).map(drop).unwrap_err(),
                seal(&SealOptions { dry_run: true, ..place.again() }, &mut Silent).map(drop).unwrap_err(),
                seal(&SealOptions { name: Some("another".into()), ..place.options("rs:3+2") }, &mut Silent)
                    .map(drop)
                    .unwrap_err(),
            ];
            match unseal(&to(sources), &mut Silent) {
                Ok(_) => assert_eq!(mode, Mode::Full),
                Err(error) => {
                    assert_eq!(mode, Mode::Beside);
                    refused.push(error);
                    refused.push(unseal(&to(place.set()), &mut Silent).unwrap_err());
                }
            }
            for error in refused {
                assert!(matches!(error, SealError::OfAnother { owner: USER, .. }), "{error}");
            }
            assert!(shards(&place.out()) == before);
            match (mode, verify(&VerifyOptions { set: named(), ..Default::default() }, &mut Silent)) {
                (Mode::Full, _) => assert!(!place.verify().clean),
                (Mode::Beside, verified) => assert!(matches!(verified, Err(SealError::OfAnother { .. }))),
            }
            let _ = fs::remove_dir_all(place.target());
            flip(&place.shard(4), 9000);
        }
        // What she moves to a place of root's, root may go on with.
        give(&place.out());
        chown(place.out(), Some(0), Some(0)).unwrap();
        for shard in fs::read_dir(place.out()).unwrap() {
            chown(shard.unwrap().path(), Some(0), Some(0)).unwrap();
        }
        assert!(place.heal().is_ok());
    }
}

/// The manifest that counts is that of a shard of hers which cannot be used, named beside those in
/// a folder of root's.
#[test]
fn a_shard_that_cannot_be_used_is_held_to_the_same_as_others() {
    if !is_root() {
        return;
    }
    let place = sealed(Mode::Full);
    let hers = place.dir.path().join("hers");
    fs::create_dir(&hers).unwrap();
    let shard = hers.join("a.shard");
    fs::rename(place.shard(0), &shard).unwrap();
    // Its manifest is good, its blocks are not there.
    fs::File::options().write(true).open(&shard).unwrap().set_len(9000).unwrap();
    give(&hers);
    let before = shards(&place.out());
    let set = SetPaths { paths: vec![place.out(), shard], ..Default::default() };
    let error = heal(&HealOptions { set, ..Default::default() }, &mut Silent).unwrap_err();
    assert!(matches!(error, SealError::OfAnother { owner: USER, .. }), "{error}");
    assert!(shards(&place.out()) == before);
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
    for dir_mode in [0o1777, 0o755] {
        set_mode(&place.out(), dir_mode);
        let error = seal(&place.again(), &mut Silent).unwrap_err();
        assert!(matches!(error, SealError::OfAnother { .. }), "{error}");
        flip(&place.shard(1), 9000);
        let error = place.heal().unwrap_err();
        assert!(matches!(error, SealError::OfAnother { .. }), "{error}");
        flip(&place.shard(1), 9000);
    }
    assert!(before(&place) == untouched);
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
        for set in [&set, &pinned] {
            let error = heal_as(set);
            assert!(matches!(&error, SealError::OfAnother { owner: USER, .. }), "{error}");
        }
        assert!(shards(&hers) == before);
    }
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
            // Nor is root's done to a shard of a user.
            chown(&journal, Some(0), Some(0)).unwrap();
            let shard = shards(&place.out()).into_keys().next().unwrap();
            let shard = place.out().join(shard);
            chown(&shard, Some(USER), None).unwrap();
            let error = place.heal().unwrap_err();
            assert!(matches!(error, SealError::JournalOfAnother { owner: 0, .. }), "{error}");
            assert!(shards(&place.out()) == before, "after {after}");
            chown(&shard, Some(0), None).unwrap();
            // Nor one that others may write to.
            set_mode(&journal, 0o606);
            let error = place.heal().unwrap_err();
            assert!(matches!(error, SealError::JournalOfAnother { .. }), "{error}");
            set_mode(&journal, 0o600);
            place.heal().unwrap();
            assert!(!journal.exists() && place.verify().clean, "after {after}");
        }
        if is_done {
            break;
        }
    }
    assert!(left > 3, "{left}");
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
    let error = place.heal().unwrap_err();
    assert!(matches!(error, SealError::SourcesNotNamed { .. } | SealError::OfAnother { .. }), "{error}");
    if is_root() {
        let error = seal(&SealOptions { read_all: true, ..place.again() }, &mut Silent).unwrap_err();
        assert!(matches!(error, SealError::OfAnother { .. }), "{error}");
        assert!(error.to_string().contains("others may write there"), "{error}");
    }
    set_mode(&place.out(), 0o755);
    assert_eq!(place.heal().unwrap().files_healed.len(), 1);
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
        // All are of one owner again, who has the newest; but root reads no originals for him.
        forged(USER - 1);
        let his_state = SetPaths { sources: vec![his.tree()], ..place.set() };
        let unsealed =
            unseal(&UnsealOptions { set: his_state, ..unsealing(&place, &place.out()) }, &mut Silent);
        match mode {
            Mode::Full => assert_eq!(fs::read(place.target().join("a")).unwrap(), b"his"),
            Mode::Beside => assert!(matches!(unsealed, Err(SealError::OfAnother { .. }))),
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
fn originals_are_not_written_as_shards_of_another_say() {
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
        let set = SetPaths { sources: vec![place.tree()], ..place.set() };
        for options in [whole(), part(), HealOptions { set, ..Default::default() }] {
            let error = healed(options).unwrap_err();
            assert!(matches!(error, SealError::OfAnother { .. }), "{error}");
        }
    }
}

/// Shards of root's that a group, or everybody, may write to.
#[test]
fn a_shard_that_others_may_write_to_is_theirs() {
    if !is_root() {
        return;
    }
    let place = sealed(Mode::Full);
    flip(&place.shard(3), 9000);
    for (group, mode, is_theirs) in [(0, 0o606, true), (USER, 0o660, true), (0, 0o660, false)] {
        chown(place.shard(1), None, Some(group)).unwrap();
        set_mode(&place.shard(1), mode);
        let healed = place.heal();
        assert_eq!(matches!(healed, Err(SealError::OfAnother { .. })), is_theirs, "{mode:o}: {healed:?}");
    }
}

/// What a set of a user says of its sources may lie where she cannot look.
#[test]
fn sources_that_only_a_set_of_another_names_are_not_gone_to() {
    if !is_root() {
        return;
    }
    for mode in [Mode::Full, Mode::Beside] {
        let place = sealed(mode);
        // Whoever lists what is there does not come by it.
        fs::remove_file(place.tree().join("d/b")).unwrap();
        let looks = || {
            let disk = FaultDisk::new(place.dir.path(), Faults::default());
            let world = World { disk: &disk, threads: 1 };
            world.open_set(&SetPaths::dir(place.out())).unwrap();
            world.list(&SetPaths::dir(place.out()), &Select::default()).unwrap();
            let _ = world.verify(
                &VerifyOptions { set: SetPaths::dir(place.out()), ..Default::default() },
                &mut Silent,
            );
            let _ = world.unseal(&unsealing(&place, &place.out()), &mut Silent);
            let is_gone_to = disk.roots().contains(&place.tree());
            // Nor at what lies there, if they are named.
            let set = SetPaths { sources: vec![place.tree()], ..SetPaths::dir(place.out()) };
            let _ = world.verify(&VerifyOptions { set, ..Default::default() }, &mut Silent);
            let is_looked_at = disk.looked_at().contains(&place.tree().join("d/b"));
            assert_eq!(is_looked_at, is_gone_to);
            is_gone_to
        };
        assert!(looks(), "root's own set");
        let _ = fs::remove_dir_all(place.target());
        give(&place.out());
        assert!(!looks(), "{mode:?}");
    }
}

/// A user sees whether somebody follows a link of hers by the times of access of other links of
/// hers that lie on the way, behind names in a directory into which she cannot look.
#[test]
fn links_of_a_user_are_not_gone_along() {
    if !is_root() {
        return;
    }
    let place = sealed(Mode::Full);
    let (hers, closed) = (place.dir.path().join("hers"), place.dir.path().join("closed"));
    fs::create_dir(&hers).unwrap();
    fs::create_dir_all(closed.join("guess")).unwrap();
    set_mode(&closed, 0o700);
    let (set, real, beacon) = (hers.join("set"), hers.join("real"), hers.join("beacon"));
    fs::rename(place.out(), &set).unwrap();
    fs::create_dir(&real).unwrap();
    symlink("real", &beacon).unwrap();
    symlink(closed.join("guess/../../hers/beacon"), hers.join("between")).unwrap();
    symlink("real", hers.join("straight")).unwrap();
    let name = place.shard(0).file_name().unwrap().to_owned();
    fs::rename(set.join(&name), real.join(&name)).unwrap();
    let long_ago = rustix::fs::Timespec { tv_sec: 1_000_000, tv_nsec: 0 };
    // A time of access that is younger than the last change is not always set again.
    let set_back = |link: &Path| {
        let times = rustix::fs::Timestamps { last_access: long_ago, last_modification: long_ago };
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::utimensat(rustix::fs::CWD, link, &times, flags).unwrap();
    };
    let is_gone_along = |link: &Path| fs::symlink_metadata(link).unwrap().atime() != long_ago.tv_sec;
    let looks = || {
        let set = SetPaths::dir(&set);
        let _ = list(&set, &Select::default());
        let _ = verify(&VerifyOptions { set: set.clone(), ..Default::default() }, &mut Silent);
        let _ = heal(&HealOptions { set: set.clone(), ..Default::default() }, &mut Silent);
        let out = Some(place.dir.path().join("anew"));
        let _ = heal(&HealOptions { set: set.clone(), out, ..Default::default() }, &mut Silent);
        let _ = unseal(&UnsealOptions { set, target: place.target(), ..Default::default() }, &mut Silent);
        let _ = fs::remove_dir_all(place.target());
    };
    let beacons = [&beacon, &hers.join("straight")];
    set_back(beacons[1]);
    fs::metadata(beacons[1]).unwrap();
    assert!(is_gone_along(beacons[1]), "the file system keeps times of access");
    let (as_shard, as_journal) = (set.join(&name), set.join("tree.journal"));
    // In a directory of hers, and in one of root's in which everybody may put something.
    for (is_hers, link) in [(true, &as_shard), (true, &as_journal), (false, &as_shard)] {
        let down_and_up = closed.join("guess/../../hers/beacon");
        for to in [hers.join("straight"), hers.join("between"), down_and_up] {
            let _ = fs::remove_file(&as_shard);
            let _ = fs::remove_file(&as_journal);
            symlink(to.join(&name), link).unwrap();
            give(&hers);
            if !is_hers {
                fs::read_dir(&set)
                    .unwrap()
                    .for_each(|shard| lchown(shard.unwrap().path(), Some(0), None).unwrap());
                lchown(link, Some(USER), None).unwrap();
                chown(&set, Some(0), Some(0)).unwrap();
                set_mode(&set, 0o1777);
            }
            beacons.iter().for_each(|beacon| set_back(beacon));
            looks();
            let seen = beacons.iter().any(|beacon| is_gone_along(beacon));
            assert!(!seen, "{} to {}", link.display(), to.display());
        }
    }
}
