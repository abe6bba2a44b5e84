//! Claim: no file or action of other users makes a command write, read or wait outside of its
//! arguments. The attacks are sets that name paths, links in the place of shards, journals, names
//! that are exchanged, and locks.

use crate::common::fault::{FaultDisk, Faults};
use crate::common::*;
use pantile_format::{
    BODY_OFFSET, Column, CrcStream, Generation, JournalHeader, RecordHead, RecordKind, SetId, ShardHeader,
    Target,
};
use pantile_seal::*;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const SECRET: &[u8] = b"a secret of another user";

fn sealed(mode: Mode) -> Place {
    let place = Place::new();
    let mut seed = Seed(11);
    fs::create_dir_all(place.tree().join("d")).unwrap();
    for name in ["a", "b", "d/c"] {
        write(&place.tree().join(name), &seed.bytes(20_000));
    }
    let mut options = place.options("rs:3+2");
    options.mode = Some(mode);
    seal(&options, &mut Silent).unwrap();
    place
}

/// The options of another user, who has the set but no record of it.
fn without_record(place: &Place) -> HealOptions {
    HealOptions { set: SetPaths::dir(place.out()), ..Default::default() }
}

#[test]
fn a_source_that_only_the_set_names_is_shown_and_not_written() {
    let place = sealed(Mode::Beside);
    fs::remove_file(place.tree().join("a")).unwrap();
    rot(&place, &place.tree().join("b"), 100);
    flip(&place.shard(3), 100);
    let (tree, out) = (picture(&place.tree()), shards(&place.out()));
    let error = heal(&without_record(&place), &mut Silent).unwrap_err();
    assert!(
        matches!(&error.kind, FaultKind::PlacesUnknown(disks) if *disks == at(&[place.tree()])),
        "{error}"
    );
    assert!(error.to_string().contains(place.tree().to_str().unwrap()), "{error}");
    assert_eq!(picture(&place.tree()), tree);
    assert!(shards(&place.out()) == out);
    let set = SetPaths::dir(place.out());
    let found = verify(&VerifyOptions { set: set.clone(), ..Default::default() }, &mut Silent).unwrap();
    assert_eq!(found.sources, [place.tree().display().to_string()]);
    // The user who sealed the set here need not name its places.
    assert_eq!(place.heal().unwrap().files_healed.len(), 2);
    assert!(place.verify().clean);
}

#[test]
fn files_touched_since_sealing_are_kept_beside_the_healed_ones() {
    let place = sealed(Mode::Beside);
    rot(&place, &place.tree().join("a"), 100);
    assert!(place.heal().unwrap().kept_aside.is_empty(), "rot leaves no trace in times");
    flip(&place.tree().join("b"), 100);
    let touched = fs::read(place.tree().join("b")).unwrap();
    let mut options = without_record(&place);
    options.set.disks = at(&[place.tree()]);
    let healed = heal(&options, &mut Silent).unwrap();
    let aside = place.tree().join("b.before-heal");
    assert_eq!(healed.kept_aside, [aside.display().to_string()]);
    assert!(fs::read(&aside).unwrap() == touched);
}

#[test]
fn a_recorded_source_that_became_a_link_is_not_followed() {
    let place = sealed(Mode::Beside);
    let etc = place.dir.path().join("etc");
    fs::rename(place.tree(), place.dir.path().join("old")).unwrap();
    fs::create_dir(&etc).unwrap();
    symlink(&etc, place.tree()).unwrap();
    assert!(place.heal().is_err());
    assert_eq!(fs::read_dir(&etc).unwrap().count(), 0);
}

#[test]
fn an_empty_directory_where_a_source_was_is_filled() {
    let place = sealed(Mode::Beside);
    let kept = picture(&place.tree());
    let other = place.dir.path().join("other");
    fs::rename(place.tree(), &other).unwrap();
    fs::create_dir(place.tree()).unwrap();
    // Only the copy has the lost content: without it, more is lost than the code tolerates.
    fs::rename(other.join("b"), place.tree().join("b")).unwrap();
    fs::create_dir(place.tree().join("d")).unwrap();
    fs::rename(other.join("d/c"), place.tree().join("d/c")).unwrap();
    place.heal().unwrap();
    let now = picture(&place.tree());
    for name in ["a", "b", "d/c"] {
        assert_eq!(now.get(Path::new(name)), kept.get(Path::new(name)), "{name}");
    }
}

#[test]
fn a_link_in_the_place_of_a_shard_leads_nobody_to_write_elsewhere() {
    let place = sealed(Mode::Full);
    let home = place.dir.path().join("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("key"), SECRET).unwrap();
    for (column, to) in [(0, "../home/key"), (3, "../home/new")] {
        fs::remove_file(place.shard(column)).unwrap();
        symlink(to, place.shard(column)).unwrap();
    }
    // This holds for another user, and for the owner, to whose folder another user wrote.
    for options in [without_record(&place), HealOptions { set: place.set(), ..Default::default() }] {
        let healed = heal(&options, &mut Silent).unwrap();
        assert_eq!((healed.moved_aside.len(), healed.shards_written.len()), (2, 2), "{healed:?}");
        assert_eq!(fs::read(home.join("key")).unwrap(), SECRET);
        assert_eq!(fs::read_dir(&home).unwrap().count(), 1, "nothing is made beside it");
        assert!(place.verify().clean);
        for (column, to) in [(0, "../home/key"), (3, "../home/new")] {
            fs::remove_file(place.shard(column)).unwrap();
            symlink(to, place.shard(column)).unwrap();
        }
    }
}

#[test]
fn unopenable_files_are_named_and_neither_judged_nor_written() {
    for (mode, end) in [(Mode::Full, ".01.shard"), (Mode::Beside, ".03.shard"), (Mode::Beside, "d/c")] {
        let place = sealed(mode);
        let before = shards(&place.out());
        let disk = FaultDisk::new(place.dir.path(), Faults { unreadable: Some(end), ..Faults::default() });
        let world = World { disk: &disk, threads: 1 };
        let verified = world.verify(&VerifyOptions { set: place.set(), ..Default::default() }, &mut Silent);
        let healed = world.heal(&HealOptions { set: place.set(), ..Default::default() }, &mut Silent);
        for error in [verified.unwrap_err(), healed.unwrap_err()] {
            assert!(error.what.starts_with("1 file of the set cannot be opened"), "{end}: {error}");
            let path = error.path.as_ref().unwrap();
            assert!(path.to_str().unwrap().ends_with(end), "{error}");
        }
        assert_eq!(disk.bytes_written(), 0);
        assert!(shards(&place.out()) == before && place.verify().clean);
    }
}

#[test]
fn irregular_files_are_reported_and_left_alone() {
    use rustix::fs::{FileType, Mode as Bits, mknodat};
    let place = sealed(Mode::Full);
    fs::remove_file(place.shard(2)).unwrap();
    mknodat(CWD, place.shard(2), FileType::Fifo, Bits::from_raw_mode(0o600), 0).unwrap();
    fs::remove_file(place.shard(1)).unwrap();
    // A pipe to which a link leads is not touched either; the rebuilt shard replaces the link.
    let pipe = place.dir.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Bits::from_raw_mode(0o600), 0).unwrap();
    symlink(&pipe, place.shard(1)).unwrap();
    let Err(Fault { kind: FaultKind::NotHealed(report), .. }) = place.heal() else { panic!("healed") };
    assert_eq!((report.shards_written.len(), report.not_healed.len()), (1, 1), "{report:?}");
    assert!(report.not_healed[0].reason.contains("a pipe"), "{report:?}");
    let is_pipe = |path: &Path| {
        std::os::unix::fs::FileTypeExt::is_fifo(&fs::symlink_metadata(path).unwrap().file_type())
    };
    assert!(is_pipe(&place.shard(2)) && is_pipe(&pipe));
}

/// Returns a set with an unfinished journal, which a killed command left.
fn pending() -> Place {
    for after in 20.. {
        let place = sealed(Mode::Full);
        write(&place.tree().join("a"), &Seed(12).bytes(15_000));
        let disk = FaultDisk::new(place.dir.path(), Faults { crash_after: Some(after), ..Faults::default() });
        let done = World { disk: &disk, threads: 1 }.seal(&place.again(), &mut Silent);
        if place.out().join("tree.journal").exists() {
            return place;
        }
        assert!(done.is_err(), "there was no moment at which it was decided and not done");
    }
    unreachable!()
}

#[test]
fn looking_writes_nothing_and_says_that_a_change_is_to_be_finished() {
    let place = pending();
    let before = shards(&place.out());
    let info = open_set(&place.set()).unwrap();
    assert_eq!(info.pending, [place.out().join("tree.journal").display().to_string()]);
    let verified = verify(&VerifyOptions { set: place.set(), ..Default::default() }, &mut Silent);
    assert!(matches!(verified, Err(Fault { kind: FaultKind::Pending, .. })), "{verified:?}");
    assert!(shards(&place.out()) == before);
    place.heal().unwrap();
    assert!(open_set(&place.set()).unwrap().pending.is_empty() && place.verify().shards.len() == 5);
    assert!(!place.out().join("tree.journal").exists());
}

/// Returns the bytes of a journal with a correct checksum.
fn journal(set: SetId, generation: u64, records: &[(RecordHead, &[Target], &[u8])]) -> Vec<u8> {
    let mut bytes = JournalHeader { set, generation: Generation(generation) }.encode().to_vec();
    for (head, targets, payload) in records {
        bytes.extend(head.encode());
        targets.iter().for_each(|target| bytes.extend(target.encode()));
        bytes.extend(*payload);
    }
    bytes.extend(RecordHead { kind: RecordKind::End, targets: 0, payload_len: 8 }.encode());
    let mut sum = CrcStream::new();
    sum.update(&bytes);
    bytes.extend(sum.crc().0.to_le_bytes());
    bytes
}

#[test]
fn a_journal_that_says_more_than_a_commit_does_is_refused_before_anything_is_done() {
    let place = sealed(Mode::Full);
    let header = fs::read(place.shard(0)).unwrap()[..4096].to_vec();
    let set = SetId(header[16..32].try_into().unwrap());
    let target = |offset| [Target { column: Column(0), offset }];
    let head = |kind, payload_len| RecordHead { kind, targets: 1, payload_len };
    let of_now = (head(RecordKind::Write, 4096), &target(0)[..], &header[..]);
    let whole = fs::metadata(place.shard(0)).unwrap().len();
    let evil: [(&str, RecordHead, [Target; 1], &[u8]); 6] = [
        ("zeros towards 1 TiB", head(RecordKind::Zero, 1 << 40), target(8192), &[]),
        ("length 0", head(RecordKind::Length, 0), target(0), &[]),
        ("longer", head(RecordKind::Length, 0), target(whole + 1), &[]),
        ("over the manifest", head(RecordKind::Write, 4096), target(whole / 4096 * 4096), &[7; 4096]),
        ("within a block", head(RecordKind::Write, 16), target(8200), &[7; 16]),
        ("half a header", head(RecordKind::Write, 16), target(4096), &[7; 16]),
    ];
    for (name, head, target, payload) in &evil {
        for with_header in [false, true] {
            let mut records = vec![(*head, &target[..], *payload)];
            if with_header {
                records.insert(0, of_now);
            }
            fs::write(place.out().join("tree.journal"), journal(set, 1, &records)).unwrap();
            let before = shards(&place.out());
            assert!(matches!(place.heal(), Err(Fault { kind: FaultKind::BadJournal, .. })), "{name}");
            assert!(matches!(place.unseal(), Err(Fault { kind: FaultKind::BadJournal, .. })), "{name}");
            assert!(open_set(&place.set()).is_err(), "{name}");
            assert!(shards(&place.out()) == before, "{name}");
        }
    }
}

/// A commit could write each of these records, but not so many of them.
#[test]
fn a_journal_writes_no_more_to_a_shard_than_that_is_long() {
    let place = sealed(Mode::Full);
    let header = fs::read(place.shard(0)).unwrap()[..4096].to_vec();
    let of_now = ShardHeader::decode(&header).unwrap();
    let [at_start, at_body] = [0, BODY_OFFSET].map(|offset| [Target { column: Column(0), offset }]);
    let body_len = of_now.body_end().unwrap() - BODY_OFFSET;
    let whole = RecordHead { kind: RecordKind::Zero, targets: 1, payload_len: body_len };
    let zeros = (whole, &at_body[..], &[][..]);
    let head = RecordHead { kind: RecordKind::Write, targets: 1, payload_len: 4096 };
    let mut records = vec![(head, &at_start[..], &header[..]), zeros];
    let open = |records: &[(RecordHead, &[Target], &[u8])]| {
        fs::write(place.out().join("tree.journal"), journal(of_now.set, 1, records)).unwrap();
        open_set(&place.set())
    };
    open(&records).unwrap();
    let len = fs::metadata(place.shard(0)).unwrap().len();
    (0..len / body_len).for_each(|_| records.push(zeros));
    let error = open(&records).unwrap_err();
    assert!(matches!(error.kind, FaultKind::BadJournal), "{error}");
}

#[test]
fn reading_a_journal_can_be_cancelled() {
    struct Ended;
    impl Progress for Ended {
        fn phase(&mut self, _name: &'static str, _total_bytes: u64) {}
        fn advance(&mut self, _bytes: u64) {}
        fn cancelled(&self) -> bool {
            true
        }
    }
    let place = pending();
    let before = shards(&place.out());
    let error = heal(&HealOptions { set: place.set(), ..Default::default() }, &mut Ended).unwrap_err();
    assert!(
        matches!(&error.kind, FaultKind::Unfinished(why) if matches!(why.kind, FaultKind::Cancelled)),
        "{error}"
    );
    let error = verify(&VerifyOptions { set: place.set(), ..Default::default() }, &mut Ended).unwrap_err();
    assert!(matches!(error.kind, FaultKind::Cancelled), "{error}");
    assert!(shards(&place.out()) == before);
    place.heal().unwrap();
    assert!(!place.out().join("tree.journal").exists());
}

/// The owner of the shards also owns the journal, and can change it while root finishes it.
#[test]
fn a_journal_that_is_changed_while_it_is_done_writes_no_more_than_one_that_was_not() {
    struct Changing {
        path: PathBuf,
        evil: Vec<u8>,
        left: AtomicUsize,
    }
    impl Progress for Changing {
        fn phase(&mut self, _name: &'static str, _total_bytes: u64) {}
        fn advance(&mut self, _bytes: u64) {}
        fn cancelled(&self) -> bool {
            if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
                fs::write(&self.path, &self.evil).unwrap();
            }
            false
        }
    }
    let start = pending();
    let good = fs::read(start.out().join("tree.journal")).unwrap();
    let header = JournalHeader::decode(&good).unwrap();
    let len = |place: &Place| (0..5).map(|column| fs::metadata(place.shard(column)).unwrap().len()).max();
    let most = len(&start).unwrap();
    let head = RecordHead { kind: RecordKind::Zero, targets: 1, payload_len: most.next_multiple_of(4096) };
    let target = [Target { column: Column(0), offset: BODY_OFFSET }];
    let evil = journal(header.set, header.generation.0, &[(head, &target, &[]), (head, &target, &[])]);
    let mut refused = 0;
    for left in 0.. {
        let place = Place::new();
        copy(start.dir.path(), place.dir.path());
        let path = place.out().join("tree.journal");
        let mut progress = Changing { path, evil: evil.clone(), left: AtomicUsize::new(left) };
        let done = heal(&HealOptions { set: place.set(), ..Default::default() }, &mut progress);
        assert!(len(&place).unwrap() <= most, "changed before read {left}");
        match done {
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("journal"), "{text}");
                refused += 1;
            }
            Ok(_) if progress.left.into_inner() < usize::MAX / 2 => break,
            Ok(_) => {}
        }
    }
    assert!(refused > 10, "{refused}");
}

/// A set could state that it was sealed from `/`.
#[test]
fn a_set_alone_has_nobody_look_through_the_directories_that_it_names() {
    let place = sealed(Mode::Beside);
    fs::rename(place.tree().join("a"), place.tree().join("renamed")).unwrap();
    fs::write(place.tree().join("new"), "new").unwrap();
    let by_set = SetPaths::dir(place.out());
    let by_name = SetPaths { disks: at(&[place.tree()]), ..by_set.clone() };
    for (set, is_searched) in [(by_set, false), (by_name, true), (place.set(), true)] {
        let found = verify(&VerifyOptions { set, ..Default::default() }, &mut Silent).unwrap();
        assert_eq!(found.sources_searched, is_searched);
        let of = |status| found.files.iter().filter(|file| file.status == status).count();
        let counts = [FileStatus::Missing, FileStatus::Renamed, FileStatus::New].map(of);
        assert_eq!(counts, if is_searched { [0, 1, 1] } else { [1, 0, 0] });
    }
}

/// Exchanges two names again and again while `work` runs, at least 100,000 times.
fn exchanging(one: &Path, other: &Path, mut work: impl FnMut()) {
    const ROUNDS: usize = 100_000;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                let _ = renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
            }
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            work();
        }
    });
}

fn holds_secret(dir: &Path) -> bool {
    let holds = |bytes: Vec<u8>| bytes.windows(SECRET.len()).any(|part| part == SECRET);
    fs::read_dir(dir).is_ok_and(|mut dir| dir.any(|file| fs::read(file.unwrap().path()).is_ok_and(holds)))
}

/// Makes a directory with a secret, and links to it and to its content, beside a tree.
fn secret(place: &Place) -> PathBuf {
    let root = place.dir.path().join("root");
    fs::create_dir_all(&root).unwrap();
    fs::write(root.join("c"), SECRET).unwrap();
    symlink(&root, place.dir.path().join("to dir")).unwrap();
    symlink(root.join("c"), place.dir.path().join("to file")).unwrap();
    root
}

#[test]
fn names_that_are_exchanged_while_a_tree_is_sealed_bring_no_secret_into_the_shards() {
    for (one, other) in [("tree/d", "to dir"), ("tree/d/c", "to file"), ("tree", "to dir")] {
        let place = sealed(Mode::Full);
        secret(&place);
        let path = |name: &str| place.dir.path().join(name);
        let (mut done, mut secrets) = (0, 0);
        exchanging(&path(one), &path(other), || {
            let out = path("new out");
            let mut options = SealOptions::new(vec![place.tree()], out.clone());
            options.code = Some(code_of("rs:3+2"));
            options.read_all = true;
            done += u64::from(seal(&options, &mut Silent).is_ok());
            // If the exchanged name is the tree itself, the user may have made it a link.
            secrets += u64::from(one != "tree" && holds_secret(&out));
            let _ = fs::remove_dir_all(&out);
        });
        assert_eq!(secrets, 0, "{one}");
        assert!(done > 0, "{one}");
    }
}

#[test]
fn names_that_are_exchanged_while_files_are_healed_or_restored_lead_nothing_elsewhere() {
    let place = sealed(Mode::Beside);
    let root = secret(&place);
    fs::remove_file(root.join("c")).unwrap();
    let path = |name: &str| place.dir.path().join(name);
    let mut healed = 0;
    exchanging(&path("tree/d"), &path("to dir"), || {
        let _ = fs::remove_file(place.tree().join("d/c"));
        healed += place.heal().map_or(0, |report| report.files_healed.len());
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    });
    assert!(healed > 0);
    let place = sealed(Mode::Full);
    let root = secret(&place);
    fs::remove_file(root.join("c")).unwrap();
    let path = |name: &str| place.dir.path().join(name);
    fs::create_dir_all(path("target/d")).unwrap();
    let mut restored = 0;
    exchanging(&path("target/d"), &path("to dir"), || {
        let _ = fs::remove_file(path("target/d/c"));
        let options =
            UnsealOptions { set: place.set(), target: path("target"), overwrite: true, ..Default::default() };
        restored += u64::from(unseal(&options, &mut Silent).is_ok());
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    });
    assert!(restored > 0);
}

#[test]
fn readers_of_the_shards_cannot_lock_their_owner_out() {
    let place = sealed(Mode::Full);
    let locks: Vec<fs::File> = std::iter::once(place.out())
        .chain((0..5).map(|column| place.shard(column)))
        .map(|path| fs::File::open(path).unwrap())
        .collect();
    locks.iter().for_each(|file| file.lock().unwrap());
    flip(&place.shard(1), 9000);
    assert_eq!(place.heal().unwrap().shards_written.len(), 1);
    write(&place.tree().join("more"), b"more");
    place.reseal();
    assert!(place.verify().clean);
    place.assert_restores();
}
