//! Reads of a few parts at a time by the calling thread, with a time limit.
//!
//! A read through an [`IoPool`](crate::IoPool) is handed to another thread and back; a read here is
//! not. A plain `pread` would hang with its device. So a [`Reader`] has a ring of its own, and
//! stops waiting when the time is up.
//!
//! Invariant: memory that the system may still write to is never given to another caller, and its
//! device is not closed.

use crate::device::check;
use crate::{AlignedBuf, Device, OpKind};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most parts that a [`Reader`] reads at a time.
pub const READER_PARTS_MAX: usize = 16;

/// Longer than any caller waits, and short enough not to overflow a clock.
const EVER: Duration = Duration::from_secs(1 << 32);

/// A range of a device, and its destination in a buffer.
#[derive(Clone, Copy)]
pub struct ReadPart<'d> {
    /// The device.
    pub device: &'d Arc<dyn Device>,
    /// Offset of the range on the device.
    pub offset_bytes: u64,
    /// Length of the part.
    pub len: usize,
    /// Index of the buffer.
    pub buffer: usize,
    /// Offset in the buffer.
    pub from: usize,
}

/// Reason why no part was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotRead {
    /// The read is not possible here, so a pool must do it or report the error. Causes: a device is
    /// more than a file ([`Device::direct_file`]), a range exceeds its device or buffer or overlaps
    /// another in the buffer, there are too many parts, or the system did not complete one in full.
    Refused,
    /// The time limit has expired, now or in an earlier read. Until [`Reader::is_free`] is true,
    /// the reader refuses further reads and keeps the buffers.
    Late {
        /// The index of a part that is not complete.
        part: usize,
    },
}

/// Reads directly from devices that are files.
pub struct Reader {
    ring: IoUring,
    /// Buffers of the reads in progress.
    buffers: ManuallyDrop<Vec<AlignedBuf>>,
    /// Reads in progress, by part; `None` once complete. Empty if no read is in progress.
    under_way: Vec<Option<UnderWay>>,
}

/// A part that the system is reading.
struct UnderWay {
    /// Keeps the file open while the system reads.
    _device: Arc<dyn Device>,
    len: usize,
}

impl Reader {
    /// Makes a reader; `None` if the system permits no io_uring.
    pub fn new() -> Option<Reader> {
        let ring = IoUring::new(READER_PARTS_MAX as u32).ok()?;
        // Without this feature a wait would have no time limit.
        let has_time = ring.params().is_feature_ext_arg();
        has_time.then(|| Reader { ring, buffers: ManuallyDrop::default(), under_way: Vec::new() })
    }

    /// Reads some ranges into buffers, within a common time limit. Calls `show` with the index and
    /// the bytes of each part as soon as it is read, in any order. Only `Ok` means that all parts
    /// were read.
    ///
    /// The buffers are returned in `buffers`, unless the system may still write to them: then the
    /// reader keeps all of them until it is free, and drops them. If `show` panics, it keeps them
    /// until its next read.
    pub fn read(
        &mut self,
        buffers: &mut Vec<AlignedBuf>,
        parts: &[ReadPart<'_>],
        at_most: Duration,
        show: impl FnMut(usize, &[u8]),
    ) -> Result<(), NotRead> {
        if !self.is_free() {
            return Err(NotRead::Late { part: self.first_late() });
        }
        let files = files_of(parts, buffers).ok_or(NotRead::Refused)?;
        let until = Instant::now() + at_most.min(EVER);
        *self.buffers = std::mem::take(buffers);
        let read = self.read_files(parts, &files, until, show);
        if self.under_way.is_empty() {
            *buffers = std::mem::take(&mut *self.buffers);
        }
        read
    }

    fn read_files(
        &mut self,
        parts: &[ReadPart<'_>],
        files: &[RawFd],
        until: Instant,
        mut show: impl FnMut(usize, &[u8]),
    ) -> Result<(), NotRead> {
        // The addresses are taken once: while the system writes to a part of a buffer, no reference
        // to the whole buffer may exist.
        let starts: Vec<*mut u8> = self.buffers.iter_mut().map(|buffer| buffer.as_mut_ptr()).collect();
        let mut is_whole = true;
        for (number, (part, &file)) in parts.iter().zip(files).enumerate() {
            // SAFETY: the part is within the buffer.
            let into = unsafe { starts[part.buffer].add(part.from) };
            let read = opcode::Read::new(Fd(file), into, part.len as u32);
            let read = read.offset(part.offset_bytes).build().user_data(number as u64);
            // SAFETY: the buffers and the device stay until the system has said that it is over:
            // the device is kept in `under_way` from here on to then, and nobody touches this range
            // of the buffer, or frees any of it, while it is in there.
            if unsafe { self.ring.submission().push(&read) }.is_err() {
                // Reads in progress are still waited for.
                is_whole = false;
                break;
            }
            self.under_way.push(Some(UnderWay { _device: part.device.clone(), len: part.len }));
        }
        loop {
            while let Some((number, is_full)) = self.landed() {
                is_whole &= is_full;
                if is_whole {
                    let part = &parts[number];
                    // SAFETY: the part is within the buffer, and the system, which has filled it,
                    // has no business there any more.
                    show(number, unsafe {
                        std::slice::from_raw_parts(starts[part.buffer].add(part.from), part.len)
                    });
                }
            }
            if self.under_way.is_empty() {
                return if is_whole { Ok(()) } else { Err(NotRead::Refused) };
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(NotRead::Late { part: self.first_late() });
            }
            let time = Timespec::new().sec(left.as_secs()).nsec(left.subsec_nanos());
            // Errors are ignored: the time is up, or a signal came. The loop collects the completed
            // reads.
            let _ = self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time));
        }
    }

    /// Returns true if no read is in progress.
    pub fn is_free(&mut self) -> bool {
        if !self.under_way.is_empty() {
            // Entries that the system did not accept during the wait are submitted again, or they
            // would never end.
            let _ = self.ring.submit();
            while self.landed().is_some() {}
            if self.under_way.is_empty() {
                self.buffers.clear();
            }
        }
        self.under_way.is_empty()
    }

    fn first_late(&self) -> usize {
        self.under_way.iter().position(Option::is_some).unwrap_or(0)
    }

    /// Returns a part that has ended; true if it was read in full.
    fn landed(&mut self) -> Option<(usize, bool)> {
        let entry = self.ring.completion().next()?;
        let number = entry.user_data() as usize;
        let ended = self.under_way.get_mut(number).and_then(Option::take)?;
        if self.under_way.iter().all(Option::is_none) {
            self.under_way.clear();
        }
        let is_full = usize::try_from(entry.result()) == Ok(ended.len);
        Some((number, is_full))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.is_free() {
            // SAFETY: they are dropped once, here, and nobody writes to them any more.
            unsafe { ManuallyDrop::drop(&mut self.buffers) };
        } else {
            // The system may write to the buffers at any time: they stay, and so do the devices.
            std::mem::forget(std::mem::take(&mut self.under_way));
        }
    }
}

/// Returns the files of the parts. `None` if a part is not readable here, or if its range of a
/// buffer does not exist or overlaps another part.
fn files_of(parts: &[ReadPart<'_>], buffers: &[AlignedBuf]) -> Option<Vec<RawFd>> {
    if !(1..=READER_PARTS_MAX).contains(&parts.len()) {
        return None;
    }
    let file = |(number, part): (usize, &ReadPart<'_>)| {
        let end = part.from.checked_add(part.len)?;
        let apart = |other: &ReadPart<'_>| {
            other.buffer != part.buffer || other.from >= end || other.from + other.len <= part.from
        };
        let fits = end <= buffers.get(part.buffer)?.len() && parts[..number].iter().all(apart);
        let range = std::iter::once((part.from, part.len));
        check(part.device, OpKind::Read, part.offset_bytes, part.len as u64, range).ok()?;
        let is_some = part.len > 0 && u32::try_from(part.len).is_ok();
        (fits && is_some).then_some(part.device.direct_file()?.as_raw_fd())
    };
    parts.iter().enumerate().map(file).collect()
}
