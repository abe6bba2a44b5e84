//! Directories that are held open: what is done in one is done in that very directory, whatever has
//! its name by then.
//!
//! A path that was looked at leads elsewhere as soon as another user exchanges a name on it, or
//! makes one that was not there. So whoever writes in the folder of a volume walks to it once
//! ([`crate::whose`]), asks of the directory that is open whose it is, and from then on names only
//! what lies in it, through the descriptor.

use crate::FolderError;
use crate::folder::CONFIG;
use crate::private::{create_dir, create_dir_for_owner, fault};
use crate::whose::{End, may_be_exchanged, way_to, way_to_look};
use pantile_trust::Caller;
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A directory that is open, and what it was called.
#[derive(Debug)]
pub(crate) struct OpenDir {
    path: PathBuf,
    dir: File,
}

impl OpenDir {
    /// Opens the folder of a volume to write in it.
    ///
    /// Errors: `OfAnother` if somebody else may choose the devices of the volume: by a link or,
    /// with root, a name on the way, or by writing to the folder or its configuration. `File` if it
    /// is not there or no directory.
    pub(crate) fn to_write(path: &Path) -> Result<OpenDir, FolderError> {
        OpenDir::to_write_as(&Caller::or_by_sudo(), path)
    }

    pub(crate) fn to_write_as(caller: &Caller, path: &Path) -> Result<OpenDir, FolderError> {
        let folder = OpenDir::walked_to(caller, path)?;
        folder.refuse_if_of_another(caller)?;
        Ok(folder)
    }

    /// Opens a directory only to look at what is in it, through no link of others.
    pub(crate) fn to_look(path: &Path) -> Result<OpenDir, FolderError> {
        OpenDir::at_end(path, way_to_look(path)?)
    }

    fn at_end(path: &Path, end: Result<End, Errno>) -> Result<OpenDir, FolderError> {
        let failed = |errno: Errno| FolderError::file("open", path, &errno.into());
        let end = end.map_err(failed)?;
        match end.found.is_dir() {
            true => Ok(OpenDir { path: path.to_path_buf(), dir: end.file }),
            false => Err(failed(Errno::NOTDIR)),
        }
    }

    /// Opens the directory in which something has its name, or is to get it; and that name, if the
    /// path ends with one.
    fn around(caller: &Caller, path: &Path) -> Result<Option<(OpenDir, OsString)>, FolderError> {
        let absolute = std::path::absolute(path).map_err(|error| FolderError::file("find", path, &error))?;
        let (Some(above), Some(name)) = (absolute.parent(), absolute.file_name()) else { return Ok(None) };
        let above = OpenDir::walked_to(caller, above)?;
        let found = above.found()?;
        if caller.is_root() && may_be_exchanged(caller, &above.dir, &found) {
            return Err(fault(caller, above.path, found.uid()));
        }
        Ok(Some((above, name.to_os_string())))
    }

    fn walked_to(caller: &Caller, path: &Path) -> Result<OpenDir, FolderError> {
        let absolute = std::path::absolute(path).map_err(|error| FolderError::file("find", path, &error))?;
        OpenDir::at_end(path, way_to(caller, &absolute)?.ok_or(Errno::NOENT))
    }

    fn found(&self) -> Result<Metadata, FolderError> {
        self.dir.metadata().map_err(|error| FolderError::file("look at", &self.path, &error))
    }

    /// Errors: `OfAnother` if somebody else may write to it, or to the configuration in it.
    pub(crate) fn refuse_if_of_another(&self, caller: &Caller) -> Result<(), FolderError> {
        let found = self.found()?;
        if caller.is_of_another(&found) {
            return Err(fault(caller, self.path.clone(), found.uid()));
        }
        match std::fs::metadata(self.at(CONFIG)).ok().filter(|found| caller.is_of_another(found)) {
            Some(found) => Err(fault(caller, self.called(CONFIG), found.uid())),
            None => Ok(()),
        }
    }

    /// What it was called.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What a name in it is called for people.
    pub(crate) fn called(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// A path by which this process reaches a name in it, short enough for a socket.
    pub(crate) fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        Path::new("/proc/self/fd").join(self.dir.as_raw_fd().to_string()).join(name)
    }

    /// The directory, open to be looked at.
    pub(crate) fn dir(&self) -> &File {
        &self.dir
    }

    /// Makes the names in it durable.
    pub(crate) fn sync(&self) -> std::io::Result<()> {
        File::open(self.at("."))?.sync_all()
    }

    /// Whether nothing is in it.
    fn is_empty(&self) -> std::io::Result<bool> {
        Ok(std::fs::read_dir(self.at("."))?.next().is_none())
    }
}

impl AsFd for OpenDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// The folder of a volume that is being made.
pub(crate) struct NewDir {
    pub(crate) folder: Arc<OpenDir>,
    /// Where it was made, if it was not there.
    made: Option<(OpenDir, OsString)>,
}

impl NewDir {
    /// Makes a folder, or opens one that is empty.
    ///
    /// Errors: `NotEmpty`; as [`OpenDir::to_write`].
    pub(crate) fn make(path: &Path) -> Result<NewDir, FolderError> {
        NewDir::make_as(&Caller::or_by_sudo(), path)
    }

    fn make_as(caller: &Caller, path: &Path) -> Result<NewDir, FolderError> {
        if let Some((above, name)) = OpenDir::around(caller, path)? {
            match create_dir(&above.at(&name)) {
                Ok(()) => return NewDir::made(caller, path, (above, name)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(FolderError::file("make", path, &error)),
            }
        }
        let folder = OpenDir::to_write_as(caller, path)?;
        match folder.is_empty() {
            Ok(true) => Ok(NewDir { folder: Arc::new(folder), made: None }),
            Ok(false) => Err(FolderError::NotEmpty { folder: path.to_path_buf() }),
            Err(error) => Err(FolderError::file("read", path, &error)),
        }
    }

    /// Opens what was made. Another may stand there by now, where others may exchange names.
    fn made(caller: &Caller, path: &Path, above: (OpenDir, OsString)) -> Result<NewDir, FolderError> {
        let flags = DIRECTORY | OFlags::NOFOLLOW;
        let dir = openat(&above.0, &above.1, flags, Mode::empty());
        let dir = File::from(dir.map_err(|error| FolderError::file("open", path, &error.into()))?);
        let folder = OpenDir { path: path.to_path_buf(), dir };
        folder.refuse_if_of_another(caller)?;
        match folder.is_empty() {
            Ok(true) => Ok(NewDir { folder: Arc::new(folder), made: Some(above) }),
            _ => Err(FolderError::NotEmpty { folder: path.to_path_buf() }),
        }
    }

    /// Removes it again, if it was made and nothing is in it.
    pub(crate) fn unmake(&self) {
        if let Some((above, name)) = &self.made {
            let _ = unlinkat(above, name, AtFlags::REMOVEDIR);
        }
    }
}

/// A new folder for an experiment, for its owner alone: held open, and removed at the end with
/// what is in it, whatever has its name by then.
pub struct ScratchFolder(NewDir);

impl ScratchFolder {
    /// Makes it in a directory that is there.
    ///
    /// Errors: `OfAnother` at a link of others or, of root, a directory that others may exchange;
    /// `File` if something has the name, or the system says no.
    pub fn make(path: &Path) -> Result<ScratchFolder, FolderError> {
        ScratchFolder::make_as(&Caller::or_by_sudo(), path)
    }

    fn make_as(caller: &Caller, path: &Path) -> Result<ScratchFolder, FolderError> {
        let failed = |error: std::io::Error| FolderError::file("make", path, &error);
        let around = OpenDir::around(caller, path)?;
        let (above, name) = around.ok_or_else(|| failed(ErrorKind::AlreadyExists.into()))?;
        create_dir_for_owner(&above.at(&name)).map_err(failed)?;
        NewDir::made(caller, path, (above, name)).map(ScratchFolder)
    }

    /// A path by which this process reaches it.
    pub fn path(&self) -> PathBuf {
        self.0.folder.at("")
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // Best effort: what cannot be removed stays, for its owner to see.
        for entry in std::fs::read_dir(self.0.folder.at(".")).into_iter().flatten().flatten() {
            let path = entry.path();
            let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
        }
        self.0.unmake();
    }
}

/// Why a socket cannot be made at a path.
#[derive(Debug)]
pub enum SocketFault {
    /// Something else stands there.
    NoSocket,
    /// Somebody listens there.
    InUse,
    /// The way leads through what others may exchange, or the system says no.
    Folder(FolderError),
}

/// Removes a socket that a server left behind when it was killed, in the directory that the way
/// leads to: links of others are not followed, and nobody exchanges what is removed.
pub fn remove_dead_socket(path: &Path) -> Result<(), SocketFault> {
    remove_dead_as(&Caller::or_by_sudo(), path)
}

fn remove_dead_as(caller: &Caller, path: &Path) -> Result<(), SocketFault> {
    let around = OpenDir::around(caller, path).map_err(SocketFault::Folder)?;
    let Some((above, name)) = around else { return Err(SocketFault::NoSocket) };
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(seen) = openat(&above, &name, flags, Mode::empty()).map(File::from) else { return Ok(()) };
    let is_socket = |file: &File| file.metadata().is_ok_and(|found| found.file_type().is_socket());
    if !is_socket(&seen) {
        return Err(SocketFault::NoSocket);
    }
    if UnixStream::connect(above.at(&name)).is_ok() {
        return Err(SocketFault::InUse);
    }
    remove_seen(&above, &name, &seen)
        .map_err(|error| SocketFault::Folder(FolderError::file("remove", path, &error)))
}

/// Removes a name that still is what was seen.
fn remove_seen(above: &OpenDir, name: &OsStr, seen: &File) -> std::io::Result<()> {
    let (now, seen) = (std::fs::symlink_metadata(above.at(name))?, seen.metadata()?);
    if (now.dev(), now.ino()) != (seen.dev(), seen.ino()) {
        return Err(std::io::Error::other("another file took its place just now"));
    }
    Ok(unlinkat(above, name, AtFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir as make_dir, read_dir, rename, write};
    use std::os::unix::fs::{lchown, symlink};
    use std::os::unix::net::UnixListener;

    /// A folder for a test, and who makes what is in it.
    fn place() -> (tempfile::TempDir, PathBuf, Caller) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_path_buf();
        let maker = path.metadata().expect("it is there").uid();
        (folder, path, Caller::of(maker))
    }

    fn is_root(caller: &Caller) -> bool {
        if !caller.is_root() {
            println!("not root: only root can make a link of another user");
        }
        caller.is_root()
    }

    fn names(path: &Path) -> usize {
        read_dir(path).expect("a folder").count()
    }

    #[test]
    fn what_is_named_in_an_open_folder_is_in_that_one_whatever_has_its_name_by_then() {
        let (_folder, path, me) = place();
        let [root, aside, victim] = ["v", "aside", "victim"].map(|name| path.join(name));
        for path in [&root, &victim] {
            make_dir(path).expect("a folder");
        }
        write(victim.join("lock"), "precious").expect("it writes");
        let open = OpenDir::to_write_as(&me, &root).expect("it is mine");
        rename(&root, &aside).expect("it is moved");
        symlink(&victim, &root).expect("a link");
        write(open.at("lock"), "new").expect("it writes");
        assert_eq!(std::fs::read(aside.join("lock")).expect("it reads"), b"new");
        unlinkat(&open, "lock", AtFlags::empty()).expect("it goes");
        assert_eq!(std::fs::read(victim.join("lock")).expect("it reads"), b"precious");
        assert_eq!(open.called("lock"), root.join("lock"));
        assert!(open.sync().is_ok() && open.is_empty().expect("it reads"));
    }

    #[test]
    fn a_folder_is_refused_for_what_it_is() {
        let (_folder, path, me) = place();
        write(path.join("file"), "").expect("it writes");
        symlink(path.join("absent"), path.join("dangling")).expect("a link");
        symlink("/", path.join("top")).expect("a link");
        let errno = |name: &str| match OpenDir::to_write_as(&me, &path.join(name)) {
            Err(FolderError::File { errno, .. }) => Errno::from_raw_os_error(errno),
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(["absent", "dangling", "file"].map(errno), [Errno::NOENT, Errno::NOENT, Errno::NOTDIR]);
        // The directory of directories is one, too, by itself and behind a link.
        let top = Path::new("/").metadata().expect("it is there").ino();
        for path in [Path::new("/"), &path.join("top")] {
            let open = OpenDir::walked_to(&me, path).expect("it is root's");
            assert_eq!(open.found().expect("it is there").ino(), top);
        }
    }

    #[test]
    fn a_new_folder_is_the_one_that_was_made() {
        let (_folder, path, me) = place();
        let [root, aside, victim] = ["v", "aside", "victim"].map(|name| path.join(name));
        make_dir(&victim).expect("a folder");
        write(victim.join("device-00.pantile"), "precious").expect("it writes");
        let new = NewDir::make_as(&me, &root).expect("it is made");
        rename(&root, &aside).expect("it is moved");
        symlink(&victim, &root).expect("a link");
        write(new.folder.at("lock"), "").expect("it writes");
        assert_eq!((names(&aside), names(&victim)), (1, 1));
        new.unmake();
        assert!(victim.is_dir() && aside.is_dir() && root.is_symlink(), "no folder has that name any more");

        // Between the making and the opening something else comes to stand there.
        let opened = || {
            let around = OpenDir::around(&me, &root).expect("it is mine").expect("it has a name");
            NewDir::made(&me, &root, around).map(drop)
        };
        assert!(matches!(opened(), Err(FolderError::File { .. })), "a link");
        std::fs::remove_file(&root).expect("it goes");
        rename(&victim, &root).expect("it is moved");
        assert_eq!(opened(), Err(FolderError::NotEmpty { folder: root.clone() }));
        assert!(matches!(NewDir::make_as(&me, &root), Err(FolderError::NotEmpty { .. })));
        assert_eq!(names(&root), 1);
    }

    #[test]
    fn no_folder_is_made_where_a_link_of_another_user_leads() {
        let (_folder, path, me) = place();
        let [victim, link] = ["victim", "link"].map(|name| path.join(name));
        make_dir(&victim).expect("a folder");
        symlink(&victim, &link).expect("a link");
        let made = |name: &Path| NewDir::make_as(&me, name).map(|new| new.unmake());
        assert_eq!(made(&link.join("v")), Ok(()), "a link of one's own");
        if !is_root(&me) {
            return;
        }
        lchown(&link, Some(1000), None).expect("it is root");
        let refused = Err(FolderError::OfAnother { path: link.clone(), owner: Some(1000) });
        for name in [link.join("v"), link.clone()] {
            assert_eq!(made(&name), refused);
        }
        assert_eq!(names(&victim), 0);
    }

    /// An experiment writes in the folder that it made, and removes that one and nothing else.
    #[test]
    fn a_scratch_folder_stays_the_one_that_was_made() {
        let (_folder, path, me) = place();
        let [new, aside, victim] = ["new", "aside", "victim"].map(|name| path.join(name));
        make_dir(&victim).expect("a folder");
        write(victim.join("keep"), "precious").expect("it writes");
        assert!(ScratchFolder::make_as(&me, &path.join("missing/new")).is_err());
        let scratch = ScratchFolder::make_as(&me, &new).expect("it is made");
        assert_eq!(new.metadata().expect("it is there").mode() & 0o777, 0o700);
        assert!(ScratchFolder::make_as(&me, &new).is_err(), "it is there");
        rename(&new, &aside).expect("it moves");
        symlink(&victim, &new).expect("a link");
        write(scratch.path().join("disk"), "data").expect("it writes");
        make_dir(scratch.path().join("below")).expect("a folder");
        assert!(ScratchFolder::make_as(&me, &new).is_err(), "something has the name");
        assert_eq!((names(&aside), names(&victim)), (2, 1));
        drop(scratch);
        assert_eq!((names(&aside), names(&victim)), (0, 1));
        std::fs::remove_file(&new).expect("the link is there");
        drop(ScratchFolder::make_as(&me, &new).expect("it is made"));
        assert!(new.symlink_metadata().is_err());
        if is_root(&me) {
            // A folder of another user, and one that she put where anybody may.
            let theirs = path.join("theirs");
            make_dir(&theirs).expect("a folder");
            lchown(&theirs, Some(1000), None).expect("it is root");
            let refused = FolderError::OfAnother { path: theirs.clone(), owner: Some(1000) };
            assert_eq!(ScratchFolder::make_as(&me, &theirs.join("new")).map(drop), Err(refused));
            assert_eq!(names(&theirs), 0);
        }
    }

    fn dead(path: &Path) {
        drop(UnixListener::bind(path).expect("it listens"));
    }

    #[test]
    fn only_a_socket_at_which_nobody_listens_is_removed() {
        let (_folder, path, me) = place();
        let socket = path.join("nbd.sock");
        let removed = || remove_dead_as(&me, &socket);
        assert!(removed().is_ok(), "there is none");
        dead(&socket);
        assert!(removed().is_ok() && !socket.exists());
        let live = UnixListener::bind(&socket).expect("it listens");
        assert!(matches!(removed(), Err(SocketFault::InUse)));
        drop(live);
        let elsewhere = path.join("elsewhere");
        rename(&socket, &elsewhere).expect("it is moved");
        symlink(&elsewhere, &socket).expect("a link");
        assert!(matches!(removed(), Err(SocketFault::NoSocket)), "a link");
        std::fs::remove_file(&socket).expect("it goes");
        write(&socket, "precious").expect("it writes");
        assert!(matches!(removed(), Err(SocketFault::NoSocket)), "a file");
        assert!(socket.is_file() && elsewhere.exists());
    }

    #[test]
    fn what_took_the_place_of_a_dead_socket_is_not_removed() {
        let (_folder, path, me) = place();
        let socket = path.join("nbd.sock");
        dead(&socket);
        let (above, name) = OpenDir::around(&me, &socket).expect("it is mine").expect("it has a name");
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let seen = File::from(openat(&above, &name, flags, Mode::empty()).expect("it is there"));
        std::fs::remove_file(&socket).expect("it goes");
        write(&socket, "precious").expect("it writes");
        assert!(remove_seen(&above, &name, &seen).is_err() && socket.is_file());
    }

    #[test]
    fn a_dead_socket_behind_a_link_of_another_user_stays() {
        let (_folder, path, me) = place();
        let [victim, link] = ["victim", "link"].map(|name| path.join(name));
        make_dir(&victim).expect("a folder");
        symlink(&victim, &link).expect("a link");
        dead(&victim.join("nbd.sock"));
        if is_root(&me) {
            lchown(&link, Some(1000), None).expect("it is root");
            let refused = remove_dead_as(&me, &link.join("nbd.sock"));
            assert!(
                matches!(refused, Err(SocketFault::Folder(FolderError::OfAnother { .. }))),
                "{refused:?}"
            );
            assert!(victim.join("nbd.sock").exists());
            lchown(&link, Some(0), None).expect("it is root");
        }
        assert!(remove_dead_as(&me, &link.join("nbd.sock")).is_ok() && !victim.join("nbd.sock").exists());
    }
}
