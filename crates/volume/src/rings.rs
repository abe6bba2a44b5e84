//! The journals of all devices: each whole record once, with the devices that have it.
//!
//! The devices of a volume hold the same records, so all rings together need hardly more memory
//! than one. A ring itself is in memory only until its records have been found.
//!
//! # The cost of a ring
//!
//! A ring says where records begin and how long they are. An attacker who can write to a device can
//! place the head of a record in every block. The cost is bounded as follows:
//!
//! * Whole records of one ring do not overlap. Records that a volume wrote never do: a record stays
//!   whole only until another is written over a part of it, and no block inside a record looks like
//!   the head of one. If two with valid checksums overlap, one is forged. The first is kept,
//!   counted from the block where the device's own superblock begins to replay. So a record that
//!   replay reaches is never hidden by another one.
//! * At most [`WORK_RINGS`] times the length of the ring is compared and checksummed. A volume
//!   needs two: each record is compared once with the same one of another device, and checksummed
//!   once. The rest is for heads of records that were partly overwritten or partly written; such a
//!   record contains no other, unless a device lost writes. Beyond the limit the records of this
//!   device count as unreadable; other devices have them.
//! * All rings together keep the bytes of at most [`KEPT_RINGS`] rings: beyond that the records
//!   with the lowest numbers are dropped. Records to replay have higher numbers than old ones from
//!   times when devices were away, of which each device may have its own.

use crate::{BLOCK_BYTES, Geometry, Slot};
use pantile_format::volume::{Record, RecordHead};
use std::collections::{BTreeMap, BTreeSet};

/// Limit of the work, in lengths of a ring.
const WORK_RINGS: usize = 8;

/// Limit of the bytes kept, in rings.
const KEPT_RINGS: usize = 4;

/// A record that is whole.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) head: RecordHead,
    /// The bytes; empty if they were dropped.
    pub(crate) bytes: Vec<u8>,
    /// The devices that have the same bytes at this place.
    pub(crate) on: BTreeSet<Slot>,
}

/// Whole records, by the block of the ring at which they begin.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    records: BTreeMap<u32, Vec<Kept>>,
    /// The bytes of all kept records.
    bytes: usize,
}

impl Rings {
    /// Takes the records of a device's ring; `from`: the block where its replay begins. Unreadable
    /// blocks are zeros, so they are in no record.
    ///
    /// Records may have been partly overwritten, so every block may be the head of one.
    pub(crate) fn take(&mut self, slot: Slot, ring: &[u8], from: u32, geometry: &Geometry) {
        let blocks = geometry.journal_blocks();
        let mut work = WORK_RINGS * ring.len();
        // Both are counted from `from`: the head of the first record that is kept, and the current
        // block.
        let (mut first, mut passed) = (None, 0);
        while passed < blocks {
            let at = ((u64::from(from) + u64::from(passed)) % u64::from(blocks)) as u32;
            let most = blocks - passed + first.unwrap_or(passed);
            match self.take_at(slot, ring, (at, most), &mut work, geometry) {
                Some(taken) => {
                    first = first.or(Some(passed));
                    passed += taken;
                }
                None => passed += 1,
            }
        }
        self.let_go(KEPT_RINGS * ring.len());
    }

    /// Takes the record that begins at a block, if it is whole and has at most this many blocks;
    /// returns the number of its blocks.
    fn take_at(
        &mut self,
        slot: Slot,
        ring: &[u8],
        (at, most): (u32, u32),
        work: &mut usize,
        geometry: &Geometry,
    ) -> Option<u32> {
        let start = at as usize * BLOCK_BYTES as usize;
        let block = ring.get(start..start + BLOCK_BYTES as usize)?;
        let head = Record::peek(block, geometry.volume).ok().filter(|head| head.blocks <= most)?;
        let (front, rest) = in_ring(ring, at, head.blocks, geometry)?;
        let len = front.len() + rest.len();
        let sum = if rest.is_empty() { front } else { rest }.last_chunk::<8>()?;
        let mut look = || {
            *work = work.checked_sub(len)?;
            Some(())
        };
        let there = self.records.entry(at).or_default();
        for kept in there.iter_mut().filter(|kept| kept.bytes.len() == len && kept.bytes.ends_with(sum)) {
            look()?;
            if kept.bytes.starts_with(front) && kept.bytes.ends_with(rest) {
                kept.on.insert(slot);
                return Some(head.blocks);
            }
        }
        look()?;
        let bytes = [front, rest].concat();
        Record::decode(&bytes, geometry.volume, geometry.shape()).ok()?;
        self.bytes += len;
        there.push(Kept { head, bytes, on: [slot].into() });
        Some(head.blocks)
    }

    /// Drops the bytes of records with the lowest numbers until `most` bytes are left.
    fn let_go(&mut self, most: usize) {
        if self.bytes <= most {
            return;
        }
        let mut all: Vec<&mut Kept> = self.records.values_mut().flatten().collect();
        all.sort_by_key(|kept| (kept.head.number, kept.head.session));
        for kept in all {
            if self.bytes <= most {
                return;
            }
            self.bytes -= std::mem::take(&mut kept.bytes).len();
        }
    }

    /// Returns the whole records that begin at a block of the ring.
    pub(crate) fn at(&self, at: u32) -> &[Kept] {
        self.records.get(&at).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Kept> {
        self.records.values().flatten()
    }
}

/// Returns blocks of a ring from one on, and those after its end wraps around.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NewVolume;
    use pantile_format::Crc64;
    use pantile_format::volume::{
        Entry, MEMBER_BYTES, Member, MemberState, RECORD_HEAD_BYTES, RecordNumber, Session,
    };

    const BLOCK: usize = BLOCK_BYTES as usize;
    const JOURNAL: u32 = 64;

    fn geometry() -> Geometry {
        let new = NewVolume { journal_blocks: JOURNAL, ..NewVolume::small() };
        Geometry::new(new).expect("a geometry")
    }

    /// Makes a record of this many blocks.
    fn record(number: u64, blocks: usize, geometry: &Geometry) -> Vec<u8> {
        let entry = Entry::Member(Member { slot: Slot(0), state: MemberState::Present, first_update: 0 });
        let record = Record {
            volume: geometry.volume,
            session: Session(1),
            number: RecordNumber(number),
            flushed_through: RecordNumber(number - 1),
            entries: vec![entry; (blocks - 1) * BLOCK / MEMBER_BYTES + 1],
        };
        let bytes = record.encode(geometry.shape());
        assert_eq!(bytes.len(), blocks * BLOCK);
        bytes
    }

    fn put(ring: &mut [u8], at: u32, bytes: &[u8]) {
        for (nth, block) in bytes.chunks(BLOCK).enumerate() {
            let at = (at as usize + nth) % JOURNAL as usize * BLOCK;
            ring[at..at + BLOCK].copy_from_slice(block);
        }
    }

    /// Makes a head that claims this many blocks, with entries of an ignorable kind up to the
    /// block's end.
    fn head(number: u64, blocks: u32, geometry: &Geometry) -> Vec<u8> {
        let mut block = record(number, 1, geometry);
        let body = blocks as usize * BLOCK - RECORD_HEAD_BYTES - 8;
        block[12..16].copy_from_slice(&blocks.to_le_bytes());
        block[56..60].copy_from_slice(&blocks.to_le_bytes());
        block[60..64].copy_from_slice(&(body as u32).to_le_bytes());
        block
    }

    #[test]
    fn records_within_records_are_not_kept() {
        let geometry = geometry();
        let mut ring = vec![0; JOURNAL as usize * BLOCK];
        let (long, within) = (16, JOURNAL - 16);
        for at in 0..within {
            let mut block = head(u64::from(at) + 1, long, &geometry);
            // Each record has entries from block to block, at places that differ from record to
            // record.
            block[RECORD_HEAD_BYTES..].fill(0);
            block[RECORD_HEAD_BYTES..RECORD_HEAD_BYTES + 2].copy_from_slice(&64u16.to_le_bytes());
            put(&mut ring, at, &block);
        }
        let own = |at: u32| RECORD_HEAD_BYTES + 8 + 8 * (at % long) as usize;
        for at in 0..within {
            let (start, own) = (at as usize * BLOCK, own(at));
            let mut entry = |at: usize, len: usize| {
                ring[at..at + 2].copy_from_slice(&64u16.to_le_bytes());
                ring[at + 4..at + 8].copy_from_slice(&(len as u32).to_le_bytes());
            };
            entry(start + RECORD_HEAD_BYTES, own - RECORD_HEAD_BYTES);
            for nth in 0..long as usize {
                let last = nth + 1 == long as usize;
                entry(start + nth * BLOCK + own, if last { BLOCK - 8 - own } else { BLOCK });
            }
            let count = start + 56;
            ring[count..count + 4].copy_from_slice(&(long + 1).to_le_bytes());
        }
        for at in 0..within {
            let end = (at + long) as usize * BLOCK;
            let crc = Crc64::of(&ring[at as usize * BLOCK..end - 8]);
            ring[end - 8..end].copy_from_slice(&crc.0.to_le_bytes());
        }
        let mut rings = Rings::default();
        rings.take(Slot(0), &ring, 0, &geometry);
        let kept: usize = rings.all().map(|kept| kept.bytes.len()).sum();
        assert!(rings.all().count() >= 1, "they are whole");
        assert!(kept <= ring.len(), "{kept} bytes of a ring of {}", ring.len());
    }

    #[test]
    fn heads_that_claim_a_whole_ring_cost_a_few_rings() {
        let geometry = geometry();
        let mut ring = vec![0; JOURNAL as usize * BLOCK];
        (0..JOURNAL - 1).for_each(|at| put(&mut ring, at, &head(1, JOURNAL, &geometry)));
        put(&mut ring, JOURNAL - 1, &record(7, 1, &geometry));
        let mut rings = Rings::default();
        rings.take(Slot(0), &ring, 0, &geometry);
        assert_eq!(rings.all().count(), 0, "it had given all that it may cost before");
        // The records to replay come first within the limit of work.
        rings.take(Slot(0), &ring, JOURNAL - 1, &geometry);
        assert_eq!(rings.at(JOURNAL - 1).len(), 1);
    }

    #[test]
    fn rings_together_keep_what_a_few_of_them_hold() {
        let geometry = geometry();
        let mut rings = Rings::default();
        let mut newest = Vec::new();
        for slot in 0..64 {
            let mut ring = vec![0; JOURNAL as usize * BLOCK];
            for at in 0..JOURNAL / 16 {
                put(&mut ring, 16 * at, &record(u64::from(100 * slot + at) + 1, 16, &geometry));
            }
            rings.take(Slot(slot), &ring, 0, &geometry);
            newest = ring;
        }
        let kept: usize = rings.all().map(|kept| kept.bytes.len()).sum();
        assert!(kept <= KEPT_RINGS * newest.len(), "{kept} bytes");
        for at in (0..JOURNAL).step_by(16) {
            let last = rings.at(at).iter().max_by_key(|kept| kept.head.number).expect("it is kept");
            assert_eq!(last.bytes, newest[at as usize * BLOCK..][..16 * BLOCK]);
        }
    }

    #[test]
    fn records_of_a_volume_are_kept_lap_after_lap() {
        let geometry = geometry();
        let mut ring = vec![0; JOURNAL as usize * BLOCK];
        let (mut at, mut state) = (0, 5u32);
        // The whole records, by the block that they begin at.
        let mut model: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        for number in 1..200 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let blocks = 1 + (state >> 16) % 15;
            let bytes = record(number, blocks as usize, &geometry);
            // Some records are torn, and the next one begins at the same block.
            let is_torn = (state >> 8) % 4 == 0;
            let written = if is_torn { (state >> 24) % blocks } else { blocks };
            put(&mut ring, at, &bytes[..written as usize * BLOCK]);
            let touches = |first: u32, len: u32| (0..len).map(move |n| (first + n) % JOURNAL);
            let over: BTreeSet<u32> = touches(at, written).collect();
            model.retain(|&first, bytes: &mut Vec<u8>| {
                !touches(first, (bytes.len() / BLOCK) as u32).any(|block| over.contains(&block))
            });
            if !is_torn {
                model.insert(at, bytes);
                at = (at + blocks) % JOURNAL;
            }
            if number % 5 > 0 {
                continue;
            }
            for from in [0, at, (state >> 3) % JOURNAL] {
                let mut rings = Rings::default();
                rings.take(Slot(0), &ring, from, &geometry);
                rings.take(Slot(1), &ring, at, &geometry);
                let found = rings.records.iter().filter(|(_, all)| !all.is_empty());
                let found: BTreeMap<u32, Vec<u8>> =
                    found.map(|(&at, all)| (at, all[0].bytes.clone())).collect();
                assert!(found == model, "after record {number}, from {from}");
                assert!(rings.all().all(|kept| kept.on.len() == 2));
            }
        }
    }
}
