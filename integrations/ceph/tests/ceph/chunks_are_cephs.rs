//! Chunks are, byte for byte, those that Ceph's own plug-ins made (`vectors/foreign`).

use crate::common::{encoded, pattern, pool};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::Path;

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn cases(path: &Path) -> Vec<Value> {
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    file["cases"].as_array().unwrap().clone()
}

fn vectors(name: &str) -> Vec<Value> {
    cases(&Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/foreign")).join(name))
}

/// Returns Ceph's profile with the plug-in that has the code here: Ceph's name, or `pantile` for
/// codes that Ceph keeps.
fn ours(profile: &str) -> Option<String> {
    let profile = profile.replace(',', " ");
    match profile.split(' ').next()? {
        "plugin=shec" | "plugin=clay" | "plugin=jerasure" => Some(profile),
        "plugin=lrc" => Some(profile.replace("plugin=lrc", "plugin=pantile")),
        _ => None,
    }
}

/// Compares the shards of one case, all of them or the parities alone.
fn check(case: &Value, profile: &str, stripes: usize) {
    let pool = pool(profile);
    let chunk = case["chunk"].as_u64().unwrap() as usize;
    assert!(chunk.is_multiple_of(pool.layout().chunk_multiple), "{profile}: {:?}", pool.layout());
    let k = pool.data().len();
    let data = pattern(stripes * k * chunk);
    let mut shards = vec![Vec::new(); pool.chunks()];
    for stripe in data.chunks(k * chunk) {
        let chunks = encoded(&pool, stripe, chunk);
        shards.iter_mut().zip(chunks).for_each(|(shard, chunk)| shard.extend(chunk));
    }
    // Data chunks are the object, so that the output of `encode` for them is ignored.
    for (i, &shard) in pool.data().iter().enumerate() {
        shards[shard].clear();
        data.chunks(chunk).skip(i).step_by(k).for_each(|part| shards[shard].extend(part));
    }
    let digests = case["sha256"].as_array().unwrap();
    let first = shards.len() - digests.len();
    for (shard, digest_of_ceph) in shards[first..].iter().zip(digests) {
        assert_eq!(digest(shard), digest_of_ceph.as_str().unwrap(), "{profile}");
    }
}

#[test]
fn products_of_bytes() {
    let mut checked = 0;
    for case in vectors("ceph_w8.json") {
        let stripes = case["stripes"].as_u64().unwrap() as usize;
        if let Some(profile) = ours(case["profile"].as_str().unwrap()) {
            check(&case, &profile, stripes);
            checked += 1;
        }
    }
    assert!(checked >= 600, "{checked} cases");
}

#[test]
fn bit_matrices() {
    let cases = vectors("ceph_bit_matrices.json");
    assert!(cases.len() >= 200, "{} cases", cases.len());
    cases.iter().for_each(|case| check(case, &ours(case["profile"].as_str().unwrap()).unwrap(), 1));
}

/// Fields larger than GF(2^8): words of 16 and 32 bits, and bit matrices of more than 8 rows.
#[test]
fn long_words() {
    let cases = vectors("ceph_long_words.json");
    assert!(cases.len() >= 200, "{} cases", cases.len());
    cases.iter().for_each(|case| check(case, &ours(case["profile"].as_str().unwrap()).unwrap(), 1));
}

/// Clay over isa, shec and jerasure's reed_sol_r6_op.
#[test]
fn clay_over_other_codes() {
    let cases = vectors("ceph_clay.json");
    assert!(cases.len() >= 30, "{} cases", cases.len());
    cases.iter().for_each(|case| check(case, &ours(case["profile"].as_str().unwrap()).unwrap(), 1));
}

/// Compares all 645 known profiles of Ceph's chunks, if the folder with them is beside the
/// repository.
#[test]
#[ignore = "heavy: reads ../shared/oracle"]
fn the_oracle() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/oracle/ceph_ec_vectors.json"));
    if !path.exists() {
        println!("left out: {} is not there", path.display());
        return;
    }
    let (mut checked, mut others) = (0, 0);
    for case in cases(path) {
        let Some(profile) = ours(case["profile"].as_str().unwrap()) else {
            others += 1;
            continue;
        };
        check(&case, &profile, case["stripes"].as_u64().unwrap() as usize);
        checked += 1;
    }
    println!("{checked} profiles equal, {others} of other plug-ins");
    assert!(checked >= 620);
}
