//! The loops of an engine over words of 2 or 4 bytes.

/// Bytes of a word at most.
pub(crate) const BYTES_MOST: usize = 4;

/// A linear map of words: for each byte of an image its linear map of each byte of a word.
pub(crate) type Maps<C> = [[C; BYTES_MOST]; BYTES_MOST];

/// The loops of an engine over words of one length, `bytes`.
pub(crate) struct WordLoops<C> {
    /// Prepares a linear map of bytes, by the images of single bits.
    pub(crate) map: fn([u8; 8]) -> C,
    /// Maps words and splits them into rows.
    pub(crate) split: WordLoop<C>,
    /// Joins rows to words and maps these.
    pub(crate) join: WordLoop<C>,
    /// Bytes of each row that they take at a time.
    pub(crate) step: usize,
}

/// Takes `len` bytes of each row, a multiple of the step.
///
/// # Safety
///
/// The words are valid for `bytes * len` bytes, each row for `len`, those that are made of the
/// others for writes; words and rows are apart. The machine has the engine.
pub(crate) type WordLoop<C> = unsafe fn(&WordJob<'_, C>);

/// The arguments of a loop.
pub(crate) struct WordJob<'a, C> {
    pub(crate) maps: &'a Maps<C>,
    pub(crate) words: *mut u8,
    /// Row 0; the others follow it `pitch` bytes apart.
    pub(crate) rows: *mut u8,
    pub(crate) pitch: usize,
    pub(crate) len: usize,
}
