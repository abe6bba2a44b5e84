//! One look at every watched volume and set.

use crate::commands::attached_folders;
use crate::failure::Failure;
use crate::machine::all::{LastRun, Task, now};
use crate::machine::config::Config;
use crate::machine::smart::{Answers, DiskSmart, of_disks};
use crate::volumes;
use pantile_host::{Answer, DiskReport, Order, StatusReport, order_within};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait for a server's answer, so that one that hangs does not block the look.
const PATIENCE: Duration = Duration::from_secs(10);

/// The results of one look.
pub struct Looked {
    /// Seconds since 1970.
    pub at: u64,
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
}

/// Looks at the volumes of the configuration and at those that are attached, and at the sets. A
/// volume that is not served is not opened.
pub fn look(config: &Config) -> Looked {
    look_by(config, look_at)
}

/// Looks as `look` does, and opens volumes that are not served to read their status.
pub fn look_closer(config: &Config) -> Looked {
    look_by(config, |folder| match look_at(folder) {
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
    Looked { at: now(), volumes: vec![VolumeLook { folder, found, smart }], sets: Vec::new() }
}

fn look_by(config: &Config, look_at: impl Fn(&Path) -> VolumeFound) -> Looked {
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
    let runs = |name: &String| {
        let of = |task| (task, LastRun::read(&config.state, task, name));
        SetLook { name: name.clone(), runs: [Task::Seal, Task::Verify].map(of).into() }
    };
    Looked { at: now(), volumes, sets: config.set.keys().map(runs).collect() }
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
