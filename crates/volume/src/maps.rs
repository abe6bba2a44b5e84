//! The maps: what the volume knows, and the changes that a record makes to it.
//!
//! Invariants, checked by [`Maps::check`]: a physical stripe has at most one logical owner and its owner maps to it; the
//! live count of a log row is the number of user blocks mapped to it; a row without live blocks is free; a generation
//! is used once.

use crate::{Geometry, Slot, UserBlock};
use std::collections::{BTreeMap, BTreeSet};

/// Where a logical stripe lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) physical: u32,
    pub(crate) generation: u64,
}

/// Where a block in the log lies: its row, and which block of the row's user blocks it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogPlace {
    pub(crate) row: u32,
    pub(crate) index: u32,
}

/// One block of a log row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowCell {
    pub(crate) slot: Slot,
    pub(crate) checksum: u64,
}

/// How the blocks of a log row protect each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    /// All columns of the log code: user blocks first, then parity.
    Coded,
    /// Each user block t + 1 times, one after another.
    Copies,
}

/// A log row in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) kind: RowKind,
    pub(crate) generation: u64,
    pub(crate) cells: Vec<RowCell>,
    /// The user block that each index of the row was written for; whether it is still current, the log map says.
    pub(crate) blocks: Vec<UserBlock>,
    pub(crate) live: u32,
}

/// Whether a device has what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) present: bool,
    /// It lacks generations from here ..
    pub(crate) missed_from: u64,
    /// .. to here, exclusive; equal means that it lacks none.
    pub(crate) missed_until: u64,
    /// Logical stripes below this have been brought back.
    pub(crate) cursor: u32,
}

impl Member {
    pub(crate) const WHOLE: Member = Member { present: true, missed_from: 0, missed_until: 0, cursor: 0 };

    /// Whether it has its part of something written with a generation; `logical` for stripes, `None` for log rows.
    pub(crate) fn has(&self, generation: u64, logical: Option<u32>) -> bool {
        let missed = (self.missed_from..self.missed_until).contains(&generation);
        self.present && (!missed || logical.is_some_and(|l| l < self.cursor))
    }
}

/// One change of the maps; a record is a list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A logical stripe has been written anew.
    Switch { logical: u32, physical: u32, generation: u64, digests: Vec<Option<u64>> },
    /// A logical stripe reads as zeros.
    Unmap { logical: u32 },
    /// A log row has been written.
    Row { row: u32, content: Row },
    /// Blocks are no longer in the log: they have moved home or are forgotten.
    Forget { first: UserBlock, count: u64 },
    /// A device's state.
    Member { slot: Slot, state: Member },
}

/// Everything that survives a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Maps {
    pub(crate) stripes: Vec<Option<Mapping>>,
    /// Physical stripes without an owner, ascending.
    pub(crate) free: BTreeSet<u32>,
    pub(crate) log: BTreeMap<UserBlock, LogPlace>,
    pub(crate) rows: BTreeMap<u32, Row>,
    pub(crate) free_rows: BTreeSet<u32>,
    pub(crate) members: Vec<Member>,
    /// The next generation.
    pub(crate) generation: u64,
}

impl Maps {
    /// An empty volume: nothing is written.
    pub(crate) fn new(geometry: &Geometry) -> Maps {
        Maps {
            stripes: vec![None; geometry.logical_stripes as usize],
            free: (0..geometry.physical_stripes).collect(),
            log: BTreeMap::new(),
            rows: BTreeMap::new(),
            free_rows: (0..geometry.log_rows).collect(),
            members: vec![Member::WHOLE; geometry.slots()],
            generation: 1,
        }
    }

    /// Applies a change. Physical stripes and log rows that nothing maps to any more become free.
    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Switch { logical, physical, generation, .. } => {
                self.free.remove(physical);
                let new = Mapping { physical: *physical, generation: *generation };
                if let Some(old) = self.stripes[*logical as usize].replace(new) {
                    self.free.insert(old.physical);
                }
                self.generation = self.generation.max(generation + 1);
            }
            Change::Unmap { logical } => {
                if let Some(old) = self.stripes[*logical as usize].take() {
                    self.free.insert(old.physical);
                }
            }
            Change::Row { row, content } => {
                self.free_rows.remove(row);
                self.generation = self.generation.max(content.generation + 1);
                self.rows.insert(*row, content.clone());
                for (index, &block) in content.blocks.iter().enumerate() {
                    self.forget(block);
                    self.log.insert(block, LogPlace { row: *row, index: index as u32 });
                }
                if let Some(new) = self.rows.get_mut(row) {
                    new.live = content.blocks.len() as u32;
                }
            }
            Change::Forget { first, count } => {
                let end = UserBlock(first.0 + count);
                let blocks: Vec<UserBlock> = self.log.range(*first..end).map(|(&block, _)| block).collect();
                blocks.into_iter().for_each(|block| self.forget(block));
            }
            Change::Member { slot, state } => self.members[slot.0 as usize] = *state,
        }
    }

    fn forget(&mut self, block: UserBlock) {
        let Some(place) = self.log.remove(&block) else { return };
        let Some(row) = self.rows.get_mut(&place.row) else { return };
        row.live -= 1;
        if row.live == 0 {
            self.rows.remove(&place.row);
            self.free_rows.insert(place.row);
        }
    }

    /// The slots that cannot be read at all.
    pub(crate) fn absent(&self) -> usize {
        self.members.iter().filter(|m| !m.present).count()
    }

    /// Asserts the invariants; cheap enough for the simulation, not for every commit of a large volume.
    pub(crate) fn check(&self, geometry: &Geometry) {
        let mut owned = BTreeSet::new();
        for mapping in self.stripes.iter().flatten() {
            assert!(owned.insert(mapping.physical), "physical stripe {} has two owners", mapping.physical);
            assert!(mapping.generation < self.generation, "a generation from the future");
        }
        assert!(owned.is_disjoint(&self.free), "a physical stripe is owned and free");
        assert_eq!(
            owned.len() + self.free.len(),
            geometry.physical_stripes as usize,
            "physical stripes leak"
        );
        assert_eq!(self.rows.len() + self.free_rows.len(), geometry.log_rows as usize, "log rows leak");
        for (number, row) in &self.rows {
            let live = self.log.values().filter(|place| place.row == *number).count();
            assert_eq!(live, row.live as usize, "live count of row {number}");
            assert!(live > 0, "row {number} is in use without a live block");
        }
    }
}
