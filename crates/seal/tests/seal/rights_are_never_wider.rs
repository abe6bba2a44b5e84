//! Claim: owners, groups, modes, extended attributes and ACLs are sealed, restored and kept by
//! healing, and restored files give no user more rights than before.

use crate::common::fault::{FaultDisk, Faults};
use crate::common::users::{USER, give, is_root, set_mode};
use crate::common::*;
use pantile_seal::*;
use rustix::fs::{XattrFlags, getxattr, listxattr, setxattr};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

const ACL: &str = "system.posix_acl_access";
const DEFAULT_ACL: &str = "system.posix_acl_default";

/// Returns an ACL: the owner can read and write, user 1 and the mask as given, the group can read,
/// others nothing.
fn acl(user: u16, mask: u16) -> Vec<u8> {
    let none = u32::MAX;
    let entries = [(1u16, 6u16, none), (2, user, 1), (4, 4, none), (0x10, mask, none), (0x20, 0, none)];
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permission, id) in entries {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&permission.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

fn set(path: &Path, name: &str, value: &[u8]) {
    setxattr(path, name, value, XattrFlags::empty()).unwrap();
}

fn attributes(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut names = vec![0; 4096];
    let len = listxattr(path, &mut names[..]).unwrap();
    let names = names[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty());
    names
        .map(|name| {
            let mut value = vec![0; 4096];
            let len = getxattr(path, name, &mut value[..]).unwrap();
            (String::from_utf8(name.to_vec()).unwrap(), value[..len].to_vec())
        })
        .collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// Makes files and directories with attributes, and returns the paths that have some.
fn tree(place: &Place) -> Vec<&'static str> {
    let root = place.tree();
    fs::create_dir_all(root.join("dir/sub")).unwrap();
    for name in ["secret", "plain", "dir/inherits", "dir/sub/f"] {
        write(&root.join(name), &Seed(name.len() as u64).bytes(9000));
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(0o640)).unwrap();
    }
    set(&root.join("secret"), "user.note", b"kept");
    set(&root.join("secret"), "user.empty", b"");
    set(&root.join("secret"), ACL, &acl(6, 6));
    set(&root.join("dir"), "user.dir", &[0, 1, 255]);
    set(&root.join("dir"), DEFAULT_ACL, &acl(7, 7));
    set(&root.join("dir/inherits"), ACL, &acl(4, 4));
    vec!["secret", "plain", "dir", "dir/inherits", "dir/sub", "dir/sub/f"]
}

type Rights = BTreeMap<&'static str, (BTreeMap<String, Vec<u8>>, u32)>;

fn rights(root: &Path, paths: &[&'static str]) -> Rights {
    paths.iter().map(|&path| (path, (attributes(&root.join(path)), mode(&root.join(path))))).collect()
}

#[test]
fn restored_files_have_their_attributes_and_no_wider_rights() {
    let place = Place::new();
    let paths = tree(&place);
    let before = rights(&place.tree(), &paths);
    assert_eq!((before["secret"].0.len(), before["plain"].0.len(), before["secret"].1), (3, 0, 0o660));
    seal(&place.options("rs:3+2"), &mut Silent).unwrap();
    // New files inherit attributes from the target directory, which differ from the sealed ones.
    let _ = fs::remove_dir_all(place.target());
    fs::create_dir(place.target()).unwrap();
    set(&place.target(), DEFAULT_ACL, &acl(7, 7));
    let options = UnsealOptions {
        set: place.set(),
        target: place.target(),
        overwrite: false,
        modes: true,
        ..Default::default()
    };
    let report = unseal(&options, &mut Silent).unwrap();
    assert_eq!(report.not_kept, []);
    assert_eq!(rights(&place.target(), &paths), before);
}

#[test]
fn healing_keeps_what_a_file_has_and_gives_back_what_was_lost() {
    let place = Place::new();
    let paths = tree(&place);
    let options = SealOptions { mode: Some(Mode::Beside), ..place.options("rs:3+2") };
    seal(&options, &mut Silent).unwrap();
    // The permissions of a file were changed later: a heal of its content keeps them.
    set(&place.tree().join("secret"), ACL, &acl(4, 6));
    set(&place.tree().join("secret"), "user.note", b"another");
    let before = rights(&place.tree(), &paths);
    let times = picture(&place.tree().join("dir"));
    flip(&place.tree().join("secret"), 5000);
    let flipped = mode(&place.tree().join("secret"));
    fs::remove_dir_all(place.tree().join("dir")).unwrap();
    let options = HealOptions { set: place.set(), modes: true, ..HealOptions::default() };
    let report = heal(&options, &mut Silent).unwrap();
    assert_eq!((flipped, &report.not_kept), (0o660, &vec![]));
    assert_eq!(rights(&place.tree(), &paths), before);
    // The mtimes of directories are restored too.
    assert_eq!(picture(&place.tree().join("dir")), times);
}

#[test]
fn a_change_of_attributes_alone_is_sealed() {
    let place = Place::new();
    let paths = tree(&place);
    seal(&place.options("rs:3+2"), &mut Silent).unwrap();
    set(&place.tree().join("plain"), "user.new", b"1");
    let report = place.reseal();
    assert_eq!((report.generation, report.changed), (2, 0), "{report:?}");
    place.unseal().unwrap();
    assert_eq!(rights(&place.target(), &paths), rights(&place.tree(), &paths));
}

/// Seals a tree of odd modes, of which all but one file is lost afterwards.
fn odd_modes() -> (Place, Vec<&'static str>, Rights) {
    let place = Place::new();
    let paths = tree(&place);
    for (path, bits) in
        [("secret", 0o660), ("plain", 0o666), ("dir", 0o1777), ("dir/sub", 0o2775), ("dir/sub/f", 0o6777)]
    {
        fs::set_permissions(place.tree().join(path), fs::Permissions::from_mode(bits)).unwrap();
    }
    let before = rights(&place.tree(), &paths);
    let options = SealOptions { mode: Some(Mode::Beside), ..place.options("rs:3+2") };
    seal(&options, &mut Silent).unwrap();
    // Files that are present keep their own permissions.
    flip(&place.tree().join("plain"), 5000);
    fs::remove_file(place.tree().join("secret")).unwrap();
    place.heal().unwrap();
    assert_eq!(mode(&place.tree().join("plain")), 0o666);
    fs::remove_file(place.tree().join("secret")).unwrap();
    fs::remove_dir_all(place.tree().join("dir")).unwrap();
    (place, paths, before)
}

#[test]
fn files_with_their_owner_have_the_sealed_mode_but_for_programs() {
    for modes in [false, true] {
        let (place, paths, before) = odd_modes();
        let faults = Faults { umask: Some(0o077), ..Faults::default() };
        let disk = FaultDisk::new(place.dir.path(), faults);
        let options = HealOptions { set: place.set(), modes, ..HealOptions::default() };
        World { disk: &disk, threads: 1 }.heal(&options, &mut Silent).unwrap();
        let healed = rights(&place.tree(), &paths);
        for path in paths {
            // A directory keeps the setgid bit, which gives its group to new files.
            let denied = if path == "dir/sub/f" && !modes { 0o6000 } else { 0 };
            assert_eq!(healed[path].1, before[path].1 & !denied, "{path}, --modes {modes}");
            assert_eq!(healed[path].0, before[path].0, "{path}");
        }
        assert!(place.verify().clean);
    }
}

#[test]
fn files_without_their_owner_have_no_bit_that_the_umask_denies() {
    let (place, paths, before) = odd_modes();
    let umask = 0o027;
    let faults = Faults { umask: Some(umask), owners_stay: true, ..Faults::default() };
    let disk = FaultDisk::new(place.dir.path(), faults);
    let options = HealOptions { set: place.set(), ..HealOptions::default() };
    World { disk: &disk, threads: 1 }.heal(&options, &mut Silent).unwrap();
    let healed = rights(&place.tree(), &paths);
    for path in ["secret", "dir", "dir/inherits", "dir/sub", "dir/sub/f"] {
        assert_eq!(healed[path].1, before[path].1 & !umask & !0o6000, "{path}");
    }
    // New files in the directory later inherit its ACL instead of the umask.
    assert_eq!(healed["dir"].0[DEFAULT_ACL], acl(5, 5));
    assert!(place.verify().clean);
}

/// A user who can write to the directory puts a file of the sealed size and mtime in the place of a
/// secret file, before or during the heal of root.
#[test]
fn sealed_content_is_not_given_to_the_owner_of_a_file_in_its_place() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    fs::create_dir(place.tree()).unwrap();
    let secret = place.tree().join("secret");
    write(&secret, &Seed(1).bytes(90_000));
    set_mode(&secret, 0o600);
    age(&secret, 1_600_000_000);
    write(&place.tree().join("other"), &Seed(2).bytes(90_000));
    seal(&SealOptions { mode: Some(Mode::Beside), ..place.options("rs:3+2") }, &mut Silent).unwrap();
    let sealed = fs::read(&secret).unwrap();
    fs::remove_file(&secret).unwrap();
    write(&secret, &[7; 90_000]);
    set_mode(&secret, 0o644);
    give(&secret);
    age(&secret, 1_600_000_000);
    let report = place.heal().unwrap();
    assert_eq!(report.files_healed.len(), 1, "{report:?}");
    assert!(fs::read(&secret).unwrap() == sealed);
    let healed = fs::metadata(&secret).unwrap();
    assert_eq!((healed.uid(), healed.mode() & 0o7777), (0, 0o600));
    let aside = fs::metadata(&report.kept_aside[0]).unwrap();
    assert_eq!(aside.uid(), USER, "the other file is kept");
}

#[test]
fn root_gives_back_owners_and_groups() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let root = place.tree();
    fs::create_dir_all(root.join("share")).unwrap();
    let owned = |path: &Path| {
        let meta = fs::symlink_metadata(path).unwrap();
        (meta.uid(), meta.gid(), if meta.is_symlink() { 0 } else { meta.mode() & 0o7777 })
    };
    write(&root.join("share/letter"), &Seed(1).bytes(9000));
    write(&root.join("program"), &Seed(2).bytes(9000));
    write(&root.join("kept"), &Seed(3).bytes(9000));
    std::os::unix::fs::symlink("letter", root.join("share/link")).unwrap();
    for (path, user, group, bits) in [
        ("share", 1500, 1600, 0o2770),
        ("share/letter", 1501, 1600, 0o640),
        ("share/link", 1501, 1601, 0),
        ("program", 1500, 1600, 0o4755),
    ] {
        std::os::unix::fs::lchown(root.join(path), Some(user), Some(group)).unwrap();
        if bits > 0 {
            fs::set_permissions(root.join(path), fs::Permissions::from_mode(bits)).unwrap();
        }
    }
    let paths = ["share", "share/letter", "share/link", "program"];
    let before = paths.map(|path| owned(&root.join(path)));
    let options = SealOptions { mode: Some(Mode::Beside), ..place.options("rs:3+3") };
    seal(&options, &mut Silent).unwrap();
    for modes in [false, true] {
        fs::remove_dir_all(root.join("share")).unwrap();
        fs::remove_file(root.join("program")).unwrap();
        heal(&HealOptions { set: place.set(), modes, ..HealOptions::default() }, &mut Silent).unwrap();
        let mut expected = before;
        expected[3].2 = if modes { 0o4755 } else { 0o755 };
        assert_eq!(paths.map(|path| owned(&root.join(path))), expected, "--modes {modes}");
        assert!(place.verify().clean);
    }
    let full = SealOptions { out: place.dir.path().join("full"), ..place.options("rs:3+2") };
    seal(&full, &mut Silent).unwrap();
    let set = SetPaths::dir(&full.out);
    unseal(&UnsealOptions { set, target: place.target(), ..Default::default() }, &mut Silent).unwrap();
    let mut expected = before;
    expected[3].2 = 0o755;
    assert_eq!(paths.map(|path| owned(&place.target().join(path))), expected);
    // Only the owner changed, and it is sealed.
    std::os::unix::fs::chown(root.join("kept"), Some(1502), None).unwrap();
    assert_eq!(place.reseal().generation, 2);
    fs::remove_file(root.join("kept")).unwrap();
    place.heal().unwrap();
    assert_eq!(owned(&root.join("kept")).0, 1502);
}

#[test]
fn links_that_are_healed_have_their_times() {
    let place = Place::new();
    awkward_tree(&place.tree(), 5);
    let options = SealOptions { mode: Some(Mode::Beside), ..place.options("rs:3+2") };
    seal(&options, &mut Silent).unwrap();
    let before = picture(&place.tree().join("deep"));
    let time = |path: &Path| {
        let meta = fs::symlink_metadata(path).unwrap();
        (meta.mtime(), meta.mtime_nsec())
    };
    let (link, had) = (place.tree().join("link"), time(&place.tree().join("link")));
    fs::remove_file(&link).unwrap();
    fs::remove_dir_all(place.tree().join("deep")).unwrap();
    place.heal().unwrap();
    assert_eq!(time(&link), had);
    assert_eq!(picture(&place.tree().join("deep")), before);
}
