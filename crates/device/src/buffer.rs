//! Page-aligned memory, owned, recycled and bounded.
//!
//! Direct I/O needs memory that begins at a multiple of a sector; a page suffices for every device.
//! A pool has one range of addresses and requests huge pages there ([`pages`](crate::pages)). A
//! buffer that fits none of its free pieces is a separate mapping.
//!
//! Invariant: buffers in use and free ones together take at most `max_bytes` of the pool at every
//! moment. Of a huge page only the parts that were given out count.

use crate::pages::{Area, Pages};
use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Alignment of buffers: the smallest page of every processor that the build supports, and at least
/// a sector.
pub const PAGE_BYTES: usize = 4096;

/// Owned bytes that begin on a page. When dropped, they return to the pool that they came from.
///
/// Fresh memory is zeros; recycled memory holds the bytes of its last use.
pub struct AlignedBuf {
    /// `None` only while being dropped.
    pages: Option<Pages>,
    len: usize,
    home: Option<Arc<Inner>>,
    /// True if it was taken beyond the bound: then it is counted, and not kept for reuse.
    is_beyond: bool,
}

/// A read-only range of an [`AlignedBuf`]. It is aligned as its offset in the buffer is.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    bytes: &'a [u8],
}

/// A writable range of an [`AlignedBuf`].
pub struct PartMut<'a> {
    bytes: &'a mut [u8],
}

/// Hands out buffers up to a bound in bytes, and recycles them.
///
/// Cheap to clone: all clones are one pool.
#[derive(Clone)]
pub struct BufferPool {
    inner: Arc<Inner>,
}

impl AlignedBuf {
    /// Returns a zeroed buffer that belongs to no pool. A buffer of 0 bytes is valid and occupies a
    /// page.
    ///
    /// Panics: if the system has no memory left.
    pub fn zeroed(len: usize) -> Self {
        Self { pages: Some(Pages::alone(capacity_of(len))), len, home: None, is_beyond: false }
    }

    /// Returns a range of the buffer, to be written to a device.
    ///
    /// Panics: if the range is not within the buffer.
    pub fn part(&self, range: Range<usize>) -> Part<'_> {
        Part { bytes: &self[range] }
    }

    /// Returns a range of the buffer, to be filled by a device.
    ///
    /// Panics: if the range is not within the buffer.
    pub fn part_mut(&mut self, range: Range<usize>) -> PartMut<'_> {
        PartMut { bytes: &mut self[range] }
    }

    /// Returns the whole buffer, to be written to a device.
    pub fn whole(&self) -> Part<'_> {
        Part { bytes: self }
    }

    /// Returns the whole buffer, to be filled by a device.
    pub fn whole_mut(&mut self) -> PartMut<'_> {
        PartMut { bytes: self }
    }
}

impl<'a> Part<'a> {
    /// Returns the bytes. The reference is valid as long as the buffer lives.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the first `len` bytes.
    pub fn first(&self, len: usize) -> Part<'a> {
        Part { bytes: &self.bytes[..len] }
    }
}

impl PartMut<'_> {
    /// Borrows the same bytes again, for a shorter time.
    pub fn again(&mut self) -> PartMut<'_> {
        PartMut { bytes: self.bytes }
    }

    /// Returns the first `len` bytes.
    pub fn first(&mut self, len: usize) -> PartMut<'_> {
        PartMut { bytes: &mut self.bytes[..len] }
    }
}

impl BufferPool {
    /// Makes a pool that never holds more than `max_bytes`, in use and free together; whole pages
    /// are counted.
    pub fn new(max_bytes: usize) -> Self {
        let area = Area::new(max_bytes / PAGE_BYTES * PAGE_BYTES);
        let store = Mutex::new(Store { area, used_bytes: 0, idle_bytes: 0, waiting: 0 });
        Self {
            inner: Arc::new(Inner {
                max_bytes,
                store,
                returned: Condvar::new(),
                beyond_bytes: AtomicUsize::new(0),
            }),
        }
    }

    /// Returns a buffer of `len` bytes, or `None` if the bound leaves too little now. Its content
    /// is arbitrary.
    ///
    /// Panics: if the system has no memory left although the bound permits it.
    pub fn take(&self, len: usize) -> Option<AlignedBuf> {
        let pages = self.inner.take(&mut self.inner.lock(), capacity_of(len))?;
        Some(self.buffer(pages, len, false))
    }

    /// Returns a zeroed buffer beyond the bound, for callers that cannot wait. It is counted
    /// ([`beyond_bytes`](Self::beyond_bytes)) and not kept for reuse.
    ///
    /// Panics: if the system has no memory left.
    pub fn take_beyond(&self, len: usize) -> AlignedBuf {
        let capacity = capacity_of(len);
        self.inner.beyond_bytes.fetch_add(capacity, Ordering::Relaxed);
        self.buffer(Pages::alone(capacity), len, true)
    }

    fn buffer(&self, pages: Pages, len: usize, is_beyond: bool) -> AlignedBuf {
        AlignedBuf { pages: Some(pages), len, home: Some(self.inner.clone()), is_beyond }
    }

    /// Waits for buffers to return, and takes one. `None` at the deadline, or at once if `len`
    /// exceeds the bound.
    ///
    /// Waiters have no order: small requests can overtake a large one.
    pub fn take_until(&self, len: usize, deadline: Instant) -> Option<AlignedBuf> {
        let capacity = capacity_of(len);
        if capacity > self.inner.max_bytes {
            return None;
        }
        let mut store = self.inner.lock();
        loop {
            if let Some(pages) = self.inner.take(&mut store, capacity) {
                return Some(self.buffer(pages, len, false));
            }
            let left = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            store.waiting += 1;
            store = self.inner.returned.wait_timeout(store, left).unwrap_or_else(PoisonError::into_inner).0;
            store.waiting -= 1;
        }
    }

    /// Returns the bound in bytes.
    pub fn max_bytes(&self) -> usize {
        self.inner.max_bytes
    }

    /// Returns the bytes of buffers in use, in whole pages.
    pub fn used_bytes(&self) -> usize {
        self.inner.lock().used_bytes
    }

    /// Returns the bytes of buffers in use that were taken beyond the bound.
    pub fn beyond_bytes(&self) -> usize {
        self.inner.beyond_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes that the pool occupies, free ones included, those beyond the bound
    /// excluded.
    pub fn held_bytes(&self) -> usize {
        let store = self.inner.lock();
        store.used_bytes + store.idle_bytes
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.pages.as_ref().expect("present until dropped").bytes()[..self.len]
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.pages.as_mut().expect("present until dropped").bytes_mut()[..self.len]
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if let (Some(pages), Some(home)) = (self.pages.take(), self.home.take()) {
            match self.is_beyond {
                true => _ = home.beyond_bytes.fetch_sub(pages.capacity(), Ordering::Relaxed),
                false => home.give(pages),
            }
        }
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.len)
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BufferPool({} of {} bytes)", self.used_bytes(), self.max_bytes())
    }
}

impl Deref for Part<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl Deref for PartMut<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl DerefMut for PartMut<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes
    }
}

struct Inner {
    max_bytes: usize,
    store: Mutex<Store>,
    returned: Condvar,
    beyond_bytes: AtomicUsize,
}

struct Store {
    /// The range of addresses; `None`: the system has too few addresses.
    area: Option<Area>,
    used_bytes: usize,
    /// Upper bound of the memory that free parts of the area still occupy.
    idle_bytes: usize,
    /// Number of waiting threads; without any, a system call is saved.
    waiting: usize,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, store: &mut Store, capacity: usize) -> Option<Pages> {
        if capacity > self.max_bytes - store.used_bytes {
            return None;
        }
        store.used_bytes += capacity;
        let of_area = store.area.as_mut().and_then(|area| area.take(capacity));
        // A part taken from the area may or may not have occupied memory, so `idle_bytes` can be
        // too high.
        store.idle_bytes = store.idle_bytes.min(store.area.as_ref().map_or(0, Area::free_bytes));
        if store.used_bytes + store.idle_bytes > self.max_bytes {
            store.area.iter().for_each(Area::empty);
            store.idle_bytes = 0;
        }
        Some(of_area.unwrap_or_else(|| Pages::alone(capacity)))
    }

    fn give(&self, pages: Pages) {
        let mut store = self.lock();
        store.used_bytes -= pages.capacity();
        let alone = store.give_back(pages);
        let call = store.waiting > 0;
        drop(store);
        drop(alone);
        if call {
            // Every waiter is woken: a single one might need more than came back, while another
            // needs less.
            self.returned.notify_all();
        }
    }
}

impl Store {
    /// Takes back pages that are no longer in use. Returns them if they are a mapping of their own.
    fn give_back(&mut self, pages: Pages) -> Option<Pages> {
        match &mut self.area {
            Some(area) if area.gave(&pages) => {
                self.idle_bytes += pages.capacity();
                area.give_back(pages);
                None
            }
            _ => Some(pages),
        }
    }
}

/// Returns the length of the whole pages that `len` bytes need.
fn capacity_of(len: usize) -> usize {
    // The length of a buffer can come from an untrusted file, so 0 is accepted.
    len.max(1).next_multiple_of(PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_memory_of_another_size_makes_room() {
        let pool = BufferPool::new(16 * PAGE_BYTES);
        let small: Vec<_> = (0..16).map(|_| pool.take(1).unwrap()).collect();
        drop(small);
        assert_eq!((pool.used_bytes(), pool.held_bytes()), (0, 16 * PAGE_BYTES));
        let large = pool.take(13 * PAGE_BYTES - 5).unwrap();
        assert_eq!((pool.used_bytes(), pool.held_bytes()), (13 * PAGE_BYTES, 16 * PAGE_BYTES));
        assert_eq!(large.len(), 13 * PAGE_BYTES - 5);
    }

    #[test]
    fn a_buffer_of_no_bytes_is_empty() {
        let pool = BufferPool::new(PAGE_BYTES);
        assert!(AlignedBuf::zeroed(0).is_empty());
        assert!(pool.take(0).is_some_and(|buffer| buffer.whole().is_empty()));
        assert_eq!(pool.used_bytes(), 0);
    }

    #[test]
    fn a_returned_buffer_is_the_next_one() {
        let pool = BufferPool::new(PAGE_BYTES);
        let mut buffer = pool.take(100).unwrap();
        assert!(buffer.iter().all(|&byte| byte == 0));
        buffer[99] = 251;
        let place = buffer.as_ptr();
        drop(buffer);
        let buffer = pool.take(4096).unwrap();
        assert_eq!((buffer.as_ptr(), buffer[99]), (place, 251));
    }
}
