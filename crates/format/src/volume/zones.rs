//! Addresses of all structures on a device. They are computed from the numbers of the superblock
//! and not stored.
//!
//! All addresses are in blocks. A device has two superblocks, the definition area, two places for
//! the state, the claim, the journal, two snapshots, the log, the data and, in its last block, a
//! copy of the superblock. There are no gaps between the zones, and nothing is aligned to more than
//! a block: the length of a chunk with its header is not a power of two anyway.

use super::{
    BLOCK_BYTES, CHUNK_BLOCKS_MAX, ChunkHeader, DEVICE_BLOCKS_MAX, DEVICES_MAX, DeviceBlock,
    ELEMENT_BLOCKS_MAX, LOG_ROWS_MAX, LogRow, PhysicalStripe, STRIPES_MAX, USER_BLOCKS_MAX, snapshot,
};
use crate::{FormatError, Part};

/// The first block of the definition area: the text of a code that no family names.
pub(super) const DEFINITION_START: u64 = 2;

/// The first of the two places for the state.
const STATE_START: u64 = 16;

/// Blocks of each place for the state: 16 KiB.
pub const STATE_BLOCKS: u32 = 4;

/// The block of the claim.
pub const CLAIM_BLOCK: DeviceBlock = DeviceBlock(STATE_START + 2 * STATE_BLOCKS as u64);

/// The first block of the journal, 128 KiB; the blocks between claim and journal are reserved.
pub(super) const JOURNAL_START: u64 = 32;

/// Fewest blocks of the journal.
const JOURNAL_BLOCKS_MIN: u32 = 16;

/// The longest journal: 256 MiB, which an opening holds in memory, for one device at a time. No
/// volume that this program makes has a journal longer than a quarter of that.
const JOURNAL_BLOCKS_MAX: u32 = 1 << 16;

/// The numbers of a volume from which all addresses follow.
///
/// For a shape that does not pass [`Shape::check`] the results are meaningless, and computing them
/// can panic. [`Shape::snapshot_blocks_needed`] works with any `snapshot_blocks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Devices, and columns of the code: 1 to [`DEVICES_MAX`].
    pub devices: u32,
    /// Elements of a chunk on this device: the stored cells of its column. This is the only number
    /// here that may differ between the devices of a volume: if the columns of the code have
    /// different numbers of cells and each column stays on its device.
    pub rows: u32,
    /// Data cells of a stripe.
    pub data_cells: u32,
    /// Blocks of an element: a power of two up to [`ELEMENT_BLOCKS_MAX`].
    pub element_blocks: u32,
    /// Physical stripes: each has room for a chunk on every device.
    pub physical_stripes: u64,
    /// Stripes of the user's address space; at most `physical_stripes`.
    pub logical_stripes: u64,
    /// Blocks of the log on each device; up to [`LOG_ROWS_MAX`].
    pub log_rows: u32,
    /// Blocks of the journal.
    pub journal_blocks: u32,
    /// Blocks of each of the two snapshots; at least [`Shape::snapshot_blocks_needed`].
    pub snapshot_blocks: u32,
}

impl Shape {
    /// Checks that the numbers are valid for a volume.
    ///
    /// Errors: `Invalid` with the number that breaks a rule.
    pub fn check(&self) -> Result<(), FormatError> {
        let part = Part::Superblock;
        let rule = |holds: bool, field, rule| {
            if holds { Ok(()) } else { Err(FormatError::Invalid { part, field, rule }) }
        };
        rule((1..=DEVICES_MAX).contains(&self.devices), "devices", "must be 1 to 256")?;
        let element = self.element_blocks;
        let fits = element.is_power_of_two() && element <= ELEMENT_BLOCKS_MAX;
        rule(fits, "element blocks", "must be a power of two up to 1024")?;
        let fits = self.rows >= 1 && self.chunk_blocks() <= CHUNK_BLOCKS_MAX;
        rule(fits, "rows", "must be 1 or more and give a chunk of 65536 blocks at most")?;
        let most = u64::from(self.devices) * CHUNK_BLOCKS_MAX;
        let fits = (1..=most).contains(&self.stripe_user_blocks());
        rule(fits, "data cells", "must be 1 or more and have room in the stripe")?;
        let fits = (1..=STRIPES_MAX).contains(&self.physical_stripes);
        rule(fits, "physical stripes", "must be 1 to 4294967295")?;
        let fits = (1..=self.physical_stripes).contains(&self.logical_stripes);
        rule(fits, "logical stripes", "must be 1 or more, and not more than the physical ones")?;
        let user = self.logical_stripes.checked_mul(self.stripe_user_blocks());
        let fits = user.is_some_and(|user| user <= USER_BLOCKS_MAX);
        rule(fits, "logical stripes", "must give a user 2^60 bytes at most")?;
        rule(self.log_rows <= LOG_ROWS_MAX, "log rows", "must be 1048576 at most")?;
        let fits = (JOURNAL_BLOCKS_MIN..=JOURNAL_BLOCKS_MAX).contains(&self.journal_blocks);
        rule(fits, "journal blocks", "must be 16 to 65536")?;
        let fits = u64::from(self.snapshot_blocks) >= self.snapshot_blocks_needed();
        rule(fits, "snapshot blocks", "must be enough for the largest maps")?;
        rule(self.device_blocks_needed().is_some(), "physical stripes", "must end within 2^63 bytes")
    }

    /// Returns the blocks of a chunk without its header.
    pub fn chunk_blocks(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.element_blocks)
    }

    /// Returns the blocks of a chunk with its header.
    pub fn chunk_span(&self) -> u64 {
        ChunkHeader::blocks(self.chunk_blocks()) + self.chunk_blocks()
    }

    /// Returns the user's blocks in a stripe.
    pub fn stripe_user_blocks(&self) -> u64 {
        u64::from(self.data_cells) * u64::from(self.element_blocks)
    }

    /// Returns the user's blocks in the volume.
    pub fn user_blocks(&self) -> u64 {
        self.logical_stripes * self.stripe_user_blocks()
    }

    /// Returns the blocks of the longest snapshot: every stripe is mapped, and every block of the
    /// log is in use and was written alone.
    pub fn snapshot_blocks_needed(&self) -> u64 {
        snapshot::blocks_needed(self)
    }

    /// Returns the blocks that each device must have; `None` beyond 2^63 bytes.
    pub fn device_blocks_needed(&self) -> Option<u64> {
        let data = self.physical_stripes.checked_mul(self.chunk_span())?;
        let blocks = self.data_start().checked_add(data)?.checked_add(1)?;
        (blocks <= DEVICE_BLOCKS_MAX).then_some(blocks)
    }

    fn log_start(&self) -> u64 {
        JOURNAL_START + u64::from(self.journal_blocks) + 2 * u64::from(self.snapshot_blocks)
    }

    fn data_start(&self) -> u64 {
        self.log_start() + u64::from(self.log_rows)
    }
}

/// Consecutive blocks of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockRun {
    /// The first.
    pub first: DeviceBlock,
    /// How many.
    pub blocks: u64,
}

/// Purpose of a block of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Superblock 0 or 1, or 2: the copy at the end.
    Superblock(u8),
    /// A block of the definition area.
    Definition(u64),
    /// A block of a place for the state.
    State {
        /// Place 0 or 1.
        area: u8,
        /// The block in it.
        block: u32,
    },
    /// The claim.
    Claim,
    /// A block between claim and journal.
    Reserved,
    /// A block of the journal.
    Journal(u32),
    /// A block of a snapshot.
    Snapshot {
        /// Snapshot 0 or 1.
        area: u8,
        /// The block in it.
        block: u32,
    },
    /// A block of the log.
    Log(LogRow),
    /// A block of a chunk's header.
    ChunkHeader {
        /// The stripe.
        stripe: PhysicalStripe,
        /// The block in the header.
        block: u32,
    },
    /// A block of an element.
    Element {
        /// The stripe.
        stripe: PhysicalStripe,
        /// The row of the chunk.
        row: u32,
        /// The block in the element.
        block: u32,
    },
    /// Behind the last chunk.
    Unused,
}

/// The zones of a device of known length. Between the devices of a volume only the addresses of
/// chunks may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Zones {
    shape: Shape,
    device_blocks: u64,
}

impl Zones {
    /// Lays the zones on a device.
    ///
    /// Errors: the shape is invalid, or the device is too short for it (`Truncated`, in bytes).
    pub fn new(shape: &Shape, device_blocks: u64) -> Result<Zones, FormatError> {
        shape.check()?;
        if device_blocks > DEVICE_BLOCKS_MAX {
            let part = Part::Superblock;
            let rule = "must end within 2^63 bytes";
            return Err(FormatError::Invalid { part, field: "device", rule });
        }
        let need = shape.device_blocks_needed().expect("the shape was checked");
        if device_blocks < need {
            let (have, need) = (device_blocks * BLOCK_BYTES as u64, need * BLOCK_BYTES as u64);
            return Err(FormatError::Truncated { part: Part::DataZone, have, need });
        }
        Ok(Zones { shape: *shape, device_blocks })
    }

    /// Returns the numbers from which the addresses are computed.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the address of the superblock with this update counter. Two addresses alternate, so
    /// that the previous superblock stays.
    pub fn superblock(&self, update: u64) -> DeviceBlock {
        DeviceBlock(update % 2)
    }

    /// Returns the address of the copy at the end, which is used if the front was overwritten.
    pub fn superblock_copy(&self) -> DeviceBlock {
        DeviceBlock(self.device_blocks - 1)
    }

    /// Returns the definition area: the text of a code that no family names.
    pub fn definition(&self) -> BlockRun {
        BlockRun { first: DeviceBlock(DEFINITION_START), blocks: STATE_START - DEFINITION_START }
    }

    /// Returns the place of the state beside snapshot 0 or 1.
    ///
    /// Panics for any other number.
    pub fn state(&self, area: u8) -> BlockRun {
        assert!(area < 2, "there are two snapshots");
        let first = STATE_START + u64::from(area) * u64::from(STATE_BLOCKS);
        BlockRun { first: DeviceBlock(first), blocks: STATE_BLOCKS.into() }
    }

    /// Returns the ring of the journal.
    pub fn journal(&self) -> BlockRun {
        BlockRun { first: DeviceBlock(JOURNAL_START), blocks: self.shape.journal_blocks.into() }
    }

    /// Returns the blocks of a record of `blocks` blocks that begins at block `at` of the ring: one
    /// run, or two if it wraps around.
    ///
    /// Panics if it begins behind the ring or is longer than it.
    pub fn record(&self, at: u32, blocks: u32) -> (BlockRun, Option<BlockRun>) {
        let ring = self.shape.journal_blocks;
        assert!(at < ring && blocks <= ring, "{blocks} blocks at {at} in a ring of {ring}");
        let front = blocks.min(ring - at);
        let run = |at: u32, blocks: u32| BlockRun {
            first: DeviceBlock(JOURNAL_START + u64::from(at)),
            blocks: blocks.into(),
        };
        (run(at, front), (blocks > front).then(|| run(0, blocks - front)))
    }

    /// Returns the block of the ring behind that record, where the next one begins.
    pub fn record_after(&self, at: u32, blocks: u32) -> u32 {
        ((u64::from(at) + u64::from(blocks)) % u64::from(self.shape.journal_blocks)) as u32
    }

    /// Returns the blocks of snapshot 0 or 1.
    ///
    /// Panics for any other number.
    pub fn snapshot(&self, area: u8) -> BlockRun {
        assert!(area < 2, "there are two snapshots");
        let blocks = u64::from(self.shape.snapshot_blocks);
        let start = JOURNAL_START + u64::from(self.shape.journal_blocks) + u64::from(area) * blocks;
        BlockRun { first: DeviceBlock(start), blocks }
    }

    /// Returns the rows of the log.
    pub fn log(&self) -> BlockRun {
        BlockRun { first: DeviceBlock(self.shape.log_start()), blocks: self.shape.log_rows.into() }
    }

    /// Returns the block of a log row, the same on every device.
    ///
    /// Panics if there is no such row.
    pub fn log_row(&self, row: LogRow) -> DeviceBlock {
        assert!(row.0 < self.shape.log_rows, "log row {} of {}", row.0, self.shape.log_rows);
        DeviceBlock(self.shape.log_start() + u64::from(row.0))
    }

    /// Returns the chunks of all physical stripes.
    pub fn data(&self) -> BlockRun {
        let blocks = self.shape.physical_stripes * self.shape.chunk_span();
        BlockRun { first: DeviceBlock(self.shape.data_start()), blocks }
    }

    /// Returns the blocks of a chunk, its header first.
    ///
    /// Panics if there is no such stripe.
    pub fn chunk(&self, stripe: PhysicalStripe) -> BlockRun {
        let stripes = self.shape.physical_stripes;
        assert!(stripe.0 < stripes, "physical stripe {} of {stripes}", stripe.0);
        let span = self.shape.chunk_span();
        BlockRun { first: DeviceBlock(self.shape.data_start() + stripe.0 * span), blocks: span }
    }

    /// Returns block `block` of row `row` of a chunk.
    ///
    /// Panics if there is no such block.
    pub fn element(&self, stripe: PhysicalStripe, row: u32, block: u32) -> DeviceBlock {
        assert!(row < self.shape.rows && block < self.shape.element_blocks, "block {block} of row {row}");
        let header = ChunkHeader::blocks(self.shape.chunk_blocks());
        let index = u64::from(row) * u64::from(self.shape.element_blocks) + u64::from(block);
        DeviceBlock(self.chunk(stripe).first.0 + header + index)
    }

    /// Returns the purpose of a block of the device; `None` behind the end of the device.
    pub fn place(&self, block: DeviceBlock) -> Option<Place> {
        let within = |run: BlockRun| block.0.checked_sub(run.first.0).filter(|&at| at < run.blocks);
        if block.0 >= self.device_blocks {
            return None;
        }
        if block == self.superblock_copy() {
            return Some(Place::Superblock(2));
        }
        if block.0 < DEFINITION_START {
            return Some(Place::Superblock(block.0 as u8));
        }
        if let Some(at) = within(self.definition()) {
            return Some(Place::Definition(at));
        }
        for area in 0..2 {
            if let Some(at) = within(self.state(area)) {
                return Some(Place::State { area, block: at as u32 });
            }
        }
        if block == CLAIM_BLOCK {
            return Some(Place::Claim);
        }
        if block.0 < JOURNAL_START {
            return Some(Place::Reserved);
        }
        if let Some(at) = within(self.journal()) {
            return Some(Place::Journal(at as u32));
        }
        for area in 0..2 {
            if let Some(at) = within(self.snapshot(area)) {
                return Some(Place::Snapshot { area, block: at as u32 });
            }
        }
        if let Some(at) = within(self.log()) {
            return Some(Place::Log(LogRow(at as u32)));
        }
        let Some(at) = within(self.data()) else { return Some(Place::Unused) };
        let header = ChunkHeader::blocks(self.shape.chunk_blocks());
        let stripe = PhysicalStripe(at / self.shape.chunk_span());
        let at = at % self.shape.chunk_span();
        Some(match at.checked_sub(header) {
            None => Place::ChunkHeader { stripe, block: at as u32 },
            Some(at) => {
                let element = u64::from(self.shape.element_blocks);
                Place::Element { stripe, row: (at / element) as u32, block: (at % element) as u32 }
            }
        })
    }
}
