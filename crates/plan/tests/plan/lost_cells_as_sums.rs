//! [`Planner::sums`]: every set that can be recovered is, from no more than its plan says, and every other one is refused as [`Planner::decode`] does.

use crate::as_many_lost_as_equations::{assert_recovers, sets, stripe};
use crate::cheapest_means_cheapest::Random;
use pantile_code::{CellIndex, Code};
use pantile_plan::{CellSet, PlanError, Planner};

#[test]
fn everything_lost_is_a_sum_of_what_is_left() {
    let mut random = Random(8);
    let specs = [
        "raid0:3",
        "mirror:3",
        "raid5:6",
        "crs:2+2,w=2,orig",
        "crs:6+3,w=4",
        "crs:4+4,w=4,orig",
        "crs:8+2",
        "crs:10+6",
        "liberation:5",
        "blaumroth:6",
        "dcode:7",
        "rdp:8",
        "evenodd:7",
        "hdp:6",
        "raidp:5",
        "xcode:5",
        "raid5:70",
        "mirror:130",
        "dcode:23",
    ];
    let (mut recovered, mut refused) = (0, 0);
    for spec in specs {
        let code = Code::parse(spec).unwrap();
        let planner = Planner::new(&code);
        let stripe = stripe(&code, &mut random);
        let most = (code.claim().tolerance + 1).min(code.columns());
        let columns = code.columns().min(10);
        let whole = (0..=most.min(4))
            .flat_map(|size| sets(columns, size))
            .map(|set| CellSet::of_columns(&code, &set));
        let single: Vec<CellIndex> = code.cells().step_by(3).take(40).collect();
        let pairs = single.windows(2).map(|pair| CellSet::of_cells(&code, pair));
        let parity = CellSet::of_cells(&code, code.parity());
        for lost in whole.chain(pairs).chain([parity]) {
            match planner.sums(&lost) {
                Ok(sums) => {
                    let sums = sums.unwrap();
                    let plan = sums.plan();
                    assert_recovers(&code, &plan, &lost, &stripe);
                    assert!(sums.cells().iter().copied().eq(lost.iter()));
                    for (place, step) in plan.steps.iter().enumerate() {
                        let has = |cell: CellIndex| {
                            sums.row(place)[cell.usize() / 64] >> (cell.usize() % 64) & 1 == 1
                        };
                        assert!(
                            code.cells()
                                .all(|cell| has(cell) == step.terms.iter().any(|term| term.0 == cell)),
                            "{spec} {lost:?}"
                        );
                    }
                    recovered += 1;
                }
                Err(error) => {
                    assert!(matches!(error, PlanError::NotRecoverable(_)), "{spec} {lost:?}: {error}");
                    assert_eq!(planner.decode(&lost).unwrap_err(), error, "{spec} {lost:?}");
                    refused += 1;
                }
            }
        }
    }
    assert!(recovered > 1500 && refused > 500, "{recovered} {refused}");
}

/// With a parity for each data column lost, and no other: what a decoder of words reads.
#[test]
fn no_more_parities_are_read_than_data_are_lost() {
    for spec in ["crs:6+3,w=4", "crs:4+4,w=4,orig", "crs:5+5,w=5"] {
        let code = Code::parse(spec).unwrap();
        let planner = Planner::new(&code);
        for size in 1..=code.claim().tolerance {
            for columns in sets(code.columns(), size) {
                let plan = planner.sums(&CellSet::of_columns(&code, &columns)).unwrap().unwrap().plan();
                assert!(plan.reads.len() <= code.data().len(), "{spec} {columns:?}");
            }
        }
    }
}

#[test]
fn other_codes_have_no_such_sums() {
    let planner = Planner::new(&Code::parse("cauchy:4+2").unwrap());
    assert!(planner.sums(&CellSet::of_columns(planner.code(), &[0])).unwrap().is_none());
    let other = CellSet::of_columns(&Code::parse("crs:6+3,w=4").unwrap(), &[0]);
    assert!(matches!(planner.sums(&other), Err(PlanError::OtherCode { .. })));
}
