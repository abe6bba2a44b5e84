//! Codes that nobody would build and anybody may write: plans for them are sound, and made in bounded space.

use pantile_code::{CellIndex, Code};
use pantile_plan::{CellSet, Costs, Effort, Planner, Request};

fn plan(code: &Code, lost: &[usize], wanted: &[usize], costs: &Costs) -> usize {
    let (lost, wanted) = (CellSet::of_columns(code, lost), CellSet::of_columns(code, wanted));
    let wanted: Vec<CellIndex> = wanted.iter().collect();
    let request = Request { lost: &lost, wanted: &wanted, costs, effort: Effort::Fast };
    let plan = Planner::new(code).recover(&request).expect("recoverable");
    assert!(plan.is_sound(code, &lost));
    plan.reads.len()
}

/// Each parity is the sum of all before it, so that what it costs through them doubles from row to row: 2^100.
#[test]
fn costs_that_double_along_a_chain_do_not_overflow() {
    const ROWS: usize = 100;
    let mut text = format!("pantile-code 1\nname doubling\ncolumns 2\nrows {ROWS}\n");
    for row in 0..ROWS {
        let before: String = (0..row).map(|r| format!(" + [{r}][1]")).collect();
        text += &format!("[{row}][1] = [{row}][0]{before}\n");
    }
    let code = Code::from_text(&text).unwrap();
    let mut dear = Costs::uniform();
    dear.set(0, Costs::MOST);
    for costs in [Costs::uniform(), dear] {
        assert_eq!(plan(&code, &[1], &[1], &costs), ROWS);
        assert_eq!(plan(&code, &[0], &[0], &costs), ROWS);
    }
}

/// Everything wanted at once of a stripe of 20,000 cells: the dependent cells are told from the others without a matrix of
/// 20,000 by 20,000.
#[test]
fn all_cells_of_a_large_stripe_can_be_wanted() {
    const ROWS: usize = 2000;
    let mut text = format!("pantile-code 1\nname large\ncolumns 10\nrows {ROWS}\n");
    for row in 0..8 {
        let terms: Vec<String> = (0..9).map(|column| format!("{}*[{row}][{column}]", column + 1)).collect();
        text += &format!("[{row}][9] = {}\n", terms.join(" + "));
    }
    let code = Code::from_text(&text).unwrap();
    let all: Vec<usize> = (0..10).collect();
    assert_eq!(plan(&code, &[], &all, &Costs::uniform()), code.data().len());
}
