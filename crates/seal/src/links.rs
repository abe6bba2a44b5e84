//! Where a path leads, link by link, if nobody else has a hand in it.
//!
//! A path that a person names ([`real_path`]) goes through links of hers and root's alone. The link
//! that stands in the place of a file in a directory that she names ([`resolve`]) may also be
//! somebody else's, who owns what it leads to. `pantile_trust` has the rule.

use crate::disk::{Access, Disk, MetaKind};
use crate::names::parent;
use pantile_trust::{Caller, Found};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// A path without links, if all those on the way belong to the user who runs this or to root, and
/// lie in directories in which nobody else may put them: whoever may put a link there, or one that
/// a program of root made elsewhere, must not be able to lead somebody else away.
///
/// Between this and the opening nothing is followed any more.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    walk_links(path, false)
}

/// As [`real_path`], of something that need not be there: only the directory that it lies in.
pub fn real_place(path: &Path) -> io::Result<PathBuf> {
    walk_links(path, true)
}

/// As many links as the system follows.
const LINKS_MOST: usize = 40;

/// Where a path below a root leads: to itself, or along its links to a file that may not be there.
/// The directories that links lead to become roots to be read.
///
/// Errors: `PermissionDenied` for a link that another user put there, who does not own what it
/// leads to; of what is not there the directory counts.
pub(crate) fn resolve(disk: &dyn Disk, path: &Path) -> io::Result<PathBuf> {
    let caller = Caller::or_by_sudo();
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MOST {
        let link = match disk.meta(&path) {
            Ok(meta) if meta.kind == MetaKind::Symlink => meta,
            _ => return Ok(path),
        };
        let dir = parent(&path);
        let to = dir.join(disk.read_link(&path)?);
        let dir_meta = disk.meta(&dir)?;
        let above = disk.above(&dir).map(|above| above.iter().map(Found::from).collect::<Vec<Found>>());
        let is_followed = |owner_behind: Option<u32>| {
            let leads_to_own = !caller.trusts(link.owner) && owner_behind == Some(link.owner);
            let is_safe = leads_to_own || is_kept_on_the_way(&caller, above.as_deref().ok(), link.owner);
            is_safe && caller.follows(&link, &dir_meta, owner_behind)
        };
        // A root is kept open: asked before, by the path, and once more of what was opened.
        let by_path = fs::symlink_metadata(&to).or_else(|_| fs::metadata(parent(&to)));
        let mut is_safe = is_followed(by_path.ok().map(|meta| meta.uid()));
        if is_safe {
            // If it is not there, neither is what the link leads to.
            let _ = disk.root(&parent(&to), Access::Read);
            let behind = disk.meta(&to).or_else(|_| disk.meta(&parent(&to)));
            is_safe = is_followed(behind.ok().map(|meta| meta.owner));
        }
        if !is_safe {
            let why = format!(
                "another user may have put this link to {} there, and does not own that; name what it leads to",
                to.display()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        path = to;
    }
    Err(io::Error::other("its links lead in a circle"))
}

fn walk_links(path: &Path, may_be_missing: bool) -> io::Result<PathBuf> {
    let caller = Caller::or_by_sudo();
    let mut real = if path.is_absolute() { PathBuf::from("/") } else { std::env::current_dir()? };
    let parts = |path: &Path| -> Vec<OsString> {
        let names = path.components().rev();
        names.filter(|part| *part != Component::RootDir).map(|part| part.as_os_str().to_os_string()).collect()
    };
    // The next name is taken from the end.
    let mut todo = parts(path);
    let mut links = 0;
    while let Some(part) = todo.pop() {
        if part == OsStr::new("..") {
            real.pop();
            continue;
        }
        if part == OsStr::new(".") {
            continue;
        }
        real.push(&part);
        let meta = match fs::symlink_metadata(&real) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && may_be_missing && todo.is_empty() => {
                break;
            }
            found => found?,
        };
        if !meta.is_symlink() {
            continue;
        }
        links += 1;
        if links > LINKS_MOST {
            return Err(Errno::LOOP.into());
        }
        if !caller.trusts(meta.uid()) {
            let why = format!("{} is a link of another user; name what it leads to", real.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        let to = fs::read_link(&real)?;
        let called = real.display().to_string();
        real.pop();
        if caller.is_led_by_another(&meta, &fs::metadata(&real)?)
            || !is_kept_on_the_way(&caller, above(&real).as_deref().ok(), meta.uid())
        {
            let why = format!(
                "{called} is a link in a directory that other users may write to, or move; name what it leads to"
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        if to.is_absolute() {
            real = PathBuf::from("/");
        }
        todo.extend(parts(&to));
    }
    Ok(real)
}

/// Whether a directory is where it was when its maker put a link in it: otherwise another user, in
/// whose directory it lies, may have moved it to where that link is not meant. Who is not root
/// knows where her own links lie; those of root's she does not.
fn is_kept_on_the_way(caller: &Caller, above: Option<&[Found]>, maker: u32) -> bool {
    let is_her_own = !caller.is_root() && caller.is_me(maker);
    is_her_own || above.is_some_and(|above| caller.are_kept(above))
}

/// Describes a directory on a way without links, and all above it.
fn above(real: &Path) -> io::Result<Vec<Found>> {
    real.ancestors().map(|dir| fs::symlink_metadata(dir).map(|meta| Found::from(&meta))).collect()
}

/// Whether nobody but the user who runs this and root can exchange any directory on the way to a
/// path, as far as that is there.
pub fn is_led_to_by_nobody_else(path: &Path) -> bool {
    let Some(there) = path.ancestors().find(|above| fs::symlink_metadata(above).is_ok()) else {
        return false;
    };
    let caller = Caller::alone();
    real_path(there).and_then(|real| above(&real)).is_ok_and(|above| caller.are_kept(&above))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    /// What a user who is no root thinks of links in a directory of another.
    #[test]
    fn a_link_of_root_is_not_followed_where_a_user_can_have_moved_it() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can make files of another user");
            return;
        }
        const SHE: u32 = 1234;
        const ANOTHER: u32 = 65534;
        let dir = tempfile::tempdir().unwrap();
        let (theirs, moved) = (dir.path().join("theirs"), dir.path().join("theirs/moved"));
        fs::create_dir_all(&moved).unwrap();
        for (owner, by_root, by_her) in [(0, true, true), (ANOTHER, false, true), (SHE, true, true)] {
            std::os::unix::fs::chown(&theirs, Some(owner), None).unwrap();
            let kept = [0, SHE]
                .map(|maker| is_kept_on_the_way(&Caller::of(SHE), above(&moved).as_deref().ok(), maker));
            assert_eq!(kept, [by_root, by_her], "in a directory of {owner}");
        }
    }

    #[test]
    fn what_a_link_leads_to_that_is_not_followed_is_not_opened() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can make files of another user");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (all, away) = (dir.path().join("all"), dir.path().join("away"));
        fs::create_dir(&all).unwrap();
        fs::create_dir(&away).unwrap();
        fs::set_permissions(&all, fs::Permissions::from_mode(0o1777)).unwrap();
        symlink(away.join("x"), all.join("link")).unwrap();
        std::os::unix::fs::lchown(all.join("link"), Some(65534), None).unwrap();
        let disk = crate::disk::SystemDisk::new();
        disk.root(&all, Access::Read).unwrap();
        assert!(resolve(&disk, &all.join("link")).is_err());
        assert!(disk.meta(&away).is_err(), "it is a root that stays open");
        std::os::unix::fs::chown(&away, Some(65534), None).unwrap();
        resolve(&disk, &all.join("link")).unwrap();
        assert!(disk.meta(&away).is_ok());
    }

    #[test]
    fn a_link_of_ours_is_not_followed_where_others_can_put_it() {
        let dir = tempfile::tempdir().unwrap();
        let (theirs, ours) = (dir.path().join("theirs"), dir.path().join("ours"));
        fs::create_dir(&theirs).unwrap();
        fs::create_dir(&ours).unwrap();
        symlink(&ours, theirs.join("link")).unwrap();
        let follows = |mode: u32| {
            fs::set_permissions(&theirs, fs::Permissions::from_mode(mode)).unwrap();
            let found = real_path(&theirs.join("link"));
            assert!(found.as_ref().map_or_else(
                |error| error.to_string().contains("other users may write to"),
                |real| real.ends_with("ours")
            ));
            found.is_ok()
        };
        // Who owns a link may have made it elsewhere, from where others moved it to a sticky
        // directory.
        assert_eq!([0o755, 0o700, 0o777, 0o702, 0o1777].map(follows), [true, true, false, false, false]);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&theirs, Some(65534), None).unwrap();
            assert_eq!([0o755, 0o700, 0o1777].map(follows), [false; 3]);
        }
    }
}
