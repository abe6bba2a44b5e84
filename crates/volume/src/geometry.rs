//! Where everything lies: which column a device holds of a stripe, and the address of every block.
//!
//! Inequalities: header_blocks(c) * 4096 >= header bytes for every block of the chunk; logical stripes plus the reserve
//! <= physical stripes; zones do not overlap and end before the device's last block.

use crate::{DeviceBlock, Slot, UserBlock};
use pantile_code::{CellIndex, Code, CodeError};
use pantile_plan::Planner;

/// How columns are laid over devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Column c of physical stripe p lies on slot (c + p) mod n.
    Rotate,
    /// Column c always lies on slot c.
    Fixed,
}

/// The numbers of a volume, from its superblock.
#[derive(Clone, Debug)]
pub struct Geometry {
    /// The volume's identity.
    pub volume: [u8; 16],
    /// The code of its stripes.
    pub code: Code,
    /// How columns are laid over devices.
    pub placement: Placement,
    /// Blocks per element.
    pub element_blocks: u32,
    /// Stripes of the user's address space.
    pub logical_stripes: u32,
    /// Places for stripes.
    pub physical_stripes: u32,
    /// Rows of the log.
    pub log_rows: u32,
    /// Blocks of the journal on each device.
    pub journal_blocks: u32,
    /// The first block of the journal.
    pub journal_start: DeviceBlock,
    /// The first block of each snapshot area.
    pub snapshot_start: [DeviceBlock; 2],
    /// Blocks of a snapshot area.
    pub snapshot_blocks: u32,
    /// The first block of the log.
    pub log_start: DeviceBlock,
    /// The first block of the data zone.
    pub data_start: DeviceBlock,
}

/// The numbers from which a geometry follows.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The volume's identity.
    pub volume: [u8; 16],
    /// The code of its stripes.
    pub code: Code,
    /// Blocks per element.
    pub element_blocks: u32,
    /// Stripes of the user's address space.
    pub logical_stripes: u32,
    /// Places for stripes beyond those: what writing and merging move through.
    pub spare_stripes: u32,
    /// Rows of the log.
    pub log_rows: u32,
    /// Blocks of the journal on each device.
    pub journal_blocks: u32,
}

impl Geometry {
    /// Lays the zones out one after another: two session blocks, journal, two snapshots, log, data.
    pub fn new(shape: Shape) -> Geometry {
        let Shape { volume, code, element_blocks, logical_stripes, spare_stripes, log_rows, journal_blocks } =
            shape;
        let placement = match code.columns_are_interchangeable() {
            true => Placement::Rotate,
            false => Placement::Fixed,
        };
        let n = code.columns() as u64;
        let snapshot_bytes = 64
            + 32 * n
            + 16 * (u64::from(logical_stripes) + 1)
            + u64::from(log_rows) * (32 + 12 * n + 8 * n + 16 * n)
            + 64;
        let snapshot_blocks = snapshot_bytes.div_ceil(crate::BLOCK_BYTES) as u32;
        let journal_start = 2;
        let first = journal_start + u64::from(journal_blocks);
        let second = first + u64::from(snapshot_blocks);
        let log_start = second + u64::from(snapshot_blocks);
        Geometry {
            volume,
            code,
            placement,
            element_blocks,
            logical_stripes,
            physical_stripes: logical_stripes + spare_stripes,
            log_rows,
            journal_blocks,
            journal_start: DeviceBlock(journal_start),
            snapshot_start: [DeviceBlock(first), DeviceBlock(second)],
            snapshot_blocks,
            log_start: DeviceBlock(log_start),
            data_start: DeviceBlock(log_start + u64::from(log_rows)),
        }
    }

    /// Blocks that a device needs.
    pub fn device_blocks(&self, slot: Slot) -> u64 {
        let column = self.column(0, slot);
        self.data_start.0 + u64::from(self.physical_stripes) * u64::from(self.chunk_blocks(column))
    }

    /// Devices, one per column.
    pub fn slots(&self) -> usize {
        self.code.columns()
    }

    /// The columns that may be lost.
    pub fn tolerance(&self) -> usize {
        self.code.claim().tolerance
    }

    /// The code of a log row: one block per device, at least the volume's tolerance.
    ///
    /// The volume's own if it has one row per column, else an extended Cauchy code (Reed-Solomon beyond six parities).
    pub fn log_code(&self) -> Result<Code, CodeError> {
        let (n, t) = (self.slots(), self.tolerance());
        match self.code.rows_max() {
            1 => Ok(self.code.clone()),
            _ if t <= 6 && n - t <= 251 => Code::parse(&format!("cauchy:{}+{t}", n - t)),
            _ => Code::parse(&format!("rs:{}+{t}", n - t)),
        }
    }

    /// The column that a slot holds of a physical stripe.
    pub fn column(&self, physical: u32, slot: Slot) -> usize {
        match self.placement {
            Placement::Fixed => slot.0 as usize,
            Placement::Rotate => {
                let n = self.slots();
                (slot.0 as usize + n - physical as usize % n) % n
            }
        }
    }

    /// The slot that holds a column of a physical stripe.
    pub fn slot(&self, physical: u32, column: usize) -> Slot {
        match self.placement {
            Placement::Fixed => Slot(column as u32),
            Placement::Rotate => Slot(((column + physical as usize) % self.slots()) as u32),
        }
    }

    /// Blocks of the header of a chunk.
    pub fn header_blocks(&self, column: usize) -> u32 {
        let blocks = self.code.rows(column) as u64 * u64::from(self.element_blocks);
        crate::store::header_blocks(blocks) as u32
    }

    /// Blocks of a chunk, header included.
    pub fn chunk_blocks(&self, column: usize) -> u32 {
        self.header_blocks(column) + self.code.rows(column) as u32 * self.element_blocks
    }

    /// The first block of a chunk.
    pub fn chunk_start(&self, physical: u32, slot: Slot) -> DeviceBlock {
        let column = self.column(physical, slot);
        DeviceBlock(self.data_start.0 + u64::from(physical) * u64::from(self.chunk_blocks(column)))
    }

    /// The device and address of one block of a cell.
    pub fn cell_block(&self, physical: u32, cell: CellIndex, offset: u32) -> (Slot, DeviceBlock) {
        let place = self.code.cell(cell);
        let slot = self.slot(physical, place.column);
        let within = self.header_blocks(place.column) + place.row as u32 * self.element_blocks + offset;
        (slot, DeviceBlock(self.chunk_start(physical, slot).0 + u64::from(within)))
    }

    /// The slot that holds a column of a log row.
    pub fn row_slot(&self, row: u32, column: usize) -> Slot {
        Slot(((column + row as usize) % self.slots()) as u32)
    }

    /// The address of a log row, on every device.
    pub fn row_block(&self, row: u32) -> DeviceBlock {
        DeviceBlock(self.log_start.0 + u64::from(row))
    }

    /// User blocks of a stripe.
    pub fn stripe_blocks(&self) -> u64 {
        self.code.data().len() as u64 * u64::from(self.element_blocks)
    }

    /// User blocks of the volume.
    pub fn user_blocks(&self) -> u64 {
        u64::from(self.logical_stripes) * self.stripe_blocks()
    }

    /// The logical stripe of a user block and its place in it.
    pub fn locate(&self, block: UserBlock) -> (u32, u32) {
        let per_stripe = self.stripe_blocks();
        ((block.0 / per_stripe) as u32, (block.0 % per_stripe) as u32)
    }

    /// The cell and the offset in it of a place in a stripe.
    pub fn cell_of(&self, place: u32) -> (CellIndex, u32) {
        (self.code.data()[(place / self.element_blocks) as usize], place % self.element_blocks)
    }
}

/// The planners that the engine asks.
#[derive(Clone, Debug)]
pub(crate) struct Planners {
    pub(crate) stripe: Planner,
    pub(crate) row: Planner,
    /// t + 1 copies of one block.
    pub(crate) copies: Planner,
}

impl Planners {
    pub(crate) fn new(geometry: &Geometry) -> Result<Planners, CodeError> {
        let copies = match geometry.tolerance() {
            0 => Code::parse("raid0:1")?,
            t => Code::parse(&format!("mirror:{}", t + 1))?,
        };
        Ok(Planners {
            stripe: Planner::new(&geometry.code),
            row: Planner::new(&geometry.log_code()?),
            copies: Planner::new(&copies),
        })
    }
}
