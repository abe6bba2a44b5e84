//! Claim: whoever made a set, or can have exchanged it for another, learns nothing by what `unseal`
//! makes of it, and gets no rights: not of what is restored, nor of what is there.

use crate::common::users::*;
use crate::common::*;
use pantile_seal::*;
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

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

/// Directories of sets that lie in one of a user's, who can give each the name of another.
#[test]
fn what_a_user_can_have_exchanged_as_a_whole_is_for_who_restores_it_alone() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let other = place.dir.path().join("other");
    for dir in [&place.tree(), &other] {
        fs::create_dir_all(dir).unwrap();
        let name = dir.file_name().unwrap();
        write(&dir.join(name), &Seed(5).bytes(20_000));
        set_mode(&dir.join(name), 0o644);
    }
    let hers = place.dir.path().join("hers");
    fs::create_dir(&hers).unwrap();
    let out = hers.join("set");
    let sources = vec![place.tree(), other];
    seal(&SealOptions { out: out.clone(), sources, ..place.options("rs:3+2") }, &mut Silent).unwrap();
    let restored = || {
        let _ = fs::remove_dir_all(place.target());
        unseal(&unsealing(&place, &out), &mut Silent).unwrap();
        let made = [place.target(), place.target().join("tree"), place.target().join("tree/tree")];
        made.map(|path| mode_of(&path) & 0o077)
    };
    assert!(restored().into_iter().all(|of_others| of_others != 0));
    chown(&hers, Some(USER), None).unwrap();
    assert_eq!(restored(), [0; 3]);
    // Nor is it put where others can see what it is called.
    for (mode, is_done) in [(0o755, false), (0o700, true)] {
        fs::remove_dir_all(place.target()).unwrap();
        fs::create_dir(place.target()).unwrap();
        set_mode(&place.target(), mode);
        let done = unseal(&unsealing(&place, &out), &mut Silent);
        assert_eq!(!matches!(done, Err(SealError::NotNew { owner: USER, .. })), is_done, "{done:?}");
    }
}

/// She sees whether what is there has the names that she guesses, and the content: by what is read,
/// and by what is made anew.
#[test]
fn what_a_user_says_is_restored_to_a_new_directory() {
    if !is_root() {
        return;
    }
    let place = sealed(Mode::Full);
    let target = place.target();
    let restored = |overwrite: bool| {
        unseal(&UnsealOptions { overwrite, ..unsealing(&place, &place.out()) }, &mut Silent)
    };
    let anew = |names: &[&str]| {
        let _ = fs::remove_dir_all(&target);
        fs::create_dir(&target).unwrap();
        names.iter().for_each(|name| write(&target.join(name), b"a"));
    };
    for is_hers in [false, true] {
        if is_hers {
            give(&place.out());
        }
        for overwrite in [false, true] {
            for names in [&["c"] as &[&str], &["a"], &[".hidden"]] {
                anew(names);
                let before = shards(&target);
                let done = restored(overwrite);
                match is_hers {
                    true => {
                        assert!(matches!(done, Err(SealError::NotNew { owner: USER, .. })), "{done:?}");
                        assert!(shards(&target) == before);
                    }
                    false => assert_eq!(done.is_ok(), overwrite || names != ["a"], "{done:?}"),
                }
            }
            anew(&[]);
            restored(overwrite).unwrap();
            assert!(target.join("d/b").exists());
        }
    }
}

/// What a run was cut off in is not new, and the next one goes on; not for another state.
#[test]
fn what_a_user_says_is_restored_by_several_runs() {
    struct CutOff(usize);
    impl Progress for CutOff {
        fn phase(&mut self, _name: &'static str, _total_bytes: u64) {}
        fn advance(&mut self, _bytes: u64) {
            self.0 = self.0.saturating_sub(1);
        }
        fn cancelled(&self) -> bool {
            self.0 == 0
        }
    }
    if !is_root() {
        return;
    }
    for is_there in [false, true] {
        for is_other in [false, true] {
            let place = sealed(Mode::Full);
            if is_there {
                fs::create_dir(place.target()).unwrap();
                set_mode(&place.target(), 0o755);
            }
            give(&place.out());
            let options = unsealing(&place, &place.out());
            assert!(matches!(unseal(&options, &mut CutOff(1)), Err(SealError::Cancelled)));
            if is_other {
                let of_root = |path: &Path| chown(path, Some(0), None).unwrap();
                of_root(&place.out());
                fs::read_dir(place.out()).unwrap().for_each(|shard| of_root(&shard.unwrap().path()));
                write(&place.tree().join("a"), b"another");
                place.reseal();
                give(&place.out());
            }
            let done = unseal(&options, &mut Silent);
            assert_eq!(matches!(done, Err(SealError::NotNew { .. })), is_other, "{done:?}");
            if !is_other {
                done.unwrap();
                assert!(fs::read_dir(place.target()).unwrap().count() == 2, "no mark is left");
            }
        }
    }
}

/// Somebody makes a file there, and a link, when it was asked what is in the way.
#[test]
fn nothing_that_comes_meanwhile_is_replaced() {
    struct Makes(PathBuf);
    impl Progress for Makes {
        fn phase(&mut self, _name: &'static str, _total_bytes: u64) {}
        fn advance(&mut self, _bytes: u64) {
            for name in ["a", "d/b"] {
                let _ = fs::write(self.0.join(name), b"theirs");
            }
        }
    }
    let place = sealed(Mode::Full);
    let error = unseal(&unsealing(&place, &place.out()), &mut Makes(place.target())).unwrap_err();
    assert!(matches!(error, SealError::NotRestored { .. }), "{error}");
    assert_eq!(fs::read(place.target().join("a")).unwrap(), b"theirs");
}

/// Only the folder above closes its files.
#[test]
fn what_is_restored_is_closed_until_all_is_there() {
    struct Looks(PathBuf, Vec<u32>);
    impl Progress for Looks {
        fn phase(&mut self, _name: &'static str, _total_bytes: u64) {}
        fn advance(&mut self, _bytes: u64) {
            self.1.push(mode_of(&self.0));
        }
        fn cancelled(&self) -> bool {
            self.1.len() == 1
        }
    }
    let place = Place::new();
    fs::create_dir_all(place.tree().join("a")).unwrap();
    for name in ["a/b", "c"] {
        write(&place.tree().join(name), &Seed(1).bytes(20_000));
    }
    set_mode(&place.tree(), 0o750);
    seal(&place.options("rs:3+2"), &mut Silent).unwrap();
    let mut looks = Looks(place.target(), Vec::new());
    assert!(matches!(unseal(&unsealing(&place, &place.out()), &mut looks), Err(SealError::Cancelled)));
    assert_eq!((looks.1, mode_of(&place.target())), (vec![0o700], 0o700));
    // The next run finishes it.
    let umask = {
        fs::create_dir(place.dir.path().join("made")).unwrap();
        mode_of(&place.dir.path().join("made"))
    };
    unseal(&unsealing(&place, &place.out()), &mut Silent).unwrap();
    assert_eq!(mode_of(&place.target()), 0o750 & umask);
}

/// A run that was cut off leaves a closed directory and a mark; a set of the same number would have
/// the directory open.
#[test]
fn a_mark_is_of_one_state() {
    struct UntilMade(PathBuf);
    impl Progress for UntilMade {
        fn phase(&mut self, _name: &'static str, _total_bytes: u64) {}
        fn advance(&mut self, _bytes: u64) {}
        fn cancelled(&self) -> bool {
            self.0.exists()
        }
    }
    for is_other in [false, true] {
        let place = sealed(Mode::Full);
        set_mode(&place.tree().join("d"), 0o750);
        place.reseal();
        let dir = place.target().join("d");
        let cut_off = unseal(&unsealing(&place, &place.out()), &mut UntilMade(dir.clone()));
        assert!(matches!(cut_off, Err(SealError::Cancelled)));
        assert_eq!(mode_of(&dir), 0o700, "it was made, and is not finished");
        if is_other {
            set_mode(&place.tree().join("d"), 0o755);
            place.reseal();
        }
        unseal(&unsealing(&place, &place.out()), &mut Silent).unwrap();
        assert_eq!(mode_of(&dir) & 0o077 == 0, is_other);
    }
}
