//! `pantile status`: shows the state of a volume.

use super::status_all::{self, All};
use crate::failure::{Failure, Outcome, Verdict};
use crate::machine::config::PATH;
use crate::terminal::{Terminal, print};
use crate::volumes;
use clap::Args;
use std::path::PathBuf;

/// Show how many more devices can fail, faults, and what to do next
///
/// Answers: is it healthy, and if not, how much more can fail? The first line says how many more
/// devices can fail, counted on the code given the current losses; then come faults, space, scrub,
/// devices with model and serial number if known, and the next step. For a volume that cannot be
/// opened it prints the reason, and the content of each path. Only --html writes: for a
/// volume that is not served, superblocks and journals are read.
#[derive(Args)]
#[command(after_long_help = "\
Exit status: 0 clean, 1 degraded, or whole and a device has erred or the last server was not stopped, 2 failed.
With --lost: 0 no data are lost or suspect, 1 some are suspect, 2 some are lost.

Examples:
  pantile status vol
  pantile status --all                      all volumes and sets of this machine, one line each
  pantile status --html status.html         the same as a page
  pantile status vol --lost                 which data are lost or suspect, as OFFSET+LENGTH in bytes
  pantile status vol --events               what happened to it, and when
  pantile status vol --json | jq .margin.any_more")]
pub struct Status {
    /// The folder of the volume; without it the volumes and sets of the configuration and the
    /// attached volumes.
    #[arg(value_name = "VOL")]
    folder: Option<PathBuf>,
    /// All volumes and sets of /etc/pantile/pantile.toml or of another file, and the attached
    /// volumes.
    #[arg(long, value_name = "CONFIG", num_args = 0..=1, require_equals = true, default_missing_value = PATH)]
    #[arg(conflicts_with_all = ["folder", "lost", "events"])]
    all: Option<PathBuf>,
    /// Write a page for a browser: of VOL, or of all volumes and sets.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["lost", "events", "json"])]
    html: Option<PathBuf>,
    /// Print only the lost and the suspect data.
    #[arg(long, requires = "folder", conflicts_with_all = ["json", "events"])]
    lost: bool,
    /// Print only the events of the volume, the oldest first.
    #[arg(long, requires = "folder", conflicts_with = "json")]
    events: bool,
    /// Print JSON: the complete status, of VOL or of all.
    #[arg(long)]
    json: bool,
}

impl Status {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        let Some(folder) = self.folder else {
            return All { config: self.all, html: self.html, json: self.json }.run(terminal);
        };
        if let Some(html) = &self.html {
            return status_all::page_of(&folder, html);
        }
        let reached = match volumes::look_or_survey(&folder)? {
            Ok(reached) => reached,
            Err((report, why)) => {
                // The known part of the status is printed; the reason why the volume cannot be
                // opened decides the exit status.
                let printed = volumes::print_status(&folder, &report, false, self.json, terminal);
                return match printed {
                    Err(Failure::System(broken)) => Err(Failure::System(broken)),
                    _ => Err(why),
                };
            }
        };
        let (report, served) = (reached.status(), reached.is_served());
        let ended = reached.end();
        let report = report?;
        ended?;
        if self.lost {
            print(&volumes::ranges_text(&report))?;
            return match report.broken_stripes == 0 && report.ranges.is_empty() {
                true => Ok(Verdict::Good),
                false => Err(Failure::Losses("data of the volume are lost.".into())),
            };
        }
        if self.events {
            print(&super::events::text(&report.events))?;
            return Ok(Verdict::Good);
        }
        volumes::print_status(&folder, &report, served, self.json, terminal)
    }
}
