//! Requests with a cell, a column or a byte out of range fail with an error that names it, and
//! change no buffer.

use crate::common::{painted, views};
use pantile::plan::{Planner, Request};
use pantile::{
    CellIndex, CellSet, Codec, Costs, Effort, Finding, PlanError, RecoverError, StripeError, Verdict,
    split_columns,
};

/// Codes of one row and of several, whose decoders solve a system, use single equations, or use
/// Horner's rule.
const SPECS: [&str; 6] = ["rs:4+2", "raid6:4", "lrc:12,2,2", "dcode:7", "raidq:12+4", "raidp:5"];

const LEN: usize = 96;

fn stripe(codec: &Codec) -> Vec<Vec<u8>> {
    painted(codec, LEN, 1)
}

#[test]
fn columns_that_are_not_there_are_not_recovered() {
    for spec in SPECS {
        let codec = Codec::parse(spec).unwrap();
        let columns = codec.code().columns();
        let before = stripe(&codec);
        for lost in [vec![columns], vec![0, columns], vec![usize::MAX, 0]] {
            let column = lost.iter().copied().max().unwrap();
            let error = PlanError::NoSuchColumn { column, columns };
            let mut cells = before.clone();
            assert_eq!(
                codec.reconstruct(&mut views(&mut cells), &lost),
                Err(RecoverError::Plan(error.clone()))
            );
            assert!(cells == before, "{spec}: written all the same");
            assert_eq!(codec.decoder(&lost).unwrap_err(), error);
            assert!(error.to_string().contains(&format!("{columns} columns")), "{error}");
        }
    }
}

#[test]
fn cells_of_another_code_are_not_recovered() {
    for spec in SPECS {
        let codec = Codec::parse(spec).unwrap();
        let code = codec.code();
        let cells = code.cell_count();
        let uniform = Costs::uniform();
        for other in ["rs:3+2", "dcode:11"] {
            let other = Codec::parse(other).unwrap();
            let foreign = CellSet::of_columns(other.code(), &[0, other.code().columns() - 1]);
            let refused = PlanError::OtherCode { have: other.code().cell_count(), need: cells };
            let wanted = [CellIndex(0)];
            let planner: &Planner = codec.planner();
            let request = Request { lost: &foreign, wanted: &wanted, costs: &uniform, effort: Effort::Fast };
            assert_eq!(codec.recovery(&foreign, &wanted, &uniform).unwrap_err(), refused, "{spec}");
            let all: Vec<CellIndex> = foreign.iter().collect();
            assert_eq!(codec.recovery(&foreign, &all, &uniform).unwrap_err(), refused, "{spec}");
            assert_eq!(planner.way_out(&request).unwrap_err(), refused, "{spec}");
            assert_eq!(planner.update(&[code.data()[0]], &foreign, &uniform).unwrap_err(), refused, "{spec}");
            assert_eq!(codec.checker(&foreign).unwrap_err(), refused, "{spec}");
        }
        let lost = CellSet::of_columns(code, &[0]);
        let outside = CellIndex(cells as u32);
        let refused = PlanError::NoSuchCell { cell: cells, cells };
        assert_eq!(codec.recovery(&lost, &[outside], &uniform).unwrap_err(), refused, "{spec}");
        assert_eq!(codec.planner().update(&[outside], &lost, &uniform).unwrap_err(), refused, "{spec}");
        let parity = code.parity()[0];
        let refused = PlanError::ParityWritten { cell: parity.usize() };
        assert_eq!(codec.planner().update(&[parity], &lost, &uniform).unwrap_err(), refused, "{spec}");
        for twice in lost.iter().chain([code.data()[1]]) {
            let refused = PlanError::WantedTwice { cell: twice.usize() };
            assert_eq!(codec.recovery(&lost, &[twice, twice], &uniform).unwrap_err(), refused, "{spec}");
        }
        assert!(!lost.contains(outside) && !lost.contains(CellIndex(u32::MAX)));
        let mut same = lost.clone();
        same.remove(CellIndex(u32::MAX));
        assert_eq!(same, lost);
    }
}

#[test]
fn a_recovery_takes_stripes_of_its_own_code_alone() {
    let (codec, other) = (Codec::parse("rs:4+2").unwrap(), Codec::parse("rs:5+2").unwrap());
    let before = stripe(&other);
    let mut cells = before.clone();
    let run = codec.decoder(&[0]).unwrap().run(&mut views(&mut cells));
    assert_eq!(run, Err(StripeError::CellCount { have: 7, need: 6 }));
    assert!(cells == before);
}

#[test]
fn ranges_outside_a_stripe_are_not_written() {
    for spec in SPECS {
        let codec = Codec::parse(spec).unwrap();
        let data = codec.code().data().len();
        let before = stripe(&codec);
        let mut cells = before.clone();
        for position in [data, usize::MAX] {
            let update = codec.update(&mut views(&mut cells), position, &[0; LEN]);
            assert_eq!(update, Err(StripeError::NoSuchPosition { position, data }), "{spec}");
        }
        let checker = codec.checker(&CellSet::empty(codec.code())).unwrap();
        let verdict = |column| Verdict::Located { columns: vec![column], evidence_bits: 79, certain: true };
        let located = |range| Finding { range, verdict: verdict(0) };
        let correct = |cells: &mut Vec<Vec<u8>>, findings: &[Finding]| {
            checker.correct(&mut views(cells), findings, |_| true)
        };
        // The first finding is of this stripe, the second is not: the first must not be corrected
        // before the second is checked.
        cells[0][5] ^= 1;
        let changed = cells.clone();
        for end in [LEN + 1, usize::MAX] {
            let refused = Err(StripeError::FindingOutside { end, len: LEN });
            assert_eq!(correct(&mut cells, &[located(5..6), located(90..end)]), refused, "{spec}");
            assert!(cells == changed, "{spec}");
        }
        let backwards = Finding { range: std::ops::Range { start: 9, end: 3 }, ..located(0..0) };
        assert_eq!(correct(&mut cells, &[backwards]), Ok(0), "{spec}");
        let nowhere = Finding { range: 0..9, verdict: verdict(usize::MAX) };
        correct(&mut cells, &[nowhere]).unwrap();
        assert!(cells == changed, "{spec}");
        assert_eq!(correct(&mut cells, &[located(5..6)]), Ok(1), "{spec}");
        assert!(cells == before, "{spec}");
    }
}

#[test]
fn costs_of_columns_that_no_code_has_are_costs() {
    let mut costs = Costs::uniform();
    costs.set(usize::MAX, 9);
    costs.set(3, 1);
    assert_eq!((costs.of(usize::MAX), costs.of(3), costs.of(2)), (9, 1, 1));
    costs.set(usize::MAX, 1);
    assert_eq!(costs, Costs::uniform());
}

#[test]
fn columns_that_are_no_stripe_are_not_split() {
    let codec = Codec::parse("dcode:5").unwrap();
    let code = codec.code();
    let mut four = [[0u8; 40]; 4];
    let mut views: Vec<&mut [u8]> = four.iter_mut().map(|column| &mut column[..]).collect();
    let error = split_columns(code, &mut views, 8).unwrap_err();
    assert_eq!(error, StripeError::ColumnCount { have: 4, need: 5 });
    assert!(error.to_string().contains("5 columns"), "{error}");
    let mut five = [[0u8; 40]; 5];
    let mut views: Vec<&mut [u8]> = five.iter_mut().map(|column| &mut column[..]).collect();
    for element_len in [7, 9, usize::MAX, 1 << 63] {
        let error = split_columns(code, &mut views, element_len).unwrap_err();
        assert!(matches!(error, StripeError::ColumnLength { column: 0, have: 40, .. }), "{error}");
    }
    assert_eq!(split_columns(code, &mut views, 8).unwrap().len(), code.cell_count());
}

#[test]
fn a_new_content_of_another_length_is_named_as_what_it_is() {
    let codec = Codec::parse("rs:4+2").unwrap();
    let before = stripe(&codec);
    let mut cells = before.clone();
    let error = codec.update(&mut views(&mut cells), 0, &[7; LEN - 1]).unwrap_err();
    assert_eq!(error, StripeError::NewLength { have: LEN - 1, need: LEN });
    assert_eq!(
        error.to_string(),
        "the new content has 95 bytes, but the cells have 96; give as many bytes as a cell has"
    );
    assert!(cells == before);
}

#[test]
fn columns_cut_wrongly_are_told_how_long_to_be() {
    let codec = Codec::parse("dcode:5").unwrap();
    let mut five = [[0u8; 40]; 5];
    let mut views: Vec<&mut [u8]> = five.iter_mut().map(|column| &mut column[..]).collect();
    let error = split_columns(codec.code(), &mut views, 9).unwrap_err();
    assert_eq!(
        error.to_string(),
        "column 0 has 40 bytes, but its rows need 45; pass its rows x the length of an element"
    );
}

#[test]
fn a_loss_too_large_says_what_is_lost_and_what_the_code_survives() {
    for (spec, lost, text, claim) in [
        (
            "rs:4+2",
            vec![0, 2, 5],
            "columns 0, 2 and 5 have lost cells (3 in all), and the equations left determine 2",
            "any 2 columns",
        ),
        ("dcode:7", vec![1, 3, 4], "columns 1, 3 and 4 have lost cells (21 in all), and", "any 2 columns"),
        ("raid5:3", vec![0, 1], "columns 0 and 1 have lost cells (2 in all), and", "any 1 column"),
        ("raid0:3", vec![1], "column 1 has lost cells (1 in all), and", "not any one column"),
        (
            "raid0:20",
            (0..20).collect(),
            "columns 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 8 more have lost",
            "not any one column",
        ),
        // The message does not count cells as lost that are not read but follow from cells that
        // are.
        (
            "lrc:12,2,2",
            vec![0, 1, 2, 3],
            "columns 0, 1, 2 and 3 have lost cells (4 in all), and the equations left determine 3",
            "any 3 columns",
        ),
    ] {
        let codec = Codec::parse(spec).unwrap();
        let cells = CellSet::of_columns(codec.code(), &lost);
        let of = |wanted: Vec<CellIndex>| codec.recovery(&cells, &wanted, &Costs::uniform()).unwrap_err();
        let errors = [
            of(cells.iter().collect()),
            of(codec.code().cells().collect()),
            codec.decoder(&lost).unwrap_err(),
        ];
        for error in errors {
            let told = error.to_string();
            assert!(
                told.contains(text) && told.contains(&format!("; {claim} of this code")),
                "{spec}: {told}"
            );
            let PlanError::NotRecoverable(error) = error else { panic!("{spec}: {told}") };
            assert_eq!((error.columns, error.tolerance), (lost.clone(), codec.code().claim().tolerance));
        }
    }
}
