//! Claim: a code that a user builds is checked like a code file: it is refused with the reason, or
//! its claim is true.

use pantile_code::{Claim, Code, CodeBuilder, CodeError, ColumnRole, FileFault, Purpose};
use pantile_gf::Gf;

/// Returns two data columns, their sum, and a sum with different coefficients.
fn pair() -> CodeBuilder {
    let mut code = CodeBuilder::uniform(4, 1);
    code.define_xor((0, 2), [(0, 0), (0, 1)]);
    code.define((0, 3), [((0, 0), Gf(1)), ((0, 1), Gf(2))]);
    code
}

fn fault(code: CodeBuilder, name: &str) -> FileFault {
    match code.finish_checked(name) {
        Err(error @ CodeError::Built { .. }) => {
            assert!(error.to_string().starts_with("code as built: "), "{error}");
            let CodeError::Built { fault } = error else { unreachable!("matched above") };
            fault
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_code_that_is_right_is_the_code_of_its_file() {
    let mut ordered = pair();
    ordered.user_order([(0, 1), (0, 0)]);
    let mut free = CodeBuilder::ragged(&[2, 1, 1, 2]);
    free.parity_cell((0, 3));
    free.parity_cell((0, 2));
    free.equation([((0, 2), Gf(3)), ((0, 3), Gf(5)), ((0, 0), Gf(1)), ((1, 3), Gf(9))]);
    free.equation([((0, 2), Gf(7)), ((0, 3), Gf(5)), ((1, 0), Gf(2)), ((0, 1), Gf(4)), ((0, 1), Gf(1))]);
    for (code, tolerance, mds) in [(pair(), 2, true), (ordered, 2, true), (free, 1, true)] {
        let code = code.finish_checked("by-hand").unwrap();
        assert_eq!(code.claim(), Claim { tolerance, mds });
        assert_eq!((code.family(), code.purpose()), ("custom", &Purpose::Storage));
        assert!(code.spec().starts_with("custom:by-hand-"), "{code}");
        let text = code.definition().expect("a code of a user has a definition");
        let read = Code::from_text(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!((&read, read.claim(), read.definition()), (&code, code.claim(), code.definition()));
        assert_eq!(code.generator().rows(), 2);
    }
}

#[test]
fn roles_of_columns_and_the_purpose_are_kept() {
    let mut code = pair();
    code.add_on(3, 1);
    code.study_only("it is a test");
    let code = code.finish_checked("pair").unwrap();
    assert_eq!(code.role(3), ColumnRole::AddOn { of: 1 });
    assert_eq!(code.purpose(), &Purpose::Study("it is a test"));
}

#[test]
fn equations_that_do_not_determine_the_parities_are_refused() {
    // One parity more than equations, one equation more than parities, and two equal equations.
    let mut few = pair();
    few.parity_cell((0, 1));
    assert_eq!(fault(few, "few"), FileFault::NotSystematic { parity: 3, rank: 2, equations: 2 });
    let mut many = pair();
    many.equation([((0, 0), Gf(1)), ((0, 1), Gf(1))]);
    assert_eq!(fault(many, "many"), FileFault::NotSystematic { parity: 2, rank: 2, equations: 3 });
    let mut one = CodeBuilder::uniform(3, 1);
    one.parity_cell((0, 1));
    one.parity_cell((0, 2));
    one.equation([((0, 1), Gf(1)), ((0, 2), Gf(1)), ((0, 0), Gf(1))]);
    one.equation([((0, 1), Gf(2)), ((0, 2), Gf(2)), ((0, 0), Gf(3))]);
    assert_eq!(fault(one, "one"), FileFault::NotSystematic { parity: 2, rank: 1, equations: 2 });
    // An equation without terms.
    let mut empty = CodeBuilder::uniform(2, 1);
    empty.define((0, 1), [((0, 1), Gf(1))]);
    assert_eq!(fault(empty, "empty"), FileFault::NotSystematic { parity: 1, rank: 0, equations: 1 });
}

#[test]
fn a_claim_is_what_was_proven() {
    // Two copies of one sum: two of four columns are redundant, but not every two can be lost.
    let mut code = CodeBuilder::uniform(4, 1);
    code.define_xor((0, 2), [(0, 0), (0, 1)]);
    code.define_xor((0, 3), [(0, 0), (0, 1)]);
    let code = code.finish_checked("twice").unwrap();
    assert_eq!(code.claim(), Claim { tolerance: 1, mds: false });
}

#[test]
fn cells_outside_the_shape_are_refused() {
    let most = 1 << 24;
    for far in [1, 1usize << 32, usize::MAX] {
        let outside = FileFault::NoSuchCell { row: far, column: 0 };
        let mut code = pair();
        code.equation([((0, 0), Gf(1)), ((far, 0), Gf(1))]);
        assert_eq!(fault(code, "far"), outside);
        let mut code = CodeBuilder::uniform(4, 1);
        code.define_xor((far, 0), [(0, 1)]);
        assert_eq!(fault(code, "far"), outside);
        let mut code = pair();
        code.user_order([(0, 0), (far, 0)]);
        assert_eq!(fault(code, "far"), outside);
        let mut code = pair();
        code.equation([((0, far.saturating_add(3)), Gf(1))]);
        assert!(matches!(fault(code, "far"), FileFault::NoSuchCell { row: 0, .. }));
    }
    for (column, of) in [(1, 77), (77, 1), (1, 1), (usize::MAX, 0)] {
        let mut code = pair();
        code.add_on(column, of);
        assert_eq!(fault(code, "add-on"), FileFault::NoSuchAddOn { column, of, columns: 4 });
    }
    let cells = |given| FileFault::TooLarge { what: "the number of cells", given, most };
    assert_eq!(fault(CodeBuilder::ragged(&[(1 << 32) + 1, 1]), "wide"), cells((1 << 32) + 2));
    assert_eq!(fault(CodeBuilder::ragged(&[usize::MAX, 2]), "wide"), cells(usize::MAX));
    let columns = FileFault::TooLarge { what: "the number of columns", given: usize::MAX, most };
    assert_eq!(fault(CodeBuilder::uniform(usize::MAX, 1), "wide"), columns);
}

#[test]
fn limits_and_names_are_those_of_code_files() {
    let what = "the number of columns";
    let wide = CodeBuilder::uniform(259, 1);
    assert_eq!(fault(wide, "wide"), FileFault::TooLarge { what, given: 259, most: 258 });
    let what = "the number of cells";
    let tall = CodeBuilder::uniform(2, 40_000);
    assert_eq!(fault(tall, "tall"), FileFault::TooLarge { what, given: 80_000, most: 65_536 });
    assert_eq!(fault(CodeBuilder::ragged(&[1, 0, 1]), "gap"), FileFault::EmptyColumn { column: 1 });
    assert_eq!(fault(CodeBuilder::ragged(&[]), "none"), FileFault::NoData);
    let mut parity = CodeBuilder::uniform(1, 1);
    parity.define((0, 0), []);
    assert_eq!(fault(parity, "all"), FileFault::NoData);
    let mut twice = pair();
    twice.parity_cell((0, 2));
    assert_eq!(fault(twice, "twice"), FileFault::RoleConflict { row: 0, column: 2 });
    for (order, expected) in [
        (vec![(0, 0), (0, 2)], FileFault::ParityInOrder { row: 0, column: 2 }),
        (vec![(0, 0), (0, 0)], FileFault::TwiceInOrder { row: 0, column: 0 }),
        (vec![(0, 0)], FileFault::NotInOrder { row: 0, column: 1 }),
    ] {
        let mut code = pair();
        code.user_order(order);
        assert_eq!(fault(code, "order"), expected);
    }
    for name in ["", "two words", "a\nparity [0][0]", "ä"] {
        assert!(matches!(fault(pair(), name), FileFault::Unreadable { .. }), "{name:?}");
    }
}

#[test]
fn a_family_that_does_not_fit_its_shape_is_stopped() {
    let mut code = pair();
    code.define_xor((1 << 32, 0), [(0, 0)]);
    let finish = || code.finish("far:1", "far", Claim { tolerance: 0, mds: false });
    let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(finish));
    let message = stopped.unwrap_err().downcast::<String>().expect("a message");
    assert!(message.contains("far:1: the cell [4294967296][0] lies outside"), "{message}");
}
