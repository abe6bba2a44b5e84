//! Memory that holds code which was made at run time. What the code is, an instruction set says.
//!
//! Processors that must be told when code was written (x86 need not be) would have to be told here.
//!
//! Invariants: pages are written first and executed then, at no time both; nothing is written after that.

use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The environment variable that, set to anything, has no code made: for systems that end a process which tries to execute what it wrote.
const NO_CODE_VARIABLE: &str = "PANTILE_NO_CODE";

/// Pieces of code at once, in the whole process: each is a mapping, of which systems allow some 65,000, and up to 72 KiB. Whoever keeps more
/// programs than this, for many patterns of losses, has the others done without code.
const PIECES_MOST: usize = 2048;

static PIECES: AtomicUsize = AtomicUsize::new(0);

/// A piece of code.
pub(crate) struct Executable {
    start: NonNull<u8>,
    len: usize,
    /// Those among which it is counted.
    pieces: &'static AtomicUsize,
}

// SAFETY: the memory is ours, and nobody writes to it.
unsafe impl Send for Executable {}
// SAFETY: as above.
unsafe impl Sync for Executable {}

impl Executable {
    /// `None` if the system gives no memory that may be executed, there are [`PIECES_MOST`], or [`NO_CODE_VARIABLE`] is set, for which nothing is tried.
    pub(crate) fn new(code: &[u8]) -> Option<Executable> {
        static IS_UNWANTED: OnceLock<bool> = OnceLock::new();
        let is_set = || std::env::var_os(NO_CODE_VARIABLE).is_some_and(|value| !value.is_empty());
        match *IS_UNWANTED.get_or_init(is_set) {
            true => None,
            false => Executable::counted(code, &PIECES, PIECES_MOST),
        }
    }

    fn counted(code: &[u8], pieces: &'static AtomicUsize, most: usize) -> Option<Executable> {
        let take = |pieces: usize| (pieces < most).then_some(pieces + 1);
        pieces.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        let made = system::executable(code).map(|start| Executable { start, len: code.len(), pieces });
        if made.is_none() {
            pieces.fetch_sub(1, Ordering::Relaxed);
        }
        made
    }

    /// Where the code begins. It stays while `self` does.
    pub(crate) fn start(&self) -> *const u8 {
        self.start.as_ptr()
    }
}

impl std::fmt::Debug for Executable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Executable({} bytes)", self.len)
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        system::give_back(self.start, self.len);
        self.pieces.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod system {
    //! Declared here rather than through the libc crate: three functions whose C signatures POSIX fixes, and numbers of Linux on x86-64.

    use std::ffi::c_void;
    use std::ptr::NonNull;

    unsafe extern "C" {
        fn mmap(at: *mut c_void, len: usize, access: i32, flags: i32, file: i32, offset: i64) -> *mut c_void;
        fn mprotect(at: *mut c_void, len: usize, access: i32) -> i32;
        fn munmap(at: *mut c_void, len: usize) -> i32;
    }

    const READ: i32 = 1;
    const WRITE: i32 = 2;
    const EXECUTE: i32 = 4;
    const PRIVATE: i32 = 2;
    const ANONYMOUS: i32 = 32;

    /// Pages with this code.
    pub(super) fn executable(code: &[u8]) -> Option<NonNull<u8>> {
        // SAFETY: a new mapping, wherever the system puts it.
        let at = unsafe { mmap(std::ptr::null_mut(), code.len(), READ | WRITE, PRIVATE | ANONYMOUS, -1, 0) };
        // What failed has the last address there is.
        let start = NonNull::new(at.cast::<u8>()).filter(|start| start.addr().get() != usize::MAX)?;
        // SAFETY: the mapping has so many bytes, and is ours alone.
        unsafe { start.as_ptr().copy_from_nonoverlapping(code.as_ptr(), code.len()) };
        // SAFETY: the mapping is ours.
        if unsafe { mprotect(at, code.len(), READ | EXECUTE) } != 0 {
            give_back(start, code.len());
            return None;
        }
        Some(start)
    }

    /// Of what `executable` gave, with the same length, and nobody uses.
    pub(super) fn give_back(start: NonNull<u8>, len: usize) {
        // SAFETY: the mapping is ours. A system that has no room to note the gap keeps the pages; nobody can help that here.
        unsafe { munmap(start.as_ptr().cast(), len) };
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod system {
    //! How to ask this system is not known here.

    use std::ptr::NonNull;

    pub(super) fn executable(_code: &[u8]) -> Option<NonNull<u8>> {
        None
    }

    pub(super) fn give_back(_start: NonNull<u8>, _len: usize) {}
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn so_many_pieces_and_no_more() {
        static PIECES: AtomicUsize = AtomicUsize::new(0);
        let piece = || Executable::counted(&[0xc3], &PIECES, 3);
        let Some(first) = piece() else { return println!("this system gives none: left out") };
        let mut pieces = [piece(), piece()];
        assert!(pieces.iter().all(Option::is_some) && piece().is_none());
        drop(first);
        let again = piece();
        assert!(again.is_some() && piece().is_none());
        pieces[0] = None;
        assert!(piece().is_some());
    }
}
