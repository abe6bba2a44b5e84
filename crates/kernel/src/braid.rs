//! XOR programs whose sums registers hold all at once, and finish link by link: what straight-line code is made of.
//!
//! A [`crate::weave`] walks over its grid in loops. Where at most [`HELD_MOST`] sums are held, the whole grid is code instead
//! ([`BraidCode`](crate::dispatch::BraidCode)), made for the program when it is compiled: every cell has instructions of its own, and nothing is looked
//! up but pointers. What needs other sums (the zig-zag of a double recovery) is then finished in *links*, one for each held sum and
//! for each swept sum that needs others, in an order in which each mostly adds the link before it, which is still in registers.
//!
//! Invariants: each buffer that lies in a swept and in a held sum is read once; each target is stored once for each slice
//! of [`SLICE_BYTES`]; a slot is written before it is read; columns stand in the order in which links finish them.

use std::collections::VecDeque;

use crate::weave::{Loom, NONE, shared_sums};

/// Bytes of a slice: two vectors of the engine that has the registers.
pub(crate) const SLICE_BYTES: usize = 128;

/// Held sums: with two vectors each they fill 28 of 32 registers.
pub(crate) const HELD_MOST: usize = 14;

/// What a sweep reads at most, so that its code fits the cache of instructions: 45 bytes for each buffer of a slice.
const TERMS_MOST: usize = 512;

/// A buffer, by its number in [`Braid::buffers`], or a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Buffer(usize),
    Slot(usize),
}

/// Where a sum goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) place: Place,
    /// Whether it may be stored past the cache: it is a buffer that nothing reads again.
    pub(crate) is_last: bool,
}

/// A compiled program.
#[derive(Debug)]
pub(crate) struct Braid {
    /// The buffers in use, ascending.
    pub(crate) buffers: Vec<usize>,
    /// Slots of a slice each.
    pub(crate) slots: usize,
    /// For each held sum, its first term.
    pub(crate) starts: Vec<Option<Place>>,
    pub(crate) rows: Vec<Row>,
    pub(crate) links: Vec<Link>,
}

/// A sum that is swept.
#[derive(Debug)]
pub(crate) struct Row {
    /// Terms of no held sum.
    pub(crate) plain: Vec<Place>,
    /// Terms of each held sum.
    pub(crate) cells: Vec<Option<Place>>,
    pub(crate) to: Target,
    /// Whether its sum is also added to the column of its number.
    pub(crate) is_forwarded: bool,
}

/// What is finished after the sweep.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) of: Unfinished,
    /// Whether it adds the link before it.
    pub(crate) carries: bool,
    /// Other terms.
    pub(crate) late: Vec<Place>,
    pub(crate) to: Target,
}

/// A sum that lacks terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfinished {
    /// A held one.
    Column(usize),
    /// A swept one, from where the sweep put it.
    Row(Place),
}

/// A link in the making.
struct Draft {
    sum: usize,
    carries: bool,
    late: Vec<u32>,
}

impl Braid {
    /// Compiles `steps`, as [`crate::weave::Weave::new`] does; `None` if they are too many sums, or nothing meets.
    pub(crate) fn new(steps: &[(usize, Vec<usize>)]) -> Option<Braid> {
        let (buffers, sums) = shared_sums(steps);
        if sums.iter().map(|sum| sum.terms.len()).sum::<usize>() > TERMS_MOST {
            return None;
        }
        let mut loom = Loom::new(sums, buffers.len() as u32);
        let is_held = loom.held();
        let (held, swept): (Vec<usize>, Vec<usize>) = (0..loom.sums.len()).partition(|&sum| is_held[sum]);
        if held.is_empty() || held.len() > HELD_MOST {
            return None;
        }
        let mut drafts = drafts(&mut loom, &held, &swept);
        let (swept, forwarded) = forward(&mut loom, &mut drafts, &is_held, swept);
        let is_read: Vec<u32> = drafts.iter().flat_map(|draft| draft.late.iter().copied()).collect();
        // Columns stand in the order in which they are finished.
        let columns: Vec<usize> = drafts.iter().map(|draft| draft.sum).filter(|&sum| is_held[sum]).collect();
        let mut meetings = loom.meetings(&columns, &swept, columns.len());
        let first_slot = loom.buffers;
        let place = |place: u32| match place.checked_sub(first_slot) {
            None => Place::Buffer(place as usize),
            Some(slot) => Place::Slot(slot as usize),
        };
        let places = |places: &[u32]| places.iter().map(|&p| place(p)).collect();
        // What is read again is stored to the cache.
        let target = |result: u32| Target {
            place: place(result),
            is_last: result < first_slot && !is_read.contains(&result),
        };
        let mut rows = Vec::with_capacity(swept.len());
        for (i, &sum) in swept.iter().enumerate() {
            let is_late = drafts.iter().any(|draft| draft.sum == sum);
            let to = if is_late { loom.slot(sum) } else { loom.result(sum) };
            rows.push(Row {
                plain: places(&meetings.plain[i]),
                cells: meetings.cells[i].iter().map(|&cell| (cell != NONE).then(|| place(cell))).collect(),
                to: target(to),
                is_forwarded: forwarded[i],
            });
        }
        let mut starts = Vec::with_capacity(columns.len());
        let mut links = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let mut late: Vec<Place> = places(&draft.late);
            let of = if is_held[draft.sum] {
                let rest = &mut meetings.rest[starts.len()];
                starts.push(rest.pop().map(place));
                late.extend(rest.iter().map(|&term| place(term)));
                Unfinished::Column(starts.len() - 1)
            } else {
                Unfinished::Row(place(loom.slot(draft.sum)))
            };
            links.push(Link { of, carries: draft.carries, late, to: target(loom.result(draft.sum)) });
        }
        Some(Braid { buffers, slots: loom.slots as usize, starts, rows, links })
    }

    /// Buffers that may be stored past the cache, by their numbers in `buffers`.
    pub(crate) fn last(&self) -> Vec<usize> {
        let targets = self.rows.iter().map(|row| row.to).chain(self.links.iter().map(|link| link.to));
        let last = targets.filter_map(|to| match to.place {
            Place::Buffer(buffer) if to.is_last => Some(buffer),
            _ => None,
        });
        last.collect()
    }
}

/// The rows in an order in which a row whose sum a column needs, once the row is swept, has the number of that column; and
/// which rows are such. The columns need them no more.
fn forward(
    loom: &mut Loom,
    drafts: &mut [Draft],
    is_held: &[bool],
    swept: Vec<usize>,
) -> (Vec<usize>, Vec<bool>) {
    let late: Vec<usize> = drafts.iter().map(|draft| draft.sum).collect();
    let mut rest: Vec<usize> = swept;
    let mut order: Vec<Option<usize>> = vec![None; rest.len()];
    for (place, draft) in order.iter_mut().zip(drafts.iter_mut().filter(|draft| is_held[draft.sum])) {
        let found = rest.iter().enumerate().filter(|(_, sum)| !late.contains(sum)).find_map(|(i, &sum)| {
            let result = loom.result(sum);
            draft.late.iter().position(|&late| late == result).map(|at| (i, at))
        });
        if let Some((i, at)) = found {
            draft.late.swap_remove(at);
            *place = Some(rest.remove(i));
        }
    }
    let is_forwarded = order.iter().map(Option::is_some).collect();
    let mut rest = rest.into_iter();
    (order.into_iter().filter_map(|sum| sum.or_else(|| rest.next())).collect(), is_forwarded)
}

/// The sums that are finished after the sweep, so that as many as possible add the one before.
fn drafts(loom: &mut Loom, held: &[usize], swept: &[usize]) -> Vec<Draft> {
    let mut open: VecDeque<usize> = (0..loom.sums.len())
        .filter(|sum| held.contains(sum) || swept.contains(sum) && loom.needs(*sum))
        .collect();
    let mut drafts: Vec<Draft> = Vec::new();
    while !open.is_empty() {
        let needs = |sum: usize| -> Vec<usize> {
            loom.sums[sum].terms.iter().filter_map(|&t| loom.made_by[t as usize]).collect()
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
        let late = needed.into_iter().map(|by| loom.result(by)).collect();
        drafts.push(Draft { sum, carries: carries.is_some(), late });
    }
    drafts
}

/// What the code of a braid does for one byte of every buffer, and of every slot.
#[cfg(test)]
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
    let mut held: Vec<u8> =
        braid.starts.iter().map(|start| start.map_or(0, |start| read(start, buffers, &slots))).collect();
    for (i, row) in braid.rows.iter().enumerate() {
        let mut sum = row.plain.iter().fold(0, |sum, &term| sum ^ read(term, buffers, &slots));
        for (held, cell) in held.iter_mut().zip(&row.cells) {
            let x = cell.map_or(0, |cell| read(cell, buffers, &slots));
            sum ^= x;
            *held ^= x;
        }
        write(row.to, sum, buffers, &mut slots);
        if row.is_forwarded {
            held[i] ^= sum;
        }
    }
    let mut before = 0;
    for link in &braid.links {
        let mut sum = match link.of {
            Unfinished::Column(column) => held[column],
            Unfinished::Row(place) => read(place, buffers, &slots),
        };
        sum ^= if link.carries { before } else { 0 };
        sum = link.late.iter().fold(sum, |sum, &term| sum ^ read(term, buffers, &slots));
        write(link.to, sum, buffers, &mut slots);
        before = sum;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    //! The braid itself, carried out a byte at a time, so that every machine and Miri can test it.

    use super::*;
    use crate::weave::tests::{contents, steps};

    /// A zig-zag of some links: row and column sums of a square, each with the sum before, from the other side.
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
        let braid = Braid::new(steps).expect("few enough sums");
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
        for (rows, columns) in [(2, 2), (3, 4), (4, 7), (9, 9), (5, 14), (14, 13), (20, 6)] {
            check(&steps(rows, columns, false));
            check(&steps(rows, columns, true));
        }
        for n in 2..=13 {
            check(&zig_zag(n, 2 * n));
            check(&zig_zag(n, 2 * n - 1));
        }
    }

    #[test]
    fn a_zig_zag_carries_every_link_but_the_first() {
        let braid = check(&zig_zag(5, 10));
        let carried = braid.links.iter().filter(|link| link.carries).count();
        // The first row is finished by the sweep, and added to the first column then.
        assert_eq!((braid.links.len(), carried), (2 * 5 - 1, 2 * 5 - 2));
    }

    #[test]
    fn a_row_that_one_column_needs_is_added_as_soon_as_it_is_swept() {
        let braid = check(&steps(7, 7, false));
        let forwarded = braid.rows.iter().filter(|row| row.is_forwarded).count();
        let late = braid.links.iter().filter(|link| !link.late.is_empty()).count();
        assert_eq!((forwarded, late), (7, 0));
    }

    #[test]
    fn too_many_sums_are_refused() {
        assert!(Braid::new(&steps(16, 16, false)).is_none());
        assert!(Braid::new(&steps(60, 5, false)).is_none());
        assert!(Braid::new(&[(2, vec![0]), (3, vec![1])]).is_none());
    }
}
