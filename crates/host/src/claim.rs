//! The claim: it shows to other hosts that can reach the same devices, also by other paths, that
//! this host serves the volume.
//!
//! The claim is written on every device before the volume is opened, again every [`PERIOD`] by the
//! engine's thread, without a flush, and once more when the volume was stopped in order. An opening
//! of a volume with a claim that was not given back watches whether the claim is still written
//! ("beats"). A claim is no lock: if two hosts begin at the same moment, both may pass; later one
//! of them finds the other's claim and stops. Before a write the engine needs a check of the claim
//! that is more recent than the time for which an opening watches ([`crate::engine`]).

use crate::engine::unix_time;
use crate::folder::random_id;
use crate::memory::BLOCK;
use crate::timely::{PATIENCE, Timely};
use crate::{FolderError, HostError};
use pantile_device::{AlignedBuf, Device};
use pantile_format::volume::{CLAIM_BLOCK, Claim, Claimant, Session, Superblock};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Period of the claim's writes.
pub(crate) const PERIOD: Duration = Duration::from_secs(2);

/// Time without a beat after which a claim counts as left behind: two periods and the duration of
/// the longest write.
pub(crate) const WATCH: Duration = Duration::from_secs(5);

/// Interval between two reads of a watched claim.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Ids of the claimants of this process that have not ended.
static LIVE: Mutex<BTreeSet<[u8; 16]>> = Mutex::new(BTreeSet::new());

fn live() -> MutexGuard<'static, BTreeSet<[u8; 16]>> {
    LIVE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A claimant of this process. It counts as alive until it is dropped.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) claimant: Claimant,
}

impl Own {
    pub(crate) fn new() -> Result<Own, FolderError> {
        let process = std::process::id();
        let claimant = Claimant {
            id: random_id()?,
            boot: boot(),
            process_space: process_space(),
            process,
            process_start: process_start(process).unwrap_or(0),
            host: read("/proc/sys/kernel/hostname").trim().to_owned(),
        };
        live().insert(claimant.id);
        Ok(Own { claimant })
    }

    fn claim(&self, superblock: &Superblock, is_held: bool, beat: u64) -> Claim {
        let (volume, claimant) = (superblock.volume, self.claimant.clone());
        Claim { volume, claimant, is_held, beat, session: superblock.session, at: unix_time() }
    }

    /// Returns true if a claimant serves, false if it has ended; `None`: not known, so that its
    /// claim has to be watched.
    pub(crate) fn serves(&self, other: &Claimant) -> Option<bool> {
        let own = &self.claimant;
        let is_near =
            own.boot != [0; 16] && own.boot == other.boot && own.process_space == other.process_space;
        if !is_near || other.process_start == 0 {
            return None;
        }
        if (other.process, other.process_start) == (own.process, own.process_start) {
            return Some(live().contains(&other.id));
        }
        Some(process_start(other.process) == Some(other.process_start))
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        live().remove(&self.claimant.id);
    }
}

/// Returns other hosts' claims on the devices that were not given back.
pub(crate) fn held(
    devices: &[Option<Arc<dyn Device>>],
    superblock: &Superblock,
    own: Option<&Own>,
) -> Vec<Claim> {
    let mut found = of_others(devices, superblock, own);
    found.retain(|claim| claim.is_held);
    found
}

/// Returns other hosts' claims on the devices, including those that were given back.
fn of_others(devices: &[Option<Arc<dyn Device>>], superblock: &Superblock, own: Option<&Own>) -> Vec<Claim> {
    let found = devices.iter().flatten().filter_map(|device| read_claim(&Timely::of(device), superblock));
    let is_other = |claim: &Claim| own.is_none_or(|own| own.claimant.id != claim.claimant.id);
    found.filter(is_other).collect()
}

/// Returns the newest claim on the devices, if it was not given back.
pub(crate) fn newest_held(devices: &[Option<Arc<dyn Device>>], superblock: &Superblock) -> Option<Claim> {
    left_behind(&of_others(devices, superblock, None)).cloned()
}

/// Returns the newest of these claims, if it was not given back. A claimant counts as having given
/// its claim back if any device shows that: a device that was away then still has the older state.
fn left_behind(all: &[Claim]) -> Option<&Claim> {
    let last = all.iter().map(|claim| claim.session).max()?;
    let is_given_back = |id| all.iter().any(|claim| !claim.is_held && claim.claimant.id == id);
    all.iter().find(|claim| claim.session == last && claim.is_held && !is_given_back(claim.claimant.id))
}

fn read_claim(device: &dyn Device, superblock: &Superblock) -> Option<Claim> {
    let mut buffer = AlignedBuf::zeroed(BLOCK);
    device.read_at(CLAIM_BLOCK.0 * BLOCK as u64, buffer.whole_mut()).ok()?;
    Claim::decode(&buffer, superblock.volume).ok()
}

/// Makes sure that no other host serves a volume, and claims it. Returns true if the last
/// claim before was not given back.
///
/// Errors: `Taken` if another host serves the volume, or its claim has beaten within `watch`.
pub(crate) fn take(
    devices: &[Option<Arc<dyn Device>>],
    superblock: &Superblock,
    own: &Own,
    watch: Duration,
) -> Result<bool, FolderError> {
    let all = of_others(devices, superblock, Some(own));
    let first: Vec<&Claim> = all.iter().filter(|claim| claim.is_held).collect();
    let claimed = |claim: &Claim| {
        let Claimant { host, process, .. } = &claim.claimant;
        FolderError::from(HostError::Taken { host: host.clone(), process: *process })
    };
    if let Some(claim) = first.iter().find(|claim| own.serves(&claim.claimant) == Some(true)) {
        return Err(claimed(claim));
    }
    let begun = Instant::now();
    let needs_watching = first.iter().any(|claim| own.serves(&claim.claimant).is_none());
    while needs_watching && begun.elapsed() < watch {
        std::thread::sleep(LOOK_EVERY.min(watch));
        let now = held(devices, superblock, Some(own));
        let is_new = |claim: &&Claim| {
            let before = first.iter().filter(|old| old.claimant.id == claim.claimant.id);
            before.map(|old| old.beat).max().is_none_or(|beat| claim.beat > beat)
        };
        if let Some(claim) = now.iter().find(is_new) {
            return Err(claimed(claim));
        }
    }
    write(devices, superblock, own, true);
    Ok(left_behind(&all).is_some())
}

/// Longest wait for a device when the claim is given back. If a device takes longer, its claim
/// stays: the next host checks whether this process lives, or watches the claim.
const GIVING_BACK: Duration = Duration::from_secs(1);

/// Gives the claim back on every device that has this host's claim.
pub(crate) fn give_back(devices: &[Option<Arc<dyn Device>>], superblock: &Superblock, own: &Own) {
    let is_ours = |device: &Arc<dyn Device>| {
        let found = read_claim(&Timely::new(device.clone(), GIVING_BACK), superblock);
        found.is_some_and(|claim| claim.claimant.id == own.claimant.id)
    };
    let ours: Vec<_> = devices.iter().flatten().filter(|device| is_ours(device)).cloned().map(Some).collect();
    write(&ours, superblock, own, false);
}

/// Writes the claim, held or given back, on every device. Errors are ignored: the volume detects a
/// device that fails.
fn write(devices: &[Option<Arc<dyn Device>>], superblock: &Superblock, own: &Own, is_held: bool) {
    let mut buffer = AlignedBuf::zeroed(BLOCK);
    buffer.copy_from_slice(&own.claim(superblock, is_held, u64::from(!is_held)).encode());
    let patience = if is_held { PATIENCE } else { GIVING_BACK };
    for device in devices.iter().flatten() {
        let _ =
            Timely::new(device.clone(), patience).write_at(CLAIM_BLOCK.0 * BLOCK as u64, &[buffer.whole()]);
    }
}

/// The owner of a claim.
#[derive(Debug)]
pub(crate) enum Whose {
    Ours,
    Anothers(Claimant),
    Nobodys,
}

/// The claim that the engine's thread writes again every period.
pub(crate) struct Beating {
    pub(crate) claim: Claim,
    pub(crate) next: Instant,
}

impl Beating {
    /// Returns the claim at the start of serving a volume.
    pub(crate) fn new(superblock: &Superblock, own: &Own) -> Beating {
        Beating { claim: own.claim(superblock, true, 0), next: Instant::now() }
    }

    /// Returns the claim for the next beat.
    pub(crate) fn beat(&mut self, session: Session) -> Vec<u8> {
        (self.claim.beat, self.claim.at, self.claim.session) = (self.claim.beat + 1, unix_time(), session);
        self.claim.encode()
    }

    /// Judges the claim on a device that had this host's claim. A claim of another host was written
    /// since, even if it was given back.
    pub(crate) fn whose(&self, bytes: &[u8]) -> Whose {
        match Claim::decode(bytes, self.claim.volume) {
            Ok(found) if found.claimant.id == self.claim.claimant.id => Whose::Ours,
            Ok(found) => Whose::Anothers(found.claimant),
            Err(_) => Whose::Nobodys,
        }
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Returns the identity of the present boot of the system; zeros if it has none.
fn boot() -> [u8; 16] {
    let text = read("/proc/sys/kernel/random/boot_id");
    let digits: Vec<u8> =
        text.bytes().filter_map(|byte| char::from(byte).to_digit(16)).map(|d| d as u8).collect();
    let mut id = [0; 16];
    if digits.len() == 32 {
        id.iter_mut().zip(digits.as_chunks::<2>().0).for_each(|(byte, pair)| *byte = pair[0] << 4 | pair[1]);
    }
    id
}

/// Returns the namespace of process numbers: the same number in another container is another
/// process.
fn process_space() -> u64 {
    let link = std::fs::read_link(Path::new("/proc/self/ns/pid")).unwrap_or_default();
    let digits: String = link.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// Returns the start time of a process, in units of the system; `None`: it does not exist, or is a
/// zombie.
fn process_start(process: u32) -> Option<u64> {
    let stat = read(&format!("/proc/{process}/stat"));
    // The fields follow the process name, which may contain any character.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(start)
}

#[cfg(test)]
mod hosts;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Host, HostOptions};
    use pantile_code::Code;
    use pantile_device::{Fault, Faulty, MemoryDevice, OpKind};
    use pantile_format::volume::{HistoryId, VolumeId};
    use pantile_volume::{Birth, Found, Geometry, Slot, format_volume};

    pub(crate) type Devices = Vec<Option<Arc<dyn Device>>>;

    pub(crate) fn volume() -> (Geometry, Devices, Superblock) {
        let code = Code::parse("raid5:2").expect("a code");
        let geometry = crate::usual_geometry(&code, VolumeId([7; 16]), 1 << 20).expect("a volume");
        let device = |slot: u32| {
            let len = geometry.device_blocks(Slot(slot)) * BLOCK as u64;
            Some(Arc::new(MemoryDevice::new(format!("memory {slot}"), len)) as Arc<dyn Device>)
        };
        let devices: Devices = (0..3).map(device).collect();
        let birth = Birth { history: HistoryId([1; 16]), name: "test".into(), created: 0 };
        let mut first = None;
        for (slot, at, bytes) in format_volume(&geometry, &birth).expect("it can be written") {
            let mut buffer = AlignedBuf::zeroed(bytes.len());
            buffer.copy_from_slice(&bytes);
            let device = devices[slot.0 as usize].as_ref().expect("all are there");
            device.write_at(at.0 * BLOCK as u64, &[buffer.whole()]).expect("memory writes");
            first = first.or_else(|| Superblock::decode(&bytes).ok());
        }
        (geometry, devices, first.expect("a superblock"))
    }

    pub(super) fn open(
        geometry: Geometry,
        devices: &[Option<Arc<dyn Device>>],
        of: &Superblock,
        own: &Own,
    ) -> Host {
        let fresh = HistoryId(own.claimant.id);
        let beating = Beating::new(of, own);
        let mut options = HostOptions::for_devices(devices.len());
        (options.io.workers_per_device, options.io.background_workers_per_device) = (4, 2);
        Host::open_claimed(geometry, devices.to_vec(), fresh, &options, beating).expect("it opens")
    }

    /// A claimant on another host.
    pub(super) fn stranger() -> Own {
        let mut own = Own::new().expect("an id");
        own.claimant.boot = own.claimant.id;
        own
    }

    #[test]
    fn a_claim_that_beats_is_refused_and_one_that_was_left_behind_or_given_back_is_not() {
        let (_, devices, superblock) = volume();
        let (own, other) = (Own::new().expect("an id"), stranger());
        let watch = Duration::from_millis(600);
        take(&devices, &superblock, &other, watch).expect("no host serves it");
        // The claim was left behind: it is watched, and taken since it does not beat.
        let begun = Instant::now();
        take(&devices, &superblock, &own, watch).expect("it does not beat");
        assert!(begun.elapsed() >= watch);
        write(&devices, &superblock, &own, false);
        // The claim was given back: it is taken at once.
        write(&devices, &superblock, &other, false);
        let begun = Instant::now();
        take(&devices, &superblock, &own, Duration::from_secs(60)).expect("it was given back");
        assert!(begun.elapsed() < Duration::from_secs(30));
        write(&devices, &superblock, &own, false);
        // The claim beats during the watch.
        write(&devices, &superblock, &other, true);
        let beats = devices.clone();
        let beat = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            let mut beating = Beating::new(&superblock, &other);
            let mut buffer = AlignedBuf::zeroed(BLOCK);
            buffer.copy_from_slice(&beating.beat(Session(1)));
            let device = beats[1].as_ref().expect("it is there");
            device.write_at(CLAIM_BLOCK.0 * BLOCK as u64, &[buffer.whole()]).expect("memory writes");
            (superblock, other)
        });
        let (_, _, same) = volume();
        let refused = take(&devices, &same, &own, Duration::from_secs(30));
        assert!(matches!(refused, Err(FolderError::Host(HostError::Taken { .. }))), "{refused:?}");
        drop(beat.join());
    }

    #[test]
    fn a_live_server_of_this_system_is_refused_at_once() {
        let (_, devices, superblock) = volume();
        let (own, other) = (Own::new().expect("an id"), Own::new().expect("an id"));
        take(&devices, &superblock, &other, WATCH).expect("no host serves it");
        let begun = Instant::now();
        let refused = take(&devices, &superblock, &own, Duration::from_secs(60));
        assert!(matches!(refused, Err(FolderError::Host(HostError::Taken { .. }))), "{refused:?}");
        drop(other);
        take(&devices, &superblock, &own, Duration::from_secs(60)).expect("it has ended");
        assert!(begun.elapsed() < Duration::from_secs(30), "a known claimant is not watched");
    }

    /// Two hosts use the same devices: the one whose claim was overwritten stops within a period,
    /// and writes nothing after.
    #[test]
    fn a_server_that_finds_the_claim_of_another_stops() {
        let (geometry, devices, superblock) = volume();
        let own = Own::new().expect("an id");
        take(&devices, &superblock, &own, WATCH).expect("no host serves it");
        let host = open(geometry, &devices, &superblock, &own);
        host.handle().write(0, &[5; 4096], true).expect("it is written");
        let other = stranger();
        write(&devices, &superblock, &other, true);
        let begun = Instant::now();
        while host.taken_by().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it goes on");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(host.taken_by(), Some(other.claimant.clone()));
        let refused = host.handle().write(0, &[6; 4096], true);
        assert!(matches!(refused, Err(HostError::Stopped)), "{refused:?}");
        for device in devices.iter().flatten() {
            let found = read_claim(&**device, &superblock).expect("a claim");
            assert_eq!(found.claimant.id, other.claimant.id, "it is not written over");
        }
    }

    #[test]
    fn an_idle_device_that_is_gone_is_lost_within_a_beat() {
        const NO_DEVICE: i32 = 19;
        let (geometry, mut devices, superblock) = volume();
        let faulty = Arc::new(Faulty::new(devices[1].clone().expect("it is there")));
        devices[1] = Some(faulty.clone());
        let own = Own::new().expect("an id");
        take(&devices, &superblock, &own, WATCH).expect("no host serves it");
        let host = open(geometry, &devices, &superblock, &own);
        let claim = CLAIM_BLOCK.0 * BLOCK as u64;
        faulty.fail_within(OpKind::Read, claim..claim + BLOCK as u64, Fault::Errno(NO_DEVICE));
        let begun = Instant::now();
        while host.report().expect("it serves").members[1].attached {
            assert!(begun.elapsed() < Duration::from_secs(30), "it is called present");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A device was taken out, and the server was killed. The next server gets the device back,
    /// with the claim of the first server.
    #[test]
    fn a_returned_device_with_an_ended_claim_is_taken() {
        let (geometry, devices, superblock) = volume();
        let (own, other) = (Own::new().expect("an id"), stranger());
        write(&devices[2..], &superblock, &other, true);
        let without = [devices[0].clone(), devices[1].clone(), None];
        take(&without, &superblock, &own, WATCH).expect("no host serves it");
        let host = open(geometry, &without, &superblock, &own);
        let back = devices[2].clone().expect("it is there");
        host.attach(Slot(2), back.clone(), Found::Stale).expect("it is attached");
        let begun = Instant::now();
        while read_claim(&*back, &superblock).expect("a claim").claimant.id != own.claimant.id {
            assert!(begun.elapsed() < Duration::from_secs(30), "it is not claimed");
            assert_eq!(host.taken_by(), None);
            std::thread::sleep(Duration::from_millis(20));
        }
        host.handle().write(0, &[6; 4096], true).expect("it goes on");
        // From now on a claim of another host on the device counts.
        write(&devices[2..], &superblock, &other, true);
        while host.taken_by().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it goes on");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn this_process_is_there_and_one_that_has_ended_is_not() {
        let own = process_start(std::process::id());
        assert!(own.is_some_and(|start| start > 0), "{own:?}");
        let mut child = std::process::Command::new("true").spawn().expect("a process");
        let number = child.id();
        child.wait().expect("it ends");
        assert_eq!(process_start(number), None);
        assert!(boot() != [0; 16] && process_space() > 0);
    }

    #[test]
    fn a_claimant_of_this_process_serves_as_long_as_it_lives_and_others_have_to_be_watched() {
        let (own, other) = (Own::new().expect("an id"), Own::new().expect("an id"));
        let claimant = other.claimant.clone();
        assert_eq!(own.serves(&claimant), Some(true));
        drop(other);
        assert_eq!(own.serves(&claimant), Some(false));
        assert_eq!(own.serves(&Claimant { boot: [1; 16], ..claimant.clone() }), None);
        assert_eq!(own.serves(&Claimant { process_space: 1, ..claimant.clone() }), None);
        let ended = Claimant { process: u32::MAX, ..claimant };
        assert_eq!(own.serves(&ended), Some(false));
    }
}
