//! The journals of all devices: the records that are whole, each once, with the devices that have
//! it.
//!
//! The devices of a volume hold the same records. So all rings together need hardly more memory
//! than one, however many devices there are. A ring itself is held only until its records have been
//! found.
//!
//! # What a ring may cost
//!
//! A ring says where records begin and how long they are. An attacker who can write to a device can
//! say so in every block. To bound the cost:
//!
//! - Whole records of one ring do not overlap. None that a volume wrote do: a record is whole only
//!   as long as nothing was written over it, and no block within one begins as a record does. Of
//!   two that overlap, under checksums that fit, one is forged. The first is kept, counted from the
//!   block where the device's own superblock begins to replay. So a record that replay reaches is
//!   never taken for a part of something else.
//! - No more than [`WORK_RINGS`] times the length of the ring is compared and checksummed. A volume
//!   needs two: each record once against the same one of another device, once for its checksum. The
//!   rest is for heads whose records were partly overwritten, or came partly; such a record has no
//!   other within it, unless a device lost writes. Beyond that records count as unreadable on this
//!   device; others have them.
//! - All rings together keep the bytes of no more than [`KEPT_RINGS`] of them: beyond that those of
//!   the lowest numbers are let go. Records to replay have higher numbers than those left over from
//!   times when devices were away, of which each may have some of its own.

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
    /// None: they were let go.
    pub(crate) bytes: Vec<u8>,
    /// The devices that have it there, byte for byte.
    pub(crate) on: BTreeSet<Slot>,
}

/// Whole records by the block of the ring that they begin at.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    records: BTreeMap<u32, Vec<Kept>>,
    /// Bytes of all of them.
    bytes: usize,
}

impl Rings {
    /// Takes the records of a device's ring, which it replays from a block on. Unreadable blocks
    /// are zeros, and so are in no record.
    ///
    /// Records end where others have overwritten them, so every block may be the first of one.
    pub(crate) fn take(&mut self, slot: Slot, ring: &[u8], from: u32, geometry: &Geometry) {
        let blocks = geometry.journal_blocks();
        let mut work = WORK_RINGS * ring.len();
        // Both counted from `from` on: where the first that is kept begins, and where we are.
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

    /// Takes the record that begins at a block, if it is whole and has at most so many blocks;
    /// returns its blocks.
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

    /// Lets bytes of the lowest numbers go until `most` are left.
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

    /// The whole records that begin at a block of the ring.
    pub(crate) fn at(&self, at: u32) -> &[Kept] {
        self.records.get(&at).map_or(&[], Vec::as_slice)
    }

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

    /// A record of some blocks.
    fn record(number: u64, blocks: usize, geometry: &Geometry) -> Vec<u8> {
        let entry = Entry::Member(Member { slot: Slot(0), state: MemberState::Present });
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

    /// Returns a head that claims this many blocks, and entries of a kind that may be ignored up to
    /// the block's end.
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
            // Each record has entries of its own from block to block, at its own places.
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
        // Records to replay come first.
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
        // Whole records, by place.
        let mut model: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        for number in 1..200 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let blocks = 1 + (state >> 16) % 15;
            let bytes = record(number, blocks as usize, &geometry);
            // Some are torn, and the next one lies there.
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
