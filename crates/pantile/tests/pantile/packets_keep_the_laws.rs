//! Claim: the packets with the same number of all elements are a stripe of the code. This is tested
//! for encode, recovery, update and refusal, for every family and for code files with random
//! equations.

use crate::common::*;
use pantile::{CellIndex, CellSet, Code, Codec, Costs, PacketCodec, PlanError, RecoverError, StripeError};

/// Returns columns of `groups` packets, all different, encoded packet by packet.
fn encoded(codec: &PacketCodec, groups: usize) -> Vec<Vec<u8>> {
    let mut columns = empty(codec, groups);
    for group in 0..groups {
        let mut cells = painted(codec.codec(), codec.packet_bytes(), group as u64 * 31 + 7);
        let mut views: Vec<&mut [u8]> = columns.iter_mut().map(Vec::as_mut_slice).collect();
        for (to, from) in codec.cells(&mut views, group).unwrap().into_iter().zip(&mut cells) {
            to.copy_from_slice(from);
        }
    }
    columns
}

fn empty(codec: &PacketCodec, groups: usize) -> Vec<Vec<u8>> {
    let code = codec.code();
    (0..code.columns()).map(|c| vec![0xa5; code.rows(c) * codec.packet_bytes() * groups]).collect()
}

/// Returns sets of every second column, three of each size up to `most`, with different first
/// columns.
fn some_sets(code: &Code, most: usize) -> Vec<Vec<usize>> {
    let n = code.columns();
    let starts = [0, n / 3, n.saturating_sub(most)];
    (0..=most.min(n))
        .flat_map(|lost| starts.map(|start| (0..lost).map(|i| (start + i * 2) % n).collect()))
        .collect()
}

#[test]
fn every_packet_is_a_stripe() {
    let mut recovered = 0;
    for (i, code) in all_codes(60).into_iter().enumerate() {
        let bytes = [128, 64, 512, 7, 200][i % 5];
        let codec = Codec::new(&code).in_packets(bytes).unwrap();
        let groups = 1 + i % 3;
        let whole = encoded(&codec, groups);
        let mut columns = whole.clone();
        // Encodes again over damaged parity.
        for &cell in code.parity() {
            for group in 0..groups {
                codec.cells(&mut views(&mut columns), group).unwrap()[cell.usize()].fill(0x5a);
            }
        }
        codec.encode(&mut views(&mut columns)).unwrap();
        assert!(columns == whole, "{code}: encode");
        for lost in some_sets(&code, code.claim().tolerance + 1) {
            let mut columns = whole.clone();
            lost.iter().for_each(|&column| columns[column].fill(0xee));
            let before = columns.clone();
            match codec.reconstruct(&mut views(&mut columns), &lost) {
                Ok(()) => {
                    assert!(columns == whole, "{code}: {lost:?}");
                    // Repeats the recovery with compiled machine code.
                    let decoder = codec.decoder(&lost).unwrap();
                    decoder.prepare();
                    lost.iter().for_each(|&column| columns[column].fill(0xdd));
                    decoder.run(&mut views(&mut columns)).unwrap();
                    assert!(columns == whole, "{code}: {lost:?}, prepared");
                    assert_eq!(decoder.written(), codec.codec().decoder(&lost).unwrap().written());
                    recovered += 1;
                }
                Err(RecoverError::Plan(PlanError::NotRecoverable(_))) => {
                    assert!(columns == before, "{code}: {lost:?}: something was written");
                    assert!(
                        codec.codec().decoder(&lost).is_err(),
                        "{code}: {lost:?}: cells can be recovered"
                    );
                }
                Err(error) => panic!("{code}: {lost:?}: {error}"),
            }
        }
    }
    assert!(recovered > 500, "{recovered}: the sets were mostly fatal");
}

#[test]
fn single_cells_are_recovered_in_every_packet() {
    for code in all_codes(30) {
        let codec = Codec::new(&code).in_packets(128).unwrap();
        let whole = encoded(&codec, 2);
        for cell in code.cells().step_by(3) {
            let lost = CellSet::of_cells(&code, &[cell]);
            let Ok(recovery) = codec.recovery(&lost, &[cell], &Costs::uniform()) else { continue };
            let mut columns = whole.clone();
            for group in 0..2 {
                codec.cells(&mut views(&mut columns), group).unwrap()[cell.usize()].fill(0xee);
            }
            recovery.run(&mut views(&mut columns)).unwrap();
            assert!(columns == whole, "{code}: {cell:?}");
        }
    }
}

#[test]
fn an_update_is_an_encoding_of_the_new_content() {
    for (i, code) in all_codes(30).into_iter().enumerate() {
        let codec = Codec::new(&code).in_packets([128, 9, 64][i % 3]).unwrap();
        let groups = 2;
        let mut columns = encoded(&codec, groups);
        for position in [0, code.data().len() / 2, code.data().len() - 1] {
            let new: Vec<u8> =
                (0..groups * codec.packet_bytes()).map(|i| (i * 17 + position) as u8).collect();
            codec.update(&mut views(&mut columns), position, &new).unwrap();
            let cell: CellIndex = code.data()[position];
            for (group, packet) in new.chunks(codec.packet_bytes()).enumerate() {
                assert!(
                    *codec.cells(&mut views(&mut columns), group).unwrap()[cell.usize()] == *packet,
                    "{code}"
                );
            }
            let mut anew = columns.clone();
            codec.encode(&mut views(&mut anew)).unwrap();
            assert!(anew == columns, "{code}: position {position}");
        }
    }
}

#[test]
fn columns_that_are_no_stripe_are_refused_unwritten() {
    let codec = Codec::parse("dcode:5").unwrap();
    assert_eq!(codec.in_packets(0).unwrap_err(), StripeError::NoPacket);
    let codec = codec.in_packets(8).unwrap();
    let whole = vec![vec![3u8; 80]; 5];
    let short = |column: usize, len: usize| {
        let mut columns = whole.clone();
        columns[column].resize(len, 3);
        columns
    };
    let cases = [
        (whole[..4].to_vec(), StripeError::ColumnCount { have: 4, need: 5 }),
        (short(2, 79), StripeError::PacketLength { column: 2, have: 79, multiple_of: 40 }),
        (short(3, 40), StripeError::ColumnLength { column: 3, have: 40, need: 80 }),
    ];
    for (mut columns, error) in cases {
        let before = columns.clone();
        assert_eq!(codec.encode(&mut views(&mut columns)), Err(error));
        assert_eq!(codec.reconstruct(&mut views(&mut columns), &[0]), Err(RecoverError::Stripe(error)));
        assert_eq!(codec.decoder(&[0]).unwrap().run(&mut views(&mut columns)), Err(error));
        assert_eq!(codec.update(&mut views(&mut columns), 0, &[0; 16]), Err(error));
        assert_eq!(codec.cells(&mut views(&mut columns), 0).unwrap_err(), error);
        assert!(columns == before && !error.to_string().is_empty());
    }
    let mut columns = whole.clone();
    let update = codec.update(&mut views(&mut columns), 0, &[0; 15]);
    assert_eq!(update, Err(StripeError::NewLength { have: 15, need: 16 }));
    let update = codec.update(&mut views(&mut columns), 15, &[0; 16]);
    assert_eq!(update, Err(StripeError::NoSuchPosition { position: 15, data: 15 }));
    let cells = codec.cells(&mut views(&mut columns), 2).map(|_| ());
    assert_eq!(cells, Err(StripeError::NoSuchPacket { packet: 2, packets: 2 }));
    assert!(matches!(
        codec.reconstruct(&mut views(&mut columns), &[5]),
        Err(RecoverError::Plan(PlanError::NoSuchColumn { column: 5, columns: 5 }))
    ));
    assert!(columns == whole);
}
