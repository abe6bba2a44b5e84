//! Whose a device is that is to be written: asked of the device that is open, and of every
//! directory and link on the way to it.
//!
//! A path is no device. Between a look at what it leads to and the opening another user may
//! exchange the one for the other, so the device is opened first, and what is looked at then is
//! held against it: the way is walked through opened directories, each looked at by its descriptor,
//! and must end at the very file or block device that is open. That one is written, under whatever
//! name it is found later.
//!
//! The folders of volumes are walked to in the same way ([`crate::open_dir`]).
//!
//! Devices are opened by such a walk, too ([`crate::opening`]), so that no link of another user is
//! followed.
//!
//! What it deliberately does not do: ask whose devices are that have the superblock of a volume.
//! Those are known by what they hold.

use crate::FolderError;
use crate::private::{LINKS_MOST, fault};
use pantile_device::{Device, Identity};
use pantile_trust::{Caller, Found, SOMEBODY};
use rustix::fs::{CWD, Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

/// Refuses a device that is to be written as a whole if another user may have put it there, may
/// have made a link that leads to it or, of root, may exchange a directory on the way; what is
/// written could be read, or be any file.
///
/// Errors: `OfAnother`; `HasOtherNames` of a file in a folder of others; `Exchanged` if the path
/// does not lead to the device that is open. A device that is memory of this process is its own.
pub(crate) fn refuse_if_of_another(device: &dyn Device) -> Result<(), FolderError> {
    refuse_to(&Caller::or_by_sudo(), device.path(), device.identity())
}

fn refuse_to(caller: &Caller, path: &Path, open: Identity) -> Result<(), FolderError> {
    if let Identity::Memory { .. } = open {
        return Ok(());
    }
    let exchanged = || FolderError::Exchanged { path: path.to_path_buf() };
    let absolute = std::path::absolute(path).map_err(|error| FolderError::file("find", path, &error))?;
    let Some(end) = way_to(caller, &absolute)? else { return Err(exchanged()) };
    if identity_of(&end.found) != Some(open) {
        return Err(exchanged());
    }
    if caller.is_of_another(&end.directory) {
        let owner = end.found.uid();
        if !caller.trusts(owner) {
            return Err(fault(caller, path.to_path_buf(), owner));
        }
        // Others may have made this name of any file.
        if end.found.is_file() && end.found.nlink() > 1 {
            return Err(FolderError::HasOtherNames { path: path.to_path_buf() });
        }
    }
    Ok(())
}

/// Why a device is not for a user to have read, who named it: it does not lead to a file of hers,
/// or through links of others.
pub(crate) fn not_for(user: u32, device: &dyn Device) -> Option<String> {
    let path = device.path();
    let end = std::path::absolute(path).ok().and_then(|path| way_to(&Caller::of(user), &path).ok().flatten());
    let is_hers = |end: &End| identity_of(&end.found) == Some(device.identity()) && end.found.uid() == user;
    match end.as_ref().is_some_and(is_hers) {
        true => None,
        false => {
            let (whose, way_out) = match user {
                SOMEBODY => ("may have been named by anybody".into(), "take the folder from others first"),
                user => {
                    (format!("is not a file of user {user}, who may have named it"), "serve it as that user")
                }
            };
            let path = path.display();
            Some(format!("{path} {whose}: clients could be told what is not for them; {way_out}"))
        }
    }
}

/// The user who alone can have chosen what a file says, by the file and the folder in which it was
/// opened; [`SOMEBODY`] if others may write to it, or can have put it, or a directory above it,
/// where it is. What a group may write to counts as open to all.
pub(crate) fn chosen_alone_by(file: &Metadata, folder: File) -> u32 {
    let found = |of: &Metadata| {
        let found = Found::from(of);
        Found { mode: found.mode | (found.mode & 0o020) >> 3, ..found }
    };
    let (owner, mut above) = (file.uid(), Vec::new());
    let mut next = Some(folder);
    while let Some(directory) = next {
        let Ok(metadata) = directory.metadata() else { return SOMEBODY };
        // The directory of directories lies in itself.
        let is_topmost = above.last().is_some_and(|(_, id)| *id == (metadata.dev(), metadata.ino()));
        next = if is_topmost { None } else { look_at(Some(&directory), OsStr::new("..")).ok() };
        above.push((found(&metadata), (metadata.dev(), metadata.ino())));
    }
    let caller = Caller::of(owner);
    let is_alone = !caller.is_of_another(found(file))
        && caller.put_by(found(file), above.into_iter().map(|(found, _)| found)) == owner;
    if is_alone { owner } else { SOMEBODY }
}

/// As a device says it of itself; `None`: it cannot be one.
fn identity_of(found: &Metadata) -> Option<Identity> {
    let kind = found.file_type();
    match () {
        () if kind.is_file() => Some(Identity::File { device: found.dev(), inode: found.ino() }),
        () if kind.is_block_device() => Some(Identity::Block { device: found.rdev() }),
        () => None,
    }
}

/// What a path leads to, and the directory that it lies in.
pub(crate) struct End {
    pub(crate) found: Metadata,
    /// Neither read nor written: only that it is this one is known.
    pub(crate) file: File,
    directory: Metadata,
}

/// Walks an absolute path; `None`: it leads nowhere.
///
/// Errors: `OfAnother` at a link that another user may have put there, or of root at a directory
/// whose names another may exchange.
pub(crate) fn way_to(caller: &Caller, path: &Path) -> Result<Option<End>, FolderError> {
    walk(caller, path, caller.is_root()).map(Result::ok)
}

/// The same to look at what is there, through whatever directories; or why it leads nowhere.
pub(crate) fn way_to_look(path: &Path) -> Result<Result<End, Errno>, FolderError> {
    let absolute = std::path::absolute(path).map_err(|error| FolderError::file("find", path, &error))?;
    walk(&Caller::or_by_sudo(), &absolute, false)
}

/// Describes what a path leads to; `None` if nothing, or through links of others.
pub(crate) fn describe(path: &Path) -> Option<Metadata> {
    way_to_look(path).ok()?.ok().map(|end| end.found)
}

/// Which file or block device a path leads to; `None` if to neither, or through links of others.
pub(crate) fn identity_at(path: &Path) -> Option<Identity> {
    identity_of(&describe(path)?)
}

/// What a path leads to that a user may have named, in the folder in which it was named: through no
/// link, and only where everybody can go, or that user. Elsewhere what becomes of it would show
/// what is there.
pub(crate) fn found_for_all(user: u32, folder: &File, path: &Path) -> Option<File> {
    const ALL_GO: u32 = 0o011;
    let mut at = match path.is_absolute() {
        true => look_at(None, OsStr::new("/")).ok()?,
        false => folder.try_clone().ok()?,
    };
    for part in parts(path) {
        let found = at.metadata().ok()?;
        let is_open = found.mode() & ALL_GO == ALL_GO || (user != SOMEBODY && found.uid() == user);
        if !found.is_dir() || !is_open {
            return None;
        }
        at = look_at(Some(&at), &part).ok()?;
    }
    at.metadata().ok().filter(|found| !found.is_symlink()).map(|_| at)
}

fn walk(caller: &Caller, path: &Path, refuses_dirs: bool) -> Result<Result<End, Errno>, FolderError> {
    let mut links = 0;
    let mut left: VecDeque<OsString> = parts(path);
    // Where the walk is, for what is said of it: as it was named, links and all.
    let mut at = PathBuf::from("/");
    let top = || look_at(None, OsStr::new("/"));
    let mut directory = match top() {
        Ok(top) => top,
        Err(errno) => return Ok(Err(errno)),
    };
    loop {
        let within = match directory.metadata() {
            Ok(within) if within.is_dir() => within,
            _ => return Ok(Err(Errno::NOTDIR)),
        };
        let is_open = || caller.is_root() && may_be_exchanged(caller, &directory, &within);
        if refuses_dirs && is_open() {
            return Err(fault(caller, at, within.uid()));
        }
        // The directory of directories has no name in another.
        let Some(part) = left.pop_front() else {
            return Ok(Ok(End { found: within.clone(), file: directory, directory: within }));
        };
        let next = match look_at(Some(&directory), &part) {
            Ok(next) => next,
            Err(errno) => return Ok(Err(errno)),
        };
        let Ok(found) = next.metadata() else { return Ok(Err(Errno::NOENT)) };
        at.push(&part);
        if found.is_symlink() {
            if caller.is_led_by_another(&found, &within) || is_open() {
                return Err(fault(caller, at, found.uid()));
            }
            let Ok(to) = readlinkat(&next, "", Vec::new()) else { return Ok(Err(Errno::NOENT)) };
            let to = PathBuf::from(OsString::from_vec(to.into_bytes()));
            links += 1;
            if links > LINKS_MOST {
                return Ok(Err(Errno::LOOP));
            }
            at.pop();
            if to.is_absolute() {
                let Ok(top) = top() else { return Ok(Err(Errno::NOENT)) };
                (directory, at) = (top, PathBuf::from("/"));
            }
            parts(&to).into_iter().rev().for_each(|part| left.push_front(part));
        } else if left.is_empty() {
            return Ok(Ok(End { found, file: next, directory: within }));
        } else {
            directory = next;
        }
    }
}

/// Whether somebody else may exchange the names in a directory, or the directory in the one that it
/// lies in.
pub(crate) fn may_be_exchanged(caller: &Caller, directory: &File, found: &Metadata) -> bool {
    let above = look_at(Some(directory), OsStr::new("..")).ok().and_then(|above| above.metadata().ok());
    above.is_none_or(|above| !caller.are_kept(&[Found::from(found), Found::from(&above)]))
}

/// What is left to be walked of a path.
fn parts(path: &Path) -> VecDeque<OsString> {
    let part = |component: Component<'_>| match component {
        Component::Normal(_) | Component::ParentDir => Some(component.as_os_str().to_owned()),
        _ => None,
    };
    path.components().filter_map(part).collect()
}

/// A descriptor of a name in a directory, which neither follows a link nor opens what is there.
fn look_at(directory: Option<&File>, name: &OsStr) -> Result<File, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let looked = match directory {
        Some(directory) => openat(directory, name.as_bytes(), flags, Mode::empty()),
        None => openat(CWD, name.as_bytes(), flags, Mode::empty()),
    };
    looked.map(File::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opening::open_device;
    use pantile_device::{DeviceError, FileDevice, OpenOptions};
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
    use std::process::Command;
    use tempfile::TempDir;

    /// A folder of this mode with a device in it that is open, and who made them. It lies in one of
    /// this user alone, so that nobody can have moved it there.
    fn opened(mode: u32) -> ([TempDir; 2], PathBuf, FileDevice, u32) {
        let around = tempfile::tempdir().expect("a folder");
        let folder = tempfile::tempdir_in(around.path()).expect("a folder in it");
        let path = folder.path().join("device");
        std::fs::write(&path, [0; 1 << 16]).expect("a file");
        std::fs::set_permissions(folder.path(), Permissions::from_mode(mode)).expect("a mode");
        let device = FileDevice::open(&path).expect("a device");
        let maker = path.metadata().expect("it is there").uid();
        ([folder, around], path, device, maker)
    }

    fn asked(caller: u32, device: &FileDevice) -> Result<(), FolderError> {
        refuse_to(&Caller::of(caller), device.path(), device.identity())
    }

    /// A stranger exchanges his file, which was opened, for something that may stand there.
    #[test]
    fn what_took_the_place_of_an_open_device_says_nothing_of_it() {
        let (_folders, path, device, maker) = opened(0o1777);
        assert_eq!(asked(maker, &device), Ok(()));
        let aside = path.with_file_name("aside");
        std::fs::rename(&path, &aside).expect("it is moved");
        let exchanged = Err(FolderError::Exchanged { path: path.clone() });
        assert_eq!(asked(maker, &device), exchanged, "there is nothing");
        std::fs::write(&path, [0; 1 << 16]).expect("a file");
        assert_eq!(asked(maker, &device), exchanged, "another file");
        std::fs::remove_file(&path).expect("it goes");
        assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
        assert_eq!(asked(maker, &device), exchanged, "a pipe");
        std::fs::remove_file(&path).expect("it goes");
        symlink(&aside, &path).expect("a link");
        assert!(asked(maker, &device).is_err(), "another user may have moved the link there");
        std::fs::remove_file(&path).expect("it goes");
        std::fs::rename(&aside, &path).expect("it is moved back");
        assert_eq!(asked(maker, &device), Ok(()));
    }

    /// A spare in `/tmp` that was cleaned away, and that another user makes again.
    #[test]
    fn a_file_that_another_user_put_into_a_sticky_folder_is_no_device_to_be_made_anew() {
        let ([folder, _around], path, device, maker) = opened(0o1777);
        std::fs::hard_link(&path, folder.path().join("second")).expect("a second name");
        assert_eq!(asked(maker, &device), Err(FolderError::HasOtherNames { path: path.clone() }));
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("a mode");
        assert_eq!(asked(maker, &device), Ok(()));
        std::fs::remove_file(folder.path().join("second")).expect("it goes");
        if maker != 0 {
            println!("not root: only root can make a file of another user");
            return;
        }
        chown(&path, Some(1000), None).expect("it is root");
        for (mode, caller, is_good) in [(0o755, 0, true), (0o1777, 0, false), (0o1777, 1000, true)] {
            std::fs::set_permissions(folder.path(), Permissions::from_mode(mode)).expect("a mode");
            assert_eq!(asked(caller, &device).is_ok(), is_good, "{mode:o} for {caller}");
        }
    }

    /// Not the last name alone: a directory on the way may be a link, too.
    #[test]
    fn no_link_of_another_user_is_followed_on_the_way() {
        let ([folder, _around], path, device, maker) = opened(0o755);
        let link = folder.path().join("link");
        symlink(folder.path(), &link).expect("a link");
        let by_link =
            |caller: u32| refuse_to(&Caller::of(caller), &link.join("link/../device"), device.identity());
        let name = folder.path().file_name().expect("a name");
        assert_eq!(by_link(maker), Err(FolderError::Exchanged { path: link.join("link/../device") }));
        let back = link.join("link/..").join(name).join("device");
        assert_eq!(
            refuse_to(&Caller::of(maker), &back, device.identity()),
            Ok(()),
            "dots are those of the system"
        );
        if maker != 0 {
            println!("not root: only root can make a link of another user");
            return;
        }
        lchown(&link, Some(1000), None).expect("it is root");
        for caller in [0, 1001] {
            let refused = refuse_to(&Caller::of(caller), &link.join("device"), device.identity());
            assert_eq!(refused, Err(FolderError::OfAnother { path: link.clone(), owner: Some(1000) }));
        }
        assert_eq!(refuse_to(&Caller::of(1000), &link.join("device"), device.identity()), Ok(()));
        assert!(path.exists());
    }

    /// Nothing is gone along that others may have put there: their links, of which the last time of
    /// access tells, and names in directories that are closed to them.
    #[test]
    fn what_others_may_have_named_is_looked_at_where_everybody_can_look() {
        use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
        let ([folder, _around], path, device, maker) = opened(0o755);
        drop(device);
        if maker != 0 {
            println!("not root: only root can make a link of another user");
            return;
        }
        let at = folder.path();
        let [theirs, real, beacon, closed] =
            ["theirs", "theirs/real", "theirs/beacon", "closed"].map(|n| at.join(n));
        [&theirs, &real, &closed].iter().for_each(|dir| std::fs::create_dir(dir).expect("a folder"));
        std::fs::create_dir(closed.join("guess")).expect("a folder");
        std::fs::set_permissions(&closed, Permissions::from_mode(0o700)).expect("a mode");
        std::fs::copy(&path, real.join("device")).expect("a copy");
        symlink(&real, &beacon).expect("a link");
        [&theirs, &real, &beacon].iter().for_each(|path| lchown(path, Some(1000), None).expect("it is root"));
        let long_ago = Timespec { tv_sec: 1_000_000, tv_nsec: 0 };
        let times = Timestamps { last_access: long_ago, last_modification: long_ago };
        utimensat(CWD, &beacon, &times, AtFlags::SYMLINK_NOFOLLOW).expect("times");
        let folder = File::open(&theirs).expect("it opens");
        for (place, is_looked_at) in [
            (theirs.join("real/device"), true),
            ("real/device".into(), true),
            ("real/../real/device".into(), true),
            (theirs.join("beacon/device"), false),
            ("beacon/device".into(), false),
            (closed.join("guess/../../theirs/real/device"), false),
            ("../closed/guess/../../theirs/real/device".into(), false),
            ("real/other".into(), false),
            ("beacon".into(), false),
        ] {
            let found = found_for_all(1000, &folder, &place);
            assert_eq!(found.is_some(), is_looked_at, "{}", place.display());
            // What a person names may lie in a closed directory, but no link of others is followed.
            let named = open_device(&theirs.join(&place), OpenOptions::default());
            let by_link = place.to_str().expect("a name").contains("beacon");
            assert_eq!(
                matches!(named, Err(DeviceError::LinkOfAnother { .. })),
                by_link,
                "{}",
                place.display()
            );
        }
        assert_eq!(beacon.symlink_metadata().expect("a link").atime(), long_ago.tv_sec);
        // A file of a user that is for that user alone, in a folder of hers.
        std::fs::set_permissions(&theirs, Permissions::from_mode(0o700)).expect("a mode");
        assert!(found_for_all(1000, &folder, Path::new("real/device")).is_some());
        assert!(found_for_all(1001, &folder, Path::new("real/device")).is_none());
        assert!(found_for_all(SOMEBODY, &folder, Path::new("real/device")).is_none());
    }
}
