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
    /// A new part of the work begins, of about this many bytes.
    fn phase(&mut self, name: &'static str, total_bytes: u64);
    /// The number of bytes done since the last call.
    fn advance(&mut self, bytes: u64);
    /// A line for the user; the work goes on.
    fn warn(&self, _text: &str) {}
    /// Asked often; `true` ends the work at a safe point with `FaultKind::Cancelled`.
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
    /// Directories and files. One directory is the root itself; several sources are kept apart by
    /// their names.
    pub sources: Vec<PathBuf>,
    /// More sources, by their names as disks of the set. If no other source is named, the other
    /// disks of the set are at their recorded places.
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
    /// Data is stored too (the default), or parity beside the original files.
    pub mode: Option<Mode>,
    /// True if each block has a checksum (the default).
    pub checksums: Option<bool>,
    /// Bytes of a block, a power of two from 4096 to 1048576; chosen from the size of the data
    /// unless given.
    pub block_len: Option<u64>,
    /// The named sources are the sealed ones, in another place now. Otherwise another place is
    /// refused: another tree of the same name would replace the sealed one.
    pub moved: bool,
    /// The directory of this user's records of sets; none is written unless given.
    pub records: Option<PathBuf>,
    /// Reads every file, and counts one with other content as changed. Otherwise files with
    /// unchanged size and times are not read, and a file of the same size and time of modification
    /// that was touched and has other content is refused: damaged or changed.
    pub read_all: bool,
    /// Forgets sources of the set that are not named. Otherwise each must be named if it has a
    /// column of its own.
    pub forget: bool,
    /// Beside originals, several sources share all data columns, as one source does, and do not
    /// have a column each. Of a new set only.
    pub shared: bool,
    /// Counts a file of the sealed size and an earlier time, of which few blocks differ, as changed; so
    /// does `read_all`.
    /// Otherwise it is refused: damaged or changed.
    pub accept_changes: bool,
    /// As [`SetPaths::effort`], of the existing set.
    pub effort: Option<u64>,
    /// The paths that are left out from now on, by patterns as in a `.gitignore` at the top of each
    /// source; the set keeps them.
    pub left_out: Option<LeftOut>,
    /// The number of missing files that may be forgotten without a request.
    pub removed_max: FilesMax,
    /// The number of files that may be changed without a request; no limit unless given.
    pub changed_max: Option<FilesMax>,
    /// Only reports the planned changes.
    pub dry_run: bool,
}

/// Largest number of files of a source that are forgotten or changed without a request. More are
/// missing from a disk that is not mounted, or changed by malware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilesMax {
    /// Half of them, or ten; and in a directory that is empty now, ten.
    #[default]
    Half,
    /// This number.
    Files(u64),
    /// This share of the sealed files.
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

/// A disk of a set by its name, and its present place.
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
    /// Present places of disks, if not as sealed or last recorded.
    pub disks: Vec<DiskAt>,
    /// A pin that the set must fit: another manifest is refused, another block is lost.
    pub pin: Option<PathBuf>,
    /// The most work for a set of unknown origin, in steps of about a microsecond; the least there
    /// is unless given. See docs/limits.md.
    pub effort: Option<u64>,
    /// The directory of this user's records of sets. Originals are written to only if `disks` names
    /// their places, or a record has them.
    pub records: Option<PathBuf>,
}

impl SetPaths {
    /// The one set with shards in a directory.
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
    /// Reads a part of the set, and stores which in `NAME.verified` beside the shards.
    pub share: Option<Share>,
}

/// A part of a set: the stripes that were verified the longest ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Stripes to read, in millionths of all; at least one is read.
    pub millionths: u32,
    /// Stripes that were verified within so many seconds are left out.
    pub older_than_s: u64,
}

/// How to heal.
#[derive(Clone, Debug, Default)]
pub struct HealOptions {
    /// The set.
    pub set: SetPaths,
    /// Judge by the equations of the code alone, as if there were no checksums.
    pub ignore_checksums: bool,
    /// The directory for entirely lost shards; that of the others unless given.
    pub out: Option<PathBuf>,
    /// Writes over shards of a later state, of which too few are there.
    pub yes: bool,
    /// Without checksums: also repairs columns whose explanation is unique but proves less than
    /// usual.
    pub guess: bool,
    /// Mode beside: heals these originals alone, and reads no more than necessary.
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
    /// Replaces existing files of other content.
    pub overwrite: bool,
    /// The paths to restore.
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
