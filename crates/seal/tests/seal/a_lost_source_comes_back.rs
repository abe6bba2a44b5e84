//! Claim: if several sources are sealed beside their files, each counts as a disk: any t of them
//! that are lost whole are recovered, whatever their sizes.

use crate::common::fault::{FaultDisk, Faults};
use crate::common::*;
use pantile_seal::*;
use std::fs;
use std::path::{Path, PathBuf};

/// Makes sources of unequal sizes in a place, the smallest first.
fn disks(place: &Place, count: usize, seed: u64) -> Vec<PathBuf> {
    (0..count).map(|i| disk(place, i, 3 + 2 * i, seed)).collect()
}

fn disk(place: &Place, number: usize, files: usize, seed: u64) -> PathBuf {
    let mut seed = Seed(seed + number as u64);
    let disk = place.dir.path().join(format!("disk{number}"));
    fs::create_dir_all(disk.join("sub")).unwrap();
    for file in 0..files {
        let dir = if file % 3 == 0 { disk.join("sub") } else { disk.clone() };
        let len = seed.below(60_000) as usize;
        write(&dir.join(format!("f{file:02}")), &seed.bytes(len));
    }
    std::os::unix::fs::symlink("f01", disk.join("link")).unwrap();
    age(&disk.join("sub"), 1_600_000_000);
    disk
}

fn options(place: &Place, disks: &[PathBuf], code: &str, checksums: bool) -> SealOptions {
    let mut options = SealOptions::new(disks.to_vec(), place.out());
    options.code = Some(code_of(code));
    options.mode = Some(Mode::Beside);
    options.checksums = Some(checksums);
    options.block_len = Some(4096);
    options.name = Some("all".into());
    options.records = Some(place.records());
    options
}

/// Returns the files and links with their content. Directories are excluded, since a restored one
/// gets a new mtime.
fn content(disk: &Path) -> Vec<(PathBuf, String)> {
    picture(disk).into_iter().filter(|(_, text)| !text.starts_with("dir")).collect()
}

fn choices(n: usize, size: usize) -> impl Iterator<Item = Vec<usize>> {
    (0..1u32 << n)
        .filter(move |bits| bits.count_ones() as usize == size)
        .map(move |bits| (0..n).filter(|i| bits >> i & 1 == 1).collect())
}

/// Loses every combination of `tolerance` whole disks, one after the other, and heals each loss.
fn lose_and_heal(place: &Place, disks: &[PathBuf], tolerance: usize, what: &str) {
    let before: Vec<_> = disks.iter().map(|disk| content(disk)).collect();
    for lost in choices(disks.len(), tolerance) {
        // Healed files count as touched; without checksums, files computed from them would be
        // doubtful.
        make_shards_younger(place);
        for &i in &lost {
            fs::remove_dir_all(&disks[i]).unwrap();
            // The new disk in its place is empty.
            fs::create_dir(&disks[i]).unwrap();
        }
        // The new directory is not the sealed one, so the user who heals confirms its place.
        let set = SetPaths { disks: at(disks), ..place.set() };
        heal(&HealOptions { set, ..Default::default() }, &mut Silent)
            .unwrap_or_else(|error| panic!("{what}, {lost:?} lost: {error}"));
        let after: Vec<_> = disks.iter().map(|disk| content(disk)).collect();
        assert!(after == before, "{what}, {lost:?} lost");
    }
    assert!(place.verify().clean, "{what}");
}

#[test]
fn any_t_of_three_and_of_six_sources_come_back() {
    for (code, count, tolerance) in [
        ("raid5:3", 3, 1),
        ("raid6:3", 3, 2),
        ("cauchy:3+3", 3, 3),
        ("raid5:6", 6, 1),
        ("raid6:6", 6, 2),
        ("raidq:6+3", 6, 3),
        ("rdp:5", 3, 2),
    ] {
        let place = Place::new();
        let disks = disks(&place, count, 7);
        let report = seal(&options(&place, &disks, code, true), &mut Silent).unwrap();
        assert_eq!(report.exposed_count, 0, "{code}");
        lose_and_heal(&place, &disks, tolerance, code);
    }
}

#[test]
fn without_checksums_too() {
    let place = Place::new();
    let disks = disks(&place, 4, 3);
    seal(&options(&place, &disks, "raid6:4", false), &mut Silent).unwrap();
    lose_and_heal(&place, &disks, 2, "raid6:4 without checksums");
}

#[test]
fn a_code_gets_as_many_data_columns_as_there_are_sources_or_says_that_it_cannot() {
    let place = Place::new();
    let disks = disks(&place, 5, 11);
    let report = seal(&options(&place, &disks, "raid6:3", true), &mut Silent).unwrap();
    assert_eq!((report.code.as_str(), report.widened_from.as_deref()), ("raid6:5", Some("raid6:3")));
    lose_and_heal(&place, &disks, 2, "raid6:3 made wider");
    let place = Place::new();
    let disks = self::disks(&place, 5, 12);
    let error = seal(&options(&place, &disks, "rs:3+2", true), &mut Silent).unwrap_err();
    assert!(error.what.contains("each of 5 sources") && error.what.contains("has 3,"), "{error}");
    assert!(!place.out().exists());
}

#[test]
fn files_that_come_grow_and_move_stay_on_the_columns_of_their_source() {
    let place = Place::new();
    let disks = disks(&place, 3, 20);
    let options = options(&place, &disks, "raid6:3", true);
    seal(&options, &mut Silent).unwrap();
    for round in 0..3u64 {
        for (i, disk) in disks.iter().enumerate() {
            let mut seed = Seed(round * 10 + i as u64);
            let len = seed.below(90_000) as usize;
            write(&disk.join(format!("new{round}")), &seed.bytes(len));
            write(&disk.join("f01"), &seed.bytes(20_000 * (round as usize + 1)));
        }
        // The file moves to another disk: its content was sealed, but on the columns of its former
        // disk.
        fs::rename(disks[0].join(format!("new{round}")), disks[2].join(format!("moved{round}"))).unwrap();
        seal(&options, &mut Silent).unwrap();
        lose_and_heal(&place, &disks, 2, &format!("round {round}"));
    }
}

#[test]
fn sources_are_added_and_forgotten_at_their_own_cost() {
    for (code, wider) in [("raid6:5", "raid6:5"), ("raid6:3", "raid6:4"), ("cauchy:3+2", "cauchy:4+2")] {
        let place = Place::new();
        let mut disks = disks(&place, 3, 40);
        let first = seal(&options(&place, &disks, code, true), &mut Silent).unwrap();
        // One more source is added, and the sources are named in another order.
        disks.push(disk(&place, 3, 5, 50));
        let turned: Vec<PathBuf> = disks.iter().rev().cloned().collect();
        let report = seal(&options(&place, &turned, code, true), &mut Silent).unwrap();
        assert_eq!(report.code, wider);
        assert_eq!(report.widened_from.is_some(), code != wider, "{code}");
        assert_eq!((report.changed, report.removed), (0, 0));
        lose_and_heal(&place, &disks, 2, code);
        let bytes = |disk: &PathBuf| -> u64 {
            let files = picture(disk).into_keys().map(|path| fs::symlink_metadata(disk.join(path)).unwrap());
            files.filter(|meta| meta.is_file()).map(|meta| meta.len()).sum()
        };
        // Only the new source was read, and parity of its length.
        assert!(report.source_bytes_read <= 2 * bytes(&disks[3]), "{report:?}");
        assert!(report.shard_bytes_read <= first.shard_bytes, "{report:?}");
        // Healed files were touched, and are read once.
        seal(&options(&place, &disks, code, true), &mut Silent).unwrap();
        // A source that is not named is not forgotten by accident.
        let gone = disks.remove(1);
        let fewer = options(&place, &disks, code, true);
        let error = seal(&fewer, &mut Silent).unwrap_err();
        assert!(error.path.as_ref() == Some(&gone) && error.hint.contains("--forget"), "{error}");
        let forgotten = seal(&SealOptions { forget: true, ..fewer.clone() }, &mut Silent).unwrap();
        assert!(forgotten.removed > 0 && forgotten.added == 0, "{forgotten:?}");
        assert!(forgotten.source_bytes_read <= 2 * bytes(&gone), "{forgotten:?}");
        fs::remove_dir_all(&gone).unwrap();
        lose_and_heal(&place, &disks, 2, code);
        // The column of the forgotten source is free for another one.
        disks.push(disk(&place, 7, 4, 60));
        let again = seal(&options(&place, &disks, code, true), &mut Silent).unwrap();
        assert_eq!((again.code.as_str(), again.widened_from), (wider, None));
        lose_and_heal(&place, &disks, 2, code);
    }
}

#[test]
fn a_source_that_went_before_it_was_forgotten_costs_what_the_others_hold() {
    let place = Place::new();
    let mut disks = disks(&place, 3, 70);
    seal(&options(&place, &disks, "raid5:3", true), &mut Silent).unwrap();
    let gone = disks.pop().unwrap();
    fs::remove_dir_all(gone).unwrap();
    seal(&SealOptions { forget: true, ..options(&place, &disks, "raid5:3", true) }, &mut Silent).unwrap();
    lose_and_heal(&place, &disks, 1, "raid5:3");
}

#[test]
fn one_source_alone_and_shared_columns_are_as_before() {
    let place = Place::new();
    let disks = disks(&place, 3, 80);
    let shared = SealOptions { shared: true, ..options(&place, &disks, "raid5:3", true) };
    seal(&shared, &mut Silent).unwrap();
    assert!(place.verify().clean);
    let more: Vec<PathBuf> = disks.iter().cloned().chain([disk(&place, 3, 2, 1)]).collect();
    let error = seal(&options(&place, &more, "raid5:3", true), &mut Silent).unwrap_err();
    assert!(error.what.contains("was sealed from"), "{error}");
}

/// Older sets did not give each source separate columns: the reported cost of a lost disk is then
/// higher than the code suggests.
#[test]
fn the_cost_of_a_lost_disk_is_reported_for_shared_columns() {
    {
        let place = Place::new();
        let disks = disks(&place, 3, 90);
        let options = SealOptions { shared: true, ..options(&place, &disks, "raid5:3", true) };
        let report = seal(&options, &mut Silent).unwrap();
        assert!(
            report.survival.is_unborne
                && place.verify().survival.is_unborne
                && open_set(&place.set()).unwrap().survival.is_unborne
        );
        // All sources are on one device, with the shard.
        let survival = &report.survival;
        assert_eq!((survival.disks.len(), survival.promised, survival.survives), (1, 1, 0), "{survival:?}");
        assert_eq!((survival.losses[0].files_lost, survival.loss_count), (survival.files, 1));
        let before = content(&disks[2]);
        fs::remove_dir_all(&disks[2]).unwrap();
        fs::create_dir(&disks[2]).unwrap();
        let set = SetPaths { disks: at(&disks), ..place.set() };
        let healed = heal(&HealOptions { set, ..Default::default() }, &mut Silent);
        assert!(matches!(healed, Err(Fault { kind: FaultKind::TooMuchLost { .. }, .. })));
        assert!(content(&disks[2]).len() < before.len());
    }
    let place = Place::new();
    let disks = disks(&place, 3, 90);
    let report = seal(&options(&place, &disks, "raid5:3", true), &mut Silent).unwrap();
    assert!(!report.survival.is_unborne, "{report:?}");
    // With a single source, its loss together with its disk is reported as expected.
    let place = Place::new();
    let disks = self::disks(&place, 1, 91);
    let report = seal(&options(&place, &disks, "raid5:3", true), &mut Silent).unwrap();
    let survival = &report.survival;
    assert!(
        !survival.is_unborne && survival.is_one_source && survival.losses[0].files_lost > 0,
        "{report:?}"
    );
}

#[test]
fn the_top_folder_of_a_new_disk_gets_its_mode_and_time() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let place = Place::new();
    let disks = disks(&place, 3, 5);
    fs::set_permissions(&disks[1], fs::Permissions::from_mode(0o700)).unwrap();
    age(&disks[1], 1_500_000_000);
    seal(&options(&place, &disks, "raid5:3", true), &mut Silent).unwrap();
    fs::remove_dir_all(&disks[1]).unwrap();
    fs::create_dir(&disks[1]).unwrap();
    let set = SetPaths { disks: at(&disks), ..place.set() };
    heal(&HealOptions { set, ..Default::default() }, &mut Silent).unwrap();
    let meta = fs::metadata(&disks[1]).unwrap();
    assert_eq!((meta.mode() & 0o7777, meta.mtime()), (0o700, 1_500_000_000));
}

/// The folder in which a disk was mounted is now empty, and on the disk of its parent.
#[test]
fn a_disk_that_is_not_mounted_is_not_restored_into_its_folder() {
    let place = Place::new();
    let disks = disks(&place, 3, 6);
    seal(&options(&place, &disks, "raid5:3", true), &mut Silent).unwrap();
    let before = content(&disks[0]);
    fs::remove_dir_all(&disks[0]).unwrap();
    fs::create_dir(&disks[0]).unwrap();
    let healed = |yes, devices| {
        let disk = FaultDisk::new(place.dir.path(), Faults { devices, ..Faults::default() });
        let set = SetPaths { disks: at(&disks), ..place.set() };
        let options = HealOptions { set, yes, ..Default::default() };
        World { disk: &disk, threads: 1 }.heal(&options, &mut Silent)
    };
    let others: &[_] = &[("disk1", 1002), ("disk2", 1003)];
    let said = healed(false, others).unwrap_err().to_string();
    assert!(said.contains("no disk is mounted there"), "{said}");
    assert!(content(&disks[0]).is_empty());
    healed(true, others).unwrap();
    assert_eq!(content(&disks[0]), before);
    fs::remove_dir_all(&disks[0]).unwrap();
    fs::create_dir(&disks[0]).unwrap();
    healed(false, &[("disk0", 1001), ("disk1", 1002), ("disk2", 1003)]).unwrap();
    assert_eq!(content(&disks[0]), before);
}

/// A new disk has a file, such as a folder of lost files; so can a bare mount point.
#[test]
fn a_nightly_seal_does_not_forget_a_lost_disk_of_few_files() {
    let place = Place::new();
    let disks = disks(&place, 3, 7);
    seal(&options(&place, &disks, "raid5:3", true), &mut Silent).unwrap();
    let before = content(&disks[1]);
    fs::remove_dir_all(&disks[1]).unwrap();
    fs::create_dir_all(disks[1].join("lost+found")).unwrap();
    write(&disks[1].join("stray"), b"stray");
    let night = options(&place, &disks, "raid5:3", true);
    let refused = seal(&SealOptions { code: None, ..night.clone() }, &mut Silent).unwrap_err();
    assert!(refused.to_string().contains("is a disk not mounted?"), "{refused}");
    let set = SetPaths { disks: at(&disks), ..place.set() };
    heal(&HealOptions { set, ..Default::default() }, &mut Silent).unwrap();
    fs::remove_file(disks[1].join("stray")).unwrap();
    fs::remove_dir(disks[1].join("lost+found")).unwrap();
    assert_eq!(content(&disks[1]), before);
}

#[test]
fn a_nightly_seal_does_not_forget_what_heal_did_not_restore() {
    let place = Place::new();
    let disks = disks(&place, 3, 8);
    seal(&options(&place, &disks, "raid5:3", true), &mut Silent).unwrap();
    let before = content(&disks[1]);
    // More is lost than one parity restores, until a part of it is back.
    let first = |disk: &PathBuf| disk.join(&content(disk)[0].0);
    let lost = [first(&disks[0]), first(&disks[1])];
    let aside = place.dir.path().join("aside");
    fs::rename(&lost[0], &aside).unwrap();
    fs::remove_file(&lost[1]).unwrap();
    let set = SetPaths { disks: at(&disks), ..place.set() };
    let options_of_heal = HealOptions { set, ..Default::default() };
    heal(&options_of_heal, &mut Silent).unwrap_err();
    fs::rename(&aside, &lost[0]).unwrap();
    let night = SealOptions { code: None, ..options(&place, &disks, "raid5:3", true) };
    let refused = seal(&night, &mut Silent).unwrap_err();
    assert!(refused.to_string().contains("that 'heal' did not restore"), "{refused}");
    heal(&options_of_heal, &mut Silent).unwrap();
    assert_eq!(content(&disks[1]), before);
    seal(&night, &mut Silent).unwrap();
    // Files that were removed since are forgotten as always.
    fs::remove_file(&lost[1]).unwrap();
    seal(&night, &mut Silent).unwrap();
}

#[test]
fn a_folder_is_healed_as_one_disk_alone() {
    let place = Place::new();
    let disks = disks(&place, 3, 9);
    seal(&options(&place, &disks, "raid5:3", true), &mut Silent).unwrap();
    let before = content(&disks[2]);
    let mut named = at(&disks);
    named[1].path = disks[2].clone();
    let set = SetPaths { disks: named, ..place.set() };
    let refused = heal(&HealOptions { set, ..Default::default() }, &mut Silent).unwrap_err();
    assert!(refused.to_string().contains("a folder of its own"), "{refused}");
    assert_eq!(content(&disks[2]), before);
}

#[test]
fn a_source_whose_folder_is_gone_is_named_with_the_command_that_helps() {
    let place = Place::new();
    let disks = ["d1", "d 2"].map(|name| place.dir.path().join(name));
    for (at, disk) in disks.iter().enumerate() {
        fs::create_dir(disk).unwrap();
        (0..3).for_each(|i| write(&disk.join(format!("f{i}")), &Seed(10 * at as u64 + i).bytes(9000)));
    }
    let mut options = SealOptions { sources: disks.to_vec(), ..place.options("raid6:2") };
    options.mode = Some(Mode::Beside);
    seal(&options, &mut Silent).unwrap();
    fs::remove_dir_all(&disks[1]).unwrap();
    let Err(Fault { kind: FaultKind::NotHealed(report), .. }) =
        heal(&HealOptions { set: place.set(), ..Default::default() }, &mut Silent)
    else {
        panic!("it was healed into the folder above")
    };
    let [held] = report.not_healed.as_slice() else { panic!("{:?}", report.not_healed) };
    let command = format!("'mkdir -p {}'", disks[1].display().to_string().replace(' ', "\\ "));
    assert!(held.reason.contains(&command), "{}", held.reason);
    fs::create_dir(&disks[1]).unwrap();
    heal(&HealOptions { set: place.set(), ..Default::default() }, &mut Silent).unwrap();
    assert!(disks[1].join("f2").is_file());
}
