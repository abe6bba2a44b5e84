//! The header that liberasurecode writes before each fragment, and so Swift before each part of a
//! fragment archive: 80 bytes, little-endian.
//!
//! | bytes | |
//! | --- | --- |
//! | 0..4 | the index of the fragment |
//! | 4..8 | bytes behind the header |
//! | 8..12 | bytes of the backend's own behind these: none |
//! | 12..20 | bytes of data in the segment |
//! | 20..54 | the kind of checksum of the fragment, 1 for none, and the checksum |
//! | 54, 55..59 | the backend, and its version |
//! | 59..63 | a mark |
//! | 63..67 | the version of liberasurecode |
//! | 67..71 | CRC-32 of the bytes before the mark |
//! | 71..80 | zeros |

use pantile_code::foreign::Fragments;
use std::ops::Range;

pub(crate) const HEADER_BYTES: usize = 80;

const CHECKSUM_NONE: u8 = 1;
const MARK: u32 = 0x0b0c_5ecc;
/// 1.8.0, of which the headers that are written are.
const VERSION: u32 = 0x0001_0800;
/// Before 1.6.0 there was another CRC.
const VERSION_OF_CRC: u32 = 0x0001_0600;
const CRC: Range<usize> = 67..71;
/// Fields that are the same in the header of any version.
const FIXED: [Range<usize>; 3] = [0..20, 54..55, 59..63];

/// Returns the header of a fragment of so many bytes, of a segment of so many.
pub(crate) fn header(of: &Fragments, index: usize, bytes: usize, data_len: u64) -> Vec<u8> {
    let mut header = vec![0; HEADER_BYTES];
    let mut put = |at: usize, field: &[u8]| header[at..at + field.len()].copy_from_slice(field);
    put(0, &(index as u32).to_le_bytes());
    put(4, &(bytes as u32).to_le_bytes());
    put(12, &data_len.to_le_bytes());
    put(20, &[CHECKSUM_NONE]);
    put(54, &[of.backend]);
    put(55, &of.backend_version.to_le_bytes());
    put(59, &MARK.to_le_bytes());
    put(63, &VERSION.to_le_bytes());
    let crc = crc32(&header[..59]);
    header[CRC].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Returns the first byte in which a header differs from the expected one beyond versions and
/// checksums, and the number of such bytes; one with a wrong CRC differs in that. `None` also if
/// both are empty.
pub(crate) fn differs(found: &[u8], expected: &[u8]) -> Option<(usize, usize)> {
    if expected.is_empty() {
        return None;
    }
    let mut wrong: Vec<usize> = FIXED.into_iter().flatten().filter(|&at| found[at] != expected[at]).collect();
    let number = |at: usize| u32::from_le_bytes([found[at], found[at + 1], found[at + 2], found[at + 3]]);
    if wrong.is_empty() && number(63) >= VERSION_OF_CRC && number(CRC.start) != crc32(&found[..59]) {
        wrong.extend(CRC);
    }
    Some((*wrong.first()?, wrong.len()))
}

/// The CRC-32 of zlib.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, &byte: &u8| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    };
    !bytes.iter().fold(u32::MAX, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crc_is_that_of_zlib() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn versions_and_checksums_make_no_difference() {
        let of = Fragments { backend: 4, backend_version: 7 };
        let expected = header(&of, 3, 1000, 5000);
        assert_eq!(differs(&expected, &expected), None);
        let other = header(&Fragments { backend_version: 8, ..of }, 3, 1000, 5000);
        assert_eq!(differs(&other, &expected), None);
        for at in [0, 5, 13, 54, 60, 68] {
            let mut wrong = expected.clone();
            wrong[at] ^= 1;
            assert!(differs(&wrong, &expected).is_some(), "byte {at}");
        }
    }
}
