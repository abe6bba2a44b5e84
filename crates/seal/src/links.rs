//! Where a path leads that a user names, and the link that stands in the place of a shard.
//!
//! For sets the kernel follows the links of a directory that is named ([`kernel_dir`]) and of a shard
//! ([`resolve`]). For chunks and other files a walk goes link by link, and only along links that no
//! other user can have put there ([`kept_dir`], [`resolve_kept`], [`lead`]).

use crate::disk::{Access, Disk, FileId, Meta, MetaKind};
use crate::names::parent;
use crate::system::{SystemDisk, TO_SEARCH, describe};
use pantile_trust::{Caller, Found};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// A path without links, as the kernel follows them.
pub(crate) fn kernel_path(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

/// The directory that a path leads to, as the kernel opened it, to be searched; and its path
/// without links.
///
/// Errors: `NotADirectory` for anything else.
pub(crate) fn kernel_dir(path: &Path) -> io::Result<(OwnedFd, PathBuf)> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let dir = open(CWD, path.as_os_str(), TO_SEARCH)?;
    let real =
        fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd())).or_else(|_| fs::canonicalize(path));
    Ok((dir, real?))
}

/// A path without links, if all those on the way belong to the user who runs this or to root, and
/// lie in directories in which nobody else may put them: whoever may put a link there, or one that
/// a program of root made elsewhere, must not be able to lead somebody else away.
///
/// Between this and the opening nothing is followed any more.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    match walk(Way::from(path)?, path, false)? {
        Walked::To(end) => Ok(end.path()),
        Walked::Opened(_) | Walked::Nameless(_) => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Describes what a path leads to by the rule of [`real_path`].
pub fn describe_real(path: &Path) -> io::Result<fs::Metadata> {
    match walk(Way::from(path)?, path, false)? {
        Walked::To(End { found: Some((seen, _)), .. }) => File::from(seen).metadata(),
        Walked::To(end) => File::from(end.way.dir).metadata(),
        Walked::Opened(_) | Walked::Nameless(_) => Err(io::ErrorKind::NotFound.into()),
    }
}

/// The directory that a path leads to by the rule of [`real_path`], as the walk opened it, to be
/// searched; and its path without links.
///
/// Errors: `NotADirectory` for anything else.
pub(crate) fn kept_dir(path: &Path) -> io::Result<(OwnedFd, PathBuf)> {
    match walk(Way::from(path)?, path, false)? {
        Walked::To(End { way, name: None, .. }) => Ok((way.dir, way.real)),
        Walked::To(_) => Err(Errno::NOTDIR.into()),
        Walked::Opened(_) | Walked::Nameless(_) => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Where the walk along a path ended.
pub(crate) enum Walked {
    /// At something that has a name, or a name that nothing has.
    To(End),
    /// At a link of the kernel's to what this process was given open, by this number.
    Opened(u32),
    /// At a link of the kernel's to what has no name, opened to be described.
    Nameless(File),
}

/// What a walk ended at.
pub(crate) struct End {
    /// The directory that it lies in, or is.
    way: Way,
    /// Its name there; none of a directory.
    name: Option<OsString>,
    /// What has that name, opened to be described.
    found: Option<(OwnedFd, Meta)>,
}

impl End {
    /// Its path without links.
    pub(crate) fn path(&self) -> PathBuf {
        self.name.as_ref().map_or_else(|| self.way.real.clone(), |name| self.way.real.join(name))
    }

    /// The opened directory, its path, and the name in it, if a file is there or nothing; else what
    /// is there.
    pub(crate) fn file(self) -> Result<(OwnedFd, PathBuf, OsString), File> {
        match (self.name, self.found) {
            (Some(_), Some((seen, meta))) if meta.kind != MetaKind::File => Err(File::from(seen)),
            (Some(name), _) => Ok((self.way.dir, self.way.real, name)),
            (None, _) => Err(File::from(self.way.dir)),
        }
    }

    /// Describes it, if it is there, and all above it.
    fn above(&self) -> Vec<Found> {
        self.found.iter().map(|(_, meta)| Found::from(meta)).chain(self.way.above()).collect()
    }
}

/// Where a path leads that a person names to have something written there; within an opened
/// directory that has a path, or from where the path begins.
///
/// Errors: besides those of [`real_path`] `PermissionDenied` for what is neither file nor directory
/// and which a stranger may have put there: to open a pipe may wait for ever.
pub(crate) fn lead(within: Option<(OwnedFd, &Path)>, path: &Path) -> io::Result<Walked> {
    let way = within.map_or_else(|| Way::from(path), |(dir, real)| Way::of(dir, real.to_path_buf()))?;
    let walked = walk(way, path, true)?;
    if let Walked::To(end) = &walked
        && let Some((_, meta)) = end.found.as_ref().filter(|(_, meta)| meta.kind == MetaKind::Other)
    {
        let caller = Caller::or_by_sudo();
        let above: Vec<Found> = end.way.above().collect();
        let is_open = caller.is_of_another(above[0]) || !caller.are_kept(&above);
        if is_open && !caller.trusts(meta.owner) {
            let why = format!(
                "{} is a pipe, socket or device of another user, who may have put it there; name another place",
                end.path().display()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
    }
    Ok(walked)
}

/// An opened directory, and what those above it were when the walk came through them.
struct Way {
    dir: OwnedFd,
    /// Its path, without links.
    real: PathBuf,
    /// From the topmost directory to this one.
    metas: Vec<Meta>,
}

impl Way {
    /// Where a path begins.
    fn from(path: &Path) -> io::Result<Way> {
        match path.is_absolute() {
            true => Way::top(),
            false => Way::of(open(CWD, OsStr::new("."), TO_SEARCH)?, std::env::current_dir()?),
        }
    }

    fn top() -> io::Result<Way> {
        let dir = open(CWD, OsStr::new("/"), TO_SEARCH)?;
        let metas = vec![meta(&dir)?];
        Ok(Way { dir, real: PathBuf::from("/"), metas })
    }

    /// Of an opened directory, wherever it is by now.
    fn of(dir: OwnedFd, real: PathBuf) -> io::Result<Way> {
        /// As many names as a path can have.
        const NAMES_MOST: usize = 2048;
        let mut metas = vec![meta(&dir)?];
        let mut at = dir.try_clone()?;
        for _ in 0..NAMES_MOST {
            at = open(at.as_fd(), OsStr::new(".."), TO_SEARCH)?;
            let next = meta(&at)?;
            if metas.last().is_some_and(|last| last.id == next.id) {
                metas.reverse();
                return Ok(Way { dir, real, metas });
            }
            metas.push(next);
        }
        Err(Errno::NAMETOOLONG.into())
    }

    /// Opens what has a name here, to describe it; a link itself.
    fn look(&self, name: &OsStr) -> io::Result<(OwnedFd, Meta)> {
        // As a directory first: that of a file system which is mounted when it is used.
        let seen = match open(self.dir.as_fd(), name, TO_SEARCH | OFlags::NOFOLLOW) {
            Err(Errno::NOTDIR | Errno::LOOP) => {
                open(self.dir.as_fd(), name, OFlags::PATH | OFlags::NOFOLLOW)?
            }
            seen => seen?,
        };
        let meta = meta(&seen)?;
        Ok((seen, meta))
    }

    fn enter(&mut self, name: &OsStr, (dir, meta): (OwnedFd, Meta)) {
        self.dir = dir;
        self.real.push(name);
        self.metas.push(meta);
    }

    fn leave(&mut self) -> io::Result<()> {
        if self.metas.len() > 1 {
            self.metas.pop();
            self.real.pop();
            self.dir = open(self.dir.as_fd(), OsStr::new(".."), TO_SEARCH)?;
        }
        match self.metas.last().map(|meta| meta.id) == Some(meta(&self.dir)?.id) {
            true => Ok(()),
            false => Err(io::Error::other("another directory took its place just now")),
        }
    }

    /// Describes the directory and all above it.
    fn above(&self) -> impl Iterator<Item = Found> + '_ {
        self.metas.iter().rev().map(Found::from)
    }

    /// Whether its links are the kernel's: to what they lead to when they are opened, whatever is
    /// read in them.
    fn is_of_kernel(&self) -> bool {
        is_of_kernel(&self.dir)
    }

    /// Whether it has the links to what this process has open.
    fn is_of_own_descriptors(&self) -> bool {
        let own: Option<FileId> = rustix::fs::stat("/proc/self/fd").ok().map(|stat| describe(&stat).id);
        own.is_some() && own == self.metas.last().map(|meta| meta.id)
    }
}

fn open(dir: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(dir, name, flags | OFlags::CLOEXEC, Mode::empty())
}

fn meta(seen: &OwnedFd) -> io::Result<Meta> {
    Ok(describe(&rustix::fs::fstat(seen)?))
}

/// Whether a file or directory is one by which the kernel shows what processes have open.
pub(crate) fn is_of_kernel(seen: &OwnedFd) -> bool {
    rustix::fs::fstatfs(seen).is_ok_and(|system| system.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

/// The number of what this process was given open, by the name of the kernel's link to it; none of
/// what it opened itself, which is closed in every program that it starts.
fn given_number(name: &OsStr) -> Option<u32> {
    let number: u32 = name.to_str()?.parse().ok()?;
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
    let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
    (flags & OFlags::CLOEXEC.bits() == 0).then_some(number)
}

/// What a link of the kernel's leads to, to describe it, if that is a pipe or a file without a
/// name.
fn nameless(dir: &OwnedFd, name: &OsStr) -> Option<File> {
    let seen = File::from(open(dir.as_fd(), name, OFlags::PATH).ok()?);
    let found = seen.metadata().ok()?;
    let is_pipe = std::os::unix::fs::FileTypeExt::is_fifo(&found.file_type());
    (is_pipe || (found.is_file() && found.nlink() == 0)).then_some(seen)
}

/// As many links as the system follows.
const LINKS_MOST: usize = 40;

/// Where a path below a root leads: to itself, or along its links to a file that may not be there.
/// The directories that links lead to become roots to be read.
///
/// Errors: `PermissionDenied` for a link of the kernel's, such as those below `/proc/self/fd`.
pub(crate) fn resolve(disk: &dyn Disk, path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MOST {
        let Ok(link) = disk.look(&path) else { return Ok(path) };
        if link.meta()?.kind != MetaKind::Symlink {
            return Ok(path);
        }
        if link.is_of_kernel() {
            let why = "it is a link of the kernel's to what is open; name the file itself";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        let to = parent(&path).join(link.target()?);
        match disk.root(&parent(&to), Access::Read) {
            // If the directory is not there, neither is what the link leads to.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => path = to,
        }
    }
    Err(io::Error::other("its links lead in a circle"))
}

/// As [`resolve`], along links alone that no other user can have put there.
///
/// Errors: `PermissionDenied` for a link that somebody else may have put there, and for any on the
/// way that it leads. Nothing on that way is looked at before: what is there would show in times of
/// access, and in how long it takes.
pub(crate) fn resolve_kept(disk: &SystemDisk, path: &Path) -> io::Result<PathBuf> {
    let refused = |why: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    let caller = Caller::or_by_sudo();
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MOST {
        let Ok(link) = disk.look(&path) else { return Ok(path) };
        let meta = link.meta()?;
        if meta.kind != MetaKind::Symlink {
            return Ok(path);
        }
        if link.is_of_kernel() {
            return refused("it is a link of the kernel's to what is open; name the file itself");
        }
        let dir = parent(&path);
        let above: Vec<Found> = disk.above(&dir)?.iter().map(Found::from).collect();
        let is_led = caller.is_led_by_another(&meta, above[0]);
        if is_led || !is_kept_on_the_way(&caller, &above, meta.owner) {
            return refused("it is a link that another user may have put there; name what it leads to");
        }
        let to = dir.join(link.target()?);
        match disk.root(&parent(&to), Access::Read) {
            // If the directory is not there, neither is what the link leads to.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => path = to,
        }
    }
    Err(io::Error::other("its links lead in a circle"))
}

/// Walks along a path from an opened directory. With `is_to_write` the last name need not be there,
/// and links of the kernel's may be the end.
fn walk(mut way: Way, path: &Path, is_to_write: bool) -> io::Result<Walked> {
    let caller = Caller::or_by_sudo();
    let parts = |path: &Path| -> Vec<OsString> {
        let names = path.components().rev();
        let names = names.filter(|part| !matches!(part, Component::RootDir | Component::CurDir));
        names.map(|part| part.as_os_str().to_os_string()).collect()
    };
    // The next name is taken from the end.
    let mut todo = parts(path);
    let mut links = 0;
    // The last link, if it is the kernel's and leads on to no name but what is read in it.
    let mut by_kernel: Option<(OwnedFd, OsString)> = None;
    while let Some(part) = todo.pop() {
        if part == OsStr::new("..") {
            way.leave()?;
            continue;
        }
        let (seen, meta) = match way.look(&part) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(nameless) = by_kernel.and_then(|(dir, name)| nameless(&dir, &name)) {
                    return Ok(Walked::Nameless(nameless));
                }
                return match is_to_write && todo.is_empty() {
                    true => Ok(Walked::To(End { way, name: Some(part), found: None })),
                    false => Err(error),
                };
            }
            found => found?,
        };
        match meta.kind {
            MetaKind::Dir => {
                way.enter(&part, (seen, meta));
                continue;
            }
            MetaKind::Symlink => {}
            MetaKind::File | MetaKind::Other if todo.is_empty() => {
                return Ok(Walked::To(End { way, name: Some(part), found: Some((seen, meta)) }));
            }
            MetaKind::File | MetaKind::Other => return Err(Errno::NOTDIR.into()),
        }
        links += 1;
        if links > LINKS_MOST {
            return Err(Errno::LOOP.into());
        }
        let called = way.real.join(&part);
        if !caller.trusts(meta.owner) {
            let why = format!("{} is a link of another user; name what it leads to", called.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        let above: Vec<Found> = way.above().collect();
        if caller.is_led_by_another(&meta, above[0]) || !is_kept_on_the_way(&caller, &above, meta.owner) {
            let why = format!(
                "{} is a link in a directory that other users may write to, or move; name what it leads to",
                called.display()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        if is_to_write && todo.is_empty() {
            // The file has no other name: the one that has the name which is read in the link is
            // perhaps another by now, and a shell that was told to append wants it kept.
            if way.is_of_own_descriptors() {
                return given_number(&part).map(Walked::Opened).ok_or_else(|| Errno::NOENT.into());
            }
            by_kernel = match way.is_of_kernel() {
                true => Some((way.dir.try_clone()?, part)),
                false => None,
            };
        }
        let to =
            PathBuf::from(OsString::from_vec(rustix::fs::readlinkat(&seen, "", Vec::new())?.into_bytes()));
        if to.is_absolute() {
            way = Way::top()?;
        }
        todo.extend(parts(&to));
    }
    Ok(Walked::To(End { way, name: None, found: None }))
}

/// Whether a directory is where it was when its maker put a link in it: otherwise another user, in
/// whose directory it lies, may have moved it to where that link is not meant. Who is not root
/// knows where her own links lie; those of root's she does not.
fn is_kept_on_the_way(caller: &Caller, above: &[Found], maker: u32) -> bool {
    let is_her_own = !caller.is_root() && caller.is_me(maker);
    is_her_own || caller.are_kept(above)
}

/// Whether nobody but the user who runs this and root can exchange any directory on the way to a
/// path, as far as that is there.
pub fn is_led_to_by_nobody_else(path: &Path) -> bool {
    let is_missing = |found: &io::Result<Vec<Found>>| {
        found.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    let there = path.ancestors().map(above).find(|found| !is_missing(found));
    there.is_some_and(|found| found.is_ok_and(|above| Caller::alone().are_kept(&above)))
}

/// Describes what a path leads to, and all above it.
fn above(path: &Path) -> io::Result<Vec<Found>> {
    match walk(Way::from(path)?, path, false)? {
        Walked::To(end) => Ok(end.above()),
        Walked::Opened(_) | Walked::Nameless(_) => Err(io::ErrorKind::NotFound.into()),
    }
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
            let kept =
                [0, SHE].map(|maker| is_kept_on_the_way(&Caller::of(SHE), &above(&moved).unwrap(), maker));
            assert_eq!(kept, [by_root, by_her], "in a directory of {owner}");
        }
    }

    #[test]
    fn a_walk_to_write_ends_at_the_links_of_the_kernel() {
        use std::os::fd::AsRawFd as _;
        let dir = tempfile::tempdir().unwrap();
        let ends = |path: &Path| lead(None, path).map(|walked| matches!(walked, Walked::To(_)));
        // Given to this process, and led to by links of root and of the caller.
        symlink("/dev/stdin", dir.path().join("link")).unwrap();
        for path in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"].map(PathBuf::from) {
            assert!(matches!(lead(None, &path), Ok(Walked::Opened(0))), "{path:?}");
        }
        assert!(matches!(lead(None, &dir.path().join("link")), Ok(Walked::Opened(0))));
        // Not given.
        let own = File::create(dir.path().join("own")).unwrap();
        let by_number = PathBuf::from(format!("/dev/fd/{}", own.as_raw_fd()));
        assert_eq!(ends(&by_number).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(real_path(&by_number).unwrap().ends_with("own"));
        // Of another process: with a name and without.
        let mut command = std::process::Command::new("cat");
        let (piped, named) = (std::process::Stdio::piped(), File::create(dir.path().join("named")).unwrap());
        let mut child = command.stdin(piped).stdout(named).spawn().unwrap();
        let of_child = |number: u32| PathBuf::from(format!("/proc/{}/fd/{number}", child.id()));
        assert!(matches!(lead(None, &of_child(0)), Ok(Walked::Nameless(_))));
        assert!(ends(&of_child(1)).unwrap());
        fs::remove_file(dir.path().join("named")).unwrap();
        assert!(matches!(lead(None, &of_child(1)), Ok(Walked::Nameless(_))));
        drop(child.stdin.take());
        child.wait().unwrap();
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
