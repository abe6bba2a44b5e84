//! `pantile serve`: serves a volume to NBD clients.

use crate::args;
use crate::failure::{Failure, Outcome, Verdict, note};
use crate::json::OUTPUT_VERSION;
use crate::sets;
use crate::terminal::{print, print_json};
use crate::volumes;
use clap::Args;
use pantile_host::{
    Answer, CONTROL_SOCKET, Folder, FolderError, MEMORY_LEAST, Order, SocketFault, StatusReport, nbd_uri,
    order, remove_dead_socket,
};
use serde::Serialize;
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Requests of one connection that are worked on at a time. Each has a thread of nbdkit and a
/// buffer as long as its longest request.
const THREADS: u64 = 16;

/// Returns the longest request of a client, by which the buffers of all threads of all connections
/// stay within the limit. It is at least a few blocks, and at most the limit of NBD without an
/// agreement.
fn request_bytes(outstanding_bytes: u64, connections: u64) -> u64 {
    let most = (outstanding_bytes / (connections * THREADS)).clamp(64 << 10, 32 << 20);
    if most.is_power_of_two() { most } else { most.next_power_of_two() / 2 }
}

/// Longest time in which a volume opens.
const DEADLINE: Duration = Duration::from_secs(600);

/// Longest wait for another command that begins to serve the volume, and the time between two
/// checks.
const BETWEEN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Prefix of the log line in which the server, or its keeper, gives the reason of a failed start;
/// an [`Answer`] follows.
pub const FAULT: &str = "pantile-fault ";

/// File name of the plug-in.
const PLUGIN: &str = "libpantile_nbd.so";

/// Serve a volume to NBD clients
///
/// Answers: how do I use it? Any NBD client works: qemu, nbdcopy, nbdfuse, fio, the kernel's.
/// Starts nbdkit with the volume in its process, waits until it serves, prints the URI, and
/// returns; 'pantile stop' ends it. A server that dies of its own fault is started again.
#[derive(Args)]
#[command(after_long_help = "\
nbdkit must be installed (Debian: apt-get install nbdkit). The plug-in libpantile_nbd.so is looked for beside this \
program, in ../lib/pantile beside its folder, and where PANTILE_NBD_PLUGIN says. The messages of the server go to \
serve.log in VOL. Of a volume that is served already the address is printed again.

A server that died is started again, with all that was flushed; 'pantile status' says so. One that dies five times \
within a minute is given up. With --foreground both are left to the service manager.

Examples:
  pantile serve vol
  nbdcopy disk.img \"$(pantile serve vol)\"
  pantile serve vol --tcp 0.0.0.0:10809 --tls-certificates /etc/pki/nbd
  pantile serve vol --foreground            for a service manager
  pantile serve vol --read-only             disks that must not change, or have no room
  pantile serve vol --read-only --foreground --socket /run/vol.sock     a folder that cannot be written")]
pub struct Serve {
    /// The folder of the volume.
    #[arg(value_name = "VOL")]
    folder: PathBuf,
    /// Path of the Unix socket; by default nbd.sock in VOL.
    #[arg(long, value_name = "PATH", conflicts_with = "tcp")]
    socket: Option<PathBuf>,
    /// Serve over TCP instead.
    #[arg(long, value_name = "HOST:PORT", requires = "tls_certificates")]
    tcp: Option<String>,
    /// Folder of the certificates for TLS (ca-cert.pem, server-cert.pem, server-key.pem); clients
    /// need one, too.
    #[arg(long, value_name = "DIR")]
    tls_certificates: Option<PathBuf>,
    /// Give up a device that is reported as slow and takes 0.1 s or more for a read, if one more
    /// device can be lost then.
    #[arg(long)]
    evict_slow: bool,
    /// Serve the volume read-only: nothing is written to its devices, which need not be writable.
    #[arg(long)]
    read_only: bool,
    /// Largest number of connections at a time.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4096))]
    connections: u64,
    /// Limit of the bytes of requests in progress, of all clients together.
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = args::size)]
    outstanding: u64,
    /// Limit of the volume's buffers for writes, reads, rebuild and scrub; more if its stripes are
    /// long. 512M by default.
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    memory: Option<u64>,
    /// Stay in the foreground until the server ends.
    #[arg(long)]
    foreground: bool,
    /// Print JSON: URI and process.
    #[arg(long, conflicts_with = "foreground")]
    json: bool,
}

#[derive(Serialize)]
struct ServeJson<'s> {
    output_version: u32,
    uri: &'s str,
    pid: u32,
}

impl Serve {
    pub fn run(self) -> Outcome {
        let root = volumes::absolute(&self.folder)?;
        let begun = Instant::now();
        // Faults of the folder are reported before a server is started, and no other process may
        // hold it.
        let log_path = root.join(volumes::SERVE_LOG);
        let (log, warning) = loop {
            // Of two commands that begin at the same time one locks the log, and the other waits
            // here until the first one serves.
            if let Some(folder) = volumes::take(&root, begun)? {
                let locked = lock_log(&log_path, &folder);
                let warning = folder.warning();
                drop(folder);
                match locked {
                    Ok(Some(log)) if volumes::take(&root, begun)?.is_some() => break (Some(log), warning),
                    Ok(_) => {}
                    // The folder cannot be written. No keeper restarts this server, so the log is
                    // not needed.
                    Err(_) if self.read_only && self.foreground => break (None, warning),
                    Err(error) => return Err(error),
                }
            }
            let running = order(&root, &Order::Status).map_err(|error| volumes::failure(&error))?;
            if let Some(Answer::Status(report)) = running {
                return self.served_already(&root, &report);
            }
            if begun.elapsed() > BETWEEN {
                return Err(volumes::failure(&FolderError::Busy { folder: root }));
            }
            std::thread::sleep(LOOK_EVERY);
        };
        warning.iter().for_each(|warning| note(warning));
        fits(&root.join(CONTROL_SOCKET), "serve it by a shorter path, such as a symbolic link")?;
        let plugin = plugin()?;
        // nbdkit's own background mode would close standard error before the volume is opened.
        let mut told: Vec<OsString> =
            ["--foreground", "--threads", &THREADS.to_string()].map(OsString::from).to_vec();
        let (uri, socket) = self.listen(&mut told, &root)?;
        if let Some(certificates) = &self.tls_certificates {
            let certificates = volumes::absolute(certificates)?;
            told.extend(["--tls=require", "--tls-verify-peer", "--tls-certificates"].map(OsString::from));
            told.push(certificates.into());
        }
        told.extend(["--filter=blocksize-policy".into(), plugin.into(), joined("volume=", &root)]);
        // Any byte range is served; whole blocks are fastest.
        let request_bytes = request_bytes(self.outstanding, self.connections);
        told.extend(["blocksize-minimum=1", "blocksize-preferred=4096"].map(OsString::from));
        told.push(format!("blocksize-maximum={request_bytes}").into());
        told.push(format!("connections={}", self.connections).into());
        told.push(format!("outstanding={}", self.outstanding.max(1 << 20)).into());
        told.extend(self.memory.map(|bytes| OsString::from(format!("memory={bytes}"))));
        if self.evict_slow {
            told.push("evict-slow=true".into());
        }
        if self.read_only {
            told.insert(0, "--readonly".into());
            told.push("read-only=true".into());
        }
        if let Some(log) = &log {
            let begin = || log.set_len(0).and_then(|()| writeln!(&mut &*log, "{}{uri}", volumes::SERVES_AT));
            begin().map_err(|error| Failure::file("write", &log_path, &error))?;
        }
        if self.foreground {
            print(&format!("{uri}\n"))?;
            let mut command = Command::new("nbdkit");
            return Err(not_started(&command.args(told).stdin(Stdio::null()).exec()));
        }
        let Some(log) = log else { return Ok(Verdict::Good) };
        // nbdkit in the foreground would end with its parent.
        told.push("stays=true".into());
        let also = log.try_clone().map_err(|error| Failure::file("write", &log_path, &error))?;
        let mut command = keeper(&root, socket.as_deref(), told)?;
        // In a process group of its own, Ctrl-C in this terminal does not reach the server.
        command.stdin(Stdio::null()).stdout(also).stderr(log).process_group(0);
        let failed = |error: std::io::Error| Failure::System(format!("cannot start a process: {error}."));
        let mut keeper = command.spawn().map_err(failed)?;
        let pid = wait_until_served(&mut keeper, &root, &log_path)?;
        self.answer(&uri, pid)
    }

    /// Answers for a volume that is served already: with its URI, unless other options were given.
    fn served_already(&self, root: &Path, report: &StatusReport) -> Outcome {
        let word = sets::quoted(&self.folder);
        let (Some(uri), Some(server)) = (volumes::uri(root), &report.server) else {
            return Err(Failure::Input(format!(
                "the volume is served already, and its log does not say where; 'pantile stop {word}' ends that."
            )));
        };
        let is_elsewhere = match (&self.tcp, &self.socket) {
            (None, None) => false,
            _ => self.address(root)?.0 != uri,
        };
        if is_elsewhere || self.foreground || self.read_only != report.reads_only {
            return Err(Failure::Input(format!(
                "the volume is served already, at {uri}; 'pantile stop {word}' ends that."
            )));
        }
        note("the volume was served already.");
        self.answer(&uri, server.pid)
    }

    fn answer(&self, uri: &str, pid: u32) -> Outcome {
        match self.json {
            true => print_json(&ServeJson { output_version: OUTPUT_VERSION, uri, pid })?,
            false => print(&format!("{uri}\n"))?,
        }
        Ok(Verdict::Good)
    }

    /// Adds the arguments for the address. Returns the URI, and the path of the Unix socket if it
    /// is one.
    fn listen(&self, told: &mut Vec<OsString>, root: &Path) -> Result<(String, Option<PathBuf>), Failure> {
        let (uri, socket, words) = self.address(root)?;
        if let Some(socket) = &socket {
            fits(socket, "give a shorter one with --socket")?;
            remove_dead(socket)?;
        }
        told.extend(words);
        Ok((uri, socket))
    }

    /// Returns the URI, the path of the Unix socket if it is one, and nbdkit's arguments.
    fn address(&self, root: &Path) -> Result<(String, Option<PathBuf>, Vec<OsString>), Failure> {
        if let Some(address) = &self.tcp {
            let wrong = || {
                Failure::Input(format!(
                    "--tcp: '{address}' is not HOST:PORT; write for example 0.0.0.0:10809."
                ))
            };
            let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
            let port: u16 = port.parse().map_err(|_| wrong())?;
            let bare = host.trim_start_matches('[').trim_end_matches(']');
            if bare.is_empty() {
                return Err(wrong());
            }
            let words = ["--ipaddr", bare, "--port", &port.to_string()].map(OsString::from);
            return Ok((format!("nbds://{host}:{port}"), None, words.to_vec()));
        }
        let socket = match &self.socket {
            Some(socket) => volumes::absolute(socket)?,
            None => root.join("nbd.sock"),
        };
        let words = vec!["--unix".into(), socket.clone().into()];
        let scheme = if self.tls_certificates.is_some() { "nbds" } else { "nbd" };
        let uri = nbd_uri(scheme, "", &socket);
        Ok((uri, Some(socket), words))
    }
}

/// Returns the command that keeps a server, which this program has.
fn keeper(root: &Path, socket: Option<&Path>, told: Vec<OsString>) -> Result<Command, Failure> {
    let own = std::env::current_exe()
        .map_err(|error| Failure::System(format!("cannot find the file of this program: {error}.")))?;
    let mut command = Command::new(own);
    command.arg("keep-served").arg(root);
    if let Some(socket) = socket {
        command.arg("--socket").arg(socket);
    }
    command.arg("--").args(told);
    Ok(command)
}

/// Reads the limit of a volume's memory.
fn memory(text: &str) -> Result<u64, String> {
    let bytes = args::size(text)?;
    match bytes >= MEMORY_LEAST {
        true => Ok(bytes),
        false => Err(format!(
            "{bytes} bytes are less than the {MEMORY_LEAST} that every volume needs; give 64M or more"
        )),
    }
}

/// Refuses a path that is too long for a socket.
fn fits(socket: &Path, what_to_do: &str) -> Result<(), Failure> {
    match socket.as_os_str().len() {
        0..=107 => Ok(()),
        _ => Err(Failure::Input(format!(
            "the path {} is longer than the 107 bytes of a socket's name; {what_to_do}.",
            socket.display()
        ))),
    }
}

/// Opens the log of a server and locks it while any process has it open, that is while the server
/// lives. `None` if another server has the lock.
fn lock_log(path: &Path, folder: &Folder) -> Result<Option<File>, Failure> {
    let file = folder.open_private(volumes::SERVE_LOG).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => {
            Failure::Input(format!("{} is no regular file; remove it and serve again.", path.display()))
        }
        _ => Failure::file("write", path, &error),
    })?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(Failure::file("lock", path, &error)),
    }
}

/// Removes the socket of a killed server.
pub fn remove_dead(socket: &Path) -> Result<(), Failure> {
    let called = socket.display();
    remove_dead_socket(socket).map_err(|fault| match fault {
        SocketFault::NoSocket => {
            Failure::Input(format!("{called} is there and is no socket; choose another."))
        }
        SocketFault::InUse => Failure::Input(format!("something else listens on {called}; choose another.")),
        SocketFault::Folder(error) => volumes::failure(&error),
    })
}

fn joined(key: &str, path: &Path) -> OsString {
    let mut argument = OsString::from(key);
    argument.push(path);
    argument
}

pub fn not_started(error: &std::io::Error) -> Failure {
    Failure::System(match error.kind() {
        std::io::ErrorKind::NotFound => {
            "nbdkit is not installed; install it (Debian: apt-get install nbdkit) and try again.".into()
        }
        _ => format!("cannot start nbdkit: {error}."),
    })
}

fn plugin() -> Result<PathBuf, Failure> {
    if let Some(path) = std::env::var_os("PANTILE_NBD_PLUGIN") {
        return volumes::absolute(Path::new(&path));
    }
    let own = std::env::current_exe().unwrap_or_default();
    let beside = own.parent().unwrap_or(Path::new("."));
    let places = [beside.join(PLUGIN), beside.join("../lib/pantile").join(PLUGIN)];
    places.into_iter().find(|place| place.is_file()).ok_or_else(|| {
        Failure::System(format!(
            "the plug-in {PLUGIN} is not beside {}; build it (cargo build --release) or say where it is in PANTILE_NBD_PLUGIN.",
            own.display()
        ))
    })
}

/// Waits until the control socket answers, which is after the volume was opened; the NBD socket
/// listens before. Returns the server's process.
fn wait_until_served(keeper: &mut Child, root: &Path, log: &Path) -> Result<u32, Failure> {
    let begun = Instant::now();
    loop {
        if let Ok(Some(Answer::Status(report))) = order(root, &Order::Status) {
            return report.server.map(|server| server.pid).ok_or_else(volumes::other_version);
        }
        if let Ok(Some(_)) = keeper.try_wait() {
            return Err(why(log));
        }
        if begun.elapsed() > DEADLINE {
            return Err(Failure::System(format!(
                "the server did not begin within {} s; it goes on trying, look into {}.",
                DEADLINE.as_secs(),
                log.display()
            )));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the reason of a failed start from the server's log.
fn why(log: &Path) -> Failure {
    let text = log.parent().and_then(volumes::tail).unwrap_or_default();
    let told = text.lines().find_map(|line| line.strip_prefix(FAULT));
    if let Some(Answer::Fault { kind, text }) = told.and_then(|told| serde_json::from_str(told).ok()) {
        return volumes::fault(kind, text);
    }
    let says = |line: &&str| !line.trim().is_empty() && !line.starts_with(pantile_host::ENDED);
    let last = text.lines().rfind(says).unwrap_or("nbdkit ended and said nothing");
    Failure::System(last.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_buffers_of_all_threads_fit_the_bound() {
        for (outstanding, connections, request) in [
            (256 << 20, 64, 256 << 10),
            (256 << 20, 4, 4 << 20),
            (1 << 30, 1, 32 << 20),
            (1 << 20, 4096, 64 << 10),
        ] {
            assert_eq!(request_bytes(outstanding, connections), request);
        }
    }
}
