//! Options of the callers.

use crate::disk::{Disk, SystemDisk};
use crate::set::select::Select;
use pantile::Code;
use pantile_format::LeftOut;
use std::ffi::OsString;
use std::path::PathBuf;

pub use pantile_format::Mode;

/// Receives the progress of the work, and can cancel it.
pub trait Progress {
    /// Begins a new part of the work, of about this many bytes.
    fn phase(&mut self, name: &'static str, total_bytes: u64);
    /// Adds the number of bytes done since the last call.
    fn advance(&mut self, bytes: u64);
    /// Shows a line to the user; the work continues.
    fn warn(&self, _text: &str) {}
    /// Returns true to end the work at a safe point with `FaultKind::Cancelled`; called often.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Ignores all progress.
pub struct Silent;

impl Progress for Silent {
    fn phase(&mut self, _name: &'static str, _total_bytes: u64) {}
    fn advance(&mut self, _bytes: u64) {}
}

/// Sources, directory and code of a seal. `None` keeps the choice of the set, or takes the default
/// for a new one.
#[derive(Clone)]
pub struct SealOptions {
    /// Directories and files. A single directory is the root of the restored tree; several sources
    /// are kept apart by their names.
    pub sources: Vec<PathBuf>,
    /// More sources, by their names as disks of the set. If only `disks` are named, the recorded
    /// places of the other disks are used.
    pub disks: Vec<DiskAt>,
    /// The directory of the shards; created if it is not there.
    pub out: PathBuf,
    /// More directories, as on other disks. `out` and these get the shards in turn, and each also
    /// gets links to the shards in the others.
    pub more_out: Vec<PathBuf>,
    /// The name of the set; the name of the first source unless given.
    pub name: Option<OsString>,
    /// The code; required for a new set.
    pub code: Option<Code>,
    /// Full: the shards hold the data too (the default). Beside: they hold parity only, beside the
    /// original files.
    pub mode: Option<Mode>,
    /// True if each block has a checksum (the default).
    pub checksums: Option<bool>,
    /// Bytes of a block, a power of two from 4096 to 1048576. `None` chooses it from the size of
    /// the data.
    pub block_len: Option<u64>,
    /// True if the named sources are the sealed ones, at another place now. Without this, a source
    /// at another place is refused, since a different tree of the same name would replace the
    /// sealed one.
    pub moved: bool,
    /// The directory of this user's records of sets; without it no record is written.
    pub records: Option<PathBuf>,
    /// Reads every file, and counts those with other content as changed. Without this, a file with
    /// unchanged size and times is not read. One with unchanged size and mtime that was touched and
    /// has other content is then refused as damaged or changed.
    pub read_all: bool,
    /// Forgets sources of the set that are not named. Without this, every source that has its own
    /// column must be named.
    pub forget: bool,
    /// Beside originals: lets several sources share all data columns, as a single source does,
    /// instead of having separate columns. Only for a new set.
    pub shared: bool,
    /// Counts a file as changed if it has the sealed size and an earlier mtime, and few of its
    /// blocks differ. So does `read_all`. Without either it is refused as damaged or changed.
    pub accept_changes: bool,
    /// As [`SetPaths::effort`], for the existing set.
    pub effort: Option<u64>,
    /// The patterns of the paths that are left out from now on, as in a `.gitignore` at the top of
    /// each source. The set stores them.
    pub left_out: Option<LeftOut>,
    /// The number of missing files that may be forgotten without a request.
    pub removed_max: FilesMax,
    /// The number of files that may be changed without a request; no limit unless given.
    pub changed_max: Option<FilesMax>,
    /// Only reports the planned changes.
    pub dry_run: bool,
}

/// Largest number of files of a source that are forgotten or changed without a request. More of
/// them suggest a disk that is not mounted, or malware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilesMax {
    /// Half of the files, or ten if that is more, but not all of a source; ten in a directory that
    /// is empty now.
    #[default]
    Half,
    /// This number.
    Files(u64),
    /// This share of the sealed files.
    Percent(u64),
}

/// The number of files that a user can remove without a question, as when tidying up.
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
    /// Takes the defaults for everything else: an existing set is brought up to date.
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

/// A disk of a set by its name, and its present place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskAt {
    /// The name that the set has for it.
    pub name: OsString,
    /// Its path.
    pub path: PathBuf,
}

/// Selects a set by directories that hold shards, or by paths of shards, in any number.
#[derive(Clone, Debug, Default)]
pub struct SetPaths {
    /// Directories and shards.
    pub paths: Vec<PathBuf>,
    /// The name of the set, as reports show it, or its UUID, if several sets are at these paths.
    pub name: Option<String>,
    /// Present places of disks, unless they are where they were sealed or last recorded.
    pub disks: Vec<DiskAt>,
    /// A pin that the set must match: another manifest is refused, and a block that differs counts
    /// as lost.
    pub pin: Option<PathBuf>,
    /// The most work for a set of unknown origin, in steps of about a microsecond. `None` is the
    /// smallest limit. See docs/limits.md.
    pub effort: Option<u64>,
    /// The directory of this user's records of sets. Originals are written to only if `disks` names
    /// their places, or a record has them.
    pub records: Option<PathBuf>,
}

impl SetPaths {
    /// Selects the only set with shards in a directory.
    pub fn dir(path: impl Into<PathBuf>) -> SetPaths {
        SetPaths { paths: vec![path.into()], ..SetPaths::default() }
    }
}

/// Options of verifying.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// The set.
    pub set: SetPaths,
    /// Judge by the equations of the code alone, as if there were no checksums.
    pub ignore_checksums: bool,
    /// Reads only a part of the set, and records which part in `NAME.verified` beside the shards.
    pub share: Option<Share>,
}

/// A part of a set: the least recently verified stripes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Stripes to read, in millionths of all; at least one is read.
    pub millionths: u32,
    /// Stripes that were verified within so many seconds are left out.
    pub older_than_s: u64,
}

/// Options of healing.
#[derive(Clone, Debug, Default)]
pub struct HealOptions {
    /// The set.
    pub set: SetPaths,
    /// Judge by the equations of the code alone, as if there were no checksums.
    pub ignore_checksums: bool,
    /// The directory for entirely lost shards; by default that of the other shards.
    pub out: Option<PathBuf>,
    /// Permits writing over shards of a later state that has too few shards to be recovered.
    pub yes: bool,
    /// Without checksums: also repairs columns that are the only explanation of an error, even if
    /// the evidence is weaker than required.
    pub guess: bool,
    /// Mode beside: heals only these originals, and reads no more than necessary.
    pub select: Select,
    /// Restored originals get all permissions that were sealed: setuid and setgid if their owner is
    /// restored, and also those that the umask denies.
    pub modes: bool,
}

/// Options of unsealing.
#[derive(Clone, Debug, Default)]
pub struct UnsealOptions {
    /// The set.
    pub set: SetPaths,
    /// Where the tree is restored; created if it is not there.
    pub target: PathBuf,
    /// Replaces existing files of other content.
    pub overwrite: bool,
    /// The paths to restore.
    pub select: Select,
    /// Restored files get all permissions that were sealed, as
    /// [`HealOptions::modes`](HealOptions::modes) says.
    pub modes: bool,
}

/// The file layer and the threads with which the work is done. Tests pass a faulty file layer here.
#[derive(Clone, Copy)]
pub struct World<'a> {
    /// The file layer.
    pub disk: &'a dyn Disk,
    /// Number of threads that read, compute and write; with one, operations have a fixed order.
    pub threads: usize,
}

/// Upper limit of threads: more would only wait for memory and for the disk.
const THREADS_MOST: usize = 8;

/// The files and the processors of this system, for one command.
pub struct System {
    disk: SystemDisk,
    threads: usize,
}

impl System {
    /// Creates it without open directories.
    pub fn new() -> System {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(THREADS_MOST);
        System { disk: SystemDisk::new(), threads }
    }

    /// Returns the world that the command works in.
    pub fn world(&self) -> World<'_> {
        World { disk: &self.disk, threads: self.threads }
    }
}

impl Default for System {
    fn default() -> System {
        System::new()
    }
}
