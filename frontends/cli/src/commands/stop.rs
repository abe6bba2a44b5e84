//! `pantile stop`: ends the server of a volume.

use crate::failure::{Failure, Outcome};
use crate::volumes;
use clap::Args;
use pantile_host::{Answer, Folder, FolderError, LEFT_BEHIND, Order, order};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest time in which a server ends.
const DEADLINE: Duration = Duration::from_secs(120);

/// Longest time in which its process ends after the volume is closed, if its log has no line about
/// it.
const LEAVING: Duration = Duration::from_secs(5);

/// End the server of a volume, after all writes are durable
///
/// Answers: how do I stop using it? All writes are made durable first; the devices are free when
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
            Err(error @ FolderError::NoAnswer { .. }) => return Err(volumes::failure(&error)),
            _ => None,
        };
        let told = loop {
            match order(&self.folder, &Order::Stop).map_err(|error| volumes::failure(&error))? {
                // The keeper is starting the server again; the new server gets the order.
                None if volumes::is_kept(&self.folder) => volumes::between(&self.folder, begun)?,
                told => break told,
            }
        };
        let fault = match told {
            None => {
                // A fault of the folder can be the reason for the missing answer.
                drop(Folder::open(&self.folder).map_err(|error| volumes::failure(&error))?);
                return volumes::print_done("It was not served.", false, self.json);
            }
            // The server ends in any case: one that cannot be stopped does not help its clients.
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

/// True if a process has not ended although it has no work left.
fn is_left_behind(folder: &Path, pid: u32) -> bool {
    let begun = Instant::now();
    loop {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        let said = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = said.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
        // A zombie with one thread has ended, and waits for its parent.
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
