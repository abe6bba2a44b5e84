//! Claim: a set with impossible headers and manifests under correct checksums is refused or worked
//! on, without a panic and without a file outside the named directory.
//!
//! `FUZZ_SEEDS=100000` tries more seeds, `FUZZ_FIRST=7 FUZZ_SEEDS=1` repeats one; `tools/fuzz.sh`
//! runs for as long as the user wants.

use crate::common::*;
use pantile_format::{Crc64, HEADER_BYTES, ShardHeader};
use pantile_seal::*;
use std::fs;
use std::path::Path;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |value| value.parse().expect("a number"))
}

/// Makes the checksum at the end correct again.
fn reseal(bytes: &mut [u8]) -> Crc64 {
    let body = bytes.len() - 8;
    let crc = Crc64::of(&bytes[..body]);
    bytes[body..].copy_from_slice(&crc.0.to_le_bytes());
    crc
}

fn change(bytes: &mut [u8], from: usize, changes: &[(u64, u64)]) {
    let end = bytes.len() - 8;
    for &(place, kind) in changes {
        let at = from + place as usize % (end - from);
        match kind % 8 {
            0 => bytes[at] ^= 1 << (kind / 8 % 8),
            1 | 2 => bytes[at] = (kind / 8 % 9) as u8,
            3 => bytes[at / 8 * 8..(at / 8 * 8 + 8).min(end)].fill(0xff),
            _ => bytes[at] = (kind / 8) as u8,
        }
    }
}

/// Changes the header or the manifest of a shard, in all copies alike.
fn lie(path: &Path, in_manifest: bool, changes: &[(u64, u64)]) {
    let mut shard = fs::read(path).unwrap();
    let header = ShardHeader::decode(&shard).unwrap();
    let (from, len) = (header.meta_offset as usize, header.manifest_len as usize);
    let copies: Vec<usize> = (0..shard.len() / 4096)
        .map(|block| block * 4096)
        .filter(|&at| ShardHeader::decode(&shard[at..]).is_ok_and(|found| found == header))
        .collect();
    assert!(!copies.is_empty());
    let mut bytes = shard[copies[0]..copies[0] + HEADER_BYTES as usize].to_vec();
    if in_manifest {
        let manifest = &mut shard[from..from + len];
        change(manifest, 12, changes);
        let manifest_crc = Crc64::of({
            reseal(manifest);
            &manifest[..]
        });
        bytes = ShardHeader { manifest_crc, ..header }.encode().to_vec();
    } else {
        change(&mut bytes[..168], 12, changes);
    }
    reseal(&mut bytes);
    for at in copies {
        shard[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    fs::write(path, shard).unwrap();
}

#[test]
fn sets_that_lie_never_panic() {
    let made: Vec<(Place, usize)> =
        [("rs:3+2", Mode::Full), ("raid5:2", Mode::Full), ("dcode:5", Mode::Full)]
            .into_iter()
            .map(|(code, mode)| {
                let place = Place::new();
                awkward_tree(&place.tree(), 3);
                let mut options = place.options(code);
                options.mode = Some(mode);
                seal(&options, &mut Silent).unwrap();
                (place, code_of(code).columns())
            })
            .collect();
    let (first, seeds) = (number("FUZZ_FIRST", 0), number("FUZZ_SEEDS", 300));
    let (mut restored, mut refused) = (0, 0);
    for seed in first..first + seeds {
        let mut random = Seed(seed);
        let (place, columns) = &made[(seed % made.len() as u64) as usize];
        let there = Place::new();
        fs::create_dir(there.out()).unwrap();
        for column in 0..*columns {
            fs::copy(place.shard(column), there.shard(column)).unwrap();
        }
        let in_manifest = random.below(2) == 0;
        let changes: Vec<(u64, u64)> =
            (0..1 + random.below(4)).map(|_| (random.next(), random.next() >> 8)).collect();
        // One shard is changed, or all are, so that none is left unchanged.
        let only = (random.below(2) == 0).then(|| random.below(*columns as u64) as usize);
        for column in (0..*columns).filter(|&column| only.is_none_or(|only| only == column)) {
            lie(&there.shard(column), in_manifest, &changes);
        }
        let before: Vec<_> =
            fs::read_dir(there.dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(before, [there.out()]);
        let _ = verify(&VerifyOptions { set: there.set(), ..Default::default() }, &mut Silent);
        match there.unseal() {
            Ok(_) => restored += 1,
            Err(_) => refused += 1,
        }
        let _ = there.heal();
        let mut after: Vec<_> =
            fs::read_dir(there.dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        after.retain(|path| *path != there.out() && *path != there.target());
        assert!(after.is_empty(), "seed {seed}: {after:?}");
    }
    println!("{restored} restored, {refused} not");
    assert!(seeds < 100 || (restored > 20 && refused > 20), "{restored} restored, {refused} not");
}
