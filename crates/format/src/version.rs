//! The versions of sealed sets, and their features: further demands of a set on its readers.
//!
//! Version 1 was written up to commit 7fa41de. Version 2 adds feature bits, fields, checks per
//! piece of the metadata and a third copy of the header at the end of a shard. One reader knows
//! both; a set keeps its version until its owner asks for the other.

use crate::layout::layout;
use crate::{FORMAT_VERSION, FormatError, Part};

/// A version of the format of sealed sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// Two copies of the header, one checksum for the whole manifest, no fields.
    V1,
    /// Version of new sets.
    #[default]
    V2,
}

impl Version {
    /// Its number.
    pub fn number(self) -> u32 {
        match self {
            Version::V1 => 1,
            Version::V2 => FORMAT_VERSION,
        }
    }

    /// The version of a number; `None` if this program does not know it.
    pub fn of_number(number: u32) -> Option<Version> {
        [Version::V1, Version::V2].into_iter().find(|version| version.number() == number)
    }

    /// Reads the number of a version. Errors: 0, or newer than this program.
    pub(crate) fn read(part: Part, number: u32) -> Result<Version, FormatError> {
        match Version::of_number(number) {
            Some(version) => Ok(version),
            None if number == 0 => {
                Err(FormatError::Invalid { part, field: "version", rule: "must be 1 or more" })
            }
            None => Err(FormatError::Newer { part, version: number, known: FORMAT_VERSION }),
        }
    }
}

layout! {
    /// The feature words of a header and a manifest of version 2.
    FEATURES_LAYOUT {
        IGNORABLE: "ignorable features" @ 0 + 8, "a reader may ignore a bit that it does not know; a writer clears it";
        READ_ONLY: "read-only features" @ 8 + 8, "a program that does not know one of these bits may read, and must not write";
        REQUIRED: "required features" @ 16 + 8, "a program that does not know one of these bits must refuse the set";
    }
}

/// The bytes of the feature words.
pub(crate) const FEATURES_BYTES: usize = 24;

/// Features of a set beyond those that every reader of version 2 knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Features {
    /// May be ignored.
    pub ignorable: u64,
    /// Bits that a program must know to write the set. It may read without knowing them.
    pub read_only: u64,
    /// Must be known.
    pub required: u64,
}

/// The bits that this program knows.
const KNOWN: Features =
    Features { ignorable: Features::LEFT_OUT | Features::OWNERS, read_only: 0, required: 0 };

impl Features {
    /// Ignorable: the set has exclusions, in its fields 2 and 3.
    pub const LEFT_OUT: u64 = 1;
    /// Among the ignorable: entries say their user and group, by their field 2.
    pub const OWNERS: u64 = 2;

    pub(crate) fn put(self, bytes: &mut [u8]) {
        IGNORABLE.put_u64(bytes, self.ignorable);
        READ_ONLY.put_u64(bytes, self.read_only);
        REQUIRED.put_u64(bytes, self.required);
    }

    /// Errors: a bit that must be known and is not.
    pub(crate) fn read(part: Part, bytes: &[u8]) -> Result<Features, FormatError> {
        let (ignorable, read_only, required) =
            (IGNORABLE.u64(bytes), READ_ONLY.u64(bytes), REQUIRED.u64(bytes));
        match required & !KNOWN.required {
            0 => Ok(Features { ignorable, read_only, required }),
            unknown => Err(FormatError::Features { part, unknown }),
        }
    }

    /// Checks that this program may write the set. Errors: the set uses features that this program
    /// does not know and that a writer must know.
    pub fn check_writable(self) -> Result<(), FormatError> {
        match self.read_only & !KNOWN.read_only {
            0 => Ok(()),
            bits => Err(FormatError::ReadOnlyFeatures { bits }),
        }
    }

    /// Returns the features that stay true after this program writes the set.
    #[must_use]
    pub fn known(self) -> Features {
        Features {
            ignorable: self.ignorable & KNOWN.ignorable,
            read_only: self.read_only & KNOWN.read_only,
            required: self.required & KNOWN.required,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_features_are_ignored_read_only_or_refused_as_their_word_says() {
        let read = |features: Features| {
            let mut bytes = [0; FEATURES_BYTES];
            features.put(&mut bytes);
            Features::read(Part::Header, &bytes)
        };
        let may_ignore = Features { ignorable: 1 << 40, ..Features::default() };
        assert_eq!(read(may_ignore), Ok(may_ignore));
        assert_eq!(may_ignore.check_writable(), Ok(()));
        assert_eq!(may_ignore.known(), Features::default());
        let may_read = Features { read_only: 1 << 3, ..Features::default() };
        assert_eq!(read(may_read), Ok(may_read));
        assert_eq!(may_read.check_writable(), Err(FormatError::ReadOnlyFeatures { bits: 8 }));
        let must_know = Features { required: 1, ..Features::default() };
        assert_eq!(read(must_know), Err(FormatError::Features { part: Part::Header, unknown: 1 }));
    }

    #[test]
    fn versions_are_known_by_number() {
        for version in [Version::V1, Version::V2] {
            assert_eq!(Version::of_number(version.number()), Some(version));
        }
        assert!(matches!(Version::read(Part::Header, 0), Err(FormatError::Invalid { .. })));
        assert!(matches!(Version::read(Part::Header, 3), Err(FormatError::Newer { version: 3, .. })));
    }
}
