//! Direct reads: they bypass the engine's thread.
//!
//! For a short read the two switches of threads cost more than the read itself. Long reads are
//! limited by the engine's thread, which verifies every block and is slower than the devices. So a
//! reader asks the volume for the locations of its blocks ([`pantile_volume::Lookup`]) and reads
//! them itself, into the buffer of the request if the caller gives that away. Blocks of a lost
//! device are computed from blocks of others. If the blocks match their checksums, they are the
//! answer. The engine does all other reads: of blocks in memory, in many pieces, bad, late or
//! unknown. It also does the long reads of a single reader, because it reads ahead.
//!
//! The volume is behind a lock: only the engine's thread waits for it, and a reader only tries it.
//! For a while after a device was late, only the engine reads from it and decides whether it is
//! given up.

use crate::found::{Found, Spot};
use crate::inbox::{Inbox, Message};
use crate::latency::{Kind, Latencies};
use crate::locks::lock;
use crate::long::{LongRead, LongReads};
use crate::memory::BLOCK;
use crate::work::Matrices;
use pantile_device::{AlignedBuf, BufferPool, Device, NotRead, READER_PARTS_MAX, ReadPart, Reader};
use pantile_format::volume::{Superblock, VolumeId};
use pantile_volume::{
    Action, EpochStatus, Event, Extent, Geometry, Lookup, Losses, Reason, Slot, Standing, State, Status,
    Stretch, UserBlock, Volume,
};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockWriteGuard};
use std::time::{Duration, Instant};

/// Most blocks of a short read.
const SHORT_BLOCKS: u64 = 15;

/// Most blocks of a long read that bypasses the engine.
const LONG_BLOCKS: u64 = 256;

/// Longest wait for a device before the read is left to the engine.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time for which only the engine reads from a device that was late.
const DECLINED_FOR: Duration = Duration::from_secs(30);

/// Most short reads at a time; the engine does further ones.
const SHORT_READERS: usize = 64;

/// Most blocks that are read for a long read; this includes blocks from which those of a lost
/// device are computed.
const READ_BLOCKS: u64 = 640;

/// Most long reads at a time; the engine does further ones. Their buffers take 30 MiB.
const LONG_READERS: usize = 12;

/// A volume that the engine's thread changes and other threads look into. Each call takes the lock;
/// before the engine acts on an answer, it asks the volume again.
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

    pub(crate) fn tell_time(&self, now: i64) {
        self.own().tell_time(now);
    }

    pub(crate) fn tell_why(&self, slot: Slot, reason: Reason, errno: i32) {
        self.own().tell_why(slot, reason, errno);
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

    pub(crate) fn standing(&self) -> Option<Standing> {
        self.own().standing()
    }

    pub(crate) fn unreadable_chunks(&self) -> Vec<u64> {
        self.own().unreadable_chunks()
    }

    pub(crate) fn patched_stripes(&self) -> Option<u64> {
        self.own().patched_stripes()
    }

    pub(crate) fn epochs(&self) -> Vec<EpochStatus> {
        self.own().epochs()
    }

    pub(crate) fn losses(&self, also: &[Slot]) -> Option<Losses> {
        self.own().losses(also)
    }

    pub(crate) fn found(&self, slot: Slot, own: &Superblock) -> Option<pantile_volume::Found> {
        self.own().found(slot, own)
    }

    pub(crate) fn can_spare(&self, also: &[Slot]) -> Option<bool> {
        self.own().can_spare(also)
    }

    pub(crate) fn extents(&self, first: UserBlock, count: u64) -> Option<Vec<Extent>> {
        self.own().extents(first, count)
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.own().is_clean()
    }

    /// Looks up the locations of blocks; `None`, too, while the engine holds the lock.
    fn try_lookup(&self, first: UserBlock, count: u32) -> Option<Lookup> {
        self.0.try_read().ok()?.lookup(first, count)
    }
}

/// The device of a slot, for direct reads.
#[derive(Default)]
struct Place {
    device: Option<Arc<dyn Device>>,
    declined_until: Option<Instant>,
}

/// Readers whose buffers have a certain length.
struct Shelf {
    bytes: usize,
    /// The pool of their buffers, which bounds the number of readers.
    memory: BufferPool,
    readers: Mutex<Readers>,
}

#[derive(Default)]
struct Readers {
    free: Vec<Kit>,
    /// Readers with reads in progress although their requests have ended.
    late: Vec<Reader>,
}

/// A reader with its buffers.
struct Kit {
    reader: Reader,
    /// The reader's own buffer ([`SIDE`]) and, behind it, the buffer of a request that gives it
    /// away ([`ANSWER`]).
    buffers: Vec<AlignedBuf>,
}

/// Index of the buffer for blocks that are not read into the answer.
const SIDE: usize = 0;

/// Index of the buffer for the answer.
const ANSWER: usize = 1;

impl Shelf {
    fn new(readers: usize, blocks: u64) -> Shelf {
        let bytes = blocks as usize * BLOCK;
        Shelf { bytes, memory: BufferPool::new(readers * bytes), readers: Mutex::default() }
    }

    fn bytes(&self) -> usize {
        self.memory.held_bytes()
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        lock(&self.readers)
    }

    fn take(&self) -> Option<Kit> {
        let free = self.readers().free.pop();
        free.or_else(|| Some(Kit { buffers: vec![self.memory.take(self.bytes)?], reader: Reader::new()? }))
    }
}

/// State of direct reads.
pub(crate) struct Direct {
    volume: Arc<SharedVolume>,
    id: VolumeId,
    places: Vec<Mutex<Place>>,
    short: Shelf,
    long: Shelf,
    matrices: Arc<Matrices>,
    long_reads: LongReads,
    /// Number of readers that are late, or about to be added to the late ones.
    late: AtomicUsize,
    /// By slot, number of blocks that were read directly.
    blocks: Vec<AtomicU64>,
    latencies: Arc<Latencies>,
    /// Wakes the engine, which does not see these reads, when a device may have become slow.
    inbox: Arc<Inbox>,
}

impl Direct {
    pub(crate) fn new(volume: Arc<SharedVolume>, geometry: &Geometry, inbox: Arc<Inbox>) -> Direct {
        let slots = geometry.slots();
        Direct {
            volume,
            id: geometry.volume,
            places: (0..slots).map(|_| Mutex::default()).collect(),
            short: Shelf::new(SHORT_READERS, SHORT_BLOCKS),
            long: Shelf::new(LONG_READERS, READ_BLOCKS),
            matrices: Arc::default(),
            long_reads: LongReads::default(),
            late: AtomicUsize::new(0),
            blocks: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            latencies: Arc::new(Latencies::new(slots)),
            inbox,
        }
    }

    /// Returns the bytes of the readers' own buffers.
    pub(crate) fn bytes_in_memory(&self) -> usize {
        self.short.bytes() + self.long.bytes()
    }

    fn place(&self, slot: Slot) -> MutexGuard<'_, Place> {
        lock(&self.places[slot.0 as usize])
    }

    /// Returns the durations of reads and writes of devices, measured here and by the engine.
    pub(crate) fn latencies(&self) -> Arc<Latencies> {
        self.latencies.clone()
    }

    /// Records the duration of a read.
    fn note(&self, slot: Slot, took: Duration) {
        if self.latencies.note(slot, Kind::Read, took) {
            self.inbox.push(Message::Call(Box::new(|engine| engine.look_at_pace())));
        }
    }

    /// Returns the compiled matrices, shared with the engine.
    pub(crate) fn matrices(&self) -> Arc<Matrices> {
        self.matrices.clone()
    }

    /// Puts a device into a slot.
    pub(crate) fn attach(&self, slot: Slot, device: Arc<dyn Device>) {
        *self.place(slot) = Place { device: Some(device), declined_until: None };
    }

    /// Takes the device from a slot.
    pub(crate) fn detach(&self, slot: Slot) {
        *self.place(slot) = Place::default();
    }

    /// Drops the devices and buffers of late reads that have ended.
    pub(crate) fn sweep(&self) {
        for shelf in [&self.short, &self.long] {
            let mut readers = shelf.readers();
            let before = readers.late.len();
            readers.late.retain_mut(|reader| !reader.is_free());
            self.late.fetch_sub(before - readers.late.len(), Ordering::Relaxed);
        }
    }

    /// True if a reader is late, so that [`sweep`](Self::sweep) has work.
    pub(crate) fn has_late(&self) -> bool {
        self.late.load(Ordering::Relaxed) > 0
    }

    /// Returns the number of blocks read directly from a device.
    pub(crate) fn blocks_read(&self, slot: Slot) -> u64 {
        self.blocks[slot.0 as usize].load(Ordering::Relaxed)
    }

    /// Returns the number of blocks read directly from all devices.
    pub(crate) fn all_blocks_read(&self) -> u64 {
        self.blocks.iter().map(|blocks| blocks.load(Ordering::Relaxed)).sum()
    }

    /// Records that the engine answered a read with blocks that it had read ahead.
    pub(crate) fn was_read_ahead(&self) {
        self.long_reads.was_read_ahead();
    }

    /// Registers a long read of this many blocks until the result is dropped; `None`: the read is
    /// short.
    pub(crate) fn long_read(&self, blocks: u64) -> Option<LongRead<'_>> {
        (blocks > SHORT_BLOCKS).then(|| self.long_reads.begin())
    }

    /// Fills `into` with the bytes at `offset`; `None`: the engine has to do it.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8], long: Option<&LongRead<'_>>) -> Option<()> {
        let (found, shelf) = self.find(offset, into.len(), long)?;
        let devices = self.devices(&found)?;
        let spots = found.beside();
        let (kit, is_right) = self.fetch(shelf.take()?, &found, &devices, &spots, shelf)?;
        let is_right = is_right && found.finish(into, &kit.buffers[SIDE], &spots, &self.matrices);
        self.end(kit, &found, is_right, shelf)
    }

    /// Does the same as [`read`](Self::read), for a buffer that is given away, so that devices read
    /// into it. On `Some` the filled buffer is back in `into`. On `None` it can be missing, because
    /// a late device may still write to it.
    pub(crate) fn read_buffer(
        &self,
        offset: u64,
        into: &mut Option<AlignedBuf>,
        long: Option<&LongRead<'_>>,
    ) -> Option<()> {
        let (found, shelf) = self.find(offset, into.as_ref()?.len(), long)?;
        let devices = self.devices(&found)?;
        let spots = found.in_place();
        let mut kit = shelf.take()?;
        kit.buffers.extend(into.take());
        let (mut kit, is_right) = self.fetch(kit, &found, &devices, &spots, shelf)?;
        let answer = into.insert(kit.buffers.pop()?);
        let is_right = is_right && found.finish(answer, &kit.buffers[SIDE], &spots, &self.matrices);
        self.end(kit, &found, is_right, shelf)
    }

    /// Looks up `len` bytes at `offset` and chooses the readers for them; `None`: the engine has to
    /// read.
    fn find(&self, offset: u64, len: usize, long: Option<&LongRead<'_>>) -> Option<(Found, &Shelf)> {
        let first = offset / BLOCK as u64;
        let count = (offset + len as u64).div_ceil(BLOCK as u64) - first;
        if len == 0 || long.is_some_and(LongRead::is_left) || count > LONG_BLOCKS {
            return None;
        }
        let lookup = self.volume.try_lookup(UserBlock(first), count as u32)?;
        let skipped = (offset - first * BLOCK as u64) as usize;
        let found = Found::new(self.id, lookup, skipped, len);
        let shelf = if found.bytes() <= self.short.bytes { &self.short } else { &self.long };
        let fits = found.bytes() <= shelf.bytes && found.lookup.stretches.len() <= READER_PARTS_MAX;
        (found.is_makeable() && fits).then_some((found, shelf))
    }

    /// Returns the device of each stretch; `None` if one must not be read directly.
    fn devices(&self, found: &Found) -> Option<Vec<Arc<dyn Device>>> {
        found.lookup.stretches.iter().map(|stretch| self.device(stretch.slot)).collect()
    }

    /// Reads all stretches to their spots. True if all were read and match their checksums. `None`:
    /// a device is late, and the reader keeps its buffers.
    fn fetch(
        &self,
        mut kit: Kit,
        found: &Found,
        devices: &[Arc<dyn Device>],
        spots: &[Spot],
        shelf: &Shelf,
    ) -> Option<(Kit, bool)> {
        let stretches = &found.lookup.stretches;
        let part = |((stretch, device), spot): ((&Stretch, _), &Spot)| {
            let (buffer, from) = match *spot {
                Spot::Answer(at) => (ANSWER, at),
                Spot::Side(at) => (SIDE, at),
            };
            let offset_bytes = stretch.at.0 * BLOCK as u64;
            ReadPart { device, offset_bytes, len: stretch.len_bytes(), buffer, from }
        };
        let parts: Vec<ReadPart<'_>> = stretches.iter().zip(devices).zip(spots).map(part).collect();
        let mut is_right = true;
        let begun = Instant::now();
        let look = |stretch: usize, bytes: &[u8]| {
            self.note(stretches[stretch].slot, begun.elapsed());
            is_right = is_right && found.is_right(stretch, bytes);
        };
        match kit.reader.read(&mut kit.buffers, &parts, PATIENCE, look) {
            Ok(()) => Some((kit, is_right)),
            Err(NotRead::Refused) => Some((kit, false)),
            Err(NotRead::Late { part }) => {
                self.note(stretches[part].slot, PATIENCE);
                self.place(stretches[part].slot).declined_until = Some(Instant::now() + DECLINED_FOR);
                self.late.fetch_add(1, Ordering::Relaxed);
                shelf.readers().late.push(kit.reader);
                None
            }
        }
    }

    /// Puts a reader back. If its blocks were right, counts them.
    fn end(&self, kit: Kit, found: &Found, is_right: bool, shelf: &Shelf) -> Option<()> {
        shelf.readers().free.push(kit);
        for stretch in found.lookup.stretches.iter().filter(|_| is_right) {
            let blocks = stretch.blocks().into();
            self.blocks[stretch.slot.0 as usize].fetch_add(blocks, Ordering::Relaxed);
        }
        is_right.then_some(())
    }

    fn device(&self, slot: Slot) -> Option<Arc<dyn Device>> {
        let place = self.place(slot);
        let is_declined = place.declined_until.is_some_and(|until| Instant::now() < until);
        place.device.clone().filter(|_| !is_declined)
    }
}
