//! Estimates of the work to examine a profile. They are made before the work begins: an attacker
//! can have written the dump, so work beyond the allowed amount is not begun.
//!
//! Work is counted in steps of about a nanosecond of one core, and never timed: the same dump gives
//! the same report on every machine. Searches for plans are counted at their longest; many end
//! sooner.

use crate::durability;
use pantile::Code;
use pantile::plan::{ProveOptions, prove};

/// Work allowed for a dump by default, in steps of about a microsecond: one second.
pub const EFFORT_STEPS: u64 = 1_000_000;

/// Account of the work for a dump: steps allowed, steps left, and steps refused.
#[derive(Clone, Debug)]
pub(super) struct Purse {
    allowed: u64,
    left: u64,
    lacking: u64,
}

impl Purse {
    /// Returns a purse with `effort_steps` steps of a microsecond.
    pub fn new(effort_steps: u64) -> Purse {
        let allowed = effort_steps.saturating_mul(1000);
        Purse { allowed, left: allowed, lacking: 0 }
    }

    /// Takes the steps of work to come. If fewer steps are left, returns `false` and takes none.
    pub fn pays(&mut self, steps: u64) -> bool {
        let left = self.left.checked_sub(steps);
        match left {
            Some(left) => self.left = left,
            None => self.lacking = self.lacking.saturating_add(steps),
        }
        left.is_some()
    }

    /// Returns the remaining steps divided by the number of tasks `of`.
    pub fn share(&self, of: usize) -> u64 {
        self.left / of.max(1) as u64
    }

    /// Takes the steps of work that is done.
    pub fn paid(&mut self, steps: u64) {
        self.left = self.left.saturating_sub(steps);
    }

    /// Returns the effort that would suffice for all work, including the refused work.
    pub fn suffices(&self) -> u64 {
        self.allowed.saturating_add(self.lacking).div_ceil(1000)
    }
}

/// Returns the number of sets of `lost` columns.
pub(super) fn sets(columns: usize, lost: usize) -> u64 {
    pantile_gf::choose(columns as u64, lost as u64)
}

/// Returns the steps of planning for `sets` sets of `lost` columns, each with a search of at most
/// `nodes_most` nodes.
pub(super) fn of_plans(code: &Code, sets: u64, lost: usize, nodes_most: u64) -> u64 {
    const PLAN_STEPS: u64 = 2_000;
    const NODE_STEPS: u64 = 500;
    // With one row, the search chooses which of the remaining columns are not read: the number of
    // equations minus the number of lost columns.
    let nodes = match (code.rows_max(), code.equations().len().checked_sub(lost)) {
        (1, Some(over)) => self::sets(code.columns() - lost, over).min(nodes_most),
        _ => nodes_most,
    };
    sets.saturating_mul(PLAN_STEPS + nodes * NODE_STEPS)
}

/// Returns the steps of [`durability::examine`] for a code, or for its stand-in.
pub(super) fn of_durability(code: &Code, disks: &durability::Disks) -> u64 {
    // These limits are those of `durability`. It samples a level of more than `SETS_MOST` sets, and
    // it stops the proof of a level after `PROOF_MOST` steps.
    const SETS_MOST: u64 = 25_000;
    const DRAWN_MOST: u64 = 1_000;
    const PROOF_MOST: u64 = 500_000_000;
    const PLAN_NODES: u64 = 2_000;
    let (columns, rows, equations) = (code.columns(), code.rows_max(), code.equations().len());
    let theorem = ProveOptions { lost_most: Some(0), ..ProveOptions::default() };
    let proved = prove(code, &theorem, &|_, _, _| true).tolerance();
    let is_spread = disks.domains.as_ref().is_none_or(|domains| domains.count >= columns);
    let is_alike = code.claim().mds && rows == 1 && is_spread;
    let looked_at = (code.claim().tolerance + durability::LEVELS_BEYOND).min(equations / rows).min(columns);
    let of_level = |lost: usize| {
        let sets = sets(columns, lost);
        let of_set = (2 * lost * rows * rows * equations) as u64 + 20;
        let counted = if lost <= proved { 0 } else { sets.saturating_mul(of_set).min(PROOF_MOST) };
        let planned = match sets {
            _ if is_alike => 1,
            sets if sets > SETS_MOST => DRAWN_MOST,
            sets => sets,
        };
        let nodes = if code.claim().mds && rows == 1 { 0 } else { PLAN_NODES };
        counted.saturating_add(of_plans(code, planned, lost, nodes))
    };
    (1..=looked_at).map(of_level).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_beyond_the_allowance_is_named_and_costs_nothing() {
        let mut purse = Purse::new(10);
        assert!(purse.pays(4_000) && !purse.pays(7_000) && purse.pays(6_000) && !purse.pays(1));
        assert_eq!((purse.share(3), purse.suffices()), (0, 18));
        let mut purse = Purse::new(purse.suffices());
        assert!([4_000, 7_000, 6_000, 1].into_iter().all(|steps| purse.pays(steps)));
        purse.paid(u64::MAX);
        assert!(!purse.pays(u64::MAX) && !purse.pays(u64::MAX));
        assert_eq!(purse.suffices(), u64::MAX.div_ceil(1000));
    }

    #[test]
    fn codes_that_a_theorem_proves_cost_little_and_wide_ones_of_groups_much() {
        let of = |spec: &str| {
            let code = Code::parse(spec).unwrap();
            of_durability(
                durability::stand_in(&code).as_ref().unwrap_or(&code),
                &durability::Disks::default(),
            )
        };
        for spec in ["rs:10+4", "rs:200+50", "clay:8,4,11", "clay:8,6,13"] {
            assert!(of(spec) < 10_000_000, "{spec}: {}", of(spec));
        }
        assert!(of("shec:6,4,3") < 200_000_000, "{}", of("shec:6,4,3"));
        assert!(of("ceph:plugin=lrc k=12 m=6 l=9") > 1_000_000_000);
    }
}
