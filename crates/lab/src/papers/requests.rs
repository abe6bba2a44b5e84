//! Requests of the D-Code paper: S uniform over the data elements of a stripe, L uniform from 1 to
//! 20; a request that runs past the last element goes on at element 0 of the next stripe.

use std::ops::Range;

/// The longest request, in elements.
pub(crate) const LEN_MOST: usize = 20;

/// Returns the part of a request in each stripe that it touches, as positions in user order.
pub(crate) fn pieces(data: usize, start: usize, len: usize) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let (mut start, mut left) = (start, len);
    while left > 0 {
        let n = left.min(data - start);
        pieces.push(start..start + n);
        left -= n;
        start = 0;
    }
    pieces
}

/// Returns every request once: S and L.
pub(crate) fn all(data: usize) -> impl Iterator<Item = (usize, usize)> {
    (1..=LEN_MOST).flat_map(move |len| (0..data).map(move |start| (start, len)))
}
