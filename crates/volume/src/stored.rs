//! Conversion of the maps to the format. Changes become entries of a record, and all of the maps
//! a snapshot. The superblock of one device is made from that of another.
//!
//! No byte is defined here; `pantile_format::volume` does that. Decoded entries are consistent:
//! rows have as many cells as their kind needs, no physical stripe has two owners, and no block is
//! in the log twice.

use crate::maps::{Change, ChunkPatch, Mapping, Maps, Row, RowCell, RowKind, StripePatch};
use crate::{BLOCK_BYTES, Geometry, Slot, UserBlock};
use pantile_format::volume::{
    self, Cell, Entry, Holds, LogRow, LogWrite, LogicalStripe, PhysicalStripe, SnapshotDecoder,
    SnapshotEncoder, SnapshotHead, SnapshotItem, SnapshotRef, SnapshotSum, StripeSwitch, Superblock,
};
use pantile_format::{Crc64, Generation};
use std::collections::{BTreeMap, VecDeque};

/// The end of generations, sessions and records, which are counted from 1. No volume reaches it: a
/// higher number is forged, and could make a counter overflow.
pub(crate) const NUMBERS_END: u64 = 1 << 62;

/// The end of numbers that are known only from chunks or one superblock. A volume that continues
/// from such a number has as many again before it reaches [`NUMBERS_END`].
pub(crate) const FOUND_END: u64 = NUMBERS_END / 2;

/// Returns true if a volume can count on from the numbers of a superblock. Others are neither
/// opened nor written.
pub(crate) fn counts_on(superblock: &Superblock) -> bool {
    let Superblock { session, update, first_record, generation_floor, snapshot, .. } = superblock;
    let record = snapshot.map_or(0, |snapshot| snapshot.record.0);
    [session.0, *update, first_record.0, generation_floor.0, record].into_iter().all(|n| n < NUMBERS_END)
}

pub(crate) fn entry(change: &Change, geometry: &Geometry) -> Entry {
    match change {
        Change::Switch { logical, physical, generation, digests } => Entry::StripeSwitch(StripeSwitch {
            logical: LogicalStripe((*logical).into()),
            physical: PhysicalStripe((*physical).into()),
            generation: Generation(*generation),
            digests: digests.clone(),
        }),
        Change::Unmap { first, count } => {
            Entry::Unmap { first: LogicalStripe((*first).into()), count: (*count).into() }
        }
        Change::Row { row, content } => Entry::LogWrite(log_write(*row, content, geometry)),
        Change::Forget { first, count } => Entry::LogForget { first: *first, count: *count },
        Change::Member(member) => Entry::Member(*member),
        Change::Note(note) => Entry::Note(*note),
        Change::Patch(patch) => Entry::Patch(volume::StripePatch {
            logical: LogicalStripe(patch.logical.into()),
            generation: Generation(patch.generation),
            chunks: patch.chunks.iter().map(chunk_patch).collect(),
        }),
        Change::WentHome { logical } => Entry::Patch(volume::StripePatch {
            logical: LogicalStripe((*logical).into()),
            generation: Generation(0),
            chunks: Vec::new(),
        }),
    }
}

fn chunk_patch(chunk: &ChunkPatch) -> volume::ChunkPatch {
    let blocks = chunk.blocks.iter().map(|&(place, sum)| (place, Crc64(sum))).collect();
    volume::ChunkPatch { slot: chunk.slot, digest: chunk.digest, blocks }
}

/// Returns the patch of an entry, if its chunks have the blocks that it names.
fn patch(entry: &volume::StripePatch, geometry: &Geometry) -> Option<StripePatch> {
    let chunk = |chunk: &volume::ChunkPatch| {
        let chunk_blocks = geometry.zones(chunk.slot).shape().chunk_blocks();
        let fits = chunk.blocks.last().is_some_and(|&(place, _)| u64::from(place) < chunk_blocks);
        let blocks = chunk.blocks.iter().map(|&(place, sum)| (place, sum.0)).collect();
        fits.then_some(ChunkPatch { slot: chunk.slot, digest: chunk.digest, blocks })
    };
    let chunks = entry.chunks.iter().map(chunk).collect::<Option<Vec<ChunkPatch>>>()?;
    Some(StripePatch { logical: entry.logical.0 as u32, generation: entry.generation.0, chunks })
}

/// Returns the change of a decoded entry. `None`: this volume never writes entries of its kind, or
/// a log write that its code cannot make; its stripe is in a place that it does not have; or no
/// volume reaches its generation or update.
pub(crate) fn change(entry: &Entry, geometry: &Geometry) -> Option<Change> {
    if !may_have(entry, geometry) {
        return None;
    }
    Some(match entry {
        Entry::StripeSwitch(switch) if switch.generation.0 >= NUMBERS_END => {
            return None;
        }
        Entry::LogWrite(write) if write.generation.0 >= NUMBERS_END => return None,
        Entry::Member(member) if member.first_update >= NUMBERS_END => return None,
        Entry::StripeSwitch(switch) => Change::Switch {
            logical: switch.logical.0 as u32,
            physical: switch.physical.0 as u32,
            generation: switch.generation.0,
            digests: switch.digests.clone(),
        },
        Entry::Unmap { first, count } => Change::Unmap { first: first.0 as u32, count: *count as u32 },
        Entry::LogWrite(write) => Change::Row { row: write.row.0, content: row(write, geometry)? },
        Entry::LogForget { first, count } => Change::Forget { first: *first, count: *count },
        Entry::Member(member) => Change::Member(*member),
        Entry::Note(note) => Change::Note(*note),
        Entry::Patch(over) if over.chunks.is_empty() => Change::WentHome { logical: over.logical.0 as u32 },
        Entry::Patch(entry) => Change::Patch(patch(entry, geometry)?),
    })
}

/// Returns what a cell of the log holds: a user block, or a home block of a stripe.
fn holds(block: UserBlock, geometry: &Geometry) -> Holds {
    match geometry.is_home(block) {
        true => Holds::Home(block.0 - geometry.user_blocks()),
        false => Holds::User(block),
    }
}

/// Returns the block that a cell of the log holds; `None`: it holds none, or one that no stripe
/// has.
fn block_of(holds: Holds, geometry: &Geometry) -> Option<UserBlock> {
    match holds {
        Holds::User(block) => Some(block),
        Holds::Home(home) => {
            let homes = u64::from(geometry.logical_stripes()) * geometry.home_blocks();
            (geometry.may_patch() && home < homes).then(|| UserBlock(geometry.user_blocks() + home))
        }
        Holds::Parity | Holds::Unused => None,
    }
}

/// Returns true if a volume of this code writes entries of this kind, in records or snapshots.
fn may_have(entry: &Entry, geometry: &Geometry) -> bool {
    match entry {
        Entry::Patch(_) => geometry.may_patch(),
        Entry::StripeSwitch(_)
        | Entry::LogWrite(_)
        | Entry::Unmap { .. }
        | Entry::LogForget { .. }
        | Entry::Member(_)
        | Entry::Note(_) => true,
    }
}

/// Returns the entry of a row in use; copies of a forgotten block are left out.
fn log_write(number: u32, row: &Row, geometry: &Geometry) -> LogWrite {
    let named =
        |holds: Holds, cell: &RowCell| Cell { slot: cell.slot, holds, checksum: Crc64(cell.checksum) };
    let mut cells: Vec<Cell> = match row.kind {
        RowKind::Coded => {
            let user =
                row.blocks.iter().map(|block| block.map_or(Holds::Unused, |block| holds(block, geometry)));
            let all = user.chain(std::iter::repeat(Holds::Parity));
            all.zip(&row.cells).map(|(holds, cell)| named(holds, cell)).collect()
        }
        RowKind::Copies => {
            let copies = row.cells.chunks(geometry.tolerance() + 1);
            let known = row.blocks.iter().zip(copies).filter_map(|(&block, cells)| Some((block?, cells)));
            known.flat_map(|(b, cells)| cells.iter().map(move |c| named(holds(b, geometry), c))).collect()
        }
    };
    cells.sort_unstable_by_key(|cell| cell.slot);
    LogWrite { row: LogRow(number), generation: Generation(row.generation), cells }
}

/// Returns the row that a log write has made, if it can be one of this code and holds a user block.
fn row(write: &LogWrite, geometry: &Geometry) -> Option<Row> {
    let stored = |cell: &Cell| RowCell { slot: cell.slot, checksum: cell.checksum.0 };
    let is_coded = write.cells.iter().any(|cell| cell.holds == Holds::Parity);
    let mut cells = Vec::with_capacity(write.cells.len());
    let mut blocks = Vec::new();
    if is_coded {
        // The cells are ascending by slot and as many as there are slots: each has the index of its
        // slot.
        if write.cells.len() != geometry.slots() {
            return None;
        }
        for column in 0..geometry.slots() {
            let cell = &write.cells[geometry.row_slot(write.row.0, column).0 as usize];
            match (cell.holds, column < geometry.log_data()) {
                (Holds::User(_) | Holds::Home(_), true) => {
                    blocks.push(Some(block_of(cell.holds, geometry)?));
                }
                (Holds::Unused, true) => blocks.push(None),
                (Holds::Parity, false) => {}
                _ => return None,
            }
            cells.push(stored(cell));
        }
    } else {
        let mut copies: BTreeMap<UserBlock, Vec<RowCell>> = BTreeMap::new();
        for cell in &write.cells {
            let block = block_of(cell.holds, geometry)?;
            copies.entry(block).or_default().push(stored(cell));
        }
        for (block, of_block) in copies {
            if of_block.len() != geometry.tolerance() + 1 {
                return None;
            }
            blocks.push(Some(block));
            cells.extend(of_block);
        }
    }
    let kind = if is_coded { RowKind::Coded } else { RowKind::Copies };
    let row = Row { kind, generation: write.generation.0, cells, blocks };
    (row.live() > 0).then_some(row)
}

/// Makes the blocks of a snapshot piece by piece. The maps must not change meanwhile, except for
/// the states of members, which are taken at the beginning.
#[derive(Debug)]
pub(crate) struct SnapshotWriter {
    encoder: Option<SnapshotEncoder>,
    next_stripe: u32,
    next_row: u32,
    rest: VecDeque<Vec<u8>>,
    sum: Option<SnapshotSum>,
}

impl SnapshotWriter {
    pub(crate) fn new(maps: &Maps, head: SnapshotHead, geometry: &Geometry) -> SnapshotWriter {
        let mut encoder = SnapshotEncoder::new(head, geometry.shape());
        maps.member_entries().for_each(|member| encoder.push(&SnapshotItem::Member(member)));
        let (encoder, rest) = (Some(encoder), VecDeque::new());
        SnapshotWriter { encoder, next_stripe: 0, next_row: 0, rest, sum: None }
    }

    /// Returns the next blocks, at most `most`, until there are no more.
    pub(crate) fn next_blocks(&mut self, most: usize, maps: &Maps, geometry: &Geometry) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < most * BLOCK_BYTES as usize {
            let Some(encoder) = &mut self.encoder else {
                let Some(block) = self.rest.pop_front() else { break };
                bytes.extend(block);
                continue;
            };
            if let Some(block) = encoder.next_block() {
                bytes.extend(block);
            } else if let Some((logical, Mapping { physical, generation })) =
                maps.stripes().mapped_from(self.next_stripe)
            {
                self.next_stripe = logical + 1;
                encoder.push(&SnapshotItem::Stripe {
                    logical: LogicalStripe(logical.into()),
                    physical: PhysicalStripe(physical.into()),
                    generation: Generation(generation),
                });
            } else if let Some((&row, content)) = maps.rows().range(self.next_row..).next() {
                self.next_row = row + 1;
                encoder.push(&SnapshotItem::LogWrite(log_write(row, content, geometry)));
            } else if let Some(encoder) = self.encoder.take() {
                let (rest, sum) = encoder.finish();
                (self.rest, self.sum) = (rest.into(), Some(sum));
            }
        }
        bytes
    }

    /// Returns length and checksum, once all blocks were taken.
    pub(crate) fn done(&self) -> Option<SnapshotSum> {
        self.sum.filter(|_| self.rest.is_empty())
    }
}

/// Makes maps from the pieces of the snapshot that a superblock refers to.
#[derive(Debug)]
pub(crate) struct SnapshotReader {
    decoder: SnapshotDecoder,
    maps: Maps,
}

impl SnapshotReader {
    pub(crate) fn new(geometry: &Geometry, reference: &SnapshotRef) -> SnapshotReader {
        let decoder = SnapshotDecoder::new(geometry.volume, geometry.shape(), reference);
        SnapshotReader { decoder, maps: Maps::new(geometry) }
    }

    /// Returns the first block of the next piece; `None` after the last.
    pub(crate) fn wanted(&self) -> Option<u32> {
        self.decoder.wanted()
    }

    /// Takes the next blocks. `false`: they are not of this snapshot, or have impossible entries.
    pub(crate) fn push(&mut self, bytes: &[u8], geometry: &Geometry) -> bool {
        bytes.chunks_exact(BLOCK_BYTES as usize).all(|block| {
            self.decoder.wanted().is_some()
                && self
                    .decoder
                    .push(block)
                    .is_ok_and(|items| items.into_iter().all(|item| self.put(item, geometry).is_some()))
        })
    }

    fn put(&mut self, item: SnapshotItem, geometry: &Geometry) -> Option<()> {
        let maps = &mut self.maps;
        match item {
            SnapshotItem::Member(member) if member.first_update >= NUMBERS_END => return None,
            SnapshotItem::Member(member) => maps.load_member(member),
            SnapshotItem::Stripe { logical, physical, generation } => {
                let mapping = Mapping { physical: physical.0 as u32, generation: generation.0 };
                return maps.load_stripe(logical.0 as u32, mapping).then_some(());
            }
            SnapshotItem::LogWrite(write) => {
                let content = row(&write, geometry)?;
                return maps.load_row(write.row.0, content).then_some(());
            }
        }
        Some(())
    }

    /// Returns the maps; `None` if blocks are missing.
    pub(crate) fn finish(mut self) -> Option<Maps> {
        self.maps.load_generation(self.decoder.finish().ok()?.next_generation.0);
        (self.maps.generation() < NUMBERS_END).then_some(self.maps)
    }
}

/// Makes the superblock of one device from that of any: it differs in the slot, the shape of its
/// chunks and the lost devices.
pub(crate) fn superblock_of(slot: Slot, lost: &[Slot], geometry: &Geometry, any: &Superblock) -> Superblock {
    Superblock {
        slot,
        shape: *geometry.zones(slot).shape(),
        lost: lost.iter().copied().filter(|&other| other != slot).collect(),
        ..any.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NewVolume;

    #[test]
    fn a_code_without_patches_has_no_entry_of_them() {
        let geometry = Geometry::new(NewVolume::small()).expect("a geometry");
        let patch =
            volume::StripePatch { logical: LogicalStripe(0), generation: Generation(0), chunks: vec![] };
        assert!(change(&Entry::Patch(patch), &geometry).is_none(), "a mirror of two");
        let unmap = Entry::Unmap { first: LogicalStripe(0), count: 3 };
        assert!(change(&unmap, &geometry).is_some());
    }
}
