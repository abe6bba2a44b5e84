//! Reports of findings and work: plain, serialisable data without references to open files.

use serde::{Deserialize, Serialize};

/// Identity and condition of a set, returned by `open_set`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetInfo {
    /// Its UUID.
    pub set: String,
    /// Its name.
    pub name: String,
    /// The number of the present state; every commit increases it.
    pub generation: u64,
    /// The spec of its code.
    pub code: String,
    /// `full` or `beside`.
    pub mode: String,
    /// True if blocks have checksums.
    pub checksums: bool,
    /// Bytes of a block.
    pub block_len: u64,
    /// Stripes.
    pub stripes: u64,
    /// Data blocks of each stripe.
    pub lanes: u64,
    /// Absolute paths that were sealed.
    pub sources: Vec<String>,
    /// Names of the sources as disks of the set.
    pub disk_names: Vec<String>,
    /// True if the caller named the sources, or this user's record of the set has them.
    pub sources_known: bool,
    /// Files sealed.
    pub files: u64,
    /// Directories sealed.
    pub dirs: u64,
    /// Symbolic links sealed.
    pub links: u64,
    /// Further names of sealed files.
    pub hard_links: u64,
    /// Bytes of all files.
    pub file_bytes: u64,
    /// Every shard that the set should have.
    pub shards: Vec<ShardReport>,
    /// Journals of decided, unfinished changes; a command that writes finishes them.
    pub pending: Vec<String>,
    /// Mode beside: files too large for the code, which parity alone does not bring back if they
    /// are lost as a whole; the first 100.
    pub exposed: Vec<String>,
    /// The number of all such files.
    pub exposed_count: u64,
    /// Tolerance of disk failures, by the present places of shards and sources.
    pub survival: Survival,
    /// Patterns of paths that are left out of the sources.
    pub left_out: Vec<String>,
    /// True if paths on another file system than their source are left out.
    pub one_file_system: bool,
}

/// One shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardReport {
    /// The column of the code.
    pub column: u64,
    /// Path at which it was found, or else should be.
    pub path: String,
    /// Condition.
    pub status: ShardStatus,
    /// Wrong blocks.
    pub wrong_blocks: u64,
    /// The first wrong block.
    pub first_wrong: Option<BlockPlace>,
    /// The path that it should have, if it has the name of another column.
    pub misnamed: Option<String>,
}

/// A second file with a shard of the set, such as a copy. It is never written to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Superfluous {
    /// Its path.
    pub path: String,
    /// The column that its header gives.
    pub column: u64,
    /// Condition.
    pub status: ShardStatus,
}

/// A renamed file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renamed {
    /// Earlier name.
    pub from: String,
    /// Present name.
    pub to: String,
}

impl Renamed {
    pub(crate) fn new(from: &std::path::Path, to: &std::path::Path) -> Renamed {
        Renamed { from: crate::set::names::shown_path(&from), to: crate::set::names::shown_path(&to) }
    }
}

/// Condition of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum ShardStatus {
    /// Header and manifest are good, and its length is right.
    Good,
    /// One copy of its header is damaged, without any loss.
    HeaderCopyDamaged,
    /// Its copy of the manifest or its check table is damaged; its blocks are judged by the rest.
    MetaDamaged,
    /// No file is at its path.
    Missing,
    /// It ends too early.
    Truncated {
        /// Bytes there.
        have: u64,
        /// Bytes needed.
        need: u64,
    },
    /// A shard of another set is at its path.
    OtherSet {
        /// The UUID of that set.
        set: String,
    },
    /// The shard missed a commit.
    Stale {
        /// Its generation.
        generation: u64,
    },
    /// It has a later commit than the newest usable state: other shards of that state are missing.
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
    /// True if its blocks can be read.
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

/// Condition of an original file, compared with the sealed state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileStatus {
    /// Size and time of modification are as sealed.
    Unchanged,
    /// Changed since it was sealed; it is never repaired back.
    Changed,
    /// It is not there.
    Missing,
    /// Present but not sealed.
    New,
    /// Size and time are unchanged, the content is not.
    Rotten,
    /// The mtime differs, the size does not, and so few blocks differ that the file may be either
    /// damaged or changed. It is never repaired back, and sealed again only on request.
    RotOrChange,
    /// The whole content is now at another path of the sources.
    Renamed,
}

/// A path of the tree with a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReport {
    /// Its path in the restored tree.
    pub path: String,
    /// Condition of the original.
    pub status: FileStatus,
    /// Blocks of its sealed content that are wrong or cannot be read.
    pub lost_blocks: u64,
    /// Lost blocks that cannot be computed from the rest.
    pub unrecoverable_blocks: u64,
}

/// Verdict of the equations on a stripe, in a set without checksums.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StripeFinding {
    /// The stripe.
    pub stripe: u64,
    /// First byte within the blocks.
    pub start: u64,
    /// The byte behind the last.
    pub end: u64,
    /// Explanation of the contradiction.
    pub verdict: StripeVerdict,
}

/// Explanation of a byte range that contradicts the equations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum StripeVerdict {
    /// These columns are wrong.
    Located {
        /// The columns.
        columns: Vec<u64>,
        /// An error of more columns looks like this one with a probability of at most 2 to the
        /// power of minus this number; zero if the equations prove nothing.
        evidence_bits: u32,
        /// True if the evidence suffices for the whole stripe; only then is it repaired without a
        /// guess.
        certain: bool,
    },
    /// Different columns would explain it equally well.
    Ambiguous {
        /// Two of the explanations.
        examples: [Vec<u64>; 2],
    },
    /// No small set of columns explains it, or the search was cut short.
    Unlocatable,
}

/// A loss beyond the tolerance of the code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Columns with lost blocks in such stripes.
    pub columns: Vec<u64>,
    /// Stripes with blocks that cannot be computed from the rest.
    pub stripes: u64,
    /// The first such stripe.
    pub first_stripe: u64,
    /// Files that cannot be restored whole, the first 100.
    pub files: Vec<String>,
    /// The number of all such files.
    pub file_count: u64,
    /// The least number of lost columns that must come back.
    pub bring_back: u64,
    /// Sets of columns that would each suffice, the first 16.
    pub enough: Vec<Vec<u64>>,
    /// True if any `bring_back` of the lost columns suffice.
    pub any: bool,
    /// The number of sufficient sets among those that the search tried.
    pub enough_count: u64,
    /// Mode beside: shards, files and disks with several files that hold the lost blocks of these
    /// stripes.
    pub holders: Vec<String>,
    /// Mode beside: sets of holders that would each suffice, the first 16; `enough` are their
    /// columns.
    pub enough_holders: Vec<Vec<String>>,
    /// A change that was cut off, or may have been, and whose journal was not found.
    pub unfinished: Option<Unfinished>,
}

/// A later state of a set with too few shards present.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewerState {
    /// Its generation.
    pub generation: u64,
    /// The columns of its shards that are present.
    pub have: Vec<u64>,
    /// The columns of its shards that are missing.
    pub lack: Vec<u64>,
}

/// An unfinished change that some shards of a set do not have yet. Its journal is stored in the
/// directory that the seal wrote to, or beside another shard; a command with that directory as its
/// argument finishes the change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfinished {
    /// The name of its journal.
    pub journal: String,
    /// The generation after the change.
    pub generation: u64,
    /// The columns of the shards that have the change. If there are none, the change may be
    /// undecided and have no journal.
    pub have: Vec<u64>,
    /// The columns of the shards that do not have the change yet.
    pub lack: Vec<u64>,
}

/// Number of real disks that can fail, by the present places of shards and sources.
///
/// A disk is one device of the system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survival {
    /// The disks that store parts of the set; empty if nothing can be lost, or if too much is lost
    /// already.
    pub disks: Vec<DiskContent>,
    /// Shards and sources that are lost already.
    pub gone: u64,
    /// How many more disks the code tolerates if each holds one column.
    pub promised: u64,
    /// The largest number of disks whose failure, in any combination, loses nothing.
    pub survives: u64,
    /// False if there are too many combinations of disks to try all; the set may then survive more.
    pub is_complete: bool,
    /// Mode beside: true if several sources share all columns, and the loss of some single source
    /// loses files.
    pub is_unborne: bool,
    /// Mode beside: one source is spread over all columns.
    pub is_one_source: bool,
    /// Files with content.
    pub files: u64,
    /// Sealed files that are changed or missing in sources that are there, so that they do not help
    /// to recover others.
    pub unsealed: u64,
    /// The smallest combinations of disks whose failure loses files, the worst first, at most 16;
    /// empty if the disks keep the promise of the code.
    pub losses: Vec<DiskLoss>,
    /// The number of all such combinations.
    pub loss_count: u64,
}

/// A disk, and its parts of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskContent {
    /// The first source or directory of shards that was found on it.
    pub path: String,
    /// Mode beside: the sources on it.
    pub sources: Vec<String>,
    /// The columns of the shards on it.
    pub shards: Vec<u64>,
}

/// Files that are lost if some disks fail together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskLoss {
    /// Indices in [`Survival::disks`].
    pub disks: Vec<u64>,
    /// The number of files that do not come back.
    pub files_lost: u64,
}

/// Change of a path since it was sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Not sealed, or sealed as another kind.
    Added,
    /// The content, time or link target differs.
    Changed,
    /// Missing, or of another kind.
    Removed,
    /// The content was sealed under another path.
    Renamed,
}

/// A path that `seal` would seal again or forget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathChange {
    /// Its path in the restored tree.
    pub path: String,
    /// Change since it was sealed.
    pub is: Change,
    /// Earlier name of a renamed path; `None` for any other.
    pub from: Option<String>,
}

/// Sealed paths, returned by `list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// The set's UUID.
    pub set: String,
    /// The set's name.
    pub name: String,
    /// The generation that is listed.
    pub generation: u64,
    /// The paths, directories before their content.
    pub paths: Vec<ListedPath>,
}

/// A path that is sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedPath {
    /// Path in the restored tree; empty for the root.
    pub path: String,
    /// `file`, `dir` or `link`.
    pub kind: String,
    /// Bytes of a file.
    pub bytes: u64,
    /// Permission bits.
    pub mode: u32,
    /// Seconds since 1970 of its time of modification.
    pub mtime_s: i64,
    /// Nanoseconds of the time of modification.
    pub mtime_ns: u32,
    /// Target of a link.
    pub target: Option<String>,
}

/// Result of `seal`.
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
    /// Shards that may be lost, in any combination.
    pub tolerance: u64,
    /// The generation after the work.
    pub generation: u64,
    /// The BLAKE3 digest of the manifest after the work, as in a pin; with `dry_run` of the one
    /// that would be written.
    pub manifest: String,
    /// True if the set is new.
    pub first_time: bool,
    /// The sources in the order of the set, each with its name and its path.
    #[serde(skip)]
    pub(crate) places: Vec<(Vec<u8>, std::path::PathBuf)>,
    /// The manifest after the work, as it is stored.
    #[serde(skip)]
    pub(crate) stored_manifest: Vec<u8>,
    /// The given or earlier code, if the set needed more data columns for more sources.
    pub widened_from: Option<String>,
    /// Files now sealed.
    pub files: u64,
    /// Bytes of all files now sealed.
    pub file_bytes: u64,
    /// Paths that were not sealed before.
    pub added: u64,
    /// Files whose content was sealed again, and links with another target.
    pub changed: u64,
    /// Paths that are gone.
    pub removed: u64,
    /// The number of added files whose content was sealed under a path that is now gone; it was not
    /// sealed again.
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
    /// Paths of the shards.
    pub shards: Vec<String>,
    /// Further names of sealed files.
    pub hard_links: u64,
    /// Files that changed while they were read; they are sealed as read and will be reported as
    /// changed. The first 100.
    pub changed_meanwhile: Vec<String>,
    /// Paths that are neither file, directory nor link, and were left out. The first 100.
    pub skipped: Vec<String>,
    /// Paths of more than 4,095 bytes below their source, which no system opens; they were left out
    /// with everything below them. The first 100.
    pub too_long: Vec<String>,
    /// The number of all such paths.
    pub too_long_count: u64,
    /// Shards, and originals beside their parity, with wrong blocks where they were read to compute
    /// parity. The blocks were computed from the others. The first 100.
    pub damaged: Vec<String>,
    /// Paths that cannot be read now; their earlier sealed state is kept. The first 100.
    pub unreadable: Vec<LeftUnread>,
    /// The number of all such paths.
    pub unreadable_count: u64,
    /// Temporary files of killed commands, which were left out. The first 100.
    pub strays: Vec<String>,
    /// The number of paths that a pattern leaves out; a directory counts once, whatever it
    /// contains.
    pub excluded: u64,
    /// Directories with another file system mounted on them, sealed as empty. The first 100.
    pub other_systems: Vec<String>,
    /// True if this is a rehearsal and nothing was written.
    pub dry_run: bool,
    /// With `dry_run`: every path that would be sealed again or forgotten.
    pub changes: Vec<PathChange>,
    /// Mode beside: files too large for the code, which parity alone does not bring back if they
    /// are lost as a whole; the first 100.
    pub exposed: Vec<String>,
    /// The number of all such files.
    pub exposed_count: u64,
    /// Tolerance of disk failures, by the present places of shards and sources.
    pub survival: Survival,
}

/// Findings of `verify`.
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
    /// True if blocks were judged by checksums.
    pub by_checksums: bool,
    /// True if manifest and blocks were compared with a pin.
    pub by_pin: bool,
    /// Every shard that the set should have.
    pub shards: Vec<ShardReport>,
    /// Further files that hold a shard of the set.
    pub superfluous: Vec<Superfluous>,
    /// Every path with a finding.
    pub files: Vec<FileReport>,
    /// Files whose originals are as sealed.
    pub files_unchanged: u64,
    /// True if the originals were there to be compared.
    pub sources_seen: bool,
    /// True if sources were searched for renamed and new files. A source is only searched if the
    /// caller named it or this user's record of the set has it.
    pub sources_searched: bool,
    /// Without checksums: places where the equations fail, the first 1000.
    pub findings: Vec<StripeFinding>,
    /// Without checksums: the number of all such places.
    pub finding_count: u64,
    /// Stripes checked.
    pub stripes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// True if the shards and, in mode beside, the originals have no fault at all.
    pub clean: bool,
    /// True if all damage can be repaired.
    pub recoverable: bool,
    /// The damage that cannot be repaired.
    pub losses: Option<Losses>,
    /// True if heal would repair or report something.
    pub needs_heal: bool,
    /// Mode beside: true if files have changed, so that only sealing again protects them.
    pub needs_seal: bool,
    /// Places of the sources.
    pub sources: Vec<String>,
    /// Names of the sources as disks of the set.
    pub disk_names: Vec<String>,
    /// True if only the named files were examined, and no shard.
    pub partial: bool,
    /// Missing sources. In mode full no original is compared if there are any. In mode beside, a
    /// missing source that is a single file is listed in `files` instead.
    pub sources_missing: Vec<String>,
    /// True if the caller named the sources, or this user's record of the set has them: only then
    /// can heal write to them.
    pub sources_known: bool,
    /// Sources beside their parity in which no sealed file is left: most likely the disk is not
    /// mounted, or was replaced.
    pub sources_emptied: Vec<String>,
    /// Those of them where an empty disk is mounted, which heal fills.
    pub sources_replaced: Vec<String>,
    /// Folders of lost shards without any shard of the set, whose disk is most likely not mounted:
    /// heal does not write there unless told so.
    pub folders_unmounted: Vec<String>,
    /// Mode beside: renamed originals, the first 100.
    pub renamed: Vec<Renamed>,
    /// A later state with too few shards.
    pub newer: Option<NewerState>,
    /// Mode beside: files too large for the code, which parity alone does not bring back if they
    /// are lost as a whole; the first 100.
    pub exposed: Vec<String>,
    /// The number of all such files.
    pub exposed_count: u64,
    /// Tolerance of disk failures, by the present places of shards and sources.
    pub survival: Survival,
    /// The share of the set that was read, if not all stripes were.
    pub share: Option<ShareReport>,
}

/// Progress of a verification by shares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareReport {
    /// Stripes read.
    pub stripes: u64,
    /// Stripes that were never read and found good.
    pub never: u64,
    /// The time at which the least recently read stripe was read, in seconds since 1970.
    pub oldest: Option<u64>,
}

/// Result of `pin`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinReport {
    /// Path of the pin.
    pub path: String,
    /// The generation that is pinned.
    pub generation: u64,
    /// Blocks, each with a digest.
    pub blocks: u64,
    /// Bytes of the pin.
    pub bytes: u64,
}

/// Result of `heal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealReport {
    /// Findings of the scan before the work.
    pub found: VerifyReport,
    /// Shards that had the name of another column and got their own back.
    pub shards_renamed: Vec<Renamed>,
    /// Files that were moved aside from the place of a shard: shards of other sets, and copies of
    /// other shards.
    pub moved_aside: Vec<Renamed>,
    /// Shards that were rebuilt or repaired, by path.
    pub shards_written: Vec<String>,
    /// Original files that were repaired, by path.
    pub files_healed: Vec<String>,
    /// Blocks that were repaired.
    pub blocks_repaired: u64,
    /// Stripes that were repaired by a requested guess.
    pub stripes_guessed: u64,
    /// Files left alone because they have changed, by path.
    pub left_changed: Vec<String>,
    /// Copies of the earlier contents of healed files that were touched since they were sealed,
    /// each stored beside its file as `FILE.before-heal`.
    pub kept_aside: Vec<String>,
    /// Sparse files with the replaced blocks of such files, at their offsets, if only few blocks
    /// differed; each is stored beside its file as `FILE.replaced-blocks`.
    pub kept_blocks: Vec<String>,
    /// Blocks that are wrong but could not be repaired.
    pub blocks_left: u64,
    /// Shards and files whose repair was prevented, and the reason.
    pub not_healed: Vec<NotDone>,
    /// Files that may be wrong: without checksums or a spare equation they were computed from files
    /// that were touched after the seal.
    pub doubtful: Vec<NotDone>,
    /// Temporary files of killed commands that were removed, by path.
    pub strays_removed: Vec<String>,
    /// Attributes and ACLs that could not be given to healed files.
    pub not_kept: Vec<NotDone>,
}

/// A path that `seal` could not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftUnread {
    /// Its path.
    pub path: String,
    /// The error of the system.
    pub reason: String,
    /// The pattern that leaves it out.
    pub exclude: String,
}

/// Result of `unseal`.
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
    /// Further names given to files.
    pub hard_links: u64,
    /// Files and links that were there already with the same content.
    pub already_there: u64,
    /// Blocks that were computed from others.
    pub blocks_reconstructed: u64,
    /// True if the set has no checksums, so that no single block can be checked.
    pub unchecked: bool,
    /// Without checksums: true if no spare equation is left, so that silent damage is not noticed.
    pub blind: bool,
    /// Attributes and ACLs that could not be given to restored files.
    pub not_kept: Vec<NotDone>,
    /// Everything that could not be restored, in full, as a list for a search elsewhere.
    pub not_restored: Vec<NotDone>,
    /// Their number.
    pub not_restored_count: u64,
}

/// A path that could not be restored or healed, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotDone {
    /// The path.
    pub path: String,
    /// The reason.
    pub reason: String,
}
