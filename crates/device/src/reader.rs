//! One read at a time, by the thread that wants it, with an end to its patience.
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
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Why nothing was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotRead {
    /// It is nothing for a reader: the device is more than a file ([`Device::direct_file`]), the range is not its or too long, or the system
    /// did not do it in full. A pool does it, or says what is wrong.
    Refused,
    /// The time is up. Until [`Reader::is_free`] says so the reader reads nothing else.
    Late,
}

/// Reads devices that are files, directly.
pub struct Reader {
    ring: IoUring,
    buffer: ManuallyDrop<AlignedBuf>,
    /// What the system is reading from; `None`: it is not.
    under_way: Option<Arc<dyn Device>>,
}

impl Reader {
    /// A reader of so many bytes at a time; `None` if the system has no io_uring for us.
    pub fn new(max_bytes: usize) -> Option<Reader> {
        let ring = IoUring::new(2).ok()?;
        // Without it waiting could not end at a time.
        let has_time = ring.params().is_feature_ext_arg();
        let buffer = ManuallyDrop::new(AlignedBuf::zeroed(max_bytes));
        has_time.then_some(Reader { ring, buffer, under_way: None })
    }

    /// What lies on a device, waited for so long.
    pub fn read(
        &mut self,
        device: &Arc<dyn Device>,
        offset_bytes: u64,
        len: usize,
        at_most: Duration,
    ) -> Result<&[u8], NotRead> {
        let fits = check(device, OpKind::Read, offset_bytes, len as u64, std::iter::once((0, len)));
        let (Some(file), Ok(()), true) = (device.direct_file(), fits, len > 0) else {
            return Err(NotRead::Refused);
        };
        if !self.is_free() {
            return Err(NotRead::Late);
        }
        let Some(into) = self.buffer.get_mut(..len) else { return Err(NotRead::Refused) };
        let bytes = u32::try_from(len).map_err(|_| NotRead::Refused)?;
        let read = opcode::Read::new(Fd(file.as_raw_fd()), into.as_mut_ptr(), bytes).offset(offset_bytes);
        // SAFETY: the buffer and the device stay until the system has said that it is over: `under_way` is set from here on to then, and
        // nobody touches the buffer, or frees it, while it is.
        if unsafe { self.ring.submission().push(&read.build()) }.is_err() {
            return Err(NotRead::Refused);
        }
        self.under_way = Some(device.clone());
        let done = self.wait(at_most).ok_or(NotRead::Late)?;
        match usize::try_from(done).is_ok_and(|done| done == len) {
            true => Ok(&self.buffer[..len]),
            false => Err(NotRead::Refused),
        }
    }

    /// Whether nothing is under way.
    pub fn is_free(&mut self) -> bool {
        if self.under_way.is_some() {
            // What the system did not take while somebody waited it takes now, or it would never end.
            let _ = self.ring.submit();
        }
        self.under_way.is_none() || self.landed().is_some()
    }

    /// How the read under way ended; `None`: it has not.
    fn landed(&mut self) -> Option<i32> {
        let entry = self.ring.completion().next()?;
        self.under_way = None;
        Some(entry.result())
    }

    fn wait(&mut self, at_most: Duration) -> Option<i32> {
        let until = Instant::now() + at_most;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let time = Timespec::new().sec(left.as_secs()).nsec(left.subsec_nanos());
            // Errors: the time is up, or a signal came; what has landed says which.
            let _ = self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time));
            let landed = self.landed();
            if landed.is_some() || left.is_zero() {
                return landed;
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.is_free() {
            // SAFETY: it is dropped once, here, and nobody writes to it any more.
            unsafe { ManuallyDrop::drop(&mut self.buffer) };
        } else {
            // The system may write to the buffer at any time: it stays, and so does the device.
            std::mem::forget(self.under_way.take());
        }
    }
}
