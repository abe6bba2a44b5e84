//! Tables of fields: the only definition of each offset.

/// One field of a fixed-size structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in the documentation.
    pub name: &'static str,
    /// Its first byte.
    pub offset: u32,
    /// Its length in bytes.
    pub len: u32,
    /// Meaning of the bytes.
    pub meaning: &'static str,
}

impl Field {
    fn range(self) -> std::ops::Range<usize> {
        self.offset as usize..(self.offset + self.len) as usize
    }

    pub(crate) fn put(self, bytes: &mut [u8], value: &[u8]) {
        bytes[self.range()].copy_from_slice(value);
    }

    pub(crate) fn put_u32(self, bytes: &mut [u8], value: u32) {
        self.put(bytes, &value.to_le_bytes());
    }

    pub(crate) fn put_u64(self, bytes: &mut [u8], value: u64) {
        self.put(bytes, &value.to_le_bytes());
    }

    pub(crate) fn get<const N: usize>(self, bytes: &[u8]) -> [u8; N] {
        let mut value = [0; N];
        value.copy_from_slice(&bytes[self.range()]);
        value
    }

    pub(crate) fn u32(self, bytes: &[u8]) -> u32 {
        u32::from_le_bytes(self.get(bytes))
    }

    pub(crate) fn u64(self, bytes: &[u8]) -> u64 {
        u64::from_le_bytes(self.get(bytes))
    }
}

/// Declares the fields of a structure as constants and as one table, in ascending order.
macro_rules! layout {
    ($(#[$doc:meta])* $table:ident { $($name:ident: $text:literal @ $offset:literal + $len:literal, $meaning:literal;)* }) => {
        $(const $name: $crate::layout::Field = $crate::layout::Field {
            name: $text, offset: $offset, len: $len, meaning: $meaning,
        };)*
        $(#[$doc])*
        pub const $table: &[$crate::layout::Field] = &[$($name),*];
    };
}
pub(crate) use layout;

#[cfg(test)]
mod tests {
    use crate::*;

    #[test]
    fn the_fields_of_every_layout_touch_and_never_overlap() {
        for (table, len) in [
            (HEADER_LAYOUT, HEADER_BYTES),
            (MANIFEST_LAYOUT, 160),
            (SOURCE_LAYOUT, 16),
            (ENTRY_LAYOUT, 48),
            (EXTENT_LAYOUT, 24),
            (JOURNAL_LAYOUT, JOURNAL_HEADER_BYTES),
            (RECORD_LAYOUT, RECORD_BYTES),
            (TARGET_LAYOUT, TARGET_BYTES),
            (FIELD_LAYOUT, FIELD_BYTES),
            (FEATURES_LAYOUT, 24),
            (PIN_LAYOUT, PIN_HEADER_BYTES),
        ] {
            let mut at = 0;
            for field in table {
                assert_eq!(field.offset, at, "{}", field.name);
                at += field.len;
            }
            assert_eq!(u64::from(at), len);
        }
    }
}
