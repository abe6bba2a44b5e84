//! `pantile scrub`: verifies the whole volume.

use crate::args;
use crate::describe::count;
use crate::devices::DeviceName;
use crate::failure::{Failure, Outcome, Verdict};
use crate::json::OUTPUT_VERSION;
use crate::machine::all::{self, AllArgs, Task};
use crate::sets;
use crate::terminal::{Terminal, print, print_json};
use crate::volumes::{self, run_order, scrub_text};
use clap::Args;
use pantile_host::{Order, ScrubReport, StatusReport};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Read the whole volume and verify it
///
/// Answers: is there damage in data that no client reads? Superblocks, journals and the maps of
/// every device are read, every block is checked against its checksum, every stripe against its
/// equations. With --repair bad blocks are rebuilt from the others.
#[derive(Args)]
#[command(after_long_help = "\
A served volume is scrubbed in the background: 'pantile status' shows how far, 'pantile rebuild --throttle' sets how fast.
Exit status: 0 nothing is wrong (or it has begun), 1 something was, and with --repair all of it was repaired, 2 something could not be repaired.

Examples:
  pantile scrub vol
  pantile scrub vol --repair --wait
  pantile scrub vol --pause
  pantile scrub vol --clear /dev/sdc           its errors are known: count them from now on
  pantile scrub --all                           every volume of /etc/pantile/pantile.toml, with --repair --wait")]
pub struct Scrub {
    /// The folder of the volume.
    #[arg(value_name = "VOL", required = true)]
    folder: Option<PathBuf>,
    #[command(flatten)]
    all: AllArgs,
    /// Rebuild bad blocks from the others.
    #[arg(long)]
    repair: bool,
    /// Pause a running scrub.
    #[arg(long, conflicts_with_all = ["repair", "resume", "stop", "wait"])]
    pause: bool,
    /// Resume a paused scrub.
    #[arg(long, conflicts_with_all = ["repair", "stop"])]
    resume: bool,
    /// End the scrub.
    #[arg(long, conflicts_with_all = ["repair", "wait"])]
    stop: bool,
    /// Only clear the errors of a device: they are counted from now on.
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["repair", "pause", "resume", "stop", "wait"])]
    clear: Option<DeviceName>,
    /// Wait until the scrub has ended.
    #[arg(long)]
    wait: bool,
    /// Wait this long at most, 30s or 5m; status 3 if the scrub has not ended; it continues.
    #[arg(long, value_name = "TIME", requires = "wait", value_parser = args::seconds)]
    timeout: Option<u64>,
    /// Print JSON: progress and findings.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ScrubJson<'r> {
    output_version: u32,
    served: bool,
    scrub: Option<&'r ScrubReport>,
}

impl Scrub {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        if let Some(config) = self.all.all {
            return all::run(Task::Scrub, &config, &[], terminal);
        }
        let folder = self.folder.unwrap_or_default();
        if let Some(device) = &self.clear {
            let device = device.number(&folder)?;
            return run_order(&folder, &Order::ClearErrors { device }, self.json);
        }
        let order = match (self.pause, self.resume, self.stop) {
            (true, _, _) => return run_order(&folder, &Order::ScrubPause, self.json),
            (_, _, true) => return run_order(&folder, &Order::ScrubStop, self.json),
            (_, true, _) => Order::ScrubResume,
            _ => Order::ScrubStart { repair: self.repair },
        };
        let text = |report: &StatusReport| scrub_text(report, &folder);
        let timeout = self.timeout.map(Duration::from_secs);
        let reached = volumes::reach_within(&folder, timeout)?;
        let served = reached.is_served();
        let result = reached.order(&order).and_then(|_| match self.wait || !served {
            true => reached.wait(terminal, timeout, is_over, text),
            false => Ok(true),
        });
        let result = result.and_then(|ended| match reached.status() {
            // After the user asked to end, a server that does not answer is no fault.
            Err(_) if !ended => Ok(None),
            report => report.map(|report| Some((ended, report))),
        });
        let ended = reached.end();
        let result = result?;
        ended?;
        let Some((ended_by_itself, report)) = result else { return Ok(Verdict::Interrupted) };
        match self.json {
            true => {
                let scrub = report.scrub.as_ref();
                print_json(&ScrubJson { output_version: OUTPUT_VERSION, served, scrub })?;
            }
            false => print(&format!("{}\n", text(&report)))?,
        }
        let is_bad = report.scrub.as_ref().is_some_and(ScrubReport::is_bad);
        let left = report.scrub.as_ref().map_or(0, |scrub| scrub.left);
        match (ended_by_itself, left, is_bad) {
            (false, ..) => Ok(Verdict::Interrupted),
            (true, 0, false) => Ok(Verdict::Good),
            (true, 0, true) => Ok(Verdict::Bad),
            (true, left, _) => Err(Failure::Losses(format!(
                "{} could not be repaired; 'pantile status {} --lost' lists the lost data.",
                count(left as usize, "stripe"),
                sets::quoted(&folder)
            ))),
        }
    }
}

/// True if the scrub has ended, and a repair has written all suspect stripes.
fn is_over(report: &StatusReport) -> bool {
    report.scrub.as_ref().is_none_or(|scrub| !scrub.running && (!scrub.repair || report.suspect_stripes == 0))
}
