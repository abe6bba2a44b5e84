//! The space of all equations that hold on a stripe, narrowed to those that a repair can use, and
//! the exact search in that space.
//!
//! The equations of a code span the dual code. A cell w can be computed from a set R of cells
//! exactly when some equation has a non-zero coefficient at w and all its other cells in R. So a
//! repair is a choice, for each wanted lost cell, of one equation that is 1 there and 0 on every
//! other lost cell; its reads are the union of their supports. All choices differ by equations that
//! vanish on every lost cell. [`Space`] keeps one representative per wanted cell and a basis of
//! that difference, and [`search`] walks it: exclude a cell (which uses up one basis equation) or
//! pay for it, until no free row is left. Each node is itself a valid repair, so the search can
//! stop at any time with its best; if it runs to the end, no other repair is cheaper.
//!
//! A wanted cell that is not lost may be read or computed. It enters as a copy of itself that is
//! lost, with the equation copy + cell = 0 added; reading the cell is then one choice among the
//! others.
//!
//! The search only asks which sets of cells span which cells (a matroid). For codes whose
//! coefficients are all 1 that answer is the same over bits as over GF(2^8), so the search runs on
//! bits.

use crate::Combination;
use pantile_code::{CellIndex, Code, Equation};
use pantile_gf::Gf;

/// One machine word of a row: 64 binary coefficients, or one of GF(2^8).
pub(crate) trait Word: Copy + Default + 'static {
    const CELLS: usize;
    fn coefficient(row: &[Self], cell: usize) -> Gf;
    fn set(row: &mut [Self], cell: usize, value: Gf);
    /// target += factor * source.
    fn add_scaled(target: &mut [Self], source: &[Self], factor: Gf);
    fn scale(row: &mut [Self], factor: Gf);
    fn weight(row: &[Self]) -> usize;
    /// Sets the bits of the row's non-zero cells in `support`.
    fn add_support(row: &[Self], support: &mut [u64]);
}

impl Word for u64 {
    const CELLS: usize = 64;
    fn coefficient(row: &[u64], cell: usize) -> Gf {
        Gf((row[cell / 64] >> (cell % 64) & 1) as u8)
    }
    fn set(row: &mut [u64], cell: usize, value: Gf) {
        debug_assert!(value == Gf::ONE);
        row[cell / 64] |= 1 << (cell % 64);
    }
    fn add_scaled(target: &mut [u64], source: &[u64], factor: Gf) {
        debug_assert!(factor == Gf::ONE);
        target.iter_mut().zip(source).for_each(|(x, &y)| *x ^= y);
    }
    fn scale(_: &mut [u64], factor: Gf) {
        debug_assert!(factor == Gf::ONE);
    }
    fn weight(row: &[u64]) -> usize {
        row.iter().map(|w| w.count_ones() as usize).sum()
    }
    fn add_support(row: &[u64], support: &mut [u64]) {
        support.iter_mut().zip(row).for_each(|(s, &w)| *s |= w);
    }
}

impl Word for Gf {
    const CELLS: usize = 1;
    fn coefficient(row: &[Gf], cell: usize) -> Gf {
        row[cell]
    }
    fn set(row: &mut [Gf], cell: usize, value: Gf) {
        row[cell] = value;
    }
    fn add_scaled(target: &mut [Gf], source: &[Gf], factor: Gf) {
        for (x, &y) in target.iter_mut().zip(source) {
            if !y.is_zero() {
                *x += factor * y;
            }
        }
    }
    fn scale(row: &mut [Gf], factor: Gf) {
        row.iter_mut().for_each(|x| *x *= factor);
    }
    fn weight(row: &[Gf]) -> usize {
        row.iter().filter(|x| !x.is_zero()).count()
    }
    fn add_support(row: &[Gf], support: &mut [u64]) {
        for (cell, x) in row.iter().enumerate() {
            support[cell / 64] |= u64::from(!x.is_zero()) << (cell % 64);
        }
    }
}

/// One equation per wanted cell, and a basis of their differences.
#[derive(Clone)]
pub(crate) struct Space<W> {
    cells: usize,
    /// Words per row.
    stride: usize,
    /// The wanted cells, one row each, before the free rows.
    wanted: Vec<usize>,
    rows: Vec<W>,
}

impl<W: Word> Space<W> {
    /// Narrows the equations of the code to those that are zero on every lost cell, except for one
    /// wanted cell each.
    ///
    /// `copied` are wanted cells that are not lost. The i-th gets a wanted copy with the index
    /// `code.cell_count() + i`. Errors: the wanted cells that no equation yields, and the number of
    /// lost cells that the equations determine.
    pub(crate) fn new(
        code: &Code,
        lost: &[CellIndex],
        wanted: &[CellIndex],
        copied: &[CellIndex],
    ) -> Result<Space<W>, (Vec<CellIndex>, usize)> {
        let equations: Vec<&Equation> = code.equations().iter().collect();
        Space::over(code, &equations, lost, wanted, copied)
    }

    /// [`Space::new`] over a part of the equations.
    pub(crate) fn over(
        code: &Code,
        equations: &[&Equation],
        lost: &[CellIndex],
        wanted: &[CellIndex],
        copied: &[CellIndex],
    ) -> Result<Space<W>, (Vec<CellIndex>, usize)> {
        let cells = code.cell_count() + copied.len();
        let stride = cells.div_ceil(W::CELLS);
        let mut rows = vec![W::default(); stride * (equations.len() + copied.len())];
        for (row, equation) in rows.chunks_exact_mut(stride).zip(equations) {
            equation.terms().iter().for_each(|&(cell, c)| W::set(row, cell.usize(), c));
        }
        let copies = (code.cell_count()..cells).zip(copied);
        for (row, (copy, cell)) in rows.chunks_exact_mut(stride).skip(equations.len()).zip(copies) {
            W::set(row, copy, Gf::ONE);
            W::set(row, cell.usize(), Gf::ONE);
        }
        let mut space = Space { cells, stride, wanted: Vec::new(), rows };
        let mut unwanted: Vec<usize> =
            lost.iter().filter(|cell| !wanted.contains(cell)).map(|cell| cell.usize()).collect();
        unwanted.sort_unstable();
        let mut rank = 0;
        for &cell in &unwanted {
            rank += usize::from(space.exclude(cell));
        }
        let mut missing = Vec::new();
        for cell in wanted.iter().map(|cell| cell.usize()).chain(code.cell_count()..cells) {
            match space.pivot(cell) {
                Some(row) => {
                    space.swap(row, space.wanted.len());
                    space.wanted.push(cell);
                    rank += 1;
                }
                None => missing.push(CellIndex(cell as u32)),
            }
        }
        if !missing.is_empty() {
            // A wanted cell that got a row may still share it with one that got none.
            let shares = |row: &[W]| missing.iter().any(|m| !W::coefficient(row, m.usize()).is_zero());
            let more: Vec<CellIndex> = (0..space.wanted.len())
                .filter(|&i| shares(space.row(i)))
                .map(|i| CellIndex(space.wanted[i] as u32))
                .collect();
            missing.extend(more);
            missing.sort_unstable();
            return Err((missing, rank));
        }
        Ok(space)
    }

    /// Returns the number of independent combinations of `wanted` that can be computed while
    /// `wanted` and `unwanted` are lost.
    pub(crate) fn determined(code: &Code, unwanted: &[CellIndex], wanted: &[CellIndex]) -> usize {
        match Space::<W>::new(code, unwanted, &[], &[]) {
            Ok(mut space) => wanted.iter().filter(|cell| space.exclude(cell.usize())).count(),
            Err(_) => unreachable!("nothing was wanted"),
        }
    }

    pub(crate) fn row(&self, row: usize) -> &[W] {
        &self.rows[row * self.stride..(row + 1) * self.stride]
    }

    fn count(&self) -> usize {
        self.rows.len() / self.stride.max(1)
    }

    /// The number of free rows: adding them to an equation does not change the cell that it
    /// repairs.
    pub(crate) fn freedom(&self) -> usize {
        self.count() - self.wanted.len()
    }

    fn swap(&mut self, a: usize, b: usize) {
        if a != b {
            let (low, high) = (a.min(b), a.max(b));
            let (left, right) = self.rows.split_at_mut(high * self.stride);
            left[low * self.stride..(low + 1) * self.stride].swap_with_slice(&mut right[..self.stride]);
        }
    }

    /// Makes the cheapest free row with a coefficient at `cell` the only row that has one. Returns
    /// its index.
    fn pivot(&mut self, cell: usize) -> Option<usize> {
        let found = (self.wanted.len()..self.count())
            .filter(|&r| !W::coefficient(self.row(r), cell).is_zero())
            .min_by_key(|&r| W::weight(self.row(r)))?;
        let scale = Gf::ONE / W::coefficient(self.row(found), cell);
        let stride = self.stride;
        if scale != Gf::ONE {
            W::scale(&mut self.rows[found * stride..(found + 1) * stride], scale);
        }
        let source = self.row(found).to_vec();
        for (r, row) in self.rows.chunks_exact_mut(stride).enumerate() {
            let factor = W::coefficient(row, cell);
            if r != found && !factor.is_zero() {
                W::add_scaled(row, &source, factor);
            }
        }
        Some(found)
    }

    /// Eliminates a cell from all rows, which uses up one free row. Returns `false`, and changes
    /// nothing, if no free row has the cell.
    fn exclude(&mut self, cell: usize) -> bool {
        let Some(found) = self.pivot(cell) else { return false };
        let last = self.count() - 1;
        self.swap(found, last);
        self.rows.truncate(last * self.stride);
        true
    }

    fn support(&self, rows: std::ops::Range<usize>) -> Vec<u64> {
        let mut support = vec![0u64; self.cells.div_ceil(64)];
        rows.for_each(|r| W::add_support(self.row(r), &mut support));
        self.wanted.iter().for_each(|&w| support[w / 64] &= !(1 << (w % 64)));
        support
    }

    /// The combination for each wanted cell: target and terms. The target of a copy is its index as
    /// [`Space::new`] defines it.
    pub(crate) fn combinations(&self) -> Vec<(CellIndex, Combination)> {
        (0..self.wanted.len()).map(|i| self.combination(i)).collect()
    }

    /// The combination with the fewest terms; among equals, that of the first cell.
    pub(crate) fn shortest(&self) -> Option<(CellIndex, Combination)> {
        let shortest = (0..self.wanted.len()).min_by_key(|&i| (W::weight(self.row(i)), self.wanted[i]))?;
        Some(self.combination(shortest))
    }

    fn combination(&self, i: usize) -> (CellIndex, Combination) {
        let (wanted, row) = (self.wanted[i], self.row(i));
        let terms = (0..self.cells)
            .filter(|&cell| cell != wanted)
            .map(|cell| (CellIndex(cell as u32), W::coefficient(row, cell)))
            .filter(|(_, c)| !c.is_zero())
            .collect();
        (CellIndex(wanted as u32), terms)
    }
}

/// Result of the search.
pub(crate) struct DualSearch<W> {
    /// The cheapest repair below the given limit, if there is one.
    pub(crate) best: Option<Space<W>>,
    /// True if the whole space was searched, so that no repair is cheaper than `best` (or than the
    /// given limit).
    pub(crate) complete: bool,
    /// A lower bound on the cost of every repair: the cost of the cells that no choice avoids.
    pub(crate) forced: u64,
}

/// Looks for a repair that costs less than `limit`, visiting at most `nodes` choices.
///
/// `price` is the cost of each cell; cells that are read anyway have price 0.
pub(crate) fn search<W: Word>(space: Space<W>, price: &[u64], limit: u64, nodes: usize) -> DualSearch<W> {
    let words = space.cells.div_ceil(64);
    let root = space.support(0..space.wanted.len());
    let free = space.support(space.wanted.len()..space.count());
    let forced = weigh(root.iter().zip(&free).map(|(&a, &b)| a & !b), price);
    let mut walk = Walk { price, limit, best: None, nodes_left: nodes };
    let complete = walk.visit(space, &mut vec![0u64; words], 0);
    DualSearch { best: walk.best, complete, forced }
}

fn weigh(words: impl Iterator<Item = u64>, price: &[u64]) -> u64 {
    let mut sum = 0;
    for (i, mut word) in words.enumerate() {
        while word != 0 {
            sum += price[i * 64 + word.trailing_zeros() as usize];
            word &= word - 1;
        }
    }
    sum
}

struct Walk<'p, W> {
    price: &'p [u64],
    limit: u64,
    best: Option<Space<W>>,
    nodes_left: usize,
}

impl<W: Word> Walk<'_, W> {
    /// Visits all choices below this one. Returns `false` if `nodes` is used up.
    ///
    /// `paid` are the cells that this branch has decided to read, at `cost`; neither they nor cells
    /// of price 0 are branched on again.
    fn visit(&mut self, space: Space<W>, paid: &mut Vec<u64>, mut cost: u64) -> bool {
        let mut bought = Vec::new();
        let result = loop {
            if self.nodes_left == 0 {
                break false;
            }
            self.nodes_left -= 1;
            let used = space.support(0..space.wanted.len());
            let total = weigh(used.iter().copied(), self.price);
            if total < self.limit {
                self.limit = total;
                self.best = Some(space.clone());
            }
            let free = space.support(space.wanted.len()..space.count());
            let open: Vec<u64> =
                used.iter().zip(&free).zip(paid.iter()).map(|((&u, &f), &p)| u & f & !p).collect();
            let forced = used.iter().zip(&free).zip(paid.iter()).map(|((&u, &f), &p)| u & !f & !p);
            if cost + weigh(forced, self.price) >= self.limit {
                break true;
            }
            let dearest =
                bits(&open).filter(|&c| self.price[c] > 0).max_by_key(|&c| (self.price[c], usize::MAX - c));
            let Some(cell) = dearest else { break true };
            let mut without = space.clone();
            without.exclude(cell);
            if !self.visit(without, paid, cost) {
                break false;
            }
            paid[cell / 64] |= 1 << (cell % 64);
            bought.push(cell);
            cost += self.price[cell];
        };
        bought.iter().for_each(|&cell| paid[cell / 64] &= !(1 << (cell % 64)));
        result
    }
}

fn bits(words: &[u64]) -> impl Iterator<Item = usize> + '_ {
    words.iter().enumerate().flat_map(|(i, &word)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            (rest != 0).then(|| {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                i * 64 + bit
            })
        })
    })
}
