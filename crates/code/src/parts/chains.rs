//! XOR array codes as lists of chains, and their shortening to any number of columns.
//!
//! A *chain* is a parity cell and its members, of which it is the XOR; a member may be the parity
//! cell of another chain. A construction exists for primes. For another number of columns the next
//! larger one is shortened, which means: keep only the codewords that are zero in some columns, and
//! do not store those columns. Any two lost columns can still be recovered, because the omitted
//! columns are known to be zero.
//!
//! 1. A column with data only is removed from every chain.
//! 2. Then the last column is removed (in H-Code, the last but one). A removed column with parity
//!    leaves a *constraint* for each of its parity cells: the sum of the other members is zero. One
//!    data member of each constraint is *promoted*: it becomes parity, the sum of the rest.
//!
//! The choice of the promoted cells is part of the stored format, so it is defined exactly.
//! Candidates are data cells that are in a single constraint. The resulting chains must be acyclic.
//! The choice has the lowest update cost: the number of parity cells that change with each data
//! cell, summed over the data cells. Among equals it is the lexicographically first (constraints in
//! chain order, cells by row, column).
//!
//! Cost: a promotion changes the parity cells by an XOR with a combination of the constraints. So
//! for r linked constraints the 2^r possible sizes of each parity cell are counted once, by bit
//! masks, and the cost of a choice is found by table look-ups. Constraints that reach no common
//! cell are independent and are decided separately.

use crate::{Arguments, Claim, Code, CodeBuilder, CodeError, Hint};

/// A cell: (row, column).
pub(crate) type Cell = (usize, usize);

/// A construction for primes, and the parameters for shortening it to other numbers of columns.
pub(crate) struct Construction {
    /// The family's name.
    pub family: &'static str,
    /// The chains for a prime, in their frozen order.
    pub chains: fn(usize) -> Chains,
    /// The number of columns minus the prime.
    pub columns_more: isize,
    /// The smallest prime that the construction allows.
    pub least_prime: usize,
    /// Columns that hold only data, in the order in which they are dropped.
    pub data_only: fn(usize) -> Vec<usize>,
    /// The number of last columns that are never dropped. If no column with data only is left, the
    /// column before these is dropped.
    pub last_kept: usize,
}

impl Construction {
    /// The code with `n` columns, shortened from the smallest prime that gives at least as many.
    pub(crate) fn code(&self, n: usize) -> Code {
        let claim = Claim { tolerance: 2, mds: true };
        self.shortened(n).builder().finish(format!("{}:{n}", self.family), self.family, claim)
    }

    fn shortened(&self, n: usize) -> Chains {
        let prime = (self.least_prime..)
            .find(|&p| is_prime(p) && p as isize + self.columns_more >= n as isize)
            .expect("there is always a larger prime");
        let mut chains = (self.chains)(prime);
        for column in (self.data_only)(prime) {
            if chains.columns > n {
                chains = chains.without_data_column(column);
            }
        }
        while chains.columns > n {
            chains = chains.without_parity_column(chains.columns - 1 - self.last_kept);
        }
        chains
    }
}

/// Takes the arguments of an array code: the number of columns, and whether the construction itself
/// is wanted without shortening (`raw`).
///
/// At a prime both are the same code, so `raw` is dropped from the spec.
pub(crate) fn array(arguments: &mut Arguments, least: usize, raw: bool) -> Result<(usize, bool), CodeError> {
    let n = arguments.count(
        "n, the number of disks,",
        least,
        COLUMNS_MAX,
        Hint {
            below: "use mirror, or raid6 for few disks",
            above: "stripes of more rows are unwieldy; use cauchy or raid6",
        },
    )?;
    let bare = raw && arguments.flag("raw");
    arguments.finish()?;
    Ok((n, bare && !(n >= 5 && is_prime(n))))
}

/// Returns the construction for a number that is not prime, without shortening. It tolerates one
/// lost column, because every chain has at most one cell in each column.
pub(crate) fn raw(construction: &Construction, n: usize) -> Code {
    let mut code = (construction.chains)(n).builder();
    code.study_only("the construction holds for primes only, and this one has fatal pairs of columns");
    let spec = format!("{}:{n},raw", construction.family);
    code.finish(spec, construction.family, Claim { tolerance: 1, mds: false })
}

/// The most columns of an array code; a stripe has about as many rows.
const COLUMNS_MAX: usize = 64;

/// True if a number is prime.
pub(crate) fn is_prime(number: usize) -> bool {
    number >= 2 && (2..).take_while(|d| d * d <= number).all(|d| !number.is_multiple_of(d))
}

/// A grid of cells, with the chains over it.
pub(crate) struct Chains {
    rows: usize,
    columns: usize,
    chains: Vec<(Cell, Vec<Cell>)>,
}

impl Chains {
    /// An empty list of chains over a grid.
    pub(crate) fn new(rows: usize, columns: usize) -> Chains {
        Chains { rows, columns, chains: Vec::new() }
    }

    /// Adds a chain: parity = XOR of the members.
    pub(crate) fn chain(&mut self, parity: Cell, members: impl IntoIterator<Item = Cell>) {
        self.chains.push((parity, members.into_iter().collect()));
    }

    /// The shape and equations; the user order is row-major over the data cells.
    pub(crate) fn builder(&self) -> CodeBuilder {
        let mut code = CodeBuilder::uniform(self.columns, self.rows);
        self.chains.iter().for_each(|(parity, members)| code.define_xor(*parity, members.iter().copied()));
        code
    }

    /// Step 1: removes a column of zeros without parity; the columns after it move down by one.
    fn without_data_column(&self, column: usize) -> Chains {
        let moved = |(r, c): Cell| (r, c - usize::from(c > column));
        let chains = self.chains.iter().map(|(parity, members)| {
            let rest = members.iter().filter(|m| m.1 != column).map(|&m| moved(m)).collect();
            (moved(*parity), rest)
        });
        Chains { rows: self.rows, columns: self.columns - 1, chains: chains.collect() }
    }

    /// Step 2: removes a column of zeros with parity; for each of its parity cells a data cell is
    /// promoted.
    fn without_parity_column(&self, column: usize) -> Chains {
        let rest =
            |members: &[Cell]| members.iter().copied().filter(|m| m.1 != column).collect::<Vec<Cell>>();
        let (gone, kept): (Vec<_>, Vec<_>) = self.chains.iter().partition(|(parity, _)| parity.1 == column);
        let mut next = Chains::new(self.rows, self.columns);
        kept.into_iter().for_each(|(parity, members)| next.chain(*parity, rest(members)));
        let constraints: Vec<Vec<Cell>> = gone.iter().map(|(_, members)| rest(members)).collect();
        let promoted = Promotion::new(&next, &constraints).cheapest();
        for (constraint, cell) in constraints.iter().zip(promoted) {
            next.chain(cell, constraint.iter().copied().filter(|&member| member != cell));
        }
        // No chain has a cell in the column any more, so removing it only renumbers the columns
        // after it.
        next.without_data_column(column)
    }
}

/// A set of cells of one grid, one bit each.
#[derive(Clone, PartialEq, Eq)]
struct Cells(Vec<u64>);

impl Cells {
    fn none(count: usize) -> Cells {
        Cells(vec![0; count.div_ceil(64)])
    }

    fn toggle(&mut self, cell: usize) {
        self.0[cell / 64] ^= 1 << (cell % 64);
    }

    fn insert(&mut self, cell: usize) {
        self.0[cell / 64] |= 1 << (cell % 64);
    }

    fn contains(&self, cell: usize) -> bool {
        self.0[cell / 64] >> (cell % 64) & 1 == 1
    }

    fn xor(&mut self, other: &Cells) {
        self.0.iter_mut().zip(&other.0).for_each(|(x, y)| *x ^= y);
    }

    fn union(&mut self, other: &Cells) {
        self.0.iter_mut().zip(&other.0).for_each(|(x, y)| *x |= y);
    }

    fn meets(&self, other: &Cells) -> bool {
        self.0.iter().zip(&other.0).any(|(x, y)| x & y != 0)
    }

    fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The number of cells that are in exactly one of the two sets.
    fn distance(&self, other: &Cells) -> u32 {
        self.0.iter().zip(&other.0).map(|(x, y)| (x ^ y).count_ones()).sum()
    }
}

/// The search for the cells to promote.
struct Promotion {
    columns: usize,
    /// For each parity cell that is kept, its sum as data cells.
    sums: Vec<Cells>,
    /// For each constraint, its sum as data cells.
    expanded: Vec<Cells>,
    /// For each constraint, the cells that it reaches through the parity cells among its members.
    through: Vec<Cells>,
    /// For each constraint, all cells that it reaches, including its members.
    reached: Vec<Cells>,
    /// The data cells that each constraint may promote, ascending.
    candidates: Vec<Vec<usize>>,
}

impl Promotion {
    fn new(kept: &Chains, constraints: &[Vec<Cell>]) -> Promotion {
        let columns = kept.columns;
        let count = kept.rows * columns;
        let id = |&(row, column): &Cell| row * columns + column;
        let mut chain_of = vec![None; count];
        kept.chains.iter().enumerate().for_each(|(i, (parity, _))| chain_of[id(parity)] = Some(i));
        let mut uses = vec![0; count];
        constraints.iter().flatten().for_each(|cell| uses[id(cell)] += 1);
        let mut solver = Solver { kept, chain_of: &chain_of, solved: vec![None; kept.chains.len()] };
        let mut search = Promotion {
            columns,
            sums: (0..kept.chains.len()).map(|chain| solver.chain(chain).0).collect(),
            expanded: Vec::new(),
            through: Vec::new(),
            reached: Vec::new(),
            candidates: Vec::new(),
        };
        for members in constraints {
            let (sum, through) = solver.sum(members);
            let mut reached = through.clone();
            members.iter().for_each(|member| reached.insert(id(member)));
            let free = |cell: &usize| chain_of[*cell].is_none() && uses[*cell] == 1;
            let mut candidates: Vec<usize> = members.iter().map(id).filter(free).collect();
            candidates.sort_unstable();
            search.expanded.push(sum);
            search.through.push(through);
            search.reached.push(reached);
            search.candidates.push(candidates);
        }
        search
    }

    /// Returns the cells to promote, one per constraint.
    fn cheapest(&self) -> Vec<Cell> {
        let mut chosen = vec![0; self.candidates.len()];
        for group in self.linked() {
            let cells = self.cheapest_of(&group);
            group.iter().zip(cells).for_each(|(&constraint, cell)| chosen[constraint] = cell);
        }
        chosen.iter().map(|cell| (cell / self.columns, cell % self.columns)).collect()
    }

    /// Returns the constraints in groups: different groups reach no common cell. Each group is
    /// ascending.
    fn linked(&self) -> Vec<Vec<usize>> {
        let mut groups: Vec<(Vec<usize>, Cells)> = Vec::new();
        for (i, reach) in self.reached.iter().enumerate() {
            let (touching, apart): (Vec<_>, Vec<_>) =
                groups.into_iter().partition(|(_, cells)| cells.meets(reach));
            groups = apart;
            let mut merged = (vec![i], reach.clone());
            for (members, cells) in touching {
                merged.0.extend(members);
                merged.1.union(&cells);
            }
            merged.0.sort_unstable();
            groups.push(merged);
        }
        groups.into_iter().map(|(members, _)| members).collect()
    }

    /// Returns the cheapest choice for one group; among equals, the first.
    fn cheapest_of(&self, group: &[usize]) -> Vec<usize> {
        let prices = Prices::new(self, group);
        let mut choice: Vec<usize> = vec![0; group.len()];
        let mut best: Option<(i64, Vec<usize>)> = None;
        let combinations: usize = group.iter().map(|&i| self.candidates[i].len()).product();
        for combination in 0..combinations {
            let mut rest = combination;
            for (slot, &constraint) in group.iter().enumerate().rev() {
                let candidates = &self.candidates[constraint];
                choice[slot] = candidates[rest % candidates.len()];
                rest /= candidates.len();
            }
            if !self.is_acyclic(group, &choice) {
                continue;
            }
            let price = prices.of(&choice);
            if best.as_ref().is_none_or(|(least, _)| price < *least) {
                best = Some((price, choice.clone()));
            }
        }
        best.expect("every constraint of these constructions has a data cell to promote").1
    }

    /// True if the promoted cells can be computed one after another.
    ///
    /// The kept chains are acyclic and a promoted cell is in one constraint. So a cycle would go
    /// from constraint to constraint, where each reaches the promoted cell of the next one (or its
    /// own) through a parity cell.
    fn is_acyclic(&self, group: &[usize], choice: &[usize]) -> bool {
        let mut waiting: u32 = (1 << choice.len()) - 1;
        let needs = |i: usize, j: usize| self.through[group[i]].contains(choice[j]);
        loop {
            let stuck = (0..choice.len())
                .filter(|&i| waiting >> i & 1 == 1)
                .filter(|&i| (0..choice.len()).any(|j| waiting >> j & 1 == 1 && needs(i, j)))
                .fold(0, |set, i| set | 1 << i);
            if stuck == waiting {
                return waiting == 0;
            }
            waiting = stuck;
        }
    }
}

/// Expands chains to sums of data cells, each chain once.
struct Solver<'a> {
    kept: &'a Chains,
    chain_of: &'a [Option<usize>],
    solved: Vec<Option<(Cells, Cells)>>,
}

impl Solver<'_> {
    /// Returns the sum of a chain, and all cells that it reaches.
    fn chain(&mut self, chain: usize) -> (Cells, Cells) {
        if let Some(known) = &self.solved[chain] {
            return known.clone();
        }
        let members = &self.kept.chains[chain].1;
        let (sum, mut reached) = self.sum(members);
        members.iter().for_each(|&(row, column)| reached.insert(row * self.kept.columns + column));
        self.solved[chain] = Some((sum.clone(), reached.clone()));
        (sum, reached)
    }

    /// Returns the sum of some cells, and the cells that they reach through the parity cells among
    /// them.
    fn sum(&mut self, members: &[Cell]) -> (Cells, Cells) {
        let count = self.chain_of.len();
        let (mut sum, mut through) = (Cells::none(count), Cells::none(count));
        for &(row, column) in members {
            let cell = row * self.kept.columns + column;
            match self.chain_of[cell] {
                None => sum.toggle(cell),
                Some(chain) => {
                    let (inner, below) = self.chain(chain);
                    sum.xor(&inner);
                    through.union(&below);
                }
            }
        }
        (sum, through)
    }
}

/// The tables from which the cost of a choice of promoted cells is looked up.
///
/// The promoted cells solve the constraints of the group: each is a sum S of some constraints,
/// minus itself. A parity cell that contained promoted cells becomes its old sum plus the S of each
/// of them. So it is the old sum plus one of the 2^r combinations of constraints.
struct Prices {
    /// For each constraint of the group, its sum.
    expanded: Vec<Cells>,
    /// For each combination of constraints, its number of cells.
    sizes: Vec<i64>,
    /// For each parity cell that contains a candidate, the change of its number of cells with each
    /// combination added.
    growth: Vec<Vec<i64>>,
    /// For each cell, the indices in `growth` of the parity cells that contain it.
    parities: Vec<Vec<u32>>,
}

impl Prices {
    fn new(search: &Promotion, group: &[usize]) -> Prices {
        let cells = search.expanded[group[0]].0.len() * 64;
        let expanded: Vec<Cells> = group.iter().map(|&i| search.expanded[i].clone()).collect();
        let combinations: Vec<Cells> = (0..1usize << group.len())
            .map(|mask| {
                let mut sum = Cells::none(cells);
                (0..group.len()).filter(|i| mask >> i & 1 == 1).for_each(|i| sum.xor(&expanded[i]));
                sum
            })
            .collect();
        let mut prices = Prices {
            expanded,
            sizes: combinations.iter().map(|sum| sum.count().into()).collect(),
            growth: Vec::new(),
            parities: vec![Vec::new(); cells],
        };
        for sum in &search.sums {
            let mut inside =
                group.iter().flat_map(|&i| &search.candidates[i]).filter(|&&c| sum.contains(c)).peekable();
            if inside.peek().is_none() {
                continue;
            }
            inside.for_each(|&cell| prices.parities[cell].push(prices.growth.len() as u32));
            let size = i64::from(sum.count());
            prices.growth.push(combinations.iter().map(|c| i64::from(sum.distance(c)) - size).collect());
        }
        prices
    }

    /// Returns the update cost of a choice, up to a constant of the group. It is the number of
    /// parity cells that change with each data cell, summed over the data cells.
    fn of(&self, choice: &[usize]) -> i64 {
        let combinations = self.solve(choice);
        let mut price = 0;
        for (i, &cell) in choice.iter().enumerate() {
            price += self.sizes[combinations[i]] - 1;
            for &parity in &self.parities[cell] {
                let holds = |j: &usize| self.parities[choice[*j]].contains(&parity);
                if (0..i).any(|j| holds(&j)) {
                    continue; // counted with the earlier cell
                }
                let added = (i..choice.len()).filter(holds).fold(0, |mask, j| mask ^ combinations[j]);
                price += self.growth[parity as usize][added];
            }
        }
        price
    }

    /// Returns, for each promoted cell, the combination of constraints that contains it and no
    /// other promoted cell.
    fn solve(&self, choice: &[usize]) -> [usize; GROUP_MAX] {
        let r = choice.len();
        // Row j has the promoted cells of constraint j in bits 0..r, and the constraints that were
        // added up in the bits from r on.
        let mut rows = [0usize; GROUP_MAX];
        for (j, sum) in self.expanded.iter().enumerate() {
            let held = (0..r).filter(|&i| sum.contains(choice[i])).fold(0, |mask, i| mask | 1 << i);
            rows[j] = held | 1 << (r + j);
        }
        for i in 0..r {
            let found = (i..r).find(|&j| rows[j] >> i & 1 == 1).expect("an acyclic choice can be solved");
            rows.swap(i, found);
            let row = rows[i];
            rows[..r]
                .iter_mut()
                .enumerate()
                .filter(|(j, other)| *j != i && **other >> i & 1 == 1)
                .for_each(|(_, other)| *other ^= row);
        }
        rows.map(|row| row >> r)
    }
}

/// The most linked constraints: a column of these codes never has more linked parity cells.
const GROUP_MAX: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns random acyclic chains on a 3 x 4 grid whose last column has `r` parity cells.
    fn random(seed: u64, r: usize) -> Chains {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = |n: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % n
        };
        let mut parity: Vec<Cell> = (0..r).map(|row| (row, 3)).collect();
        parity.extend([(0, 0), (1, 1), (2, 2)]);
        let mut order = parity.clone();
        (1..order.len()).for_each(|i| order.swap(i, next(i + 1)));
        let mut made = Chains::new(3, 4);
        for parity_cell in &parity {
            let place = |cell: &Cell| order.iter().position(|c| c == cell);
            let earlier = |cell: &Cell| place(cell).is_none_or(|p| Some(p) < place(parity_cell));
            let all = (0..12).map(|i| (i / 4, i % 4));
            made.chain(*parity_cell, all.filter(earlier).filter(|_| next(2) == 0).collect::<Vec<Cell>>());
        }
        made
    }

    /// Returns the number of parity cells that change with each data cell, summed over the data
    /// cells; `None` if the chains are cyclic.
    fn update_cost(chains: &Chains) -> Option<u32> {
        let mut sums: Vec<Option<Cells>> = vec![None; chains.chains.len()];
        for _ in 0..=sums.len() {
            for (i, (_, members)) in chains.chains.iter().enumerate() {
                let mut sum = Some(Cells::none(chains.rows * chains.columns));
                for member in members {
                    match (chains.chains.iter().position(|(parity, _)| parity == member), &mut sum) {
                        (Some(inner), Some(total)) if sums[inner].is_some() => {
                            total.xor(sums[inner].as_ref()?);
                        }
                        (None, Some(total)) => total.toggle(member.0 * chains.columns + member.1),
                        _ => sum = None,
                    }
                }
                sums[i] = sum;
            }
        }
        sums.into_iter().map(|sum| Some(sum?.count())).sum()
    }

    /// Returns the choice by its definition: tries all tuples of data cells in lexicographic order.
    fn first_of_the_cheapest(kept: &Chains, constraints: &[Vec<Cell>]) -> Option<Vec<Cell>> {
        let is_data = |cell: &Cell| kept.chains.iter().all(|(parity, _)| parity != cell);
        let mut tuples: Vec<Vec<Cell>> = vec![vec![]];
        for constraint in constraints {
            let mut members: Vec<Cell> = constraint.iter().copied().filter(is_data).collect();
            members.sort_unstable();
            let longer = |tuple: &Vec<Cell>| {
                let tuple = tuple.clone();
                members.iter().map(move |&cell| [tuple.clone(), vec![cell]].concat()).collect::<Vec<_>>()
            };
            tuples = tuples.iter().flat_map(longer).collect();
        }
        let alone = |tuple: &Vec<Cell>| {
            let distinct = (1..tuple.len()).all(|i| !tuple[..i].contains(&tuple[i]));
            distinct && constraints.iter().all(|c| c.iter().filter(|cell| tuple.contains(cell)).count() == 1)
        };
        let priced = tuples.into_iter().filter(alone).filter_map(|tuple| {
            let mut code = Chains { chains: kept.chains.clone(), ..*kept };
            for (constraint, &cell) in constraints.iter().zip(&tuple) {
                code.chain(cell, constraint.iter().copied().filter(|&member| member != cell));
            }
            Some((update_cost(&code)?, tuple))
        });
        // Takes the first minimum; later equal ones do not replace it.
        priced.reduce(|best, other| if other.0 < best.0 { other } else { best }).map(|(_, tuple)| tuple)
    }

    #[test]
    fn the_search_finds_what_the_definition_says() {
        let mut compared = [0; 4];
        for seed in 0..6000 {
            let r = 1 + seed as usize % 3;
            let chains = random(seed, r);
            let rest = |members: &[Cell]| members.iter().copied().filter(|m| m.1 != 3).collect::<Vec<Cell>>();
            let (gone, stays): (Vec<_>, Vec<_>) = chains.chains.iter().partition(|(parity, _)| parity.1 == 3);
            let mut kept = Chains::new(3, 4);
            stays.into_iter().for_each(|(parity, members)| kept.chain(*parity, rest(members)));
            let constraints: Vec<Vec<Cell>> = gone.iter().map(|(_, members)| rest(members)).collect();
            let Some(wanted) = first_of_the_cheapest(&kept, &constraints) else { continue };
            assert_eq!(Promotion::new(&kept, &constraints).cheapest(), wanted, "seed {seed}");
            compared[r] += 1;
        }
        assert!(compared[1..].iter().all(|&count| count > 50), "{compared:?}");
    }
}
