//! Buffers of one length, laid out so that a kernel can read many of them at once.
//!
//! Streams whose addresses are equal modulo 4 KiB compete for the same set of the first-level
//! cache: 16 streams at page boundaries halve the speed of every kernel measured. The pitch here is
//! an odd multiple of 256 bytes, so 16 consecutive buffers start at 16 different places modulo 4
//! KiB.
//!
//! Invariants: `pitch >= len`, and `pitch % 512 == 256`. Buffer i is the `len` bytes from offset
//! `i * pitch` of one allocation, which is initialised as a whole. Buffer 0 starts at a page, every
//! buffer at a cache line.

use std::alloc::{self, Layout};
use std::ptr::NonNull;

/// The alignment of buffer 0.
const PAGE_BYTES: usize = 4096;

/// The alignment of a large arena, which requests huge pages: ten or more streams in small pages
/// exhaust the TLB.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Equal-length buffers, zeroed, page-aligned as a whole and staggered among themselves.
pub struct Arena {
    base: NonNull<u8>,
    layout: Layout,
    count: usize,
    len: usize,
    pitch: usize,
}

// SAFETY: the arena owns its allocation; shared access only reads it and exclusive access needs
// `&mut`.
unsafe impl Send for Arena {}
// SAFETY: as above; `&Arena` gives out `&[u8]` only.
unsafe impl Sync for Arena {}

impl Arena {
    /// Allocates `buffers` zeroed buffers of `len` bytes.
    ///
    /// Panics if the arena does not fit the address space; aborts through the allocator's hook if
    /// there is no memory, as a `Vec` does.
    pub fn new(buffers: usize, len: usize) -> Arena {
        let pitch = pitch(len).expect("a buffer of an arena fits the address space");
        let size = buffers.checked_mul(pitch).expect("an arena fits the address space").max(1);
        let align = if size >= HUGE_PAGE_BYTES { HUGE_PAGE_BYTES } else { PAGE_BYTES };
        let layout = Layout::from_size_align(size, align).expect("an arena fits the address space");
        // SAFETY: the size is at least 1.
        let base = unsafe { alloc::alloc(layout) };
        let Some(base) = NonNull::new(base) else { alloc::handle_alloc_error(layout) };
        if align == HUGE_PAGE_BYTES {
            advise_huge_pages(base, size);
        }
        // The hint must come before the first access, so `alloc_zeroed` is not used.
        // SAFETY: the allocation is `size` bytes long, and ours alone.
        unsafe { base.write_bytes(0, size) };
        Arena { base, layout, count: buffers, len, pitch }
    }

    /// The length of every buffer, in bytes.
    #[allow(clippy::len_without_is_empty, reason = "the length of a buffer, not of a collection")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The number of buffers.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns buffer `i`. Panics if there is none.
    pub fn get(&self, i: usize) -> &[u8] {
        // SAFETY: `start` checks i, so the range lies in the initialised allocation; it is borrowed
        // shared.
        unsafe { std::slice::from_raw_parts(self.start(i), self.len) }
    }

    /// Returns buffer `i`, writable. Panics if there is none.
    pub fn get_mut(&mut self, i: usize) -> &mut [u8] {
        // SAFETY: as in `get`, and the whole arena is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start(i), self.len) }
    }

    /// Returns every buffer, ascending.
    pub fn all(&self) -> Vec<&[u8]> {
        (0..self.count).map(|i| self.get(i)).collect()
    }

    /// Returns every buffer, ascending and writable.
    pub fn all_mut(&mut self) -> Vec<&mut [u8]> {
        let indices: Vec<usize> = (0..self.count).collect();
        self.split(&[], &indices).1
    }

    /// Appends the first `len` bytes of the first `count` buffers, writable, to a list.
    ///
    /// For callers that reuse the list. Panics if there are fewer buffers or bytes.
    pub fn heads_mut<'a>(&'a mut self, count: usize, len: usize, into: &mut Vec<&'a mut [u8]>) {
        assert!(count <= self.count && len <= self.len, "{count} buffers of {len} bytes");
        into.extend((0..count).map(|i| {
            // SAFETY: i < count and len <= pitch, so each range is initialised memory of ours, no
            // two overlap, and the whole arena is borrowed exclusively for as long.
            unsafe { std::slice::from_raw_parts_mut(self.start(i), len) }
        }));
    }

    /// Returns disjoint shared and mutable views in one borrow, in the order of the two lists.
    ///
    /// Panics if an index is out of range, is written twice, or is both read and written. Reading
    /// one buffer twice is allowed.
    pub fn split(&mut self, read: &[usize], write: &[usize]) -> (Vec<&[u8]>, Vec<&mut [u8]>) {
        let mut written = vec![false; self.count];
        for &i in write {
            assert!(!std::mem::replace(&mut written[i], true), "buffer {i} is to be written twice");
        }
        for &i in read {
            assert!(!written[i], "buffer {i} is to be read and written");
        }
        // SAFETY: every index is below `count` (else the lines above panicked), so each range is
        // initialised memory of ours. Ranges of different indices are disjoint because pitch >=
        // len. No index is in `write` twice or in both lists, so no mutable view overlaps another
        // view; `&mut self` keeps all others out.
        let shared =
            read.iter().map(|&i| unsafe { std::slice::from_raw_parts(self.start(i), self.len) }).collect();
        let exclusive =
            // SAFETY: see above.
            write.iter().map(|&i| unsafe { std::slice::from_raw_parts_mut(self.start(i), self.len) }).collect();
        (shared, exclusive)
    }

    fn start(&self, i: usize) -> *mut u8 {
        assert!(i < self.count, "buffer {i} of an arena of {}", self.count);
        // SAFETY: i < count, and the allocation is count * pitch bytes long.
        unsafe { self.base.as_ptr().add(i * self.pitch) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: `base` came from `alloc` with this layout and is freed once.
        unsafe { alloc::dealloc(self.base.as_ptr(), self.layout) };
    }
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arena").field("count", &self.count).field("len", &self.len).finish_non_exhaustive()
    }
}

/// Returns the least pitch >= len that is an odd multiple of 256.
fn pitch(len: usize) -> Option<usize> {
    len.checked_add(256)?.checked_next_multiple_of(512).map(|above| above - 256)
}

#[cfg(all(target_os = "linux", not(miri)))]
fn advise_huge_pages(base: NonNull<u8>, size: usize) {
    // Declared here rather than through the libc crate: one function whose C signature POSIX-like
    // systems have kept for decades, in the C library that std links on this target in any case.
    unsafe extern "C" {
        fn madvise(address: *mut std::ffi::c_void, length: usize, advice: i32) -> i32;
    }
    const MADV_HUGEPAGE: i32 = 14;
    // Only a hint: a system without huge pages refuses it, and only the speed depends on it.
    // SAFETY: the range is memory of ours, page-aligned, and the advice never changes its contents.
    unsafe { madvise(base.as_ptr().cast(), size, MADV_HUGEPAGE) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn advise_huge_pages(_base: NonNull<u8>, _size: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pitch_holds_the_buffer_and_staggers_it() {
        for len in (0..2000).chain([4096, 65536, 65537, 1 << 20]) {
            let pitch = pitch(len).unwrap();
            assert!(pitch >= len && pitch < len + 512 && pitch % 512 == 256, "{len} -> {pitch}");
        }
        assert_eq!(pitch(usize::MAX), None);
    }

    #[test]
    fn sixteen_page_sized_buffers_start_at_sixteen_places_of_a_page() {
        let arena = Arena::new(16, 4096);
        let mut places: Vec<usize> = arena.all().iter().map(|b| b.as_ptr().addr() % 4096).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 16);
        assert!(places.iter().all(|place| place % 64 == 0));
        assert_eq!(arena.get(0).as_ptr().addr() % 4096, 0);
    }

    #[test]
    fn buffers_are_zeroed_and_hold_what_was_written_to_each() {
        for (count, len) in [(0, 10), (3, 0), (5, 1), (7, 255), (4, 256), (3, 257)] {
            let mut arena = Arena::new(count, len);
            assert_eq!((arena.count(), arena.len()), (count, len));
            assert!(arena.all().iter().all(|b| b.len() == len && b.iter().all(|&byte| byte == 0)));
            for i in 0..count {
                arena.get_mut(i).fill(i as u8 + 1);
            }
            for (i, buffer) in arena.all_mut().into_iter().enumerate() {
                assert!(buffer.iter().all(|&byte| byte == i as u8 + 1));
                buffer.fill(100 + i as u8);
            }
            for i in 0..count {
                assert!(arena.get(i).iter().all(|&byte| byte == 100 + i as u8));
            }
        }
    }

    #[test]
    fn a_large_arena_starts_a_huge_page() {
        if cfg!(miri) {
            return; // Zeroing megabytes takes Miri minutes, and this path differs only by a no-op.
        }
        let arena = Arena::new(3, 1 << 20);
        assert_eq!(arena.get(0).as_ptr().addr() % HUGE_PAGE_BYTES, 0);
        assert!(arena.all().iter().all(|b| b.iter().all(|&byte| byte == 0)));
    }

    #[test]
    fn a_split_gives_the_buffers_in_the_order_asked() {
        let mut arena = Arena::new(6, 33);
        for i in 0..6 {
            arena.get_mut(i).fill(i as u8);
        }
        let (read, mut write) = arena.split(&[4, 0, 4], &[5, 1]);
        assert_eq!((read[0][32], read[1][32], read[2][0]), (4, 0, 4));
        assert_eq!((write[0][0], write[1][0]), (5, 1));
        write[0].copy_from_slice(read[0]);
        assert_eq!(arena.get(5), [4; 33]);
    }

    #[test]
    #[should_panic(expected = "read and written")]
    fn a_split_refuses_to_read_what_it_writes() {
        Arena::new(3, 8).split(&[0, 1], &[1]);
    }

    #[test]
    #[should_panic(expected = "written twice")]
    fn a_split_refuses_to_write_twice() {
        Arena::new(3, 8).split(&[], &[2, 2]);
    }

    #[test]
    #[should_panic]
    fn a_split_refuses_an_index_past_the_end() {
        Arena::new(3, 8).split(&[3], &[]);
    }
}
