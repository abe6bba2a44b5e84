//! Search for wrong columns: those that explain why some equations do not sum to zero.
//!
//! Every available column is read, and the *checks* are computed: combinations of the equations
//! without an erased cell. On an intact stripe every check is zero. If columns E are wrong, the
//! check values (the syndrome) of a byte are in the space spanned by the contributions of the cells
//! of E to the checks. So E explains a syndrome exactly when the syndrome is in that space. The
//! search looks for small sets E that do.
//!
//! With column distance d (any d - 1 columns can be lost) and f erased columns, any two
//! explanations of at most e columns each, 2e + f <= d - 1, are the same: the answer is unique and
//! certain. Beyond that an answer can still be unique, but another set of the same size, with other
//! wrong bytes, could have given the same syndrome. Such an answer is reported as not certain, and
//! is repaired only if the caller asks for it.
//!
//! The search is per syndrome, that is, per byte. Callers with long buffers search once per stretch
//! of bytes and check the answer on every byte with [`Locator::residual`], which costs as much as
//! encoding.
//!
//! # How likely is a mistake
//!
//! "At most e columns are wrong" is an assumption. More columns may be wrong and look like fewer:
//! in rs:4+2 a pair of wrong columns looks like one other column at one byte in 64. So one byte
//! proves little; the longer a stretch of bytes that one set explains, the more it proves. Let
//!
//! * t = d - 1 be the tolerance, f the columns with erased cells, s = t - f the remaining
//!   tolerance;
//! * H be an explanation of e <= s / 2 columns, T the columns that are really wrong, n the number
//!   of columns whose cells are read;
//! * a mistake mean that H explains a byte at which a column outside H is wrong.
//!
//! The cells of any s columns without erased cells are independent in the checks, even together
//! with columns of which some cells are erased. So if H explains an error of T, then T has at least
//! s + 1 - e columns outside H without an erased cell: the cells of fewer would be independent of
//! H, and H could not explain their contribution. Choose s - e of them, and fix the errors of all
//! other columns. The cells of the chosen columns and of H are independent, so at most one choice
//! of values in the chosen columns makes the rest of the syndrome fall into the space of H. If each
//! of the chosen columns has, in at least one of its cells, a value that is equally likely to be
//! any of the 255 that are not zero, and independent of the others, the chance is at most
//!
//! ```text
//! 255^-(s - e) for one H at one byte,   C(n, e) * 255^-((s - e) * b) for any H at b bytes.
//! ```
//!
//! s - e is the number of redundant equations: those that remain when e columns are located. For
//! MDS codes of one row and the smallest larger error, s + 1 - e columns, the bound is reached
//! except for the first factor: H must then be outside T, which leaves C(n - (s + 1 - e), e)
//! choices. For rs:4+2, s = 2 and e = 1, that is 4 * 255^-b. The tests count all such errors of one
//! byte, and sample those of several bytes.
//!
//! The bound does not cover errors that depend on each other. Example: if two data blocks with
//! equal coefficients in a parity were exchanged, their errors cancel in that parity at every byte.
//! They can look like one wrong column, whatever their length.

use crate::{CellSet, Combination, PlanError};
use pantile_code::{CellIndex, Code};
use pantile_gf::Gf;

/// The answer for one syndrome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Explanation {
    /// Every check is zero: no column is wrong.
    Clean,
    /// Exactly one smallest set of columns explains it.
    Located {
        /// The columns, ascending.
        columns: Vec<usize>,
        /// True if no other set of as many columns could have caused it.
        certain: bool,
    },
    /// Several sets of the same smallest size explain it.
    Ambiguous {
        /// The size.
        size: usize,
        /// The first two of them.
        examples: [Vec<usize>; 2],
    },
    /// No set of up to the searched size explains it, or none was found before the search was cut
    /// short.
    Unlocatable,
}

/// Contribution of one column to the checks.
#[derive(Clone, Debug)]
struct Block {
    column: usize,
    /// The cells of the column that are read, each with its coefficient in every check.
    cells: Vec<(CellIndex, Vec<Gf>)>,
}

/// A combination of checks: (check, coefficient), no coefficient zero.
pub type CheckCombination = Vec<(usize, Gf)>;

/// Finds lying columns of one code with some cells erased.
#[derive(Clone, Debug)]
pub struct Locator {
    code: Code,
    /// The terms of each check, over the cells that are read.
    checks: Vec<Combination>,
    /// The columns of which cells are read.
    blocks: Vec<Block>,
    errors_certain: usize,
    /// The number of columns that can be lost besides those with erased cells.
    spare: usize,
}

/// The most products of two symbols that a search for wrong columns takes ([`Locator::explain`]).
/// All triples of 256 columns with 56 checks take half of it. Sets of 28 of these columns would
/// take forever without a bound.
pub const SEARCH_PRODUCTS_MOST: u64 = 1 << 28;

/// The least evidence for an automatic repair, in bits: the chance of a mistake is at most one in 2
/// to this power.
pub const EVIDENCE_BITS_LEAST: u32 = 40;

impl Locator {
    /// Returns a locator for stripes of `code` whose `erased` cells cannot be read. Any `tolerance`
    /// columns of the code can be lost.
    ///
    /// Errors: `erased` is a set of another code.
    /// Cost: one elimination of equations x cells.
    pub fn new(code: &Code, tolerance: usize, erased: &CellSet) -> Result<Locator, PlanError> {
        erased.check(code)?;
        let cells = code.cell_count();
        let mut rows: Vec<Vec<Gf>> = code
            .equations()
            .iter()
            .map(|equation| {
                let mut row = vec![Gf::ZERO; cells];
                equation.terms().iter().for_each(|&(cell, c)| row[cell.usize()] = c);
                row
            })
            .collect();
        for cell in erased.iter() {
            let found = rows
                .iter()
                .enumerate()
                .filter(|(_, row)| !row[cell.usize()].is_zero())
                .min_by_key(|(_, row)| row.iter().filter(|x| !x.is_zero()).count())
                .map(|(i, _)| i);
            let Some(found) = found else { continue };
            let pivot = rows.swap_remove(found);
            let scale = Gf::ONE / pivot[cell.usize()];
            for row in &mut rows {
                let factor = row[cell.usize()] * scale;
                if !factor.is_zero() {
                    row.iter_mut().zip(&pivot).for_each(|(x, &y)| *x += factor * y);
                }
            }
        }
        let terms = |row: &Vec<Gf>| {
            let terms = row.iter().enumerate().filter(|(_, c)| !c.is_zero());
            terms.map(|(cell, &c)| (CellIndex(cell as u32), c)).collect()
        };
        let blocks = (0..code.columns())
            .map(|column| {
                let contribution = |cell: CellIndex| (cell, rows.iter().map(|r| r[cell.usize()]).collect());
                let read = code.column_cells(column).filter(|&c| !erased.contains(c));
                Block { column, cells: read.map(contribution).collect() }
            })
            .filter(|block| !block.cells.is_empty())
            .collect();
        let lost = erased.columns(code).len();
        Ok(Locator {
            code: code.clone(),
            checks: rows.iter().map(terms).collect(),
            blocks,
            errors_certain: tolerance.saturating_sub(lost) / 2,
            spare: tolerance.saturating_sub(lost),
        })
    }

    /// The code.
    pub fn code(&self) -> &Code {
        &self.code
    }

    /// The checks: combinations of the cells that are read, each zero on an intact stripe.
    pub fn checks(&self) -> &[Combination] {
        &self.checks
    }

    /// The most wrong columns that are found with certainty: floor((d - 1 - f) / 2).
    pub fn errors_certain(&self) -> usize {
        self.errors_certain
    }

    /// Returns the evidence that one set of `columns` columns explains each of `bytes` bytes that
    /// fail a check. A larger error explains them by chance with a probability of at most 2 to the
    /// power of minus this; the number is rounded down. The head of this module derives it.
    ///
    /// Zero beyond [`Locator::errors_certain`], where other sets of the same size can explain the
    /// same bytes.
    pub fn evidence_bits(&self, columns: usize, bytes: usize) -> u32 {
        if columns == 0 || columns > self.errors_certain {
            return 0;
        }
        let n = self.blocks.len();
        let sets: f64 = (0..columns).map(|i| ((n - i) as f64 / (i + 1) as f64).log2()).sum();
        let redundant = (self.spare - columns) as f64 * bytes as f64;
        (redundant * 255f64.log2() - sets).max(0.0).floor() as u32
    }

    /// Explains one syndrome: the values of the checks at one byte.
    ///
    /// Searches sets of one column, then two, up to [`Locator::errors_certain`] (and single columns
    /// in any case), as far as [`SEARCH_PRODUCTS_MOST`] reaches. Panics if there is not one value
    /// per check. Cost: n^e small eliminations for e wrong columns, up to that bound.
    pub fn explain(&self, syndrome: &[Gf]) -> Explanation {
        self.explain_within(syndrome, &mut { SEARCH_PRODUCTS_MOST })
    }

    /// Works like [`Locator::explain`], with a limit on products that calls for several syndromes
    /// share; the products of this call are subtracted from it. Single columns are always tried.
    ///
    /// A search that reaches the limit returns what it has found, with `certain` as in a complete
    /// search, or [`Explanation::Unlocatable`].
    pub fn explain_within(&self, syndrome: &[Gf], products_left: &mut u64) -> Explanation {
        assert_eq!(syndrome.len(), self.checks.len(), "one value per check");
        if syndrome.iter().all(|s| s.is_zero()) {
            return Explanation::Clean;
        }
        let all: Vec<(usize, Vec<Vec<Gf>>)> = self
            .blocks
            .iter()
            .map(|block| (block.column, block.cells.iter().map(|(_, v)| v.clone()).collect()))
            .collect();
        for size in 1..=self.errors_certain.max(1) {
            let mut unbounded = u64::MAX;
            let left = if size == 1 { &mut unbounded } else { &mut *products_left };
            let mut search = Search { chosen: Vec::new(), found: Vec::new(), products_left: left };
            let is_whole = search.sets_that_explain(&all, syndrome, size);
            let mut found = search.found;
            match found.len() {
                0 if is_whole => {}
                0 => break,
                1 => {
                    let certain = size <= self.errors_certain;
                    return Explanation::Located { columns: found.swap_remove(0), certain };
                }
                _ => {
                    let second = found.swap_remove(1);
                    return Explanation::Ambiguous { size, examples: [found.swap_remove(0), second] };
                }
            }
        }
        Explanation::Unlocatable
    }

    /// Combinations of the checks whose values are all zero exactly where the given columns explain
    /// the syndrome.
    ///
    /// Each is a list of (check, coefficient).
    pub fn residual(&self, columns: &[usize]) -> Vec<CheckCombination> {
        let mut rows = identity(self.checks.len());
        for vector in self.vectors(columns) {
            let value = |row: &[Gf]| row.iter().zip(vector).map(|(&x, &y)| x * y).sum::<Gf>();
            let Some(found) = rows.iter().position(|row| !value(row).is_zero()) else { continue };
            let pivot = rows.swap_remove(found);
            let scale = Gf::ONE / value(&pivot);
            for row in &mut rows {
                let factor = value(row) * scale;
                row.iter_mut().zip(&pivot).for_each(|(x, &y)| *x += factor * y);
            }
        }
        rows.iter().map(|row| sparse(row)).collect()
    }

    /// Returns the error of each cell of the given columns, to be added to it, as a combination of
    /// the checks.
    ///
    /// `None` if the columns' cells are not independent in the checks, so that their values are not
    /// determined.
    pub fn corrections(&self, columns: &[usize]) -> Option<Vec<(CellIndex, CheckCombination)>> {
        let vectors = self.vectors(columns);
        let mut rows = identity(self.checks.len());
        let mut pivots: Vec<Vec<Gf>> = Vec::new();
        for (i, vector) in vectors.iter().enumerate() {
            let value = |row: &[Gf], vector: &[Gf]| row.iter().zip(vector).map(|(&x, &y)| x * y).sum::<Gf>();
            let found = rows.iter().position(|row| !value(row, vector).is_zero())?;
            let mut pivot = rows.swap_remove(found);
            let scale = Gf::ONE / value(&pivot, vector);
            pivot.iter_mut().for_each(|x| *x *= scale);
            for row in rows.iter_mut().chain(pivots.iter_mut()) {
                let factor = value(row, vector);
                row.iter_mut().zip(&pivot).for_each(|(x, &y)| *x += factor * y);
            }
            // The pivot must be zero on the vectors before it.
            for (j, earlier) in vectors[..i].iter().enumerate() {
                let factor = value(&pivot, earlier);
                let other = pivots[j].clone();
                pivot.iter_mut().zip(&other).for_each(|(x, &y)| *x += factor * y);
            }
            pivots.push(pivot);
        }
        let cells = columns.iter().flat_map(|&column| self.block(column).iter().map(|(cell, _)| *cell));
        Some(cells.zip(&pivots).map(|(cell, row)| (cell, sparse(row))).collect())
    }

    fn block(&self, column: usize) -> &[(CellIndex, Vec<Gf>)] {
        self.blocks.iter().find(|block| block.column == column).map_or(&[], |block| &block.cells)
    }

    fn vectors(&self, columns: &[usize]) -> Vec<&[Gf]> {
        columns.iter().flat_map(|&column| self.block(column).iter().map(|(_, v)| v.as_slice())).collect()
    }
}

fn identity(size: usize) -> Vec<Vec<Gf>> {
    (0..size).map(|i| (0..size).map(|j| if i == j { Gf::ONE } else { Gf::ZERO }).collect()).collect()
}

fn sparse(row: &[Gf]) -> CheckCombination {
    row.iter().enumerate().filter(|(_, c)| !c.is_zero()).map(|(i, &c)| (i, c)).collect()
}

/// The state of a search for sets of columns.
struct Search<'w> {
    chosen: Vec<usize>,
    found: Vec<Vec<usize>>,
    products_left: &'w mut u64,
}

impl Search<'_> {
    /// Finds the sets of exactly `size` more columns that explain the rest of a syndrome. Stops
    /// when two sets are found. Returns `false` if no products are left.
    ///
    /// When a column is chosen, its vectors are eliminated from the rest of the syndrome and from
    /// the later columns.
    fn sets_that_explain(&mut self, columns: &[(usize, Vec<Vec<Gf>>)], syndrome: &[Gf], size: usize) -> bool {
        for (i, (column, block)) in columns.iter().enumerate() {
            if self.found.len() >= 2 {
                return true;
            }
            let later = &columns[i + 1..];
            let reduced =
                if size == 1 { 1 } else { 1 + later.iter().map(|(_, block)| block.len()).sum::<usize>() };
            // Single vectors are compared up to the first difference, which comes early.
            let products = if size == 1 && block.len() == 1 { 1 } else { block.len() * syndrome.len() };
            let Some(left) = self.products_left.checked_sub((reduced * products) as u64) else {
                return false;
            };
            *self.products_left = left;
            self.chosen.push(*column);
            let mut is_whole = true;
            if size == 1 {
                if spans(block, syndrome) {
                    self.found.push(self.chosen.clone());
                }
            } else {
                let pivots = echelon(block);
                let mut rest = syndrome.to_vec();
                reduce(&pivots, &mut rest);
                // If the rest is zero, fewer columns explain the syndrome; that size was searched
                // before.
                if rest.iter().any(|x| !x.is_zero()) {
                    let later: Vec<(usize, Vec<Vec<Gf>>)> = later
                        .iter()
                        .map(|(column, block)| {
                            let reduced = block.iter().map(|v| {
                                let mut v = v.clone();
                                reduce(&pivots, &mut v);
                                v
                            });
                            (*column, reduced.collect())
                        })
                        .collect();
                    is_whole = self.sets_that_explain(&later, &rest, size - 1);
                }
            }
            self.chosen.pop();
            if !is_whole {
                return false;
            }
        }
        true
    }
}

fn echelon(vectors: &[Vec<Gf>]) -> Vec<(usize, Vec<Gf>)> {
    let mut pivots: Vec<(usize, Vec<Gf>)> = Vec::with_capacity(vectors.len());
    for vector in vectors {
        let mut rest = vector.clone();
        reduce(&pivots, &mut rest);
        if let Some(place) = rest.iter().position(|x| !x.is_zero()) {
            let scale = Gf::ONE / rest[place];
            rest.iter_mut().for_each(|x| *x *= scale);
            pivots.push((place, rest));
        }
    }
    pivots
}

fn reduce(pivots: &[(usize, Vec<Gf>)], vector: &mut [Gf]) {
    for (place, pivot) in pivots {
        let factor = vector[*place];
        if !factor.is_zero() {
            vector.iter_mut().zip(pivot).for_each(|(x, &y)| *x += factor * y);
        }
    }
}

fn spans(vectors: &[Vec<Gf>], target: &[Gf]) -> bool {
    if let [vector] = vectors {
        // One row per column, the usual case: is the target a multiple of the vector?
        let Some(place) = vector.iter().position(|x| !x.is_zero()) else { return false };
        let factor = target[place] / vector[place];
        return !factor.is_zero() && vector.iter().zip(target).all(|(&v, &t)| factor * v == t);
    }
    let mut rest = target.to_vec();
    reduce(&echelon(vectors), &mut rest);
    rest.iter().all(|x| x.is_zero())
}
