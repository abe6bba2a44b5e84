//! Plans: the cheapest reads for byte ranges of columns.
//!
//! A cell that is wanted in part asks for that part of other cells only. So the elements are cut
//! where a wanted range begins or ends, and each piece that wants other cells than the one before
//! is planned by itself.

use crate::answer::{Fault, List, PantileError, PantileStatus, answer, free, given, list, put};
use crate::code::{check_below, hand_out};
use crate::codec::PantileCodec;
use crate::stripe::{Access, Given, Stripe, check_count, check_element};
use pantile::plan::Optimality;
use pantile::{CellIndex, CellSet, Code, Codec, Costs, Recovery, Use};
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

/// Wanted ranges of one plan: each may cut the elements twice.
const RANGES_MOST: usize = 1024;

/// `pantile_plan`.
pub struct PantilePlan {
    code: Code,
    element: usize,
    pieces: Vec<Piece>,
    reads: Vec<PantileRange>,
    cost: u64,
    at_least: u64,
    /// The access of a run to each column.
    access: Vec<Access>,
}

/// `pantile_range`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PantileRange {
    pub column: usize,
    pub offset: usize,
    pub bytes: usize,
}

/// A byte range of the elements, and the cells wanted of it.
struct Piece {
    within: Range<usize>,
    wanted: CellSet,
    recovery: Arc<Recovery>,
}

/// A part of a cell.
struct Part {
    cell: CellIndex,
    within: Range<usize>,
}

/// The parts of cells of wanted ranges.
fn parts(code: &Code, element: usize, wanted: &[PantileRange]) -> Result<Vec<Part>, Fault> {
    let mut parts = Vec::new();
    for &PantileRange { column, offset, bytes } in wanted {
        check_below(column, code.columns(), "column")?;
        let have = code.rows(column) * element;
        let end = offset.checked_add(bytes).filter(|&end| end <= have).ok_or_else(|| {
            Fault::bad_argument(format!(
                "{bytes} bytes at {offset} of column {column}, which has {have} bytes"
            ))
        })?;
        for (row, cell) in code.column_cells(column).enumerate() {
            let (start, stop) = (offset.max(row * element), end.min((row + 1) * element));
            if start < stop {
                parts.push(Part { cell, within: start - row * element..stop - row * element });
            }
        }
    }
    Ok(parts)
}

/// Cuts the elements where the wanted parts begin and end: ranges, and the cells wanted in each.
fn cut(code: &Code, parts: &[Part]) -> Vec<(Range<usize>, CellSet)> {
    let mut cuts: Vec<usize> = parts.iter().flat_map(|part| [part.within.start, part.within.end]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut pieces: Vec<(Range<usize>, CellSet)> = Vec::new();
    for ends in cuts.windows(2) {
        let mut cells = CellSet::empty(code);
        let covers = |part: &&Part| part.within.start <= ends[0] && ends[1] <= part.within.end;
        parts.iter().filter(covers).for_each(|part| cells.insert(part.cell));
        match pieces.last_mut() {
            _ if cells.is_empty() => {}
            Some((within, same)) if within.end == ends[0] && *same == cells => within.end = ends[1],
            _ => pieces.push((ends[0]..ends[1], cells)),
        }
    }
    pieces
}

fn costs_of(code: &Code, costs: &[u32]) -> Result<Costs, Fault> {
    let mut all = Costs::uniform();
    if !costs.is_empty() && costs.len() != code.columns() {
        return Err(Fault::bad_argument(format!(
            "the code has {} columns, {} costs were given; give one per column, or NULL and 0",
            code.columns(),
            costs.len()
        )));
    }
    for (column, &cost) in costs.iter().enumerate() {
        if cost > Costs::MOST {
            let message = format!("the cost of column {column} is {cost}; give at most {}", Costs::MOST);
            return Err(Fault::bad_argument(message));
        }
        all.set(column, cost);
    }
    Ok(all)
}

impl PantilePlan {
    fn new(
        codec: &Codec,
        element: usize,
        lost: &[usize],
        wanted: &[PantileRange],
        costs: &[u32],
    ) -> Result<PantilePlan, Fault> {
        let code = codec.code();
        check_element(code, element)?;
        if wanted.len() > RANGES_MOST {
            return Err(Fault::bad_argument(format!(
                "{} ranges are wanted; give at most {RANGES_MOST}",
                wanted.len()
            )));
        }
        lost.iter().try_for_each(|&column| check_below(column, code.columns(), "column"))?;
        let lost = CellSet::of_columns(code, lost);
        let costs = costs_of(code, costs)?;
        let mut plan = PantilePlan {
            code: code.clone(),
            element,
            pieces: Vec::new(),
            reads: Vec::new(),
            cost: 0,
            at_least: 0,
            access: vec![Access::None; code.columns()],
        };
        for (within, wanted) in cut(code, &parts(code, element, wanted)?) {
            let cells: Vec<CellIndex> = wanted.iter().collect();
            let recovery = codec.recovery(&lost, &cells, &costs)?;
            plan.add(Piece { within, wanted, recovery });
        }
        plan.reads = joined(std::mem::take(&mut plan.reads));
        Ok(plan)
    }

    fn add(&mut self, piece: Piece) {
        let (plan, bytes) = (piece.recovery.plan(), piece.within.len());
        let least = match plan.optimality {
            Optimality::Exact => plan.cost,
            Optimality::Bound { at_least } => at_least,
        };
        self.cost = self.cost.saturating_add(plan.cost.saturating_mul(bytes as u64));
        self.at_least = self.at_least.saturating_add(least.saturating_mul(bytes as u64));
        for &cell in &plan.reads {
            let at = self.code.cell(cell);
            let offset = at.row * self.element + piece.within.start;
            self.reads.push(PantileRange { column: at.column, offset, bytes });
            let access = &mut self.access[at.column];
            *access = if *access == Access::Write { Access::Write } else { Access::Read };
        }
        for cell in piece.wanted.iter().filter(|&cell| piece.recovery.use_of(cell) == Use::Written) {
            self.access[self.code.column_of(cell)] = Access::Write;
        }
        self.pieces.push(piece);
    }
}

/// Ranges ascending, those that touch one another as one.
fn joined(mut ranges: Vec<PantileRange>) -> Vec<PantileRange> {
    ranges.sort_unstable_by_key(|range| (range.column, range.offset));
    let mut all: Vec<PantileRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match all.last_mut() {
            Some(last) if last.column == range.column && last.offset + last.bytes >= range.offset => {
                last.bytes = last.bytes.max(range.offset + range.bytes - last.offset);
            }
            _ => all.push(range),
        }
    }
    all
}

#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "three lists, and what goes with them")]
pub unsafe extern "C" fn pantile_plan_new(
    codec: *const PantileCodec,
    element_bytes: usize,
    lost: *const usize,
    lost_count: usize,
    wanted: *const PantileRange,
    wanted_count: usize,
    costs: *const u32,
    cost_count: usize,
    plan: *mut *mut PantilePlan,
    error: *mut PantileError,
) -> PantileStatus {
    answer(error, || {
        // SAFETY: the header: a codec; lists of the given lengths; a place for the handle.
        unsafe {
            hand_out(plan, "plan", || {
                let codec = &given(codec, "codec")?.codec;
                let lost = list(lost, lost_count, "lost")?;
                let wanted = list(wanted, wanted_count, "wanted")?;
                let costs = list(costs, cost_count, "costs")?;
                PantilePlan::new(codec, element_bytes, lost, wanted, costs)
            })
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_plan_free(plan: *mut PantilePlan) {
    // SAFETY: the header.
    unsafe { free(plan) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_plan_reads(
    plan: *const PantilePlan,
    reads: *mut PantileRange,
    room: usize,
    need: *mut usize,
    error: *mut PantileError,
) -> PantileStatus {
    // SAFETY: the header: a plan; room for `room` ranges.
    answer(error, || unsafe {
        List { to: reads, room, need }.give(given(plan, "plan")?.reads.iter().copied(), "ranges")
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_plan_cost(
    plan: *const PantilePlan,
    cost: *mut u64,
    at_least: *mut u64,
    error: *mut PantileError,
) -> PantileStatus {
    answer(error, || {
        // SAFETY: the header: a plan.
        let plan = unsafe { given(plan, "plan") }?;
        for (to, value) in [(cost, plan.cost), (at_least, plan.at_least)] {
            if !to.is_null() {
                // SAFETY: the header: NULL, or a place for the number.
                unsafe { put(to, "cost", value) }?;
            }
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_plan_run(
    plan: *const PantilePlan,
    columns: *const *mut c_void,
    column_count: usize,
    error: *mut PantileError,
) -> PantileStatus {
    answer(error, || {
        // SAFETY: the header: a plan; `column_count` columns.
        let (plan, stripe) = unsafe {
            let plan = given(plan, "plan")?;
            check_count(&plan.code, column_count)?;
            (plan, Stripe::new(&plan.code, columns, column_count, plan.element)?)
        };
        stripe.check(|column| plan.access[column], &[])?;
        for piece in &plan.pieces {
            let give = |cell, _| match piece.recovery.use_of(cell) {
                Use::Unused => Given::Nothing,
                Use::Read => Given::Read,
                Use::Written if piece.wanted.contains(cell) => Given::Write,
                Use::Written => Given::Aside,
            };
            stripe
                .run(piece.within.clone(), true, give, |cells, _| Ok(piece.recovery.run_given(cells)?))?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_become_one() {
        let range = |column, offset, bytes| PantileRange { column, offset, bytes };
        let all =
            joined(vec![range(1, 10, 5), range(0, 5, 5), range(0, 0, 5), range(1, 12, 9), range(1, 30, 1)]);
        assert_eq!(all, [range(0, 0, 10), range(1, 10, 11), range(1, 30, 1)]);
    }

    #[test]
    fn elements_are_cut_where_other_cells_are_wanted() {
        let code = Code::parse("dcode:5").unwrap();
        let range = |column, offset, bytes| PantileRange { column, offset, bytes };
        // The end of row 0 and the beginning of row 1; of another column one byte in the middle.
        let wanted = [range(0, 90, 20), range(2, 250, 1)];
        let pieces = cut(&code, &parts(&code, 100, &wanted).unwrap());
        let ranges: Vec<_> = pieces.iter().map(|(within, cells)| (within.clone(), cells.len())).collect();
        assert_eq!(ranges, [(0..10, 1), (50..51, 1), (90..100, 1)]);
        assert!(
            parts(&code, 100, &[range(0, 499, 2)]).is_err() && parts(&code, 100, &[range(5, 0, 1)]).is_err()
        );
        assert!(parts(&code, 100, &[range(0, usize::MAX, 2)]).is_err());
    }
}
