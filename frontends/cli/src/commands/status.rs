//! `pantile status`: how a volume is.

use crate::failure::{Failure, Outcome};
use crate::terminal::Terminal;
use crate::volumes;
use clap::Args;
use std::path::PathBuf;

/// Say what is wrong with a volume and how much more may be lost
///
/// Answers: is it well, and if not, how near is the end? First what is wrong, then how many devices may still fail, counted on
/// the code given what is lost; then devices, rebuild and scrub. Of a volume that cannot be opened: why, and what each path holds. Nothing is written: of a volume that is not served, superblocks and journals are read.
#[derive(Args)]
#[command(after_long_help = "\
Exit status: 0 clean, 1 degraded, or whole and a device has erred since the volume was opened, 2 failed.

Examples:
  pantile status vol
  pantile status vol --json | jq .margin.any_more")]
pub struct Status {
    /// The folder of the volume.
    #[arg(value_name = "VOL")]
    folder: PathBuf,
    /// Print JSON: everything that is known.
    #[arg(long)]
    json: bool,
}

impl Status {
    pub fn run(self, terminal: &Terminal) -> Outcome {
        let reached = match volumes::look_or_survey(&self.folder)? {
            Ok(reached) => reached,
            Err((report, why)) => {
                // What is known of it is printed all the same; why it cannot be opened says how the run ends.
                let printed = volumes::print_status(&self.folder, &report, false, self.json, terminal);
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
        volumes::print_status(&self.folder, &report, served, self.json, terminal)
    }
}
