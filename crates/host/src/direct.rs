//! Reads that do not pass the engine's thread.
//!
//! A short read costs a device little, and two calls from thread to thread cost more than that; of long reads the engine's thread, which looks at
//! every block, does not do as many as devices. So whoever reads asks the volume where it lies ([`pantile_volume::Lookup`]) and reads it
//! there; what a lost device had they compute of what others have. What has the checksums is the answer; everything else (what is in
//! memory, in many pieces, bad, late, or unknown) is the engine's, asked as ever. So is the long read of somebody who reads alone: the
//! engine reads ahead, and one who waits for each of their reads does not.
//!
//! The volume is behind a lock that only the engine's thread takes for itself; whoever reads tries it and never waits. A device that is
//! late is read by the engine alone for a while, which decides what becomes of it.

use crate::long::{LongRead, LongReads};
use crate::memory::BLOCK;
use crate::work::{Matrices, checksum};
use pantile_device::{BufferPool, Device, NotRead, READER_PARTS_MAX, ReadPart, Reader};
use pantile_format::volume::VolumeId;
use pantile_volume::{
    Action, EpochStatus, Event, Extent, Geometry, Lookup, Losses, Seed, Slot, Source, State, Status, Stretch,
    UserBlock, Volume,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockWriteGuard};
use std::time::{Duration, Instant};

/// Blocks of a short read, at the most.
const SHORT_BLOCKS: u64 = 15;

/// Blocks of a long read that is not the engine's, at the most.
const LONG_BLOCKS: u64 = 256;

/// How long a device may take before the engine is asked.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long a device that took longer is left to the engine.
const DECLINED_FOR: Duration = Duration::from_secs(30);

/// Short reads at a time; more than these are the engine's.
const SHORT_READERS: usize = 64;

/// Blocks that are read for a long read, at the most: what a lost device had is computed of more.
const READ_BLOCKS: u64 = 640;

/// Long reads at a time; more than these are the engine's. What they are read into is 30 MiB.
const LONG_READERS: usize = 12;

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

/// Readers of one length.
struct Shelf {
    bytes: usize,
    /// Bounds how many there are.
    memory: BufferPool,
    readers: Mutex<Readers>,
}

#[derive(Default)]
struct Readers {
    free: Vec<Reader>,
    /// Those whose reads have not ended, though nobody waits for them any more.
    late: Vec<Reader>,
}

impl Shelf {
    fn new(readers: usize, blocks: u64) -> Shelf {
        let bytes = blocks as usize * BLOCK;
        Shelf { bytes, memory: BufferPool::new(readers * bytes), readers: Mutex::default() }
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().expect("nothing panics under the lock")
    }

    fn take(&self) -> Option<Reader> {
        let free = self.readers().free.pop();
        free.or_else(|| Reader::new(self.memory.take(self.bytes)?))
    }
}

/// What direct reads need.
pub(crate) struct Direct {
    volume: Arc<SharedVolume>,
    id: VolumeId,
    places: Vec<Mutex<Place>>,
    short: Shelf,
    long: Shelf,
    matrices: Arc<Matrices>,
    long_reads: LongReads,
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
            short: Shelf::new(SHORT_READERS, SHORT_BLOCKS),
            long: Shelf::new(LONG_READERS, READ_BLOCKS),
            matrices: Arc::default(),
            long_reads: LongReads::default(),
            blocks: (0..slots).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn place(&self, slot: Slot) -> MutexGuard<'_, Place> {
        self.places[slot.0 as usize].lock().expect("nothing panics under the lock")
    }

    /// What computations were compiled to, here and by the engine.
    pub(crate) fn matrices(&self) -> Arc<Matrices> {
        self.matrices.clone()
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
        [&self.short, &self.long]
            .into_iter()
            .for_each(|shelf| shelf.readers().late.retain_mut(|reader| !reader.is_free()));
    }

    /// Blocks that were read of a device.
    pub(crate) fn blocks_read(&self, slot: Slot) -> u64 {
        self.blocks[slot.0 as usize].load(Ordering::Relaxed)
    }

    /// Blocks that were read of all devices: more than before if anybody has read.
    pub(crate) fn all_blocks_read(&self) -> u64 {
        self.blocks.iter().map(|blocks| blocks.load(Ordering::Relaxed)).sum()
    }

    /// The engine had what somebody asked for before they did.
    pub(crate) fn was_read_ahead(&self) {
        self.long_reads.was_read_ahead();
    }

    /// Somebody waits for a read of so many blocks until what this returns is dropped; `None`: it is a short one.
    pub(crate) fn long_read(&self, blocks: u64) -> Option<LongRead<'_>> {
        (blocks > SHORT_BLOCKS).then(|| self.long_reads.begin())
    }

    /// Fills `into` with what lies at `offset`; `false`: it did not, and the engine is to be asked.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8], long: Option<&LongRead<'_>>) -> bool {
        let first = offset / BLOCK as u64;
        let count = (offset + into.len() as u64).div_ceil(BLOCK as u64) - first;
        let is_left = long.is_some_and(LongRead::is_left);
        if into.is_empty() || is_left || count > LONG_BLOCKS {
            return false;
        }
        let Some(lookup) = self.volume.try_lookup(UserBlock(first), count as u32) else { return false };
        let skipped = (offset - first * BLOCK as u64) as usize;
        let is_whole = skipped == 0 && into.len().is_multiple_of(BLOCK);
        let bytes: usize = lookup.stretches.iter().map(len_of).sum();
        let shelf = if bytes <= self.short.bytes { &self.short } else { &self.long };
        // What is computed is computed in its place.
        let is_ours = (is_whole || lookup.mixtures.is_empty())
            && bytes <= shelf.bytes
            && lookup.stretches.len() <= READER_PARTS_MAX;
        if !is_ours {
            return false;
        }
        let devices: Option<Vec<_>> =
            lookup.stretches.iter().map(|stretch| self.device(stretch.slot)).collect();
        let Some(devices) = devices else { return false };
        let Some(mut reader) = shelf.take() else { return false };
        let part = |(stretch, device): (&Stretch, _)| ReadPart {
            device,
            offset_bytes: stretch.at.0 * BLOCK as u64,
            len: len_of(stretch),
        };
        let parts: Vec<ReadPart<'_>> = lookup.stretches.iter().zip(&devices).map(part).collect();
        let mut answer = Answer { volume: self.id, lookup: &lookup, skipped, into, is_right: true };
        let is_read = match reader.read(&parts, PATIENCE, |stretch, bytes| answer.take(stretch, bytes)) {
            Ok(()) => answer.is_right && answer.compute(reader.bytes(), &self.matrices),
            Err(NotRead::Refused) => false,
            Err(NotRead::Late { part }) => {
                self.place(lookup.stretches[part].slot).declined_until = Some(Instant::now() + DECLINED_FOR);
                shelf.readers().late.push(reader);
                return false;
            }
        };
        shelf.readers().free.push(reader);
        if is_read {
            for stretch in &lookup.stretches {
                let blocks = stretch.blocks().into();
                self.blocks[stretch.slot.0 as usize].fetch_add(blocks, Ordering::Relaxed);
            }
        }
        is_read
    }

    fn device(&self, slot: Slot) -> Option<Arc<dyn Device>> {
        let place = self.place(slot);
        let is_declined = place.declined_until.is_some_and(|until| Instant::now() < until);
        place.device.clone().filter(|_| !is_declined)
    }
}

fn len_of(stretch: &Stretch) -> usize {
    stretch.blocks() as usize * BLOCK
}

/// What is being read, as it comes.
struct Answer<'i> {
    volume: VolumeId,
    lookup: &'i Lookup,
    /// Bytes of the first block that are not wanted.
    skipped: usize,
    into: &'i mut [u8],
    /// Whether all that came has its checksums.
    is_right: bool,
}

impl Answer<'_> {
    /// Takes a stretch, if it is what it should be.
    fn take(&mut self, stretch: usize, bytes: &[u8]) {
        self.is_right =
            self.is_right && has_checksums(self.volume, self.lookup.stretches[stretch].checks(), bytes);
        if !self.is_right {
            return;
        }
        let mut at = 0;
        for &(source, blocks) in &self.lookup.parts {
            let len = blocks as usize * BLOCK;
            if let Source::Read(from, first) = source
                && from == stretch
            {
                let bytes = &bytes[first as usize * BLOCK..][..len];
                let (start, end) = (at.max(self.skipped), (at + len).min(self.skipped + self.into.len()));
                let into = &mut self.into[start - self.skipped..end - self.skipped];
                into.copy_from_slice(&bytes[start - at..end - at]);
            }
            at += len;
        }
    }

    /// Makes of all that was read what is to be computed; whether it is what it should be, where anybody knows.
    fn compute(&mut self, read: &[u8], matrices: &Matrices) -> bool {
        let lens = self.lookup.stretches.iter().map(len_of);
        let starts: Vec<usize> = lens.scan(0, |at, len| Some(std::mem::replace(at, *at + len))).collect();
        let mut at = 0;
        for &(source, blocks) in &self.lookup.parts {
            let len = blocks as usize * BLOCK;
            if let Source::Made(mixture, first) = source {
                let mixture = &self.lookup.mixtures[mixture];
                let bytes_of = |&(stretch, from, _): &(usize, u32, _)| {
                    &read[starts[stretch] + (from + first) as usize * BLOCK..][..len]
                };
                let sources: Vec<&[u8]> = mixture.terms.iter().map(bytes_of).collect();
                let made = &mut self.into[at..at + len];
                if sources.is_empty() {
                    made.fill(0);
                } else {
                    let factors = mixture.terms.iter().map(|(_, _, factor)| factor.0).collect();
                    let applied = matrices.get(vec![factors]).apply(&sources, &mut [&mut *made]);
                    applied.expect("blocks have one length");
                }
                let checks = mixture.instead_of.iter().flat_map(Stretch::checks).skip(first as usize);
                if !has_checksums(self.volume, checks, made) {
                    return false;
                }
            }
            at += len;
        }
        true
    }
}

/// Whether blocks are what they should be, as far as it is known of them.
fn has_checksums(volume: VolumeId, checks: impl Iterator<Item = (Seed, u64)>, bytes: &[u8]) -> bool {
    checks.zip(bytes.chunks_exact(BLOCK)).all(|((seed, sum), block)| checksum(volume, seed, block) == sum)
}
