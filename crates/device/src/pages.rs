//! Memory from the system; it contains the crate's `unsafe` for buffers.
//!
//! A pool takes its buffers from one [`Area`] of addresses that requests huge pages. A device
//! transfers memory that is physically contiguous as one piece; with small pages each page is a
//! piece. A virtual disk that wrote 1.4 GiB/s from small pages wrote 2.3 GiB/s from huge ones
//! (`cargo run --release -p pantile-device --example io` shows both).
//!
//! Invariant: the pages that an area has given out do not overlap each other or its free pages.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::collections::{BTreeMap, BTreeSet};
use std::ptr::NonNull;
use std::sync::Arc;

/// Size of a huge page on the processors that the build supports. If the system's is larger, an
/// area has small pages.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Whole pages with one owner: a part of an area, or a separate mapping.
///
/// Invariant: `start .. start + capacity` lies in `mapping`, no other `Pages` has a byte of it, and
/// every byte is initialised (anonymous memory is zeros, and only `u8`s are ever written).
pub(crate) struct Pages {
    mapping: Arc<Mapping>,
    start: NonNull<u8>,
    capacity: usize,
}

// SAFETY: `Pages` alone refers to its bytes, as a Box<[u8]> to its own; mappings belong to the
// process, not to a thread.
unsafe impl Send for Pages {}
// SAFETY: through a shared reference bytes are only read (`bytes`); writing takes `&mut self`.
unsafe impl Sync for Pages {}

impl Pages {
    /// Makes a separate mapping. Panics if the system has no memory left.
    pub(crate) fn alone(capacity: usize) -> Self {
        let mapping = Mapping::new(capacity)
            .unwrap_or_else(|error| panic!("no memory for a buffer of {capacity} bytes: {error}"));
        Self { start: mapping.start, mapping: Arc::new(mapping), capacity }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: by the invariant the range is mapped for as long as `mapping` lives, initialised,
        // and ours; `capacity` is part of a successful mmap, so it is below isize::MAX; `&self`
        // excludes a `&mut` to the same bytes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.capacity) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.capacity) }
    }
}

/// A range of addresses whose pages are given out, low ones first. Pages that were never given out
/// take no memory.
pub(crate) struct Area {
    mapping: Arc<Mapping>,
    /// Offset of its beginning in the mapping, aligned to a huge page.
    base: usize,
    len: usize,
    /// End of the pages that were ever given out.
    top: usize,
    /// Lengths of free ranges, by offset. Invariant: adjacent ranges are joined.
    free: BTreeMap<usize, usize>,
    /// Lengths and offsets of the free ranges, ordered by length.
    by_len: BTreeSet<(usize, usize)>,
    free_bytes: usize,
}

impl Area {
    /// Reserves `len` addresses. `None` if the system has too few.
    pub(crate) fn new(len: usize) -> Option<Self> {
        let mapping = Mapping::new(len.checked_add(HUGE_PAGE_BYTES)?).ok()?;
        let base = mapping.start.as_ptr().align_offset(HUGE_PAGE_BYTES);
        mapping.ask_for_huge_pages();
        let mapping = Arc::new(mapping);
        Some(Self {
            mapping,
            base,
            len,
            top: 0,
            free: BTreeMap::new(),
            by_len: BTreeSet::new(),
            free_bytes: 0,
        })
    }

    /// Takes the smallest free range that suffices, or pages that were never given out. `None` if
    /// neither has room.
    pub(crate) fn take(&mut self, capacity: usize) -> Option<Pages> {
        let place = match self.by_len.range((capacity, 0)..).next() {
            Some(&(len, place)) => {
                self.remove(place, len);
                if len > capacity {
                    self.insert(place + capacity, len - capacity);
                }
                place
            }
            None if capacity <= self.len - self.top => {
                self.top += capacity;
                self.top - capacity
            }
            None => return None,
        };
        Some(Pages { mapping: self.mapping.clone(), start: self.at(place), capacity })
    }

    pub(crate) fn gave(&self, pages: &Pages) -> bool {
        Arc::ptr_eq(&self.mapping, &pages.mapping)
    }

    /// Takes back a range that it gave out. Its memory stays allocated.
    pub(crate) fn give_back(&mut self, pages: Pages) {
        assert!(self.gave(&pages), "pages of another area");
        let (mut place, mut len) = (pages.start.as_ptr().addr() - self.at(0).as_ptr().addr(), pages.capacity);
        if let Some((&before, &its)) = self.free.range(..place).next_back()
            && before + its == place
        {
            self.remove(before, its);
            (place, len) = (before, its + len);
        }
        if let Some(&its) = self.free.get(&(place + len)) {
            self.remove(place + len, its);
            len += its;
        }
        self.insert(place, len);
    }

    /// Returns the memory of free ranges to the system.
    pub(crate) fn empty(&self) {
        for (&place, &len) in &self.free {
            // SAFETY: free ranges are within the mapping, and by the invariant of the module no
            // caller has a part of them.
            unsafe { self.mapping.empty(self.at(place), len) };
        }
    }

    /// Returns the bytes of the free ranges.
    pub(crate) fn free_bytes(&self) -> usize {
        self.free_bytes
    }

    fn at(&self, place: usize) -> NonNull<u8> {
        // SAFETY: `base + place <= base + len`, which is within the mapping, or one behind its end.
        unsafe { self.mapping.start.add(self.base + place) }
    }

    fn insert(&mut self, place: usize, len: usize) {
        self.free.insert(place, len);
        self.by_len.insert((len, place));
        self.free_bytes += len;
    }

    fn remove(&mut self, place: usize, len: usize) {
        self.free.remove(&place);
        self.by_len.remove(&(len, place));
        self.free_bytes -= len;
    }
}

/// A private mapping, readable and writable, for exactly as long as this value lives.
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: an address and a length; nothing is read or written through it.
unsafe impl Send for Mapping {}
// SAFETY: likewise.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(len: usize) -> rustix::io::Result<Self> {
        let (protection, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a null address without MAP_FIXED lets the kernel choose a free place, so no
        // existing mapping, hence no Rust object, is touched. The result is ours alone.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, protection, flags) }?;
        Ok(Self { start: NonNull::new(start.cast()).expect("the kernel maps nothing at 0 unasked"), len })
    }

    /// Requests huge pages. It is a hint: a system without them refuses it, which does no harm.
    fn ask_for_huge_pages(&self) {
        // SAFETY: the range is this mapping; the advice changes its backing, not its content.
        let _ = unsafe { madvise(self.start.as_ptr().cast(), self.len, Advice::LinuxHugepage) };
    }

    /// Returns the memory of whole pages to the system; they read as zeros afterwards.
    ///
    /// # Safety
    ///
    /// The pages are within the mapping, and nobody refers to them.
    unsafe fn empty(&self, start: NonNull<u8>, len: usize) {
        // SAFETY: by the contract no reference sees the change; private anonymous memory becomes
        // zeros, which are initialised bytes.
        let done = unsafe { madvise(start.as_ptr().cast(), len, Advice::LinuxDontNeed) };
        debug_assert!(done.is_ok(), "memory could not be given back: {done:?}");
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly our mapping, and every reference to it held the Arc that
        // this value was in.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        // The kernel may refuse to split a mapping when it has too many: then the pages stay,
        // unused.
        debug_assert!(unmapped.is_ok(), "a mapping could not be undone");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returned_pieces_become_one_range_again() {
        let mut area = Area::new(4 * HUGE_PAGE_BYTES).unwrap();
        let mut given: Vec<_> = (0..8).map(|_| area.take(HUGE_PAGE_BYTES / 2).unwrap()).collect();
        assert!(area.take(1 << 12).is_none());
        fastrand::Rng::with_seed(3).shuffle(&mut given);
        given.into_iter().for_each(|pages| area.give_back(pages));
        assert_eq!((area.free.len(), area.free_bytes()), (1, 4 * HUGE_PAGE_BYTES));
        let whole = area.take(4 * HUGE_PAGE_BYTES).unwrap();
        assert!(whole.bytes().as_ptr().addr().is_multiple_of(HUGE_PAGE_BYTES));
    }

    #[test]
    fn emptied_memory_is_zeros() {
        let mut area = Area::new(2 * HUGE_PAGE_BYTES).unwrap();
        let mut pages = area.take(3 << 12).unwrap();
        let mut other = area.take(1 << 12).unwrap();
        pages.bytes_mut().fill(7);
        other.bytes_mut().fill(9);
        area.give_back(pages);
        area.empty();
        let pages = area.take(3 << 12).unwrap();
        assert!(pages.bytes().iter().all(|&byte| byte == 0) && other.bytes().iter().all(|&byte| byte == 9));
    }
}
