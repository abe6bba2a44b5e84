//! What was found and done: plain data, serialisable, with nothing of the machinery in it.

use serde::{Deserialize, Serialize};

/// What `open_set` finds: which set this is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetInfo {
    /// Its UUID.
    pub set: String,
    /// Its name.
    pub name: String,
    /// Counts its commits.
    pub generation: u64,
    /// The spec of its code.
    pub code: String,
    /// `full` or `beside`.
    pub mode: String,
    /// Whether blocks have checksums.
    pub checksums: bool,
    /// Bytes of a block.
    pub block_len: u64,
    /// Stripes.
    pub stripes: u64,
    /// Data blocks of each stripe.
    pub lanes: u64,
    /// Absolute paths that were sealed.
    pub sources: Vec<String>,
    /// The names that they have as disks of the set.
    pub disk_names: Vec<String>,
    /// Files sealed.
    pub files: u64,
    /// Directories sealed.
    pub dirs: u64,
    /// Symbolic links sealed.
    pub links: u64,
    /// Other names of files sealed.
    pub hard_links: u64,
    /// Bytes of all files.
    pub file_bytes: u64,
    /// Every shard that should be there.
    pub shards: Vec<ShardReport>,
    /// Journals of changes that were decided and are not finished; a command that writes finishes
    /// them.
    pub pending: Vec<String>,
    /// Mode beside: files that are too large for the code, so that parity alone does not bring them
    /// back if they are lost as a whole; the first 100.
    pub exposed: Vec<String>,
    /// The number of all such files.
    pub exposed_count: u64,
    /// How many disks can fail, as shards and sources lie now.
    pub survival: Survival,
    /// Patterns of what is left out of the sources.
    pub left_out: Vec<String>,
    /// Whether what lies on another file system than its source is left out.
    pub one_file_system: bool,
}

/// One shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardReport {
    /// The column of the code.
    pub column: u64,
    /// Where it was found; where it should be if it was not.
    pub path: String,
    /// How it is.
    pub status: ShardStatus,
    /// Blocks that are not what they should be.
    pub wrong_blocks: u64,
    /// The first of them.
    pub first_wrong: Option<BlockPlace>,
    /// It bears the name of another column: the path that it should have.
    pub misnamed: Option<String>,
}

/// A file that holds a shard of the set beside the one that counts, such as a copy. Nothing is
/// written to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Superfluous {
    /// Where it lies.
    pub path: String,
    /// The column that it says it is.
    pub column: u64,
    /// How it is.
    pub status: ShardStatus,
}

/// A file that has got another name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renamed {
    /// What it was called.
    pub from: String,
    /// What it is called.
    pub to: String,
}

impl Renamed {
    pub(crate) fn new(from: &std::path::Path, to: &std::path::Path) -> Renamed {
        Renamed { from: crate::set::names::shown_path(&from), to: crate::set::names::shown_path(&to) }
    }
}

/// How a shard is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum ShardStatus {
    /// Header and manifest are good, and its length is right.
    Good,
    /// One copy of its header is damaged; nothing is lost.
    HeaderCopyDamaged,
    /// Its copy of the manifest or its check table is damaged; its blocks are judged by what is
    /// left.
    MetaDamaged,
    /// It is not there.
    Missing,
    /// It ends too early.
    Truncated {
        /// Bytes there.
        have: u64,
        /// Bytes needed.
        need: u64,
    },
    /// A shard of another set stands in its place.
    OtherSet {
        /// The UUID of that set.
        set: String,
    },
    /// It missed a commit.
    Stale {
        /// Its generation.
        generation: u64,
    },
    /// It has a later commit than the newest state that what is there suffices for: the others of
    /// that state are missing.
    Newer {
        /// Its generation.
        generation: u64,
    },
    /// It cannot be used.
    Unreadable {
        /// Why.
        reason: String,
    },
}

impl ShardStatus {
    /// Whether its blocks can be read.
    pub fn is_usable(&self) -> bool {
        matches!(self, ShardStatus::Good | ShardStatus::HeaderCopyDamaged | ShardStatus::MetaDamaged)
    }
}

/// A block of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockPlace {
    /// The stripe.
    pub stripe: u64,
    /// The row of the column.
    pub row: u64,
    /// The byte of the shard at which it begins; in an original file, the byte of the file.
    pub offset: u64,
}

/// How an original file is, compared with what was sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileStatus {
    /// Size and time of modification are as sealed.
    Unchanged,
    /// Someone has changed it since; it is never repaired back.
    Changed,
    /// It is not there.
    Missing,
    /// It is there but was not sealed.
    New,
    /// It looks unchanged, but its content is not what was sealed.
    Rotten,
    /// It has another time of modification and the size that was sealed, and so few of its blocks
    /// hold something else that it may be damaged as well as changed. It is never repaired back,
    /// and sealed anew only if that is asked for.
    RotOrChange,
    /// What was sealed lies under another path of the sources now, whole.
    Renamed,
}

/// One path of the tree of which there is something to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReport {
    /// Its path in the restored tree.
    pub path: String,
    /// How the original is.
    pub status: FileStatus,
    /// Blocks of its sealed content that are wrong or cannot be read.
    pub lost_blocks: u64,
    /// Those of them that do not follow from what is left.
    pub unrecoverable_blocks: u64,
}

/// A stripe, and what its equations say, where there are no checksums.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StripeFinding {
    /// The stripe.
    pub stripe: u64,
    /// First byte within the blocks.
    pub start: u64,
    /// The byte behind the last.
    pub end: u64,
    /// What explains it.
    pub verdict: StripeVerdict,
}

/// What explains a byte range that does not satisfy the equations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum StripeVerdict {
    /// These columns are wrong.
    Located {
        /// The columns.
        columns: Vec<u64>,
        /// A larger error looks so with a chance of at most one in 2 to this power; zero if it
        /// proves nothing.
        evidence_bits: u32,
        /// Whether that is enough, and so it is for everything else in the stripe; only then is
        /// anything repaired unasked.
        certain: bool,
    },
    /// Different columns would explain it equally well.
    Ambiguous {
        /// Two of the explanations.
        examples: [Vec<u64>; 2],
    },
    /// More is wrong than can be told.
    Unlocatable,
}

/// More was lost than the code can bear.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Columns of the worst stripe that are lost.
    pub columns: Vec<u64>,
    /// Stripes with blocks that do not follow from what is left.
    pub stripes: u64,
    /// The first of them.
    pub first_stripe: u64,
    /// Files that cannot be had whole, the first 100.
    pub files: Vec<String>,
    /// Their number.
    pub file_count: u64,
    /// How many columns must come back at least.
    pub bring_back: u64,
    /// Sets of columns of which each would be enough, the first 16.
    pub enough: Vec<Vec<u64>>,
    /// Whether any set of so many of the lost columns would be enough.
    pub any: bool,
    /// The number of sets that would be enough, of those that were tried.
    pub enough_count: u64,
    /// Mode beside: what holds the lost blocks of the worst stripe, shards and files.
    pub holders: Vec<String>,
    /// Mode beside: sets of holders of which each would be enough, the first 16; `enough` are their
    /// columns.
    pub enough_holders: Vec<Vec<String>>,
    /// A change that was cut off, or was perhaps, and whose journal does not lie where was looked.
    pub unfinished: Option<Unfinished>,
}

/// A later state of a set, of which not enough shards are there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewerState {
    /// Its generation.
    pub generation: u64,
    /// The columns of its shards that are there.
    pub have: Vec<u64>,
    /// The columns of those that are not.
    pub lack: Vec<u64>,
}

/// A change of a set that some of its shards wait for. Its journal lies in the directory that was
/// sealed into, where there may be links to the shards that were named; a command that is told that
/// directory finishes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfinished {
    /// The name of its journal.
    pub journal: String,
    /// The generation to which it leads.
    pub generation: u64,
    /// The columns of the shards that have it; with none it is perhaps not decided, and there is no
    /// journal.
    pub have: Vec<u64>,
    /// Those of the shards that wait for it.
    pub lack: Vec<u64>,
}

/// How many real disks can fail, as shards and sources lie now.
///
/// A disk is what the system numbers as one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survival {
    /// The disks on which parts of the set lie; empty if nothing can be lost, or if too much is
    /// lost already.
    pub disks: Vec<DiskContent>,
    /// Shards and sources that are lost already.
    pub gone: u64,
    /// How many more disks the code tolerates if each holds one column.
    pub promised: u64,
    /// Any so many of the disks can fail, and everything comes back.
    pub survives: u64,
    /// False if there are too many choices of disks to try them all: then more may be survived.
    pub is_complete: bool,
    /// Mode beside: several sources share all columns, and one of them would not come back alone.
    pub is_unborne: bool,
    /// Mode beside: one source is spread over all columns.
    pub is_one_source: bool,
    /// Files with content.
    pub files: u64,
    /// Sealed files that are changed or missing in sources that are there, so that they do not help
    /// to recover others.
    pub unsealed: u64,
    /// The smallest losses that cost files, the worst first, the first 16; none where the code
    /// keeps its promise.
    pub losses: Vec<DiskLoss>,
    /// Their number.
    pub loss_count: u64,
}

/// A disk, and what of a set lies on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskContent {
    /// The source, or the directory of shards, that was found on it first.
    pub path: String,
    /// Mode beside: the sources on it.
    pub sources: Vec<String>,
    /// The columns of the shards on it.
    pub shards: Vec<u64>,
}

/// Files that are lost if some disks fail together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskLoss {
    /// The disks, by their place in the list of disks.
    pub disks: Vec<u64>,
    /// Files that do not come back.
    pub files_lost: u64,
}

/// What became of a path since it was sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// It was not sealed, or as something of another kind.
    Added,
    /// It holds something else, has another time, or leads elsewhere.
    Changed,
    /// It is gone, or something of another kind.
    Removed,
    /// Its content was sealed under another path.
    Renamed,
}

/// A path that `seal` would seal anew or forget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathChange {
    /// Its path in the restored tree.
    pub path: String,
    /// What became of it.
    pub is: Change,
    /// What it was called, if it was renamed.
    pub from: Option<String>,
}

/// What `list` finds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// The set's UUID.
    pub set: String,
    /// The set's name.
    pub name: String,
    /// The generation that is listed.
    pub generation: u64,
    /// The paths, directories before what they hold.
    pub paths: Vec<ListedPath>,
}

/// A path that is sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedPath {
    /// Its path in the restored tree; empty for the root.
    pub path: String,
    /// `file`, `dir` or `link`.
    pub kind: String,
    /// Bytes of a file.
    pub bytes: u64,
    /// Permission bits.
    pub mode: u32,
    /// Seconds since 1970 of its time of modification.
    pub mtime_s: i64,
    /// The nanoseconds of that.
    pub mtime_ns: u32,
    /// Where a link leads.
    pub target: Option<String>,
}

/// What `seal` did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealReport {
    /// The set's UUID.
    pub set: String,
    /// The set's name.
    pub name: String,
    /// The spec of the code.
    pub code: String,
    /// `full` or `beside`.
    pub mode: String,
    /// How many shards may be lost, whichever they are.
    pub tolerance: u64,
    /// The generation after the work.
    pub generation: u64,
    /// The BLAKE3 digest of the manifest after the work, as a pin has it; of what would be sealed
    /// with `dry_run`.
    pub manifest: String,
    /// Whether the set is new.
    pub first_time: bool,
    /// Where the sources are, in the order of the set.
    #[serde(skip)]
    pub(crate) places: Vec<(Vec<u8>, std::path::PathBuf)>,
    /// The manifest after the work, as it is stored.
    #[serde(skip)]
    pub(crate) stored_manifest: Vec<u8>,
    /// The code that was given, or that the set had, where it got more data columns for more
    /// sources.
    pub widened_from: Option<String>,
    /// Files now sealed.
    pub files: u64,
    /// Bytes of all files now sealed.
    pub file_bytes: u64,
    /// Paths that were not sealed before.
    pub added: u64,
    /// Files whose content was sealed anew, and links that lead elsewhere.
    pub changed: u64,
    /// Paths that are no longer there.
    pub removed: u64,
    /// Files, among those added, whose content was sealed under a path that is gone; it was not
    /// sealed anew.
    pub renamed: u64,
    /// Files that were not read because size and time of modification were the same.
    pub unchanged: u64,
    /// Bytes read from the original files.
    pub source_bytes_read: u64,
    /// Bytes read from shards.
    pub shard_bytes_read: u64,
    /// Bytes written to shards and journal.
    pub bytes_written: u64,
    /// Stripes touched.
    pub stripes_touched: u64,
    /// Stripes in all.
    pub stripes: u64,
    /// Bytes of a block.
    pub block_len: u64,
    /// Bytes of all shards.
    pub shard_bytes: u64,
    /// Bytes of all shards that hold parity, and manifests.
    pub shards: Vec<String>,
    /// Other names of files that are sealed.
    pub hard_links: u64,
    /// Files that changed while they were read; they are sealed as read and will be reported as
    /// changed. The first 100.
    pub changed_meanwhile: Vec<String>,
    /// Paths that are neither file, directory nor link, and were left out. The first 100.
    pub skipped: Vec<String>,
    /// Paths of more than 4,095 bytes below their source, which no system opens; they were left out
    /// with what lies in them. The first 100.
    pub too_long: Vec<String>,
    /// How many there are.
    pub too_long_count: u64,
    /// Paths that cannot be read now; what was sealed of them before is kept. The first 100.
    pub unreadable: Vec<LeftUnread>,
    /// How many there are.
    pub unreadable_count: u64,
    /// Temporary files that a killed command left, which were left out. The first 100.
    pub strays: Vec<String>,
    /// Paths that a pattern leaves out; what lies in a directory that is left out is not counted.
    pub excluded: u64,
    /// Directories on which another file system is mounted, of which only that they are there was
    /// sealed. The first 100.
    pub other_systems: Vec<String>,
    /// Whether nothing was written, and this is what would be done.
    pub dry_run: bool,
    /// With `dry_run` every path that would be sealed anew or forgotten.
    pub changes: Vec<PathChange>,
    /// Mode beside: files that are too large for the code, so that parity alone does not bring them
    /// back if they are lost as a whole; the first 100.
    pub exposed: Vec<String>,
    /// The number of all such files.
    pub exposed_count: u64,
    /// How many disks can fail, as shards and sources lie now.
    pub survival: Survival,
}

/// What `verify` found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyReport {
    /// The set's UUID.
    pub set: String,
    /// The set's name.
    pub name: String,
    /// The spec of the code.
    pub code: String,
    /// `full` or `beside`.
    pub mode: String,
    /// The generation that was verified.
    pub generation: u64,
    /// Whether blocks were judged by checksums.
    pub by_checksums: bool,
    /// Whether manifest and blocks were held against a pin.
    pub by_pin: bool,
    /// Every shard that should be there.
    pub shards: Vec<ShardReport>,
    /// Files that hold a shard of the set beside the one that counts.
    pub superfluous: Vec<Superfluous>,
    /// Every path of which there is something to say.
    pub files: Vec<FileReport>,
    /// Files whose originals are as sealed.
    pub files_unchanged: u64,
    /// Whether the originals were there to be compared.
    pub sources_seen: bool,
    /// Whether files that were renamed, or are new, were looked for in the sources: only in those
    /// that were named, or that this user sealed here by her own record.
    pub sources_searched: bool,
    /// Without checksums: where the equations fail, the first 1000.
    pub findings: Vec<StripeFinding>,
    /// Without checksums: the number of all such places.
    pub finding_count: u64,
    /// Stripes checked.
    pub stripes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Whether nothing at all is wrong with the shards and, beside originals, with those.
    pub clean: bool,
    /// Whether everything that is wrong can be repaired.
    pub recoverable: bool,
    /// What cannot.
    pub losses: Option<Losses>,
    /// Whether there is anything that healing would repair or report.
    pub needs_heal: bool,
    /// Mode beside: whether files were changed since, so that only sealing again protects them.
    pub needs_seal: bool,
    /// Where the sources are.
    pub sources: Vec<String>,
    /// The names that they have as disks of the set.
    pub disk_names: Vec<String>,
    /// Whether only the files that were named were looked at, and no shard.
    pub partial: bool,
    /// Sources that are not there, so that originals were not compared.
    pub sources_missing: Vec<String>,
    /// True if the caller named the sources, or this user's record has them: heal may write there.
    pub sources_known: bool,
    /// Sources beside their parity of which nothing that was sealed is there: most likely a disk
    /// that is not mounted, or was replaced.
    pub sources_emptied: Vec<String>,
    /// Mode beside: originals that have another name now, the first 100.
    pub renamed: Vec<Renamed>,
    /// If there are shards of a later state, and not enough of them: which.
    pub newer: Option<NewerState>,
    /// Mode beside: files that are too large for the code, so that parity alone does not bring them
    /// back if they are lost as a whole; the first 100.
    pub exposed: Vec<String>,
    /// The number of all such files.
    pub exposed_count: u64,
    /// How many disks can fail, as shards and sources lie now.
    pub survival: Survival,
}

/// What `pin` wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinReport {
    /// Where.
    pub path: String,
    /// The generation that is pinned.
    pub generation: u64,
    /// Blocks, each with a digest.
    pub blocks: u64,
    /// Bytes of the pin.
    pub bytes: u64,
}

/// What `heal` did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealReport {
    /// What was found before.
    pub found: VerifyReport,
    /// Shards that bore the name of another column and got their own back.
    pub shards_renamed: Vec<Renamed>,
    /// Files that stood in the place of a shard and were moved aside: shards of other sets, and
    /// copies of other shards.
    pub moved_aside: Vec<Renamed>,
    /// Shards that were made anew or repaired, by path.
    pub shards_written: Vec<String>,
    /// Original files that were repaired, by path.
    pub files_healed: Vec<String>,
    /// Blocks that were put right.
    pub blocks_repaired: u64,
    /// Stripes in which a guess that was asked for said what is wrong.
    pub stripes_guessed: u64,
    /// Files that have changed since and were therefore left alone, by path.
    pub left_changed: Vec<String>,
    /// Earlier contents of healed files that were touched since they were sealed, each beside its
    /// file as `FILE.before-heal`.
    pub kept_aside: Vec<String>,
    /// Replaced blocks of such files where few differed, at their offsets with holes elsewhere,
    /// each beside its file as `FILE.replaced-blocks`.
    pub kept_blocks: Vec<String>,
    /// Blocks that are wrong but could not be put right.
    pub blocks_left: u64,
    /// Shards and files that could have been healed, but something stood in the way.
    pub not_healed: Vec<NotDone>,
    /// Files that were healed without checksums and with no equation left, from files that were
    /// touched since they were sealed: they may be wrong.
    pub doubtful: Vec<NotDone>,
    /// Temporary files of commands that were killed, which were removed, by path.
    pub strays_removed: Vec<String>,
    /// Attributes and ACLs that could not be given to files that were healed.
    pub not_kept: Vec<NotDone>,
}

/// A path that `seal` could not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftUnread {
    /// Where it is.
    pub path: String,
    /// The fault of the system.
    pub reason: String,
    /// The pattern by which it is left out.
    pub exclude: String,
}

/// What `unseal` did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsealReport {
    /// Files written.
    pub files: u64,
    /// Their bytes.
    pub file_bytes: u64,
    /// Directories made.
    pub dirs: u64,
    /// Links made.
    pub links: u64,
    /// Other names given to files.
    pub hard_links: u64,
    /// Files and links that were there already with the same content.
    pub already_there: u64,
    /// Blocks that had to be computed from others.
    pub blocks_reconstructed: u64,
    /// Without checksums no block can be judged alone: whether that was so.
    pub unchecked: bool,
    /// Without checksums: whether so many shards are lost that no equation is left, and silent
    /// damage would not show.
    pub blind: bool,
    /// Attributes and ACLs that could not be given to what was restored.
    pub not_kept: Vec<NotDone>,
    /// What could not be restored: all of it, for whoever looks for it elsewhere.
    pub not_restored: Vec<NotDone>,
    /// The number of that.
    pub not_restored_count: u64,
}

/// A path, and why it could not be restored or healed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotDone {
    /// The path.
    pub path: String,
    /// Why not.
    pub reason: String,
}
