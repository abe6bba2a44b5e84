//! A standard RAID for comparisons: each stripe has a fixed place, and a small write changes it in
//! place.
//!
//! A write reads the old contents that the cheapest [`UpdatePlan`] needs, computes parity, writes
//! data and parity, flushes the devices that were written, and is answered. There are no
//! checksums, no journal and no repair after a crash: this is the baseline of the documents, not a
//! volume. It handles the events and returns the actions of a [`Volume`](pantile_volume::Volume),
//! so that the same devices run it.

use crate::engine::Machine;
use pantile::plan::{Content, Planner, UpdatePlan};
use pantile::{CellIndex, CellSet, Costs};
use pantile_volume::{
    Action, BufferId, Compute, DeviceBlock, ENGINE_BUFFERS, Event, Geometry, IoId, JobId, Operand, Piece,
    Reply, Request, RequestId, Slot, Sum, Urgency, UserBlock,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// A block of the array: stripe, cell, and offset in the element.
type At = (u32, CellIndex, u32);

/// Blocks by device and address.
type Placed<T> = BTreeMap<(Slot, DeviceBlock), T>;

/// A standard RAID of a code.
pub(crate) struct Standard {
    geometry: Geometry,
    planner: Planner,
    /// Update plans, by the set of cells that change at one offset.
    plans: HashMap<Vec<CellIndex>, Arc<UpdatePlan>>,
    actions: VecDeque<Action>,
    under_way: BTreeMap<u64, Write>,
    /// Writes that wait for an earlier write of one of their stripes.
    waiting: VecDeque<Write>,
    /// Number of the write that each operation belongs to.
    ios: HashMap<IoId, u64>,
    numbered: u64,
}

/// A write, from its request to its answer.
struct Write {
    id: RequestId,
    new: BTreeMap<At, BufferId>,
    plans: Vec<(u32, u32, Arc<UpdatePlan>)>,
    old: BTreeMap<At, BufferId>,
    made: BTreeMap<At, BufferId>,
    written: BTreeSet<Slot>,
    phase: Phase,
    outstanding: usize,
}

#[derive(Clone, Copy)]
enum Phase {
    Read,
    Compute,
    Write,
    Flush,
}

impl Machine for Standard {
    fn handle(&mut self, event: Event) {
        match event {
            Event::Request(id, Request::Write { first, contents: buffers, .. }) => {
                self.write(id, first, buffers)
            }
            Event::Request(id, _) => self.actions.push_back(Action::Reply(id, Reply::Done)),
            Event::IoDone(io, _) => {
                if let Some(number) = self.ios.remove(&io) {
                    self.part_done(number);
                }
            }
            Event::Computed(job, _) => self.part_done(job.0),
            _ => {}
        }
    }

    fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
}

impl Standard {
    /// Returns an array in which every block is zero.
    pub(crate) fn new(geometry: Geometry) -> Standard {
        Standard {
            planner: Planner::new(&geometry.code),
            geometry,
            plans: HashMap::new(),
            actions: VecDeque::new(),
            under_way: BTreeMap::new(),
            waiting: VecDeque::new(),
            ios: HashMap::new(),
            numbered: 0,
        }
    }

    fn number(&mut self) -> u64 {
        self.numbered += 1;
        self.numbered
    }

    fn buffer(&mut self) -> BufferId {
        BufferId(ENGINE_BUFFERS | self.number())
    }

    fn write(&mut self, id: RequestId, first: UserBlock, buffers: Vec<BufferId>) {
        let at = |block: u64| {
            let (stripe, place) = self.geometry.locate(UserBlock(block));
            let (cell, offset) = self.geometry.cell_of(place);
            (stripe, cell, offset)
        };
        let new: BTreeMap<At, BufferId> = (first.0..).map(at).zip(buffers).collect();
        let mut cells: BTreeMap<(u32, u32), Vec<CellIndex>> = BTreeMap::new();
        for &(stripe, cell, offset) in new.keys() {
            cells.entry((stripe, offset)).or_default().push(cell);
        }
        let cells = cells.into_iter();
        let plans = cells.map(|((stripe, offset), cells)| (stripe, offset, self.plan(cells))).collect();
        self.waiting.push_back(Write {
            id,
            plans,
            new,
            old: BTreeMap::new(),
            made: BTreeMap::new(),
            written: BTreeSet::new(),
            phase: Phase::Read,
            outstanding: 0,
        });
        self.begin_what_can();
    }

    fn plan(&mut self, cells: Vec<CellIndex>) -> Arc<UpdatePlan> {
        let (planner, nothing) = (&self.planner, CellSet::empty(&self.geometry.code));
        let plan = self.plans.entry(cells).or_insert_with_key(|cells| {
            let Ok(plan) = planner.update(cells, &nothing, &Costs::uniform()) else {
                unreachable!("nothing is lost")
            };
            Arc::new(plan)
        });
        Arc::clone(plan)
    }

    /// Begins the waiting writes whose stripes no earlier write uses.
    fn begin_what_can(&mut self) {
        let mut held: BTreeSet<u32> = self.under_way.values().flat_map(Write::stripes).collect();
        for write in std::mem::take(&mut self.waiting) {
            let stripes: Vec<u32> = write.stripes().collect();
            let is_free = !stripes.iter().any(|stripe| held.contains(stripe));
            held.extend(stripes);
            match is_free {
                true => self.begin(write),
                false => self.waiting.push_back(write),
            }
        }
    }

    fn begin(&mut self, mut write: Write) {
        let reads = write.plans.iter().flat_map(|(stripe, offset, plan)| {
            plan.old.reads.iter().map(|&cell| (*stripe, cell, *offset)).collect::<Vec<At>>()
        });
        write.old = reads.map(|at| (at, self.buffer())).collect();
        let number = self.number();
        let placed = self.placed(write.old.iter().map(|(&at, &buffer)| (at, buffer)));
        let runs = runs(placed);
        write.outstanding = 1 + runs.len();
        self.under_way.insert(number, write);
        for (slot, at, into) in runs {
            let io = self.io(number);
            let (generation, urgency) = (0, Urgency::User);
            self.actions.push_back(Action::Read { io, slot, at, into, generation, urgency });
        }
        self.part_done(number);
    }

    fn io(&mut self, number: u64) -> IoId {
        let io = IoId(self.number());
        self.ios.insert(io, number);
        io
    }

    fn placed<T>(&self, blocks: impl Iterator<Item = (At, T)>) -> Placed<T> {
        blocks
            .map(|((stripe, cell, offset), of)| (self.geometry.cell_block(stripe, cell, offset), of))
            .collect()
    }

    /// Starts the next phase of a write when all parts of the current one are done.
    fn part_done(&mut self, number: u64) {
        let Some(mut write) = self.under_way.remove(&number) else { return };
        write.outstanding -= 1;
        if write.outstanding > 0 {
            self.under_way.insert(number, write);
            return;
        }
        match write.phase {
            Phase::Read => {
                write.phase = Phase::Compute;
                let sums = self.sums(&mut write);
                write.outstanding = 1;
                self.under_way.insert(number, write);
                let work = Compute { sums, ..Compute::default() };
                self.actions.push_back(Action::Compute { job: JobId(number), work });
            }
            Phase::Compute => {
                write.phase = Phase::Write;
                let written = write.plans.iter().flat_map(|(stripe, offset, plan)| {
                    plan.writes.iter().map(|&cell| (*stripe, cell, *offset)).collect::<Vec<At>>()
                });
                let content = |at: At| write.made.get(&at).copied().unwrap_or_else(|| write.new[&at]);
                let placed = self.placed(written.map(|at| (at, content(at))));
                write.written = placed.keys().map(|&(slot, _)| slot).collect();
                let runs = runs(placed);
                write.outstanding = runs.len();
                self.under_way.insert(number, write);
                for (slot, at, blocks) in runs {
                    let io = self.io(number);
                    let pieces = blocks.into_iter().map(|block| Piece::Block(Operand::Buffer(block)));
                    let (pieces, urgency) = (pieces.collect(), Urgency::User);
                    self.actions.push_back(Action::Write { io, slot, at, pieces, urgency });
                }
            }
            Phase::Write => {
                write.phase = Phase::Flush;
                let slots = write.written.clone();
                write.outstanding = slots.len();
                self.under_way.insert(number, write);
                for slot in slots {
                    let io = self.io(number);
                    self.actions.push_back(Action::Flush { io, slot });
                }
            }
            Phase::Flush => {
                self.actions.push_back(Action::Reply(write.id, Reply::Done));
                let buffers = write.new.into_values().chain(write.old.into_values());
                let buffers = buffers.chain(write.made.into_values());
                self.actions.extend(buffers.map(Action::Release));
                self.begin_what_can();
            }
        }
    }

    /// Returns the sums that compute new parity, and the sums that compute old contents which are
    /// not read.
    fn sums(&mut self, write: &mut Write) -> Vec<Sum> {
        let mut sums = Vec::new();
        for (stripe, offset, plan) in write.plans.clone() {
            let at = |cell: CellIndex| (stripe, cell, offset);
            for step in &plan.old.steps {
                let into = self.buffer();
                let terms = step.terms.iter();
                let terms = terms.map(|&(cell, factor)| (Operand::Buffer(write.old[&at(cell)]), factor));
                sums.push(Sum { into, terms: terms.collect() });
                write.old.insert(at(step.target), into);
            }
            for (target, terms) in &plan.steps {
                let into = self.buffer();
                let of = |content: Content| match content {
                    Content::Old(cell) => write.old[&at(cell)],
                    Content::New(cell) => {
                        let made = write.made.get(&at(cell)).copied();
                        made.unwrap_or_else(|| write.new[&at(cell)])
                    }
                };
                let terms = terms.iter().map(|&(content, factor)| (Operand::Buffer(of(content)), factor));
                sums.push(Sum { into, terms: terms.collect() });
                write.made.insert(at(*target), into);
            }
        }
        sums
    }
}

impl Write {
    fn stripes(&self) -> impl Iterator<Item = u32> + '_ {
        self.new.keys().map(|&(stripe, ..)| stripe)
    }
}

/// Merges consecutive blocks of a device into one operation each.
fn runs(placed: Placed<BufferId>) -> Vec<(Slot, DeviceBlock, Vec<BufferId>)> {
    let mut runs: Vec<(Slot, DeviceBlock, Vec<BufferId>)> = Vec::new();
    for ((slot, at), buffer) in placed {
        match runs.last_mut() {
            Some((of, first, blocks)) if *of == slot && first.0 + blocks.len() as u64 == at.0 => {
                blocks.push(buffer);
            }
            _ => runs.push((slot, at, vec![buffer])),
        }
    }
    runs
}
