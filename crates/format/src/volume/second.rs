//! What version 2 adds to a superblock: feature bits, and where state and claim lie.
//!
//! Both lie in what version 1 leaves of the definition area, so that a volume of version 1 becomes
//! one of version 2 without moving anything; a volume whose code has a longer text stays of version
//! 1.

use super::zones::{DEFINITION_START, JOURNAL_START};
use super::{BLOCK_BYTES, BlockRun, DefinitionRef, DeviceBlock};
use crate::{Crc64, FormatError, Part};

/// The block of the claim.
const CLAIM: u32 = JOURNAL_START as u32 - 1;

/// What a volume may have that a reader must know to ignore it, to read it, or to open it at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Features {
    /// A reader that does not know one of these may read and write the volume.
    pub may_ignore: u64,
    /// It may read, and must not write.
    pub read_only: u64,
    /// It must refuse the volume.
    pub must_refuse: u64,
}

impl Features {
    /// Among `must_refuse`: records may patch stripes where they lie.
    pub const PATCHES: u64 = 1 << 0;
    /// Among `must_refuse`, in the superblocks of one device alone: it is being made a copy of the
    /// device in its slot, and is no member. [`super::Superblock::decode`] refuses it like any bit
    /// that is not known, so that only [`super::Superblock::decode_copy`] reads it.
    pub const REPLACEMENT: u64 = 1 << 1;
    /// What this program knows of `read_only`.
    pub const KNOWN_READ_ONLY: u64 = 0;
    /// What it knows of `must_refuse`.
    pub const KNOWN_MUST_REFUSE: u64 = Features::PATCHES;

    /// The bits without which nothing may be written, that are not known here; 0: it may.
    pub fn unknown_to_write(&self) -> u64 {
        self.read_only & !Features::KNOWN_READ_ONLY
    }
}

/// The state that goes with the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StateRef {
    /// Its blocks.
    pub blocks: u32,
    /// The CRC at its end.
    pub crc: Crc64,
}

/// What a superblock of version 2 says more than one of version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Second {
    /// What else the volume may have.
    pub features: Features,
    /// The first block of the first of the two places for the state.
    pub state_at: u32,
    /// Blocks of each of them.
    pub state_blocks: u32,
    /// The block of the claim.
    pub claim_at: u32,
    /// The state that goes with the snapshot; none without one.
    pub state: Option<StateRef>,
    /// Of a device that is being made a copy of another ([`Features::REPLACEMENT`]): when that
    /// began, in seconds since 1970, at least 1. Else 0.
    pub copy_begun: u64,
}

impl Second {
    /// Blocks of each of the two places for the state, at least: 16 KiB.
    pub const STATE_BLOCKS: u32 = 4;

    /// That of a volume whose code has this text; `None`: it leaves too little room.
    pub fn new(definition: Option<DefinitionRef>) -> Option<Second> {
        let state_at = CLAIM - 2 * Second::STATE_BLOCKS;
        let second = Second {
            features: Features::default(),
            state_at,
            state_blocks: Second::STATE_BLOCKS,
            claim_at: CLAIM,
            state: None,
            copy_begun: 0,
        };
        second.check(definition).is_ok().then_some(second)
    }

    /// The place of the state that goes with snapshot 0 or 1.
    ///
    /// Panics if it is another.
    pub fn state_place(&self, area: u8) -> BlockRun {
        assert!(area < 2, "there are two snapshots");
        let first = u64::from(self.state_at) + u64::from(area) * u64::from(self.state_blocks);
        BlockRun { first: DeviceBlock(first), blocks: self.state_blocks.into() }
    }

    /// The block of the claim.
    pub fn claim_place(&self) -> DeviceBlock {
        DeviceBlock(self.claim_at.into())
    }

    pub(super) fn check(&self, definition: Option<DefinitionRef>) -> Result<(), FormatError> {
        let part = Part::Superblock;
        let rule = |holds: bool, field, rule| {
            if holds { Ok(()) } else { Err(FormatError::Invalid { part, field, rule }) }
        };
        let text = definition.map_or(0, |text| u64::from(text.len).div_ceil(BLOCK_BYTES as u64));
        let (first, blocks) = (u64::from(self.state_at), u64::from(self.state_blocks));
        let (end, claim) = (first + 2 * blocks, u64::from(self.claim_at));
        let fits = self.state_blocks >= Second::STATE_BLOCKS && first >= DEFINITION_START + text;
        rule(
            fits && end <= JOURNAL_START,
            "state block",
            "must begin two places of 4 blocks or more between definition and journal",
        )?;
        let is_free = claim >= DEFINITION_START + text && !(first..end).contains(&claim);
        rule(is_free && claim < JOURNAL_START, "claim block", "must lie apart in the definition area")?;
        let is_copy = self.features.must_refuse & Features::REPLACEMENT != 0;
        rule(is_copy == (self.copy_begun > 0), "copy begun", "must be 0 exactly for a member")?;
        let fits = self.state.is_none_or(|state| (1..=self.state_blocks).contains(&state.blocks));
        rule(fits, "state length", "must be 1 or more and fit its place")
    }
}
