//! Detects, from the equations, codes that an additive FFT can encode and decode: their points are
//! in cosets of a subspace.
//!
//! Let T be a power of two from 4 to 128, b_0 = 1, and b_i^2 + b_i = b_{i-1}. x_n is the sum of the
//! b_i whose bit i is set in n, for n from 0 to T - 1. Such a code has one row, and more than T / 2
//! and at most T parities. Parity r of a data column at y is s(y) / (x_r + y), where s is the map
//! X^2 + X applied log2 T times. The family of the code is not used: y is computed from the first
//! two coefficients of a column, each b_i from a further one, and all coefficients are compared.
//!
//! The columns of a coset are a group of the kernel's [`Fft`]. The parities are the group of the
//! coset of 0: the states of all columns of a stripe add up to zero. So the T states of the columns
//! that are read equal those of the lost ones. Four lost columns are solved by a 4 x 4 system. For
//! more points see `transforms.rs`.

use pantile_code::{CellIndex, Code};
use pantile_gf::{Gf, eliminate};
use pantile_kernel::{Fft, FftGroup, FftOutputs, Program};
use pantile_plan::CellSet;

/// The most points of a coset.
const POINTS_MOST: usize = 128;

/// The most points whose states stay in registers.
const STATES_MOST: usize = 8;

/// The number of points of a coset, in codes whose lost columns are solved from states.
const SOLVED_POINTS: usize = 4;

/// The least number of lost columns for which the FFT may take less time than sums of products.
const LOST_LEAST: usize = 4;

/// Instructions per vector if four columns are lost (AVX-512). In order: for a group with columns
/// in both halves, for a group with columns in one half, and for all later steps.
const OF_WHOLE: usize = 13;
const OF_HALF: usize = 8;
const OF_STATES: usize = 36;

/// The cost of sums of products, on the same scale: for each surviving column, and for the rest.
const OF_COLUMN: usize = 6;
const OF_SUMS: usize = 28;

/// One element for each point, for codes with at most [`STATES_MOST`] points.
type Points<T> = [T; STATES_MOST];

/// The columns of a code, by coset and point.
#[derive(Debug)]
pub(crate) struct Cosets {
    /// x_0 .. x_{T-1}.
    pub(crate) xs: Vec<Gf>,
    pub(crate) groups: Vec<Coset>,
    /// The parity at each x; `None` where the code has none.
    pub(crate) parities: Vec<Option<CellIndex>>,
}

/// The data columns of a coset.
#[derive(Debug)]
pub(crate) struct Coset {
    /// The first of its points; the others are y + x.
    pub(crate) y: Gf,
    /// s(y), equal for all points of a coset and different between cosets.
    pub(crate) s: Gf,
    /// The column at y + x for each x; `None` where the code has none.
    pub(crate) columns: Vec<Option<CellIndex>>,
}

/// Returns x^2 + x, which maps each b_i to b_{i-1}, and 1 to 0.
fn halved(x: Gf) -> Gf {
    x * x + x
}

/// Returns all sums of basis elements: sum n has the elements whose bit is set in n.
fn subspace(basis: &[Gf]) -> Vec<Gf> {
    let sum = |n: usize| basis.iter().enumerate().filter(|(bit, _)| n >> bit & 1 == 1).map(|(_, &b)| b).sum();
    (0..1 << basis.len()).map(sum).collect()
}

/// Returns the first columns as an array, filled up with `nothing`.
fn few<T: Copy>(columns: &[T], nothing: T) -> Points<T> {
    std::array::from_fn(|i| columns.get(i).copied().unwrap_or(nothing))
}

impl Cosets {
    /// Returns the cosets of a code; `None` if its points are not in cosets. Cost: one pass over
    /// its generator.
    pub(crate) fn of(code: &Code) -> Option<Cosets> {
        let m = code.parity().len();
        if !(3..=POINTS_MOST).contains(&m) || code.rows_max() != 1 || code.cell_count() != code.columns() {
            return None;
        }
        let generator = code.generator();
        let quotient = |a: Gf, b: Gf| (!b.is_zero()).then(|| a / b);
        let point = |position: usize| {
            let [c0, c1] = [0, 1].map(|row| generator.get(row, position));
            quotient(c1, c0 + c1)
        };
        let first = point(0)?;
        // With c_r the coefficient in parity r, y + x_r = s(y) / c_r and s(y) = c_0 y.
        let at = |row: usize| Some(first + quotient(generator.get(0, 0) * first, generator.get(row, 0))?);
        let points = m.next_power_of_two();
        let mut basis = vec![Gf::ONE];
        for bit in 1..points.ilog2() {
            basis.push(at(1 << bit)?);
        }
        if !basis.windows(2).all(|pair| halved(pair[1]) == pair[0]) {
            return None;
        }
        let xs = subspace(&basis);
        let mut groups: Vec<Coset> = Vec::new();
        for (position, &cell) in code.data().iter().enumerate() {
            let y = point(position)?;
            let s = (0..points.ilog2()).fold(y, |x, _| halved(x));
            let is_so = |(row, &x): (usize, &Gf)| (x + y) * generator.get(row, position) == s;
            if s.is_zero() || !xs[..m].iter().enumerate().all(is_so) {
                return None;
            }
            let index = groups.iter().position(|coset| coset.s == s).unwrap_or_else(|| {
                groups.push(Coset { y, s, columns: vec![None; points] });
                groups.len() - 1
            });
            let coset = &mut groups[index];
            let place = xs.iter().position(|&x| coset.y + x == y)?;
            if coset.columns[place].replace(cell).is_some() {
                return None;
            }
        }
        let parities = (0..points).map(|i| code.parity().get(i).copied()).collect();
        Some(Cosets { xs, groups, parities })
    }

    /// Returns T, the number of points of a coset.
    pub(crate) fn points(&self) -> usize {
        self.xs.len()
    }

    /// The program that computes every parity; `None` if this machine has no kernels for it, or if
    /// sums of products take less time.
    pub(crate) fn encoder(&self, code: &Code) -> Option<Program> {
        match self.points() > STATES_MOST {
            true => self.by_transforms(code, &CellSet::of_columns(code, &[])),
            false => self.encoder_of(code, |_| true),
        }
    }

    /// Returns the program that encodes some of the parities by states in registers.
    fn encoder_of(&self, code: &Code, is_wanted: impl Fn(CellIndex) -> bool) -> Option<Program> {
        let wanted = |parity: Option<CellIndex>| parity.filter(|&cell| is_wanted(cell)).map(CellIndex::usize);
        let outputs = few(&self.parities, None).map(wanted);
        self.program(code, |_| true, [None; STATES_MOST], FftOutputs::Values(outputs))
    }

    /// The program that recovers everything lost. `None` if this machine has no kernels for it, if
    /// sums of products take less time, or if too much is lost.
    ///
    /// It reads all surviving data, and as many of the first surviving parities as data are lost.
    pub(crate) fn decoder(&self, code: &Code, lost: &CellSet) -> Option<Program> {
        if lost.len() < LOST_LEAST || lost.len() > code.parity().len() {
            return None;
        }
        let is_lost = |cell: CellIndex| lost.contains(cell);
        let data_lost = code.data().iter().filter(|&&cell| is_lost(cell)).count();
        if data_lost == 0 && self.points() <= STATES_MOST {
            return self.encoder_of(code, is_lost);
        }
        if self.points() != SOLVED_POINTS {
            return self.by_transforms(code, lost);
        }
        let mut left = data_lost;
        let read = self.parities.iter().map(|parity| {
            let read = parity.filter(|&cell| left > 0 && !is_lost(cell));
            left -= usize::from(read.is_some());
            read
        });
        if !self.is_faster(is_lost) {
            return None;
        }
        let mut at_origin = [None; STATES_MOST];
        at_origin.iter_mut().zip(read).for_each(|(at, read)| *at = read);
        // The unread points: unread cells, and points of the coset of 0 that have no parity.
        let mut unknown = [(None, [Gf::ZERO; SOLVED_POINTS]); SOLVED_POINTS];
        let mut count = 0;
        let mut add = |cell: Option<CellIndex>, states: Points<Gf>| {
            *unknown.get_mut(count)? = (cell, std::array::from_fn(|state| states[state]));
            count += 1;
            Some(())
        };
        for coset in &self.groups {
            let lost = |(_, cell): &(usize, &Option<CellIndex>)| cell.is_some_and(is_lost);
            for (place, cell) in coset.columns.iter().enumerate().filter(lost) {
                add(*cell, self.states_of(coset.y + self.xs[place]))?;
            }
        }
        for place in (0..SOLVED_POINTS).filter(|&place| at_origin[place].is_none()) {
            add(self.parities[place], self.states_of(self.xs[place]))?;
        }
        // [A | I] becomes [I | A^-1], where column u of A has the coefficients of unknown u in the
        // states.
        let mut work = [Gf::ZERO; 2 * SOLVED_POINTS * SOLVED_POINTS];
        for (state, line) in work.chunks_exact_mut(2 * SOLVED_POINTS).enumerate() {
            line.iter_mut().zip(&unknown).for_each(|(x, (_, states))| *x = states[state]);
            line[SOLVED_POINTS + state] = Gf::ONE;
        }
        if count < SOLVED_POINTS || !eliminate(SOLVED_POINTS, &mut work) {
            return None;
        }
        let mut rows = Vec::with_capacity(SOLVED_POINTS);
        for (line, (cell, _)) in work.chunks_exact(2 * SOLVED_POINTS).zip(unknown) {
            if let Some(cell) = cell.filter(|&cell| is_lost(cell)) {
                let mut row = [0; STATES_MOST];
                row.iter_mut().zip(&line[SOLVED_POINTS..]).for_each(|(x, c)| *x = c.0);
                rows.push((cell.usize(), row));
            }
        }
        self.program(code, |cell| !is_lost(cell), at_origin, FftOutputs::Solved(rows))
    }

    /// True if recovering four lost columns, some of them data, costs less by states than by sums
    /// of products.
    fn is_faster(&self, is_lost: impl Fn(CellIndex) -> bool) -> bool {
        let left_in =
            |columns: &[Option<CellIndex>]| columns.iter().flatten().filter(|&&cell| !is_lost(cell)).count();
        let halves =
            self.groups.iter().map(|coset| [0, 2].map(|first| left_in(&coset.columns[first..first + 2])));
        let (by_states, by_sums) = halves.fold((OF_STATES, OF_SUMS), |(by_states, by_sums), left| {
            let of_group = match left {
                [0, 0] => 0,
                [0, _] | [_, 0] => OF_HALF,
                _ => OF_WHOLE,
            };
            (by_states + of_group, by_sums + OF_COLUMN * (left[0] + left[1]))
        });
        by_states < by_sums
    }

    fn program(
        &self,
        code: &Code,
        is_read: impl Fn(CellIndex) -> bool,
        at_origin: Points<Option<CellIndex>>,
        outputs: FftOutputs,
    ) -> Option<Program> {
        let group = |y: Gf, columns: Points<Option<CellIndex>>| FftGroup {
            columns: columns.map(|cell| cell.filter(|&cell| is_read(cell)).map(CellIndex::usize)),
            factors: std::array::from_fn(|i| self.factor(y, i)),
        };
        let groups = self.groups.iter().map(|coset| group(coset.y, few(&coset.columns, None))).collect();
        let fft = Fft { points: self.points(), groups, origin: group(Gf::ZERO, at_origin), outputs };
        match Program::fft(code.cell_count(), &fft) {
            Ok(program) => program,
            Err(error) => unreachable!("what is lost or parity is written, the rest is read: {error}"),
        }
    }

    /// Returns factor `index` of the transform of the coset whose first point is y; 0 beyond the
    /// last factor.
    ///
    /// Level i has T / 2^(i+1) factors: X^2 + X applied i times to y, plus x_0, x_2, x_4 and so on.
    pub(crate) fn factor(&self, y: Gf, mut index: usize) -> u8 {
        let (mut y, mut of_level) = (y, self.points() / 2);
        while index >= of_level {
            if of_level == 0 {
                return 0;
            }
            (index, of_level, y) = (index - of_level, of_level / 2, halved(y));
        }
        (y + self.xs[2 * index]).0
    }

    /// Returns the term that a column at z adds to each of four states.
    ///
    /// The polynomial that is 1 at z and 0 at the other points of its coset is the product over the
    /// levels i of 1 + z_i + X_i, where z_i and X_i are z and X after i applications of X^2 + X.
    fn states_of(&self, z: Gf) -> Points<Gf> {
        let of_level = [z, halved(z)].map(|z| z + Gf::ONE);
        std::array::from_fn(|state| {
            let levels = of_level.into_iter().enumerate();
            levels.filter(|(i, _)| state >> i & 1 == 0).map(|(_, factor)| factor).product()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Codec;
    use pantile_code::{Claim, CodeBuilder};

    fn parse(spec: &str) -> Code {
        Code::parse(spec).unwrap()
    }

    /// Returns the code with its data columns in another order and, if `change` is given, one
    /// coefficient changed.
    fn changed(code: &Code, order: impl Fn(usize) -> usize, change: Option<(usize, usize)>) -> Code {
        let (k, m) = (code.data().len(), code.parity().len());
        let mut builder = CodeBuilder::uniform(k + m, 1);
        for r in 0..m {
            let extra = |j: usize| if change == Some((r, j)) { Gf::ONE } else { Gf::ZERO };
            let terms: Vec<_> =
                (0..k).map(|j| ((0, j), code.generator().get(r, order(j)) + extra(j))).collect();
            builder.define((0, k + r), terms);
        }
        builder.finish("changed", "custom", Claim { tolerance: m, mds: true })
    }

    #[test]
    fn points_in_cosets_are_found_in_any_order_and_in_no_other_code() {
        let small = (1..=24usize).flat_map(|k| [3usize, 4, 5, 6, 7, 8, 9, 17].map(|m| (k, m)));
        let large = [(252, 3), (252, 4), (248, 5), (248, 8), (240, 16), (100, 50), (128, 65), (128, 128)];
        for (k, m) in small.chain(large) {
            let points = m.next_power_of_two();
            let code = parse(&format!("lch:{k}+{m}"));
            let cosets = Cosets::of(&code).unwrap_or_else(|| panic!("{code}"));
            assert_eq!(cosets.groups.len(), k.div_ceil(points), "{code}");
            let reversed = changed(&code, |j| k - 1 - j, None);
            assert_eq!(Cosets::of(&reversed).map(|cosets| cosets.groups.len()), Some(k.div_ceil(points)));
            if k <= 24 {
                for change in (0..m).flat_map(|r| (0..k).map(move |j| (r, j))) {
                    let is_other = Cosets::of(&changed(&code, |j| j, Some(change))).is_none();
                    assert!(is_other, "{code} with another coefficient at {change:?}");
                }
            }
        }
        for spec in [
            "lch:6+2",
            "cauchy:8+4",
            "cauchy:8+6",
            "rs:8+8",
            "rs:20+16",
            "rs:100+50",
            "rs:128+128",
            "rs:8+4",
            "rs:6+3,vandermonde",
            "raidq:8+4",
            "raid6:5",
        ] {
            assert!(Cosets::of(&parse(spec)).is_none(), "{spec}");
        }
    }

    /// Compares with sums of products from the generator.
    #[test]
    fn fft_results_equal_sums_of_products() {
        let paint = |i: usize| (0..300).map(|at| (i * 37 + at * 11 + at / 7) as u8).collect::<Vec<u8>>();
        for (k, m, wanted) in [
            (1, 4, [4, 1]),
            (3, 3, [20, 0]),
            (4, 4, [69, 1]),
            (6, 4, [179, 31]),
            (8, 4, [196, 299]),
            (13, 4, [240, 2140]),
            (5, 5, [456, 6]),
            (1, 8, [218, 163]),
            (5, 8, [6558, 163]),
        ] {
            let mut made = [0; 2];
            let code = parse(&format!("lch:{k}+{m}"));
            let codec = Codec::new(&code);
            let mut cells: Vec<Vec<u8>> = (0..k + m).map(paint).collect();
            let views = |cells: &mut Vec<Vec<u8>>, run: &dyn Fn(&mut [&mut [u8]])| {
                let mut views: Vec<&mut [u8]> = cells.iter_mut().map(Vec::as_mut_slice).collect();
                run(&mut views);
            };
            views(&mut cells, &|views| codec.encode(views).unwrap());
            for r in 0..m {
                let of_byte = |at: usize| {
                    (0..k).fold(Gf::ZERO, |sum, j| sum + code.generator().get(r, j) * Gf(cells[j][at])).0
                };
                assert_eq!(cells[k + r], (0..300).map(of_byte).collect::<Vec<u8>>(), "{code}, parity {r}");
            }
            let n = k + m;
            let sets = (0u32..1 << n).filter(|set| set.count_ones() as usize <= m);
            for set in sets.filter(|set| set.count_ones() as usize >= LOST_LEAST.min(m)) {
                let lost: Vec<usize> = (0..n).filter(|i| set >> i & 1 == 1).collect();
                let mut damaged = cells.clone();
                lost.iter().for_each(|&i| damaged[i].fill(0x5a));
                views(&mut damaged, &|views| codec.reconstruct(views, &lost).unwrap());
                assert!(damaged == cells, "{code} without {lost:?}");
                let set = CellSet::of_columns(&code, &lost);
                made[usize::from(Cosets::of(&code).unwrap().decoder(&code, &set).is_some())] += 1;
            }
            if pantile_kernel::Tier::best() != pantile_kernel::Tier::Portable {
                assert_eq!(made, wanted, "{code}: sets of columns by sums of products, and by states");
            }
        }
    }
}
