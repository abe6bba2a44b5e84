//! Files that a command reads and writes for its user.
//!
//! The kernel follows the links of a path that the user names. Output beneath a named directory
//! stays in that directory: a link in the place of a file is replaced, not followed.

use crate::failure::Failure;
use pantile_paths::{Dir, NewFile};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of links that are followed to a file, as in the kernel.
const LINKS_MOST: usize = 40;

/// Permission bits allowed for new files: those of other users only if every input file is readable
/// by all.
static MOST: AtomicU32 = AtomicU32::new(0o777);

/// Opens a path of the user for reading, file or not.
pub fn input(path: &Path) -> io::Result<File> {
    note_read(File::open(path)?)
}

/// Opens standard input.
pub fn stdin() -> io::Result<File> {
    note_read(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// Opens a regular file in a folder of the user for reading.
pub fn found(path: &Path) -> io::Result<File> {
    note_read(pantile_paths::open_named(path)?)
}

/// Restricts the permissions of outputs to those of an input file.
fn note_read(file: File) -> io::Result<File> {
    const READ_BY_ALL: u32 = 0o044;
    let meta = file.metadata()?;
    // Only one process reads a pipe.
    if !meta.file_type().is_fifo() && meta.mode() & READ_BY_ALL != READ_BY_ALL {
        MOST.fetch_and(0o700, Ordering::Relaxed);
    }
    Ok(file)
}

/// The end of a path that the user names for output.
enum Target {
    /// A file, or a free name.
    File(Dir, OsString),
    /// A device, a pipe or a directory, not yet opened.
    Other(PathBuf),
    /// An open file of this process behind a link of the kernel, such as `/dev/stdout`.
    Opened(Dir, OsString),
}

impl Target {
    fn of(path: &Path) -> io::Result<Target> {
        let of_kernel = std::fs::metadata("/proc/self/fd").map(|found| found.dev());
        let mut path = path.to_path_buf();
        for _ in 0..LINKS_MOST {
            let (dir, name) = Dir::around(&path)?;
            let kind = match dir.look(&name) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Target::File(dir, name)),
                found => found?.file_type(),
            };
            if kind.is_file() {
                return Ok(Target::File(dir, name));
            }
            if !kind.is_symlink() {
                return Ok(Target::Other(path));
            }
            if of_kernel.as_ref().is_ok_and(|device| dir.metadata().is_ok_and(|found| found.dev() == *device))
            {
                return Ok(Target::Opened(dir, name));
            }
            path = dir.called(std::fs::read_link(dir.at(&name))?);
        }
        Err(io::Error::other("its links lead in a circle"))
    }
}

/// Opens an open file of this process again, to write from its current position.
fn open_again(dir: &Dir, name: &OsStr) -> io::Result<File> {
    let is_own = dir.metadata()?.ino() == std::fs::metadata("/proc/self/fd")?.ino();
    // Both share the position in the file, so that later output is appended.
    match name.to_str().filter(|_| is_own) {
        Some("1") => {
            io::stdout().flush()?;
            Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
        }
        Some("2") => Ok(File::from(io::stderr().as_fd().try_clone_to_owned()?)),
        _ => File::options().append(true).open(dir.at(name)),
    }
}

/// Opens a path of the user for output. A file is written completely or not at all.
///
/// A link stays a link, and the kernel follows it.
pub fn output(path: &Path) -> io::Result<Output> {
    const NOCTTY: i32 = 0o400;
    Ok(match Target::of(path)? {
        Target::File(dir, name) => Output::New(Box::new(dir.create(name)?)),
        Target::Opened(dir, name) => Output::Other(open_again(&dir, &name)?),
        // Opening a pipe blocks until it has a reader.
        Target::Other(path) => Output::Other(File::options().write(true).custom_flags(NOCTTY).open(path)?),
    })
}

/// An output that [`output`] opened.
pub enum Output {
    /// A file, which gets its name when it is complete.
    New(Box<NewFile>),
    /// A device, a pipe, or an open file: data are appended.
    Other(File),
}

impl Output {
    /// Finishes the output.
    pub fn end(self) -> io::Result<()> {
        match self {
            Output::New(file) => file.file().sync_all().and_then(|()| give_name(*file, true)),
            Output::Other(_) => Ok(()),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::New(file) => file.write(bytes),
            Output::Other(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a file completely or not at all, as [`output`] does.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut out = output(path)?;
    out.write_all(bytes)?;
    out.end()
}

/// Tests if [`write_whole`] can write to a path; existing files are not changed.
pub fn can_write(path: &Path) -> io::Result<()> {
    match Target::of(path)? {
        Target::File(dir, name) => dir.create(name).map(drop),
        Target::Other(_) | Target::Opened(..) => Ok(()),
    }
}

/// Begins a file that may replace an existing one. A link stays a link; only a file is replaced.
pub fn create(path: &Path) -> Result<NewFile, Failure> {
    let cannot = |error| Failure::file("create", path, &error);
    match Target::of(path).map_err(cannot)? {
        Target::File(dir, name) => dir.create(name).map_err(cannot),
        Target::Other(_) | Target::Opened(..) => Err(is_no_file(path)),
    }
}

/// Gives a file its name, and the permission bits of the replaced file of this user or those of a
/// new file, restricted by the inputs.
///
/// Errors: `AlreadyExists` if the name is taken and must not be replaced.
pub fn give_name(file: NewFile, replaces: bool) -> io::Result<()> {
    let mode = file.usual_mode() & MOST.load(Ordering::Relaxed);
    file.finish(mode, replaces)
}

/// A directory for new files, opened once.
pub struct OutDir {
    dir: Dir,
    /// True if existing files may be replaced.
    overwrites: bool,
}

impl OutDir {
    /// Creates the directory and its parents if they do not exist.
    pub fn make(path: &Path, overwrites: bool) -> io::Result<OutDir> {
        Ok(OutDir { dir: Dir::make_named(path)?, overwrites })
    }

    /// Opens an existing directory.
    pub fn open(path: &Path, overwrites: bool) -> io::Result<OutDir> {
        Ok(OutDir { dir: Dir::open_named(path)?, overwrites })
    }

    /// Refuses if one of these names is taken, unless existing files may be replaced.
    pub fn check_free<N: AsRef<OsStr>>(&self, names: impl IntoIterator<Item = N>) -> Result<(), Failure> {
        let is_there = |name: &N| self.dir.look(name.as_ref()).is_ok();
        match names.into_iter().find(|name| !self.overwrites && is_there(name)) {
            None => Ok(()),
            Some(name) => Err(is_there_already(&self.path(name))),
        }
    }

    /// Returns the path of a name in it, with the directory as the user named it.
    fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.dir.called(name.as_ref())
    }

    /// Removes a file if it exists.
    pub fn remove(&self, name: &str) -> Result<(), Failure> {
        match self.dir.remove(name) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Failure::file("replace", &self.path(name), &error))
            }
            _ => Ok(()),
        }
    }

    /// Begins a file. Only a file or a link of the same name is replaced.
    pub fn create(&self, name: impl AsRef<OsStr>) -> Result<NewFile, Failure> {
        let is_other = |found: std::fs::Metadata| !found.is_file() && !found.is_symlink();
        if self.dir.look(name.as_ref()).is_ok_and(is_other) {
            return Err(is_no_file(&self.path(name)));
        }
        self.dir.create(&name).map_err(|error| Failure::file("create", &self.path(&name), &error))
    }

    /// Gives its name to a file that was begun in this directory.
    pub fn give_name(&self, file: NewFile, called: &Path) -> Result<(), Failure> {
        give_name(file, self.overwrites).map_err(|error| cannot("name", called, &error))
    }

    /// Writes a file completely or not at all.
    pub fn write_whole(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let mut file = self.create(name)?;
        let written = file.write_all(bytes).and_then(|()| file.file().sync_all());
        written.map_err(|error| cannot("write", &self.path(name), &error))?;
        self.give_name(file, &self.path(name))
    }
}

/// Describes a failed operation on a new file; if the file exists, names the option that replaces
/// it.
pub fn cannot(verb: &str, path: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::AlreadyExists => is_there_already(path),
        _ => Failure::file(verb, path, error),
    }
}

fn is_no_file(path: &Path) -> Failure {
    Failure::Input(format!(
        "{} is no file of its own name, and only such are replaced; name a file",
        path.display()
    ))
}

/// Describes an existing file that is not replaced.
pub fn is_there_already(path: &Path) -> Failure {
    Failure::Input(format!(
        "{} is there already; name another place, or give --overwrite to replace it",
        path.display()
    ))
}
