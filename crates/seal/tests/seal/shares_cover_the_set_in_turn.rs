//! Claim: verification by shares reads every stripe in turn, and reads damaged stripes again until
//! they are repaired.

use crate::common::*;
use pantile_seal::*;
use std::fs;

const BLOCK: usize = 4096;

/// Seals two files beside their parity, in 40 stripes.
fn sealed() -> Place {
    let place = Place::new();
    fs::create_dir(place.tree()).unwrap();
    for (name, seed) in [("a", 1), ("b", 2)] {
        write(&place.tree().join(name), &Seed(seed).bytes(40 * BLOCK));
    }
    let options =
        SealOptions { mode: Some(Mode::Beside), block_len: Some(BLOCK as u64), ..place.options("rs:2+1") };
    assert_eq!(seal(&options, &mut Silent).unwrap().stripes, 40);
    place
}

fn night(place: &Place, share: Share) -> VerifyReport {
    let set = SetPaths { disks: at(&[place.tree()]), ..place.set() };
    verify(&VerifyOptions { set, share: Some(share), ..Default::default() }, &mut Silent).unwrap()
}

#[test]
fn four_quarters_are_the_set_and_damage_is_reported_until_it_is_repaired() {
    let place = sealed();
    let quarter = Share { millionths: 250_000, older_than_s: 3600 };
    let file = fs::read_dir(place.tree()).unwrap().flatten().map(|entry| entry.path()).min().unwrap();
    rot(&place, &file, 15 * BLOCK as u64 + 5);
    let before = place.verify();
    assert!(!before.clean && before.share.is_none());
    let found: Vec<bool> = (0..4)
        .map(|turn| {
            let report = night(&place, quarter);
            let share = report.share.as_ref().unwrap();
            assert_eq!((share.stripes, report.stripes), (10, 10), "{turn}");
            assert!(share.oldest.is_some());
            !report.clean
        })
        .collect();
    // From the run that finds the damage on, every run reads the damaged stripe first.
    let first = found.iter().position(|&is_found| is_found).expect("it is found");
    assert!(found[first..].iter().all(|&is_found| is_found), "{found:?}");
    assert_eq!(night(&place, quarter).stripes, 3, "two that made room for the damaged one, and it");
    place.heal().unwrap();
    let last = night(&place, quarter);
    assert!(last.clean && last.stripes == 1, "{last:?}");
    let last = night(&place, quarter);
    assert_eq!(
        last.share,
        Some(ShareReport { stripes: 0, never: 0, oldest: last.share.as_ref().unwrap().oldest })
    );
    let again = night(&place, Share { older_than_s: 0, ..quarter });
    assert_eq!(again.stripes, 10);
}

#[test]
fn a_lost_file_lowers_the_number_of_disks_whatever_share_is_read() {
    let place = sealed();
    fs::remove_file(place.tree().join("b")).unwrap();
    let whole = place.verify();
    for _ in 0..4 {
        let part = night(&place, Share { millionths: 250_000, older_than_s: 3600 });
        assert_eq!(part.survival.survives, whole.survival.survives);
        assert!(!part.clean && part.files.iter().any(|file| file.status == FileStatus::Missing));
    }
}

#[test]
fn memory_of_another_set_or_of_no_sense_is_begun_again() {
    let place = sealed();
    let half = Share { millionths: 500_000, older_than_s: 3600 };
    let memory = place.out().join("tree.verified");
    for text in ["", "nonsense", "00000000-0000-0000-0000-000000000000\n0 40 1\n", "\u{0}"] {
        fs::write(&memory, text).unwrap();
        assert_eq!(night(&place, half).share.unwrap().never, 20, "{text:?}");
        let uuid = fs::read_to_string(&memory).unwrap();
        let uuid = uuid.lines().next().unwrap();
        for line in ["5 4 1", "0 41 1", "0 40", "0 40 x", "18446744073709551615 0 0"] {
            fs::write(&memory, format!("{uuid}\n{line}\n")).unwrap();
            assert_eq!(night(&place, half).share.unwrap().never, 20, "{line}");
        }
    }
    assert_eq!(night(&place, half).share.unwrap().never, 0);
    assert!(place.reseal().unchanged >= 2, "it is no part of what is sealed");
}
