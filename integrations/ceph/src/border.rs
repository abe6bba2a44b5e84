//! Functions that the C++ half calls. No panic unwinds into Ceph, and no decision is made here.
//!
//! A call answers 0 or a negative errno, as Ceph has them. Errors that an OSD should never see
//! (chunks of unequal groups, a fault of ours) are also written to standard error and the system's
//! log, because Ceph discards the number. `plugin/rust.h` declares these functions for C++.

use crate::kept;
use crate::pool::{ChunkFault, Pool};
use crate::profile::{Plugin, Words};
use crate::shards::Shards;
use smallvec::SmallVec;
use std::ffi::{CString, c_char, c_int, c_void};
use std::fmt::Display;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

/// A profile that was understood; Ceph has one object of it for each placement group.
pub struct Instance {
    pool: Arc<Pool>,
    words: Words,
    is_bytewise: bool,
}

/// A text: `len` bytes from `start`, not ended by a zero.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Text {
    start: *const c_char,
    len: usize,
}

/// A word of a profile and its value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Word {
    name: Text,
    value: Text,
}

/// Facts about an instance that C++ reads once.
#[repr(C)]
pub struct Shape {
    chunks: u32,
    data: u32,
    /// The number of sub-chunks of a chunk.
    sub_chunks: u32,
    /// Bytes of a chunk of which every multiple can be coded by itself.
    granularity: u32,
    /// The shard of each chunk, data chunks first; null if chunk i is shard i.
    mapping: *const i32,
    /// 1 if every byte of parity is computed from the bytes at the same offset of the data chunks.
    is_bytewise: u8,
}

/// Callback that receives a text, after the caller's own pointer.
pub type Say = extern "C" fn(*mut c_void, Text);
/// Callback that receives the numbers of sub-chunks, ascending.
pub type VisitPart = extern "C" fn(*mut c_void, u32);
/// Callback that receives each word of a profile.
pub type Visit = extern "C" fn(*mut c_void, Word);

impl Text {
    fn of(text: &str) -> Text {
        Text { start: text.as_ptr().cast(), len: text.len() }
    }

    /// # Safety
    ///
    /// The text is valid, or has no bytes.
    unsafe fn read(self) -> String {
        if self.len == 0 {
            return String::new();
        }
        // SAFETY: the caller's promise.
        let bytes = unsafe { std::slice::from_raw_parts(self.start.cast::<u8>(), self.len) };
        String::from_utf8_lossy(bytes).into_owned()
    }
}

/// The most lines that a process writes to the log in each [`PERIOD`]. So a fault of every write
/// does not fill a disk, and a fault that comes back after months is logged.
const LINES_MOST: u32 = 100;

/// See [`LINES_MOST`].
const PERIOD: Duration = Duration::from_secs(3600);

/// Counts written and suppressed lines of the log.
struct Rate {
    since: Option<Instant>,
    lines: u32,
    held_back: u64,
}

impl Rate {
    const NEW: Rate = Rate { since: None, lines: 0, held_back: 0 };

    /// Returns `None` if a line is to be suppressed, otherwise the number of suppressed lines
    /// before it.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        let is_over = self.since.is_none_or(|since| now.duration_since(since) >= PERIOD);
        if is_over {
            (self.since, self.lines) = (Some(now), 0);
        }
        if self.lines >= LINES_MOST {
            self.held_back += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.held_back))
    }
}

fn log(what: impl Display) {
    static RATE: Mutex<Rate> = Mutex::new(Rate::NEW);
    let admitted = RATE.lock().unwrap_or_else(|error| error.into_inner()).admit(Instant::now());
    match admitted {
        None => {}
        Some(0) => write_line(format_args!("{what}")),
        Some(held_back) => {
            write_line(format_args!("{what} ({held_back} more lines were held back before this one)"))
        }
    }
}

fn write_line(what: std::fmt::Arguments<'_>) {
    let line = format!("pantile: {what}");
    // Standard error may be closed.
    let _ = writeln!(std::io::stderr(), "{line}");
    if let Ok(line) = CString::new(line) {
        // SAFETY: a format and the text that it prints.
        unsafe { libc::syslog(libc::LOG_ERR | libc::LOG_DAEMON, c"%s".as_ptr(), line.as_ptr()) };
    }
}

/// Reports the first call of each kind, if `PANTILE_CEPH_TRACE` is in the environment.
fn trace(what: &str, was_said: &Once) {
    was_said.call_once(|| {
        if std::env::var_os("PANTILE_CEPH_TRACE").is_some() {
            log(format_args!("first call: {what}"));
        }
    });
}

/// Runs a call, and returns `fault` after a panic, which is logged.
fn caught<T>(fault: T, call: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(answer) => answer,
        Err(panic) => {
            let what = panic.downcast_ref::<&str>().copied();
            let what = what.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            log(format_args!("a fault of the plug-in, please report it: {}", what.unwrap_or("a panic")));
            // The payload of a panic can panic again when it is dropped.
            std::mem::forget(panic);
            fault
        }
    }
}

/// Runs a call on chunks, and logs its errors.
fn on_chunks(what: &str, instance: &Instance, call: impl FnOnce() -> Result<(), ChunkFault>) -> c_int {
    caught(-libc::EIO, || match call() {
        Ok(()) => 0,
        Err(error) => {
            log(format_args!("{what} with {}: {error}", instance.pool.layout().code));
            -libc::EIO
        }
    })
}

/// Reads a profile; its faults go to `say`.
///
/// # Safety
///
/// All texts are valid, `words` points to `count` words, and `instance` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_ceph_open(
    plugin: Text,
    words: *const Word,
    count: usize,
    to: *mut c_void,
    say: Say,
    instance: *mut *const Instance,
) -> c_int {
    caught(-libc::EIO, || {
        // SAFETY: the caller's promise.
        let name = unsafe { plugin.read() };
        let mut read = Words::new();
        for i in 0..count {
            // SAFETY: as above.
            let (name, value) = unsafe { ((*words.add(i)).name.read(), (*words.add(i)).value.read()) };
            read.insert(name, value);
        }
        let Some(plugin) = Plugin::named(&name) else {
            say(
                to,
                Text::of(&format!(
                    "{name}: this file is no plug-in of that name; it is pantile, shec, clay and jerasure"
                )),
            );
            return -libc::EINVAL;
        };
        match plugin.read(read) {
            Ok(opened) => {
                let pool = kept::pool(opened.layout);
                let made = Instance { pool, words: opened.words, is_bytewise: opened.is_bytewise };
                // SAFETY: as above.
                unsafe { instance.write(Box::into_raw(Box::new(made))) };
                0
            }
            Err(refusal) => {
                say(to, Text::of(&format!("plugin={name}: {refusal}")));
                -libc::EINVAL
            }
        }
    })
}

/// Ends an instance.
///
/// # Safety
///
/// The instance was opened and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_ceph_close(instance: *const Instance) {
    // SAFETY: the caller's promise: the pointer came from `Box::into_raw`.
    caught((), || drop(unsafe { Box::from_raw(instance.cast_mut()) }));
}

/// Calls `visit` with every word of the profile, also with defaults of words that are not set.
#[unsafe(no_mangle)]
pub extern "C" fn pantile_ceph_words(instance: &Instance, to: *mut c_void, visit: Visit) {
    for (name, value) in &instance.words {
        visit(to, Word { name: Text::of(name), value: Text::of(value) });
    }
}

/// The shape of an instance, which does not change.
#[unsafe(no_mangle)]
pub extern "C" fn pantile_ceph_shape(instance: &Instance) -> Shape {
    let mapping = instance.pool.mapping();
    Shape {
        chunks: instance.pool.chunks() as u32,
        data: instance.pool.data().len() as u32,
        sub_chunks: instance.pool.sub_chunks() as u32,
        granularity: instance.pool.granularity() as u32,
        mapping: if mapping.is_empty() { std::ptr::null() } else { mapping.as_ptr() },
        is_bytewise: instance.is_bytewise.into(),
    }
}

/// Returns the bytes of each chunk of an object; 0 if they exceed the number type of Ceph.
#[unsafe(no_mangle)]
pub extern "C" fn pantile_ceph_chunk_bytes(instance: &Instance, object_bytes: u32) -> u32 {
    caught(0, || instance.pool.chunk_bytes(object_bytes).unwrap_or(0))
}

/// Finds the shards to read, or returns -EIO if too few are present, which is an answer and not a
/// fault.
///
/// # Safety
///
/// `costs` is null or has one cost for each chunk; `minimum` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_ceph_minimum(
    instance: &Instance,
    wanted: Shards,
    there: Shards,
    costs: *const i32,
    minimum: *mut Shards,
) -> c_int {
    caught(-libc::EIO, || {
        let costs = match costs.is_null() {
            true => None,
            // SAFETY: the caller's promise.
            false => Some(unsafe { std::slice::from_raw_parts(costs, instance.pool.chunks()) }),
        };
        match instance.pool.minimum(wanted, there, costs) {
            Ok(found) => {
                // SAFETY: as above.
                unsafe { minimum.write(found) };
                0
            }
            Err(_) => -libc::EIO,
        }
    })
}

/// Returns 1 if the single wanted chunk is computed from parts of other chunks. Then `minimum` has
/// their shards, and `visit` receives the sub-chunks to read of each. Returns 0 if whole chunks are
/// to be read.
///
/// # Safety
///
/// `minimum` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_ceph_parts(
    instance: &Instance,
    wanted: Shards,
    there: Shards,
    minimum: *mut Shards,
    to: *mut c_void,
    visit: VisitPart,
) -> c_int {
    let Some(parts) = caught(None, || instance.pool.parts(wanted, there)) else { return 0 };
    // SAFETY: the caller's promise.
    unsafe { minimum.write(parts.shards) };
    parts.rows.iter().for_each(|&row| visit(to, row as u32));
    1
}

/// Computes one chunk from parts of others, as [`pantile_ceph_parts`] names them.
///
/// # Safety
///
/// `parts` has an entry for each shard, null or `part_bytes` bytes; `chunk` has `len` bytes and is
/// apart from all of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_ceph_repair(
    instance: &Instance,
    shard: u32,
    parts: *const *const u8,
    part_bytes: usize,
    chunk: *mut u8,
    len: usize,
) -> c_int {
    static WAS_SAID: Once = Once::new();
    on_chunks("repairing from sub-chunks", instance, || {
        trace("repairing from sub-chunks", &WAS_SAID);
        // SAFETY: the caller's promise.
        let (parts, chunk) = unsafe {
            (read(parts, instance.pool.chunks(), part_bytes), std::slice::from_raw_parts_mut(chunk, len))
        };
        instance.pool.repair(shard as usize, &parts, chunk)
    })
}

/// Returns the chunks to read, by shard; a null pointer is no chunk.
///
/// # Safety
///
/// `chunks` has `count` pointers to `len` bytes or null, and no code writes to these bytes as long
/// as the list lives.
unsafe fn read<'c>(chunks: *const *const u8, count: usize, len: usize) -> SmallVec<[Option<&'c [u8]>; 32]> {
    // SAFETY: the caller's promise.
    let chunks = unsafe { std::slice::from_raw_parts(chunks, count) };
    let slice = |&chunk: &*const u8| match chunk.is_null() {
        true => None,
        // SAFETY: the caller's promise.
        false => Some(unsafe { std::slice::from_raw_parts(chunk, len) }),
    };
    chunks.iter().map(slice).collect()
}

/// Returns the chunks to write, by shard; a null pointer is no chunk.
///
/// # Safety
///
/// `chunks` has `count` pointers to `len` bytes or null, apart from each other and from the inputs,
/// and no other code uses these bytes as long as the list lives.
unsafe fn write<'c>(
    chunks: *const *mut u8,
    count: usize,
    len: usize,
) -> SmallVec<[Option<&'c mut [u8]>; 32]> {
    // SAFETY: the caller's promise.
    let chunks = unsafe { std::slice::from_raw_parts(chunks, count) };
    let slice = |&chunk: &*mut u8| match chunk.is_null() {
        true => None,
        // SAFETY: the caller's promise.
        false => Some(unsafe { std::slice::from_raw_parts_mut(chunk, len) }),
    };
    chunks.iter().map(slice).collect()
}

/// Computes the parities that are given from the data; data that are not given are zeros.
///
/// # Safety
///
/// Both lists have an entry for each shard, null or `len` bytes; written buffers are apart from all
/// others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_ceph_encode(
    instance: &Instance,
    data: *const *const u8,
    parity: *const *mut u8,
    len: usize,
) -> c_int {
    on_chunks("encoding", instance, || {
        let count = instance.pool.chunks();
        // SAFETY: the caller's promise.
        let (data, mut parity) = unsafe { (read(data, count, len), write(parity, count, len)) };
        instance.pool.encode(&data, &mut parity, len)
    })
}

/// Computes the wanted chunks from the present ones.
///
/// # Safety
///
/// As of [`pantile_ceph_encode`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_ceph_decode(
    instance: &Instance,
    there: *const *const u8,
    wanted: *const *mut u8,
    len: usize,
) -> c_int {
    on_chunks("decoding", instance, || {
        let count = instance.pool.chunks();
        // SAFETY: the caller's promise.
        let (there, mut wanted) = unsafe { (read(there, count, len), write(wanted, count, len)) };
        instance.pool.decode(&there, &mut wanted, len)
    })
}

/// Adds a change of a data chunk to the parities that are given.
///
/// # Safety
///
/// `delta` has `len` bytes; the rest as of [`pantile_ceph_encode`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_ceph_add_delta(
    instance: &Instance,
    shard: u32,
    delta: *const u8,
    parity: *const *mut u8,
    len: usize,
) -> c_int {
    static WAS_SAID: Once = Once::new();
    on_chunks("adding a delta", instance, || {
        trace("adding a delta", &WAS_SAID);
        // SAFETY: the caller's promise.
        let (delta, mut parity) =
            unsafe { (std::slice::from_raw_parts(delta, len), write(parity, instance.pool.chunks(), len)) };
        instance.pool.add_delta(shard as usize, delta, &mut parity, len)
    })
}

/// Writes to the log why a call of Ceph could not be answered.
///
/// # Safety
///
/// The text is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pantile_ceph_log(text: Text) {
    // SAFETY: the caller's promise.
    caught((), || log(unsafe { text.read() }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_that_comes_back_is_said_again() {
        let mut rate = Rate::NEW;
        let start = Instant::now();
        for _ in 0..LINES_MOST {
            assert_eq!(rate.admit(start), Some(0));
        }
        assert_eq!(rate.admit(start + PERIOD / 2), None);
        assert_eq!(rate.admit(start + PERIOD / 2), None);
        assert_eq!(rate.admit(start + PERIOD), Some(2));
        assert_eq!(rate.admit(start + PERIOD), Some(0));
    }
}
