//! libnbd, loaded when the first member on a server is opened.
//!
//! The library is LGPL and loaded at run time, so a program that opens only files does not need it.
//! Only its asynchronous functions are called: none of them waits, except for the resolution of a
//! host name.
//!
//! Invariant: libnbd reads and writes the memory of a command until it says that the command has
//! completed, or until the connection is dropped.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The name of the library; its interface has been stable since 2019.
const LIBRARY: &CStr = c"libnbd.so.0";

/// Instructions where the library is missing.
const MISSING: &str = "a member on a server needs libnbd, which is not installed: apt-get install libnbd0 \
                       (Fedora: dnf install libnbd)";

/// Directions of the socket that libnbd waits for.
const READS: c_uint = 1;
const WRITES: c_uint = 2;

/// Kinds of block lengths that libnbd reports: the minimum, and the maximum of one request.
const LIMITS: [c_int; 2] = [0, 2];

/// The flag of a request for zeros that keeps their space allocated.
const NO_HOLE: u32 = 2;

/// ENOTCONN.
pub(super) const NOT_CONNECTED: i32 = 107;

#[repr(C)]
struct Handle {
    _opaque: [u8; 0],
}

/// An empty completion callback: completions are polled.
#[repr(C)]
struct NoCallback {
    callback: *const c_void,
    user_data: *mut c_void,
    free: *const c_void,
}

const NO_CALLBACK: NoCallback =
    NoCallback { callback: std::ptr::null(), user_data: std::ptr::null_mut(), free: std::ptr::null() };

macro_rules! functions {
    ($($name:ident = $symbol:literal: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of libnbd, by the declarations of its header.
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            fn load() -> Option<Functions> {
                // SAFETY: the name ends with a zero; what the library does when it is loaded is
                // nothing but setting itself up.
                let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
                if library.is_null() {
                    return None;
                }
                Some(Functions { $($name: {
                    // SAFETY: the library is never closed, and the name ends with a zero.
                    let found = unsafe { libc::dlsym(library, $symbol.as_ptr()) };
                    if found.is_null() {
                        return None;
                    }
                    // SAFETY: a function of this name has this declaration in libnbd.h.
                    unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(found)
                    }
                },)* })
            }
        }
    };
}

functions! {
    create = c"nbd_create": fn() -> *mut Handle;
    close = c"nbd_close": fn(*mut Handle);
    get_error = c"nbd_get_error": fn() -> *const c_char;
    get_errno = c"nbd_get_errno": fn() -> c_int;
    set_uri_allow_local_file = c"nbd_set_uri_allow_local_file": fn(*mut Handle, bool) -> c_int;
    aio_connect_uri = c"nbd_aio_connect_uri": fn(*mut Handle, *const c_char) -> c_int;
    aio_disconnect = c"nbd_aio_disconnect": fn(*mut Handle, u32) -> c_int;
    aio_get_fd = c"nbd_aio_get_fd": fn(*mut Handle) -> c_int;
    aio_get_direction = c"nbd_aio_get_direction": fn(*mut Handle) -> c_uint;
    aio_notify_read = c"nbd_aio_notify_read": fn(*mut Handle) -> c_int;
    aio_notify_write = c"nbd_aio_notify_write": fn(*mut Handle) -> c_int;
    aio_is_ready = c"nbd_aio_is_ready": fn(*mut Handle) -> c_int;
    aio_is_dead = c"nbd_aio_is_dead": fn(*mut Handle) -> c_int;
    aio_is_closed = c"nbd_aio_is_closed": fn(*mut Handle) -> c_int;
    aio_pread = c"nbd_aio_pread": fn(*mut Handle, *mut c_void, usize, u64, NoCallback, u32) -> i64;
    aio_pwrite = c"nbd_aio_pwrite": fn(*mut Handle, *const c_void, usize, u64, NoCallback, u32) -> i64;
    aio_flush = c"nbd_aio_flush": fn(*mut Handle, NoCallback, u32) -> i64;
    aio_trim = c"nbd_aio_trim": fn(*mut Handle, u64, u64, NoCallback, u32) -> i64;
    aio_zero = c"nbd_aio_zero": fn(*mut Handle, u64, u64, NoCallback, u32) -> i64;
    aio_peek_command_completed = c"nbd_aio_peek_command_completed": fn(*mut Handle) -> i64;
    aio_command_completed = c"nbd_aio_command_completed": fn(*mut Handle, u64) -> c_int;
    is_read_only = c"nbd_is_read_only": fn(*mut Handle) -> c_int;
    can_flush = c"nbd_can_flush": fn(*mut Handle) -> c_int;
    can_fua = c"nbd_can_fua": fn(*mut Handle) -> c_int;
    can_trim = c"nbd_can_trim": fn(*mut Handle) -> c_int;
    can_zero = c"nbd_can_zero": fn(*mut Handle) -> c_int;
    get_size = c"nbd_get_size": fn(*mut Handle) -> i64;
    get_block_size = c"nbd_get_block_size": fn(*mut Handle, c_int) -> i64;
}

/// Returns the library; if it is not installed, the next call tries again.
fn functions() -> Result<&'static Functions, String> {
    static LOADED: OnceLock<Functions> = OnceLock::new();
    match LOADED.get() {
        Some(functions) => Ok(functions),
        None => Functions::load().map(|loaded| LOADED.get_or_init(|| loaded)).ok_or_else(|| MISSING.into()),
    }
}

/// The terms of a server for an export.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) len_bytes: u64,
    /// The shortest block that can be read or written; 0 or 1: any length.
    pub(super) block_len_bytes: u64,
    /// The longest read or write; 0: not stated.
    pub(super) payload_bytes_max: u64,
    pub(super) is_read_only: bool,
    pub(super) can_flush: bool,
    pub(super) can_fua: bool,
    pub(super) can_trim: bool,
    pub(super) can_zero: bool,
}

/// A request to a server, with the memory that is filled or written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Request {
    Read { offset_bytes: u64, into: *mut u8, len: usize },
    Write { offset_bytes: u64, from: *const u8, len: usize },
    Flush,
    Discard { offset_bytes: u64, len_bytes: u64 },
    Zero { offset_bytes: u64, len_bytes: u64 },
}

/// A connection to an export. Dropping it closes it.
pub(super) struct Connection {
    functions: &'static Functions,
    /// Not null, and of this connection alone.
    handle: *mut Handle,
}

// SAFETY: libnbd lets any thread use a handle, one at a time; methods that change it take it
// exclusively.
unsafe impl Send for Connection {}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: the handle is ours, and nothing uses it afterwards.
        unsafe { (self.functions.close)(self.handle) }
    }
}

impl Connection {
    /// Connects, negotiates TLS and opens the export, all before a deadline.
    ///
    /// Errors: a text about the cause.
    pub(super) fn open(uri: &CStr, until: Instant) -> Result<Connection, String> {
        let functions = functions()?;
        // SAFETY: it takes nothing.
        let handle = unsafe { (functions.create)() };
        if handle.is_null() {
            return Err(said(functions));
        }
        let mut connection = Connection { functions, handle };
        // SAFETY: the handle lives; the text ends with a zero and is copied.
        let begun = unsafe {
            (functions.set_uri_allow_local_file)(handle, true);
            (functions.aio_connect_uri)(handle, uri.as_ptr())
        };
        if begun < 0 {
            return Err(said(functions));
        }
        loop {
            // SAFETY: the handle lives.
            if unsafe { (functions.aio_is_ready)(handle) } > 0 {
                return Ok(connection);
            }
            if connection.is_over() {
                return Err(said(functions));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err("the server does not answer".into());
            }
            connection.wait(None, left);
        }
    }

    /// Returns the terms that the server has offered, as libnbd reports them.
    pub(super) fn terms(&self) -> Result<Terms, String> {
        let (nbd, handle) = (self.functions, self.handle);
        // SAFETY: the handle lives, in all of these.
        let is = |ask: unsafe extern "C" fn(*mut Handle) -> c_int| unsafe { ask(handle) } > 0;
        let limit = |kind| u64::try_from(unsafe { (nbd.get_block_size)(handle, kind) }).unwrap_or(0);
        let len_bytes = unsafe { (nbd.get_size)(handle) };
        Ok(Terms {
            len_bytes: u64::try_from(len_bytes).map_err(|_| said(nbd))?,
            block_len_bytes: limit(LIMITS[0]),
            payload_bytes_max: limit(LIMITS[1]),
            is_read_only: is(nbd.is_read_only),
            can_flush: is(nbd.can_flush),
            can_fua: is(nbd.can_fua),
            can_trim: is(nbd.can_trim),
            can_zero: is(nbd.can_zero),
        })
    }

    /// True if the connection has ended.
    pub(super) fn is_over(&self) -> bool {
        // SAFETY: the handle lives.
        unsafe {
            (self.functions.aio_is_dead)(self.handle) > 0 || (self.functions.aio_is_closed)(self.handle) > 0
        }
    }

    /// Starts a request, and returns its name; the error is a number of the system.
    ///
    /// # Safety
    ///
    /// The memory of the request is there, and nothing else uses it, until
    /// [`completed`](Self::completed) has given its name or the connection is dropped.
    pub(super) unsafe fn begin(&mut self, request: Request) -> Result<u64, i32> {
        let (nbd, handle) = (self.functions, self.handle);
        // SAFETY: the handle lives, and the caller keeps the memory.
        let name = unsafe {
            match request {
                Request::Read { offset_bytes, into, len } => {
                    (nbd.aio_pread)(handle, into.cast(), len, offset_bytes, NO_CALLBACK, 0)
                }
                Request::Write { offset_bytes, from, len } => {
                    (nbd.aio_pwrite)(handle, from.cast(), len, offset_bytes, NO_CALLBACK, 0)
                }
                Request::Flush => (nbd.aio_flush)(handle, NO_CALLBACK, 0),
                Request::Discard { offset_bytes, len_bytes } => {
                    (nbd.aio_trim)(handle, len_bytes, offset_bytes, NO_CALLBACK, 0)
                }
                Request::Zero { offset_bytes, len_bytes } => {
                    (nbd.aio_zero)(handle, len_bytes, offset_bytes, NO_CALLBACK, NO_HOLE)
                }
            }
        };
        u64::try_from(name).map_err(|_| self.errno())
    }

    /// Takes a request that has ended: its name, and the number of the server's error.
    pub(super) fn completed(&mut self) -> Option<(u64, Result<(), i32>)> {
        // SAFETY: the handle lives.
        let name = unsafe { (self.functions.aio_peek_command_completed)(self.handle) };
        let name = u64::try_from(name).ok().filter(|&name| name > 0)?;
        // SAFETY: the handle lives, and libnbd gave the name.
        let ended = unsafe { (self.functions.aio_command_completed)(self.handle, name) };
        Some((name, if ended < 0 { Err(self.errno()) } else { Ok(()) }))
    }

    /// Tells the server that no further request follows.
    pub(super) fn disconnect(&mut self) {
        // SAFETY: the handle lives.
        unsafe { (self.functions.aio_disconnect)(self.handle, 0) };
    }

    /// Waits until the socket is ready or the bell rings, and lets libnbd go on.
    pub(super) fn wait(&mut self, bell: Option<BorrowedFd<'_>>, at_most: Duration) {
        let (nbd, handle) = (self.functions, self.handle);
        // SAFETY: the handle lives.
        let (number, direction) = unsafe { ((nbd.aio_get_fd)(handle), (nbd.aio_get_direction)(handle)) };
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, direction & READS != 0);
        wanted.set(PollFlags::OUT, direction & WRITES != 0);
        let mut waits = Vec::with_capacity(2);
        if number >= 0 {
            // SAFETY: the socket is open as long as nothing lets libnbd go on.
            let socket = unsafe { BorrowedFd::borrow_raw(number) };
            waits.push(PollFd::from_borrowed_fd(socket, wanted));
        }
        waits.extend(bell.map(|bell| PollFd::from_borrowed_fd(bell, PollFlags::IN)));
        let time = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: i64::from(at_most.subsec_nanos()) };
        if poll(&mut waits, Some(&time)).is_err() || number < 0 {
            return;
        }
        let found = waits[0].revents();
        let has_ended = found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
        // SAFETY: the handle lives. What goes wrong shows in its state.
        unsafe {
            if direction & READS != 0 && (has_ended || found.contains(PollFlags::IN)) {
                (nbd.aio_notify_read)(handle);
            } else if direction & WRITES != 0 && (has_ended || found.contains(PollFlags::OUT)) {
                (nbd.aio_notify_write)(handle);
            }
        }
    }

    /// Returns the number of the last error of this thread.
    fn errno(&self) -> i32 {
        // SAFETY: it takes nothing.
        match unsafe { (self.functions.get_errno)() } {
            0 => NOT_CONNECTED,
            errno => errno,
        }
    }
}

/// Returns the last error of this thread, in libnbd's words without the name of its function.
fn said(functions: &Functions) -> String {
    // SAFETY: it takes nothing, and gives a text that stays until the next call, or null.
    let text = unsafe { (functions.get_error)() };
    if text.is_null() {
        return "the connection has ended".into();
    }
    // SAFETY: not null, so it ends with a zero.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    match text.split_once(": ") {
        Some((function, rest)) if function.starts_with("nbd_") => rest.to_owned(),
        _ => text,
    }
}
