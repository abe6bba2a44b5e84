//! Claim: a decoder of a bit matrix recovers every set of columns that can be lost, from the cells
//! that its plan reads alone.

use crate::common::*;
use pantile::{CellSet, Codec};

#[test]
fn decoders_give_the_encoded_data() {
    for spec in [
        "crs:3+3,w=3",
        "crs:4+2,w=3,orig",
        "crs:3+3,w=3,orig",
        "crs:6+3,w=4",
        "crs:4+4,w=4,orig",
        "crs:8+2,w=4",
        "crs:4+3,w=5",
        "crs:3+2,orig",
        "crs:4+3",
    ] {
        let codec = Codec::parse(spec).unwrap();
        let code = codec.code();
        let whole = painted(&codec, 64, 11);
        let packets = codec.in_packets(64).unwrap();
        for set in 1u32..1 << code.columns() {
            let lost: Vec<usize> = (0..code.columns()).filter(|column| set >> column & 1 == 1).collect();
            if lost.len() > code.claim().tolerance {
                continue;
            }
            let decoder = codec.decoder(&lost).unwrap();
            let in_packets = packets.decoder(&lost).unwrap();
            let cells_lost = CellSet::of_columns(code, &lost);
            let plan = decoder.plan();
            assert!(plan.reads.iter().all(|&cell| !cells_lost.contains(cell)), "{spec} {lost:?}");
            assert_eq!(plan, in_packets.plan());
            assert!(decoder.written().into_iter().eq(cells_lost.iter()), "{spec} {lost:?}");
            // Only cells that the plan reads have their content.
            let mut cells = vec![vec![0xc3; 64]; code.cell_count()];
            plan.reads.iter().for_each(|cell| cells[cell.usize()].clone_from(&whole[cell.usize()]));
            let mut columns: Vec<Vec<u8>> = (0..code.columns())
                .map(|column| {
                    code.column_cells(column).flat_map(|cell| cells[cell.usize()].clone()).collect()
                })
                .collect();
            decoder.run(&mut views(&mut cells)).unwrap();
            in_packets.run(&mut views(&mut columns)).unwrap();
            for &column in &lost {
                let true_column: Vec<u8> =
                    code.column_cells(column).flat_map(|cell| whole[cell.usize()].clone()).collect();
                assert!(columns[column] == true_column, "{spec} {lost:?}: column {column} in packets");
            }
            for cell in cells_lost.iter() {
                assert!(cells[cell.usize()] == whole[cell.usize()], "{spec} {lost:?}: {cell:?}");
            }
        }
    }
}
