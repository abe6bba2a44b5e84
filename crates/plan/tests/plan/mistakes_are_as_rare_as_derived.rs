//! How often a larger error looks like a smaller one at a byte: over all errors if they are few
//! enough, otherwise over a sample.

use pantile_code::{CellIndex, Code};
use pantile_gf::Gf;
use pantile_plan::{CellSet, Explanation, Locator};

/// Returns the values of the checks if these cells have these errors.
fn syndrome(locator: &Locator, errors: &[(CellIndex, Gf)]) -> Vec<Gf> {
    let value = |cell: CellIndex| errors.iter().find(|(c, _)| *c == cell).map_or(Gf::ZERO, |(_, x)| *x);
    locator.checks().iter().map(|check| check.iter().map(|&(cell, c)| c * value(cell)).sum()).collect()
}

/// Returns all sets of `size` out of `n` columns.
fn sets(n: usize, size: usize) -> Vec<Vec<usize>> {
    let all = (0u32..1 << n).filter(|set| set.count_ones() as usize == size);
    all.map(|set| (0..n).filter(|i| set >> i & 1 == 1).collect()).collect()
}

/// Counts the errors of exactly `wrong` columns: those that one column explains, and all. The error
/// of the first column is fixed, since all others are multiples.
fn count_mistakes(spec: &str, wrong: usize) -> (u64, u64) {
    let code = Code::parse(spec).unwrap();
    let locator = Locator::new(&code, code.claim().tolerance, &CellSet::empty(&code)).unwrap();
    let (mut mistakes, mut all) = (0, 0);
    for columns in sets(code.columns(), wrong) {
        let cells: Vec<CellIndex> = columns.iter().map(|&c| code.column_cells(c).next().unwrap()).collect();
        let mut values = vec![1u8; wrong];
        loop {
            let errors: Vec<(CellIndex, Gf)> =
                cells.iter().copied().zip(values.iter().map(|&v| Gf(v))).collect();
            all += 1;
            if let Explanation::Located { columns: found, certain: true } =
                locator.explain(&syndrome(&locator, &errors))
            {
                assert_eq!(found.len(), 1);
                mistakes += 1;
            }
            let Some(next) = (1..wrong).find(|&i| values[i] < 255) else { break };
            values[1..next].fill(1);
            values[next] += 1;
        }
    }
    (mistakes, all)
}

#[test]
fn every_pair_of_wrong_bytes_of_two_parities_looks_like_one_column_exactly_four_times_in_255() {
    for spec in ["rs:4+2", "raid6:4", "cauchy:4+2"] {
        let (mistakes, all) = count_mistakes(spec, 2);
        assert_eq!(all, 15 * 255, "{spec}");
        // Of six columns four are not among the two wrong ones: 4 * 255^-1 of all errors.
        assert_eq!(mistakes * 255, 4 * all, "{spec}: {mistakes} of {all}");
    }
    // Of n columns n - 2 are not among the two wrong ones.
    let (mistakes, all) = count_mistakes("rs:7+2", 2);
    assert_eq!(mistakes * 255, 7 * all);
}

#[test]
fn with_three_parities_no_pair_looks_like_one_column_and_triples_do_as_derived() {
    assert_eq!(count_mistakes("rs:4+3", 2).0, 0);
    let (mistakes, all) = count_mistakes("rs:2+3", 3);
    assert_eq!(all, 10 * 255 * 255);
    // Two columns are not among the three wrong ones, and there are two redundant equations.
    assert_eq!(mistakes * 255 * 255, 2 * all, "{mistakes} of {all}");
}

#[test]
fn the_evidence_of_a_stretch_is_what_the_derivation_says() {
    let bits = |spec: &str, erased: &[usize], columns: usize, bytes: usize| {
        let code = Code::parse(spec).unwrap();
        let erased = CellSet::of_columns(&code, erased);
        Locator::new(&code, code.claim().tolerance, &erased).unwrap().evidence_bits(columns, bytes)
    };
    // log2(6 * 255^-b), rounded: 5 bytes are not enough for 40 bits, 6 are.
    assert_eq!(
        (bits("rs:4+2", &[], 1, 1), bits("rs:4+2", &[], 1, 5), bits("rs:4+2", &[], 1, 6)),
        (5, 37, 45)
    );
    // Two redundant equations per byte.
    assert_eq!((bits("rs:4+3", &[], 1, 2), bits("rs:4+3", &[], 1, 3)), (29, 45));
    // A lost column uses up one of them.
    assert_eq!(bits("rs:4+3", &[0], 1, 5), bits("rs:4+2", &[], 1, 5));
    // With four parities, two located columns leave two redundant equations; there are 28 pairs of
    // columns.
    assert_eq!(bits("rs:4+4", &[], 2, 1), 11);
    // Beyond the number of columns that are found with certainty no number of bytes proves
    // anything.
    for (spec, erased, columns) in [("raid5:4", vec![], 1), ("rs:4+2", vec![1], 1), ("rs:4+3", vec![], 2)] {
        assert_eq!(bits(spec, &erased, columns, 1 << 20), 0, "{spec}");
    }
}

/// The bound also holds for codes of many rows and few terms, where a wrong column may have only
/// one wrong cell.
#[test]
fn drawn_errors_of_sparse_codes_are_mistaken_no_more_often_than_derived() {
    let mut state = 11u64;
    let mut below = |n: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % n
    };
    for spec in ["dcode:5", "dcode:7", "shec:6,4,3", "rdp:4", "lrc:6,2,2", "xcode:5"] {
        let code = Code::parse(spec).unwrap();
        let locator = Locator::new(&code, code.claim().tolerance, &CellSet::empty(&code)).unwrap();
        let (draws, least) = (4000u64, code.claim().tolerance);
        for wrong in least..=least + 1 {
            let mut mistakes = 0;
            for _ in 0..draws {
                let mut columns: Vec<usize> = (0..code.columns()).collect();
                (0..wrong).for_each(|i| columns.swap(i, i + below((code.columns() - i) as u64) as usize));
                columns.truncate(wrong);
                let errors: Vec<(CellIndex, Gf)> = columns
                    .iter()
                    .map(|&column| {
                        let cells: Vec<CellIndex> = code.column_cells(column).collect();
                        (cells[below(cells.len() as u64) as usize], Gf(1 + below(255) as u8))
                    })
                    .collect();
                mistakes += u64::from(matches!(
                    locator.explain(&syndrome(&locator, &errors)),
                    Explanation::Located { columns: found, certain: true }
                        if !columns.iter().all(|column| found.contains(column))
                ));
            }
            // C(n, e) * 255^-(s - e), plus a margin for the random deviation of the draws.
            let mut bound = 0.0;
            for size in 1..=locator.errors_certain() {
                let sets: f64 = (0..size).map(|i| (code.columns() - i) as f64 / (i + 1) as f64).product();
                bound += sets * 255f64.powi(-((code.claim().tolerance - size) as i32));
            }
            let expected = bound * draws as f64;
            let most = expected + 6.0 * expected.sqrt() + 3.0;
            assert!(
                (mistakes as f64) < most,
                "{spec}, {wrong} wrong: {mistakes} of {draws}, {expected} derived"
            );
        }
    }
}
