//! Recovers a volume with intact data that has lost its superblocks or maps on more devices than
//! the code tolerates: from the headers of its chunks.
//!
//! A chunk's header names volume, slot, physical and logical stripe, column and generation under a
//! checksum. So a device without any superblock is identified by its chunks. Each logical stripe
//! maps to the newest generation of which enough chunks are found.
//!
//! Lost are blocks that were in the log alone: the log does not say whose blocks it holds. Stripes
//! that were trimmed, or whose last write a crash undid, come back. The caller tries the journal
//! first.

use crate::journal::definition_bytes;
use crate::maps::{Mapping, Maps};
use crate::stored::{FOUND_END, SnapshotWriter, counts_on, superblock_of};
use crate::{BLOCK_BYTES, Bearing, DeviceBlock, Geometry, Slot};
use pantile_format::Generation;
use pantile_format::volume::{
    HistoryId, MemberState, RecordNumber, Session, SnapshotHead, SnapshotRef, Superblock,
};
use std::collections::{BTreeMap, BTreeSet};

/// The writes of a stripe by generation and place, the newest first, and the devices that have
/// their chunk of each.
type Writes = BTreeMap<std::cmp::Reverse<(u64, u32)>, BTreeSet<Slot>>;

/// Sessions and records are numbered on behind all that devices without a superblock may know of.
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
    /// Returns true if a volume can have counted to its generation. Other chunks are of no volume,
    /// even under a right checksum.
    pub fn is_possible(&self) -> bool {
        self.generation < FOUND_END
    }
}

/// Writes that make a volume which can be opened, in steps: each is durable on all devices before
/// the next begins.
#[derive(Clone, Debug)]
pub struct Anew {
    /// The steps: slot, first block and bytes of each write.
    pub steps: Vec<Vec<(Slot, DeviceBlock, Vec<u8>)>>,
    /// Logical stripes that are mapped.
    pub stripes: u64,
    /// Those of them of which a newer write was found, but not in enough chunks.
    pub older: Vec<u32>,
    /// Logical stripes of which chunks were found, and of no write enough.
    pub lost: Vec<u32>,
    /// Devices that lack chunks of mapped stripes, and are caught up when the volume is served.
    pub behind: Vec<Slot>,
}

/// Makes the superblocks of devices that have lost theirs from one that is left: the volume keeps
/// its maps.
///
/// There are no steps if nothing is opened with the one that is left, because no volume counts so
/// far.
pub fn superblocks_again(geometry: &Geometry, left: &Superblock, of: &[Slot]) -> Anew {
    let mut anew =
        Anew { steps: Vec::new(), stripes: 0, older: Vec::new(), lost: Vec::new(), behind: Vec::new() };
    anew.steps = superblock_steps(geometry, left, &left.lost, of);
    anew
}

/// The text of the code, and superblocks in all three places, one after the other; nothing if a
/// volume with this superblock is not opened.
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
    // The turn that it counts last: until it is written the superblocks of before stay.
    let steps = [
        texts.collect::<Vec<_>>(),
        copies.collect(),
        at(superblock.update + 1).collect(),
        at(superblock.update).collect(),
    ];
    steps.into_iter().filter(|step| !step.is_empty()).collect()
}

/// Maps made of chunks alone, for devices of which `here` are given; `left`: the newest superblock
/// that is left of any.
///
/// The log begins empty. `fresh`: drawn at random; it becomes the history. Chunks in impossible
/// places, or of an impossible generation ([`ChunkFound::is_possible`]), are left out. Impossible
/// numbers of `left` are ignored, so that the new volume can be opened and counted on from.
pub fn maps_anew(
    geometry: &Geometry,
    left: &Superblock,
    here: &BTreeSet<Slot>,
    found: &[ChunkFound],
    fresh: HistoryId,
) -> Anew {
    let bearing = Bearing::new(&geometry.code, geometry.placement);
    let slots = || (0..geometry.slots() as u32).map(Slot);
    // By logical stripe its writes, newest first, and the devices that have their chunk of each.
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
        maps.load_member(slot, MemberState::Lost { missed_from: Generation(0) });
    }
    // Devices that lack something are caught up, the nearest to whole first, as long as the volume
    // can do without them. Other gaps are found when they are read or scrubbed.
    let mut behind: Vec<(u64, Slot)> = lacked.into_iter().map(|(slot, first)| (first, slot)).collect();
    behind.sort_unstable();
    let mut away = maps.absent();
    behind.retain(|&(first, slot)| {
        away.push(slot);
        let bears = bearing.bears(&away);
        match bears {
            true => maps.load_member(slot, MemberState::Lost { missed_from: Generation(first) }),
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

/// The maps as a snapshot, in the area that the superblock that is left does not use.
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
