//! Recovers a volume with intact data that has lost its superblocks or maps on more devices than
//! the code tolerates: from the headers of its chunks.
//!
//! A chunk's header names volume, slot, physical and logical stripe, column and generation under a
//! checksum. So a device without any superblock is identified by its chunks. Each logical stripe
//! maps to the newest generation of which enough chunks are found.
//!
//! Blocks that were in the log alone are lost, because the log does not record their addresses in
//! the volume. Trimmed stripes reappear, and so do stripe writes that a crash had undone. The
//! caller therefore tries the journal first.

use crate::journal::definition_bytes;
use crate::maps::{Mapping, Maps};
use crate::stored::{FOUND_END, SnapshotWriter, counts_on, superblock_of};
use crate::{BLOCK_BYTES, Bearing, DeviceBlock, Geometry, Slot};
use pantile_format::Generation;
use pantile_format::volume::{HistoryId, RecordNumber, Session, SnapshotHead, SnapshotRef, Superblock};
use std::collections::{BTreeMap, BTreeSet};

/// The writes of a stripe by generation and place, the newest first, and the devices that have
/// their chunk of each.
type Writes = BTreeMap<std::cmp::Reverse<(u64, u32)>, BTreeSet<Slot>>;

/// The gap added to the session and record numbers that are left. The new numbers then exceed all
/// that a device without a superblock can contain.
const FAR: u64 = 1 << 32;

/// A whole chunk found at the place and in the slot that its header names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChunkFound {
    /// The device.
    pub slot: Slot,
    /// Its physical stripe.
    pub physical: u32,
    /// Its logical stripe.
    pub logical: u32,
    /// The generation of its write.
    pub generation: u64,
}

impl ChunkFound {
    /// Returns true if a volume can reach this generation. A chunk with a higher one belongs to no
    /// volume, even if its checksum is right.
    pub fn is_possible(&self) -> bool {
        self.generation < FOUND_END
    }
}

/// The writes that make a volume openable, in steps: each step must be durable on all devices
/// before the next begins.
#[derive(Clone, Debug)]
pub struct Anew {
    /// The steps: slot, first block and bytes of each write.
    pub steps: Vec<Vec<(Slot, DeviceBlock, Vec<u8>)>>,
    /// Logical stripes that are mapped.
    pub stripes: u64,
    /// Mapped stripes of which a newer write was found too, but with too few chunks to read it.
    pub older: Vec<u32>,
    /// Logical stripes of which chunks were found, but of no write enough to read it.
    pub lost: Vec<u32>,
    /// Devices that lack chunks of mapped stripes, and are caught up when the volume is served.
    pub behind: Vec<Slot>,
}

/// Makes the superblocks of devices that have lost theirs from one that is left. The volume keeps
/// its maps.
///
/// There are no steps if a number in the superblock that is left is higher than any volume can
/// reach: such a volume could not be opened.
pub fn superblocks_again(geometry: &Geometry, left: &Superblock, of: &[Slot]) -> Anew {
    let mut anew =
        Anew { steps: Vec::new(), stripes: 0, older: Vec::new(), lost: Vec::new(), behind: Vec::new() };
    anew.steps = superblock_steps(geometry, left, &left.lost, of);
    anew
}

/// Returns the writes of the text of the code, and of the superblocks in all three places, one
/// after the other. Empty if a volume with this superblock would be refused at opening.
fn superblock_steps(
    geometry: &Geometry,
    superblock: &Superblock,
    lost: &[Slot],
    of: &[Slot],
) -> Vec<Vec<(Slot, DeviceBlock, Vec<u8>)>> {
    if !counts_on(superblock) {
        return Vec::new();
    }
    let bytes = |slot| superblock_of(slot, lost, geometry, superblock).encode();
    let text = geometry.code.definition().map(definition_bytes);
    let texts =
        of.iter().filter_map(|&slot| Some((slot, geometry.zones(slot).definition().first, text.clone()?)));
    let at =
        |turn: u64| of.iter().map(move |&slot| (slot, geometry.zones(slot).superblock(turn), bytes(slot)));
    let copies = of.iter().map(|&slot| (slot, geometry.zones(slot).superblock_copy(), bytes(slot)));
    // The place that the superblock's own turn selects comes last: until then it keeps the old one.
    let steps = [
        texts.collect::<Vec<_>>(),
        copies.collect(),
        at(superblock.update + 1).collect(),
        at(superblock.update).collect(),
    ];
    steps.into_iter().filter(|step| !step.is_empty()).collect()
}

/// Builds the maps from chunks alone, for the devices `here`. `left` is the newest superblock that
/// any device still has.
///
/// The log begins empty. `fresh`, drawn at random, becomes the history. Chunks in impossible
/// places, or of an impossible generation ([`ChunkFound::is_possible`]), are ignored. Impossible
/// numbers in `left` are ignored too, so that the new volume can be opened and can count on.
pub fn maps_anew(
    geometry: &Geometry,
    left: &Superblock,
    here: &BTreeSet<Slot>,
    found: &[ChunkFound],
    fresh: HistoryId,
) -> Anew {
    let bearing = Bearing::new(&geometry.code, geometry.placement);
    let slots = || (0..geometry.slots() as u32).map(Slot);
    // By logical stripe: its writes, newest first, and the devices that have their chunk of each
    // write.
    let mut writes: BTreeMap<u32, Writes> = BTreeMap::new();
    let fits = |chunk: &&ChunkFound| {
        let is_there =
            chunk.logical < geometry.logical_stripes() && chunk.physical < geometry.physical_stripes();
        is_there && chunk.is_possible()
    };
    for chunk in found.iter().filter(fits) {
        let write = std::cmp::Reverse((chunk.generation, chunk.physical));
        writes.entry(chunk.logical).or_default().entry(write).or_default().insert(chunk.slot);
    }
    let mut maps = Maps::new(geometry);
    let (mut older, mut lost) = (Vec::new(), Vec::new());
    let mut lacked: BTreeMap<Slot, u64> = BTreeMap::new();
    for (&logical, writes) in &writes {
        let is_there = |(write, on): &(&std::cmp::Reverse<(u64, u32)>, &BTreeSet<Slot>)| {
            let missing: Vec<Slot> = slots().filter(|slot| !on.contains(slot)).collect();
            maps.free().contains(write.0.1) && bearing.bears(&missing)
        };
        let Some((nth, (write, on))) = writes.iter().enumerate().find(|(_, write)| is_there(write)) else {
            lost.push(logical);
            continue;
        };
        let (generation, physical) = write.0;
        if nth > 0 {
            older.push(logical);
        }
        maps.load_stripe(logical, Mapping { physical, generation });
        for slot in here.iter().filter(|slot| !on.contains(slot)) {
            let first = lacked.entry(*slot).or_insert(generation);
            *first = (*first).min(generation);
        }
    }
    let possible = found.iter().filter(|chunk| chunk.is_possible());
    maps.load_generation(1 + possible.map(|chunk| chunk.generation).max().unwrap_or(0));
    for slot in slots().filter(|slot| !here.contains(slot)) {
        maps.set_lost(slot, 0);
    }
    // Devices that lack chunks are caught up, those that lack the least first, as long as the
    // volume tolerates their absence. Gaps on the other devices are found when they are read or
    // scrubbed.
    let mut behind: Vec<(u64, Slot)> = lacked.into_iter().map(|(slot, first)| (first, slot)).collect();
    behind.sort_unstable();
    let mut away = maps.absent();
    behind.retain(|&(first, slot)| {
        away.push(slot);
        let bears = bearing.bears(&away);
        match bears {
            true => maps.set_lost(slot, first),
            false => drop(away.pop()),
        }
        bears
    });
    let behind: Vec<Slot> = behind.into_iter().map(|(_, slot)| slot).collect();
    let counted = |number: u64| if number < FOUND_END { number } else { 0 };
    let session = Session(counted(left.session.0) + FAR);
    let snapshot_record = left.snapshot.map_or(0, |snapshot| counted(snapshot.record.0));
    let record = RecordNumber(snapshot_record.max(counted(left.first_record.0)) + FAR);
    let (bytes, reference) = snapshot(geometry, &maps, left, session, record);
    let at = geometry.common().snapshot(reference.area).first;
    let most = 2 * (u64::from(geometry.physical_stripes()) + u64::from(geometry.log_rows()));
    let mut ancestors = left.ancestors.clone();
    ancestors.insert(0, left.history);
    ancestors.truncate(Superblock::ANCESTORS_MOST);
    let superblock = Superblock {
        history: fresh,
        ancestors,
        session,
        base: session,
        update: counted(left.update) + 2,
        first_record: RecordNumber(record.0 + 1),
        generation_floor: Generation(maps.generation().max(counted(left.generation_floor.0)) + most),
        snapshot: Some(reference),
        ..left.clone()
    };
    let of: Vec<Slot> = here.iter().copied().collect();
    let mut steps = vec![of.iter().map(|&slot| (slot, at, bytes.clone())).collect()];
    steps.extend(superblock_steps(geometry, &superblock, &maps.absent(), &of));
    Anew { steps, stripes: maps.stripes().mapped().count() as u64, older, lost, behind }
}

/// Encodes the maps as a snapshot, for the area that the superblock `left` does not refer to.
fn snapshot(
    geometry: &Geometry,
    maps: &Maps,
    left: &Superblock,
    session: Session,
    record: RecordNumber,
) -> (Vec<u8>, SnapshotRef) {
    let next_generation = Generation(maps.generation());
    let head = SnapshotHead { volume: geometry.volume, session, record, next_generation };
    let mut writer = SnapshotWriter::new(maps, head, geometry);
    let mut bytes = Vec::new();
    loop {
        let more = writer.next_blocks(1 << 12, maps, geometry);
        if more.is_empty() {
            break;
        }
        bytes.extend(more);
    }
    let area = left.snapshot.map_or(0, |snapshot| 1 - snapshot.area.min(1));
    let sum = writer.done();
    let blocks = sum.map_or((bytes.len() as u64 / BLOCK_BYTES) as u32, |sum| sum.blocks);
    let crc = sum.map_or(pantile_format::Crc64(0), |sum| sum.crc);
    (bytes, SnapshotRef { area, record, blocks, crc, replay_at: 0, session })
}
