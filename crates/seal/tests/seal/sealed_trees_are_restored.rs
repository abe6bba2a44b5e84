//! Claims: any tree is restored bit by bit with any code, after any losses within its tolerance.

use crate::common::*;
use pantile_seal::*;
use std::fs;

/// Two data columns of two rows, mixed with parity: no family of codes has this code.
const CUSTOM: &str = "pantile-code 1\nname own\ncolumns 4\nrows 2\n\
    [0][2] = 1*[0][0] + 1*[0][1]\n[1][2] = 1*[1][0] + 1*[1][1]\n\
    [0][3] = 1*[0][0] + 2*[0][1]\n[1][3] = 1*[1][0] + 2*[1][1]\n";

const CODES: &[&str] = &[
    "raid6:4",
    "rs:4+2",
    "dcode:5",
    "raidp:4",
    "raidq:4+4",
    "lrc:6,2,2",
    "evenodd:5",
    "rdp:5",
    "xcode:5",
    "mirror:2",
    CUSTOM,
];

#[test]
fn awkward_trees_survive_seal_verify_and_unseal_with_every_code() {
    for code in CODES {
        for checksums in [true, false] {
            let place = Place::new();
            awkward_tree(&place.tree(), 1);
            let before = picture(&place.tree());
            let mut options = place.options(code);
            options.checksums = Some(checksums);
            let report = seal(&options, &mut Silent).unwrap();
            assert_eq!(report.files, 10, "{code}");
            assert_eq!(picture(&place.tree()), before, "{code}: sealing changed the originals");
            let verified = place.verify();
            assert!(verified.clean && verified.recoverable, "{code}: {verified:?}");
            assert_eq!(verified.files_unchanged, 10);
            place.assert_restores();
        }
    }
}

#[test]
fn any_two_shards_may_be_lost_and_are_healed_to_the_bit() {
    for code in CODES.iter().filter(|code| code_of(code).claim().tolerance >= 2) {
        let place = Place::new();
        awkward_tree(&place.tree(), 2);
        seal(&place.options(code), &mut Silent).unwrap();
        let whole = shards(&place.out());
        let columns = code_of(code).columns();
        for a in 0..columns {
            for b in a..columns {
                fs::remove_file(place.shard(a)).unwrap();
                if b != a {
                    fs::remove_file(place.shard(b)).unwrap();
                }
                if columns <= 6 || (a + b) % 7 == 0 {
                    place.assert_restores();
                }
                let report = place.heal().unwrap();
                assert_eq!(report.shards_written.len(), if a == b { 1 } else { 2 });
                assert!(shards(&place.out()) == whole, "{code}: {a} {b}");
            }
        }
    }
}
