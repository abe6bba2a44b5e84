//! Repair of codes that name parts of columns. One lost column of a Clay code is repaired from
//! q^(t-1) elements of each of d others, which for d = n - 1 is the least possible; several lost
//! columns are repaired from k whole ones.

use pantile_code::{CellIndex, Code};
use pantile_plan::{CellSet, Costs, Effort, Optimality, Plan, PlanError, Planner, Request};

fn recover(code: &Code, lost: &CellSet, wanted: &[CellIndex], costs: &Costs) -> Result<Plan, PlanError> {
    let request = Request { lost, wanted, costs, effort: Effort::Fast };
    let plan = Planner::new(code).recover(&request)?;
    assert!(plan.is_sound(code, lost), "{code}: {plan:?}");
    assert_eq!(plan.outputs, wanted);
    let price = plan.reads.iter().map(|&cell| costs.of(code.column_of(cell))).sum::<u64>();
    assert_eq!(plan.cost, price);
    Ok(plan)
}

fn of_columns(code: &Code, columns: &[usize]) -> Plan {
    let lost = CellSet::of_columns(code, columns);
    let wanted: Vec<CellIndex> = lost.iter().collect();
    recover(code, &lost, &wanted, &Costs::uniform()).unwrap_or_else(|error| panic!("{code}: {error}"))
}

fn clay(k: usize, m: usize, d: usize) -> Code {
    Code::parse(&format!("clay:{k},{m},{d}")).unwrap()
}

#[test]
fn one_column_is_read_as_the_construction_says() {
    for (k, m, d, reads) in [(4, 2, 5, 20), (3, 3, 5, 15), (6, 3, 8, 72), (8, 4, 11, 176), (5, 2, 6, 48)] {
        let code = clay(k, m, d);
        for column in 0..code.columns() {
            let plan = of_columns(&code, &[column]);
            assert_eq!(plan.cost, reads, "{code}, column {column}");
            assert_eq!(plan.optimality, Optimality::Exact, "{code}, column {column}");
        }
    }
}

#[test]
fn fewer_helpers_than_are_left_do() {
    for (k, m, d) in [(3, 3, 4), (4, 3, 5), (6, 4, 8), (5, 4, 6), (3, 2, 3), (4, 4, 6)] {
        let code = clay(k, m, d);
        let q = d - k + 1;
        for column in 0..code.columns() {
            let plan = of_columns(&code, &[column]);
            assert_eq!(plan.cost as usize, d * code.rows_max() / q, "{code}, column {column}");
        }
    }
}

#[test]
fn helpers_are_the_cheapest_and_none_that_is_lost() {
    let code = clay(6, 4, 8);
    let wanted: Vec<CellIndex> = code.column_cells(0).collect();
    // Column 1 is in the group of column 0, so it must be read.
    let mut costs = Costs::uniform();
    costs.set(7, 10);
    let plan = recover(&code, &CellSet::of_columns(&code, &[0]), &wanted, &costs).unwrap();
    assert_eq!(plan.reads_per_column(&code)[7], 0);
    let plan = recover(&code, &CellSet::of_columns(&code, &[0, 5]), &wanted, &Costs::uniform()).unwrap();
    assert_eq!(plan.cost as usize, 8 * code.rows_max() / 3);
    let plan = recover(&code, &CellSet::of_columns(&code, &[0, 1]), &wanted, &Costs::uniform()).unwrap();
    assert!(plan.cost as usize <= 6 * code.rows_max());
}

#[test]
fn more_columns_are_read_from_k_whole_ones() {
    for (k, m, d) in [(4, 2, 5), (3, 3, 5), (6, 3, 8), (8, 4, 11), (4, 3, 5)] {
        let code = clay(k, m, d);
        for lost in 2..=m {
            let plan = of_columns(&code, &(1..=lost).collect::<Vec<_>>());
            assert!(plan.cost as usize <= k * code.rows_max(), "{code}: {}", plan.cost);
        }
        let most = CellSet::of_columns(&code, &(0..=m).collect::<Vec<_>>());
        let wanted: Vec<CellIndex> = most.iter().collect();
        let refused = recover(&code, &most, &wanted, &Costs::uniform());
        assert!(matches!(refused, Err(PlanError::NotRecoverable(_))), "{code}: {refused:?}");
    }
}

#[test]
fn single_cells_and_cells_that_are_there_are_read_for_little() {
    let code = clay(6, 3, 8);
    let cell = code.column_cells(2).nth(5).unwrap();
    let one = recover(&code, &CellSet::of_cells(&code, &[cell]), &[cell], &Costs::uniform()).unwrap();
    assert!(one.cost <= 13, "{}", one.cost);
    // One element of a lost column is computed from the checks of one plane.
    let lost = CellSet::of_columns(&code, &[2]);
    let one = recover(&code, &lost, &[cell], &Costs::uniform()).unwrap();
    assert!(one.cost <= 14, "{}", one.cost);
    let there = code.column_cells(4).next().unwrap();
    let both = recover(&code, &lost, &[there, cell], &Costs::uniform()).unwrap();
    assert!(both.cost <= one.cost + 1 && both.reads.contains(&there));
}
