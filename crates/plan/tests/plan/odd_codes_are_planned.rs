//! Plans of unusual codes that only a code file can define: they are sound, and computed in bounded
//! memory.

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

/// Each parity is the sum of all cells before it, so its cost through them doubles from row to row,
/// up to 2^100.
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

/// All 20,000 cells of a stripe are wanted at once; the dependent cells are found without a matrix
/// of 20,000 by 20,000.
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

/// Each equation has several lost cells, and the code is too large for one elimination per cell.
#[test]
fn a_large_code_without_a_way_to_begin_is_eliminated_once() {
    const LOST: usize = 220;
    let mut state = 5u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    let mut text = format!("pantile-code 1\nname dense\ncolumns 4\nrows {LOST} 9500 9500 {LOST}\n");
    for row in 0..LOST {
        // Each equation has cells of column 0 in this row, the next row and a random row, and two
        // random cells of column 1.
        let mut cells = vec![(row, 0), ((row + 1) % LOST, 0), (random(9500), 1), (random(9500), 2)];
        cells.push(((row + 2 + random(LOST - 4)) % LOST, 0));
        let terms: Vec<String> =
            cells.iter().map(|(r, c)| format!("{}*[{r}][{c}]", 1 + random(255))).collect();
        text += &format!("[{row}][3] = {}\n", terms.join(" + "));
    }
    let code = Code::from_text(&text).unwrap();
    assert!(code.equations().len() * code.cell_count() > 1 << 22);
    // Every parity, and the cells of the other columns in the equations.
    assert!(plan(&code, &[0], &[0], &Costs::uniform()) > 2 * LOST);
}
