//! `pantile assemble`: finds a volume on devices with unknown names.

use super::assemble_scan::Scan;
use crate::failure::{Failure, Outcome, Verdict};
use crate::json::OUTPUT_VERSION;
use crate::sets;
use crate::terminal::{Terminal, print, print_json};
use crate::volumes;
use clap::Args;
use pantile_host::{Assembled, Folder, Plan};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// Find the devices of a volume, and make its folder again
///
/// Answers: the machine is new, the disks have other names; how do I get my volume back? The
/// superblocks say which devices belong together and in which order. Nothing is written to the
/// devices without --scan-stripes --yes.
#[derive(Args)]
#[command(after_long_help = "\
Devices without a part of a volume are left out and named; devices of two volumes are refused, and so are \
devices that ran separately. A missing device is lost to the volume until 'pantile replace' brings it back. If too \
many are missing to serve the volume, the answer says so.

With --scan, devices that are mounted or otherwise in use are not read; a disk that does not answer costs 20 s. \
Exit status: 1 if no volume was found, or one of them is not complete.

Examples:
  pantile assemble --scan --dry-run                              which volumes are on the disks
  pantile assemble --scan                                        make the folders of all of them
  pantile assemble /dev/sd* --into tank
  pantile assemble *.img --into tank && pantile serve tank
  pantile assemble /dev/sd* --into tank --scan-stripes           what can be rebuilt if superblocks are lost
  pantile assemble /dev/sd* --into tank --scan-stripes --yes     rebuild it")]
pub struct Assemble {
    /// Devices, in any order and under any name.
    #[arg(required_unless_present = "scan", value_name = "DEVICE", num_args = 1..)]
    devices: Vec<PathBuf>,
    /// Find all volumes on the block devices of this machine, and make the folder of each that has
    /// enough devices and no folder yet.
    #[arg(long, conflicts_with_all = ["devices", "scan_stripes"])]
    scan: bool,
    /// Look at the files and devices in a folder instead; may be given several times.
    #[arg(long, value_name = "DIR", requires = "scan")]
    dir: Vec<PathBuf>,
    /// List the volumes and the commands that assemble them; write nothing.
    #[arg(long, requires = "scan")]
    dry_run: bool,
    /// The new folder; by default one named after the volume, in the current directory.
    #[arg(long, value_name = "VOL")]
    into: Option<PathBuf>,
    /// Find devices without a superblock by their chunks, and rebuild maps that no device has.
    #[arg(long)]
    scan_stripes: bool,
    /// Write the results of --scan-stripes to the devices.
    #[arg(long, requires = "scan_stripes")]
    yes: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct StripesJson {
    output_version: u32,
    name: String,
    volume: String,
    code: String,
    slots: usize,
    devices: Vec<FoundJson>,
    missing: Vec<u32>,
    without_superblock: Vec<u32>,
    maps_lost: bool,
    stripes: u64,
    older: Vec<u32>,
    lost: Vec<u32>,
    behind: Vec<u32>,
    written: bool,
    left_out: Vec<LeftOutJson>,
}

#[derive(Serialize)]
struct AssembleJson {
    output_version: u32,
    folder: String,
    #[serde(flatten)]
    parts: Parts,
}

/// The devices of a volume that are here.
#[derive(Default, Serialize)]
pub struct Parts {
    pub name: String,
    pub volume: String,
    /// `None` if the devices contradict each other; then none is listed.
    pub code: Option<String>,
    pub slots: Option<usize>,
    pub devices: Vec<FoundJson>,
    pub missing: Vec<u32>,
    pub stale: Vec<u32>,
    pub enough: bool,
    pub left_out: Vec<LeftOutJson>,
}

impl Parts {
    pub fn of(found: &Assembled) -> Parts {
        Parts {
            name: found.superblock.name.clone(),
            volume: found.superblock.volume.to_string(),
            code: Some(found.superblock.spec.clone()),
            slots: Some(found.slots),
            devices: found_json(&found.devices),
            missing: missing(found.slots, &found.devices),
            stale: found.stale.clone(),
            enough: found.enough,
            left_out: left_out_json(&found.left_out),
        }
    }

    /// Returns the next command on the folder that was made, as a line.
    pub fn next(&self, folder: &str) -> String {
        let folder = sets::quoted(folder);
        match self.enough {
            true => format!("Serve it: pantile serve {folder}\n"),
            false => format!(
                "These are too few to serve it. Bring more of its devices: pantile replace {folder} NUMBER DEVICE\n"
            ),
        }
    }

    /// Returns the devices as text, a line each.
    pub fn text(&self, terminal: &Terminal) -> String {
        let mut out = format!(
            "{} ({}): {} of {} devices\n",
            terminal.bold(sets::name(&self.name)),
            sets::name(self.code.as_deref().unwrap_or_default()),
            self.devices.len(),
            self.slots.unwrap_or_default()
        );
        for device in &self.devices {
            let stale = if self.stale.contains(&device.device) { "  (will be caught up)" } else { "" };
            let _ = writeln!(out, "  {:>3}  {}{stale}", device.device, sets::name(&device.path));
        }
        for device in &self.missing {
            let _ = writeln!(out, "  {device:>3}  missing");
        }
        for left in &self.left_out {
            let _ = writeln!(out, "left out: {}: {}", sets::name(&left.path), sets::name(&left.why));
        }
        out
    }
}

#[derive(Serialize)]
pub struct FoundJson {
    pub device: u32,
    pub path: String,
}

#[derive(Serialize)]
pub struct LeftOutJson {
    pub path: String,
    pub why: String,
}

fn found_json(devices: &BTreeMap<u32, PathBuf>) -> Vec<FoundJson> {
    let found = |(&device, path): (&u32, &PathBuf)| FoundJson { device, path: path.display().to_string() };
    devices.iter().map(found).collect()
}

fn missing(slots: usize, devices: &BTreeMap<u32, PathBuf>) -> Vec<u32> {
    (0..slots as u32).filter(|slot| !devices.contains_key(slot)).collect()
}

pub fn left_out_json(left_out: &[(PathBuf, String)]) -> Vec<LeftOutJson> {
    let json =
        |(path, why): &(PathBuf, String)| LeftOutJson { path: path.display().to_string(), why: why.clone() };
    left_out.iter().map(json).collect()
}

impl Assemble {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        if self.scan {
            let Assemble { dir: dirs, into, dry_run, json, .. } = self;
            return Scan { dirs, into, dry_run, json }.run(terminal);
        }
        self.refuse_folder_first()?;
        if self.scan_stripes
            && let Some(ended) = self.scan_stripes(terminal)?
        {
            return Ok(ended);
        }
        let (into, found) = match self.into {
            Some(into) => (into.clone(), Folder::assemble(&into, &self.devices)),
            None => {
                let name = Folder::name_on(&self.devices).map_err(|error| volumes::failure(&error))?;
                if name.is_empty() || name.contains('/') || name.starts_with('.') {
                    let text =
                        format!("the volume's name '{name}' is no name of a folder; give one with --into.");
                    return Err(Failure::Input(text));
                }
                let into = PathBuf::from(name);
                (into.clone(), Folder::assemble(&into, &self.devices))
            }
        };
        let (_, found) = found.map_err(|error| volumes::failure(&error))?;
        let answer = AssembleJson {
            output_version: OUTPUT_VERSION,
            folder: into.display().to_string(),
            parts: Parts::of(&found),
        };
        match self.json {
            true => print_json(&answer)?,
            false => print(&(answer.parts.text(terminal) + &answer.parts.next(&answer.folder)))?,
        }
        let is_whole = answer.parts.missing.is_empty() && answer.parts.stale.is_empty();
        Ok(if is_whole { Verdict::Good } else { Verdict::Bad })
    }

    /// Refuses the folder as the first argument, in the order of `create`: it would be taken for a
    /// missing device.
    fn refuse_folder_first(&self) -> Result<(), Failure> {
        let [first, rest @ ..] = &self.devices[..] else { return Ok(()) };
        let is_folder = volumes::is_volume(first) || !first.exists();
        if self.into.is_some() || rest.is_empty() || !is_folder || !rest.iter().any(|path| path.exists()) {
            return Ok(());
        }
        let words: Vec<String> = rest.iter().map(sets::quoted).collect();
        Err(Failure::Input(format!(
            "{} is no device; if it is the folder to make, name it with --into: pantile assemble {} --into {}",
            sets::name(&first.to_string_lossy()),
            words.join(" "),
            sets::quoted(first)
        )))
    }

    /// Reports what can be rebuilt, and rebuilds it if `--yes` is given; `None`: the devices can be
    /// assembled now.
    fn scan_stripes(&self, terminal: &Terminal) -> Result<Option<Verdict>, Failure> {
        let failure = |error| volumes::failure(&error);
        let plan = Plan::of(&self.devices).map_err(failure)?;
        let writes = self.yes && plan.is_needed();
        if writes {
            plan.carry_out().map_err(failure)?;
        }
        if self.json && (writes || !plan.is_needed()) {
            // The assembly itself reports their state.
            return Ok(None);
        }
        let answer = StripesJson {
            output_version: OUTPUT_VERSION,
            name: plan.superblock.name.clone(),
            volume: plan.superblock.volume.to_string(),
            code: plan.superblock.spec.clone(),
            slots: plan.slots,
            devices: found_json(&plan.devices),
            missing: missing(plan.slots, &plan.devices),
            without_superblock: plan.without_superblock.clone(),
            maps_lost: plan.maps_are_lost,
            stripes: plan.anew.stripes,
            older: plan.anew.older.clone(),
            lost: plan.anew.lost.clone(),
            behind: plan.anew.behind.iter().map(|slot| slot.0).collect(),
            written: writes,
            left_out: left_out_json(&plan.left_out),
        };
        match self.json {
            true => print_json(&answer)?,
            false => print(&scan_text(&answer, plan.is_needed(), terminal))?,
        }
        Ok((plan.is_needed() && !writes).then_some(Verdict::Bad))
    }
}

fn scan_text(answer: &StripesJson, is_needed: bool, terminal: &Terminal) -> String {
    let mut out = format!(
        "{} ({}), by its stripes:\n",
        terminal.bold(sets::name(&answer.name)),
        sets::name(&answer.code)
    );
    for device in &answer.devices {
        let how = match answer.without_superblock.contains(&device.device) {
            true => "  (known by its chunks alone)",
            false => "",
        };
        let _ = writeln!(out, "  {:>3}  {}{how}", device.device, sets::name(&device.path));
    }
    for device in &answer.missing {
        let _ = writeln!(out, "  {device:>3}  missing");
    }
    for left in &answer.left_out {
        let _ = writeln!(out, "left out: {}: {}", sets::name(&left.path), sets::name(&left.why));
    }
    let count = |number: usize, word| crate::describe::count(number, word);
    match (answer.maps_lost, is_needed) {
        (false, false) => out.push_str(
            "Every device has a superblock, and the maps can be read: nothing has to be rebuilt.\n",
        ),
        (false, true) => {
            let number = answer.without_superblock.len();
            let _ = writeln!(
                out,
                "The maps can be read. {} rebuilt.",
                if number == 1 { "1 superblock is".into() } else { format!("{number} superblocks are") }
            );
        }
        (true, _) => {
            let _ = writeln!(
                out,
                "The maps cannot be read, and are rebuilt from the chunks: {} found. Blocks that were only in the log are lost. Stripes that were trimmed, or whose last write a crash undid, may have their old content again.",
                count(answer.stripes as usize, "stripe")
            );
            if !answer.older.is_empty() {
                let _ = writeln!(
                    out,
                    "Of {} a newer write was begun and is not whole: the one before it is used.",
                    count(answer.older.len(), "stripe")
                );
            }
            if !answer.lost.is_empty() {
                let _ = writeln!(
                    out,
                    "Of {} too few chunks are there: they read as zeros.",
                    count(answer.lost.len(), "stripe")
                );
            }
        }
    }
    if !answer.behind.is_empty() {
        let _ = writeln!(out, "Devices that lack some of it and are caught up: {:?}.", answer.behind);
    }
    if is_needed {
        out.push_str(match answer.written {
            true => "It is written. Scrub the volume before you rely on it.\n",
            false => "Nothing was written: give --yes to write it.\n",
        });
    }
    out
}
