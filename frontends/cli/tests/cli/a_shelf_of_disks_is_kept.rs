//! Disks with files, and disks with their parity: what goes wrong with them, and which command
//! helps.

use crate::common::*;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, UNIX_EPOCH};

/// Bytes that no other seed has.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(next).collect()
}

/// Makes disks `d1` to `d3`, each a folder with five files, and their parities in `p` and `q`.
fn sealed_shelf() -> Place {
    let shelf = Place::empty();
    for disk in 1..=3u64 {
        fs::create_dir(shelf.path(&format!("d{disk}"))).expect("made");
        for file in 1..=5u64 {
            let path = shelf.path(&format!("d{disk}/f{file}"));
            let bytes = noise(20_000 + 1000 * file as usize, disk * 10 + file);
            fs::write(&path, bytes).expect("written");
            let time = UNIX_EPOCH + Duration::new(1_700_000_000 + disk * 10 + file, 123_456_789);
            fs::File::options().write(true).open(path).expect("opened").set_modified(time).expect("set");
        }
    }
    let seal = ["seal", "d1", "d2", "d3", "--name", "s", "--code", "raid6", "--beside"];
    shelf.good(&[&seal[..], &["--out", "p", "--out", "q"]].concat());
    shelf
}

/// Runs a script with mounts of its own; `None` if this machine permits none.
fn with_mounts(shelf: &Place, script: &str) -> Option<Output> {
    let is_possible = shelf.shell("unshare", &["-rm", "true"]).status.success();
    let script = script.replace("PANTILE", env!("CARGO_BIN_EXE_pantile"));
    is_possible.then(|| shelf.shell("unshare", &["-rm", "sh", "-c", &script]))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn overwrite(path: &Path, at: u64) {
    let file = fs::File::options().write(true).open(path).expect("opened");
    file.write_all_at(&[0x55; 4096], at).expect("written");
}

/// Two disks and a parity are lost: each of the three, as a whole, suffices.
#[test]
fn bringing_back_what_the_verdict_names_restores_every_file() {
    let shelf = sealed_shelf();
    for disk in ["d1", "d2", "q"] {
        fs::rename(shelf.path(disk), shelf.path(&format!("{disk}-away"))).expect("renamed");
        fs::create_dir(shelf.path(disk)).expect("made");
    }
    let advice = "bring back any 1 of d1 (5 files), d2 (5 files), shard 4.";
    for command in ["verify", "heal"] {
        let run = shelf.run(&[command, "p"]);
        assert!(run.status == 2 && run.stderr.contains(advice), "{command}: {}", run.stderr);
    }
    fs::remove_dir(shelf.path("d2")).expect("removed");
    fs::rename(shelf.path("d2-away"), shelf.path("d2")).expect("renamed");
    shelf.good(&["heal", "p", "--out", "q"]);
    for file in 1..=5u64 {
        let bytes = fs::read(shelf.path(&format!("d1/f{file}"))).expect("restored");
        assert_eq!(bytes, noise(20_000 + 1000 * file as usize, 10 + file));
    }
}

/// Shards 0 to 2 are rotten in an early stripe, and 1 to 3 in a late one: 0 restores the first
/// alone.
#[test]
fn a_shard_that_restores_some_stripes_alone_is_not_named() {
    let shelf = Place::empty();
    fs::write(shelf.path("f"), noise(2 * 64 * 4096, 1)).expect("written");
    shelf.good(&["seal", "f", "--code", "rs:2+2", "--block", "4K", "--out", "shards"]);
    for column in 0..4u64 {
        let shard = shelf.path(&format!("shards/f.{column:02}.shard"));
        for at in [40_960, 204_800].iter().skip(usize::from(column == 3)).take(2 - usize::from(column == 0)) {
            overwrite(&shard, *at);
        }
    }
    for command in ["verify", "heal"] {
        let run = shelf.run(&[command, "shards"]);
        assert!(run.stderr.contains("; bring back 1 of columns 0-3: {1} or {2}."), "{}", run.stderr);
    }
}

#[test]
fn replaced_blocks_beside_their_file_are_not_sealed() {
    let shelf = sealed_shelf();
    for name in
        ["f1.replaced-blocks", "f1.replaced-blocks.1", "alone.replaced-blocks", "f1.replaced-blocks.x"]
    {
        fs::write(shelf.path(&format!("d1/{name}")), "blocks").expect("written");
    }
    let sealed = shelf.good(&["seal", "--out", "p"]);
    assert!(sealed.contains("2 paths added"), "{sealed}");
    let listed = shelf.good(&["info", "p", "--files"]);
    assert!(
        listed.contains("d1/alone.replaced-blocks") && listed.contains("d1/f1.replaced-blocks.x"),
        "{listed}"
    );
    assert!(!listed.contains("f1.replaced-blocks\n") && !listed.contains("f1.replaced-blocks.1"), "{listed}");
    shelf.good(&["verify", "p"]);
}

#[test]
fn sealing_every_set_quietly_says_nothing_if_all_is_well() {
    let shelf = sealed_shelf();
    let shown = shelf.directory.path().display().to_string();
    let config = format!(
        "state = '{shown}/state'\n[set.s]\npaths = ['{shown}/d1', '{shown}/d2', '{shown}/d3']\nout = ['{shown}/p', '{shown}/q']\nbeside = true\n"
    );
    fs::write(shelf.path("pantile.toml"), config).expect("written");
    assert!(shelf.good(&["seal", "--all=pantile.toml"]).contains("generation"));
    for quiet in ["--quiet", "-q"] {
        let run = shelf.run(&["seal", "--all=pantile.toml", quiet]);
        assert_eq!((run.status, run.stdout + &run.stderr), (0, String::new()));
    }
    let run = shelf.run(&["seal", "--all=pantile.toml", "--dry-run"]);
    assert!(run.status == 2 && run.stderr.contains("cannot be used with"), "{}", run.stderr);
    let run = shelf.run(&["seal", "d1"]);
    assert!(run.status == 2 && run.stderr.contains("--out"), "{}", run.stderr);
}

#[test]
fn a_refusal_names_the_set_in_a_command_that_runs() {
    let shelf = sealed_shelf();
    for arguments in [&["heal", "p", "--", "nothing"][..], &["heal", "p", "--include", "nothing"]] {
        let run = shelf.run(arguments);
        assert_fault(&run, 2, &["fits 'nothing'", "'pantile info ", "--files'"], "heal");
        assert_eq!(shelf.follow(&run.stderr.replacen("'nothing'", "", 1)), 1, "{}", run.stderr);
    }
    // A second set is in the same folder, so that the command has to name this one.
    shelf.good(&["seal", "d1", "--name", "t", "--code", "raid5:2", "--out", "p"]);
    fs::remove_file(shelf.path("q/s.04.shard")).expect("removed");
    let run = shelf.run(&["seal", "d1", "d2", "d3", "--name", "s", "--out", "p"]);
    assert_fault(&run, 1, &["columns 4", "'pantile heal ", "--name s'"], "seal");
    assert_eq!(shelf.follow(&run.stderr), 1, "{}", run.stderr);
    overwrite(&shelf.path("q/s.04.shard"), 0);
    overwrite(&shelf.path("q/s.04.shard"), 4096);
    let run = shelf.run(&["seal", "d1", "d2", "d3", "--name", "s", "--out", "p"]);
    assert_fault(&run, 1, &["cannot be used", "'pantile heal "], "seal");
    assert_eq!(shelf.follow(&run.stderr), 1, "{}", run.stderr);
    shelf.good(&["seal", "d1", "d2", "d3", "--name", "s", "--out", "p"]);
}

#[test]
fn rot_that_a_seal_reads_is_named_with_the_command_that_repairs_it() {
    let shelf = Place::empty();
    fs::write(shelf.path("f"), noise(4 * 16 * 4096, 1)).expect("written");
    shelf.good(&["seal", "f", "--code", "rs:4+2", "--block", "4K", "--out", "p"]);
    // Parity of the first two stripes is rotten; the file changes in the first alone.
    overwrite(&shelf.path("p/f.04.shard"), 8192);
    overwrite(&shelf.path("p/f.04.shard"), 12_288);
    overwrite(&shelf.path("f"), 0);
    let run = shelf.run(&["seal", "--out", "p", "--quiet"]);
    assert_eq!((run.status, run.stdout.lines().count()), (1, 1), "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("/p/f.04.shard has wrong blocks"), "{}", run.stdout);
    assert_eq!(shelf.run(&["verify", "p"]).status, 1);
    assert_eq!(shelf.follow(&run.stdout), 1, "{}", run.stdout);
    shelf.good(&["verify", "p"]);
    overwrite(&shelf.path("f"), 4096);
    assert_eq!(shelf.good(&["seal", "--out", "p", "--quiet"]), "");
}

/// `bare` and `d1` are mount points by `/etc/fstab`, and their disks are not mounted.
#[test]
fn a_disk_of_fstab_that_is_not_mounted_is_not_written_to() {
    let shelf = sealed_shelf();
    let script = "seal='PANTILE seal d1 d2 d3 --name new --code raid6 --beside --out real --out'
        for disk in bare d1; do echo UUID=1 $PWD/$disk ext4 defaults 0 0 >> fstab; done
        mkdir bare real none; mount --bind fstab /etc/fstab || exit 9
        $seal bare/new; echo sealed: $?; $seal bare/new --dry-run; echo rehearsed: $?
        rm q/s.04.shard; PANTILE heal p --out bare; echo healed: $?; ls -A bare real
        PANTILE heal p --out bare --yes; echo wanted: $?
        mount --bind none d1; umount d1; rm d1/*; PANTILE heal p; echo emptied: $?; ls -A d1
        mount -t tmpfs none d1; PANTILE heal p; echo replaced: $?
        mount -t tmpfs none bare; $seal bare/new; echo mounted: $?";
    let Some(output) = with_mounts(&shelf, script) else { return };
    let text = said(&output);
    for end in ["sealed: 2", "rehearsed: 2", "healed: 3\nbare:\n\nreal:\n", "wanted: 0", "emptied: 3\n"] {
        assert!(text.contains(end), "{end}: {text}");
    }
    assert!(text.contains("replaced: 0") && text.contains("mounted: 0"), "{text}");
    assert_eq!(text.matches("/bare, which is in /etc/fstab").count(), 4, "{text}");
}

#[test]
fn a_disk_without_space_for_its_parity_is_refused_before_the_code_is_changed() {
    let shelf = sealed_shelf();
    fs::create_dir(shelf.path("d4")).expect("made");
    fs::write(shelf.path("d4/large"), noise(4 << 20, 9)).expect("written");
    let script = "mount -t tmpfs -o size=3m none q; cp -a p-copy/. q; \
                  PANTILE seal d1 d2 d3 d4 --name s --out p; echo sealed: $?; ls p q; PANTILE info p";
    fs::rename(shelf.path("q"), shelf.path("p-copy")).expect("renamed");
    fs::create_dir(shelf.path("q")).expect("made");
    let Some(output) = with_mounts(&shelf, script) else { return };
    let text = said(&output);
    assert!(text.contains("sealed: 2") && text.contains("Nothing was changed"), "{text}");
    assert!(text.contains("raid6:3") && !text.contains("raid6:4") && !text.contains("s.05.shard"), "{text}");
}

#[test]
fn disks_that_exchanged_their_mount_points_are_named_and_not_overwritten() {
    for (command, has_other_names) in [("heal", true), ("heal", false), ("seal", true), ("verify", false)] {
        let shelf = sealed_shelf();
        for file in (1..=5).filter(|_| has_other_names) {
            let [from, to] = ["f", "g"].map(|name| shelf.path(&format!("d2/{name}{file}")));
            fs::rename(from, to).expect("renamed");
        }
        shelf.good(&["seal", "--out", "p", "--removed-max", "100%"]);
        for (from, to) in [("d1", "d"), ("d2", "d1"), ("d", "d2")] {
            fs::rename(shelf.path(from), shelf.path(to)).expect("renamed");
        }
        let run = match command {
            "seal" => shelf.run(&["seal", "--out", "p"]),
            command => shelf.run(&[command, "p"]),
        };
        let shown = shelf.directory.path().display().to_string();
        let there = [format!("--disk d1={shown}/d2"), format!("--disk d2={shown}/d1")];
        assert_fault(&run, 2, &["exchanged", &there[0], &there[1]], command);
        assert_eq!(shelf.follow(&run.stderr), 1, "{}", run.stderr);
        for disk in ["d1", "d2"] {
            assert_eq!(fs::read_dir(shelf.path(disk)).expect("listed").count(), 5, "{command}");
        }
        shelf.good(&["verify", "p"]);
    }
}

#[test]
fn a_directory_for_which_no_shard_is_left_is_refused() {
    let shelf = sealed_shelf();
    let more = ["--out", "p", "--out", "q", "--out", "r"];
    let again = shelf.run(&[&["seal", "--name", "s"][..], &more].concat());
    let first =
        shelf.run(&[&["seal", "d1", "--name", "t", "--code", "raid6", "--beside"][..], &more].concat());
    for refused in [again, first] {
        assert_eq!(refused.status, 2, "{}{}", refused.stdout, refused.stderr);
        assert!(refused.stderr.contains("has 2 shards in this set, and 3 directories are named"));
    }
    assert!(
        !shelf.path("r/s.05.shard").exists() && fs::read_dir(shelf.path("r")).map_or(0, Iterator::count) == 0
    );
}

#[test]
fn a_named_file_that_was_changed_is_left_alone_with_status_1() {
    let shelf = sealed_shelf();
    fs::write(shelf.path("d2/f3"), noise(23_000, 99)).expect("written");
    let left = shelf.run(&["heal", "p", "--", "d2/f3"]);
    assert_eq!(left.status, 1, "{}{}", left.stdout, left.stderr);
    assert!(left.stdout.contains("or move it away and heal again for the sealed one"), "{}", left.stdout);
    fs::rename(shelf.path("d2/f3"), shelf.path("away")).expect("moved");
    shelf.good(&["heal", "p", "--", "d2/f3"]);
    assert_eq!(fs::read(shelf.path("d2/f3")).expect("healed"), noise(23_000, 23));
}

#[test]
fn a_parity_disk_that_gets_another_place_is_found_from_both() {
    let shelf = sealed_shelf();
    fs::remove_dir_all(shelf.path("p")).expect("lost");
    shelf.good(&["heal", "q", "--out", "r"]);
    for dir in ["q", "r"] {
        shelf.good(&["verify", dir]);
        fs::write(shelf.path("d1/f1"), noise(21_000, dir.len() as u64)).expect("written");
        shelf.good(&["seal", "--out", dir, "--accept-changes"]);
    }
    fs::remove_dir_all(shelf.path("r")).expect("lost");
    fs::create_dir(shelf.path("r")).expect("an empty disk");
    shelf.good(&["heal", "q"]);
    shelf.good(&["verify", "r"]);
}

/// The parity disks have room for a journal of one file, and four are deleted and one is added.
#[test]
fn files_are_deleted_and_added_beside_parity_disks_that_are_nearly_full() {
    let shelf = Place::empty();
    for disk in 1..=3u64 {
        fs::create_dir(shelf.path(&format!("d{disk}"))).expect("made");
        for file in 1..=5u64 {
            let path = shelf.path(&format!("d{disk}/f{file}"));
            fs::write(path, noise(600_000, disk * 10 + file)).expect("written");
        }
    }
    fs::write(shelf.path("new"), noise(500_000, 99)).expect("written");
    let script = "mkdir p q; for disk in p q; do mount -t tmpfs -o size=6m none $disk; done
        PANTILE seal d1 d2 d3 --name s --code raid6 --beside --out p --out q --block 4K; echo first: $?
        for disk in p q; do head -c 1300000 /dev/zero > $disk/other; done
        rm d1/f1 d1/f3 d1/f5 d2/f4; mv new d1/f6
        PANTILE seal --out p --removed-max 100%; echo again: $?; rm -r d3; mkdir d3
        PANTILE heal p --yes; echo healed: $?; PANTILE verify p; echo verified: $?; ls -A p q";
    let Some(output) = with_mounts(&shelf, script) else { return };
    let text = said(&output);
    for end in ["first: 0", "again: 0", "healed: 0", "verified: 0"] {
        assert!(text.contains(end), "{end}: {text}");
    }
    assert!(text.contains("1 path added, 0 changed, 4 removed"), "{text}");
    assert!(!text.contains("journal"), "{text}");
    assert_eq!(fs::read(shelf.path("d3/f2")).expect("healed"), noise(600_000, 32));
}

/// The first parity disk has no room for a journal, and the second has.
#[test]
fn a_commit_is_prepared_on_the_parity_disk_that_has_room() {
    let shelf = sealed_shelf();
    for disk in ["p", "q"] {
        fs::rename(shelf.path(disk), shelf.path(&format!("{disk}-copy"))).expect("renamed");
        fs::create_dir(shelf.path(disk)).expect("made");
    }
    let script = "mount -t tmpfs -o size=1200k none p; mount -t tmpfs -o size=8m none q
        cp -a p-copy/. p; cp -a q-copy/. q; head -c 900000 /dev/zero > p/other; df p
        cat d1/f2 d1/f3 d1/f4 > d1/f5; head -c 40000 d2/f1 >> d1/f5; touch q/s.journal.tmp
        PANTILE seal --out p --accept-changes; echo sealed: $?; PANTILE verify q; echo verified: $?; ls -A p q";
    let Some(output) = with_mounts(&shelf, script) else { return };
    let text = said(&output);
    assert!(text.contains("sealed: 0") && text.contains("verified: 0"), "{text}");
    assert!(!text.contains("journal"), "{text}");
}

#[test]
fn the_status_of_info_is_that_of_a_set_with_a_loss() {
    let shelf = sealed_shelf();
    assert_eq!(shelf.run(&["info", "p"]).status, 0);
    fs::remove_file(shelf.path("q/s.04.shard")).expect("removed");
    let run = shelf.run(&["info", "p"]);
    assert_eq!(run.status, 1, "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("Verdict: "), "{}", run.stdout);
    assert_eq!(shelf.run(&["info", "p", "--json"]).status, 1);
    assert_eq!(shelf.follow(&run.stdout), 1, "{}", run.stdout);
    assert_eq!(shelf.run(&["info", "p"]).status, 0);
    for disk in ["d1", "d2", "q"] {
        fs::rename(shelf.path(disk), shelf.path(&format!("{disk}-away"))).expect("renamed");
    }
    let run = shelf.run(&["info", "p"]);
    assert_eq!((run.status, shelf.run(&["verify", "p"]).status), (2, 2), "{}{}", run.stdout, run.stderr);
}

#[test]
fn a_disk_of_which_the_top_folder_was_renamed_is_not_gone() {
    let shelf = sealed_shelf();
    fs::create_dir(shelf.path("d1/top")).expect("made");
    for file in 1..=5 {
        let [from, to] = ["d1", "d1/top"].map(|dir| shelf.path(&format!("{dir}/f{file}")));
        fs::rename(from, to).expect("renamed");
    }
    shelf.good(&["seal", "--out", "p"]);
    fs::rename(shelf.path("d1/top"), shelf.path("d1/other")).expect("renamed");
    let run = shelf.run(&["info", "p"]);
    assert!(run.status == 0 && !run.stdout.contains("gone"), "{}", run.stdout);
    let run = shelf.run(&["verify", "p"]);
    assert!(run.status == 1 && !run.stdout.contains("gone"), "{}", run.stdout);
    assert!(!run.stdout.contains("mounted"), "{}", run.stdout);
}

#[test]
fn an_empty_disk_at_a_mount_point_is_called_empty() {
    let shelf = sealed_shelf();
    let script = "mount -t tmpfs none d1; PANTILE verify p; echo verified: $?
        PANTILE heal p --dry-run | tail -3; PANTILE heal p; echo healed: $?; PANTILE verify p; echo whole: $?";
    let Some(output) = with_mounts(&shelf, script) else { return };
    let text = said(&output);
    for end in ["verified: 1", "healed: 0", "whole: 0"] {
        assert!(text.contains(end), "{end}: {text}");
    }
    assert!(!text.contains("or a new one, is mounted there") && !text.contains("is /"), "{text}");
    assert_eq!(text.matches("d1, where an empty disk is mounted").count(), 1, "{text}");
}

#[test]
fn a_command_that_is_proposed_for_a_set_names_each_disk_once() {
    let shelf = sealed_shelf();
    fs::create_dir(shelf.path("d4")).expect("made");
    fs::write(shelf.path("d4/f1"), noise(20_000, 41)).expect("written");
    let run = shelf.run(&["seal", "d1", "d2", "d3", "d4", "--out", "p"]);
    assert_fault(&run, 2, &["there is no set named 'd1'"], "seal");
    assert_eq!(run.stderr.matches("d2").count(), 2, "{}", run.stderr);
    assert_eq!(shelf.follow(&run.stderr), 1, "{}", run.stderr);
    assert!(shelf.good(&["info", "p"]).contains("raid6:4"));
}

#[test]
fn a_machine_without_a_record_is_told_the_names_of_the_disks() {
    let shelf = sealed_shelf();
    fs::write(shelf.path("d1/f9"), noise(20_000, 19)).expect("written");
    let elsewhere = |command: &str| {
        let script = format!("export XDG_STATE_HOME=$PWD/none; {command}");
        let run = shelf.shell(
            "sh",
            &["-c", &script.replace("pantile ", &format!("{} ", env!("CARGO_BIN_EXE_pantile")))],
        );
        (run.status.code(), said(&run))
    };
    let (status, text) = elsewhere("pantile seal --out p");
    assert!(status == Some(2) && text.contains("no record") && text.contains("--disk d3="), "{text}");
    let proposed = text.split('\'').find(|part| part.starts_with("pantile seal")).expect("a command");
    assert_eq!(elsewhere(proposed).0, Some(0), "{text}");
    let (status, text) = elsewhere("pantile seal --out p");
    assert_eq!(status, Some(0), "{text}");
}

#[test]
fn a_disk_that_is_given_a_second_name_is_refused_with_its_own() {
    let shelf = sealed_shelf();
    for more in [&[][..], &["--name", "s"]] {
        let run = shelf.run(&[&["seal", "--disk", "films=d1", "--out", "p"], more].concat());
        assert_fault(&run, 2, &["is called d1", "--disk d1="], "seal");
    }
}

#[test]
fn files_that_were_moved_to_another_disk_do_not_count_as_removed() {
    let shelf = sealed_shelf();
    for file in 6..=40u64 {
        fs::write(shelf.path(&format!("d1/f{file}")), noise(5000 + file as usize, file)).expect("written");
    }
    shelf.good(&["seal", "--out", "p"]);
    for file in 6..=40u64 {
        let to = if file % 2 == 0 { "d2" } else { "d3" };
        fs::rename(shelf.path(&format!("d1/f{file}")), shelf.path(&format!("{to}/g{file}"))).expect("moved");
    }
    let sealed = shelf.good(&["seal", "--out", "p"]);
    assert!(sealed.contains("35 paths added"), "{sealed}");
    shelf.good(&["verify", "p"]);
    // Of as many files that are gone without a trace most are not.
    for file in 6..=40u64 {
        let from = if file % 2 == 0 { "d2" } else { "d3" };
        fs::remove_file(shelf.path(&format!("{from}/g{file}"))).expect("removed");
    }
    assert_fault(&shelf.run(&["seal", "--out", "p"]), 2, &["are gone", "--removed-max 100%"], "seal");
}
