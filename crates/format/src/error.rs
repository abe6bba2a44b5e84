//! Faults of stored bytes.

use std::fmt;

/// The structure that was being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The header of a shard.
    Header,
    /// The manifest that every shard carries.
    Manifest,
    /// The journal of a change that is under way.
    Journal,
    /// A pin: digests of a set that an operator keeps elsewhere.
    Pin,
    /// A superblock of a volume.
    Superblock,
    /// The header of a chunk of a volume.
    ChunkHeader,
    /// A record in the journal of a volume.
    Record,
    /// A snapshot of the maps of a volume.
    Snapshot,
    /// The data zone of a volume's device.
    DataZone,
    /// Events and known faults of a volume.
    State,
    /// Claim of the server of a volume.
    Claim,
}

impl fmt::Display for Part {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Part::Header => "shard header",
            Part::Manifest => "manifest",
            Part::Journal => "journal",
            Part::Pin => "pin",
            Part::Superblock => "superblock",
            Part::ChunkHeader => "chunk header",
            Part::Record => "journal record",
            Part::Snapshot => "map snapshot",
            Part::DataZone => "data zone",
            Part::State => "state",
            Part::Claim => "claim",
        })
    }
}

/// A fault of stored bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// The magic is missing: the bytes are not this structure.
    NotPantile {
        /// Structure that was expected.
        part: Part,
    },
    /// The structure was written by a newer program.
    Newer {
        /// Structure that was read.
        part: Part,
        /// Its version.
        version: u32,
        /// The newest version that this program reads.
        known: u32,
    },
    /// The structure uses a feature that a reader must know, and this program does not.
    Features {
        /// Structure that was read.
        part: Part,
        /// The bits that this program does not know.
        unknown: u64,
    },
    /// The set or volume uses a feature that a writer must know, and this program does not.
    ReadOnlyFeatures {
        /// The bits that this program does not know.
        bits: u64,
    },
    /// The bytes end too early.
    Truncated {
        /// Structure that was read.
        part: Part,
        /// Length of the bytes.
        have: u64,
        /// Least length of the structure.
        need: u64,
    },
    /// The checksum does not match the bytes.
    Checksum {
        /// Structure that was read.
        part: Part,
    },
    /// The structure is longer than the limit of one read.
    TooLong {
        /// Structure to be read.
        part: Part,
        /// Its length, as its header says.
        len_bytes: u64,
        /// The limit of one read.
        most_bytes: u64,
        /// The number of steps to give to `--effort` so that it is read.
        suffices_steps: u64,
    },
    /// Part of the structure is in a hole of its file, so its bytes were never stored.
    NotStored {
        /// Structure to be read.
        part: Part,
        /// Its length, as its header says.
        len_bytes: u64,
    },
    /// The checksum matches, but a field breaks a rule of the format.
    Invalid {
        /// Structure that was read.
        part: Part,
        /// The field.
        field: &'static str,
        /// Rule that it breaks.
        rule: &'static str,
    },
}

impl fmt::Display for FormatError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FormatError::NotPantile { part } => write!(out, "there is no {part} of Pantile in it"),
            FormatError::Newer { part, version, known } => write!(
                out,
                "its {part} has format version {version}, this program reads up to version {known}; use a newer pantile"
            ),
            FormatError::Features { part, unknown } => write!(
                out,
                "its {part} has features that this program does not know (bits {unknown:#x}); use a newer pantile"
            ),
            FormatError::ReadOnlyFeatures { bits } => write!(
                out,
                "the set uses features that this program can read but not write (bits {bits:#x}); verify and unseal it, or use a \
                 newer pantile"
            ),
            FormatError::Truncated { part, have, need } => {
                write!(out, "its {part} is cut off: {have} bytes are there, {need} are needed")
            }
            FormatError::Checksum { part } => write!(out, "the checksum of its {part} does not fit"),
            FormatError::TooLong { part, len_bytes, most_bytes, suffices_steps } => write!(
                out,
                "its {part} has {len_bytes} bytes, more than the {most_bytes} that are read of untrusted data; \
                 if you trust it, --effort {suffices_steps} reads it"
            ),
            FormatError::NotStored { part, len_bytes } => write!(
                out,
                "its {part} of {len_bytes} bytes lies in part where the file has a hole, and no {part} that was \
                 written does"
            ),
            FormatError::Invalid { part, field, rule } => {
                write!(out, "its {part} is not valid: {field} {rule}")
            }
        }
    }
}

impl std::error::Error for FormatError {}
