//! Claim: extended attributes and ACLs are sealed, restored and kept by healing, and nobody may do
//! more with what is restored than before.

use crate::common::*;
use pantile_seal::*;
use rustix::fs::{XattrFlags, getxattr, listxattr, setxattr};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

const ACL: &str = "system.posix_acl_access";
const DEFAULT_ACL: &str = "system.posix_acl_default";

/// Owner rw, user 1 as told, group r, mask as told, others nothing.
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

/// Files and directories with attributes; the paths that have some.
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
fn what_is_restored_has_its_attributes_and_no_wider_rights() {
    let place = Place::new();
    let paths = tree(&place);
    let before = rights(&place.tree(), &paths);
    assert_eq!((before["secret"].0.len(), before["plain"].0.len(), before["secret"].1), (3, 0, 0o660));
    seal(&place.options("rs:3+2"), &mut Silent).unwrap();
    // What would be inherited from the directory that it is restored to is not what was sealed.
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
    // One was given other rights since: healing its content keeps these.
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
    // Times of directories come back with them.
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
    // Version 1 cannot say them: nothing is pretended.
    let place = Place::new();
    tree(&place);
    let options = SealOptions { version: Some(Version::V1), ..place.options("rs:3+2") };
    seal(&options, &mut Silent).unwrap();
    assert_eq!(place.reseal().generation, 1);
}

/// The umask of this test is that of whoever runs it.
#[test]
fn without_modes_what_is_made_anew_has_no_bit_that_the_umask_denies() {
    let umask = disk::Disk::umask(&disk::SystemDisk::new());
    let place = Place::new();
    let paths = tree(&place);
    for (path, bits) in [("secret", 0o660), ("plain", 0o666), ("dir", 0o1777), ("dir/sub/f", 0o6777)] {
        fs::set_permissions(place.tree().join(path), fs::Permissions::from_mode(bits)).unwrap();
    }
    let before = rights(&place.tree(), &paths);
    let options = SealOptions { mode: Some(Mode::Beside), ..place.options("rs:3+2") };
    seal(&options, &mut Silent).unwrap();
    // One that is there keeps its own rights, whatever the umask denies.
    flip(&place.tree().join("plain"), 5000);
    fs::remove_file(place.tree().join("secret")).unwrap();
    place.heal().unwrap();
    assert_eq!(mode(&place.tree().join("plain")), 0o666);
    fs::remove_dir_all(place.tree().join("dir")).unwrap();
    place.heal().unwrap();
    let healed = rights(&place.tree(), &paths);
    for path in ["secret", "dir", "dir/inherits", "dir/sub", "dir/sub/f"] {
        assert_eq!(healed[path].1, before[path].1 & !umask & !0o6000, "{path}");
    }
    // What is made in the directory later asks its ACL, not the umask.
    let denied = |shift: u32| !(umask >> shift) as u16 & 7;
    let inherited = &healed["dir"].0[DEFAULT_ACL];
    assert_eq!(*inherited, acl(7 & denied(3), 7 & denied(3)));
    assert!(place.verify().clean);
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
