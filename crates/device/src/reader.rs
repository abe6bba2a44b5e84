//! Some reads at a time, by the thread that wants them, with an end to its patience.
//!
//! A read through an [`IoPool`](crate::IoPool) goes to another thread and comes back; this one does not. But whoever calls `pread` of a
//! device that hangs, hangs too. So a [`Reader`] has a ring of its own, and gives up waiting when the time is up.
//!
//! Invariant: memory that the system may still write to is never given to anybody else, nor is its device closed.

use crate::device::check;
use crate::{AlignedBuf, Device, OpKind};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Parts that a [`Reader`] reads at a time, at most.
pub const READER_PARTS_MAX: usize = 16;

/// A range of a device.
#[derive(Clone, Copy)]
pub struct ReadPart<'d> {
    /// The device.
    pub device: &'d Arc<dyn Device>,
    /// Where it begins.
    pub offset_bytes: u64,
    /// How long it is.
    pub len: usize,
}

/// Why nothing was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotRead {
    /// It is nothing for a reader: a device is more than a file ([`Device::direct_file`]), a range is not its, they are too many or too long, or the
    /// system did not do it in full. A pool does it, or says what is wrong.
    Refused,
    /// The time is up. Until [`Reader::is_free`] says so the reader reads nothing else.
    Late {
        /// One of those that are not there yet, as they were given.
        part: usize,
    },
}

/// Reads devices that are files, directly.
pub struct Reader {
    ring: IoUring,
    buffer: ManuallyDrop<AlignedBuf>,
    /// What the system is reading, by part; `None`: not any more. Empty when there is nothing.
    under_way: Vec<Option<UnderWay>>,
}

/// A part that the system is reading.
struct UnderWay {
    /// Its file stays open as long as this is here.
    _device: Arc<dyn Device>,
    /// Where in the buffer.
    from: usize,
    len: usize,
}

impl Reader {
    /// A reader into a buffer; `None` if the system has no io_uring for us.
    pub fn new(buffer: AlignedBuf) -> Option<Reader> {
        let ring = IoUring::new(READER_PARTS_MAX as u32).ok()?;
        // Without it waiting could not end at a time.
        let has_time = ring.params().is_feature_ext_arg();
        let buffer = ManuallyDrop::new(buffer);
        has_time.then_some(Reader { ring, buffer, under_way: Vec::new() })
    }

    /// Reads some places, all waited for so long, and shows what lies there as soon as it is known: the number of the part, in any order, and its bytes.
    /// Only an `Ok` says that all of them have been shown.
    pub fn read(
        &mut self,
        parts: &[ReadPart<'_>],
        at_most: Duration,
        mut show: impl FnMut(usize, &[u8]),
    ) -> Result<(), NotRead> {
        if !self.is_free() {
            return Err(NotRead::Late { part: self.first_late() });
        }
        let files = self.files_of(parts).ok_or(NotRead::Refused)?;
        let mut is_whole = true;
        let mut from = 0;
        for (number, (part, file)) in parts.iter().zip(files).enumerate() {
            // SAFETY: all parts together are no longer than the buffer.
            let into = unsafe { self.buffer.as_mut_ptr().add(from) };
            let read = opcode::Read::new(Fd(file), into, part.len as u32);
            let read = read.offset(part.offset_bytes).build().user_data(number as u64);
            // SAFETY: the buffer and the device stay until the system has said that it is over: the device is kept in `under_way` from here
            // on to then, and nobody touches this part of the buffer, or frees any of it, while it is in there.
            if unsafe { self.ring.submission().push(&read) }.is_err() {
                // What is under way already is waited for all the same.
                is_whole = false;
                break;
            }
            self.under_way.push(Some(UnderWay { _device: part.device.clone(), from, len: part.len }));
            from += part.len;
        }
        let until = Instant::now() + at_most;
        loop {
            while let Some((number, under_way, is_full)) = self.landed() {
                is_whole &= is_full;
                if is_whole {
                    // SAFETY: the part is within the buffer, and the system, which has filled it, has no business there any more.
                    let bytes = unsafe {
                        std::slice::from_raw_parts(self.buffer.as_ptr().add(under_way.from), under_way.len)
                    };
                    show(number, bytes);
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
            // Errors: the time is up, or a signal came; what has landed says which.
            let _ = self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time));
        }
    }

    /// What was read last, one part behind another; nothing while anything is under way.
    pub fn bytes(&self) -> &[u8] {
        if self.under_way.is_empty() { &self.buffer } else { &[] }
    }

    /// The files of parts that are for a reader, and fit.
    fn files_of(&self, parts: &[ReadPart<'_>]) -> Option<Vec<RawFd>> {
        let len = parts.iter().try_fold(0usize, |sum, part| sum.checked_add(part.len))?;
        let file = |part: &ReadPart<'_>| {
            let range = std::iter::once((0, part.len));
            check(part.device, OpKind::Read, part.offset_bytes, part.len as u64, range).ok()?;
            let file = part.device.direct_file()?;
            (part.len > 0 && u32::try_from(part.len).is_ok()).then(|| file.as_raw_fd())
        };
        let fits = (1..=READER_PARTS_MAX).contains(&parts.len()) && len <= self.buffer.len();
        if fits { parts.iter().map(file).collect() } else { None }
    }

    /// Whether nothing is under way.
    pub fn is_free(&mut self) -> bool {
        if !self.under_way.is_empty() {
            // What the system did not take while somebody waited it takes now, or it would never end.
            let _ = self.ring.submit();
            while self.landed().is_some() {}
        }
        self.under_way.is_empty()
    }

    fn first_late(&self) -> usize {
        self.under_way.iter().position(Option::is_some).unwrap_or(0)
    }

    /// A part that has ended, and whether in full.
    fn landed(&mut self) -> Option<(usize, UnderWay, bool)> {
        let entry = self.ring.completion().next()?;
        let number = entry.user_data() as usize;
        let ended = self.under_way.get_mut(number).and_then(Option::take)?;
        if self.under_way.iter().all(Option::is_none) {
            self.under_way.clear();
        }
        let is_full = usize::try_from(entry.result()) == Ok(ended.len);
        Some((number, ended, is_full))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.is_free() {
            // SAFETY: it is dropped once, here, and nobody writes to it any more.
            unsafe { ManuallyDrop::drop(&mut self.buffer) };
        } else {
            // The system may write to the buffer at any time: it stays, and so do the devices.
            std::mem::forget(std::mem::take(&mut self.under_way));
        }
    }
}
