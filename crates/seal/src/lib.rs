//! Protects real files with shards: seal, verify, heal, unseal.
//!
//! A *set* is one sealed collection of files. [`seal`] writes one shard per column of a code; a
//! shard describes itself and the whole set. In mode *full* the shards hold the data too, and
//! [`unseal`] restores the tree from any sufficient part of them; in mode *beside* they hold parity
//! only, and the original files are the data. [`verify`] finds missing and silently wrong blocks,
//! [`heal`] repairs them, and [`seal`] run again writes only changes.
//!
//! Invariants, after a kill at any moment: the set has either the whole state before or the whole
//! state after, or if there was no room for that, each file as before or as after; a file that was
//! changed since sealing is never repaired back; no damaged block gets new parity.
//!
//! ```no_run
//! use pantile_seal::*;
//! let mut options = SealOptions::new(vec!["photos".into()], "shards".into());
//! options.code = Some(pantile::Code::parse("rs:10+4")?);
//! seal(&options, &mut Silent)?;
//! let options = VerifyOptions { set: SetPaths::dir("shards"), ..Default::default() };
//! assert!(verify(&options, &mut Silent)?.clean);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Two rooms: `apply` writes, behind a journal and in batches; `set` finds the state of a set, once
//! `apply` has finished its journals. The commands (`seal` with `first` and `update`, `heal`,
//! `unseal`) use both.
//!
//! The format is `docs/shard-format.md`; this crate reads and writes it through [`disk::Disk`]
//! alone.
#![forbid(unsafe_code)]

mod apply;
mod arrange;
mod attributes;
pub mod disk;
mod fault;
mod first;
mod heal;
mod links;
mod naming;
mod options;
mod par;
mod pin;
mod records;
mod report;
mod seal;
mod set;
mod spread;
mod system;
mod unseal;
mod update;

pub use fault::{Fault, FaultKind, ranges};
pub use pantile_format::LeftOut;

pub use options::{
    DiskAt, FilesMax, HealOptions, Mode, Progress, SealOptions, SetPaths, Share, Silent, System,
    UnsealOptions, VerifyOptions, World,
};
pub use report::{
    BlockPlace, Change, DiskContent, DiskLoss, FileReport, FileStatus, HealReport, LeftUnread, ListedPath,
    Listing, Losses, NewerState, NotDone, PathChange, PinReport, Renamed, SealReport, SetInfo, ShardReport,
    ShardStatus, ShareReport, StripeFinding, StripeVerdict, Superfluous, Survival, Unfinished, UnsealReport,
    VerifyReport,
};

/// Returns a path as the text that reports show. A byte that is not UTF-8 is written `\xHH`, and so
/// is a backslash that could be mistaken for the start of such an escape.
pub fn path_text(path: impl AsRef<std::path::Path>) -> String {
    set::names::shown_path(&path)
}

pub use set::select::Select;
use set::{Opening, Pending, Set};
use std::path::Path;

/// Seals the sources, or brings an existing set up to date with them.
///
/// Errors: see [`Fault`]; the earlier state is unchanged.
pub fn seal(options: &SealOptions, progress: &mut dyn Progress) -> Result<SealReport, Fault> {
    System::new().world().seal(options, progress)
}

/// Reads everything and reports missing, wrong and changed files and blocks.
pub fn verify(options: &VerifyOptions, progress: &mut dyn Progress) -> Result<VerifyReport, Fault> {
    System::new().world().verify(options, progress)
}

/// Repairs the findings of [`verify`], as far as the code can.
///
/// Errors: [`FaultKind::TooMuchLost`] if some remain; all others are repaired.
pub fn heal(options: &HealOptions, progress: &mut dyn Progress) -> Result<HealReport, Fault> {
    System::new().world().heal(options, progress)
}

/// Restores the sealed tree to a directory, from any sufficient part of the shards.
pub fn unseal(options: &UnsealOptions, progress: &mut dyn Progress) -> Result<UnsealReport, Fault> {
    System::new().world().unseal(options, progress)
}

/// Writes a pin of a set: digests of its present content, to be kept out of reach of its writers.
///
/// [`SetPaths::pin`] compares a set with it. Errors: [`FaultKind::NeedsHeal`] if a block is
/// damaged. Cost: every block is read; 32 bytes of pin for each.
pub fn pin(set: &SetPaths, file: &Path, progress: &mut dyn Progress) -> Result<PinReport, Fault> {
    System::new().world().pin(set, file, progress)
}

/// Writes a pin of the state that was just sealed, and of no later one.
///
/// Errors: as [`pin`], and [`FaultKind::Changed`] if the set has another state now.
pub fn pin_sealed(
    set: &SetPaths,
    sealed: &SealReport,
    file: &Path,
    progress: &mut dyn Progress,
) -> Result<PinReport, Fault> {
    System::new().world().pin_state(set, Some(&*sealed.manifest), file, progress)
}

/// Identifies a set and its present shards; reads headers and manifests only.
pub fn open_set(set: &SetPaths) -> Result<SetInfo, Fault> {
    System::new().world().open_set(set)
}

/// Lists the sealed paths; reads headers and manifests only.
pub fn list(set: &SetPaths, select: &Select) -> Result<Listing, Fault> {
    System::new().world().list(set, select)
}

/// Checks the patterns of the paths that a set leaves out.
///
/// Errors: the first pattern that cannot be parsed, or too many patterns.
pub fn check_left_out(left_out: &LeftOut) -> Result<(), Fault> {
    set::select::Patterns::of(left_out).map(drop)
}

impl World<'_> {
    /// [`seal`] in this world.
    pub fn seal(&self, options: &SealOptions, progress: &mut dyn Progress) -> Result<SealReport, Fault> {
        seal::seal(*self, options, progress)
    }

    /// [`verify`] in this world.
    pub fn verify(
        &self,
        options: &VerifyOptions,
        progress: &mut dyn Progress,
    ) -> Result<VerifyReport, Fault> {
        let ignore_checksums = options.ignore_checksums;
        let opening = Opening { ignore_checksums, ..Opening::to_read(&options.set, Pending::Refused) };
        let mut set = Set::open(*self, &opening, progress)?;
        set.refuse_if_closed()?;
        set.refuse_exchanged(&set.sources, |disks| set.command("heal") + disks)?;
        let Some(share) = options.share else {
            let found = set::verify::scan(&mut set, progress).map(|(report, _)| report);
            return set.refuse_if_changed().and(found);
        };
        let picked = set::share::pick(&set, share)?;
        let part = set::verify::Scope::Stripes(&picked.stripes);
        let found = set::verify::scan_part(&mut set, part, progress);
        set.refuse_if_changed()?;
        let (mut report, damage) = found?;
        report.share = Some(picked.keep(&set, damage.damaged())?);
        Ok(report)
    }

    /// [`heal`] in this world.
    pub fn heal(&self, options: &HealOptions, progress: &mut dyn Progress) -> Result<HealReport, Fault> {
        let ignore_checksums = options.ignore_checksums;
        let opening = Opening { ignore_checksums, ..Opening::to_write(&options.set) };
        let mut set = Set::open(*self, &opening, progress)?;
        set.guess = options.guess;
        set.refuse_if_closed()?;
        set.refuse_exchanged(&set.sources, |disks| set.command("heal") + disks)?;
        let done = heal::heal(&mut set, options, progress)?;
        set.record_disks(options.set.records.as_deref());
        Ok(done)
    }

    /// [`unseal`] in this world.
    pub fn unseal(
        &self,
        options: &UnsealOptions,
        progress: &mut dyn Progress,
    ) -> Result<UnsealReport, Fault> {
        let mut set = Set::open(*self, &Opening::to_read(&options.set, Pending::Done), progress)?;
        set.refuse_unnamed_sources()?;
        set::renamed::find_renamed(&mut set, progress)?;
        let done = unseal::unseal(&set, options, progress);
        // Blocks that match their checksums are sealed content even if another command changed the
        // set in between; any other result is refused then.
        if done.is_err() || !set.judge {
            set.refuse_if_changed()?;
        }
        done
    }

    /// [`pin`] in this world.
    pub fn pin(
        &self,
        paths: &SetPaths,
        file: &Path,
        progress: &mut dyn Progress,
    ) -> Result<PinReport, Fault> {
        self.pin_state(paths, None, file, progress)
    }

    fn pin_state(
        &self,
        paths: &SetPaths,
        manifest: Option<&str>,
        file: &Path,
        progress: &mut dyn Progress,
    ) -> Result<PinReport, Fault> {
        let set = Set::open(*self, &Opening::to_read(paths, Pending::Refused), progress)?;
        if manifest.is_some_and(|sealed| *sealed != pin::told(&set.manifest)) {
            return Err(Fault::changed(&set.names.dir));
        }
        let done = pin::pin(&set, file, progress);
        set.refuse_if_changed().and(done)
    }

    /// [`list`] in this world.
    pub fn list(&self, paths: &SetPaths, select: &Select) -> Result<Listing, Fault> {
        Set::open(*self, &Opening::to_read(paths, Pending::Told), &Silent)?.list(select)
    }

    /// [`open_set`] in this world.
    pub fn open_set(&self, paths: &SetPaths) -> Result<SetInfo, Fault> {
        Set::open(*self, &Opening::to_read(paths, Pending::Told), &Silent).map(|set| set.info())
    }
}
