//! Reads: where the newest content of a block is, whom it is for, and when a user's read has all of
//! its own.

use super::Engine;
use crate::fetch::Requester;
use crate::{EpochId, Failure, Operand, Reply, RequestId, UserBlock};

/// A read that is not answered yet.
#[derive(Debug)]
pub(super) struct UserRead {
    first: UserBlock,
    blocks: Vec<Option<Option<Operand>>>,
    missing: usize,
    lost: Option<UserBlock>,
    epoch: Option<EpochId>,
}

impl Engine {
    pub(super) fn user_read(&mut self, id: RequestId, first: UserBlock, count: u32) {
        let blocks = vec![None; count as usize];
        let (missing, lost, epoch) = (count as usize + 1, None, None);
        self.reads.insert(id, UserRead { first, blocks, missing, lost, epoch });
        let wanted = (0..count as usize).map(|i| (UserBlock(first.0 + i as u64), Requester::User(id, i)));
        self.resolve_all(wanted.collect());
        self.read_part_done(id);
    }

    /// A read of an epoch.
    pub(crate) fn read_within(&mut self, id: RequestId, epoch: EpochId, first: UserBlock, count: u32) {
        let blocks = vec![None; count as usize];
        let (missing, lost, epoch) = (count as usize + 1, None, Some(epoch));
        self.reads.insert(id, UserRead { first, blocks, missing, lost, epoch });
        self.resolve_within(id, (0..count as usize).collect());
        self.read_part_done(id);
    }

    /// The epoch and the first block of a read.
    pub(crate) fn read_of(&self, id: RequestId) -> Option<(EpochId, UserBlock)> {
        let read = self.reads.get(&id)?;
        Some((read.epoch?, read.first))
    }

    /// Finds the newest content of blocks, in memory or on the devices; runs of a stripe are read
    /// together.
    pub(crate) fn resolve_all(&mut self, wanted: Vec<(UserBlock, Requester)>) {
        let blocks = || wanted.iter().map(|&(block, _)| block);
        let (Some(first), Some(last)) = (blocks().min(), blocks().max()) else { return };
        let is_logged = self.maps.log.range(first..=last).next().is_some();
        let mut in_stripes: Vec<(u32, UserBlock, Requester)> = Vec::with_capacity(wanted.len());
        for (block, requester) in wanted {
            let (logical, _) = self.geometry.locate(block);
            let is_logged = is_logged && self.maps.log.contains_key(&block);
            if let Some(content) = self.in_memory(block, requester) {
                self.deliver(requester, block, Some(content));
            } else if self.hold_read(block, requester) {
            } else if !is_logged && self.is_unread(logical) {
                self.deliver(requester, block, None);
            } else if !is_logged && self.maps.stripes[logical as usize].is_some() {
                in_stripes.push((logical, block, requester));
            } else {
                self.resolve(block, requester);
            }
        }
        in_stripes.sort_by_key(|&(logical, ..)| logical);
        for of_stripe in in_stripes.chunk_by(|a, b| a.0 == b.0) {
            let wanted = of_stripe.iter().map(|&(_, block, requester)| (block, requester));
            self.read_together(of_stripe[0].0, wanted.collect());
        }
    }

    /// What memory has of a block that a user reads.
    fn in_memory(&self, block: UserBlock, requester: Requester) -> Option<Operand> {
        let Requester::User(..) = requester else { return None };
        let (logical, place) = self.geometry.locate(block);
        self.memory.content(logical, place)
    }

    /// Finds the newest content of a block, in memory or on the devices.
    pub(crate) fn resolve(&mut self, block: UserBlock, requester: Requester) {
        let (logical, _) = self.geometry.locate(block);
        if let Some(content) = self.in_memory(block, requester) {
            self.deliver(requester, block, Some(content));
        } else if self.hold_read(block, requester) {
        } else if self.is_unread(logical) && !self.maps.log.contains_key(&block) {
            self.deliver(requester, block, None);
        } else if self.maps.log.contains_key(&block) || self.maps.stripes[logical as usize].is_some() {
            self.fetch(block, requester);
        } else {
            self.deliver(requester, block, Some(Operand::Zeros));
        }
    }

    /// A block is there, or (`None`) cannot be had.
    pub(crate) fn deliver(&mut self, requester: Requester, block: UserBlock, content: Option<Operand>) {
        if let Some(Operand::Buffer(buffer)) = content {
            self.io.hold(buffer);
        }
        match requester {
            Requester::User(id, index) => {
                let Some(read) = self.reads.get_mut(&id) else { return };
                read.blocks[index] = Some(content);
                if content.is_none() {
                    read.lost = Some(read.lost.map_or(block, |lost| lost.min(block)));
                }
                read.missing -= 1;
                if read.missing == 0 {
                    self.finish_read(id);
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
                self.verification.read(content.is_some());
                if let Some(Operand::Buffer(buffer)) = content {
                    self.io.release(buffer);
                }
            }
        }
    }

    fn read_part_done(&mut self, id: RequestId) {
        let Some(read) = self.reads.get_mut(&id) else { return };
        read.missing -= 1;
        if read.missing == 0 {
            self.finish_read(id);
        }
    }

    fn finish_read(&mut self, id: RequestId) {
        let Some(read) = self.reads.remove(&id) else { return };
        let contents: Vec<Option<Operand>> = read.blocks.into_iter().map(Option::flatten).collect();
        self.note_read(&read.epoch, read.first, &contents);
        let reply = match read.lost {
            Some(_) if read.epoch.is_some() => {
                let lost = (read.first.0..).map(UserBlock).zip(&contents);
                let lost = lost.filter(|(_, content)| content.is_none()).map(|(block, _)| block);
                Reply::Failed(self.lost_within(read.epoch, lost))
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
        debug_assert!(read.first.0 < self.geometry.user_blocks() || contents.is_empty());
        self.reply(id, reply);
        for content in contents.into_iter().flatten() {
            if let Operand::Buffer(buffer) = content {
                self.io.release(buffer);
            }
        }
    }

    /// What a user's read has found out of blocks on the devices.
    fn note_read(&mut self, epoch: &Option<EpochId>, first: UserBlock, contents: &[Option<Operand>]) {
        if epoch.is_some() || self.failed {
            return;
        }
        let blocks = || (first.0..).map(UserBlock).zip(contents);
        if contents.contains(&None) {
            let lost: Vec<UserBlock> = blocks().filter(|(_, had)| had.is_none()).map(|(b, _)| b).collect();
            self.note_lost(&lost);
        } else if self.maps.notes.has_ranges() || self.damage.has_broken() {
            let (logical, _) = self.geometry.locate(first);
            let (last, _) = self.geometry.locate(UserBlock(first.0 + contents.len().max(1) as u64 - 1));
            // What is in memory says nothing of what the devices have.
            let is_in_memory = (logical..=last).any(|logical| self.memory.has_any(logical, 0..u32::MAX));
            if !is_in_memory && !contents.is_empty() {
                self.note_had(first, contents.len() as u64);
                self.miss_no_longer(blocks().map(|(block, _)| block));
            }
        }
    }
}
