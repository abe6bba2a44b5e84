//! What the journals of all devices hold: the records that are whole, each once, with the devices
//! that have it.
//!
//! The devices of a volume hold the same records, so that what is kept of all rings together is
//! hardly more than what one has, however many devices there are. A ring itself is held only until
//! its records have been found.

use crate::{BLOCK_BYTES, Geometry, Slot};
use pantile_format::volume::{Record, RecordHead};
use std::collections::{BTreeMap, BTreeSet};

/// A record that is whole.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) head: RecordHead,
    pub(crate) bytes: Vec<u8>,
    /// The devices that have it there, byte for byte.
    pub(crate) on: BTreeSet<Slot>,
}

/// Whole records by the block of the ring that they begin at.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    records: BTreeMap<u32, Vec<Kept>>,
}

impl Rings {
    /// Takes the records of a device's ring. What could not be read of it is zeros, and so is in no
    /// record.
    ///
    /// Records end where others have overwritten them, so every block may be the first of one.
    pub(crate) fn take(&mut self, slot: Slot, ring: &[u8], geometry: &Geometry) {
        for at in 0..geometry.journal_blocks() {
            let from = at as usize * BLOCK_BYTES as usize;
            let Some(first) = ring.get(from..from + BLOCK_BYTES as usize) else { return };
            let Ok(head) = Record::peek(first, geometry.volume) else { continue };
            let Some((front, rest)) = in_ring(ring, at, head.blocks, geometry) else { continue };
            let there = self.records.entry(at).or_default();
            let same = |kept: &&mut Kept| {
                kept.bytes.len() == front.len() + rest.len()
                    && kept.bytes.starts_with(front)
                    && kept.bytes.ends_with(rest)
            };
            if let Some(kept) = there.iter_mut().find(same) {
                kept.on.insert(slot);
                continue;
            }
            let bytes = [front, rest].concat();
            if Record::decode(&bytes, geometry.volume, geometry.shape()).is_ok() {
                there.push(Kept { head, bytes, on: [slot].into() });
            }
        }
    }

    /// The whole records that begin at a block of the ring.
    pub(crate) fn at(&self, at: u32) -> &[Kept] {
        self.records.get(&at).map_or(&[], Vec::as_slice)
    }

    /// All whole records.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Kept> {
        self.records.values().flatten()
    }
}

/// Blocks of a ring from one on, and those around its end.
fn in_ring<'r>(ring: &'r [u8], at: u32, blocks: u32, geometry: &Geometry) -> Option<(&'r [u8], &'r [u8])> {
    if blocks > geometry.journal_blocks() {
        return None;
    }
    let zones = geometry.common();
    let (front, rest) = zones.record(at, blocks);
    let part = |run: pantile_format::volume::BlockRun| {
        let from = ((run.first.0 - zones.journal().first.0) * BLOCK_BYTES) as usize;
        ring.get(from..from + (run.blocks * BLOCK_BYTES) as usize)
    };
    Some((part(front)?, rest.map_or(Some(&[][..]), part)?))
}
