//! Claim: the reports give exactly the number of real disks that can fail, and how many files the
//! first loss beyond that costs.

use crate::common::fault::{FaultDisk, Faults};
use crate::common::*;
use pantile_seal::*;
use std::fs;
use std::path::{Path, PathBuf};

/// Disks, each on a separate device.
const DEVICES: &[(&str, u64)] = &[("d0", 1001), ("d1", 1002), ("d2", 1003), ("d3", 1004), ("d4", 1005)];

/// A place whose `out` directory has links to the shards, which are on the disks.
struct Spread {
    place: Place,
    sources: Vec<PathBuf>,
}

impl Spread {
    /// Makes sources `dI/sI` on some disks, and shards on others.
    fn new(code: &str, mode: Mode, sources: &[usize], shards: &[usize], seed: u64) -> Spread {
        let place = Place::new();
        let mut seed = Seed(seed);
        let root = place.dir.path().to_path_buf();
        (0..DEVICES.len()).for_each(|i| fs::create_dir(root.join(format!("d{i}"))).unwrap());
        let source = |(i, disk): (usize, &usize)| {
            let source = root.join(format!("d{disk}/s{i}"));
            fs::create_dir(&source).unwrap();
            for file in 0..2 + i {
                let len = 3000 + seed.below(9000) as usize;
                write(&source.join(format!("f{file}")), &seed.bytes(len));
            }
            source
        };
        let sources: Vec<PathBuf> = sources.iter().enumerate().map(source).collect();
        let mut options = SealOptions::new(sources.clone(), place.out());
        options.code = Some(code_of(code));
        options.mode = Some(mode);
        options.block_len = Some(4096);
        options.name = Some("all".into());
        options.records = Some(place.records());
        let report = seal(&options, &mut Silent).unwrap();
        for (shard, disk) in report.shards.iter().zip(shards) {
            let to = root.join(format!("d{disk}")).join(Path::new(shard).file_name().unwrap());
            fs::copy(shard, &to).unwrap();
            fs::remove_file(shard).unwrap();
            std::os::unix::fs::symlink(&to, shard).unwrap();
        }
        Spread { place, sources }
    }

    fn survival(&self) -> Survival {
        let disk = FaultDisk::new(self.place.dir.path(), Faults { devices: DEVICES, ..Faults::default() });
        World { disk: &disk, threads: 1 }.open_set(&self.place.set()).unwrap().survival
    }

    /// Returns the number of the disk in a report.
    fn number(&self, disk: &DiskContent) -> usize {
        let below = Path::new(&disk.path).strip_prefix(self.place.dir.path()).unwrap();
        let name = below.iter().next().unwrap().to_str().unwrap();
        name.strip_prefix('d').unwrap().parse().unwrap()
    }

    /// Returns the files of each source as they are now.
    fn files(&self) -> Vec<Vec<(PathBuf, String)>> {
        self.sources.iter().map(|source| files(source)).collect()
    }

    /// Returns how many of these files are lost with some disks, by losing these disks in a copy of
    /// the place.
    fn lost_with(&self, disks: &[usize], mode: Mode, wanted: &[Vec<(PathBuf, String)>]) -> u64 {
        let copy = Place::new();
        copy_tree(self.place.dir.path(), copy.dir.path());
        let root = copy.dir.path();
        for disk in disks {
            let dir = root.join(format!("d{disk}"));
            fs::remove_dir_all(&dir).unwrap();
            fs::create_dir(&dir).unwrap();
        }
        // The copied links lead to the original place.
        for entry in fs::read_dir(copy.out()).unwrap() {
            let link = entry.unwrap().path();
            let Ok(to) = fs::read_link(&link) else { continue };
            let to = root.join(to.strip_prefix(self.place.dir.path()).unwrap());
            fs::remove_file(&link).unwrap();
            if to.exists() {
                std::os::unix::fs::symlink(to, &link).unwrap();
            }
        }
        let moved = |source: &PathBuf| root.join(source.strip_prefix(self.place.dir.path()).unwrap());
        let all: Vec<PathBuf> = self.sources.iter().map(moved).collect();
        let want: u64 = wanted.iter().map(|files| files.len() as u64).sum();
        match mode {
            Mode::Beside => {
                all.iter().for_each(|source| fs::create_dir_all(source).unwrap());
                let set = SetPaths { disks: at(&all), ..copy.set() };
                let _ = heal(&HealOptions { set, ..Default::default() }, &mut Silent);
                let right = |(wanted, now): (&Vec<_>, &PathBuf)| {
                    let now = files(now);
                    wanted.iter().filter(|file| now.contains(file)).count() as u64
                };
                want - wanted.iter().zip(&all).map(right).sum::<u64>()
            }
            Mode::Full => {
                let target = copy.target();
                let options = UnsealOptions { set: copy.set(), target, ..Default::default() };
                match unseal(&options, &mut Silent) {
                    Ok(report) => want - report.files,
                    Err(Fault { kind: FaultKind::NotRestored { report, .. }, .. }) => want - report.files,
                    Err(_) => want,
                }
            }
        }
    }
}

fn files(source: &Path) -> Vec<(PathBuf, String)> {
    picture(source).into_iter().filter(|(_, text)| !text.starts_with("dir")).collect()
}

fn copy_tree(from: &Path, to: &Path) {
    let done = std::process::Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap();
    assert!(done.success());
}

fn choices(n: usize, size: usize) -> impl Iterator<Item = Vec<usize>> {
    (0..1u32 << n)
        .filter(move |bits| bits.count_ones() as usize == size)
        .map(move |bits| (0..n).filter(|i| bits >> i & 1 == 1).collect())
}

#[test]
fn both_parities_on_one_disk_are_one_loss() {
    let spread = Spread::new("raid6:3", Mode::Beside, &[0, 1, 2], &[3, 3], 1);
    let survival = spread.survival();
    assert_eq!((survival.disks.len(), survival.promised, survival.survives), (4, 2, 1), "{survival:?}");
    assert_eq!(survival.loss_count, 3, "with each of the sources: {survival:?}");
    assert_eq!(survival.disks[3].shards, [3, 4]);
    let apart = Spread::new("raid6:3", Mode::Beside, &[0, 1, 2], &[3, 4], 1).survival();
    assert_eq!((apart.disks.len(), apart.survives, apart.losses.len()), (5, 2, 0), "{apart:?}");
}

/// Placements are drawn by a seed: every combination of as many disks as promised is recovered, and
/// the reported loss costs the reported number of files.
#[test]
fn foretold_losses_are_real_losses() {
    let mut seed = Seed(7);
    for (code, mode, sources, shards) in [
        ("raid6:3", Mode::Beside, 3, 2),
        ("raidq:3+3", Mode::Beside, 3, 3),
        ("lrc:4,2,2", Mode::Full, 1, 8),
        ("rs:4+2", Mode::Full, 1, 6),
        ("rdp:5", Mode::Beside, 3, 2),
        ("raid6:4", Mode::Beside, 1, 2),
    ] {
        for round in 0..4 {
            let mut draw = |count: usize| (0..count).map(|_| seed.below(5) as usize).collect::<Vec<_>>();
            let (on, by) = (draw(sources), draw(shards));
            let what = format!("{code} round {round}: sources on {on:?}, shards on {by:?}");
            let spread = Spread::new(code, mode, &on, &by, round);
            let survival = spread.survival();
            let numbers: Vec<usize> = survival.disks.iter().map(|disk| spread.number(disk)).collect();
            for choice in choices(numbers.len(), survival.survives as usize) {
                let lost: Vec<usize> = choice.iter().map(|&at| numbers[at]).collect();
                assert_eq!(
                    spread.lost_with(&lost, mode, &spread.files()),
                    0,
                    "{what}, without {lost:?}: {survival:?}"
                );
            }
            assert_eq!(survival.losses.is_empty(), survival.survives == survival.promised, "{what}");
            if let Some(loss) = survival.losses.first() {
                let lost: Vec<usize> = loss.disks.iter().map(|&at| numbers[at as usize]).collect();
                assert_eq!(
                    spread.lost_with(&lost, mode, &spread.files()),
                    loss.files_lost,
                    "{what}, without {lost:?}: {survival:?}"
                );
            }
        }
    }
}

/// The blocks of a file that was changed or deleted after the seal do not help to recover others.
#[test]
fn files_changed_since_the_seal_count_as_lost() {
    let mut seed = Seed(11);
    let mut less = 0;
    for code in ["raid6:3", "raid5:3", "raidq:3+3", "rdp:5"] {
        for round in 0..3 {
            let shards = if code == "raidq:3+3" { &[3, 4, 4][..] } else { &[3, 4] };
            let spread = Spread::new(code, Mode::Beside, &[0, 1, 2], shards, round);
            let mut wanted = spread.files();
            let mut unsealed = 0;
            for (source, files) in spread.sources.iter().zip(&mut wanted) {
                let (mut changed, mut deleted, all) = (0, 0, files.len() as u64);
                files.retain(|(path, _)| {
                    let path = source.join(path);
                    match seed.below(4) {
                        0 => {
                            fs::remove_file(path).unwrap();
                            deleted += 1;
                        }
                        1 => {
                            write(&path, b"changed");
                            changed += 1;
                            return false;
                        }
                        _ => {}
                    }
                    true
                });
                // A source from which all files are gone counts as a lost disk.
                unsealed += if deleted == all { 0 } else { changed + deleted };
            }
            let survival = spread.survival();
            let what = format!("{code} round {round}: {survival:?}");
            if survival.disks.is_empty() {
                assert_ne!(spread.lost_with(&[], Mode::Beside, &wanted), 0, "{what}");
                continue;
            }
            assert_eq!(survival.unsealed, unsealed, "{what}");
            let numbers: Vec<usize> = survival.disks.iter().map(|disk| spread.number(disk)).collect();
            for choice in choices(numbers.len(), survival.survives as usize) {
                let lost: Vec<usize> = choice.iter().map(|&at| numbers[at]).collect();
                assert_eq!(spread.lost_with(&lost, Mode::Beside, &wanted), 0, "{what}, without {lost:?}");
            }
            assert_eq!(survival.losses.is_empty(), survival.survives == survival.promised, "{what}");
            if let Some(loss) = survival.losses.first() {
                let lost: Vec<usize> = loss.disks.iter().map(|&at| numbers[at as usize]).collect();
                let found = spread.lost_with(&lost, Mode::Beside, &wanted);
                assert_eq!(found, loss.files_lost, "{what}, without {lost:?}");
                less += 1;
            }
        }
    }
    assert!(less > 3, "the changes lower the number {less} times");
}

#[test]
fn missing_parts_count_as_lost() {
    let spread = Spread::new("raid6:3", Mode::Beside, &[0, 1, 2], &[3, 4], 3);
    fs::remove_dir_all(&spread.sources[1]).unwrap();
    let survival = spread.survival();
    assert_eq!((survival.gone, survival.promised, survival.survives), (1, 1, 1), "{survival:?}");
    fs::remove_file(spread.place.dir.path().join("d4/all.04.shard")).unwrap();
    let survival = spread.survival();
    assert_eq!((survival.gone, survival.promised, survival.survives), (2, 0, 0), "{survival:?}");
    // More is lost than can be recovered: that is the verdict of verify.
    fs::remove_dir_all(&spread.sources[0]).unwrap();
    assert!(spread.survival().disks.is_empty());
}

/// Sources of unequal length: the stripes behind the end of the shorter ones are not read.
#[test]
fn bytes_read_are_those_that_were_read() {
    let place = Place::new();
    let sources: Vec<PathBuf> = (1..5u64)
        .map(|i| {
            let dir = place.dir.path().join(format!("s{i}"));
            fs::create_dir(&dir).unwrap();
            write(&dir.join("f"), &Seed(i).bytes(100_000 * i as usize));
            dir
        })
        .collect();
    let mut options = SealOptions::new(sources, place.out());
    (options.code, options.mode) = (Some(code_of("raid6:4")), Some(Mode::Beside));
    options.records = Some(place.records());
    let sealed = seal(&options, &mut Silent).unwrap();
    let disk = FaultDisk::new(place.dir.path(), Faults::default());
    let options = VerifyOptions { set: place.set(), ..Default::default() };
    let report = World { disk: &disk, threads: 1 }.verify(&options, &mut Silent).unwrap();
    assert!(report.clean);
    assert_eq!(disk.bytes_read("/f"), 1_000_000);
    assert_eq!(report.bytes_read, 1_000_000 + sealed.shard_bytes);
}
