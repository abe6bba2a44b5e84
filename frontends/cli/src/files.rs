//! Files that a command reads and makes for its user.
//!
//! The kernel follows the links of a path that the user names. What is written beneath a named
//! directory stays in that one: a link in the place of a file is replaced, not followed.

use crate::failure::Failure;
use pantile_paths::{Dir, NewFile};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Links that are followed to a file, as by the kernel.
const LINKS_MOST: usize = 40;

/// The permission bits that files of this process can have: those of everybody only if everybody
/// may read all files that it has read.
static MOST: AtomicU32 = AtomicU32::new(0o777);

/// Opens what the user names, file or not, to read it.
pub fn input(path: &Path) -> io::Result<File> {
    note_read(File::open(path)?)
}

/// Opens standard input.
pub fn stdin() -> io::Result<File> {
    note_read(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// Opens a regular file in a folder that the user names, to read it.
pub fn found(path: &Path) -> io::Result<File> {
    note_read(pantile_paths::open_named(path)?)
}

/// Narrows the rights of what is made of a file that is read.
fn note_read(file: File) -> io::Result<File> {
    const READ_BY_ALL: u32 = 0o044;
    let meta = file.metadata()?;
    // A pipe has no reader but the one that it was given to.
    if !meta.file_type().is_fifo() && meta.mode() & READ_BY_ALL != READ_BY_ALL {
        MOST.fetch_and(0o700, Ordering::Relaxed);
    }
    Ok(file)
}

/// The end of a path that the user names for output.
enum Target {
    /// A file, or a name that nothing has.
    File(Dir, OsString),
    /// A device, a pipe or a directory, not opened yet.
    Other(PathBuf),
    /// An open file of this process behind a link of the kernel's, such as `/dev/stdout`.
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

/// Opens what a process has open, to write where it goes on.
fn open_again(dir: &Dir, name: &OsStr) -> io::Result<File> {
    let is_own = dir.metadata()?.ino() == std::fs::metadata("/proc/self/fd")?.ino();
    // The place in the file is shared, so that what is printed later comes behind.
    match name.to_str().filter(|_| is_own) {
        Some("1") => {
            io::stdout().flush()?;
            Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
        }
        Some("2") => Ok(File::from(io::stderr().as_fd().try_clone_to_owned()?)),
        _ => File::options().append(true).open(dir.at(name)),
    }
}

/// Opens a path that the user names for output. A file is written whole or not at all.
///
/// A link stays a link, and the kernel follows it.
pub fn output(path: &Path) -> io::Result<Output> {
    const NOCTTY: i32 = 0o400;
    Ok(match Target::of(path)? {
        Target::File(dir, name) => Output::New(Box::new(dir.create(name)?)),
        Target::Opened(dir, name) => Output::Other(open_again(&dir, &name)?),
        // A pipe is waited for.
        Target::Other(path) => Output::Other(File::options().write(true).custom_flags(NOCTTY).open(path)?),
    })
}

/// The writing that [`output`] begins.
pub enum Output {
    /// A file, which has its name when all is written.
    New(Box<NewFile>),
    /// A device, a pipe, or an open file: it is written on, and loses nothing.
    Other(File),
}

impl Output {
    /// Ends the writing.
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

/// Writes a file whole or not at all, as [`output`].
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut out = output(path)?;
    out.write_all(bytes)?;
    out.end()
}

/// Says whether [`write_whole`] could write there; nothing that is there is touched.
pub fn can_write(path: &Path) -> io::Result<()> {
    match Target::of(path)? {
        Target::File(dir, name) => dir.create(name).map(drop),
        Target::Other(_) | Target::Opened(..) => Ok(()),
    }
}

/// Begins a file in place of one that is there or not. A link stays a link; what is no file is not
/// replaced.
pub fn create(path: &Path) -> Result<NewFile, Failure> {
    let cannot = |error| Failure::file("create", path, &error);
    match Target::of(path).map_err(cannot)? {
        Target::File(dir, name) => dir.create(name).map_err(cannot),
        Target::Other(_) | Target::Opened(..) => Err(is_no_file(path)),
    }
}

/// Gives a file its name, and the permission bits of the file of this user that it replaces or
/// those of a new one, as far as what was read allows.
///
/// Errors: `AlreadyExists` if something has that name which is not to be replaced.
pub fn give_name(file: NewFile, replaces: bool) -> io::Result<()> {
    let mode = file.usual_mode() & MOST.load(Ordering::Relaxed);
    file.finish(mode, replaces)
}

/// A directory in which a command makes files, opened once.
pub struct OutDir {
    dir: Dir,
    /// True if what is there may be replaced.
    overwrites: bool,
}

impl OutDir {
    /// Makes one, and those above it, as far as they are not there.
    pub fn make(path: &Path, overwrites: bool) -> io::Result<OutDir> {
        Ok(OutDir { dir: Dir::make_named(path)?, overwrites })
    }

    /// Opens one that is there.
    pub fn open(path: &Path, overwrites: bool) -> io::Result<OutDir> {
        Ok(OutDir { dir: Dir::open_named(path)?, overwrites })
    }

    /// Refuses to replace what has one of these names, unless that was asked for.
    pub fn check_free<N: AsRef<OsStr>>(&self, names: impl IntoIterator<Item = N>) -> Result<(), Failure> {
        let is_there = |name: &N| self.dir.look(name.as_ref()).is_ok();
        match names.into_iter().find(|name| !self.overwrites && is_there(name)) {
            None => Ok(()),
            Some(name) => Err(is_there_already(&self.path(name))),
        }
    }

    /// Returns the path of a name in it, beginning as the user named the directory.
    fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.dir.called(name.as_ref())
    }

    /// Removes a file that is there or not.
    pub fn remove(&self, name: &str) -> Result<(), Failure> {
        match self.dir.remove(name) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Failure::file("replace", &self.path(name), &error))
            }
            _ => Ok(()),
        }
    }

    /// Begins a file. A link in its place is replaced, nothing else that is no file.
    pub fn create(&self, name: impl AsRef<OsStr>) -> Result<NewFile, Failure> {
        let is_other = |found: std::fs::Metadata| !found.is_file() && !found.is_symlink();
        if self.dir.look(name.as_ref()).is_ok_and(is_other) {
            return Err(is_no_file(&self.path(name)));
        }
        self.dir.create(&name).map_err(|error| Failure::file("create", &self.path(&name), &error))
    }

    /// Gives a file that was begun in it its name.
    pub fn give_name(&self, file: NewFile, called: &Path) -> Result<(), Failure> {
        give_name(file, self.overwrites).map_err(|error| cannot("name", called, &error))
    }

    /// Writes a file whole or not at all.
    pub fn write_whole(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let mut file = self.create(name)?;
        let written = file.write_all(bytes).and_then(|()| file.file().sync_all());
        written.map_err(|error| cannot("write", &self.path(name), &error))?;
        self.give_name(file, &self.path(name))
    }
}

/// Describes what cannot be done to a file that is made; of one that is there already, what to do.
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

/// Nothing is replaced unless that was asked for.
pub fn is_there_already(path: &Path) -> Failure {
    Failure::Input(format!(
        "{} is there already; name another place, or give --overwrite to replace it",
        path.display()
    ))
}
