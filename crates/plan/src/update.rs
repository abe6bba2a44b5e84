//! Small writes: updating parity at the least I/O.
//!
//! Three strategies, the textbook's:
//!
//! * read-modify-write: read the old content of the written cells and of every affected parity; add
//!   the change;
//! * reconstruct-write: read the other cells that each affected parity covers, and compute the
//!   parity from them and the new data by the code's own equations (an unaffected parity on the
//!   right-hand side is read, not recomputed);
//! * full stripe: everything is new, nothing is read.
//!
//! The cheapest in reads plus writes is planned; a different strategy for each parity is not
//! considered, as no array does that. If a strategy needs old content of lost cells, a [`Plan`]
//! recovers it; lost cells are not written.

use crate::{CellSet, Costs, Effort, Plan, PlanError, Planner, Request};
use pantile_code::CellIndex;
use pantile_gf::Gf;
use std::fmt;

/// The way to compute the new parity of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Old data and old parity are read, the change is added.
    ReadModifyWrite,
    /// Reads the data cells that are not written, and computes parity from all data.
    ReconstructWrite,
    /// Reads no cell.
    FullStripe,
}

impl fmt::Display for Strategy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Strategy::ReadModifyWrite => "read-modify-write",
            Strategy::ReconstructWrite => "reconstruct-write",
            Strategy::FullStripe => "full stripe",
        })
    }
}

/// The content of a cell before or after the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Content {
    /// Content as stored on the device, or as recovered by [`UpdatePlan::old`].
    Old(CellIndex),
    /// Content that the user wrote, or that an earlier step computed.
    New(CellIndex),
}

/// A small write: reads, computations and writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdatePlan {
    /// The strategy chosen.
    pub strategy: Strategy,
    /// Recovery plan for the old contents that the steps use.
    pub old: Plan,
    /// New parity cells, each from old and new contents; in the order in which to compute them.
    pub steps: Vec<(CellIndex, Vec<(Content, Gf)>)>,
    /// The cells to write, ascending: written data and affected parity, without lost cells.
    pub writes: Vec<CellIndex>,
    /// The sum of the costs of reads and writes.
    pub cost: u64,
}

impl Planner {
    /// Plans a write to the given data cells while `lost` cannot be read or written.
    ///
    /// Errors: every strategy needs old content that cannot be recovered; a cell is not a data cell
    /// of the code. Cost: one pass over the generator and up to two recovery plans.
    pub fn update(
        &self,
        written: &[CellIndex],
        lost: &CellSet,
        costs: &Costs,
    ) -> Result<UpdatePlan, PlanError> {
        let code = self.code();
        lost.check(code)?;
        for &cell in written {
            self.check_cell(cell)?;
            if code.is_parity(cell) {
                return Err(PlanError::ParityWritten { cell: cell.usize() });
            }
        }
        let written = CellSet::of_cells(code, written);
        let generator = code.generator();
        let affected: Vec<usize> = (0..code.parity().len())
            .filter(|&row| {
                let depends = |cell: CellIndex| {
                    code.data_position(cell).is_some_and(|p| !generator.get(row, p).is_zero())
                };
                written.iter().any(depends)
            })
            .collect();
        let mut writes: Vec<CellIndex> = written
            .iter()
            .chain(affected.iter().map(|&row| code.parity()[row]))
            .filter(|&cell| !lost.contains(cell))
            .collect();
        writes.sort_unstable();
        let mut strategies =
            vec![self.modify(&written, &affected, lost), self.reconstruct(&written, &affected, lost)];
        if written.len() == code.data().len() {
            strategies.reverse();
            strategies[0].0 = Strategy::FullStripe;
        }
        let mut best: Option<UpdatePlan> = None;
        let mut refusal = None;
        for (strategy, steps) in strategies {
            let mut needed: Vec<CellIndex> = steps
                .iter()
                .flat_map(|(_, terms)| terms)
                .filter_map(|&(content, _)| match content {
                    Content::Old(cell) => Some(cell),
                    Content::New(_) => None,
                })
                .collect();
            needed.sort_unstable();
            needed.dedup();
            let request = Request { lost, wanted: &needed, costs, effort: Effort::Fast };
            match self.recover(&request) {
                Ok(old) => {
                    let cost = old.cost + Plan::cost_of(code, costs, writes.iter().copied());
                    if best.as_ref().is_none_or(|b| cost < b.cost) {
                        best = Some(UpdatePlan { strategy, old, steps, writes: writes.clone(), cost });
                    }
                }
                Err(error) => refusal = Some(error),
            }
        }
        match (best, refusal) {
            (Some(plan), _) => Ok(plan),
            (None, Some(error)) => Err(error),
            (None, None) => unreachable!("there are always two strategies"),
        }
    }

    #[allow(clippy::type_complexity)]
    fn modify(
        &self,
        written: &CellSet,
        affected: &[usize],
        lost: &CellSet,
    ) -> (Strategy, Vec<(CellIndex, Vec<(Content, Gf)>)>) {
        let code = self.code();
        let steps = affected
            .iter()
            .map(|&row| (row, code.parity()[row]))
            .filter(|&(_, parity)| !lost.contains(parity))
            .map(|(row, parity)| {
                let mut terms = vec![(Content::Old(parity), Gf::ONE)];
                for cell in written.iter() {
                    let factor = code.data_position(cell).map_or(Gf::ZERO, |p| code.generator().get(row, p));
                    if !factor.is_zero() {
                        terms.push((Content::Old(cell), factor));
                        terms.push((Content::New(cell), factor));
                    }
                }
                (parity, terms)
            })
            .collect();
        (Strategy::ReadModifyWrite, steps)
    }

    #[allow(clippy::type_complexity)]
    fn reconstruct(
        &self,
        written: &CellSet,
        affected: &[usize],
        lost: &CellSet,
    ) -> (Strategy, Vec<(CellIndex, Vec<(Content, Gf)>)>) {
        let code = self.code();
        let affected =
            CellSet::of_cells(code, &affected.iter().map(|&r| code.parity()[r]).collect::<Vec<_>>());
        let steps: Vec<&crate::Step> =
            self.encoding().iter().filter(|s| affected.contains(s.target)).collect();
        // A lost parity is computed only if the step of a written parity uses it.
        let mut used = CellSet::empty(code);
        for step in steps.iter().rev() {
            if !lost.contains(step.target) || used.contains(step.target) {
                used.insert(step.target);
                step.terms.iter().for_each(|t| used.insert(t.0));
            }
        }
        let new = |cell: CellIndex| written.contains(cell) || affected.contains(cell);
        let steps = steps
            .into_iter()
            .filter(|step| used.contains(step.target))
            .map(|step| {
                let content = |cell| if new(cell) { Content::New(cell) } else { Content::Old(cell) };
                (step.target, step.terms.iter().map(|&(cell, c)| (content(cell), c)).collect())
            })
            .collect();
        (Strategy::ReconstructWrite, steps)
    }
}
