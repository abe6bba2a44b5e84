//! Claim: chunks are, byte for byte, those that the other systems wrote
//! (`vectors/foreign/chunks.json`, by `reference/foreign_chunks.py`), and are recovered from as few
//! chunks as the code allows.

use crate::common::{Random, subsets};
use pantile::code::foreign::{Cut, Profile};
use pantile::{Checked, ChunkError, Chunks, ShardError, WrongColumn};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::io::{Cursor, Read, Write};

fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| ((i * 2654435761) >> 13) as u8).collect()
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn chunks(profile: &str, chunk: Option<usize>) -> Chunks {
    let profile = Profile::parse(profile).unwrap_or_else(|error| panic!("{profile}: {error}"));
    Chunks::new(&profile, chunk).unwrap_or_else(|error| panic!("{}: {error}", profile.name))
}

fn encoded(chunks: &Chunks, data: &[u8]) -> Vec<Vec<u8>> {
    let mut files = vec![Vec::new(); chunks.code().columns()];
    let mut writers: Vec<&mut dyn Write> = files.iter_mut().map(|file| file as _).collect();
    chunks.encode_at(&mut Cursor::new(data), data.len() as u64, &mut writers).unwrap();
    files
}

fn decoded(chunks: &Chunks, files: &[Vec<u8>], lost: &[usize], len: usize) -> Result<Vec<u8>, ShardError> {
    let mut readers: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
    let mut readers: Vec<Option<&mut dyn Read>> = readers
        .iter_mut()
        .enumerate()
        .map(|(column, file)| (!lost.contains(&column)).then_some(file as _))
        .collect();
    let mut data = Cursor::new(Vec::new());
    chunks.decode_at(&mut readers, &mut data, len as u64)?;
    Ok(data.into_inner())
}

#[test]
fn every_chunk_is_what_the_system_made() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/foreign/chunks.json");
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let cases = file["cases"].as_array().unwrap();
    assert!(cases.len() >= 87, "only {} cases", cases.len());
    let mut random = Random(1);
    for case in cases {
        let number = |key: &str| case[key].as_u64().map(|number| number as usize);
        let (name, len, tolerance) =
            (case["as"].as_str().unwrap(), number("length").unwrap(), number("lost").unwrap());
        let chunks = chunks(name, number("chunk"));
        let data = pattern(len);
        let files = encoded(&chunks, &data);
        for (column, file) in files.iter().enumerate() {
            let place = format!("{name}, {len} bytes, chunk {column}");
            assert_eq!(Some(file.len() as u64), case["bytes"][column].as_u64(), "{place}");
            assert_eq!(file.len() as u64, chunks.len_of(column, len as u64), "{place}");
            assert_eq!(Some(digest(file).as_str()), case["sha256"][column].as_str(), "{place}");
        }
        let all: Vec<usize> = (0..files.len()).collect();
        let sets = subsets(files.len().min(9), tolerance);
        let some = sets[random.below(sets.len())].clone();
        for lost in [vec![], all[..tolerance].to_vec(), all[files.len() - tolerance..].to_vec(), some] {
            assert_eq!(
                decoded(&chunks, &files, &lost, len).unwrap(),
                data,
                "{name}, {len} bytes, without {lost:?}"
            );
        }
    }
}

/// Compares with `vectors/foreign/seaweedfs.json`, written by the independent reference. Its large
/// blocks are shorter than those of SeaweedFS.
#[test]
fn shards_of_seaweedfs_are_those_of_the_judge() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/foreign/seaweedfs.json");
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let cases = file["cases"].as_array().unwrap();
    assert!(cases.len() >= 13, "only {} cases", cases.len());
    for case in cases {
        let number = |key: &str| case[key].as_u64().map(|number| number as usize);
        let [k, m, small, len] = ["k", "m", "small", "length"].map(|key| number(key).unwrap());
        let uniform = if number("large").is_none() { " uniform" } else { "" };
        let mut profile = Profile::parse(&format!("seaweedfs:{k}+{m}{uniform}")).unwrap();
        match (profile.cut, number("large")) {
            (Cut::Blocks { large, small }, Some(given))
                if (given, number("small").unwrap()) == (large, small) => {}
            (Cut::Blocks { .. }, Some(large)) => profile.cut = Cut::Blocks { large, small },
            (cut, _) => assert_eq!(cut, Cut::Pieces { multiple_of: small }),
        }
        let chunks = Chunks::new(&profile, None).unwrap();
        let data = pattern(len);
        let files = encoded(&chunks, &data);
        for (column, file) in files.iter().enumerate() {
            let place = format!("{case}, shard {column}");
            assert_eq!(Some(file.len() as u64), case["bytes"].as_u64(), "{place}");
            assert_eq!(file.len() as u64, chunks.len_of(column, len as u64), "{place}");
            assert_eq!(Some(digest(file).as_str()), case["sha256"][column].as_str(), "{place}");
        }
        // Data of the padded length give shards of the same length.
        let padded = chunks.data_len_of(files[0].len() as u64).unwrap();
        assert!(padded >= len as u64 && chunks.len_of(0, padded) == files[0].len() as u64, "{case}");
        for lost in [&[][..], &[0], &[k - 1, k + m - 1]] {
            assert_eq!(decoded(&chunks, &files, lost, len).unwrap(), data, "{case}, without {lost:?}");
        }
    }
    assert_eq!(Chunks::new(&Profile::parse("seaweedfs").unwrap(), Some(4096)).unwrap_err(), ChunkError::None);
    // Lengths around the one from which SeaweedFS uses large blocks.
    let chunks = chunks("seaweedfs", None);
    for (len, shard) in
        [((10 << 30) - 1, 1 << 30), (10 << 30, 1 << 30), ((10 << 30) + 1, (1 << 30) + (1 << 20))]
    {
        assert_eq!(chunks.len_of(13, len), shard, "{len}");
    }
}

/// Covers lengths around every boundary, and a stream that returns its bytes in small pieces.
#[test]
fn data_of_any_length_come_back() {
    struct Drops<'d>(&'d [u8]);
    impl Read for Drops<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let drop = into.len().min(7);
            self.0.read(&mut into[..drop])
        }
    }
    for (profile, chunk) in [
        ("ceph:plugin=isa k=4 m=2", Some(32)),
        ("ceph:plugin=jerasure technique=liberation k=3 m=2 w=3 packetsize=4", Some(48)),
        ("ceph:plugin=lrc k=4 m=2 l=3", Some(32)),
        ("hdfs:RS-3-2-1k", None),
        ("isal:cauchy 3+2", None),
        ("isal:cauchy 3+2", Some(5)),
        ("jerasure:cauchy_good 3+2 packetsize=8", None),
        ("klauspost:RS(3,2)", None),
        ("swift:isa_l_rs_cauchy 3+2 ec_object_segment_size=200", None),
        ("swift:isa_l_rs_cauchy 3+2 ec_object_segment_size=200", Some(67)),
        ("swift:liberasurecode_rs_vand 3+2 ec_object_segment_size=200", None),
        ("seaweedfs:3+2", None),
        ("seaweedfs:3+2 uniform", None),
    ] {
        let chunks = chunks(profile, chunk);
        let k = chunks.code().data().len() / chunks.code().rows_max();
        let unit = chunks.chunk_len().unwrap_or(64);
        let marks = [0, 1, unit, 2 * unit, k * unit, 2 * k * unit];
        for len in marks.iter().flat_map(|&mark| [mark.saturating_sub(1), mark, mark + 1]) {
            let data = pattern(len);
            let files = encoded(&chunks, &data);
            if !chunks.is_one_stripe() {
                let mut streamed = vec![Vec::new(); files.len()];
                let mut writers: Vec<&mut dyn Write> = streamed.iter_mut().map(|file| file as _).collect();
                assert_eq!(chunks.encode(&mut Drops(&data), &mut writers).unwrap(), len as u64);
                assert_eq!(streamed, files, "{profile}, {len} bytes");
            }
            for lost in subsets(files.len(), 2) {
                let back = decoded(&chunks, &files, &lost, len).unwrap();
                assert_eq!(back, data, "{profile}, {len} bytes, without {lost:?}");
            }
        }
    }
}

/// Behind its header a fragment can be as it was, or be of another index.
#[test]
fn wrong_headers_of_fragments_are_named_and_rebuilt() {
    let chunks = chunks("swift:isa_l_rs_vand k=6 m=3 ec_object_segment_size=4096", None);
    let data = pattern(10_000);
    let files = encoded(&chunks, &data);
    assert_eq!(chunks.data_len_of(files[0].len() as u64), None, "it is in the headers");
    let checked = |files: &[Vec<u8>]| {
        let mut readers: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
        let mut readers: Vec<Option<&mut dyn Read>> =
            readers.iter_mut().map(|file| Some(file as _)).collect();
        chunks.verify(&mut readers, 10_000).unwrap()
    };
    assert_eq!(checked(&files), Checked { is_complete: true, ..Checked::default() });
    let second = 80 + 4096usize.div_ceil(6);
    let mut wrong = files.clone();
    wrong[4][second] ^= 7;
    wrong[4][second + 12] ^= 1;
    let found = checked(&wrong).wrong;
    assert_eq!(found, [WrongColumn { column: 4, first: second as u64, bytes: 2 }]);
    // Versions are those of the library that wrote them.
    wrong[4] = files[4].clone();
    wrong[4][63..67].copy_from_slice(&0x0001_0502u32.to_le_bytes());
    assert!(checked(&wrong).wrong.is_empty());
    wrong.swap(2, 7);
    let found: Vec<usize> = checked(&wrong).wrong.iter().map(|wrong| wrong.column).collect();
    assert_eq!(found, [2, 7]);
    let mut rebuilt = Vec::new();
    let mut readers: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
    let mut readers: Vec<Option<&mut dyn Read>> = readers.iter_mut().map(|file| Some(file as _)).collect();
    readers[8] = None;
    let mut writers: Vec<Option<&mut dyn Write>> = (0..9).map(|_| None).collect();
    writers[8] = Some(&mut rebuilt);
    chunks.rebuild(&mut readers, &mut writers, 10_000).unwrap();
    assert!(rebuilt == files[8]);
}

#[test]
fn pieces_longer_than_a_window_come_back() {
    for profile in ["klauspost:RS(2,2)", "jerasure:liberation k=2 w=3 packetsize=8"] {
        let chunks = chunks(profile, None);
        let data = pattern(1_500_001);
        let files = encoded(&chunks, &data);
        assert!(files[..2].concat().starts_with(&data), "{profile}");
        assert_eq!(decoded(&chunks, &files, &[0, 1], data.len()).unwrap(), data, "{profile}");
    }
}

#[test]
fn impossible_profiles_are_refused() {
    let refused = |name: &str, chunk| Chunks::new(&Profile::parse(name).unwrap(), chunk).unwrap_err();
    let isa = "ceph:plugin=isa k=4 m=2";
    assert_eq!(refused(isa, Some(100)), ChunkError::Multiple { given: 100, of: 32 });
    assert!(refused(isa, Some(100)).to_string().contains("take 128"));
    assert!(refused(isa, Some(0)).to_string().contains("take 32"));
    assert_eq!(refused("hdfs:RS-3-2-1k", Some(4096)), ChunkError::Fixed { given: 4096, cell: 1024 });
    assert_eq!(refused(isa, Some(1 << 28)), ChunkError::Stripe { chunk: 1 << 28, columns: 6 });
    assert!(matches!(refused(isa, Some(usize::MAX - 31)), ChunkError::Stripe { .. }));

    let chunks = chunks(isa, Some(32));
    let data = pattern(1000);
    let files = encoded(&chunks, &data);
    assert!(matches!(decoded(&chunks, &files, &[0, 1, 2], 1000), Err(ShardError::Plan(_))));
    assert!(matches!(decoded(&chunks, &files[..5], &[], 1000), Err(ShardError::Count { have: 5, need: 6 })));
    // More bytes are requested than the shards contain.
    assert!(matches!(decoded(&chunks, &files, &[], 100_000), Err(ShardError::Shard { column: 0, .. })));
    // The data end before their declared length.
    let mut none: Vec<Vec<u8>> = vec![Vec::new(); 6];
    let mut writers: Vec<&mut dyn Write> = none.iter_mut().map(|file| file as _).collect();
    let ends = chunks.encode_at(&mut Cursor::new(&data), 2000, &mut writers);
    assert!(matches!(ends, Err(ShardError::Data(_))));
}
