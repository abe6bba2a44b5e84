//! Detection of members that were overwritten while they are served: with zeros, with another
//! volume, by another user of the disk.
//!
//! Reads of such a device find wrong checksums. After some of them its superblocks are read. If
//! none of the three has this volume and slot, the device is given up, like one with too many
//! failed reads. If the volume needs the device, it stays, is reported, and counts as lost.
//!
//! Each check has its own thread, because a device can hang. The maintenance starts checks, takes
//! the results of earlier ones, and waits for none.

use super::replacing::superblocks;
use super::{Service, State};
use crate::Report;
use crate::locks::lock;
use crate::memory::BLOCK;
use crate::text::quoted;
use pantile_device::{AlignedBuf, Device, Identity};
use pantile_format::volume::{Superblock, VolumeId};
use pantile_volume::{DeviceState, EventKind, Reason, Slot};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Number of wrong blocks and headers since the last check after which a device is checked.
const WRONG_MOST: u64 = 16;

/// Shortest interval between two checks of a device.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// By slot, the last check of its device.
type Looks = Arc<Mutex<BTreeMap<u32, Look>>>;

struct Look {
    of: Identity,
    begun: Instant,
    /// Number of wrong blocks of the device when the check began.
    wrong: u64,
    /// True if the check has ended.
    is_over: bool,
    /// True if the device was overwritten; `None`: not known.
    finding: Option<bool>,
}

/// The checks, and the overwritten members that were found.
#[derive(Default)]
pub(super) struct Overwritten {
    looks: Looks,
    /// By slot of an overwritten device that stays, a sentence with the command that helps.
    pub(super) problems: BTreeMap<u32, String>,
}

/// The offsets of a device's superblocks, and the volume and slot that these must have.
struct Expected {
    volume: VolumeId,
    slot: Slot,
    places: Vec<u64>,
}

impl Expected {
    /// Returns true if none of the superblocks has this volume and slot; `None`: one that could not
    /// be read may have them.
    fn is_overwritten(&self, device: &dyn Device) -> Option<bool> {
        let mut are_read = true;
        for &at in &self.places {
            let mut block = AlignedBuf::zeroed(BLOCK);
            match device.read_at(at, block.whole_mut()) {
                Ok(()) => {
                    let found = Superblock::decode(&block).ok();
                    if found.is_some_and(|found| found.volume == self.volume && found.slot == self.slot) {
                        return Some(false);
                    }
                }
                Err(_) => are_read = false,
            }
        }
        are_read.then_some(true)
    }
}

impl Overwritten {
    /// Begins a check of a device, if it has enough wrong blocks and the last check is old enough.
    /// Returns true if the device is known to be overwritten.
    fn look(&self, device: &Arc<dyn Device>, wrong: u64, now: Instant, expected: Expected) -> bool {
        let (slot, of) = (expected.slot.0, device.identity());
        let mut looks = lock(&self.looks);
        let known = looks.get(&slot).filter(|look| look.of == of);
        let is_known = known.is_some_and(|look| look.finding == Some(true));
        let is_due = known.is_none_or(|look| {
            // After the errors were cleared, they are counted from zero again.
            let new = wrong.checked_sub(look.wrong).unwrap_or(wrong);
            let is_time = look.is_over && now.saturating_duration_since(look.begun) >= LOOK_EVERY;
            is_time && (is_known || new >= WRONG_MOST)
        });
        if !is_due || (known.is_none() && wrong < WRONG_MOST) {
            return is_known;
        }
        let finding = known.and_then(|look| look.finding);
        looks.insert(slot, Look { of, begun: now, wrong, is_over: false, finding });
        let (told, device) = (self.looks.clone(), device.clone());
        let look = move || {
            let finding = expected.is_overwritten(&*device);
            // The device is closed before the next check may begin.
            drop(device);
            if let Some(look) = lock(&told).get_mut(&slot).filter(|look| look.of == of) {
                (look.is_over, look.finding) = (true, finding);
            }
        };
        if std::thread::Builder::new().name("look".into()).spawn(look).is_err() {
            // If no thread can be started, the next turn tries again.
            looks.remove(&slot);
        }
        is_known
    }

    fn forget(&mut self, slot: Slot) {
        lock(&self.looks).remove(&slot.0);
        self.problems.remove(&slot.0);
    }
}

impl Service {
    /// Gives up members that were overwritten according to their checks; reports those that must
    /// stay.
    pub(super) fn look_for_overwritten(&self, state: &mut State, report: &Report, now: Instant) {
        let Some(folder) = &state.folder else { return };
        let root = folder.root().to_path_buf();
        for device in &report.status.devices {
            let slot = device.slot;
            let is_whole = device.state == DeviceState::Present && report.members[slot.0 as usize].attached;
            let Some(member) = state.devices[slot.0 as usize].as_ref().filter(|_| is_whole) else {
                state.overwritten.forget(slot);
                continue;
            };
            let places = superblocks(&self.geometry, slot);
            let expected = Expected { volume: self.geometry.volume, slot, places };
            if !state.overwritten.look(member, device.counts.checksum_errors, now, expected) {
                state.overwritten.problems.remove(&slot.0);
                continue;
            }
            let path = member.path().to_path_buf();
            match self.host().give_up_overwritten(slot) {
                Ok(true) => {
                    state.overwritten.forget(slot);
                    state.devices[slot.0 as usize] = None;
                    state.problems.insert(slot.0, is_gone(&root, slot, &path));
                }
                Ok(false) => {
                    if state.overwritten.problems.insert(slot.0, stays(&root)).is_none() {
                        let _ = self.host().note_event(Some(slot), EventKind::OVERWRITTEN, (Reason::NONE, 0));
                    }
                }
                Err(_) => {}
            }
        }
    }
}

fn is_gone(root: &Path, slot: Slot, path: &Path) -> String {
    format!(
        "it was overwritten with something else while it was in use, and taken out; if what is on it now is not needed, 'pantile replace {} {} {} --yes' rebuilds it there",
        quoted(root),
        slot.0,
        quoted(path)
    )
}

fn stays(root: &Path) -> String {
    format!(
        "it was overwritten with something else while it was in use, and counts as lost; it stays, because data need what is left on it; 'pantile scrub {} --repair' writes it again from the others as far as they have it",
        quoted(root),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantile_device::MemoryDevice;

    fn expected() -> Expected {
        let places = vec![0, 4096, (1 << 20) - 4096];
        Expected { volume: VolumeId([1; 16]), slot: Slot(0), places }
    }

    /// Runs checks as the maintenance does, until none is under way. Returns true if the device was
    /// overwritten.
    fn look(overwritten: &Overwritten, device: &Arc<dyn Device>, wrong: u64, now: Instant) -> bool {
        overwritten.look(device, wrong, now, expected());
        let begun = Instant::now();
        while lock(&overwritten.looks).values().any(|look| !look.is_over) {
            assert!(begun.elapsed() < Duration::from_secs(60), "a look has not ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        lock(&overwritten.looks).get(&0).is_some_and(|look| look.finding == Some(true))
    }

    fn looked_at(overwritten: &Overwritten) -> Option<Instant> {
        lock(&overwritten.looks).get(&0).map(|look| look.begun)
    }

    #[test]
    fn a_device_is_looked_at_after_sixteen_wrong_blocks_and_at_most_once_a_minute() {
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("m", 1 << 20));
        let (overwritten, now) = (Overwritten::default(), Instant::now());
        assert!(!look(&overwritten, &device, 15, now) && looked_at(&overwritten).is_none());
        assert!(look(&overwritten, &device, 16, now));
        let soon = now + LOOK_EVERY - Duration::from_secs(1);
        assert!(look(&overwritten, &device, 500, soon) && looked_at(&overwritten) == Some(now));
        // A device that is known to be overwritten is checked again, until it no longer is.
        let later = now + LOOK_EVERY;
        assert!(look(&overwritten, &device, 500, later) && looked_at(&overwritten) == Some(later));
        // Another device in the slot does not inherit the result of the earlier one.
        let other: Arc<dyn Device> = Arc::new(MemoryDevice::new("n", 1 << 20));
        assert!(!overwritten.look(&other, 3, later, expected()));
    }

    #[test]
    fn a_device_of_which_a_superblock_cannot_be_read_is_not_called_overwritten() {
        // The device ends before the offset of its last superblock.
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("m", 8192));
        assert_eq!(expected().is_overwritten(&*device), None);
        assert!(!look(&Overwritten::default(), &device, 100, Instant::now()));
    }
}
