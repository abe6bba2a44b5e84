//! Step 2 of a patch: blocks and headers are written home. After a crash they are first read again.

use crate::engine::{Engine, IoOwner};
use crate::fetch::{ChunkSums, Requester};
use crate::maps::{Mapping, StripePatch};
use crate::{Action, DeviceBlock, IoResult, Operand, Piece, Slot, Urgency, UserBlock};
use pantile_format::volume::ChunkHeader;
use std::collections::{BTreeMap, BTreeSet};

/// The number of attempts to write a chunk whose header is not found afterwards; then its device is
/// given up.
const TRIES_MOST: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Content is read from the log, and headers from their chunks, unless they are in memory.
    Read,
    Write,
    Flush,
    /// Headers are read again; chunks whose header a device has lost are written again.
    Check,
}

/// Patches that are being written home.
#[derive(Debug)]
pub(crate) struct Going {
    pub(crate) patches: Vec<StripePatch>,
    /// The patches are those of the last record before a crash.
    pub(crate) is_redo: bool,
    content: BTreeMap<UserBlock, Operand>,
    /// By index of the patch and device: the checksums of the chunk after the patch.
    headers: BTreeMap<(usize, Slot), Vec<u64>>,
    /// Chunks that must still be written.
    left: BTreeSet<(usize, Slot)>,
    step: Step,
    outstanding: usize,
    tries: u32,
}

impl Engine {
    /// Begins to write the patches of the last record of the session before.
    pub(crate) fn redo_patches(&mut self) {
        let patches: Vec<StripePatch> = std::mem::take(&mut self.patching.redo).into_values().collect();
        self.patching.locked = patches.iter().map(|patch| patch.logical).collect();
        self.go_home(patches, BTreeMap::new(), BTreeMap::new(), true);
    }

    /// Begins to write patches home, with the content that is in memory.
    pub(super) fn go_home(
        &mut self,
        patches: Vec<StripePatch>,
        content: BTreeMap<UserBlock, Operand>,
        headers: BTreeMap<(usize, Slot), Vec<u64>>,
        is_redo: bool,
    ) {
        let chunks = patches
            .iter()
            .enumerate()
            .flat_map(|(index, patch)| patch.chunks.iter().map(move |chunk| (index, chunk.slot)));
        let left: BTreeSet<(usize, Slot)> = chunks.filter(|(_, slot)| self.maps.is_present(*slot)).collect();
        let missing: BTreeSet<UserBlock> = patches
            .iter()
            .flat_map(|patch| self.blocks_of(patch).into_iter().map(|(block, ..)| block))
            .filter(|block| !content.contains_key(block) && self.maps.is_logged(*block))
            .collect();
        let unknown: Vec<(usize, Slot)> =
            left.iter().copied().filter(|chunk| !headers.contains_key(chunk)).collect();
        let outstanding = 1 + missing.len() + unknown.len();
        let (step, tries) = (Step::Read, 0);
        self.patching.going =
            Some(Going { patches, is_redo, content, headers, left, step, outstanding, tries });
        for block in missing {
            self.fetch(block, Requester::Home { block });
        }
        self.read_home_headers(unknown);
        self.home_part_done();
    }

    /// Returns for each block of a patch its number in the log, its device, and its address there.
    fn blocks_of(&self, patch: &StripePatch) -> Vec<(UserBlock, Slot, DeviceBlock)> {
        let Some(Mapping { physical, .. }) = self.maps.mapping(patch.logical) else {
            return Vec::new();
        };
        let place = |(slot, cell, offset, _)| {
            let (_, at) = self.geometry.cell_block(physical, cell, offset);
            (self.geometry.block_of(patch.logical, cell, offset), slot, at)
        };
        patch.places(physical, &self.geometry).map(place).collect()
    }

    fn read_home_headers(&mut self, chunks: Vec<(usize, Slot)>) {
        for (patch, slot) in chunks {
            let Some(Mapping { physical, .. }) = self.mapping_of(patch) else {
                self.home_part_done();
                continue;
            };
            let (at, blocks) = (self.geometry.chunk_start(physical, slot), self.geometry.header_blocks(slot));
            let io = self.io.new_io(slot, IoOwner::HomeHeader { patch, slot });
            self.io.act(Action::ReadBytes { io, slot, at, blocks, urgency: Urgency::User });
        }
    }

    fn mapping_of(&self, patch: usize) -> Option<Mapping> {
        let going = self.patching.going.as_ref()?;
        self.maps.mapping(going.patches.get(patch)?.logical)
    }

    /// Takes a block's content from the log; `None`: it is lost.
    pub(crate) fn home_content(&mut self, block: UserBlock, content: Option<Operand>) {
        if let (Some(going), Some(content)) = (&mut self.patching.going, content) {
            going.content.insert(block, content);
        }
        self.home_part_done();
    }

    /// Takes a header that was read: the one from before the patch, or the one that was written.
    pub(crate) fn home_header_read(&mut self, index: usize, slot: Slot, result: &IoResult) {
        let bytes = match result {
            IoResult::Bytes(bytes) => bytes.as_slice(),
            _ => &[],
        };
        let mapping = self.mapping_of(index);
        let going = self.patching.going.as_ref();
        let patch = going.and_then(|going| going.patches.get(index));
        let chunk = patch.and_then(|patch| patch.chunks.iter().find(|chunk| chunk.slot == slot));
        let (Some(going), Some(patch), Some(chunk), Some(mapping)) = (going, patch, chunk, mapping) else {
            return self.home_part_done();
        };
        let is_there = || {
            let whole = ChunkHeader::decode(bytes, self.geometry.volume).is_ok();
            whole && ChunkHeader::digest_of(bytes) == chunk.digest
        };
        let made = || {
            let count = self.geometry.zones(slot).shape().chunk_blocks() as usize;
            let found = ChunkHeader::checksums_of_torn(bytes, count)?;
            let mut sums: Vec<u64> = found.into_iter().map(|sum| sum.0).collect();
            chunk.blocks.iter().for_each(|&(block, sum)| sums[block as usize] = sum);
            let Mapping { physical, generation } = mapping;
            let (_, digest) = self.chunk_header(patch.logical, physical, generation, slot, &sums);
            (digest == chunk.digest).then_some(sums)
        };
        let (mut found, mut has_come) = (None, false);
        match going.step {
            Step::Check => has_come = is_there(),
            _ => found = made(),
        }
        if let Some(going) = &mut self.patching.going {
            if has_come {
                going.left.remove(&(index, slot));
            }
            going.headers.extend(found.map(|sums| ((index, slot), sums)));
        }
        self.home_part_done();
    }

    pub(crate) fn home_part_done(&mut self) {
        let Some(going) = &mut self.patching.going else { return };
        going.outstanding -= 1;
        if going.outstanding > 0 {
            return;
        }
        match going.step {
            Step::Read => {
                self.leave_what_cannot_go();
                self.write_home();
            }
            Step::Write => self.flush_home(),
            Step::Flush => self.check_home(),
            Step::Check if going.left.is_empty() => self.end_home(),
            Step::Check if going.tries < TRIES_MOST => self.write_home(),
            Step::Check => {
                // The device reports writes as done that it has not done.
                let slots: BTreeSet<Slot> = going.left.iter().map(|&(_, slot)| slot).collect();
                slots.into_iter().for_each(|slot| self.home_write_failed(slot));
                self.end_home();
            }
        }
    }

    /// Leaves out stripes whose patch cannot be written. If the log has lost a block of the patch,
    /// the stripe stays as it is. If the header of a chunk is neither the old nor the new one, that
    /// chunk is lost. Either stripe is then written again as a whole.
    fn leave_what_cannot_go(&mut self) {
        let Some(mut going) = self.patching.going.take() else { return };
        for (index, patch) in going.patches.iter().enumerate() {
            let blocks = self.blocks_of(patch);
            let is_whole = blocks.iter().all(|(block, ..)| going.content.contains_key(block));
            let has_headers = patch
                .chunks
                .iter()
                .filter(|chunk| going.left.contains(&(index, chunk.slot)))
                .all(|chunk| going.headers.contains_key(&(index, chunk.slot)));
            if !is_whole {
                going.left.retain(|&(of, _)| of != index);
            }
            if !is_whole || !has_headers {
                self.damage.suspect(patch.logical);
            }
        }
        self.patching.going = Some(going);
    }

    fn write_home(&mut self) {
        let Some(going) = &self.patching.going else { return };
        let mut pieces: BTreeMap<(Slot, DeviceBlock), (u64, Piece)> = BTreeMap::new();
        for (index, patch) in going.patches.iter().enumerate() {
            let Some(Mapping { physical, generation }) = self.maps.mapping(patch.logical) else {
                continue;
            };
            let is_left = |slot: Slot| going.left.contains(&(index, slot)) && self.maps.is_present(slot);
            for (block, slot, at) in self.blocks_of(patch).into_iter().filter(|&(_, slot, _)| is_left(slot)) {
                if let Some(&content) = going.content.get(&block) {
                    pieces.insert((slot, at), (1, Piece::Block(content)));
                }
            }
            for slot in patch.chunks.iter().map(|chunk| chunk.slot).filter(|&slot| is_left(slot)) {
                let Some(sums) = going.headers.get(&(index, slot)) else { continue };
                let (header, _) = self.chunk_header(patch.logical, physical, generation, slot, sums);
                let at = (slot, self.geometry.chunk_start(physical, slot));
                pieces.insert(at, (self.geometry.header_blocks(slot).into(), Piece::Bytes(header)));
            }
        }
        let writes = in_runs(pieces);
        if let Some(going) = &mut self.patching.going {
            (going.step, going.outstanding, going.tries) = (Step::Write, 1 + writes.len(), going.tries + 1);
        }
        for (slot, at, pieces) in writes {
            let io = self.io.new_io(slot, IoOwner::HomeWrite);
            self.io.act(Action::Write { io, slot, at, pieces, urgency: Urgency::User });
        }
        self.home_part_done();
    }

    fn flush_home(&mut self) {
        let present = self.present();
        if let Some(going) = &mut self.patching.going {
            (going.step, going.outstanding) = (Step::Flush, 1 + present.len());
        }
        for slot in present {
            let io = self.io.new_io(slot, IoOwner::HomeWrite);
            self.io.act(Action::Flush { io, slot });
        }
        self.home_part_done();
    }

    fn check_home(&mut self) {
        let Some(going) = &mut self.patching.going else { return };
        // A chunk without its expected header is lost, and nothing is left to verify.
        let maps = &self.maps;
        going.left.retain(|chunk| going.headers.contains_key(chunk) && maps.is_present(chunk.1));
        let left: Vec<(usize, Slot)> = going.left.iter().copied().collect();
        (going.step, going.outstanding) = (Step::Check, 1 + left.len());
        self.read_home_headers(left);
        self.home_part_done();
    }

    /// Loses a device that could not write, even if it can still be read.
    pub(crate) fn home_write_failed(&mut self, slot: Slot) {
        self.device_gone(slot);
    }

    /// Ends a patch, which is durable in its place.
    fn end_home(&mut self) {
        let Some(Going { patches, content, headers, is_redo, .. }) = self.patching.going.take() else {
            return;
        };
        for ((index, slot), sums) in headers {
            let mapping = self.maps.mapping(patches[index].logical);
            if let Some(Mapping { physical, generation }) = mapping.filter(|_| self.maps.is_present(slot)) {
                self.headers.keep(physical, slot, ChunkSums { generation, sums }, &self.pins);
            }
        }
        content.into_values().for_each(|content| self.io.release_operand(content));
        self.patching.stripes += patches.len() as u64;
        patches.iter().for_each(|patch| self.came_home(patch));
        self.patching.goes_on = !is_redo;
        self.unlock();
    }
}

/// As few writes as there are runs of blocks.
fn in_runs(pieces: BTreeMap<(Slot, DeviceBlock), (u64, Piece)>) -> Vec<(Slot, DeviceBlock, Vec<Piece>)> {
    let mut writes: Vec<(Slot, DeviceBlock, Vec<Piece>)> = Vec::new();
    let mut end = None;
    for ((slot, at), (blocks, piece)) in pieces {
        match writes.last_mut() {
            Some((_, _, pieces)) if end == Some((slot, at.0)) => pieces.push(piece),
            _ => writes.push((slot, at, vec![piece])),
        }
        end = Some((slot, at.0 + blocks));
    }
    writes
}
