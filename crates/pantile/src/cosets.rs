//! Codes whose points lie in cosets of {0, 1, b, b + 1}, found in their equations: what an additive FFT can encode and decode.
//!
//! A code of one row and three or four parities such that parity r of a data column at y is s(y) / (x_r + y), with x_r the first of 0, 1, b, b + 1,
//! b^2 + b = 1 and s(y) = w^2 + w, w = y^2 + y. Nothing is asked of the family: y follows from the first two coefficients of a column, b from the third, and all
//! are compared.
//!
//! The columns of a coset are a group of the kernel's [`Fft`], and so are the parities, at the coset of 0: the states of all columns of a stripe add up to zero. So the
//! states of what is read are those of what is not, of which there are four, and a 4 x 4 system gives these.

use pantile_code::{CellIndex, Code};
use pantile_gf::{Gf, eliminate};
use pantile_kernel::{Fft, FftGroup, FftOutputs, Program};
use pantile_plan::CellSet;

/// Points of a coset, and states.
const POINTS: usize = 4;

/// Lost columns from which on the FFT takes less time than sums of products.
const LOST_LEAST: usize = 4;

/// Where the columns of a code lie.
#[derive(Debug)]
pub(crate) struct Cosets {
    b: Gf,
    groups: Vec<Coset>,
    parities: [Option<CellIndex>; POINTS],
}

/// The data columns of a coset.
#[derive(Debug)]
struct Coset {
    /// The first of its points.
    y: Gf,
    /// y^2 + y.
    w: Gf,
    /// s(y), by which cosets are told apart.
    s: Gf,
    columns: [Option<CellIndex>; POINTS],
}

impl Cosets {
    /// `None` if the code has no such points. Cost: one pass over its generator.
    pub(crate) fn of(code: &Code) -> Option<Cosets> {
        let m = code.parity().len();
        if !(3..=POINTS).contains(&m) || code.rows_max() != 1 || code.cell_count() != code.columns() {
            return None;
        }
        let generator = code.generator();
        let quotient = |a: Gf, b: Gf| (!b.is_zero()).then(|| a / b);
        let point = |position: usize| {
            let [c0, c1] = [0, 1].map(|row| generator.get(row, position));
            quotient(c1, c0 + c1)
        };
        let b = {
            let [c0, c2] = [0, 2].map(|row| generator.get(row, 0));
            let y = point(0)?;
            y + quotient(c0 * y, c2)?
        };
        if b * b + b != Gf::ONE {
            return None;
        }
        let points = [Gf::ZERO, Gf::ONE, b, b + Gf::ONE];
        let mut cosets = Cosets { b, groups: Vec::new(), parities: [None; POINTS] };
        for (position, &cell) in code.data().iter().enumerate() {
            let y = point(position)?;
            let w = y * y + y;
            let s = w * w + w;
            let is_so = |(row, &x): (usize, &Gf)| (x + y) * generator.get(row, position) == s;
            if s.is_zero() || !points[..m].iter().enumerate().all(is_so) {
                return None;
            }
            let index = cosets.groups.iter().position(|coset| coset.s == s).unwrap_or_else(|| {
                cosets.groups.push(Coset { y, w, s, columns: [None; POINTS] });
                cosets.groups.len() - 1
            });
            let coset = &mut cosets.groups[index];
            let place = points.iter().position(|&x| coset.y + x == y)?;
            if coset.columns[place].replace(cell).is_some() {
                return None;
            }
        }
        cosets.parities.iter_mut().zip(code.parity()).for_each(|(at, &cell)| *at = Some(cell));
        Some(cosets)
    }

    /// The program that computes every parity; `None` if this machine has no kernels for it.
    pub(crate) fn encoder(&self, code: &Code) -> Option<Program> {
        let outputs = self.parities.map(|parity| parity.map(CellIndex::usize));
        self.program(code, |_| true, [None; POINTS], FftOutputs::Values(outputs))
    }

    /// The program that recovers everything lost; `None` as above, or if sums of products take less time, or too much is lost.
    ///
    /// Reads all data left and the first parities left, as many as data are lost.
    pub(crate) fn decoder(&self, code: &Code, lost: &CellSet) -> Option<Program> {
        if lost.len() < LOST_LEAST || lost.len() > code.parity().len() {
            return None;
        }
        let is_lost = |cell: CellIndex| lost.contains(cell);
        let data_lost = code.data().iter().filter(|&&cell| is_lost(cell)).count();
        let mut left = data_lost;
        let read = self.parities.map(|parity| {
            let read = parity.filter(|&cell| left > 0 && !is_lost(cell));
            left -= usize::from(read.is_some());
            read
        });
        if data_lost == 0 {
            let outputs =
                self.parities.map(|parity| parity.filter(|&cell| is_lost(cell)).map(CellIndex::usize));
            return self.program(code, |_| true, read, FftOutputs::Values(outputs));
        }
        // What is not read: cells, and points of parities that the code does not have.
        let mut unknown: [(Option<CellIndex>, [Gf; POINTS]); POINTS] = [(None, [Gf::ZERO; POINTS]); POINTS];
        let mut count = 0;
        let origin = Coset { y: Gf::ZERO, w: Gf::ZERO, s: Gf::ZERO, columns: self.parities };
        for (coset, is_origin) in self.groups.iter().map(|coset| (coset, false)).chain([(&origin, true)]) {
            for (place, &cell) in coset.columns.iter().enumerate() {
                let is_unknown = match is_origin {
                    true => read[place].is_none(),
                    false => cell.is_some_and(is_lost),
                };
                if is_unknown {
                    *unknown.get_mut(count)? = (cell, coset.states_of(place, self.b));
                    count += 1;
                }
            }
        }
        // [A | I] becomes [I | A^-1], where column u of A is what the unknown u adds to the states.
        let mut work = [Gf::ZERO; 2 * POINTS * POINTS];
        for (state, line) in work.chunks_exact_mut(2 * POINTS).enumerate() {
            line.iter_mut().zip(&unknown).for_each(|(x, (_, states))| *x = states[state]);
            line[POINTS + state] = Gf::ONE;
        }
        if count < POINTS || !eliminate(POINTS, &mut work) {
            return None;
        }
        let row_of = |u: usize| std::array::from_fn(|state| work[u * 2 * POINTS + POINTS + state].0);
        let rows = unknown.iter().enumerate().filter_map(|(u, (cell, _))| {
            let cell = (*cell).filter(|&cell| is_lost(cell))?;
            Some((cell.usize(), row_of(u)))
        });
        self.program(code, |cell| !is_lost(cell), read, FftOutputs::Solved(rows.collect()))
    }

    fn program(
        &self,
        code: &Code,
        is_read: impl Fn(CellIndex) -> bool,
        at_origin: [Option<CellIndex>; POINTS],
        outputs: FftOutputs,
    ) -> Option<Program> {
        let group = |coset: &Coset| FftGroup {
            columns: coset.columns.map(|cell| cell.filter(|&cell| is_read(cell)).map(CellIndex::usize)),
            factors: [coset.y.0, (coset.y + self.b).0, coset.w.0],
        };
        let groups = self.groups.iter().map(group).collect();
        let at_origin = at_origin.map(|cell| cell.map(CellIndex::usize));
        let fft = Fft { groups, at_origin, factor: self.b.0, outputs };
        match Program::fft(code.cell_count(), &fft) {
            Ok(program) => program,
            Err(error) => unreachable!("what is lost or parity is written, the rest is read: {error}"),
        }
    }
}

impl Coset {
    /// What the column at a place adds to each state.
    fn states_of(&self, place: usize, b: Gf) -> [Gf; POINTS] {
        let v: [Gf; POINTS] = std::array::from_fn(|i| if i == place { Gf::ONE } else { Gf::ZERO });
        let (e1, o1) = (v[0] + v[1], v[2] + v[3]);
        let (e0, o0) = (v[0] + self.y * e1, v[2] + (self.y + b) * o1);
        let (a2, a3) = (e0 + o0, e1 + o1);
        [e0 + self.w * a2, e1 + self.w * a3, a2, a3]
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

    /// The code with its data columns in another order and one coefficient changed.
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
        for (k, m) in (1..=24usize).flat_map(|k| [(k, 3), (k, 4)]).chain([(252, 3), (252, 4)]) {
            let code = parse(&format!("lch:{k}+{m}"));
            let cosets = Cosets::of(&code).unwrap_or_else(|| panic!("{code}"));
            assert_eq!(cosets.groups.len(), k.div_ceil(POINTS), "{code}");
            let reversed = changed(&code, |j| k - 1 - j, None);
            assert_eq!(Cosets::of(&reversed).map(|cosets| cosets.groups.len()), Some(k.div_ceil(POINTS)));
            if k <= 24 {
                for change in (0..m).flat_map(|r| (0..k).map(move |j| (r, j))) {
                    let is_other = Cosets::of(&changed(&code, |j| j, Some(change))).is_none();
                    assert!(is_other, "{code} with another coefficient at {change:?}");
                }
            }
        }
        for spec in
            ["lch:6+2", "lch:6+5", "cauchy:8+4", "rs:8+4", "rs:6+3,vandermonde", "raidq:8+4", "raid6:5"]
        {
            assert!(Cosets::of(&parse(spec)).is_none(), "{spec}");
        }
    }

    /// As steps of the same code, which has no points that anybody could find.
    #[test]
    fn what_the_fft_makes_is_what_sums_of_products_make() {
        let paint = |i: usize| (0..300).map(|at| (i * 37 + at * 11 + at / 7) as u8).collect::<Vec<u8>>();
        for (k, m) in [(1, 4), (3, 3), (4, 4), (6, 4), (7, 4), (13, 4)] {
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
                let program = Cosets::of(&code).unwrap().decoder(&code, &set);
                let has_kernels = pantile_kernel::Tier::best() != pantile_kernel::Tier::Portable;
                assert_eq!(
                    program.is_some(),
                    has_kernels && lost.len() >= LOST_LEAST,
                    "{code} without {lost:?}"
                );
            }
        }
    }
}
