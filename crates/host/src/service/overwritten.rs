//! Members that were overwritten with something else while they are served: with zeros, with
//! another volume, by another user of the disk.
//!
//! Reads of such a device find wrong checksums. After some of them its superblocks are read: if
//! none of the three places has one of this volume and slot, the device is taken out, as one whose
//! reads fail is. One that data need stays, is named, and counts as lost.
//!
//! Each look has a thread of its own, because a device can hang. The care for devices begins looks
//! and takes the results of earlier ones, and waits for none.

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

/// Wrong blocks and headers since the last look after which a device is looked at.
const WRONG_MOST: u64 = 16;

/// Shortest time between looks at a device.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// By slot, the look at its device.
type Looks = Arc<Mutex<BTreeMap<u32, Look>>>;

struct Look {
    of: Identity,
    begun: Instant,
    /// Wrong blocks of the device when the look was begun.
    wrong: u64,
    /// The look has ended.
    is_over: bool,
    /// Whether the device was overwritten, as far as a look could say.
    finding: Option<bool>,
}

/// Members that were overwritten.
#[derive(Default)]
pub(super) struct Overwritten {
    looks: Looks,
    /// By slot of a device that stays, a sentence with the command that helps.
    pub(super) problems: BTreeMap<u32, String>,
}

/// The places and the content that a superblock of a device must have.
struct Expected {
    volume: VolumeId,
    slot: Slot,
    places: Vec<u64>,
}

impl Expected {
    /// Returns true if no place has a superblock of this volume and slot; `None`: one that could
    /// not be read may have it.
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
    /// Takes the count of a device's wrong blocks, and begins a look at it if it is time for one.
    /// Returns true if it is known to be overwritten.
    fn look(&self, device: &Arc<dyn Device>, wrong: u64, now: Instant, expected: Expected) -> bool {
        let (slot, of) = (expected.slot.0, device.identity());
        let mut looks = lock(&self.looks);
        let known = looks.get(&slot).filter(|look| look.of == of);
        let is_known = known.is_some_and(|look| look.finding == Some(true));
        let is_due = known.is_none_or(|look| {
            // Errors that were cleared are counted from zero again.
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
            // Closed before the next look may begin.
            drop(device);
            if let Some(look) = lock(&told).get_mut(&slot).filter(|look| look.of == of) {
                (look.is_over, look.finding) = (true, finding);
            }
        };
        if std::thread::Builder::new().name("look".into()).spawn(look).is_err() {
            // Without a thread the next turn looks.
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
    /// Takes out members that were overwritten, as far as looks at them say; names those that stay.
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

    /// Looks as the care does, until no look is under way, and returns whether it is overwritten.
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
        // One that is known to be overwritten is looked at again, until it is not.
        let later = now + LOOK_EVERY;
        assert!(look(&overwritten, &device, 500, later) && looked_at(&overwritten) == Some(later));
        // Another device in the slot is not blamed for the one before it.
        let other: Arc<dyn Device> = Arc::new(MemoryDevice::new("n", 1 << 20));
        assert!(!overwritten.look(&other, 3, later, expected()));
    }

    #[test]
    fn a_device_of_which_a_superblock_cannot_be_read_is_not_called_overwritten() {
        // It ends before its last superblock.
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("m", 8192));
        assert_eq!(expected().is_overwritten(&*device), None);
        assert!(!look(&Overwritten::default(), &device, 100, Instant::now()));
    }
}
