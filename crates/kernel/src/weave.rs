//! XOR programs: many sparse sums over many small buffers, as array codes have them, woven into one sweep.
//!
//! An array code adds most buffers to two sums each. Computed sum by sum, every buffer is fetched twice, and what lies
//! between the two fetches (a stripe of D-Code(13) is 169 buffers) does not stay in the first-level cache, least of all
//! if all buffers start at one cache set. So the sums are parted into two sets such that a buffer lies in one of each,
//! if possible: sums that are *held*, all at once, in registers, and sums that are *swept*, one after the other. A
//! [`Grid`] has a row per swept and a column per held sum; a buffer that lies in both stands where they meet, is loaded
//! once, and added to both. No buffer is read twice, nothing must stay in a cache, and so the place of the buffers does
//! not matter.
//!
//! What follows from other sums (the chains of a double recovery) is done after the grid by [`Row`]s, on the same few
//! cache lines. What several sums have in common (EVENODD's adjuster) is a sum of its own.
//!
//! Invariants: all of it is done for one slice of the buffers, of [`SLICE_BYTES_MOST`] at most, before the next slice; a
//! slot is written before it is read; every target is stored once per slice.

use crate::sums::{SharedSums, Sum};
use std::collections::HashMap;
use std::ops::Range;

/// Bytes of a slice: four vectors of the widest engine.
pub(crate) const SLICE_BYTES_MOST: usize = 256;

/// Sums that are held at once: with two vectors each they fill 28 of 32 registers.
pub(crate) const HELD_MOST: usize = 14;

/// "No such place".
pub(crate) const NONE: u32 = u32::MAX;

/// A compiled XOR program. Places are numbers in a table of pointers: the buffers in use, then the slots.
#[derive(Debug, Default)]
pub(crate) struct Weave {
    grids: Vec<Grid>,
    rows: Vec<Row>,
    /// The sources of the rows, row after row.
    words: Vec<u32>,
    /// The places in the cells of the grids, grid after grid, row after row; [`NONE`] where no buffer stands.
    cells: Vec<u32>,
    /// Where in `cells` slots stand.
    slot_cells: Vec<u32>,
    /// The buffers in use, ascending; they are the first places of the table.
    buffers: Vec<usize>,
    slots: usize,
    /// Columns of every grid.
    width: usize,
}

/// Swept sums against held sums.
#[derive(Debug)]
pub(crate) struct Grid {
    pub(crate) swept: Vec<Swept>,
    /// Sources of swept sums that lie in no held one, sum after sum.
    pub(crate) plain: Vec<u32>,
    pub(crate) held: Vec<Goal>,
}

/// A row of a grid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Swept {
    /// Its places in `plain`.
    pub(crate) plain: u32,
    /// Where the grid before left the sum, or [`NONE`].
    pub(crate) from: u32,
    pub(crate) to: Goal,
}

/// Where a sum is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    /// A buffer or a slot, or [`NONE`].
    pub(crate) place: u32,
    /// Whether nothing reads it again, so that it may go past the cache.
    pub(crate) is_last: bool,
}

/// A sum that needs other sums.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// Its places in the words.
    pub(crate) sources: u32,
    /// Whether the sum of the row before is added: it is still in registers.
    pub(crate) carries: bool,
    pub(crate) to: Goal,
}

impl Goal {
    const NOWHERE: Goal = Goal { place: NONE, is_last: false };
}

impl Weave {
    /// Compiles sums. Without grids, for engines of few registers, every sum is a row.
    pub(crate) fn new(sums: &SharedSums, has_grids: bool) -> Weave {
        Loom::new(sums).weave(sums.buffers().to_vec(), has_grids)
    }

    pub(crate) fn grids(&self) -> &[Grid] {
        &self.grids
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(crate) fn words(&self) -> &[u32] {
        &self.words
    }

    /// The places in the cells of all grids.
    pub(crate) fn cells(&self) -> &[u32] {
        &self.cells
    }

    /// Where in the cells slots stand, which do not move with the slices.
    pub(crate) fn slot_cells(&self) -> &[u32] {
        &self.slot_cells
    }

    /// The columns of every grid; 0 without grids.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The buffers in use, ascending.
    pub(crate) fn buffers(&self) -> &[usize] {
        &self.buffers
    }

    /// Slots of [`SLICE_BYTES_MOST`] that a run needs.
    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// The goals that are buffers and may be stored past the cache.
    pub(crate) fn last_goals(&self) -> impl Iterator<Item = u32> + '_ {
        let swept = self.grids.iter().flat_map(|grid| grid.swept.iter().map(|swept| swept.to));
        let held = self.grids.iter().flat_map(|grid| grid.held.iter().copied());
        swept
            .chain(held)
            .chain(self.rows.iter().map(|row| row.to))
            .filter(|goal| goal.is_last)
            .map(|goal| goal.place)
    }
}

/// The sums with what is known of them.
pub(crate) struct Loom<'s> {
    pub(crate) sums: &'s [Sum],
    /// Places below this are buffers.
    pub(crate) buffers: u32,
    /// For each place, the sum that computes it.
    pub(crate) made_by: Vec<Option<usize>>,
    /// The sums that use the places, ascending, place after place.
    users: Vec<usize>,
    /// For each place, where its users end.
    users_end: Vec<usize>,
    /// For each place past the buffers and each sum that needs one, its slot.
    slot_of: Vec<u32>,
    pub(crate) slots: u32,
}

impl<'s> Loom<'s> {
    pub(crate) fn new(shared: &'s SharedSums) -> Loom<'s> {
        let (sums, places) = (shared.sums(), shared.places());
        let mut made_by = vec![None; places];
        // Counted first; filling then moves each end from the place's start to its end.
        let mut users_end = vec![0; places + 1];
        for (i, sum) in sums.iter().enumerate() {
            made_by[sum.out as usize] = Some(i);
            sum.terms.iter().for_each(|&t| users_end[t as usize + 1] += 1);
        }
        (0..places).for_each(|place| users_end[place + 1] += users_end[place]);
        let mut users = vec![0; users_end[places]];
        for (i, sum) in sums.iter().enumerate() {
            for &term in &sum.terms {
                users[users_end[term as usize]] = i;
                users_end[term as usize] += 1;
            }
        }
        let buffers = shared.buffers().len() as u32;
        Loom { slot_of: vec![NONE; sums.len()], sums, buffers, made_by, users, users_end, slots: 0 }
    }

    /// The sums that use a place, ascending.
    fn users(&self, place: u32) -> &[usize] {
        let place = place as usize;
        let start = if place == 0 { 0 } else { self.users_end[place - 1] };
        &self.users[start..self.users_end[place]]
    }

    /// The place of the slot of a sum.
    pub(crate) fn slot(&mut self, sum: usize) -> u32 {
        if self.slot_of[sum] == NONE {
            self.slot_of[sum] = self.slots;
            self.slots += 1;
        }
        self.buffers + self.slot_of[sum]
    }

    /// Where the finished sum is.
    pub(crate) fn result(&mut self, sum: usize) -> u32 {
        if self.sums[sum].out < self.buffers { self.sums[sum].out } else { self.slot(sum) }
    }

    fn goal(&mut self, sum: usize) -> Goal {
        let out = self.sums[sum].out;
        Goal { place: self.result(sum), is_last: out < self.buffers && self.users(out).is_empty() }
    }

    pub(crate) fn needs(&self, sum: usize) -> bool {
        self.sums[sum].terms.iter().any(|&t| self.made_by[t as usize].is_some())
    }

    /// Which sums to hold: neighbours of swept ones, where sums with a common source are neighbours.
    pub(crate) fn held(&self) -> Vec<bool> {
        let mut neighbours = vec![Vec::new(); self.sums.len()];
        for place in (0..self.buffers).filter(|&place| self.made_by[place as usize].is_none()) {
            let users = self.users(place);
            for &a in users {
                neighbours[a].extend(users.iter().copied().filter(|&b| b != a));
            }
        }
        let mut side: Vec<Option<bool>> = vec![None; self.sums.len()];
        for root in 0..self.sums.len() {
            if side[root].is_some() || neighbours[root].is_empty() {
                continue;
            }
            side[root] = Some(false);
            let mut component = vec![root];
            let mut at = 0;
            while let Some(&sum) = component.get(at) {
                at += 1;
                for &neighbour in &neighbours[sum] {
                    if side[neighbour].is_none() {
                        side[neighbour] = side[sum].map(|held| !held);
                        component.push(neighbour);
                    }
                }
            }
            // Sums that need others are better held: a swept one is finished when its row is.
            let weight = |held: bool| {
                let of_side = component.iter().filter(|&&sum| side[sum] == Some(held));
                of_side.map(|&sum| if self.needs(sum) { 1 } else { -1i64 }).sum::<i64>()
            };
            if weight(false) > weight(true) {
                component.iter().for_each(|&sum| side[sum] = side[sum].map(|held| !held));
            }
        }
        side.into_iter().map(|side| side == Some(true)).collect()
    }

    fn weave(mut self, buffers: Vec<usize>, has_grids: bool) -> Weave {
        let is_held: Vec<bool> = if has_grids { self.held() } else { vec![false; self.sums.len()] };
        let (held, swept): (Vec<usize>, Vec<usize>) = (0..self.sums.len()).partition(|&sum| is_held[sum]);
        let mut weave = Weave { buffers, ..Weave::default() };
        let mut state = vec![Progress::Open; self.sums.len()];
        if !held.is_empty() {
            let batches = held.len().div_ceil(HELD_MOST);
            weave.width = held.len().div_ceil(batches);
            let mut meetings = self.meetings(&held, &swept, weave.width);
            for b in 0..batches {
                let batch = b * weave.width..held.len().min((b + 1) * weave.width);
                self.grid(&mut weave, &swept, &held, batch, &mut meetings, &mut state);
            }
        }
        self.finish(&mut weave, &state);
        let is_slot = |place: u32| place != NONE && place >= self.buffers;
        weave.slot_cells =
            (0u32..).zip(&weave.cells).filter(|(_, place)| is_slot(**place)).map(|(i, _)| i).collect();
        weave.slots = self.slots as usize;
        weave
    }

    /// Where sources of swept and of held sums are added.
    pub(crate) fn meetings(&self, held: &[usize], swept: &[usize], width: usize) -> Meetings {
        let column: HashMap<usize, usize> = held.iter().enumerate().map(|(j, &sum)| (sum, j)).collect();
        let sources =
            |sum: usize| self.sums[sum].terms.iter().copied().filter(|&t| self.made_by[t as usize].is_none());
        let mut rest: Vec<Vec<u32>> = held.iter().map(|&sum| sources(sum).collect()).collect();
        let mut meetings = Meetings { cells: vec![], plain: vec![], last: vec![], rest: vec![] };
        for &sum in swept {
            let mut row = vec![NONE; held.len()];
            let mut plain = Vec::new();
            for term in sources(sum) {
                let columns = self.users(term).iter().filter_map(|user| column.get(user).copied());
                match columns.into_iter().find(|&j| row[j] == NONE && rest[j].contains(&term)) {
                    Some(j) => {
                        row[j] = term;
                        rest[j].retain(|&t| t != term);
                    }
                    None => plain.push(term),
                }
            }
            let last = row.iter().rposition(|&cell| cell != NONE).map(|j| j / width);
            meetings.last.push(last.or((!plain.is_empty()).then_some(0)));
            meetings.cells.push(row);
            meetings.plain.push(plain);
        }
        meetings.rest = rest;
        meetings
    }

    /// One grid: all swept sums against a batch of held ones.
    fn grid(
        &mut self,
        weave: &mut Weave,
        swept: &[usize],
        held: &[usize],
        batch: Range<usize>,
        meetings: &mut Meetings,
        state: &mut [Progress],
    ) {
        let number = weave.grids.len();
        let is_final = batch.end == held.len();
        let mut grid = Grid { swept: Vec::new(), plain: Vec::new(), held: Vec::new() };
        let row_of = |cells: &[u32]| -> Vec<u32> {
            cells.iter().copied().chain(std::iter::repeat(NONE)).take(weave.width).collect()
        };
        let mut cells = Vec::new();
        for (s, &sum) in swept.iter().enumerate() {
            let row = &meetings.cells[s][batch.clone()];
            let plain = if number == 0 { std::mem::take(&mut meetings.plain[s]) } else { Vec::new() };
            if plain.is_empty() && row.iter().all(|&cell| cell == NONE) {
                continue;
            }
            let from = if state[sum] == Progress::Begun { self.slot(sum) } else { NONE };
            let is_done = meetings.last[s] == Some(number) && !self.needs(sum);
            let to = if is_done { self.goal(sum) } else { Goal { place: self.slot(sum), is_last: false } };
            state[sum] = if is_done { Progress::Done } else { Progress::Begun };
            grid.swept.push(Swept { plain: plain.len() as u32, from, to });
            grid.plain.extend(plain);
            cells.extend(row_of(row));
        }
        // What held sums still need: sources that no swept sum has, and, in the last grid, swept sums that are done.
        let mut rest: Vec<Vec<u32>> = meetings.rest[batch.clone()].to_vec();
        for (j, &sum) in held[batch.clone()].iter().enumerate() {
            let needed: Vec<usize> =
                self.sums[sum].terms.iter().filter_map(|&t| self.made_by[t as usize]).collect();
            let is_done = needed.is_empty()
                || is_final && needed.iter().all(|&by| swept.contains(&by) && state[by] == Progress::Done);
            state[sum] = if is_done { Progress::Done } else { Progress::Begun };
            if is_done {
                needed.iter().for_each(|&by| rest[j].push(self.result(by)));
            }
            let to = if is_done { self.goal(sum) } else { Goal { place: self.slot(sum), is_last: false } };
            grid.held.push(to);
        }
        while rest.iter().any(|terms| !terms.is_empty()) {
            grid.swept.push(Swept { plain: 0, from: NONE, to: Goal::NOWHERE });
            let row: Vec<u32> = rest.iter_mut().map(|terms| terms.pop().unwrap_or(NONE)).collect();
            cells.extend(row_of(&row));
        }
        weave.cells.extend(cells);
        weave.grids.push(grid);
    }

    /// The sums that no grid finished.
    fn finish(&mut self, weave: &mut Weave, state: &[Progress]) {
        let mut last_out = NONE;
        let sums = self.sums;
        for sum in 0..sums.len() {
            if state[sum] == Progress::Done {
                continue;
            }
            let has_begun = state[sum] == Progress::Begun;
            let first = weave.words.len();
            if has_begun {
                weave.words.push(self.slot(sum));
            }
            let mut carries = false;
            for &term in &sums[sum].terms {
                match self.made_by[term as usize] {
                    Some(_) if term == last_out => carries = true,
                    Some(by) => weave.words.push(self.result(by)),
                    None if !has_begun => weave.words.push(term),
                    None => {}
                }
            }
            let to = self.goal(sum);
            weave.rows.push(Row { sources: (weave.words.len() - first) as u32, carries, to });
            last_out = sums[sum].out;
        }
    }
}

/// How far a sum has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Nothing is computed.
    Open,
    /// Its slot has the sum of its sources, not of the sums that it needs.
    Begun,
    /// It is where it belongs.
    Done,
}

/// Which source is added in which cell.
pub(crate) struct Meetings {
    /// For each swept sum, a cell for each held one.
    pub(crate) cells: Vec<Vec<u32>>,
    /// Sources of each swept sum that stand in no cell.
    pub(crate) plain: Vec<Vec<u32>>,
    /// The last grid that each swept sum has anything in.
    last: Vec<Option<usize>>,
    /// Sources of each held sum that stand in no cell of a swept one.
    pub(crate) rest: Vec<Vec<u32>>,
}

/// Carries out a weave on `len` bytes at the places of the table, a byte at a time: for what vectors leave over.
///
/// # Safety
///
/// Every place is valid for `len <= SLICE_BYTES_MOST` bytes, and places overlap nothing.
pub(crate) unsafe fn weave_bytes(weave: &Weave, table: &[*mut u8], len: usize) {
    // SAFETY: i < len at every place.
    let read = |place: u32, i: usize| unsafe { table[place as usize].add(i).read() };
    let write = |goal: Goal, i: usize, sum: u8| {
        if goal.place != NONE {
            // SAFETY: as above.
            unsafe { table[goal.place as usize].add(i).write(sum) };
        }
    };
    for i in 0..len {
        let mut rows = weave.cells.chunks_exact(weave.width.max(1));
        for grid in &weave.grids {
            let mut held = [0; HELD_MOST];
            let mut plain = grid.plain.iter();
            for swept in &grid.swept {
                let mut sum = if swept.from == NONE { 0 } else { read(swept.from, i) };
                plain.by_ref().take(swept.plain as usize).for_each(|&place| sum ^= read(place, i));
                for (held, &place) in held.iter_mut().zip(rows.next().unwrap_or_default()) {
                    if place != NONE {
                        let x = read(place, i);
                        sum ^= x;
                        *held ^= x;
                    }
                }
                write(swept.to, i, sum);
            }
            grid.held.iter().zip(held).for_each(|(&to, sum)| write(to, i, sum));
        }
        let mut words = weave.words.iter();
        let mut sum = 0;
        for row in &weave.rows {
            sum = if row.carries { sum } else { 0 };
            words.by_ref().take(row.sources as usize).for_each(|&place| sum ^= read(place, i));
            write(row.to, i, sum);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    //! The weave itself, carried out a byte at a time, so that every machine and Miri can test it.

    use super::*;

    /// Rows and diagonals that hold the row sums: what RDP's encoding looks like. With `chain`, each sum needs the one before.
    pub(crate) fn steps(rows: usize, columns: usize, chain: bool) -> Vec<(usize, Vec<usize>)> {
        let first = rows * columns;
        let mut steps: Vec<(usize, Vec<usize>)> =
            (0..rows).map(|r| (first + r, (0..columns).map(|c| r * columns + c).collect())).collect();
        for d in 0..columns {
            let on = (0..rows)
                .flat_map(|r| (0..columns).map(move |c| (r, c)))
                .filter(|(r, c)| (r + c) % columns == d);
            let mut terms: Vec<usize> = on.map(|(r, c)| r * columns + c).collect();
            terms.push(if chain && d > 0 { first + rows + d - 1 } else { first + d % rows });
            steps.push((first + rows + d, terms));
        }
        steps
    }

    /// Numbers below what is asked for, at random.
    pub(crate) fn below(seed: u64) -> impl FnMut(usize) -> usize {
        let mut state = seed;
        move |n| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % n
        }
    }

    /// Buffers of 3 bytes as they are before some steps, and as they are to be after them.
    pub(crate) fn contents(steps: &[(usize, Vec<usize>)]) -> (Vec<[u8; 3]>, Vec<[u8; 3]>) {
        let buffers =
            1 + steps.iter().flat_map(|(target, terms)| terms.iter().chain([target])).max().unwrap();
        let have: Vec<[u8; 3]> = (0..buffers).map(|i| [i as u8, (i * 7 + 1) as u8, (i * i) as u8]).collect();
        let mut wanted = have.clone();
        for (target, terms) in steps {
            wanted[*target] =
                terms.iter().fold([0; 3], |sum, &t| std::array::from_fn(|i| sum[i] ^ wanted[t][i]));
        }
        (have, wanted)
    }

    fn check(steps: &[(usize, Vec<usize>)], has_grids: bool) {
        let weave = Weave::new(&SharedSums::new(steps), has_grids);
        let (mut have, wanted) = contents(steps);
        let mut slots = vec![[0u8; 3]; weave.slots()];
        let cells = have.as_mut_ptr();
        // SAFETY: each pointer is to a buffer of its own.
        let mut table: Vec<*mut u8> =
            weave.buffers().iter().map(|&i| unsafe { cells.add(i).cast() }).collect();
        table.extend(slots.iter_mut().map(|slot| slot.as_mut_ptr()));
        // SAFETY: the table has the places of the weave, each of 3 bytes and apart from the others.
        unsafe { weave_bytes(&weave, &table, 3) };
        assert_eq!(have, wanted, "grids {has_grids}");
    }

    #[test]
    fn every_form_gives_the_sums() {
        for (rows, columns) in [(1, 2), (3, 4), (4, 7), (5, 16), (3, 31)] {
            for chain in [false, true] {
                for has_grids in [false, true] {
                    check(&steps(rows, columns, chain), has_grids);
                }
            }
        }
    }

    #[test]
    fn a_source_of_two_sums_is_met_once_in_a_grid() {
        let weave = Weave::new(&SharedSums::new(&steps(4, 7, false)), true);
        let of = |places: &[u32]| places.iter().filter(|&&place| place != NONE && place < 28).count();
        let plain: Vec<u32> = weave.grids().iter().flat_map(|grid| grid.plain.iter().copied()).collect();
        assert_eq!(of(weave.cells()) + of(&plain) + of(weave.words()), 28);
    }

    #[test]
    fn what_sums_have_in_common_is_computed_once() {
        let steps = [(5, vec![0, 1, 2, 3]), (6, vec![0, 1, 2, 4]), (7, vec![0, 1, 2])];
        let weave = Weave::new(&SharedSums::new(&steps), false);
        // 0 + 1 + 2 into a slot; then it is still in registers, and twice it is read.
        assert_eq!((weave.rows().len(), weave.words().len()), (4, 3 + 1 + 2 + 1));
        assert!(weave.rows()[1].carries);
    }
}
