//! `pantile stop`: ends the server of a volume.

use crate::failure::{Failure, Outcome};
use crate::volumes;
use clap::Args;
use pantile_host::{Answer, Folder, FolderError, LEFT_BEHIND, Order, order};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a server may take to end.
const DEADLINE: Duration = Duration::from_secs(120);

/// How long its process may take to end when it has put the volume away, if its log says nothing.
const LEAVING: Duration = Duration::from_secs(5);

/// End the server of a volume, when everything is durable
///
/// Answers: how do I put it away? What was written is made durable first; the devices are free when
/// the command returns.
#[derive(Args)]
#[command(after_long_help = "\
Clients that are still connected lose their connection.

Examples:
  pantile stop vol")]
pub struct Stop {
    /// The folder of the volume.
    #[arg(value_name = "VOL")]
    folder: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Stop {
    pub fn run(self) -> Outcome {
        let begun = Instant::now();
        let server = match order(&self.folder, &Order::Status) {
            Ok(Some(Answer::Status(report))) => report.server.map(|server| server.pid),
            _ => None,
        };
        let told = loop {
            match order(&self.folder, &Order::Stop).map_err(|error| volumes::failure(&error))? {
                // Whoever starts the server again does so without having been asked: it has to be
                // told.
                None if volumes::is_kept(&self.folder) => volumes::between(&self.folder, begun)?,
                told => break told,
            }
        };
        let fault = match told {
            None => {
                // Says what is wrong with the folder, if that is why nobody answers.
                drop(Folder::open(&self.folder).map_err(|error| volumes::failure(&error))?);
                return volumes::print_done("It was not served.", false, self.json);
            }
            // It ends all the same: clients cannot be helped by a server that nobody can stop.
            Some(Answer::Fault { kind, text }) => {
                Some(volumes::fault(kind, format!("stopped, and what was not durable is lost: {text}")))
            }
            Some(_) => None,
        };
        let begun = Instant::now();
        loop {
            match Folder::open(&self.folder) {
                Ok(folder) => {
                    drop(folder);
                    let done = match server.filter(|&pid| is_left_behind(&self.folder, pid)) {
                        None => "Stopped.".to_owned(),
                        Some(pid) => format!(
                            "Stopped. Process {pid} is left behind: it waits for a device that does not answer, does nothing more, and ends when that answers or is taken away."
                        ),
                    };
                    return fault.map_or_else(|| volumes::print_done(&done, true, self.json), Err);
                }
                Err(FolderError::Busy { .. }) if begun.elapsed() < DEADLINE => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(FolderError::Busy { .. }) => {
                    return Err(Failure::System(format!(
                        "the server has not ended within {} s; look into serve.log in the folder.",
                        DEADLINE.as_secs()
                    )));
                }
                Err(error) => return Err(volumes::failure(&error)),
            }
        }
    }
}

/// True if a process has not ended, though it has nothing left to do.
fn is_left_behind(folder: &Path, pid: u32) -> bool {
    let begun = Instant::now();
    loop {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        let said = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = said.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
        // One without other threads has ended, and waits for its parent to take notice.
        if tasks == 0 || (tasks == 1 && state == Some('Z')) {
            return false;
        }
        let log = volumes::tail(folder).unwrap_or_default();
        if begun.elapsed() > LEAVING || log.lines().any(|line| line == LEFT_BEHIND) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
