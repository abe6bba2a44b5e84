//! `pantile assemble --scan`: finds all volumes on the disks of this machine, and makes their
//! folders.

use super::assemble::{LeftOutJson, Parts, left_out_json};
use super::attached_folders;
use crate::describe::count;
use crate::failure::{Failure, Outcome, Verdict};
use crate::json::OUTPUT_VERSION;
use crate::machine::config::Config;
use crate::sets;
use crate::terminal::{Terminal, print, print_json};
use crate::volumes;
use pantile_host::{Folder, FoundVolume, FoundVolumes, files_of, find_volumes, idle_devices};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Options of a scan.
pub struct Scan {
    /// Folders whose files are looked at instead of the block devices of the machine.
    pub dirs: Vec<PathBuf>,
    pub into: Option<PathBuf>,
    pub dry_run: bool,
    pub json: bool,
}

#[derive(Serialize)]
struct ScanJson {
    output_version: u32,
    volumes: Vec<VolumeJson>,
    /// Number of devices without a part of a volume.
    others: usize,
    left_out: Vec<LeftOutJson>,
}

#[derive(Serialize)]
struct VolumeJson {
    #[serde(flatten)]
    parts: Parts,
    /// Its folder, if it has one.
    folder: Option<String>,
    /// True if this run has made the folder.
    made: bool,
    served_by: Option<String>,
    /// URI of its server, if the log of its folder has it.
    uri: Option<String>,
    /// The claim of a server that did not give it back: that server may still serve the volume.
    claimed_by: Option<String>,
    problem: Option<String>,
    /// The command that makes the folder.
    command: Option<String>,
}

impl Scan {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        let (paths, in_use) = match self.dirs.is_empty() {
            true => idle_devices(),
            false => (self.files()?, Vec::new()),
        };
        let FoundVolumes { volumes, others, left_out } = find_volumes(&paths);
        let known = known_folders();
        let mut taken = BTreeSet::new();
        let mut answers: Vec<VolumeJson> =
            volumes.iter().map(|volume| answer(volume, &known, &mut taken)).collect();
        let has_name = |answer: &VolumeJson| self.into.is_some() || answer.can_have(&answer.parts.name);
        let is_ready = |answer: &VolumeJson| answer.is_ready() && has_name(answer);
        let ready: Vec<usize> = (0..answers.len()).filter(|&at| is_ready(&answers[at])).collect();
        if let Some(into) = &self.into {
            let [only] = ready[..] else {
                return Err(Failure::Input(format!(
                    "--into names one folder, and {} can be assembled; 'pantile assemble --scan --dry-run' \
                     prints a command for each",
                    count(ready.len(), "volume")
                )));
            };
            answers[only].command = Some(command(&volumes[only], into));
        }
        for at in ready.into_iter().filter(|_| !self.dry_run) {
            let into = self.into.clone().unwrap_or_else(|| PathBuf::from(&answers[at].parts.name));
            answers[at].make(&into);
        }
        let is_good = !answers.is_empty() && answers.iter().all(|answer| answer.is_good(self.dry_run));
        let left_out = left_out_json(&[in_use, left_out].concat());
        let answer = ScanJson { output_version: OUTPUT_VERSION, volumes: answers, others, left_out };
        match self.json {
            true => print_json(&answer)?,
            false => print(&scan_text(&answer, self.dry_run, terminal))?,
        }
        Ok(if is_good { Verdict::Good } else { Verdict::Bad })
    }

    fn files(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut found = Vec::new();
        for dir in &self.dirs {
            found.extend(files_of(dir).map_err(|error| Failure::file("read", dir, &error))?);
        }
        Ok(found)
    }
}

impl VolumeJson {
    /// True if the volume has no folder, and enough devices for one.
    fn is_ready(&self) -> bool {
        self.parts.enough && self.command.is_some() && self.served_by.is_none()
    }

    /// True if the printed command can make a folder of this name.
    fn can_have(&self, name: &str) -> bool {
        self.command.as_ref().is_some_and(|command| command.ends_with(&into(Path::new(name))))
    }

    fn is_good(&self, dry_run: bool) -> bool {
        let has_place = self.folder.is_some() || self.served_by.is_some() || dry_run;
        self.parts.enough && has_place && self.parts.missing.is_empty() && self.parts.stale.is_empty()
    }

    /// Makes the folder, and records how an opening judges the devices.
    fn make(&mut self, into: &Path) {
        let paths: Vec<PathBuf> =
            self.parts.devices.iter().map(|device| PathBuf::from(&device.path)).collect();
        match Folder::assemble(into, &paths) {
            Ok((_, found)) => {
                self.folder = Some(into.display().to_string());
                (self.made, self.parts.enough, self.parts.stale) = (true, found.enough, found.stale);
                self.command = None;
            }
            Err(error) => self.problem = Some(volumes::failure(&error).text().to_string()),
        }
    }
}

/// Returns the folders that are known on this machine, by the ids of their volumes.
fn known_folders() -> BTreeMap<String, PathBuf> {
    let configured = Config::load_or_default(None).unwrap_or_default().volume;
    let folders = configured.into_values().map(|volume| volume.folder).chain(attached_folders());
    folders.filter_map(|folder| Some((id_in(&folder)?, folder))).collect()
}

/// Returns the id of the volume of a folder.
fn id_in(folder: &Path) -> Option<String> {
    Folder::named_in(folder).ok().map(|config| config.volume.to_string())
}

fn answer(
    volume: &FoundVolume,
    known: &BTreeMap<String, PathBuf>,
    taken: &mut BTreeSet<PathBuf>,
) -> VolumeJson {
    let id = volume.volume.to_string();
    let name = &volume.name;
    let is_name = !name.is_empty() && !name.contains('/') && !name.starts_with(['.', '-']);
    let here = PathBuf::from(name);
    let folder = known.get(&id).cloned();
    let folder = folder.or_else(|| (is_name && id_in(&here).as_ref() == Some(&id)).then(|| here.clone()));
    let folder = folder.or_else(|| volume.served_from.clone());
    let is_free = is_name && here.symlink_metadata().is_err() && !taken.contains(&here);
    let start: String = id.chars().take(8).collect();
    let place = match (is_free, is_name) {
        (true, _) => here,
        (false, true) => PathBuf::from(format!("{name}-{start}")),
        (false, false) => PathBuf::from(format!("volume-{start}")),
    };
    let needs_place = folder.is_none() && volume.state.is_ok();
    if needs_place {
        taken.insert(place.clone());
    }
    let parts = match &volume.state {
        Ok(found) => Parts { name: name.clone(), volume: id, ..Parts::of(found) },
        Err(_) => Parts { name: name.clone(), volume: id, ..Parts::default() },
    };
    VolumeJson {
        parts,
        command: needs_place.then(|| command(volume, &place)),
        uri: folder.as_ref().filter(|_| volume.served_by.is_some()).and_then(|folder| volumes::uri(folder)),
        folder: folder.map(|folder| folder.display().to_string()),
        made: false,
        served_by: server(&volume.served_by),
        claimed_by: server(&volume.claimed_by),
        problem: volume.state.as_ref().err().map(|error| volumes::failure(error).text().to_string()),
    }
}

/// Returns process and host of a server in words.
fn server(by: &Option<(u32, String)>) -> Option<String> {
    by.as_ref().map(|(process, host)| format!("process {process} on '{host}'"))
}

/// Returns the command that makes the folder of a volume.
fn command(volume: &FoundVolume, place: &Path) -> String {
    let devices =
        volume.state.iter().flat_map(|found| found.devices.values().chain(found.replacing.values()));
    let words: Vec<String> = devices.map(sets::quoted).collect();
    format!("pantile assemble {}{}", words.join(" "), into(place))
}

fn into(place: &Path) -> String {
    format!(" --into {}", sets::quoted(place))
}

fn scan_text(answer: &ScanJson, dry_run: bool, terminal: &Terminal) -> String {
    let mut out = String::new();
    for volume in &answer.volumes {
        out.push_str(&volume_text(volume, terminal));
        out.push('\n');
    }
    if answer.volumes.is_empty() {
        out.push_str("No volume was found.\n");
    }
    if answer.others > 0 {
        let _ = writeln!(out, "No part of a volume is on {}.", count(answer.others, "other device"));
    }
    for left in &answer.left_out {
        let _ = writeln!(out, "not read: {}: {}", sets::name(&left.path), sets::name(&left.why));
    }
    if dry_run {
        out.push_str("Nothing was written.\n");
    }
    out
}

fn volume_text(volume: &VolumeJson, terminal: &Terminal) -> String {
    if volume.parts.code.is_none() {
        let problem = volume.problem.as_deref().unwrap_or_default();
        return format!("{}: {}\n", terminal.bold(sets::name(&volume.parts.name)), sets::name(problem));
    }
    let mut out = volume.parts.text(terminal);
    if let (true, Some(folder)) = (volume.made, &volume.folder) {
        out.push_str(&volume.parts.next(folder));
    }
    if let Some(by) = &volume.claimed_by {
        let by = sets::name(by);
        let _ = writeln!(
            out,
            "Claimed by {by}, and not given back: the next opening watches if it is served there."
        );
    }
    if volume.made {
        return out;
    }
    if let Some(problem) = &volume.problem {
        let _ = writeln!(out, "Not assembled: {}", sets::name(problem));
    }
    let _ = match (&volume.served_by, &volume.folder, &volume.command) {
        (Some(by), Some(folder), _) => {
            let at = volume.uri.as_ref().map(|uri| format!(" at {uri}")).unwrap_or_default();
            let (from, by, word) = (sets::name(folder), sets::name(by), sets::quoted(folder));
            writeln!(out, "Served{at} from {from} by {by}; its state: pantile status {word}")
        }
        (Some(by), None, _) => writeln!(out, "Served by {}.", sets::name(by)),
        (None, Some(folder), _) => {
            writeln!(out, "It has its folder: pantile status {}", sets::quoted(folder))
        }
        (None, None, Some(command)) if volume.parts.enough => writeln!(out, "Assemble it: {command}"),
        (None, None, Some(command)) => {
            writeln!(out, "These are too few to serve it. Bring more of its devices, or go on: {command}")
        }
        (None, None, None) => Ok(()),
    };
    out
}
