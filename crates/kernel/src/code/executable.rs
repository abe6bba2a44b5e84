//! Executable memory for code that is made at run time. The architecture provides the code.
//!
//! Some processors must flush the instruction cache after code was written. x86 does not need that;
//! other architectures would do it here.
//!
//! Invariants: a page is first written and then executed, never both; it is not written after that.

use std::io::ErrorKind;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The environment variable that, set to any value, disables run-time code: for systems that kill a
/// process that tries to execute written memory.
const NO_CODE_VARIABLE: &str = "PANTILE_NO_CODE";

/// The most pieces of code at once in the process: each takes up to 72 KiB, or keeps a block.
/// Further programs, as for many patterns of losses, run without code.
const PIECES_MOST: usize = 2048;

static PIECES: AtomicUsize = AtomicUsize::new(0);

/// True once the system has refused to execute written memory.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// The bytes of a block, which is requested from the system for several pieces. A piece with a
/// separate mapping takes 9 us; in a block it takes 2 us (Zen 3, in a virtual machine).
const BLOCK_BYTES: usize = 64 * 1024;

/// The size of the system's pages, each of which can be either written or executed.
const PAGE_BYTES: usize = 4096;

/// The block from which the next piece is taken.
static BLOCK: Mutex<Option<Open>> = Mutex::new(None);

/// A mapping, which is unmapped when no piece is in it.
struct Block {
    start: NonNull<u8>,
    len: usize,
}

/// A block that still has free pages.
struct Open {
    block: Arc<Block>,
    /// The bytes of the block that are in use.
    taken: usize,
}

/// A piece of code.
pub(crate) struct Executable {
    start: NonNull<u8>,
    len: usize,
    /// Keeps the block alive.
    _block: Arc<Block>,
    /// The counter that includes this piece.
    pieces: &'static AtomicUsize,
}

// SAFETY: the memory is ours, and is not written once a piece is there.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}
// SAFETY: as above.
unsafe impl Send for Executable {}
// SAFETY: as above.
unsafe impl Sync for Executable {}

impl Block {
    fn new(len: usize) -> Option<Arc<Block>> {
        system::map(len).map(|start| Arc::new(Block { start, len }))
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        system::give_back(self.start, self.len);
    }
}

fn is_unwanted() -> bool {
    static IS_UNWANTED: OnceLock<bool> = OnceLock::new();
    *IS_UNWANTED.get_or_init(|| std::env::var_os(NO_CODE_VARIABLE).is_some_and(|value| !value.is_empty()))
}

/// Returns pages of a block that no other piece uses.
fn pages(len: usize) -> Option<(Arc<Block>, NonNull<u8>)> {
    if len > BLOCK_BYTES / 4 {
        let block = Block::new(len)?;
        let start = block.start;
        return Some((block, start));
    }
    // A thread that panics here leaves the block valid.
    let mut open = BLOCK.lock().unwrap_or_else(PoisonError::into_inner);
    if open.as_ref().is_none_or(|open| open.taken + len > BLOCK_BYTES) {
        *open = Some(Open { block: Block::new(BLOCK_BYTES)?, taken: 0 });
    }
    let Open { block, taken } = open.as_mut()?;
    // SAFETY: the block has `len` bytes from there on.
    let start = unsafe { block.start.add(*taken) };
    *taken += len;
    Some((block.clone(), start))
}

impl Executable {
    /// True if code will probably get memory. Otherwise callers need not plan code.
    pub(crate) fn is_possible() -> bool {
        !is_unwanted() && !IS_REFUSED.load(Ordering::Relaxed) && PIECES.load(Ordering::Relaxed) < PIECES_MOST
    }

    /// Returns `None` if the system gives no executable memory, if there are [`PIECES_MOST`]
    /// pieces, or if [`NO_CODE_VARIABLE`] is set; in the last case the system is not asked.
    pub(crate) fn new(code: &[u8]) -> Option<Executable> {
        if is_unwanted() {
            return None;
        }
        Executable::counted(code, &PIECES, PIECES_MOST)
    }

    fn counted(code: &[u8], pieces: &'static AtomicUsize, most: usize) -> Option<Executable> {
        let take = |pieces: usize| (pieces < most).then_some(pieces + 1);
        pieces.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        let made = Executable::placed(code, pieces);
        if made.is_none() {
            pieces.fetch_sub(1, Ordering::Relaxed);
        }
        made
    }

    fn placed(code: &[u8], pieces: &'static AtomicUsize) -> Option<Executable> {
        let len = code.len().max(1).checked_next_multiple_of(PAGE_BYTES)?;
        let (block, start) = pages(len)?;
        // SAFETY: the pages have this number of bytes, can still be written, and are ours alone.
        unsafe { start.as_ptr().copy_from_nonoverlapping(code.as_ptr(), code.len()) };
        // From here on the pages are not written. If the system refuses, they are not used.
        if let Err(error) = system::let_execute(start, len) {
            // If the reason is a lack of memory, a later request may succeed.
            let is_refused = matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported);
            IS_REFUSED.fetch_or(is_refused, Ordering::Relaxed);
            return None;
        }
        Some(Executable { start, len: code.len(), _block: block, pieces })
    }

    /// Returns the address of the code, which is valid while `self` lives.
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
        self.pieces.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod system {
    //! Declared here rather than through the libc crate: three functions whose C signatures POSIX
    //! fixes, and constants of Linux on x86-64.

    use std::ffi::c_void;
    use std::io;
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
    const ANONYMOUS: i32 = 0x20;
    /// Allocates all pages at once, not one by one at the first write.
    const POPULATE: i32 = 0x8000;

    /// Maps writable pages of zeros.
    pub(super) fn map(len: usize) -> Option<NonNull<u8>> {
        let flags = PRIVATE | ANONYMOUS | POPULATE;
        // SAFETY: a new mapping, wherever the system puts it.
        let at = unsafe { mmap(std::ptr::null_mut(), len, READ | WRITE, flags, -1, 0) };
        // A failed mapping has the last address.
        NonNull::new(at.cast::<u8>()).filter(|start| start.addr().get() != usize::MAX)
    }

    /// Makes whole pages executable and no longer writable. Errors: the system does not allow that.
    pub(super) fn let_execute(start: NonNull<u8>, len: usize) -> io::Result<()> {
        // SAFETY: the pages are ours, and hold only code.
        match unsafe { mprotect(start.as_ptr().cast(), len, READ | EXECUTE) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Unmaps pages that `map` returned, with the same length, which must not be in use.
    pub(super) fn give_back(start: NonNull<u8>, len: usize) {
        // SAFETY: the mapping is ours. If the system has no memory to record the gap, the pages
        // stay mapped; nothing can be done.
        unsafe { munmap(start.as_ptr().cast(), len) };
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod system {
    //! This system's calls for executable memory are not known here.

    use std::io::{self, ErrorKind};
    use std::ptr::NonNull;

    pub(super) fn map(_len: usize) -> Option<NonNull<u8>> {
        None
    }

    pub(super) fn let_execute(_start: NonNull<u8>, _len: usize) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    pub(super) fn give_back(_start: NonNull<u8>, _len: usize) {}
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn pieces_are_apart_and_stay_while_others_come_and_go() {
        static PIECES: AtomicUsize = AtomicUsize::new(0);
        // The instruction mov eax, .., and bytes that are never reached.
        let code = |number: u32, len: usize| {
            let mut code = [&[0xb8][..], &number.to_le_bytes(), &[0xc3]].concat();
            code.resize(code.len() + len, 0xcc);
            code
        };
        let said = |piece: &Executable| {
            // SAFETY: the code is a function that gives a number.
            let function =
                unsafe { std::mem::transmute::<*const u8, extern "sysv64" fn() -> u32>(piece.start()) };
            function()
        };
        let mut pieces: Vec<(u32, Executable)> = Vec::new();
        for number in 0..200 {
            let len = [0, 4090, 4091, 9000, BLOCK_BYTES, 3 * BLOCK_BYTES][number as usize % 6];
            let Some(piece) = Executable::counted(&code(number, len), &PIECES, 1000) else {
                return println!("this system gives none: left out");
            };
            pieces.push((number, piece));
            if number % 3 == 0 {
                pieces.remove(number as usize / 5 % pieces.len());
            }
            assert!(pieces.iter().all(|(number, piece)| said(piece) == *number));
        }
        assert_eq!(PIECES.load(Ordering::Relaxed), pieces.len());
        let spans = pieces.iter().map(|(_, piece)| (piece.start().addr(), piece.len));
        let mut spans: Vec<(usize, usize)> = spans.collect();
        spans.sort_unstable();
        assert!(spans.is_sorted_by(|a, b| a.0 + a.1 <= b.0), "no two share a page");
    }

    #[test]
    fn pieces_of_code_are_limited() {
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
