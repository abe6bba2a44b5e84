//! Claim: a code in words does to bit i of each word what it does to element i of each column: encode, recover any columns that can be, update, refuse. For every family whose columns are words, and for code
//! files with random equations; and the words of `crs` are those of the field, by the judge.

use crate::common::*;
use pantile::{Code, Codec, PlanError, RecoverError, StripeError, WordCodec, WordsError};

/// The codes of words, also those that the other laws leave out.
fn codes_of_words(random: u64) -> Vec<WordCodec> {
    let more = [
        "crs:2+2,w=2",
        "crs:1+3,w=2,orig",
        "crs:10+4,w=4",
        "crs:12+4,w=4,orig",
        "crs:8+6,w=4",
        "crs:4+9,w=4",
        "crs:15+2,w=4",
        "evenodd:7",
        "rdp:6",
        "mirror:3",
        "raid5:70",
    ];
    let more = more.map(|spec| Code::parse(spec).unwrap());
    let files = (0..random).map(|seed| Code::from_text(&random_words_file(seed)).unwrap());
    let all = all_codes(0).into_iter().chain(more).chain(files);
    all.filter_map(|code| Codec::new(&code).in_words().ok()).collect()
}

/// A code file of XORs with columns of two or four rows, of data or of parity; parities may use parities.
fn random_words_file(seed: u64) -> String {
    let mut random = Random(seed.wrapping_mul(0x9b97_f4a7_c15f_39cd));
    let (rows, data, parity) = ([2, 4][random.below(2)], random.between(1, 6), random.between(1, 5));
    let mut text = format!("pantile-code 1\nname words-{seed}\ncolumns {}\nrows {rows}\n", data + parity);
    for p in 0..parity * rows {
        let mut terms: Vec<String> = Vec::new();
        for cell in 0..data * rows + p {
            if random.below(if cell < data * rows { 2 } else { 5 }) == 0 {
                terms.push(format!("[{}][{}]", cell % rows, cell / rows));
            }
        }
        if terms.is_empty() {
            terms.push("[0][0]".into());
        }
        text += &format!("[{}][{}] = {}\n", p % rows, data + p / rows, terms.join(" + "));
    }
    text
}

/// The elements of columns, a byte for each bit: words in order, bit i of each in element i.
fn elements(codec: &WordCodec, columns: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let width = codec.word_bits();
    let of = |column: &Vec<u8>, i: usize| {
        column
            .iter()
            .flat_map(|byte| (0..8 / width).map(move |word| byte >> (word * width + i) & 1))
            .collect()
    };
    columns.iter().flat_map(|column| (0..width).map(move |i| of(column, i))).collect()
}

/// Columns of random data and garbage for parity, and the same with parity computed element by element.
fn unencoded_and_encoded(codec: &WordCodec, len: usize, seed: u64) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (mut random, width) = (Random(seed), codec.word_bits());
    let mut columns: Vec<Vec<u8>> =
        (0..codec.code().columns()).map(|_| (0..len).map(|_| random.next() as u8).collect()).collect();
    let before = columns.clone();
    let mut cells = elements(codec, &columns);
    codec.codec().encode(&mut views(&mut cells)).unwrap();
    for (column, cells) in columns.iter_mut().zip(cells.chunks(width)) {
        for (at, byte) in column.iter_mut().enumerate() {
            let bit = |b: usize| cells[b % width][at * (8 / width) + b / width] << b;
            *byte = (0..8).fold(0, |sum, b| sum | bit(b));
        }
    }
    (before, columns)
}

#[test]
fn every_bit_of_a_word_is_of_its_element() {
    let mut recovered = 0;
    let codecs = codes_of_words(40);
    assert!(codecs.len() > 50, "{}", codecs.len());
    for (i, codec) in codecs.into_iter().enumerate() {
        let code = codec.code();
        let len = [1, 31, 200, 0, 64, 333][i % 6];
        let (mut columns, whole) = unencoded_and_encoded(&codec, len, i as u64);
        codec.encode(&mut views(&mut columns)).unwrap();
        assert!(columns == whole, "{code}: encode");
        let most = (code.claim().tolerance + 1).min(code.columns());
        let sets = (0..=most).flat_map(|size| subsets(code.columns().min(9), size));
        // Of the first columns, and of the first with the last.
        let last = |lost: Vec<usize>| {
            let moved =
                lost.into_iter().map(|column| if column < 4 { column } else { column + code.columns() - 9 });
            moved.collect::<Vec<usize>>()
        };
        let spread = (2..=most).filter(|_| code.columns() > 9).flat_map(|size| subsets(9, size)).map(last);
        for lost in sets.chain(spread).chain([vec![code.columns() - 1, 0]]) {
            let of_words = |columns: &mut [&mut [u8]], lost: &[usize]| codec.reconstruct(columns, lost);
            recovered += usize::from(recovers(codec.codec(), &whole, &lost, of_words));
        }
    }
    assert!(recovered > 2000, "{recovered}: the sets were mostly fatal");
}

#[test]
fn words_are_those_of_the_field() {
    let file = include_str!("../../../../vectors/words.json");
    let vectors: serde_json::Value = serde_json::from_str(file).unwrap();
    let len = usize::try_from(vectors["chunk"].as_u64().unwrap()).unwrap();
    let codes = vectors["codes"].as_array().unwrap();
    assert!(codes.len() > 12, "{}", codes.len());
    for vector in codes {
        let codec = Codec::parse(vector["spec"].as_str().unwrap()).unwrap().in_words().unwrap();
        let parity: Vec<&str> =
            vector["parity"].as_array().unwrap().iter().map(|hex| hex.as_str().unwrap()).collect();
        let mut columns = vec![vec![0; len]; codec.code().columns()];
        let data = columns.len() - parity.len();
        columns[..data]
            .iter_mut()
            .flatten()
            .enumerate()
            .for_each(|(i, byte)| *byte = ((i * 2654435761) >> 13) as u8);
        codec.encode(&mut views(&mut columns)).unwrap();
        let hex = |column: &Vec<u8>| column.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(columns[data..].iter().map(hex).collect::<Vec<_>>(), parity, "{}", vector["spec"]);
    }
}

#[test]
fn an_update_is_an_encoding_of_the_new_content() {
    for (i, codec) in codes_of_words(40).into_iter().enumerate() {
        let (_, mut columns) = unencoded_and_encoded(&codec, 77, i as u64);
        let mut changed = 0;
        for column in 0..codec.code().columns() {
            let new: Vec<u8> = (0..77).map(|at| (at * 13 + column * 7 + 1) as u8).collect();
            let before = columns.clone();
            match codec.update(&mut views(&mut columns), column, &new) {
                Ok(()) => {
                    assert!(columns[column] == new, "{codec:?}");
                    let mut anew = columns.clone();
                    codec.encode(&mut views(&mut anew)).unwrap();
                    assert!(anew == columns, "{codec:?}: column {column}");
                    changed += 1;
                }
                Err(error) => {
                    let count = columns.len();
                    assert_eq!(error, StripeError::NoDataColumn { column, columns: count }, "{codec:?}");
                    assert!(columns == before);
                }
            }
        }
        assert_eq!(changed * codec.word_bits(), codec.code().data().len(), "{codec:?}");
    }
}

#[test]
fn what_is_no_stripe_is_refused_and_nothing_is_written() {
    let codec = Codec::parse("crs:3+2,w=4").unwrap().in_words().unwrap();
    let whole = vec![vec![3u8; 80]; 5];
    let mut short = whole.clone();
    short[2].pop();
    let cases = [
        (whole[..4].to_vec(), StripeError::ColumnCount { have: 4, need: 5 }),
        (short, StripeError::UnequalColumns { column: 2, have: 79, need: 80 }),
    ];
    for (mut columns, error) in cases {
        let before = columns.clone();
        assert_eq!(codec.encode(&mut views(&mut columns)), Err(error));
        assert_eq!(codec.reconstruct(&mut views(&mut columns), &[0]), Err(RecoverError::Stripe(error)));
        assert_eq!(codec.decoder(&[0]).unwrap().run(&mut views(&mut columns)), Err(error));
        assert_eq!(codec.update(&mut views(&mut columns), 0, &[0; 80]), Err(error));
        assert!(columns == before && !error.to_string().is_empty());
    }
    let mut columns = whole.clone();
    let update = codec.update(&mut views(&mut columns), 0, &[0; 79]);
    assert_eq!(update, Err(StripeError::NewLength { have: 79, need: 80 }));
    for column in [3, 5, usize::MAX] {
        let update = codec.update(&mut views(&mut columns), column, &[0; 80]);
        assert_eq!(update, Err(StripeError::NoDataColumn { column, columns: 5 }));
    }
    let unknown = codec.reconstruct(&mut views(&mut columns), &[1, 7]);
    assert_eq!(unknown, Err(RecoverError::Plan(PlanError::NoSuchColumn { column: 7, columns: 5 })));
    assert!(codec.reconstruct(&mut views(&mut columns), &[0, 1, 2]).is_err());
    assert!(columns == whole);
}

#[test]
fn columns_that_are_no_words_are_refused() {
    let refused = |spec: &str| Codec::parse(spec).unwrap().in_words().unwrap_err();
    assert_eq!(refused("crs:6+3"), WordsError::Rows { column: 0, rows: 8, need: 0 });
    assert_eq!(refused("dcode:7"), WordsError::Rows { column: 0, rows: 7, need: 0 });
    assert_eq!(refused("cauchy:6+3"), WordsError::Coefficients);
    assert_eq!(refused("hdp:4"), WordsError::Shared { column: 0 });
    let uneven = "pantile-code 1\nname uneven\ncolumns 3\nrows 2 2 1\n[0][2] = [0][0] + [1][1]\n";
    let uneven = Codec::new(&Code::from_text(uneven).unwrap()).in_words().unwrap_err();
    assert_eq!(uneven, WordsError::Rows { column: 2, rows: 1, need: 2 });
    for spec in ["crs:6+3", "cauchy:6+3", "hdp:4"] {
        assert!(
            refused(spec).to_string().contains("take") || refused(spec).to_string().contains("use"),
            "{spec}"
        );
    }
}

#[test]
fn recoveries_are_made_once() {
    let codec = Codec::parse("crs:6+3,w=4").unwrap().in_words().unwrap();
    let decoder = codec.decoder(&[1, 4]).unwrap();
    assert!(std::sync::Arc::ptr_eq(&decoder, &codec.decoder(&[4, 1, 4]).unwrap()));
    assert_eq!(decoder.written().len(), 8, "the elements of two columns");
}
