//! Claim: what others may have put in the place of a file or directory gets no rights from a set,
//! and counts for nothing: private directories, other names of a file, programs, records.

use crate::common::fault::{FaultDisk, Faults};
use crate::common::users::{is_root, mode_of, set_mode};
use crate::common::*;
use pantile_seal::*;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

fn sealed(mode: Mode) -> (Place, String) {
    let place = Place::new();
    fs::create_dir_all(place.tree().join("d")).unwrap();
    for name in ["a", "d/b"] {
        write(&place.tree().join(name), &Seed(5).bytes(20_000));
    }
    let mut options = place.options("rs:3+2");
    options.mode = Some(mode);
    let set = seal(&options, &mut Silent).unwrap().set;
    (place, set)
}

fn overwriting(place: &Place) -> UnsealOptions {
    UnsealOptions { set: place.set(), target: place.target(), overwrite: true, ..Default::default() }
}

/// The target, which others may write to, with a private directory in it.
fn with_private(place: &Place, name: &str) {
    fs::create_dir(place.target()).unwrap();
    set_mode(&place.target(), 0o777);
    fs::create_dir(place.target().join(name)).unwrap();
    set_mode(&place.target().join(name), 0o700);
    fs::write(place.target().join(name).join("secret"), "secret").unwrap();
}

#[test]
fn a_mark_that_others_may_have_made_opens_no_private_directory() {
    let (place, set) = sealed(Mode::Full);
    with_private(&place, "d");
    fs::write(place.target().join(format!(".pantile-{set}.{}.tmp", u32::MAX)), "").unwrap();
    // They may have moved it there.
    let error = unseal(&overwriting(&place), &mut Silent).unwrap_err();
    assert!(matches!(error, SealError::NotRestored { .. }), "{error}");
    assert_eq!(mode_of(&place.target().join("d")), 0o700);
    assert!(!place.target().join("d/b").exists());
    // In what everybody may write to there is nothing to be kept from anybody.
    set_mode(&place.target().join("d"), 0o777);
    unseal(&overwriting(&place), &mut Silent).unwrap();
    assert_eq!(mode_of(&place.target().join("d")), 0o777);
}

#[test]
fn a_private_directory_that_takes_the_place_of_one_that_was_made_stays_private() {
    const ROUNDS: usize = 100_000;
    let (place, _) = sealed(Mode::Full);
    with_private(&place, "private");
    let (made, private) = (place.target().join("d"), place.target().join("private"));
    let is_private = |dir: &Path| !dir.join("secret").exists() || mode_of(dir) == 0o700;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                let _ = renameat_with(CWD, &made, CWD, &private, RenameFlags::EXCHANGE);
            }
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            let _ = unseal(&overwriting(&place), &mut Silent);
            for dir in [&made, &private].into_iter().filter(|dir| !dir.join("secret").exists()) {
                let _ = fs::remove_dir_all(dir);
            }
        }
    });
    assert!([&made, &private].iter().all(|dir| is_private(dir)));
}

#[test]
fn a_file_that_has_another_name_elsewhere_is_not_changed_there() {
    let (place, _) = sealed(Mode::Full);
    let elsewhere = place.dir.path().join("elsewhere");
    fs::copy(place.tree().join("a"), &elsewhere).unwrap();
    set_mode(&elsewhere, 0o4711);
    let modified = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    let before = modified(&elsewhere);
    fs::create_dir(place.target()).unwrap();
    fs::hard_link(&elsewhere, place.target().join("a")).unwrap();
    unseal(&overwriting(&place), &mut Silent).unwrap();
    assert_eq!((modified(&elsewhere), mode_of(&elsewhere)), (before, 0o4711));
    assert_eq!(mode_of(&place.target().join("a")), mode_of(&place.tree().join("a")));
}

#[test]
fn nobody_else_chooses_what_runs_with_the_rights_of_an_owner() {
    let tree = |place: &Place| place.tree().join("d");
    for (others_write_to, kept) in [(None, 0o4755), (Some(tree), 0o755)] {
        let (place, _) = sealed(Mode::Beside);
        let program = place.tree().join("d/b");
        set_mode(&program, 0o4755);
        place.reseal();
        if let Some(dir) = others_write_to {
            set_mode(&dir(&place), 0o777);
        }
        flip(&program, 100);
        set_mode(&program, 0o4755);
        make_shards_younger(&place);
        let set = SetPaths { sources: vec![place.tree()], ..place.set() };
        let healed = heal(&HealOptions { set, ..Default::default() }, &mut Silent).unwrap();
        assert_eq!(healed.files_healed.len(), 1);
        assert_eq!(mode_of(&program), kept);
        assert_eq!(healed.not_kept.iter().any(|not| not.reason.contains("setuid")), kept == 0o755);
    }
}

#[test]
fn a_record_in_a_directory_that_others_may_exchange_is_none() {
    let (place, _) = sealed(Mode::Beside);
    let state = place.dir.path().join("of another");
    fs::create_dir(&state).unwrap();
    let mut options = HealOptions { set: place.set(), ..Default::default() };
    fs::rename(place.records(), state.join("records")).unwrap();
    options.set.records = Some(state.join("records"));
    fs::remove_file(place.tree().join("a")).unwrap();
    set_mode(&state, 0o777);
    assert!(matches!(heal(&options, &mut Silent), Err(SealError::SourcesNotNamed { .. })));
    set_mode(&state, 0o755);
    assert_eq!(heal(&options, &mut Silent).unwrap().files_healed.len(), 1);
}

/// Root seals a folder of a user in which not everything is for her to read. She puts files and
/// directories of her own in the place of those, and does not get the content.
#[test]
fn what_a_user_could_not_read_when_it_was_sealed_is_not_healed_into_her_files() {
    use std::os::unix::fs::{MetadataExt, chown};
    let place = Place::new();
    if !is_root() {
        return;
    }
    let tree = place.tree();
    fs::create_dir_all(tree.join("closed")).unwrap();
    fs::create_dir(tree.join("open")).unwrap();
    for (name, mode) in [("secret", 0o600), ("closed/f", 0o644), ("closed/g", 0o644), ("open/f", 0o644)] {
        write(&tree.join(name), &Seed(5).bytes(20_000));
        set_mode(&tree.join(name), mode);
    }
    set_mode(&tree.join("closed"), 0o700);
    chown(&tree, Some(65534), None).unwrap();
    ["open", "open/f"].iter().for_each(|name| chown(tree.join(name), Some(65534), None).unwrap());
    let mut options = place.options("rs:4+4");
    options.mode = Some(Mode::Beside);
    seal(&options, &mut Silent).unwrap();
    // What rots keeps the owner that it had.
    rot(&place, &tree.join("secret"), 100);
    chown(tree.join("secret"), Some(0), None).unwrap();
    make_shards_younger(&place);
    assert_eq!(place.heal().unwrap().files_healed.len(), 1);
    // She may rename what is not hers in her directory, and knows its length and its time.
    fs::rename(tree.join("closed"), place.dir.path().join("away")).unwrap();
    fs::create_dir(tree.join("closed")).unwrap();
    for name in ["secret", "closed/f", "open/f"] {
        let path = tree.join(name);
        let of = if name == "closed/f" { place.dir.path().join("away/f") } else { path.clone() };
        let modified = fs::metadata(of).unwrap().modified().unwrap();
        let _ = fs::remove_file(&path);
        fs::write(&path, vec![1; 20_000]).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        set_mode(&path, 0o666);
        chown(&path, Some(65534), None).unwrap();
    }
    chown(tree.join("closed"), Some(65534), None).unwrap();
    let Err(SealError::NotHealed { report: healed }) = place.heal() else { panic!("not closed/g") };
    assert_eq!(healed.files_healed.len(), 2, "{healed:?}");
    assert!(fs::read(tree.join("closed/f")).unwrap() == vec![1; 20_000], "nor what she may have guessed");
    assert!(!tree.join("closed/g").exists(), "she did not know that it was there");
    let owner = |name: &str| fs::metadata(tree.join(name)).unwrap().uid();
    assert_eq!((owner("secret"), mode_of(&tree.join("secret")) & 0o077), (0, 0));
    let is_told = |not: &NotDone| not.path.ends_with("secret") && not.reason.contains("who healed it alone");
    assert!(healed.not_kept.iter().any(is_told), "{:?}", healed.not_kept);
    assert_eq!((owner("open/f"), mode_of(&tree.join("open/f"))), (65534, 0o666), "everybody could read it");
}

/// Exchanges two directories when originals begin to be healed.
struct Exchanging {
    dirs: [std::path::PathBuf; 2],
}

impl Progress for Exchanging {
    fn phase(&mut self, name: &'static str, _total_bytes: u64) {
        if name == "healing files" {
            renameat_with(CWD, &self.dirs[0], CWD, &self.dirs[1], RenameFlags::EXCHANGE).unwrap();
        }
    }

    fn advance(&mut self, _bytes: u64) {}
}

/// A user removes a file of root's from her directory, and exchanges that, while it is healed, for
/// one in which a file of hers has had the name for longer than the set is there.
#[test]
fn a_directory_that_is_exchanged_while_its_files_are_healed_gives_nobody_what_she_could_not_read() {
    use std::os::unix::fs::{MetadataExt, chown};
    for levels in 0..2 {
        let place = Place::new();
        if !is_root() {
            return;
        }
        // What is exchanged is the directory of the file, or one above it.
        let below = ["key", "inner/key"][levels];
        let [hers, aside] = ["hers", "aside/hers"].map(|name| place.tree().join(name));
        for (dir, owner) in [(&hers, 0), (&aside, 65534)] {
            let file = dir.join(below);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            write(&file, &Seed(u64::from(owner)).bytes(20_000));
            set_mode(&file, if owner == 0 { 0o600 } else { 0o644 });
            chown(file, Some(owner), None).unwrap();
            file_dirs(dir).for_each(|dir| chown(dir, Some(65534), None).unwrap());
        }
        let mut options = place.options("rs:4+4");
        options.mode = Some(Mode::Beside);
        seal(&options, &mut Silent).unwrap();
        make_shards_younger(&place);
        fs::remove_file(hers.join(below)).unwrap();
        let mut exchanging = Exchanging { dirs: [hers.clone(), aside.clone()] };
        let healing = HealOptions { set: place.set(), ..Default::default() };
        let _ = heal(&healing, &mut exchanging);
        let secret = Seed(0).bytes(20_000);
        let mut found = 0;
        for dir in [&hers, &aside].into_iter().flat_map(|dir| file_dirs(dir)) {
            for file in
                fs::read_dir(dir).unwrap().map(|file| file.unwrap().path()).filter(|file| file.is_file())
            {
                let meta = fs::metadata(&file).unwrap();
                if fs::read(&file).unwrap() == secret {
                    assert_eq!((meta.uid(), meta.mode() & 0o077), (0, 0), "{}", file.display());
                    found += 1;
                }
            }
        }
        assert!(found <= 1);
    }
}

/// A directory and the one in it, if there is one.
fn file_dirs(dir: &Path) -> impl Iterator<Item = std::path::PathBuf> {
    [dir.to_path_buf(), dir.join("inner")].into_iter().filter(|dir| dir.is_dir())
}

/// A stranger makes shards of files that she knows, and of which one has the name, the size and the
/// time of a file that she cannot read; what is computed of the other tells that one.
#[test]
fn what_shards_of_a_stranger_make_of_a_private_file_is_for_nobody_else() {
    let (theirs, place) = (Place::new(), Place::new());
    fs::create_dir(theirs.tree()).unwrap();
    fs::create_dir(place.tree()).unwrap();
    for name in ["known", "secret"] {
        write(&theirs.tree().join(name), &[0; 4096]);
    }
    let secret = Seed(7).bytes(4096);
    write(&place.tree().join("secret"), &secret);
    set_mode(&place.tree().join("secret"), 0o600);
    let time = fs::metadata(theirs.tree().join("secret")).unwrap().modified().unwrap();
    let file = fs::File::options().write(true).open(place.tree().join("secret")).unwrap();
    file.set_modified(time).unwrap();
    let mut options = theirs.options("rs:2+1");
    options.mode = Some(Mode::Beside);
    options.checksums = Some(false);
    seal(&options, &mut Silent).unwrap();
    let mut options = HealOptions { set: place.set(), ..Default::default() };
    options.set.paths = vec![theirs.out()];
    options.set.sources = vec![place.tree()];
    let healed = heal(&options, &mut Silent).unwrap();
    assert_eq!(mode_of(&place.tree().join("known")) & 0o077, 0);
    assert!(healed.not_kept.iter().any(|not| not.path.ends_with("known")), "{:?}", healed.not_kept);
    // Of her own shards, which nobody else may write to, she knows it.
    fs::remove_file(theirs.tree().join("known")).unwrap();
    theirs.heal().unwrap();
    assert_ne!(mode_of(&theirs.tree().join("known")) & 0o044, 0);
}

/// A mark of a run that was cut off tells of directories that it made, and of no others.
#[test]
fn a_directory_that_was_there_keeps_its_rights_whatever_was_cut_off() {
    let (place, _) = sealed(Mode::Full);
    let closed = place.target().join("d");
    fs::create_dir_all(&closed).unwrap();
    set_mode(&closed, 0o700);
    let mut options = UnsealOptions { modes: true, ..overwriting(&place) };
    options.target = place.target();
    let set = open_set(&place.set()).unwrap().set;
    for mark in [&[][..], &[0; 16], &[7; 100]] {
        let path = place.target().join(format!(".pantile-{set}.{}.tmp", u32::MAX));
        fs::write(&path, mark).unwrap();
        set_mode(&path, 0o600);
        unseal(&options, &mut Silent).unwrap();
        assert_eq!(mode_of(&closed) & 0o777, 0o700);
    }
}

/// The set says where its originals are: there could be a private file of this user, and what
/// becomes of it would tell what is in it.
#[test]
fn what_a_stranger_calls_an_original_is_not_read_and_restored_for_nobody_else() {
    let (place, _) = sealed_without_checksums();
    let unseal_as = |set: SetPaths| {
        let _ = fs::remove_dir_all(place.target());
        let options = UnsealOptions { set, target: place.target(), modes: true, ..Default::default() };
        unseal(&options, &mut Silent)?;
        Ok(["", "d", "d/b"].map(|name| mode_of(&place.target().join(name)) & 0o077))
    };
    let unnamed = SetPaths { records: None, ..place.set() };
    let named = SetPaths { sources: vec![place.tree()], ..unnamed.clone() };
    assert!(matches!(unseal_as(unnamed), Err(SealError::SourcesNotNamed { .. })));
    assert!(!place.target().exists());
    assert_eq!(unseal_as(named).unwrap()[1..], [0, 0]);
    assert!(unseal_as(place.set()).unwrap()[1..].iter().all(|&mode| mode != 0));
}

fn sealed_without_checksums() -> (Place, String) {
    let place = Place::new();
    fs::create_dir_all(place.tree().join("d")).unwrap();
    write(&place.tree().join("d/b"), &Seed(5).bytes(20_000));
    let mut options = place.options("rs:3+2");
    (options.mode, options.checksums) = (Some(Mode::Beside), Some(false));
    let set = seal(&options, &mut Silent).unwrap().set;
    (place, set)
}

/// Root's own set over a folder of a user, and a private directory of root's in there, which that
/// user may move: onto one that was sealed.
#[test]
fn a_private_directory_that_was_moved_onto_a_sealed_one_gets_nothing() {
    use std::os::unix::fs::chown;
    const USER: u32 = 65534;
    // The last holds the very names that were sealed: its time would show that.
    for (mode, is_heal, is_whole) in
        [(Mode::Beside, true, false), (Mode::Full, false, false), (Mode::Beside, true, true)]
    {
        let place = Place::new();
        if !is_root() {
            return;
        }
        let hers = place.tree();
        let (sealed_dir, private) = (hers.join("d"), hers.join("private"));
        fs::create_dir_all(&sealed_dir).unwrap();
        for name in ["d/evil", "d/own", "e"] {
            write(&hers.join(name), &Seed(5).bytes(20_000));
            set_mode(&hers.join(name), 0o644);
            chown(hers.join(name), Some(USER), None).unwrap();
        }
        [&hers, &sealed_dir].iter().for_each(|dir| chown(dir, Some(USER), None).unwrap());
        seal(&SealOptions { mode: Some(mode), ..place.options("rs:4+4") }, &mut Silent).unwrap();
        fs::create_dir(&private).unwrap();
        set_mode(&private, 0o700);
        write(&private.join("own"), b"precious");
        if is_whole {
            write(&private.join("evil"), &Seed(6).bytes(20_000));
        }
        fs::remove_dir_all(&sealed_dir).unwrap();
        fs::remove_file(hers.join("e")).unwrap();
        fs::rename(&private, &sealed_dir).unwrap();
        let before = fs::metadata(&sealed_dir).unwrap().modified().unwrap();
        let _ = match is_heal {
            true => heal(&HealOptions { set: place.set(), ..Default::default() }, &mut Silent).map(drop),
            false => {
                unseal(&UnsealOptions { target: hers.clone(), ..overwriting(&place) }, &mut Silent).map(drop)
            }
        };
        let left = if is_whole { Seed(6).bytes(20_000) } else { Vec::new() };
        assert!(fs::read(sealed_dir.join("evil")).unwrap_or_default() == left);
        assert!(!sealed_dir.join("own.before-heal").exists());
        assert_eq!(fs::read(sealed_dir.join("own")).unwrap(), b"precious");
        assert_eq!(fs::metadata(&sealed_dir).unwrap().modified().unwrap(), before);
        assert!(hers.join("e").exists(), "what lies where it was comes back");
    }
}

/// How often a file of hers is read shows whether it holds what another user's does.
#[test]
fn what_one_user_has_is_not_held_against_what_another_had() {
    use std::os::unix::fs::{MetadataExt, chown};
    // The last where others cannot go.
    for (owner, mode, renamed) in [(1001, 0o600, 1), (1002, 0o600, 0), (1002, 0o644, 1), (1003, 0o644, 0)] {
        for is_new in [false, true] {
            let place = Place::new();
            if !is_root() {
                return;
            }
            let [hers, theirs] = [("hers", 1001), ("theirs", owner)].map(|(name, owner)| {
                let dir = place.tree().join(name);
                fs::create_dir_all(&dir).unwrap();
                chown(&dir, Some(owner), None).unwrap();
                dir
            });
            let put = |dir: &Path, name: &str, owner: u32| {
                write(&dir.join(name), &Seed(5).bytes(20_000));
                set_mode(&dir.join(name), mode);
                chown(dir.join(name), Some(owner), None).unwrap();
            };
            let (from, to) = if is_new { (&hers, &theirs) } else { (&theirs, &hers) };
            let owner_of = |dir: &Path| fs::metadata(dir).unwrap().uid();
            put(from, "gone", owner_of(from));
            seal(&place.options("rs:3+2"), &mut Silent).unwrap();
            // Where others can go.
            set_mode(place.dir.path(), 0o755);
            fs::remove_file(from.join("gone")).unwrap();
            put(to, "new", owner_of(to));
            let found = place.again();
            set_mode(place.dir.path(), if mode == 0o644 && owner == 1003 { 0o700 } else { 0o755 });
            assert_eq!(seal(&found, &mut Silent).unwrap().renamed, renamed, "{owner} {mode:o} {is_new}");
        }
    }
}

/// Nor is it read to see whether it is a file that was lost, and has another name now.
#[test]
fn what_one_user_has_is_not_read_for_what_another_has_lost() {
    use std::os::unix::fs::chown;
    for (owner, is_read) in [(0, true), (1001, false)] {
        let place = Place::new();
        if !is_root() {
            return;
        }
        let (hers, lost) = (place.tree().join("hers"), place.tree().join("lost"));
        fs::create_dir_all(&hers).unwrap();
        chown(&hers, Some(owner), None).unwrap();
        write(&lost, &Seed(5).bytes(20_000));
        seal(&SealOptions { mode: Some(Mode::Beside), ..place.options("rs:4+4") }, &mut Silent).unwrap();
        fs::remove_file(&lost).unwrap();
        write(&hers.join("guess"), &Seed(5).bytes(20_000));
        chown(hers.join("guess"), Some(owner), None).unwrap();
        let disk = FaultDisk::new(place.dir.path(), Faults::default());
        let options = VerifyOptions { set: place.set(), ..Default::default() };
        World { disk: &disk, threads: 1 }.verify(&options, &mut Silent).unwrap();
        assert_eq!(disk.bytes_read("guess") > 0, is_read, "of {owner}");
    }
}

/// What is gone shows what is in a closed directory that was moved there.
#[test]
fn what_is_gone_is_not_told_by_what_was_moved_in_its_place() {
    use std::os::unix::fs::chown;
    let place = Place::new();
    if !is_root() {
        return;
    }
    let [hers, theirs, moved] = ["hers", "hers/theirs", "hers/moved"].map(|name| place.tree().join(name));
    fs::create_dir_all(hers.join("d")).unwrap();
    write(&hers.join("d/guess"), &Seed(5).bytes(20_000));
    [&hers, &hers.join("d"), &hers.join("d/guess")]
        .iter()
        .for_each(|path| chown(path, Some(1001), None).unwrap());
    seal(&place.options("rs:3+2"), &mut Silent).unwrap();
    fs::create_dir(&theirs).unwrap();
    chown(&theirs, Some(1002), None).unwrap();
    set_mode(&theirs, 0o700);
    fs::rename(hers.join("d"), &moved).unwrap();
    fs::rename(&theirs, hers.join("d")).unwrap();
    assert_eq!(place.reseal().renamed, 0);
}

/// The target was not there when it was asked.
#[test]
fn what_takes_the_place_of_the_target_meanwhile_gets_nothing() {
    use std::os::unix::fs::chown;
    for is_of_another in [false, true] {
        let (place, _) = sealed(Mode::Full);
        if !is_root() {
            return;
        }
        let hers = place.dir.path().join("hers");
        let [private, target] = ["private", "new"].map(|name| hers.join(name));
        fs::create_dir_all(&private).unwrap();
        set_mode(&private, 0o700);
        fs::write(private.join("a"), "precious").unwrap();
        chown(&hers, Some(65534), None).unwrap();
        if is_of_another {
            chown(place.out(), Some(65534), None).unwrap();
        }
        let disk = FaultDisk::new(place.dir.path(), Faults::default());
        disk.move_in(&private, &target);
        let options = UnsealOptions { target: target.clone(), ..overwriting(&place) };
        let error = World { disk: &disk, threads: 1 }.unseal(&options, &mut Silent).unwrap_err();
        let is_refused = matches!(error, SealError::PlaceOfAnother { owner: 65534, .. });
        assert!(is_refused, "{error}");
        assert_eq!(fs::read(target.join("a")).unwrap(), b"precious");
        assert_eq!(fs::read_dir(&target).unwrap().count(), 1);
    }
}

/// What `unseal` leaves when it is killed has the same name everywhere.
#[test]
fn strays_of_others_and_in_directories_that_were_moved_stay() {
    use std::os::unix::fs::chown;
    let (place, set) = sealed(Mode::Beside);
    if !is_root() {
        return;
    }
    let name = format!(".pantile-{set}.tmp");
    let [hers, moved] = ["d", "hers/moved"].map(|dir| place.tree().join(dir));
    fs::create_dir_all(&moved).unwrap();
    [&place.tree(), &hers, &moved].iter().for_each(|dir| fs::write(dir.join(&name), "").unwrap());
    chown(hers.join(&name), Some(65534), None).unwrap();
    chown(place.tree().join("hers"), Some(65534), None).unwrap();
    place.heal().unwrap();
    let left = [&place.tree(), &hers, &moved].map(|dir| dir.join(&name).exists());
    assert_eq!(left, [false, true, true]);
}

/// A source as a whole, in a directory of a user who has another with files of those names, sizes
/// and times.
#[test]
fn a_source_that_was_exchanged_as_a_whole_is_read() {
    use std::os::unix::fs::chown;
    for (owner, is_read) in [(0, false), (65534, true)] {
        let place = Place::new();
        if !is_root() {
            return;
        }
        let hers = place.dir.path().join("hers");
        let [source, fake, aside] = ["source", "fake", "aside"].map(|name| hers.join(name));
        // What is renamed is the directory above, so that nothing below it shows.
        for (dir, seed) in [(&source, 5), (&fake, 6)] {
            fs::create_dir_all(dir.join("in")).unwrap();
            write(&dir.join("in/f"), &Seed(seed).bytes(20_000));
        }
        chown(&hers, Some(owner), None).unwrap();
        let options = SealOptions {
            mode: Some(Mode::Beside),
            sources: vec![source.join("in")],
            ..place.options("rs:4+4")
        };
        seal(&options, &mut Silent).unwrap();
        fs::rename(&source, &aside).unwrap();
        fs::rename(&fake, &source).unwrap();
        let again = seal(&SealOptions { code: None, mode: None, ..options }, &mut Silent);
        assert_eq!(again.is_err(), is_read, "{again:?}");
    }
}

/// The umask takes from others what the group of a directory must not have, either.
#[test]
fn a_group_of_another_has_no_more_than_others_have_left() {
    use std::os::unix::fs::chown;
    let place = Place::new();
    if !is_root() {
        return;
    }
    let shared = place.dir.path().join("shared");
    fs::create_dir_all(&shared).unwrap();
    chown(&shared, None, Some(1001)).unwrap();
    set_mode(&shared, 0o2775);
    let sources = ["one", "two"].map(|name| place.dir.path().join(name));
    for source in &sources {
        fs::create_dir(source).unwrap();
        write(&source.join("f"), &Seed(5).bytes(20_000));
        set_mode(&source.join("f"), 0o644);
    }
    let options = SealOptions { sources: sources.to_vec(), ..place.options("rs:3+2") };
    seal(&options, &mut Silent).unwrap();
    let target = shared.join("new");
    let disk = FaultDisk::new(place.dir.path(), Faults { umask: Some(0o027), ..Faults::default() });
    let options = UnsealOptions { set: place.set(), target: target.clone(), ..Default::default() };
    World { disk: &disk, threads: 1 }.unseal(&options, &mut Silent).unwrap();
    for path in [target.clone(), target.join("one"), target.join("one/f")] {
        assert_eq!(mode_of(&path) & 0o077, 0, "{}", path.display());
    }
}
