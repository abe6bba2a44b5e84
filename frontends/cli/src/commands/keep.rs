//! `pantile keep-served`: restarts a server that died of its own fault.
//!
//! `pantile serve` leaves this process behind; the help does not list it. Its standard output and
//! standard error are the log of the server, which stays locked while it or the server lives. A
//! server is not restarted if it was asked to stop, was killed, or ended by itself, nor if it dies
//! again and again. The reason of the end is the last line of the log, for `pantile status`.
//!
//! nbdkit before 1.34 aborts if a client disconnects before its answer was sent
//! ([`died_of_a_client`]). That is no fault of the volume, each such client causes it, and there
//! can be many clients: such a server is restarted at once, any number of times.

use crate::commands::serve;
use crate::failure::{Failure, Outcome, Verdict};
use crate::volumes;
use clap::Args;
use pantile_host::{Answer, FaultKind};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Signals of a process that has a fault. Other signals are a request to end.
const OWN_FAULTS: [(i32, &str); 5] =
    [(4, "SIGILL"), (6, "SIGABRT"), (7, "SIGBUS"), (8, "SIGFPE"), (11, "SIGSEGV")];

/// Number of deaths within [`WITHIN`] after which a server is given up, so that its clients get an
/// error instead of further deaths.
const DEATHS_MAX: usize = 5;
const WITHIN: Duration = Duration::from_secs(60);

/// Start the server of a volume, and restart it when it dies
#[derive(Args)]
pub struct KeepServed {
    /// The folder of the volume.
    folder: PathBuf,
    /// The Unix socket of the server, which is removed when it has died.
    #[arg(long)]
    socket: Option<PathBuf>,
    /// Arguments of nbdkit.
    #[arg(last = true, required = true)]
    told: Vec<OsString>,
}

impl KeepServed {
    pub fn run(self) -> Outcome {
        let root = volumes::absolute(&self.folder)?;
        let log = root.join(volumes::SERVE_LOG);
        let mut deaths = Deaths::default();
        loop {
            let from = std::fs::metadata(&log).map_or(0, |log| log.len());
            let mut command = Command::new("nbdkit");
            command.args(&self.told).stdin(Stdio::null());
            command
                .arg(format!("deaths={}", deaths.in_all))
                .arg(format!("client-deaths={}", deaths.by_clients));
            let ended = match command.spawn().and_then(|mut server| server.wait()) {
                Ok(ended) => ended,
                Err(error) => return Err(told(serve::not_started(&error))),
            };
            let was_told_to_stop = has_said(&log, from, pantile_host::TOLD_TO_STOP)
                || says(&log, from, |line| line.starts_with(pantile_host::ENDED.as_bytes()));
            let Some(fault) = own_fault(ended).filter(|_| !was_told_to_stop) else {
                // A refused start is reported to its caller, and is not the end of a server.
                let has_served =
                    deaths.in_all + deaths.by_clients > 0 || has_said(&log, from, pantile_host::SERVING);
                if let Some(why) = why(ended).filter(|_| has_served && !was_told_to_stop) {
                    say(&format!("{}{why}", pantile_host::ENDED));
                }
                return Ok(Verdict::Good);
            };
            let by_client = died_of_a_client(&log, from, fault);
            if by_client {
                deaths.by_clients += 1;
            } else if !deaths.goes_on(Instant::now()) {
                say(&format!(
                    "{}it died {DEATHS_MAX} times within {} s, the last time of {fault}, and was given up.",
                    pantile_host::ENDED,
                    WITHIN.as_secs()
                ));
                return Ok(Verdict::Good);
            }
            let why = if by_client { ", because a client went away with requests under way," } else { "" };
            say(&format!(
                "pantile: the server died of {fault}{why} and is started again; what was not flushed is lost."
            ));
            if let Some(socket) = &self.socket {
                serve::remove_dead(socket).map_err(told)?;
            }
        }
    }
}

/// The deaths of a server.
#[derive(Debug, Default)]
struct Deaths {
    /// Deaths by faults of its own.
    in_all: u64,
    /// Deaths by nbdkit's fault with clients that disconnect; not counted in `in_all`.
    by_clients: u64,
    of_late: VecDeque<Instant>,
}

impl Deaths {
    /// Counts a death, and returns true if the server is to be restarted.
    fn goes_on(&mut self, now: Instant) -> bool {
        self.in_all += 1;
        self.of_late.push_back(now);
        self.of_late.retain(|&death| now.saturating_duration_since(death) < WITHIN);
        self.of_late.len() < DEATHS_MAX
    }
}

/// Returns the signal by which a server died, if it had a fault of its own.
fn own_fault(ended: ExitStatus) -> Option<&'static str> {
    let signal = ended.signal()?;
    OWN_FAULTS.iter().find(|(number, _)| *number == signal).map(|(_, name)| *name)
}

/// Returns the reason for the end of a server; `None` if it was asked to end.
fn why(ended: ExitStatus) -> Option<String> {
    match (own_fault(ended), ended.signal(), ended.code()) {
        (Some(fault), ..) => Some(format!("it died of {fault}.")),
        (None, Some(9), _) => Some("it was killed (SIGKILL).".into()),
        (None, Some(signal), _) => Some(format!("it was ended by signal {signal}.")),
        (None, None, Some(0)) => None,
        (None, None, status) => Some(format!("it ended with status {}.", status.unwrap_or(-1))),
    }
}

/// True if the log has a line since `from`, such as that the server serves, or that it was asked to
/// stop.
fn has_said(log: &Path, from: u64, said: &str) -> bool {
    says(log, from, |line| line == said.as_bytes())
}

fn says(log: &Path, from: u64, is_it: impl FnMut(Vec<u8>) -> bool) -> bool {
    let Ok(mut file) = std::fs::File::open(log) else { return false };
    if file.seek(SeekFrom::Start(from)).is_err() {
        return false;
    }
    BufReader::new(file).split(b'\n').map_while(Result::ok).any(is_it)
}

/// True if a server that served died of nbdkit's own assertion about the socket of a connection.
/// nbdkit closes the socket at the first answer that cannot be sent, and before 1.34 the next
/// answer asserts that it is open.
fn died_of_a_client(log: &Path, from: u64, fault: &str) -> bool {
    fault == "SIGABRT"
        && has_said(log, from, pantile_host::SERVING)
        && says(log, from, |line| is_about_a_client(&String::from_utf8_lossy(&line)))
}

/// True if a line is nbdkit's report of a failed assertion on a closed socket.
// nbdkit: connections.c:402: raw_send_socket: Assertion `sock >= 0' failed.
fn is_about_a_client(line: &str) -> bool {
    ["nbdkit: ", "connections.c:", "raw_send_", "Assertion `sock >= 0' failed"]
        .iter()
        .all(|part| line.contains(part))
}

/// Writes a fault to the log, where the command that waits for the server reads it.
fn told(fault: Failure) -> Failure {
    if let Failure::System(text) | Failure::Input(text) = &fault {
        let answer = Answer::Fault { kind: FaultKind::System, text: text.clone() };
        if let Ok(line) = serde_json::to_string(&answer) {
            say(&format!("{}{line}", serve::FAULT));
        }
    }
    fault
}

/// Writes a line to the log. If the log is full, the volume is still served.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_given_up_when_it_dies_too_often_of_late() {
        let (begin, mut deaths) = (Instant::now(), Deaths::default());
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert!((0..100).all(|n| deaths.goes_on(at(n * 15))), "four a minute");
        assert!((0..4).all(|n| deaths.goes_on(at(10_000 + n))));
        assert!(!deaths.goes_on(at(10_005)));
        assert_eq!(deaths.in_all, 105);
    }

    #[test]
    fn deaths_by_clients_are_distinguished_from_own_faults() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("serve.log");
        let assertion = "nbdkit: connections.c:402: raw_send_socket: Assertion `sock >= 0' failed.";
        let died = |text: &str, fault| {
            std::fs::write(&log, text).expect("a log");
            died_of_a_client(&log, 4, fault)
        };
        let serving = pantile_host::SERVING;
        assert!(died(&format!("old\n{serving}\n{assertion}\n"), "SIGABRT"));
        assert!(!died(&format!("old\n{serving}\n{assertion}\n"), "SIGSEGV"));
        assert!(!died(&format!("old\n{assertion}\n"), "SIGABRT"), "it would die again before it serves");
        assert!(!died(&format!("old\n{serving}\nnbdkit: pool.c:7: f: Assertion `x' failed.\n"), "SIGABRT"));
        assert!(!died(&format!("{assertion}\n{serving}\n"), "SIGABRT"), "that was the one before");
    }

    #[test]
    fn only_signals_of_a_fault_are_faults_of_the_server() {
        let by = |signal| ExitStatus::from_raw(signal);
        assert!([6, 11, 7].into_iter().all(|signal| own_fault(by(signal)).is_some()));
        assert!([1, 2, 9, 15].into_iter().all(|signal| own_fault(by(signal)).is_none()));
        assert_eq!((own_fault(by(0)), own_fault(by(1 << 8))), (None, None));
        assert_eq!(why(by(0)), None);
        assert_eq!(why(by(1 << 8)), Some("it ended with status 1.".into()));
        assert_eq!(why(by(9)), Some("it was killed (SIGKILL).".into()));
    }
}
