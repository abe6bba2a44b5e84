//! Location and repair of silent corruption, per byte range.

use crate::common::*;
use pantile::{CellSet, Codec, Finding, Verdict};

const LEN: usize = 700;

/// The number of wrong bytes that is enough evidence for one column, in any code with two or more
/// checks.
const LEAST_BYTES: usize = 6;

/// Changes every byte of a range in every cell of a column, each by a non-zero value.
fn corrupt(
    codec: &Codec,
    cells: &mut [Vec<u8>],
    column: usize,
    range: std::ops::Range<usize>,
    random: &mut Random,
) {
    for cell in codec.code().column_cells(column) {
        for at in range.clone() {
            cells[cell.usize()][at] ^= random.between(1, 255) as u8;
        }
    }
}

/// Returns the finding on a range that columns explain for certain.
fn located(range: std::ops::Range<usize>, columns: Vec<usize>) -> Finding {
    Finding { range, verdict: Verdict::Located { columns, evidence_bits: 79, certain: true } }
}

/// Returns the columns of the finding that contains an offset, if it is certain.
fn columns_at(findings: &[Finding], at: usize) -> Option<Vec<usize>> {
    let finding = findings.iter().find(|f| f.range.contains(&at))?;
    match &finding.verdict {
        Verdict::Located { columns, certain: true, .. } => Some(columns.clone()),
        _ => None,
    }
}

/// Corrupts `wrong` with `gone` erased, and expects exactly `wrong` to be located and repaired.
fn expect_located(codec: &Codec, whole: &[Vec<u8>], wrong: &[usize], gone: &[usize], random: &mut Random) {
    let erased = CellSet::of_columns(codec.code(), gone);
    let mut cells = whole.to_vec();
    erased.iter().for_each(|c| cells[c.usize()].fill(0xdb));
    let start = random.below(LEN - 100);
    let range = start..start + random.between(LEAST_BYTES, 100);
    for &column in wrong {
        corrupt(codec, &mut cells, column, range.clone(), random);
    }
    let checker = codec.checker(&erased).unwrap();
    let findings = checker.locate(&shared(&cells)).unwrap();
    let what = || format!("{}: wrong {wrong:?}, erased {gone:?}: {findings:?}", codec.code());
    assert_eq!(findings.first().map(|f| f.range.start), Some(range.start), "{}", what());
    assert_eq!(findings.last().map(|f| f.range.end), Some(range.end), "{}", what());
    let mut named: Vec<usize> = Vec::new();
    for finding in &findings {
        match &finding.verdict {
            Verdict::Located { columns, certain: true, .. } => named.extend(columns),
            _ => panic!("{}", what()),
        }
    }
    named.sort_unstable();
    named.dedup();
    assert_eq!(named, wrong, "{}", what());
    let corrected = checker.correct(&mut views(&mut cells), &findings, |_| true).unwrap();
    assert_eq!(corrected, findings.iter().map(|f| f.range.len()).sum::<usize>());
    codec.reconstruct(&mut views(&mut cells), gone).unwrap();
    assert!(cells == whole, "{}: not repaired", what());
}

#[test]
fn wrong_and_lost_columns_within_the_distance_are_named_and_repaired() {
    for code in all_codes(120) {
        let codec = Codec::new(&code);
        let tolerance = code.claim().tolerance;
        if tolerance < 2 || code.columns() > 12 {
            continue;
        }
        let whole = painted(&codec, LEN, 21);
        let mut random = Random(code.fingerprint());
        for errors in 1..=tolerance / 2 {
            for losses in 0..=tolerance - 2 * errors {
                let mut sets = subsets(code.columns(), errors + losses);
                while sets.len() > 60 {
                    sets.swap_remove(random.below(sets.len()));
                }
                for set in sets {
                    let wrong: Vec<usize> = set.iter().copied().skip(losses).collect();
                    let gone: Vec<usize> = set.iter().copied().take(losses).collect();
                    expect_located(&codec, &whole, &wrong, &gone, &mut random);
                    let (gone, wrong): (Vec<usize>, Vec<usize>) = (
                        set.iter().copied().skip(errors).collect(),
                        set.iter().copied().take(errors).collect(),
                    );
                    expect_located(&codec, &whole, &wrong, &gone, &mut random);
                }
            }
        }
    }
}

#[test]
fn raidq_with_four_parities_finds_every_pair_of_liars() {
    for spec in ["raidq:16+4", "raidq:16+4,x125", "raidq:9+4,cbrt"] {
        let codec = Codec::parse(spec).unwrap();
        let whole = painted(&codec, LEN, 4);
        let mut random = Random(99);
        for wrong in subsets(codec.code().columns(), 2) {
            expect_located(&codec, &whole, &wrong, &[], &mut random);
        }
    }
}

#[test]
fn different_columns_at_different_offsets_are_told_apart() {
    let codec = Codec::parse("raid6:6").unwrap();
    let whole = painted(&codec, 100_000, 2);
    let mut cells = whole.clone();
    let mut random = Random(5);
    let lies = [(0, 10..16), (3, 500..612), (7, 40_000..90_000), (1, 99_990..100_000)];
    for (column, range) in lies.clone() {
        corrupt(&codec, &mut cells, column, range, &mut random);
    }
    let checker = codec.checker(&CellSet::empty(codec.code())).unwrap();
    let findings = checker.locate(&shared(&cells)).unwrap();
    for (column, range) in lies {
        assert_eq!(columns_at(&findings, range.start), Some(vec![column]), "{findings:?}");
        assert_eq!(columns_at(&findings, range.end - 1), Some(vec![column]), "{findings:?}");
    }
    assert_eq!(findings.len(), 4, "{findings:?}");
    checker.correct(&mut views(&mut cells), &findings, |f| f.range.start != 10).unwrap();
    assert!(cells[0] != whole[0], "a finding that was not accepted is left alone");
    assert!(cells[1..] == whole[1..]);
}

#[test]
fn stripes_written_after_the_search_are_not_corrected() {
    // Lengths below and above that of a tile. The second error is at the end, so a correction that
    // writes tile by tile would already have written.
    for (spec, len) in [("rs:4+2", LEN), ("dcode:7", LEN), ("rs:6+4", 70_000)] {
        let codec = Codec::parse(spec).unwrap();
        let checker = codec.checker(&CellSet::empty(codec.code())).unwrap();
        let mut random = Random(17);
        let mut cells = painted(&codec, len, 1);
        corrupt(&codec, &mut cells, 1, 0..len, &mut random);
        let findings = checker.locate(&shared(&cells)).unwrap();
        assert_eq!(findings.len(), 1, "{spec}: {findings:?}");
        // Meanwhile another stripe has replaced it, in which another column is wrong at one byte.
        let mut other = painted(&codec, len, 2);
        other[0][len - 1] ^= 0x55;
        let before = other.clone();
        assert_eq!(checker.correct(&mut views(&mut other), &findings, |_| true), Ok(0), "{spec}");
        assert!(other == before, "{spec}: an intact column was changed");
        // The original stripe is still corrected.
        assert_eq!(checker.correct(&mut views(&mut cells), &findings, |_| true), Ok(len), "{spec}");
        assert!(cells == painted(&codec, len, 1), "{spec}");
    }
}

#[test]
fn only_what_was_corrected_is_counted() {
    let codec = Codec::parse("rs:4+2").unwrap();
    let checker = codec.checker(&CellSet::empty(codec.code())).unwrap();
    let whole = painted(&codec, LEN, 1);
    let finding = |columns| located(5..15, columns);
    let mut cells = whole.clone();
    // No such column, no column, and a column without an error.
    for columns in [vec![77], vec![], vec![2], vec![2, 77]] {
        let corrected = checker.correct(&mut views(&mut cells), &[finding(columns.clone())], |_| true);
        assert_eq!(corrected, Ok(0), "{columns:?}");
        assert!(cells == whole, "{columns:?}");
    }
    cells[2][9] ^= 1;
    assert_eq!(checker.correct(&mut views(&mut cells), &[finding(vec![77])], |_| true), Ok(0));
    assert_eq!(checker.correct(&mut views(&mut cells), &[finding(vec![2])], |_| true), Ok(10));
    assert!(cells == whole);
}

#[test]
fn one_parity_sees_a_lie_and_cannot_name_it() {
    let codec = Codec::parse("raid5:4").unwrap();
    let mut cells = painted(&codec, LEN, 1);
    cells[2][300] ^= 1;
    let before = cells.clone();
    let checker = codec.checker(&CellSet::empty(codec.code())).unwrap();
    let findings = checker.locate(&shared(&cells)).unwrap();
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].range, 300..301);
    assert!(matches!(findings[0].verdict, Verdict::Ambiguous { .. }), "{findings:?}");
    assert_eq!(checker.correct(&mut views(&mut cells), &findings, |_| true).unwrap(), 0);
    assert!(cells == before, "nothing is repaired by guess");
}

#[test]
fn one_lie_too_many_is_seen_and_never_repaired_with_certainty_at_odd_tolerance() {
    // With three parities two wrong columns are detected but cannot be located: no third column
    // explains them.
    let codec = Codec::parse("rs:6+3").unwrap();
    let whole = painted(&codec, LEN, 8);
    let mut random = Random(3);
    for wrong in subsets(9, 2) {
        let mut cells = whole.clone();
        wrong.iter().for_each(|&c| corrupt(&codec, &mut cells, c, 100..400, &mut random));
        let findings = codec.checker(&CellSet::empty(codec.code())).unwrap().locate(&shared(&cells)).unwrap();
        assert_eq!((findings[0].range.start, findings[findings.len() - 1].range.end), (100, 400));
        for finding in &findings {
            assert_eq!(finding.verdict, Verdict::Unlocatable, "{wrong:?}: {findings:?}");
        }
    }
}

#[test]
fn with_every_check_used_up_by_losses_nothing_is_found() {
    let codec = Codec::parse("raid6:4").unwrap();
    let mut cells = painted(&codec, LEN, 8);
    cells[3][5] ^= 7;
    let erased = CellSet::of_columns(codec.code(), &[0, 1]);
    let checker = codec.checker(&erased).unwrap();
    assert!(checker.locator().checks().is_empty());
    assert_eq!(checker.first_fault(&shared(&cells)).unwrap(), None);
    assert!(checker.locate(&shared(&cells)).unwrap().is_empty());
}
