//! What can go wrong, as values; what is said of each is in [`sentences`].

mod sentences;

pub use sentences::ranges;

use crate::options::DiskAt;
use crate::report::{HealReport, Losses, UnsealReport};
use pantile::CodeError;
use pantile::code::StudyOnly;
use pantile_format::FormatError;
use std::io;
use std::path::{Path, PathBuf};

/// Why a command did not do what it was asked for. Nothing that was there before is lost by any of
/// them.
#[derive(Debug)]
pub enum SealError {
    /// The system refused something.
    Io {
        /// What was being done, such as "reading".
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The file system is full, or would be.
    NoSpace {
        /// Where.
        path: PathBuf,
        /// Bytes needed, if known beforehand.
        need: Option<u64>,
        /// Bytes free.
        free: Option<u64>,
    },
    /// A file would be longer than it may be.
    TooLarge {
        /// Which.
        path: PathBuf,
        /// The most bytes that this process may write to a file; `None` if it is the file system
        /// that sets the limit.
        most: Option<u64>,
    },
    /// More is left out than a set may say.
    TooManyPatterns {
        /// How many patterns there are.
        count: usize,
    },
    /// A stripe is longer than what is held in memory of it.
    StripeTooLong {
        /// Bytes that one stripe has.
        need: u64,
        /// The most that are held in memory.
        most: u64,
        /// The effort with which it is worked on.
        suffices_steps: u64,
    },
    /// The checksums do not fit into memory.
    NoMemory {
        /// Bytes that they take.
        need: u64,
        /// Bytes of a block.
        block_len: u64,
    },
    /// The caller ended it.
    Cancelled,
    /// A pattern cannot be read.
    BadPattern {
        /// The pattern.
        pattern: String,
        /// Why not.
        why: String,
    },
    /// A pattern or path fits nothing that is sealed.
    NothingMeant {
        /// Which.
        what: String,
    },
    /// An original stands where directories of shards and shards are named: all would be healed.
    OriginalNamed {
        /// Which.
        path: PathBuf,
    },
    /// What would be done cannot be told beforehand: the code gets a column more first.
    NotRehearsed,
    /// Single originals were named, and the set holds the data itself.
    NoOriginals,
    /// So many of the files that are sealed are gone that something is more likely not mounted.
    ManyRemoved {
        /// The source.
        source: PathBuf,
        /// A directory of it that is empty now, if that is why.
        emptied: Option<PathBuf>,
        /// Files that are gone from it.
        removed: u64,
        /// Files that are sealed in it.
        of: u64,
    },
    /// Another command works in the directory.
    Busy {
        /// The directory.
        dir: PathBuf,
    },
    /// Nothing was named to be sealed.
    NoSources,
    /// A source is not there, is neither file nor directory, or is empty although files of it are
    /// sealed: most likely it is not mounted, and the sealed files are not to be forgotten for
    /// that.
    BadSource {
        /// The path.
        path: PathBuf,
    },
    /// Two sources would be restored under one name.
    SameName {
        /// The one.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// A source lies in another.
    Nested {
        /// The one.
        inner: PathBuf,
        /// The other.
        outer: PathBuf,
    },
    /// A name that no disk can have.
    BadDiskName {
        /// The name.
        name: String,
    },
    /// A disk was named that the set does not have.
    UnknownDisk {
        /// Its name.
        name: String,
        /// The names of those that it has.
        known: Vec<String>,
    },
    /// Several disks were moved, and nothing tells which is where.
    UnclearDisks {
        /// The names of disks that were not found.
        names: Vec<String>,
        /// Paths of which none has their name.
        paths: Vec<PathBuf>,
    },
    /// Originals are to be repaired where the set says, and nobody else says so.
    SourcesNotNamed {
        /// The disks, and where that is.
        disks: Vec<DiskAt>,
    },
    /// Files of the set are there and cannot be opened now.
    CannotOpen {
        /// The first.
        path: PathBuf,
        /// What the system said of it.
        reason: String,
        /// How many.
        count: usize,
    },
    /// More files would have to be open at once than may be.
    OpenFiles {
        /// How many.
        need: u64,
        /// How many may be.
        most: u64,
    },
    /// A change of the set was decided and is not finished.
    Pending {
        /// What tells of it.
        journal: PathBuf,
    },
    /// A repair of originals was cut off, and it is not known where they are.
    RepairCutOff {
        /// The journal of the repair.
        journal: PathBuf,
    },
    /// Files were healed from others that may be wrong, and nothing can tell.
    HealedInDoubt {
        /// The report, with the doubtful files.
        report: Box<HealReport>,
    },
    /// A name that cannot be part of a file name.
    BadName {
        /// The name.
        name: String,
    },
    /// A new set needs a code.
    CodeNeeded {
        /// Where no set of the name was found.
        out: PathBuf,
        /// The name.
        name: String,
        /// The sets that are there: the name of each, and what it was sealed from.
        others: Vec<(String, Vec<PathBuf>)>,
    },
    /// The code is only here to be studied.
    StudyOnly(StudyOnly),
    /// Only parity is to be stored, and the code has none.
    NoParity {
        /// Its spec.
        spec: String,
    },
    /// Each of several sources has a data column of its own, and the code has fewer.
    TooFewColumns {
        /// Its spec.
        spec: String,
        /// Its data columns.
        columns: usize,
        /// How many sources there are.
        sources: usize,
    },
    /// A source of the set was not named.
    SourceNotNamed {
        /// Its name as a disk.
        name: String,
        /// Where it was sealed.
        path: PathBuf,
        /// A path that was named and is new, which it may be.
        new: Option<PathBuf>,
    },
    /// The set was sealed with another setting.
    Differs {
        /// Which.
        what: &'static str,
        /// What the set has.
        have: String,
        /// What was asked for.
        given: String,
    },
    /// The set was sealed from another place.
    OtherSource {
        /// Its name as a disk.
        name: String,
        /// The source that it was sealed from.
        have: PathBuf,
        /// What was given in its place.
        given: PathBuf,
    },
    /// Files were touched since they were sealed and hold something else, though their size and
    /// time of modification are as they were.
    Disguised {
        /// The first of them.
        first: Vec<PathBuf>,
        /// How many there are.
        count: usize,
    },
    /// Files have other times of modification than were sealed, the size that was, and all blocks
    /// but few hold what was: damaged or changed.
    RotOrChange {
        /// The first of them.
        first: Vec<PathBuf>,
        /// How many there are.
        count: usize,
    },
    /// A pin is of another set, or of another state of this one.
    OtherPinned {
        /// The pin.
        path: PathBuf,
        /// The set that is pinned, and its generation.
        pinned: (String, u64),
        /// The set that is here, and its generation.
        here: (String, u64),
    },
    /// The manifest is not the one that was pinned, though it says that it is of the pinned state.
    ManifestNotPinned {
        /// The pin.
        path: PathBuf,
    },
    /// The set was sealed from other paths, or from these in another order.
    OtherSources {
        /// What it was sealed from.
        have: Vec<PathBuf>,
        /// What was named.
        given: Vec<PathBuf>,
    },
    /// A file has the name of a shard, or one that may be taken for it, and is another.
    NameTaken {
        /// The file.
        path: PathBuf,
        /// Where the shard is.
        shard: PathBuf,
    },
    /// A file that is there already has the name that the journal of a new set would get.
    JournalNameTaken {
        /// The file.
        path: PathBuf,
        /// The set whose journal it is, if it is one that can be read.
        set: Option<String>,
    },
    /// Not a block length.
    BlockLen {
        /// The number given.
        given: u64,
    },
    /// The set's code cannot be made here.
    Code {
        /// Its spec.
        spec: String,
        /// Why.
        error: Box<CodeError>,
    },
    /// The set's code is made differently here.
    OtherConstruction {
        /// Its spec.
        spec: String,
        /// Version and fingerprint in the set.
        set: (u32, u64),
        /// Version and fingerprint here.
        here: (u32, u64),
    },
    /// There is no shard.
    NoShards {
        /// Where was looked.
        paths: Vec<PathBuf>,
    },
    /// No shard can be used.
    NoGoodShard {
        /// One of them.
        path: PathBuf,
        /// What is wrong with it.
        error: FormatError,
    },
    /// No shard can be opened.
    NoShardOpens {
        /// One of them.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// Shards of several sets lie there.
    SeveralSets {
        /// Name and UUID of each, and how many of its shards.
        sets: Vec<(String, String, usize)>,
    },
    /// A structure cannot be read.
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: FormatError,
    },
    /// The set must be whole before it is changed.
    NeedsHeal {
        /// Columns whose shards are missing, stale or unreadable.
        columns: Vec<usize>,
        /// Damaged blocks found in stripes to be changed.
        blocks: u64,
    },
    /// Shards are not in the directory in which the set is brought up to date: moved, or lost.
    ShardsElsewhere {
        /// The directory.
        dir: PathBuf,
        /// The columns of those that are not there.
        columns: Vec<usize>,
    },
    /// A journal is damaged.
    BadJournal {
        /// The journal.
        path: PathBuf,
        /// What is wrong.
        error: FormatError,
    },
    /// More is lost than the code can bear.
    TooMuchLost {
        /// What, and what would help.
        losses: Box<Losses>,
        /// What was repaired in spite of it.
        healed: Option<Box<HealReport>>,
    },
    /// Something is in the way.
    InTheWay {
        /// The path.
        path: PathBuf,
        /// Whether overwriting was asked for; it does not help here.
        asked: bool,
    },
    /// Without checksums: the equations say that something is wrong, but not where.
    Doubtful {
        /// The first file.
        path: PathBuf,
        /// A stripe that contradicts the equations.
        stripe: u64,
    },
    /// Not everything was restored.
    NotRestored {
        /// The worst reason.
        why: Box<SealError>,
        /// What was restored, and everything that was not.
        report: Box<UnsealReport>,
    },
    /// Something stood in the way of healing.
    NotHealed {
        /// What was healed, and what was not.
        report: Box<HealReport>,
    },
    /// The set holds no data, and its original files are not all there.
    NotWithoutOriginals {
        /// The first that is missing or changed.
        path: PathBuf,
    },
    /// A file changed, or went away, while it was being read.
    ChangedMeanwhile {
        /// The file.
        path: PathBuf,
    },
    /// Files that are to be sealed cannot be read.
    CannotRead {
        /// The first.
        path: PathBuf,
        /// What the system said of it.
        error: io::Error,
        /// How many.
        count: usize,
    },
    /// The new state is decided, but not all of it is in the shards yet.
    Unfinished {
        /// What tells of it.
        journal: PathBuf,
        /// What stood in the way.
        error: Box<SealError>,
    },
}

impl SealError {
    /// As [`SealError::io`], for a file that is being sealed: one that went away has changed.
    pub(crate) fn source(doing: &'static str, path: &Path, error: io::Error) -> SealError {
        match error.kind() {
            io::ErrorKind::NotFound => SealError::ChangedMeanwhile { path: path.to_path_buf() },
            _ => SealError::io(doing, path, error),
        }
    }

    /// An error of the system, told apart by what to do about it.
    pub(crate) fn io(doing: &'static str, path: &Path, error: io::Error) -> SealError {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                SealError::NoSpace { path: path.to_path_buf(), need: None, free: None }
            }
            io::ErrorKind::FileTooLarge => {
                SealError::TooLarge { path: path.to_path_buf(), most: crate::system::file_bytes_most() }
            }
            _ => SealError::Io { doing, path: path.to_path_buf(), error },
        }
    }
}

impl std::error::Error for SealError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SealError::Io { error, .. } => Some(error),
            SealError::CannotRead { error, .. } => Some(error),
            SealError::Unfinished { error, .. } => Some(&**error),
            SealError::NotRestored { why, .. } => Some(&**why),
            SealError::Code { error, .. } => Some(&**error),
            SealError::NoGoodShard { error, .. }
            | SealError::Format { error, .. }
            | SealError::BadJournal { error, .. } => Some(error),
            _ => None,
        }
    }
}
