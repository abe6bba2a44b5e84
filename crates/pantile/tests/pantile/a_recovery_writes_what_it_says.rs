//! A recovery writes true content to the cells that it names, and to no other.

use crate::common::*;
use pantile::{CellIndex, CellSet, Codec, Costs, Recovery};

const LEN: usize = 80;

/// Runs it on a stripe in which only the cells that the plan reads are true.
fn run(codec: &Codec, recovery: &Recovery, wanted: &[CellIndex], what: &str) {
    let whole = painted(codec, LEN, 3);
    let reads = CellSet::of_cells(codec.code(), &recovery.plan().reads);
    let mut cells = whole.clone();
    for cell in codec.code().cells().filter(|&cell| !reads.contains(cell)) {
        cells[cell.usize()].iter_mut().enumerate().for_each(|(i, byte)| *byte = (i * 7 + 99) as u8);
    }
    let before = cells.clone();
    recovery.run(&mut views(&mut cells)).unwrap();
    let written = recovery.written();
    assert!(written.is_sorted(), "{what}: {written:?}");
    for cell in codec.code().cells() {
        let expected = if written.contains(&cell) { &whole } else { &before };
        assert!(cells[cell.usize()] == expected[cell.usize()], "{what}: cell {} of {written:?}", cell.0);
    }
    for cell in wanted {
        assert!(reads.contains(*cell) || written.contains(cell), "{what}: cell {} is not had", cell.0);
    }
}

#[test]
fn a_cell_that_survives_may_be_computed_rather_than_read() {
    // Column 1 survives at a high cost; the wanted cells of column 2 are computed through it.
    let codec = Codec::parse("raidq:1+4").unwrap();
    let mut costs = Costs::uniform();
    costs.set(1, 0);
    costs.set(2, 4);
    let lost = CellSet::of_cells(codec.code(), &[CellIndex(6)]);
    let wanted = [CellIndex(5), CellIndex(0)];
    let recovery = codec.recovery(&lost, &wanted, &costs).unwrap();
    assert!(recovery.written().contains(&CellIndex(1)), "{:?}", recovery.written());
    run(&codec, &recovery, &wanted, "raidq:1+4");
}

#[test]
fn every_recovery_writes_what_it_says() {
    let mut random = Random(5);
    for code in all_codes(20) {
        let codec = Codec::new(&code);
        for _ in 0..6 {
            let mut costs = Costs::uniform();
            (0..code.columns()).for_each(|column| costs.set(column, random.below(5) as u32));
            let cell = |random: &mut Random| CellIndex(random.below(code.cell_count()) as u32);
            let lost = CellSet::of_cells(&code, &[cell(&mut random), cell(&mut random)]);
            let mut wanted = vec![cell(&mut random), cell(&mut random), cell(&mut random)];
            wanted.sort_unstable();
            wanted.dedup();
            for costs in [costs, Costs::uniform()] {
                let Ok(recovery) = codec.recovery(&lost, &wanted, &costs) else { continue };
                run(&codec, &recovery, &wanted, &format!("{code}: {lost:?} {wanted:?} {costs:?}"));
                let again = codec.compiled(recovery.plan().clone());
                run(&codec, &again, &wanted, &format!("{code}: the plan for {lost:?} {wanted:?} {costs:?}"));
            }
        }
        let column = random.below(code.columns());
        if let Ok(recovery) = codec.decoder(&[column]) {
            let all: Vec<CellIndex> = code.column_cells(column).collect();
            assert_eq!(recovery.written(), all, "{code}");
            run(&codec, &recovery, &all, &format!("{code}: column {column}"));
        }
    }
}
