//! `pantile create`: makes a volume.

use crate::args;
use crate::failure::{Failure, Outcome, Verdict, note};
use crate::json::{OUTPUT_VERSION, rounded};
use crate::sets;
use crate::space::Space;
use crate::terminal::{Terminal, print, print_json};
use crate::volumes;
use clap::Args;
use pantile::Code;
use pantile::code::Placement;
use pantile::plan::{RotationLoss, rotation_loss};
use pantile_host::{
    DisksReport, Folder, NewDevices, NewFolder, Slot, export_len, is_server, usual_placement,
};
use serde::Serialize;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Default code of a volume in files: any two of six can fail.
const CODE_OF_FILES: &str = "raid6:4";

/// Make a fault-tolerant volume out of disks, partitions or files
///
/// Answers: how do I get a disk that survives disks? Name devices, or a size for a volume of files
/// in the folder VOL. A code without numbers, such as raid6, counts the devices. The code must be
/// proved to tolerate the losses that it claims. Devices that are in use or hold data are refused.
#[derive(Args)]
#[command(after_long_help = "\
Sizes are bytes, 64M, 10GiB or 1.5T (powers of 1024), or 20TB (powers of 1000). Nothing is synchronised at first: a volume of any size is made at once.
Without --code, two devices are a mirror, three raid5, more raid6; files are raid6:4.
Overwriting inside an epoch of delayed parity needs spare places until the epoch ends. Every volume has some for \
128 MiB, but no more than an eighth of it and at least sixteen stripes; large ones have a thirty-second, up to 4096 \
stripes. --epochs adds places for programs that overwrite their last checkpoint.

Examples:
  pantile create vol --size 64M                             six files in the folder vol
  pantile create vol --size 10G --code rs:8+3
  pantile create tank /dev/sd[b-g] --code raid6 --dry-run   where the space goes; nothing is written
  pantile create tank /dev/sd[b-g]
  pantile create tank a.img b.img c.img --code mirror
  pantile create tank nbd://shelf1/ nbd://shelf2/ nbd://shelf3/    disks of three servers
  pantile create vol --size 64M --code shec:6,4,3 --placement rotated")]
pub struct Create {
    /// The folder of the volume; it must be new or empty.
    #[arg(value_name = "VOL")]
    folder: PathBuf,
    /// The code: a spec such as raid6:4, or the path of a code file.
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    /// Disks, partitions, files, or URIs of exports (nbd://HOST/NAME), one for each column of the
    /// code.
    #[arg(value_name = "DEVICE", conflicts_with = "size")]
    named: Vec<PathBuf>,
    /// Further devices, as an option.
    #[arg(long, value_name = "DEVICE", num_args = 1.., conflicts_with_all = ["size", "named"], hide_short_help = true)]
    devices: Vec<PathBuf>,
    /// Make files in VOL for a volume of at least this size.
    #[arg(long, value_name = "SIZE", value_parser = args::size)]
    size: Option<u64>,
    /// Assignment of columns to devices: fixed, or rotated, which spreads the load and can survive
    /// fewer sets of devices [default: by the code; the loss of tolerance is printed].
    #[arg(long, value_name = "PLACEMENT")]
    placement: Option<Placement>,
    /// Space for epochs of delayed parity that overwrite this many bytes of existing data.
    #[arg(long, value_name = "SIZE", value_parser = args::size, default_value = "0")]
    epochs: u64,
    /// The name of the volume; by default that of the folder.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Destroy what the devices hold.
    #[arg(long)]
    yes: bool,
    /// Only print the volume and where the space goes; write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON: the volume and its numbers.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct CreateJson<'c> {
    output_version: u32,
    volume: String,
    code: &'c str,
    placement: String,
    tolerance: usize,
    given_up: Option<GivenUp>,
    disks: DisksReport,
    len_bytes: u64,
    device_bytes: Vec<u64>,
    folder: String,
    space: Space,
    dry_run: bool,
}

/// The smallest sets of devices of which fewer survive if columns rotate.
#[derive(Serialize)]
struct GivenUp {
    devices: usize,
    sets: u64,
    fixed: u64,
    rotated: u64,
    sampled: bool,
    busiest_if_fixed: f64,
}

impl GivenUp {
    fn of(code: &Code, placement: Placement) -> Option<GivenUp> {
        let choice = usual_placement(code);
        let loss = match placement {
            Placement::Fixed | Placement::ROTATED => choice.loss,
            rotated => rotation_loss(code, rotated),
        };
        loss.map(|RotationLoss { devices, sets, fixed, rotated, is_sample }| GivenUp {
            devices,
            sets,
            fixed,
            rotated,
            sampled: is_sample,
            busiest_if_fixed: rounded(choice.busiest),
        })
    }

    fn text(&self, placement: &str) -> String {
        let GivenUp { devices, sets, fixed, rotated, sampled, busiest_if_fixed } = self;
        let sets = format!("of {sets} {}sets of {devices} devices", if *sampled { "random " } else { "" });
        let load = format!("{busiest_if_fixed:.1} times the mean load");
        match placement {
            "fixed" => format!(
                "Columns are fixed: {sets} {fixed} can be lost, with --placement rotated {rotated}; the busiest device carries {load}.\n"
            ),
            _ => format!(
                "Columns are {placement}: {sets} {rotated} can be lost, with --placement fixed {fixed}; its busiest device would carry {load}.\n"
            ),
        }
    }
}

impl Create {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        self.refuse_other_orders()?;
        let paths = if self.named.is_empty() { self.devices } else { self.named };
        let code = match &self.code {
            Some(text) => {
                let disks = if self.size.is_some() { files_of(text) } else { paths.len() };
                args::code_on(text, Some(disks), args::Reading::default())?
            }
            None => Code::parse(&default_code(paths.len())?).map_err(Failure::input)?,
        };
        let devices = match self.size {
            Some(user_bytes) => NewDevices::Made { user_bytes },
            None => NewDevices::Given(paths),
        };
        let (name, epoch_bytes) = (self.name, self.epochs);
        let overwrite = self.yes;
        if let Some(text) = long_proof(&code) {
            note(&text);
        }
        let placement = self.placement;
        let new = NewFolder { code, devices, placement, epoch_bytes, name, overwrite };
        let made = match self.dry_run {
            true => Folder::rehearse(&self.folder, &new).map(|geometry| (None, geometry)),
            false => Folder::create(&self.folder, &new).map(|(folder, geometry)| (Some(folder), geometry)),
        };
        let (folder, geometry) = made.map_err(|error| volumes::failure(&error))?;
        let slots = (0..geometry.slots() as u32).map(Slot);
        let needed: Vec<u64> = slots.map(|slot| geometry.device_blocks(slot) * 4096).collect();
        // Devices are opened only now that their kind is known: opening another file can block.
        let len_bytes = match &new.devices {
            NewDevices::Given(paths) => paths.iter().map(length).collect(),
            NewDevices::Made { .. } => needed.clone(),
        };
        let answer = CreateJson {
            output_version: OUTPUT_VERSION,
            volume: geometry.volume.to_string(),
            code: geometry.code.spec(),
            placement: geometry.placement.to_string(),
            given_up: GivenUp::of(&geometry.code, geometry.placement),
            disks: folder.map(|folder| folder.disks(&geometry)).unwrap_or_default(),
            tolerance: geometry.tolerance(),
            len_bytes: geometry.user_blocks() * 4096,
            device_bytes: needed,
            folder: self.folder.display().to_string(),
            space: Space::of(&geometry, &len_bytes),
            dry_run: self.dry_run,
        };
        match self.json {
            true => print_json(&answer)?,
            false => print(&text(&answer, &len_bytes, terminal))?,
        }
        Ok(Verdict::Good)
    }
}

impl Create {
    /// Refuses the argument orders of other tools, and missing arguments, with the right command.
    fn refuse_other_orders(&self) -> Result<(), Failure> {
        let paths = if self.named.is_empty() { &self.devices } else { &self.named };
        let command = |vol: &Path, code: Option<&Path>, devices: &[PathBuf]| {
            let code = code.map_or(String::new(), |code| format!(" --code {}", sets::quoted(code)));
            let devices: String = devices.iter().map(|device| format!(" {}", sets::quoted(device))).collect();
            format!("pantile create {}{code}{devices}", sets::quoted(vol))
        };
        let is_code = |path: &Path| path.to_str().is_some_and(Code::is_named) && !path.exists();
        let fault = match &paths[..] {
            [] if self.size.is_none() => format!(
                "which devices is the volume made of? pantile create {0} DEVICE..., or of files in {0}: pantile create {0} --size 64M",
                sets::quoted(&self.folder)
            ),
            [code, devices @ ..] if is_code(code) => format!(
                "{} is a code, not a device: {}",
                code.display(),
                command(&self.folder, Some(code), devices)
            ),
            [_, ..] if self.code.is_none() && is_code(&self.folder) => format!(
                "{} is a code, and the folder of the volume is named first: {}",
                self.folder.display(),
                command(Path::new("VOL"), Some(&self.folder), paths)
            ),
            [rest @ .., vol] if self.folder.exists() && !self.folder.is_dir() && !vol.exists() => {
                let devices: Vec<PathBuf> = [std::slice::from_ref(&self.folder), rest].concat();
                format!("the folder of the volume is named first: {}", command(vol, None, &devices))
            }
            _ => return Ok(()),
        };
        Err(Failure::Input(fault))
    }
}

/// Returns the number of files of a volume whose code has no numbers.
fn files_of(code: &str) -> usize {
    /// Families that are stored as two copies, as a mirror usually is.
    const COPIES: [&str; 2] = ["mirror", "raid1"];
    if COPIES.contains(&code.to_ascii_lowercase().as_str()) { 2 } else { 6 }
}

/// Returns the length of a device; 0 if it cannot be opened.
fn length(path: &PathBuf) -> u64 {
    if is_server(path) {
        return export_len(path);
    }
    File::open(path).and_then(|mut file| file.seek(SeekFrom::End(0))).unwrap_or(0)
}

fn text(answer: &CreateJson<'_>, len_bytes: &[u64], terminal: &Terminal) -> String {
    let shortest = len_bytes.iter().min().copied().unwrap_or(0);
    let folder = sets::quoted(&answer.folder);
    let last = match answer.dry_run {
        true => "Nothing was written (--dry-run).\n".to_string(),
        false => format!("Serve it: pantile serve {folder}\n"),
    };
    format!(
        "{}: {} on {} devices of {}, {} for data; any {} of them can fail without data loss.\n{}{}\nThe raw space, {}, is for:\n{}\n{last}",
        terminal.bold(sets::name(&answer.folder)),
        answer.code,
        len_bytes.len(),
        sets::bytes(shortest),
        sets::bytes(answer.len_bytes),
        answer.tolerance,
        answer.given_up.as_ref().map_or(String::new(), |given_up| given_up.text(&answer.placement)),
        volumes::disks_text(&answer.disks),
        sets::bytes(answer.space.raw_bytes),
        answer.space.table(len_bytes, terminal),
    )
}

/// Products of an elimination that takes about a second on one processor: clay:10,4,13 takes 12 s
/// for 10^12.
const LONG_PROOF: f64 = 1e11;

/// Returns a notice if the proof takes seconds or more: one elimination for each set of devices
/// that can be lost.
fn long_proof(code: &Code) -> Option<String> {
    let (columns, lost) = (code.columns(), code.claim().tolerance);
    let sets: f64 = (0..lost).map(|i| (columns - i) as f64 / (i + 1) as f64).product();
    let elements = lost * code.rows_max();
    (sets * (elements as f64).powi(3) > LONG_PROOF).then(|| {
        format!(
            "proving that any {lost} of {columns} devices can fail: {sets:.0} sets with {elements} elements each, \
             which may take a minute."
        )
    })
}

fn default_code(devices: usize) -> Result<String, Failure> {
    match devices {
        0 => Ok(CODE_OF_FILES.into()),
        1 => Err(Failure::Input("one device does not survive its own loss; give two or more.".into())),
        2 => Ok("mirror:2".into()),
        3 => Ok("raid5:2".into()),
        more => Ok(format!("raid6:{}", more - 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_devices_has_a_code_of_so_many_columns() {
        for devices in 2..=64 {
            let code = Code::parse(&default_code(devices).expect("a code")).expect("a spec");
            assert_eq!(code.columns(), devices);
            assert!(code.claim().tolerance >= 1);
        }
        assert!(default_code(1).is_err());
    }

    #[test]
    fn a_proof_that_takes_seconds_is_said_before_it_begins() {
        let said = |spec: &str| long_proof(&Code::parse(spec).expect("a spec"));
        let text = said("clay:10,4,13").expect("it is long");
        assert!(
            text.contains("any 4 of 14 devices") && text.contains("1001 sets with 1024 elements"),
            "{text}"
        );
        for quick in ["raid6:6", "raidq:60+4", "clay:4,2,5", "clay:8,4,11"] {
            assert_eq!(said(quick), None, "{quick}");
        }
    }
}
