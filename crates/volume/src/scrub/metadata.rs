//! The scrub of a device's metadata: superblocks, journal, snapshot, and the text of the code.
//!
//! After an opening, and after a device was admitted, all three superblocks of every present device
//! are whole. The opening writes two of them, and an admitted device gets three. If an opening
//! finds both places in front bad, the snapshot that follows writes all three. So a place that a
//! power failure has torn is written again before a scrub judges it, and a place that is bad then
//! was damaged later. The newest place in front and the copy must agree with the engine; the other
//! place must be whole.
//!
//! In the journal the records after the snapshot are judged: each must be whole, in its place, and
//! the same as on the other devices. Older ones are not needed. A part that a snapshot overwrites
//! while it is read is not judged.

use crate::engine::{Engine, IoOwner};
use crate::journal::definition_bytes;
use crate::{Action, BLOCK_BYTES, BadMetadata, DeviceBlock, IoResult, Slot, Urgency};
use pantile_format::volume::{
    BlockRun, PIECE_BLOCKS, Record, RecordNumber, Session, SnapshotDecoder, SnapshotRef, Superblock,
};
use std::collections::{BTreeMap, VecDeque};

/// Progress of a scrub in the metadata.
#[derive(Debug)]
pub(super) struct Metadata {
    /// The name of the reads under way; reads with other names belong to no scrub any more.
    round: u64,
    stage: Stage,
    came: Vec<(Slot, usize, IoResult)>,
    /// By record, the newest session that any device has of it; and by device, the records that it
    /// has.
    newest: BTreeMap<u64, Session>,
    records: BTreeMap<Slot, Vec<(u64, Session)>>,
}

#[derive(Debug)]
enum Stage {
    /// Superblocks of all devices, with the update number of the superblock when they were asked
    /// for.
    Superblocks(Option<u64>),
    /// The part that is being read, and the parts after it.
    Parts(Option<Part>, VecDeque<(Slot, Kind)>),
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Journal,
    Snapshot,
    Definition,
}

/// A part of a device, which is read piece by piece.
#[derive(Debug)]
struct Part {
    slot: Slot,
    content: Content,
    /// The update number of the superblock when the part was begun.
    update: u64,
    pieces: VecDeque<(DeviceBlock, u32)>,
}

#[derive(Debug)]
enum Content {
    /// The current part of the ring, and the numbers of its first and last record.
    Journal(Vec<u8>, u64, u64),
    Snapshot(Box<SnapshotDecoder>),
    Definition(Vec<u8>),
    Unreadable(Kind),
    Wrong(Kind),
}

impl Content {
    fn kind(&self) -> Kind {
        match self {
            Content::Journal(..) => Kind::Journal,
            Content::Snapshot(_) => Kind::Snapshot,
            Content::Definition(_) => Kind::Definition,
            Content::Unreadable(kind) | Content::Wrong(kind) => *kind,
        }
    }
}

/// The result of judging a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    Wrong,
    Unreadable,
}

impl Metadata {
    pub(super) fn new(round: u64) -> Metadata {
        let (newest, records) = (BTreeMap::new(), BTreeMap::new());
        Metadata { round, stage: Stage::Superblocks(None), came: Vec::new(), newest, records }
    }

    /// Returns the state of a finished scrub.
    pub(super) fn over(round: u64) -> Metadata {
        Metadata { stage: Stage::Over, ..Metadata::new(round) }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }
}

impl Engine {
    /// Returns the devices whose metadata the scrub judges.
    fn scrubbed_devices(&self) -> Vec<Slot> {
        let is_meant = |slot: &Slot| self.scrubs.current.as_ref().is_none_or(|scrub| scrub.is_of(*slot));
        self.present().into_iter().filter(is_meant).collect()
    }

    /// Judges the part that was read and begins the next; `false`: it waits for a snapshot.
    pub(super) fn scrub_metadata(&mut self) -> bool {
        let Some(scrub) = &mut self.scrubs.current else { return true };
        let came = std::mem::take(&mut scrub.metadata.came);
        match std::mem::replace(&mut scrub.metadata.stage, Stage::Over) {
            Stage::Superblocks(asked)
                if asked == Some(self.snapshots.superblock().update) && !self.snapshots.is_under_way() =>
            {
                self.judge_superblocks(&came);
                let kinds = [Kind::Journal, Kind::Snapshot, Kind::Definition];
                let parts =
                    self.scrubbed_devices().into_iter().flat_map(|slot| kinds.map(|kind| (slot, kind)));
                self.go_on_with(Stage::Parts(None, parts.collect()));
            }
            // Superblocks were not asked for yet, or are being written, so that the content read
            // may be from before and after.
            Stage::Superblocks(_) => {
                if self.snapshots.is_pending() {
                    self.go_on_with(Stage::Superblocks(None));
                    return false;
                }
                self.go_on_with(Stage::Superblocks(Some(self.snapshots.superblock().update)));
                self.ask_for_superblocks();
            }
            Stage::Parts(Some(mut part), others) => {
                for (_, _, result) in came {
                    part.take(&result);
                }
                match part.pieces.is_empty() {
                    true => {
                        self.judge_part(part);
                        self.go_on_with(Stage::Parts(None, others));
                    }
                    false => self.read_part(part, others),
                }
            }
            Stage::Parts(None, mut others) => {
                if self.snapshots.is_pending() {
                    self.go_on_with(Stage::Parts(None, others));
                    return false;
                }
                match others.pop_front() {
                    None => self.compare_records(),
                    Some((slot, kind)) => match self.part(slot, kind) {
                        Some(part) => self.read_part(part, others),
                        None => self.go_on_with(Stage::Parts(None, others)),
                    },
                }
            }
            Stage::Over => {}
        }
        true
    }

    fn go_on_with(&mut self, stage: Stage) {
        if let Some(scrub) = &mut self.scrubs.current {
            scrub.metadata.stage = stage;
        }
    }

    fn ask_for_blocks(
        &mut self,
        slot: Slot,
        index: usize,
        (at, blocks): (DeviceBlock, u32),
        urgency: Urgency,
    ) {
        let Some(scrub) = &mut self.scrubs.current else { return };
        scrub.outstanding += 1;
        let round = scrub.metadata.round;
        let io = self.io.new_io(slot, IoOwner::ScrubMetadata { round, index });
        self.io.act(Action::ReadBytes { io, slot, at, blocks, urgency });
    }

    pub(crate) fn scrubbed_metadata(&mut self, round: u64, index: usize, slot: Slot, result: &IoResult) {
        if let IoResult::Bytes(bytes) = result {
            self.noting.count_read(slot, bytes.len() as u64 / BLOCK_BYTES);
        }
        if let Some(scrub) = self.scrubs.current.as_mut().filter(|scrub| scrub.metadata.round == round) {
            scrub.metadata.came.push((slot, index, result.clone()));
        }
        self.scrub_part_done();
    }

    /// Reads three blocks of each device, without a limit of speed: else new snapshots could
    /// overtake the reads for ever.
    fn ask_for_superblocks(&mut self) {
        for slot in self.scrubbed_devices() {
            let zones = self.geometry.zones(slot);
            // The newest place in front, the copy, and the other place in front.
            let newest = self.snapshots.turn(slot) + 1;
            let places = [zones.superblock(newest), zones.superblock_copy(), zones.superblock(newest + 1)];
            for (index, at) in places.into_iter().enumerate() {
                self.ask_for_blocks(slot, index, (at, 1), Urgency::User);
            }
        }
    }

    fn judge_superblocks(&mut self, came: &[(Slot, usize, IoResult)]) {
        for (slot, index, result) in came {
            let verdict = match result {
                IoResult::Bytes(bytes) => {
                    let found = Superblock::decode(bytes).ok();
                    let is_good = found.is_some_and(|found| self.is_superblock_of(*slot, *index, &found));
                    if is_good { Verdict::Good } else { Verdict::Wrong }
                }
                IoResult::MediaError => Verdict::Unreadable,
                // The device is lost.
                _ => continue,
            };
            self.found_bad(*slot, verdict, |bad| bad.superblocks += 1);
        }
    }

    /// Returns true if a superblock is right for its device and place. Places are the newest in
    /// front (0), the copy (1), or the other in front (2).
    fn is_superblock_of(&self, slot: Slot, index: usize, found: &Superblock) -> bool {
        let newest = self.snapshots.superblock();
        let now = (newest.session, newest.update);
        let its = (found.session, found.update);
        let is_its_own = found.volume == newest.volume
            && found.slot == slot
            && found.fingerprint == newest.fingerprint
            && found.shape == *self.geometry.zones(slot).shape();
        is_its_own && if index < 2 { its == now } else { its <= now }
    }

    /// Begins a part; `None`: the volume or the device does not have it.
    fn part(&self, slot: Slot, kind: Kind) -> Option<Part> {
        if !self.maps.is_present(slot) {
            return None;
        }
        let zones = self.geometry.common();
        let (content, runs): (Content, Vec<BlockRun>) = match kind {
            Kind::Journal => {
                let (before, from) =
                    self.snapshots.superblock().snapshot.map_or((0, 0), |s| (s.record.0, s.replay_at));
                // Blocks being written may still have old, rotten content, and are not judged.
                let used = self.records.written().min(self.geometry.journal_blocks());
                let (front, rest) = zones.record(from, used);
                let content = Content::Journal(Vec::new(), before + 1, self.records.last().0);
                (content, std::iter::once(front).chain(rest).collect())
            }
            Kind::Snapshot => {
                let reference: SnapshotRef = self.snapshots.superblock().snapshot?;
                let decoder = SnapshotDecoder::new(self.geometry.volume, self.geometry.shape(), &reference);
                let run = BlockRun { blocks: reference.blocks.into(), ..zones.snapshot(reference.area) };
                (Content::Snapshot(Box::new(decoder)), vec![run])
            }
            Kind::Definition => {
                let bytes = definition_bytes(self.geometry.code.definition()?);
                let run = BlockRun { blocks: bytes.len() as u64 / BLOCK_BYTES, ..zones.definition() };
                (Content::Definition(Vec::new()), vec![run])
            }
        };
        let pieces = runs.into_iter().flat_map(pieces_of).collect();
        Some(Part { slot, content, update: self.snapshots.superblock().update, pieces })
    }

    fn read_part(&mut self, mut part: Part, others: VecDeque<(Slot, Kind)>) {
        if let Some(piece) = part.pieces.pop_front() {
            self.ask_for_blocks(part.slot, 0, piece, Urgency::Background);
        }
        self.go_on_with(Stage::Parts(Some(part), others));
    }

    fn judge_part(&mut self, part: Part) {
        let Part { slot, content, update, .. } = part;
        if update != self.snapshots.superblock().update || self.snapshots.is_under_way() {
            // The part is being written again, or the device was lost and has come back since.
            return;
        }
        let kind = content.kind();
        let good = |is_good| if is_good { Verdict::Good } else { Verdict::Wrong };
        let verdict = match content {
            Content::Journal(bytes, first, last) => {
                let records = self.records_in(&bytes, first, last);
                let is_whole = records.is_some();
                if let (Some(records), Some(scrub)) = (records, &mut self.scrubs.current) {
                    for &(number, session) in &records {
                        let newest = scrub.metadata.newest.entry(number).or_insert(session);
                        *newest = session.max(*newest);
                    }
                    scrub.metadata.records.insert(slot, records);
                }
                good(is_whole)
            }
            Content::Snapshot(decoder) => good(decoder.finish().is_ok()),
            Content::Definition(bytes) => {
                let text = self.geometry.code.definition().map(definition_bytes);
                good(text.is_some_and(|text| text == bytes))
            }
            Content::Wrong(_) => Verdict::Wrong,
            Content::Unreadable(_) => Verdict::Unreadable,
        };
        self.found_bad(slot, verdict, |bad| bad.mark(kind));
    }

    /// Returns the number and session of consecutive records, if all of them are whole and can be
    /// replayed.
    fn records_in(&self, bytes: &[u8], first: u64, last: u64) -> Option<Vec<(u64, Session)>> {
        let mut records = Vec::new();
        let mut at = 0;
        for number in first..=last {
            let head = Record::peek(bytes.get(at..at + BLOCK_BYTES as usize)?, self.geometry.volume).ok()?;
            let end = at + head.blocks as usize * BLOCK_BYTES as usize;
            let record = Record::decode(bytes.get(at..end)?, self.geometry.volume, self.geometry.shape());
            let session = record.ok()?.session;
            let may_be = match RecordNumber(number) >= self.snapshots.superblock().first_record {
                true => session == self.snapshots.superblock().session,
                false => session < self.snapshots.superblock().session,
            };
            if head.number != RecordNumber(number) || !may_be {
                return None;
            }
            records.push((number, session));
            at = end;
        }
        Some(records)
    }

    /// Notes devices whose record is of an older session than the same record on another device.
    /// Theirs was discarded, and they have lost the write of the valid one.
    ///
    /// A scrub of one device compares nothing. If a record there could be a discarded one, a
    /// snapshot is written, after which no older record counts.
    fn compare_records(&mut self) {
        let session = self.snapshots.superblock().session;
        let Some(scrub) = &mut self.scrubs.current else { return };
        let records = std::mem::take(&mut scrub.metadata.records);
        let newest = std::mem::take(&mut scrub.metadata.newest);
        if scrub.only.is_some() {
            scrub.has_old_records = records.values().flatten().any(|(_, of)| *of < session);
            return;
        }
        for (slot, records) in records {
            if records.iter().any(|(number, session)| newest.get(number) != Some(session)) {
                self.found_bad(slot, Verdict::Wrong, |bad| bad.mark(Kind::Journal));
            }
        }
    }

    /// Notes bad metadata of a device that is still present.
    fn found_bad(&mut self, slot: Slot, verdict: Verdict, note: impl FnOnce(&mut BadMetadata)) {
        if verdict == Verdict::Good || !self.maps.is_present(slot) {
            return;
        }
        self.noting.count_unreadable(slot, verdict == Verdict::Unreadable);
        self.noting.count_wrong(slot, u64::from(verdict == Verdict::Wrong));
        let Some(scrub) = &mut self.scrubs.current else { return };
        let found = &mut scrub.status.metadata;
        let index = found.iter().position(|bad| bad.slot == slot).unwrap_or_else(|| {
            found.push(BadMetadata::none(slot));
            found.len() - 1
        });
        note(&mut found[index]);
        scrub.status.metadata_devices = found.len() as u64;
    }
}

impl Part {
    /// Takes the next piece.
    fn take(&mut self, result: &IoResult) {
        let kind = self.content.kind();
        match (&mut self.content, result) {
            (Content::Journal(all, ..) | Content::Definition(all), IoResult::Bytes(bytes)) => {
                all.extend(bytes)
            }
            (Content::Snapshot(decoder), IoResult::Bytes(bytes)) => {
                let mut blocks = bytes.chunks_exact(BLOCK_BYTES as usize);
                if !blocks.all(|block| decoder.wanted().is_some() && decoder.push(block).is_ok()) {
                    self.end(Content::Wrong(kind));
                }
            }
            (_, IoResult::Bytes(_)) => {}
            _ => self.end(Content::Unreadable(kind)),
        }
    }

    /// Ends the part with a verdict that later pieces cannot change.
    fn end(&mut self, content: Content) {
        (self.content, self.pieces) = (content, VecDeque::new());
    }
}

impl BadMetadata {
    fn none(slot: Slot) -> BadMetadata {
        BadMetadata { slot, superblocks: 0, journal: false, snapshot: false, definition: false }
    }

    fn mark(&mut self, kind: Kind) {
        match kind {
            Kind::Journal => self.journal = true,
            Kind::Snapshot => self.snapshot = true,
            Kind::Definition => self.definition = true,
        }
    }
}

/// Returns the pieces of at most 1 MiB in which a run is read.
fn pieces_of(run: BlockRun) -> impl Iterator<Item = (DeviceBlock, u32)> {
    let piece = move |from: u64| {
        let blocks = (run.blocks - from).min(PIECE_BLOCKS.into());
        (DeviceBlock(run.first.0 + from), blocks as u32)
    };
    (0..run.blocks).step_by(PIECE_BLOCKS as usize).map(piece)
}
