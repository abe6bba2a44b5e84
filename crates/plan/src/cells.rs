//! Sets of cells, and the costs of reading columns.

use crate::PlanError;
use pantile_code::{CellIndex, Code};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;

/// A set of cells of one code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CellSet {
    /// A bit for each cell.
    words: SmallVec<[u64; 4]>,
    cells: usize,
}

impl CellSet {
    /// No cell.
    pub fn empty(code: &Code) -> CellSet {
        CellSet { words: smallvec![0; code.cell_count().div_ceil(64)], cells: code.cell_count() }
    }

    /// All cells of the given columns. Panics if the code lacks one of them.
    pub fn of_columns(code: &Code, columns: &[usize]) -> CellSet {
        let mut set = CellSet::empty(code);
        columns.iter().flat_map(|&column| code.column_cells(column)).for_each(|cell| set.insert(cell));
        set
    }

    /// The given cells. Panics if the code lacks one of them.
    pub fn of_cells(code: &Code, cells: &[CellIndex]) -> CellSet {
        let mut set = CellSet::empty(code);
        cells.iter().for_each(|&cell| set.insert(cell));
        set
    }

    /// Adds a cell. Panics if the code lacks it.
    #[inline]
    pub fn insert(&mut self, cell: CellIndex) {
        assert!(cell.usize() < self.cells, "cell {} lies outside the code", cell.0);
        self.words[cell.usize() / 64] |= 1 << (cell.usize() % 64);
    }

    /// Removes a cell, if the set has it.
    pub fn remove(&mut self, cell: CellIndex) {
        if let Some(word) = self.words.get_mut(cell.usize() / 64) {
            *word &= !(1 << (cell.usize() % 64));
        }
    }

    /// True if the set has the cell.
    #[inline]
    pub fn contains(&self, cell: CellIndex) -> bool {
        self.words.get(cell.usize() / 64).is_some_and(|word| word >> (cell.usize() % 64) & 1 == 1)
    }

    /// The number of cells.
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// True if the set has no cell.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&w| w == 0)
    }

    /// Its cells, ascending.
    pub fn iter(&self) -> impl Iterator<Item = CellIndex> + '_ {
        self.words.iter().enumerate().flat_map(|(i, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros();
                    rest &= rest - 1;
                    CellIndex(i as u32 * 64 + bit)
                })
            })
        })
    }

    /// Returns an error if the set was made for a code with a different number of cells.
    pub(crate) fn check(&self, code: &Code) -> Result<(), PlanError> {
        match self.cells == code.cell_count() {
            true => Ok(()),
            false => Err(PlanError::OtherCode { have: self.cells, need: code.cell_count() }),
        }
    }

    /// The columns that have at least one cell in the set, ascending.
    pub fn columns(&self, code: &Code) -> Vec<usize> {
        let mut columns: Vec<usize> = self.iter().map(|cell| code.column_of(cell)).collect();
        columns.dedup();
        columns
    }
}

/// Costs of reading one cell, by column; 1 if not set.
///
/// A slow or failing device gets a high cost and is not excluded: a plan avoids it where that
/// lowers the total cost.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Costs {
    /// The columns whose cost is not 1.
    per_column: BTreeMap<usize, u32>,
}

impl Costs {
    /// The largest cost of a cell, so that no sum overflows.
    pub const MOST: u32 = 1_000_000;

    /// Every column costs 1.
    pub fn uniform() -> Costs {
        Costs::default()
    }

    /// Sets the cost of one column, clamped to [`Costs::MOST`].
    pub fn set(&mut self, column: usize, cost: u32) {
        match cost.min(Costs::MOST) {
            1 => self.per_column.remove(&column),
            cost => self.per_column.insert(column, cost),
        };
    }

    /// The cost of reading one cell of a column.
    pub fn of(&self, column: usize) -> u64 {
        self.per_column.get(&column).map_or(1, |&cost| u64::from(cost))
    }

    /// True if each of the first `columns` columns costs the same.
    pub fn is_uniform(&self, columns: usize) -> bool {
        (1..columns).all(|c| self.of(c) == self.of(0))
    }
}
