//! What a caller asks for.

use crate::disk::{Disk, SystemDisk};
use crate::set::select::Select;
use pantile::Code;
use pantile_format::LeftOut;
use std::ffi::OsString;
use std::path::PathBuf;

pub use pantile_format::Mode;

/// Hears how far the work is, and may end it.
pub trait Progress {
    /// A new part of the work begins; it will advance by about so many bytes.
    fn phase(&mut self, name: &'static str, total_bytes: u64);
    /// So many bytes more are done.
    fn advance(&mut self, bytes: u64);
    /// Something that the user should know, in a line; the work goes on.
    fn warn(&self, _text: &str) {}
    /// Asked often; `true` ends the work at a safe point with `FaultKind::Cancelled`.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Nobody listens.
pub struct Silent;

impl Progress for Silent {
    fn phase(&mut self, _name: &'static str, _total_bytes: u64) {}
    fn advance(&mut self, _bytes: u64) {}
}

/// What to seal, where to, and by which code. `None` means: as the set has it, or the default for a
/// new one.
#[derive(Clone)]
pub struct SealOptions {
    /// Directories and files. One directory is the root itself; several sources are kept apart by
    /// their names.
    pub sources: Vec<PathBuf>,
    /// More sources, by the names that they have as disks of the set. If nothing else is named, the
    /// other disks of the set are where this user's record says.
    pub disks: Vec<DiskAt>,
    /// The directory of the shards; created if it is not there.
    pub out: PathBuf,
    /// More directories, as on other disks: `out` and these get the shards in turn, and links to
    /// the shards in the others.
    pub more_out: Vec<PathBuf>,
    /// The name of the set; the name of the first source unless given.
    pub name: Option<OsString>,
    /// The code; needed the first time.
    pub code: Option<Code>,
    /// Whether data is stored too (the default) or parity beside the original files.
    pub mode: Option<Mode>,
    /// Whether each block has a checksum (the default).
    pub checksums: Option<bool>,
    /// Bytes of a block, a power of two from 4096 to 1048576; chosen from the size of the data
    /// unless given.
    pub block_len: Option<u64>,
    /// The sources are those that were sealed, in another place now. Otherwise another place is
    /// refused: another tree of the same name would take the place of the one that was sealed.
    pub moved: bool,
    /// The directory of this user's records of sets; none is written unless given.
    pub records: Option<PathBuf>,
    /// Reads every file, and takes one that holds something else than was sealed for changed.
    /// Otherwise those are not read whose size and times are as they were; and one that was touched
    /// since without another size or time of modification, and holds something else, is refused:
    /// damaged or changed.
    pub read_all: bool,
    /// Sources of the set that are not named are to be forgotten. Otherwise they must be named,
    /// where each has a column of its own.
    pub forget: bool,
    /// Beside originals, several sources share all data columns, as one source does, and do not
    /// have a column each. Of a new set only.
    pub shared: bool,
    /// Takes a file of the size that was sealed, of which all blocks but few hold what was sealed,
    /// for changed; `read_all` does so too. Otherwise it is refused: damaged or changed.
    pub accept_changes: bool,
    /// As [`SetPaths::effort`], of the set that is there.
    pub effort: Option<u64>,
    /// What is left out from now on, by patterns as in a `.gitignore` at the top of each source;
    /// the set keeps it.
    pub left_out: Option<LeftOut>,
    /// How many files may be forgotten, because they are gone, without being asked for.
    pub removed_max: FilesMax,
    /// How many files may be changed without being asked for; no limit unless given.
    pub changed_max: Option<FilesMax>,
    /// Only says what would be done.
    pub dry_run: bool,
}

/// Largest number of files of a source that are forgotten or changed without a question. More are
/// gone of a disk that is not mounted, or changed by malware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilesMax {
    /// Half of them, or ten; and in a directory that is empty now, ten.
    #[default]
    Half,
    /// So many.
    Files(u64),
    /// So many of each hundred that are sealed.
    Percent(u64),
}

/// Number of files that an owner who tidies up removes.
pub(crate) const FEW: u64 = 10;

impl FilesMax {
    /// True if this number of files, of those that are sealed, is more than allowed.
    pub(crate) fn is_exceeded(self, files: u64, of: u64) -> bool {
        match self {
            FilesMax::Half => files > FEW && files.saturating_mul(2) > of,
            FilesMax::Files(most) => files > most,
            FilesMax::Percent(most) => files.saturating_mul(100) > of.saturating_mul(most),
        }
    }
}

impl SealOptions {
    /// Everything by default: an existing set is brought up to date.
    pub fn new(sources: Vec<PathBuf>, out: PathBuf) -> SealOptions {
        SealOptions {
            sources,
            disks: Vec::new(),
            out,
            more_out: Vec::new(),
            name: None,
            code: None,
            mode: None,
            checksums: None,
            block_len: None,
            moved: false,
            records: None,
            read_all: false,
            forget: false,
            shared: false,
            accept_changes: false,
            effort: None,
            left_out: None,
            removed_max: FilesMax::Half,
            changed_max: None,
            dry_run: false,
        }
    }
}

/// A disk of a set by its name, and where it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskAt {
    /// The name that the set has for it.
    pub name: OsString,
    /// Its path.
    pub path: PathBuf,
}

/// Which set: directories that hold shards, or shards by their path, in any number.
#[derive(Clone, Debug, Default)]
pub struct SetPaths {
    /// Directories and shards.
    pub paths: Vec<PathBuf>,
    /// The name of the set, as reports have it, or its UUID, if several lie there.
    pub name: Option<String>,
    /// Where disks of the set are now, if not where they were sealed or last recorded.
    pub disks: Vec<DiskAt>,
    /// A pin that the set must fit: a manifest that does not is refused, a block that does not is
    /// lost.
    pub pin: Option<PathBuf>,
    /// How much work the set may make, in steps of about a microsecond, where it may be somebody
    /// else's; the least there is unless given. See docs/limits.md.
    pub effort: Option<u64>,
    /// The directory of this user's records of sets. Originals are written to only if `disks` names
    /// their places, or a record has them.
    pub records: Option<PathBuf>,
}

impl SetPaths {
    /// The one set whose shards lie in a directory.
    pub fn dir(path: impl Into<PathBuf>) -> SetPaths {
        SetPaths { paths: vec![path.into()], ..SetPaths::default() }
    }
}

/// How to verify.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// The set.
    pub set: SetPaths,
    /// Judge by the equations of the code alone, as if there were no checksums.
    pub ignore_checksums: bool,
}

/// How to heal.
#[derive(Clone, Debug, Default)]
pub struct HealOptions {
    /// The set.
    pub set: SetPaths,
    /// Judge by the equations of the code alone, as if there were no checksums.
    pub ignore_checksums: bool,
    /// Where shards that are lost entirely are made anew; where the others lie unless given.
    pub out: Option<PathBuf>,
    /// Writes over shards of a later state, of which too few are there.
    pub yes: bool,
    /// Without checksums: repairs also what one set of columns explains, although it proves less
    /// than is otherwise asked for.
    pub guess: bool,
    /// Mode beside: heals these originals alone, and reads no more than that needs.
    pub select: Select,
    /// Restored originals get all permissions that were sealed: setuid and setgid with
    /// their owner, and without it those that the umask denies.
    pub modes: bool,
}

/// How to unseal.
#[derive(Clone, Debug, Default)]
pub struct UnsealOptions {
    /// The set.
    pub set: SetPaths,
    /// Where the tree is restored; created if it is not there.
    pub target: PathBuf,
    /// Whether files of other content that are in the way are replaced.
    pub overwrite: bool,
    /// What is restored.
    pub select: Select,
    /// Restored files get all permissions that were sealed, as
    /// [`HealOptions::modes`](HealOptions::modes) says.
    pub modes: bool,
}

/// The world that the work is done in. Tests put a faulty one here.
#[derive(Clone, Copy)]
pub struct World<'a> {
    /// The file layer.
    pub disk: &'a dyn Disk,
    /// Threads that read, compute and write; with one, operations have a fixed order.
    pub threads: usize,
}

/// More threads than this wait for memory and for the disk.
const THREADS_MOST: usize = 8;

/// The files of this system, and its processors, for one command.
pub struct System {
    disk: SystemDisk,
    threads: usize,
}

impl System {
    /// No directory is open yet.
    pub fn new() -> System {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(THREADS_MOST);
        System { disk: SystemDisk::new(), threads }
    }

    /// The world that the command works in.
    pub fn world(&self) -> World<'_> {
        World { disk: &self.disk, threads: self.threads }
    }
}

impl Default for System {
    fn default() -> System {
        System::new()
    }
}
