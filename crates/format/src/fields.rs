//! Fields: optional metadata behind the fixed part of a set, a source or an entry, each with a tag
//! and a length.
//!
//! A reader skips a field whose tag it does not know. The feature bits, not the field, say whether
//! it may. This program keeps unknown fields in memory, so that a set that is only read and copied
//! retains them.

use crate::layout::layout;
use crate::{FormatError, Part};

layout! {
    /// The head of a field; its bytes follow.
    FIELD_LAYOUT {
        TAG: "tag" @ 0 + 4, "what it is";
        LEN: "length" @ 4 + 4, "bytes that follow";
    }
}

/// The length of the head of a field.
pub const FIELD_BYTES: u64 = 8;

/// Tag of a source's field: the columns that hold this source and no other, 4 bytes each.
pub const SOURCE_COLUMNS: u32 = 1;

/// Tag of an entry's field: an extended attribute. The field has the length of the name in 4 bytes,
/// the name and the value.
pub const ENTRY_XATTR: u32 = 1;

/// Tag of an entry's field: its user and group; valid with [`OWNERS`](crate::Features::OWNERS).
pub const ENTRY_OWNER: u32 = 2;

/// Tag of an entry's field: the file changed while it was read.
pub const ENTRY_UNSETTLED: u32 = 5;

/// Tag of a set's field: a pattern of excluded paths; valid with
/// [`LEFT_OUT`](crate::Features::LEFT_OUT).
pub const SET_PATTERN: u32 = 2;

/// Tag of a set's field: other file systems mounted below its sources are excluded; valid with
/// [`LEFT_OUT`](crate::Features::LEFT_OUT), too.
pub const SET_ONE_FILE_SYSTEM: u32 = 3;

/// Meanings of the tags, as the page lists them: owner, tag, name, meaning.
pub const FIELD_TAGS: &[(&str, u32, &str, &str)] = &[
    (
        "source",
        SOURCE_COLUMNS,
        "columns",
        "the data columns that hold this source and no other, 4 bytes each",
    ),
    (
        "source",
        2,
        "resolution",
        "not written yet: nanoseconds by which its file system counts times, 8 bytes",
    ),
    (
        "entry",
        ENTRY_XATTR,
        "extended attribute",
        "the length of the name (4 bytes), the name, the value; ACLs are such",
    ),
    ("entry", ENTRY_OWNER, "owner", "user and group, 4 bytes each. With ignorable feature 2"),
    ("entry", 4, "holes", "not written yet: pairs of first byte and length, 8 bytes each"),
    (
        "entry",
        ENTRY_UNSETTLED,
        "unsettled",
        "empty: the file changed while it was read, and its sealed time is 1 ns before the listed one",
    ),
    ("set", 1, "pins", "not written yet: a lock against changing and forgetting"),
    (
        "set",
        SET_PATTERN,
        "left out",
        "a pattern as in a `.gitignore`, UTF-8; one field for each, in their order. With ignorable feature 1",
    ),
    (
        "set",
        SET_ONE_FILE_SYSTEM,
        "one file system",
        "empty: other file systems below the sources are left out. With ignorable feature 1",
    ),
];

/// One field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TaggedField {
    /// Tag of the field.
    pub tag: u32,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Returns the tag and the bytes of the first field, and what follows; `None` if there is no whole
/// one.
fn first_of(bytes: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let (head, rest) = bytes.split_at_checked(FIELD_BYTES as usize)?;
    let (value, behind) = rest.split_at_checked(LEN.u32(head) as usize)?;
    Some((TAG.u32(head), value, behind))
}

/// Fields of a set, a source or an entry, in the order in which they are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fields(pub Vec<TaggedField>);

impl Fields {
    /// Returns the length of the encoded fields in bytes.
    pub(crate) fn encoded_len(&self) -> usize {
        self.0.iter().map(|field| FIELD_BYTES as usize + field.bytes.len()).sum()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for field in &self.0 {
            let mut head = [0; FIELD_BYTES as usize];
            TAG.put_u32(&mut head, field.tag);
            LEN.put_u32(&mut head, u32::try_from(field.bytes.len()).expect("a field is below 4 GiB"));
            out.extend_from_slice(&head);
            out.extend_from_slice(&field.bytes);
        }
    }

    pub(crate) fn decode(mut bytes: &[u8]) -> Result<Fields, FormatError> {
        let invalid = FormatError::Invalid {
            part: Part::Manifest,
            field: "fields",
            rule: "must fill exactly the bytes that are said to hold them",
        };
        // Counted first: a list that grows takes three times the memory of an exact one.
        let (mut count, mut rest) = (0, bytes);
        while let Some((_, _, behind)) = first_of(rest) {
            (count, rest) = (count + 1, behind);
        }
        if !rest.is_empty() {
            return Err(invalid);
        }
        let mut fields = Vec::with_capacity(count);
        while let Some((tag, value, behind)) = first_of(bytes) {
            fields.push(TaggedField { tag, bytes: value.to_vec() });
            bytes = behind;
        }
        Ok(Fields(fields))
    }

    /// Adds a field.
    pub(crate) fn push(&mut self, tag: u32, bytes: &[u8]) {
        self.0.push(TaggedField { tag, bytes: bytes.to_vec() });
    }

    pub(crate) fn get(&self, tag: u32) -> impl Iterator<Item = &[u8]> {
        self.0.iter().filter(move |field| field.tag == tag).map(|field| field.bytes.as_slice())
    }

    /// Returns the columns that hold only this source; empty if the source shares all columns.
    pub fn columns(&self) -> Vec<u32> {
        let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("chunks of 4"));
        self.get(SOURCE_COLUMNS).flat_map(|bytes| bytes.chunks_exact(4).map(number)).collect()
    }

    /// Sets the columns of a source.
    pub fn set_columns(&mut self, columns: &[u32]) {
        self.0.retain(|field| field.tag != SOURCE_COLUMNS);
        if !columns.is_empty() {
            let bytes = columns.iter().flat_map(|column| column.to_le_bytes()).collect();
            self.0.push(TaggedField { tag: SOURCE_COLUMNS, bytes });
        }
    }

    /// Returns the extended attributes of an entry, name and value. A malformed field is skipped.
    pub fn xattrs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.get(ENTRY_XATTR).filter_map(|bytes| {
            let (len, rest) = bytes.split_at_checked(4)?;
            let len = u32::from_le_bytes(len.try_into().ok()?) as usize;
            let (name, value) = rest.split_at_checked(len)?;
            (!name.is_empty() && !name.contains(&0)).then_some((name, value))
        })
    }

    /// Returns the user and group of an entry, if the set stores them.
    pub(crate) fn owner(&self) -> Option<(u32, u32)> {
        let (user, group) = self.get(ENTRY_OWNER).next()?.split_at_checked(4)?;
        let number = |bytes: &[u8]| Some(u32::from_le_bytes(bytes.try_into().ok()?));
        Some((number(user)?, number(group)?))
    }

    /// Adds user and group of an entry.
    pub fn push_owner(&mut self, (user, group): (u32, u32)) {
        self.push(ENTRY_OWNER, &[user.to_le_bytes(), group.to_le_bytes()].concat());
    }

    /// True if the file of an entry changed while it was read.
    pub fn is_unsettled(&self) -> bool {
        self.get(ENTRY_UNSETTLED).next().is_some()
    }

    /// Notes that the file of an entry changed while it was read.
    pub fn set_unsettled(&mut self) {
        if !self.is_unsettled() {
            self.push(ENTRY_UNSETTLED, &[]);
        }
    }

    /// Adds an extended attribute of an entry.
    pub fn push_xattr(&mut self, name: &[u8], value: &[u8]) {
        let mut bytes = (name.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(value);
        self.0.push(TaggedField { tag: ENTRY_XATTR, bytes });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_are_read_back_and_unknown_ones_are_kept() {
        let mut fields = Fields::default();
        fields.push_xattr(b"user.note", b"kept");
        fields.push_xattr(b"user.empty", b"");
        fields.set_columns(&[7]);
        fields.push_owner((1500, 1600));
        assert_eq!(fields.owner(), Some((1500, 1600)));
        assert_eq!(Fields(vec![TaggedField { tag: ENTRY_OWNER, bytes: vec![1; 7] }]).owner(), None);
        assert!(!fields.is_unsettled());
        fields.set_unsettled();
        assert!(fields.is_unsettled());
        fields.0.push(TaggedField { tag: 900, bytes: vec![1, 2, 3] });
        let mut bytes = Vec::new();
        fields.encode(&mut bytes);
        assert_eq!(bytes.len(), fields.encoded_len());
        assert_eq!(Fields::decode(&bytes), Ok(fields.clone()));
        for len in 0..bytes.len() {
            if let Ok(shorter) = Fields::decode(&bytes[..len]) {
                assert!(shorter.0.len() < fields.0.len());
            }
        }
        // The same tag has different meanings in a source and in an entry.
        let mut source = Fields::default();
        source.set_columns(&[3, 9]);
        assert_eq!(source.columns(), [3, 9]);
        source.set_columns(&[]);
        assert_eq!(source, Fields::default());
    }

    #[test]
    fn a_list_of_fields_takes_no_memory_beyond_its_fields() {
        let bytes = [77, 0, 0, 0, 0, 0, 0, 0].repeat(1025);
        let fields = Fields::decode(&bytes).unwrap();
        assert_eq!((fields.0.len(), fields.0.capacity()), (1025, 1025));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(fields) = Fields::decode(&bytes) {
                let _ = (fields.columns(), fields.xattrs().count(), fields.owner());
            }
        }
    }
}
