//! XOR programs as a straight line: one sum after the other, with registers for the values that are
//! needed again soonest.
//!
//! Bit-matrix codes have buffers that are in ten sums and more, so no grid has few enough held sums
//! to take them all in one sweep ([`crate::code::braid`]). Here each sum is computed by itself. The
//! order of the sums is known, so the next use of each value is known, too. A register keeps the
//! values with the nearest next uses. Other values are read from memory by the instruction that
//! adds them. An intermediate sum is written to a slot only if it must leave its register.
//!
//! A slice is one vector, so each register has a separate value. 16 values instead of 8 gain more
//! than slices of whole cache lines would, because the first-level cache keeps a line from one
//! slice to the next. Code that stores past the caches processes two slices, one after the other,
//! if a line has two vectors.
//!
//! Invariants: each buffer is stored once per slice; a slot is written before it is read, and is
//! reused only when its sum is not read any more.

use crate::arch::native::cpu::counting;
use crate::code::braid::{Place, Target, Vectors};
use crate::sums::{NONE, Sets, SharedSums, bits};

/// A vector register.
pub(crate) type Register = u8;

/// An instruction of a straight line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Sets a register to zero.
    Zero(Register),
    /// Sets a register to another one.
    Copy(Register, Register),
    /// Loads a place into a register.
    Load(Register, Place),
    /// Sets a register to the sum of a register and a place.
    Add(Register, Register, Place),
    /// Sets a register to the sum of two registers.
    Sum(Register, [Register; 2]),
    /// Stores a register to a place.
    Store(Register, Target),
}

/// The cost of instructions on a vector, in parts of 0.027 ns. Measured on a Zen 3 at 3.5 GHz,
/// where the costs of loads, stores and sums add up. They were found by omitting all instructions
/// of one kind from a program of 1175 (bit matrix of 16 + 4 columns, vectors of 32 bytes).
pub(crate) mod cost {
    pub(crate) const MOVE: usize = 1;
    pub(crate) const SUM: usize = 3;
    pub(crate) const LOAD: usize = 4;
    pub(crate) const STORE: usize = 4;
    /// The cost of a load and a sum in one instruction.
    pub(crate) const ADD: usize = LOAD + SUM;
}

/// A compiled program.
#[derive(Debug)]
pub(crate) struct Straight {
    /// The vectors for which the program is compiled.
    pub(crate) vectors: Vectors,
    /// The buffers in use, ascending.
    pub(crate) buffers: Vec<usize>,
    /// The number of slots, each of one slice.
    pub(crate) slots: usize,
    pub(crate) ops: Vec<Op>,
}

/// The most instructions: about 9 bytes each, for an instruction cache of 32 KiB.
pub(crate) const OPS_MOST: usize = 3500;

/// The most comparisons of sums to choose an order, which take a few milliseconds.
const ORDERING_EFFORT: usize = 1 << 20;

impl Straight {
    /// Compiles sums; `None` if there are too many sums or too many instructions.
    pub(crate) fn new(shared: &SharedSums, vectors: Vectors) -> Option<Straight> {
        let count = shared.sums().len();
        let terms: usize = shared.sums().iter().map(|sum| sum.terms.len() + 1).sum();
        if terms > OPS_MOST || count * count > ORDERING_EFFORT {
            return None;
        }
        let worth = Worth::of(shared);
        // The best `reach` depends on the sums, so several are tried.
        let registers = vectors.registers();
        let tried = [registers / 2, registers * 3 / 4, registers].map(|reach| {
            let order = counting(
                #[inline(always)]
                || worth.order(reach),
            );
            line(&worth.lists, &order, vectors, shared.buffers())
        });
        tried.into_iter().min_by_key(Straight::cost)
    }

    /// Returns the cost of one vector of each buffer: see [`cost`].
    pub(crate) fn cost(&self) -> usize {
        self.ops.iter().map(|op| op.cost()).sum()
    }

    /// Returns the buffers that the line writes, as indices in `buffers`.
    pub(crate) fn targets(&self) -> Vec<usize> {
        let written = self.ops.iter().filter_map(|op| match op {
            Op::Store(_, Target { place: Place::Buffer(buffer), .. }) => Some(*buffer),
            _ => None,
        });
        written.collect()
    }

    /// Returns the number of instructions that read memory.
    pub(crate) fn terms(&self) -> usize {
        self.ops.iter().filter(|op| op.reads().is_some()).count()
    }
}

impl Op {
    /// Returns the place that the instruction reads.
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

/// True if a place is read by more than three sums on average, where common parts count as sums. In
/// array codes it is little more than two sums, for which a braid is at least as fast, because it
/// reads each buffer once. Zen 3, packets of 128 bytes, 64 KiB staggered, encode, share of the
/// limit: D-Code(13) 0.79 to 0.88 as a braid, 0.73 to 0.82 as a line; EVENODD(13) 0.80 to 0.87 as
/// both. A bit matrix of 6 + 3 columns: 12 GB/s as a braid, 29 as a line.
pub(crate) fn is_dense(shared: &SharedSums) -> bool {
    let terms: usize = shared.sums().iter().map(|sum| sum.terms.len()).sum();
    let made = shared.sums().iter().filter(|sum| (sum.out as usize) < shared.buffers().len()).count();
    terms > 3 * (shared.buffers().len() - made)
}

/// Sums as lists of places.
pub(crate) struct Lists {
    pub(crate) outs: Vec<u32>,
    /// The terms of all sums, one after the other; `ends` has the end of each sum's terms.
    terms: Vec<u32>,
    ends: Vec<usize>,
    /// The number of places: buffers, and sums that are stored in no buffer.
    places: usize,
}

impl Lists {
    /// Returns empty lists, for `places` places.
    pub(crate) fn new(places: usize) -> Lists {
        Lists { outs: Vec::new(), terms: Vec::with_capacity(4 * places), ends: Vec::new(), places }
    }

    pub(crate) fn push(&mut self, out: u32, terms: impl Iterator<Item = u32>) {
        self.outs.push(out);
        self.terms.extend(terms);
        self.ends.push(self.terms.len());
    }

    pub(crate) fn terms(&self, sum: usize) -> &[u32] {
        let start = if sum == 0 { 0 } else { self.ends[sum - 1] };
        &self.terms[start..self.ends[sum]]
    }
}

/// The sums, with only those common parts that save work.
struct Worth {
    lists: Lists,
    /// The terms of `lists`, as sets.
    sets: Sets,
}

impl Worth {
    /// Removes common parts that cost more than they save. A part of t terms in u sums costs t + u
    /// terms and a store; without it, the sums cost t u terms.
    fn of(shared: &SharedSums) -> Worth {
        let (sums, buffers) = (shared.sums(), shared.buffers());
        let mut sets = Sets::of(sums, shared.places());
        let mut is_kept = vec![true; sums.len()];
        // From the last part to the first: removing a part adds users to the parts in it, which
        // come before it.
        let parts = sums.iter().enumerate().rev().filter(|(_, sum)| sum.out as usize >= buffers.len());
        for (at, sum) in parts {
            let users: Vec<usize> =
                (at + 1..sums.len()).filter(|&user| is_kept[user] && sets.contains(user, sum.out)).collect();
            let terms = bits(sets.row(at)).count();
            if terms.saturating_sub(1) * users.len().saturating_sub(1) > 1 {
                continue;
            }
            is_kept[at] = false;
            for user in users {
                sets.toggle(user, sum.out);
                sets.add(user, at);
            }
        }
        let kept = || (0..sums.len()).filter(|&row| is_kept[row]);
        let mut lists = Lists::new(shared.places());
        kept().for_each(|row| lists.push(sums[row].out, bits(sets.row(row))));
        Worth { lists, sets: sets.of_rows(kept()) }
    }

    /// Returns an order in which most terms of a sum were used by the sums just before. The next
    /// sum is always the computable one with the most terms among the `reach` places used last.
    ///
    /// Cost: O(sums^2) comparisons of sums.
    #[inline(always)]
    fn order(&self, reach: usize) -> Vec<usize> {
        // Rows of the sets: places not computed yet, places used last, places that only one more
        // sum reads.
        const UNMADE: usize = 0;
        const NEAR: usize = 1;
        const SINGLE: usize = 2;
        let Lists { outs, places, .. } = &self.lists;
        let places = *places;
        let mut state = Sets::new(3, places);
        let mut users_left = vec![0usize; places];
        self.lists.terms.iter().for_each(|&t| users_left[t as usize] += 1);
        outs.iter().for_each(|&out| state.toggle(UNMADE, out));
        (0..places).filter(|&p| users_left[p] == 1).for_each(|place| state.toggle(SINGLE, place as u32));
        // Places that were used, the last one last.
        let mut used: Vec<u32> = Vec::with_capacity(places);
        let mut open: Vec<usize> = (0..outs.len()).collect();
        let mut order = Vec::with_capacity(open.len());
        while !open.is_empty() {
            let mut best = None;
            for (at, &sum) in open.iter().enumerate() {
                let (mut is_ready, mut near, mut last) = (true, 0, 0);
                let state = state.row(UNMADE).iter().zip(state.row(NEAR)).zip(state.row(SINGLE));
                for (&set, ((&unmade, &near_word), &single)) in self.sets.row(sum).iter().zip(state) {
                    is_ready &= set & unmade == 0;
                    near += i64::from((set & near_word).count_ones());
                    last += i64::from((set & near_word & single).count_ones());
                }
                let terms = self.lists.terms(sum).len();
                let worth = (20 * near - 3 * (terms as i64 - near) + 14 * last, std::cmp::Reverse(terms));
                // Among equals the first is taken.
                if is_ready && best.is_none_or(|(most, _)| worth > most) {
                    best = Some((worth, at));
                }
            }
            let (_, at) = best.expect("sums are in an order in which they can be computed");
            let sum = open.remove(at);
            order.push(sum);
            let (out, terms) = (outs[sum], self.lists.terms(sum));
            state.toggle(UNMADE, out);
            used.retain(|&term| !self.sets.contains(sum, term));
            for &term in terms {
                users_left[term as usize] -= 1;
                // The number of users goes from two to one, or from one to none.
                if users_left[term as usize] < 2 {
                    state.toggle(SINGLE, term);
                }
            }
            for &place in terms.iter().chain([&out]) {
                let is_near = users_left[place as usize] > 0;
                state.put(NEAR, place, is_near);
                used.extend(is_near.then_some(place));
            }
            used.drain(..used.len().saturating_sub(reach)).for_each(|far| state.put(NEAR, far, false));
        }
        order
    }
}

/// Returns the line of the sums in this order.
fn line(lists: &Lists, order: &[usize], vectors: Vectors, buffers: &[usize]) -> Straight {
    let mut allocation = Allocation::new(lists, order, buffers.len() as u32, vectors.registers());
    order.iter().for_each(|&sum| allocation.compute(lists.outs[sum], lists.terms(sum)));
    let Allocation { slots, ops, .. } = allocation;
    Straight { vectors, buffers: buffers.to_vec(), slots: slots as usize, ops }
}

/// The most registers.
const REGISTERS_MOST: usize = 32;

/// The allocation of registers, for sums in their order.
struct Allocation {
    /// The number of buffers: places below it are buffers.
    buffers: u32,
    /// For all places, one after the other: the times of the sums that read it, ascending.
    users: Vec<u32>,
    /// For each place, the index of its next user in `users`, and the end of its users.
    next: Vec<(u32, u32)>,
    /// For each register, the place that it has; `due` has the time of the place's next read.
    holds: [u32; REGISTERS_MOST],
    due: [u32; REGISTERS_MOST],
    /// Bit sets of registers: free ones; and in `pinned`, those that have the current sum or its
    /// terms.
    free: u32,
    pinned: u32,
    /// For each place, the register that has it, or [`NOWHERE`].
    register_of: Vec<Register>,
    /// For each place that is not a buffer, its slot, if it was stored.
    slot_of: Vec<u32>,
    /// The slots whose sums are not read any more.
    free_slots: Vec<u32>,
    slots: u32,
    registers: usize,
    ops: Vec<Op>,
    /// Lists whose capacity is reused. `held`: terms of the sum that are in registers. `read`:
    /// terms that are loaded, with the time of their next read. `far`: terms that are added from
    /// memory.
    held: Vec<u32>,
    read: Vec<(u32, u32)>,
    far: Vec<u32>,
}

/// The time of a next read that never comes.
const NEVER: u32 = u32::MAX;

/// The register of a place that is in none.
const NOWHERE: Register = Register::MAX;

impl Allocation {
    fn new(lists: &Lists, order: &[usize], buffers: u32, registers: usize) -> Allocation {
        assert!((1..=REGISTERS_MOST).contains(&registers), "registers are counted in bits");
        let places = lists.places;
        // Users are counted first. Filling then moves `end` of each place from its start to its
        // real end.
        let mut next = vec![(0, 0); places];
        lists.terms.iter().for_each(|&t| next[t as usize].1 += 1);
        let mut all = 0;
        for (start, end) in &mut next {
            (*start, all) = (all, all + *end);
            *end = *start;
        }
        let mut users = vec![0; all as usize];
        for (&sum, at) in order.iter().zip(0..) {
            for &term in lists.terms(sum) {
                let end = &mut next[term as usize].1;
                users[*end as usize] = at;
                *end += 1;
            }
        }
        Allocation {
            buffers,
            next,
            holds: [NONE; REGISTERS_MOST],
            due: [NEVER; REGISTERS_MOST],
            free: u32::MAX >> (REGISTERS_MOST - registers),
            pinned: 0,
            register_of: vec![NOWHERE; places],
            slot_of: vec![NONE; places],
            free_slots: Vec::new(),
            slots: 0,
            registers,
            ops: Vec::with_capacity(users.len() + 2 * order.len()),
            users,
            held: Vec::new(),
            read: Vec::new(),
            far: Vec::new(),
        }
    }

    /// Returns the time of the next sum that reads a place, or [`NEVER`].
    fn next_use(&self, place: u32) -> u32 {
        let (next, end) = self.next[place as usize];
        if next < end { self.users[next as usize] } else { NEVER }
    }

    fn place(&self, place: u32) -> Place {
        match place < self.buffers {
            true => Place::Buffer(place as usize),
            false => Place::Slot(self.slot_of[place as usize] as usize),
        }
    }

    /// Returns the register that is needed latest, and its time, among those that have neither the
    /// current sum nor its terms.
    fn least_needed(&self) -> Option<(u32, Register)> {
        let apart = (0..self.registers).filter(|register| (self.free | self.pinned) >> register & 1 == 0);
        apart.map(|register| (self.due[register], register as Register)).max()
    }

    /// Returns a free register.
    fn free(&self) -> Option<Register> {
        (self.free != 0).then(|| self.free.trailing_zeros() as Register)
    }

    /// Assigns a register to the sum or to a term of it.
    fn hold(&mut self, register: Register, place: u32) {
        self.holds[register as usize] = place;
        self.due[register as usize] = self.next_use(place);
        self.free &= !(1 << register);
        self.pinned |= 1 << register;
        self.register_of[place as usize] = register;
    }

    /// Frees a register.
    fn release(&mut self, register: Register) {
        self.register_of[self.holds[register as usize] as usize] = NOWHERE;
        self.free |= 1 << register;
    }

    /// Frees a register; its content is stored first if it is nowhere else.
    fn vacate(&mut self, register: Register) {
        if self.free >> register & 1 == 1 {
            return;
        }
        self.release(register);
        let place = self.holds[register as usize];
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

    fn compute(&mut self, out: u32, terms: &[u32]) {
        self.pinned = 0;
        self.held.clear();
        self.read.clear();
        self.far.clear();
        for &term in terms {
            self.next[term as usize].0 += 1;
            let next = self.next_use(term);
            match self.register_of[term as usize] {
                NOWHERE => self.read.push((next, term)),
                register => {
                    self.pinned |= 1 << register;
                    self.due[register as usize] = next;
                    self.held.push(term);
                }
            }
        }
        // The sum begins in the register of a term without another use, in a free one, or in the
        // one whose value is needed last.
        let begun = self.held.iter().position(|&t| self.next_use(t) == NEVER);
        let begun = begun.map(|at| self.held.swap_remove(at));
        let to = match begun {
            Some(term) => Some(self.register_of[term as usize]),
            None => self.free().or_else(|| self.least_needed().map(|(_, register)| register)),
        };
        // All registers have terms, so the sum begins in one of them.
        let (to, begun) = match to {
            Some(to) => (to, begun.is_some()),
            None => {
                let held = &self.held;
                let at = (0..held.len()).max_by_key(|&at| self.next_use(held[at])).unwrap_or(0);
                let term = self.held.swap_remove(at);
                (self.register_of[term as usize], true)
            }
        };
        self.vacate(to);
        self.hold(to, out);
        // Loaded values are kept in registers in the order of their next read, the nearest first.
        // The terms of this sum that are in registers stay there.
        self.read.sort_unstable();
        for at in 0..self.read.len() {
            let (next, term) = self.read[at];
            let register = match next {
                NEVER => None,
                _ => self.free().or_else(|| {
                    let worse = |&(other, _): &(u32, Register)| other > next;
                    self.least_needed().filter(worse).map(|(_, register)| register)
                }),
            };
            let Some(register) = register else {
                self.far.push(term);
                continue;
            };
            self.vacate(register);
            let from = self.place(term);
            self.ops.push(Op::Load(register, from));
            self.hold(register, term);
            self.held.push(term);
        }
        if !begun {
            let held = |term: Option<u32>| term.map(|term| self.register_of[term as usize]);
            let first = match (held(self.held.pop()), self.far.pop()) {
                (Some(one), Some(term)) => Op::Add(to, one, self.place(term)),
                (Some(one), None) => match held(self.held.pop()) {
                    Some(other) => Op::Sum(to, [one, other]),
                    None => Op::Copy(to, one),
                },
                (None, Some(term)) => Op::Load(to, self.place(term)),
                (None, None) => Op::Zero(to),
            };
            self.ops.push(first);
        }
        for &term in &self.far {
            self.ops.push(Op::Add(to, to, self.place(term)));
        }
        for &term in &self.held {
            self.ops.push(Op::Sum(to, [to, self.register_of[term as usize]]));
        }
        for &term in terms {
            if self.next_use(term) == NEVER {
                match self.register_of[term as usize] {
                    NOWHERE => {}
                    register => self.release(register),
                }
                let slot = std::mem::replace(&mut self.slot_of[term as usize], NONE);
                self.free_slots.extend((slot != NONE).then_some(slot));
            }
        }
        let is_last = self.next_use(out) == NEVER;
        if out < self.buffers {
            self.ops.push(Op::Store(to, Target { place: self.place(out), is_last }));
        }
        if is_last {
            self.release(to);
        }
    }
}

impl Sets {
    /// Adds another row to a row.
    fn add(&mut self, to: usize, row: usize) {
        (0..self.stride).for_each(|i| self.words[to * self.stride + i] ^= self.words[row * self.stride + i]);
    }

    #[inline(always)]
    fn contains(&self, row: usize, place: u32) -> bool {
        self.words[row * self.stride + place as usize / 64] >> (place % 64) & 1 == 1
    }

    /// Sets whether a row contains a place.
    #[inline(always)]
    fn put(&mut self, row: usize, place: u32, is_in: bool) {
        let word = &mut self.words[row * self.stride + place as usize / 64];
        *word = *word & !(1 << (place % 64)) | u64::from(is_in) << (place % 64);
    }

    /// Returns these rows only.
    fn of_rows(&self, rows: impl Iterator<Item = usize>) -> Sets {
        Sets { stride: self.stride, words: rows.flat_map(|row| self.row(row)).copied().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sum_graph::tests::{contents, steps};

    /// Simulates a straight line on one byte of every buffer; registers and slots start with
    /// garbage.
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
            check_line(steps, &straight);
            straight
        })
    }

    fn check_line(steps: &[(usize, Vec<usize>)], straight: &Straight) {
        let (mut have, wanted) = contents(steps);
        for at in 0..3 {
            let mut bytes: Vec<u8> = have.iter().map(|cell| cell[at]).collect();
            line_byte(straight, &mut bytes);
            have.iter_mut().zip(bytes).for_each(|(cell, byte)| cell[at] = byte);
        }
        assert_eq!(have, wanted, "{:?}", straight.vectors);
        let stored = straight.ops.iter().filter_map(|op| match op {
            Op::Store(_, Target { place: Place::Buffer(buffer), .. }) => Some(straight.buffers[*buffer]),
            _ => None,
        });
        let mut stored: Vec<usize> = stored.collect();
        stored.sort_unstable();
        let mut targets: Vec<usize> = steps.iter().map(|step| step.0).collect();
        targets.sort_unstable();
        assert_eq!(stored, targets, "each target once, and nothing else");
    }

    /// Returns sums of random buffers and of earlier sums; a buffer is in one of `sparse` sums on
    /// average.
    fn random(seed: u64, buffers: usize, sums: usize, sparse: usize) -> Vec<(usize, Vec<usize>)> {
        let mut below = crate::sum_graph::tests::below(seed);
        (0..sums)
            .map(|i| {
                // One sum in four can also have earlier sums as terms.
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
            // Ten columns of eight rows and four parities with half of all terms; then sums with
            // more terms than registers.
            check(&random(7, 80, 32, 2));
            check(&[(100, (0..100).collect()), (101, (0..100).collect()), (102, (0..99).collect())]);
        }
    }

    #[test]
    fn values_used_again_are_not_reloaded_while_registers_suffice() {
        // Nine sums over one set of nine buffers.
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
        // A common part of two terms saves nothing in two sums, but does in three; a common part of
        // three terms does in two.
        let sums = |steps: &[(usize, Vec<usize>)]| {
            let shared = SharedSums::new(steps);
            Worth::of(&shared).lists.outs.len()
        };
        let two_in_two = [(10, vec![0, 1, 2]), (11, vec![0, 1, 3])];
        assert_eq!((SharedSums::new(&two_in_two).sums().len(), sums(&two_in_two)), (3, 2));
        assert_eq!(sums(&[(10, vec![0, 1, 2]), (11, vec![0, 1, 3]), (12, vec![0, 1, 4])]), 4);
        assert_eq!(sums(&[(10, vec![0, 1, 2, 5]), (11, vec![0, 1, 2, 6])]), 3);
    }

    #[test]
    fn dense_sums_are_dense_and_grids_are_not() {
        let is_dense = |steps: &[(usize, Vec<usize>)]| is_dense(&SharedSums::new(steps));
        assert!(is_dense(&crate::sum_graph::tests::dense(6, 3, 8)));
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
