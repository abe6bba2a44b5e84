//! `pantile fail`, `replace`, `add-spare`, `remove-spare` and `rebuild`: the devices of a volume.

use crate::args;
use crate::devices::{DeviceName, places_of, same_path};
use crate::failure::{Failure, Outcome, Verdict};
use crate::sets;
use crate::terminal::Terminal;
use crate::volumes::{self, absolute, run_order};
use clap::Args;
use pantile_host::{
    Answer, DeviceReport, DeviceWord, Finding, FindingKind, Folder, Order, ReplacementReport, StatusReport,
    of_lost, path_in,
};
use std::path::PathBuf;
use std::time::Duration;

/// Take a device out of a volume
///
/// Answers: how do I remove a failing disk? From then on its data are computed from the other
/// devices, and it does not come back by itself: 'pantile rebuild' brings it back. A spare takes
/// its place at once. If data would become unreadable, the command is refused and names the devices
/// that can be removed.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pantile fail vol 3
  pantile fail vol /dev/sdd
  pantile fail vol 3 --yes       even if data cannot be read without it")]
pub struct Fail {
    /// The folder of the volume.
    #[arg(value_name = "VOL")]
    folder: PathBuf,
    /// The device: its number, as 'pantile status' shows it, its path or its name.
    #[arg(value_name = "DEVICE")]
    device: DeviceName,
    /// Remove it even if data become unreadable.
    #[arg(long)]
    yes: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Put a device into a volume in place of one that is lost
///
/// Answers: here is the new disk, what now? The old device, brought back, gets only the writes that
/// it has missed; any other is rebuilt from the rest. A device that still works stays in the volume
/// until the new one is a complete copy, read back and compared, so that the tolerance is never
/// reduced. A stop or a crash leaves the old one in its place, and the copy begins again at the
/// next start. Another new device given meanwhile gets the copy instead; --cancel ends it, and the
/// old device stays.
#[derive(Args)]
#[command(after_long_help = "\
On a volume that is not served the rebuild begins and goes on when it is served or rebuilt.
Exit status: 0 the device is in the volume, 1 it is, and the volume still cannot be opened.

Examples:
  pantile replace vol 3 /dev/sdx
  pantile replace vol /dev/sdd /dev/sdx
  pantile replace vol 0 /dev/sdx 1 /dev/sdy two lost disks, rebuilt in one pass
  pantile replace vol /dev/sdd              a new disk in the place of the old one
  pantile replace vol 3 --cancel            keep the old one: the copy ends
  pantile replace vol 3 new.img --yes       whatever new.img holds")]
pub struct Replace {
    /// The folder of the volume.
    #[arg(value_name = "VOL")]
    folder: PathBuf,
    /// The device to replace: its number, as 'pantile status' shows it, its path or its name.
    #[arg(value_name = "DEVICE")]
    device: DeviceName,
    /// The new device; by default the one at the path of the old one.
    #[arg(value_name = "NEW")]
    path: Option<PathBuf>,
    /// Further devices and their new ones: lost ones are rebuilt together.
    #[arg(value_name = "DEVICE NEW", requires = "path", conflicts_with = "json")]
    more: Vec<PathBuf>,
    /// Cancel the copy of a working device.
    #[arg(long, conflicts_with_all = ["path", "yes"])]
    cancel: bool,
    /// Destroy the content of the new device.
    #[arg(long)]
    yes: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Keep a device ready for the next loss
///
/// Answers: who replaces a disk while I sleep? A spare takes the place of a lost device at once and
/// by itself.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pantile add-spare vol /dev/sdy")]
pub struct AddSpare {
    /// The folder of the volume.
    #[arg(value_name = "VOL")]
    folder: PathBuf,
    /// The device, at least as long as the longest of the volume.
    #[arg(value_name = "DEVICE")]
    path: PathBuf,
    /// Destroy the content of the device.
    #[arg(long)]
    yes: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Take a spare out of a volume
///
/// Answers: I need that disk elsewhere; how do I take it back? The volume releases it, and it
/// replaces no device any more. A spare that already replaced a device is that device: 'pantile
/// fail' removes it.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pantile remove-spare vol /dev/sdy")]
pub struct RemoveSpare {
    /// The folder of the volume.
    #[arg(value_name = "VOL")]
    folder: PathBuf,
    /// The spare, as 'pantile status' shows it.
    #[arg(value_name = "DEVICE")]
    path: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Bring back lost devices, and limit the speed of a rebuild
///
/// Answers: how do I bring back a device that was unplugged, and how do I slow a rebuild down? A
/// rebuild begins by itself when a device appears; this command limits its speed and tries lost
/// devices again, and without --throttle also those that 'pantile fail' took out. With --wait, or
/// on a volume that is not served, it waits until everything is whole.
#[derive(Args)]
#[command(after_long_help = "\
Exit status: 0 everything is whole (or the rebuild has begun), 1 devices are still lost after the wait, or something else is wrong, 2 data are lost.

Examples:
  pantile rebuild vol                     try lost devices again
  pantile rebuild vol --throttle 50M      at most 50 MiB a second from now on
  pantile rebuild vol --throttle 0        as fast as it goes
  pantile rebuild vol --wait")]
pub struct Rebuild {
    /// The folder of the volume.
    #[arg(value_name = "VOL")]
    folder: PathBuf,
    /// Bytes per second that rebuild and scrub may read and write; 0: unlimited.
    #[arg(long, value_name = "RATE", value_parser = args::rate)]
    throttle: Option<u64>,
    /// Wait until everything is whole.
    #[arg(long)]
    wait: bool,
    /// Wait this long at most, 30s or 5m; status 3 if the rebuild is not finished.
    #[arg(long, value_name = "TIME", requires = "wait", value_parser = args::seconds)]
    timeout: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Fail {
    pub fn run(self) -> Outcome {
        let device = self.device.number(&self.folder)?;
        run_order(&self.folder, &Order::Fail { device, lose_data: self.yes }, self.json)
    }
}

impl Replace {
    pub fn run(self) -> Outcome {
        let device = self.old_device()?;
        if self.cancel {
            return run_order(&self.folder, &Order::CancelReplace { device }, self.json);
        }
        let path = match &self.path {
            Some(path) => absolute(path)?,
            None => absolute(&self.place_of(device)?)?,
        };
        // All arguments are judged before anything is done.
        let (pairs, rest) = self.more.as_chunks::<2>();
        if let [alone] = rest {
            let (vol, alone) = (sets::quoted(&self.folder), sets::quoted(alone));
            return Err(Failure::Input(format!(
                "{alone} has no new device: 'pantile replace {vol} DEVICE NEW DEVICE NEW'"
            )));
        }
        let mut all = vec![(device, path)];
        for [old, new] in pairs {
            let device = DeviceName::from(old.clone().into_os_string()).number(&self.folder)?;
            all.push((device, absolute(new)?));
        }
        let mut verdict = Verdict::Good;
        for (device, path) in all {
            verdict = volumes::replace(&self.folder, device, &path, self.yes, self.json)?;
        }
        Ok(verdict)
    }

    /// Returns the number of the device to replace. For arguments in the wrong order, the message
    /// names the device.
    fn old_device(&self) -> Result<u32, Failure> {
        let number = self.device.number(&self.folder);
        let (Err(_), DeviceName::Path(new), Some(old)) = (&number, &self.device, &self.path) else {
            return number;
        };
        let is_swapped = DeviceName::from(old.clone().into_os_string()).number(&self.folder).is_ok();
        match is_swapped {
            true => Err(Failure::Input(format!(
                "the device that is replaced is named first, then the new one: pantile replace {} {} {}",
                sets::quoted(&self.folder),
                sets::quoted(old),
                sets::quoted(new)
            ))),
            false => number,
        }
    }

    /// Returns the path of a device in the configuration of the folder.
    fn place_of(&self, device: u32) -> Result<PathBuf, Failure> {
        let config = Folder::named_in(&self.folder).map_err(|error| volumes::failure(&error))?;
        let place = config.path_of(device).map(|path| path_in(&self.folder, path));
        let typed = match &self.device {
            DeviceName::Path(path) => places_of(&self.folder, path).into_iter().find(|path| path.exists()),
            DeviceName::Number(_) => None,
        };
        place.or(typed).ok_or_else(|| {
            let vol = sets::quoted(&self.folder);
            Failure::Input(format!("which device is the new one? pantile replace {vol} {device} NEW"))
        })
    }
}

impl AddSpare {
    pub fn run(self) -> Outcome {
        let path = absolute(&self.path)?;
        run_order(&self.folder, &Order::AddSpare { path, overwrite: self.yes }, self.json)
    }
}

impl RemoveSpare {
    pub fn run(self) -> Outcome {
        let path = absolute(&self.path)?;
        let config = Folder::named_in(&self.folder).map_err(|error| volumes::failure(&error))?;
        let spares = config.spares.iter().map(|spare| path_in(&self.folder, spare));
        let path = same_path(spares.collect(), &path).map_or(Ok(path), |spare| absolute(&spare))?;
        run_order(&self.folder, &Order::RemoveSpare { path }, self.json)
    }
}

impl Rebuild {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        let timeout = self.timeout.map(Duration::from_secs);
        let reached = volumes::reach_within(&self.folder, timeout)?;
        let served = reached.is_served();
        let result = (|| {
            let answer = reached.order(&Order::Rebuild { throttle_bytes_per_s: self.throttle })?;
            if self.wait || !served {
                return reached.wait(terminal, timeout, is_rebuilt, progress).map(|whole| (answer, whole));
            }
            Ok((answer, true))
        })();
        let result = result.and_then(|(answer, whole)| match whole {
            true => reached.status().map(|report| Some((answer, report))),
            false => Ok(None),
        });
        let ended = reached.end();
        let result = result?;
        ended?;
        let Some((answer, report)) = result else { return Ok(Verdict::Interrupted) };
        if let (Answer::Done { text }, true) = (answer, served && !self.wait) {
            return volumes::print_done(&text, served, self.json);
        }
        // Devices can be whole and the volume not; the findings of 'pantile status' decide.
        if let (0, Some(worst)) = (report.margin.lost.len(), worst_beyond_warnings(&report)) {
            let text = format!("Every device is whole, and the volume is not: {}", worst.text);
            volumes::print_done(&text, served, self.json)?;
            return volumes::outcome(&report);
        }
        let text = match &report.margin.lost[..] {
            [] => return volumes::print_done("Everything is whole.", served, self.json),
            lost => of_lost(lost, &sets::quoted(&self.folder)),
        };
        volumes::print_done(&text, served, self.json).map(|_| Verdict::Bad)
    }
}

/// True if no device is being rebuilt, and the bad stripes found meanwhile are rewritten or given
/// up.
fn is_rebuilt(report: &StatusReport) -> bool {
    let is_whole = |device: &DeviceReport| {
        let is_copied = device.replacement.is_some() || device.verification.is_some();
        device.state != DeviceWord::Rebuilding && (!is_copied || device.problem.is_some())
    };
    report.devices.iter().all(is_whole) && !report.has(FindingKind::StripesWait)
}

fn worst_beyond_warnings(report: &StatusReport) -> Option<&Finding> {
    report.findings.iter().find(|finding| finding.verdict > pantile_host::Verdict::Warned)
}

fn progress(report: &StatusReport) -> String {
    match &report.rebuild {
        Some(rebuild) => format!("rebuilt {} of {} stripes", rebuild.done_stripes, rebuild.total_stripes),
        None => match report.devices.iter().find_map(|device| device.replacement.as_ref()) {
            Some(ReplacementReport { verified_bytes, total_bytes, .. }) if *verified_bytes > 0 => {
                format!("read back {} of {}", sets::bytes(*verified_bytes), sets::bytes(*total_bytes))
            }
            Some(ReplacementReport { copied_bytes, total_bytes, .. }) => {
                format!("copied {} of {}", sets::bytes(*copied_bytes), sets::bytes(*total_bytes))
            }
            None => match report.devices.iter().find_map(|device| device.verification) {
                Some(proof) => {
                    format!("verified {} of {} stripes of the copy", proof.done_stripes, proof.total_stripes)
                }
                None => "rebuilding".into(),
            },
        },
    }
}
