//! Claim: if there are several directories for the shards, each gets one in turn. Each identifies
//! the whole set, even after another of them was lost.

use crate::common::fault::{FaultDisk, Faults};
use crate::common::*;
use pantile_seal::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// Three sources with two parities, each of which is sealed to a separate directory.
struct Spread {
    place: Place,
    sources: Vec<PathBuf>,
    dirs: [PathBuf; 2],
}

impl Spread {
    fn new() -> Spread {
        let place = Place::new();
        let root = place.dir.path();
        let sources: Vec<PathBuf> = ["a", "b", "c"].map(|name| root.join(name)).to_vec();
        for (i, source) in sources.iter().enumerate() {
            fs::create_dir(source).unwrap();
            write(&source.join("f"), &Seed(i as u64).bytes(20_000));
        }
        let dirs = ["p/set", "q/set"].map(|dir| root.join(dir));
        let spread = Spread { place, sources, dirs };
        seal(&spread.options(&spread.sources), &mut Silent).unwrap();
        spread
    }

    fn options(&self, sources: &[PathBuf]) -> SealOptions {
        SealOptions {
            more_out: vec![self.dirs[1].clone()],
            name: Some("set".into()),
            code: Some(code_of("raid6:3")),
            mode: Some(Mode::Beside),
            records: Some(self.place.records()),
            ..SealOptions::new(sources.to_vec(), self.dirs[0].clone())
        }
    }

    fn set(&self, dir: usize) -> SetPaths {
        SetPaths { records: Some(self.place.records()), ..SetPaths::dir(&self.dirs[dir]) }
    }

    fn is_clean(&self, dir: usize) -> bool {
        verify(&VerifyOptions { set: self.set(dir), ..Default::default() }, &mut Silent).unwrap().clean
    }

    fn heal(&self, dir: usize) -> Result<HealReport, Fault> {
        heal(&HealOptions { set: self.set(dir), ..Default::default() }, &mut Silent)
    }

    /// Asserts that each directory has the shard of one of these columns, and a link to the other
    /// shard.
    fn assert_spread(&self, columns: [usize; 2]) {
        for (at, dir) in self.dirs.iter().enumerate() {
            let mut names: Vec<String> = fs::read_dir(dir)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            assert_eq!(names, columns.map(|column| format!("set.{column:02}.shard")));
            let is_link = |column: usize| dir.join(format!("set.{column:02}.shard")).is_symlink();
            assert_eq!([is_link(columns[at]), is_link(columns[1 - at])], [false, true], "{dir:?}");
        }
        assert!(self.is_clean(0) && self.is_clean(1));
    }
}

#[test]
fn each_directory_gets_a_shard_and_links_to_the_others() {
    let spread = Spread::new();
    spread.assert_spread([3, 4]);
    // Each directory alone identifies the set, and so do all of them together.
    write(&spread.sources[0].join("new"), b"new");
    for out in [&spread.dirs[..1], &spread.dirs[1..], &spread.dirs] {
        let options = SealOptions {
            more_out: out[1..].to_vec(),
            name: Some("set".into()),
            records: Some(spread.place.records()),
            ..SealOptions::new(spread.sources.clone(), out[0].clone())
        };
        seal(&options, &mut Silent).unwrap();
        spread.assert_spread([3, 4]);
    }
}

#[test]
fn a_lost_directory_is_made_again_by_the_other_one() {
    for lost in [0, 1] {
        let spread = Spread::new();
        let kept = fs::read(spread.dirs[lost].join(format!("set.0{}.shard", 3 + lost))).unwrap();
        // A new disk has the directory where the old one was mounted, and that is empty.
        fs::remove_dir_all(&spread.dirs[lost]).unwrap();
        let report = spread.heal(1 - lost).unwrap();
        assert_eq!(report.shards_written.len(), 1);
        assert_eq!(fs::read(spread.dirs[lost].join(format!("set.0{}.shard", 3 + lost))).unwrap(), kept);
        spread.assert_spread([3, 4]);
    }
    // If the directory does not exist, since the disk is not mounted, it is not created.
    let spread = Spread::new();
    fs::remove_dir_all(spread.dirs[0].parent().unwrap()).unwrap();
    let error = spread.heal(1).unwrap_err();
    let FaultKind::NotHealed(report) = &error.kind else { panic!("{error}") };
    assert!(report.not_healed[0].reason.contains("mkdir -p"), "{report:?}");
    assert!(!spread.dirs[0].exists());
}

/// The folder of a parity disk that is not mounted is on the disk of its parent.
#[test]
fn a_shard_is_not_written_where_its_disk_is_not_mounted() {
    let spread = Spread::new();
    let shard = spread.dirs[0].join("set.03.shard");
    let kept = fs::read(&shard).unwrap();
    fs::remove_dir_all(&spread.dirs[0]).unwrap();
    fs::create_dir(&spread.dirs[0]).unwrap();
    let healed = |yes, devices| {
        let disk = FaultDisk::new(spread.place.dir.path(), Faults { devices, ..Faults::default() });
        let world = World { disk: &disk, threads: 1 };
        let report =
            world.verify(&VerifyOptions { set: spread.set(1), ..Default::default() }, &mut Silent).unwrap();
        let options = HealOptions { set: spread.set(1), yes, ..Default::default() };
        (world.heal(&options, &mut Silent), report.folders_unmounted)
    };
    let others: &[_] = &[("a", 1), ("b", 2), ("c", 3), ("q", 4)];
    let (refused, unmounted) = healed(false, others);
    let said = refused.unwrap_err().to_string();
    assert!(said.contains("no disk is mounted there, as at"), "{said}");
    assert_eq!(unmounted, [spread.dirs[0].display().to_string()]);
    assert!(fs::read_dir(&spread.dirs[0]).unwrap().next().is_none());
    let all: &[_] = &[("a", 1), ("b", 2), ("c", 3), ("q", 4), ("p", 5)];
    for (yes, devices) in [(true, others), (false, all)] {
        let (done, _) = healed(yes, devices);
        done.unwrap();
        assert_eq!(fs::read(&shard).unwrap(), kept);
        fs::remove_dir_all(&spread.dirs[0]).unwrap();
        fs::create_dir(&spread.dirs[0]).unwrap();
    }
}

#[test]
fn a_seal_without_a_lost_shard_does_not_forget_its_directory() {
    let spread = Spread::new();
    fs::remove_dir_all(&spread.dirs[0]).unwrap();
    fs::create_dir(&spread.dirs[0]).unwrap();
    seal(&SealOptions { code: None, ..spread.options(&spread.sources) }, &mut Silent).unwrap_err();
    assert!(fs::read_dir(&spread.dirs[0]).unwrap().next().is_none(), "nothing is written there");
    spread.heal(1).unwrap();
    spread.assert_spread([3, 4]);
}

#[test]
fn links_in_all_directories_are_right_after_a_seal_that_named_one() {
    let spread = Spread::new();
    let fourth = spread.place.dir.path().join("d");
    fs::create_dir(&fourth).unwrap();
    write(&fourth.join("f"), &Seed(9).bytes(30_000));
    let sources: Vec<PathBuf> = spread.sources.iter().cloned().chain([fourth]).collect();
    let options = SealOptions { code: None, more_out: Vec::new(), ..spread.options(&sources) };
    seal(&options, &mut Silent).unwrap();
    spread.assert_spread([4, 5]);
}

#[test]
fn a_directory_that_moved_gets_its_links_right_by_heal() {
    let mut spread = Spread::new();
    let new = spread.place.dir.path().join("r");
    fs::rename(&spread.dirs[0], &new).unwrap();
    spread.dirs[0] = new;
    let set = SetPaths { paths: spread.dirs.to_vec(), ..spread.set(0) };
    heal(&HealOptions { set, ..Default::default() }, &mut Silent).unwrap();
    spread.assert_spread([3, 4]);
}

#[test]
fn a_set_that_gets_another_source_keeps_its_shards_apart() {
    let spread = Spread::new();
    let fourth = spread.place.dir.path().join("d");
    fs::create_dir(&fourth).unwrap();
    write(&fourth.join("f"), &Seed(9).bytes(30_000));
    let sources: Vec<PathBuf> = spread.sources.iter().cloned().chain([fourth.clone()]).collect();
    let report = seal(&SealOptions { code: None, ..spread.options(&sources) }, &mut Silent).unwrap();
    assert_eq!(report.widened_from.as_deref(), Some("raid6:3"));
    spread.assert_spread([4, 5]);
    fs::remove_file(fourth.join("f")).unwrap();
    fs::remove_dir_all(&spread.dirs[0]).unwrap();
    spread.heal(1).unwrap();
    spread.assert_spread([4, 5]);
    assert_eq!(fs::read(fourth.join("f")).unwrap(), Seed(9).bytes(30_000));
}

#[test]
fn directories_that_moved_get_their_links_right_when_all_are_named() {
    let mut spread = Spread::new();
    let new = spread.place.dir.path().join("r");
    fs::rename(&spread.dirs[0], &new).unwrap();
    spread.dirs[0] = new;
    seal(&SealOptions { code: None, ..spread.options(&spread.sources) }, &mut Silent).unwrap();
    spread.assert_spread([3, 4]);
}

#[test]
fn a_link_that_leads_elsewhere_is_put_right() {
    let spread = Spread::new();
    let link = spread.dirs[1].join("set.03.shard");
    fs::remove_file(&link).unwrap();
    symlink("/nowhere", &link).unwrap();
    seal(&SealOptions { code: None, ..spread.options(&spread.sources) }, &mut Silent).unwrap();
    assert_eq!(fs::read_link(&link).unwrap(), spread.dirs[0].join("set.03.shard"));
    spread.assert_spread([3, 4]);
}

#[test]
fn directories_without_links_are_named_together() {
    let spread = Spread::new();
    let all = || SetPaths { paths: spread.dirs.to_vec(), ..spread.set(0) };
    for (dir, column) in [(0, 4), (1, 3)] {
        fs::remove_file(spread.dirs[dir].join(format!("set.{column:02}.shard"))).unwrap();
    }
    write(&spread.sources[1].join("new"), &Seed(7).bytes(50_000));
    let disk = FaultDisk::new(spread.place.dir.path(), Faults { has_no_links: true, ..Faults::default() });
    let again = SealOptions { code: None, ..spread.options(&spread.sources) };
    let report = World { disk: &disk, threads: 1 }.seal(&again, &mut Silent).unwrap();
    assert_eq!(report.added, 1);
    assert!(!spread.dirs[0].join("set.04.shard").exists());
    assert!(verify(&VerifyOptions { set: all(), ..Default::default() }, &mut Silent).unwrap().recoverable);
    fs::remove_file(spread.sources[1].join("new")).unwrap();
    heal(&HealOptions { set: all(), ..Default::default() }, &mut Silent).unwrap();
    assert_eq!(fs::read(spread.sources[1].join("new")).unwrap(), Seed(7).bytes(50_000));
    assert!(fs::metadata(spread.dirs[1].join("set.04.shard")).unwrap().is_file());
}
