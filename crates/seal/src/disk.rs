//! The file layer: everything that touches the disk passes through [`Disk`], so that tests can count, fail and crash.

use pantile_format::Timestamp;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The permission bits of a directory that is not finished.
pub(crate) const PRIVATE_DIR: u32 = 0o700;

/// A directory entry or file, as the system describes it; links are not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// What it is.
    pub kind: MetaKind,
    /// In bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// When it was last modified, or what its owner says.
    pub mtime: Timestamp,
    /// When it was last changed in any way: content, name, mode, or the time of modification.
    pub ctime: Timestamp,
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
pub trait Disk: Send + Sync {
    /// Opens a file to read it.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file to read and write it.
    fn open_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Makes an empty file in place of whatever is there, readable for its owner alone until told otherwise.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Renames a file over another.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes a directory and those above it.
    fn make_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes a directory, open to its owner alone until told otherwise.
    fn make_private_dir(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory that is empty.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Gives a file another name, at which there is nothing yet, beside the one that it has.
    fn add_name(&self, path: &Path, name: &Path) -> io::Result<()>;
    /// Makes a symbolic link.
    fn make_link(&self, target: &Path, path: &Path) -> io::Result<()>;
    /// Sets permission bits (of anything but a link) and the time of modification.
    fn set_meta(&self, path: &Path, mode: u32, mtime: Timestamp) -> io::Result<()>;
    /// Gives a file the owner and group of another.
    fn copy_owner(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Describes a path; a link describes itself.
    fn meta(&self, path: &Path) -> io::Result<Meta>;
    /// Where a link points.
    fn read_link(&self, path: &Path) -> io::Result<PathBuf>;
    /// The names in a directory, sorted.
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>>;
    /// Free bytes of the file system.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
}

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
}

/// Where a path leads: to itself, or along its links to a file that may not be there.
pub(crate) fn resolve(disk: &dyn Disk, path: &Path) -> io::Result<PathBuf> {
    const LINKS_MOST: usize = 40;
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MOST {
        match disk.meta(&path) {
            Ok(meta) if meta.kind == MetaKind::Symlink => {
                path = crate::names::parent(&path).join(disk.read_link(&path)?);
            }
            _ => return Ok(path),
        }
    }
    Err(io::Error::other("its links lead in a circle"))
}

/// Sets the time of modification of an open file back to one that is earlier. Best effort: where that cannot be, more is read again
/// than must be, or less is found to be touched.
pub(crate) fn set_back(disk: &dyn Disk, path: &Path, file: &dyn DiskFile, mtime: Timestamp) {
    if let Ok(meta) = file.meta()
        && mtime < meta.mtime
    {
        let _ = disk.set_meta(path, meta.mode, mtime);
    }
}

/// A path without links and dots, so that two spellings of one place are equal; as it is if there is nothing there.
pub(crate) fn spelt_one_way(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// What the clock says.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() }
}

/// The files of this system.
pub struct SystemDisk;

struct SystemFile(File);

impl Disk for SystemDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        // A pipe in place of a file must not block the run.
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        Ok(Box::new(SystemFile(OpenOptions::new().read(true).custom_flags(flags).open(path)?)))
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let flags = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
        Ok(Box::new(SystemFile(OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?)))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Box::new(SystemFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn make_private_dir(&self, path: &Path) -> io::Result<()> {
        fs::DirBuilder::new().mode(PRIVATE_DIR).create(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn add_name(&self, path: &Path, name: &Path) -> io::Result<()> {
        fs::hard_link(path, name)
    }

    fn make_link(&self, target: &Path, path: &Path) -> io::Result<()> {
        std::os::unix::fs::symlink(target, path)
    }

    fn set_meta(&self, path: &Path, mode: u32, mtime: Timestamp) -> io::Result<()> {
        use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, utimensat};
        if !fs::symlink_metadata(path)?.is_symlink() {
            fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        }
        let times = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec { tv_sec: mtime.seconds, tv_nsec: mtime.nanos.into() },
        };
        Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn copy_owner(&self, from: &Path, to: &Path) -> io::Result<()> {
        let meta = fs::symlink_metadata(from)?;
        std::os::unix::fs::lchown(to, Some(meta.uid()), Some(meta.gid()))
    }

    fn meta(&self, path: &Path) -> io::Result<Meta> {
        fs::symlink_metadata(path).map(|meta| describe(&meta))
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        fs::read_link(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            names.push(PathBuf::from(entry?.file_name()));
        }
        names.sort_unstable();
        Ok(names)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

impl DiskFile for SystemFile {
    fn read_at(&self, mut bytes: &mut [u8], mut offset: u64) -> io::Result<usize> {
        let mut total = 0;
        while !bytes.is_empty() {
            match self.0.read_at(bytes, offset) {
                Ok(0) => break,
                Ok(read) => {
                    total += read;
                    offset += read as u64;
                    bytes = &mut bytes[read..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn meta(&self) -> io::Result<Meta> {
        self.0.metadata().map(|meta| describe(&meta))
    }
}

fn describe(meta: &fs::Metadata) -> Meta {
    let kind = match meta.file_type() {
        t if t.is_dir() => MetaKind::Dir,
        t if t.is_file() => MetaKind::File,
        t if t.is_symlink() => MetaKind::Symlink,
        _ => MetaKind::Other,
    };
    let mtime = Timestamp { seconds: meta.mtime(), nanos: meta.mtime_nsec() as u32 };
    let ctime = Timestamp { seconds: meta.ctime(), nanos: meta.ctime_nsec() as u32 };
    Meta { kind, size: meta.size(), mode: meta.mode() & 0o7777, mtime, ctime }
}
