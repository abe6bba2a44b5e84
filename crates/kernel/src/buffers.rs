//! The use of each buffer in a run, and buffers with the access that their use needs.
//!
//! Buffers in shared or read-only memory are passed for reading only; unused buffers may be absent.

use std::mem::take;

use crate::error::ProgramError;

/// The most buffers of a program: far more than any code has cells, and few enough for two bits per
/// buffer.
const BUFFERS_MOST: usize = 1 << 24;

/// A buffer, with the access that a run may have.
#[derive(Debug)]
pub enum Buffer<'b> {
    /// No buffer, and no access.
    Absent,
    /// Read only. Other threads may read it, too, and such buffers may overlap.
    Read(&'b [u8]),
    /// Read and write.
    Write(&'b mut [u8]),
}

impl Buffer<'_> {
    /// The length of the buffer in bytes; `None` if it is absent.
    pub fn len_bytes(&self) -> Option<usize> {
        match self {
            Buffer::Absent => None,
            Buffer::Read(bytes) => Some(bytes.len()),
            Buffer::Write(bytes) => Some(bytes.len()),
        }
    }

    /// Returns a pointer; the caller uses it only as this variant allows.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        match self {
            Buffer::Absent => std::ptr::null_mut(),
            Buffer::Read(bytes) => bytes.as_ptr().cast_mut(),
            Buffer::Write(bytes) => bytes.as_mut_ptr(),
        }
    }
}

/// The use of a buffer in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Neither read nor written.
    Unused,
    /// Read and not changed.
    Read,
    /// Overwritten, and perhaps read afterwards.
    Written,
}

/// The use of each buffer in a program.
///
/// Two bits for each; most codes need no memory on the heap.
#[derive(Debug)]
pub(crate) struct Uses {
    buffers: usize,
    /// The number of buffers with a bit set.
    streams: usize,
    few: [u64; FEW_WORDS],
    /// The bits, if `few` has too few words for them.
    many: Box<[u64]>,
}

const FEW_WORDS: usize = 2;
const PER_WORD: usize = 32;
const READ: u64 = 1;
const WRITTEN: u64 = 2;

impl Uses {
    pub(crate) fn new(buffers: usize) -> Uses {
        let many = match buffers <= FEW_WORDS * PER_WORD {
            true => Box::default(),
            false => vec![0; buffers.div_ceil(PER_WORD)].into_boxed_slice(),
        };
        Uses { buffers, streams: 0, few: [0; FEW_WORDS], many }
    }

    /// The number of buffers.
    pub(crate) fn buffers(&self) -> usize {
        self.buffers
    }

    /// The number of buffers that are read or written.
    pub(crate) fn streams(&self) -> usize {
        self.streams
    }

    /// Marks a buffer as read.
    pub(crate) fn add_read(&mut self, buffer: usize) {
        self.add(buffer, READ);
    }

    /// Marks a buffer as written. Returns true if it was neither read nor written before.
    pub(crate) fn add_written(&mut self, buffer: usize) -> bool {
        self.add(buffer, WRITTEN) == 0
    }

    fn add(&mut self, buffer: usize, bit: u64) -> u64 {
        let words = if self.many.is_empty() { &mut self.few[..] } else { &mut self.many };
        let (word, shift) = (&mut words[buffer / PER_WORD], 2 * (buffer % PER_WORD));
        let before = *word >> shift & (READ | WRITTEN);
        *word |= bit << shift;
        self.streams += usize::from(before == 0);
        before
    }

    /// The use of every buffer, ascending.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = Use> {
        let words = if self.many.is_empty() { &self.few[..] } else { &self.many };
        let mut left = 0;
        (0..self.buffers).map(move |buffer| {
            if buffer % PER_WORD == 0 {
                left = words[buffer / PER_WORD];
            }
            let what = use_of(left);
            left >>= 2;
            what
        })
    }

    /// The use of a buffer. Panics if there is no such buffer.
    pub(crate) fn of(&self, buffer: usize) -> Use {
        assert!(buffer < self.buffers, "buffer {buffer} of {}", self.buffers);
        let words = if self.many.is_empty() { &self.few[..] } else { &self.many };
        use_of(words[buffer / PER_WORD] >> (2 * (buffer % PER_WORD)))
    }
}

/// Returns the use that the lowest two bits encode.
#[inline]
fn use_of(bits: u64) -> Use {
    match bits & (READ | WRITTEN) {
        0 => Use::Unused,
        READ => Use::Read,
        _ => Use::Written,
    }
}

/// A list of buffers that keeps its capacity between runs, so that runs do not allocate.
///
/// The list is cleared when the borrow ends; its capacity is kept.
#[derive(Debug, Default)]
pub struct BufferList {
    room: Vec<Buffer<'static>>,
}

impl BufferList {
    /// Returns a list without capacity.
    pub const fn new() -> BufferList {
        BufferList { room: Vec::new() }
    }

    /// Calls a function with an empty list that has the capacity of earlier calls.
    pub fn with<'b, R>(&mut self, use_it: impl FnOnce(&mut Vec<Buffer<'b>>) -> R) -> R {
        let mut list: Vec<Buffer<'b>> = take(&mut self.room);
        let result = use_it(&mut list);
        list.clear();
        // The list is empty, so no element is converted; collecting in place keeps its capacity.
        self.room = list.into_iter().map(|_| Buffer::Absent).collect();
        result
    }
}

/// Returns an error for more buffers than a program accepts.
pub(crate) fn check_count(buffers: usize) -> Result<(), ProgramError> {
    match buffers <= BUFFERS_MOST {
        true => Ok(()),
        false => Err(ProgramError::TooManyBuffers { have: buffers, most: BUFFERS_MOST }),
    }
}

/// Checks that buffers exist, and that written ones are written once and not read; returns their
/// uses.
pub(crate) fn check_buffers(
    buffers: usize,
    reads: impl IntoIterator<Item = usize>,
    writes: impl IntoIterator<Item = usize>,
) -> Result<Uses, ProgramError> {
    check_count(buffers)?;
    let in_range = |step: usize, buffer: usize| match buffer < buffers {
        true => Ok(buffer),
        false => Err(ProgramError::BufferOutOfRange { step, buffer, buffers }),
    };
    let mut uses = Uses::new(buffers);
    for buffer in reads {
        uses.add_read(in_range(0, buffer)?);
    }
    for (step, target) in writes.into_iter().enumerate() {
        if !uses.add_written(in_range(step, target)?) {
            return Err(ProgramError::TargetInUse { step, target });
        }
    }
    Ok(uses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_kept_for_few_buffers_and_for_many() {
        for buffers in [1, 63, 64, 65, 300] {
            let mut uses = Uses::new(buffers);
            for buffer in (0..buffers).filter(|i| i % 3 == 0) {
                uses.add_read(buffer);
                uses.add_read(buffer);
            }
            for buffer in (0..buffers).filter(|i| i % 3 == 1) {
                assert!(uses.add_written(buffer) && !uses.add_written(buffer));
                uses.add_read(buffer);
            }
            assert!(!uses.add_written(0));
            assert_eq!(uses.streams(), (0..buffers).filter(|i| i % 3 < 2).count());
            let is_so = |i: usize| match i % 3 {
                _ if i == 0 => Use::Written,
                0 => Use::Read,
                1 => Use::Written,
                _ => Use::Unused,
            };
            (0..buffers).for_each(|i| assert_eq!(uses.of(i), is_so(i), "{i} of {buffers}"));
            assert!(uses.iter().eq((0..buffers).map(is_so)), "{buffers}");
        }
    }

    #[test]
    fn a_list_keeps_its_room() {
        let mut list = BufferList::new();
        let bytes = [1, 2, 3];
        list.with(|buffers| (0..100).for_each(|_| buffers.push(Buffer::Read(&bytes))));
        let room = list.room.capacity();
        assert!(room >= 100 && list.room.is_empty());
        let at = list.room.as_ptr();
        list.with(|buffers| buffers.push(Buffer::Absent));
        assert_eq!((list.room.capacity(), list.room.as_ptr()), (room, at));
    }
}
