//! Protects real files with shards: seal, verify, heal, unseal.
//!
//! A *set* is one sealed collection of files. [`seal`] writes one shard per column of a code; a shard describes
//! itself and the whole set. In mode *full* the shards hold the data too, and [`unseal`] restores the tree from any
//! sufficient part of them; in mode *beside* they hold parity only, and the original files are the data. [`verify`]
//! finds what is missing or silently wrong, [`heal`] repairs it, and [`seal`] run again writes only what changed.
//!
//! What always holds, killed at any moment: the state before or the state after is there in full; a file that was
//! changed since sealing is never repaired back; nothing damaged is blessed with new parity.
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
//! The format is `docs/shard-format.md`; this crate reads and writes it through [`disk::Disk`] alone.
#![forbid(unsafe_code)]

pub mod disk;
mod error;
mod options;
mod report;

pub use error::SealError;
pub use options::{
    HealOptions, Mode, Progress, SealOptions, SetPaths, Silent, UnsealOptions, VerifyOptions, World,
};
pub use report::{
    BlockPlace, FileReport, FileStatus, HealReport, Losses, SealReport, SetInfo, ShardReport, ShardStatus,
    StripeFinding, StripeVerdict, UnsealReport, VerifyReport,
};

/// Seals the sources, or brings an existing set up to date with them.
///
/// Errors: see [`SealError`]; what was sealed before is then as it was.
pub fn seal(options: &SealOptions, progress: &mut dyn Progress) -> Result<SealReport, SealError> {
    let _ = (options, progress);
    todo!()
}

/// Reads everything and says what is missing, wrong or changed.
pub fn verify(options: &VerifyOptions, progress: &mut dyn Progress) -> Result<VerifyReport, SealError> {
    let _ = (options, progress);
    todo!()
}

/// Repairs what [`verify`] finds, as far as the code can.
///
/// Errors: [`SealError::TooMuchLost`] if something remains; whatever could be repaired was.
pub fn heal(options: &HealOptions, progress: &mut dyn Progress) -> Result<HealReport, SealError> {
    let _ = (options, progress);
    todo!()
}

/// Restores the sealed tree to a directory, from any sufficient part of the shards.
pub fn unseal(options: &UnsealOptions, progress: &mut dyn Progress) -> Result<UnsealReport, SealError> {
    let _ = (options, progress);
    todo!()
}

/// Says which set lies there and which of its shards are present; reads headers and one manifest only.
pub fn open_set(set: &SetPaths) -> Result<SetInfo, SealError> {
    let _ = set;
    todo!()
}
