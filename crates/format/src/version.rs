//! The version of the format of sealed sets, and the feature bits of a set.

use crate::layout::layout;
use crate::{FormatError, Part};

/// The version of the format of sealed sets, in every structure. Version 1 was never released.
pub const FORMAT_VERSION: u32 = 2;

/// Refuses a structure of another version than this program's.
///
/// The version is checked before the checksum, which other versions may store elsewhere.
pub(crate) fn check_version(part: Part, number: u32) -> Result<(), FormatError> {
    match number {
        FORMAT_VERSION => Ok(()),
        0 | 1 => Err(FormatError::Invalid { part, field: "version", rule: "must be 2" }),
        _ => Err(FormatError::Newer { part, version: number, known: FORMAT_VERSION }),
    }
}

layout! {
    /// The feature words of a header and a manifest.
    FEATURES_LAYOUT {
        IGNORABLE: "ignorable features" @ 0 + 8, "a reader may ignore a bit that it does not know; a writer clears it";
        READ_ONLY: "read-only features" @ 8 + 8, "a program that does not know one of these bits may read, and must not write";
        REQUIRED: "required features" @ 16 + 8, "a program that does not know one of these bits must refuse the set";
    }
}

/// The bytes of the feature words.
pub(crate) const FEATURES_BYTES: usize = 24;

/// Feature bits: features that a set uses and that not every reader of its version knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Features {
    /// Bits that a program may ignore.
    pub ignorable: u64,
    /// Bits that a program must know to write the set. It may read without knowing them.
    pub read_only: u64,
    /// Bits that a program must know to read or write the set.
    pub required: u64,
}

/// The bits that this program knows.
const KNOWN: Features =
    Features { ignorable: Features::LEFT_OUT | Features::OWNERS, read_only: 0, required: 0 };

impl Features {
    /// Ignorable: the set has exclusions, in its fields 2 and 3.
    pub const LEFT_OUT: u64 = 1;
    /// Ignorable: entries state their user and group, in their field 2.
    pub const OWNERS: u64 = 2;

    pub(crate) fn put(self, bytes: &mut [u8]) {
        IGNORABLE.put_u64(bytes, self.ignorable);
        READ_ONLY.put_u64(bytes, self.read_only);
        REQUIRED.put_u64(bytes, self.required);
    }

    /// Decodes the feature words. Errors: an unknown bit that a reader must know.
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
    fn another_version_is_refused() {
        assert_eq!(check_version(Part::Header, FORMAT_VERSION), Ok(()));
        for number in [0, 1] {
            assert!(matches!(check_version(Part::Header, number), Err(FormatError::Invalid { .. })));
        }
        assert!(matches!(check_version(Part::Header, 3), Err(FormatError::Newer { version: 3, .. })));
    }
}
