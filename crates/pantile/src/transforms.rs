//! Encoding and decoding of codes whose points are in cosets of more than eight points, by
//! transforms over whole cosets.
//!
//! **Encoding.** The coefficients of the data groups add up to those of a polynomial whose values
//! on the coset of 0 are the parities.
//!
//! **Decoding.** E is the set of the T points of lost data and of all parities that are not read;
//! L(X) is the product of X + e over E, and V the coset of 0. In a stripe, the parity at each x of
//! V is the sum over all data columns of s(y) / (x + y) times the column at y. So S(x), the parity
//! read at x plus the terms of the surviving data, is the sum of the terms of the lost data. On V,
//! S L has the values of
//!
//! ```text
//! N(X) = sum over the lost data at e of c_e s(e) L(X) / (X + e)
//! N(e) = c_e s(e) L'(e),     deg N < T
//! ```
//!
//! where S is not needed at parities that are not read, because L is zero there. So S on V is
//! multiplied by L, turned into coefficients, evaluated on each coset in which data are lost, and
//! divided by s(e) L'(e). The result is the lost data, with T points per transform, not one for
//! every column of the code. Lost parities are encoded afterwards.
//!
//! Source: the polynomials and transforms of docs/codes/lch.md. The product with the locator of
//! erasures, whose values give N, is Forney's algorithm for known positions (G. D. Forney, "On
//! decoding BCH codes", 1965), with values on a subspace in place of syndromes.

use crate::cosets::{Coset, Cosets};
use pantile_code::{CellIndex, Code};
use pantile_gf::Gf;
use pantile_kernel::{Lanes, Network, NetworkStep, Program, Tier};
use pantile_plan::CellSet;

impl Cosets {
    /// Returns the program that recovers every lost cell, or computes every parity if none is lost;
    /// `None` if sums of products take less time.
    ///
    /// The code must have a parity for each lost cell. Reads all surviving data and the first
    /// surviving parities, one for each lost data cell.
    pub(crate) fn by_transforms(&self, code: &Code, lost: &CellSet) -> Option<Program> {
        let network = self.network(code, lost);
        let (k, m) = (code.data().len(), code.parity().len());
        let sums = if lost.is_empty() { k * m } else { k * lost.len() };
        (network.products_of_sums(Tier::best()) < sums).then(|| program(code, &network))
    }

    /// Returns the network of that program.
    fn network(&self, code: &Code, lost: &CellSet) -> Network {
        let is_lost = |cell: CellIndex| lost.contains(cell);
        let is_wanted = |parity: CellIndex| lost.is_empty() || lost.contains(parity);
        let parities = buffers(&self.parities, is_wanted);
        let encodes = parities.iter().any(Option::is_some);
        let mut work = Work::of(self);
        for coset in &self.groups {
            work.add_states(coset, |cell| !is_lost(cell));
        }
        if code.data().iter().any(|&cell| is_lost(cell)) {
            self.recover(&mut work, &is_lost, encodes);
        }
        if encodes {
            work.forward(0, Gf::ZERO, Lanes::Buffers(parities));
        }
        Network { slots: work.slots, steps: work.steps }
    }

    /// Writes lost data, from the states of the surviving data. If `kept`, the recovered data are
    /// then added to the states.
    fn recover(&self, work: &mut Work<'_>, is_lost: &impl Fn(CellIndex) -> bool, kept: bool) {
        let lost_of = |coset: &Coset| buffers(&coset.columns, is_lost);
        let with_losses: Vec<&Coset> =
            self.groups.iter().filter(|coset| lost_of(coset).iter().any(Option::is_some)).collect();
        let points_of = |coset: &Coset| {
            let points = self.xs.iter().map(|&x| coset.y + x).zip(lost_of(coset));
            points.filter_map(|(point, lost)| lost.and(Some(point))).collect::<Vec<_>>()
        };
        let mut erased: Vec<Gf> = with_losses.iter().flat_map(|coset| points_of(coset)).collect();
        let mut left = erased.len();
        let read: Vec<Option<usize>> = (self.parities.iter())
            .map(|parity| {
                let read = parity.filter(|&cell| left > 0 && !is_lost(cell));
                left -= usize::from(read.is_some());
                read.map(CellIndex::usize)
            })
            .collect();
        erased.extend(self.xs.iter().zip(&read).filter(|(_, read)| read.is_none()).map(|(&x, _)| x));
        // L at a point, or L' where L is zero.
        let locator =
            |point: Gf| erased.iter().map(|&e| point + e).filter(|factor| !factor.is_zero()).product::<Gf>();

        let sums = work.values_of_states(kept);
        let polynomial = sums.unwrap_or_else(|| if kept { work.new_slots() } else { 0 });
        let of_parity = |(&x, read): (&Gf, &Option<usize>)| read.map_or(0, |_| locator(x).0);
        work.steps.push(NetworkStep::Scale {
            from: sums,
            factors: self.xs.iter().zip(&read).map(of_parity).collect(),
            plus: read,
            to: Lanes::Slots(polynomial),
        });
        work.inverse(Lanes::Slots(polynomial), Gf::ZERO, polynomial, false);
        let values = if with_losses.len() > 1 { work.new_slots() } else { polynomial };
        for coset in &with_losses {
            work.forward(polynomial, coset.y, Lanes::Slots(values));
            let of_lost = |(&x, lost): (&Gf, &Option<usize>)| {
                lost.map_or(0, |_| (Gf::ONE / (coset.s * locator(coset.y + x))).0)
            };
            let to = lost_of(coset);
            work.steps.push(NetworkStep::Scale {
                from: Some(values),
                plus: vec![None; self.points()],
                factors: self.xs.iter().zip(&to).map(of_lost).collect(),
                to: Lanes::Buffers(to),
            });
        }
        if kept {
            with_losses.iter().for_each(|coset| work.add_states(coset, is_lost));
        }
    }
}

fn program(code: &Code, network: &Network) -> Program {
    match Program::network(code.cell_count(), network) {
        Ok(program) => program,
        Err(error) => {
            unreachable!("what is lost or parity is written once, and slots before they are read: {error}")
        }
    }
}

/// Returns the buffer index of each column for which `is_so` is true.
fn buffers(columns: &[Option<CellIndex>], is_so: impl Fn(CellIndex) -> bool) -> Vec<Option<usize>> {
    columns.iter().map(|cell| cell.filter(|&cell| is_so(cell)).map(CellIndex::usize)).collect()
}

/// A network under construction. The states of columns are in its first slots.
struct Work<'a> {
    cosets: &'a Cosets,
    steps: Vec<NetworkStep>,
    slots: usize,
    has_states: bool,
}

impl Work<'_> {
    fn of(cosets: &Cosets) -> Work<'_> {
        Work { cosets, steps: Vec::new(), slots: cosets.points(), has_states: false }
    }

    /// Reserves as many slots as there are points, for one use; returns the first.
    fn new_slots(&mut self) -> usize {
        self.slots += self.cosets.points();
        self.slots - self.cosets.points()
    }

    fn factors(&self, y: Gf) -> Vec<u8> {
        (0..self.cosets.points() - 1).map(|i| self.cosets.factor(y, i)).collect()
    }

    fn inverse(&mut self, from: Lanes, y: Gf, to: usize, adds: bool) {
        self.steps.push(NetworkStep::Inverse { from, factors: self.factors(y), to, adds });
    }

    fn forward(&mut self, from: usize, y: Gf, to: Lanes) {
        self.steps.push(NetworkStep::Forward { from, factors: self.factors(y), to });
    }

    /// Adds the states of some columns of a coset.
    fn add_states(&mut self, coset: &Coset, is_so: impl Fn(CellIndex) -> bool) {
        let columns = buffers(&coset.columns, is_so);
        if columns.iter().any(Option::is_some) {
            self.inverse(Lanes::Buffers(columns), coset.y, 0, self.has_states);
            self.has_states = true;
        }
    }

    /// Returns the first slot of the values of the states on the coset of 0, or `None` if there are
    /// no states. If `kept`, the states are preserved.
    fn values_of_states(&mut self, kept: bool) -> Option<usize> {
        if !self.has_states {
            return None;
        }
        let to = if kept { self.new_slots() } else { 0 };
        self.forward(0, Gf::ZERO, Lanes::Slots(to));
        Some(to)
    }
}

#[cfg(test)]
mod tests {
    //! Compares with the definition. Transforms are used here even where the tier would choose
    //! sums.

    use super::*;

    /// True if the parities are correct at the sampled bytes.
    fn is_encoded(code: &Code, cells: &[Vec<u8>]) -> bool {
        let k = code.data().len();
        let of_byte = |r: usize, at: usize| {
            (0..k).fold(Gf::ZERO, |sum, j| sum + code.generator().get(r, j) * Gf(cells[j][at])).0
        };
        let len = cells[0].len();
        let places = [0, len / 3, len - 1];
        (0..code.parity().len()).all(|r| places.iter().all(|&at| cells[k + r][at] == of_byte(r, at)))
    }

    fn run(program: &Program, cells: &mut [Vec<u8>]) {
        let mut views: Vec<&mut [u8]> = cells.iter_mut().map(Vec::as_mut_slice).collect();
        program.run(&mut views).unwrap();
    }

    fn parse(k: usize, m: usize) -> (Code, Cosets) {
        let code = Code::parse(&format!("lch:{k}+{m}")).unwrap();
        let cosets = Cosets::of(&code).unwrap();
        (code, cosets)
    }

    fn encoder(code: &Code, cosets: &Cosets) -> Program {
        program(code, &cosets.network(code, &CellSet::of_columns(code, &[])))
    }

    /// Loses these columns, and checks that they are recovered from the others.
    fn recovers(code: &Code, cosets: &Cosets, cells: &[Vec<u8>], lost: &[usize]) {
        let set = CellSet::of_columns(code, lost);
        let program = program(code, &cosets.network(code, &set));
        let mut damaged = cells.to_vec();
        lost.iter().for_each(|&i| damaged[i].fill(0x5a));
        // Unread cells may be absent.
        let unread = crate::program::unread(code, &set);
        unread.iter().for_each(|cell| damaged[cell.usize()].fill(0xa5));
        run(&program, &mut damaged);
        let is_recovered = |i: usize| damaged[i] == cells[i];
        assert!(lost.iter().all(|&i| is_recovered(i)), "{code} without {lost:?}");
        let is_left = |i: &usize| !unread.iter().any(|cell| cell.usize() == *i);
        assert!(
            (0..cells.len()).filter(is_left).all(is_recovered),
            "{code} without {lost:?}: others changed"
        );
    }

    fn painted(columns: usize, len: usize) -> Vec<Vec<u8>> {
        (0..columns).map(|i| (0..len).map(|at| (i * 37 + at * 11 + at / 7) as u8).collect()).collect()
    }

    #[test]
    fn all_losses_of_small_codes_are_recovered() {
        for (k, m) in [(1, 5), (3, 5), (4, 7), (9, 5), (2, 9), (5, 8)] {
            let (code, cosets) = parse(k, m);
            let mut cells = painted(k + m, 70);
            run(&encoder(&code, &cosets), &mut cells);
            assert!(is_encoded(&code, &cells), "{code}");
            for set in (1u32..1 << (k + m)).filter(|set| set.count_ones() as usize <= m) {
                let lost: Vec<usize> = (0..k + m).filter(|i| set >> i & 1 == 1).collect();
                recovers(&code, &cosets, &cells, &lost);
            }
        }
    }

    #[test]
    fn losses_of_any_number_of_large_codes_are_recovered() {
        let sizes =
            [(3, 9), (20, 16), (7, 17), (29, 51), (100, 50), (128, 128), (192, 64), (240, 16), (130, 20)];
        for (k, m) in sizes {
            let (code, cosets) = parse(k, m);
            let n = k + m;
            let mut cells = painted(n, 200);
            run(&encoder(&code, &cosets), &mut cells);
            assert!(is_encoded(&code, &cells), "{code}");
            let first: Vec<usize> = (0..m.min(k)).collect();
            let last: Vec<usize> = (n - m..n).collect();
            recovers(&code, &cosets, &cells, &first);
            recovers(&code, &cosets, &cells, &last);
            for seed in 1..12usize {
                let count = 1 + seed * seed * 31 % m;
                // A step that is coprime to n reaches all columns.
                let step = (seed * 7..).find(|&step| (2..=n).all(|d| n % d > 0 || step % d > 0)).unwrap();
                let mut lost: Vec<usize> = (0..count).map(|i| (seed * 13 + i * step) % n).collect();
                lost.sort_unstable();
                recovers(&code, &cosets, &cells, &lost);
            }
        }
    }

    #[test]
    fn transforms_are_taken_where_they_take_less_time() {
        let is_transformed = |k: usize, m: usize, lost: usize| {
            let (code, cosets) = parse(k, m);
            let lost: Vec<usize> = (0..lost).collect();
            match lost.is_empty() {
                true => cosets.encoder(&code).is_some(),
                false => cosets.decoder(&code, &CellSet::of_columns(&code, &lost)).is_some(),
            }
        };
        if Tier::best() == Tier::Portable {
            return println!("the portable tier has other costs: left out");
        }
        assert!(is_transformed(48, 16, 0) && is_transformed(128, 128, 0) && is_transformed(29, 51, 0));
        assert!(is_transformed(128, 128, 128) && is_transformed(100, 50, 50) && is_transformed(64, 32, 32));
        assert!(!is_transformed(2, 9, 0) && !is_transformed(48, 16, 1) && !is_transformed(128, 128, 4));
    }
}
