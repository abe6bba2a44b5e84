//! The file layer: everything that touches the disk passes through [`Disk`], so that tests can
//! count, fail and crash.
//!
//! A path is a name below a *root*: a directory that the user named, or the target of a named link
//! to a shard, opened once by [`Disk::root`]. Paths that are below no root are not found. Paths
//! below a root that was opened for reading cannot be changed, so a command that only reads cannot
//! write, whatever names a set, a link or another user contains.

use crate::set::names::path_of;
use pantile_format::Timestamp;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

pub(crate) use crate::links::resolve;
pub use crate::system::SystemDisk;

/// The permission bits of a directory that is still under construction.
pub(crate) const PRIVATE_DIR: u32 = 0o700;
/// The mode of a new directory of shards or records: no other user can write to it, whatever the
/// umask allows.
pub(crate) const ROOT_DIR: u32 = 0o755;
/// The bit by which new files get the group of their directory.
pub(crate) const SETGID: u32 = 0o2000;

/// Identity of a file, independent of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// The number of the device.
    pub device: u64,
    /// The number of the inode.
    pub inode: u64,
}

/// A directory that was opened as a root, and created if it was missing.
#[derive(Clone, Debug)]
pub struct MadeRoot {
    /// Its path without links.
    pub path: PathBuf,
    /// Identity, if this command has certainly created it.
    pub made: Option<FileId>,
}

/// Permitted operations below a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Files are read and listed; changes are refused.
    Read,
    /// Everything.
    Write,
}

/// Description of a file or directory entry by the system; links are not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Kind of file.
    pub kind: MetaKind,
    /// In bytes.
    pub size: u64,
    /// Number of its names (hard links).
    pub names: u64,
    /// Permission bits.
    pub mode: u32,
    /// Time of modification, which its owner can set.
    pub mtime: Timestamp,
    /// Time of the last change of content, name, mode or time of modification.
    pub ctime: Timestamp,
    /// Identity of the file.
    pub id: FileId,
    /// The user that owns it.
    pub owner: u32,
    /// The group of the file.
    pub group: u32,
}

/// Kind of file at a path.
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

/// Time of modification of a symbolic link, and its owner and group if they are to be set.
pub type Dress = (Timestamp, Option<(u32, u32)>);

/// Operations that this crate needs of a file system. Nothing is durable before `sync` or
/// `sync_dir` returned.
///
/// Below a root no symbolic link is followed, not even as the last name of a path. A disk serves
/// one command. Each directory keeps the identity with which it was first found: another directory
/// at its path is refused, so that an exchange of names diverts no part of the work.
pub trait Disk: Send + Sync {
    /// Opens a directory as a root, or gives a root more access; returns its path without links.
    ///
    /// Links on the way to it are followed once, by the kernel: later only the opened directory
    /// counts.
    fn root(&self, path: &Path, access: Access) -> io::Result<PathBuf>;
    /// As [`root`](Disk::root), of an absolute path that had no link when it was recorded. A link
    /// that is there now would lead elsewhere.
    ///
    /// Errors: `ELOOP` if there is a link on the way.
    fn root_through_no_link(&self, path: &Path, access: Access) -> io::Result<()>;
    /// As [`root`](Disk::root), to write; missing directories on the path are created.
    ///
    /// A new directory has this mode from the start, less the umask. A directory that another
    /// process creates at the same moment counts as an existing one.
    fn make_root(&self, path: &Path, mode: u32) -> io::Result<MadeRoot>;
    /// Removes the empty directories that [`make_root`](Disk::make_root) created for a path.
    fn unmake_root(&self, path: &Path);
    /// Opens a file to read it. Anything but a regular file can be described, not read.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file to read and write it.
    fn open_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Creates an empty file, in place of an existing one, that only its owner can read at first.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Renames a file over another.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Opens the file system of a directory, to make many files durable at once.
    ///
    /// Errors: `Unsupported` if the system would not report a failed write.
    fn open_system(&self, dir: &Path) -> io::Result<Box<dyn DiskSystem>>;
    /// Makes a directory, if it is not there.
    fn make_dir(&self, path: &Path) -> io::Result<()>;
    /// Creates a directory that only its owner can open at first; returns its identity.
    ///
    /// Errors: another directory took its place just now.
    fn make_private_dir(&self, path: &Path) -> io::Result<FileId>;
    /// Opens a directory to set its rights, attributes and time.
    ///
    /// A user with write access to its parent can exchange it for another directory of the same
    /// owner: compare the identities before it gets rights.
    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Gives a file another name, which must be free.
    fn add_name(&self, path: &Path, name: &Path) -> io::Result<()>;
    /// Makes a symbolic link.
    ///
    /// The link gets a time of modification, and an owner and a group if they are given. Both are
    /// set as far as the system permits this user, and only if no other user has replaced the link
    /// meanwhile.
    fn make_link(&self, target: &Path, path: &Path, dress: Dress) -> io::Result<()>;
    /// Sets the time of modification of a directory.
    fn set_time(&self, path: &Path, mtime: Timestamp) -> io::Result<()>;
    /// Opens a path to describe it; a link is not followed.
    fn look(&self, path: &Path) -> io::Result<Box<dyn Seen>>;
    /// Describes a path; a link describes itself.
    fn meta(&self, path: &Path) -> io::Result<Meta> {
        self.look(path)?.meta()
    }
    /// Returns the mount point of the file system that a path is on. For a missing path its nearest
    /// existing directory counts.
    fn mount_point(&self, path: &Path) -> PathBuf {
        use std::os::unix::fs::MetadataExt;
        let there = path.ancestors().find_map(|above| std::fs::canonicalize(above).ok()).unwrap_or_default();
        let device = |path: &Path| std::fs::metadata(path).ok().map(|meta| meta.dev());
        let on_it = there.ancestors().take_while(|above| device(above) == device(&there));
        on_it.last().unwrap_or(Path::new("/")).to_path_buf()
    }
    /// The mount point above a path, or the path itself, that `/etc/fstab` names and where nothing
    /// is mounted now.
    fn unmounted(&self, path: &Path) -> Option<PathBuf> {
        let path = std::path::absolute(path).ok()?;
        let there = path.ancestors().find_map(|above| {
            Some(std::fs::canonicalize(above).ok()?.join(path.strip_prefix(above).ok()?))
        })?;
        let text = |file: &str| std::fs::read(file).unwrap_or_default();
        unmounted_in(&text("/etc/fstab"), &text("/proc/self/mountinfo"), &there)
    }
    /// Describes the directories on a path, from the root to the directory itself.
    ///
    /// Each is described after the next one was opened in it. A rename before that moment has
    /// already changed the times of both, so an exchange of names meanwhile cannot hide it.
    fn way(&self, dir: &Path) -> io::Result<Vec<Meta>>;
    /// Target of a link.
    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.look(path)?.target()
    }
    /// The names in a directory, sorted.
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.look(path)?.names()
    }
    /// Locks a directory against other commands that write, by a file of this user in it. The lock
    /// lasts until the result is dropped. `None` if no user can write there or the file system has
    /// no locks.
    ///
    /// Errors: `WouldBlock` if another command works there.
    fn lock(&self, dir: &Path) -> io::Result<Option<Box<dyn Held>>>;
    /// True if a writing command works in a directory, as far as this user can see.
    fn is_locked(&self, dir: &Path) -> bool;
    /// The permission bits that new files of this process do not get by default.
    fn umask(&self) -> u32;
    /// Free bytes of the file system.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
}

/// An open file system.
pub trait DiskSystem: Send + Sync {
    /// Makes all writes and names since it was opened durable.
    ///
    /// Cost: pending data of other programs is written too.
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
    /// Truncates it, or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes everything written so far durable.
    fn sync(&self) -> io::Result<()>;
    /// Writes pending data back. A later store into a page that is mapped then sets a new mtime.
    fn write_back(&self) -> io::Result<()> {
        Ok(())
    }
    /// Describes it.
    fn meta(&self) -> io::Result<Meta>;
    /// Sets its permission bits and its time of modification.
    fn set_meta(&self, mode: u32, mtime: Timestamp) -> io::Result<()>;
    /// Its extended attributes, in any order; empty if the file system does not support them.
    fn attributes(&self) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>>;
    /// Sets an extended attribute, or removes it.
    fn set_attribute(&self, name: &[u8], value: Option<&[u8]>) -> io::Result<()>;
    /// Gives it an owner and a group.
    fn set_owner(&self, owner: u32, group: u32) -> io::Result<()>;
    /// Renames a file that this command created, within the directory where it was created. An
    /// existing file of that name is replaced.
    fn give_name(&self, path: &Path) -> io::Result<()>;
    /// As [`give_name`](DiskFile::give_name), if the name is free.
    ///
    /// Errors: `AlreadyExists`. On a file system that cannot check and rename in one step, a file
    /// that takes the name in between is replaced.
    fn give_free_name(&self, path: &Path) -> io::Result<()>;
    /// Removes a created file, by its name in the directory where it was created.
    fn discard(&self) -> io::Result<()>;
    /// Opens another name in the directory where this file was created: the file that
    /// [`give_name`](DiskFile::give_name) would replace. `None` opens the directory itself.
    fn beside(&self, name: Option<&OsStr>) -> io::Result<Box<dyn Seen>>;
    /// True if a range has no hole, or if the file system cannot tell.
    fn is_stored(&self, _at: u64, _len: u64) -> bool {
        true
    }
}

/// A file of any kind, opened at a path. All answers are about this file, even if the path leads to
/// another file later.
pub trait Seen: Send + Sync {
    /// Describes it.
    fn meta(&self) -> io::Result<Meta>;
    /// Its extended attributes, in any order; empty if the file system does not support them.
    fn attributes(&self) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>>;
    /// The names in a directory, sorted.
    fn names(&self) -> io::Result<Vec<PathBuf>>;
    /// Target of a link.
    fn target(&self) -> io::Result<PathBuf>;
    /// True for a link of the kernel, as in `/proc`: it leads to an open file, whatever its text
    /// is.
    fn is_of_kernel(&self) -> bool;
}

/// Returns the words for a path of which `/etc/fstab` has the mount point, if nothing is mounted
/// there.
pub(crate) fn why_unmounted(disk: &dyn Disk, path: &Path) -> Option<String> {
    let point = disk.unmounted(path)?;
    Some(format!("nothing is mounted at {}, which is in /etc/fstab", point.display()))
}

/// Returns the innermost mount point of a table on a path, unless something is mounted there or
/// below it on the path.
fn unmounted_in(table: &[u8], mounts: &[u8], path: &Path) -> Option<PathBuf> {
    let innermost = |text: &[u8], field: usize| {
        let points = text.split(|&byte| byte == b'\n').filter_map(|line| {
            let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            let is_comment = line.trim_ascii_start().starts_with(b"#");
            words.nth(field).filter(|_| !is_comment).map(unescaped)
        });
        points
            .filter(|point| point.is_absolute() && path.starts_with(point))
            .max_by_key(|point| point.as_os_str().len())
    };
    let point = innermost(table, 1)?;
    let mounted = innermost(mounts, 4)?;
    (!mounted.starts_with(&point)).then_some(point)
}

/// Returns a path of a table of mounts, in which blanks are written `\040`.
fn unescaped(word: &[u8]) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = word;
    while let Some((&byte, behind)) = rest.split_first() {
        let code = behind.get(..3).filter(|_| byte == b'\\').and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 8).ok());
        bytes.push(code.unwrap_or(byte));
        rest = if code.is_some() { &behind[3..] } else { behind };
    }
    path_of(&bytes).to_path_buf()
}

/// True if a file belongs to the user of this process.
pub(crate) fn is_own(file: &Meta) -> bool {
    file.owner == rustix::process::geteuid().as_raw()
}

/// Returns the mode for a new file. The file may have the group of its directory; if that is not
/// the group of this process, it gets no more rights than all users.
pub(crate) fn within_group(made: &dyn DiskFile, mode: u32) -> u32 {
    let is_of_hers = made.meta().is_ok_and(|meta| meta.group == rustix::process::getegid().as_raw());
    if is_of_hers { mode } else { mode & (!0o070 | (mode & 0o007) << 3) }
}

/// Sets the time of modification of an open file back to an earlier one. Best effort: if it fails,
/// the next commands read more files than necessary, or count fewer as touched.
pub(crate) fn set_back(file: &dyn DiskFile, mtime: Timestamp) {
    if let Ok(meta) = file.meta()
        && mtime < meta.mtime
    {
        let _ = file.set_meta(meta.mode, mtime);
    }
}

/// Returns a path without links and dots, so that two spellings of one place are equal. A path that
/// does not exist, or leads through links of other users, is returned unchanged.
pub(crate) fn spelt_one_way(path: &Path) -> PathBuf {
    crate::links::kernel_path(path).unwrap_or_else(|_| path.to_path_buf())
}

/// A time so early that every file counts as changed since.
pub(crate) const EPOCH: Timestamp = Timestamp { seconds: 0, nanos: 0 };

/// Waits for the next tick of the clock, some milliseconds, and returns [`now`]. All earlier
/// changes look older, even with exact times, and later ones do not.
pub(crate) fn next_tick() -> Timestamp {
    let asked = exact_now();
    loop {
        std::thread::sleep(std::time::Duration::from_millis(1));
        let now = now();
        // A clock that was set back ends the wait.
        if now > asked || exact_now() < asked {
            return now;
        }
    }
}

/// Reads the clock from which programs take the times that they set.
pub(crate) fn exact_now() -> Timestamp {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    Timestamp { seconds: now.tv_sec, nanos: now.tv_nsec as u32 }
}

/// Reads the clock with which the system stamps files. It is up to a tick behind, so later changes
/// do not look older.
pub(crate) fn now() -> Timestamp {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    Timestamp { seconds: now.tv_sec, nanos: now.tv_nsec as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_of_the_table_counts_until_something_is_mounted_on_the_path() {
        let table = b"# /mnt/p none\n/dev/sda1 / ext4\nUUID=1 /mnt/p\\040q ext4 defaults 0 0\nx none swap\n";
        let root = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n";
        let at = |mounts: &str, path: &str| unmounted_in(table, mounts.as_bytes(), Path::new(path));
        assert_eq!(at(root, "/mnt/p q/set"), Some("/mnt/p q".into()));
        assert_eq!((at(root, "/mnt/p"), at(root, "/mnt/p qr")), (None, None));
        for mounted in ["/mnt/p\\040q", "/mnt/p\\040q/set"] {
            let mounts = format!("{root}2 1 8:2 / {mounted} rw - ext4 /dev/sdb1 rw\n");
            assert_eq!(at(&mounts, "/mnt/p q/set"), None, "{mounted}");
        }
    }
}
