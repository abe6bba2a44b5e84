//! Files that a command makes for its user.
//!
//! All of them are reached through opened directories: links are followed only if nobody else can
//! have put them there, and whoever exchanges names meanwhile leads the writing nowhere else. One
//! walk along a path tells what it leads to, and what that walk has opened is what is written to.
//! `pantile_seal::disk` has the rules.

use crate::failure::Failure;
use pantile_format::Timestamp;
use pantile_seal::disk::{Access, Disk, DiskFile, Lead, Meta, MetaKind, SystemDisk};
use pantile_trust::{Caller, Found, most_of_made_from};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The longest name that is part of the name of the file beside it: a name has at most 255 bytes.
const NAME_BYTES_MOST: usize = 200;

/// The permission bits of a file that may be for everybody.
const ALL: u32 = 0o777;

/// The permission bits that what this process makes of the files may have that it has read.
static MOST: AtomicU32 = AtomicU32::new(ALL);

/// Opens what this process was given open once more, to write where it goes on.
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

/// The path of what is open, whatever has the one by which it was found.
fn path_of(seen: &File) -> String {
    format!("/proc/self/fd/{}", seen.as_raw_fd())
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens what is read, file or not. A link in its place is followed if nobody else can have put it
/// there.
pub fn input(path: &Path) -> io::Result<File> {
    let (file, is_given) = open_input(path)?;
    note_read(&file, is_given)?;
    Ok(file)
}

/// Opens standard input.
pub fn stdin() -> io::Result<File> {
    let stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    note_read(&stdin, true)?;
    Ok(stdin)
}

/// Opens a file below no root by the rules of links, to read it.
pub fn found(path: &Path) -> io::Result<File> {
    let file = SystemDisk::open_found(path)?;
    note_read(&file, false)?;
    Ok(file)
}

/// Notes that something is read, for the rights of what is made of it.
fn note_read(file: &File, is_given: bool) -> io::Result<()> {
    let meta = file.metadata()?;
    // Whoever was given a pipe was to read it; a file may be one that is not for everybody.
    if !(is_given && meta.file_type().is_fifo()) {
        MOST.fetch_and(most_of_made_from([Found::from(&meta)]), Ordering::Relaxed);
    }
    Ok(())
}

/// As [`input`], and whether this process was given it open, or it has no name, as what a shell
/// passes for `<(command)`: to that no other user has a way.
fn open_input(path: &Path) -> io::Result<(File, bool)> {
    if path.file_name().is_none() {
        return Ok((File::open(path)?, false));
    }
    // Before anything is opened by the name that is read in a link of the kernel's: another file
    // may have that by now.
    match SystemDisk::new().lead(path) {
        Ok(Lead::Opened(number)) => return Ok((given(number)?, true)),
        Ok(Lead::Nameless(seen)) => return Ok((File::open(path_of(&seen))?, true)),
        Ok(Lead::File(_) | Lead::Other(_)) | Err(_) => {}
    }
    let found = SystemDisk::open_found(path)?;
    // A file is open by now; of anything else there is a descriptor that tells what it is.
    let meta = found.metadata()?;
    if meta.is_file() {
        return Ok((found, false));
    }
    refuse_if_of_another(&meta)?;
    Ok((File::open(path_of(&found))?, false))
}

/// Opens what this process was given open once more, to read it from its beginning if it has one.
fn given(number: u32) -> io::Result<File> {
    match File::open(format!("/proc/self/fd/{number}")) {
        // A socket, or a pipe of another user.
        Err(_) if number == 0 => Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?)),
        opened => opened,
    }
}

/// Opens what is written in one go, whole or not at all where it is a file.
pub fn output(path: &Path) -> io::Result<Output> {
    output_on(&Arc::default(), path)
}

fn output_on(disk: &Arc<SystemDisk>, path: &Path) -> io::Result<Output> {
    const NOCTTY: i32 = 0o400;
    Ok(match disk.lead(path)? {
        Lead::File(path) => Output::New(Box::new(NewFile::at(disk, &path, true)?)),
        // A pipe is waited for.
        Lead::Other(seen) => {
            Output::Other(File::options().write(true).custom_flags(NOCTTY).open(path_of(&seen))?)
        }
        Lead::Nameless(seen) => Output::Other(File::options().append(true).open(path_of(&seen))?),
        Lead::Opened(number) => Output::Other(open_again(number)?),
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
    /// Writes all of it, and ends the writing.
    fn write_whole(mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)?;
        self.end()
    }

    /// Ends the writing. A file is for everybody only if everybody may read all that was read.
    pub fn end(self) -> io::Result<()> {
        match self {
            Output::New(file) => file.sync().and_then(|()| file.give_name()),
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
    output(path)?.write_whole(bytes)
}

/// Says whether [`write_whole`] could write there; nothing that is there is touched.
pub fn can_write(path: &Path) -> io::Result<()> {
    let disk = Arc::new(SystemDisk::new());
    match disk.lead(path)? {
        Lead::File(path) => NewFile::at(&disk, &path, true).map(drop),
        Lead::Other(_) | Lead::Nameless(_) | Lead::Opened(_) => Ok(()),
    }
}

/// A directory in which a command makes files. It is opened once: all that the command looks for,
/// makes and removes is in that one, whatever has its path by then.
pub struct OutDir {
    disk: Arc<SystemDisk>,
    /// As it was named.
    named: PathBuf,
    /// Without links.
    real: PathBuf,
    /// Whether what is there may be replaced.
    overwrites: bool,
}

impl OutDir {
    /// One that is made, and those above it, as far as they are not there.
    pub fn make(path: &Path, overwrites: bool) -> io::Result<OutDir> {
        let disk = Arc::new(SystemDisk::new());
        let real = disk.make_root(path, 0o755)?.path;
        Ok(OutDir { disk, named: path.to_path_buf(), real, overwrites })
    }

    /// One that is there.
    pub fn open(path: &Path, overwrites: bool) -> io::Result<OutDir> {
        let disk = Arc::new(SystemDisk::new());
        let real = disk.root(path, Access::Write)?;
        Ok(OutDir { disk, named: path.to_path_buf(), real, overwrites })
    }

    /// The one in which a file lies that is named.
    pub fn of(path: &Path, overwrites: bool) -> io::Result<OutDir> {
        let named = path.parent().unwrap_or(Path::new("")).to_path_buf();
        Ok(OutDir { named, ..OutDir::open(parent(path), overwrites)? })
    }

    /// What something in it is called by whoever named the directory.
    fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.named.join(name.as_ref())
    }

    /// Whatever is there under one of these names is not replaced unless that was asked for.
    pub fn check_free<N: AsRef<OsStr>>(&self, names: impl IntoIterator<Item = N>) -> Result<(), Failure> {
        let is_there = |name: &N| self.disk.look(&self.real.join(name.as_ref())).is_ok();
        match names.into_iter().find(|name| !self.overwrites && is_there(name)) {
            None => Ok(()),
            Some(name) => Err(is_there_already(&self.path(name))),
        }
    }

    /// Removes a file that is there or not.
    pub fn remove(&self, name: &str) -> Result<(), Failure> {
        match self.disk.remove(&self.real.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Failure::file("replace", &self.path(name), &error))
            }
            _ => Ok(()),
        }
    }

    /// Begins a file. Where what is there is replaced, a link stays a link; what is no file is not
    /// replaced.
    pub fn create(&self, name: impl AsRef<OsStr>) -> Result<NewFile, Failure> {
        let (path, real) = (self.path(&name), self.real.join(name.as_ref()));
        match self.overwrites {
            true => NewFile::in_place_of(&self.disk, &real, &path),
            false => {
                NewFile::at(&self.disk, &real, false).map_err(|error| Failure::file("create", &path, &error))
            }
        }
    }

    /// As [`write_whole`], in this directory.
    pub fn write_whole(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let real = self.real.join(name);
        let out = match self.overwrites {
            true => output_on(&self.disk, &real),
            false => NewFile::at(&self.disk, &real, false).map(|file| Output::New(Box::new(file))),
        };
        out.and_then(|out| out.write_whole(bytes)).map_err(|error| cannot("write", &self.path(name), &error))
    }
}

/// What cannot be done to a file that is made; of one that is there already, what to do.
pub fn cannot(verb: &str, path: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::AlreadyExists => is_there_already(path),
        _ => Failure::file(verb, path, error),
    }
}

/// Nothing is replaced unless that was asked for.
pub fn is_there_already(path: &Path) -> Failure {
    Failure::Input(format!(
        "{} is there already; name another place, or give --overwrite to replace it",
        path.display()
    ))
}

/// A file beside the one that it becomes, for its owner alone until then, and removed unless it
/// does.
pub struct NewFile {
    disk: Arc<SystemDisk>,
    file: Box<dyn DiskFile>,
    to: OsString,
    /// Whether it takes the place of what is there.
    replaces: bool,
    /// What is written next.
    at: u64,
}

impl NewFile {
    /// In place of a file that is there or not. A link stays a link; what is no file is not
    /// replaced.
    pub fn create(path: &Path) -> Result<NewFile, Failure> {
        NewFile::in_place_of(&Arc::default(), path, path)
    }

    fn in_place_of(disk: &Arc<SystemDisk>, path: &Path, called: &Path) -> Result<NewFile, Failure> {
        let cannot = |error| Failure::file("create", called, &error);
        match disk.lead(path).map_err(cannot)? {
            Lead::File(real) => NewFile::at(disk, &real, true).map_err(cannot),
            Lead::Other(_) | Lead::Nameless(_) | Lead::Opened(_) => Err(Failure::Input(format!(
                "{} is no file of its own name, and only such are replaced; name a file",
                called.display()
            ))),
        }
    }

    /// In a directory that is a root.
    fn at(disk: &Arc<SystemDisk>, path: &Path, replaces: bool) -> io::Result<NewFile> {
        let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
        let mut temp = OsString::from(".");
        if name.len() <= NAME_BYTES_MOST {
            temp.push(name);
            temp.push(".");
        }
        temp.push(format!("pantile-{}.tmp", std::process::id()));
        let file = disk.create(&path.with_file_name(temp))?;
        Ok(NewFile { disk: Arc::clone(disk), file, to: name.to_os_string(), replaces, at: 0 })
    }

    /// Brings what was written to the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    /// Gives it its name, and the permission bits that what had it before had, if that was this
    /// user's and nobody else can have put it there; else those of a new file. It is for its owner
    /// alone unless everybody may read all that this process has read.
    ///
    /// Errors: `AlreadyExists` if something has that name which is not to be replaced.
    pub fn give_name(&self) -> io::Result<()> {
        let caller = Caller::alone();
        let beside = |name| self.file.beside(name).and_then(|seen| seen.meta());
        let is_hers = |before: &Meta| {
            let put_by = |above: Vec<Meta>| caller.put_by(before, &above);
            before.kind == MetaKind::File && self.file.above().is_ok_and(|above| caller.is_me(put_by(above)))
        };
        let before = beside(Some(&self.to)).ok().filter(|before| self.replaces && is_hers(before));
        let mode = MOST.load(Ordering::Relaxed)
            & before.map_or(0o666 & !self.disk.umask(), |before| before.mode & 0o777);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Timestamp { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() };
        self.file.set_meta(mode, now)?;
        match self.replaces {
            true => self.file.give_name(Path::new(&self.to)),
            false => self.file.give_free_name(Path::new(&self.to)),
        }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // It is not there if it has its name. Best effort: the error at hand says more than a
        // second one would.
        let _ = self.file.discard();
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
/// for ever.
fn refuse_if_of_another(meta: &Metadata) -> io::Result<()> {
    if meta.is_dir() || Caller::or_by_sudo().trusts(meta.uid()) {
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

    #[test]
    fn what_replaces_nothing_is_named_if_its_name_is_free() {
        let folder = tempfile::tempdir().expect("a folder");
        let [out, link] = ["out", "link"].map(|name| folder.path().join(name));
        for is_taken in [true, false] {
            let dir = OutDir::of(&out, false).expect("it is there");
            let [file, by_link] = ["out", "link"].map(|name| dir.create(name).expect("nothing is there"));
            if is_taken {
                fs::write(&out, "hers").expect("a file");
                symlink("nowhere", &link).expect("a link");
            }
            for new in [file, by_link] {
                let named = new.give_name();
                let is_refused = named.is_err_and(|error| error.kind() == ErrorKind::AlreadyExists);
                assert_eq!(is_refused, is_taken);
            }
            assert_eq!(fs::read(&out).expect("it is there") == b"hers", is_taken);
            assert!(link.is_symlink() == is_taken && !folder.path().join("nowhere").exists());
            let left = fs::read_dir(&folder).expect("a folder").count();
            assert_eq!(left, 2, "other names are gone");
            [&out, &link].iter().for_each(|path| fs::remove_file(path).expect("it is there"));
        }
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
                let _ = OutDir::open(&dir, true).map(|dir| dir.remove("kept"));
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
