//! Recovery along the code's own sparse equations: each lost cell from one equation whose other
//! cells are available.
//!
//! This is how array codes are meant to be decoded (D-Code's zig-zag: n - 3 additions per lost
//! element), and it makes plans for hundreds of cells cheap to find. Three pieces:
//!
//! * [`peel`]: Knuth's generalisation of Dijkstra's algorithm to equations. The label of a cell is
//!   the cheapest sum of reads that yields it, where a read that is shared counts each time;
//!   available cells are free. Wanted cells are taken one after another, so later ones share the
//!   reads of earlier ones.
//! * When no single equation has exactly one lost cell, two are added so that one lost cell remains
//!   (EVENODD's adjuster). When no two equations do, the caller supplies a combination from
//!   [`crate::dual`].
//! * [`choose`]: if every wanted cell has equations that need no other lost cell, chooses among
//!   these, by branch and bound, so that the union of the reads costs least (the hybrid recovery of
//!   RDP, X-Code and D-Code).
//!
//! The cost of the result is an upper bound on the least cost; it is not proven to be the least.

use crate::{CellSet, Combination, Step};
use pantile_code::{CellIndex, Code, Equation};
use pantile_gf::Gf;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A partial recovery: the cells read and computed so far.
#[derive(Clone)]
pub(crate) struct Progress<'c> {
    code: &'c Code,
    price: &'c [u64],
    /// For each cell, the equations that contain it.
    touching: &'c [Vec<u32>],
    pub(crate) lost: &'c CellSet,
    /// Lost cells computed so far.
    pub(crate) made: CellSet,
    /// Survivors read so far.
    pub(crate) read: CellSet,
    pub(crate) steps: Vec<Step>,
}

const UNREACHED: u64 = u64::MAX;

impl<'c> Progress<'c> {
    pub(crate) fn new(
        code: &'c Code,
        touching: &'c [Vec<u32>],
        lost: &'c CellSet,
        price: &'c [u64],
        read: CellSet,
    ) -> Progress<'c> {
        Progress { code, price, touching, lost, made: CellSet::empty(code), read, steps: Vec::new() }
    }

    /// Adds a step, and the reads of the survivors in its terms.
    ///
    /// Every term must be a survivor or a lost cell that an earlier step computed.
    pub(crate) fn take(&mut self, target: CellIndex, terms: Combination) {
        for &(cell, _) in &terms {
            if !self.lost.contains(cell) {
                self.read.insert(cell);
            }
        }
        self.made.insert(target);
        self.steps.push(Step { target, terms });
    }

    /// Computes as many of the wanted cells as single equations allow, the cheapest first. Returns
    /// the rest.
    pub(crate) fn peel(&mut self, wanted: &[CellIndex]) -> Vec<CellIndex> {
        let mut rest: Vec<CellIndex> = wanted.iter().copied().filter(|&w| !self.made.contains(w)).collect();
        if rest.is_empty() {
            return rest;
        }
        self.steps.reserve(rest.len());
        let mut labels = Labels::new(self, &rest);
        let mut stack = Vec::with_capacity(8);
        while !rest.is_empty() {
            let Some(cost) = labels.spread(self) else { break };
            let Some(&cell) = rest.iter().find(|&&cell| labels.label(cell) == Some(cost)) else { break };
            let before = self.steps.len();
            self.follow(&labels, cell, &mut stack);
            for step in &self.steps[before..] {
                step.terms.iter().for_each(|term| labels.have(term.0, self.touching));
                labels.have(step.target, self.touching);
            }
            labels.forget_spent();
            match self.steps.len() - before {
                1 => rest.retain(|&w| w != cell),
                _ => rest.retain(|&w| !self.made.contains(w)),
            }
        }
        rest
    }

    /// Computes these cells, each by an equation in which only this cell is still missing. Returns
    /// true if that yields all of them. `lacking` has, for each equation, the number of these cells
    /// in it.
    ///
    /// For losses of as many cells as there are equations: every survivor is read and each equation
    /// used once, so the order does not change the number of terms.
    ///
    /// Returns `false` if some cells are left; the steps and `lacking` are then invalid. Cost: some
    /// nanoseconds per term.
    pub(crate) fn peel_all(&mut self, missing: &[CellIndex], lacking: &mut [u32]) -> bool {
        self.steps.reserve(missing.len());
        // Each chain is followed to its end before the next one starts, which keeps the printed
        // plan readable.
        let mut next: Vec<u32> = Vec::with_capacity(lacking.len());
        next.extend((0..lacking.len() as u32).rev().filter(|&e| lacking[e as usize] == 1));
        while let Some(e) = next.pop() {
            // The cell was computed by another equation meanwhile.
            if lacking[e as usize] == 0 {
                continue;
            }
            let open = |cell| self.lost.contains(cell) && !self.made.contains(cell);
            let equation = &self.code.equations()[e as usize];
            let Some(&(cell, _)) = equation.terms().iter().find(|term| open(term.0)) else { continue };
            self.take(cell, others(equation, cell));
            for &e in &self.touching[cell.usize()] {
                lacking[e as usize] -= 1;
                if lacking[e as usize] == 1 {
                    next.push(e);
                }
            }
        }
        self.steps.len() == missing.len()
    }

    /// Adds the steps that compute a labelled cell. `stack` is empty before and after.
    fn follow(&mut self, labels: &Labels, cell: CellIndex, stack: &mut Vec<(CellIndex, bool)>) {
        // Depth-first along the producers; the other cells of a cell's producer were labelled
        // before it.
        stack.push((cell, false));
        while let Some((cell, ready)) = stack.pop() {
            if !self.lost.contains(cell) || self.made.contains(cell) {
                continue;
            }
            let equation = &self.code.equations()[labels.cells[cell.usize()].producer as usize];
            if !ready {
                let before = stack.len();
                stack.push((cell, true));
                let open = |cell| self.lost.contains(cell) && !self.made.contains(cell);
                let others = equation.terms().iter().filter(|t| t.0 != cell);
                stack.extend(others.filter(|t| open(t.0)).map(|t| (t.0, false)));
                if stack.len() > before + 1 {
                    continue;
                }
                stack.pop();
            }
            self.take(cell, others(equation, cell));
        }
    }

    /// The number of terms in the steps so far.
    pub(crate) fn terms(&self) -> usize {
        self.steps.iter().map(|step| step.terms.len()).sum()
    }

    /// The cost of the reads so far.
    pub(crate) fn cost(&self) -> u64 {
        self.read.iter().map(|cell| self.price[cell.usize()]).sum()
    }
}

/// Returns a cell as the sum of the other cells of an equation.
fn others(equation: &Equation, cell: CellIndex) -> Combination {
    let mut own = Gf::ONE;
    let mut terms = Vec::with_capacity(equation.terms().len());
    for &term in equation.terms() {
        if term.0 == cell { own = term.1 } else { terms.push(term) }
    }
    if own != Gf::ONE {
        let scale = Gf::ONE / own;
        terms.iter_mut().for_each(|term| term.1 *= scale);
    }
    terms
}

/// The unknown cells and the cost of an equation while cells are labelled.
#[derive(Clone, Copy)]
struct Open {
    unknowns: u32,
    /// XOR of the indices of the unknown cells: the index of the last one when one is left.
    unknown: u32,
    /// Sum of the costs of the known cells.
    sum: u64,
}

impl Open {
    /// Shared cells count as often as they are used, so labels can double with each step of a
    /// chain. A saturated label stays below [`UNREACHED`].
    fn add(&mut self, cost: u64) {
        self.sum = self.sum.saturating_add(cost).min(UNREACHED - 1);
    }

    fn know(&mut self, cell: CellIndex) {
        self.unknowns -= 1;
        self.unknown ^= cell.0;
    }
}

/// The costs of a cell while cells are labelled.
#[derive(Clone, Copy)]
struct Labelled {
    /// 0 for an available cell, the price for another survivor, [`UNREACHED`] for a lost one.
    cost: u64,
    /// Cost of the cell if it was reached in this round.
    label: u64,
    round: u32,
    /// The equation that yields the cell in this round.
    producer: u32,
}

/// An equation with its open cells: those not available (`at_hand`), and those that the round has
/// not reached either (`reached`).
#[derive(Clone, Copy)]
struct Left {
    at_hand: Open,
    reached: Open,
    round: u32,
}

/// The cheapest path to each cell, up to the cost of the cheapest wanted cell. The costs are
/// updated as cells become available, and each round starts from them.
struct Labels {
    cells: Vec<Labelled>,
    equations: Vec<Left>,
    /// The equations in which exactly one cell is not available.
    at_once: Vec<u32>,
    wanted: CellSet,
    heap: BinaryHeap<Reverse<(u64, usize, u32, u32)>>,
    round: u32,
}

impl Labels {
    fn new(progress: &Progress<'_>, wanted: &[CellIndex]) -> Labels {
        let priced = |&cost: &u64| Labelled { cost, label: 0, round: 0, producer: 0 };
        let mut cells: Vec<Labelled> = progress.price.iter().map(priced).collect();
        progress.lost.iter().for_each(|cell| cells[cell.usize()].cost = UNREACHED);
        progress.read.iter().chain(progress.made.iter()).for_each(|cell| cells[cell.usize()].cost = 0);
        let open = |equation: &Equation| {
            let mut open = Open { unknowns: 0, unknown: 0, sum: 0 };
            for &(cell, _) in equation.terms() {
                match cells[cell.usize()].cost {
                    UNREACHED => {
                        open.unknowns += 1;
                        open.unknown ^= cell.0;
                    }
                    price => open.add(price),
                }
            }
            Left { at_hand: open, reached: open, round: 0 }
        };
        let equations: Vec<Left> = progress.code.equations().iter().map(open).collect();
        let mut at_once = Vec::with_capacity(equations.len());
        at_once.extend((0..).zip(&equations).filter(|(_, left)| left.at_hand.unknowns == 1).map(|(e, _)| e));
        let heap = BinaryHeap::with_capacity(equations.len());
        Labels { cells, equations, at_once, wanted: CellSet::of_cells(progress.code, wanted), heap, round: 0 }
    }

    /// Records that a cell was read or computed.
    fn have(&mut self, cell: CellIndex, touching: &[Vec<u32>]) {
        let before = std::mem::take(&mut self.cells[cell.usize()].cost);
        if before == 0 {
            return;
        }
        for &e in &touching[cell.usize()] {
            let equation = &mut self.equations[e as usize].at_hand;
            if before != UNREACHED {
                equation.sum -= before;
                continue;
            }
            equation.know(cell);
            if equation.unknowns == 1 {
                self.at_once.push(e);
            }
        }
    }

    /// Removes from `at_once` the equations whose cells are all available.
    fn forget_spent(&mut self) {
        self.at_once.retain(|&e| self.equations[e as usize].at_hand.unknowns == 1);
    }

    /// Returns the cost of a cell that must be computed, if it was reached in this round.
    fn label(&self, cell: CellIndex) -> Option<u64> {
        let cell = &self.cells[cell.usize()];
        (cell.round == self.round).then_some(cell.label)
    }

    /// Labels cells again, cheapest first, as long as they cost at most what the cheapest wanted
    /// cell does. Returns that cost.
    fn spread(&mut self, progress: &Progress<'_>) -> Option<u64> {
        let Labels { cells, equations, at_once, wanted, heap, round } = self;
        *round += 1;
        // Among equal costs the shorter equation comes first, then the one with the lower index.
        let offer = |e: u32, open: &Open| {
            Reverse((open.sum, progress.code.equations()[e as usize].terms().len(), e, open.unknown))
        };
        heap.clear();
        heap.extend(at_once.iter().map(|&e| offer(e, &equations[e as usize].at_hand)));
        let mut cheapest = None;
        while let Some(Reverse((sum, _, equation, target))) = heap.pop() {
            if cheapest.is_some_and(|cheapest| sum > cheapest) {
                break;
            }
            let target = CellIndex(target);
            let cell = &mut cells[target.usize()];
            if cell.round == *round {
                continue;
            }
            (cell.label, cell.round, cell.producer) = (sum, *round, equation);
            if wanted.contains(target) {
                cheapest = Some(sum);
            }
            for &next in &progress.touching[target.usize()] {
                let left = &mut equations[next as usize];
                if left.round != *round {
                    (left.reached, left.round) = (left.at_hand, *round);
                }
                left.reached.know(target);
                left.reached.add(sum);
                // A cell that costs more than a wanted cell already found is not pushed: it would
                // never be popped.
                if left.reached.unknowns == 1 && cheapest.is_none_or(|cheapest| left.reached.sum <= cheapest)
                {
                    heap.push(offer(next, &left.reached));
                }
            }
        }
        cheapest
    }
}

/// For each wanted cell, the equations that contain no other lost cell: single ones, and sums of
/// two that share lost cells. `None` if a wanted cell has no such equation.
pub(crate) fn recipes(
    code: &Code,
    touching: &[Vec<u32>],
    lost: &CellSet,
    wanted: &[CellIndex],
) -> Option<Vec<Vec<Combination>>> {
    let equations = code.equations();
    let lost_terms = |e: u32| equations[e as usize].terms().iter().filter(|t| lost.contains(t.0));
    let mut all = Vec::with_capacity(wanted.len());
    for &cell in wanted {
        let mut found: Vec<Combination> = Vec::new();
        for &e in &touching[cell.usize()] {
            let others: Vec<CellIndex> = lost_terms(e).map(|t| t.0).filter(|&c| c != cell).collect();
            if others.is_empty() {
                found.push(solved(equations[e as usize].terms(), cell));
                continue;
            }
            // A second equation that cancels the other lost cells and adds no new lost cell.
            for &f in &touching[others[0].usize()] {
                if f == e {
                    continue;
                }
                let factor = equations[e as usize].coefficient(others[0])
                    / equations[f as usize].coefficient(others[0]);
                let sum = combine(equations[e as usize].terms(), equations[f as usize].terms(), factor);
                let mut left = sum.iter().filter(|t| lost.contains(t.0));
                if left.next().is_some_and(|t| t.0 == cell) && left.next().is_none() {
                    found.push(solved(&sum, cell));
                }
            }
        }
        if found.is_empty() {
            return None;
        }
        found.sort_by_key(Vec::len);
        all.push(found);
    }
    Some(all)
}

/// Returns a + factor * b; both are ascending by cell.
fn combine(a: &[(CellIndex, Gf)], b: &[(CellIndex, Gf)], factor: Gf) -> Combination {
    let (mut i, mut j) = (0, 0);
    let mut sum = Vec::with_capacity(a.len() + b.len());
    while i < a.len() || j < b.len() {
        let order = match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) => x.0.cmp(&y.0),
            (Some(_), None) => std::cmp::Ordering::Less,
            _ => std::cmp::Ordering::Greater,
        };
        match order {
            std::cmp::Ordering::Less => {
                sum.push(a[i]);
                i += 1;
            }
            std::cmp::Ordering::Greater => {
                sum.push((b[j].0, b[j].1 * factor));
                j += 1;
            }
            std::cmp::Ordering::Equal => {
                let value = a[i].1 + b[j].1 * factor;
                if !value.is_zero() {
                    sum.push((a[i].0, value));
                }
                (i, j) = (i + 1, j + 1);
            }
        }
    }
    sum
}

/// Solves the equation for `cell`, and returns the terms of the other cells.
fn solved(terms: &[(CellIndex, Gf)], cell: CellIndex) -> Combination {
    let scale = terms.iter().find(|t| t.0 == cell).map_or(Gf::ONE, |t| Gf::ONE / t.1);
    terms.iter().filter(|t| t.0 != cell).map(|t| (t.0, t.1 * scale)).collect()
}

/// Chooses one recipe per wanted cell so that the union of the reads costs least, within `nodes`
/// steps of search.
///
/// Returns the index of the recipe for each wanted cell. Cells in `read` are free.
pub(crate) fn choose(
    code: &Code,
    recipes: &[Vec<Combination>],
    price: &[u64],
    read: &CellSet,
    nodes: usize,
) -> Vec<usize> {
    let words = code.cell_count().div_ceil(64);
    let mask = |terms: &Combination| {
        let mut bits = vec![0u64; words];
        terms.iter().for_each(|t| bits[t.0.usize() / 64] |= 1 << (t.0.usize() % 64));
        bits
    };
    let options: Vec<Vec<Vec<u64>>> = recipes.iter().map(|r| r.iter().map(mask).collect()).collect();
    let mut order: Vec<usize> = (0..recipes.len()).collect();
    order.sort_by_key(|&i| options[i].len());
    let mut start = vec![0u64; words];
    read.iter().for_each(|cell| start[cell.usize() / 64] |= 1 << (cell.usize() % 64));
    let mut search = Choice {
        options: &options,
        order: &order,
        price,
        nodes,
        best: UNREACHED,
        pick: vec![0; order.len()],
    };
    let mut picked = vec![0usize; order.len()];
    search.visit(0, &start, 0, &mut picked);
    search.improve(&start);
    search.pick
}

struct Choice<'a> {
    options: &'a [Vec<Vec<u64>>],
    order: &'a [usize],
    price: &'a [u64],
    nodes: usize,
    best: u64,
    pick: Vec<usize>,
}

impl Choice<'_> {
    fn extra(&self, have: &[u64], option: &[u64]) -> u64 {
        let mut sum = 0;
        for (i, (&h, &o)) in have.iter().zip(option).enumerate() {
            let mut word = o & !h;
            while word != 0 {
                sum += self.price[i * 64 + word.trailing_zeros() as usize];
                word &= word - 1;
            }
        }
        sum
    }

    fn visit(&mut self, depth: usize, have: &[u64], cost: u64, picked: &mut Vec<usize>) {
        if cost >= self.best {
            return;
        }
        if depth == self.order.len() {
            self.best = cost;
            self.pick.clone_from(picked);
            return;
        }
        // The descent to the first leaf is always completed; after that the budget limits the
        // search.
        if self.best != UNREACHED {
            if self.nodes == 0 {
                return;
            }
            self.nodes -= 1;
        }
        let cell = self.order[depth];
        let mut ranked: Vec<(u64, usize)> =
            self.options[cell].iter().enumerate().map(|(i, o)| (self.extra(have, o), i)).collect();
        ranked.sort_unstable();
        for (extra, i) in ranked {
            if cost + extra >= self.best {
                break;
            }
            let next: Vec<u64> = have.iter().zip(&self.options[cell][i]).map(|(&h, &o)| h | o).collect();
            picked[cell] = i;
            self.visit(depth + 1, &next, cost + extra, picked);
        }
    }

    /// Threshold accepting, to improve the result of a search that was cut short. One or two
    /// choices are changed at random, and a higher cost is accepted up to a threshold that falls to
    /// zero. The seed is fixed: same request, same plan.
    fn improve(&mut self, start: &[u64]) {
        let open: Vec<usize> = (0..self.options.len()).filter(|&cell| self.options[cell].len() > 1).collect();
        if self.nodes > 0 || open.is_empty() {
            return;
        }
        const STARTS: u64 = 32;
        const MOVES: u64 = 768;
        let dearest = self.price.iter().copied().max().unwrap_or(1);
        let mut state = 1u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        let mut tally = Tally::new(self, start);
        for _ in 0..STARTS {
            for &cell in &open {
                tally.pick(cell, random(self.options[cell].len()));
            }
            let mut cost = tally.cost;
            for step in 0..MOVES {
                let threshold = 2 * dearest * (MOVES - step) / MOVES;
                let (a, b) = (open[random(open.len())], open[random(open.len())]);
                let before = (tally.picked[a], tally.picked[b]);
                if random(2) == 0 {
                    let count = self.options[b].len();
                    tally.pick(b, (tally.picked[b] + 1 + random(count - 1)) % count);
                }
                let count = self.options[a].len();
                tally.pick(a, (tally.picked[a] + 1 + random(count - 1)) % count);
                if tally.cost <= cost + threshold {
                    cost = tally.cost;
                    if cost < self.best {
                        (self.best, self.pick) = (cost, tally.picked.clone());
                    }
                } else {
                    tally.pick(a, before.0);
                    tally.pick(b, before.1);
                }
            }
        }
    }
}

/// The cost of a choice, updated as single picks change.
struct Tally<'a> {
    /// For each wanted cell and option the cells that it reads and that are not free.
    cells: Vec<Vec<Vec<u32>>>,
    price: &'a [u64],
    picked: Vec<usize>,
    /// Number of picks that read each cell.
    uses: Vec<u32>,
    cost: u64,
}

impl<'a> Tally<'a> {
    fn new(choice: &Choice<'a>, start: &[u64]) -> Tally<'a> {
        let cells = |option: &Vec<u64>| -> Vec<u32> {
            let open: Vec<u64> = option.iter().zip(start).map(|(&o, &s)| o & !s).collect();
            let in_word = |(i, &word): (usize, &u64)| {
                (0..64u32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| i as u32 * 64 + bit)
            };
            open.iter().enumerate().flat_map(in_word).collect()
        };
        let cells: Vec<Vec<Vec<u32>>> =
            choice.options.iter().map(|o| o.iter().map(cells).collect()).collect();
        let mut tally = Tally {
            price: choice.price,
            picked: choice.pick.clone(),
            uses: vec![0; choice.price.len()],
            cost: 0,
            cells,
        };
        for cell in 0..tally.cells.len() {
            tally.add(cell);
        }
        tally
    }

    fn add(&mut self, cell: usize) {
        for &read in &self.cells[cell][self.picked[cell]] {
            let uses = &mut self.uses[read as usize];
            *uses += 1;
            self.cost += if *uses == 1 { self.price[read as usize] } else { 0 };
        }
    }

    fn pick(&mut self, cell: usize, option: usize) {
        for &read in &self.cells[cell][self.picked[cell]] {
            let uses = &mut self.uses[read as usize];
            *uses -= 1;
            self.cost -= if *uses == 0 { self.price[read as usize] } else { 0 };
        }
        self.picked[cell] = option;
        self.add(cell);
    }
}
