//! One look at every watched volume and set.

use crate::commands::attached_folders;
use crate::failure::Failure;
use crate::machine::all::{LastRun, Task, now, shown};
use crate::machine::config::{Config, SetConfig};
use crate::machine::smart::{Answers, DiskSmart, of_disks};
use crate::sets;
use crate::volumes;
use pantile_host::{Answer, DiskReport, Order, StatusReport, order_within};
use pantile_seal::{FaultKind, SetPaths, ShardReport, ShardStatus, open_set};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Longest wait for a server's answer, so that one that hangs does not block the look.
const PATIENCE: Duration = Duration::from_secs(10);

/// The results of one look.
pub struct Looked {
    /// Seconds since 1970.
    pub at: u64,
    /// The option by which commands work on all of them.
    pub all: String,
    pub volumes: Vec<VolumeLook>,
    pub sets: Vec<SetLook>,
}

/// A volume of a look.
pub struct VolumeLook {
    pub folder: PathBuf,
    pub found: VolumeFound,
    /// The health of its disks, as far as it is known.
    pub smart: Vec<DiskSmart>,
}

/// State of a volume in a look.
pub enum VolumeFound {
    Served(Box<StatusReport>),
    /// Not served, and opened to look.
    Closed(Box<StatusReport>),
    NotServed,
    NoAnswer(String),
}

/// A set of the configuration, and its last runs.
pub struct SetLook {
    pub name: String,
    pub runs: Vec<(Task, Option<LastRun>)>,
    pub shards: ShardsFound,
    /// The arguments by which commands name the set, in shell syntax.
    pub words: String,
}

/// Shards of a set in a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardsFound {
    /// The shards were not looked at, or another command is changing them.
    Unknown,
    /// Number of shards that the set has, and those that are not good.
    Shards { total: usize, bad: Vec<ShardReport> },
    /// The set has no shard.
    NoShards,
    /// The reason why the shards cannot be looked at.
    Fault(String),
}

/// Paths and lengths of good shards.
type Lengths = Vec<(PathBuf, u64)>;

/// Shards that an earlier look found good, by set. Later looks only compare their lengths.
#[derive(Default)]
pub struct KnownShards {
    good: BTreeMap<String, Lengths>,
    /// Looks whose file system has not answered yet.
    pending: BTreeMap<String, Receiver<(ShardsFound, Lengths)>>,
}

impl KnownShards {
    /// Looks at the shards of a set, without reading data.
    fn look(&mut self, name: &str, paths: SetPaths) -> ShardsFound {
        let good = self.good.remove(name).unwrap_or_default();
        let begin = || {
            let (told, answer) = channel();
            std::thread::spawn(move || drop(told.send(look_at_shards(&paths, good))));
            answer
        };
        let answer = self.pending.remove(name).unwrap_or_else(begin);
        match answer.recv_timeout(PATIENCE) {
            Ok((found, good)) => {
                self.good.insert(name.into(), good);
                found
            }
            Err(RecvTimeoutError::Timeout) => {
                self.pending.insert(name.into(), answer);
                let seconds = PATIENCE.as_secs();
                ShardsFound::Fault(format!("their file system has not answered for {seconds} s"))
            }
            Err(RecvTimeoutError::Disconnected) => ShardsFound::Unknown,
        }
    }
}

/// Looks at the shards of a set: at their lengths if all are as they were, else at their headers
/// and a manifest. Returns the good ones with their lengths if all are good.
fn look_at_shards(paths: &SetPaths, good: Lengths) -> (ShardsFound, Lengths) {
    if !paths.paths.iter().any(|path| path.exists()) {
        return (ShardsFound::NoShards, Vec::new());
    }
    let len = |path: &Path| Some(std::fs::metadata(path).ok()?.len());
    if !good.is_empty() && good.iter().all(|(path, was)| len(path) == Some(*was)) {
        return (ShardsFound::Shards { total: good.len(), bad: Vec::new() }, good);
    }
    // A directory that is not there, such as that of a disk that is not mounted, has no shards.
    let there = paths.paths.iter().filter(|path| path.exists()).cloned().collect();
    let shards = match open_set(&SetPaths { paths: there, ..paths.clone() }) {
        Ok(info) => info.shards,
        Err(fault) => {
            let found = match fault.kind {
                FaultKind::NoShards(_) => ShardsFound::NoShards,
                FaultKind::Busy | FaultKind::Changed => ShardsFound::Unknown,
                _ => ShardsFound::Fault(sets::failure(&fault).text().to_string()),
            };
            return (found, Vec::new());
        }
    };
    let total = shards.len();
    let (good, bad): (Vec<ShardReport>, Vec<ShardReport>) =
        shards.into_iter().partition(|shard| shard.status == ShardStatus::Good);
    let lens = || good.iter().map(|shard| Some((PathBuf::from(&shard.path), len(Path::new(&shard.path))?)));
    let good = if bad.is_empty() { lens().collect::<Option<Vec<_>>>() } else { None };
    (ShardsFound::Shards { total, bad }, good.unwrap_or_default())
}

/// Looks at the volumes of the configuration and at those that are attached, and at the sets. A
/// volume that is not served is not opened.
pub fn look(config: &Config, known: &mut KnownShards) -> Looked {
    look_by(config, known, look_at)
}

/// Looks as `look` does, and opens volumes that are not served to read their status.
pub fn look_closer(config: &Config) -> Looked {
    look_by(config, &mut KnownShards::default(), |folder| match look_at(folder) {
        VolumeFound::NotServed => match volumes::status_or_survey(folder) {
            Ok((report, true)) => VolumeFound::Served(report),
            Ok((report, false)) => VolumeFound::Closed(report),
            Err(_) => VolumeFound::NotServed,
        },
        found => found,
    })
}

/// Returns the look at one volume, of which the status is known.
pub fn look_of(folder: PathBuf, report: StatusReport, served: bool) -> Looked {
    let smart = of_disks(&report.disks.disks);
    let report = Box::new(report);
    let found = if served { VolumeFound::Served(report) } else { VolumeFound::Closed(report) };
    let volumes = vec![VolumeLook { folder, found, smart }];
    Looked { at: now(), all: "--all".into(), volumes, sets: Vec::new() }
}

fn look_by(config: &Config, known: &mut KnownShards, look_at: impl Fn(&Path) -> VolumeFound) -> Looked {
    let mut folders: BTreeMap<PathBuf, ()> = BTreeMap::new();
    let configured = config
        .volume
        .values()
        .map(|volume| std::fs::canonicalize(&volume.folder).unwrap_or_else(|_| volume.folder.clone()));
    folders.extend(configured.chain(attached_folders()).map(|folder| (folder, ())));
    let look = |folder: PathBuf| VolumeLook { found: look_at(&folder), folder, smart: Vec::new() };
    let mut volumes: Vec<VolumeLook> = folders.into_keys().map(look).collect();
    let disks: Vec<&DiskReport> = volumes.iter().flat_map(VolumeLook::disks).collect();
    let answers = Answers::of(&config.state, &disks);
    volumes.iter_mut().for_each(|volume| volume.smart = answers.on(volume.disks()));
    let set = |(name, set): (&String, &SetConfig)| {
        let of = |task| (task, LastRun::read(&config.state, task, name));
        SetLook {
            name: name.clone(),
            runs: [Task::Seal, Task::Verify].map(of).into(),
            shards: known.look(name, set.set_paths(name)),
            words: shown(&set.set_words(name)),
        }
    };
    let sets = config.set.iter().map(set).collect();
    Looked { at: now(), all: config.all_word(), volumes, sets }
}

impl VolumeLook {
    /// Returns the disks that its server names.
    fn disks(&self) -> &[DiskReport] {
        match &self.found {
            VolumeFound::Served(report) | VolumeFound::Closed(report) => &report.disks.disks,
            VolumeFound::NotServed | VolumeFound::NoAnswer(_) => &[],
        }
    }
}

fn look_at(folder: &Path) -> VolumeFound {
    match order_within(folder, &Order::Status, PATIENCE) {
        Ok(Some(Answer::Status(report))) => VolumeFound::Served(report),
        Ok(None) => VolumeFound::NotServed,
        Ok(Some(Answer::Fault { text, .. })) => VolumeFound::NoAnswer(text),
        Ok(Some(_)) => VolumeFound::NoAnswer(volumes::other_version().text().to_string()),
        Err(error) => VolumeFound::NoAnswer(Failure::text(&volumes::failure(&error)).to_string()),
    }
}
