//! Counts one code under a trace: the blocks that each device reads and writes, by cause, if
//! stripes are written in place.
//!
//! Requests run one at a time, each durable before the next, on a volume that has been written
//! once. A read reads its blocks. A write follows [`Planner::update`] for every offset in the
//! elements, with the cells that it changes at that offset. With devices lost, the lost cells of a
//! read are recovered by the cheapest plan for exactly these cells, over all offsets from the
//! first to the last wanted one. A stripe that is written is then written as a whole, so that it
//! is known what a returning device lacks.
//!
//! The offsets of one request in one stripe change at most three different sets of consecutive
//! cells. So nothing is planned per request. The reads and writes of each set are counted, and
//! multiplied by the set's plan at the end; on a degraded volume, those of each range of blocks.
//! For a code with very many sets, only those that occur are kept, and they are multiplied whenever
//! there are too many: the memory is bounded for every code and trace.

use super::counts::{BLOCK_BYTES, Blocks, Cause, Counts};
use super::trace::Request;
use pantile::code::Placement;
use pantile::plan::{Planner, Strategy};
use pantile::{CellIndex, CellSet, Code, Costs, Effort, PlanError};
use pantile_volume::{Geometry, Slot};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Data cells `first .. first + count` of a stripe, in user order.
type Cells = (u32, u32);

/// A set of cells, and the turn of the stripe's columns.
type Key = (Cells, u32);

/// First block, end, and turn of a stripe's range; true for a write.
type Range = (u64, u64, u32, bool);

/// Counts one trace on one code.
pub struct Counter {
    code: Code,
    planner: Planner,
    geometry: Geometry,
    /// Lost devices.
    lost: Vec<usize>,
    element_blocks: u64,
    stripe_blocks: u64,
    turns: u64,
    /// Numbers of reads and writes by set of cells and turn.
    reads: Tally<u64>,
    writes: Tally<u64>,
    /// Chunks of stripes that were written to, by the set of all cells of the write, which decides
    /// the headers to write.
    touched: BTreeMap<Key, u64>,
    /// Ranges of blocks of a degraded volume, each with its number of requests and its cost;
    /// `None` if it cannot be recovered.
    ranges: HashMap<Range, (u64, Option<u64>)>,
    /// Cells read to recover the wanted cells that are lost, by the turn and these cells; `None` if
    /// they cannot be recovered.
    ways: HashMap<(u32, Vec<CellIndex>), Option<Vec<CellIndex>>>,
    /// Cost of one read of each set, in blocks, plus one; 0 if it is not yet known.
    cost_of_read: Tally<u32>,
    cost_of_write: Tally<u32>,
    /// Counts that were already multiplied by their plans.
    settled: Counts,
    data: u32,
}

/// The most kinds for which a [`Tally`] is a list: 8 MiB.
const LISTED_MOST: usize = 1 << 20;

/// Maximum of kinds kept in a map; with more, the counts are settled.
const KEPT_MOST: usize = 1 << 17;

/// Maximum of recoveries that are kept.
const WAYS_MOST: usize = 1 << 12;

/// A number for each kind: a list if there are few kinds, otherwise a map of the kinds that occur.
enum Tally<T> {
    List(Vec<T>),
    Map(HashMap<usize, T>),
}

impl<T: Copy + Default + PartialEq> Tally<T> {
    fn new(kinds: usize) -> Tally<T> {
        match kinds <= LISTED_MOST {
            true => Tally::List(vec![T::default(); kinds]),
            false => Tally::Map(HashMap::new()),
        }
    }

    fn get(&self, kind: usize) -> T {
        match self {
            Tally::List(list) => list[kind],
            Tally::Map(map) => map.get(&kind).copied().unwrap_or_default(),
        }
    }

    fn at(&mut self, kind: usize) -> &mut T {
        match self {
            Tally::List(list) => &mut list[kind],
            Tally::Map(map) => map.entry(kind).or_default(),
        }
    }

    fn is_full(&self) -> bool {
        matches!(self, Tally::Map(map) if map.len() >= KEPT_MOST)
    }

    /// Removes and returns all numbers that are not zero, in order.
    fn take(&mut self) -> Vec<(usize, T)> {
        match self {
            Tally::List(list) => {
                let all = list.iter_mut().enumerate().filter(|(_, n)| **n != T::default());
                all.map(|(kind, n)| (kind, std::mem::take(n))).collect()
            }
            Tally::Map(map) => {
                let mut all: Vec<(usize, T)> = map.drain().collect();
                all.sort_unstable_by_key(|&(kind, _)| kind);
                all
            }
        }
    }
}

impl Counter {
    /// Returns a counter for a volume of this geometry, with devices lost.
    ///
    /// Errors: lost content cannot be recovered.
    pub fn new(geometry: &Geometry, lost: &[usize]) -> Result<Counter, PlanError> {
        let code = &geometry.code;
        // A column on a fixed device and its copy are read in turn, which takes two turns.
        let has_copies = code.data().iter().any(|&cell| geometry.copy_of(cell).is_some());
        let turns = geometry.placement.turns(code.columns()).max(1 + usize::from(has_copies));
        let data = code.data().len();
        let sets = data * (data + 1) / 2;
        let mut lost = lost.to_vec();
        lost.sort_unstable();
        lost.dedup();
        let settled = Counts::new(code.columns());
        let counter = Counter {
            lost,
            element_blocks: geometry.element_blocks().into(),
            stripe_blocks: geometry.stripe_blocks(),
            turns: turns as u64,
            reads: Tally::new(sets * turns),
            writes: Tally::new(sets * turns),
            touched: BTreeMap::new(),
            ranges: HashMap::new(),
            ways: HashMap::new(),
            cost_of_read: Tally::new(sets),
            cost_of_write: Tally::new(sets),
            settled,
            data: data as u32,
            planner: Planner::new(code),
            code: code.clone(),
            geometry: geometry.clone(),
        };
        for turn in 0..turns {
            let lost = counter.lost_columns(turn as u32);
            let cells = CellSet::of_columns(&counter.code, &lost);
            let wanted: Vec<CellIndex> = cells.iter().collect();
            counter.recover(&cells, &wanted)?;
        }
        Ok(counter)
    }

    /// Returns the placement of the columns of a stripe on devices.
    pub fn placement(&self) -> Placement {
        self.geometry.placement
    }

    /// Returns the number of user blocks in one stripe.
    pub fn stripe_blocks(&self) -> u64 {
        self.stripe_blocks
    }

    fn recover(&self, lost: &CellSet, wanted: &[CellIndex]) -> Result<pantile::Plan, PlanError> {
        let costs = Costs::uniform();
        self.planner.recover(&pantile::plan::Request { lost, wanted, costs: &costs, effort: Effort::Fast })
    }

    /// Returns the columns on lost devices in stripes of a turn.
    fn lost_columns(&self, turn: u32) -> Vec<usize> {
        let column = |&device: &usize| self.geometry.column(turn, Slot(device as u32));
        let mut columns: Vec<usize> = self.lost.iter().map(column).collect();
        columns.sort_unstable();
        columns
    }

    /// Returns the index of a set of cells. Sets are ordered by their first cell, then by length;
    /// there are `data - first` sets with the same first cell.
    fn index(&self, (first, count): Cells) -> usize {
        let (first, count) = (first as usize, count as usize);
        self.before(first) + count - 1
    }

    /// Returns the number of sets that begin before this cell.
    fn before(&self, first: usize) -> usize {
        first * self.data as usize - first * first.saturating_sub(1) / 2
    }

    /// Returns the set with an index.
    fn set(&self, index: usize) -> Cells {
        let (mut low, mut high) = (0, self.data as usize);
        while high - low > 1 {
            let middle = (low + high) / 2;
            if self.before(middle) <= index { low = middle } else { high = middle }
        }
        (low as u32, (index - self.before(low) + 1) as u32)
    }

    /// Counts a request; a block that is written in part is read first. Cost: some additions for
    /// each end of the request and for each turn of stripes, regardless of its length.
    pub fn push(&mut self, request: &Request) {
        let end_byte = request.offset + request.len;
        let (begin, end) = (request.offset / BLOCK_BYTES, end_byte.div_ceil(BLOCK_BYTES));
        let mut cost = self.blocks(begin, end, request.is_write);
        if request.is_write {
            let cuts_first = !request.offset.is_multiple_of(BLOCK_BYTES);
            let cuts_last = !end_byte.is_multiple_of(BLOCK_BYTES);
            if cuts_first {
                cost = cost.zip(self.blocks(begin, begin + 1, false)).map(|(a, b)| a + b);
            }
            if cuts_last && !(cuts_first && begin + 1 == end) {
                cost = cost.zip(self.blocks(end - 1, end, false)).map(|(a, b)| a + b);
            }
        }
        self.settled.refused += u64::from(cost.is_none());
        self.settled.note_request(cost.unwrap_or(0));
    }

    /// Counts blocks of the volume and returns their cost; `None` if they cannot be recovered.
    ///
    /// Whole stripes of equal turn cost the same, and are counted at once.
    fn blocks(&mut self, begin: u64, end: u64, is_write: bool) -> Option<u64> {
        if begin >= end {
            return Some(0);
        }
        let (s, turns) = (self.stripe_blocks, self.turns);
        let (first, last) = (begin / s, end / s);
        let turn = |stripe: u64| (stripe % turns) as u32;
        if first == last {
            return self.part((begin - first * s, end - first * s, turn(first), is_write), 1);
        }
        let mut cost = Some(0);
        let mut add = |part: Option<u64>| cost = cost.zip(part).map(|(a, b)| a + b);
        if begin > first * s {
            add(self.part((begin - first * s, s, turn(first), is_write), 1));
        }
        let (whole, count) = (begin.div_ceil(s), last - begin.div_ceil(s));
        for nth in 0..turns.min(count) {
            // Number of whole stripes with this turn: every stripe at a distance of `turns` from
            // here on.
            let often = (count - nth).div_ceil(turns);
            add(self.part((0, s, turn(whole + nth), is_write), often));
        }
        if end > last * s {
            add(self.part((0, end - last * s, turn(last), is_write), 1));
        }
        cost
    }

    /// Counts the blocks `from..to` of `stripes` stripes of equal turn; returns their cost. The
    /// offsets form at most three classes; all offsets of a class have the same cells.
    fn part(&mut self, range: Range, stripes: u64) -> Option<u64> {
        if !self.lost.is_empty() {
            return self.degraded_part(range, stripes);
        }
        let (from, to, turn, is_write) = range;
        let e = self.element_blocks;
        let (first, at_first) = (from / e, from % e);
        let (last, at_last) = ((to - 1) / e, (to - 1) % e);
        let mut cost = 0;
        // The first element has no blocks of the range below the offset `at_first`, and the last
        // one none above `at_last`.
        let cuts = [0, at_first.min(at_last + 1), at_first.max(at_last + 1), e];
        for class in cuts.windows(2).filter(|class| class[0] < class[1]) {
            let (low, often) = (class[0], (class[1] - class[0]) * stripes);
            let begin = first + u64::from(low < at_first);
            let end = last + u64::from(low <= at_last);
            if begin >= end {
                continue;
            }
            let cells = (begin as u32, (end - begin) as u32);
            let index = self.index(cells);
            cost += often * self.cost(index, cells, is_write);
            let sums = if is_write { &mut self.writes } else { &mut self.reads };
            *sums.at(index * self.turns as usize + turn as usize) += often;
        }
        if is_write {
            let all = (first as u32, (last - first + 1) as u32);
            *self.touched.entry((all, turn)).or_default() += stripes;
        }
        if self.reads.is_full() || self.writes.is_full() || self.touched.len() >= KEPT_MOST {
            self.settle();
        }
        Some(cost)
    }

    fn cost(&mut self, index: usize, cells: Cells, is_write: bool) -> u64 {
        let known = if is_write { self.cost_of_write.get(index) } else { self.cost_of_read.get(index) };
        if known != 0 {
            return u64::from(known) - 1;
        }
        let planned = if is_write { self.planned_write(cells) } else { self.planned_read(cells, 0) };
        let cost: u64 = planned.columns.values().map(|blocks| blocks.read + blocks.written).sum();
        let costs = if is_write { &mut self.cost_of_write } else { &mut self.cost_of_read };
        if costs.is_full() {
            costs.take();
        }
        *costs.at(index) = cost as u32 + 1;
        cost
    }

    fn cells(&self, (first, count): Cells) -> &[CellIndex] {
        &self.code.data()[first as usize..(first + count) as usize]
    }

    fn degraded_part(&mut self, range: Range, stripes: u64) -> Option<u64> {
        let of_all = |cost: Option<u64>| cost.map(|cost| cost * stripes);
        if let Some((often, cost)) = self.ranges.get_mut(&range) {
            *often += if cost.is_some() { stripes } else { 0 };
            return of_all(*cost);
        }
        let planned = self.planned_degraded(range);
        let sum = |planned: &Planned| planned.columns.values().map(|b| b.read + b.written).sum::<u64>();
        let cost = planned.as_ref().map(sum);
        self.ranges.insert(range, (if cost.is_some() { stripes } else { 0 }, cost));
        if self.ranges.len() >= KEPT_MOST {
            self.settle();
        }
        of_all(cost)
    }

    /// Returns the cell to read for a user's cell in a stripe of a turn: itself, or its copy.
    fn cell_to_read(&self, cell: CellIndex, turn: u32, lost: &CellSet) -> CellIndex {
        let Some(copy) = self.geometry.copy_of(cell) else { return cell };
        let (first, second) = if turn.is_multiple_of(2) { (cell, copy) } else { (copy, cell) };
        if lost.contains(first) && !lost.contains(second) { second } else { first }
    }

    /// Returns the plan of one offset of a read.
    fn planned_read(&self, cells: Cells, turn: u32) -> Planned {
        let (mut planned, nothing) = (Planned::default(), CellSet::empty(&self.code));
        for &cell in self.cells(cells) {
            let cell = self.cell_to_read(cell, turn, &nothing);
            planned.add(self.code.column_of(cell), Cause::User, Blocks { read: 1, written: 0 });
        }
        planned
    }

    /// Returns the plan of one offset of a write.
    fn planned_write(&self, cells: Cells) -> Planned {
        let mut planned = Planned::default();
        let nothing = CellSet::empty(&self.code);
        let Ok(plan) = self.planner.update(self.cells(cells), &nothing, &Costs::uniform()) else {
            unreachable!("nothing is lost")
        };
        planned.strategy = Some(plan.strategy);
        for &cell in &plan.old.reads {
            planned.add(self.code.column_of(cell), Cause::ReadModifyWrite, Blocks { read: 1, written: 0 });
        }
        let written = self.cells(cells);
        for &cell in &plan.writes {
            let cause = if written.contains(&cell) { Cause::User } else { Cause::Parity };
            planned.add(self.code.column_of(cell), cause, Blocks { read: 0, written: 1 });
        }
        planned
    }

    /// Returns the cells read for these lost cells of a stripe of a turn; `None` if they cannot be
    /// recovered.
    fn way(&mut self, turn: u32, lost: &CellSet, missing: Vec<CellIndex>) -> Option<Vec<CellIndex>> {
        if missing.is_empty() {
            return Some(Vec::new());
        }
        let key = (turn, missing);
        if let Some(known) = self.ways.get(&key) {
            return known.clone();
        }
        let found = self.recover(lost, &key.1).ok().map(|plan| plan.reads);
        if self.ways.len() >= WAYS_MOST {
            self.ways.clear();
        }
        self.ways.insert(key, found.clone());
        found
    }

    /// Returns the plan of a range of a degraded stripe: its reads, or a write of the whole
    /// stripe.
    fn planned_degraded(&mut self, (from, to, turn, is_write): Range) -> Option<Planned> {
        let lost_columns = self.lost_columns(turn);
        let lost = CellSet::of_columns(&self.code, &lost_columns);
        let e = self.element_blocks;
        // The offsets that the request reads or writes of one element, by its index in user order.
        let asked = |place: u64| {
            let begin = from.clamp(place * e, (place + 1) * e) - place * e;
            begin..to.clamp(place * e, (place + 1) * e) - place * e
        };
        // A write needs the rest of the stripe: in each element, all from the first unchanged
        // offset to the last.
        let wanted = |place: u64| match (asked(place), is_write) {
            (asked, false) => asked,
            (asked, true) if asked.is_empty() => 0..e,
            (asked, true) if asked.start == 0 => asked.end..e,
            (asked, true) if asked.end == e => 0..asked.start,
            (_, true) => 0..e,
        };
        let read = |&cell: &CellIndex| if is_write { cell } else { self.cell_to_read(cell, turn, &lost) };
        let data: Vec<CellIndex> = self.code.data().iter().map(read).collect();
        let places: BTreeMap<CellIndex, u64> = data.iter().copied().zip(0..).collect();
        let missing: Vec<u64> = (0..data.len() as u64)
            .filter(|&place| lost.contains(data[place as usize]) && !wanted(place).is_empty())
            .collect();
        let mut cells: Vec<CellIndex> = missing.iter().map(|&place| data[place as usize]).collect();
        cells.sort_unstable();
        let first = missing.iter().map(|&place| wanted(place).start).min().unwrap_or(0);
        let end = missing.iter().map(|&place| wanted(place).end).max().unwrap_or(0);
        let way = self.way(turn, &lost, cells)?;
        let way = CellSet::of_cells(&self.code, &way);
        let mut planned = Planned::default();
        for cell in self.code.cells().filter(|&cell| !lost.contains(cell)) {
            let asked = places.get(&cell).map_or(0..0, |&place| asked(place));
            let (user, of_way) = (asked.end - asked.start, if way.contains(cell) { end - first } else { 0 });
            let both = match of_way {
                0 => 0,
                _ => asked.end.min(end).saturating_sub(asked.start.max(first)),
            };
            let (direct, other) = match (is_write, self.code.is_parity(cell)) {
                (false, _) => (user, of_way - both),
                (true, true) => (0, of_way),
                (true, false) => (0, e - user + both),
            };
            let column = self.code.column_of(cell);
            planned.add(column, Cause::User, Blocks { read: direct, written: 0 });
            planned.add(column, Cause::Degraded, Blocks { read: other, written: 0 });
            if is_write {
                let rest = if self.code.is_parity(cell) { Cause::Parity } else { Cause::Degraded };
                planned.add(column, Cause::User, Blocks { read: 0, written: user });
                planned.add(column, rest, Blocks { read: 0, written: e - user });
            }
        }
        if is_write {
            for column in (0..self.code.columns()).filter(|column| !lost_columns.contains(column)) {
                let slot = self.geometry.slot(turn, column);
                let blocks = Blocks { read: 0, written: self.geometry.header_blocks(slot).into() };
                planned.add(column, Cause::Checksums, blocks);
            }
        }
        Some(planned)
    }

    /// Multiplies the counts by their plans. Cost: one plan per set of cells that occurred.
    fn settle(&mut self) {
        let turns = self.turns as usize;
        for is_write in [false, true] {
            let sums = if is_write { self.writes.take() } else { self.reads.take() };
            // In the order of sets: the writes of a set have one plan for all turns.
            for of_set in sums.chunk_by(|a, b| a.0 / turns == b.0 / turns) {
                let cells = self.set(of_set[0].0 / turns);
                let written = is_write.then(|| self.planned_write(cells));
                for &(kind, often) in of_set {
                    let turn = (kind % turns) as u32;
                    match &written {
                        Some(planned) => self.add(planned, turn, often),
                        None => self.add(&self.planned_read(cells, turn), turn, often),
                    }
                }
            }
        }
        for (range, (often, _)) in std::mem::take(&mut self.ranges) {
            if let Some(planned) = (often > 0).then(|| self.planned_degraded(range)).flatten() {
                self.add(&planned, range.2, often);
            }
        }
        let touched: Vec<(Key, u64)> = std::mem::take(&mut self.touched).into_iter().collect();
        for of_cells in touched.chunk_by(|a, b| a.0.0 == b.0.0) {
            let columns = self.columns_written(of_cells[0].0.0);
            for &((_, turn), often) in of_cells {
                let mut planned = Planned::default();
                for &column in &columns {
                    let slot = self.geometry.slot(turn, column);
                    let blocks = Blocks { read: 0, written: self.geometry.header_blocks(slot).into() };
                    planned.add(column, Cause::Checksums, blocks);
                }
                self.add(&planned, turn, often);
            }
        }
    }

    fn add(&mut self, planned: &Planned, turn: u32, often: u64) {
        for (&(column, cause), blocks) in &planned.columns {
            let device = self.geometry.slot(turn, column).0 as usize;
            let sum = self.settled.devices[device].entry(cause).or_default();
            *sum += Blocks { read: blocks.read * often, written: blocks.written * often };
        }
        if let Some(strategy) = planned.strategy {
            *self.settled.strategies.entry(name_of(strategy)).or_default() += often;
        }
    }

    /// Returns the counts.
    pub fn finish(mut self) -> Counts {
        self.settle();
        self.settled
    }

    /// Returns the columns whose chunks a write to these cells changes.
    fn columns_written(&self, cells: Cells) -> BTreeSet<usize> {
        self.planned_write(cells)
            .columns
            .keys()
            .filter(|(_, cause)| *cause != Cause::ReadModifyWrite)
            .map(|key| key.0)
            .collect()
    }
}

fn name_of(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::ReadModifyWrite => "read-modify-write",
        Strategy::ReconstructWrite => "reconstruct-write",
        Strategy::FullStripe => "full stripe",
    }
}

/// Cost of one offset, by column and cause.
#[derive(Default)]
struct Planned {
    columns: BTreeMap<(usize, Cause), Blocks>,
    strategy: Option<Strategy>,
}

impl Planned {
    fn add(&mut self, column: usize, cause: Cause, blocks: Blocks) {
        if blocks == Blocks::default() {
            return;
        }
        *self.columns.entry((column, cause)).or_default() += blocks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::geometry;

    fn counter(spec: &str, lost: &[usize]) -> Counter {
        let code = Code::parse(spec).expect("a spec");
        Counter::new(&geometry((&code, Placement::spread(&code)), 4 * BLOCK_BYTES).expect("a shape"), lost)
            .expect("it can be had")
    }

    fn requests(stripe_bytes: u64) -> impl Iterator<Item = Request> {
        let around =
            move |stripes: u64| [0, 1, BLOCK_BYTES, stripe_bytes - 1].map(|at| stripes * stripe_bytes + at);
        let ends = (0..19).flat_map(move |stripes| around(stripes).map(|len| len + 1));
        let all = around(0).into_iter().chain(around(5)).flat_map(move |offset| {
            ends.clone().flat_map(move |len| [false, true].map(|is_write| (offset, len, is_write)))
        });
        all.map(|(offset, len, is_write)| Request { at_us: 0, offset, len, is_write })
    }

    /// Whole stripes counted at once cost as much as one by one.
    #[test]
    fn a_long_request_costs_what_its_stripes_do() {
        for (spec, lost) in
            [("raid6:4", &[][..]), ("raid6:4", &[1, 2]), ("dcode:5", &[]), ("shec:4,3,2", &[0])]
        {
            let stripe_blocks = counter(spec, lost).stripe_blocks();
            let (mut at_once, mut one_by_one) = (counter(spec, lost), counter(spec, lost));
            for request in requests(stripe_blocks * BLOCK_BYTES) {
                let (begin, end) =
                    (request.offset / BLOCK_BYTES, (request.offset + request.len).div_ceil(BLOCK_BYTES));
                let mut cost = Some(0);
                let mut block = begin;
                while block < end {
                    let next = end.min((block / stripe_blocks + 1) * stripe_blocks);
                    let part = one_by_one.blocks(block, next, request.is_write);
                    cost = cost.zip(part).map(|(a, b)| a + b);
                    block = next;
                }
                assert_eq!(at_once.blocks(begin, end, request.is_write), cost, "{spec} {request:?}");
            }
            let (at_once, one_by_one) = (at_once.finish(), one_by_one.finish());
            assert_eq!(at_once.devices, one_by_one.devices, "{spec} {lost:?}");
            assert_eq!(at_once.strategies, one_by_one.strategies, "{spec} {lost:?}");
        }
    }

    /// Counted one by one, the stripes of these requests would take years.
    #[test]
    fn a_request_costs_no_more_time_for_being_long() {
        for lost in [&[][..], &[1]] {
            let mut counter = counter("raid6:4", lost);
            let len = 1 << 58;
            counter.push(&Request { at_us: 0, offset: 5, len, is_write: true });
            counter.push(&Request { at_us: 0, offset: 1 << 40, len, is_write: false });
            let total = counter.finish().total();
            assert!(total.read >= len / BLOCK_BYTES / 2 && total.written >= len / BLOCK_BYTES, "{total:?}");
        }
    }
}
