//! Files that a command makes for its user.
//!
//! All of them are reached through opened directories: links are followed only if nobody else can
//! have put them there, and whoever exchanges names meanwhile leads the writing nowhere else.
//! `pantile_seal::disk` has the rules.

use crate::failure::Failure;
use pantile_format::Timestamp;
use pantile_seal::disk::{
    Access, Disk, DiskFile, SystemDisk, is_led_to_by_nobody_else, real_path, real_place,
};
use pantile_trust::Caller;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The longest name that is part of the name of the file beside it: a name has at most 255 bytes.
const NAME_BYTES_MOST: usize = 200;

/// The permission bits of a file that may be for everybody.
const ALL: u32 = 0o777;

/// Where a file is written that a person names.
enum Place {
    /// It is a file, or nothing yet; without links.
    File(PathBuf),
    /// A device or a pipe: written to, never replaced.
    Special(PathBuf),
    /// What a link of hers leads to and has no name, such as a pipe of another process.
    Nameless(File),
    /// What this process has open by that number, such as behind `/dev/stdout`: written on from
    /// where it is, whatever it is.
    Opened(u32),
}

/// Where a path leads.
///
/// Errors: `PermissionDenied` for a link that somebody else may have put there.
fn place(path: &Path) -> io::Result<Place> {
    let real = real_path(path);
    let is_of_others = real.as_ref().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    if let Some(number) = opened(path).filter(|_| !is_of_others) {
        return Ok(Place::Opened(number));
    }
    match real {
        Ok(real) if real.symlink_metadata().is_ok_and(|meta| meta.is_file()) => Ok(Place::File(real)),
        Ok(real) => Ok(Place::Special(real)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if path.is_symlink()
                && is_led_to_by_nobody_else(parent(path))
                && let Some(nameless) = nameless(path)
            {
                return Ok(Place::Nameless(nameless));
            }
            // A link to a name that nothing has yet: another user may make a link of that.
            real_place(path).map(Place::File)
        }
        Err(error) => Err(error),
    }
}

/// The number by which this process has open what a path names, link by link: 1 for `/dev/stdout`.
///
/// To such a link of the kernel's the file has no other name: the file that has the name which the
/// link shows is perhaps another one by now, and a shell that was told to append wants it kept.
fn opened(path: &Path) -> Option<u32> {
    const LINKS_MOST: usize = 40;
    let own = Path::new("/proc/self/fd").canonicalize().ok()?;
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MOST {
        let to = std::fs::read_link(&path).ok()?;
        if parent(&path).canonicalize().is_ok_and(|dir| dir == own) {
            return path.file_name()?.to_str()?.parse().ok();
        }
        path = parent(&path).join(to);
    }
    None
}

/// Opens what this process has open once more, to write where it goes on.
fn open_again(number: u32) -> io::Result<File> {
    match number {
        // Its place in the file is shared, so that what is printed later comes behind.
        1 => {
            io::stdout().flush()?;
            Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
        }
        2 => Ok(File::from(io::stderr().as_fd().try_clone_to_owned()?)),
        number => File::options().append(true).open(format!("/proc/self/fd/{number}")),
    }
}

/// What a link leads to, to describe it, if that is a pipe or a file without a name.
fn nameless(link: &Path) -> Option<File> {
    /// Opens to describe.
    const PATH: i32 = 0o10000000;
    let seen = File::options().read(true).custom_flags(PATH).open(link).ok()?;
    let meta = seen.metadata().ok()?;
    (meta.file_type().is_fifo() || (meta.is_file() && meta.nlink() == 0)).then_some(seen)
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens what is read, file or not. A link in its place is followed if nobody else can have put it
/// there, or if whoever did owns what it leads to.
pub fn input(path: &Path) -> io::Result<File> {
    if path.file_name().is_none() {
        return File::open(path);
    }
    let found = match SystemDisk::open_found(path) {
        // What the shell has opened has no name, as for <(command).
        Err(error) if error.kind() == ErrorKind::NotFound && is_led_to_by_nobody_else(parent(path)) => {
            return nameless(path).map_or(Err(error), |seen| reopened(&seen));
        }
        found => found?,
    };
    // A file is open by now; of anything else there is a descriptor that tells what it is.
    let meta = found.metadata()?;
    if meta.is_file() {
        return Ok(found);
    }
    refuse_if_of_another(path, &meta)?;
    reopened(&found)
}

/// Opens what was opened to describe it, to read it.
fn reopened(seen: &File) -> io::Result<File> {
    File::open(format!("/proc/self/fd/{}", seen.as_raw_fd()))
}

/// Opens what is no file to write to it. A directory on the way that was exchanged for a link leads
/// to no other device.
fn open_special(path: &Path) -> io::Result<File> {
    let disk = SystemDisk::new();
    let dir = disk.root(parent(path), Access::Write)?;
    disk.open_special(&dir.join(path.file_name().ok_or(ErrorKind::InvalidInput)?))
}

/// Opens what is written in one go, whole or not at all where it is a file.
pub fn output(path: &Path) -> io::Result<Output> {
    Ok(match place(path)? {
        Place::File(path) => Output::New(Box::new(NewFile::at(&path)?)),
        Place::Special(path) => Output::Other(open_special(&path)?),
        Place::Nameless(seen) => {
            let path = format!("/proc/self/fd/{}", seen.as_raw_fd());
            Output::Other(File::options().append(true).open(path)?)
        }
        Place::Opened(number) => Output::Other(open_again(number)?),
    })
}

/// What is written by [`output`].
pub enum Output {
    /// A file, which has its name when all is written.
    New(Box<NewFile>),
    /// A device, a pipe, or a file without a name of its own: it is written on, and loses nothing.
    Other(File),
}

impl Output {
    /// Ends the writing.
    pub fn end(self) -> io::Result<()> {
        match self {
            Output::New(file) => file.sync().and_then(|()| file.give_name(ALL)),
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

/// Writes a file whole or not at all: into another beside it, which then takes its name.
///
/// A link stays a link, and is followed only if nobody else can have put it there. What is no file
/// of its own name, such as a device or `/dev/stdout`, is written on from where it is.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut out = output(path)?;
    out.write_all(bytes)?;
    out.end()
}

/// Says whether [`write_whole`] could write there; nothing that is there is touched.
pub fn can_write(path: &Path) -> io::Result<()> {
    match place(path)? {
        Place::File(path) => NewFile::at(&path).map(drop),
        Place::Special(_) | Place::Nameless(_) | Place::Opened(_) => Ok(()),
    }
}

/// Makes a directory and those above it, as far as they are not there; its path without links.
pub fn make_dir(path: &Path) -> io::Result<PathBuf> {
    SystemDisk::new().make_root(path)
}

/// Removes a file that is there or not.
pub fn remove(path: &Path) -> io::Result<()> {
    let disk = SystemDisk::new();
    let dir = disk.root(parent(path), Access::Write)?;
    match disk.remove(&dir.join(path.file_name().ok_or(ErrorKind::InvalidInput)?)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A file beside the one that it becomes, for its owner alone until then, and removed unless it
/// does.
pub struct NewFile {
    disk: SystemDisk,
    file: Box<dyn DiskFile>,
    temp: PathBuf,
    to: PathBuf,
    /// What is written next.
    at: u64,
}

impl NewFile {
    /// In place of a file that is there or not. A link stays a link; what is no file is not
    /// replaced.
    pub fn create(path: &Path) -> Result<NewFile, Failure> {
        match place(path).map_err(|error| Failure::file("create", path, &error))? {
            Place::File(real) => NewFile::at(&real).map_err(|error| Failure::file("create", path, &error)),
            Place::Special(_) | Place::Nameless(_) | Place::Opened(_) => Err(Failure::Input(format!(
                "{} is no file of its own name, and only such are replaced; name a file",
                path.display()
            ))),
        }
    }

    fn at(path: &Path) -> io::Result<NewFile> {
        let disk = SystemDisk::new();
        let dir = disk.root(parent(path), Access::Write)?;
        let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
        let mut temp = std::ffi::OsString::from(".");
        if name.len() <= NAME_BYTES_MOST {
            temp.push(name);
            temp.push(".");
        }
        temp.push(format!("pantile-{}.tmp", std::process::id()));
        let temp = dir.join(temp);
        let file = disk.create(&temp)?;
        Ok(NewFile { disk, file, temp, to: dir.join(name), at: 0 })
    }

    /// Brings what was written to the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    /// Gives it its name, and of these permission bits those that what had it before had, if that
    /// was this user's and nobody else can have put it there; else those of a new file.
    pub fn give_name(&self, most: u32) -> io::Result<()> {
        let caller = Caller::alone();
        let is_hers = |before: &Metadata| {
            let dir = parent(&self.to).symlink_metadata();
            before.is_file() && caller.is_me(before.uid()) && dir.is_ok_and(|dir| !caller.is_of_another(&dir))
        };
        let before = self.to.symlink_metadata().ok().filter(is_hers);
        let mode = most & before.map_or(0o666 & !self.disk.umask(), |before| before.mode() & 0o777);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Timestamp { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() };
        self.file.set_meta(mode, now)?;
        self.file.give_name(&self.to)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // It is not there if it has its name. Best effort: the error at hand says more than a
        // second one would.
        let _ = self.disk.remove(&self.temp);
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for NewFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.file.meta()?.size.checked_add_signed(by),
        };
        self.at = at.ok_or(ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// Refuses a pipe, a socket or a device that another user made, who could keep its reader waiting
/// for ever. What this process has open, somebody gave it.
fn refuse_if_of_another(path: &Path, meta: &Metadata) -> io::Result<()> {
    if meta.is_dir() || Caller::or_by_sudo().trusts(meta.uid()) || opened(path).is_some() {
        return Ok(());
    }
    let what = if meta.file_type().is_fifo() { "a pipe" } else { "no file and" };
    let why = format!("it is {what} of another user, who may keep its reader waiting; name a file");
    Err(io::Error::new(ErrorKind::PermissionDenied, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Of a link of hers to a file that is not there, another user makes a link of his own.
    #[test]
    fn a_link_to_nothing_in_a_directory_of_others_leads_nowhere_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let [shared, victim, link] = ["shared", "victim", "link"].map(|name| folder.path().join(name));
        fs::create_dir(&shared).expect("a folder");
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).expect("a mode");
        fs::write(&victim, "kept").expect("a file");
        symlink(shared.join("new"), &link).expect("a link");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..50_000 {
                    let _ = symlink(&victim, shared.join("new"));
                    let _ = fs::remove_file(shared.join("new"));
                }
                done.store(true, Ordering::Relaxed);
            });
            while !done.load(Ordering::Relaxed) {
                let _ = write_whole(&link, b"out");
            }
        });
        assert_eq!(fs::read(&victim).expect("it is there"), b"kept");
        write_whole(&link, b"out").expect("nobody exchanges it any more");
        assert_eq!(fs::read(shared.join("new")).expect("the link led there"), b"out");
    }

    /// Whoever may write to the directory above exchanges it for a link to another one.
    #[test]
    fn a_directory_that_is_exchanged_for_a_link_leads_nothing_elsewhere() {
        let folder = tempfile::tempdir().expect("a folder");
        let [shared, elsewhere] = ["shared", "elsewhere"].map(|name| folder.path().join(name));
        let [dir, aside] = ["dir", "aside"].map(|name| shared.join(name));
        fs::create_dir_all(&dir).expect("a folder");
        fs::create_dir(&elsewhere).expect("a folder");
        fs::write(elsewhere.join("kept"), "kept").expect("a file");
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).expect("a mode");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    fs::rename(&dir, &aside).expect("it is there");
                    symlink(&elsewhere, &dir).expect("a link");
                    fs::remove_file(&dir).expect("the link is there");
                    fs::rename(&aside, &dir).expect("it is there");
                }
                done.store(true, Ordering::Relaxed);
            });
            while !done.load(Ordering::Relaxed) {
                let _ = write_whole(&dir.join("out"), b"out");
                let _ = NewFile::create(&dir.join("new"));
                let _ = can_write(&dir.join("could"));
                let _ = remove(&dir.join("kept"));
            }
        });
        let names: Vec<_> = fs::read_dir(&elsewhere)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        assert_eq!(names, ["kept"]);
        write_whole(&dir.join("out"), b"out").expect("nobody exchanges it any more");
    }
}
