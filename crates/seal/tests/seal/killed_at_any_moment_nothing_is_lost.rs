//! Claim: after a kill at any number of operations, with unsynced writes kept, dropped or torn, the
//! set has either the whole state before or the whole state after. Planted bugs prove that the test
//! would detect a loss.

use crate::common::fault::{FaultDisk, Faults};
use crate::common::*;
use pantile_seal::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

type Picture = BTreeMap<PathBuf, String>;

fn small_tree(place: &Place) {
    let mut seed = Seed(5);
    fs::create_dir_all(place.tree().join("d")).unwrap();
    write(&place.tree().join("a"), &seed.bytes(9000));
    write(&place.tree().join("b"), &seed.bytes(100));
    write(&place.tree().join("d/c"), &seed.bytes(30_000));
    write(&place.tree().join("d/gone"), &seed.bytes(8000));
}

/// Content of `d/c` in `small_tree`.
fn small_tree_c() -> Vec<u8> {
    let mut seed = Seed(5);
    seed.bytes(9000);
    seed.bytes(100);
    seed.bytes(30_000)
}

/// Changes files, and makes them grow, shrink, disappear and appear.
fn change_tree(place: &Place) {
    let mut seed = Seed(6);
    let mut a = fs::read(place.tree().join("a")).unwrap();
    a[5000] ^= 1;
    write(&place.tree().join("a"), &a);
    age(&place.tree().join("a"), 1_650_000_000);
    write(&place.tree().join("d/c"), &seed.bytes(12_345));
    write(&place.tree().join("b"), &seed.bytes(70_000));
    fs::remove_file(place.tree().join("d/gone")).unwrap();
    fs::create_dir(place.tree().join("d/gone")).unwrap();
    write(&place.tree().join("d/gone/new"), &seed.bytes(5000));
    write(&place.tree().join("empty"), b"");
}

fn world(disk: &FaultDisk) -> World<'_> {
    World { disk, threads: 1 }
}

/// Returns the files restored from the shards alone, if that is possible.
fn restored(place: &Place) -> Option<Picture> {
    place.unseal().ok().map(|_| contents(picture(&place.target())))
}

/// Returns the files and their content, since the mtimes of directories change with every attempt.
fn contents(picture: Picture) -> Picture {
    picture.into_iter().filter(|(_, text)| text.starts_with("file")).collect()
}

/// Runs `act` on copies of one start, with a crash after every number of operations; `judge`
/// examines what is left.
fn crash_everywhere(
    start: &Place,
    faults: Faults,
    seeds: u64,
    act: impl Fn(&World<'_>, &Place),
    mut judge: impl FnMut(&Place, u64) -> bool,
) -> (u64, u64) {
    let (mut crashes, mut failures) = (0, 0);
    for after in 0.. {
        let mut ended = false;
        for seed in 0..seeds {
            let place = Place::new();
            copy(start.dir.path(), place.dir.path());
            let disk = FaultDisk::new(place.dir.path(), Faults { crash_after: Some(after), ..faults });
            act(&world(&disk), &place);
            ended = disk.operations() < after;
            disk.lose_power(seed * 1000 + after);
            crashes += 1;
            failures += u64::from(!judge(&place, after));
        }
        if ended {
            break;
        }
    }
    (crashes, failures)
}

/// Temporary files beside the originals.
fn strays(place: &Place) -> usize {
    let is_stray = |path: &PathBuf| path.to_string_lossy().contains(".pantile-");
    picture(&place.tree()).into_keys().filter(is_stray).count()
}

/// Finishes a decided change, as any command that writes does.
fn finish(set: SetPaths, place: &Place) {
    let target = place.dir.path().join("finished");
    let _ = fs::remove_dir_all(&target);
    let _ = unseal(
        &UnsealOptions { set, target: target.clone(), overwrite: false, ..Default::default() },
        &mut Silent,
    );
    let _ = fs::remove_dir_all(&target);
}

fn reseal_in(world: &World<'_>, place: &Place) {
    let _ = world.seal(&place.again(), &mut Silent);
}

/// Returns a sealed tree that was changed later. Its paths stay valid when the place is copied.
fn changed_set(code: &str, mode: Mode) -> (Place, Picture, Picture) {
    let place = Place::new();
    small_tree(&place);
    let mut options = place.options(code);
    options.mode = Some(mode);
    seal(&options, &mut Silent).unwrap();
    let old = contents(picture(&place.tree()));
    change_tree(&place);
    let new = contents(picture(&place.tree()));
    (place, old, new)
}

#[test]
fn seals_to_several_directories_that_are_killed_leave_all_or_nothing() {
    let more = |place: &Place, options: SealOptions| SealOptions {
        more_out: vec![place.dir.path().join("out2"), place.dir.path().join("out3")],
        ..options
    };
    let all = |place: &Place| {
        let mut set = place.set();
        set.paths.extend(more(place, place.again()).more_out);
        set
    };
    let back = |place: &Place| {
        let target = place.dir.path().join("back");
        let options = UnsealOptions { set: all(place), target: target.clone(), ..Default::default() };
        let found = unseal(&options, &mut Silent).is_ok().then(|| contents(picture(&target)));
        let _ = fs::remove_dir_all(&target);
        found
    };
    for is_first in [true, false] {
        let start = Place::new();
        small_tree(&start);
        for dir in [start.out()].iter().chain(&more(&start, start.again()).more_out) {
            fs::create_dir(dir).unwrap();
        }
        let old = contents(picture(&start.tree()));
        let options = |place: &Place| match is_first {
            true => more(place, place.options("rs:3+2")),
            false => more(place, place.again()),
        };
        if !is_first {
            seal(&more(&start, start.options("rs:3+2")), &mut Silent).unwrap();
            change_tree(&start);
            // The links are removed: copied places have none, and need none here.
            for dir in all(&start).paths {
                let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
                names.filter(|path| path.is_symlink()).for_each(|link| fs::remove_file(link).unwrap());
            }
        }
        let new = contents(picture(&start.tree()));
        let act = |world: &World<'_>, place: &Place| drop(world.seal(&options(place), &mut Silent));
        let (crashes, failures) = crash_everywhere(&start, Faults::default(), 2, act, |place, after| {
            let found = back(place);
            let is_one = found.as_ref().map_or(is_first, |found| *found == old || *found == new);
            assert!(is_one, "first {is_first}, after {after}");
            seal(&options(place), &mut Silent).unwrap();
            let whole = verify(&VerifyOptions { set: all(place), ..Default::default() }, &mut Silent);
            back(place) == Some(new.clone()) && whole.is_ok_and(|found| found.clean)
        });
        assert_eq!(failures, 0, "first {is_first}");
        assert!(crashes > 60, "{crashes}");
    }
}

#[test]
fn a_first_seal_that_is_killed_leaves_nothing_or_all_and_can_be_run_again() {
    let start = Place::new();
    small_tree(&start);
    fs::create_dir(start.out()).unwrap();
    let tree = contents(picture(&start.tree()));
    let act = |world: &World<'_>, place: &Place| {
        let _ = world.seal(&place.options("rs:3+2"), &mut Silent);
    };
    let (crashes, failures) = crash_everywhere(&start, Faults::default(), 3, act, |place, after| {
        if let Some(found) = restored(place) {
            assert_eq!(found, tree, "after {after}");
        }
        assert_eq!(contents(picture(&place.tree())), tree);
        // Whatever the crash left, sealing again works, and all shards are present.
        seal(&place.options("rs:3+2"), &mut Silent).unwrap();
        let left = fs::read_dir(place.out()).unwrap().count();
        assert_eq!(left, 5, "after {after}: something was left behind");
        restored(place) == Some(tree.clone()) && place.verify().clean
    });
    assert_eq!(failures, 0);
    assert!(crashes > 60, "{crashes}");
}

#[test]
fn a_seal_again_that_is_killed_leaves_the_whole_old_tree_or_the_whole_new_one() {
    for code in ["rs:3+2", "dcode:5"] {
        let (start, old, new) = changed_set(code, Mode::Full);
        let mut seen = [0, 0];
        let (crashes, failures) =
            crash_everywhere(&start, Faults::default(), 3, reseal_in, |place, after| {
                let found = restored(place)
                    .unwrap_or_else(|| panic!("{code} after {after}: nothing can be restored"));
                assert!(found == old || found == new, "{code} after {after}: neither old nor new: {found:?}");
                seen[0] += u64::from(found == old);
                seen[1] += u64::from(found == new);
                let verified = place.verify();
                assert!(
                    verified.shards.iter().all(|s| s.status == ShardStatus::Good && s.wrong_blocks == 0),
                    "{after}"
                );
                place.reseal();
                // The restored set tolerates the loss of shards too: its parity fits the data.
                fs::remove_file(place.shard(0)).unwrap();
                fs::remove_file(place.shard(1)).unwrap();
                restored(place) == Some(new.clone())
            });
        assert_eq!(failures, 0, "{code}");
        assert!(crashes > 100 && seen[0] > 20 && seen[1] > 20, "{code}: {crashes} {seen:?}");
    }
}

#[test]
fn a_source_that_is_added_by_a_killed_seal_is_in_or_out_and_can_be_added_again() {
    let start = Place::new();
    let dir = |place: &Place, i: usize| place.dir.path().join(format!("d{i}"));
    for i in 0..3 {
        fs::create_dir(dir(&start, i)).unwrap();
        write(&dir(&start, i).join("f"), &Seed(i as u64).bytes(9000 + i * 5000));
    }
    let options = |place: &Place, count: usize| {
        let mut options = SealOptions::new((0..count).map(|i| dir(place, i)).collect(), place.out());
        (options.code, options.mode) = (Some(code_of("raid5:2")), Some(Mode::Beside));
        (options.name, options.moved, options.block_len) = (Some("all".into()), true, Some(4096));
        options
    };
    seal(&options(&start, 2), &mut Silent).unwrap();
    let act = |world: &World<'_>, place: &Place| drop(world.seal(&options(place, 3), &mut Silent));
    let mut seen = [0, 0];
    let (_, failures) = crash_everywhere(&start, Faults::default(), 2, act, |place, after| {
        finish(place.set(), place);
        // The columns of the first two sources are right in each state, so one of these can be lost
        // and recovered.
        let sources = open_set(&place.set()).unwrap().sources.len();
        seen[sources - 2] += 1;
        let lost = dir(place, 1).join("f");
        let bytes = fs::read(&lost).unwrap();
        fs::remove_file(&lost).unwrap();
        let set =
            SetPaths { disks: at(&(0..sources).map(|i| dir(place, i)).collect::<Vec<_>>()), ..place.set() };
        let healed = heal(&HealOptions { set, ..Default::default() }, &mut Silent);
        healed.unwrap_or_else(|error| panic!("after {after}: {error}"));
        assert!(fs::read(&lost).unwrap() == bytes, "after {after}");
        let report = seal(&options(place, 3), &mut Silent).unwrap();
        assert_eq!(report.code, "raid5:3", "after {after}");
        let set = SetPaths { disks: at(&(0..3).map(|i| dir(place, i)).collect::<Vec<_>>()), ..place.set() };
        verify(&VerifyOptions { set, ..Default::default() }, &mut Silent).unwrap().clean
    });
    assert_eq!(failures, 0);
    assert!(seen.iter().all(|&n| n > 3), "{seen:?}");
}

/// Makes disks `d0` to `d2` and their parities, then removes, changes and adds files.
fn changed_disks(code: &str, mode: Mode) -> (Place, Picture, Picture) {
    let place = Place::new();
    let file = |name: &str| place.tree().join(name);
    for disk in 0..3 {
        fs::create_dir_all(file(&format!("d{disk}"))).unwrap();
        for i in 0..6 {
            write(&file(&format!("d{disk}/f{i}")), &Seed(disk * 10 + i).bytes(20_000 + 1000 * i as usize));
        }
    }
    seal(&SealOptions { mode: Some(mode), ..disks_of(&place, Some(code)) }, &mut Silent).unwrap();
    fs::remove_file(file("d0/f5")).unwrap();
    seal(&disks_of(&place, None), &mut Silent).unwrap();
    let old = contents(picture(&place.tree()));
    for gone in ["d0/f0", "d0/f2", "d1/f1", "d1/f4"] {
        fs::remove_file(file(gone)).unwrap();
    }
    fs::hard_link(file("d1/f5"), file("d1/link")).unwrap();
    write(&file("d2/f3"), &Seed(99).bytes(23_400));
    fs::create_dir(file("d0/new")).unwrap();
    for i in 0..2 {
        write(&file(&format!("d0/new/f{i}")), &Seed(90 + i).bytes(11_000));
    }
    let new = contents(picture(&place.tree()));
    (place, old, new)
}

fn disks_of(place: &Place, code: Option<&str>) -> SealOptions {
    let disks = (0..3).map(|disk| place.tree().join(format!("d{disk}"))).collect();
    let mut options = SealOptions::new(disks, place.out());
    (options.code, options.name) = (code.map(code_of), Some("tree".into()));
    (options.moved, options.block_len) = (true, code.map(|_| 4096));
    options
}

#[test]
fn a_seal_in_several_commits_that_is_killed_has_each_file_as_before_or_as_now() {
    for (code, mode) in [("rs:3+2", Mode::Full), ("raid6:3", Mode::Beside)] {
        let (start, old, new) = changed_disks(code, mode);
        let sealed_with = |free: Option<u64>| {
            let place = Place::new();
            copy(start.dir.path(), place.dir.path());
            let disk = FaultDisk::new(place.dir.path(), Faults { free, ..Faults::default() });
            world(&disk).seal(&disks_of(&place, None), &mut Silent)
        };
        let whole = sealed_with(None).unwrap();
        let least = (0..).step_by(16_384).find(|free| sealed_with(Some(*free)).is_ok());
        let portions = sealed_with(least).unwrap();
        assert!(portions.generation > whole.generation + 1, "{code}: {}", portions.generation);
        assert_eq!(
            (portions.added, portions.removed, portions.files),
            (whole.added, whole.removed, whole.files)
        );
        let act = |world: &World<'_>, place: &Place| drop(world.seal(&disks_of(place, None), &mut Silent));
        let faults = Faults { free: least, ..Faults::default() };
        let mut between = 0;
        let (_, failures) = crash_everywhere(&start, faults, 1, act, |place, after| {
            if after % 4 != 0 {
                return true;
            }
            if mode == Mode::Full {
                let found = restored(place).unwrap_or_else(|| panic!("{code} after {after}"));
                let paths: std::collections::BTreeSet<&PathBuf> = old.keys().chain(new.keys()).collect();
                for path in paths {
                    let is = found.get(path);
                    assert!(is == old.get(path) || is == new.get(path), "{code} after {after}: {path:?}");
                }
                between += u64::from(found != old && found != new);
            } else {
                // The disks that are left and the parities recover what was not changed.
                finish(place.set(), place);
                let lost = place.tree().join("d2/f5");
                let bytes = fs::read(&lost).unwrap();
                fs::remove_file(&lost).unwrap();
                let disks = disks_of(place, None).sources;
                let set = SetPaths { disks: at(&disks), ..SetPaths::dir(place.out()) };
                let select = Select { paths: vec!["d2/f5".into()], ..Select::default() };
                heal(&HealOptions { set, select, ..Default::default() }, &mut Silent)
                    .unwrap_or_else(|error| panic!("{code} after {after}: {error}"));
                assert!(fs::read(&lost).unwrap() == bytes, "{code} after {after}");
                between += 1;
            }
            let report = seal(&disks_of(place, None), &mut Silent).unwrap();
            let disks = disks_of(place, None).sources;
            let set = SetPaths { disks: at(&disks), ..SetPaths::dir(place.out()) };
            let verified = verify(&VerifyOptions { set, ..Default::default() }, &mut Silent).unwrap();
            let strays = fs::read_dir(place.out()).unwrap().count();
            verified.clean && report.files == whole.files && strays == report.shards.len()
        });
        assert_eq!(failures, 0, "{code}");
        assert!(between > 10, "{code}: {between}");
    }
}

/// Opening the set while more shards are missing than the code tolerates must not lose them for
/// good.
#[test]
fn a_seal_again_that_is_killed_waits_for_shards_that_are_away() {
    let (start, old, new) = changed_set("rs:3+2", Mode::Full);
    let mut waited = 0;
    let (crashes, failures) = crash_everywhere(&start, Faults::default(), 2, reseal_in, |place, after| {
        let away = [[0, 1, 2], [1, 3, 4], [0, 2, 4]][after as usize % 3];
        let other = place.dir.path().join("not mounted yet");
        fs::create_dir(&other).unwrap();
        for column in away {
            fs::rename(place.shard(column), other.join(format!("{column}"))).unwrap();
        }
        let _ = verify(&VerifyOptions { set: place.set(), ..Default::default() }, &mut Silent);
        let _ = place.heal();
        let _ = place.unseal();
        waited += u64::from(place.out().join("tree.journal").exists());
        for column in away {
            fs::rename(other.join(format!("{column}")), place.shard(column)).unwrap();
        }
        finish(place.set(), place);
        let verified = place.verify();
        assert!(verified.shards.iter().all(|s| s.status == ShardStatus::Good), "{after}: {verified:?}");
        assert!(!place.out().join("tree.journal").exists(), "{after}");
        let found = restored(place).unwrap_or_else(|| panic!("after {after}: nothing can be restored"));
        found == old || found == new
    });
    assert_eq!(failures, 0);
    assert!(crashes > 100 && waited > 20, "{crashes} {waited}");
}

#[test]
fn a_seal_again_that_is_killed_is_finished_in_all_directories_that_are_named() {
    let (start, old, new) = changed_set("rs:3+2", Mode::Full);
    let mut finished = 0;
    let (_, failures) = crash_everywhere(&start, Faults::default(), 1, reseal_in, |place, _| {
        let mut paths = vec![place.out()];
        for column in 0..4 {
            let dir = place.dir.path().join(format!("disk {column}"));
            fs::create_dir(&dir).unwrap();
            let shard = place.shard(column);
            fs::rename(&shard, dir.join(shard.file_name().unwrap())).unwrap();
            paths.push(dir);
        }
        finished += u64::from(place.out().join("tree.journal").exists());
        let set = SetPaths { paths, ..SetPaths::default() };
        finish(set.clone(), place);
        let verified =
            verify(&VerifyOptions { set: set.clone(), ..Default::default() }, &mut Silent).unwrap();
        let unsealed = unseal(
            &UnsealOptions { set, target: place.target(), overwrite: false, ..Default::default() },
            &mut Silent,
        );
        unsealed.unwrap();
        let found = contents(picture(&place.target()));
        let is_good = verified.shards.iter().all(|s| s.status == ShardStatus::Good);
        is_good && !place.out().join("tree.journal").exists() && (found == old || found == new)
    });
    assert_eq!(failures, 0);
    assert!(finished > 20, "{finished}");
}

#[test]
fn a_journal_beside_the_shards_is_found_by_whoever_names_links_to_them() {
    let (start, old, new) = changed_set("rs:3+2", Mode::Full);
    let mut finished = 0;
    let (_, failures) = crash_everywhere(&start, Faults::default(), 1, reseal_in, |place, _| {
        let links = place.dir.path().join("links");
        fs::create_dir(&links).unwrap();
        for column in 0..5 {
            let shard = place.shard(column);
            std::os::unix::fs::symlink(&shard, links.join(shard.file_name().unwrap())).unwrap();
        }
        let journal = place.out().join("tree.journal");
        finished += u64::from(journal.exists());
        finish(SetPaths::dir(&links), place);
        let verified =
            verify(&VerifyOptions { set: SetPaths::dir(&links), ..Default::default() }, &mut Silent).unwrap();
        let is_good = verified.shards.iter().all(|s| s.status == ShardStatus::Good);
        let found = restored(place);
        is_good && !journal.exists() && (found == Some(old.clone()) || found == Some(new.clone()))
    });
    assert_eq!(failures, 0);
    assert!(finished > 20, "{finished}");
}

#[test]
fn a_journal_of_shards_that_never_come_back_is_in_nobodys_way() {
    let (start, _, new) = changed_set("rs:3+2", Mode::Full);
    let mut kept = 0;
    let (_, failures) = crash_everywhere(&start, Faults::default(), 1, reseal_in, |place, _| {
        let was_there = place.out().join("tree.journal").exists();
        fs::remove_file(place.shard(1)).unwrap();
        fs::remove_file(place.shard(3)).unwrap();
        finish(place.set(), place);
        let verified = place.verify();
        assert_eq!(verified.shards.iter().filter(|s| s.status == ShardStatus::Good).count(), 3);
        let is_there = place.out().join("tree.journal").exists();
        assert_eq!(is_there, was_there);
        kept += u64::from(is_there);
        place.heal().unwrap();
        place.reseal();
        assert!(!place.out().join("tree.journal").exists());
        fs::remove_file(place.shard(0)).unwrap();
        fs::remove_file(place.shard(4)).unwrap();
        restored(place) == Some(new.clone())
    });
    assert_eq!(failures, 0);
    assert!(kept > 20, "{kept}");
}

#[test]
fn foreign_files_with_a_journals_name_are_left_alone() {
    let place = Place::new();
    small_tree(&place);
    seal(&place.options("rs:3+2"), &mut Silent).unwrap();
    let diary = place.out().join("diary.journal");
    fs::write(&diary, "dear diary").unwrap();
    assert!(place.verify().clean);
    place.heal().unwrap();
    place.assert_restores();
    assert_eq!(fs::read(&diary).unwrap(), b"dear diary");
    // A journal with the set's name is examined.
    fs::write(place.out().join("tree.journal"), "dear diary").unwrap();
    let refused = verify(&VerifyOptions { set: place.set(), ..Default::default() }, &mut Silent);
    assert!(matches!(refused, Err(Fault { kind: FaultKind::BadJournal, .. })), "{refused:?}");
}

#[test]
fn a_file_in_the_journals_place_refuses_a_first_seal() {
    let place = Place::new();
    small_tree(&place);
    fs::create_dir(place.out()).unwrap();
    let taken = place.out().join("tree.journal");
    let refused = || {
        let error = seal(&place.options("rs:3+2"), &mut Silent).unwrap_err();
        assert!(error.path.as_ref() == Some(&taken) && error.hint.contains("--name"), "{error}");
        assert_eq!(fs::read_dir(place.out()).unwrap().count(), 1, "nothing is made beside it");
        error.what
    };
    for text in ["", "dear diary, this is longer than the header of any journal"] {
        fs::write(&taken, text).unwrap();
        assert!(refused().contains("is no journal"));
        // It does not affect a set that is updated or healed under another name.
        let named = SealOptions { name: Some("other".into()), ..place.options("rs:3+2") };
        seal(&named, &mut Silent).unwrap();
        seal(&named, &mut Silent).unwrap();
        assert!(place.verify().clean);
        for column in 0..5 {
            fs::remove_file(place.out().join(format!("other.{column:02}.shard"))).unwrap();
        }
        assert_eq!(fs::read_to_string(&taken).unwrap(), text);
    }
    fs::remove_file(&taken).unwrap();
    fs::create_dir(&taken).unwrap();
    assert!(refused().contains("is no journal"));
    fs::remove_dir(&taken).unwrap();
    // The journal of a first seal whose shards were removed afterwards.
    for after in 0.. {
        let disk = FaultDisk::new(place.dir.path(), Faults { crash_after: Some(after), ..Faults::default() });
        let _ = world(&disk).seal(&place.options("rs:3+2"), &mut Silent);
        if taken.exists() {
            break;
        }
    }
    for file in fs::read_dir(place.out()).unwrap().map(|file| file.unwrap().path()) {
        if file != taken {
            fs::remove_file(file).unwrap();
        }
    }
    assert!(refused().contains("records a change of the set"));
    fs::remove_file(&taken).unwrap();
    seal(&place.options("rs:3+2"), &mut Silent).unwrap();
    place.assert_restores();
}

/// Returns a sealed tree in which a file was renamed later, with other changes if `others` is set;
/// and the tree before and after.
fn renamed_set(mode: Mode, others: bool) -> (Place, Picture, Picture) {
    let place = Place::new();
    small_tree(&place);
    let mut options = place.options("rs:3+2");
    options.mode = Some(mode);
    seal(&options, &mut Silent).unwrap();
    let old = contents(picture(&place.tree()));
    if others {
        change_tree(&place);
        // Without other changes: the file is as it was sealed, and only renamed.
        write(&place.tree().join("d/c"), &small_tree_c());
        write(&place.tree().join("d/c2"), &Seed(7).bytes(90_000));
    }
    fs::create_dir(place.tree().join("e")).unwrap();
    fs::rename(place.tree().join("d/c"), place.tree().join("e/moved")).unwrap();
    let new = contents(picture(&place.tree()));
    (place, old, new)
}

#[test]
fn a_file_that_was_renamed_keeps_its_blocks() {
    for mode in [Mode::Full, Mode::Beside] {
        let (place, _, new) = renamed_set(mode, false);
        let disk = FaultDisk::new(place.dir.path(), Faults::default());
        let report = world(&disk).seal(&place.again(), &mut Silent).unwrap();
        assert_eq!((report.renamed, report.stripes_touched), (1, 0), "{mode:?}");
        // The file is read once, to recognise its content.
        assert_eq!(disk.bytes_read("/moved"), 30_000, "{mode:?}");
        assert!(place.verify().clean, "{mode:?}");
        fs::remove_file(place.tree().join("a")).unwrap();
        place.heal().unwrap();
        if mode == Mode::Full {
            fs::remove_file(place.shard(0)).unwrap();
            fs::remove_file(place.shard(1)).unwrap();
            assert_eq!(restored(&place), Some(new));
        } else {
            assert_eq!(contents(picture(&place.tree())), new);
        }
    }
    // A file of the same length that differs only near its end is not a rename.
    let (place, _, _) = renamed_set(Mode::Full, false);
    let mut bytes = fs::read(place.tree().join("e/moved")).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    write(&place.tree().join("e/moved"), &bytes);
    assert_eq!(place.reseal().renamed, 0);
    place.assert_restores();
}

#[test]
fn a_seal_again_with_a_rename_that_is_killed_is_old_or_new() {
    for mode in [Mode::Full, Mode::Beside] {
        let (start, old, new) = renamed_set(mode, true);
        let mut seen = [0, 0];
        let (crashes, failures) =
            crash_everywhere(&start, Faults::default(), 3, reseal_in, |place, after| {
                if mode == Mode::Beside {
                    assert_eq!(
                        contents(picture(&place.tree())),
                        new,
                        "after {after}: an original was touched"
                    );
                    place.reseal();
                    fs::remove_file(place.tree().join("e/moved")).unwrap();
                    place.heal().unwrap();
                    return contents(picture(&place.tree())) == new;
                }
                let found =
                    restored(place).unwrap_or_else(|| panic!("after {after}: nothing can be restored"));
                seen[0] += u64::from(found == old);
                seen[1] += u64::from(found == new);
                found == old || found == new
            });
        assert_eq!(failures, 0, "{mode:?}");
        assert!(crashes > 50, "{crashes}");
        assert!(mode == Mode::Beside || (seen[0] > 20 && seen[1] > 20), "{seen:?}");
    }
}

#[test]
fn a_seal_again_beside_the_files_that_is_killed_can_be_run_again() {
    let (start, _, new) = changed_set("rs:3+2", Mode::Beside);
    let (crashes, failures) = crash_everywhere(
        &start,
        Faults::default(),
        3,
        |world, place| {
            // The place was copied, so the sources are at their new paths.
            reseal_in(world, place);
        },
        |place, after| {
            assert_eq!(contents(picture(&place.tree())), new, "after {after}: an original was touched");
            place.reseal();
            fs::remove_file(place.tree().join("a")).unwrap();
            place.heal().unwrap();
            contents(picture(&place.tree())) == new
        },
    );
    assert_eq!(failures, 0);
    assert!(crashes > 40, "{crashes}");
}

#[test]
fn a_heal_that_is_killed_loses_nothing() {
    let start = Place::new();
    small_tree(&start);
    seal(&start.options("rs:3+2"), &mut Silent).unwrap();
    let tree = contents(picture(&start.tree()));
    fs::remove_file(start.shard(1)).unwrap();
    // One block each of three other shards, in different stripes: their replacements must become
    // durable first.
    for (column, stripe) in [(0, 0), (3, 1), (4, 2)] {
        flip(&start.shard(column), pantile_format::BODY_OFFSET + stripe * 4096 + 7);
    }
    let act = |world: &World<'_>, place: &Place| {
        let _ = world.heal(&HealOptions { set: place.set(), ..Default::default() }, &mut Silent);
    };
    let (crashes, failures) = crash_everywhere(&start, Faults::default(), 3, act, |place, _| {
        let there = restored(place) == Some(tree.clone());
        place.heal().unwrap();
        there
            && restored(place) == Some(tree.clone())
            && place.verify().shards.iter().all(|s| s.status == ShardStatus::Good)
    });
    assert_eq!(failures, 0);
    assert!(crashes > 20, "{crashes}");
}

#[test]
fn names_that_are_given_back_are_found_at_any_moment() {
    let start = Place::new();
    small_tree(&start);
    seal(&start.options("rs:3+2"), &mut Silent).unwrap();
    let whole = shards(&start.out());
    // The names form two cycles: 0 and 1, and the others.
    for (from, to) in [(0, 5), (1, 0), (5, 1), (2, 5), (3, 2), (4, 3), (5, 4)] {
        fs::rename(start.shard(from), start.shard(to)).unwrap();
    }
    let act = |world: &World<'_>, place: &Place| {
        let _ = world.heal(&HealOptions { set: place.set(), ..Default::default() }, &mut Silent);
    };
    let mut between = 0;
    let (_, failures) = crash_everywhere(&start, Faults::default(), 3, act, |place, _| {
        let found = place.verify();
        between += u64::from(shards(&place.out()).keys().ne(whole.keys()));
        let there = found.shards.iter().all(|shard| shard.status == ShardStatus::Good);
        place.heal().unwrap();
        there && found.superfluous.is_empty() && shards(&place.out()) == whole
    });
    assert_eq!(failures, 0);
    assert!(between > 5, "{between}");
}

#[test]
fn replacing_an_original_that_is_killed_leaves_the_file_as_it_was_or_whole() {
    let start = Place::new();
    small_tree(&start);
    let mut options = start.options("rs:3+2");
    options.mode = Some(Mode::Beside);
    seal(&options, &mut Silent).unwrap();
    let whole = fs::read(start.tree().join("d/c")).unwrap();
    flip(&start.tree().join("d/c"), 20_000);
    let rotten = fs::read(start.tree().join("d/c")).unwrap();
    let set = |place: &Place| SetPaths { disks: at(&[place.tree()]), ..place.set() };
    let act = |world: &World<'_>, place: &Place| {
        // In a copy every file looks touched. Since this one has few blocks, it may be another
        // file: it is kept aside and replaced as a whole.
        let _ = world.heal(&HealOptions { set: set(place), ..Default::default() }, &mut Silent);
    };
    let mut seen = 0;
    let (_, failures) = crash_everywhere(&start, Faults::default(), 3, act, |place, _| {
        let now = fs::read(place.tree().join("d/c")).unwrap();
        assert!(now == rotten || now == whole);
        // Leftovers of the killed heal are never sealed, and the next heal removes them.
        let left = strays(place);
        seen += left;
        // The heal changed the mtime of the directory. Then its files would be read again, and the
        // rotten one would be refused.
        make_shards_younger(place);
        // Healing with named sources keeps the replaced content beside the healed file.
        assert!((4..=5).contains(&place.reseal().files));
        heal(&HealOptions { set: set(place), ..Default::default() }, &mut Silent).unwrap();
        assert_eq!(strays(place), 0);
        fs::read(place.tree().join("d/c")).unwrap() == whole
    });
    assert_eq!(failures, 0);
    assert!(seen > 5, "{seen}");
}

/// Makes rotten and lost files that are healed as one batch. Their directories are too many to be
/// synced one by one.
fn many_broken_originals(count: u64) -> (Place, Picture) {
    let start = Place::new();
    for i in 0..count {
        let dir = start.tree().join(format!("d{i:02}"));
        fs::create_dir_all(&dir).unwrap();
        write(&dir.join("kept"), &Seed(i).bytes(5000));
        write(&dir.join("broken"), &Seed(100 + i).bytes(3000 + 300 * i as usize));
    }
    let options = SealOptions { mode: Some(Mode::Beside), ..start.options("rs:2+2") };
    seal(&options, &mut Silent).unwrap();
    let whole = contents(picture(&start.tree()));
    for i in 0..count {
        let broken = start.tree().join(format!("d{i:02}/broken"));
        match i % 2 {
            0 => flip(&broken, 1000),
            _ => fs::remove_file(&broken).unwrap(),
        }
    }
    (start, whole)
}

fn heal_the_copy(world: &World<'_>, place: &Place) -> Result<HealReport, Fault> {
    // In a copy every file looks touched, and replaced files would be kept aside.
    make_shards_younger(place);
    let set = SetPaths { disks: at(&[place.tree()]), ..place.set() };
    world.heal(&HealOptions { set, ..Default::default() }, &mut Silent)
}

#[test]
fn healing_many_originals_that_is_killed_leaves_each_as_it_was_or_whole() {
    let (start, whole) = many_broken_originals(12);
    let broken = contents(picture(&start.tree()));
    let act = |world: &World<'_>, place: &Place| drop(heal_the_copy(world, place));
    // The copy has no record of who sealed it, so replaced files are kept aside.
    let contents = |picture: Picture| -> Picture {
        let is_kept = |path: &Path| path.to_string_lossy().contains(".before-heal");
        contents(picture).into_iter().filter(|(path, _)| !is_kept(path)).collect()
    };
    // After the loss of power each file is as before, or restored.
    let is_sound = |place: &Place| {
        // A repair in place was cut off: blocks and times can be mixed.
        if place.out().join("tree.repair").exists() {
            return true;
        }
        let now = contents(picture(&place.tree()));
        // Replaced files are kept aside, since the change may not have been rot.
        let others = [".pantile-", ".before-heal"];
        let own = |path: &&PathBuf| !others.iter().any(|other| path.to_string_lossy().contains(other));
        let is_either =
            |path: &PathBuf| [&whole, &broken].iter().any(|known| known.get(path) == now.get(path));
        now.keys().filter(own).all(|path| whole.contains_key(path)) && whole.keys().all(is_either)
    };
    let (mut partly, mut left) = (0, 0);
    let (crashes, failures) = crash_everywhere(&start, Faults::default(), 2, act, |place, _| {
        let sound = is_sound(place);
        let now = contents(picture(&place.tree()));
        partly += u64::from(now != broken && now != whole);
        left += strays(place);
        heal_the_copy(&System::new().world(), place).unwrap();
        assert_eq!(strays(place), 0);
        let healed = contents(picture(&place.tree()));
        // If the heal was killed after it had kept a file aside, the next one keeps it a second
        // time.
        let kept_of =
            |path: &PathBuf| path.to_string_lossy().split_once(".before-heal").map(|kept| kept.0.to_owned());
        let (kept, healed): (BTreeMap<_, _>, BTreeMap<_, _>) =
            healed.into_iter().partition(|(path, _)| kept_of(path).is_some());
        let was_broken =
            |(path, content): (&PathBuf, &_)| broken.get(Path::new(&kept_of(path).unwrap())) == Some(content);
        sound && healed == whole && kept.iter().all(was_broken)
    });
    assert_eq!(failures, 0);
    assert!(crashes > 100 && partly > 5 && left > 100, "{crashes} {partly} {left}");
    let unsynced = Faults { skip_sync_of: Some(".tmp"), ..Faults::default() };
    let (_, failures) = crash_everywhere(&start, unsynced, 2, act, |place, _| is_sound(place));
    assert!(failures > 0, "not noticed: files get their names before they are durable");
}

#[test]
fn many_originals_are_healed_with_few_syncs() {
    let (start, whole) = many_broken_originals(24);
    let disk = FaultDisk::new(start.dir.path(), Faults::default());
    heal_the_copy(&world(&disk), &start).unwrap();
    assert_eq!(contents(picture(&start.tree())), whole);
    // Synced are the contents and names of replaced files, and for those repaired in place also the
    // journal.
    assert!(disk.syncs() <= 7, "{} syncs for 24 files", disk.syncs());
}

/// True if a set during a change is in the old or the new state, and consistent.
fn is_sound(place: &Place, old: &Picture, new: &Picture) -> bool {
    let Some(found) = restored(place) else { return false };
    let Ok(verified) = verify(&VerifyOptions { set: place.set(), ..Default::default() }, &mut Silent) else {
        return false;
    };
    (found == *old || found == *new)
        && verified.shards.iter().all(|s| s.status == ShardStatus::Good && s.wrong_blocks == 0)
}

#[test]
fn planted_bugs_are_caught() {
    let (start, old, new) = changed_set("rs:3+2", Mode::Full);
    let planted = [
        ("the journal is not synced", Faults { skip_sync_of: Some(".journal.tmp"), ..Faults::default() }),
        ("the shards are not synced", Faults { skip_sync_of: Some(".shard"), ..Faults::default() }),
        (
            "the change is applied before the journal is there",
            Faults { journal_late: true, ..Faults::default() },
        ),
    ];
    for (bug, faults) in planted {
        let (_, failures) =
            crash_everywhere(&start, faults, 4, reseal_in, |place, _| is_sound(place, &old, &new));
        assert!(failures > 0, "not noticed: {bug}");
    }
    let (_, failures) =
        crash_everywhere(&start, Faults::default(), 4, reseal_in, |place, _| is_sound(place, &old, &new));
    assert_eq!(failures, 0, "without a planted bug");
}

#[test]
fn a_full_disk_at_any_moment_is_one_clear_error_and_loses_nothing() {
    for code in ["rs:3+2", "dcode:5"] {
        let (start, old, new) = changed_set(code, Mode::Full);
        let mut seen = [0, 0];
        for after in 0.. {
            let place = Place::new();
            copy(start.dir.path(), place.dir.path());
            let disk =
                FaultDisk::new(place.dir.path(), Faults { full_after: Some(after), ..Faults::default() });
            let done = world(&disk).seal(&place.again(), &mut Silent);
            let temporaries = || {
                shards(&place.out())
                    .into_keys()
                    .filter(|name| name.to_string_lossy().ends_with(".tmp"))
                    .count()
            };
            // The error names the files that are present.
            match done {
                Ok(_) => {
                    assert!(after > 20);
                    break;
                }
                Err(error @ Fault { kind: FaultKind::Full, .. }) => {
                    assert!(error.to_string().contains("is as it was"), "{error}");
                    assert_eq!(restored(&place), Some(old.clone()), "after {after}");
                    seen[0] += 1;
                }
                Err(error @ Fault { kind: FaultKind::Unfinished(_), .. }) => {
                    let text = error.to_string();
                    assert!(text.contains("is decided") && text.contains("full"), "{error}");
                    assert!(!text.contains("as it was"), "{text}");
                    assert_eq!(restored(&place), Some(new.clone()), "after {after}");
                    seen[1] += 1;
                }
                Err(error) => panic!("after {after}: {error}"),
            }
            assert_eq!(temporaries(), 0, "after {after}");
            assert!(is_sound(&place, &old, &new), "after {after}: {:?}", place.verify());
            place.reseal();
            assert_eq!(restored(&place), Some(new.clone()));
        }
        assert!(seen[0] > 5 && seen[1] > 5, "{code}: {seen:?}");
    }
}

#[test]
fn a_shard_that_cannot_be_opened_for_a_moment_is_not_left_behind_in_silence() {
    for mode in [Mode::Full, Mode::Beside] {
        let (start, old, _) = changed_set("rs:3+2", mode);
        // The file is so large that the metadata must move before its stripes can be appended.
        write(&start.tree().join("long"), &Seed(7).bytes(200_000));
        let new = contents(picture(&start.tree()));
        let mut seen = [0; 2];
        for opening in 1.. {
            let place = Place::new();
            copy(start.dir.path(), place.dir.path());
            let faults = Faults { fails_to_open: Some(opening), ..Faults::default() };
            let disk = FaultDisk::new(place.dir.path(), faults);
            let done = world(&disk).seal(&place.again(), &mut Silent);
            let journal =
                || shards(&place.out()).into_keys().any(|name| name.to_string_lossy().ends_with(".journal"));
            match done {
                Ok(_) => {
                    assert!(!journal() && place.verify().clean, "{mode:?}, opening {opening}");
                    assert_eq!(restored(&place), Some(new.clone()));
                    if opening > 40 {
                        break;
                    }
                }
                Err(error) => {
                    seen[usize::from(journal())] += 1;
                    assert!(!journal() || error.to_string().contains("run the command again"), "{error}");
                    if mode == Mode::Full {
                        let is = restored(&place);
                        assert!(
                            is == Some(old.clone()) || is == Some(new.clone()),
                            "{mode:?}, opening {opening}"
                        );
                    }
                    place.reseal();
                    assert!(!journal() && place.verify().clean, "{mode:?}, opening {opening}");
                    assert_eq!(restored(&place), Some(new.clone()));
                }
            }
        }
        assert!(seen[0] > 1 && seen[1] > 1, "{mode:?}: {seen:?}");
    }
}

#[test]
fn a_journal_does_not_undo_what_was_healed_without_it() {
    let (start, old, new) = changed_set("rs:3+2", Mode::Full);
    let (mut tried, mut left) = (0, 0);
    for after in 0.. {
        let place = Place::new();
        copy(start.dir.path(), place.dir.path());
        let disk = FaultDisk::new(place.dir.path(), Faults { crash_after: Some(after), ..Faults::default() });
        reseal_in(&world(&disk), &place);
        let journal = place.out().join("tree.journal");
        if !journal.exists() {
            if tried > 0 {
                break;
            }
            continue;
        }
        // The journal is in another directory. One shard is lost and healed, then two more are
        // lost.
        let aside = place.dir.path().join("aside");
        fs::rename(&journal, &aside).unwrap();
        fs::remove_file(place.shard(2)).unwrap();
        if place.heal().is_err() {
            continue;
        }
        (0..2).for_each(|column| fs::remove_file(place.shard(column)).unwrap());
        let is_whole = |found: &Option<Picture>| *found == Some(old.clone()) || *found == Some(new.clone());
        if !is_whole(&restored(&place)) {
            continue;
        }
        tried += 1;
        fs::rename(&aside, &journal).unwrap();
        assert!(is_whole(&restored(&place)), "after {after}: the journal destroyed the set");
        left += u64::from(journal.exists());
        place.heal().unwrap();
        place.reseal();
        assert!(!journal.exists() && restored(&place) == Some(new.clone()), "after {after}");
    }
    assert!(tried > 3 && left > 0, "{tried} tried, {left} left alone");
}

/// A heal without the journal must not make the journal useless, and reports it if it is needed.
#[test]
fn a_heal_without_the_journal_does_not_undo_it() {
    for (mode, lost) in [
        (Mode::Full, None),
        (Mode::Full, Some("out/tree.01.shard")),
        (Mode::Full, Some("out/tree.04.shard")),
        (Mode::Beside, Some("tree/d/c")),
        (Mode::Beside, Some("tree/b")),
    ] {
        let (start, old, new) = changed_set("rs:3+2", mode);
        let (mut tried, mut told) = (0, 0);
        for after in 0.. {
            let place = Place::new();
            copy(start.dir.path(), place.dir.path());
            let faults = Faults { crash_after: Some(after), ..Faults::default() };
            let disk = FaultDisk::new(place.dir.path(), faults);
            reseal_in(&world(&disk), &place);
            if disk.operations() < after {
                break;
            }
            // There are two commits: the metadata moves first.
            let journal = place.out().join("tree.journal");
            if !journal.exists() {
                continue;
            }
            let aside = place.dir.path().join("aside");
            fs::rename(&journal, &aside).unwrap();
            lost.iter().for_each(|path| fs::remove_file(place.dir.path().join(path)).unwrap());
            let options = HealOptions {
                set: SetPaths { disks: at(&[place.tree()]), ..place.set() },
                ..Default::default()
            };
            let healed = heal(&options, &mut Silent);
            fs::rename(&aside, &journal).unwrap();
            let found = match mode {
                Mode::Full => restored(&place),
                Mode::Beside => {
                    let _ = heal(&options, &mut Silent);
                    // Before that generation the set has the old files, which were changed.
                    if open_set(&options.set).unwrap().generation < 3 {
                        continue;
                    }
                    Some(contents(picture(&place.tree())))
                }
            };
            tried += 1;
            if let Err(error) = &healed {
                let text = error.to_string();
                assert!(text.contains("tree.journal"), "{mode:?}, after {after}, {lost:?} lost: {text}");
                told += 1;
            }
            assert!(
                found == Some(new.clone()) || mode == Mode::Full && found == Some(old.clone()),
                "{mode:?}, after {after}, {lost:?} lost, healed {healed:?}: the journal is useless"
            );
        }
        assert!(tried > 20 && told > 0, "{mode:?}, {lost:?} lost: {tried} tried, {told} told");
    }
}
