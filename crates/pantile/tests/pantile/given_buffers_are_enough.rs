//! Claim: calls with read-only or absent buffers give the same bytes.

use crate::common::Random;
use pantile::{Buffer, BufferList, CellIndex, Code, Codec, StripeError, Use, split_columns};
use std::sync::Arc;

const SPECS: [&str; 9] = [
    "rs:6+4",
    "raid6:5",
    "dcode:7",
    "evenodd:5",
    "shec:6,4,3",
    "lrc:12,2,2",
    "raidq:8+4",
    "raidp:5",
    "lch:20+8",
];

fn stripe(codec: &Codec, len: usize) -> Vec<Vec<u8>> {
    let data: Vec<u8> = (0..codec.code().data().len() * len).map(|i| (i * 37 + i / 251) as u8).collect();
    let mut shards = codec.split(&data);
    let mut views: Vec<&mut [u8]> = shards.iter_mut().map(Vec::as_mut_slice).collect();
    split_columns(codec.code(), &mut views, len).unwrap().into_iter().map(|cell| cell.to_vec()).collect()
}

fn is_in(code: &Code, columns: &[usize], cell: usize) -> bool {
    columns.contains(&code.column_of(CellIndex(cell as u32)))
}

#[test]
fn parity_is_computed_from_data_that_must_not_be_written() {
    for spec in SPECS {
        let codec = Codec::parse(spec).unwrap();
        let cells = stripe(&codec, 70);
        let mut made: Vec<Vec<u8>> = vec![vec![0x77; 70]; cells.len()];
        let give = |(i, to): (usize, _)| match codec.code().is_parity(CellIndex(i as u32)) {
            true => Buffer::Write(to),
            false => Buffer::Read(cells[i].as_slice()),
        };
        let mut given: Vec<Buffer<'_>> =
            made.iter_mut().map(Vec::as_mut_slice).enumerate().map(give).collect();
        codec.encode_given(&mut given).unwrap();
        let parity = codec.code().parity()[0].usize();
        given[parity] = Buffer::Absent;
        assert_eq!(
            codec.encode_given(&mut given),
            Err(StripeError::CellGiven { cell: parity, is_written: true })
        );
        for parity in codec.code().parity() {
            assert!(made[parity.usize()] == cells[parity.usize()], "{spec}");
        }
    }
}

#[test]
fn some_lost_columns_come_back_and_what_survives_is_only_read() {
    let mut random = Random(7);
    let mut list = BufferList::new();
    for spec in SPECS {
        let codec = Codec::parse(spec).unwrap();
        let code = codec.code();
        let cells = stripe(&codec, 70);
        for _ in 0..60 {
            let count = 1 + random.below(code.claim().tolerance.max(1));
            let mut lost: Vec<usize> = (0..count).map(|_| random.below(code.columns())).collect();
            let wanted: Vec<usize> = lost.iter().copied().filter(|_| random.below(3) > 0).collect();
            let recovery = codec.decoder_of(&lost, &wanted).unwrap();
            lost.reverse();
            assert!(Arc::ptr_eq(&recovery, &codec.decoder_of(&lost, &wanted).unwrap()), "{spec}: made again");
            let mut made: Vec<Vec<u8>> = vec![vec![0x77; 70]; cells.len()];
            list.with(|given| {
                for (i, to) in made.iter_mut().enumerate() {
                    given.push(match recovery.use_of(CellIndex(i as u32)) {
                        Use::Unused => Buffer::Absent,
                        Use::Read => Buffer::Read(&cells[i]),
                        Use::Written => Buffer::Write(to),
                    });
                    let what = recovery.use_of(CellIndex(i as u32));
                    assert!(what != Use::Written || is_in(code, &lost, i), "{spec}: {i} survives");
                    assert!(what != Use::Read || !is_in(code, &lost, i), "{spec}: {i} is lost");
                }
                recovery.run_given(given).unwrap();
            });
            for i in (0..cells.len()).filter(|&i| is_in(code, &wanted, i)) {
                assert!(made[i] == cells[i], "{spec} {lost:?} {wanted:?}: cell {i}");
            }
        }
    }
}

#[test]
fn only_what_is_lost_can_be_wanted_of_it() {
    let codec = Codec::parse("rs:4+2").unwrap();
    assert!(codec.decoder_of(&[1, 2], &[3]).unwrap_err().to_string().contains("column 3 is wanted and not"));
    assert!(codec.decoder_of(&[1, 9], &[9]).unwrap_err().to_string().contains("no column 9"));
    assert!(codec.decoder_of(&[1, 9], &[1]).unwrap_err().to_string().contains("no column 9"));
    assert!(codec.decoder_of(&[0, 1, 2], &[1]).is_err());
    assert!(codec.decoder_of(&[], &[]).is_ok());
}

#[test]
fn a_change_alone_keeps_parity_true() {
    for spec in SPECS {
        let codec = Codec::parse(spec).unwrap();
        let old = stripe(&codec, 70);
        for position in 0..codec.code().data().len() {
            let new: Vec<u8> = (0..70).map(|i| (i * 11 + position) as u8).collect();
            let cell = codec.code().data()[position].usize();
            let change: Vec<u8> = old[cell].iter().zip(&new).map(|(a, b)| a ^ b).collect();
            let mut whole = old.clone();
            let mut views: Vec<&mut [u8]> = whole.iter_mut().map(Vec::as_mut_slice).collect();
            codec.update(&mut views, position, &new).unwrap();
            let give =
                |(i, bytes): (usize, _), with_data: bool| match codec.code().is_parity(CellIndex(i as u32)) {
                    true => Buffer::Write(bytes),
                    false if with_data && i == cell => Buffer::Write(bytes),
                    false => Buffer::Absent,
                };
            let [mut by_new, mut by_change] = [old.clone(), old.clone()];
            let mut given: Vec<Buffer<'_>> =
                by_new.iter_mut().map(Vec::as_mut_slice).enumerate().map(|one| give(one, true)).collect();
            codec.update_given(&mut given, position, &new).unwrap();
            let mut given: Vec<Buffer<'_>> =
                by_change.iter_mut().map(Vec::as_mut_slice).enumerate().map(|one| give(one, false)).collect();
            codec.add_change_given(&mut given, position, &change).unwrap();
            assert!(by_new == whole, "{spec} {position}");
            by_change[cell].clone_from(&new);
            assert!(by_change == whole, "{spec} {position}");
        }
    }
}

#[test]
fn caches_keep_what_they_may_and_no_more() {
    let count = |codec: &Codec| {
        let pairs: Vec<_> =
            (1..40).map(|b| Arc::downgrade(&codec.decoder_of(&[0, b], &[b]).unwrap())).collect();
        pairs.iter().filter(|one| one.strong_count() > 0).count()
    };
    let codec = Codec::parse("rs:38+2").unwrap();
    assert_eq!(count(&codec), 39);
    let few = codec.with_cache_bytes(20_000);
    assert!((2..20).contains(&count(&few)), "{}", count(&few));
    assert_eq!(count(&codec.with_cache_bytes(0)), 1, "the last one");
}

#[test]
fn data_are_split_into_and_joined_from_what_is_given_or_nothing_is_written() {
    let codec = Codec::parse("dcode:5").unwrap();
    let cells = codec.code().cell_count();
    let data: Vec<u8> = (0..15 * 7 - 3).map(|i| i as u8 | 1).collect();
    let mut memory = vec![vec![0u8; 7]; cells];
    let mut given: Vec<Buffer<'_>> = memory.iter_mut().map(|cell| Buffer::Write(cell)).collect();
    let too_much = codec.split_given(&[1; 15 * 7 + 1], &mut given);
    assert_eq!(too_much, Err(StripeError::Holds { have: 15 * 7, need: 15 * 7 + 1 }));
    codec.split_given(&data, &mut given).unwrap();
    let whole: Vec<u8> = codec.split(&data).concat();
    assert_eq!(memory.concat(), whole);

    // Parity buffers may be absent.
    let absent = |cell: usize| codec.code().is_parity(CellIndex(cell as u32));
    let there = |cell: usize| if absent(cell) { Buffer::Absent } else { Buffer::Read(&memory[cell]) };
    let mut given: Vec<Buffer<'_>> = (0..cells).map(there).collect();
    let mut back = vec![0; data.len()];
    codec.join_given(&given, &mut back).unwrap();
    assert_eq!(back, data);
    assert!(matches!(
        codec.split_given(&data, &mut given),
        Err(StripeError::CellGiven { is_written: true, .. })
    ));

    let lost = codec.code().data()[4].usize();
    given[lost] = Buffer::Absent;
    back.fill(9);
    let refused = Err(StripeError::CellGiven { cell: lost, is_written: false });
    assert_eq!((codec.join_given(&given, &mut back), back), (refused, vec![9; data.len()]));
}
