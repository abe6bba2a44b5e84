//! [`Planner::decode`]: the recovered cells are right, and in codes of dense XORs the plan has
//! fewer terms than the plan with the fewest reads.

use crate::as_many_lost_as_equations::{assert_recovers, sets, stripe};
use crate::cheapest_means_cheapest::Random;
use pantile_code::{CellIndex, Code};
use pantile_plan::{CellSet, Costs, Effort, Optimality, Plan, PlanError, Planner, Request};

fn recover(planner: &Planner, lost: &CellSet) -> Result<Plan, PlanError> {
    let wanted: Vec<CellIndex> = lost.iter().collect();
    planner.recover(&Request { lost, wanted: &wanted, costs: &Costs::uniform(), effort: Effort::Fast })
}

fn terms(plan: &Plan) -> usize {
    plan.steps.iter().map(|step| step.terms.len()).sum()
}

#[test]
fn every_set_up_to_the_tolerance_is_decoded() {
    let mut random = Random(6);
    for spec in [
        "crs:3+3,w=3",
        "crs:2+5,w=3",
        "crs:4+2,w=3,orig",
        "crs:3+3,w=3,orig",
        "crs:6+3,w=4",
        "crs:4+4,w=4,orig",
        "crs:5+3,w=5",
        "crs:3+2,w=6,orig",
        "crs:3+3,w=7",
        "crs:8+2",
        "crs:4+3,orig",
        "crs:16+4",
    ] {
        let code = Code::parse(spec).unwrap();
        let planner = Planner::new(&code);
        let stripe = stripe(&code, &mut random);
        for size in 0..=code.claim().tolerance {
            for columns in sets(code.columns(), size).iter().step_by(if code.columns() > 12 { 7 } else { 1 })
            {
                let lost = CellSet::of_columns(&code, columns);
                let plan = planner.decode(&lost).unwrap();
                assert_recovers(&code, &plan, &lost, &stripe);
                assert_eq!(plan.cost, plan.reads.len() as u64, "{spec} {columns:?}");
                // The bound must also hold if another plan reads less.
                let best = recover(&planner, &lost).unwrap().cost;
                match plan.optimality {
                    Optimality::Exact => assert_eq!(plan.cost, best, "{spec} {columns:?}"),
                    Optimality::Bound { at_least } => assert!(at_least <= best, "{spec} {columns:?}"),
                }
            }
        }
    }
}

/// Compares terms over all losses of `size` columns: `most` for `decode`, and those of `recover`,
/// which reads least, when this test was written.
#[test]
fn terms_are_fewer_than_where_little_is_read() {
    for (spec, size, most, of_recover) in [
        ("crs:6+3,w=4", 2, 2330, 3220),
        ("crs:5+3,w=5", 2, 2241, 2888),
        ("crs:4+3,w=3", 2, 595, 673),
        ("crs:4+4,w=4,orig", 2, 1575, 1884),
    ] {
        let code = Code::parse(spec).unwrap();
        let planner = Planner::new(&code);
        let (mut decoded, mut recovered) = (0, 0);
        for columns in sets(code.columns(), size) {
            let lost = CellSet::of_columns(&code, &columns);
            decoded += terms(&planner.decode(&lost).unwrap());
            recovered += terms(&recover(&planner, &lost).unwrap());
        }
        assert!(decoded <= most && decoded <= recovered, "{spec} {size}: {decoded} of {recovered}");
        assert!(most < of_recover, "{spec} {size}");
    }
}

/// With three or more parity columns, only as many parity cells are read as data cells are lost.
#[test]
fn no_more_is_read_than_data() {
    for spec in ["crs:3+3,w=3", "crs:6+3,w=4", "crs:10+4,w=4", "crs:4+4,w=4,orig", "crs:6+3"] {
        let code = Code::parse(spec).unwrap();
        let planner = Planner::new(&code);
        for size in 1..code.claim().tolerance {
            for columns in sets(code.columns(), size) {
                let plan = planner.decode(&CellSet::of_columns(&code, &columns)).unwrap();
                assert!(plan.reads.len() <= code.data().len(), "{spec} {columns:?}");
            }
        }
    }
}

#[test]
fn single_columns_and_sparse_codes_have_the_plans_that_read_least() {
    for spec in ["crs:6+3,w=4", "crs:5+2,w=5", "crs:4+3,w=3,orig"] {
        let code = Code::parse(spec).unwrap();
        let planner = Planner::new(&code);
        for column in 0..code.columns() {
            let lost = CellSet::of_columns(&code, &[column]);
            assert_eq!(planner.decode(&lost), recover(&planner, &lost), "{spec} {column}");
        }
    }
    for spec in [
        "evenodd:7",
        "rdp:8",
        "liberation:5",
        "blaumroth:6",
        "liber8tion:4",
        "dcode:7",
        "xcode:5",
        "hcode:6",
        "hdp:6",
        "raidp:5",
        "raidp:5,weighted",
        "raidq:4+4",
        "xorbas:4,4,2",
        "rs:4+2",
    ] {
        let code = Code::parse(spec).unwrap();
        let planner = Planner::new(&code);
        for size in 0..=code.claim().tolerance {
            for columns in sets(code.columns(), size) {
                let lost = CellSet::of_columns(&code, &columns);
                assert_eq!(planner.decode(&lost), recover(&planner, &lost), "{spec} {columns:?}");
            }
        }
    }
}

#[test]
fn too_much_and_another_code_are_refused() {
    let code = Code::parse("crs:5+3,w=4").unwrap();
    let planner = Planner::new(&code);
    let lost = CellSet::of_columns(&code, &[0, 1, 2, 3]);
    assert_eq!(planner.decode(&lost), recover(&planner, &lost));
    assert!(matches!(planner.decode(&lost), Err(PlanError::NotRecoverable(_))));
    let other = CellSet::of_columns(&Code::parse("crs:6+3,w=4").unwrap(), &[0]);
    assert!(matches!(planner.decode(&other), Err(PlanError::OtherCode { .. })));
    // Single lost cells, fewer than a column has.
    for cell in code.cells() {
        let lost = CellSet::of_cells(&code, &[cell]);
        assert!(planner.decode(&lost).unwrap().is_sound(&code, &lost), "{cell:?}");
    }
}
