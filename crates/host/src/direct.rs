//! Reads that do not pass the engine's thread.
//!
//! A short read of what lies on one device costs the device little, and two calls from thread to thread cost more than that. So whoever reads
//! asks the volume where it lies ([`pantile_volume::Lookup`]) and reads it there. What has the checksums is the answer; everything
//! else (what is in memory, in pieces, lost, bad, late, or unknown) is the engine's, asked as ever.
//!
//! The volume is behind a lock that only the engine's thread takes for itself; whoever reads tries it and never waits. A device that is
//! late is read by the engine alone for a while, which decides what becomes of it.

use crate::memory::BLOCK;
use crate::work::checksum;
use pantile_device::{Device, NotRead, Reader};
use pantile_format::volume::VolumeId;
use pantile_volume::{
    Action, EpochStatus, Event, Extent, Geometry, Lookup, Losses, Slot, State, Status, UserBlock, Volume,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockWriteGuard};
use std::time::{Duration, Instant};

/// Longer reads are the engine's: it joins what is side by side, and reads ahead.
const BLOCKS_MAX: u64 = 15;

/// How long a device may take before the engine is asked.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long a device that took longer is left to the engine.
const DECLINED_FOR: Duration = Duration::from_secs(30);

/// Readers that are kept for the next reads.
const READERS_KEPT: usize = 64;

/// A volume that its engine's thread changes, and others look into. Each call takes the lock for itself: what the engine does with the answer asks
/// the volume again.
pub(crate) struct SharedVolume(RwLock<Volume>);

impl SharedVolume {
    pub(crate) fn new(volume: Volume) -> SharedVolume {
        SharedVolume(RwLock::new(volume))
    }

    fn own(&self) -> RwLockWriteGuard<'_, Volume> {
        self.0.write().expect("a volume that panicked ends its thread")
    }

    pub(crate) fn handle(&self, event: Event) {
        self.own().handle(event);
    }

    pub(crate) fn next_action(&self) -> Option<Action> {
        self.own().next_action()
    }

    pub(crate) fn state(&self) -> State {
        self.own().state()
    }

    pub(crate) fn status(&self) -> Option<Status> {
        self.own().status()
    }

    pub(crate) fn epochs(&self) -> Vec<EpochStatus> {
        self.own().epochs()
    }

    pub(crate) fn losses(&self, also: &[Slot]) -> Option<Losses> {
        self.own().losses(also)
    }

    pub(crate) fn extents(&self, first: UserBlock, count: u64) -> Option<Vec<Extent>> {
        self.own().extents(first, count)
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.own().is_clean()
    }

    /// Where blocks lie; `None`, too, while the engine is at work.
    fn try_lookup(&self, first: UserBlock, count: u32) -> Option<Lookup> {
        self.0.try_read().ok()?.lookup(first, count)
    }
}

/// A slot's device, if it can be read directly.
#[derive(Default)]
struct Place {
    device: Option<Arc<dyn Device>>,
    declined_until: Option<Instant>,
}

#[derive(Default)]
struct Readers {
    free: Vec<Reader>,
    /// Those whose reads have not ended, though nobody waits for them any more.
    late: Vec<Reader>,
}

/// What direct reads need.
pub(crate) struct Direct {
    volume: Arc<SharedVolume>,
    id: VolumeId,
    places: Vec<Mutex<Place>>,
    readers: Mutex<Readers>,
    /// By slot, blocks that were read so.
    blocks: Vec<AtomicU64>,
}

impl Direct {
    pub(crate) fn new(volume: Arc<SharedVolume>, geometry: &Geometry) -> Direct {
        let slots = geometry.slots();
        Direct {
            volume,
            id: geometry.volume,
            places: (0..slots).map(|_| Mutex::default()).collect(),
            readers: Mutex::default(),
            blocks: (0..slots).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn place(&self, slot: Slot) -> MutexGuard<'_, Place> {
        self.places[slot.0 as usize].lock().expect("nothing panics under the lock")
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().expect("nothing panics under the lock")
    }

    /// A slot has a device.
    pub(crate) fn attach(&self, slot: Slot, device: Arc<dyn Device>) {
        *self.place(slot) = Place { device: Some(device), declined_until: None };
    }

    /// It has none any more.
    pub(crate) fn detach(&self, slot: Slot) {
        *self.place(slot) = Place::default();
    }

    /// Lets go of the devices of reads that have ended by now.
    pub(crate) fn sweep(&self) {
        self.readers().late.retain_mut(|reader| !reader.is_free());
    }

    /// Blocks that were read of a device.
    pub(crate) fn blocks_read(&self, slot: Slot) -> u64 {
        self.blocks[slot.0 as usize].load(Ordering::Relaxed)
    }

    /// Blocks that were read of all devices: more than before if anybody has read.
    pub(crate) fn all_blocks_read(&self) -> u64 {
        self.blocks.iter().map(|blocks| blocks.load(Ordering::Relaxed)).sum()
    }

    /// Fills `into` with what lies at `offset`; `false`: it did not, and the engine is to be asked.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> bool {
        let first = offset / BLOCK as u64;
        let count = (offset + into.len() as u64).div_ceil(BLOCK as u64) - first;
        if count > BLOCKS_MAX || into.is_empty() {
            return false;
        }
        let lookup = self.volume.try_lookup(UserBlock(first), count as u32);
        let Some(lookup) = lookup else { return false };
        let Some(device) = self.device(lookup.slot) else { return false };
        let Some(mut reader) = self.reader() else { return false };
        let from = lookup.at.0 * BLOCK as u64;
        let found = reader.read(&device, from, count as usize * BLOCK, PATIENCE);
        let is_right = |bytes: &&[u8]| {
            let mut blocks = lookup.blocks().zip(bytes.chunks_exact(BLOCK));
            blocks.all(|((seed, sum), bytes)| checksum(self.id, seed, bytes) == sum)
        };
        let is_read = match found.map(|bytes| Some(bytes).filter(is_right)) {
            Ok(Some(bytes)) => {
                let skipped = (offset - first * BLOCK as u64) as usize;
                into.copy_from_slice(&bytes[skipped..skipped + into.len()]);
                self.blocks[lookup.slot.0 as usize].fetch_add(count, Ordering::Relaxed);
                true
            }
            Ok(None) | Err(NotRead::Refused) => false,
            Err(NotRead::Late) => {
                self.place(lookup.slot).declined_until = Some(Instant::now() + DECLINED_FOR);
                self.readers().late.push(reader);
                return false;
            }
        };
        let mut readers = self.readers();
        if readers.free.len() < READERS_KEPT {
            readers.free.push(reader);
        }
        is_read
    }

    fn device(&self, slot: Slot) -> Option<Arc<dyn Device>> {
        let place = self.place(slot);
        let is_declined = place.declined_until.is_some_and(|until| Instant::now() < until);
        place.device.clone().filter(|_| !is_declined)
    }

    fn reader(&self) -> Option<Reader> {
        let free = self.readers().free.pop();
        free.or_else(|| Reader::new(BLOCKS_MAX as usize * BLOCK))
    }
}
