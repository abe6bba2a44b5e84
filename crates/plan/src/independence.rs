//! Decides whether a set of columns can be lost: whether the vectors of its cells, their
//! coefficients in the equations, are linearly independent.
//!
//! Two tests give the same answer. Which is cheaper depends on the code and is measured, see
//! [`Blocks::cheaper_test`]:
//!
//! * dense: an elimination that grows and shrinks by one column, so that sets with a common
//!   beginning share its work;
//! * sparse: a cell that is the only lost one of some equation is independent of all others. It is
//!   removed together with that equation, repeatedly; only the rest is eliminated. In array codes
//!   and mirrors little or nothing is left, where the dense test would handle thousands of
//!   equations.
//!
//! Both count their work in steps of about a nanosecond, so that a limit on work does not depend on
//! the machine.

use pantile_code::{CellIndex, Code, Placement};
use pantile_gf::{Gf, Matrix};

/// For each column, the vectors of its cells: their coefficients in the equations.
#[derive(Debug)]
pub(crate) struct Blocks {
    equations: usize,
    is_xor: bool,
    /// The vectors by column and row, with one entry per equation. A code of XORs has `bits`
    /// instead, with one bit per equation.
    columns: Vec<Vec<Vec<Gf>>>,
    bits: Vec<Vec<Vec<u64>>>,
    /// The cells of column c are `offsets[c] .. offsets[c + 1]`.
    offsets: Vec<u32>,
    /// For each cell, the equations that contain it, with its coefficients.
    touching: Vec<Vec<(u32, Gf)>>,
    /// The columns 0..`data_columns` contain data only.
    data_columns: usize,
}

impl Blocks {
    pub(crate) fn new(code: &Code) -> Blocks {
        let equations = code.equations().len();
        let is_xor = code.is_xor();
        let mut columns: Vec<Vec<Vec<Gf>>> = Vec::new();
        let mut bits: Vec<Vec<Vec<u64>>> = Vec::new();
        let mut offsets = vec![0u32];
        for column in 0..code.columns() {
            columns.push(vec![vec![Gf::ZERO; if is_xor { 0 } else { equations }]; code.rows(column)]);
            bits.push(vec![vec![0u64; if is_xor { equations.div_ceil(64) } else { 0 }]; code.rows(column)]);
            offsets.push(offsets[column] + code.rows(column) as u32);
        }
        let mut touching = vec![Vec::new(); code.cell_count()];
        for (e, equation) in code.equations().iter().enumerate() {
            for &(index, coefficient) in equation.terms() {
                touching[index.usize()].push((e as u32, coefficient));
                let cell = code.cell(index);
                match is_xor {
                    true => bits[cell.column][cell.row][e / 64] |= 1 << (e % 64),
                    false => columns[cell.column][cell.row][e] = coefficient,
                }
            }
        }
        let data_only = |&column: &usize| code.column_cells(column).all(|cell| !code.is_parity(cell));
        let data_columns = (0..code.columns()).take_while(data_only).count();
        Blocks { equations, is_xor, columns, bits, offsets, touching, data_columns }
    }

    pub(crate) fn count(&self) -> usize {
        self.columns.len()
    }

    pub(crate) fn equations(&self) -> usize {
        self.equations
    }

    /// Returns the cells of a column.
    pub(crate) fn cells(&self, column: usize) -> impl Iterator<Item = CellIndex> + use<> {
        (self.offsets[column]..self.offsets[column + 1]).map(CellIndex)
    }

    /// Returns the number of cells of a column.
    pub(crate) fn rows(&self, column: usize) -> usize {
        (self.offsets[column + 1] - self.offsets[column]) as usize
    }

    /// Returns the test that costs less per set in a walk over sets of `lost` columns, with its
    /// cost. The cost is the mean over a few sets drawn with a fixed seed. The result is `None` if
    /// no set was decided within `most` steps, half of them for each test. The second value is the
    /// number of steps that this measurement took.
    pub(crate) fn cheaper_test(&self, lost: usize, most: u64) -> (Option<(TestKind, u64)>, u64) {
        const SETS: u64 = 8;
        // If one set takes this many steps, no second set is measured.
        const WORK_MOST: u64 = 50_000_000;
        let (limit, mut work) = (most / 2, 0);
        let mut cost = |kind: TestKind| {
            let mut test = self.test(kind);
            test.limit(limit);
            let (mut sum, mut drawn) = (0, 0);
            while drawn < SETS && test.work() < WORK_MOST {
                let order = random_order(self.count(), lost, 0x7072_6f62_6521, drawn);
                let mut before = 0;
                test.clear();
                for &column in &order {
                    before = test.work();
                    if !test.push(column) {
                        break;
                    }
                }
                // In a walk a set shares all but its last column with the set before it.
                if test.work() > limit {
                    break;
                }
                sum += test.work() - before;
                drawn += 1;
            }
            work += test.work();
            (drawn > 0).then(|| (sum / drawn, kind))
        };
        let of_each = [cost(TestKind::Dense), cost(TestKind::Sparse)];
        let cheaper = of_each.into_iter().flatten().min_by_key(|(cost, _)| *cost);
        (cheaper.map(|(cost, kind)| (kind, cost)), work)
    }

    pub(crate) fn test(&self, kind: TestKind) -> Test<'_> {
        match kind {
            TestKind::Dense => {
                let (bytes, bits) = (Vec::new(), Vec::new());
                Test::Dense(Dense { blocks: self, bytes, bits, work: 0, work_most: u64::MAX })
            }
            TestKind::Sparse => Test::Sparse(self.sparse()),
        }
    }

    pub(crate) fn sparse(&self) -> Sparse<'_> {
        Sparse {
            blocks: self,
            set: Vec::new(),
            unknown: vec![(0, 0); self.equations],
            touched: Vec::new(),
            alone: Vec::new(),
            is_out: vec![false; self.touching.len()],
            work: 0,
            work_most: u64::MAX,
        }
    }

    /// Returns the test of sets of devices that hold the columns by a placement.
    pub(crate) fn placed(&self, kind: TestKind, placement: Placement) -> Placed<'_> {
        let (devices, turns) = (self.count(), placement.turns(self.count()));
        let column = |turn, device| placement.column(turn as u64, device, devices);
        let columns = |turn| (0..devices).map(|device| column(turn, device)).collect();
        Placed { turns: (0..turns).map(|turn| (columns(turn), self.test(kind))).collect(), marks: Vec::new() }
    }

    /// The number of data columns, if they are the powers of one block-diagonal matrix and parity
    /// columns are unit blocks. A set of columns is then survivable exactly if it is with all its
    /// data columns shifted.
    pub(crate) fn shiftable(&self) -> Option<usize> {
        let k = self.data_columns;
        if self.is_xor || k < 3 || k == self.count() {
            return None;
        }
        let rows = self.columns[0].len();
        let even =
            self.columns.iter().all(|c| c.len() == rows) && self.equations == rows * (self.count() - k);
        if !even || rows == 0 {
            return None;
        }
        // The block of a column in one parity: rows x rows, transposed in every column.
        let block = |column: usize, parity: usize| {
            Matrix::from_fn(rows, rows, |e, r| self.columns[column][r][parity * rows + e])
        };
        let identity = Matrix::identity(rows);
        let zero = Matrix::zero(rows, rows);
        let parities = self.count() - k;
        for p in 0..parities {
            let step = block(1, p);
            let mut power = identity.clone();
            for column in 0..k {
                if block(column, p) != power {
                    return None;
                }
                power = &step * &power;
            }
            for other in 0..parities {
                let expected = if other == p { &identity } else { &zero };
                if &block(k + other, p) != expected {
                    return None;
                }
            }
        }
        Some(k)
    }
}

/// The kind of test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TestKind {
    Dense,
    Sparse,
}

/// A test of a set of columns that grows and shrinks at its end: whether the set can be lost.
pub(crate) enum Test<'b> {
    Dense(Dense<'b>),
    Sparse(Sparse<'b>),
}

impl Test<'_> {
    /// The present end of the set, for [`Test::truncate`].
    pub(crate) fn mark(&self) -> usize {
        match self {
            Test::Dense(dense) => dense.bytes.len() + dense.bits.len(),
            Test::Sparse(sparse) => sparse.set.len(),
        }
    }

    /// Removes the vectors added since the mark.
    pub(crate) fn truncate(&mut self, mark: usize) {
        match self {
            Test::Dense(dense) => match dense.blocks.is_xor {
                true => dense.bits.truncate(mark),
                false => dense.bytes.truncate(mark),
            },
            Test::Sparse(sparse) => sparse.set.truncate(mark),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.truncate(0);
    }

    /// Adds a column to a survivable set; Returns `false` if the set is then fatal; the caller must
    /// then truncate to a mark.
    pub(crate) fn push(&mut self, column: usize) -> bool {
        match self {
            Test::Dense(dense) => dense.add(column),
            Test::Sparse(sparse) => {
                sparse.set.push(column);
                sparse.survives(&[])
            }
        }
    }

    /// The length of the shortest fatal prefix of `order`, `None` if all of it can be lost.
    ///
    /// The first `known` columns are known to be survivable.
    pub(crate) fn first_fatal(&mut self, order: &[usize], known: usize) -> Option<usize> {
        self.clear();
        match self {
            Test::Dense(dense) => order.iter().position(|&column| !dense.add(column)).map(|i| i + 1),
            Test::Sparse(sparse) => {
                let mut survives = |length: usize| {
                    sparse.set.clear();
                    sparse.set.extend_from_slice(&order[..length]);
                    sparse.survives(&[])
                };
                // A set that contains a fatal set is fatal, so the shortest fatal length is found
                // by bisection.
                let (mut good, mut bad) = (known.min(order.len()), order.len() + 1);
                while bad - good > 1 {
                    let middle = usize::midpoint(good, bad);
                    if survives(middle) { good = middle } else { bad = middle }
                }
                (bad <= order.len()).then_some(bad)
            }
        }
    }

    /// Limits the work to `most` steps; an elimination that reaches the limit gives no result.
    pub(crate) fn limit(&mut self, most: u64) {
        match self {
            Test::Dense(dense) => dense.work_most = most,
            Test::Sparse(sparse) => sparse.work_most = most,
        }
    }

    /// The steps taken so far.
    pub(crate) fn work(&self) -> u64 {
        match self {
            Test::Dense(dense) => dense.work,
            Test::Sparse(sparse) => sparse.work,
        }
    }
}

/// A set of devices that grows and shrinks at its end: it can be lost if the columns on it can, in
/// every turn of the placement.
pub(crate) struct Placed<'b> {
    /// By turn: the column on each device, and the test of the columns.
    turns: Vec<(Vec<usize>, Test<'b>)>,
    /// The ends of the tests of all turns before each device.
    marks: Vec<usize>,
}

impl Placed<'_> {
    /// The number of devices, for [`Placed::truncate`].
    pub(crate) fn mark(&self) -> usize {
        self.marks.len() / self.turns.len()
    }

    /// Removes the devices added after `mark`.
    pub(crate) fn truncate(&mut self, mark: usize) {
        let first = mark * self.turns.len();
        if first < self.marks.len() {
            let ends = &self.marks[first..];
            self.turns.iter_mut().zip(ends).for_each(|((_, test), &end)| test.truncate(end));
            self.marks.truncate(first);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.truncate(0);
    }

    /// Adds a device to a survivable set; Returns `false` if the set is then fatal; the caller must
    /// then truncate to a mark.
    pub(crate) fn push(&mut self, device: usize) -> bool {
        self.marks.extend(self.turns.iter().map(|(_, test)| test.mark()));
        self.turns.iter_mut().all(|(columns, test)| test.push(columns[device]))
    }

    /// The length of the shortest fatal prefix of `order`, `None` if all of it can be lost.
    ///
    /// The first `known` devices are known to be survivable.
    pub(crate) fn first_fatal(&mut self, order: &[usize], known: usize) -> Option<usize> {
        let mut first = None;
        let mut beginning: Vec<usize> = Vec::with_capacity(order.len());
        for (columns, test) in &mut self.turns {
            let length = first.map_or(order.len(), |first: usize| first - 1);
            beginning.clear();
            beginning.extend(order[..length].iter().map(|&device| columns[device]));
            first = test.first_fatal(&beginning, known).or(first);
        }
        first
    }

    /// The steps taken so far.
    pub(crate) fn work(&self) -> u64 {
        self.turns.iter().map(|(_, test)| test.work()).sum()
    }
}

/// The steps per column besides its arithmetic.
const COLUMN_WORK: u64 = 20;

/// An elimination that can be undone, in bits or in bytes.
pub(crate) struct Dense<'b> {
    blocks: &'b Blocks,
    bytes: Vec<(usize, Vec<Gf>)>,
    bits: Vec<(usize, Vec<u64>)>,
    work: u64,
    work_most: u64,
}

impl Dense<'_> {
    /// Adds a column's vectors; `false` if they are not independent of the present vectors.
    fn add(&mut self, column: usize) -> bool {
        self.work += COLUMN_WORK;
        let (work, most) = (&mut self.work, self.work_most);
        if self.blocks.is_xor {
            let mut vectors = self.blocks.bits[column].iter();
            vectors.all(|vector| *work <= most && add_bits(&mut self.bits, vector, work))
        } else {
            let mut vectors = self.blocks.columns[column].iter();
            vectors.all(|vector| *work <= most && add_bytes(&mut self.bytes, vector, work))
        }
    }
}

fn add_bits(basis: &mut Vec<(usize, Vec<u64>)>, vector: &[u64], work: &mut u64) -> bool {
    let mut rest = vector.to_vec();
    let mut added = 1;
    for (pivot, base) in basis.iter() {
        if rest[pivot / 64] >> (pivot % 64) & 1 == 1 {
            rest.iter_mut().zip(base).for_each(|(x, &y)| *x ^= y);
            added += 1;
        }
    }
    *work += (basis.len() + added * vector.len()) as u64;
    let Some(word) = rest.iter().position(|&w| w != 0) else { return false };
    basis.push((word * 64 + rest[word].trailing_zeros() as usize, rest));
    true
}

fn add_bytes(basis: &mut Vec<(usize, Vec<Gf>)>, vector: &[Gf], work: &mut u64) -> bool {
    let mut rest = vector.to_vec();
    let mut added = 1;
    for (pivot, base) in basis.iter() {
        let factor = rest[*pivot];
        if !factor.is_zero() {
            rest.iter_mut().zip(base).for_each(|(x, &y)| *x += factor * y);
            added += 1;
        }
    }
    *work += (basis.len() + 2 * added * vector.len()) as u64;
    let Some(pivot) = rest.iter().position(|x| !x.is_zero()) else { return false };
    let scale = Gf::ONE / rest[pivot];
    rest.iter_mut().for_each(|x| *x *= scale);
    basis.push((pivot, rest));
    true
}

/// A set that each test decides from scratch, from the few equations that contain its cells.
pub(crate) struct Sparse<'b> {
    blocks: &'b Blocks,
    set: Vec<usize>,
    /// For each equation, the number of its lost cells and the XOR of their indices; for a single
    /// lost cell that is its index.
    unknown: Vec<(u32, u32)>,
    /// The equations that contain a lost cell.
    touched: Vec<u32>,
    /// Equations that had one lost cell when they were noted.
    alone: Vec<u32>,
    /// For each cell, true if it was removed together with an equation.
    is_out: Vec<bool>,
    work: u64,
    work_most: u64,
}

impl Sparse<'_> {
    /// Returns true if these columns can be lost except for the cells in `kept`, which are in
    /// ascending order.
    pub(crate) fn survives_but(&mut self, columns: &[usize], kept: &[CellIndex]) -> bool {
        self.set.clear();
        self.set.extend_from_slice(columns);
        self.survives(kept)
    }

    /// The steps taken so far.
    pub(crate) fn work(&self) -> u64 {
        self.work
    }

    /// Returns true if the set can be lost except for the cells in `kept`, which are in ascending
    /// order.
    fn survives(&mut self, kept: &[CellIndex]) -> bool {
        let (blocks, unknown) = (self.blocks, &mut self.unknown);
        let is_lost = |&cell: &u32| kept.is_empty() || kept.binary_search(&CellIndex(cell)).is_err();
        let columns = self.set.iter();
        let cells =
            || columns.clone().flat_map(|&c| blocks.offsets[c]..blocks.offsets[c + 1]).filter(is_lost);
        let touching = |cell: u32| &blocks.touching[CellIndex(cell).usize()];
        for cell in cells() {
            self.is_out[cell as usize] = false;
            for &(equation, _) in touching(cell) {
                let unknown = &mut unknown[equation as usize];
                if unknown.0 == 0 {
                    self.touched.push(equation);
                }
                *unknown = (unknown.0 + 1, unknown.1 ^ cell);
                self.work += 6;
            }
        }
        self.alone.extend(self.touched.iter().filter(|&&e| unknown[e as usize].0 == 1));
        while let Some(equation) = self.alone.pop() {
            let (1, cell) = unknown[equation as usize] else { continue };
            self.is_out[cell as usize] = true;
            for &(other, _) in touching(cell) {
                let unknown = &mut unknown[other as usize];
                *unknown = (unknown.0 - 1, unknown.1 ^ cell);
                if unknown.0 == 1 {
                    self.alone.push(other);
                }
            }
        }
        self.work += COLUMN_WORK * self.set.len() as u64;
        let rest: Vec<u32> = cells().filter(|&cell| !self.is_out[cell as usize]).collect();
        let survives = rest.is_empty() || self.are_independent(&rest);
        self.touched.drain(..).for_each(|e| self.unknown[e as usize] = (0, 0));
        survives
    }

    /// True if lost cells are independent, given that each equation has at least two of them.
    fn are_independent(&mut self, rest: &[u32]) -> bool {
        let mut open = 0;
        for &equation in &self.touched {
            // From here on `unknown.1` is the index of the equation among the remaining ones.
            let unknown = &mut self.unknown[equation as usize];
            if unknown.0 > 0 {
                unknown.1 = open;
                open += 1;
            }
        }
        let open = open as usize;
        if rest.len() > open {
            return false;
        }
        let terms = |cell: u32| {
            let touching = self.blocks.touching[CellIndex(cell).usize()].iter();
            touching
                .map(|&(equation, c)| (self.unknown[equation as usize], c))
                .filter(|((count, _), _)| *count > 0)
        };
        if self.blocks.is_xor {
            let mut basis = Vec::with_capacity(rest.len());
            rest.iter().all(|&cell| {
                let mut vector = vec![0u64; open.div_ceil(64)];
                terms(cell).for_each(|((_, place), _)| vector[place as usize / 64] |= 1 << (place % 64));
                self.work <= self.work_most && add_bits(&mut basis, &vector, &mut self.work)
            })
        } else {
            let mut basis = Vec::with_capacity(rest.len());
            rest.iter().all(|&cell| {
                let mut vector = vec![Gf::ZERO; open];
                terms(cell).for_each(|((_, place), c)| vector[place as usize] = c);
                self.work <= self.work_most && add_bytes(&mut basis, &vector, &mut self.work)
            })
        }
    }
}

/// Returns the first `length` columns of the random order that `seed` and `draw` determine.
///
/// Each prefix is drawn uniformly from the sets of its size.
pub(crate) fn random_order(columns: usize, length: usize, seed: u64, draw: u64) -> Vec<usize> {
    let mut state = seed ^ splitmix(draw.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut order: Vec<usize> = (0..columns).collect();
    for i in 0..length.min(columns) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let j = i + (splitmix(state) % (columns - i) as u64) as usize;
        order.swap(i, j);
    }
    order.truncate(length);
    order
}

fn splitmix(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tests_say_the_same_of_every_set() {
        let named = [
            "raid6:5",
            "rs:5+4",
            "shec:6,4,3",
            "dcode:7",
            "dcode:9,raw",
            "evenodd:7",
            "hdp:6",
            "rdp:8,",
            "raidp:6",
            "raidp:6,weighted",
            "lrc:6,2,2",
            "xorbas:4,4,2",
            "raidq:4+4,cbrt",
            "crs:5+3,w=3",
            "liberation:4,w=7",
            "blaumroth:5,w=7",
            "liber8tion:6",
            "mirror:5",
            "raid0:4",
        ];
        let mut fatal = 0;
        for spec in named {
            let code = Code::parse(spec.trim_end_matches(',')).expect("a good spec");
            let blocks = Blocks::new(&code);
            let (mut dense, mut sparse) = (blocks.test(TestKind::Dense), blocks.test(TestKind::Sparse));
            for draw in 0..200 {
                let order = random_order(code.columns(), code.columns(), 5, draw);
                let first = dense.first_fatal(&order, 0);
                assert_eq!(first, sparse.first_fatal(&order, 0), "{spec} {order:?}");
                // Column by column, as a walk does, with removals in between.
                for test in [&mut dense, &mut sparse] {
                    test.clear();
                    for (i, &column) in order.iter().enumerate() {
                        let mark = test.mark();
                        let survives = first.is_none_or(|first| i + 1 < first);
                        assert_eq!(test.push(column), survives, "{spec} {:?}", &order[..=i]);
                        if !survives {
                            break;
                        }
                        test.truncate(mark);
                        assert!(test.push(column));
                    }
                }
                fatal += usize::from(first.is_some());
            }
        }
        assert!(fatal > 1000);
    }

    #[test]
    fn orders_are_drawn_evenly() {
        let mut first = [0; 6];
        let mut pairs = std::collections::BTreeMap::new();
        for draw in 0..30_000 {
            let order = random_order(6, 2, 1, draw);
            assert!(order.len() == 2 && order[0] != order[1]);
            first[order[0]] += 1;
            *pairs.entry((order[0].min(order[1]), order[0].max(order[1]))).or_insert(0) += 1;
        }
        assert!(first.iter().all(|&n| (4_700..5_300).contains(&n)), "{first:?}");
        assert!(pairs.len() == 15 && pairs.values().all(|&n: &i32| (1_800..2_200).contains(&n)), "{pairs:?}");
    }
}
