//! Claim: reading a code file stays within its limits of work and memory, whatever the file
//! contains.

use pantile_code::{Budget, Code, CodeError, FileFault, Overspent};
use std::fmt::Write;

/// Returns a code file with a dense matrix: each parity cell is a sum of the other parity cells and
/// of data.
fn dense(columns: usize, rows: usize, parity: usize) -> String {
    let mut text = format!("pantile-code 1\nname dense\ncolumns {columns}\nrows {rows}\n");
    let cell = |i: usize| (i % rows, i / rows);
    let cells = columns * rows;
    let mut state = 1u64;
    for i in 0..parity {
        let (row, column) = cell(i);
        write!(text, "[{row}][{column}] =").unwrap();
        for j in (0..parity).filter(|&j| j != i).chain(cells - 2..cells) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (row, column) = cell(j);
            let plus = if text.ends_with('=') { "" } else { "+" };
            write!(text, "{plus}{}*[{row}][{column}]", 1 + (state >> 33) % 255).unwrap();
        }
        text.push('\n');
    }
    text
}

fn overspent(result: Result<Code, CodeError>) -> Overspent {
    match result {
        Err(CodeError::File { line: 0, fault: FileFault::TooMuchWork(overspent) }) => overspent,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_code_file_that_takes_long_to_solve_is_refused_before_it_is_solved() {
    // The file takes 270 million products, for 580 parity cells that are sums of each other. The
    // default of a million steps allows 200 million products.
    let text = dense(20, 40, 580);
    let fault = overspent(Code::from_text(&text));
    assert_eq!(fault.allowed_steps, Budget::DEFAULT_STEPS);
    let said = fault.to_string();
    assert!(said.contains("1000000 steps"), "{said}");
    assert!(said.contains(&format!("--effort {}", fault.suffices_steps)), "{said}");
}

#[test]
fn the_effort_that_a_refusal_names_suffices() {
    let text = dense(10, 20, 150);
    let fault = overspent(Code::from_text_within(&text, &mut Budget::of_steps(1000)));
    let mut budget = Budget::of_steps(fault.suffices_steps);
    let code = Code::from_text_within(&text, &mut budget).expect("it is read");
    assert_eq!(code, Code::from_text(&text).expect("the usual budget suffices, too"));
}

#[test]
fn texts_that_share_a_budget_cost_no_more_than_one_may() {
    let text = dense(10, 20, 150);
    let mut budget = Budget::of_steps(2 * 150 * 150 * 200 / Budget::PRODUCTS_PER_STEP);
    let read = (0..20).take_while(|_| Code::from_text_within(&text, &mut budget).is_ok()).count();
    assert!((1..=4).contains(&read), "{read} texts were read");
}

#[test]
fn a_text_needs_the_same_effort_every_time() {
    let text = dense(10, 20, 150);
    let suffices = |steps| Code::from_text_within(&text, &mut Budget::of_steps(steps)).is_ok();
    let least = (0..40_000).collect::<Vec<u64>>().partition_point(|&steps| !suffices(steps)) as u64;
    assert!(least > 0 && least < 40_000);
    assert!((0..3).all(|_| suffices(least) && !suffices(least - 1)));
}
