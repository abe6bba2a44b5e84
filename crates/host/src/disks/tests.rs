//! Tests with a simulated system. It has two disks with partitions, a mapped device on one of them,
//! a mirror over both, and file systems of every kind.

use super::*;
use pantile_code::{Code, Placement};
use tempfile::TempDir;

const fn device(major: u64, minor: u64) -> u64 {
    major << 8 | minor
}

fn system() -> (TempDir, System) {
    let folder = tempfile::tempdir().expect("a folder");
    let sys = folder.path().join("sys");
    let make = |number: &str, at: &str| {
        let folder = sys.join("devices").join(at);
        fs::create_dir_all(folder.join("slaves")).expect("a folder");
        fs::create_dir_all(sys.join("dev/block")).expect("a folder");
        std::os::unix::fs::symlink(&folder, sys.join("dev/block").join(number)).expect("a link");
        folder
    };
    let [sda, sdb] = [("8:0", "block/sda"), ("8:16", "block/sdb")].map(|(number, at)| make(number, at));
    for (disk, serial) in [(&sda, "S1"), (&sdb, "S2")] {
        fs::create_dir(disk.join("device")).expect("a folder");
        fs::write(disk.join("device/model"), "EVO 870   \n").expect("it writes");
        fs::write(disk.join("device/vpd_pg80"), format!("\0\u{1}\0\u{2}{serial}")).expect("it writes");
    }
    for (number, at) in [("8:1", "block/sda/sda1"), ("8:2", "block/sda/sda2"), ("8:17", "block/sdb/sdb1")] {
        fs::write(make(number, at).join("partition"), "1\n").expect("it writes");
    }
    let (crypt, mirror) = (make("253:0", "virtual/block/dm-0"), make("9:0", "virtual/block/md0"));
    let on = |upper: &Path, name: &str, at: &str| {
        std::os::unix::fs::symlink(sys.join("devices").join(at), upper.join("slaves").join(name))
            .expect("a link");
    };
    on(&crypt, "sda2", "block/sda/sda2");
    on(&mirror, "sda1", "block/sda/sda1");
    on(&mirror, "sdb1", "block/sdb/sdb1");
    let mounts = [
        "36 35 0:45 / /mnt/nas rw,noatime shared:1 - nfs4 nas.local:/export/a rw,vers=4.2",
        "37 35 0:46 / /mnt/other\\040one rw - nfs4 nas.local:/export/b rw",
        "38 35 0:47 / /tmp rw shared:2 - tmpfs tmpfs rw",
        "39 35 0:48 /sub /data rw - zfs tank/data rw",
        "40 35 0:49 / /win rw - cifs //box/share rw",
        "41 35 broken",
    ]
    .join("\n");
    (folder, System { sys, mounts })
}

#[test]
fn a_disk_is_found_below_partitions_mapped_devices_and_file_systems() {
    let (_folder, system) = system();
    let block = |major, minor| {
        system.disk_of(Path::new("/x"), Identity::Block { device: device(major, minor) }).expect("a disk")
    };
    let file = |major, minor| {
        system
            .disk_of(Path::new("/x"), Identity::File { device: device(major, minor), inode: 7 })
            .expect("a disk")
    };
    let sda = Disk { name: "sda".into(), model: Some("EVO 870".into()), serial: Some("S1".into()) };
    for found in [block(8, 0), block(8, 1), block(8, 2), block(253, 0), file(8, 1), file(253, 0)] {
        assert_eq!(found, sda);
    }
    assert_eq!((block(8, 17).name, file(8, 17).serial), ("sdb".into(), Some("S2".into())));
    // A mirror survives the loss of either disk, so it counts as a separate disk.
    assert_eq!(block(9, 0).name, "md0");
    assert_eq!((file(0, 45), file(0, 46)), (Disk::named("server nas.local".into()), file(0, 45)));
    assert_eq!(file(0, 47).name, "file system at /tmp");
    assert_eq!((file(0, 48).name, file(0, 49).name), ("pool tank".into(), "server box".into()));
    assert_eq!((file(0, 99).name, block(7, 3).name), ("file system 0:99".into(), "block device 7:3".into()));
    assert_eq!(system.disk_of(Path::new("/x"), Identity::Memory { address: 1 }), None);
    assert_eq!(number(device(253, 7) | 1 << 20), "253:263");
}

fn report(spec: &str, on: &[&str]) -> DisksReport {
    let code = Code::parse(spec).expect("a spec");
    let bearing = Bearing::new(&code, Placement::spread(&code));
    let disk = |name: &&str| (!name.is_empty()).then(|| Disk::named((*name).to_string()));
    judge(&bearing, &on.iter().map(disk).collect::<Vec<_>>())
}

#[test]
fn members_on_disks_of_their_own_need_no_word() {
    let report = report("raid6:2", &["a", "b", "c", ""]);
    assert_eq!((report.disks.len(), report.losses, report.warning), (3, vec![], None));
}

#[test]
fn disks_that_protect_less_than_devices_are_one_sentence() {
    let all = report("raid6:2", &["sda"; 4]);
    let expected = "All 4 devices are on sda: its loss loses all data, although any 2 devices can fail.";
    assert_eq!(all.warning.as_deref(), Some(expected));
    let three = report("raid6:4", &["a", "a", "a", "b", "c", "d"]);
    let expected = "Devices 0, 1 and 2 are on a: the loss of this disk alone loses data, although any 2 devices can fail.";
    assert_eq!(three.warning.as_deref(), Some(expected));
    assert_eq!((three.losses[0].sets, three.losses[0].survived), (4, 3));
    let pair = report("raid6:4", &["a", "a", "b", "c", "d", "e"]);
    let expected = "Devices 0 and 1 are on a: 6 of 10 sets of 2 disks can fail, without a and b data are lost, \
                    although any 2 devices can fail.";
    assert_eq!(pair.warning.as_deref(), Some(expected));
    assert_eq!(pair.losses[0], DiskLosses { disks: 1, sets: 5, survived: 5, fatal: vec![] });
    assert_eq!(pair.losses[1].fatal.len(), 4);
    // Three parities, and two members on each disk: the loss of any one disk is tolerated, of two
    // it is not.
    let two = report("rs:3+3", &["a", "a", "b", "b", "c", "c"]);
    assert_eq!((two.losses[0].survived, two.losses[1].survived), (3, 0));
}

/// Sets beyond the tolerance count as survived if the code survives them.
#[test]
fn a_set_of_disks_counts_by_the_equations() {
    let code = Code::parse("shec:5,3,c=2").expect("a spec");
    let bearing = Bearing::new(&code, Placement::Fixed);
    let of = |on: [&str; 8]| {
        let disks = on.map(|name| Some(Disk::named(name.into())));
        judge(&bearing, &disks)
    };
    let mut found = BTreeSet::new();
    let triples = (0..8).flat_map(|a| (a + 1..8).flat_map(move |b| (b + 1..8).map(move |c| [a, b, c])));
    for shared in triples {
        let mut on = ["a", "b", "c", "d", "e", "f", "g", "h"];
        shared.iter().for_each(|&slot: &usize| on[slot] = "x");
        let slots: Vec<Slot> = shared.iter().map(|&slot| Slot(slot as u32)).collect();
        let survives = of(on).losses[0].survived == of(on).losses[0].sets;
        assert_eq!(survives, bearing.bears(&slots), "{shared:?}");
        found.insert(survives);
    }
    assert_eq!(found.len(), 2, "some triples survive, and some do not");
}
