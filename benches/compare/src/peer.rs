//! Operations of a library, and its refusals.

use crate::stripes::Stripes;

/// Inclusion of the preparation for a pattern of losses in the time of a decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planning {
    /// Prepared outside the clock, where the library lets one.
    Excluded,
    /// The call that knows the pattern from before.
    Cached,
    /// The pattern is new in every call.
    Included,
}

/// One operation on one stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Encode,
    Decode { lost: Vec<usize>, planning: Planning },
}

/// Does the operation on `calls` stripes, from set `start` on.
pub type Runner<'a> = Box<dyn FnMut(&Stripes, usize, usize) + 'a>;

/// A library set up for one k, m and length.
pub trait Peer {
    /// How the library is called in the record.
    fn name(&self) -> String;

    /// User data in a stripe of buffers of `len` bytes.
    fn data_bytes(&self, len: usize) -> usize;

    /// How much of a buffer of `len` bytes it works on: less than all where it takes only whole
    /// packets of its own.
    fn covered_bytes(&self, len: usize) -> usize {
        len
    }

    /// Prepares an operation; `None` if the library has no such call.
    fn prepare<'a>(&'a self, operation: &Operation) -> Option<Runner<'a>>;
}

/// Calls so often, on one stripe after another.
pub fn in_turn(mut stripes: Vec<Vec<&mut [u8]>>, calls: usize, mut call: impl FnMut(&mut [&mut [u8]])) {
    let count = stripes.len();
    (0..calls).for_each(|i| call(&mut stripes[i % count]));
}

/// `set`, and the next ones, around the end.
pub fn sets(stripes: &Stripes, start: usize, calls: usize) -> impl Iterator<Item = usize> {
    let count = stripes.sets();
    (start..start + calls).map(move |set| set % count)
}
