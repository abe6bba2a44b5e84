//! With as many lost cells as equations there is one recovery, and it is found without a search.

use crate::cheapest_means_cheapest::{Random, brute_force};
use pantile_code::{CellIndex, Code};
use pantile_plan::{CellSet, Costs, Effort, Optimality, Plan, PlanError, Planner, Request};

pub fn sets(of: usize, size: usize) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for _ in 0..size {
        let longer = |set: &Vec<usize>| -> Vec<Vec<usize>> {
            let first = set.last().map_or(0, |last| last + 1);
            (first..of).map(|column| [set.as_slice(), &[column]].concat()).collect()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

fn recover(planner: &Planner, lost: &CellSet, costs: &Costs) -> Result<Plan, PlanError> {
    let wanted: Vec<CellIndex> = lost.iter().collect();
    planner.recover(&Request { lost, wanted: &wanted, costs, effort: Effort::Fast })
}

/// A stripe of 64 codewords over bits: the data are random, each parity is the sum that the
/// generator defines.
pub fn stripe(code: &Code, random: &mut Random) -> Vec<u64> {
    let mut cells = vec![0; code.cell_count()];
    for &cell in code.data() {
        cells[cell.usize()] = (0..64).fold(0, |word, _| word << 1 | random.below(2) as u64);
    }
    for (row, &parity) in code.parity().iter().enumerate() {
        let terms = code.data().iter().zip(code.generator().row(row)).filter(|(_, c)| !c.is_zero());
        cells[parity.usize()] = terms.fold(0, |sum, (cell, _)| sum ^ cells[cell.usize()]);
    }
    for equation in code.equations() {
        assert_eq!(equation.terms().iter().fold(0, |sum, t| sum ^ cells[t.0.usize()]), 0, "{code}");
    }
    cells
}

/// Runs the plan on a stripe that has only the cells that the plan reads.
pub fn assert_recovers(code: &Code, plan: &Plan, lost: &CellSet, stripe: &[u64]) {
    assert!(plan.is_sound(code, lost), "{code} {lost:?}");
    let mut cells = vec![None; code.cell_count()];
    plan.reads.iter().for_each(|cell| cells[cell.usize()] = Some(stripe[cell.usize()]));
    for step in &plan.steps {
        let sum = step.terms.iter().try_fold(0, |sum, t| Some(sum ^ cells[t.0.usize()]?));
        cells[step.target.usize()] = sum;
    }
    for cell in lost.iter() {
        assert_eq!(cells[cell.usize()], Some(stripe[cell.usize()]), "{code} {lost:?}, cell {}", cell.0);
    }
    assert!(
        plan.outputs.iter().copied().eq(lost.iter()) && plan.steps.len() == lost.len(),
        "{code} {lost:?}"
    );
}

#[test]
fn bit_matrices_are_recovered_from_all_that_is_left() {
    let mut random = Random(3);
    for spec in [
        "crs:3+2,w=3",
        "crs:4+2,w=3,orig",
        "crs:4+3,w=3",
        "crs:2+5,w=3",
        "crs:5+3,w=4",
        "crs:4+4,w=4,orig",
        "crs:6+3,w=4",
        "crs:4+3,w=5",
        "crs:5+2,w=5,orig",
        "crs:3+3,w=6",
        "crs:4+2,w=7",
        "crs:3+3,w=7,orig",
        "crs:5+2",
        "crs:4+3",
        "crs:3+3,orig",
        "liberation:5",
        "blaumroth:4",
        "blaumroth:6",
        "liber8tion:6",
        "evenodd:7",
        "evenodd:11",
        "rdp:8",
        "dcode:7",
        "hcode:8",
    ] {
        let code = Code::parse(spec).unwrap();
        let planner = Planner::new(&code);
        let stripe = stripe(&code, &mut random);
        for columns in sets(code.columns(), code.claim().tolerance) {
            let lost = CellSet::of_columns(&code, &columns);
            let plan = recover(&planner, &lost, &Costs::uniform()).unwrap();
            assert_recovers(&code, &plan, &lost, &stripe);
            // Every survivor must be read: one that no lost cell needs could change without effect
            // on a lost cell.
            assert_eq!(plan.reads.len(), code.data().len(), "{spec} {columns:?}");
            assert_eq!((plan.cost, plan.optimality), (plan.reads.len() as u64, Optimality::Exact));
        }
    }
}

/// Additions over all losses of as many columns as can be lost. `before` is the number with a
/// separate elimination for each combination.
#[test]
fn additions_do_not_grow() {
    for (spec, most, before) in [
        ("crs:6+3,w=4", 7256, 7807),
        ("crs:5+3,w=4", 4106, 4265),
        ("crs:4+4,w=4,orig", 5903, 7844),
        ("crs:8+2", 7726, 7797),
        ("liberation:7", 3453, 3453),
        ("liber8tion:6", 2571, 2571),
        ("blaumroth:6", 1953, 1966),
        ("evenodd:13", 23238, 23282),
    ] {
        let code = Code::parse(spec).unwrap();
        let planner = Planner::new(&code);
        let additions = |columns: &Vec<usize>| {
            let lost = CellSet::of_columns(&code, columns);
            recover(&planner, &lost, &Costs::uniform()).unwrap().additions()
        };
        let now: usize = sets(code.columns(), code.claim().tolerance).iter().map(additions).sum();
        assert!(now <= most && most <= before, "{spec}: {now}");
    }
}

#[test]
fn rows_of_bits_have_room_for_any_bit_matrix() {
    let mut random = Random(4);
    // Rows of 1 to 32 words, and two array codes with longer rows, one of which needs combinations.
    for spec in [
        "crs:11+5,w=4",
        "crs:12+2",
        "crs:16+4",
        "crs:27+4",
        "crs:60+4",
        "crs:100+4",
        "crs:252+4",
        "evenodd:49",
        "rdp:48",
    ] {
        let code = Code::parse(spec).unwrap();
        let (planner, stripe) = (Planner::new(&code), stripe(&code, &mut random));
        for first in [0, code.columns() / 2] {
            let columns: Vec<usize> = (0..code.claim().tolerance).map(|i| first + i).collect();
            let lost = CellSet::of_columns(&code, &columns);
            let plan = recover(&planner, &lost, &Costs::uniform()).unwrap();
            assert_recovers(&code, &plan, &lost, &stripe);
            assert_eq!((plan.reads.len(), plan.optimality), (code.data().len(), Optimality::Exact), "{spec}");
        }
    }
}

#[test]
fn undetermined_cells_are_refused() {
    let code = Code::parse("dcode:9,raw").unwrap();
    let planner = Planner::new(&code);
    let mut refused = 0;
    for columns in sets(code.columns(), 2) {
        let lost = CellSet::of_columns(&code, &columns);
        assert_eq!(lost.len(), code.equations().len());
        match recover(&planner, &lost, &Costs::uniform()) {
            Ok(plan) => assert!(plan.is_sound(&code, &lost), "{columns:?}"),
            Err(PlanError::NotRecoverable(error)) => {
                refused += 1;
                assert!(error.rank < lost.len() && !error.unrecoverable.is_empty(), "{error:?}");
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(refused, 9);
}

/// Compares plans for lost cells that are not whole columns, at unequal costs, with every set of
/// cells that could be read.
#[test]
fn no_set_of_reads_costs_less() {
    let mut random = Random(5);
    let mut recovered = 0;
    for spec in [
        "crs:2+2,w=2",
        "liberation:2",
        "blaumroth:2",
        "evenodd:4",
        "rdp:4",
        "hdp:4",
        "mirror:4",
        "raidp:3",
        "raidp:3,weighted",
        "raidq:2+4",
        "lrc:4,2,2",
        "shec:6,4,3",
        "xorbas:4,4,2",
    ] {
        let Ok(code) = Code::parse(spec) else { panic!("{spec}") };
        let planner = Planner::new(&code);
        for _ in 0..40 {
            let mut lost = CellSet::empty(&code);
            while lost.len() < code.equations().len() {
                lost.insert(CellIndex(random.below(code.cell_count()) as u32));
            }
            let wanted: Vec<CellIndex> = lost.iter().collect();
            let mut costs = Costs::uniform();
            (0..code.columns()).for_each(|c| costs.set(c, random.below(4) as u32));
            let plan = recover(&planner, &lost, &costs).ok();
            assert_eq!(
                plan.as_ref().map(|plan| plan.cost),
                brute_force(&code, &lost, &wanted, &costs),
                "{spec}"
            );
            let Some(plan) = plan else { continue };
            assert!(plan.is_sound(&code, &lost) && plan.optimality == Optimality::Exact, "{spec} {lost:?}");
            recovered += 1;
        }
    }
    assert!(recovered > 100, "{recovered}");
}
