//! A pattern of losses that comes again is planned and compiled once, however it is written and however many there are.

use pantile::{Codec, Recovery};
use std::sync::Arc;

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
fn what_comes_again_is_planned_once_however_many_patterns_came_before() {
    let codec = Codec::parse("rs:60+3").unwrap();
    // 1953 pairs and then some triples.
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
