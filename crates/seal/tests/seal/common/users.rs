//! Makes files of several users, which only root can do.

use super::{Place, Seed, write};
use pantile_seal::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::Path;

/// Any user but root.
pub const USER: u32 = 65534;

/// True for root: any other user cannot test with a second user.
pub fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: only root can make files of another user");
    }
    is_root
}

pub fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

pub fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Gives [`USER`] a path and everything below it.
pub fn give(path: &Path) {
    lchown(path, Some(USER), Some(USER)).unwrap();
    if fs::symlink_metadata(path).unwrap().is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give(&entry.unwrap().path()));
    }
}

/// Makes a sealed tree of two files that all users can read.
pub fn sealed(mode: Mode) -> Place {
    let place = Place::new();
    fs::create_dir_all(place.tree().join("d")).unwrap();
    for name in ["a", "d/b"] {
        write(&place.tree().join(name), &Seed(name.len() as u64).bytes(20_000));
        set_mode(&place.tree().join(name), 0o644);
    }
    seal(&SealOptions { mode: Some(mode), ..place.options("rs:3+2") }, &mut Silent).unwrap();
    place
}
