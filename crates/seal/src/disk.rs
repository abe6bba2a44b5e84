//! The file layer: everything that touches the disk passes through [`Disk`], so that tests can
//! count, fail and crash.
//!
//! A path is a name below a *root*: a directory that the person named, or to which a shard that she
//! named leads, opened once by [`Disk::root`]. What lies below no root is not there; what lies
//! below a root that was opened to be read cannot be changed. So a command that only looks cannot
//! write, whatever a set, a link or another user makes of its names.

use pantile_format::Timestamp;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

pub(crate) use crate::links::resolve;
pub use crate::system::SystemDisk;

/// The permission bits of a directory that is not finished.
pub(crate) const PRIVATE_DIR: u32 = 0o700;
/// The mode of a directory of shards or records that is made: whatever the umask says nobody else
/// may put any there.
pub(crate) const ROOT_DIR: u32 = 0o755;
/// The bit by which a directory gives its group to what is made in it.
pub(crate) const SETGID: u32 = 0o2000;

/// Which file it is, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// The number of the device.
    pub device: u64,
    /// The number of the inode.
    pub inode: u64,
}

/// A directory that is a root, made if it was not there.
#[derive(Clone, Debug)]
pub struct MadeRoot {
    /// Its path without links.
    pub path: PathBuf,
    /// Which it is, if it was made for certain.
    pub made: Option<FileId>,
}

/// What may be done below a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Files are read and listed; whatever would change something is refused.
    Read,
    /// Everything.
    Write,
}

/// A directory entry or file, as the system describes it; links are not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// What it is.
    pub kind: MetaKind,
    /// In bytes.
    pub size: u64,
    /// How many names it has.
    pub names: u64,
    /// Permission bits.
    pub mode: u32,
    /// When it was last modified, or what its owner says.
    pub mtime: Timestamp,
    /// When it was last changed in any way: content, name, mode, or the time of modification.
    pub ctime: Timestamp,
    /// Which file it is.
    pub id: FileId,
    /// The user that owns it.
    pub owner: u32,
    /// The group that it is of.
    pub group: u32,
}

/// What a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaKind {
    /// A directory.
    Dir,
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// A device, pipe or socket.
    Other,
}

/// What the work needs of a file system. Nothing is durable before `sync` or `sync_dir` returned.
///
/// Below a root no symbolic link is followed, not even the last name of a path. A disk serves one
/// command. A directory is the one that it was when it was found first: whatever has its path later
/// is refused, so that nobody who exchanges names has one part of the work done elsewhere.
pub trait Disk: Send + Sync {
    /// Opens a directory as a root, or gives a root more access; its path without links.
    ///
    /// The kernel follows links on the way to it, once: from then on the opened directory counts.
    fn root(&self, path: &Path, access: Access) -> io::Result<PathBuf>;
    /// As [`root`](Disk::root), of an absolute path that had no link on it when it was written down:
    /// one that has a link now leads elsewhere.
    ///
    /// Errors: `ELOOP` if there is a link on the way.
    fn root_through_no_link(&self, path: &Path, access: Access) -> io::Result<()>;
    /// As [`root`](Disk::root), to write; the directory and those above it are made if they are not
    /// there.
    ///
    /// If it is made it has this mode from the start, or less by the umask. One that takes the place
    /// of what was made just now counts as one that was there.
    fn make_root(&self, path: &Path, mode: u32) -> io::Result<MadeRoot>;
    /// Removes what [`make_root`](Disk::make_root) made of directories for a path, as far as they
    /// are empty.
    fn unmake_root(&self, path: &Path);
    /// Opens a file to read it. What is no regular file can be described, not read.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file to read and write it.
    fn open_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Makes an empty file in place of whatever is there, readable for its owner alone until told
    /// otherwise.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Renames a file over another.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Opens the file system on which a directory lies, to make many files durable at once.
    ///
    /// Errors: `Unsupported` where the system would not tell that writing one of them failed.
    fn open_system(&self, dir: &Path) -> io::Result<Box<dyn DiskSystem>>;
    /// Makes a directory, if it is not there.
    fn make_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes a directory, open to its owner alone until told otherwise; which one it is.
    ///
    /// Errors: another directory took its place just now.
    fn make_private_dir(&self, path: &Path) -> io::Result<FileId>;
    /// Opens a directory to set its rights, attributes and time.
    ///
    /// Whoever may make names beside it may exchange it for another of the same owner: compare
    /// which one it is before it gets rights.
    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Gives a file another name, at which there is nothing yet, beside the one that it has.
    fn add_name(&self, path: &Path, name: &Path) -> io::Result<()>;
    /// Makes a symbolic link.
    ///
    /// The link gets a time of modification as far as the file system keeps times of links, and
    /// unless another user has put something else in its place by then.
    fn make_link(&self, target: &Path, path: &Path, mtime: Timestamp) -> io::Result<()>;
    /// Gives a symbolic link an owner and a group.
    fn set_link_owner(&self, path: &Path, owner: u32, group: u32) -> io::Result<()>;
    /// Sets the time of modification of a directory.
    fn set_time(&self, path: &Path, mtime: Timestamp) -> io::Result<()>;
    /// Opens whatever stands at a path to describe it; a link itself.
    fn look(&self, path: &Path) -> io::Result<Box<dyn Seen>>;
    /// Describes a path; a link describes itself.
    fn meta(&self, path: &Path) -> io::Result<Meta> {
        self.look(path)?.meta()
    }
    /// True if a file system is mounted at a path.
    fn is_mount(&self, path: &Path) -> bool {
        use std::os::unix::fs::MetadataExt;
        let device = |path: &Path| std::fs::metadata(path).ok().map(|meta| meta.dev());
        device(path).zip(device(&path.join(".."))).is_some_and(|(own, above)| own != above)
    }
    /// Describes the directories on the way to one: first the root that it lies below, last itself.
    ///
    /// Each is described when the next one was opened in it: a rename that led there has changed
    /// the times of both by then, whatever is exchanged meanwhile.
    fn way(&self, dir: &Path) -> io::Result<Vec<Meta>>;
    /// Where a link points.
    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.look(path)?.target()
    }
    /// The names in a directory, sorted.
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.look(path)?.names()
    }
    /// Keeps other commands that write from a directory, by a file of this user in it, until what
    /// is returned is dropped; `None` where nobody can write or nothing can be locked.
    ///
    /// Errors: `WouldBlock` if another command works there.
    fn lock(&self, dir: &Path) -> io::Result<Option<Box<dyn Held>>>;
    /// Whether a command that writes works in a directory, as far as this user may know.
    fn is_locked(&self, dir: &Path) -> bool;
    /// The permission bits that nothing gets which this process makes, unless it is told to.
    fn umask(&self) -> u32;
    /// Free bytes of the file system.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
}

/// An open file system.
pub trait DiskSystem: Send + Sync {
    /// Makes everything durable that was written to it, and every name given in it, since it was
    /// opened.
    ///
    /// Cost: what other programs have not written back yet is written too.
    fn sync(&self) -> io::Result<()>;
}

/// A lock, until it is dropped.
pub trait Held: Send + Sync {}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Reads at an offset; fewer bytes only at the end of the file.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all bytes at an offset.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Cuts it off, or fills it up with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes everything written so far durable.
    fn sync(&self) -> io::Result<()>;
    /// Describes it.
    fn meta(&self) -> io::Result<Meta>;
    /// Sets its permission bits and its time of modification.
    fn set_meta(&self, mode: u32, mtime: Timestamp) -> io::Result<()>;
    /// Its extended attributes, in any order; none where the file system has no such thing.
    fn attributes(&self) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>>;
    /// Sets an extended attribute, or removes it.
    fn set_attribute(&self, name: &[u8], value: Option<&[u8]>) -> io::Result<()>;
    /// Gives it an owner and a group.
    fn set_owner(&self, owner: u32, group: u32) -> io::Result<()>;
    /// Gives a file that was created another name in the directory in which it was created, instead
    /// of whatever has that name.
    fn give_name(&self, path: &Path) -> io::Result<()>;
    /// As [`give_name`](DiskFile::give_name), if nothing has that name.
    ///
    /// Errors: `AlreadyExists`. Where the file system has no such renaming, what takes the name
    /// between a look and the renaming is replaced.
    fn give_free_name(&self, path: &Path) -> io::Result<()>;
    /// Removes a file that was created, by the name and in the directory in which it was.
    fn discard(&self) -> io::Result<()>;
    /// What has a name in the directory in which a file was created, and would be replaced by
    /// [`give_name`](DiskFile::give_name); the directory itself for no name.
    fn beside(&self, name: Option<&OsStr>) -> io::Result<Box<dyn Seen>>;
    /// Whether bytes were stored for all of a range: it has no hole. A file system that cannot tell
    /// says that they were.
    fn is_stored(&self, _at: u64, _len: u64) -> bool {
        true
    }
}

/// What stood at a path when it was opened, whatever it is: all that is told is told of that one,
/// whatever has its name by then.
pub trait Seen: Send + Sync {
    /// Describes it.
    fn meta(&self) -> io::Result<Meta>;
    /// Its extended attributes, in any order; none where the file system has no such thing.
    fn attributes(&self) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>>;
    /// The names in a directory, sorted.
    fn names(&self) -> io::Result<Vec<PathBuf>>;
    /// Where a link points.
    fn target(&self) -> io::Result<PathBuf>;
    /// Whether it is a link of the kernel's, which leads to what is open whatever is read in it.
    fn is_of_kernel(&self) -> bool;
}

/// Whether a file belongs to the user who runs this.
pub(crate) fn is_own(file: &Meta) -> bool {
    file.owner == rustix::process::geteuid().as_raw()
}

/// A mode of something that was made anew, whose group may be that of the directory that it was
/// made in: if that is not this user's, it may do no more than everybody.
pub(crate) fn within_group(made: &dyn DiskFile, mode: u32) -> u32 {
    let is_of_hers = made.meta().is_ok_and(|meta| meta.group == rustix::process::getegid().as_raw());
    if is_of_hers { mode } else { mode & (!0o070 | (mode & 0o007) << 3) }
}

/// Sets the time of modification of an open file back to one that is earlier. Best effort: where
/// that cannot be, more is read again than must be, or less is found to be touched.
pub(crate) fn set_back(file: &dyn DiskFile, mtime: Timestamp) {
    if let Ok(meta) = file.meta()
        && mtime < meta.mtime
    {
        let _ = file.set_meta(meta.mode, mtime);
    }
}

/// A path without links and dots, so that two spellings of one place are equal; as it is if there
/// is nothing there, or links of others are on the way.
pub(crate) fn spelt_one_way(path: &Path) -> PathBuf {
    crate::links::kernel_path(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Everything was changed since.
pub(crate) const EPOCH: Timestamp = Timestamp { seconds: 0, nanos: 0 };

/// What [`now`] says when it has gone on: all that was changed before this was called looks older,
/// also where a file system keeps exact times, and what is changed afterwards does not. Takes a
/// tick or two, some milliseconds.
pub(crate) fn next_tick() -> Timestamp {
    let asked = exact_now();
    loop {
        std::thread::sleep(std::time::Duration::from_millis(1));
        let now = now();
        // A clock that was set back does not have anybody wait for it.
        if now > asked || exact_now() < asked {
            return now;
        }
    }
}

/// What the clock says that programs take times from which they set.
pub(crate) fn exact_now() -> Timestamp {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    Timestamp { seconds: now.tv_sec, nanos: now.tv_nsec as u32 }
}

/// What the clock says by which the system stamps files, which is up to a tick behind: what is
/// changed after this does not look older.
pub(crate) fn now() -> Timestamp {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    Timestamp { seconds: now.tv_sec, nanos: now.tv_nsec as u32 }
}
