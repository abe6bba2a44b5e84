//! Reads: where the newest content of a block is, who asked for it, and the end of a user's read.

use super::Engine;
use crate::fetch::Requester;
use crate::reads::UserRead;
use crate::{EpochId, Failure, Operand, Reply, RequestId, UserBlock};

/// The source of a block's newest content.
enum Newest {
    Memory(Operand),
    /// The stripe is being patched: the read waits for the end of the patch.
    Held,
    /// The blocks at this place may be partly old and partly new, because a patch was cut off.
    Unread,
    Log,
    Stripe(u32),
    /// The block was never written, or is trimmed.
    Nowhere,
}

impl Engine {
    /// Begins a read, of an epoch or of the volume.
    pub(crate) fn user_read(&mut self, id: RequestId, epoch: Option<EpochId>, first: UserBlock, count: u32) {
        self.reads.begin_user(id, first, count, epoch);
        match epoch {
            Some(_) => self.resolve_within(id, (0..count as usize).collect()),
            None => {
                let wanted =
                    (0..count as usize).map(|i| (UserBlock(first.0 + i as u64), Requester::User(id, i)));
                self.resolve_all(wanted.collect());
            }
        }
        if let Some(read) = self.reads.user_part_done(id) {
            self.finish_read(id, read);
        }
    }

    /// Returns the epoch and the first block of a read.
    pub(crate) fn read_of(&self, id: RequestId) -> Option<(EpochId, UserBlock)> {
        let read = self.reads.user(id)?;
        Some((read.epoch?, read.first))
    }

    /// Finds the newest content of blocks, in memory or on the devices. Runs of a stripe are read
    /// together.
    pub(crate) fn resolve_all(&mut self, wanted: Vec<(UserBlock, Requester)>) {
        let blocks = || wanted.iter().map(|&(block, _)| block);
        let (Some(first), Some(last)) = (blocks().min(), blocks().max()) else { return };
        let is_logged = self.maps.logged_within(first..=last).next().is_some();
        let mut in_stripes: Vec<(u32, UserBlock, Requester)> = Vec::with_capacity(wanted.len());
        for (block, requester) in wanted {
            match self.where_is(block, requester, is_logged) {
                Newest::Stripe(logical) => in_stripes.push((logical, block, requester)),
                place => self.read_at(place, block, requester),
            }
        }
        in_stripes.sort_by_key(|&(logical, ..)| logical);
        for of_stripe in in_stripes.chunk_by(|a, b| a.0 == b.0) {
            let wanted = of_stripe.iter().map(|&(_, block, requester)| (block, requester));
            self.read_together(of_stripe[0].0, wanted.collect());
        }
    }

    /// Finds the newest content of a block. `may_be_logged`: the log has a block of the range asked
    /// for.
    fn where_is(&self, block: UserBlock, requester: Requester, may_be_logged: bool) -> Newest {
        let (logical, place) = self.geometry.locate(block);
        let is_users = matches!(requester, Requester::User(..));
        if is_users && let Some(content) = self.memory.content(logical, place) {
            return Newest::Memory(content);
        }
        match () {
            () if is_users && self.patching.is_locked(logical) => Newest::Held,
            () if may_be_logged && self.maps.is_logged(block) => Newest::Log,
            () if self.is_unread(logical) => Newest::Unread,
            () if self.maps.mapping(logical).is_some() => Newest::Stripe(logical),
            () => Newest::Nowhere,
        }
    }

    fn read_at(&mut self, place: Newest, block: UserBlock, requester: Requester) {
        match place {
            Newest::Memory(content) => self.deliver(requester, block, Some(content)),
            Newest::Held => self.hold_read(block, requester),
            Newest::Unread => self.deliver(requester, block, None),
            Newest::Log | Newest::Stripe(_) => self.fetch(block, requester),
            Newest::Nowhere => self.deliver(requester, block, Some(Operand::Zeros)),
        }
    }

    /// Finds the newest content of a block, in memory or on the devices.
    pub(crate) fn resolve(&mut self, block: UserBlock, requester: Requester) {
        let place = self.where_is(block, requester, true);
        self.read_at(place, block, requester);
    }

    /// Delivers a block; `None`: it is lost.
    pub(crate) fn deliver(&mut self, requester: Requester, block: UserBlock, content: Option<Operand>) {
        if let Some(Operand::Buffer(buffer)) = content {
            self.io.hold(buffer);
        }
        match requester {
            Requester::User(id, index) => {
                if let Some(read) = self.reads.user_had(id, index, block, content) {
                    self.finish_read(id, read);
                }
            }
            Requester::Epoch { id, index, owed, version } => {
                self.deliver_within((id, index), (owed, version), block, content);
            }
            Requester::Settle { owed, index } => self.settle_had(owed, index, content),
            Requester::Rebuild { logical, index } => self.rebuilt_block(logical, index, content),
            Requester::RebuildRow { row, cell } => self.rebuilt_row_cell(row, cell, content),
            Requester::Commit { stripe, place } => self.gathered(stripe, place, content),
            Requester::Update { update, place } => self.update_read(update, place, content),
            Requester::PatchOf { update, place } => self.patch_read(update, place, content),
            Requester::Home { block } => self.home_content(block, content),
            Requester::CommitRow { row, index } => self.gathered_for_row(row, index, content),
            Requester::Verify => {
                self.service.opening_mut().read(content.is_some());
                if let Some(Operand::Buffer(buffer)) = content {
                    self.io.release(buffer);
                }
            }
        }
    }

    fn finish_read(&mut self, id: RequestId, read: UserRead) {
        let (first, epoch, lost) = (read.first, read.epoch, read.lost());
        let contents = read.into_contents();
        self.note_read(epoch, first, &contents);
        let reply = match lost {
            Some(_) if epoch.is_some() => {
                let lost = (first.0..).map(UserBlock).zip(&contents);
                let lost = lost.filter(|(_, content)| content.is_none()).map(|(block, _)| block);
                Reply::Failed(self.lost_within(epoch, lost))
            }
            Some(block) => Reply::Failed(Failure::Lost { block }),
            None => Reply::Read(
                contents
                    .iter()
                    .map(|content| match content {
                        Some(Operand::Buffer(buffer)) => Some(*buffer),
                        _ => None,
                    })
                    .collect(),
            ),
        };
        debug_assert!(first.0 < self.geometry.user_blocks() || contents.is_empty());
        self.reply(id, reply);
        for content in contents.into_iter().flatten() {
            if let Operand::Buffer(buffer) = content {
                self.io.release(buffer);
            }
        }
    }

    /// Notes which blocks on the devices a user's read has found to be good or lost.
    fn note_read(&mut self, epoch: Option<EpochId>, first: UserBlock, contents: &[Option<Operand>]) {
        if epoch.is_some() || self.service.has_failed() {
            return;
        }
        let blocks = || (first.0..).map(UserBlock).zip(contents);
        if contents.contains(&None) {
            let lost: Vec<UserBlock> = blocks().filter(|(_, had)| had.is_none()).map(|(b, _)| b).collect();
            self.note_lost(&lost);
        } else if self.maps.notes().has_ranges() || self.damage.has_broken() {
            let (logical, _) = self.geometry.locate(first);
            let (last, _) = self.geometry.locate(UserBlock(first.0 + contents.len().max(1) as u64 - 1));
            // Content from memory does not prove that the devices have the blocks.
            let is_in_memory = (logical..=last).any(|logical| self.memory.has_any(logical, 0..u32::MAX));
            if !is_in_memory && !contents.is_empty() {
                self.note_had(first, contents.len() as u64);
                self.miss_no_longer(blocks().map(|(block, _)| block));
            }
        }
    }
}
