//! Page-aligned memory, owned, recycled and bounded: the only `unsafe` of this room.
//!
//! Direct I/O wants memory that begins on a sector; a page suffices for every device. Each buffer is a mapping of
//! its own, so it costs exactly its pages (an aligned allocation leaves a gap before it), arrives zeroed,
//! and goes back to the system at once. The kernel merges neighbouring mappings, so many buffers are few areas.
//!
//! Invariant: capacity in use + capacity idle <= `max_bytes` of the pool, at every moment.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

/// Buffers begin on a multiple of this. The smallest page of every processor we build for, and at least a sector.
pub const PAGE_BYTES: usize = 4096;

/// From here on a huge page can lie within a buffer.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Owned bytes that begin on a page. Dropped, they return to the pool they came from.
///
/// Fresh memory is zeros; recycled memory holds what its last user left.
pub struct AlignedBuf {
    /// `None` only while being dropped.
    pages: Option<Pages>,
    len: usize,
    home: Option<Arc<Inner>>,
}

/// A read-only range of an [`AlignedBuf`]: aligned as its place within the buffer is.
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
    /// A zeroed buffer that belongs to no pool.
    ///
    /// Panics: if `len` is 0, or the system has no memory left.
    pub fn zeroed(len: usize) -> Self {
        Self { pages: Some(Pages::map(capacity_of(len), false)), len, home: None }
    }

    /// A range of it, to be written to a device.
    ///
    /// Panics: if the range is not within the buffer.
    pub fn part(&self, range: Range<usize>) -> Part<'_> {
        Part { bytes: &self[range] }
    }

    /// A range of it, to be filled by a device.
    ///
    /// Panics: if the range is not within the buffer.
    pub fn part_mut(&mut self, range: Range<usize>) -> PartMut<'_> {
        PartMut { bytes: &mut self[range] }
    }

    /// All of it, to be written to a device.
    pub fn whole(&self) -> Part<'_> {
        Part { bytes: self }
    }

    /// All of it, to be filled by a device.
    pub fn whole_mut(&mut self) -> PartMut<'_> {
        PartMut { bytes: self }
    }
}

impl<'a> Part<'a> {
    /// The bytes, for as long as the buffer lives.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The first `len` bytes.
    pub fn first(&self, len: usize) -> Part<'a> {
        Part { bytes: &self.bytes[..len] }
    }
}

impl PartMut<'_> {
    /// The same bytes again, for a shorter time.
    pub fn again(&mut self) -> PartMut<'_> {
        PartMut { bytes: self.bytes }
    }

    /// The first `len` bytes.
    pub fn first(&mut self, len: usize) -> PartMut<'_> {
        PartMut { bytes: &mut self.bytes[..len] }
    }
}

impl BufferPool {
    /// A pool that never holds more than `max_bytes`, in use and idle together; whole pages are counted.
    pub fn new(max_bytes: usize) -> Self {
        Self::with(max_bytes, false)
    }

    /// The same, asking the system for huge pages under buffers of 2 MiB and more. It may decline.
    pub fn with_huge_pages(max_bytes: usize) -> Self {
        Self::with(max_bytes, true)
    }

    fn with(max_bytes: usize, huge_pages: bool) -> Self {
        let inner = Inner { max_bytes, huge_pages, store: Mutex::default(), returned: Condvar::new() };
        Self { inner: Arc::new(inner) }
    }

    /// A buffer of `len` bytes, or `None` if that much is not free now. Its content is arbitrary.
    ///
    /// Panics: if `len` is 0, or the system has no memory left although the bound has.
    pub fn take(&self, len: usize) -> Option<AlignedBuf> {
        let pages = self.inner.take(&mut self.inner.lock(), capacity_of(len))?;
        Some(AlignedBuf { pages: Some(pages), len, home: Some(self.inner.clone()) })
    }

    /// The same, waiting for buffers to return; `None` at the deadline, or at once if it can never be.
    ///
    /// No order among those who wait: a large one may see small ones pass.
    pub fn take_until(&self, len: usize, deadline: Instant) -> Option<AlignedBuf> {
        let capacity = capacity_of(len);
        if capacity > self.inner.max_bytes {
            return None;
        }
        let mut store = self.inner.lock();
        loop {
            if let Some(pages) = self.inner.take(&mut store, capacity) {
                return Some(AlignedBuf { pages: Some(pages), len, home: Some(self.inner.clone()) });
            }
            let left = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            store.waiting += 1;
            store = self.inner.returned.wait_timeout(store, left).expect("no user code under the lock").0;
            store.waiting -= 1;
        }
    }

    /// The bound.
    pub fn max_bytes(&self) -> usize {
        self.inner.max_bytes
    }

    /// Bytes in the hands of users, whole pages.
    pub fn used_bytes(&self) -> usize {
        self.inner.lock().used_bytes
    }

    /// Bytes that the pool occupies, idle ones included.
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
            home.give(pages);
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
    huge_pages: bool,
    store: Mutex<Store>,
    returned: Condvar,
}

#[derive(Default)]
struct Store {
    used_bytes: usize,
    idle_bytes: usize,
    /// How many wait for some: to call nobody costs a system call too.
    waiting: usize,
    /// By capacity. Invariant: no empty list; `idle_bytes` is the sum of all.
    idle: BTreeMap<usize, Vec<Pages>>,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().expect("no user code under the lock")
    }

    fn take(&self, store: &mut Store, capacity: usize) -> Option<Pages> {
        if capacity > self.max_bytes - store.used_bytes {
            return None;
        }
        let pages = match store.pop(capacity) {
            Some(pages) => pages,
            None => {
                store.shrink(self.max_bytes - store.used_bytes - capacity);
                Pages::map(capacity, self.huge_pages)
            }
        };
        store.used_bytes += capacity;
        Some(pages)
    }

    fn give(&self, pages: Pages) {
        let mut store = self.lock();
        store.used_bytes -= pages.capacity;
        store.idle_bytes += pages.capacity;
        store.idle.entry(pages.capacity).or_default().push(pages);
        let call = store.waiting > 0;
        drop(store);
        if call {
            // All: the one woken might want more than came back, while another would be content.
            self.returned.notify_all();
        }
    }
}

impl Store {
    /// An idle buffer of exactly that capacity.
    fn pop(&mut self, capacity: usize) -> Option<Pages> {
        let list = self.idle.get_mut(&capacity)?;
        let pages = list.pop();
        if list.is_empty() {
            self.idle.remove(&capacity);
        }
        self.idle_bytes -= capacity;
        pages
    }

    /// Gives idle buffers back to the system until no more than `keep_bytes` remain, the largest first.
    fn shrink(&mut self, keep_bytes: usize) {
        while self.idle_bytes > keep_bytes {
            let largest = *self.idle.last_key_value().expect("idle bytes lie in lists").0;
            drop(self.pop(largest));
        }
    }
}

/// Whole pages for `len` bytes.
fn capacity_of(len: usize) -> usize {
    assert!(len > 0, "a buffer of no bytes");
    len.next_multiple_of(PAGE_BYTES)
}

/// A private mapping of its own, readable and writable.
///
/// Invariant: `start .. start + capacity` is mapped for exactly as long as this value lives, nobody else refers to
/// it, and every byte is initialised (anonymous memory is zeros, and only `u8`s are ever written).
struct Pages {
    start: NonNull<u8>,
    capacity: usize,
}

// SAFETY: `Pages` owns its mapping alone, as a Box<[u8]> owns its bytes; mappings belong to the process, not to a thread.
unsafe impl Send for Pages {}
// SAFETY: through a shared reference bytes are only read (`bytes`); writing takes `&mut self`.
unsafe impl Sync for Pages {}

impl Pages {
    fn map(capacity: usize, huge_pages: bool) -> Self {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a null address without MAP_FIXED lets the kernel choose a free place, so no existing mapping, hence
        // no Rust object, is touched. The result is ours alone.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), capacity, protection, flags) }
            .unwrap_or_else(|error| panic!("no memory for a buffer of {capacity} bytes: {error}"));
        if huge_pages && capacity >= HUGE_PAGE_BYTES {
            // SAFETY: the range is the mapping just made; MADV_HUGEPAGE changes how it is backed, not what it holds.
            // It is a hint: kernels without huge pages refuse it, and nothing is lost.
            let _ = unsafe { madvise(start, capacity, Advice::LinuxHugepage) };
        }
        Self { start: NonNull::new(start.cast()).expect("the kernel maps nothing at 0 unasked"), capacity }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: by the invariant the range is mapped, initialised, and lives at least as long as `self`; `capacity`
        // came from a successful mmap, so it is below isize::MAX; `&self` excludes a `&mut` to the same bytes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.capacity) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.capacity) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the range is exactly our mapping, and no reference outlives `self`, from which all were borrowed.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.capacity) };
        // The kernel may refuse to split an area when it has too many: then the pages stay, unused.
        debug_assert!(unmapped.is_ok(), "a buffer could not be unmapped");
    }
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
