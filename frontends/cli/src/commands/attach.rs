//! `pantile attach` and `detach`: a volume as a block device of the kernel's NBD client.
//!
//! The record of an attached volume is the file `/run/pantile/nbdN`: name, folder, and whether
//! `attach` began to serve it. The link `/dev/pantile/NAME` leads to the device. Where udev runs,
//! it makes the link by the packaged rule, which reads the name in the record; systemd then has a
//! device unit for the link, which a line of `/etc/fstab` waits for.

use crate::args;
use crate::failure::{Failure, Outcome, Verdict, note};
use crate::json::OUTPUT_VERSION;
use crate::sets;
use crate::terminal::{print, print_json};
use crate::volumes;
use clap::Args;
use pantile_host::{DeviceUse, Order, order, use_of_device};
use serde::Serialize;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The folder of the links.
const LINKS: &str = "/dev/pantile";

/// The folder of the records.
const RECORDS: &str = "/run/pantile";

/// Connections of the kernel's client, by attempt: several, so that requests of several processors
/// do not wait for one thread; 1 when the kernel did not receive from each of them.
const CONNECTIONS: [usize; 5] = [4, 4, 4, 4, 1];

/// Longest wait until the kernel receives from all connections.
const RECEIVED: Duration = Duration::from_secs(2);

/// Seconds that the kernel waits for an answer before it gives up a connection and asks on another.
/// A member that hangs counts as lost after 30 s, and several can hang one after the other.
const TIMEOUT_S: &str = "180";

/// The lines of a record, which udev reads as well.
const NAME: &str = "PANTILE_NAME=";
const FOLDER: &str = "PANTILE_FOLDER=";
const SERVES: &str = "PANTILE_SERVES=";

/// Longest wait until the kernel's device has its size.
const READY: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The socket of udev; it exists while udev runs.
const UDEV: &str = "/run/udev/control";

/// Longest wait for udev's link during a boot; without the packaged rule udev makes none.
const LINKED: Duration = Duration::from_secs(60);

/// Time after which the device is announced again: udev notices newly installed rules within 3 s.
const ANNOUNCED: Duration = Duration::from_secs(5);

/// Make a volume a block device of this machine
///
/// Serves the volume unless it is served, and connects the kernel's NBD client to it. The device is
/// /dev/pantile/NAME until 'pantile detach'; a volume that is attached already keeps its device.
#[derive(Args)]
#[command(after_long_help = "\
Needs root, nbdkit and nbd-client (Debian: apt-get install nbdkit nbd-client). With systemd, 'systemctl enable --now \\
pantile@$(systemd-escape -p VOL)' attaches the volume at every start.

Examples:
  pantile attach /srv/tank
  pantile attach /srv/tank --name films && mkfs.ext4 /dev/pantile/films")]
pub struct Attach {
    /// The folder of the volume.
    #[arg(value_name = "VOL")]
    folder: PathBuf,
    /// The device's name below /dev/pantile; the folder's last component unless given.
    #[arg(long, value_name = "NAME", value_parser = device_name)]
    name: Option<String>,
    /// Print JSON: link and device.
    #[arg(long)]
    json: bool,
}

/// Detach the block device of a volume
///
/// Refuses a device that is mounted or in use. Written data are durable when the command returns.
/// Then also stops serving the volume, if 'pantile attach' had started that.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  umount /mnt/films && pantile detach films
  pantile detach /srv/tank")]
pub struct Detach {
    /// The folder of the volume, or the device's name below /dev/pantile.
    #[arg(value_name = "VOL|NAME")]
    volume: PathBuf,
    /// Wait this long, 30s or 2m, for a device in use to become free.
    #[arg(long, value_name = "TIME", value_parser = args::seconds)]
    wait: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The record of an attached volume.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    name: String,
    folder: PathBuf,
    device: PathBuf,
    /// True if `attach` started serving the volume.
    serves: bool,
}

#[derive(Serialize)]
struct AttachJson<'s> {
    output_version: u32,
    path: &'s Path,
    device: &'s Path,
}

impl Attach {
    pub fn run(self) -> Outcome {
        let folder = volumes::absolute(&self.folder)?;
        let folder = fs::canonicalize(&folder).map_err(|error| Failure::file("open", &folder, &error))?;
        if folder.to_str().is_none_or(|text| text.contains(char::is_control)) {
            return Err(Failure::Input(format!(
                "the path of {} is not plain text, which the record of a device needs; attach it by another path.",
                sets::name(&folder.to_string_lossy())
            )));
        }
        let name = match self.name {
            Some(name) => name,
            None => default_name(&folder)?,
        };
        let attached = records()?;
        let record = match attached.iter().find(|known| known.folder == folder && is_connected(&known.device))
        {
            Some(known) if known.name == name => known.clone(),
            Some(known) => {
                return Err(Failure::Input(format!(
                    "the volume is attached as {LINKS}/{}; run 'pantile detach {}' first.",
                    known.name, known.name
                )));
            }
            None => attach(&folder, &name, &attached)?,
        };
        let path = Path::new(LINKS).join(&record.name);
        match self.json {
            true => print_json(&AttachJson {
                output_version: OUTPUT_VERSION,
                path: &path,
                device: &record.device,
            })?,
            false => print(&format!("{}\n", path.display()))?,
        }
        Ok(Verdict::Good)
    }
}

impl Detach {
    pub fn run(self) -> Outcome {
        let attached = records()?;
        let folder = fs::canonicalize(&self.volume).ok();
        let is_it = |known: &&Record| {
            OsStr::new(&known.name) == self.volume.as_os_str() || folder.as_ref() == Some(&known.folder)
        };
        let Some(record) = attached.iter().find(is_it) else {
            return Err(Failure::Input(format!(
                "{} is not attached; 'ls {LINKS}' lists what is.",
                self.volume.display()
            )));
        };
        if is_connected(&record.device) {
            let longest = Duration::from_secs(self.wait.unwrap_or(0));
            wait(longest, || user_of(&record.device).is_none());
            if let Some(user) = user_of(&record.device) {
                return Err(Failure::Input(format!("{LINKS}/{} is in use: {user}.", record.name)));
            }
            run("nbd-client", &["-d".as_ref(), record.device.as_os_str()])?;
        }
        forget(record)?;
        if record.serves {
            run_own(&["stop".as_ref(), record.folder.as_os_str()])?;
        }
        volumes::print_done("Detached.", false, self.json)
    }
}

fn attach(folder: &Path, name: &str, attached: &[Record]) -> Result<Record, Failure> {
    if let Some(other) = attached.iter().find(|known| known.name == name && is_connected(&known.device)) {
        return Err(Failure::Input(format!(
            "{LINKS}/{name} is the volume {}; give another name with --name.",
            other.folder.display()
        )));
    }
    make_folder(LINKS)?;
    make_folder(RECORDS)?;
    for gone in attached.iter().filter(|known| !is_connected(&known.device)) {
        forget(gone)?;
    }
    let is_served = order(folder, &Order::Status).map_err(|error| volumes::failure(&error))?.is_some();
    if !is_served {
        run_own(&["serve".as_ref(), folder.as_os_str()])?;
    }
    let socket = folder.join("nbd.sock");
    let connected = match socket.exists() {
        true => connect(&socket),
        false => Err(Failure::Input(format!(
            "the volume is served elsewhere than at {}; run 'pantile stop {}' and attach it again.",
            socket.display(),
            folder.display()
        ))),
    };
    let device = match connected {
        Ok(device) => device,
        Err(failure) if is_served => return Err(failure),
        Err(failure) => {
            run_own(&["stop".as_ref(), folder.as_os_str()])?;
            return Err(failure);
        }
    };
    let record = Record { name: name.into(), folder: folder.into(), device, serves: !is_served };
    keep(&record)?;
    Ok(record)
}

/// Connects a free device of the kernel's client to a socket, and waits until it has its size.
fn connect(socket: &Path) -> Result<PathBuf, Failure> {
    if !Path::new("/sys/module/nbd").exists() {
        let _ = Command::new("modprobe").arg("nbd").stdin(Stdio::null()).stderr(Stdio::null()).status();
    }
    let mut last = Failure::System(
        "the kernel has no NBD client (module nbd); install a kernel that has it, or serve the volume to nbdfuse."
            .into(),
    );
    for device in free_devices(Path::new("/sys/block")) {
        for connections in CONNECTIONS {
            let number = connections.to_string();
            let flags = ["-block-size", "4096", "-timeout", TIMEOUT_S, "-connections", &number];
            let mut arguments: Vec<&OsStr> = vec!["-unix".as_ref(), socket.as_os_str(), device.as_os_str()];
            arguments.extend(flags.map(OsStr::new));
            // Another program can take the device first; the next one is tried then.
            if let Err(failure) = run("nbd-client", &arguments) {
                last = failure;
                break;
            }
            let proc = Path::new("/proc");
            if connections == 1 || wait(RECEIVED, || receivers(proc, &device) >= connections) {
                wait(READY, || size_bytes(&device) > 0);
                return Ok(device);
            }
            run("nbd-client", &["-d".as_ref(), device.as_os_str()])?;
            // The device is free again when udev has closed it.
            wait(READY, || !is_connected(&device));
        }
    }
    Err(last)
}

/// Returns how many connections of a device the kernel receives from: each has a thread of its own,
/// whose name ends in `+nbd0-recv`.
///
/// Under load, Linux (before its commit e5a30c303b07) can give the receivers of all connections to
/// one thread, which runs the first of them for ever; answers on the other connections are not
/// read.
fn receivers(proc: &Path, device: &Path) -> usize {
    let end = format!("+{}-recv", device.file_name().unwrap_or_default().display());
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| fs::read_to_string(entry.path().join("comm")).ok());
    names.filter(|name| name.trim_end().ends_with(&end)).count()
}

/// Waits until a condition holds. Returns false if it does not within this time.
fn wait(longest: Duration, holds: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        match holds() {
            true => return true,
            false if begun.elapsed() > longest => return false,
            false => std::thread::sleep(LOOK_EVERY),
        }
    }
}

/// Returns the unconnected devices of the kernel's client, by number.
fn free_devices(sys_block: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(sys_block).into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix("nbd")?.parse::<u32>().ok();
    let mut free: Vec<u32> = entries.filter_map(number).collect();
    free.retain(|number| !sys_block.join(format!("nbd{number}/pid")).exists());
    free.sort_unstable();
    free.into_iter().map(|number| PathBuf::from(format!("/dev/nbd{number}"))).collect()
}

fn sys_folder(device: &Path) -> PathBuf {
    Path::new("/sys/block").join(device.file_name().unwrap_or_default())
}

fn is_connected(device: &Path) -> bool {
    sys_folder(device).join("pid").exists()
}

fn size_bytes(device: &Path) -> u64 {
    let sectors = fs::read_to_string(sys_folder(device).join("size")).unwrap_or_default();
    512 * sectors.trim().parse::<u64>().unwrap_or(0)
}

/// Returns the use of a device, with the command that ends it.
fn user_of(device: &Path) -> Option<String> {
    let by = use_of_device(device)?;
    let end = match &by {
        DeviceUse::Mounted(point) => format!("run 'umount {}' first", sets::quoted(point)),
        DeviceUse::Swap => format!("run 'swapoff {}' first", device.display()),
        DeviceUse::Part(_) => "take that away first".into(),
    };
    Some(format!("{by}; {end}"))
}

/// Reads a name that the folder of the links can have.
fn device_name(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    match !text.is_empty() && text.len() <= 64 && text.bytes().all(plain) && !text.starts_with('.') {
        true => Ok(text.into()),
        false => {
            Err("a name has 1 to 64 letters, digits, '-', '_' and '.', and does not begin with '.'".into())
        }
    }
}

fn default_name(folder: &Path) -> Result<String, Failure> {
    let last = folder.file_name().unwrap_or_default().to_string_lossy();
    device_name(&last).map_err(|_| {
        Failure::Input(format!("the folder's name '{last}' cannot be a device's; give one with --name NAME."))
    })
}

/// Returns all records. Files without the form of a record are ignored.
fn records() -> Result<Vec<Record>, Failure> {
    let entries = match fs::read_dir(RECORDS) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Failure::file("read", Path::new(RECORDS), &error)),
    };
    let read = |entry: fs::DirEntry| {
        parse(&Path::new("/dev").join(entry.file_name()), &fs::read_to_string(entry.path()).ok()?)
    };
    Ok(entries.flatten().filter_map(read).collect())
}

/// Returns the folders of the attached volumes.
pub fn attached_folders() -> Vec<PathBuf> {
    let attached = records().unwrap_or_default().into_iter();
    attached.filter(|known| is_connected(&known.device)).map(|known| known.folder).collect()
}

fn parse(device: &Path, text: &str) -> Option<Record> {
    let mut lines = text.lines();
    let mut value = |key: &str| lines.next()?.strip_prefix(key);
    let (name, folder) = (value(NAME)?, value(FOLDER)?);
    let serves = match value(SERVES)? {
        "1" => true,
        "0" => false,
        _ => return None,
    };
    Some(Record { name: name.into(), folder: folder.into(), device: device.into(), serves })
}

fn record_path(device: &Path) -> PathBuf {
    Path::new(RECORDS).join(device.file_name().unwrap_or_default())
}

/// Writes the record of a device and makes its link.
fn keep(record: &Record) -> Result<(), Failure> {
    let path = record_path(&record.device);
    let (name, folder) = (&record.name, record.folder.display());
    let text = format!("{NAME}{name}\n{FOLDER}{folder}\n{SERVES}{}\n", u8::from(record.serves));
    fs::write(&path, text).map_err(|error| Failure::file("write", &path, &error))?;
    let link = Path::new(LINKS).join(&record.name);
    if Path::new(UDEV).exists() {
        let begun = Instant::now();
        while begun.elapsed() < LINKED {
            have_udev_look(&record.device)?;
            if wait(ANNOUNCED, || fs::canonicalize(&link).is_ok_and(|found| found == record.device)) {
                return Ok(());
            }
        }
        note(&format!(
            "udev made no link within {} s, so systemd has no unit for {}; is 60-pantile.rules installed?",
            LINKED.as_secs(),
            link.display()
        ));
    }
    remove(&link)?;
    symlink(&record.device, &link).map_err(|error| Failure::file("make", &link, &error))
}

/// Removes the record and the link of a device.
fn forget(record: &Record) -> Result<(), Failure> {
    remove(&record_path(&record.device))?;
    if Path::new(UDEV).exists() {
        have_udev_look(&record.device)?;
    }
    remove(&Path::new(LINKS).join(&record.name))
}

/// Makes the kernel announce a device as changed, so that udev applies its rules.
fn have_udev_look(device: &Path) -> Result<(), Failure> {
    let path = sys_folder(device).join("uevent");
    fs::write(&path, "change").map_err(|error| Failure::file("write", &path, &error))
}

fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Failure::file("remove", path, &error)),
        _ => Ok(()),
    }
}

fn make_folder(path: &str) -> Result<(), Failure> {
    match fs::DirBuilder::new().mode(0o755).create(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Err(Failure::Input("attaching a device needs root; run it with sudo.".into()))
        }
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(Failure::file("make", Path::new(path), &error))
        }
        _ => Ok(()),
    }
}

/// Runs a program to its end. Errors: it is not installed, or its last line of output.
fn run(program: &str, arguments: &[&OsStr]) -> Result<(), Failure> {
    let done = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let done = done.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::System(format!(
            "{program} is not installed; install it (Debian: apt-get install {program}) and try again."
        )),
        _ => Failure::System(format!("cannot start {program}: {error}.")),
    })?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    Err(Failure::System(format!("{program} failed: {last}")))
}

/// Runs a command of this program. Its output is shown, and its failure is returned.
fn run_own(arguments: &[&OsStr]) -> Result<(), Failure> {
    let own = std::env::current_exe()
        .map_err(|error| Failure::System(format!("cannot find the file of this program: {error}.")))?;
    let done = Command::new(own).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).output();
    let done = done.map_err(|error| Failure::System(format!("cannot start this program again: {error}.")))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let text = said.trim().strip_prefix("pantile: ").unwrap_or(said.trim()).to_owned();
    Err(match done.status.code() {
        Some(2) => Failure::Input(text),
        Some(1) => Failure::Damage(text),
        _ => Failure::System(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_devices_are_those_without_a_client_by_number() {
        let sys = tempfile::tempdir().expect("a folder");
        for device in ["nbd0", "nbd10", "nbd2", "sda", "nbdx"] {
            fs::create_dir(sys.path().join(device)).expect("a folder");
        }
        fs::write(sys.path().join("nbd0/pid"), "77").expect("a file");
        let free = free_devices(sys.path());
        assert_eq!(free, ["/dev/nbd2", "/dev/nbd10"].map(PathBuf::from));
        assert_eq!(free_devices(&sys.path().join("nowhere")), Vec::<PathBuf>::new());
    }

    #[test]
    fn receivers_are_the_threads_that_run_for_this_device() {
        let proc = tempfile::tempdir().expect("a folder");
        let threads = ["kworker/u5:0+nbd1-recv", "nbd1-recv+nbd1-recv", "kworker/u5:1-nbd1-recv"];
        let others = ["nbd1-recv", "kworker/u5:2+nbd11-recv", "nbdkit"];
        for (process, name) in threads.iter().chain(&others).enumerate() {
            fs::create_dir(proc.path().join(process.to_string())).expect("a folder");
            fs::write(proc.path().join(format!("{process}/comm")), format!("{name}\n")).expect("a file");
        }
        fs::write(proc.path().join("uptime"), "1.5 1.2\n").expect("a file");
        assert_eq!(receivers(proc.path(), Path::new("/dev/nbd1")), 2);
        assert_eq!(receivers(proc.path(), Path::new("/dev/nbd2")), 0);
    }

    #[test]
    fn a_record_is_read_back_and_another_text_is_none() {
        let device = Path::new("/dev/nbd3");
        let text = "PANTILE_NAME=tank\nPANTILE_FOLDER=/srv/my tank\nPANTILE_SERVES=1\n";
        let record = parse(device, text).expect("a record");
        assert_eq!((record.folder, record.serves), (PathBuf::from("/srv/my tank"), true));
        assert_eq!((record.name.as_str(), record.device.as_path()), ("tank", device));
        assert_eq!(parse(device, &text.replace("=1", "=what")), None);
        assert_eq!(parse(device, "PANTILE_NAME=tank\nPANTILE_FOLDER=/srv/tank\n"), None);
    }

    #[test]
    fn names_that_would_leave_the_folder_of_links_are_refused() {
        assert_eq!(device_name("tank-2.b_c").as_deref(), Ok("tank-2.b_c"));
        for name in ["", ".", "..", "a/b", "a b", ".hidden"] {
            assert!(device_name(name).is_err(), "{name}");
        }
    }
}
