//! The lost columns that would have to return after a refused recovery, found as the largest
//! survivable subsets of the lost columns.

use crate::dual::Space;
use crate::{CellSet, PlanError, Planner, Request, SetTally};
use pantile_code::CellIndex;
use pantile_gf::{Gf, choose};

/// Lost columns that must return so that the wanted cells can be computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WayOut {
    /// The columns with lost cells, ascending.
    pub lost: Vec<usize>,
    /// A number of returned columns that is enough; the least such number if `is_exact`.
    pub back: usize,
    /// Sets of `back` columns that are enough, ascending: the first few, or only one set if `any`.
    pub enough: Vec<Vec<usize>>,
    /// The number of such sets, if `is_exact`.
    pub enough_count: u64,
    /// True if every set of `back` lost columns is enough.
    pub any: bool,
    /// True if all sets of `back` columns and of fewer were tried. Otherwise `enough` has one set,
    /// of which every column is needed.
    pub is_exact: bool,
}

impl WayOut {
    /// Returns the columns that can stay lost if the columns `back` return.
    pub fn survivable(&self, back: &[usize]) -> Vec<usize> {
        self.lost.iter().copied().filter(|column| !back.contains(column)).collect()
    }
}

impl Planner {
    /// Finds the fewest lost columns whose return makes the wanted cells recoverable.
    ///
    /// Errors: the request does not fit this code. Cost: up to a few thousand eliminations. Call it
    /// to answer a user's question, not to read data.
    pub fn way_out(&self, request: &Request<'_>) -> Result<WayOut, PlanError> {
        const ENOUGH_KEPT: usize = 8;
        self.check(request)?;
        let code = self.code();
        let lost = request.lost.columns(code);
        let least = self.back_least(request, &lost);
        // MDS codes: by counting, fewer than `least` columns do not suffice; by the claim, any
        // `least` columns do, for any number of lost columns.
        if lost.len() - least <= code.claim().tolerance && least > 0 {
            let enough_count = choose(lost.len() as u64, least as u64);
            let enough = vec![lost[..least].to_vec()];
            return Ok(WayOut { lost, back: least, enough, enough_count, any: true, is_exact: true });
        }
        // One elimination takes about `one` nanoseconds; the number of tries limits the answer to
        // about two seconds.
        let rows = code.equations().len() as u64;
        let one = rows * rows * code.cell_count() as u64 / if self.is_xor() { 64 } else { 1 };
        let mut tries = (2_000_000_000 / one.max(1)).clamp(lost.len() as u64, 20_000);
        for back in least..=lost.len() {
            let sets = choose(lost.len() as u64, back as u64);
            if sets > tries {
                break;
            }
            tries -= sets;
            let columns = |set: &[usize]| set.iter().map(|&at| lost[at]).collect::<Vec<_>>();
            // The loss of a set is "survived" here if its return is not enough.
            let tally = SetTally::of(lost.len(), back, (sets, ENOUGH_KEPT), |set| {
                !self.are_computable(request, &columns(set))
            });
            let enough: Vec<Vec<usize>> = tally.fatal.iter().map(|set| columns(set)).collect();
            let enough_count = tally.lost();
            if enough_count > 0 {
                let any = enough_count == sets;
                return Ok(WayOut { lost, back, enough, enough_count, any, is_exact: true });
            }
        }
        let mut back = lost.clone();
        for column in &lost {
            let without: Vec<usize> = back.iter().copied().filter(|c| c != column).collect();
            if self.are_computable(request, &without) {
                back = without;
            }
        }
        Ok(WayOut {
            lost,
            back: back.len(),
            enough: vec![back],
            enough_count: 1,
            any: false,
            is_exact: false,
        })
    }

    /// Returns a lower bound on the number of columns that must return, by counting. If all lost
    /// cells are wanted, no more cells can stay lost than there are equations.
    fn back_least(&self, request: &Request<'_>, lost: &[usize]) -> usize {
        let wanted = CellSet::of_cells(self.code(), request.wanted);
        if request.lost.iter().any(|cell| !wanted.contains(cell)) {
            return 0;
        }
        let count = |&column: &usize| {
            self.code().column_cells(column).filter(|&cell| request.lost.contains(cell)).count()
        };
        let mut counts: Vec<usize> = lost.iter().map(count).collect();
        counts.sort_unstable();
        let mut left = self.code().equations().len();
        let stay = counts.iter().take_while(|&&cells| {
            let fits = cells <= left;
            left = left.saturating_sub(cells);
            fits
        });
        lost.len() - stay.count()
    }

    /// True if the wanted cells can be computed after these columns returned.
    fn are_computable(&self, request: &Request<'_>, back: &[usize]) -> bool {
        let mut gone = request.lost.clone();
        CellSet::of_columns(self.code(), back).iter().for_each(|cell| gone.remove(cell));
        let missing: Vec<CellIndex> =
            request.wanted.iter().copied().filter(|&cell| gone.contains(cell)).collect();
        let gone: Vec<CellIndex> = gone.iter().collect();
        match self.is_xor() {
            true => Space::<u64>::new(self.code(), &gone, &missing, &[]).is_ok(),
            false => Space::<Gf>::new(self.code(), &gone, &missing, &[]).is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Costs, Effort};
    use pantile_code::Code;

    fn way_out(spec: &str, columns: &[usize], wanted: &[usize]) -> WayOut {
        let code = Code::parse(spec).expect("a good spec");
        let (lost, wanted) = (CellSet::of_columns(&code, columns), CellSet::of_columns(&code, wanted));
        let wanted: Vec<CellIndex> = wanted.iter().collect();
        let (costs, effort) = (Costs::uniform(), Effort::Fast);
        let planner = Planner::new(&code);
        let request = Request { lost: &lost, wanted: &wanted, costs: &costs, effort };
        assert!(planner.recover(&request).is_err(), "{spec} {columns:?}");
        let way_out = planner.way_out(&request).unwrap();
        for back in &way_out.enough {
            let rest = CellSet::of_columns(&code, &way_out.survivable(back));
            let request = Request { lost: &rest, wanted: &wanted, costs: &costs, effort };
            assert!(planner.recover(&request).is_ok(), "{spec} {columns:?} {back:?}");
        }
        way_out
    }

    #[test]
    fn the_fewest_columns_that_are_enough_are_found() {
        let all = way_out("raid6:4", &[0, 1, 2, 5], &[0, 1, 2, 5]);
        assert_eq!((all.back, all.any, all.enough_count, all.is_exact), (2, true, 6, true));
        // {0,1,6}, {0,1,9} and others are the fatal triples of shec:6,4,3.
        let one = way_out("shec:6,4,3", &[0, 1, 2, 6], &[0, 1, 2, 6]);
        assert_eq!((one.back, one.any, one.is_exact), (1, false, true));
        assert_eq!(one.enough, [[0], [1], [6]]);
        let two = way_out("lrc:12,2,2", &[0, 1, 2, 3, 4, 5], &[0, 1, 2, 3, 4, 5]);
        assert_eq!((two.back, two.any, two.enough_count), (3, true, 20));
        let none = way_out("raid0:3", &[0, 2], &[0, 2]);
        assert_eq!((none.back, none.enough), (2, vec![vec![0, 2]]));
        let columns: Vec<usize> = (0..201).collect();
        let very_wide = way_out("rs:128+128", &columns, &columns);
        assert_eq!((very_wide.back, very_wide.any, very_wide.is_exact), (73, true, true));
        let array = way_out("evenodd:20", &columns[..20], &columns[..20]);
        assert_eq!((array.back, array.any, array.enough_count), (18, true, 190));
        let wide = way_out("rs:10+4", &[0, 1, 2, 3, 4, 5, 6], &[0, 1, 2, 3, 4, 5, 6]);
        assert_eq!((wide.back, wide.any, wide.enough_count), (3, true, 35));
        // Only one of the groups is wanted: missing cells of the other do not matter.
        let part = way_out("slpg:6,4,3", &[0, 1, 2, 3, 4, 5], &[0]);
        assert_eq!((part.back, part.any), (1, false));
        assert_eq!(part.enough, [[0], [1], [2]]);
    }

    #[test]
    fn where_there_are_too_many_sets_one_is_found_that_cannot_be_smaller() {
        let columns: Vec<usize> = (0..60).collect();
        let found = way_out("lrc:60,6,4", &columns, &columns);
        assert!(!found.is_exact && !found.any && found.enough.len() == 1, "{found:?}");
        // Six locals and four globals.
        assert_eq!(found.back, 50);
    }
}
