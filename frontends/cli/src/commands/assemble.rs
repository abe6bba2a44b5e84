//! `pantile assemble`: finds a volume on devices whose names nobody remembers.

use crate::failure::{Failure, Outcome, Verdict};
use crate::json::OUTPUT_VERSION;
use crate::sets;
use crate::terminal::{Terminal, print, print_json};
use crate::volumes;
use clap::Args;
use pantile_host::Folder;
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;

/// Find the devices of a volume among some, and make its folder anew
///
/// Answers: the machine is new, the disks have other names; how do I get my volume back? The superblocks say what belongs together and in
/// which order. Nothing is written to the devices.
#[derive(Args)]
#[command(after_long_help = "\
Devices that hold nothing of a volume are left out and named; devices of two volumes are refused, and so are devices that
ran separately. What is missing is lost to the volume until it is brought back with 'pantile replace'. Where too much
is missing to serve it the answer says so.

Examples:
  pantile assemble /dev/sd* --into tank
  pantile assemble *.img --into tank && pantile serve tank")]
pub struct Assemble {
    /// Devices, in any order and under any name.
    #[arg(required = true, value_name = "DEVICE", num_args = 1..)]
    devices: Vec<PathBuf>,
    /// The new folder; named after the volume in the directory where you are unless given.
    #[arg(long, value_name = "VOL")]
    into: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct AssembleJson {
    output_version: u32,
    folder: String,
    name: String,
    volume: String,
    code: String,
    slots: usize,
    devices: Vec<FoundJson>,
    missing: Vec<u32>,
    stale: Vec<u32>,
    enough: bool,
    left_out: Vec<LeftOutJson>,
}

#[derive(Serialize)]
struct FoundJson {
    device: u32,
    path: String,
}

#[derive(Serialize)]
struct LeftOutJson {
    path: String,
    why: String,
}

impl Assemble {
    pub fn run(self, terminal: &Terminal) -> Outcome {
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
        let path = |path: &PathBuf| path.display().to_string();
        let answer = AssembleJson {
            output_version: OUTPUT_VERSION,
            folder: path(&into),
            name: found.superblock.name.clone(),
            volume: found.superblock.volume.to_string(),
            code: found.superblock.spec.clone(),
            slots: found.slots,
            devices: found.devices.iter().map(|(&device, p)| FoundJson { device, path: path(p) }).collect(),
            missing: (0..found.slots as u32).filter(|slot| !found.devices.contains_key(slot)).collect(),
            stale: found.stale.clone(),
            enough: found.enough,
            left_out: found
                .left_out
                .iter()
                .map(|(p, why)| LeftOutJson { path: path(p), why: why.clone() })
                .collect(),
        };
        match self.json {
            true => print_json(&answer)?,
            false => print(&text(&answer, terminal))?,
        }
        Ok(if answer.missing.is_empty() && answer.stale.is_empty() { Verdict::Good } else { Verdict::Bad })
    }
}

fn text(answer: &AssembleJson, terminal: &Terminal) -> String {
    let mut out = format!(
        "{} ({}): {} of {} devices\n",
        terminal.bold(sets::name(&answer.name)),
        answer.code,
        answer.devices.len(),
        answer.slots
    );
    for device in &answer.devices {
        let stale = if answer.stale.contains(&device.device) { "  (will be caught up)" } else { "" };
        let _ = writeln!(out, "  {:>3}  {}{stale}", device.device, sets::name(&device.path));
    }
    for device in &answer.missing {
        let _ = writeln!(out, "  {device:>3}  missing");
    }
    for left in &answer.left_out {
        let _ = writeln!(out, "left out: {}: {}", sets::name(&left.path), sets::name(&left.why));
    }
    let folder = sets::name(&answer.folder);
    let _ = match answer.enough {
        true => writeln!(out, "Serve it: pantile serve {folder}"),
        false => writeln!(
            out,
            "These are too few to serve it. Bring more of its devices: pantile replace {folder} NUMBER DEVICE"
        ),
    };
    out
}
