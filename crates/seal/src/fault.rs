//! The one error type of commands.
//!
//! The function that refuses writes the sentence and the hint, beside the rule that it applies. A
//! hint names an option or command, which belongs to the code that implements it. This module has
//! the type and the faults that several rooms share.

pub(crate) mod sentences;

pub use sentences::ranges;

use crate::options::DiskAt;
use crate::report::{HealReport, Losses, UnsealReport};
use pantile_format::FormatError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why a command failed. No fault loses earlier content.
///
/// Its text is one sentence: `what`, then `hint`.
#[derive(Debug)]
pub struct Fault {
    /// The kind, by which a caller decides how to continue.
    pub kind: FaultKind,
    /// The fact, and the limit that it exceeds.
    pub what: String,
    /// The file, directory or device concerned, if any.
    pub path: Option<PathBuf>,
    /// The remedy; empty if there is none.
    pub hint: String,
}

/// Kinds of faults, by the next step that the caller can take.
#[derive(Debug)]
pub enum FaultKind {
    /// The request cannot be carried out as it is, but another one can.
    Request,
    /// There is no shard at these paths.
    NoShards(Vec<PathBuf>),
    /// A source is missing. Most likely it is not mounted, so its files must not be forgotten.
    NoSource,
    /// A path does not exist.
    NotThere,
    /// A file is where a directory is needed.
    NoDirectory,
    /// Originals would be read or repaired at places that are known only from the set.
    PlacesUnknown(Vec<DiskAt>),
    /// The file system is full, or would be.
    Full,
    /// Another command works in the directory.
    Busy,
    /// A file changed, or went away, while it was being read.
    Changed,
    /// The system refused something.
    System,
    /// The caller cancelled the command.
    Cancelled,
    /// A structure on disk cannot be read, or shards are not where they belong.
    Damaged,
    /// The set must be healed before it is changed.
    NeedsHeal,
    /// A change of the set, or a repair, was decided and is not finished.
    Pending,
    /// A journal cannot be read.
    BadJournal,
    /// Files are damaged or changed, and it is unknown which.
    Suspect,
    /// Content cannot be recovered with certainty.
    Lost,
    /// The loss exceeds the tolerance of the code.
    TooMuchLost {
        /// Everything that is lost, and the remedy.
        losses: Box<Losses>,
        /// The report of the repairs that were made all the same.
        healed: Option<Box<HealReport>>,
    },
    /// Some repairs were prevented.
    NotHealed(Box<HealReport>),
    /// Files were healed from other files that may be wrong, since no check is possible.
    HealedInDoubt(Box<HealReport>),
    /// Some paths were not restored.
    NotRestored {
        /// The worst reason.
        why: Box<Fault>,
        /// The report of the restored files and of the others.
        report: Box<UnsealReport>,
    },
    /// The new state is decided, but not all shards have it yet; the reason.
    Unfinished(Box<Fault>),
}

impl Fault {
    pub(crate) fn new(kind: FaultKind, what: impl Into<String>) -> Fault {
        Fault { kind, what: what.into(), path: None, hint: String::new() }
    }

    pub(crate) fn request(what: impl Into<String>) -> Fault {
        Fault::new(FaultKind::Request, what)
    }

    pub(crate) fn at(self, path: impl Into<PathBuf>) -> Fault {
        Fault { path: Some(path.into()), ..self }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Fault {
        Fault { hint: hint.into(), ..self }
    }

    /// As [`Fault::io`], for a file that is being sealed: if it is missing, it has changed.
    pub(crate) fn source(doing: &str, path: &Path, error: io::Error) -> Fault {
        match error.kind() {
            io::ErrorKind::NotFound => Fault::changed(path),
            _ => Fault::io(doing, path, error),
        }
    }

    /// Returns a fault of the system with the kind that fits its remedy.
    pub(crate) fn io(doing: &str, path: &Path, error: io::Error) -> Fault {
        let shown = path.display();
        let failed = || format!("{doing} {shown} failed: {error}");
        let fault = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Fault::new(FaultKind::Full, format!("the file system of {shown} is full"))
                    .hint("free some space and run the command again. What was sealed before is as it was")
            }
            io::ErrorKind::FileTooLarge => match crate::system::file_bytes_most() {
                Some(most) => Fault::request(format!(
                    "{shown} would be longer than {most} bytes, the most that this process may write to a file"
                ))
                .hint("raise that (ulimit -f) and run the command again. What was sealed before is as it was"),
                None => Fault::request(format!("{shown} would be longer than its file system lets a file be"))
                    .hint(
                        "choose a directory on another, or seal by a code of more columns. What was sealed before is as it was",
                    ),
            },
            io::ErrorKind::NotFound if doing == "opening" => {
                Fault::new(FaultKind::NotThere, format!("{shown} does not exist"))
            }
            io::ErrorKind::NotFound => Fault::new(FaultKind::NotThere, failed()),
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                Fault::new(FaultKind::NoDirectory, failed())
            }
            _ => Fault::new(FaultKind::System, failed()),
        };
        fault.at(path)
    }

    pub(crate) fn cancelled() -> Fault {
        Fault::new(FaultKind::Cancelled, "ended on request").hint("what was sealed before is as it was")
    }

    pub(crate) fn busy(dir: &Path) -> Fault {
        Fault::new(FaultKind::Busy, format!("another command works in {}", dir.display()))
            .at(dir)
            .hint("wait until it has ended")
    }

    pub(crate) fn changed(path: &Path) -> Fault {
        let what = format!("{} changed or went away while it was being read", path.display());
        Fault::new(FaultKind::Changed, what)
            .at(path)
            .hint("run the command again. What was sealed before is as it was")
    }

    /// Reports a structure that cannot be parsed.
    pub(crate) fn format(path: &Path, error: FormatError) -> Fault {
        Fault::new(FaultKind::Damaged, format!("{}: {error}", path.display())).at(path)
    }

    /// A change of the set that was cut off after it was decided.
    pub(crate) fn pending(journal: &Path) -> Fault {
        let what = format!(
            "a change of the set was cut off after it was decided, and {} says how it goes on; nothing was judged, for \
             the shards may be of two states",
            journal.display()
        );
        Fault::new(FaultKind::Pending, what).at(journal).hint("heal finishes it, and so do seal and unseal")
    }

    /// Reports a decided change that another fault left unfinished.
    pub(crate) fn unfinished(journal: &Path, why: Fault) -> Fault {
        let what = format!("the new state is decided but not all of it is in the shards yet: {}", why.what);
        let when = if matches!(why.kind, FaultKind::Cancelled) { "any" } else { "when that is mended, any" };
        let hint = format!("{when} command on the set finishes it first, as {} says", journal.display());
        Fault::new(FaultKind::Unfinished(Box::new(why)), what).at(journal).hint(hint)
    }

    /// Reports columns whose shards cannot be used, or else damaged blocks, in a set that is to be
    /// changed; `heal` is the command that repairs it.
    pub(crate) fn needs_heal(columns: &[usize], blocks: u64, heal: &str) -> Fault {
        let found = match columns.is_empty() {
            true => format!("{blocks} of its blocks are damaged"),
            false => format!("the shards of columns {} cannot be used", sentences::columns(columns)),
        };
        let what = format!("the set must be whole before it is brought up to date, but {found}");
        Fault::new(FaultKind::NeedsHeal, what).hint(format!("run '{heal}' first"))
    }

    pub(crate) fn too_much_lost(losses: Losses, healed: Option<HealReport>) -> Fault {
        let mut what = losses.to_string();
        if let Some(healed) = healed.as_ref().filter(|healed| healed.blocks_repaired > 0) {
            let blocks = sentences::counted(healed.blocks_repaired, "block", "blocks");
            what += &format!(". What could be repaired was: {blocks}");
        }
        let (losses, healed) = (Box::new(losses), healed.map(Box::new));
        Fault::new(FaultKind::TooMuchLost { losses, healed }, what)
    }

    pub(crate) fn no_sources() -> Fault {
        Fault::request("nothing to seal was named").hint("name a directory or files; if the shards of a set were here, name another directory of its shards")
    }

    /// Reports a source that is missing, or is neither a file nor a directory.
    pub(crate) fn no_source(path: &Path) -> Fault {
        let what = format!("{} is not there, or is neither a file nor a directory", path.display());
        Fault::new(FaultKind::NoSource, what).at(path).hint("is it mounted? Name what is there")
    }

    pub(crate) fn block_len(given: u64) -> Fault {
        Fault::request(format!("a block of {given} bytes is not possible"))
            .hint("choose a power of two from 4096 to 1048576")
    }

    /// Reports a name of a disk that the set does not have.
    pub(crate) fn unknown_disk(name: &[u8], known: &[String]) -> Fault {
        let name = crate::set::names::shown(name);
        Fault::request(format!("the set has no disk called {name}"))
            .hint(format!("it has {}", known.join(", ")))
    }

    /// Reports originals that would be read or written at places that are known only from the set.
    pub(crate) fn places_unknown(disks: Vec<DiskAt>) -> Fault {
        let at: Vec<PathBuf> = disks.iter().map(|at| at.path.clone()).collect();
        let what = format!(
            "the set says that its originals are {}, but you have no record of sealing it on this machine; nothing was \
             written",
            sentences::paths(&at)
        );
        Fault::new(FaultKind::PlacesUnknown(disks), what).hint("say where each disk is with --disk NAME=PATH")
    }

    pub(crate) fn no_shards(named: &[PathBuf]) -> Fault {
        let what = format!("there is no shard in {}", sentences::paths(named));
        Fault::new(FaultKind::NoShards(named.to_vec()), what).hint(
            "name the directory of the shards, or the shards; if their disk was replaced, name another one's directory, or \
             seal again as the first time if it had all of them",
        )
    }

    /// Reports a file at a restored path. The hint suggests overwriting, unless that was already
    /// requested or the file is of another kind.
    pub(crate) fn in_the_way(path: &Path, asked: bool) -> Fault {
        let (differs, hint) = match asked {
            false => {
                ("and differs from what was sealed", "move it, choose another target, or say --overwrite")
            }
            true => (
                "and is of another kind than what was sealed, so it is not overwritten",
                "move it away, or choose another target",
            ),
        };
        Fault::request(format!("{} is in the way {differs}", path.display())).at(path).hint(hint)
    }

    /// True for a fault that affects every other part of the command as well.
    pub(crate) fn ends_all(&self) -> bool {
        matches!(self.kind, FaultKind::Cancelled | FaultKind::Full)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.what)?;
        match self.hint.is_empty() {
            true => Ok(()),
            false => write!(out, "; {}", self.hint),
        }
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            FaultKind::Unfinished(why) | FaultKind::NotRestored { why, .. } => Some(&**why),
            _ => None,
        }
    }
}
