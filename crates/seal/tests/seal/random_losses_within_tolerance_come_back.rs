//! Claim: any loss within the tolerance of the code is recovered: disks, files, blocks, and in
//! addition some bytes of the metadata of one shard.
//!
//! Losses are drawn by a seed, on small sets: some in every run, 10,000 in the slow one. Each loss
//! starts from the healed set of the previous one.

use crate::common::*;
use pantile_seal::disk::SystemDisk;
use pantile_seal::*;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const BLOCK: u64 = 4096;

/// A set, and the parts of it that can be lost: sources beside their parity, and shards.
struct Case {
    place: Place,
    what: String,
    sources: Vec<PathBuf>,
    shards: Vec<PathBuf>,
    tolerance: usize,
    /// Bytes of a shard from its first block to its last.
    body: std::ops::Range<u64>,
    want: Vec<BTreeMap<PathBuf, String>>,
}

/// Returns the content of a source, without the mtimes of directories.
fn content(source: &Path) -> BTreeMap<PathBuf, String> {
    picture(source).into_iter().filter(|(_, text)| !text.starts_with("dir")).collect()
}

impl Case {
    fn new(code: &str, mode: Mode, count: usize, seed: &mut Seed) -> Case {
        let place = Place::new();
        let source = |i: usize| {
            let source = place.dir.path().join(format!("disk{i}"));
            fs::create_dir_all(source.join("d")).unwrap();
            for file in 0..4 {
                let len = seed.below(3 * BLOCK) as usize;
                write(
                    &source.join(if file < 2 { format!("d/f{file}") } else { format!("f{file}") }),
                    &seed.bytes(len),
                );
            }
            source
        };
        let sources: Vec<PathBuf> = (0..count).map(source).collect();
        let mut options = SealOptions::new(sources.clone(), place.out());
        (options.code, options.mode) = (Some(code_of(code)), Some(mode));
        (options.records, options.block_len) = (Some(place.records()), Some(BLOCK));
        let report = seal(&options, &mut Silent).unwrap();
        let shards: Vec<PathBuf> = report.shards.iter().map(PathBuf::from).collect();
        let body = 8192..8192 + report.shard_bytes / shards.len() as u64;
        let want = sources.iter().map(|source| content(source)).collect();
        let tolerance = report.tolerance as usize;
        Case { place, what: format!("{code} {mode:?}"), sources, shards, tolerance, body, want }
    }

    /// Loses parts of this many columns, and some metadata of one more shard; returns a
    /// description.
    fn lose(&self, beside: bool, seed: &mut Seed) -> String {
        let mut left: Vec<&PathBuf> = self.shards.iter().collect();
        if beside {
            left.extend(&self.sources);
        }
        let mut said = String::new();
        for _ in 0..=seed.below(self.tolerance as u64) {
            let at = seed.below(left.len() as u64) as usize;
            let is_last_shard = |path: &PathBuf| {
                let others = left.iter().filter(|other| self.shards.contains(other)).count();
                self.shards.contains(path) && others == 1
            };
            // At least one shard must keep the manifest.
            if is_last_shard(left[at]) {
                continue;
            }
            let lost = left.swap_remove(at);
            said += &match self.shards.contains(lost) {
                true => self.lose_shard(lost, seed),
                false => lose_source(lost, seed),
            };
        }
        let shards: Vec<&&PathBuf> = left.iter().filter(|path| self.shards.contains(path)).collect();
        if seed.below(2) == 0 {
            let shard = shards[seed.below(shards.len() as u64) as usize];
            let len = fs::metadata(shard).unwrap().len();
            let at = if seed.below(2) == 0 {
                seed.below(8192 - 600)
            } else {
                self.body.end + seed.below(len - self.body.end)
            };
            flip(shard, at, 1 + seed.below(600));
            said += &format!("metadata of {} at {at}; ", shard.display());
        }
        said
    }

    fn lose_shard(&self, shard: &Path, seed: &mut Seed) -> String {
        let how = seed.below(3);
        match how {
            0 => fs::remove_file(shard).unwrap(),
            1 => {
                let file = fs::File::options().write(true).open(shard).unwrap();
                file.set_len(seed.below(self.body.end)).unwrap();
            }
            _ => {
                let blocks = self.body.end - self.body.start;
                (0..3).for_each(|_| flip(shard, self.body.start + seed.below(blocks), 1 + seed.below(50)));
            }
        }
        format!("shard {} in way {how}; ", shard.display())
    }
}

/// Flips bytes and keeps the mtime.
fn flip(path: &Path, at: u64, count: u64) {
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let time = file.metadata().unwrap().modified().unwrap();
    let mut bytes = vec![0; count as usize];
    let have = file.read_at(&mut bytes, at).unwrap();
    bytes[..have].iter_mut().for_each(|byte| *byte ^= 0x5a);
    file.write_all_at(&bytes[..have], at).unwrap();
    file.set_modified(time).unwrap();
}

fn lose_source(source: &Path, seed: &mut Seed) -> String {
    let files: Vec<PathBuf> = content(source).into_keys().map(|path| source.join(path)).collect();
    let how = seed.below(3);
    match how {
        0 => {
            fs::remove_dir_all(source).unwrap();
            fs::create_dir(source).unwrap();
        }
        1 => files.iter().filter(|_| seed.below(2) == 0).for_each(|file| fs::remove_file(file).unwrap()),
        _ => files.iter().for_each(|file| {
            let len = fs::metadata(file).unwrap().len();
            flip(file, seed.below(len.max(1)), 1 + seed.below(20));
        }),
    }
    format!("source {} in way {how}; ", source.display())
}

/// Removes the files in which heal keeps the replaced content of touched files.
fn remove_kept(report: &HealReport) {
    report.kept_aside.iter().chain(&report.kept_blocks).for_each(|path| fs::remove_file(path).unwrap());
}

#[test]
fn losses_within_tolerance_come_back() {
    come_back(300);
}

#[test]
#[ignore = "some minutes"]
fn ten_thousand_losses_within_tolerance_come_back() {
    come_back(10_000);
}

/// Loses and heals this many times, distributed over all cases.
fn come_back(losses: u64) {
    let cases = [
        ("raid5:3", Mode::Beside, 3),
        ("raid6:3", Mode::Beside, 3),
        ("raidq:3+3", Mode::Beside, 3),
        ("rdp:5", Mode::Beside, 3),
        ("rs:3+2", Mode::Full, 1),
        ("lrc:4,2,2", Mode::Full, 1),
    ];
    let each = losses.div_ceil(cases.len() as u64);
    std::thread::scope(|threads| {
        for (number, (code, mode, sources)) in cases.into_iter().enumerate() {
            threads.spawn(move || {
                let mut seed = Seed(number as u64 + 1);
                let case = Case::new(code, mode, sources, &mut seed);
                for round in 0..each {
                    let lost = case.lose(mode == Mode::Beside, &mut seed);
                    let what = format!("{}, round {round}: {lost}", case.what);
                    let options = HealOptions { set: case.place.set(), ..Default::default() };
                    let world = World { disk: &SystemDisk::new(), threads: 1 };
                    let report =
                        world.heal(&options, &mut Silent).unwrap_or_else(|error| panic!("{what}: {error}"));
                    remove_kept(&report);
                    let now: Vec<_> = case.sources.iter().map(|source| content(source)).collect();
                    assert!(now == case.want, "{what}");
                    if round % if mode == Mode::Full { 5 } else { 40 } == 0 {
                        let found = case.place.verify();
                        assert!(found.clean, "{what}: {found:?}");
                    }
                }
            });
        }
    });
}
