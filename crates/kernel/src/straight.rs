//! XOR programs as a straight line: sum after sum, with registers for what is needed again soonest.
//!
//! Bit-matrix codes have buffers that lie in ten sums and more, so no grid has few enough held sums to take them all in one sweep
//! ([`crate::braid`]). Here each sum is computed by itself. What it reads stays in a register if it is read again before whatever the register would hold
//! instead; which that is, is known, because the order of the sums is. What is not in a register is read from memory by the instruction that
//! adds it. A sum that is no buffer is written, to a slot, only if it has to leave its register.
//!
//! A slice is one vector, so that each register holds a value of its own: 16 values instead of 8 are worth more than whole lines, which the
//! first-level cache keeps from one slice to the next.
//!
//! Invariants: each buffer is stored once for each slice; a slot is written before it is read, and used again only when its sum is.

use crate::braid::{Place, Target, Vectors};
use crate::sums::{SharedSums, Sum, odd};
use crate::weave::NONE;

/// A vector register.
pub(crate) type Register = u8;

/// What an instruction does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// A register as zero.
    Zero(Register),
    /// A register as another one.
    Copy(Register, Register),
    /// A register as a place.
    Load(Register, Place),
    /// A register as the sum of a register and a place.
    Add(Register, Register, Place),
    /// A register as the sum of two.
    Sum(Register, [Register; 2]),
    /// A register to a place.
    Store(Register, Target),
}

/// What instructions on a vector cost, in parts of 0.027 ns: found on a Zen 3 at 3.5 GHz, where loads, stores and sums add up, by leaving those of each kind out
/// of a program of 1175 (bit matrix of 16 + 4 columns, vectors of 32 bytes).
pub(crate) mod cost {
    pub(crate) const MOVE: usize = 1;
    pub(crate) const SUM: usize = 3;
    pub(crate) const LOAD: usize = 4;
    pub(crate) const STORE: usize = 4;
    /// A load and a sum by one instruction.
    pub(crate) const ADD: usize = LOAD + SUM;
}

/// A compiled program.
#[derive(Debug)]
pub(crate) struct Straight {
    /// What it is made for.
    pub(crate) vectors: Vectors,
    /// The buffers in use, ascending.
    pub(crate) buffers: Vec<usize>,
    /// Slots of a slice each.
    pub(crate) slots: usize,
    pub(crate) ops: Vec<Op>,
}

/// Instructions at most: some 9 bytes each, in a cache of 32 KiB.
const OPS_MOST: usize = 3500;

/// What choosing an order may take, in sums that are looked at: a few milliseconds.
const ORDERING_EFFORT: usize = 1 << 20;

impl Straight {
    /// Compiles sums; `None` if they are too many, or come to too many instructions.
    pub(crate) fn new(shared: &SharedSums, vectors: Vectors) -> Option<Straight> {
        let buffers = shared.buffers().len() as u32;
        let sums = worth_sharing(shared.sums(), buffers);
        if sums.iter().map(|sum| sum.terms.len() + 1).sum::<usize>() > OPS_MOST
            || sums.len() * sums.len() > ORDERING_EFFORT
        {
            return None;
        }
        let places = shared.places();
        // How much an order looks back decides what it finds together. Which is best depends on the sums.
        let registers = vectors.registers();
        let tried = [registers / 2, registers * 3 / 4, registers].map(|reach| {
            let order = order(&sums, places, reach);
            let sums: Vec<&Sum> = order.iter().map(|&sum| &sums[sum]).collect();
            Allocation::of(&sums, places, buffers, registers).straight(vectors, shared.buffers().to_vec())
        });
        tried.into_iter().min_by_key(Straight::cost)
    }

    /// What a vector of each buffer costs: see [`cost`].
    pub(crate) fn cost(&self) -> usize {
        self.ops.iter().map(|op| op.cost()).sum()
    }

    /// Buffers that nothing reads, by their numbers in `buffers`.
    pub(crate) fn last(&self) -> Vec<usize> {
        let last = self.ops.iter().filter_map(|op| match op {
            Op::Store(_, Target { place: Place::Buffer(buffer), is_last: true }) => Some(*buffer),
            _ => None,
        });
        last.collect()
    }

    /// How often it reads memory.
    pub(crate) fn terms(&self) -> usize {
        self.ops.iter().filter(|op| op.reads().is_some()).count()
    }
}

impl Op {
    /// The place that it reads.
    pub(crate) fn reads(self) -> Option<Place> {
        match self {
            Op::Load(_, place) | Op::Add(_, _, place) => Some(place),
            _ => None,
        }
    }

    fn cost(self) -> usize {
        match self {
            Op::Zero(_) | Op::Copy(..) => cost::MOVE,
            Op::Sum(..) => cost::SUM,
            Op::Load(..) => cost::LOAD,
            Op::Store(..) => cost::STORE,
            Op::Add(..) => cost::ADD,
        }
    }
}

/// Whether what is read lies in more than three sums on average, common parts being sums of their own. Array codes have two and a little more, which a braid takes at least as well, for it touches each buffer once: Zen 3, packets of 128
/// bytes, 64 KiB staggered, encode: D-Code(13) 0.79 to 0.88 of the limit, as a line 0.73 to 0.82; EVENODD(13) both 0.80 to 0.87; bit matrix of 6 + 3 columns 12 and 29 GB/s.
pub(crate) fn is_dense(shared: &SharedSums) -> bool {
    let terms: usize = shared.sums().iter().map(|sum| sum.terms.len()).sum();
    let made = shared.sums().iter().filter(|sum| (sum.out as usize) < shared.buffers().len()).count();
    terms > 3 * (shared.buffers().len() - made)
}

/// The sums without common parts that cost more than they save: a part of t terms in u sums takes t + u terms where there would be t u, and a
/// store.
fn worth_sharing(shared: &[Sum], buffers: u32) -> Vec<Sum> {
    let mut sums: Vec<Sum> =
        shared.iter().map(|sum| Sum { out: sum.out, terms: sum.terms.clone() }).collect();
    // From the last one on: a part that goes adds users to those in it, which come before it.
    for at in (0..sums.len()).rev() {
        let (out, terms) = (sums[at].out, sums[at].terms.len());
        if out < buffers {
            continue;
        }
        let users: Vec<usize> = (at + 1..sums.len()).filter(|&s| sums[s].terms.contains(&out)).collect();
        if terms.saturating_sub(1) * users.len().saturating_sub(1) > 1 {
            continue;
        }
        let part = sums.remove(at).terms;
        for user in users {
            let terms = &mut sums[user - 1].terms;
            terms.retain(|&t| t != out);
            terms.extend(&part);
            *terms = odd(std::mem::take(terms));
        }
    }
    sums
}

/// Sums in an order in which each mostly adds what those before it did: next is always the one, of those that can be computed, most of whose terms are
/// among the `reach` places that were used last.
///
/// Cost: O(sums^2) sums looked at.
fn order(sums: &[Sum], places: usize, reach: usize) -> Vec<usize> {
    let mut users_left = vec![0usize; places];
    let mut made = vec![true; places];
    for sum in sums {
        sum.terms.iter().for_each(|&t| users_left[t as usize] += 1);
        made[sum.out as usize] = false;
    }
    // Places that were used, the last one last, and whether a place is one of them.
    let mut used: Vec<u32> = Vec::new();
    let mut is_near = vec![false; places];
    let mut open: Vec<usize> = (0..sums.len()).collect();
    let mut order = Vec::with_capacity(sums.len());
    while !open.is_empty() {
        let ready =
            open.iter().enumerate().filter(|(_, sum)| sums[**sum].terms.iter().all(|&t| made[t as usize]));
        let worth = |&(_, &sum): &(usize, &usize)| {
            let terms = &sums[sum].terms;
            let near = terms.iter().filter(|t| is_near[**t as usize]);
            let last = near.clone().filter(|t| users_left[**t as usize] == 1).count();
            let near = near.count();
            let far = terms.len() - near;
            (20 * near as i64 - 3 * far as i64 + 14 * last as i64, std::cmp::Reverse(terms.len()))
        };
        // The first of equals, so that the order does not depend on how maxima are found.
        let (at, _) =
            ready.rev().max_by_key(worth).expect("sums are in an order in which they can be computed");
        let sum = open.remove(at);
        order.push(sum);
        let Sum { out, terms } = &sums[sum];
        terms.iter().for_each(|&term| users_left[term as usize] -= 1);
        made[*out as usize] = true;
        used.retain(|t| !terms.contains(t));
        used.extend(terms.iter().chain([out]).filter(|t| users_left[**t as usize] > 0));
        terms.iter().for_each(|&term| is_near[term as usize] = users_left[term as usize] > 0);
        is_near[*out as usize] = users_left[*out as usize] > 0;
        used.drain(..used.len().saturating_sub(reach)).for_each(|far| is_near[far as usize] = false);
    }
    order
}

/// Registers for sums in their order.
struct Allocation {
    /// Places below are buffers.
    buffers: u32,
    /// For each place, the sums that read it, and how many of these were computed.
    uses: Vec<(Vec<usize>, usize)>,
    /// What each register holds.
    holds: Vec<Option<u32>>,
    /// Where each place is that is no buffer, if it was stored.
    slot_of: Vec<u32>,
    /// Slots whose sum nobody reads any more.
    free_slots: Vec<u32>,
    slots: u32,
    ops: Vec<Op>,
}

/// "Never".
const NEVER: usize = usize::MAX;

impl Allocation {
    fn of(sums: &[&Sum], places: usize, buffers: u32, registers: usize) -> Allocation {
        let mut uses = vec![(Vec::new(), 0); places];
        for (at, sum) in sums.iter().enumerate() {
            sum.terms.iter().for_each(|&t| uses[t as usize].0.push(at));
        }
        let mut allocation = Allocation {
            buffers,
            uses,
            holds: vec![None; registers],
            slot_of: vec![NONE; places],
            free_slots: Vec::new(),
            slots: 0,
            ops: Vec::new(),
        };
        sums.iter().for_each(|sum| allocation.compute(sum));
        allocation
    }

    fn straight(self, vectors: Vectors, buffers: Vec<usize>) -> Straight {
        Straight { vectors, buffers, slots: self.slots as usize, ops: self.ops }
    }

    /// The sum that reads a place next.
    fn next_use(&self, place: u32) -> usize {
        let (uses, done) = &self.uses[place as usize];
        uses.get(*done).copied().unwrap_or(NEVER)
    }

    fn register_of(&self, place: u32) -> Option<Register> {
        self.holds.iter().position(|&held| held == Some(place)).map(|register| register as Register)
    }

    fn place(&self, place: u32) -> Place {
        match place < self.buffers {
            true => Place::Buffer(place as usize),
            false => Place::Slot(self.slot_of[place as usize] as usize),
        }
    }

    /// The register that is needed last, of those that hold none of these, and when that is.
    fn least_needed(&self, but: &[u32]) -> Option<(usize, Register)> {
        let held = self.holds.iter().enumerate();
        let apart = held.filter_map(|(register, held)| Some((register, held.filter(|h| !but.contains(h))?)));
        apart.map(|(register, held)| (self.next_use(held), register as Register)).max()
    }

    /// A register that holds nothing.
    fn free(&self) -> Option<Register> {
        self.holds.iter().position(Option::is_none).map(|register| register as Register)
    }

    /// Frees a register, whose content is stored first if it is nowhere else.
    fn vacate(&mut self, register: Register) {
        let Some(place) = self.holds[register as usize].take() else { return };
        let is_nowhere_else = place >= self.buffers && self.slot_of[place as usize] == NONE;
        if is_nowhere_else && self.next_use(place) != NEVER {
            let slot = self.free_slots.pop().unwrap_or_else(|| {
                self.slots += 1;
                self.slots - 1
            });
            self.slot_of[place as usize] = slot;
            let to = Target { place: self.place(place), is_last: false };
            self.ops.push(Op::Store(register, to));
        }
    }

    fn compute(&mut self, sum: &Sum) {
        sum.terms.iter().for_each(|&t| self.uses[t as usize].1 += 1);
        let (mut held, mut read): (Vec<u32>, Vec<u32>) =
            sum.terms.iter().partition(|&&t| self.register_of(t).is_some());
        // The sum begins in the register of a term that nobody else needs, in a free one, or in that which is needed last.
        let begun = held.iter().position(|&t| self.next_use(t) == NEVER).map(|at| held.swap_remove(at));
        let to = match begun {
            Some(term) => self.register_of(term),
            None => self.free().or_else(|| self.least_needed(&sum.terms).map(|(_, register)| register)),
        };
        // All registers hold terms: one of them is where the sum begins.
        let (to, begun) = match to {
            Some(to) => (to, begun.is_some()),
            None => {
                let at = (0..held.len()).max_by_key(|&at| self.next_use(held[at])).unwrap_or(0);
                let term = held.swap_remove(at);
                (self.register_of(term).unwrap_or(0), true)
            }
        };
        self.vacate(to);
        // What is read again soon is kept, the soonest first.
        read.sort_by_key(|&term| self.next_use(term));
        // Nothing that this sum adds leaves its register for that.
        self.holds[to as usize] = Some(sum.out);
        let stays = [&sum.terms[..], &[sum.out]].concat();
        read.retain(|&term| {
            let next = self.next_use(term);
            let worse = |&(other, _): &(usize, Register)| other > next;
            let register = self.free().or_else(|| self.least_needed(&stays).filter(worse).map(|(_, r)| r));
            let Some(register) = register.filter(|_| next != NEVER) else { return true };
            self.vacate(register);
            let from = self.place(term);
            self.ops.push(Op::Load(register, from));
            self.holds[register as usize] = Some(term);
            held.push(term);
            false
        });
        let mut registers: Vec<Register> = held.iter().filter_map(|&t| self.register_of(t)).collect();
        let mut read: Vec<Place> = read.iter().map(|&term| self.place(term)).collect();
        if !begun {
            let first = match (registers.pop(), read.pop()) {
                (Some(one), Some(from)) => Op::Add(to, one, from),
                (Some(one), None) => match registers.pop() {
                    Some(other) => Op::Sum(to, [one, other]),
                    None => Op::Copy(to, one),
                },
                (None, Some(from)) => Op::Load(to, from),
                (None, None) => Op::Zero(to),
            };
            self.ops.push(first);
        }
        self.ops.extend(read.into_iter().map(|from| Op::Add(to, to, from)));
        self.ops.extend(registers.into_iter().map(|other| Op::Sum(to, [to, other])));
        for &term in sum.terms.iter().filter(|&&t| self.uses[t as usize].1 == self.uses[t as usize].0.len()) {
            if let Some(register) = self.register_of(term) {
                self.holds[register as usize] = None;
            }
            let slot = std::mem::replace(&mut self.slot_of[term as usize], NONE);
            self.free_slots.extend((slot != NONE).then_some(slot));
        }
        let is_last = self.next_use(sum.out) == NEVER;
        if sum.out < self.buffers {
            self.ops.push(Op::Store(to, Target { place: self.place(sum.out), is_last }));
        }
        self.holds[to as usize] = (!is_last).then_some(sum.out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weave::tests::{contents, steps};

    /// What the code of a straight line does for one byte of every buffer, with rubbish in registers and slots to begin with.
    fn line_byte(straight: &Straight, buffers: &mut [u8]) {
        let mut registers = vec![0xa5u8; straight.vectors.registers()];
        let mut slots = vec![0x5au8; straight.slots];
        let numbers = &straight.buffers;
        for &op in &straight.ops {
            let read = op.reads().map_or(0, |place| match place {
                Place::Buffer(buffer) => buffers[numbers[buffer]],
                Place::Slot(slot) => slots[slot],
            });
            match op {
                Op::Zero(to) => registers[to as usize] = 0,
                Op::Copy(to, from) => registers[to as usize] = registers[from as usize],
                Op::Load(to, _) => registers[to as usize] = read,
                Op::Add(to, other, _) => registers[to as usize] = registers[other as usize] ^ read,
                Op::Sum(to, [one, other]) => {
                    registers[to as usize] = registers[one as usize] ^ registers[other as usize];
                }
                Op::Store(from, to) => match to.place {
                    Place::Buffer(buffer) => buffers[numbers[buffer]] = registers[from as usize],
                    Place::Slot(slot) => slots[slot] = registers[from as usize],
                },
            }
        }
    }

    fn check(steps: &[(usize, Vec<usize>)]) -> [Straight; 2] {
        [Vectors::Ymm, Vectors::Zmm].map(|vectors| {
            let straight = Straight::new(&SharedSums::new(steps), vectors).expect("few enough sums");
            let (mut have, wanted) = contents(steps);
            for at in 0..3 {
                let mut bytes: Vec<u8> = have.iter().map(|cell| cell[at]).collect();
                line_byte(&straight, &mut bytes);
                have.iter_mut().zip(bytes).for_each(|(cell, byte)| cell[at] = byte);
            }
            assert_eq!(have, wanted, "{vectors:?}");
            let stored = straight.ops.iter().filter_map(|op| match op {
                Op::Store(_, Target { place: Place::Buffer(buffer), .. }) => Some(straight.buffers[*buffer]),
                _ => None,
            });
            let mut stored: Vec<usize> = stored.collect();
            stored.sort_unstable();
            let mut targets: Vec<usize> = steps.iter().map(|step| step.0).collect();
            targets.sort_unstable();
            assert_eq!(stored, targets, "each target once, and nothing else");
            straight
        })
    }

    /// Sums of random buffers and of sums before, each buffer in one of `sparse` on average.
    fn random(seed: u64, buffers: usize, sums: usize, sparse: usize) -> Vec<(usize, Vec<usize>)> {
        let mut state = seed;
        let mut below = |n: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % n
        };
        (0..sums)
            .map(|i| {
                // A sum of nothing now and then, and some of sums before.
                let from = if below(4) == 0 { buffers + i } else { buffers };
                (buffers + i, (0..from).filter(|_| below(sparse) == 0).collect())
            })
            .collect()
    }

    #[test]
    fn every_line_gives_the_sums() {
        for (rows, columns) in [(2, 2), (4, 7), (9, 9), (14, 13), (15, 15)] {
            check(&steps(rows, columns, false));
            check(&steps(rows, columns, true));
        }
        for seed in 0..if cfg!(miri) { 4 } else { 150 } {
            let (buffers, sums) = (1 + seed as usize % 41, 1 + seed as usize % 23);
            check(&random(seed, buffers, sums, 1 + seed as usize % 5));
        }
        if !cfg!(miri) {
            // Ten columns of eight rows and four parities, half of all terms; and more than fit registers in one sum.
            check(&random(7, 80, 32, 2));
            check(&[(100, (0..100).collect()), (101, (0..100).collect()), (102, (0..99).collect())]);
        }
    }

    #[test]
    fn what_is_used_again_is_not_read_again_while_there_are_registers() {
        // Nine sums, of nine buffers each of one set of nine.
        let pairs = |i: usize| (0..9).filter(move |j| i & 1 << j != 0).collect::<Vec<_>>();
        let steps: Vec<(usize, Vec<usize>)> = (0..9).map(|i| (9 + i, pairs(37 * (i + 3)))).collect();
        for straight in check(&steps) {
            let mut reads: Vec<Place> = straight.ops.iter().filter_map(|op| op.reads()).collect();
            reads.sort_by_key(|place| format!("{place:?}"));
            let count = reads.len();
            reads.dedup();
            assert_eq!((count, straight.slots), (reads.len(), 0));
        }
    }

    #[test]
    fn a_part_that_saves_nothing_is_no_sum() {
        // Two terms in two sums cost as much each on their own; in three sums they do not, nor three terms in two.
        let sums = |steps: &[(usize, Vec<usize>)]| {
            let shared = SharedSums::new(steps);
            worth_sharing(shared.sums(), shared.buffers().len() as u32).len()
        };
        let two_in_two = [(10, vec![0, 1, 2]), (11, vec![0, 1, 3])];
        assert_eq!((SharedSums::new(&two_in_two).sums().len(), sums(&two_in_two)), (3, 2));
        assert_eq!(sums(&[(10, vec![0, 1, 2]), (11, vec![0, 1, 3]), (12, vec![0, 1, 4])]), 4);
        assert_eq!(sums(&[(10, vec![0, 1, 2, 5]), (11, vec![0, 1, 2, 6])]), 3);
    }

    #[test]
    fn dense_sums_are_dense_and_grids_are_not() {
        let is_dense = |steps: &[(usize, Vec<usize>)]| is_dense(&SharedSums::new(steps));
        assert!(is_dense(&crate::parts::tests::dense(6, 3, 8)));
        assert!(!is_dense(&steps(12, 13, false)) && !is_dense(&steps(12, 13, true)));
    }

    #[test]
    fn too_many_sums_are_refused() {
        let many: Vec<(usize, Vec<usize>)> = (0..1100).map(|i| (10 + i, vec![0, 1])).collect();
        assert!(Straight::new(&SharedSums::new(&many), Vectors::Ymm).is_none());
        let long = [(9000, (0..3600).collect()), (9001, vec![1, 2])];
        assert!(Straight::new(&SharedSums::new(&long), Vectors::Ymm).is_none());
    }
}
