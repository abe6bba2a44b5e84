//! Claim: a repeated pattern of losses is planned and compiled once, in whatever order its columns
//! are written and however many patterns there are.

use pantile::{CellIndex, CellSet, Codec, Costs, Recovery};
use std::sync::{Arc, Weak};

fn decoder(codec: &Codec, lost: &[usize]) -> Arc<Recovery> {
    codec.decoder(lost).unwrap_or_else(|error| panic!("{lost:?}: {error}"))
}

#[test]
fn one_set_of_columns_is_planned_once_in_whatever_order_it_is_written() {
    for spec in ["rs:6+4", "dcode:7", "raidq:8+4", "lrc:12,2,2"] {
        let codec = Codec::parse(spec).unwrap();
        let first = decoder(&codec, &[1, 0, 1]);
        for same in [&[0, 1][..], &[1, 0], &[0, 0, 1], &[1, 1, 0, 0]] {
            assert!(Arc::ptr_eq(&first, &decoder(&codec, same)), "{spec}: {same:?} was planned again");
        }
        assert!(!Arc::ptr_eq(&first, &decoder(&codec, &[0])), "{spec}");
    }
}

#[test]
fn repeated_losses_are_planned_once_after_many_other_patterns() {
    let codec = Codec::parse("rs:60+3").unwrap();
    // All 1953 pairs, then some triples.
    for b in 0..63 {
        (0..b).for_each(|a| drop(decoder(&codec, &[a, b])));
    }
    for c in 2..63 {
        let lost = [0, 1, c];
        let first = decoder(&codec, &lost);
        assert!(Arc::ptr_eq(&first, &decoder(&codec, &lost)), "{lost:?} was planned again");
        assert!(Arc::ptr_eq(&first, &decoder(&codec, &[c, 0, 1])), "{lost:?} was planned again");
    }
}

/// Returns the number of values that were returned and are still in memory.
fn alive<T>(all: &[Weak<T>]) -> usize {
    all.iter().filter(|one| one.strong_count() > 0).count()
}

#[test]
fn kept_programs_are_bounded_in_bytes() {
    // Each decoder has half a MiB, so 32 of them fill a cache.
    let codec = Codec::parse("rs:128+128").unwrap();
    let lost = |i: usize| (i..i + 100).collect::<Vec<usize>>();
    let decoders: Vec<_> = (0..90).map(|i| Arc::downgrade(&decoder(&codec, &lost(i)))).collect();
    assert!((20..=70).contains(&alive(&decoders)), "{} are kept", alive(&decoders));
    let recovery = |i| {
        let cells = CellSet::of_columns(codec.code(), &lost(i));
        let wanted: Vec<CellIndex> = cells.iter().collect();
        Arc::downgrade(&codec.recovery(&cells, &wanted, &Costs::uniform()).unwrap())
    };
    let recoveries: Vec<_> = (0..60).map(recovery).collect();
    assert!((5..=40).contains(&alive(&recoveries)), "{} are kept", alive(&recoveries));

    let codec = Codec::parse("dcode:29").unwrap();
    let checker = |i: usize| {
        let erased = CellSet::of_cells(codec.code(), &[CellIndex(i as u32)]);
        Arc::downgrade(&codec.checker(&erased).unwrap())
    };
    let checkers: Vec<_> = (0..200).map(checker).collect();
    assert!((10..=100).contains(&alive(&checkers)), "{} are kept", alive(&checkers));
}
