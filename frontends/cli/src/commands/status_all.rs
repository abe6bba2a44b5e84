//! `pantile status --all` and `--html`: the state of all volumes and sets of this machine.

use crate::describe::count;
use crate::failure::{Failure, Outcome, Verdict};
use crate::json::OUTPUT_VERSION;
use crate::machine::all::{LastRun, Task};
use crate::machine::conditions::{Condition, Conditions, NOT_SERVED, conditions, worst_first};
use crate::machine::config::{Config, PATH, Thresholds};
use crate::machine::look::{Looked, SetLook, ShardsFound, VolumeFound, VolumeLook, look_closer, look_of};
use crate::machine::page;
use crate::machine::smart::DiskSmart;
use crate::render::table::Table;
use crate::sets;
use crate::terminal::{Terminal, print, print_json};
use crate::volumes;
use pantile_host::{StatusReport, Verdict as VolumeVerdict};
use pantile_seal::{ShardReport, path_text};
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The arguments of `status` without a volume.
pub struct All {
    pub config: Option<PathBuf>,
    pub html: Option<PathBuf>,
    pub json: bool,
}

impl All {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        let named = self.config.filter(|path| path != Path::new(PATH));
        let config = Config::load_or_default(named.as_deref())?;
        let looked = look_closer(&config);
        let wrong = conditions(&looked, &config.thresholds);
        match &self.html {
            Some(file) => write(&looked, &wrong, file)?,
            None if self.json => print_json(&AllJson::of(&looked, &wrong))?,
            None => print(&text(&looked, &wrong, terminal))?,
        }
        outcome(&looked, &wrong)
    }
}

#[derive(Serialize)]
struct AllJson<'l> {
    output_version: u32,
    wrong: Vec<WrongJson<'l>>,
    volumes: Vec<VolumeJson<'l>>,
    sets: Vec<SetJson<'l>>,
}

#[derive(Serialize)]
struct WrongJson<'l> {
    about: &'l str,
    text: &'l str,
}

#[derive(Serialize)]
struct VolumeJson<'l> {
    folder: String,
    served: bool,
    /// The status of the volume; `None` if its server did not answer.
    status: Option<&'l StatusReport>,
    smart: &'l [DiskSmart],
}

#[derive(Serialize)]
struct SetJson<'l> {
    name: &'l str,
    sealed: Option<&'l LastRun>,
    verified: Option<&'l LastRun>,
    /// Number of shards of the set; `None`: not known.
    shards: Option<usize>,
    /// The shards that are missing or bad.
    bad_shards: &'l [ShardReport],
}

impl<'l> AllJson<'l> {
    fn of(looked: &'l Looked, all: &'l Conditions) -> AllJson<'l> {
        let wrong = |condition: &'l Condition| WrongJson { about: &condition.about, text: &condition.text };
        let volume = |volume: &'l VolumeLook| {
            let (served, status) = match &volume.found {
                VolumeFound::Served(report) => (true, Some(&**report)),
                VolumeFound::Closed(report) => (false, Some(&**report)),
                VolumeFound::NotServed => (false, None),
                VolumeFound::NoAnswer(_) => (true, None),
            };
            VolumeJson { folder: path_text(&volume.folder), served, status, smart: &volume.smart }
        };
        let set = |set: &'l SetLook| {
            let last = |task: Task| set.runs.iter().find(|run| run.0 == task).and_then(|run| run.1.as_ref());
            let (shards, bad_shards) = match &set.shards {
                ShardsFound::Shards { total, bad } => (Some(*total), &bad[..]),
                ShardsFound::NoShards => (Some(0), &[][..]),
                ShardsFound::Unknown | ShardsFound::Fault(_) => (None, &[][..]),
            };
            let (sealed, verified) = (last(Task::Seal), last(Task::Verify));
            SetJson { name: &set.name, sealed, verified, shards, bad_shards }
        };
        AllJson {
            output_version: OUTPUT_VERSION,
            wrong: worst_first(all).into_iter().map(wrong).collect(),
            volumes: looked.volumes.iter().map(volume).collect(),
            sets: looked.sets.iter().map(set).collect(),
        }
    }
}

/// Writes the page of one volume.
pub fn page_of(folder: &Path, html: &Path) -> Outcome {
    let (report, served) = volumes::status_or_survey(folder)?;
    let looked = look_of(folder.to_path_buf(), *report, served);
    let mut wrong = conditions(&looked, &Thresholds::default());
    wrong.retain(|_, condition| condition.word != NOT_SERVED);
    write(&looked, &wrong, html)?;
    outcome(&looked, &wrong)
}

fn write(looked: &Looked, wrong: &Conditions, file: &Path) -> Result<(), Failure> {
    let text = page::text(looked, wrong, None);
    crate::files::write_whole(file, text.as_bytes()).map_err(|error| super::shown::cannot_write(file, &error))
}

fn outcome(looked: &Looked, wrong: &Conditions) -> Outcome {
    let failed = looked.volumes.iter().find_map(|volume| match &volume.found {
        VolumeFound::Served(report) | VolumeFound::Closed(report) => {
            (report.verdict == VolumeVerdict::Failed).then_some((&volume.folder, report))
        }
        VolumeFound::NotServed | VolumeFound::NoAnswer(_) => None,
    });
    match failed {
        Some((folder, report)) => {
            let worst = report.wrong.first().map_or("it has failed", String::as_str);
            Err(Failure::Losses(format!("{}: {worst}", sets::quoted(folder))))
        }
        None if wrong.is_empty() => Ok(Verdict::Good),
        None => Ok(Verdict::Bad),
    }
}

fn text(looked: &Looked, wrong: &Conditions, terminal: &Terminal) -> String {
    let known = match (looked.volumes.len(), looked.sets.len()) {
        (0, 0) => {
            return format!("No volume and no set is known: {PATH} names none, and no volume is attached.\n");
        }
        (volumes, 0) => count(volumes, "volume"),
        (0, sets) => count(sets, "set"),
        (volumes, sets) => format!("{} and {}", count(volumes, "volume"), count(sets, "set")),
    };
    let answer = match wrong.len() {
        0 => format!("Nothing is wrong with {known}."),
        1 => format!("1 thing is wrong with {known}:"),
        more => format!("{more} things are wrong with {known}:"),
    };
    let mut out = format!("{}\n", terminal.bold(answer));
    for condition in worst_first(wrong) {
        let _ = writeln!(out, "{}: {}", sets::name(&condition.about), sets::name(&condition.text));
    }
    if !looked.volumes.is_empty() {
        let mut table = Table::new(&["volume", "state", ">more can fail", "used", "disks"]);
        for volume in &looked.volumes {
            let folder = sets::name(&volume.folder.to_string_lossy());
            let (report, served) = match &volume.found {
                VolumeFound::Served(report) => (report, ""),
                VolumeFound::Closed(report) => (report, ", not served"),
                VolumeFound::NotServed | VolumeFound::NoAnswer(_) => {
                    let unknown = || "-".to_string();
                    table.row(vec![folder, "no answer".into(), unknown(), unknown(), unknown()]);
                    continue;
                }
            };
            let word = match report.verdict {
                VolumeVerdict::Clean => "clean",
                VolumeVerdict::Warned => "warnings",
                VolumeVerdict::Degraded => "degraded",
                VolumeVerdict::Failed => "failed",
            };
            let used = 100.0 * report.used_bytes as f64 / report.len_bytes.max(1) as f64;
            let faults = volume.smart.iter().filter(|disk| !disk.smart.faults().is_empty()).count();
            let disks = match (volume.smart.len(), faults) {
                (0, _) => "-".into(),
                (_, 0) => "healthy".into(),
                (_, faults) => format!("{faults} with faults"),
            };
            table.row(vec![
                folder,
                format!("{word}{served}"),
                report.margin.any_more.to_string(),
                format!("{used:.0} % of {}", sets::bytes(report.len_bytes)),
                disks,
            ]);
        }
        let _ = write!(out, "\n{}", table.render(terminal));
    }
    if !looked.sets.is_empty() {
        let mut table = Table::new(&["set", "sealed", "verified", "good shards"]);
        for set in &looked.sets {
            let mut row = vec![sets::name(&set.name)];
            row.extend(set.runs.iter().map(|(_, last)| page::last_run(last.as_ref()).0));
            row.push(page::good_shards(set).0);
            table.row(row);
        }
        let _ = write!(out, "\n{}", table.render(terminal));
    }
    out
}
