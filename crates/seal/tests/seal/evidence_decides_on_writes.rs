//! Claims: without checksums no block of a doubtful stripe is written; a contradiction of the
//! equations is never called clean, whatever the checksums are; and a guess needs a request.

use crate::common::*;
use pantile_format::Crc64;
use pantile_seal::*;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

const BODY: u64 = pantile_format::BODY_OFFSET;
const BLOCK: u64 = 4096;

/// Seals one file that fills all data columns of this many stripes.
fn sealed(code: &str, stripes: u64, checksums: bool) -> Place {
    let place = Place::new();
    fs::create_dir(place.tree()).unwrap();
    let data = code_of(code).data().len() as u64;
    write(&place.tree().join("f"), &Seed(1).bytes((BLOCK * data * stripes) as usize - 17));
    let mut options = place.options(code);
    options.checksums = Some(checksums);
    options.block_len = Some(BLOCK);
    seal(&options, &mut Silent).unwrap();
    place
}

fn write_random(path: &Path, at: u64, len: u64, seed: u64) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&Seed(seed).bytes(len as usize), at).unwrap();
}

fn look(place: &Place) -> VerifyReport {
    verify(&VerifyOptions { set: place.set(), ignore_checksums: true, ..Default::default() }, &mut Silent)
        .unwrap()
}

fn mend(place: &Place, guess: bool) -> Result<HealReport, Fault> {
    let options = HealOptions { set: place.set(), ignore_checksums: true, guess, ..Default::default() };
    heal(&options, &mut Silent)
}

#[test]
fn two_wrong_columns_make_heal_write_nothing() {
    for (code, checksums) in [("rs:4+2", false), ("rs:4+2", true), ("raid6:4", false), ("dcode:5", false)] {
        let place = sealed(code, 60, checksums);
        let rows = code_of(code).rows(0) as u64;
        for column in 0..2 {
            write_random(&place.shard(column), BODY, 60 * rows * BLOCK, 2 + column as u64);
        }
        let before = shards(&place.out());
        for guess in [false, true] {
            let report = mend(&place, guess).unwrap();
            assert_eq!(
                (report.blocks_repaired, report.blocks_left, report.stripes_guessed),
                (0, 60, 0),
                "{code}"
            );
            assert!(shards(&place.out()) == before, "{code}: something was written");
        }
        // The remaining good blocks still suffice for everything.
        (0..2).for_each(|column| fs::remove_file(place.shard(column)).unwrap());
        place.assert_restores();
    }
}

#[test]
fn a_byte_proves_too_little_and_is_repaired_only_by_a_guess_that_is_said() {
    let place = sealed("rs:4+2", 3, false);
    let whole = shards(&place.out());
    flip(&place.shard(2), BODY + BLOCK + 100);
    spoil(&place.shard(3), BODY + 2 * BLOCK + 100, 6);
    let found = look(&place);
    let told: Vec<(u64, u32, bool)> = found
        .findings
        .iter()
        .map(|finding| match finding.verdict {
            StripeVerdict::Located { evidence_bits, certain, .. } => (finding.stripe, evidence_bits, certain),
            _ => panic!("{finding:?}"),
        })
        .collect();
    assert_eq!(told, [(1, 5, false), (2, 45, true)]);
    assert!(!found.clean && !found.recoverable && found.needs_heal);
    // The certain findings are repaired; the single wrong byte is left.
    let report = mend(&place, false).unwrap();
    assert_eq!((report.blocks_repaired, report.blocks_left, report.stripes_guessed), (1, 1, 0));
    assert!(fs::read(place.shard(3)).unwrap() == whole[Path::new("tree.03.shard")]);
    assert!(fs::read(place.shard(2)).unwrap() != whole[Path::new("tree.02.shard")]);
    let report = mend(&place, true).unwrap();
    assert_eq!((report.blocks_repaired, report.blocks_left, report.stripes_guessed), (1, 0, 1));
    assert!(shards(&place.out()) == whole);
}

#[test]
fn a_guess_is_not_made_where_something_else_in_the_stripe_is_not_to_be_located() {
    let place = sealed("rs:4+2", 1, false);
    spoil(&place.shard(2), BODY + 100, 200);
    spoil(&place.shard(0), BODY + 1000, 50);
    write_random(&place.shard(1), BODY + 1000, 50, 5);
    let before = shards(&place.out());
    let report = mend(&place, true).unwrap();
    assert_eq!((report.blocks_repaired, report.blocks_left, report.stripes_guessed), (0, 1, 0));
    assert!(shards(&place.out()) == before);
}

#[test]
fn neighbouring_stripes_with_different_wrong_columns_are_all_healed() {
    let place = sealed("rs:4+2", 12, false);
    let whole = shards(&place.out());
    for stripe in 0..12 {
        write_random(&place.shard(stripe as usize % 6), BODY + stripe * BLOCK, BLOCK, stripe);
    }
    assert_eq!(mend(&place, false).unwrap().blocks_repaired, 12);
    assert!(shards(&place.out()) == whole);
}

#[test]
fn a_lost_shard_is_not_made_from_a_stripe_in_doubt_and_called_right() {
    let place = sealed("rs:4+2", 5, true);
    let whole = shards(&place.out());
    fs::remove_file(place.shard(5)).unwrap();
    spoil(&place.shard(1), BODY + 3 * BLOCK, 500);
    assert_eq!(mend(&place, false).unwrap().blocks_left, 1);
    // The content of the stripe is unknown, and the checksums record that.
    let found = place.verify();
    assert_eq!((found.shards[5].wrong_blocks, found.shards[1].wrong_blocks), (1, 1));
    place.heal().unwrap();
    assert!(shards(&place.out()) == whole);
}

#[test]
fn a_forged_checksum_does_not_hide_from_the_equations() {
    for far in [false, true] {
        let place = sealed("rs:3+2", 4, true);
        let whole = shards(&place.out());
        let mut bytes = fs::read(place.shard(1)).unwrap();
        let block = &mut bytes[(BODY + BLOCK) as usize..(BODY + 2 * BLOCK) as usize];
        let crc = Crc64::of(block);
        // The change is beside the eight bytes that make the checksum fit, or far from them.
        let at = if far { 4 } else { 4080 };
        block[at..at + 3].copy_from_slice(b"999");
        forge(block, crc);
        fs::write(place.shard(1), bytes).unwrap();
        assert!(place.verify().clean, "checksums do not resist a forger");
        let found = look(&place);
        assert!(!found.clean && found.needs_heal, "{found:?}");
        for finding in &found.findings {
            let StripeVerdict::Located { columns, .. } = &finding.verdict else { panic!("{finding:?}") };
            assert_eq!((finding.stripe, columns.as_slice()), (1, &[1][..]));
        }
        // Three wrong bytes alone are too little evidence.
        assert_eq!((found.recoverable, found.shards[1].wrong_blocks), (!far, u64::from(!far)));
        mend(&place, far).unwrap();
        assert!(shards(&place.out()) == whole);
        assert!(look(&place).clean);
    }
}

/// Makes two disks with a file each and parity, without checksums; the file of the second disk is
/// lost.
fn without_checksums(code: &str) -> (Place, Vec<u8>) {
    let place = Place::new();
    let dirs = [place.dir.path().join("d1"), place.dir.path().join("d2")];
    for (i, dir) in dirs.iter().enumerate() {
        fs::create_dir(dir).unwrap();
        write(&dir.join("f"), &Seed(i as u64).bytes(20_000));
    }
    let mut options = SealOptions::new(dirs.to_vec(), place.out());
    (options.code, options.mode) = (Some(code_of(code)), Some(Mode::Beside));
    (options.checksums, options.records) = (Some(false), Some(place.records()));
    options.name = Some("tree".into());
    seal(&options, &mut Silent).unwrap();
    let lost = fs::read(dirs[1].join("f")).unwrap();
    fs::remove_file(dirs[1].join("f")).unwrap();
    (place, lost)
}

#[test]
fn files_computed_without_checksums_from_a_touched_file_are_named_as_doubtful() {
    let healed = |place: &Place| fs::read(place.dir.path().join("d2/f")).unwrap();
    let (place, lost) = without_checksums("raid5:2");
    make_shards_younger(&place);
    place.heal().unwrap();
    assert!(healed(&place) == lost, "nothing was touched");
    let (place, lost) = without_checksums("raid5:2");
    let touched = place.dir.path().join("d1/f");
    flip(&touched, 999);
    let Err(Fault { kind: FaultKind::HealedInDoubt(report), .. }) = place.heal() else {
        panic!("it may be wrong")
    };
    assert!(healed(&place) != lost);
    let [doubtful] = &report.doubtful[..] else { panic!("{report:?}") };
    assert!(doubtful.path.ends_with("d2/f") && doubtful.reason.contains("d1/f"), "{doubtful:?}");
    // With one more equation the error is detected, and no block is written.
    let (place, _) = without_checksums("raid6:2");
    flip(&place.dir.path().join("d1/f"), 999);
    let report = place.heal().unwrap();
    assert!(report.blocks_left > 0 && report.doubtful.is_empty(), "{report:?}");
    assert!(!place.dir.path().join("d2/f").exists());
}
