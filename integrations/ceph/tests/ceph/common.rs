//! Profiles and chunks for tests.

use pantile_ceph::kept::CACHE_BYTES;
use pantile_ceph::pool::Pool;
use pantile_ceph::profile::{Opened, Plugin, Refusal};

/// Reads a profile as it is written on a command line.
pub fn read(profile: &str) -> Result<Opened, Refusal> {
    // The text of a code has blanks, and comes last.
    let (profile, text) = match profile.split_once(" equations=") {
        Some((profile, text)) => (profile, Some(("equations".to_string(), text.to_string()))),
        None => (profile, None),
    };
    let words = profile.split([' ', '\n']).map(|word| {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        (name.to_string(), value.to_string())
    });
    let words: std::collections::BTreeMap<String, String> = words.chain(text).collect();
    Plugin::named(&words["plugin"]).expect("a plug-in of ours").read(words)
}

pub fn pool(profile: &str) -> Pool {
    let opened = read(profile).unwrap_or_else(|error| panic!("{profile}: {error}"));
    Pool::new(opened.layout, CACHE_BYTES)
}

/// The bytes that the vectors were made of.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| ((i * 2654435761) >> 13) as u8).collect()
}

/// The chunks of one stripe, by shard.
pub fn encoded(pool: &Pool, data: &[u8], chunk: usize) -> Vec<Vec<u8>> {
    let mut chunks = vec![vec![0xe7; chunk]; pool.chunks()];
    for (part, &shard) in data.chunks(chunk).zip(pool.data()) {
        chunks[shard][..part.len()].copy_from_slice(part);
        chunks[shard][part.len()..].fill(0);
    }
    let mut parities: Vec<Vec<u8>> = chunks.clone();
    let of_data: Vec<Option<&[u8]>> = chunks.iter().map(|chunk| Some(&chunk[..])).collect();
    let mut to: Vec<Option<&mut [u8]>> = parities.iter_mut().map(|chunk| Some(&mut chunk[..])).collect();
    pool.encode(&of_data, &mut to, chunk).unwrap();
    parities
}
