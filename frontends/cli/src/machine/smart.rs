//! Health of disks as their firmware reports it, read by `smartctl` where it is installed.
//!
//! A disk that sleeps is not woken. `smartctl` has a time limit; one that hangs on a dead disk is
//! left behind, and that disk is not asked again before it ends.

use crate::machine::all::{now, write_whole};
use pantile_host::DiskReport;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait for the answers of all disks.
const PATIENCE: Duration = Duration::from_secs(10);

/// Shortest time between two questions of the monitor to a disk.
const ASK_EVERY: u64 = 30 * 60;

/// Temperature above which a disk is reported. NVMe disks have their own limit and report it.
const HOT_CELSIUS: i64 = 60;

/// Disks that have not answered yet.
static ASKED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// The health of a disk. A number that it does not report is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Smart {
    /// Verdict of the firmware: false if it expects a failure.
    pub passed: Option<bool>,
    pub temperature_celsius: Option<i64>,
    /// Sectors that were replaced by spare ones.
    pub reallocated_sectors: Option<u64>,
    /// Sectors that could not be read and wait to be written.
    pub pending_sectors: Option<u64>,
    /// Sectors that a test of the disk could not read.
    pub uncorrectable_sectors: Option<u64>,
    /// Errors of the medium of an NVMe disk.
    pub media_errors: Option<u64>,
    /// Share of the rated writes of an NVMe disk that is used, in percent.
    pub used_percent: Option<u64>,
    /// True if the disk slept and was not asked; the numbers are those of the last answer.
    pub asleep: bool,
    /// True if the disk reports its temperature limit itself.
    pub has_own_limit: bool,
}

/// A disk of a volume, and its health.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiskSmart {
    /// The name, such as `sda`.
    pub disk: String,
    /// The members on it.
    pub devices: Vec<u32>,
    #[serde(flatten)]
    pub smart: Smart,
}

impl DiskSmart {
    /// Returns a sentence for each fault of the disk: its kind, a word that changes with it, and
    /// the text.
    pub fn sentences(&self, root: &Path) -> Vec<(&'static str, String, String)> {
        let devices: Vec<String> = self.devices.iter().map(u32::to_string).collect();
        let (first, s) = (devices.first(), if devices.len() == 1 { "" } else { "s" });
        let sentence = |(kind, word, fact): (&'static str, String, String)| {
            let next = first.filter(|_| kind != "hot").map_or(String::new(), |first| {
                let vol = crate::sets::quoted(root);
                format!("; 'pantile replace {vol} {first} NEW' copies it to a new disk")
            });
            let disk = crate::sets::name(&self.disk);
            (kind, word, format!("The disk {disk} (device{s} {}) {fact}{next}.", devices.join(", ")))
        };
        self.smart.faults().into_iter().map(sentence).collect()
    }
}

impl Smart {
    /// Reads the answer of `smartctl --json`; `None` if it has nothing about the disk.
    fn of(text: &[u8]) -> Option<Smart> {
        let json: Value = serde_json::from_slice(text).ok()?;
        let number = |pointer: &str| json.pointer(pointer).and_then(Value::as_u64);
        let raw = |id: u64| {
            let table = json.pointer("/ata_smart_attributes/table")?.as_array()?;
            let own = table.iter().find(|line| line["id"].as_u64() == Some(id))?;
            own.pointer("/raw/value")?.as_u64()
        };
        let messages = json.pointer("/smartctl/messages").and_then(Value::as_array);
        let sleeps = |message: &Value| {
            let text = message["string"].as_str().unwrap_or_default();
            ["STANDBY mode", "SLEEP mode"].iter().any(|mode| text.contains(mode))
        };
        let asleep = messages.is_some_and(|messages| messages.iter().any(sleeps));
        let nvme = "/nvme_smart_health_information_log";
        let smart = Smart {
            passed: json.pointer("/smart_status/passed").and_then(Value::as_bool),
            temperature_celsius: json.pointer("/temperature/current").and_then(Value::as_i64),
            reallocated_sectors: raw(5).or_else(|| number("/scsi_grown_defect_list")),
            pending_sectors: raw(197),
            uncorrectable_sectors: raw(198),
            media_errors: number(&format!("{nvme}/media_errors")),
            used_percent: number(&format!("{nvme}/percentage_used")),
            asleep,
            has_own_limit: json.pointer(nvme).is_some(),
        };
        (smart != Smart::default()).then_some(smart)
    }

    /// Returns what an operator must know, each with a word that changes with it.
    pub fn faults(&self) -> Vec<(&'static str, String, String)> {
        let mut faults = Vec::new();
        if self.passed == Some(false) {
            faults.push(("failing", "failing".into(), "expects to fail soon".into()));
        }
        let bad = [
            (self.pending_sectors, "that cannot be read"),
            (self.uncorrectable_sectors, "that its tests could not read"),
            (self.reallocated_sectors, "replaced by spare ones"),
        ];
        let said: Vec<String> = bad
            .iter()
            .filter_map(|(number, what)| Some((number.filter(|number| *number > 0)?, what)))
            .map(|(number, what)| format!("{} {what}", crate::describe::count(number as usize, "sector")))
            .collect();
        if !said.is_empty() {
            let word = bad.map(|(number, _)| number.unwrap_or(0).to_string()).join(" ");
            faults.push(("sectors", word, format!("has {}", said.join(", "))));
        }
        if let Some(errors) = self.media_errors.filter(|errors| *errors > 0) {
            let text = format!("has had {}", crate::describe::count(errors as usize, "error of its medium"));
            faults.push(("media", errors.to_string(), text));
        }
        if let Some(used) = self.used_percent.filter(|used| *used >= 100) {
            let text = format!("has used {used} % of the writes that it is made for");
            faults.push(("worn", "worn".into(), text));
        }
        if let Some(hot) = self.temperature_celsius.filter(|hot| *hot > HOT_CELSIUS && !self.has_own_limit) {
            faults.push(("hot", "hot".into(), format!("is hot: {hot} °C")));
        }
        faults
    }

    /// Returns the health in a few words: `34 °C`, `failing, 8 bad sectors`.
    pub fn short(&self) -> String {
        let mut words = Vec::new();
        words.extend((self.passed == Some(false)).then(|| "failing".to_string()));
        let bad = [self.pending_sectors, self.uncorrectable_sectors, self.reallocated_sectors];
        let bad = bad.into_iter().flatten().max().unwrap_or(0);
        words.extend((bad > 0).then(|| crate::describe::count(bad as usize, "bad sector")));
        let errors = self.media_errors.filter(|errors| *errors > 0);
        words.extend(errors.map(|errors| crate::describe::count(errors as usize, "error")));
        words.extend(self.asleep.then(|| "asleep".to_string()));
        words.extend(self.temperature_celsius.map(|degrees| format!("{degrees} °C")));
        if words.is_empty() { "-".into() } else { words.join(", ") }
    }
}

/// Returns the health of the disks of a volume; of none without `smartctl`.
pub fn of_disks(disks: &[DiskReport]) -> Vec<DiskSmart> {
    let names: BTreeSet<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
    let known = ask(&names);
    let of = |disk: &DiskReport| {
        let (disk, devices) = (disk.name.clone(), disk.devices.clone());
        known.get(&disk).map(|smart| DiskSmart { devices, smart: smart.clone(), disk })
    };
    disks.iter().filter_map(of).collect()
}

/// A disk's last answer, stored in the folder `state`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Last {
    /// Seconds since 1970 at the last question.
    asked_at: u64,
    /// The serial number, which differs if a new disk has the name of the old one.
    serial: Option<String>,
    smart: Option<Smart>,
}

/// The last answers of disks, by name: no disk is asked again before [`ASK_EVERY`] is over, also
/// after a restart.
pub struct Answers {
    disks: BTreeMap<String, Last>,
}

impl Answers {
    /// Reads the answers in the folder `state`, and asks disks whose answer is too old.
    pub fn of(state: &Path, disks: &[&DiskReport]) -> Answers {
        let path = state.join("smart.json");
        let text = std::fs::read(&path).unwrap_or_default();
        let mut known: BTreeMap<String, Last> = serde_json::from_slice(&text).unwrap_or_default();
        let (at, before) = (now(), known.len());
        known.retain(|name, last| disks.iter().any(|disk| disk.name == *name && disk.serial == last.serial));
        // A clock that was set back does not silence a disk.
        let is_due = |name: &str| known.get(name).is_none_or(|last| at.abs_diff(last.asked_at) >= ASK_EVERY);
        let due: BTreeSet<&str> =
            disks.iter().map(|disk| disk.name.as_str()).filter(|name| is_due(name)).collect();
        if due.is_empty() && before == known.len() {
            return Answers { disks: known };
        }
        let mut answers = ask(&due);
        for disk in disks.iter().filter(|disk| due.contains(disk.name.as_str())) {
            let new = answers.remove(&disk.name);
            let old = known.remove(&disk.name).and_then(|last| last.smart);
            let smart = match (new, old) {
                (Some(Smart { asleep: true, .. }), Some(old)) => Some(Smart { asleep: true, ..old }),
                (new, old) => new.or(old),
            };
            let last = Last { asked_at: at, serial: disk.serial.clone(), smart };
            known.insert(disk.name.clone(), last);
        }
        // Without the file the disks are asked again after a restart.
        let _ = write_whole(&path, &crate::json::text(&known));
        Answers { disks: known }
    }

    /// Returns the health of the disks of a volume.
    pub fn on(&self, disks: &[DiskReport]) -> Vec<DiskSmart> {
        let of = |disk: &DiskReport| {
            let smart = self.disks.get(&disk.name)?.smart.clone()?;
            Some(DiskSmart { disk: disk.name.clone(), devices: disk.devices.clone(), smart })
        };
        disks.iter().filter_map(of).collect()
    }
}

/// Asks disks beside one another.
fn ask(names: &BTreeSet<&str>) -> BTreeMap<String, Smart> {
    let begun: Vec<_> = names.iter().filter_map(|name| Some((*name, begin(name)?))).collect();
    let until = Instant::now() + PATIENCE;
    let mut known = BTreeMap::new();
    for (name, (process, answer)) in begun {
        match answer.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(text) => known.extend(Smart::of(&text).map(|smart| (name.to_string(), smart))),
            Err(_) => crate::machine::deliver::end_group(process),
        }
    }
    known
}

/// Starts `smartctl` for a disk; `None` if that is no block device, is still being asked, or the
/// program is not installed.
fn begin(name: &str) -> Option<(u32, Receiver<Vec<u8>>)> {
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_!".contains(c));
    if !is_name || !Path::new("/sys/class/block").join(name).exists() {
        return None;
    }
    let asked = || ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    if !asked().insert(name.to_string()) {
        return None;
    }
    let Some(child) = start(&Path::new("/dev").join(name.replace('!', "/"))) else {
        asked().remove(name);
        return None;
    };
    let (process, name, (sender, answer)) = (child.id(), name.to_string(), channel());
    std::thread::spawn(move || {
        let output = child.wait_with_output();
        asked().remove(&name);
        let _ = output.map(|output| sender.send(output.stdout));
    });
    Some((process, answer))
}

fn start(device: &Path) -> Option<Child> {
    let start = |program: &str| {
        let mut command = Command::new(program);
        command.args(["--json", "--nocheck=standby", "--health", "--attributes"]).arg(device);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0).spawn()
    };
    match start("smartctl") {
        // PATH of users has no sbin.
        Err(error) if error.kind() == ErrorKind::NotFound => start("/usr/sbin/smartctl").ok(),
        started => started.ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shortened answers of smartctl 7.4.
    const ATA: &str = r#"{"json_format_version":[1,0],"smartctl":{"version":[7,4],"argv":["smartctl","--json"],
        "exit_status":0},"device":{"name":"/dev/sda","info_name":"/dev/sda [SAT]","type":"sat","protocol":"ATA"},
        "smart_status":{"passed":true},"ata_smart_attributes":{"revision":16,"table":[
        {"id":5,"name":"Reallocated_Sector_Ct","value":100,"worst":100,"thresh":10,"when_failed":"",
         "flags":{"value":51,"string":"PO--CK "},"raw":{"value":16,"string":"16"}},
        {"id":194,"name":"Temperature_Celsius","value":64,"worst":52,"thresh":0,"when_failed":"",
         "raw":{"value":206159609892,"string":"36 (Min/Max 17/48)"}},
        {"id":197,"name":"Current_Pending_Sector","value":200,"worst":200,"thresh":0,"when_failed":"",
         "raw":{"value":8,"string":"8"}},
        {"id":198,"name":"Offline_Uncorrectable","value":200,"worst":200,"thresh":0,"when_failed":"",
         "raw":{"value":0,"string":"0"}}]},
        "power_on_time":{"hours":21034},"power_cycle_count":41,"temperature":{"current":36}}"#;
    const NVME: &str = r#"{"json_format_version":[1,0],"smartctl":{"version":[7,4],"exit_status":8},
        "device":{"name":"/dev/nvme0n1","info_name":"/dev/nvme0n1","type":"nvme","protocol":"NVMe"},
        "smart_status":{"passed":false,"nvme":{"value":4}},"nvme_smart_health_information_log":{
        "critical_warning":4,"temperature":71,"available_spare":100,"available_spare_threshold":10,
        "percentage_used":104,"data_units_read":16513,"data_units_written":2133,"media_errors":3,
        "num_err_log_entries":5,"temperature_sensors":[71,64]},"temperature":{"current":71},
        "power_on_time":{"hours":5123}}"#;
    const ASLEEP: &str = r#"{"json_format_version":[1,0],"smartctl":{"version":[7,4],"messages":[
        {"string":"Device is in STANDBY mode, exit(2)","severity":"information"}],"exit_status":2},
        "device":{"name":"/dev/sdb","type":"sat","protocol":"ATA"}}"#;
    const CLOSED: &str = r#"{"json_format_version":[1,0],"smartctl":{"version":[7,4],"messages":[
        {"string":"Smartctl open device: /dev/sda failed: Permission denied","severity":"error"}],"exit_status":2}}"#;

    fn words(smart: &Smart) -> Vec<(&'static str, String)> {
        smart.faults().into_iter().map(|(kind, word, _)| (kind, word)).collect()
    }

    #[test]
    fn answers_of_ata_and_nvme_disks_are_understood() {
        let ata = Smart::of(ATA.as_bytes()).expect("an answer");
        assert_eq!((ata.passed, ata.temperature_celsius), (Some(true), Some(36)));
        assert_eq!(
            (ata.reallocated_sectors, ata.pending_sectors, ata.uncorrectable_sectors, ata.media_errors),
            (Some(16), Some(8), Some(0), None)
        );
        assert_eq!(words(&ata), [("sectors", "8 0 16".to_string())]);
        assert_eq!(ata.short(), "16 bad sectors, 36 °C");
        let nvme = Smart::of(NVME.as_bytes()).expect("an answer");
        assert_eq!((nvme.passed, nvme.media_errors, nvme.pending_sectors), (Some(false), Some(3), None));
        let kinds: Vec<&str> = nvme.faults().into_iter().map(|(kind, ..)| kind).collect();
        assert_eq!(kinds, ["failing", "media", "worn"], "its temperature is in its own verdict");
        let asleep = Smart::of(ASLEEP.as_bytes()).expect("an answer");
        assert!(asleep.asleep && asleep.faults().is_empty() && asleep.short() == "asleep");
        for nothing in [CLOSED, "", "{", "[]", "{\"temperature\":7}"] {
            assert_eq!(Smart::of(nothing.as_bytes()), None, "{nothing}");
        }
        let hot = Smart { temperature_celsius: Some(61), ..ata };
        assert!(words(&hot).contains(&("hot", "hot".into())));
    }
}
