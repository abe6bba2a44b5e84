//! XOR programs whose held sums are all in registers at once, and are then finished link by link;
//! compiled to straight-line code.
//!
//! Held and swept sums ([`super::meetings`]) form a grid: a row per swept and a column per held
//! sum. The whole grid becomes machine code (`xor_code.rs` of an architecture), made for the
//! program after some use: every cell has its own instructions, and only pointers are looked up.
//! More held sums than [`Vectors::held_most`] are swept in *batches*. Between batches the sums of
//! rows wait in slots, as do the held sums of all batches except the last. Sums that need other
//! sums (the zig-zag of a double recovery) are then finished in *links*, one for each held sum and
//! for each swept sum that needs others. Most links add the link before them, which is still in
//! registers.
//!
//! Invariants: a buffer that is in a swept and in a held sum is read once; each target is stored
//! once per slice of two vectors; a slot is written before it is read.

use std::collections::VecDeque;
use std::ops::Range;

use crate::sum_graph::SumGraph;
use crate::sums::{NONE, SharedSums};

/// The vectors of an engine. A slice of a sum is a pair of them. One pair is for the swept sum and
/// one for the source; all others are for held sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vectors {
    /// 16 registers of 256 bits.
    Ymm,
    /// 32 registers of 512 bits.
    Zmm,
}

impl Vectors {
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Vectors::Ymm => 32,
            Vectors::Zmm => 64,
        }
    }

    pub(crate) const fn registers(self) -> usize {
        match self {
            Vectors::Ymm => 16,
            Vectors::Zmm => 32,
        }
    }

    /// Returns the most held sums of a batch.
    pub(crate) const fn held_most(self) -> usize {
        self.registers() / 2 - 2
    }
}

/// The most sums and terms for which the code fits a 32 KiB instruction cache. Code takes 45 bytes
/// per buffer, and most buffers are terms of two sums. Streaming code takes 65 to 70 bytes, and
/// does not fit from about 480 buffers on (at most 42 KB); but it waits for memory anyway.
const TERMS_MOST: usize = 1280;

/// A place: a buffer, by its index in [`Braid::buffers`], or a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Buffer(usize),
    Slot(usize),
}

/// The destination of a sum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) place: Place,
    /// True if it may be stored past the cache: a buffer that is not read again.
    pub(crate) is_last: bool,
}

/// A compiled program.
#[derive(Debug)]
pub(crate) struct Braid {
    /// The vectors for which the program is compiled.
    pub(crate) vectors: Vectors,
    /// The buffers in use, ascending.
    pub(crate) buffers: Vec<usize>,
    /// The number of slots, each of one slice.
    pub(crate) slots: usize,
    pub(crate) batches: Vec<Batch>,
    pub(crate) links: Vec<Link>,
}

/// The rows for some of the held sums.
#[derive(Debug)]
pub(crate) struct Batch {
    /// For each held sum, its first term.
    pub(crate) starts: Vec<Option<Place>>,
    pub(crate) rows: Vec<Row>,
    /// The targets to which the held sums are stored after the rows; held sums of the last batch
    /// stay in registers.
    pub(crate) to: Vec<Target>,
}

/// A swept sum, or the part of it that a batch adds.
#[derive(Debug)]
pub(crate) struct Row {
    /// The terms that are in no held sum, and the result of earlier batches.
    pub(crate) plain: Vec<Place>,
    /// For each held sum of the batch, the term that the row shares with it.
    pub(crate) cells: Vec<Option<Place>>,
    pub(crate) to: Target,
    /// The columns of the batch to which the sum of the row is also added.
    pub(crate) forwards: Vec<usize>,
}

impl Row {
    /// Returns the number of places that the row reads.
    pub(crate) fn terms(&self) -> usize {
        self.plain.len() + self.cells.iter().flatten().count()
    }
}

/// A sum that is finished after the sweeps.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) of: Unfinished,
    /// True if the sum of the link before is added.
    pub(crate) carries: bool,
    /// The other terms that are added.
    pub(crate) late: Vec<Place>,
    pub(crate) to: Target,
}

/// A sum that lacks terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfinished {
    /// A held sum of the last batch.
    Column(usize),
    /// Another sum, in the slot where a sweep stored it.
    Waiting(Place),
}

/// A link under construction.
struct Draft {
    sum: usize,
    carries: bool,
    late: Vec<u32>,
}

impl Braid {
    /// Compiles sums; `None` if they have too many terms, or if no sums share a buffer.
    pub(crate) fn new(shared: &SharedSums, vectors: Vectors) -> Option<Braid> {
        if shared.sums().iter().map(|sum| sum.terms.len() + 1).sum::<usize>() > TERMS_MOST {
            return None;
        }
        let mut graph = SumGraph::new(shared);
        let is_held = graph.held();
        let (held, swept): (Vec<usize>, Vec<usize>) = (0..graph.sums.len()).partition(|&sum| is_held[sum]);
        if held.is_empty() {
            return None;
        }
        let mut drafts = drafts(&mut graph, &held, &swept);
        // Columns are in the order in which they are finished; any order would do. The last batch
        // is full.
        let columns: Vec<usize> = drafts.iter().map(|draft| draft.sum).filter(|&sum| is_held[sum]).collect();
        let batches = batches(columns.len(), vectors.held_most());
        let last_batch = batches[batches.len() - 1].clone();
        let forwards = forwards(&mut graph, &mut drafts, &columns[last_batch.clone()], &swept);
        let is_read: Vec<u32> = drafts.iter().flat_map(|draft| draft.late.iter().copied()).collect();
        let mut meetings = graph.meetings(&columns, &swept);
        let first_slot = graph.buffers;
        let place = |place: u32| match place.checked_sub(first_slot) {
            None => Place::Buffer(place as usize),
            Some(slot) => Place::Slot(slot as usize),
        };
        let places = |places: &[u32]| places.iter().map(|&p| place(p)).collect::<Vec<Place>>();
        // Places that are read again are stored to the cache.
        let target = |result: u32| Target {
            place: place(result),
            is_last: result < first_slot && !is_read.contains(&result),
        };
        let mut done = Vec::with_capacity(batches.len());
        let mut waits = vec![false; swept.len()];
        for batch in &batches {
            let is_last = batch.end == columns.len();
            let mut rows = Vec::with_capacity(swept.len());
            for (i, &sum) in swept.iter().enumerate() {
                let cells: Vec<Option<Place>> = meetings.cells[i][batch.clone()]
                    .iter()
                    .map(|&cell| (cell != NONE).then(|| place(cell)))
                    .collect();
                if !is_last && cells.iter().all(Option::is_none) {
                    continue;
                }
                let mut plain = if is_last { places(&meetings.plain[i]) } else { Vec::new() };
                plain.extend(std::mem::replace(&mut waits[i], true).then(|| place(graph.slot(sum))));
                let is_late = drafts.iter().any(|draft| draft.sum == sum);
                let to = if is_late || !is_last { graph.slot(sum) } else { graph.result(sum) };
                let forwards = if is_last { forwards[i].clone() } else { Vec::new() };
                rows.push(Row { plain, cells, to: target(to), forwards });
            }
            let starts = meetings.rest[batch.clone()].iter_mut().map(|rest| rest.pop().map(place)).collect();
            let waiting = if is_last { &[] } else { &columns[batch.clone()] };
            let to = waiting.iter().map(|&sum| target(graph.slot(sum))).collect();
            done.push(Batch { starts, rows, to });
        }
        let mut links = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let mut late = places(&draft.late);
            let column = columns.iter().position(|&sum| sum == draft.sum);
            late.extend(column.iter().flat_map(|&column| places(&meetings.rest[column])));
            let of = match column.and_then(|column| column.checked_sub(last_batch.start)) {
                Some(column) => Unfinished::Column(column),
                None => Unfinished::Waiting(place(graph.slot(draft.sum))),
            };
            links.push(Link { of, carries: draft.carries, late, to: target(graph.result(draft.sum)) });
        }
        let buffers = shared.buffers().to_vec();
        Some(Braid { vectors, buffers, slots: graph.slots as usize, batches: done, links })
    }

    /// Returns the rows of all batches.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.batches.iter().flat_map(|batch| &batch.rows)
    }

    /// Returns the buffers that may be stored past the cache, as indices in `buffers`.
    pub(crate) fn last(&self) -> Vec<usize> {
        self.written().filter(|&(_, is_last)| is_last).map(|(buffer, _)| buffer).collect()
    }

    /// Returns the buffers that the code writes, as indices in `buffers`.
    pub(crate) fn targets(&self) -> Vec<usize> {
        self.written().map(|(buffer, _)| buffer).collect()
    }

    /// Returns the targets, each with true if it may be stored past the cache.
    fn written(&self) -> impl Iterator<Item = (usize, bool)> {
        let targets = self.rows().map(|row| row.to).chain(self.links.iter().map(|link| link.to));
        targets.filter_map(|to| match to.place {
            Place::Buffer(buffer) => Some((buffer, to.is_last)),
            Place::Slot(_) => None,
        })
    }
}

/// Returns the batches of a number of columns. The last one is as large as possible, because sums
/// that wait for it cost a store and a load.
fn batches(columns: usize, held_most: usize) -> Vec<Range<usize>> {
    let mut ends = vec![columns];
    while let Some(&end) = ends.last().filter(|&&end| end > held_most) {
        ends.push(end - held_most);
    }
    ends.reverse();
    ends.iter().scan(0, |start, &end| Some(std::mem::replace(start, end)..end)).collect()
}

/// Returns, for each row, the columns of the last batch to which its sum is added as it is swept.
/// The graph then no longer lists it for these columns.
fn forwards(
    graph: &mut SumGraph<'_>,
    drafts: &mut [Draft],
    columns: &[usize],
    swept: &[usize],
) -> Vec<Vec<usize>> {
    let late: Vec<usize> = drafts.iter().map(|draft| draft.sum).collect();
    let of_row = |&row: &usize| {
        let mut forwards = Vec::new();
        if !late.contains(&row) {
            let result = graph.result(row);
            for (j, &column) in columns.iter().enumerate() {
                let draft = drafts.iter_mut().find(|draft| draft.sum == column).expect("a column is a link");
                if let Some(at) = draft.late.iter().position(|&late| late == result) {
                    draft.late.swap_remove(at);
                    forwards.push(j);
                }
            }
        }
        forwards
    };
    swept.iter().map(of_row).collect()
}

/// Returns the sums that are finished after the sweep, in an order in which most add the sum before
/// them.
fn drafts(graph: &mut SumGraph<'_>, held: &[usize], swept: &[usize]) -> Vec<Draft> {
    let mut open: VecDeque<usize> = (0..graph.sums.len())
        .filter(|sum| held.contains(sum) || swept.contains(sum) && graph.needs(*sum))
        .collect();
    let mut drafts: Vec<Draft> = Vec::new();
    while !open.is_empty() {
        let needs = |sum: usize| -> Vec<usize> {
            graph.sums[sum].terms.iter().filter_map(|&t| graph.made_by[t as usize]).collect()
        };
        let before = drafts.last().map(|draft| draft.sum);
        let ready = |&sum: &usize| !needs(sum).iter().any(|by| open.contains(by));
        let follows = |&sum: &usize| before.is_some_and(|before| needs(sum).contains(&before));
        let next = open.iter().position(|sum| ready(sum) && follows(sum));
        let next = next
            .or_else(|| open.iter().position(ready))
            .expect("steps are in an order in which they can be done");
        let sum = open.remove(next).expect("a position in it");
        let mut needed = needs(sum);
        let carries = before.and_then(|before| needed.iter().position(|&by| by == before));
        if let Some(carried) = carries {
            needed.remove(carried);
        }
        let late = needed.into_iter().map(|by| graph.result(by)).collect();
        drafts.push(Draft { sum, carries: carries.is_some(), late });
    }
    drafts
}

/// Does the work of a braid's code on one byte of every buffer, and of every slot.
#[cfg(all(test, not(miri)))]
fn braid_byte(braid: &Braid, buffers: &mut [u8]) {
    let mut slots = vec![0u8; braid.slots];
    let numbers = &braid.buffers;
    let read = |place: Place, buffers: &[u8], slots: &[u8]| match place {
        Place::Buffer(buffer) => buffers[numbers[buffer]],
        Place::Slot(slot) => slots[slot],
    };
    let write = |to: Target, sum: u8, buffers: &mut [u8], slots: &mut [u8]| match to.place {
        Place::Buffer(buffer) => buffers[numbers[buffer]] = sum,
        Place::Slot(slot) => slots[slot] = sum,
    };
    let mut held: Vec<u8> = Vec::new();
    for batch in &braid.batches {
        held =
            batch.starts.iter().map(|start| start.map_or(0, |start| read(start, buffers, &slots))).collect();
        for row in &batch.rows {
            let mut sum = row.plain.iter().fold(0, |sum, &term| sum ^ read(term, buffers, &slots));
            for (held, cell) in held.iter_mut().zip(&row.cells) {
                let x = cell.map_or(0, |cell| read(cell, buffers, &slots));
                sum ^= x;
                *held ^= x;
            }
            write(row.to, sum, buffers, &mut slots);
            row.forwards.iter().for_each(|&column| held[column] ^= sum);
        }
        batch.to.iter().zip(&held).for_each(|(&to, &sum)| write(to, sum, buffers, &mut slots));
    }
    let mut before = 0;
    for link in &braid.links {
        let mut sum = match link.of {
            Unfinished::Column(column) => held[column],
            Unfinished::Waiting(place) => read(place, buffers, &slots),
        };
        sum ^= if link.carries { before } else { 0 };
        sum = link.late.iter().fold(sum, |sum, &term| sum ^ read(term, buffers, &slots));
        write(link.to, sum, buffers, &mut slots);
        before = sum;
    }
}

#[cfg(all(test, not(miri)))]
pub(crate) mod tests {
    //! Tests of the braid itself, run one byte at a time, so that every machine can run them. There
    //! is no unsafe code, and Miri would take minutes.

    use super::*;
    use crate::sum_graph::tests::{contents, steps};

    /// Returns a zig-zag of `links` links: row and column sums of a square, where each also adds
    /// the sum before it, of the other kind.
    pub(crate) fn zig_zag(n: usize, links: usize) -> Vec<(usize, Vec<usize>)> {
        let of = |i: usize| -> Vec<usize> {
            if i.is_multiple_of(2) {
                (0..n).map(|c| i / 2 * n + c).collect()
            } else {
                (0..n).map(|r| r * n + i / 2).collect()
            }
        };
        (0..links)
            .map(|i| (n * n + i, of(i).into_iter().chain((i > 0).then(|| n * n + i - 1)).collect()))
            .collect()
    }

    fn check(steps: &[(usize, Vec<usize>)]) -> Braid {
        check_for(Vectors::Ymm, steps);
        check_for(Vectors::Zmm, steps)
    }

    fn check_for(vectors: Vectors, steps: &[(usize, Vec<usize>)]) -> Braid {
        let braid = Braid::new(&SharedSums::new(steps), vectors).expect("few enough sums");
        let (mut have, wanted) = contents(steps);
        for at in 0..3 {
            let mut bytes: Vec<u8> = have.iter().map(|cell| cell[at]).collect();
            braid_byte(&braid, &mut bytes);
            have.iter_mut().zip(bytes).for_each(|(cell, byte)| cell[at] = byte);
        }
        assert_eq!(have, wanted);
        braid
    }

    #[test]
    fn every_braid_gives_the_sums() {
        for (rows, columns) in
            [(2, 2), (3, 4), (4, 7), (9, 9), (5, 14), (14, 13), (20, 6), (15, 15), (16, 30)]
        {
            check(&steps(rows, columns, false));
            check(&steps(rows, columns, true));
        }
        let sides = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 17, 23];
        for n in sides {
            check(&zig_zag(n, 2 * n));
            check(&zig_zag(n, 2 * n - 1));
        }
    }

    #[test]
    fn a_zig_zag_carries_every_link_but_the_first() {
        let braid = check(&zig_zag(5, 10));
        let carried = braid.links.iter().filter(|link| link.carries).count();
        // The first row is finished by its sweep, and then added to the first column.
        assert_eq!((braid.links.len(), carried), (2 * 5 - 1, 2 * 5 - 2));
    }

    #[test]
    fn a_row_that_one_column_needs_is_added_as_soon_as_it_is_swept() {
        let braid = check(&steps(7, 7, false));
        let forwarded: usize = braid.rows().map(|row| row.forwards.len()).sum();
        let late = braid.links.iter().filter(|link| !link.late.is_empty()).count();
        assert_eq!((forwarded, late), (7, 0));
    }

    #[test]
    fn more_sums_than_registers_hold_are_swept_in_batches() {
        let of = |columns| {
            check(&steps(columns, columns, false)).batches.iter().map(|b| b.starts.len()).collect::<Vec<_>>()
        };
        assert_eq!((of(14), of(15), of(16)), (vec![14], vec![1, 14], vec![2, 14]));
        assert_eq!(batches(30, 14), [0..2, 2..16, 16..30]);
        assert!((6..100).all(|n| batches(n, 6).last().unwrap().len() == 6));
    }

    #[test]
    fn too_many_terms_are_refused() {
        assert!(Braid::new(&SharedSums::new(&steps(30, 30, false)), Vectors::Zmm).is_none());
        assert!(Braid::new(&SharedSums::new(&[(2, vec![0]), (3, vec![1])]), Vectors::Zmm).is_none());
    }
}
