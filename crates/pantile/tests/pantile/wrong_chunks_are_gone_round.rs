//! Claim: inconsistent chunks are decoded to the right data with the wrong chunks named, or they
//! are refused; rebuilt chunks are byte for byte the encoded ones.

use crate::common::*;
use pantile::code::foreign::Profile;
use pantile::{Check, Checked, Chunks, Code, Codec, DoubtReason, ShardError};
use std::io::{Cursor, Read, Write};

const ELEMENT_LEN: usize = 512;

fn data(len: usize) -> Vec<u8> {
    let mut random = Random(len as u64);
    (0..len).map(|_| random.between(0, 255) as u8).collect()
}

/// Returns data of two stripes and a part of a third, and their chunks.
fn encoded(codec: &Codec) -> (Vec<u8>, Vec<Vec<u8>>) {
    let data = data(codec.code().data().len() * ELEMENT_LEN * 2 + 77);
    let mut files = vec![Vec::new(); codec.code().columns()];
    codec.encode_stream(&mut &data[..], &mut writers(&mut files), ELEMENT_LEN).unwrap();
    (data, files)
}

fn writers(files: &mut [Vec<u8>]) -> Vec<&mut dyn Write> {
    files.iter_mut().map(|file| file as _).collect()
}

/// Calls `work` with a reader for each file that is not lost.
fn reading<T>(files: &[Vec<u8>], lost: &[usize], work: impl FnOnce(&mut [Option<&mut dyn Read>]) -> T) -> T {
    let mut readers: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
    let mut readers: Vec<Option<&mut dyn Read>> = readers
        .iter_mut()
        .enumerate()
        .map(|(column, file)| (!lost.contains(&column)).then_some(file as _))
        .collect();
    work(&mut readers)
}

/// Returns the decoded data and the columns that were wrong.
fn decoded(codec: &Codec, files: &[Vec<u8>], lost: &[usize]) -> Result<(Vec<u8>, Vec<usize>), ShardError> {
    let mut back = Vec::new();
    let len = codec.code().data().len() * ELEMENT_LEN * 2 + 77;
    let checked =
        reading(files, lost, |shards| codec.decode_stream(shards, &mut back, ELEMENT_LEN, len as u64))?;
    Ok((back, columns(&checked)))
}

fn columns(checked: &Checked) -> Vec<usize> {
    checked.wrong.iter().map(|wrong| wrong.column).collect()
}

fn spoil(file: &mut [u8], random: &mut Random) {
    file.iter_mut().for_each(|byte| *byte ^= random.between(1, 255) as u8);
}

fn some_codes() -> impl Iterator<Item = Codec> {
    let is_small = |code: &Code| code.claim().tolerance > 0 && code.columns() <= 12;
    all_codes(60).into_iter().filter(is_small).map(|code| Codec::new(&code))
}

#[test]
fn one_wrong_chunk_is_named_and_gone_round_where_two_are_to_spare() {
    let mut located = 0;
    for codec in some_codes() {
        let (code, (data, files)) = (codec.code(), encoded(&codec));
        let mut random = Random(code.fingerprint());
        assert_eq!(decoded(&codec, &files, &[]).unwrap(), (data.clone(), vec![]), "{code}");
        for column in 0..code.columns() {
            if files[column].is_empty() {
                continue;
            }
            let mut files = files.clone();
            spoil(&mut files[column], &mut random);
            match decoded(&codec, &files, &[]) {
                Ok(found) => assert_eq!(found, (data.clone(), vec![column]), "{code}"),
                Err(ShardError::Doubt(_)) if code.claim().tolerance < 2 => continue,
                Err(error) => panic!("{code}: column {column}: {error}"),
            }
            located += 1;
        }
    }
    assert!(located > 100, "{located}");
}

#[test]
fn exchanged_chunks_are_gone_round_or_refused() {
    let (mut located, mut refused) = (0, 0);
    for codec in some_codes().filter(|codec| codec.code().claim().tolerance >= 2) {
        let (code, (data, files)) = (codec.code(), encoded(&codec));
        for pair in subsets(code.columns(), 2) {
            if files[pair[0]].len() != files[pair[1]].len() || files[pair[0]] == files[pair[1]] {
                continue;
            }
            let mut files = files.clone();
            files.swap(pair[0], pair[1]);
            match decoded(&codec, &files, &[]) {
                Ok(found) => assert_eq!(found, (data.clone(), pair.clone()), "{code}: {pair:?}"),
                Err(ShardError::Doubt(_)) => refused += 1,
                Err(error) => panic!("{code}: {pair:?}: {error}"),
            }
            located += 1;
        }
    }
    assert!(located > 100 && refused > 10, "{located} {refused}");
}

/// More than two data chunks are exchanged. With two parities, every order of the data chunks
/// leaves their plain sum unchanged.
#[test]
fn chunks_in_another_order_do_not_look_like_one_wrong_parity() {
    for spec in ["raid6:5", "rs:4+2,vandermonde", "dcode:5", "rdp:5", "evenodd:5", "xcode:5"] {
        let Ok(codec) = Codec::parse(spec) else { panic!("{spec}") };
        let (_, files) = encoded(&codec);
        for by in 1..codec.code().columns() - 2 {
            let mut files = files.clone();
            files[..codec.code().columns() - 2].rotate_left(by);
            let found = decoded(&codec, &files, &[]);
            assert!(matches!(found, Err(ShardError::Doubt(_))), "{spec}, by {by}: {:?}", found.map(|f| f.1));
        }
    }
    let codec = Codec::parse("raid6:5").unwrap();
    let (_, mut files) = encoded(&codec);
    files.swap(1, 3);
    let Err(ShardError::Doubt(doubt)) = decoded(&codec, &files, &[]) else { panic!("it is refused") };
    assert_eq!((doubt.columns, doubt.reason), (vec![6], DoubtReason::Exchange));
    // If only a part of a stripe is wrong, the rest proves that no chunk was exchanged.
    let (data, mut files) = encoded(&codec);
    files[6][700..900].iter_mut().for_each(|byte| *byte ^= 0x55);
    assert_eq!(decoded(&codec, &files, &[]).unwrap(), (data, vec![6]));
}

#[test]
fn one_missing_and_one_wrong_are_gone_round_where_three_are_to_spare() {
    let mut located = 0;
    for codec in some_codes().filter(|codec| codec.code().claim().tolerance >= 2) {
        let (code, (data, files)) = (codec.code(), encoded(&codec));
        let mut random = Random(code.fingerprint());
        for pair in subsets(code.columns(), 2) {
            if pair.iter().any(|&column| files[column].is_empty()) {
                continue;
            }
            let (lost, wrong) = if random.below(2) == 0 { (pair[0], pair[1]) } else { (pair[1], pair[0]) };
            let mut files = files.clone();
            spoil(&mut files[wrong], &mut random);
            match decoded(&codec, &files, &[lost]) {
                Ok(found) => assert_eq!(found, (data.clone(), vec![wrong]), "{code}: {lost}, {wrong}"),
                Err(ShardError::Doubt(_)) if code.claim().tolerance == 2 => continue,
                Err(error) => panic!("{code}: {lost} lost, {wrong} wrong: {error}"),
            }
            located += 1;
        }
    }
    assert!(located > 100, "{located}");
}

#[test]
fn errors_beyond_location_are_refused() {
    for codec in some_codes() {
        let (code, (data, files)) = (codec.code(), encoded(&codec));
        let mut random = Random(code.fingerprint());
        let tolerance = code.claim().tolerance;
        for count in tolerance / 2 + 1..=tolerance {
            let mut sets = subsets(code.columns(), count);
            while sets.len() > 20 {
                sets.swap_remove(random.below(sets.len()));
            }
            for set in sets {
                let mut files = files.clone();
                set.iter().for_each(|&column| spoil(&mut files[column], &mut random));
                match decoded(&codec, &files, &[]) {
                    Err(ShardError::Doubt(_)) => {}
                    // The data must be right; the named columns can differ, because a column
                    // without bytes cannot be wrong.
                    Ok(found) => assert_eq!(found.0, data, "{code}: {set:?} wrong, {:?} named", found.1),
                    Err(error) => panic!("{code}: {set:?}: {error}"),
                }
            }
        }
    }
}

#[test]
fn a_single_byte_is_a_guess_unless_the_chunk_is_known_to_be_wrong() {
    let codec = Codec::parse("rs:4+2").unwrap();
    let (data, whole) = encoded(&codec);
    let mut files = whole.clone();
    files[1][ELEMENT_LEN + 9] ^= 1;
    let Err(ShardError::Doubt(doubt)) = decoded(&codec, &files, &[]) else { panic!("it is refused") };
    assert_eq!((doubt.from, &doubt.columns[..]), (ELEMENT_LEN as u64, &[1][..]));
    assert!(matches!(doubt.reason, DoubtReason::FewBytes { evidence_bits: 1..40 }), "{doubt:?}");
    let with = |files: &[Vec<u8>], check| {
        let mut back = Vec::new();
        let checked = reading(files, &[], |shards| {
            codec.decode_stream_with(shards, &mut back, ELEMENT_LEN, data.len() as u64, check)
        });
        (back, checked.unwrap())
    };
    let (back, checked) = with(&files, Check::Probable);
    let wrong = checked.wrong[0];
    assert_eq!((wrong.column, wrong.first, wrong.bytes), (1, ELEMENT_LEN as u64 + 9, 1));
    assert!(back == data && checked.is_complete);
    // Without a check it is not seen.
    let (back, checked) = with(&files, Check::Off);
    assert!(back != data && checked.wrong.is_empty() && !checked.is_complete);
    // An earlier stripe has 100 wrong bytes in the column.
    files[1][..100].iter_mut().for_each(|byte| *byte ^= 0x80);
    assert_eq!(decoded(&codec, &files, &[]).unwrap(), (data, vec![1]));
}

#[test]
fn without_a_check_only_what_is_needed_is_read() {
    struct Never;
    impl Read for Never {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            panic!("it is read");
        }
    }
    let codec = Codec::parse("rs:4+2").unwrap();
    let (data, files) = encoded(&codec);
    let mut readers: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
    let mut never = [Never, Never];
    let (of_data, _) = readers.split_at_mut(4);
    let mut shards: Vec<Option<&mut dyn Read>> = of_data.iter_mut().map(|file| Some(file as _)).collect();
    shards.extend(never.iter_mut().map(|never| -> Option<&mut dyn Read> { Some(never) }));
    let mut back = Vec::new();
    codec.decode_stream_with(&mut shards, &mut back, ELEMENT_LEN, data.len() as u64, Check::Off).unwrap();
    assert_eq!(back, data);
}

#[test]
fn lost_and_wrong_chunks_are_rebuilt_as_they_were() {
    for codec in some_codes().filter(|codec| codec.code().claim().tolerance >= 2) {
        let (code, (data, whole)) = (codec.code(), encoded(&codec));
        let wrong = (0..code.columns()).rev().find(|&column| !whole[column].is_empty()).unwrap();
        let mut files = whole.clone();
        spoil(&mut files[wrong], &mut Random(1));
        let lost: &[usize] = if code.claim().tolerance > 2 { &[0] } else { &[] };
        let found = reading(&files, lost, |shards| {
            codec.verify_stream(shards, ELEMENT_LEN, data.len() as u64, Check::Certain).unwrap()
        });
        assert_eq!((columns(&found), found.doubts), (vec![wrong], 0), "{code}");
        let mut made = vec![Vec::new(); code.columns()];
        let mut into: Vec<Option<&mut dyn Write>> = writers(&mut made).into_iter().map(Some).collect();
        reading(&files, lost, |shards| {
            let len = data.len() as u64;
            codec.rebuild_stream(shards, &mut into, ELEMENT_LEN, len, Check::Certain).unwrap()
        });
        assert_eq!(made, whole, "{code}");
    }
}

#[test]
fn chunks_of_every_layout_are_checked_and_rebuilt() {
    for (profile, chunk) in [
        ("ceph:plugin=isa k=4 m=3", Some(1024)),
        ("ceph:plugin=jerasure technique=cauchy_good k=4 m=3 w=8 packetsize=32", Some(2048)),
        ("ceph:plugin=jerasure technique=reed_sol_van k=4 m=3 w=16", Some(4096)),
        ("hdfs:RS-4-3-1k", None),
        ("isal:cauchy 4+3", None),
        ("jerasure:cauchy_good k=4 m=3 w=4 packetsize=8", None),
        ("klauspost:RS(4,3)", None),
        ("seaweedfs:4+3", None),
        ("seaweedfs:4+3 uniform", None),
    ] {
        let chunks = Chunks::new(&Profile::parse(profile).unwrap(), chunk).unwrap();
        let data = data(60_123);
        let mut whole = vec![Vec::new(); 7];
        let len = data.len() as u64;
        chunks.encode_at(&mut Cursor::new(&data), len, &mut writers(&mut whole)).unwrap();
        for (wrong, lost) in [(0, 1), (3, 6), (5, 2)] {
            let mut files = whole.clone();
            spoil(&mut files[wrong][100..900], &mut Random(7));
            let found = reading(&files, &[lost], |read| chunks.verify(read, len).unwrap());
            assert_eq!(
                (columns(&found), found.doubts, found.is_complete),
                (vec![wrong], 0, true),
                "{profile}"
            );
            assert_eq!((found.wrong[0].first, found.wrong[0].bytes), (100, 800), "{profile}");
            let mut back = Cursor::new(Vec::new());
            let found = reading(&files, &[lost], |read| chunks.decode_at(read, &mut back, len).unwrap());
            assert_eq!(columns(&found), [wrong], "{profile}");
            assert!(back.into_inner() == data, "{profile}");
            let mut made = vec![Vec::new(); 7];
            let mut into: Vec<Option<&mut dyn Write>> = writers(&mut made).into_iter().map(Some).collect();
            reading(&files, &[lost], |read| chunks.rebuild(read, &mut into, len).unwrap());
            assert!(made == whole, "{profile}");
            let two = reading(&files, &[lost, (wrong + 2) % 7], |read| chunks.verify(read, len).unwrap());
            assert!(two.doubts > 0 && two.wrong.is_empty(), "{profile}: {two:?}");
        }
    }
}
