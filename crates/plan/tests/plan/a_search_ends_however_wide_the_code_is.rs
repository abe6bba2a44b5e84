//! The search for wrong columns is bounded by counted work, not by time.

use pantile_code::Code;
use pantile_gf::Gf;
use pantile_plan::{CellSet, Explanation, Locator};

fn locator(spec: &str) -> Locator {
    let code = Code::parse(spec).unwrap();
    Locator::new(&code, code.claim().tolerance, &CellSet::empty(&code)).unwrap()
}

/// Returns the values of the checks if these columns of a code of one row have these errors.
fn syndrome(locator: &Locator, wrong: &[(usize, u8)]) -> Vec<Gf> {
    let value = |column| wrong.iter().find(|(c, _)| *c == column).map_or(Gf::ZERO, |(_, x)| Gf(*x));
    let column_of = |cell| locator.code().column_of(cell);
    let sum =
        |check: &pantile_plan::Combination| check.iter().map(|&(cell, c)| c * value(column_of(cell))).sum();
    locator.checks().iter().map(sum).collect()
}

#[test]
fn unexplained_errors_are_given_up_within_the_bound() {
    for spec in ["rs:200+56", "lch:128+64", "mirror:258"] {
        let locator = locator(spec);
        // Half of the checks fail. In these codes that takes at least 28 wrong columns, more than
        // any search reaches.
        let all: Vec<Gf> = (0..locator.checks().len()).map(|i| Gf((i * 37 + 1) as u8)).collect();
        let mut products = 1 << 22;
        assert_eq!(locator.explain_within(&all, &mut products), Explanation::Unlocatable, "{spec}");
        assert!(products < 1 << 22, "{spec}: what is spent is taken");
    }
}

#[test]
fn single_columns_are_found_without_any_products_left_and_pairs_with_enough() {
    let locator = locator("rs:200+56");
    let one = Explanation::Located { columns: vec![199], certain: true };
    assert_eq!(locator.explain_within(&syndrome(&locator, &[(199, 7)]), &mut 0), one);
    let pair = syndrome(&locator, &[(40, 3), (230, 200)]);
    assert_eq!(locator.explain_within(&pair, &mut 0), Explanation::Unlocatable);
    let both = Explanation::Located { columns: vec![40, 230], certain: true };
    assert_eq!(locator.explain_within(&pair, &mut { 1 << 28 }), both);
}
