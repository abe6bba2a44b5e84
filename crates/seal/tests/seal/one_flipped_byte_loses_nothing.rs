//! Claim: metadata tolerates every loss of shards and originals that the code tolerates, with one
//! flipped byte anywhere in addition. A flipped byte of a block counts as one lost block. If that
//! is more than the code tolerates, the file is named, and all others are restored.

use crate::common::*;
use pantile_format::ShardHeader;
use pantile_seal::*;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Flips a byte until this is dropped. The mtime of the file may change, since the file is not an
/// original.
struct Flipped<'p>(&'p Path, u64);

impl Flipped<'_> {
    fn new(path: &Path, at: u64) -> Flipped<'_> {
        Flipped::flip(path, at);
        Flipped(path, at)
    }

    fn flip(path: &Path, at: u64) {
        let file = fs::File::options().read(true).write(true).open(path).unwrap();
        let time = file.metadata().unwrap().modified().unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
        file.set_modified(time).unwrap();
    }
}

impl Drop for Flipped<'_> {
    fn drop(&mut self) {
        Flipped::flip(self.0, self.1);
    }
}

/// Returns the offsets in a shard of all metadata: headers, and both copies of manifest, check
/// table and piece table. Of the reserved bytes of a header every 97th is taken.
fn metadata_bytes(path: &Path) -> Vec<u64> {
    let header = ShardHeader::decode(&fs::read(path).unwrap()).unwrap();
    let of_header = |at: u64| (0..200).chain((200..4088).step_by(97)).chain(4088..4096).map(move |i| at + i);
    let one = header.manifest_len + header.checks_len + header.pieces_len;
    let headers = header.copy_offsets().into_iter().flat_map(of_header);
    headers.chain(header.meta_copies().into_iter().flat_map(|at| at..at + one)).collect()
}

/// Returns all choices of `count` of some paths.
fn choices(paths: &[PathBuf], count: usize) -> Vec<Vec<PathBuf>> {
    let picked = |bits: u32| {
        let of = paths.iter().enumerate().filter(move |(i, _)| bits >> i & 1 == 1);
        of.map(|(_, path)| path.clone()).collect()
    };
    (0..1u32 << paths.len()).filter(|bits| bits.count_ones() as usize == count).map(picked).collect()
}

/// Moves paths away, does some work, and moves the paths back.
fn without(lost: &[PathBuf], work: impl FnOnce()) {
    let away = |path: &PathBuf| path.with_extension("lost");
    lost.iter().for_each(|path| fs::rename(path, away(path)).unwrap());
    work();
    lost.iter().for_each(|path| fs::rename(away(path), path).unwrap());
}

/// A set without a record of it, so that its files must suffice.
fn bare(place: &Place, sources: &[PathBuf]) -> SetPaths {
    SetPaths { disks: at(sources), ..SetPaths::dir(place.out()) }
}

fn verdict(set: &SetPaths) -> Result<VerifyReport, Fault> {
    verify(&VerifyOptions { set: set.clone(), ..Default::default() }, &mut Silent)
}

/// Makes three small disks, and one shard for each parity of the code.
fn disks(place: &Place, code: &str) -> Vec<PathBuf> {
    let disks: Vec<PathBuf> = (0..3).map(|i| place.dir.path().join(format!("disk{i}"))).collect();
    for (i, disk) in disks.iter().enumerate() {
        fs::create_dir_all(disk.join("m")).unwrap();
        write(&disk.join("m/first"), &Seed(i as u64).bytes(5000));
        write(&disk.join("m/second"), &Seed(10 + i as u64).bytes(100));
    }
    let options = SealOptions { mode: Some(Mode::Beside), name: Some("pool".into()), ..place.options(code) };
    let options = SealOptions { block_len: Some(4096), records: None, ..options };
    seal(&SealOptions { sources: disks.clone(), ..options }, &mut Silent).unwrap();
    disks
}

fn shards_of(place: &Place) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(place.out()).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    all
}

#[test]
fn disks_come_back_beside_a_flipped_byte_of_the_metadata() {
    disks_come_back_beside_flipped_bytes(29);
}

#[test]
#[ignore = "each byte of the metadata beside each loss: a quarter of an hour"]
fn disks_come_back_beside_any_flipped_byte_of_the_metadata() {
    disks_come_back_beside_flipped_bytes(1);
}

/// Flips each `step`-th byte of the metadata; the first byte differs from loss to loss.
fn disks_come_back_beside_flipped_bytes(step: usize) {
    for (code, tolerance) in [("raid5:3", 1), ("raid6:3", 2)] {
        let place = Place::new();
        let disks = disks(&place, code);
        let shards = shards_of(&place);
        assert_eq!(shards.len(), tolerance, "{code}");
        let all: Vec<PathBuf> = disks.iter().map(|disk| disk.join("m")).chain(shards.clone()).collect();
        let set = bare(&place, &disks);
        for (number, lost) in choices(&all, tolerance).into_iter().enumerate() {
            for shard in shards.iter().filter(|shard| !lost.contains(shard)) {
                let bytes = metadata_bytes(shard);
                assert!(bytes.len() > 1500, "{code}");
                without(&lost, || {
                    for &at in bytes.iter().skip(number % step).step_by(step) {
                        let _flipped = Flipped::new(shard, at);
                        let found = verdict(&set);
                        let found = found.unwrap_or_else(|e| panic!("{code} {lost:?} {shard:?} {at}: {e}"));
                        assert!(found.recoverable, "{code} {lost:?} {shard:?} {at}: {found:?}");
                    }
                });
            }
        }
    }
}

#[test]
fn trees_come_back_beside_any_flipped_byte_of_the_metadata() {
    let place = Place::new();
    fs::create_dir_all(place.tree()).unwrap();
    write(&place.tree().join("a"), &Seed(1).bytes(9000));
    write(&place.tree().join("b"), &Seed(2).bytes(50));
    seal(&SealOptions { block_len: Some(4096), records: None, ..place.options("rs:2+2") }, &mut Silent)
        .unwrap();
    let shards = shards_of(&place);
    let set = bare(&place, &[]);
    for (number, lost) in choices(&shards, 2).into_iter().enumerate() {
        for shard in shards.iter().filter(|shard| !lost.contains(shard)) {
            let bytes = metadata_bytes(shard);
            without(&lost, || {
                for &at in bytes.iter().skip(number % 3).step_by(3) {
                    let _flipped = Flipped::new(shard, at);
                    let found = verdict(&set).unwrap_or_else(|e| panic!("{lost:?} {shard:?} {at}: {e}"));
                    assert!(found.recoverable, "{lost:?} {shard:?} {at}");
                }
            });
        }
    }
}

/// Heal repairs the findings of verify, and the set is intact afterwards.
#[test]
fn a_lost_disk_is_healed_beside_a_flipped_byte() {
    let place = Place::new();
    let disks = disks(&place, "raid5:3");
    let shard = shards_of(&place).remove(0);
    let (whole, kept) = (fs::read(&shard).unwrap(), picture(&disks[1].join("m")));
    let set = bare(&place, &disks);
    for &at in metadata_bytes(&shard).iter().step_by(61) {
        fs::remove_dir_all(disks[1].join("m")).unwrap();
        Flipped::flip(&shard, at);
        let healed = heal(&HealOptions { set: set.clone(), ..Default::default() }, &mut Silent);
        healed.unwrap_or_else(|e| panic!("{at}: {e}"));
        assert_eq!(picture(&disks[1].join("m")), kept, "{at}");
        assert!(fs::read(&shard).unwrap() == whole, "{at}");
        assert!(verdict(&set).unwrap().clean, "{at}");
    }
}

#[test]
fn a_flipped_byte_of_a_block_is_one_lost_block_and_no_more() {
    let place = Place::new();
    fs::create_dir_all(place.tree()).unwrap();
    write(&place.tree().join("a"), &Seed(1).bytes(9000));
    write(&place.tree().join("b"), &Seed(2).bytes(9000));
    seal(&SealOptions { block_len: Some(4096), records: None, ..place.options("rs:2+2") }, &mut Silent)
        .unwrap();
    let (shards, set) = (shards_of(&place), bare(&place, &[]));
    let header = ShardHeader::decode(&fs::read(&shards[0]).unwrap()).unwrap();
    let body = 8192..header.body_end().unwrap();
    for count in [0, 1, 2] {
        for lost in choices(&shards, count) {
            for shard in shards.iter().filter(|shard| !lost.contains(shard)) {
                without(&lost, || {
                    for at in body.clone().step_by(1999) {
                        let _flipped = Flipped::new(shard, at);
                        let found = verdict(&set).unwrap();
                        assert_eq!(found.recoverable, count < 2, "{lost:?} {at}");
                        // Both files can have a block in this one stripe.
                        let stripes = found.losses.iter().map(|losses| losses.stripes);
                        assert!(stripes.sum::<u64>() <= 1, "{lost:?} {at}: {:?}", found.losses);
                    }
                });
            }
        }
    }
}

/// Damages a run of bytes that is shorter than the distance between the copies, at any offset.
#[test]
fn a_run_of_64_kib_does_not_cost_the_manifest() {
    const RUN_BYTES: u64 = 64 << 10;
    let place = Place::new();
    let disks = disks(&place, "raid5:3");
    let shard = shards_of(&place).remove(0);
    let whole = fs::read(&shard).unwrap();
    let header = ShardHeader::decode(&whole).unwrap();
    let set = bare(&place, &disks);
    let end = whole.len() as u64;
    for at in (header.meta_offset..end - 4096).step_by(1021) {
        let mut bytes = whole.clone();
        let to = (at + RUN_BYTES).min(end - 4096);
        bytes[at as usize..to as usize].fill(0xa5);
        fs::write(&shard, &bytes).unwrap();
        let found = verdict(&set).unwrap_or_else(|e| panic!("{at}: {e}"));
        assert!(found.recoverable, "{at}");
    }
}

/// If both copies in the only shard are damaged, the copy beside the record is read.
#[test]
fn the_copy_beside_the_record_is_read_where_no_shard_has_one() {
    let place = Place::new();
    fs::create_dir_all(place.tree()).unwrap();
    write(&place.tree().join("a"), &Seed(1).bytes(9000));
    let options = SealOptions { mode: Some(Mode::Beside), ..place.options("raid5:3") };
    seal(&options, &mut Silent).unwrap();
    let shard = shards_of(&place).remove(0);
    let header = ShardHeader::decode(&fs::read(&shard).unwrap()).unwrap();
    header.meta_copies().into_iter().for_each(|at| spoil(&shard, at + 150, 1));
    let unknown = verdict(&bare(&place, &[])).unwrap_err();
    assert!(matches!(unknown.kind, FaultKind::Lost), "{unknown}");
    place.heal().unwrap();
    assert!(place.verify().clean);
    assert!(verdict(&bare(&place, &[])).is_ok());
    // A kept copy of another state is not used.
    header.meta_copies().into_iter().for_each(|at| spoil(&shard, at + 150, 1));
    let kept = fs::read_dir(place.records()).unwrap().map(|entry| entry.unwrap().path());
    let kept = kept.filter(|path| path.extension().is_some_and(|e| e == "manifest")).collect::<Vec<_>>();
    let [kept] = &kept[..] else { panic!("one copy: {kept:?}") };
    flip(kept, 40);
    let open = |set: &SetPaths| verdict(set).map(drop);
    assert!(matches!(open(&place.set()), Err(Fault { kind: FaultKind::Lost, .. })));
}
