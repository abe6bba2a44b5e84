//! Claim: sets that the build of commit 7fa41de sealed, in version 1 of the format, are verified,
//! restored, healed, brought up to date and, if asked, upgraded; without being asked they stay of
//! version 1.
//!
//! `vectors/sets/make.sh` says how they were made.

use crate::common::*;
use pantile_format::{ShardHeader, Version};
use pantile_seal::*;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const FULL: [&str; 5] = ["full", "full-unchecked", "full-array", "full-overlap", "full-file"];
const BESIDE: [&str; 3] = ["beside", "beside-unchecked", "beside-array"];
const OTHERS: [&str; 5] = ["full-sources", "beside-sources", "resealed", "interrupted", "interrupted-half"];

fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/sets")
}

/// Copies a tree without its times. No other program does it: a child holds the locks of other
/// tests until it is another program.
fn copy(from: &Path, to: &Path) {
    let meta = fs::symlink_metadata(from).unwrap();
    if meta.is_symlink() {
        symlink(fs::read_link(from).unwrap(), to).unwrap();
    } else if meta.is_dir() {
        fs::create_dir(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let name = entry.unwrap().file_name();
            copy(&from.join(&name), &to.join(&name));
        }
    } else {
        fs::write(to, fs::read(from).unwrap()).unwrap();
    }
}

/// A set in a place of its own, with the trees that were sealed, their modes and times.
struct Old {
    place: Place,
    name: &'static str,
}

impl Old {
    fn new(name: &'static str) -> Old {
        let place = Place::new();
        let root = place.dir.path();
        for tree in ["tree", "two", "three"] {
            copy(&vectors().join(tree), &root.join(tree));
        }
        let times = fs::read_to_string(vectors().join("times")).unwrap();
        // What is in a directory comes before it: its time is the last to be set.
        for line in times.lines().rev() {
            let [mode, time, path] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let path = root.join(path);
            if !fs::symlink_metadata(&path).unwrap().is_symlink() {
                let mode = u32::from_str_radix(mode, 8).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            }
            let (seconds, nanos) = time.split_once('.').unwrap();
            let time = Timespec { tv_sec: seconds.parse().unwrap(), tv_nsec: nanos[..9].parse().unwrap() };
            let times = Timestamps { last_access: time, last_modification: time };
            utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        }
        copy(&vectors().join(name), &place.out());
        Old { place, name }
    }

    fn sources(&self) -> Vec<PathBuf> {
        let trees: &[&str] =
            if self.name.ends_with("sources") { &["tree", "two", "three"] } else { &["tree"] };
        trees.iter().map(|tree| self.place.dir.path().join(tree)).collect()
    }

    fn set(&self) -> SetPaths {
        SetPaths { disks: at(&self.sources()), ..self.place.set() }
    }

    fn verify(&self) -> VerifyReport {
        // One of them was cut off after its change was decided.
        if !open_set(&self.set()).unwrap().pending.is_empty() {
            self.heal();
        }
        verify(&VerifyOptions { set: self.set(), ..Default::default() }, &mut Silent).unwrap()
    }

    fn heal(&self) -> HealReport {
        heal(&HealOptions { set: self.set(), ..Default::default() }, &mut Silent).unwrap()
    }

    fn assert_restores(&self) {
        let target = self.place.target();
        let _ = fs::remove_dir_all(&target);
        let options =
            UnsealOptions { set: self.set(), target: target.clone(), overwrite: false, ..Default::default() };
        unseal(&options, &mut Silent).unwrap();
        match &self.sources()[..] {
            [one] => assert_same_trees(one, &target),
            all => all.iter().for_each(|source| {
                assert_same_trees(source, &target.join(source.file_name().unwrap()));
            }),
        }
    }

    fn again(&self, version: Option<Version>) -> SealOptions {
        let mut options = SealOptions::new(self.sources(), self.place.out());
        options.moved = true;
        options.version = version;
        let first = self.shards().remove(0);
        let name = first.file_name().unwrap().to_str().unwrap().split('.').next().unwrap().to_string();
        options.name = Some(name.into());
        options
    }

    fn shards(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.place.out()).unwrap().map(|entry| entry.unwrap().path());
        let mut shards: Vec<PathBuf> =
            files.filter(|path| path.extension().is_some_and(|e| e == "shard")).collect();
        shards.sort();
        shards
    }

    /// Loses the first shard, or the content of the only one.
    fn lose_a_shard(&self) {
        let shards = self.shards();
        match &shards[..] {
            [only] => flip(only, 8192 + 5),
            _ => fs::remove_file(&shards[0]).unwrap(),
        }
    }

    fn version(&self) -> Version {
        let versions: Vec<Version> = self
            .shards()
            .iter()
            .map(|path| ShardHeader::decode(&fs::read(path).unwrap()).unwrap().version)
            .collect();
        assert!(versions.iter().all(|version| *version == versions[0]), "{versions:?}");
        versions[0]
    }
}

fn all() -> Vec<&'static str> {
    [&FULL[..], &BESIDE, &OTHERS].concat()
}

#[test]
fn they_are_verified_restored_and_healed_as_version_1() {
    for name in all() {
        let old = Old::new(name);
        let found = old.verify();
        assert!(found.clean && found.files.is_empty(), "{name}: {found:?}");
        assert_eq!(old.version(), Version::V1, "{name}");
        let is_beside = name.starts_with("beside");
        if !is_beside {
            old.assert_restores();
        }
        let whole: Vec<Vec<u8>> = old.shards().iter().map(|path| fs::read(path).unwrap()).collect();
        old.lose_a_shard();
        old.heal();
        let healed: Vec<Vec<u8>> = old.shards().iter().map(|path| fs::read(path).unwrap()).collect();
        // Where sealing again moved the meta area, healing puts it back behind the blocks.
        let moved = ["resealed", "interrupted", "interrupted-half"].contains(&name);
        assert!(healed == whole || moved, "{name}");
        assert!(old.verify().clean, "{name}");
        if is_beside {
            let file = old.place.tree().join("block");
            let before = fs::read(&file).unwrap();
            fs::remove_file(&file).unwrap();
            old.heal();
            assert_eq!(fs::read(&file).unwrap(), before, "{name}");
        } else {
            old.assert_restores();
        }
        assert_eq!(old.version(), Version::V1, "{name}");
    }
}

#[test]
fn they_are_brought_up_to_date_and_stay_of_version_1_unless_asked() {
    for (name, version) in all().into_iter().flat_map(|name| [(name, None), (name, Some(Version::V2))]) {
        let old = Old::new(name);
        write(&old.place.tree().join("deep/one more"), &Seed(5).bytes(30_000));
        fs::remove_file(old.place.tree().join("a")).unwrap();
        let report = seal(&old.again(version), &mut Silent).unwrap();
        assert!(report.added == 1 && report.removed == 1, "{name}: {report:?}");
        assert_eq!(old.version(), version.unwrap_or(Version::V1), "{name}");
        let found = old.verify();
        assert!(found.clean, "{name}: {found:?}");
        old.lose_a_shard();
        old.heal();
        assert!(old.verify().clean, "{name}");
        if !name.starts_with("beside") {
            old.assert_restores();
        }
        assert_eq!(old.version(), version.unwrap_or(Version::V1), "{name}");
    }
}

#[test]
fn an_upgrade_changes_nothing_else_and_is_never_undone() {
    for name in ["full", "beside", "full-unchecked"] {
        let old = Old::new(name);
        let report = seal(&old.again(Some(Version::V2)), &mut Silent).unwrap();
        assert_eq!((report.added, report.changed, report.removed), (0, 0, 0), "{name}: {report:?}");
        assert_eq!(old.version(), Version::V2, "{name}");
        assert!(old.verify().clean, "{name}");
        // The last copy alone says what the shard is.
        for shard in old.shards() {
            let bytes = fs::read(&shard).unwrap();
            assert_eq!(
                ShardHeader::decode(&bytes[bytes.len() - 4096..]),
                ShardHeader::decode(&bytes),
                "{name}"
            );
        }
        let back = seal(&old.again(Some(Version::V1)), &mut Silent).unwrap_err();
        assert!(matches!(back, SealError::Differs { what: "the format version", .. }), "{back}");
        let again = seal(&old.again(Some(Version::V2)), &mut Silent).unwrap();
        assert_eq!(again.generation, report.generation, "{name}: a second upgrade has nothing to do");
    }
}
