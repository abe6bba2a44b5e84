//! The answer of a call: a status, a sentence, lists. No panic crosses into C here.

use pantile::code::{FileFault, Overspent};
use pantile::{CodeError, PlanError, RecoverError, StripeError};
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// `pantile_status`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PantileStatus {
    Ok = 0,
    NullPointer = 1,
    BadArgument = 2,
    Overlap = 3,
    BadCode = 4,
    TooMuchWork = 5,
    NotRecoverable = 6,
    TooSmall = 7,
    StudyOnly = 8,
    NothingToCheck = 9,
    Panic = 10,
    NotServed = 11,
    Refused = 12,
    EpochOver = 13,
    EpochLost = 14,
    ServerGone = 15,
    Io = 16,
    NotLocated = 17,
}

pub const MESSAGE_BYTES: usize = 1024;

/// `PANTILE_NONE`.
pub const NONE: usize = usize::MAX;

/// `pantile_error`.
#[repr(C)]
pub struct PantileError {
    pub status: PantileStatus,
    pub message: [c_char; MESSAGE_BYTES],
}

/// Why a call fails.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) status: PantileStatus,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(status: PantileStatus, message: impl Into<String>) -> Fault {
        Fault { status, message: message.into() }
    }

    pub(crate) fn bad_argument(message: impl Into<String>) -> Fault {
        Fault::new(PantileStatus::BadArgument, message)
    }
}

pub(crate) type Answer = Result<(), Fault>;

impl From<PlanError> for Fault {
    fn from(error: PlanError) -> Fault {
        let status = match error {
            PlanError::NotRecoverable(_) => PantileStatus::NotRecoverable,
            _ => PantileStatus::BadArgument,
        };
        Fault::new(status, error.to_string())
    }
}

impl From<StripeError> for Fault {
    fn from(error: StripeError) -> Fault {
        Fault::bad_argument(error.to_string())
    }
}

impl From<RecoverError> for Fault {
    fn from(error: RecoverError) -> Fault {
        match error {
            RecoverError::Plan(error) => error.into(),
            RecoverError::Stripe(error) => error.into(),
        }
    }
}

impl From<CodeError> for Fault {
    fn from(error: CodeError) -> Fault {
        match &error {
            // In the words of C: `steps` where the command has an option.
            CodeError::File {
                fault: FileFault::TooMuchWork(Overspent { what, allowed_steps, suffices_steps }),
                ..
            } => {
                let message = format!(
                    "code file: {what} takes more than the {allowed_steps} steps that are allowed; if you trust the \
                     text, pass {suffices_steps} as steps, which is all that it may take"
                );
                Fault::new(PantileStatus::TooMuchWork, message)
            }
            _ => Fault::new(PantileStatus::BadCode, error.to_string()),
        }
    }
}

/// Runs a call and returns its status, with a message in the caller's error if there is one.
pub(crate) fn answer(error: *mut PantileError, call: impl FnOnce() -> Answer) -> PantileStatus {
    let fault = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => Fault::new(PantileStatus::Ok, ""),
        Ok(Err(fault)) => fault,
        Err(panic) => {
            let what = panic.downcast_ref::<&str>().copied();
            let what = what.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            let what = format!("a fault of Pantile, please report it: {}", what.unwrap_or("a panic"));
            // A panic's payload may panic when it is dropped.
            std::mem::forget(panic);
            Fault::new(PantileStatus::Panic, what)
        }
    };
    if !error.is_null() && fault.status == PantileStatus::Ok {
        // SAFETY: the header: an error that is not NULL is the caller's, to be written. An empty
        // text is its zero alone.
        unsafe {
            (&raw mut (*error).status).write(PantileStatus::Ok);
            (&raw mut (*error).message).cast::<c_char>().write(0);
        }
    } else if !error.is_null() {
        let mut message = [0; MESSAGE_BYTES];
        write_text(&fault.message, &mut message);
        // SAFETY: the header: an error that is not NULL is the caller's, to be written.
        unsafe { error.write(PantileError { status: fault.status, message }) };
    }
    fault.status
}

/// Writes the whole characters that fit, and a zero after them.
fn write_text(text: &str, to: &mut [c_char]) {
    let most = to.len() - 1;
    let end = (0..=most.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    for (to, &byte) in to.iter_mut().zip(text.as_bytes()[..end].iter().chain([&0])) {
        *to = byte as c_char;
    }
}

/// Frees a handle.
///
/// # Safety
///
/// NULL, or a handle that was made by the library and is not used any more: the header.
pub(crate) unsafe fn free<T>(handle: *mut T) {
    if !handle.is_null() {
        // The message of a panicking destructor has no reader.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(unsafe { Box::from_raw(handle) })));
    }
}

fn null(what: &str) -> Fault {
    Fault::new(PantileStatus::NullPointer, format!("{what} is NULL; pass one"))
}

/// Returns the value behind a pointer, which must not be NULL.
///
/// # Safety
///
/// NULL, or valid for reads as long as the call lasts.
pub(crate) unsafe fn given<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Fault> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(what))
}

/// Where a result goes.
///
/// # Safety
///
/// NULL, or valid for writes of a `T`, which need not be initialised, as long as the call lasts.
pub(crate) unsafe fn put<T>(pointer: *mut T, what: &str, value: T) -> Answer {
    if pointer.is_null() {
        return Err(null(what));
    }
    // SAFETY: the caller's promise.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Returns `count` values behind a pointer, which must not be NULL.
///
/// # Safety
///
/// NULL, or valid for reads of `count` values as long as the call lasts.
pub(crate) unsafe fn list<'a, T>(pointer: *const T, count: usize, what: &str) -> Result<&'a [T], Fault> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(null(what));
    }
    if count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Fault::bad_argument(format!("{count} entries of {what} do not fit in memory")));
    }
    // SAFETY: the caller's promise, and not more bytes than a slice may have.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// As [`list`], to be written.
///
/// # Safety
///
/// NULL, or valid for reads and writes of `count` values as long as the call lasts, and used for
/// nothing else meanwhile.
pub(crate) unsafe fn list_to_write<'a, T>(
    pointer: *mut T,
    count: usize,
    what: &str,
) -> Result<&'a mut [T], Fault> {
    // SAFETY: the caller's promise.
    let read = unsafe { list(pointer.cast_const(), count, what) }?;
    if read.is_empty() {
        return Ok(&mut []);
    }
    // SAFETY: `list` has checked pointer and length; exclusive by the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer, count) })
}

/// Text that ends with a zero.
///
/// # Safety
///
/// NULL, or a text that ends with a zero byte.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Fault> {
    if pointer.is_null() {
        return Err(null(what));
    }
    // SAFETY: the caller's promise.
    utf8(unsafe { CStr::from_ptr(pointer) }.to_bytes(), what)
}

/// A path that ends with a zero.
///
/// # Safety
///
/// As [`text`].
pub(crate) unsafe fn path<'a>(pointer: *const c_char, what: &str) -> Result<&'a Path, Fault> {
    if pointer.is_null() {
        return Err(null(what));
    }
    // SAFETY: the caller's promise.
    Ok(Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(pointer) }.to_bytes())))
}

pub(crate) fn utf8(bytes: &[u8], what: impl Display) -> Result<&str, Fault> {
    std::str::from_utf8(bytes).map_err(|error| {
        Fault::new(PantileStatus::BadCode, format!("{what} is not UTF-8: {error}; pass UTF-8"))
    })
}

/// Where the caller wants a list.
pub(crate) struct List<T> {
    pub(crate) to: *mut T,
    pub(crate) room: usize,
    pub(crate) need: *mut usize,
}

impl<T> List<T> {
    /// Gives the list, or says how much room it needs.
    ///
    /// # Safety
    ///
    /// `to` is NULL or valid for writes of `room` values; `need` is NULL or valid for a write.
    pub(crate) unsafe fn give(&self, values: impl ExactSizeIterator<Item = T>, what: &str) -> Answer {
        let need = values.len();
        // SAFETY: the caller's promise.
        unsafe { put(self.need, "need", need) }?;
        if need > self.room {
            let (have, message) = (self.room, "ask for the number with room 0, then give that much");
            return Err(Fault::new(
                PantileStatus::TooSmall,
                format!("there are {need} {what}, and room for {have}; {message}"),
            ));
        }
        if need > 0 && self.to.is_null() {
            return Err(null(what));
        }
        for (i, value) in values.enumerate().take(need) {
            // SAFETY: i < need <= room, and the caller's promise.
            unsafe { self.to.add(i).write(value) };
        }
        Ok(())
    }
}

impl List<c_char> {
    /// Gives a text with its zero.
    ///
    /// # Safety
    ///
    /// As [`List::give`].
    pub(crate) unsafe fn give_text(&self, text: &str) -> Answer {
        let bytes: Vec<c_char> = text.bytes().chain([0]).map(|byte| byte as c_char).collect();
        // SAFETY: the caller's promise.
        unsafe { self.give(bytes.into_iter(), "bytes") }
    }
}

/// How many bytes of a structure a caller of another version has.
///
/// Errors: fewer than any version had.
pub(crate) fn check_struct_bytes(have: usize, least: usize, what: &str) -> Answer {
    match have >= least {
        true => Ok(()),
        false => Err(Fault::bad_argument(format!(
            "struct_bytes of {what} is {have}, and at least {least} is needed; set it to sizeof({what})"
        ))),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn pantile_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

#[unsafe(no_mangle)]
pub extern "C" fn pantile_status_name(status: c_int) -> *const c_char {
    let name = match status {
        0 => c"PANTILE_OK",
        1 => c"PANTILE_NULL_POINTER",
        2 => c"PANTILE_BAD_ARGUMENT",
        3 => c"PANTILE_OVERLAP",
        4 => c"PANTILE_BAD_CODE",
        5 => c"PANTILE_TOO_MUCH_WORK",
        6 => c"PANTILE_NOT_RECOVERABLE",
        7 => c"PANTILE_TOO_SMALL",
        8 => c"PANTILE_STUDY_ONLY",
        9 => c"PANTILE_NOTHING_TO_CHECK",
        10 => c"PANTILE_PANIC",
        11 => c"PANTILE_NOT_SERVED",
        12 => c"PANTILE_REFUSED",
        13 => c"PANTILE_EPOCH_OVER",
        14 => c"PANTILE_EPOCH_LOST",
        15 => c"PANTILE_SERVER_GONE",
        16 => c"PANTILE_IO",
        17 => c"PANTILE_NOT_LOCATED",
        _ => c"unknown",
    };
    name.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(call: impl FnOnce() -> Answer) -> (PantileStatus, String) {
        let mut error = PantileError { status: PantileStatus::Ok, message: [1; MESSAGE_BYTES] };
        let status = answer(&mut error, call);
        assert_eq!(status, error.status);
        let message = unsafe { CStr::from_ptr(error.message.as_ptr()) };
        (status, message.to_str().unwrap().to_string())
    }

    #[test]
    fn a_panic_becomes_a_status_and_goes_no_further() {
        let (status, message) = asked(|| panic!("number {}", 7));
        assert_eq!(status, PantileStatus::Panic);
        assert!(message.ends_with("number 7"), "{message}");
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("again");
            }
        }
        assert_eq!(asked(|| std::panic::panic_any(Bomb)).0, PantileStatus::Panic);
        assert_eq!(answer(std::ptr::null_mut(), || panic!("unheard")), PantileStatus::Panic);
    }

    #[test]
    fn a_message_that_is_too_long_is_cut_at_a_character() {
        for start in 0..3 {
            let long = "x".repeat(start) + &"ß".repeat(1000);
            let (status, message) = asked(|| Err(Fault::bad_argument(long.clone())));
            assert_eq!(status, PantileStatus::BadArgument);
            assert!(message.len() >= MESSAGE_BYTES - 2 && long.starts_with(&message), "{}", message.len());
        }
        assert_eq!(asked(|| Ok(())), (PantileStatus::Ok, String::new()));
    }
}
