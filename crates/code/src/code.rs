//! The code itself: its cells, user order and equations.

use crate::custom::{self, CELLS_MAX, MATRIX_SYMBOLS_MAX, PROOF_WORK_MAX, TEXT_LEN_BYTES_MAX};
use crate::parts::{MOST_COLUMNS, tolerance};
use crate::{Budget, CodeError, FileFault, Overspent};
use pantile_gf::{Gf, Matrix};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// The position of a cell in the stripe, both 0-based, as the papers write D\[row\]\[column\].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cell {
    /// The row within the column.
    pub row: usize,
    /// The column, which one device stores.
    pub column: usize,
}

impl fmt::Display for Cell {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "[{}][{}]", self.row, self.column)
    }
}

/// The index of a cell, counted column by column: the cells of one column are consecutive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CellIndex(pub u32);

impl CellIndex {
    /// Returns the index as a `usize`, for per-cell tables.
    pub fn usize(self) -> usize {
        self.0 as usize
    }
}

/// One linear relation: the sum of coefficient times cell is zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Equation {
    /// Ascending by cell, each cell once, no coefficient zero.
    terms: Vec<(CellIndex, Gf)>,
}

impl Equation {
    /// The terms, ascending by cell.
    pub fn terms(&self) -> &[(CellIndex, Gf)] {
        &self.terms
    }

    /// The coefficient of a cell, zero if it does not occur.
    pub fn coefficient(&self, cell: CellIndex) -> Gf {
        self.terms.binary_search_by_key(&cell, |t| t.0).map_or(Gf::ZERO, |i| self.terms[i].1)
    }
}

/// The physical unit that stores a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnRole {
    /// An ordinary device.
    Device,
    /// A small add-on of another column's device (RAIDP's Lstor), which fails separately.
    AddOn {
        /// The column to whose device the add-on belongs.
        of: usize,
    },
}

/// The tolerance that the construction promises; proofs and law suites check it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The number of columns that can be lost, whichever they are.
    pub tolerance: usize,
    /// True if the redundancy has exactly the size of `tolerance` columns, the least possible.
    pub mds: bool,
}

/// The purpose of a code: whether it may store user data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The code may store data.
    Storage,
    /// The code is provided for study and proofs only and must not store data, for this reason.
    ///
    /// Such a code encodes like any other so that it can be studied. Programs that store data
    /// refuse it ([`Code::check_stores`]).
    Study(&'static str),
}

/// An error: the code is provided for study only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StudyOnly {
    /// The spec of the code.
    pub spec: String,
    /// The reason why it must not store data.
    pub reason: &'static str,
}

impl fmt::Display for StudyOnly {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StudyOnly { spec, reason } = self;
        write!(out, "{spec} is here to be studied, not to store with: {reason}; choose another code")
    }
}

impl std::error::Error for StudyOnly {}

/// The repair of one lost column from parts of other columns.
///
/// The planner computes the plan from the equations, so a wrong entry yields no plan, never a wrong
/// one. The entry is not part of the code's identity: fingerprint and equality ignore it, and a
/// code file does not carry it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialRepair {
    /// The rows to read of each helper, ascending.
    pub rows: Vec<usize>,
    /// Number of helper columns.
    pub helpers: usize,
    /// Columns that must be among the helpers.
    pub among: Vec<usize>,
}

/// A redundancy scheme: the shape of a stripe and the equations that its cells satisfy.
///
/// Invariants: every cell is data or parity, never both; the data cells are in user order; there
/// are as many equations as parity cells, and they determine the parity cells from the data.
#[derive(Clone)]
pub struct Code {
    inner: Arc<Inner>,
}

struct Inner {
    spec: String,
    family: &'static str,
    definition: Option<String>,
    version: u16,
    offsets: Vec<u32>,
    rows_max: usize,
    roles: Vec<ColumnRole>,
    data: Vec<CellIndex>,
    positions: Vec<u32>,
    parity: Vec<CellIndex>,
    equations: Vec<Equation>,
    claim: Claim,
    purpose: Purpose,
    remark: Option<String>,
    partial_repairs: Vec<Option<PartialRepair>>,
    generator: OnceLock<Matrix>,
}

const NOT_DATA: u32 = u32::MAX;

impl Code {
    /// The canonical text form; [`Code::parse`] reads it back to an equal code.
    ///
    /// The spec of a code file is `custom:NAME-FINGERPRINT`, which identifies the code but does not
    /// define it.
    pub fn spec(&self) -> &str {
        &self.inner.spec
    }

    /// The name of the family; `custom` for a code file.
    pub fn family(&self) -> &'static str {
        self.inner.family
    }

    /// The whole text of the code file, which defines the code completely; `None` for a named code.
    pub fn definition(&self) -> Option<&str> {
        self.inner.definition.as_deref()
    }

    /// The version of the construction. The equations behind one spec and version never change.
    pub fn version(&self) -> u16 {
        self.inner.version
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.inner.roles.len()
    }

    /// The number of cells of one column.
    pub fn rows(&self, column: usize) -> usize {
        (self.inner.offsets[column + 1] - self.inner.offsets[column]) as usize
    }

    /// The most cells that a column has.
    pub fn rows_max(&self) -> usize {
        self.inner.rows_max
    }

    /// True if all columns are devices with the same number of rows, so that they can be
    /// interchanged.
    pub fn columns_are_interchangeable(&self) -> bool {
        (0..self.columns()).all(|c| self.rows(c) == self.rows(0) && self.role(c) == ColumnRole::Device)
    }

    /// Returns the role of a column.
    pub fn role(&self, column: usize) -> ColumnRole {
        self.inner.roles[column]
    }

    /// The number of cells in the stripe.
    pub fn cell_count(&self) -> usize {
        self.inner.positions.len()
    }

    /// All cells, ascending: column by column, each from row 0.
    pub fn cells(&self) -> impl DoubleEndedIterator<Item = CellIndex> + ExactSizeIterator + use<> {
        (0..self.cell_count() as u32).map(CellIndex)
    }

    /// The cells of one column, from row 0.
    pub fn column_cells(
        &self,
        column: usize,
    ) -> impl DoubleEndedIterator<Item = CellIndex> + ExactSizeIterator + use<> {
        let range: Range<u32> = self.inner.offsets[column]..self.inner.offsets[column + 1];
        range.map(CellIndex)
    }

    /// Row and column of a cell.
    pub fn cell(&self, index: CellIndex) -> Cell {
        let column = self.inner.offsets.partition_point(|&offset| offset <= index.0) - 1;
        Cell { row: (index.0 - self.inner.offsets[column]) as usize, column }
    }

    /// The column of a cell.
    pub fn column_of(&self, index: CellIndex) -> usize {
        self.cell(index).column
    }

    /// The index of a cell, `None` outside the shape.
    pub fn index(&self, cell: Cell) -> Option<CellIndex> {
        (cell.column < self.columns() && cell.row < self.rows(cell.column))
            .then(|| CellIndex(self.inner.offsets[cell.column] + cell.row as u32))
    }

    /// The data cells in user order: element i of the user's data is stored in the i-th of these
    /// cells.
    pub fn data(&self) -> &[CellIndex] {
        &self.inner.data
    }

    /// The index of a cell in user order, `None` for parity.
    pub fn data_position(&self, index: CellIndex) -> Option<usize> {
        let position = self.inner.positions[index.usize()];
        (position != NOT_DATA).then_some(position as usize)
    }

    /// True if a cell holds parity.
    pub fn is_parity(&self, index: CellIndex) -> bool {
        self.inner.positions[index.usize()] == NOT_DATA
    }

    /// The parity cells, in the order of their defining equations where each has one.
    pub fn parity(&self) -> &[CellIndex] {
        &self.inner.parity
    }

    /// The equations, in the order of the construction.
    pub fn equations(&self) -> &[Equation] {
        &self.inner.equations
    }

    /// Returns the claim of the construction.
    pub fn claim(&self) -> Claim {
        self.inner.claim
    }

    /// Returns the purpose of the code.
    pub fn purpose(&self) -> &Purpose {
        &self.inner.purpose
    }

    /// Returns the text about another scheme with which the spec is easily confused, if there is
    /// one.
    pub fn remark(&self) -> Option<&str> {
        self.inner.remark.as_deref()
    }

    /// Returns the repair of a column from parts of others; `None` if the construction names none.
    pub fn partial_repair(&self, column: usize) -> Option<&PartialRepair> {
        self.inner.partial_repairs.get(column)?.as_ref()
    }

    /// Returns an error if the code must not store data. Every program that stores data calls this.
    pub fn check_stores(&self) -> Result<(), StudyOnly> {
        match self.inner.purpose {
            Purpose::Storage => Ok(()),
            Purpose::Study(reason) => Err(StudyOnly { spec: self.inner.spec.clone(), reason }),
        }
    }

    /// True if every coefficient is 1.
    pub fn is_xor(&self) -> bool {
        self.equations().iter().all(|e| e.terms.iter().all(|t| t.1 == Gf::ONE))
    }

    /// User bytes per stored byte.
    pub fn rate(&self) -> f64 {
        self.data().len() as f64 / self.cell_count() as f64
    }

    /// Each parity cell as a combination of the data: row i is `parity()[i]`, column j is
    /// `data()[j]`.
    ///
    /// Cost: one elimination of parity x (parity + data) symbols, once per code.
    pub fn generator(&self) -> &Matrix {
        self.inner.generator.get_or_init(|| match solve_parity(self, &mut Budget::of_steps(u64::MAX)) {
            Ok(generator) => generator,
            Err(_) => unreachable!("the equations of a code that was built determine its parity cells"),
        })
    }

    /// A digest of shape, user order and equations: equal codes have equal fingerprints.
    ///
    /// FNV-1a over 64 bits: it distinguishes constructions, but an attacker can forge it.
    pub fn fingerprint(&self) -> u64 {
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        let mut take = |value: u32| {
            for byte in value.to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        };
        self.inner.offsets.iter().for_each(|&o| take(o));
        self.inner.data.iter().for_each(|d| take(d.0));
        for equation in self.equations() {
            take(u32::MAX);
            equation.terms.iter().for_each(|&(cell, coefficient)| {
                take(cell.0);
                take(coefficient.0.into());
            });
        }
        hash
    }
}

impl PartialEq for Code {
    fn eq(&self, other: &Code) -> bool {
        let (a, b) = (&self.inner, &other.inner);
        a.spec == b.spec
            && a.version == b.version
            && a.offsets == b.offsets
            && a.data == b.data
            && a.equations == b.equations
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Code({} @{})", self.spec(), self.version())
    }
}

impl fmt::Display for Code {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.spec())
    }
}

/// The reason why the equations were not solved for the parity cells.
enum Unsolved {
    /// The equations do not determine the parity cells. The rank that was found.
    Rank(usize),
    /// The solution costs more than allowed.
    Overspent(Overspent),
}

/// Solves the equations for the parity cells. The cost of each row addition is taken from the
/// budget first.
fn solve_parity(code: &Code, budget: &mut Budget) -> Result<Matrix, Unsolved> {
    let (parity, data) = (code.parity(), code.data());
    let mut place = vec![0usize; code.cell_count()];
    parity.iter().enumerate().for_each(|(i, p)| place[p.usize()] = i);
    data.iter().enumerate().for_each(|(i, d)| place[d.usize()] = parity.len() + i);
    let width = parity.len() + data.len();
    let at_most = (parity.len() as u64).saturating_pow(2).saturating_mul(width as u64).saturating_mul(2);
    let mut spend = |products: usize| {
        budget.spend("solving the equations for the parity cells", products as u64, at_most)
    };
    let mut rows: Vec<Vec<Gf>> = code
        .equations()
        .iter()
        .map(|equation| {
            let mut row = vec![Gf::ZERO; width];
            equation.terms.iter().for_each(|&(cell, c)| row[place[cell.usize()]] = c);
            row
        })
        .collect();
    for pivot in 0..parity.len() {
        // A sparse pivot row keeps the elimination of the large array codes cheap. Counting the
        // symbols of a row costs about an eighth of adding it to another.
        let mut found: Option<(usize, usize)> = None;
        for (r, row) in rows.iter().enumerate().skip(pivot).filter(|(_, row)| !row[pivot].is_zero()) {
            spend(width / 8).map_err(Unsolved::Overspent)?;
            let count = row.iter().filter(|x| !x.is_zero()).count();
            if found.is_none_or(|(_, least)| count < least) {
                found = Some((r, count));
            }
        }
        let Some((found, _)) = found else { return Err(Unsolved::Rank(pivot)) };
        rows.swap(pivot, found);
        let mut own = std::mem::take(&mut rows[pivot]);
        let scale = Gf::ONE / own[pivot];
        own.iter_mut().for_each(|x| *x *= scale);
        let support: Vec<u32> = (0..).zip(&own).filter(|(_, x)| !x.is_zero()).map(|(i, _)| i).collect();
        let is_dense = support.len() > width / 4;
        for (_, row) in rows.iter_mut().enumerate().filter(|&(r, _)| r != pivot) {
            let factor = row[pivot];
            if factor.is_zero() {
                continue;
            }
            spend(if is_dense { width } else { support.len() }).map_err(Unsolved::Overspent)?;
            if is_dense {
                // A table of 256 products is made once per row; each look-up needs no branch.
                let times: [Gf; 256] = std::array::from_fn(|x| factor * Gf(x as u8));
                row.iter_mut().zip(&own).for_each(|(x, &y)| *x += times[usize::from(y.0)]);
            } else {
                support.iter().for_each(|&i| row[i as usize] += factor * own[i as usize]);
            }
        }
        rows[pivot] = own;
    }
    Ok(Matrix::from_fn(parity.len(), data.len(), |r, c| rows[r][parity.len() + c]))
}

/// The most cells of any code: the limit on a program's buffers.
const BUILT_CELLS_MAX: usize = 1 << 24;

/// Builds a [`Code`]: shape first, then equations, then names.
///
/// ```
/// use pantile_code::CodeBuilder;
/// use pantile_gf::Gf;
///
/// // Two data columns, their XOR, and a sum with different coefficients.
/// let mut code = CodeBuilder::uniform(4, 1);
/// code.define_xor((0, 2), [(0, 0), (0, 1)]);
/// code.define((0, 3), [((0, 0), Gf(1)), ((0, 1), Gf(2))]);
/// let code = code.finish_checked("mine")?;
/// assert_eq!((code.data().len(), code.claim().tolerance), (2, 2));
/// # Ok::<(), pantile_code::CodeError>(())
/// ```
///
/// A cell outside the shape is recorded and not added: [`CodeBuilder::finish_checked`] reports the
/// first one.
pub struct CodeBuilder {
    offsets: Vec<u32>,
    roles: Vec<ColumnRole>,
    parity: Vec<CellIndex>,
    is_parity: Vec<bool>,
    order: Option<Vec<CellIndex>>,
    equations: Vec<Equation>,
    purpose: Purpose,
    remark: Option<String>,
    /// The partial repair of each column; empty if there is none.
    partial_repairs: Vec<Option<PartialRepair>>,
    version: u16,
    /// The first fault that was recorded.
    fault: Option<FileFault>,
}

impl CodeBuilder {
    /// Begins a code of `columns` columns of `rows` rows each, all of them devices.
    pub fn uniform(columns: usize, rows: usize) -> CodeBuilder {
        CodeBuilder::shaped(columns, std::iter::repeat_n(rows, columns))
    }

    /// Begins a code with one column per entry of `rows`, each with that many rows, all of them
    /// devices.
    pub fn ragged(rows: &[usize]) -> CodeBuilder {
        CodeBuilder::shaped(rows.len(), rows.iter().copied())
    }

    /// Begins a code with this shape. If the shape is too large, the code has no columns and a
    /// fault is recorded.
    fn shaped(columns: usize, rows: impl Iterator<Item = usize>) -> CodeBuilder {
        let mut offsets = vec![0u32];
        let mut given = 0usize;
        let mut fault = None;
        if columns > BUILT_CELLS_MAX {
            let what = "the number of columns";
            fault = Some(FileFault::TooLarge { what, given: columns, most: BUILT_CELLS_MAX });
        } else {
            for rows in rows {
                given = given.saturating_add(rows);
                offsets.push(given as u32);
            }
        }
        if given > BUILT_CELLS_MAX {
            fault = Some(FileFault::TooLarge { what: "the number of cells", given, most: BUILT_CELLS_MAX });
            (offsets, given) = (vec![0], 0);
        }
        CodeBuilder {
            roles: vec![ColumnRole::Device; offsets.len() - 1],
            offsets,
            parity: Vec::new(),
            is_parity: vec![false; given],
            order: None,
            equations: Vec::new(),
            purpose: Purpose::Storage,
            remark: None,
            partial_repairs: Vec::new(),
            version: 1,
            fault,
        }
    }

    /// The index of the cell at (row, column). Panics if it is outside the shape.
    pub fn at(&self, (row, column): (usize, usize)) -> CellIndex {
        match self.find((row, column)) {
            Some(index) => index,
            None => panic!("the cell [{row}][{column}] lies outside the shape of the code"),
        }
    }

    fn find(&self, (row, column): (usize, usize)) -> Option<CellIndex> {
        let end = self.offsets.get(column.checked_add(1)?)?;
        let start = self.offsets[column];
        (row < (end - start) as usize).then(|| CellIndex(start + row as u32))
    }

    fn find_or_note(&mut self, (row, column): (usize, usize)) -> Option<CellIndex> {
        let found = self.find((row, column));
        if found.is_none() {
            self.note(FileFault::NoSuchCell { row, column });
        }
        found
    }

    fn note(&mut self, fault: FileFault) {
        self.fault.get_or_insert(fault);
    }

    /// Makes a cell parity, by the equation: `parity` = sum of coefficient * cell over `terms`.
    ///
    /// Terms may repeat a cell (their coefficients add up) and may name other parity cells.
    pub fn define(&mut self, parity: (usize, usize), terms: impl IntoIterator<Item = ((usize, usize), Gf)>) {
        self.parity_cell(parity);
        let one = std::iter::once((parity, Gf::ONE));
        self.equation(one.chain(terms));
    }

    /// Works like [`CodeBuilder::define`], with every coefficient 1.
    pub fn define_xor(&mut self, parity: (usize, usize), cells: impl IntoIterator<Item = (usize, usize)>) {
        self.define(parity, cells.into_iter().map(|cell| (cell, Gf::ONE)));
    }

    /// Makes a cell parity without adding an equation; equations by [`CodeBuilder::equation`] must
    /// determine it.
    pub fn parity_cell(&mut self, parity: (usize, usize)) {
        let Some(index) = self.find_or_note(parity) else { return };
        match std::mem::replace(&mut self.is_parity[index.usize()], true) {
            true => self.note(FileFault::RoleConflict { row: parity.0, column: parity.1 }),
            false => self.parity.push(index),
        }
    }

    /// Adds the equation: sum of coefficient * cell = 0.
    pub fn equation(&mut self, terms: impl IntoIterator<Item = ((usize, usize), Gf)>) {
        let mut sum: Vec<(CellIndex, Gf)> = Vec::new();
        for (cell, coefficient) in terms {
            sum.extend(self.find_or_note(cell).map(|index| (index, coefficient)));
        }
        sum.sort_by_key(|t| t.0);
        let mut terms: Vec<(CellIndex, Gf)> = Vec::with_capacity(sum.len());
        for (cell, coefficient) in sum {
            match terms.last_mut() {
                Some(last) if last.0 == cell => last.1 += coefficient,
                _ => terms.push((cell, coefficient)),
            }
        }
        terms.retain(|t| !t.1.is_zero());
        self.equations.push(Equation { terms });
    }

    /// Sets the user order. The default is row-major over the data cells.
    pub fn user_order(&mut self, cells: impl IntoIterator<Item = (usize, usize)>) {
        let order: Vec<CellIndex> = cells.into_iter().filter_map(|cell| self.find_or_note(cell)).collect();
        self.order = Some(order);
    }

    /// Marks a column as an add-on of another.
    pub fn add_on(&mut self, column: usize, of: usize) {
        let columns = self.roles.len();
        match column != of && column.max(of) < columns {
            true => self.roles[column] = ColumnRole::AddOn { of },
            false => self.note(FileFault::NoSuchAddOn { column, of, columns }),
        }
    }

    /// Marks this code as one that must not store data, with the reason; see [`Purpose::Study`].
    pub fn study_only(&mut self, reason: &'static str) {
        self.purpose = Purpose::Study(reason);
    }

    /// Sets the text about a scheme with which the spec could be confused; see [`Code::remark`].
    pub(crate) fn remark(&mut self, text: String) {
        self.remark = Some(text);
    }

    /// Sets how a column is repaired from parts of others.
    pub(crate) fn partial_repair(&mut self, column: usize, repair: PartialRepair) {
        self.partial_repairs.resize(self.roles.len(), None);
        self.partial_repairs[column] = Some(repair);
    }

    /// Returns the finished code of a user, checked and proven like a code file
    /// ([`custom`](crate::custom)). Its family is `custom`, its spec is `custom:NAME-FINGERPRINT`,
    /// and its [`Code::definition`] is the text of a code file that defines it.
    ///
    /// Roles of columns and the purpose are not in that file; only this value has them. Errors:
    /// [`CodeError::Built`] with the first fault of shape; equations that do not determine the
    /// parity cells; a name or a size that a code file cannot have. Cost: that of
    /// [`Code::from_text`].
    pub fn finish_checked(self, name: &str) -> Result<Code, CodeError> {
        self.checked(name, None, &mut Budget::default()).map_err(|fault| CodeError::Built { fault })
    }

    /// Returns the finished code of a family whose construction is known to be right: neither the
    /// claim nor the rank of the equations is checked. Use [`CodeBuilder::finish_checked`] for any
    /// other code.
    ///
    /// Panics if a cell was outside the shape, or if the user order is not exactly the data cells.
    /// If the equations do not determine the parity cells, [`Code::generator`] panics later, and
    /// every encoder with it. A false MDS claim makes recoveries panic. All of these are faults of
    /// the family, not of a user.
    pub fn finish(self, spec: impl Into<String>, family: &'static str, claim: Claim) -> Code {
        self.assemble(spec.into(), family, None, claim)
    }

    /// Returns the finished code of a family whose tolerance is counted from the equations.
    ///
    /// The code is MDS exactly if the redundancy has the size of as many columns as the tolerance.
    pub(crate) fn finish_proven(
        self,
        spec: String,
        family: &'static str,
        tolerance: impl FnOnce(&Code) -> usize,
    ) -> Code {
        let draft = self.assemble(spec, family, None, Claim { tolerance: 0, mds: false });
        let claim = tolerance::claim(&draft, tolerance(&draft));
        let Ok(mut inner) = Arc::try_unwrap(draft.inner) else { unreachable!("the draft has one owner") };
        inner.claim = claim;
        Code { inner: Arc::new(inner) }
    }

    /// Works like [`CodeBuilder::finish_checked`], for a code that may already have its definition.
    pub(crate) fn checked(
        self,
        name: &str,
        definition: Option<String>,
        budget: &mut Budget,
    ) -> Result<Code, FileFault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let name = custom::name(name)?;
        self.check_limits()?;
        self.check_order()?;
        let is_defined = definition.is_some();
        let draft = self.assemble(String::new(), "custom", definition, Claim { tolerance: 0, mds: false });
        let (parity, equations) = (draft.parity().len(), draft.equations().len());
        let fault = |rank| FileFault::NotSystematic { parity, rank, equations };
        if parity != equations {
            return Err(fault(parity.min(equations)));
        }
        let generator = solve_parity(&draft, budget).map_err(|unsolved| match unsolved {
            Unsolved::Rank(rank) => fault(rank),
            Unsolved::Overspent(overspent) => FileFault::TooMuchWork(overspent),
        })?;
        let claim = tolerance::claim(&draft, tolerance::proven(&draft, 0, draft.columns(), PROOF_WORK_MAX));
        let spec = format!("custom:{name}-{:016x}", draft.fingerprint());
        let Ok(mut inner) = Arc::try_unwrap(draft.inner) else { unreachable!("the draft has one owner") };
        inner.spec = spec;
        inner.claim = claim;
        inner.generator = OnceLock::from(generator);
        let mut code = Code { inner: Arc::new(inner) };
        if !is_defined {
            let text = code.to_text();
            most("the length of its text in bytes", text.len(), TEXT_LEN_BYTES_MAX)?;
            let Some(inner) = Arc::get_mut(&mut code.inner) else { unreachable!("the code has one owner") };
            inner.definition = Some(text);
        }
        Ok(code)
    }

    /// Checks the limits of code files.
    pub(crate) fn check_limits(&self) -> Result<(), FileFault> {
        let (cells, parity) = (self.is_parity.len(), self.parity.len());
        most("the number of columns", self.roles.len(), MOST_COLUMNS)?;
        most("the number of cells", cells, CELLS_MAX)?;
        if let Some(column) = self.offsets.windows(2).position(|pair| pair[0] == pair[1]) {
            return Err(FileFault::EmptyColumn { column });
        }
        if parity == cells {
            return Err(FileFault::NoData);
        }
        let solved = parity.max(self.equations.len()).saturating_mul(cells);
        most("the number of parity cells times cells", solved, MATRIX_SYMBOLS_MAX)
    }

    /// Returns an error unless the user order has every data cell exactly once and no parity cell.
    pub(crate) fn check_order(&self) -> Result<(), FileFault> {
        let Some(order) = &self.order else { return Ok(()) };
        let place = |index: usize| {
            let column = self.offsets.partition_point(|&offset| offset as usize <= index) - 1;
            (index - self.offsets[column] as usize, column)
        };
        let mut seen = self.is_parity.clone();
        for cell in order {
            let (row, column) = place(cell.usize());
            if self.is_parity[cell.usize()] {
                return Err(FileFault::ParityInOrder { row, column });
            }
            if std::mem::replace(&mut seen[cell.usize()], true) {
                return Err(FileFault::TwiceInOrder { row, column });
            }
        }
        match seen.iter().position(|&seen| !seen).map(place) {
            Some((row, column)) => Err(FileFault::NotInOrder { row, column }),
            None => Ok(()),
        }
    }

    fn assemble(self, spec: String, family: &'static str, definition: Option<String>, claim: Claim) -> Code {
        if let Some(fault) = self.fault.as_ref().or(self.check_order().err().as_ref()) {
            panic!("{spec}: {fault}");
        }
        let columns = self.roles.len();
        let rows_max = (0..columns).map(|c| self.offsets[c + 1] - self.offsets[c]).max().unwrap_or(0);
        let data: Vec<CellIndex> = match self.order {
            Some(order) => order,
            None => (0..rows_max)
                .flat_map(|row| (0..columns).map(move |column| (row, column)))
                .filter(|&(row, column)| row < self.offsets[column + 1] - self.offsets[column])
                .map(|(row, column)| CellIndex(self.offsets[column] + row))
                .filter(|cell| !self.is_parity[cell.usize()])
                .collect(),
        };
        let mut positions = vec![NOT_DATA; self.is_parity.len()];
        for (position, cell) in data.iter().enumerate() {
            positions[cell.usize()] = position as u32;
        }
        Code {
            inner: Arc::new(Inner {
                spec,
                family,
                definition,
                version: self.version,
                rows_max: self.offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize).max().unwrap_or(0),
                offsets: self.offsets,
                roles: self.roles,
                data,
                positions,
                parity: self.parity,
                equations: self.equations,
                claim,
                purpose: self.purpose,
                remark: self.remark,
                partial_repairs: self.partial_repairs,
                generator: OnceLock::new(),
            }),
        }
    }
}

fn most(what: &'static str, given: usize, most: usize) -> Result<(), FileFault> {
    match given <= most {
        true => Ok(()),
        false => Err(FileFault::TooLarge { what, given, most }),
    }
}
