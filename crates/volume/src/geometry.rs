//! The place of each cell: the columns of the code on the zones of each device, which
//! `pantile_format::volume` defines.

use crate::{Bearing, DeviceBlock, Slot, UserBlock};
use pantile_code::{CellIndex, Code, CodeError, Placement};
use pantile_format::volume::{ChunkHeader, LogRow, LogicalStripe, PhysicalStripe, Shape, VolumeId, Zones};
use pantile_format::{Column, Crc64, FormatError, Generation, Part};
use pantile_plan::{CellSet, Costs, Effort, Plan, Planner, Request};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The lost cells and the wanted cells.
type Pattern = (Vec<CellIndex>, Vec<CellIndex>);

/// Plans kept for stripes.
const PLANS_MOST: usize = 1024;

/// The placement of log rows, whatever the placement of stripes: most rows are short, so a fixed
/// placement would wear the first devices.
const LOG_PLACEMENT: Placement = Placement::ROTATED;

/// The layout of a volume.
#[derive(Clone, Debug)]
pub struct Geometry {
    /// The volume's identity.
    pub volume: VolumeId,
    /// The code of its stripes.
    pub code: Code,
    /// The placement of columns on devices.
    pub placement: Placement,
    /// The zones of each slot, for a device of exactly the needed length. They differ only if
    /// columns have different numbers of rows.
    zones: Vec<Zones>,
    /// The cells of a stripe that hold no user data, in order.
    home_cells: Arc<[CellIndex]>,
    /// For a data cell, another cell that always has the same content; only under a fixed
    /// placement, since placements that rotate spread reads by themselves.
    copies: Arc<BTreeMap<CellIndex, CellIndex>>,
    may_patch: bool,
}

/// The parameters of a new volume.
#[derive(Clone, Debug)]
pub struct NewVolume {
    /// The volume's identity.
    pub volume: VolumeId,
    /// The code of its stripes.
    pub code: Code,
    /// The placement of a stripe's columns on devices.
    pub placement: Placement,
    /// Blocks per element.
    pub element_blocks: u32,
    /// Stripes of the user's address space.
    pub logical_stripes: u32,
    /// Places for stripes beyond the logical ones, for stripes that are written or merged.
    pub spare_stripes: u32,
    /// Rows of the log.
    pub log_rows: u32,
    /// Blocks of the journal on each device.
    pub journal_blocks: u32,
}

#[cfg(test)]
impl NewVolume {
    /// Makes the parameters of a volume of two devices, for tests.
    pub(crate) fn small() -> NewVolume {
        NewVolume {
            volume: VolumeId([9; 16]),
            code: Code::parse("mirror:2").expect("a code"),
            placement: Placement::ROTATED,
            element_blocks: 1,
            logical_stripes: 8,
            spare_stripes: 2,
            log_rows: 4,
            journal_blocks: 16,
        }
    }
}

impl Geometry {
    /// Lays the zones on every device.
    ///
    /// Errors: `Invalid` with the number that no volume can have, or with a rotated placement if
    /// the columns of the code are not interchangeable.
    pub fn new(new: NewVolume) -> Result<Geometry, FormatError> {
        let NewVolume { volume, code, placement, .. } = new;
        if placement != Placement::Fixed && !code.columns_are_interchangeable() {
            let rule = "must be fixed: columns of this code cannot change places";
            return Err(FormatError::Invalid { part: Part::Superblock, field: "placement", rule });
        }
        let zones = (0..code.columns()).map(|column| {
            let mut shape = Shape {
                devices: code.columns() as u32,
                rows: code.rows(column) as u32,
                data_cells: code.data().len() as u32,
                element_blocks: new.element_blocks,
                physical_stripes: u64::from(new.logical_stripes) + u64::from(new.spare_stripes),
                logical_stripes: new.logical_stripes.into(),
                log_rows: new.log_rows,
                journal_blocks: new.journal_blocks,
                snapshot_blocks: 0,
            };
            // A snapshot too long for a u32 becomes 0, which the check of the shape refuses.
            shape.snapshot_blocks = u32::try_from(shape.snapshot_blocks_needed()).unwrap_or(0);
            shape.check()?;
            Zones::new(&shape, shape.device_blocks_needed().unwrap_or(0))
        });
        let zones = zones.collect::<Result<Vec<Zones>, FormatError>>()?;
        let home_cells = code.cells().filter(|&cell| code.data_position(cell).is_none()).collect();
        let copies = match placement {
            Placement::Fixed => copies_of(&code),
            Placement::Rotated { .. } => BTreeMap::new(),
        };
        let copies = Arc::new(copies);
        let mut geometry = Geometry { volume, code, placement, zones, home_cells, copies, may_patch: false };
        geometry.may_patch = geometry.is_patchable();
        Ok(geometry)
    }

    /// Returns another cell with the same content as a data cell, if reads are spread over both.
    /// Even logical stripes read the data cell, odd ones the copy.
    pub fn copy_of(&self, cell: CellIndex) -> Option<CellIndex> {
        self.copies.get(&cell).copied()
    }

    /// Returns the zones of a device.
    pub fn zones(&self, slot: Slot) -> &Zones {
        &self.zones[slot.0 as usize]
    }

    /// Returns the shape of the first device; all but its number of rows is common to all devices.
    pub(crate) fn shape(&self) -> &Shape {
        self.zones[0].shape()
    }

    /// Returns the zones that are the same on all devices: journal, snapshots, log.
    pub(crate) fn common(&self) -> &Zones {
        &self.zones[0]
    }

    /// Returns the number of blocks per element.
    pub fn element_blocks(&self) -> u32 {
        self.shape().element_blocks
    }

    /// Returns the number of stripes of the user's address space.
    pub fn logical_stripes(&self) -> u32 {
        self.shape().logical_stripes as u32
    }

    /// Returns the number of places for stripes.
    pub fn physical_stripes(&self) -> u32 {
        self.shape().physical_stripes as u32
    }

    /// Returns the number of rows of the log.
    pub fn log_rows(&self) -> u32 {
        self.shape().log_rows
    }

    /// Returns the number of blocks of the journal on each device.
    pub fn journal_blocks(&self) -> u32 {
        self.shape().journal_blocks
    }

    /// Returns the number of blocks that a device needs.
    pub fn device_blocks(&self, slot: Slot) -> u64 {
        self.zones(slot).superblock_copy().0 + 1
    }

    /// Returns the number of devices, one per column.
    pub fn slots(&self) -> usize {
        self.code.columns()
    }

    /// Returns the largest number of columns whose loss the code always tolerates.
    pub fn tolerance(&self) -> usize {
        self.code.claim().tolerance
    }

    /// Returns the code of a log row: one block per device, at least the volume's tolerance.
    ///
    /// This is the volume's own code if it has one row per column, else an extended Cauchy code
    /// (Reed-Solomon beyond six parities).
    pub fn log_code(&self) -> Result<Code, CodeError> {
        let (n, t) = (self.slots(), self.tolerance());
        match self.code.rows_max() {
            1 => Ok(self.code.clone()),
            _ if t <= 6 && n - t <= 251 => Code::parse(&format!("cauchy:{}+{t}", n - t)),
            _ => Code::parse(&format!("rs:{}+{t}", n - t)),
        }
    }

    /// Returns the number of user blocks of a full log row: one per data column of
    /// [`Geometry::log_code`].
    pub(crate) fn log_data(&self) -> usize {
        match self.code.rows_max() {
            1 => self.code.data().len(),
            _ => self.slots() - self.tolerance(),
        }
    }

    /// Returns the column that a slot holds of a physical stripe.
    pub fn column(&self, physical: u32, slot: Slot) -> usize {
        self.placement.column(physical.into(), slot.0 as usize, self.slots())
    }

    /// Returns the header of a device's chunk of a logical stripe, as written to a physical stripe
    /// in a generation. `sums`: the checksums of the chunk's blocks.
    pub fn chunk_header(
        &self,
        slot: Slot,
        (physical, logical): (u32, u32),
        generation: u64,
        sums: impl Iterator<Item = u64>,
    ) -> ChunkHeader {
        ChunkHeader {
            volume: self.volume,
            slot,
            physical: PhysicalStripe(physical.into()),
            logical: LogicalStripe(logical.into()),
            generation: Generation(generation),
            column: Column(self.column(physical, slot) as u32),
            checksums: sums.map(Crc64).collect(),
        }
    }

    /// Returns the slot that holds a column of a physical stripe.
    pub fn slot(&self, physical: u32, column: usize) -> Slot {
        Slot(self.placement.device(physical.into(), column, self.slots()) as u32)
    }

    /// Returns the number of blocks of a chunk's header.
    pub fn header_blocks(&self, slot: Slot) -> u32 {
        let shape = self.zones(slot).shape();
        (shape.chunk_span() - shape.chunk_blocks()) as u32
    }

    /// Returns the first block of a chunk.
    pub fn chunk_start(&self, physical: u32, slot: Slot) -> DeviceBlock {
        self.zones(slot).chunk(PhysicalStripe(physical.into())).first
    }

    /// Returns the device and address of one block of a cell.
    pub fn cell_block(&self, physical: u32, cell: CellIndex, offset: u32) -> (Slot, DeviceBlock) {
        let place = self.code.cell(cell);
        let slot = self.slot(physical, place.column);
        let stripe = PhysicalStripe(physical.into());
        (slot, self.zones(slot).element(stripe, place.row as u32, offset))
    }

    /// Returns the index of a cell's block within its column, which is also the index of its
    /// checksum.
    pub fn index_in_column(&self, cell: CellIndex, offset: u32) -> usize {
        self.code.cell(cell).row * self.element_blocks() as usize + offset as usize
    }

    /// Returns the slot that holds a column of a log row.
    pub fn row_slot(&self, row: u32, column: usize) -> Slot {
        Slot(LOG_PLACEMENT.device(row.into(), column, self.slots()) as u32)
    }

    /// Returns the address of a log row, which is the same on every device.
    pub fn row_block(&self, row: u32) -> DeviceBlock {
        self.common().log_row(LogRow(row))
    }

    /// Returns the number of user blocks of a stripe.
    pub fn stripe_blocks(&self) -> u64 {
        self.shape().stripe_user_blocks()
    }

    /// Returns the number of user blocks of the volume.
    pub fn user_blocks(&self) -> u64 {
        self.shape().user_blocks()
    }

    /// Returns the logical stripe of a block and the block's place in it. User blocks have the
    /// first places, home blocks those behind them.
    pub fn locate(&self, block: UserBlock) -> (u32, u32) {
        let per_stripe = self.stripe_blocks();
        match block.0.checked_sub(self.user_blocks()) {
            Some(home) => {
                let of_each = self.home_blocks();
                ((home / of_each) as u32, (per_stripe + home % of_each) as u32)
            }
            None => ((block.0 / per_stripe) as u32, (block.0 % per_stripe) as u32),
        }
    }

    /// Returns the cell and the offset in it for a place in a stripe.
    pub fn cell_of(&self, place: u32) -> (CellIndex, u32) {
        let (cell, offset) = ((place / self.element_blocks()) as usize, place % self.element_blocks());
        match self.code.data().get(cell) {
            Some(&data) => (data, offset),
            None => (self.home_cells[cell - self.code.data().len()], offset),
        }
    }

    /// Returns the number under which the log holds a block of a stripe: user blocks come first,
    /// then home blocks.
    pub(crate) fn block_of(&self, logical: u32, cell: CellIndex, offset: u32) -> UserBlock {
        let (elements, offset) = (u64::from(self.element_blocks()), u64::from(offset));
        match self.code.data_position(cell) {
            Some(nth) => {
                UserBlock(u64::from(logical) * self.stripe_blocks() + nth as u64 * elements + offset)
            }
            None => {
                let nth = self.home_cells.binary_search(&cell).unwrap_or(0) as u64;
                let first = self.user_blocks() + u64::from(logical) * self.home_blocks();
                UserBlock(first + nth * elements + offset)
            }
        }
    }

    /// Returns true if a block of the log is a home block, not a user's.
    pub(crate) fn is_home(&self, block: UserBlock) -> bool {
        block.0 >= self.user_blocks()
    }

    /// Returns the number of home blocks of a stripe: those that hold no user data.
    pub(crate) fn home_blocks(&self) -> u64 {
        let cells = self.code.cell_count() - self.code.data().len();
        cells as u64 * u64::from(self.element_blocks())
    }

    /// Returns true if stripes can be patched. The code must have parity, and any two sets of
    /// devices that a volume can be opened with must share a device, so that every opening knows
    /// the last record.
    pub fn may_patch(&self) -> bool {
        self.may_patch
    }

    /// Computes [`Geometry::may_patch`], once, because every entry of a record asks. Cost: one step
    /// per cell of the code.
    fn is_patchable(&self) -> bool {
        let mut cells: Vec<u64> =
            (0..self.slots()).map(|column| self.code.column_cells(column).count() as u64).collect();
        cells.sort_unstable();
        let parity = (self.code.cell_count() - self.code.data().len()) as u64;
        let sums = cells.iter().scan(0, |sum, &cells| {
            *sum += cells;
            Some(*sum)
        });
        let lost_most = sums.take_while(|&sum| sum <= parity).count();
        let is_counted = u64::from(self.logical_stripes()).saturating_mul(self.home_blocks()) < 1 << 48;
        self.tolerance() > 0 && 2 * lost_most < self.slots() && is_counted
    }
}

/// Returns, for each data cell that has one, its copy in another column.
fn copies_of(code: &Code) -> BTreeMap<CellIndex, CellIndex> {
    let equal = code.equations().iter().filter_map(|equation| match equation.terms() {
        &[(a, of_a), (b, of_b)] if of_a == of_b => Some((a, b)),
        _ => None,
    });
    let of_data = equal.filter_map(|(a, b)| match (code.data_position(a), code.data_position(b)) {
        (Some(_), None) => Some((a, b)),
        (None, Some(_)) => Some((b, a)),
        _ => None,
    });
    of_data.filter(|&(a, b)| code.cell(a).column != code.cell(b).column).collect()
}

/// The planners that the engine asks.
#[derive(Clone, Debug)]
pub(crate) struct Planners {
    pub(crate) stripe: Planner,
    pub(crate) row: Planner,
    /// Plans for t + 1 copies of one block.
    pub(crate) copies: Planner,
    /// Losses that stripes tolerate, and losses that coded log rows tolerate.
    pub(crate) stripes_bear: Bearing,
    pub(crate) rows_bear: Bearing,
    /// Plans of the parity of a stripe, and of a log row.
    pub(crate) encode_stripe: Arc<Plan>,
    pub(crate) encode_row: Arc<Plan>,
    known: BTreeMap<Pattern, Option<Arc<Plan>>>,
}

impl Planners {
    /// Returns the cheapest plan for the wanted cells of a stripe, computed once per pattern;
    /// `None`: they cannot be recovered.
    pub(crate) fn recover_in_stripe(
        &mut self,
        lost: &CellSet,
        wanted: &BTreeSet<CellIndex>,
    ) -> Option<Arc<Plan>> {
        let wanted: Vec<CellIndex> = wanted.iter().copied().collect();
        let key = (lost.iter().collect(), wanted);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let (costs, effort) = (&Costs::uniform(), Effort::Fast);
        let plan = self.stripe.recover(&Request { lost, wanted: &key.1, costs, effort }).ok().map(Arc::new);
        if self.known.len() >= PLANS_MOST {
            self.known.clear();
        }
        self.known.insert(key, plan.clone());
        plan
    }

    /// Returns the plan of [`Planners::recover_in_stripe`] if it was made before.
    pub(crate) fn known_in_stripe(&self, lost: &CellSet, wanted: &BTreeSet<CellIndex>) -> Option<Arc<Plan>> {
        let key = (lost.iter().collect(), wanted.iter().copied().collect());
        self.known.get(&key)?.clone()
    }

    pub(crate) fn new(geometry: &Geometry) -> Result<Planners, CodeError> {
        let copies = match geometry.tolerance() {
            0 => Code::parse("raid0:1")?,
            t => Code::parse(&format!("mirror:{}", t + 1))?,
        };
        let log_code = geometry.log_code()?;
        let (stripe, row) = (Planner::new(&geometry.code), Planner::new(&log_code));
        Ok(Planners {
            stripes_bear: Bearing::new(&geometry.code, geometry.placement),
            rows_bear: Bearing::new(&log_code, LOG_PLACEMENT),
            encode_stripe: Arc::new(stripe.encode()),
            encode_row: Arc::new(row.encode()),
            stripe,
            row,
            copies: Planner::new(&copies),
            known: BTreeMap::new(),
        })
    }
}
