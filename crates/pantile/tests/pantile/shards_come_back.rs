//! Claim: data split into shards are joined again with as many shards lost as the code tolerates.
//! Streams give the same shards as stripes; a changed byte is detected; buffers that are not a
//! stripe are refused, and nothing is changed.

use crate::common::*;
use pantile::{Codec, ShardError};
use std::io::{Read, Write};

fn data(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251 + 1) as u8).collect()
}

/// Returns as many columns as the code tolerates losing, spread over the code.
fn lost(codec: &Codec) -> Vec<usize> {
    let code = codec.code();
    (0..code.claim().tolerance).map(|i| i * code.columns() / code.claim().tolerance).collect()
}

#[test]
fn split_data_are_joined() {
    for code in all_codes(40) {
        let codec = Codec::new(&code);
        let lost = lost(&codec);
        for len in [0, 1, code.data().len(), code.data().len() * 64 + 13] {
            let data = data(len);
            let whole = codec.split(&data);
            assert_eq!(codec.join(&whole, len).unwrap(), data, "{code}");
            assert!(codec.verify(&whole).unwrap(), "{code}");
            let mut shards: Vec<Option<Vec<u8>>> = whole.iter().cloned().map(Some).collect();
            lost.iter().for_each(|&column| shards[column] = None);
            codec.restore(&mut shards).unwrap();
            assert!(shards.iter().flatten().eq(&whole), "{code}: {len} bytes, {lost:?} lost");
        }
    }
}

#[test]
fn a_changed_byte_is_seen() {
    for code in all_codes(10) {
        let codec = Codec::new(&code);
        let whole = codec.split(&data(code.data().len() * 5));
        for column in 0..code.columns() {
            let mut shards = whole.clone();
            let Some(byte) = shards[column].last_mut() else { continue };
            *byte ^= 0x20;
            let is_checked = code.equations().iter().any(|equation| {
                equation.terms().iter().any(|term| term.0 == code.column_cells(column).last().unwrap())
            });
            assert_eq!(codec.verify(&shards).unwrap(), !is_checked, "{code}: column {column}");
        }
    }
}

#[test]
fn streams_give_what_stripes_give() {
    for code in all_codes(10) {
        let codec = Codec::new(&code);
        let (element, lost) = (24, lost(&codec));
        let per_stripe = code.data().len() * element;
        for len in [0, 1, per_stripe, 2 * per_stripe + 5] {
            let data = data(len);
            let mut files = vec![Vec::new(); code.columns()];
            let mut writers: Vec<&mut dyn Write> =
                files.iter_mut().map(|file| file as &mut dyn Write).collect();
            let read = codec.encode_stream(&mut Slow(&data), &mut writers, element).unwrap();
            assert_eq!(read, len as u64, "{code}");
            // Each stripe equals the split of its own data, padded to a whole stripe.
            for (stripe, part) in data.chunks(per_stripe).enumerate() {
                let mut part = part.to_vec();
                part.resize(per_stripe, 0);
                for (column, shard) in codec.split(&part).iter().enumerate() {
                    assert_eq!(files[column][stripe * shard.len()..][..shard.len()], shard[..], "{code}");
                }
            }
            let mut readers: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
            let mut shards: Vec<Option<&mut dyn Read>> =
                readers.iter_mut().map(|reader| Some(reader as &mut dyn Read)).collect();
            lost.iter().for_each(|&column| shards[column] = None);
            let mut back = Vec::new();
            codec.decode_stream(&mut shards, &mut back, element, len as u64).unwrap();
            assert!(back == data, "{code}: {len} bytes");
        }
    }
}

/// A reader that returns a few bytes at a time.
struct Slow<'a>(&'a [u8]);

impl Read for Slow<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let most = into.len().min(7);
        self.0.read(&mut into[..most])
    }
}

#[test]
fn shards_that_are_no_stripe_are_refused() {
    let codec = Codec::parse("dcode:5").unwrap();
    let whole = codec.split(&data(15 * 8));
    assert!(matches!(codec.join(&whole[1..], 4), Err(ShardError::Count { have: 4, need: 5 })));
    assert!(matches!(codec.join(&whole, 121), Err(ShardError::TooShort { have: 120, need: 121 })));
    let mut short = whole.clone();
    short[3].pop();
    assert!(matches!(codec.verify(&short), Err(ShardError::Length { column: 3, have: 39, need: 40 })));
    let mut shards: Vec<Option<Vec<u8>>> = whole.iter().cloned().map(Some).collect();
    (0..3).for_each(|column| shards[column] = None);
    let before = shards.clone();
    assert!(matches!(codec.restore(&mut shards), Err(ShardError::Plan(_))));
    assert_eq!(shards, before);
    assert!(matches!(codec.restore(&mut [const { None }; 5]), Err(ShardError::NonePresent)));
    let mut none: [&mut dyn Write; 0] = [];
    assert!(matches!(
        codec.encode_stream(&mut &[][..], &mut none, 8),
        Err(ShardError::Count { have: 0, need: 5 })
    ));
    let mut files = vec![Vec::new(); 5];
    let mut writers: Vec<&mut dyn Write> = files.iter_mut().map(|file| file as &mut dyn Write).collect();
    assert!(matches!(codec.encode_stream(&mut &[][..], &mut writers, 0), Err(ShardError::NoElement)));
    // A shard ends before the data do.
    let mut readers: Vec<&[u8]> = short.iter().map(Vec::as_slice).collect();
    let mut shards: Vec<Option<&mut dyn Read>> =
        readers.iter_mut().map(|reader| Some(reader as &mut dyn Read)).collect();
    let ended = codec.decode_stream(&mut shards, &mut Vec::new(), 8, 120).unwrap_err();
    assert!(matches!(ended, ShardError::Shard { column: 3, .. }), "{ended}");
}
