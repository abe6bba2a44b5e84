//! Recovery in codes of XORs by an elimination over bits: of as many lost cells as there are
//! equations, or of fewer by the first equations.
//!
//! When as many cells are lost as there are equations, each lost cell is exactly one sum of
//! survivors. Only the order of the steps is searched, because a computed cell can replace a part
//! of the next cell's sum. For sparse equations [`crate::chain`] finds that order. In a bit matrix
//! (`crs`) each equation has many lost cells, and most steps need a combination of equations.
//!
//! 1. One elimination gives each lost cell as its sum of survivors.
//! 2. If the shortest of these sums starts a chain of single equations that computes all other lost
//!    cells, that chain is the plan (EVENODD's adjuster).
//! 3. Otherwise the shortest sum is taken repeatedly. Each computed cell gives more sums whose
//!    cells are all available: the sum by which it was computed, its sum of survivors alone, and
//!    each equation of the code in which it was the last missing cell. Such a sum is added to the
//!    sum of a cell that is still to be computed if that leaves fewer terms. An equation with up to
//!    three missing cells also gives a sum for each of these cells, with the other missing cells
//!    replaced by their sums.
//! 4. If single equations compute at least one more cell after each shortest sum, and that plan has
//!    no more terms, it is taken instead.
//!

use crate::chain::Progress;
use crate::{Combination, Step};
use pantile_code::{CellIndex, Code};
use pantile_gf::Gf;

/// The equations of a code of XORs as rows of bits, one for each cell.
#[derive(Clone, Debug)]
pub(crate) struct BitEquations {
    /// Words per row.
    words: usize,
    rows: Vec<u64>,
}

impl BitEquations {
    pub(crate) fn new(code: &Code) -> BitEquations {
        let words = code.cell_count().div_ceil(64).max(1);
        let mut rows = vec![0; words * code.equations().len()];
        for (row, equation) in rows.chunks_exact_mut(words).zip(code.equations()) {
            equation.terms().iter().for_each(|t| row[t.0.usize() / 64] |= 1 << (t.0.usize() % 64));
        }
        BitEquations { words, rows }
    }
}

/// Added to the number of lost cells of an equation that must not be used; no code has as many
/// cells.
pub(crate) const UNUSED: u32 = 1 << 30;

/// Use of single equations after the shortest sum (items 2 and 4 of the module's list).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chains {
    /// Single equations are tried. All equations are used.
    Tried,
    /// Single equations are not tried. In a bit matrix with fewer lost columns than parities,
    /// elimination alone takes 33 to 67 % of the time, for at most 1 % more terms (`orig`: 5 %).
    Untried,
}

/// Computes all lost cells; there are at most as many of them as equations that are used. `fresh`
/// has no step yet. `touching` has, for each cell, its equations. `missing` has, for each equation,
/// the number of its lost cells, plus [`UNUSED`] if the equation must not be used.
///
/// `None` if the equations do not determine the lost cells, or if the code has more than 2048
/// cells.
pub(crate) fn finish<'c>(
    fresh: Progress<'c>,
    equations: &BitEquations,
    touching: &[Vec<u32>],
    missing: Vec<u32>,
    lost: &[CellIndex],
    chains: Chains,
) -> Option<Progress<'c>> {
    match equations.words {
        1 => finish_in::<1>(fresh, equations, touching, missing, lost, chains),
        2 => finish_in::<2>(fresh, equations, touching, missing, lost, chains),
        3 => finish_in::<3>(fresh, equations, touching, missing, lost, chains),
        4 => finish_in::<4>(fresh, equations, touching, missing, lost, chains),
        5..=8 => finish_in::<8>(fresh, equations, touching, missing, lost, chains),
        9..=16 => finish_in::<16>(fresh, equations, touching, missing, lost, chains),
        17..=32 => finish_in::<32>(fresh, equations, touching, missing, lost, chains),
        _ => None,
    }
}

fn finish_in<'c, const W: usize>(
    mut fresh: Progress<'c>,
    equations: &BitEquations,
    touching: &[Vec<u32>],
    missing: Vec<u32>,
    lost: &[CellIndex],
    chains: Chains,
) -> Option<Progress<'c>> {
    let equations: Vec<Row<W>> = equations.rows.chunks_exact(equations.words).map(Row::of).collect();
    let mut used = Vec::with_capacity(equations.len());
    used.extend(
        equations.iter().zip(&missing).filter(|(_, missing)| **missing < UNUSED).map(|(row, _)| *row),
    );
    let sums = eliminate(used, lost, first)?;
    let mut greedy = Greedy::new(&equations, touching, missing, lost, sums);
    let chain = match chains {
        Chains::Tried => along_chains(&fresh, &equations, &greedy),
        Chains::Untried => None,
    };
    if let Some((chain, 1)) = chain {
        return Some(chain);
    }
    let mut sums = Vec::with_capacity(lost.len());
    while let Some(next) = greedy.next() {
        sums.push(next);
    }
    let terms = sums.iter().map(|(_, sum)| sum.weight() as usize - 1).sum();
    if let Some((chain, _)) = chain.filter(|(chain, _)| chain.terms() <= terms) {
        return Some(chain);
    }
    let mut all = Row([0; W]);
    fresh.steps.reserve_exact(sums.len());
    for (target, sum) in sums {
        all.0.iter_mut().zip(&sum.0).for_each(|(x, &y)| *x |= y);
        fresh.steps.push(Step { target, terms: sum.terms(target) });
        fresh.made.insert(target);
    }
    lost.iter().for_each(|&cell| all.remove(cell));
    all.visit(|cell| fresh.read.insert(cell));
    Some(fresh)
}

/// Takes the shortest sum, computes all cells that single equations then yield, takes the shortest
/// of the remaining sums, and so on. Returns the number of sums taken. `greedy` must not have taken
/// a sum yet.
///
/// `None` if no single equation yields a cell after one of the sums.
fn along_chains<'c, const W: usize>(
    fresh: &Progress<'c>,
    equations: &[Row<W>],
    greedy: &Greedy<'_, W>,
) -> Option<(Progress<'c>, usize)> {
    let (mut target, mut sum) = greedy.shortest()?;
    let sets_off = |&e: &u32| greedy.missing[e as usize] == 2;
    if !greedy.touching[target.usize()].iter().any(sets_off) {
        return None;
    }
    let lost: Vec<CellIndex> = greedy.open.iter().map(|open| open.cell).collect();
    let mut chain = fresh.clone();
    let mut count = 0;
    loop {
        count += 1;
        chain.take(target, sum.terms(target));
        let made = chain.steps.len();
        let rest = chain.peel(&lost);
        if rest.is_empty() {
            return Some((chain, count));
        }
        if chain.steps.len() == made {
            return None;
        }
        let sums = eliminate(equations.to_vec(), &rest, shortest)?;
        (target, sum) = rest.iter().copied().zip(sums).min_by_key(|&(cell, sum)| (sum.weight(), cell))?;
    }
}

/// A sum of cells that is zero.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Row<const W: usize>([u64; W]);

impl<const W: usize> Row<W> {
    fn of(words: &[u64]) -> Row<W> {
        let mut row = [0; W];
        row[..words.len()].copy_from_slice(words);
        Row(row)
    }

    #[inline]
    fn has(&self, cell: CellIndex) -> bool {
        self.0[cell.usize() / 64] >> (cell.usize() % 64) & 1 == 1
    }

    #[inline]
    fn insert(&mut self, cell: CellIndex) {
        self.0[cell.usize() / 64] |= 1 << (cell.usize() % 64);
    }

    #[inline]
    fn remove(&mut self, cell: CellIndex) {
        self.0[cell.usize() / 64] &= !(1 << (cell.usize() % 64));
    }

    #[inline]
    fn plus(&self, other: &Row<W>) -> Row<W> {
        let mut sum = self.0;
        sum.iter_mut().zip(&other.0).for_each(|(x, &y)| *x ^= y);
        Row(sum)
    }

    #[inline]
    fn weight(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    fn terms(&self, target: CellIndex) -> Combination {
        let mut terms = Vec::with_capacity(self.weight() as usize);
        self.visit(|cell| {
            if cell != target {
                terms.push((cell, Gf::ONE));
            }
        });
        terms
    }

    #[inline]
    fn and(&self, other: &Row<W>) -> Row<W> {
        let mut both = self.0;
        both.iter_mut().zip(&other.0).for_each(|(x, &y)| *x &= y);
        Row(both)
    }

    #[inline]
    fn visit(&self, mut visitor: impl FnMut(CellIndex)) {
        for (&word, first) in self.0.iter().zip((0..).step_by(64)) {
            let mut rest = word;
            while rest != 0 {
                visitor(CellIndex(first + rest.trailing_zeros()));
                rest &= rest - 1;
            }
        }
    }
}

/// Eliminates the lost cells: returns for each cell of `lost`, in that order, a sum of it and
/// survivors, then the sums of survivors alone. `None` if the equations do not determine the lost
/// cells.
///
/// With more equations than lost cells the sums depend on the choice of pivots. `pick` gets the
/// equations that contain the cell, and returns the index of one of them.
fn eliminate<const W: usize>(
    mut rows: Vec<Row<W>>,
    lost: &[CellIndex],
    pick: impl Fn(&[Row<W>], CellIndex) -> Option<usize>,
) -> Option<Vec<Row<W>>> {
    for (i, &cell) in lost.iter().enumerate() {
        let found = i + pick(rows.get(i..)?, cell)?;
        rows.swap(i, found);
        let pivot = rows[i];
        // A row contains the cell with a chance of about one half: adding a masked row is faster
        // than a branch that is predicted wrongly.
        for row in &mut rows {
            let mask = 0u64.wrapping_sub(row.has(cell).into());
            row.0.iter_mut().zip(&pivot.0).for_each(|(x, &y)| *x ^= y & mask);
        }
        rows[i] = pivot;
    }
    Some(rows)
}

fn first<const W: usize>(rows: &[Row<W>], cell: CellIndex) -> Option<usize> {
    rows.iter().position(|row| row.has(cell))
}

fn shortest<const W: usize>(rows: &[Row<W>], cell: CellIndex) -> Option<usize> {
    (0..rows.len()).filter(|&r| rows[r].has(cell)).min_by_key(|&r| rows[r].weight())
}

/// A lost cell that was not computed yet.
struct Open<const W: usize> {
    cell: CellIndex,
    /// The shortest known sum: it contains the cell, survivors and computed cells.
    sum: Row<W>,
    weight: u32,
    /// The first sum of the cell: it contains the cell and survivors only.
    of_survivors: Row<W>,
    /// True if the sum has changed since all known sums were added to it on trial.
    changed: bool,
    /// The number of steps when `sum` last changed.
    changed_at: usize,
}

impl<const W: usize> Open<W> {
    /// Replaces the sum by this one if it is shorter.
    #[inline]
    fn offer(&mut self, sum: Row<W>, steps: usize) {
        let weight = sum.weight();
        if weight < self.weight {
            (self.sum, self.weight, self.changed, self.changed_at) = (sum, weight, true, steps);
        }
    }
}

/// A repeated choice of the shortest sum.
struct Greedy<'a, const W: usize> {
    equations: &'a [Row<W>],
    touching: &'a [Vec<u32>],
    /// For each equation, the number of its cells that are still to be computed.
    missing: Vec<u32>,
    /// For each equation, the number of steps when it was last tried as a sum; 0 if it was not
    /// tried since one of its cells was computed.
    offered_at: Vec<usize>,
    steps: usize,
    open: Vec<Open<W>>,
    /// The cells in `open`.
    open_cells: Row<W>,
    places: Vec<u32>,
    /// Sums of cells that are all available; from index `tried` on, those of the last step.
    known: Vec<Row<W>>,
    tried: usize,
}

impl<'a, const W: usize> Greedy<'a, W> {
    fn new(
        equations: &'a [Row<W>],
        touching: &'a [Vec<u32>],
        missing: Vec<u32>,
        lost: &[CellIndex],
        sums: Vec<Row<W>>,
    ) -> Greedy<'a, W> {
        let open = |(&cell, sum): (&CellIndex, Row<W>)| Open {
            cell,
            sum,
            weight: sum.weight(),
            of_survivors: sum,
            changed: false,
            changed_at: 0,
        };
        let open: Vec<Open<W>> = lost.iter().zip(sums).map(open).collect();
        let mut open_cells = Row([0; W]);
        let mut places = vec![0; touching.len()];
        for (&cell, place) in lost.iter().zip(0..) {
            open_cells.insert(cell);
            places[cell.usize()] = place;
        }
        let known = Vec::with_capacity(3 * lost.len());
        let offered_at = vec![0; equations.len()];
        Greedy {
            equations,
            touching,
            missing,
            open,
            open_cells,
            places,
            known,
            tried: 0,
            offered_at,
            steps: 0,
        }
    }

    /// Returns the index in `open` of the cell with the shortest sum; among equals, of the first
    /// cell.
    fn place(&self) -> Option<usize> {
        (0..self.open.len()).min_by_key(|&i| (self.open[i].weight, self.open[i].cell))
    }

    /// Returns the cell with the shortest sum, and that sum.
    fn shortest(&self) -> Option<(CellIndex, Row<W>)> {
        self.place().map(|place| (self.open[place].cell, self.open[place].sum))
    }

    /// Takes the shortest sum as the next step, and returns its cell and the sum.
    fn next(&mut self) -> Option<(CellIndex, Row<W>)> {
        let place = self.place()?;
        let Open { cell, sum, of_survivors, .. } = self.open.swap_remove(place);
        self.open_cells.remove(cell);
        if let Some(moved) = self.open.get(place) {
            self.places[moved.cell.usize()] = place as u32;
        }
        self.steps += 1;
        self.tried = self.known.len();
        self.known.push(sum);
        if of_survivors != sum {
            self.known.push(of_survivors);
        }
        for &e in &self.touching[cell.usize()] {
            let equation = self.equations[e as usize];
            let missing = &mut self.missing[e as usize];
            *missing -= 1;
            self.offered_at[e as usize] = 0;
            if *missing == 0 && equation != sum {
                self.known.push(equation);
            }
        }
        self.offer_equations();
        let (old, new) = self.known.split_at(self.tried);
        for open in &mut self.open {
            new.iter().for_each(|known| open.offer(open.sum.plus(known), self.steps));
            if std::mem::take(&mut open.changed) {
                old.iter().for_each(|known| open.offer(open.sum.plus(known), self.steps));
                open.changed = false;
            }
        }
        Some((cell, sum))
    }

    /// Tries equations with at most three cells to compute as sums for each of these cells, with
    /// the other cells replaced by their sums.
    fn offer_equations(&mut self) {
        const FEW: usize = 3;
        for (e, equation) in self.equations.iter().enumerate() {
            if self.missing[e] == 0 || self.missing[e] as usize > FEW {
                continue;
            }
            let (mut left, mut count) = ([0; FEW], 0);
            equation.and(&self.open_cells).visit(|cell| {
                left[count] = self.places[cell.usize()] as usize;
                count += 1;
            });
            let left = &left[..count];
            let offered_at = std::mem::replace(&mut self.offered_at[e], self.steps);
            if left.iter().all(|&i| self.open[i].changed_at < offered_at) {
                continue;
            }
            let all = left.iter().fold(*equation, |sum, &i| sum.plus(&self.open[i].sum));
            for &i in left {
                let open = &mut self.open[i];
                open.offer(all.plus(&open.sum), self.steps);
            }
        }
    }
}
