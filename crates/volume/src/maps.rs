//! The maps: what the volume knows, and the changes that a record makes to it.
//!
//! Invariants, checked by [`Maps::check`]: a physical stripe has at most one logical owner and its owner maps to it; the
//! live count of a log row is the number of user blocks mapped to it; a row without live blocks is free; a generation
//! is used once.

use crate::{Geometry, Slot, UserBlock};
use pantile_format::volume::{LogicalStripe, MemberState, Policy};
use pantile_format::{Crc64, Generation};
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
    /// The user block that each index of the row holds; `None`: one that was forgotten.
    pub(crate) blocks: Vec<Option<UserBlock>>,
}

impl Row {
    /// How many of its blocks are current.
    pub(crate) fn live(&self) -> usize {
        self.blocks.iter().flatten().count()
    }

    /// A user block that stands for the row where none is meant.
    pub(crate) fn any_block(&self) -> UserBlock {
        self.blocks.iter().flatten().next().copied().expect("a row in use has a live block")
    }
}

/// One change of the maps; a record is a list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A logical stripe has been written anew.
    Switch { logical: u32, physical: u32, generation: u64, digests: Vec<Option<Crc64>> },
    /// Logical stripes read as zeros.
    Unmap { first: u32, count: u32 },
    /// A log row has been written.
    Row { row: u32, content: Row },
    /// Blocks are no longer in the log: they have moved home or are forgotten.
    Forget { first: UserBlock, count: u64 },
    /// A device's state.
    Member { slot: Slot, state: MemberState },
    /// Logical stripes are perhaps being written in place, or not any more.
    Mark { first: u32, count: u32, is_marked: bool },
}

impl Change {
    /// The generation of what it maps.
    pub(crate) fn generation(&self) -> Option<u64> {
        match self {
            Change::Switch { generation, .. } => Some(*generation),
            Change::Row { content, .. } => Some(content.generation),
            _ => None,
        }
    }
}

/// Everything that survives a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Maps {
    pub(crate) stripes: Vec<Option<Mapping>>,
    /// Those that are perhaps being written in place; all of them mapped.
    pub(crate) marked: BTreeSet<u32>,
    /// Physical stripes without an owner, ascending.
    pub(crate) free: BTreeSet<u32>,
    pub(crate) log: BTreeMap<UserBlock, LogPlace>,
    /// Blocks in the log, by logical stripe; no zeros.
    pub(crate) logged: BTreeMap<u32, u32>,
    stripe_blocks: u64,
    pub(crate) rows: BTreeMap<u32, Row>,
    pub(crate) free_rows: BTreeSet<u32>,
    pub(crate) members: Vec<MemberState>,
    /// The next generation.
    pub(crate) generation: u64,
}

impl Maps {
    /// An empty volume: nothing is written.
    pub(crate) fn new(geometry: &Geometry) -> Maps {
        Maps {
            stripes: vec![None; geometry.logical_stripes() as usize],
            marked: BTreeSet::new(),
            free: (0..geometry.physical_stripes()).collect(),
            log: BTreeMap::new(),
            logged: BTreeMap::new(),
            stripe_blocks: geometry.stripe_blocks(),
            rows: BTreeMap::new(),
            free_rows: (0..geometry.log_rows()).collect(),
            members: vec![MemberState::Present; geometry.slots()],
            generation: 1,
        }
    }

    /// Applies a change. Physical stripes and log rows that nothing maps to any more become free.
    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Switch { logical, physical, generation, .. } => {
                let new = Mapping { physical: *physical, generation: *generation };
                if let Some(old) = self.stripes[*logical as usize].replace(new) {
                    self.free.insert(old.physical);
                }
                // The same, where it was written in place.
                self.free.remove(physical);
                self.generation = self.generation.max(generation + 1);
            }
            Change::Unmap { first, count } => {
                for mapping in &mut self.stripes[*first as usize..][..*count as usize] {
                    if let Some(old) = mapping.take() {
                        self.free.insert(old.physical);
                    }
                }
                self.marked.retain(|logical| !(*first..*first + *count).contains(logical));
            }
            Change::Row { row, content } => {
                self.free_rows.remove(row);
                self.generation = self.generation.max(content.generation + 1);
                self.rows.insert(*row, content.clone());
                for (index, &block) in content.blocks.iter().enumerate() {
                    let Some(block) = block else { continue };
                    self.forget(block);
                    self.place_in_log(block, LogPlace { row: *row, index: index as u32 });
                }
            }
            Change::Forget { first, count } => {
                let end = UserBlock(first.0 + count);
                let blocks: Vec<UserBlock> = self.log.range(*first..end).map(|(&block, _)| block).collect();
                blocks.into_iter().for_each(|block| self.forget(block));
            }
            Change::Member { slot, state } => self.members[slot.0 as usize] = *state,
            Change::Mark { first, count, is_marked } => {
                for logical in *first..*first + *count {
                    match *is_marked && self.stripes[logical as usize].is_some() {
                        true => self.marked.insert(logical),
                        false => self.marked.remove(&logical),
                    };
                }
            }
        }
    }

    /// A block lies in the log from now on; `false`: it did already.
    pub(crate) fn place_in_log(&mut self, block: UserBlock, place: LogPlace) -> bool {
        *self.logged.entry((block.0 / self.stripe_blocks) as u32).or_default() += 1;
        self.log.insert(block, place).is_none()
    }

    fn forget(&mut self, block: UserBlock) {
        let Some(place) = self.log.remove(&block) else { return };
        let logical = (block.0 / self.stripe_blocks) as u32;
        if let Some(count) = self.logged.get_mut(&logical) {
            *count -= 1;
            if *count == 0 {
                self.logged.remove(&logical);
            }
        }
        let Some(row) = self.rows.get_mut(&place.row) else { return };
        row.blocks[place.index as usize] = None;
        if row.live() == 0 {
            self.rows.remove(&place.row);
            self.free_rows.insert(place.row);
        }
    }

    /// Whether a device takes part: it is written to, and read where it has what is wanted.
    pub(crate) fn is_present(&self, slot: Slot) -> bool {
        !matches!(self.members[slot.0 as usize], MemberState::Lost { .. })
    }

    /// Whether a device has its part of something written with a generation; `logical` for stripes, `None` for log rows.
    pub(crate) fn has(&self, slot: Slot, generation: u64, logical: Option<u32>) -> bool {
        // What is no stripe lies before no cursor.
        let logical = LogicalStripe(logical.map_or(u64::MAX, u64::from));
        self.members[slot.0 as usize].has(Generation(generation), logical)
    }

    /// The slots that cannot be read at all.
    pub(crate) fn absent(&self) -> Vec<Slot> {
        (0..self.members.len() as u32).map(Slot).filter(|&slot| !self.is_present(slot)).collect()
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
            geometry.physical_stripes() as usize,
            "physical stripes leak"
        );
        for &logical in &self.marked {
            assert!(self.stripes[logical as usize].is_some(), "stripe {logical} is marked and not mapped");
        }
        if geometry.policy == Policy::Inplace {
            for (logical, mapping) in self.stripes.iter().enumerate() {
                assert!(
                    mapping.is_none_or(|m| m.physical as usize == logical),
                    "stripe {logical} lies elsewhere"
                );
            }
        }
        assert_eq!(self.logged.values().map(|&n| n as usize).sum::<usize>(), self.log.len(), "logged blocks");
        assert_eq!(self.rows.len() + self.free_rows.len(), geometry.log_rows() as usize, "log rows leak");
        for (number, row) in &self.rows {
            let live = self.log.values().filter(|place| place.row == *number).count();
            assert_eq!(live, row.live(), "live count of row {number}");
            assert!(live > 0, "row {number} is in use without a live block");
        }
    }
}
