//! The expectations of users of epochs of delayed parity.
//!
//! Each epoch has a view: a model that begins as a copy of the common one and takes the epoch's
//! requests. The end of an epoch puts the writes of its view into the common model, all at once.
//! Others may see them from the request to end on, and must see them once it is answered. A crash
//! before the answer leaves all of them or none. After an abort, a crash before the end, or a
//! refused end there are none.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use pantile_volume::{EpochId, Failure, RequestId, UserBlock};

use crate::model::{NEVER, Open, Tick};
use crate::{Ask, Data, Model, Told, Wrong};

/// The epochs of the users.
#[derive(Clone, Debug, Default)]
pub(crate) struct Epochs {
    open: BTreeMap<EpochId, View>,
    beginning: BTreeMap<RequestId, Range<u64>>,
    /// Ends that had no answer before a crash.
    undecided: BTreeSet<RequestId>,
    /// True if an event may have lost data of an epoch.
    pub(crate) may_lose: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) range: Range<u64>,
    model: Model,
    written: BTreeSet<usize>,
    begun: Tick,
    /// An end or abort was requested.
    pub(crate) closing: bool,
    /// Blocks that the last refused end reported as lost, and that were not written since.
    pub(crate) lost: BTreeSet<u64>,
    /// The time of that report. Earlier reads may have the content of a device that was lost later.
    lost_since: Tick,
}

impl Model {
    /// Returns the epochs that are open and have no request to close.
    pub(crate) fn open_epochs(&self) -> impl Iterator<Item = (EpochId, &View)> {
        self.epochs.open.iter().filter(|(_, view)| !view.closing).map(|(&epoch, view)| (epoch, view))
    }

    pub(crate) fn has_epochs(&self) -> bool {
        !self.epochs.open.is_empty() || !self.epochs.beginning.is_empty()
    }

    pub(crate) fn asked_of_epoch(&mut self, id: RequestId, ask: &Ask, asked: Tick) {
        match ask {
            &Ask::Begin { first, count, .. } => {
                self.epochs.beginning.insert(id, first.0..first.0 + count);
            }
            Ask::Within { epoch, request: ask } => {
                let Some(view) = self.epochs.open.get_mut(epoch) else { return };
                let (first, count) = match &**ask {
                    Ask::Write { first, contents, .. } => (first.0, contents.len() as u64),
                    Ask::Trim { first, count } => (first.0, *count),
                    _ => (0, 0),
                };
                view.written.extend((first..first + count).map(|block| block as usize));
                view.lost.retain(|block| !(first..first + count).contains(block));
                view.model.asked(id, ask);
            }
            Ask::End { epoch } => self.asked_to_end(id, *epoch, asked),
            Ask::Abort { epoch } => {
                if let Some(view) = self.epochs.open.get_mut(epoch) {
                    view.closing = true;
                }
            }
            _ => {}
        }
    }

    /// Notes that an end is requested: from now on others may see the epoch's writes.
    fn asked_to_end(&mut self, id: RequestId, epoch: EpochId, asked: Tick) {
        let Some(view) = self.epochs.open.get_mut(&epoch) else { return };
        view.closing = true;
        let mut all: Vec<(usize, Data)> = Vec::new();
        for &block in &view.written {
            let mut contents = view.model.newest(block);
            contents.sort_unstable();
            contents.dedup();
            all.extend(contents.into_iter().map(|content| (block, content)));
        }
        for (block, content) in all {
            self.add_version(block, content, id, asked);
            if let Some(version) = self.blocks[block].last_mut() {
                version.end = Some(id);
            }
        }
    }

    /// Returns the possible contents of a block for a read that begins now.
    fn newest(&self, block: usize) -> Vec<Data> {
        let versions = &self.blocks[block];
        let is_old = |version: Tick| versions.iter().any(|later| version < later.asked && later.over < NEVER);
        versions.iter().filter(|version| !is_old(version.over)).map(|version| version.content).collect()
    }

    /// Takes the answer to a request of an epoch, or to one that an epoch affects; `None`: any
    /// other request.
    pub(crate) fn answered_of_epoch(
        &mut self,
        id: RequestId,
        open: &Open,
        told: &Told,
        now: Tick,
    ) -> Option<Result<(), Wrong>> {
        match (&open.ask, told) {
            (Ask::Begin { .. }, told) => {
                self.epochs.beginning.remove(&id);
                if let &Told::Begun { epoch, first, count } = told {
                    let range = first.0..first.0 + count;
                    let mut model =
                        Model { made: BTreeMap::new(), epochs: Epochs::default(), ..self.clone() };
                    model.open.clear();
                    let (written, lost, closing) = (BTreeSet::new(), BTreeSet::new(), false);
                    let view = View { range, model, written, begun: now, closing, lost, lost_since: 0 };
                    self.epochs.open.insert(epoch, view);
                }
                Some(match told {
                    Told::Failed(Failure::EpochsOverlap { .. }) | Told::Begun { .. } => Ok(()),
                    Told::Failed(failure) => Err(Wrong::Failed { request: id, failure: failure.clone() }),
                    _ => Err(Wrong::NotRefused { request: id }),
                })
            }
            (Ask::Within { epoch, request: ask }, told) => {
                Some(self.answered_within(id, *epoch, (ask, open.asked), told))
            }
            (&Ask::End { epoch }, told) => Some(self.answered_end(id, epoch, told, now)),
            (&Ask::Abort { epoch }, Told::Done) => {
                self.epochs.open.remove(&epoch);
                Some(Ok(()))
            }
            (Ask::Abort { .. } | Ask::Advance { .. }, Told::Failed(Failure::NoSuchEpoch { .. })) => {
                Some(Ok(()))
            }
            (Ask::Advance { .. }, Told::Done) => Some(Ok(())),
            (Ask::Write { .. } | Ask::Trim { .. }, told) => self.answered_beside(id, open, told),
            _ => None,
        }
    }

    /// Takes the answer to a write or trim from outside of the epochs.
    fn answered_beside(&mut self, id: RequestId, open: &Open, told: &Told) -> Option<Result<(), Wrong>> {
        let (first, count) = match &open.ask {
            Ask::Write { first, contents, .. } => (first.0, contents.len() as u64),
            Ask::Trim { first, count } => (first.0, *count),
            _ => return None,
        };
        let range = first..first.saturating_add(count);
        let overlaps = |other: &Range<u64>| range.start < other.end && other.start < range.end;
        match told {
            Told::Failed(Failure::Busy { .. }) => {
                self.forget_request(id);
                // An epoch holds whole stripes, so one that begins may hold more than requested.
                let busy = self.epochs.open.values().any(|view| overlaps(&view.range))
                    || !self.epochs.beginning.is_empty();
                let failure = || Failure::Busy { epoch: EpochId(0) };
                Some(if busy { Ok(()) } else { Err(Wrong::Failed { request: id, failure: failure() }) })
            }
            Told::Done => {
                let mut held = self.epochs.open.values();
                let is_held = |view: &View| overlaps(&view.range) && view.begun < open.asked && !view.closing;
                (count > 0 && held.any(is_held)).then_some(Err(Wrong::LetIn { request: id }))
            }
            _ => None,
        }
    }

    fn answered_within(
        &mut self,
        id: RequestId,
        epoch: EpochId,
        (ask, asked): (&Ask, Tick),
        told: &Told,
    ) -> Result<(), Wrong> {
        let may_lose = self.epochs.may_lose;
        let Some(view) = self.epochs.open.get_mut(&epoch) else {
            // The epoch was closed meanwhile.
            return Ok(());
        };
        let Told::Failed(failure) = told else {
            if let (Ask::Read { first, count }, true) = (ask, asked > view.lost_since) {
                let given = view.lost.range(first.0..first.0 + u64::from(*count)).next();
                if let Some(&block) = given {
                    return Err(Wrong::LostOfOthers { block: UserBlock(block) });
                }
            }
            return view.model.answered(id, told);
        };
        view.model.open.remove(&id);
        let (written, closing) = (&view.written, view.closing);
        let fits = match failure {
            Failure::EpochFull { .. } | Failure::NoRoom { .. } => true,
            Failure::NoSuchEpoch { .. } | Failure::EpochEnding { .. } => closing,
            Failure::EpochLost { ranges, .. } => {
                let mut lost = ranges.iter().flat_map(|&(first, count)| first.0..first.0 + count);
                if let Some(block) = lost.find(|block| !written.contains(&(*block as usize))) {
                    return Err(Wrong::LostOfOthers { block: UserBlock(block) });
                }
                may_lose
            }
            _ => false,
        };
        if !matches!(failure, Failure::EpochLost { .. }) {
            view.model.forget_request(id);
        }
        match fits {
            true => Ok(()),
            false => Err(Wrong::Failed { request: id, failure: failure.clone() }),
        }
    }

    fn answered_end(&mut self, id: RequestId, epoch: EpochId, told: &Told, now: Tick) -> Result<(), Wrong> {
        match told {
            Told::Done => {
                self.epochs.open.remove(&epoch);
                for block in 0..self.blocks.len() {
                    for version in self.blocks[block].iter_mut().filter(|v| v.request == Some(id)) {
                        (version.answered, version.durable) = (now, true);
                        version.over = version.over.min(now);
                    }
                    self.prune(block);
                }
                Ok(())
            }
            Told::Failed(failure) => {
                self.forget_request(id);
                let may_lose = self.epochs.may_lose;
                let Some(view) = self.epochs.open.get_mut(&epoch) else { return Ok(()) };
                view.closing = false;
                match failure {
                    Failure::EpochLost { ranges, .. } if may_lose => {
                        let lost = ranges.iter().flat_map(|&(first, count)| first.0..first.0 + count);
                        view.lost = lost.collect();
                        view.lost_since = now;
                        let other =
                            view.lost.iter().find(|block| !view.written.contains(&(**block as usize)));
                        other.map_or(Ok(()), |&block| Err(Wrong::LostOfOthers { block: UserBlock(block) }))
                    }
                    _ => Err(Wrong::Failed { request: id, failure: failure.clone() }),
                }
            }
            _ => Err(Wrong::NotRefused { request: id }),
        }
    }

    /// Forgets a request that has no effect.
    fn forget_request(&mut self, id: RequestId) {
        for versions in &mut self.blocks {
            if versions.len() > 1 {
                versions.retain(|version| version.request != Some(id));
            }
        }
    }

    /// Forgets all epochs; an end without an answer has happened as a whole or not at all.
    pub(crate) fn forget_epochs(&mut self) {
        let may_lose = self.epochs.may_lose;
        let ends =
            self.open.iter().filter(|(_, open)| matches!(open.ask, Ask::End { .. })).map(|(&id, _)| id);
        let undecided: BTreeSet<RequestId> = ends.collect();
        for version in self.blocks.iter_mut().flatten() {
            version.end = version.end.filter(|end| undecided.contains(end));
        }
        self.epochs = Epochs { undecided, may_lose, ..Epochs::default() };
    }

    /// Notes which version a read returned; returns true if that decides an end.
    pub(crate) fn decided_by(&mut self, block: UserBlock, which: usize) -> bool {
        let versions = &self.blocks[block.0 as usize];
        let undecided = &self.epochs.undecided;
        let Some(end) = versions.iter().filter_map(|v| v.end).find(|end| undecided.contains(end)) else {
            return false;
        };
        if versions[which].is_since() {
            return false;
        }
        let happened = versions[which].end == Some(end);
        self.epochs.undecided.remove(&end);
        for versions in self.blocks.iter_mut().filter(|versions| versions.iter().any(|v| v.end == Some(end)))
        {
            let stays = |v: &crate::model::Version| v.is_since() || (v.end == Some(end)) == happened;
            if versions.iter().any(stays) {
                versions.retain(stays);
            }
            if let [only] = &mut versions[..] {
                only.durable |= only.survived;
            }
            versions.iter_mut().for_each(|version| version.end = None);
        }
        true
    }
}
